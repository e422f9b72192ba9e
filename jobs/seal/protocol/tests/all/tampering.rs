//! Every attack that the format claims to detect.

use super::{Fixture, layouts};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use tobari_seal::*;

/// Three full chunks and a short one.
fn sealed(fixture: &mut Fixture, layout: Layout, path: &[u8]) -> Vec<Vec<u8>> {
    let bytes = 3 * layout.chunk_bytes() + 100;
    let content: Vec<u8> = (0..bytes).map(|at| (at / 7) as u8).collect();
    fixture.parts(layout, &Meta::new(Kind::File, path, bytes as u64), &content).0
}

/// Asserts that a file is rejected after at most `prefix` whole chunks of output.
fn refused(fixture: &Fixture, layout: Layout, bytes: &[u8], prefix: usize, what: &str) {
    let Err((_, opened)) = fixture.open(bytes) else { panic!("{what}: opened") };
    assert!(opened <= prefix * layout.chunk_bytes(), "{what}: {opened} bytes came out");
}

#[test]
fn a_file_cut_anywhere_is_refused_and_gives_a_verified_prefix_at_most() {
    let mut fixture = Fixture::new(20);
    for layout in layouts() {
        let parts = sealed(&mut fixture, layout, b"f");
        let bytes = parts.concat();
        let mut boundary = 0;
        for (at, part) in parts.iter().enumerate() {
            for end in [boundary, boundary + 1, boundary + part.len() - 1] {
                refused(&fixture, layout, &bytes[..end], at.saturating_sub(1), &format!("cut at {end}"));
            }
            boundary += part.len();
        }
        for end in (0..bytes.len()).step_by(97) {
            refused(&fixture, layout, &bytes[..end], 3, &format!("cut at {end}"));
        }
    }
}

#[test]
fn chunks_that_are_swapped_dropped_doubled_or_appended_are_refused() {
    let mut fixture = Fixture::new(21);
    for layout in layouts() {
        let parts = sealed(&mut fixture, layout, b"f");
        for a in 1..parts.len() {
            for b in a + 1..parts.len() {
                let mut other = parts.clone();
                other.swap(a, b);
                refused(&fixture, layout, &other.concat(), a - 1, &format!("{a} and {b} swapped"));
            }
        }
        for at in 1..parts.len() {
            let mut other = parts.clone();
            other.remove(at);
            refused(&fixture, layout, &other.concat(), at - 1, &format!("{at} dropped"));
            let mut other = parts.clone();
            other.insert(at, parts[at].clone());
            refused(&fixture, layout, &other.concat(), at, &format!("{at} doubled"));
        }
        for tail in [vec![0], parts[1].clone(), parts.concat()] {
            refused(&fixture, layout, &[parts.concat(), tail].concat(), 4, "something appended");
        }
    }
}

#[test]
fn parts_of_another_file_attempt_or_set_are_refused() {
    let mut fixture = Fixture::new(22);
    for layout in layouts() {
        let (parts, again) = (sealed(&mut fixture, layout, b"f"), sealed(&mut fixture, layout, b"f"));
        let renamed = sealed(&mut fixture, layout, b"g");
        let foreign = sealed(&mut Fixture::new(23), layout, b"f");
        for other in [again, renamed, foreign] {
            for at in 0..parts.len() {
                let mut mixed = parts.clone();
                mixed[at].clone_from(&other[at]);
                refused(&fixture, layout, &mixed.concat(), at.saturating_sub(1), &format!("part {at} of another"));
            }
        }
    }
}

#[test]
fn every_changed_bit_is_refused() {
    let mut fixture = Fixture::new(24);
    for layout in layouts() {
        let meta = Meta { mode: 0o640, ..Meta::new(Kind::File, b"dir/name", 50) };
        let parts = fixture.parts(layout, &meta, &[5; 50]).0;
        let (bytes, end) = (parts.concat(), parts[2].len());
        assert!(fixture.open(&bytes).is_ok());
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                // If only the end was changed, the chunk before it is a verified beginning.
                let prefix = usize::from(at + end >= bytes.len());
                refused(&fixture, layout, &changed, prefix, &format!("bit {bit} of byte {at}"));
            }
        }
    }
}

