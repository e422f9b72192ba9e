#![allow(clippy::unwrap_used, reason = "a test")]

use super::*;
use chacha20::{ChaCha20Rng, rand_core::Rng, rand_core::SeedableRng};

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn encrypted(key: &AesKey, iv: &[u8; 16], plaintext: &[u8]) -> Vec<u8> {
    let mut ciphertext = vec![0; padded_bytes(plaintext.len())];
    encrypt_cbc(&mut [CbcMessage::new(key, iv, plaintext, &mut ciphertext).unwrap()]);
    ciphertext
}

/// SP 800-38A, F.2: key, then the ciphertext of the four blocks that all of its examples share.
const KNOWN: [(&str, &str); 3] = [
    (
        "2b7e151628aed2a6abf7158809cf4f3c",
        "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2\
         73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7",
    ),
    (
        "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
        "4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a\
         571b242012fb7ae07fa9baac3df102e008b0e27988598881d920a9e64f5615cd",
    ),
    (
        "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
        "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d\
         39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b",
    ),
];
const PLAINTEXT: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
                         30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";

#[test]
fn every_backend_gives_the_known_answers_of_sp_800_38a() {
    let iv: [u8; 16] = std::array::from_fn(|at| at as u8);
    let plaintext = bytes(PLAINTEXT);
    for kernels in AesKernels::available() {
        for (key, ciphertext) in KNOWN {
            let (key, ciphertext) = (kernels.key(&bytes(key)).unwrap(), bytes(ciphertext));
            let found = encrypted(&key, &iv, &plaintext);
            assert_eq!(found[..64], ciphertext, "{}", kernels.name);
            let mut back = vec![0; 64];
            key.decrypt_cbc(&iv, &ciphertext, &mut back).unwrap();
            assert_eq!(back, plaintext, "{}", kernels.name);
            let mut whole = vec![0; found.len()];
            key.decrypt_cbc(&iv, &found, &mut whole).unwrap();
            assert_eq!(strip_padding(&whole), Ok(&plaintext[..]), "{}", kernels.name);
        }
    }
}

/// Messages of many lengths under keys of all three sizes.
struct Batch {
    keys: Vec<Vec<u8>>,
    ivs: Vec<[u8; 16]>,
    plaintexts: Vec<Vec<u8>>,
}

impl Batch {
    fn new(lengths: &[usize], fill: impl Fn(&mut ChaCha20Rng, &mut [u8]), rng: &mut ChaCha20Rng) -> Self {
        let (mut keys, mut ivs, mut plaintexts) = (Vec::new(), Vec::new(), Vec::new());
        for (at, length) in lengths.iter().enumerate() {
            let mut key = vec![0; [16, 24, 32][at % 5 % 3]];
            fill(rng, &mut key);
            let mut iv = [0; 16];
            fill(rng, &mut iv);
            let mut plaintext = vec![0; *length];
            fill(rng, &mut plaintext);
            keys.push(key);
            ivs.push(iv);
            plaintexts.push(plaintext);
        }
        Self { keys, ivs, plaintexts }
    }

    /// Encrypts all together, under the first one's key.
    fn encrypted_under_one_key(&self, kernels: &'static AesKernels) -> Vec<Vec<u8>> {
        let key = kernels.key(&self.keys[0]).unwrap();
        let mut out: Vec<_> = self.plaintexts.iter().map(|text| vec![0xa5; padded_bytes(text.len())]).collect();
        let all = self.ivs.iter().zip(&self.plaintexts).zip(&mut out);
        let mut messages: Vec<_> =
            all.map(|((iv, plaintext), out)| CbcMessage::new(&key, iv, plaintext, out).unwrap()).collect();
        encrypt_cbc(&mut messages);
        drop(messages);
        out
    }

    /// Encrypts all together, `lanes` side by side.
    fn encrypted(&self, kernels: &'static AesKernels, lanes: usize) -> Vec<Vec<u8>> {
        let keys: Vec<_> = self.keys.iter().map(|key| kernels.key(key).unwrap()).collect();
        let mut out: Vec<_> = self.plaintexts.iter().map(|text| vec![0xa5; padded_bytes(text.len())]).collect();
        let mut messages: Vec<_> = keys
            .iter()
            .zip(&self.ivs)
            .zip(&self.plaintexts)
            .zip(&mut out)
            .map(|(((key, iv), plaintext), out)| CbcMessage::new(key, iv, plaintext, out).unwrap())
            .collect();
        encrypt_cbc_in_lanes(&mut messages, |_| lanes);
        drop(messages);
        out
    }
}

/// Encrypts block by block with the crate's single-block function and explicit padding. This shares
/// nothing with the loops.
fn reference(key: &[u8], iv: &[u8; 16], plaintext: &[u8]) -> Vec<u8> {
    use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
    let mut padded = plaintext.to_vec();
    let count = 16 - plaintext.len() % 16;
    padded.extend(std::iter::repeat_n(count as u8, count));
    let (mut before, mut out) = (*iv, Vec::new());
    for block in padded.chunks_exact(16) {
        let mut state = aes::Block::default();
        for (to, (a, b)) in state.iter_mut().zip(block.iter().zip(before)) {
            *to = a ^ b;
        }
        match key.len() {
            16 => aes::Aes128::new(&Array(key.try_into().unwrap())).encrypt_block(&mut state),
            24 => aes::Aes192::new(&Array(key.try_into().unwrap())).encrypt_block(&mut state),
            _ => aes::Aes256::new(&Array(key.try_into().unwrap())).encrypt_block(&mut state),
        }
        before = state.0;
        out.extend(before);
    }
    out
}

