//! A browser's client queries the server's half about tables, and every answer equals that of the
//! unencrypted table.

use chacha20::{
    ChaCha20Rng,
    rand_core::{Rng, SeedableRng},
};
use tobari_search::desk::{Limits, SearchService};
use tobari_search::fullness::Fullness;
use tobari_search::question::pattern;
use tobari_search::table::{Content, KeyTableBuilder, LIMB_BITS, MAX_COUNT, Question, Site, Table};
use tobari_wasm::search::{AnswerView, SearchError, Searcher, Stretch, Wanted};

const SITES: usize = 40;

fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

/// Haplotypes that repeat five patterns.
fn panel() -> Content {
    let (mut content, mut rng) = (Content::panel(60).unwrap(), rng(9));
    let founders: Vec<u64> = (0..5).map(|_| rng.next_u64()).collect();
    for site in 0..SITES {
        let alleles: Vec<bool> = (0..60).map(|i| founders[i % 7 % 5] >> site & 1 == 1).collect();
        let (reference, alternate) = ("A".into(), "C".into());
        let site = Site { chromosome: "20".into(), position: 100 + site as u64, id: None, reference, alternate };
        content.push_site(site, &alleles).unwrap();
    }
    content
}

/// A server with a table, and a client that knows its description.
struct World {
    desk: SearchService,
    searcher: Searcher,
    registered: Vec<String>,
}

impl World {
    fn new(table: &Table) -> Self {
        let mut desk = SearchService::new(Limits::default());
        desk.serve_table(table.clone()).unwrap();
        let (catalogue, fullness) = (table.catalogue().encode(), Fullness::of(table).encode());
        let told = [&(catalogue.len() as u64).to_be_bytes()[..], &catalogue, &fullness].concat();
        let mut searcher = Searcher::new(&mut rng(2));
        let about = searcher.take(&told).unwrap();
        assert_eq!((about.label.as_str(), about.least), ("a test", 1));
        for wrong in [&[][..], &told[..7], &told[..told.len() - 1]] {
            assert!(searcher.take(wrong).is_err());
        }
        Self { desk, searcher, registered: Vec::new() }
    }

    fn ask(&mut self, wanted: &Wanted) -> Result<AnswerView, SearchError> {
        let seen = self.searcher.prepare(wanted)?;
        assert_eq!(seen.places.len(), if wanted.at.is_empty() { 0 } else { wanted.places as usize });
        let name = self.searcher.name();
        if !self.registered.contains(&seen.key) {
            self.desk.register(name, seen.set, self.searcher.registration()?).unwrap();
            self.registered.push(seen.key);
        }
        let query = self.searcher.query(name, &mut rng(5))?;
        let (answer, _) = self.desk.answer(&query, &mut rng(6)).unwrap();
        assert!(self.searcher.read(&answer[1..]).is_err(), "what is no answer");
        self.searcher.read(&answer)
    }
}

fn wanted(at: &str, alleles: &str, places: u32, longest: bool) -> Wanted {
    Wanted { at: at.to_owned(), alleles: alleles.to_owned(), key: String::new(), places, longest }
}

#[test]
fn a_panel_answers_as_in_the_clear_with_the_place_said_and_hidden() {
    let table = Table::new(panel(), 1, "a test", &mut rng(1));
    let world = World::new(&table);
    let stretch = |at: &str, count| world.searcher.sites(&Stretch { at: at.to_owned(), count });
    let positions = |at: &str, count| stretch(at, count).unwrap().iter().map(|site| site.position).collect::<Vec<_>>();
    assert_eq!(positions("", 3), [100, 101, 102]);
    assert_eq!(positions("20:137:A:C", 99), [137, 138, 139]);
    assert_eq!(stretch("20:101", 1).unwrap()[0].chromosome, "20");
    assert!(stretch("20:99", 1).is_err());
    let mut found = 0;
    let cases = [(3, "0"), (4, "0110"), (4, "1010"), (30, "0110"), (30, "0000"), (26, "1101")];
    for (start, alleles) in cases {
        let (pattern, length) = pattern(alleles).unwrap();
        let question = Question::Window { start, length, pattern };
        let (count, longest) = (table.count(&question).unwrap(), table.longest(&question).unwrap());
        let at = format!("20:{}", 100 + start);
        for places in [1, 10] {
            // a page hides one place
            let mut world = World::new(&table);
            let heard = world.ask(&wanted(&at, alleles, places, false)).unwrap();
            assert_eq!(heard, AnswerView { found: count > 0, count: Some(count), longest: None }, "{at} {alleles}");
            found += usize::from(heard.found);
            let heard = world.ask(&wanted(&at, alleles, places, true)).unwrap();
            assert_eq!(heard.longest.unwrap_or(0), longest, "{at} {alleles}");
        }
    }
    assert!((1..12).contains(&found), "both happen: {found}");
    let mut world = World::new(&table);
    for (at, alleles) in [("20:1", "01"), ("21:100", "01"), ("20", "01"), ("20:100", "012"), ("20:139", "01")] {
        assert!(world.ask(&wanted(at, alleles, 1, false)).is_err(), "{at} {alleles}");
    }
}

#[test]
fn fault_17_a_page_with_hidden_places_asks_about_one_place() {
    let table = Table::new(panel(), 1, "a test", &mut rng(1));
    let mut world = World::new(&table);
    world.ask(&wanted("20:104", "0110", 10, false)).unwrap();
    for (at, places) in [("20:108", 10), ("20:108", 1)] {
        let refused = world.ask(&wanted(at, "0110", places, false)).unwrap_err().to_string();
        assert!(refused.contains("decoys hide one place") && refused.contains("--hidden"), "{refused}");
    }
    // a further question about the same place is answered, also with another key
    world.ask(&wanted("20:104", "1010", 10, false)).unwrap();
    world.searcher.renew(&mut rng(8));
    world.ask(&wanted("20:104", "0110", 10, true)).unwrap();
}

#[test]
fn keys_are_counted_and_another_key_of_ones_own_reads_on() {
    let mut builder = KeyTableBuilder::new();
    (0..200).for_each(|i| builder.push(format!("entry {i}").as_bytes(), 1 + i % 5).unwrap());
    let table = builder.finish(LIMB_BITS, MAX_COUNT, &mut rng(3)).unwrap();
    let mut world = World::new(&Table::new(Content::Keys(table), 1, "a test", &mut rng(1)));
    for (i, renewed) in [(0, false), (7, true), (199, false), (200, false)] {
        if renewed {
            world.searcher.renew(&mut rng(8));
        }
        let key = format!("entry {i}");
        let asked = Wanted { at: String::new(), alleles: String::new(), key, places: 1, longest: false };
        let count = if i < 200 { 1 + i % 5 } else { 0 };
        assert_eq!(world.ask(&asked).unwrap(), AnswerView { found: i < 200, count: Some(count), longest: None });
    }
    assert_eq!(world.registered.len(), 2);
    assert!(matches!(Searcher::new(&mut rng(4)).prepare(&wanted("20:1", "0", 1, false)), Err(SearchError::Order(_))));
}