/// The MAC of a CBC chunk by the specification; `head` holds all bytes before the first chunk.
fn mac_of_chunk(set: &SetKey, head: &[u8], number: u32, last: bool, body: &[u8]) -> [u8; 32] {
    let header = 52 + usize::from(u16::from_be_bytes([head[50], head[51]]));
    let (signed, record) = head.split_at(header + 32);
    let digest = Sha256::new().chain_update(b"tobari-seal/1/header").chain_update(signed).finalize();
    let context = Sha256::new().chain_update(b"tobari-seal/1/context").chain_update(digest).chain_update(record);
    let mut key = [0; 32];
    let derived = hkdf::Hkdf::<Sha256>::new(Some(&head[14..46]), set.expose_bytes());
    derived.expand(b"tobari-seal/1/content mac", &mut key).unwrap();
    let mac = Hmac::<Sha256>::new_from_slice(&key).unwrap().chain_update(context.finalize());
    mac.chain_update(number.to_be_bytes())
        .chain_update([u8::from(last)])
        .chain_update(body)
        .finalize()
        .into_bytes()
        .into()
}

#[test]
fn nothing_of_a_wrong_chunk_comes_out_and_padding_is_not_told_from_tag() {
    let mut fixture = Fixture::new(25);
    let layout = layouts()[1];
    let parts = fixture.parts(layout, &Meta::new(Kind::File, b"f", 40), &[1; 40]).0;
    // The last byte before the MAC belongs to the padding; the last byte of the block before it
    // changes the decrypted padding.
    let (length, mut errors) = (parts[1].len(), Vec::new());
    for at in [length - 33, length - 49, 0, length - 1] {
        let mut other = parts.clone();
        other[1][at] ^= 1;
        errors.push(fixture.open(&other.concat()).map(|_| ()).unwrap_err());
    }
    // Wrong padding under a right MAC: 40 bytes have eight bytes of padding, and the last one
    // becomes 9.
    let with_last_byte_changed = |by: u8| {
        let mut other = parts.clone();
        other[1][length - 49] ^= by;
        let mac = mac_of_chunk(&fixture.set, &parts[0], 0, true, &other[1][..length - 32]);
        other[1][length - 32..].copy_from_slice(&mac);
        other
    };
    assert!(with_last_byte_changed(0) == parts, "the MAC is right");
    errors.push(fixture.open(&with_last_byte_changed(8 ^ 9).concat()).map(|_| ()).unwrap_err());
    assert!(errors.iter().all(|error| *error == (SealError::NotAuthentic("a chunk"), 0)), "{errors:?}");
    // One byte of padding is valid. So this chunk opens, and only the file's end is wrong.
    let opened = fixture.open(&with_last_byte_changed(8 ^ 1).concat()).map(|_| ()).unwrap_err();
    assert_eq!(opened, (SealError::NotAuthentic("the end of the file"), 47));
}

#[test]
fn limits_are_checked_before_anything_is_allocated() {
    let mut fixture = Fixture::new(26);
    let bytes = fixture.parts(layouts()[0], &Meta::new(Kind::File, b"f", 0), &[]).0.concat();
    let with = |at: usize, new: &[u8]| {
        let mut start: [u8; FIXED_BYTES] = *bytes.first_chunk().unwrap();
        start[at..at + new.len()].copy_from_slice(new);
        head_bytes(&start)
    };
    assert!(with(0, b"T").is_err() && with(11, &[2]) == Err(SealError::Version(2)));
    for (at, new) in [(12, 0), (12, 3), (13, 11), (13, 23), (13, 63)] {
        assert!(matches!(with(at, &[new]), Err(SealError::Malformed(_))), "{at} {new}");
    }
    assert!(matches!(with(46, &[0xff; 4]), Err(SealError::TooMany { .. })));
    assert!(with(50, &[0xff; 2]).is_ok_and(|bytes| bytes < 1 << 20));
}
