//! A browser's client queries the server's half about tables, and every answer equals that of the
//! unencrypted table.

use chacha20::{
    ChaCha20Rng,
    rand_core::{Rng, SeedableRng},
};
use std::sync::Arc;
use tobari_octets::sha256;
use tobari_search::desk::{LabelledTable, Limits, Refusal, SearchService};
use tobari_search::fullness::Fullness;
use tobari_search::hidden::arrangement::Arrangement;
use tobari_search::hidden::cells::Cell;
use tobari_search::hidden::messages;
use tobari_search::hidden::numbers::Kind;
use tobari_search::oprf::function::Secret;
use tobari_search::oprf::labels::Labeller;
use tobari_search::question::pattern;
use tobari_search::table::{Content, KeyTableBuilder, LIMB_BITS, MAX_COUNT, Question, Site, Table};
use tobari_wasm::search::{AnswerView, SearchError, Searcher, ServerView, Shown, Stretch, Wanted};

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
    table: [u8; 32],
    /// Whether the table is served with labels.
    labels: bool,
    /// Everything that the client let the server see: what it is, and the bytes of it.
    seen: Vec<(String, usize)>,
}

/// Serves a table, and questions of one and of four sites with the place hidden in the whole table;
/// with a seed under the key of labels of this seed.
fn serve(desk: &mut SearchService, table: &Table, labels: Option<u8>) {
    let matcher = desk.hidden_matcher().unwrap();
    let labeller = |seed| Labeller::new(&table.name, Secret::random(&mut rng(seed)), 1 << 20).unwrap();
    let labeller = labels.map(labeller);
    let whole = [1, 4].into_iter().filter_map(|length| {
        let kind = Kind::Windows(length);
        let arranged = match &labeller {
            None => Arrangement::new(&matcher, table, kind, 1 << 30, None, &mut rng(3)),
            Some(labeller) => Arrangement::labelled((&matcher, labeller), table, kind, 1 << 30, None, &mut rng(3)),
        };
        arranged.ok().map(Arc::new)
    });
    let whole = whole.collect();
    match labeller {
        None => desk.serve_table(table.clone()).unwrap(),
        Some(labeller) => desk.serve_table_labelled(LabelledTable::of(table.clone(), labeller).unwrap()),
    }
    desk.serve_hidden(&table.name, whole);
}

impl World {
    fn new(table: &Table, labels: bool) -> Self {
        let mut desk = SearchService::new(Limits { tests: 1_000, region_tests: 1_000, ..Limits::default() });
        serve(&mut desk, table, labels.then_some(11));
        let (catalogue, fullness) = (table.catalogue().encode(), Fullness::of(table));
        let fullness = if labels { fullness.levelled() } else { fullness }.encode();
        let told = [&(catalogue.len() as u64).to_be_bytes()[..], &catalogue, &fullness].concat();
        let mut searcher = Searcher::new(&mut rng(2));
        let about = searcher.take(&told).unwrap();
        assert_eq!((about.label.as_str(), about.least), ("a test", 1));
        for wrong in [&[][..], &told[..7], &told[..told.len() - 1]] {
            assert!(searcher.take(wrong).is_err());
        }
        Self { desk, searcher, registered: Vec::new(), table: table.name, labels, seen: Vec::new() }
    }

    fn sees(&mut self, what: impl Into<String>, bytes: &[u8]) {
        self.seen.push((what.into(), bytes.len()));
    }

    /// Has the prepared question evaluated, as the page does on a server with labels.
    fn evaluate(&mut self) -> Result<(), SearchError> {
        let name = self.searcher.name();
        assert!(matches!(self.searcher.evaluated(b"early"), Err(SearchError::Order("an evaluation"))));
        let request = self.searcher.evaluation(name, &mut rng(12))?;
        let (reply, _) = self.desk.evaluate(&request).unwrap();
        assert!(self.searcher.evaluated(&reply[1..]).is_err(), "what is no reply");
        let request = self.searcher.evaluation(name, &mut rng(13))?;
        self.sees("an evaluation", &request);
        let (reply, _) = self.desk.evaluate(&request).unwrap();
        self.searcher.evaluated(&reply)?;
        let again = self.searcher.evaluation(name, &mut rng(14));
        assert!(matches!(again, Err(SearchError::Order("a question that needs an evaluation"))), "once");
        Ok(())
    }

