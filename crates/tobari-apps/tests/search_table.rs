//! Tables and their bytes: what is read is what was written, or nothing; and what a panel says of its fullest windows.

#![allow(clippy::unwrap_used, reason = "a test")]

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use std::collections::BTreeSet;
use tobari_apps::search::panel::{MAX_FULLEST, MAX_LENGTH, Panel, Pattern};
use tobari_apps::search::table::{
    Catalogue, Content, KeyTableBuilder, LIMB_BITS, MAX_COUNT, Question, Site, Sites, Table, TableBytesError,
    TableError, decode_table, encode_table,
};

fn rng(seed: u64) -> ChaCha20Rng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    ChaCha20Rng::from_seed(bytes)
}

/// Site after site, the alleles of haplotypes that copy one another: each site keeps the order of a few ancestors, with rare changes.
fn columns(haplotypes: usize, sites: usize, seed: u64) -> Vec<Vec<bool>> {
    let mut rng = rng(seed);
    let mut ancestor: Vec<usize> = (0..haplotypes).map(|_| rng.next_u32() as usize % 9).collect();
    let column = |_| {
        let alleles = rng.next_u32();
        ancestor.iter_mut().for_each(|from| {
            if rng.next_u32().is_multiple_of(17) {
                *from = rng.next_u32() as usize % 9;
            }
        });
        ancestor.iter().map(|from| (alleles >> from & 1 == 1) ^ rng.next_u32().is_multiple_of(90)).collect()
    };
    (0..sites).map(column).collect()
}

/// Two variants at every third position, and a second chromosome from the middle on.
fn site(index: usize, all: usize) -> Site {
    let chromosome = if index < all / 2 { "20" } else { "chr21" };
    let alternate = if index % 3 == 1 { "C" } else { "GT" };
    Site {
        chromosome: chromosome.into(),
        position: 100 + 10 * (index - index % 3 / 2) as u64,
        id: index.is_multiple_of(4).then(|| format!("rs{index}").into()),
        reference: "A".into(),
        alternate: alternate.into(),
    }
}

fn table(haplotypes: usize, columns: &[Vec<bool>]) -> Table {
    let mut content = Content::panel(haplotypes).unwrap();
    for (index, column) in columns.iter().enumerate() {
        content.push_site(site(index, columns.len()), column).unwrap();
    }
    Table::new(content, 2, "a panel, for tests", &mut rng(1))
}

fn panel_of(table: &Table) -> &Panel {
    let Content::Panel { panel, .. } = &table.content else { panic!("no panel") };
    panel
}

fn pattern(columns: &[Vec<bool>], haplotype: usize, start: usize, length: usize) -> Pattern {
    (0..length).fold(0, |pattern, i| pattern | Pattern::from(columns[start + i][haplotype]) << i)
}

fn keys(long: bool) -> Table {
    let mut builder = KeyTableBuilder::new();
    for i in 0..300u32 {
        let key = if long { format!("a long key, number {}", i % 200) } else { format!("k{}", i % 200) };
        builder.push(key.as_bytes(), u64::from(i) + 1).unwrap();
    }
    let keys = builder.finish(LIMB_BITS, MAX_COUNT, &mut rng(2)).unwrap();
    Table::new(Content::Keys(keys), 1, "", &mut rng(3))
}

fn variants() -> Table {
    let columns = columns(50, 30, 4);
    let mut content = Content::Variants { sites: Sites::new(), counts: Vec::new(), alleles: 50 };
    for (index, column) in columns.iter().enumerate() {
        content.push_site(site(index, 30), column).unwrap();
    }
    Table::new(content, 1, "without phase", &mut rng(5))
}

fn tables() -> [Table; 5] {
    [table(70, &columns(70, 40, 6)), table(64, &columns(64, 3, 7)), variants(), keys(false), keys(true)]
}

#[test]
fn the_fullest_windows_are_those_of_counting_all() {
    let (haplotypes, sites) = (70, 180);
    let columns = columns(haplotypes, sites, 8);
    let table = table(haplotypes, &columns);
    let panel = panel_of(&table);
    for length in [1, 2, 7, 40, 100, MAX_LENGTH] {
        let distinct =
            |start| (0..haplotypes).map(|h| pattern(&columns, h, start, length)).collect::<BTreeSet<_>>().len() as u32;
        let mut all: Vec<u32> = (0..=sites - length).map(distinct).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        for places in [1, 2, 10, MAX_FULLEST] {
            let expected = all.iter().take(places).sum::<u32>();
            assert_eq!(panel.most_patterns_at(length, places), Some(expected), "{places} places of {length}");
        }
        assert_eq!(panel.most_patterns(length), Some(all[0]));
    }
    let prefixes: Vec<u32> = (1..=9).map(|length| panel.most_patterns(length).unwrap()).collect();
    assert_eq!(panel.most_prefixes(9), Some(prefixes));
    for (length, places) in [(0, 1), (MAX_LENGTH + 1, 1), (3, 0), (3, MAX_FULLEST + 1), (usize::MAX, usize::MAX)] {
        assert_eq!(panel.most_patterns_at(length, places), None);
    }
    assert_eq!((panel.most_prefixes(0), panel.most_prefixes(MAX_LENGTH + 1)), (None, None));
}

