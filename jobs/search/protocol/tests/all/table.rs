//! Tables and their bytes: reading gives the written table, or an error; and the sizes of a panel's
//! fullest windows.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use std::collections::BTreeSet;
use tobari_search::panel::{MAX_FULLEST, MAX_LENGTH, Panel, Pattern};
use tobari_search::table::{
    Catalogue, Content, KeyTableBuilder, LIMB_BITS, MAX_COUNT, Question, Site, Sites, Table, TableBytesError,
    TableError, decode_table, encode_table,
};

fn rng(seed: u64) -> ChaCha20Rng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    ChaCha20Rng::from_seed(bytes)
}

/// Site after site, the alleles of haplotypes that copy one another: each site keeps the order of a
/// few ancestors, with rare changes.
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
    let mut content = Content::Variants { sites: Sites::new(), counts: Vec::new(), alleles: 50.into() };
    for (index, column) in columns.iter().enumerate() {
        content.push_site(site(index, 30), column).unwrap();
    }
    Table::new(content, 1, "without phase", &mut rng(5))
}

fn tables() -> [Table; 6] {
    let told = table(64, &columns(64, 3, 7)).with_assembly(Some("GRCh38".to_owned())).unwrap();
    [table(70, &columns(70, 40, 6)), table(64, &columns(64, 3, 7)), told, variants(), keys(false), keys(true)]
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
fn a_table_without_an_assembly_has_the_bytes_of_earlier_releases_and_one_with_it_has_version_2() {
    let plain = variants();
    let told = plain.clone().with_assembly(Some("GRCh38".to_owned())).unwrap();
    let (before, now) = (plain.catalogue().encode(), told.catalogue().encode());
    assert_eq!((&before[..4], &now[..4]), (&b"TSC\x01"[..], &b"TSC\x02"[..]));
    // the name follows the label, and nothing else differs
    let end = 4 + 32 + 8 + 1 + plain.label.len();
    assert_eq!(
        (&now[4..end], &now[end..end + 7], &now[end + 7..]),
        (&before[4..end], &b"\x06GRCh38"[..], &before[end..])
    );
    assert_eq!(Catalogue::decode(&before).unwrap().assembly, None);
    assert_eq!(decode_table(&encode_table(&told)).unwrap().assembly.as_deref(), Some("GRCh38"));
    // each table has one form: no assembly of no bytes, none of another form, none of keys
    for name in [&b"\0"[..], b"\x06GRC 38", b"\x06GRC\n38"] {
        let wrong = [&now[..end], name, &before[end..]].concat();
        assert_eq!(Catalogue::decode(&wrong), Err(TableBytesError::Malformed("assembly")), "{name:?}");
    }
    for name in ["", "GRCh 38", "\u{e9}"] {
        let refused = plain.clone().with_assembly(Some(name.to_owned())).unwrap_err();
        assert_eq!(refused, TableError::Assembly { found: name.to_owned() });
    }
    let named = |table: Table| table.with_assembly(Some("GRCh38".to_owned()));
    assert!(matches!(named(keys(true)), Err(TableError::Assembly { .. })));
    let mut keys = keys(true).catalogue().encode();
    keys[3] = 2;
    let at = 4 + 32 + 8 + 1;
    keys.splice(at..at, *b"\x06GRCh38");
    assert_eq!(Catalogue::decode(&keys), Err(TableBytesError::Malformed("kind of table")));
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
    let [panel, _, _, variants, short, long] = tables();
    let without_phase = variants.count(&window(3, 2)).unwrap_err();
    assert_eq!(without_phase, TableError::Unphased { length: 2 });
    assert!(without_phase.to_string().contains("no phase"), "{without_phase}");
    for (table, question) in [(&panel, Question::Key(b"k1")), (&short, window(0, 1)), (&variants, Question::Key(b"k1"))]
    {
        assert!(matches!(table.count(&question), Err(TableError::Kind { .. })));
        assert!(matches!(table.longest(&question), Err(TableError::Kind { .. })));
    }
    assert!(matches!(long.longest(&Question::Key(b"k1")), Err(TableError::Kind { .. })));
    // sites 19 and 20 are on two chromosomes
    assert!(panel.count(&window(0, 20)).is_ok() && panel.count(&window(20, 20)).is_ok());
    for (start, length) in [(19, 2), (0, 21), (30, 11), (40, 1), (0, 0), (0, MAX_LENGTH + 1), (usize::MAX, 1)] {
        assert!(panel.count(&window(start, length)).is_err(), "{start} {length}");
        assert!(panel.longest(&window(start, length)).is_err(), "{start} {length}");
    }
    // the counts of both alleles of a variant add up to all called alleles
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
                // the head is short: half of the changes go there
                let within = if rng.next_u32().is_multiple_of(2) { body.len() } else { body.len().min(150) };
                let place = rng.next_u32() as usize % within;
                match rng.next_u32() % 4 {
                    0 => body[place] = rng.next_u32() as u8,
                    1 => body[place] ^= 1 << (rng.next_u32() % 8),
                    2 => drop(body.remove(place)),
                    _ => body.insert(place, rng.next_u32() as u8),
                }
            }
            tobari_search::fuzz_table(&body);
        }
    }
}

