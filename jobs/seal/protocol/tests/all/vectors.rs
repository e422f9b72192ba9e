//! Files of version 1 decode in every release, and sealing gives the same bytes.

use super::cases::{PASSPHRASE, cases, content, seal};
use super::open;
use tobari_seal::*;

fn vector(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../vectors/seal/v1");
    std::fs::read(format!("{folder}/{name}.seal")).unwrap()
}

#[test]
fn sealed_files_of_version_1_open_for_ever_and_come_out_the_same_to_the_byte() {
    let file = KeyFile::from_bytes(&[7; 32]).unwrap();
    let cases = cases();
    assert_eq!(cases.len(), 18);
    for case in &cases {
        let bytes = vector(case.name);
        assert_eq!(seal(case).unwrap(), bytes, "{}", case.name);
        let (meta, found, _) = open(&bytes, &file).unwrap();
        assert_eq!((meta, found), (case.meta.clone(), content(case.bytes)), "{}", case.name);
    }
}

#[test]
fn a_passphrase_opens_the_files_that_were_sealed_with_it() {
    for case in cases().iter().filter(|case| case.name.ends_with("passphrase")) {
        let bytes = vector(case.name);
        let head = head_bytes(bytes.first_chunk().unwrap()).unwrap();
        let head = Head::decode(&bytes[..head]).unwrap();
        let opening =
            Opening::begin(&head, |stanza| stanza.open_with_passphrase(PASSPHRASE, &CostLimits::USUAL).unwrap());
        assert_eq!(opening.unwrap().meta(), &case.meta);
    }
}

#[test]
fn mutated_files_are_opened_or_refused_without_a_panic() {
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(11);
        (state >> 33) as usize % below
    };
    for case in cases() {
        let bytes = vector(case.name);
        fuzz_seal_stream(&bytes);
        for _ in 0..200 {
            let mut other = bytes.clone();
            for _ in 0..=next(3) {
                let at = next(other.len());
                match next(4) {
                    0 => other[at] = next(256) as u8,
                    1 => other.truncate(at + 1),
                    2 => other.insert(at, next(256) as u8),
                    _ => other.extend_from_within(at..),
                }
            }
            fuzz_seal_stream(&other);
            fuzz_seal_manifest(&other);
        }
    }
}

#[test]
fn the_corpora_of_the_fuzz_targets_pass() {
    let mut count = 0;
    for (target, body) in [("seal_stream", fuzz_seal_stream as fn(&[u8])), ("seal_manifest", fuzz_seal_manifest)] {
        let folder = format!("{}/../../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
        for entry in std::fs::read_dir(folder).unwrap() {
            body(&std::fs::read(entry.unwrap().path()).unwrap());
            count += 1;
        }
    }
    assert!(count >= 16, "{count} files");
}