    fn ask(&mut self, wanted: &Wanted) -> Result<AnswerView, SearchError> {
        let wanted = &Wanted { labels: self.labels.then_some(1_000), ..wanted.clone() };
        let seen = self.searcher.prepare(wanted)?;
        assert_eq!(seen.place.is_some(), wanted.shown == Shown::Place && !wanted.at.is_empty());
        let name = self.searcher.name();
        if let Some(path) = &seen.path {
            return self.ask_hidden(wanted, &seen, path);
        }
        if !self.registered.contains(&seen.key) {
            self.desk.register(name, seen.set, self.searcher.registration()?).unwrap();
            self.registered.push(seen.key);
        }
        if self.labels {
            let early = self.searcher.query(name, &mut rng(5));
            assert!(matches!(early, Err(SearchError::Order("an evaluation"))));
            self.evaluate()?;
        }
        let query = self.searcher.query(name, &mut rng(5))?;
        let (answer, _) = self.desk.answer(&query, &mut rng(6)).unwrap();
        assert!(self.searcher.read(&answer[1..]).is_err(), "what is no answer");
        self.searcher.read(&answer)
    }

    /// Asks with the place hidden, as the page does over HTTP.
    fn ask_hidden(&mut self, wanted: &Wanted, seen: &ServerView, path: &str) -> Result<AnswerView, SearchError> {
        let (name, table) = (self.searcher.name(), self.table);
        self.sees(format!("the layout {path} of {:?} for the key {}", seen.cell, seen.key), &[]);
        assert!(matches!(self.searcher.query(name, &mut rng(5)), Err(SearchError::Order(_))), "without a layout");
        assert_eq!(seen.cell.as_deref(), (wanted.shown == Shown::Cell).then_some("20:1-1000000"));
        let hash = sha256(self.searcher.registration()?);
        if self.desk.hidden_key(&name) != Some(&hash) {
            let matcher = self.desk.hidden_matcher().unwrap();
            let read = messages::decode_registration(self.searcher.registration()?, matcher.parameters()).unwrap();
            self.desk.register_hidden(name, hash, Some(read)).unwrap();
        }
        let layout = match path.split('/').collect::<Vec<_>>()[..] {
            [length, chromosome, number] => {
                let cell = Cell { chromosome: chromosome.parse().unwrap(), number: number.parse().unwrap() };
                let source = self.desk.cell_source(&table).unwrap();
                let arranged = source.arrange(length.parse().unwrap(), cell, 1 << 30, &mut rng(7)).unwrap();
                let arranged = Arc::new(arranged);
                self.desk.serve_cell(&source, &arranged, 1 << 30);
                arranged.told().to_vec()
            }
            _ => {
                let whole: Vec<_> = self.desk.arrangements(&table).cloned().collect();
                whole.iter().find(|one| one.kind().to_string() == path).unwrap().told().to_vec()
            }
        };
        if self.labels {
            assert!(matches!(self.searcher.layout(&layout), Err(SearchError::Order("an evaluation"))));
            self.evaluate()?;
        }
        assert!(self.searcher.layout(&layout[1..]).is_err(), "no layout");
        self.searcher.layout(&layout)?;
        let query = self.searcher.query(name, &mut rng(5))?;
        self.sees("a query", &query);
        let (admitted, _) = self.desk.admit_hidden(&query, &hash).unwrap();
        let answer = admitted.answer(&mut rng(6)).unwrap();
        assert!(self.searcher.read(&answer[1..]).is_err(), "what is no answer");
        self.searcher.read(&answer)
    }
}