#[test]
fn a_table_that_was_read_encodes_and_answers_as_the_one_written() {
    for table in tables() {
        let bytes = encode_table(&table);
        let read = decode_table(&bytes).unwrap();
        assert_eq!(encode_table(&read), bytes);
        assert_eq!(read.catalogue(), table.catalogue());
        assert_eq!(Catalogue::decode(&table.catalogue().encode()).unwrap(), table.catalogue());
        for start in 0..40 {
            for pattern in 0..16 {
                let ask = |table: &Table, length| table.count(&Question::Window { start, length, pattern });
                assert_eq!((ask(&read, 4), ask(&read, 1)), (ask(&table, 4), ask(&table, 1)));
            }
        }
        for i in 0..210 {
            for key in [format!("k{i}"), format!("a long key, number {i}")] {
                assert_eq!(read.count(&Question::Key(key.as_bytes())), table.count(&Question::Key(key.as_bytes())));
            }
        }
    }
}

#[test]
fn sites_added_to_a_panel_that_was_read_give_the_panel_made_at_once() {
    let columns = columns(131, 150, 9);
    let whole = table(131, &columns);
    for before in [0, 1, 77, 149] {
        let mut part = table(131, &[]);
        for (index, column) in columns.iter().enumerate() {
            if index == before {
                part = decode_table(&encode_table(&part)).unwrap();
            }
            part.content.push_site(site(index, columns.len()), column).unwrap();
        }
        assert_eq!(encode_table(&part), encode_table(&whole), "{before}");
    }
}

#[test]
fn counts_below_the_least_are_zero_and_end_a_longest_match() {
    let columns = columns(70, 40, 6);
    let (mut once, mut shorter) = (0, 0);
    let table = table(70, &columns);
    for haplotype in 0..70 {
        let (start, length) = (haplotype % 10, 10);
        let wanted = pattern(&columns, haplotype, start, length);
        let count = |length: usize| {
            let mask = (1 << length) - 1;
            (0..70).filter(|h| pattern(&columns, *h, start, length) == wanted & mask).count()
        };
        let question = Question::Window { start, length, pattern: wanted };
        let expected = if count(length) < 2 { 0 } else { count(length) as u64 };
        assert_eq!(table.count(&question), Ok(expected));
        let longest = (1..=length).take_while(|length| count(*length) >= 2).count();
        assert_eq!(table.longest(&question), Ok(longest));
        once += usize::from(count(length) == 1);
        shorter += usize::from(longest < length && longest > 0);
    }
    assert!(once > 0 && shorter > 0, "patterns that one haplotype has are among them");
}

#[test]
fn questions_of_another_kind_are_refused_with_the_reason() {
    let window = |start, length| Question::Window { start, length, pattern: 1 };
    let [panel, _, variants, short, long] = tables();
    let without_phase = variants.count(&window(3, 2)).unwrap_err();
    assert_eq!(without_phase, TableError::Unphased { length: 2 });
    assert!(without_phase.to_string().contains("no phase"), "{without_phase}");
    for (table, question) in [(&panel, Question::Key(b"k1")), (&short, window(0, 1)), (&variants, Question::Key(b"k1"))]
    {
        assert!(matches!(table.count(&question), Err(TableError::Kind { .. })));
        assert!(matches!(table.longest(&question), Err(TableError::Kind { .. })));
    }
    assert!(matches!(long.longest(&Question::Key(b"k1")), Err(TableError::Kind { .. })));
    // sites 19 and 20 are of two chromosomes
    assert!(panel.count(&window(0, 20)).is_ok() && panel.count(&window(20, 20)).is_ok());
    for (start, length) in [(19, 2), (0, 21), (30, 11), (40, 1), (0, 0), (0, MAX_LENGTH + 1), (usize::MAX, 1)] {
        assert!(panel.count(&window(start, length)).is_err(), "{start} {length}");
        assert!(panel.longest(&window(start, length)).is_err(), "{start} {length}");
    }
    // both alleles of a variant are all that were called
    let both = [0, 1].map(|pattern| variants.count(&Question::Window { start: 7, length: 1, pattern }).unwrap());
    assert_eq!(both[0] + both[1], 50);
}

#[test]
fn a_changed_shortened_or_longer_file_is_refused() {
    for table in tables() {
        let bytes = encode_table(&table);
        for length in (0..bytes.len()).step_by(1 + bytes.len() / 500) {
            assert!(decode_table(&bytes[..length]).is_err(), "{length}");
        }
        assert!(decode_table(&[&bytes[..], &[0]].concat()).is_err());
        let mut rng = rng(10);
        for _ in 0..500 {
            let (place, bit) = (rng.next_u32() as usize % bytes.len(), rng.next_u32() % 8);
            let mut changed = bytes.clone();
            changed[place] ^= 1 << bit;
            assert!(decode_table(&changed).is_err(), "bit {bit} of byte {place}");
        }
    }
    let other = decode_table(b"BCF\x02\x02 and more").unwrap_err();
    assert!(matches!(other, TableBytesError::Magic { .. }));
    assert!(other.to_string().contains("expected table for searches of version 1"), "{other}");
}

#[test]
fn whatever_is_changed_in_a_file_with_a_right_checksum_it_is_refused_or_has_the_same_bytes() {
    let mut rng = rng(11);
    for table in tables() {
        let bytes = encode_table(&table);
        for _ in 0..1_000 {
            let mut body = bytes[..bytes.len() - 32].to_vec();
            for _ in 0..1 + rng.next_u32() % 3 {
                // the head is short: changes are to meet it too
                let within = if rng.next_u32().is_multiple_of(2) { body.len() } else { body.len().min(150) };
                let place = rng.next_u32() as usize % within;
                match rng.next_u32() % 4 {
                    0 => body[place] = rng.next_u32() as u8,
                    1 => body[place] ^= 1 << (rng.next_u32() % 8),
                    2 => drop(body.remove(place)),
                    _ => body.insert(place, rng.next_u32() as u8),
                }
            }
            tobari_apps::search::fuzz_table(&body);
        }
    }
}