/// A catalogue of a panel as any sender may write it: for each chromosome its sites, each with a
/// position and an alternate allele.
fn sent(chromosomes: &[(String, Vec<(u64, String)>)]) -> Vec<u8> {
    fn number(out: &mut Vec<u8>, mut number: u64) {
        while number >= 0x80 {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
    }
    fn text(out: &mut Vec<u8>, text: &str) {
        number(out, text.len() as u64);
        out.extend_from_slice(text.as_bytes());
    }
    let mut out = b"TSC\x01".to_vec();
    out.extend_from_slice(&[7; 32]);
    out.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2]);
    number(&mut out, chromosomes.len() as u64);
    for (name, sites) in chromosomes {
        text(&mut out, name);
        number(&mut out, sites.len() as u64);
        let mut last = 0;
        for (position, alternate) in sites {
            number(&mut out, position - last);
            last = *position;
            for part in ["", "A", alternate] {
                text(&mut out, part);
            }
        }
    }
    out
}

/// Nine bases, different for each number.
fn bases(number: usize) -> String {
    (0..9).map(|place| char::from(b"ACGT"[number >> (2 * place) & 3])).collect()
}

#[test]
fn fault_32_a_catalogue_of_many_variants_at_one_position_takes_no_time_for_each_two() {
    let mut sites: Vec<(u64, String)> = (0..200_000).map(|number| (5, bases(number))).collect();
    // many of them again elsewhere, and few at each position after that
    sites.extend((0..20_000).map(|number| (9, bases(number))));
    sites.extend((0..40_000).map(|number| (10 + number as u64 / 20, bases(number % 20))));
    let start = std::time::Instant::now();
    let read = Catalogue::decode(&sent(&[("20".to_owned(), sites.clone())])).unwrap();
    assert_eq!(read.sites().unwrap().len(), 260_000);
    assert_eq!(read.sites().unwrap().site_at("20", 5, Some(("a", &bases(777)))), Ok(777));
    // a duplicate site is found, at any place
    for number in [0, 100_000, 199_999] {
        let mut again = sites[..200_000].to_vec();
        again.push((5, bases(number).to_ascii_lowercase()));
        let refused = Catalogue::decode(&sent(&[("20".to_owned(), again)])).unwrap_err();
        assert!(refused.to_string().contains("expected every variant once"), "{refused}");
    }
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[test]
fn fault_32_a_catalogue_of_many_chromosomes_takes_no_time_for_each_two() {
    let mut chromosomes: Vec<(String, Vec<(u64, String)>)> =
        (0..300_000).map(|number| (format!("{number}"), vec![(1, "C".to_owned())])).collect();
    let start = std::time::Instant::now();
    let read = Catalogue::decode(&sent(&chromosomes)).unwrap();
    let sites = read.sites().unwrap();
    assert_eq!((sites.len(), sites.chromosomes().count()), (300_000, 300_000));
    let windows = |length| (0..300_000).filter(|start| sites.check_window(*start, length).is_ok()).count();
    assert_eq!((windows(1), windows(2)), (300_000, 0));
    assert_eq!(sites.get(299_999).unwrap().to_string(), "299999:1:A:C");
    // a repeated name is rejected, next to the first or not
    for place in [0, 299_999] {
        let mut again = chromosomes.clone();
        again.push(chromosomes[place].clone());
        assert!(Catalogue::decode(&sent(&again)).is_err(), "{place}");
    }
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    // more chromosomes than the bytes allow
    chromosomes.truncate(1);
    let mut more = sent(&chromosomes);
    let place = 4 + 32 + 4 + 4 + 1 + 1 + 4;
    assert_eq!(more[place], 1);
    drop(more.splice(place..=place, [0xff, 0xff, 0xff, 0x7f]));
    assert_eq!(Catalogue::decode(&more), Err(TableBytesError::Malformed("number of chromosomes")));
}

#[test]
fn fault_32_a_catalogue_of_a_million_sites_is_read_as_it_was_written() {
    let sites: Vec<(u64, String)> = (0..1_000_000).map(|number| (60 * number + 1, "T".to_owned())).collect();
    let bytes = sent(&[("chr20".to_owned(), sites)]);
    let read = Catalogue::decode(&bytes).unwrap();
    assert_eq!(read.encode(), bytes);
    let site = read.sites().unwrap().get(999_999).unwrap();
    assert_eq!((site.to_string(), site.id), ("chr20:59999941:A:T".to_owned(), None));
}
