//! Panels in which the number of a sample's alleles changes, as on chromosome X: counts are those
//! of the haplotypes of each stretch, and no window crosses a change. And single variants whose
//! numbers of alleles differ by site.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use tobari_search::hidden::cells::Cell;
use tobari_search::hidden::numbers::{Kind, Numbers, Part};
use tobari_search::panel::{MAX_FULLEST, Pattern, Transform};
use tobari_search::table::{
    Content, Question, Site, SiteError, Sites, Table, TableError, TableSum, decode_table, encode_around, encode_table,
};

/// Haplotypes and sites of each stretch. The third has as many haplotypes as the second, of other
/// samples. The last but one begins with a chromosome.
const SHAPE: [(usize, usize); 5] = [(70, 9), (41, 12), (41, 7), (70, 5), (3, 4)];
const SITES: usize = 37;
/// The first site of the second chromosome.
const SECOND: usize = 28;

fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

/// Site after site, alleles of haplotypes that repeat a few patterns.
fn columns() -> Vec<Vec<bool>> {
    let mut rng = rng(3);
    let mut all = Vec::new();
    for (haplotypes, sites) in SHAPE {
        let of: Vec<u32> = (0..haplotypes).map(|_| rng.next_u32() % 6).collect();
        for _ in 0..sites {
            let founders = rng.next_u32();
            all.push(of.iter().map(|of| (founders >> of & 1 == 1) ^ rng.next_u32().is_multiple_of(40)).collect());
        }
    }
    all
}

fn breaks() -> Vec<usize> {
    let ends = SHAPE.iter().scan(0, |end, (_, sites)| {
        *end += sites;
        Some(*end)
    });
    ends.take(SHAPE.len() - 1).collect()
}

fn site(index: usize) -> Site {
    let (chromosome, position) = if index < SECOND { ("X", index * 150_000 + 1) } else { ("Y", index) };
    let [reference, alternate] = ["A", "C"].map(Into::into);
    Site { chromosome: chromosome.into(), position: position as u64, id: None, reference, alternate }
}

fn panel(columns: &[Vec<bool>]) -> Table {
    let mut content = Content::panel(columns[0].len()).unwrap();
    for (index, column) in columns.iter().enumerate() {
        match breaks().contains(&index) {
            true => content.push_after_break(site(index), column).unwrap(),
            false => content.push_site(site(index), column).unwrap(),
        }
    }
    Table::new(content, 1, "X", &mut rng(1))
}

/// How often each pattern of a window occurs, by counting.
fn counted(columns: &[Vec<bool>], start: usize, length: usize) -> BTreeMap<Pattern, u64> {
    let mut all = BTreeMap::new();
    for haplotype in 0..columns[start].len() {
        let window = columns[start..start + length].iter().enumerate();
        let bits = window.map(|(i, column)| Pattern::from(column[haplotype]) << i);
        *all.entry(bits.fold(0, |all, bit| all | bit)).or_default() += 1;
    }
    all
}

/// Whether a window stays in a stretch, and on its chromosome.
fn stays(start: usize, length: usize) -> (bool, bool) {
    let crosses = |site: usize| (start + 1..start + length).contains(&site);
    (!breaks().into_iter().any(crosses), !crosses(SECOND) && start + length <= SITES)
}

#[test]
fn counts_are_those_of_the_haplotypes_of_a_stretch_and_no_window_crosses_a_change() {
    let columns = columns();
    let made = panel(&columns);
    let read = decode_table(&encode_table(&made)).unwrap();
    assert_eq!(read.catalogue(), made.catalogue());
    for table in [&made, &read] {
        for (start, length) in (0..SITES).flat_map(|start| (1..=9).map(move |length| (start, length))) {
            let window = |pattern| Question::Window { start, length, pattern };
            if stays(start, length) != (true, true) {
                for refused in [table.count(&window(0)).unwrap_err(), table.longest(&window(0)).unwrap_err()] {
                    let ploidy = matches!(&refused, TableError::Site(SiteError::Ploidy { .. }));
                    assert_eq!(ploidy, stays(start, length).1, "{start} {length}: {refused}");
                }
                continue;
            }
            let all = counted(&columns, start, length);
            for (pattern, count) in &all {
                assert_eq!(table.count(&window(*pattern)), Ok(*count), "{start} {length} {pattern:b}");
                assert_eq!(table.longest(&window(*pattern)), Ok(length));
            }
            let absent = (0..1 << length).find(|pattern| !all.contains_key(pattern)).unwrap_or(0);
            assert_eq!(table.count(&window(absent)), Ok(all.get(&absent).copied().unwrap_or(0)));
        }
        let message = table.count(&Question::Window { start: 8, length: 3, pattern: 0 }).unwrap_err().to_string();
        assert!(message.contains("3 sites from X:1200001:A:C") && message.contains("found 1"), "{message}");
        assert!(message.contains("changes at X:1350001:A:C"), "{message}");
    }
}