fn wanted(at: &str, alleles: &str, shown: Shown, longest: bool) -> Wanted {
    let [at, alleles] = [at, alleles].map(str::to_owned);
    Wanted { at, alleles, key: String::new(), shown, least: 30, longest, labels: None }
}

/// Asks for the same patterns at every way of showing the place; some are there.
fn all_answers_are_those_in_the_clear(world: &mut World, table: &Table) {
    let mut found = 0;
    let cases = [(3, "0"), (4, "0110"), (4, "1010"), (30, "0110"), (30, "0000"), (26, "1101")];
    for (start, alleles) in cases {
        let (pattern, length) = pattern(alleles).unwrap();
        let question = Question::Window { start, length, pattern };
        let (count, longest) = (table.count(&question).unwrap(), table.longest(&question).unwrap());
        let at = format!("20:{}", 100 + start);
        for shown in [Shown::Place, Shown::Cell, Shown::Nothing] {
            let heard = world.ask(&wanted(&at, alleles, shown, false)).unwrap();
            assert_eq!(heard, AnswerView { found: count > 0, count: Some(count), longest: None }, "{at} {alleles}");
            found += usize::from(heard.found);
        }
        let heard = world.ask(&wanted(&at, alleles, Shown::Place, true)).unwrap();
        assert_eq!(heard.longest.unwrap_or(0), longest, "{at} {alleles}");
    }
    assert!((1..18).contains(&found), "both happen: {found}");
}

#[test]
fn a_panel_with_labels_answers_as_in_the_clear_and_evaluations_are_paid() {
    let table = Table::new(panel(), 1, "a test", &mut rng(1));
    let mut world = World::new(&table, true);
    all_answers_are_those_in_the_clear(&mut world, &table);
    let name = world.searcher.name();
    // six cases at three places, and the longest match of each, a test an allele; all twice
    let longest = 1 + 5 * 4;
    assert_eq!(world.desk.tests_left(&name), Some(1_000 - 2 * (6 * 3 + longest)));
    // a question for more labels than the server makes is refused before it is paid
    let many = Wanted { labels: Some(3), ..wanted("20:104", "0110", Shown::Place, true) };
    assert!(world.searcher.prepare(&many).unwrap_err().to_string().contains("at most 3 labels"));
    // labels of an earlier key are refused, at a place and in the whole table
    for shown in [Shown::Place, Shown::Nothing] {
        let asked = Wanted { labels: Some(1_000), ..wanted("20:104", "0110", shown, false) };
        let seen = world.searcher.prepare(&asked).unwrap();
        world.evaluate().unwrap();
        if seen.path.is_some() {
            let kinds = world.desk.arrangements(&table.name).find(|one| one.kind() == Kind::Windows(4)).cloned();
            world.searcher.layout(kinds.unwrap().told()).unwrap();
        }
        serve(&mut world.desk, &table, Some(if seen.path.is_some() { 16 } else { 15 }));
        let query = world.searcher.query(name, &mut rng(5)).unwrap();
        let hash = sha256(world.searcher.registration().unwrap());
        let refused = match seen.path {
            None => world.desk.admit(&query).err(),
            Some(_) => world.desk.admit_hidden(&query, &hash).err(),
        };
        assert!(matches!(refused, Some(Refusal::Revision | Refusal::Table)), "{refused:?}");
        world.ask(&asked).unwrap();
    }
}

