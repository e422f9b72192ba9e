//! Every key of a sealed file decrypts it to the same source.

use super::{Fixture, layouts, open, rng};
use tobari_seal::*;

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + at / 251) as u8).collect()
}

#[test]
fn content_of_every_length_around_a_chunk_comes_back() {
    let mut fixture = Fixture::new(1);
    for layout in layouts() {
        let full = layout.chunk_bytes();
        let ends = [full, 2 * full, 3 * full].into_iter().flat_map(|at| at - 17..=at + 17);
        for bytes in (0..40).chain(ends).chain([255, 1000]) {
            let meta = Meta::new(Kind::File, b"a/b", bytes as u64);
            let (parts, identity) = fixture.parts(layout, &meta, &content(bytes));
            assert_eq!(fixture.open(&parts.concat()), Ok((meta, content(bytes), identity)), "{bytes}");
        }
    }
}

#[test]
fn sources_of_every_kind_keep_what_is_said_of_them() {
    let mut fixture = Fixture::new(2);
    let modified = Time { seconds: -5, nanoseconds: 999_999_999 };
    let ranges = vec![Range { offset: 4096, bytes: 10 }, Range { offset: 1 << 40, bytes: 3 }];
    let sparse = Meta { ranges, mode: 0o4755, modified, ..Meta::new(Kind::File, b"sparse", 1 << 50) };
    let hole = Meta { ranges: Vec::new(), ..Meta::new(Kind::File, b"hole", 1 << 30) };
    let all = [
        (sparse, 13),
        (hole, 0),
        (Meta::new(Kind::Directory, b"", 0), 0),
        (Meta::new(Kind::Directory, "ö/\u{1F980}".as_bytes(), 0), 0),
        (Meta::new(Kind::Symlink, b"link\xff\n", 9), 9),
        (Meta::new(Kind::Stream, b"", 0), 10_000),
        (Meta::new(Kind::Manifest, b"", 0), 10_000),
        (Meta::new(Kind::Set, b"", 0), 0),
    ];
    for layout in layouts() {
        for (meta, bytes) in &all {
            let (parts, identity) = fixture.parts(layout, meta, &content(*bytes));
            assert_eq!(fixture.open(&parts.concat()), Ok((meta.clone(), content(*bytes), identity)));
        }
    }
}

#[test]
fn records_that_no_source_has_are_refused() {
    let mut fixture = Fixture::new(3);
    let file = |ranges: &[(u64, u64)]| Meta {
        ranges: ranges.iter().map(|(offset, bytes)| Range { offset: *offset, bytes: *bytes }).collect(),
        ..Meta::new(Kind::File, b"f", 100)
    };
    let paths: [&[u8]; 8] = [b"", b"/a", b"a/", b"a//b", b"..", b"a/../b", b"./a", b"a\0b"];
    let mut wrong: Vec<Meta> = paths.iter().map(|path| Meta::new(Kind::File, path, 1)).collect();
    wrong.push(Meta::new(Kind::File, &[b'a'; 65_536], 1));
    wrong.extend([file(&[(0, 0)]), file(&[(0, 101)]), file(&[(50, 10), (40, 5)]), file(&[(0, 10), (10, 5)])]);
    wrong.push(file(&[(u64::MAX, 2)]));
    wrong.push(Meta { mode: 0o10000, ..file(&[]) });
    wrong.push(Meta { modified: Time { seconds: 0, nanoseconds: 1_000_000_000 }, ..file(&[]) });
    wrong.push(Meta::new(Kind::Symlink, b"l", 0));
    wrong.push(Meta::new(Kind::Directory, b"d", 1));
    wrong.push(Meta::new(Kind::Stream, b"s", 0));
    wrong.push(file(&vec![(0, 1); MAX_RANGES + 1]));
    for meta in wrong {
        let begun = Sealing::begin(&fixture.set, &fixture.stanzas, layouts()[0], &meta, &mut fixture.rng);
        assert!(begun.is_err(), "{meta:?}");
    }
}