#[test]
fn hidden_places_are_those_from_which_a_window_stays_in_its_stretch() {
    let columns = columns();
    let table = panel(&columns);
    let (catalogue, sites) = (table.catalogue(), table.content.sites().unwrap());
    // the first million bases have the sites 0 to 6, the second those to 13 and the first change
    for (part, own) in [(Part::Whole, 0..SITES), (Part::Cell(Cell::of(sites, 8).unwrap()), 7..14)] {
        let numbers = Numbers::of_part(&catalogue, Kind::Windows(3), part).unwrap();
        let starts: Vec<usize> = own.filter(|start| stays(*start, 3) == (true, true)).collect();
        assert_eq!(numbers.places(), starts.len());
        if part == Part::Whole {
            let told: BTreeMap<u128, u64> = numbers.entries(&table).unwrap().into_iter().collect();
            let mut expected = BTreeMap::new();
            for start in starts {
                for (pattern, count) in counted(&columns, start, 3) {
                    let window = Question::Window { start, length: 3, pattern };
                    expected.insert(numbers.of(&window).unwrap(), count);
                }
            }
            assert_eq!(told, expected);
        }
        assert!(numbers.of(&Question::Window { start: 8, length: 3, pattern: 0 }).is_err());
    }
}

#[test]
fn the_fullest_windows_stay_in_their_stretches() {
    let columns = columns();
    let table = panel(&columns);
    let Content::Panel { panel, .. } = &table.content else { panic!("no panel") };
    for length in [1, 2, 5, 12, 13] {
        let whole = (0..=SITES - length).filter(|start| stays(*start, length).0);
        let mut all: Vec<u32> = whole.map(|start| counted(&columns, start, length).len() as u32).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        let expected = (!all.is_empty()).then(|| all.iter().take(MAX_FULLEST).sum());
        assert_eq!(panel.most_patterns_at(length, MAX_FULLEST), expected, "{length}");
    }
    let at = [0, 8, 9, 27, 28, 33, SITES].map(|site| panel.haplotypes_at(site));
    assert_eq!(at, [Some(70), Some(70), Some(41), Some(41), Some(70), Some(3), None]);
    assert_eq!(panel.haplotypes(), 70);
}

#[test]
fn a_panel_that_is_written_site_by_site_is_the_file_of_one_in_memory() {
    let columns = columns();
    let table = panel(&columns);
    let (mut sites, mut transform) = (Sites::new(), Transform::new(columns[0].len()).unwrap());
    let mut alleles = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        let changes = breaks().contains(&index);
        if changes {
            transform.begin(column.len()).unwrap();
        }
        sites.push(site(index)).unwrap();
        if changes {
            sites.mark_break();
        }
        transform.push(column).unwrap().iter().for_each(|word| alleles.extend_from_slice(&word.to_be_bytes()));
    }
    let heading = Table { content: Content::variants(), ..table.clone() };
    let (before, after) = encode_around(&heading, &sites, &transform);
    let mut sum = TableSum::default();
    let body = [before, alleles, after].concat();
    sum.update(&body);
    assert_eq!([&body[..], &sum.finish()].concat(), encode_table(&table));
    // without phase, every site keeps its own number of alleles
    let counts = columns.iter().map(|column| column.iter().map(|allele| u32::from(*allele)).sum()).collect();
    let variants = Table { content: Content::without_phase(sites, counts, &transform), ..table };
    for read in [&variants, &decode_table(&encode_table(&variants)).unwrap()] {
        for (start, column) in columns.iter().enumerate() {
            let ones = column.iter().filter(|allele| **allele).count() as u64;
            let ask = |pattern| read.count(&Question::Window { start, length: 1, pattern }).unwrap();
            assert_eq!((ask(1), ask(0)), (ones, column.len() as u64 - ones), "{start}");
        }
    }
}

#[test]
fn numbers_of_alleles_that_contradict_the_catalogue_are_no_table() {
    let mut content = Content::variants();
    for (index, (ones, all)) in [(1, 4), (0, 0), (5, 9)].into_iter().enumerate() {
        content.push_count(site(index), ones, all).unwrap();
    }
    let refused = content.push_count(site(3), 10, 9).unwrap_err();
    assert!(matches!(refused, TableError::Alleles { alleles: 9, found: 10, .. }), "{refused}");
    // as many alleles as before are expected where haplotypes are counted
    assert!(matches!(content.push_site(site(3), &[true]), Err(TableError::Alleles { alleles: 9, found: 1, .. })));
    let table = Table::new(content, 1, "", &mut rng(1));
    let bytes = encode_table(&table);
    assert_eq!(encode_table(&decode_table(&bytes).unwrap()), bytes);
    // the last three numbers before the checksum: all the same, a greater one, fewer than alleles 1
    for alleles in [[9u32, 9, 9], [4, 0, 10], [4, 0, 4]] {
        let mut body = bytes[..bytes.len() - 32].to_vec();
        let place = body.len() - 12;
        body.truncate(place);
        alleles.iter().for_each(|number| body.extend_from_slice(&number.to_be_bytes()));
        let mut sum = TableSum::default();
        sum.update(&body);
        let refused = decode_table(&[&body[..], &sum.finish()].concat()).unwrap_err();
        assert_eq!(refused.to_string(), "malformed number of alleles", "{alleles:?}");
    }
}
