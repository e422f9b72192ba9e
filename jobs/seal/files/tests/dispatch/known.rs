//! NIST's known answers for AES. CBC is tested on the CPU's loops, the emulated module's process,
//! and OpenSSL if built in; GCM on `ring`, the portable implementation, the emulated module's
//! process, and OpenSSL.

use chacha20::rand_core::{TryCryptoRng, TryRng};
use std::convert::Infallible;
use tobari_aes::{AesKernels, CbcMessage, encrypt_cbc, padded_bytes};
use tobari_seal::{BareCbc, Chunk, Gcm, PortableGcm};
use tobari_seal_files::dispatch::{Emulated, EmulatedEngine, EmulatedOptions, Module, RingGcm};

fn records(kind: &str) -> Vec<Vec<Vec<u8>>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../vectors/aes/nist.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' '));
    lines.map(|line| line.split(' ').map(bytes).collect()).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.trim_matches('-').as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// A source of randomness that returns the IV of a known answer.
struct Fixed<'a>(&'a [u8]);

impl TryRng for Fixed<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        unreachable!("only bytes are drawn")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        unreachable!("only bytes are drawn")
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.copy_from_slice(self.0);
        Ok(())
    }
}

impl TryCryptoRng for Fixed<'_> {}

pub(crate) fn the_loops_of_cbc_give_nists_answers() {
    let records = records("cbc");
    assert_eq!(records.len(), 1069);
    for kernels in AesKernels::available() {
        let keys: Vec<_> = records.iter().map(|record| kernels.key(&record[0]).unwrap()).collect();
        let mut found: Vec<Vec<u8>> = records.iter().map(|record| vec![0; padded_bytes(record[2].len())]).collect();
        let mut messages = Vec::new();
        for ((record, key), found) in records.iter().zip(&keys).zip(&mut found) {
            let iv = record[1].as_slice().try_into().unwrap();
            messages.push(CbcMessage::new(key, iv, &record[2], found).unwrap());
        }
        encrypt_cbc(&mut messages); // all of them side by side
        for ((record, key), found) in records.iter().zip(&keys).zip(&found) {
            assert_eq!(found[..record[3].len()], record[3], "{}", kernels.name);
            let mut back = vec![0; record[3].len()];
            key.decrypt_cbc(record[1].as_slice().try_into().unwrap(), &record[3], &mut back).unwrap();
            assert_eq!(back, record[2], "{}", kernels.name);
        }
    }
}

pub(crate) fn modules_give_nists_answers_of_cbc() {
    for engine in [EmulatedEngine::OneChain, EmulatedEngine::SideBySide] {
        let mut module = Emulated::start(&EmulatedOptions { engine, ..EmulatedOptions::default() }).unwrap();
        a_module_gives_them(&mut module);
    }
    #[cfg(feature = "openssl")]
    a_module_gives_them(&mut tobari_seal_files::dispatch::Openssl::new());
}

fn a_module_gives_them(module: &mut dyn Module) {
    for some in records("cbc").chunks(50) {
        let bare = |record: &Vec<Vec<u8>>| BareCbc::new(&record[0]).unwrap();
        let there: Vec<Chunk> =
            some.iter().map(|record| bare(record).encrypt(record[2].clone(), &mut Fixed(&record[1]))).collect();
        let back: Vec<Chunk> = some
            .iter()
            .map(|record| bare(record).decrypt(record[1].as_slice().try_into().unwrap(), record[3].clone()))
            .collect();
        let done = module.seal(&there.iter().collect::<Vec<_>>()).unwrap().into_answers();
        for (record, found) in some.iter().zip(done) {
            assert_eq!(found[..record[3].len()], record[3], "{}", module.name());
        }
        let done = module.seal(&back.iter().collect::<Vec<_>>()).unwrap().into_answers();
        assert!(some.iter().zip(done).all(|(record, found)| found == record[2]), "{}", module.name());
    }
}

pub(crate) fn modules_give_nists_answers_of_gcm() {
    let records = records("gcm");
    for direct in [false, true] {
        let mut module = Emulated::start(&EmulatedOptions { direct, ..EmulatedOptions::default() }).unwrap();
        for some in records.chunks(40) {
            let mut asked: Vec<([&[u8]; 3], &[u8])> = Vec::new();
            for record in some {
                asked.push(([&record[0], &record[1], &record[2]], &record[3]));
            }
            for (record, found) in some.iter().zip(module.known_answers(&asked).unwrap()) {
                assert_eq!(found, [&record[4][..], &record[5]].concat(), "direct {direct}");
            }
        }
    }
}

pub(crate) fn every_engine_of_gcm_gives_nists_answers_and_refuses_what_it_must() {
    let (right, wrong) = (records("gcm"), records("refuse"));
    assert_eq!((right.len(), wrong.len()), (150, 191));
    let engines: Vec<&dyn Gcm> = vec![
        &RingGcm,
        &PortableGcm,
        #[cfg(feature = "openssl")]
        &tobari_seal_files::dispatch::OpensslGcm,
    ];
    for (at, engine) in engines.into_iter().enumerate() {
        for record in &right {
            let [key, nonce, data, plaintext, ciphertext, tag] = record.as_slice() else { panic!("six fields") };
            let (key, nonce) = (key.as_slice().try_into().unwrap(), nonce.as_slice().try_into().unwrap());
            let mut text = plaintext.clone();
            let found = engine.seal(key, nonce, data, &mut text);
            assert!(found[..] == *tag && text == *ciphertext, "engine {at}");
            assert!(engine.open(key, nonce, data, &mut text, &found) && text == *plaintext, "engine {at}");
        }
        for record in &wrong {
            let [key, nonce, data, _, ciphertext, tag] = record.as_slice() else { panic!("six fields") };
            let (key, nonce) = (key.as_slice().try_into().unwrap(), nonce.as_slice().try_into().unwrap());
            let (mut text, tag) = (ciphertext.clone(), tag.as_slice().try_into().unwrap());
            assert!(!engine.open(key, nonce, data, &mut text, tag), "engine {at}");
        }
    }
}