#[test]
fn a_panel_answers_as_in_the_clear_with_the_place_shown_and_hidden() {
    let table = Table::new(panel(), 1, "a test", &mut rng(1));
    let mut world = World::new(&table, false);
    let stretch = |at: &str, count| world.searcher.sites(&Stretch { at: at.to_owned(), count });
    let positions = |at: &str, count| stretch(at, count).unwrap().iter().map(|site| site.position).collect::<Vec<_>>();
    assert_eq!(positions("", 3), [100, 101, 102]);
    assert_eq!(positions("20:137:A:C", 99), [137, 138, 139]);
    assert_eq!(stretch("20:101", 1).unwrap()[0].chromosome, "20");
    assert!(stretch("20:99", 1).is_err());
    all_answers_are_those_in_the_clear(&mut world, &table);
    // where the place hides, a site that is not listed and a window without room are asked about,
    // without meaning: silence would tell the server
    for (at, alleles, asked) in
        [("20:1", "01", 1), ("21:100", "01", 0), ("20", "01", 0), ("20:100", "012", 0), ("20:139", "01", 1)]
    {
        for (shown, asked) in [(Shown::Place, 0), (Shown::Cell, asked)] {
            let name = world.searcher.name();
            let before = world.desk.tests_left(&name).unwrap();
            let refused = world.ask(&wanted(at, alleles, shown, false)).unwrap_err();
            assert_eq!(before - world.desk.tests_left(&name).unwrap(), asked, "{at} {alleles} {shown:?}: {refused}");
        }
    }
    let refused = |shown, least, longest| {
        world.searcher.prepare(&Wanted { least, ..wanted("20:104", "01", shown, longest) }).unwrap_err().to_string()
    };
    let mut refused = refused;
    assert_eq!(
        refused(Shown::Cell, 40, false),
        "the cell 20:1-1000000 has 39 places for such a question, fewer than 40: nothing was asked"
    );
    assert!(refused(Shown::Nothing, 40, false).starts_with("the table has 39 places"));
    assert!(refused(Shown::Cell, 1, true).contains("longest match shows the place"));
    // another key of one's own
    world.searcher.renew(&mut rng(8));
    world.ask(&wanted("20:104", "0110", Shown::Cell, false)).unwrap();
}

/// A site that the table lists, one that it does not list, and one without room for the alleles
/// let the server see the same, question after question, in the cell and in the whole table.
#[test]
fn sites_that_are_listed_or_not_let_the_server_see_the_same() {
    let table = Table::new(panel(), 1, "a test", &mut rng(1));
    for labels in [false, true] {
        for shown in [Shown::Cell, Shown::Nothing] {
            let history = |at: &str| {
                let mut world = World::new(&table, labels);
                let answered = (0..3).filter(|_| world.ask(&wanted(at, "0110", shown, false)).is_ok()).count();
                (world.seen, answered)
            };
            let (usual, answered) = history("20:104");
            assert_eq!((usual.len(), answered), (if labels { 9 } else { 6 }, 3));
            for (at, expected) in [("20:136", 3), ("20:1", 0), ("20:90000", 0), ("20:139", 0)] {
                assert_eq!(history(at), (usual.clone(), expected), "{at}, {shown:?}, labels: {labels}");
            }
        }
    }
}

#[test]
fn keys_are_counted_and_another_key_of_ones_own_reads_on() {
    let mut builder = KeyTableBuilder::new();
    (0..200).for_each(|i| builder.push(format!("entry {i}").as_bytes(), 1 + i % 5).unwrap());
    let table = builder.finish(LIMB_BITS, MAX_COUNT, &mut rng(3)).unwrap();
    let table = Table::new(Content::Keys(table), 1, "a test", &mut rng(1));
    for labels in [false, true] {
        let mut world = World::new(&table, labels);
        for (i, renewed) in [(0, false), (7, true), (199, false), (200, false)] {
            if renewed {
                world.searcher.renew(&mut rng(8));
            }
            let asked = Wanted { key: format!("entry {i}"), ..wanted("", "", Shown::Cell, false) };
            let count = if i < 200 { 1 + i % 5 } else { 0 };
            let expected = AnswerView { found: i < 200, count: Some(count), longest: None };
            assert_eq!(world.ask(&asked).unwrap(), expected);
        }
        assert_eq!(world.registered.len(), 2);
    }
    assert!(matches!(
        Searcher::new(&mut rng(4)).prepare(&wanted("20:1", "0", Shown::Place, false)),
        Err(SearchError::Order(_))
    ));
}