#[test]
fn a_passphrase_opens_what_it_sealed_and_no_other_does() {
    let (mut rng, cost) = (rng(4), PassphraseCost { memory_kib: 8192, passes: 1, lanes: 2 });
    let set = SetKey::random(&mut rng);
    let stanza = Stanza::for_passphrase(b"correct horse", cost, &set, &mut rng).unwrap();
    let found = stanza.open_with_passphrase(b"correct horse", &CostLimits::USUAL).unwrap().unwrap();
    assert_eq!(found.expose_bytes(), set.expose_bytes());
    assert!(stanza.open_with_passphrase(b"correct horsf", &CostLimits::USUAL).unwrap().is_none());
    assert!(stanza.open_with_key_file(&KeyFile::from_bytes(&[7; 32]).unwrap()).is_none());
}

#[test]
fn a_passphrase_that_asks_for_too_much_is_refused_before_memory_is_taken() {
    let (mut rng, file) = (rng(5), KeyFile::from_bytes(&[7; 32]).unwrap());
    let set = SetKey::random(&mut rng);
    for (memory_kib, passes, lanes) in [(64 << 20, 1, 1), (8191, 1, 1), (0, 0, 0), (8192, 11, 1), (8192, 1, 17)] {
        let cost = PassphraseCost { memory_kib, passes, lanes };
        let made = Stanza::for_passphrase(b"x", cost, &set, &mut rng);
        assert!(matches!(made, Err(SealError::Cost { .. })), "{cost:?}");
    }
    // 64 GiB in a header that is otherwise right: the four bytes after kind and length of the
    // second stanza.
    let cost = PassphraseCost { memory_kib: 8192, passes: 1, lanes: 1 };
    let stanzas = vec![
        Stanza::for_key_file(&file, &set, &mut rng).unwrap(),
        Stanza::for_passphrase(b"x", cost, &set, &mut rng).unwrap(),
    ];
    let stanzas = Stanzas::new(stanzas).unwrap();
    let meta = Meta::new(Kind::File, b"f", 0);
    let (_, mut bytes) = Sealing::begin(&set, &stanzas, layouts()[0], &meta, &mut rng).unwrap();
    let at = FIXED_BYTES + 3 + 80 + 3;
    bytes[at..at + 4].copy_from_slice(&(64_u32 << 20).to_be_bytes());
    let head = Head::decode(&bytes).unwrap();
    let refused = head.stanzas().iter().nth(1).unwrap().open_with_passphrase(b"x", &CostLimits::USUAL);
    assert!(matches!(refused, Err(SealError::Cost { found: 67_108_864, .. })));
}

#[test]
fn any_one_of_several_keys_opens() {
    let mut rng = rng(6);
    let files = [KeyFile::random(&mut rng), KeyFile::random(&mut rng), KeyFile::random(&mut rng)];
    let set = SetKey::random(&mut rng);
    let of = |file: &KeyFile, rng: &mut _| Stanza::for_key_file(file, &set, rng).unwrap();
    let mut stanzas = vec![of(&files[0], &mut rng), of(&files[1], &mut rng)];
    stanzas.push(Stanza::for_age(b"age-encryption.org/v1 and so on".to_vec()).unwrap());
    let stanzas = Stanzas::new(stanzas).unwrap();
    let mut fixture = Fixture { file: files[0].clone(), set, stanzas, rng };
    let (parts, _) = fixture.parts(layouts()[0], &Meta::new(Kind::File, b"f", 3), b"abc");
    assert!(open(&parts.concat(), &files[0]).is_ok() && open(&parts.concat(), &files[1]).is_ok());
    assert_eq!(open(&parts.concat(), &files[2]), Err((SealError::NotAuthentic("a key"), 0)));
    assert!(Stanzas::new(Vec::new()).is_err());
    let many = vec![Stanza::for_age(vec![1; 10]).unwrap(); 33];
    assert!(Stanzas::new(many).is_err() && Stanza::for_age(vec![0; MAX_WRAPPED_BYTES + 1]).is_err());
}