#[test]
fn every_backend_equals_one_block_after_another_on_random_and_extreme_messages() {
    let mut rng = ChaCha20Rng::from_seed([7; 32]);
    let mut lengths: Vec<usize> = (0..83).collect();
    lengths.extend([1000, 1023, 1024, 1025, 4096, 0, 16, 5000]);
    lengths.extend((0..40).map(|_| (rng.next_u32() % 700) as usize));
    let fills: [fn(&mut ChaCha20Rng, &mut [u8]); 3] =
        [ChaCha20Rng::fill_bytes, |_, bytes| bytes.fill(0), |_, bytes| bytes.fill(0xff)];
    for fill in fills {
        let batch = Batch::new(&lengths, fill, &mut rng);
        let expected: Vec<_> =
            (0..lengths.len()).map(|at| reference(&batch.keys[at], &batch.ivs[at], &batch.plaintexts[at])).collect();
        for kernels in AesKernels::available() {
            for lanes in [1, 2, 3, 4, 5, 8, 13, 16, 31, 32] {
                assert_eq!(batch.encrypted(kernels, lanes), expected, "{} {lanes}", kernels.name);
            }
        }
    }
}

#[test]
fn every_backend_decrypts_what_was_encrypted_at_every_length() {
    let mut rng = ChaCha20Rng::from_seed([8; 32]);
    let lengths: Vec<usize> = (0..50).map(|at| at * 13).chain([16 * 32 - 1, 16 * 32, 16 * 33, 5000]).collect();
    let batch = Batch::new(&lengths, ChaCha20Rng::fill_bytes, &mut rng);
    for kernels in AesKernels::available() {
        for (at, length) in lengths.iter().enumerate() {
            let ciphertext = reference(&batch.keys[at], &batch.ivs[at], &batch.plaintexts[at]);
            let mut plaintext = vec![0; ciphertext.len()];
            let key = kernels.key(&batch.keys[at]).unwrap();
            key.decrypt_cbc(&batch.ivs[at], &ciphertext, &mut plaintext).unwrap();
            assert_eq!(strip_padding(&plaintext), Ok(&batch.plaintexts[at][..]), "{} {length}", kernels.name);
        }
    }
}

#[test]
fn keys_rooms_and_paddings_that_do_not_fit_are_refused() {
    for kernels in AesKernels::available() {
        for length in [0, 15, 17, 31, 33, 64] {
            assert_eq!(kernels.key(&vec![0; length]).err(), Some(AesError::KeyLength(length)));
        }
        let key = kernels.key(&[0; 16]).unwrap();
        assert!(CbcMessage::new(&key, &[0; 16], &[0; 16], &mut [0; 16]).is_err());
        assert!(key.decrypt_cbc(&[0; 16], &[], &mut []).is_err());
        assert!(key.decrypt_cbc(&[0; 16], &[0; 17], &mut [0; 17]).is_err());
        assert!(key.decrypt_cbc(&[0; 16], &[0; 32], &mut [0; 16]).is_err());
    }
    assert_eq!(strip_padding(&[9; 9]), Ok(&[][..]));
    for wrong in [&[][..], &[0], &[17; 17], &[2], &[1, 2, 3]] {
        assert_eq!(strip_padding(wrong), Err(AesError::Padding), "{wrong:?}");
    }
    assert_eq!(strip_padding(&[7, 1]), Ok(&[7][..]));
}

#[test]
fn messages_of_one_key_and_one_length_come_out_as_one_after_another() {
    let mut rng = ChaCha20Rng::from_seed([9; 32]);
    for key_bytes in [16, 24, 32] {
        // Runs of equal lengths, and others before, between and behind them.
        for length in (0..150).chain([255, 256, 257, 1024, 4000]) {
            let (mut batch, count) =
                (Batch::new(&[], ChaCha20Rng::fill_bytes, &mut rng), [16, 17, 31, 32, 50][length % 5]);
            let mut lengths = vec![3, length + 1];
            lengths.extend(std::iter::repeat_n(length, count));
            lengths.extend([length + 16, 7]);
            lengths.extend(std::iter::repeat_n(length / 2, 16 + length % 3));
            let mut key = vec![0; key_bytes];
            rng.fill_bytes(&mut key);
            for length in lengths {
                let (mut iv, mut plaintext) = ([0; 16], vec![0; length]);
                rng.fill_bytes(&mut iv);
                rng.fill_bytes(&mut plaintext);
                batch.keys.push(key.clone());
                batch.ivs.push(iv);
                batch.plaintexts.push(plaintext);
            }
            let expected: Vec<_> =
                batch.ivs.iter().zip(&batch.plaintexts).map(|(iv, text)| reference(&key, iv, text)).collect();
            for kernels in AesKernels::available() {
                assert_eq!(batch.encrypted_under_one_key(kernels), expected, "{} {length}", kernels.name);
            }
        }
    }
}
