//! Malformed files: valid files with bytes changed, cut, repeated and moved, several thousand of
//! each.

use crate::build::{FLOAT, PCM, Wav, chunk, noise};
use tobari_call_files::wav::{decode_speech, fuzz_wav};

/// Files with rates of few filter phases, so that decoding takes microseconds.
fn seeds() -> Vec<Vec<u8>> {
    let data: Vec<u8> = noise(1).take(240).map(|x| x as u8 & 0x3f).collect();
    let mut busy = Wav::new(PCM, 1, 48_000, 16, data.clone());
    busy.before_data = chunk(b"LIST", b"odd");
    busy.after_data = chunk(b"id3 ", b"tail");
    [
        busy,
        Wav::new(PCM, 1, 16_000, 8, data[..99].to_vec()),
        Wav::new(PCM, 2, 24_000, 24, data.clone()).extensible(24),
        Wav::new(PCM, 2, 8_000, 32, data.clone()),
        Wav::new(FLOAT, 1, 16_000, 32, data.clone()),
        Wav::new(FLOAT, 2, 32_000, 32, data).extensible(32),
    ]
    .iter()
    .map(Wav::bytes)
    .collect()
}

/// One to four changes: a bit, a byte, a 32-bit word that often breaks readers, a cut, a copy.
fn mutate(bytes: &mut Vec<u8>, random: &mut impl Iterator<Item = u64>) {
    let mut below = |bound: usize| random.next().map_or(0, |x| x as usize % bound.max(1));
    for _ in 0..=below(4) {
        // Half of the changes hit the header, where they matter most.
        let place = if below(2) == 0 { below(bytes.len().min(64)) } else { below(bytes.len()) };
        match below(6) {
            0 if place < bytes.len() => bytes[place] ^= 1 << below(8),
            1 if place < bytes.len() => bytes[place] = below(256) as u8,
            2 if place + 4 <= bytes.len() => {
                let words = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0xffff_fff8, bytes.len() as u32];
                bytes[place..place + 4].copy_from_slice(&words[below(words.len())].to_le_bytes());
            }
            3 => bytes.truncate(place),
            4 => {
                let copied = bytes[place.min(bytes.len())..].iter().copied().take(below(40)).collect::<Vec<u8>>();
                let target = below(bytes.len());
                bytes.splice(target..target, copied);
            }
            _ => {
                // Repairs the length of the whole file, so that the reader examines the change.
                let len = (bytes.len() as u32).saturating_sub(8);
                if bytes.len() >= 8 {
                    bytes[4..8].copy_from_slice(&len.to_le_bytes());
                }
            }
        }
    }
}

#[test]
fn every_seed_is_valid() {
    for bytes in seeds() {
        fuzz_wav(&bytes);
        decode_speech(&bytes, "seed").unwrap();
    }
}

#[test]
fn mutated_files_are_decoded_within_bounds_or_refused_without_a_panic() {
    let mut random = noise(2);
    let (mut accepted, mut refused) = (0, 0);
    for seed in seeds() {
        for _ in 0..4000 {
            let mut bytes = seed.clone();
            mutate(&mut bytes, &mut random);
            fuzz_wav(&bytes);
            match decode_speech(&bytes, "mutant") {
                Ok(_) => accepted += 1,
                Err(_) => refused += 1,
            }
        }
    }
    // Both outcomes occur: a loop of rejections alone would test nothing behind the header.
    assert!(accepted > 1000 && refused > 1000, "{accepted} accepted, {refused} refused");
}

#[test]
fn random_bytes_and_random_bytes_behind_a_good_beginning_are_refused_without_a_panic() {
    let mut random = noise(3);
    for len in 0..600 {
        let bytes: Vec<u8> = random.by_ref().take(len).map(|x| x as u8).collect();
        fuzz_wav(&bytes);
        let riff = [b"RIFF", &(len as u32 + 4).to_le_bytes()[..], b"WAVE", &bytes].concat();
        fuzz_wav(&riff);
        let format = &seeds()[0][12..36];
        let formatted = [b"RIFF", &(len as u32 + 28).to_le_bytes()[..], b"WAVE", format, &bytes].concat();
        fuzz_wav(&formatted);
    }
}