#[test]
fn two_attempts_at_one_file_share_no_byte_of_content_and_have_other_names_for_other_paths() {
    let mut fixture = Fixture::new(7);
    let meta = Meta::new(Kind::File, b"f", 4096);
    for layout in layouts() {
        let (first, one) = fixture.parts(layout, &meta, &[0; 4096]);
        let (second, other) = fixture.parts(layout, &meta, &[0; 4096]);
        assert!(one.salt != other.salt && one.mac != other.mac);
        let same = first[1].iter().zip(&second[1]).filter(|(a, b)| a == b).count();
        assert!(same < 60, "{same} of 4112 bytes; 16 are expected by chance");
    }
    let name = fixture.set.output_name(b"a").unwrap();
    assert_eq!((name.len(), &name[2..3], &name[33..]), (38, "/", ".seal"));
    assert_ne!(name, fixture.set.output_name(b"b").unwrap());
    assert_ne!(name, Fixture::new(8).set.output_name(b"a").unwrap());
}

#[test]
fn a_state_is_not_talked_into_reusing_a_number() {
    let mut fixture = Fixture::new(9);
    let (layout, meta) = (layouts()[0], Meta::new(Kind::File, b"f", 4100));
    let begin = |fixture: &mut Fixture| {
        Sealing::begin(&fixture.set, &fixture.stanzas, layout, &meta, &mut fixture.rng).unwrap().0
    };
    let mut sealing = begin(&mut fixture);
    assert!(sealing.chunk(vec![0; 5], false, &mut fixture.rng).is_err(), "neither full nor last");
    assert!(sealing.chunk(vec![0; 4097], true, &mut fixture.rng).is_err(), "too long");
    let first = sealing.chunk(vec![0; 4096], false, &mut fixture.rng).unwrap();
    assert!(sealing.chunk(Vec::new(), true, &mut fixture.rng).is_err(), "an empty last one that is not the first");
    let last = sealing.chunk(vec![0; 4], true, &mut fixture.rng).unwrap();
    assert!(sealing.chunk(vec![0; 4], true, &mut fixture.rng).is_err(), "after the last");
    assert_eq!((first.number(), last.number()), (0, 1));
    // A chunk gives the same bytes each time.
    let done = |chunk: &Chunk| process(&[chunk], &PortableGcm).remove(0).unwrap();
    assert_eq!(done(&first), done(&first));
    assert!(first.check(&done(&first), &PortableGcm) && !last.check(&done(&first), &PortableGcm));
    assert!(sealing.finish(&mut fixture.rng).is_err(), "nothing was taken back");
    // A file with less content than its record says cannot be finished.
    let mut sealing = begin(&mut fixture);
    let chunk = sealing.chunk(vec![0; 4], true, &mut fixture.rng).unwrap();
    sealing.sealed(&done(&chunk)).unwrap();
    assert!(sealing.sealed(&done(&chunk)).is_err());
    assert!(sealing.finish(&mut fixture.rng).is_err());
}

#[test]
fn what_a_module_computes_is_completed_and_a_lie_is_seen() {
    let mut fixture = Fixture::new(10);
    for layout in layouts() {
        let meta = Meta::new(Kind::File, b"f", 1000);
        let mut sealing = Sealing::begin(&fixture.set, &fixture.stanzas, layout, &meta, &mut fixture.rng).unwrap().0;
        let chunk = sealing.chunk(content(1000), true, &mut fixture.rng).unwrap();
        let sealed = process(&[&chunk], &PortableGcm).remove(0).unwrap();
        // The same chunk twice; the second answer is falsified.
        let both = [&chunk, &chunk];
        let before = if chunk.for_module().unwrap().operation == Operation::CbcEncrypt { 16 } else { 0 };
        let answered = |lie: Option<usize>| {
            let mut rooms = Rooms::new(&both).unwrap();
            assert_eq!((rooms.count(), rooms.all_answers().is_some()), (2, before == 0));
            let bytes = rooms.answers().map(|answer| {
                answer.copy_from_slice(&sealed[before..before + answer.len()]);
                answer.len()
            });
            let bytes = bytes.max().unwrap();
            if let Some(at) = lie {
                rooms.answers().nth(1).unwrap()[at % bytes] ^= 1;
            }
            rooms
        };
        assert_eq!(answered(None).complete(&both).unwrap(), [&sealed[..], &sealed]);
        for at in [0, 500, usize::MAX / 2] {
            let told = answered(Some(at)).complete(&both).unwrap();
            assert!(chunk.check(&told[0], &PortableGcm) && !chunk.check(&told[1], &PortableGcm), "{at}");
        }
        assert!(answered(None).complete(&[&chunk]).is_err(), "for one of the two");
        let mut other = Sealing::begin(&fixture.set, &fixture.stanzas, layout, &meta, &mut fixture.rng).unwrap().0;
        let other = other.chunk(content(1100), true, &mut fixture.rng).unwrap();
        assert!(answered(None).complete(&[&chunk, &other]).is_err(), "for a longer one");
    }
}

#[test]
fn bare_cbc_comes_back_with_every_length_of_key_and_a_wrong_answer_is_seen() {
    let mut fixture = Fixture::new(12);
    for key in [&[1; 16][..], &[2; 24], &[3; 32]] {
        let bare = BareCbc::new(key).unwrap();
        let chunk = bare.encrypt(content(1000), &mut fixture.rng);
        let parts = chunk.for_module().unwrap();
        assert_eq!((parts.operation, parts.key, parts.answer_bytes()), (Operation::CbcEncrypt, key, 1008));
        let iv: [u8; 16] = parts.nonce().try_into().unwrap();
        let ciphertext = process(&[&chunk], &PortableGcm).remove(0).unwrap();
        assert_eq!(process_in_lanes(&[&chunk], &PortableGcm, Some(1)).remove(0).unwrap(), ciphertext);
        assert!(chunk.check(&ciphertext, &PortableGcm) && !chunk.check(&ciphertext[..992], &PortableGcm));
        let back = bare.decrypt(iv, ciphertext.to_vec());
        let text = process(&[&back], &PortableGcm).remove(0).unwrap();
        assert!(text == content(1000) && back.check(&text, &PortableGcm));
        // An answer of a module still has its padding.
        let answered = |padding: u8| {
            let mut rooms = Rooms::new(&[&back]).unwrap();
            rooms.all_answers().unwrap().copy_from_slice(&[&text[..], &[padding; 8]].concat());
            rooms.complete(&[&back])
        };
        assert_eq!(answered(8).unwrap(), [&text[..]]);
        assert!(answered(9).is_err());
    }
    assert!(BareCbc::new(&[0; 20]).is_err());
}

#[test]
fn entries_of_a_list_come_back_and_have_one_form() {
    let identity = Identity { salt: [1; 32], mac: [2; 32] };
    let entry = |kind, path: &[u8], name: &str| Entry {
        kind,
        path: path.to_vec(),
        name: name.into(),
        identity,
        bytes: 9,
        stale: false,
    };
    let entries = [entry(Kind::Directory, b"", "aa/b.seal"), entry(Kind::File, &[b'x'; 65_535], &"n".repeat(255))];
    let mut bytes = Vec::new();
    entries.iter().for_each(|entry| entry.encode(&mut bytes).unwrap());
    for end in 0..bytes.len() {
        let whole = Entry::decode(&bytes[..end]).unwrap();
        assert_eq!(whole.is_some(), end >= 1 + 2 + 2 + 9 + 64 + 8, "{end}");
    }
    let (first, length) = Entry::decode(&bytes).unwrap().unwrap();
    let (second, rest) = Entry::decode(&bytes[length..]).unwrap().unwrap();
    assert_eq!(([first, second], length + rest, rest), (entries, bytes.len(), MAX_ENTRY_BYTES));
    for wrong in [entry(Kind::Stream, b"", "a"), entry(Kind::File, b"", "a"), entry(Kind::File, b"a", "../a")] {
        assert!(wrong.encode(&mut bytes).is_err());
    }
    assert!(Entry::decode(&[9; MAX_ENTRY_BYTES]).is_err());
}
