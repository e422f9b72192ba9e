//! Questions whose place hides in its cell: answers as on plaintext, budgets, and an adversary that
//! reads all that the servers see over a long history.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::SecretKey;
use tobari_search::client::MatchResult;
use tobari_search::desk::{Limits, Refusal, SearchService};
use tobari_search::hidden::arrangement::{self, Arrangement, DEPTH};
use tobari_search::hidden::cells::{Cell, Coordinate, common_places};
use tobari_search::hidden::client::Asker;
use tobari_search::hidden::messages::{self, Query};
use tobari_search::hidden::numbers::{Kind, Numbers, Part};
use tobari_search::hidden::server::Form;
use tobari_search::server::Granularity;
use tobari_search::table::{Content, Question, Site, Sites, Table};

pub(crate) const CLIENT: [u8; 16] = [7; 16];
pub(crate) const ROOM: u64 = 1 << 30;

pub(crate) fn rng(seed: u64) -> ChaCha20Rng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    ChaCha20Rng::from_seed(bytes)
}

pub(crate) fn secret() -> &'static SecretKey {
    static SECRET: OnceLock<SecretKey> = OnceLock::new();
    let of = || SecretKey::from_seed(&arrangement::set().unwrap().parameters().unwrap(), Seed::random(&mut rng(1)));
    SECRET.get_or_init(of)
}

/// A table with sites at these positions of chromosome 20, of which each has a reference allele of
/// its own.
pub(crate) fn table(name: u64, mut content: Content, positions: impl Iterator<Item = u64>) -> Table {
    positions.for_each(|position| push(&mut content, position));
    Table::new(content, 1, "a test", &mut rng(name))
}

fn push(content: &mut Content, position: u64) {
    let site = Site {
        chromosome: "20".into(),
        position,
        id: None,
        reference: ["A", "G"][(position % 2) as usize].into(),
        alternate: "C".into(),
    };
    let alleles: Vec<bool> = (0..12).map(|i| ((position * 0x9e37) >> (i % 5)) & 3 == 1 + i / 8).collect();
    content.push_site(site, &alleles).unwrap();
}

pub(crate) fn panel() -> Content {
    Content::panel(12).unwrap()
}

/// A server with tables, whose client has registered.
pub(crate) struct World {
    pub(crate) desk: SearchService,
    pub(crate) hash: [u8; 32],
}

impl World {
    pub(crate) fn new(limits: Limits) -> Self {
        static SENT: OnceLock<Vec<u8>> = OnceLock::new();
        let sent = SENT.get_or_init(|| {
            messages::encode_registration(&Asker::new(secret()).unwrap().registration(DEPTH, &mut rng(2)).unwrap())
        });
        let registration = messages::decode_registration(sent, secret().parameters()).unwrap();
        let mut desk = SearchService::new(limits);
        desk.register_hidden(CLIENT, [3; 32], Some(registration)).unwrap();
        Self { desk, hash: [3; 32] }
    }

    /// The layout of a cell, as the server gives it.
    pub(crate) fn cell(&mut self, table: &Table, length: usize, cell: Cell) -> Arc<Arrangement> {
        if let Some(there) = self.desk.cell(&table.name, length, cell) {
            return there;
        }
        let source = self.desk.cell_source(&table.name).unwrap();
        let arranged = Arc::new(source.arrange(length, cell, ROOM, &mut rng(11)).unwrap());
        self.desk.serve_cell(&source, &arranged, ROOM);
        arranged
    }

    fn ask(&mut self, table: &Table, question: &Question<'_>) -> Result<MatchResult, Refusal> {
        let (_, arranged, query) = self.query(table, question);
        let (admitted, asked) = self.desk.admit_hidden(&query, &self.hash)?;
        assert_eq!(asked.shape.places(), arranged.places());
        let answer = admitted.answer(&mut rng(5)).unwrap();
        let pages = messages::decode_answer(&answer, secret().parameters()).unwrap();
        Ok(Asker::new(secret()).unwrap().read(arranged.layout(), &pages).unwrap())
    }

    /// The cell of a question, its arrangement, and the bytes that the server gets.
    fn query(&mut self, table: &Table, question: &Question<'_>) -> (Cell, Arc<Arrangement>, Vec<u8>) {
        let Question::Window { start, length, .. } = *question else { panic!("a window") };
        let cell = Cell::of(table.content.sites().unwrap(), start).unwrap();
        let arranged = self.cell(table, length, cell);
        let numbers = Numbers::of_part(&table.catalogue(), Kind::Windows(length), Part::Cell(cell)).unwrap();
        let layout = messages::decode_layout(arranged.told(), secret().parameters()).unwrap();
        assert_eq!(numbers.name(&layout), *arranged.name(), "both sides name the arrangement");
        let form = Form::new(secret().parameters(), &layout).unwrap();
        let key = numbers.of(question).unwrap();
        let ciphertext = Asker::new(secret()).unwrap().query(&form, key, &mut rng(start as u64)).unwrap();
        let (table, granularity) = (*arranged.name(), Granularity::Count);
        (cell, arranged, messages::encode_query(&Query { table, client: CLIENT, granularity, ciphertext }))
    }
}

pub(crate) fn window(start: usize, length: usize, pattern: u128) -> Question<'static> {
    Question::Window { start, length, pattern }
}

/// The table's answer on plaintext.
pub(crate) fn clear(table: &Table, question: &Question<'_>) -> MatchResult {
    match table.count(question).unwrap() {
        0 => MatchResult::Absent,
        count => MatchResult::Present(Some(count)),
    }
}

#[test]
fn cells_answer_as_the_table_in_the_clear_also_windows_that_reach_beyond_them() {
    let mut world = World::new(Limits::default());
    let spread = |i: u64| 1_990_000 + 500 * i;
    let panel = table(1, panel(), (0..40).map(spread));
    let content = Content::Variants { sites: Sites::new(), counts: Vec::new(), alleles: 12.into() };
    let variants = table(2, content, (0..40).map(spread));
    let (mut found, mut cells) = (0, BTreeSet::new());
    for (table, lengths) in [(&panel, &[1, 5][..]), (&variants, &[1])] {
        world.desk.serve_table(table.clone()).unwrap();
        for length in lengths {
            // both sides of the border at site 20, windows over it, and the last window
            for start in [0, 17, 19, 20, 21, 40 - length] {
                for pattern in [0, 1, 0b10110] {
                    let question = window(start, *length, pattern & ((1 << length) - 1));
                    let answer = world.ask(table, &question).unwrap();
                    assert_eq!(answer, clear(table, &question), "{start} {length} {pattern}");
                    found += usize::from(answer != MatchResult::Absent);
                    cells.insert(Cell::of(table.content.sites().unwrap(), start).unwrap().number);
                }
            }
        }
    }
    assert!((10..50).contains(&found), "both happen: {found}");
    assert_eq!(cells.into_iter().collect::<Vec<_>>(), [1, 2]);
    // a cell without a window, a table of keys, an unknown table
    let source = world.desk.cell_source(&panel.name).unwrap();
    for (length, number) in [(5, 7), (21, 2)] {
        let cell = Cell { chromosome: 0, number };
        assert!(source.arrange(length, cell, ROOM, &mut rng(1)).is_err(), "{length} sites in cell {number}");
    }
    assert!(matches!(world.desk.cell_source(&[9; 32]), Err(Refusal::Table)));
}

#[test]
fn a_cell_charges_its_regions_and_a_new_index_gives_nothing_back() {
    let limits = Limits { region: 100_000, region_tests: 4, ..Limits::default() };
    let mut world = World::new(limits);
    let dense = |i: u64| 1_000_001 + 40_000 * i;
    for name in 1..=4 {
        // indexed anew: another name, and more sites
        let table = table(name, panel(), (0..50 + name).map(dense));
        world.desk.serve_table(table.clone()).unwrap();
        world.ask(&table, &window(3 * name as usize, 2, 1)).unwrap();
    }
    let table = table(5, panel(), (0..60).map(dense));
    world.desk.serve_table(table.clone()).unwrap();
    for start in [0, 10, 24] {
        let refused = world.ask(&table, &window(start, 2, 1)).unwrap_err();
        assert!(matches!(&refused, Refusal::Region { region, .. } if region == "20:1000001-1100000"), "{refused}");
    }
    // windows of two sites reach the first region of the next cell, which is used up, too
    let refused = world.ask(&table, &window(25, 2, 1)).unwrap_err();
    assert!(matches!(&refused, Refusal::Region { region, .. } if region == "20:2000001-2100000"), "{refused}");
    // the cell after that has its own budget, and the charge stays in the account
    world.ask(&table, &window(50, 2, 1)).unwrap();
    assert_eq!(world.desk.account(&CLIENT).unwrap().tests, 5);
    assert_eq!(world.desk.account(&CLIENT).unwrap().regions.regions(), 11 + 10);
}

#[test]
fn cells_leave_the_memory_when_others_need_it_and_a_query_for_one_that_left_is_refused() {
    let mut world = World::new(Limits::default());
    let table = table(1, panel(), (0..60).map(|i| 1 + 100_000 * i));
    world.desk.serve_table(table.clone()).unwrap();
    let (first, arranged, query) = world.query(&table, &window(0, 2, 1));
    let room = arranged.memory();
    let source = world.desk.cell_source(&table.name).unwrap();
    let second = Arc::new(source.arrange(2, Cell { number: 1, ..first }, room, &mut rng(4)).unwrap());
    world.desk.serve_cell(&source, &second, room);
    assert!(world.desk.cell(&table.name, 2, first).is_none(), "the one unused for longest");
    assert!(world.desk.cell(&table.name, 2, Cell { number: 1, ..first }).is_some());
    let tests = world.desk.tests_left(&CLIENT);
    assert!(matches!(world.desk.admit_hidden(&query, &world.hash), Err(Refusal::Table)));
    assert_eq!(world.desk.tests_left(&CLIENT), tests, "a refusal costs nothing");
    // the client fetches the layout again
    assert_eq!(world.ask(&table, &window(0, 2, 1)).unwrap(), clear(&table, &window(0, 2, 1)));
    // a table that was replaced while a cell was arranged: the cell is not served
    world.desk.serve_table(Table { revision: 2, ..table.clone() }).unwrap();
    let late = Arc::new(source.arrange(2, first, ROOM, &mut rng(4)).unwrap());
    world.desk.serve_cell(&source, &late, ROOM);
    assert!(world.desk.cell(&table.name, 2, first).is_none());
    // its name has the revision, so no answer of the old table is read with the new catalogue
    let again = world.desk.cell_source(&table.name).unwrap();
    let anew = again.arrange(2, first, ROOM, &mut rng(4)).unwrap();
    assert_eq!(anew.told(), late.told());
    assert_ne!(anew.name(), late.name());
}

/// What a server sees of a question: its number, the request for the layout, and the query without
/// its ciphertext.
type Seen = (usize, String, Vec<u8>, usize);

/// A history of questions about one place, at several servers and over changing tables. The history
/// names a question by its distance from the place, so that it can be replayed for any other place.
struct History {
    /// The tables that the servers had, in the order of time, with their servers.
    tables: Vec<(usize, Table)>,
    /// For each question: the table, the distance from the place in sites, and the number of sites.
    steps: Vec<(usize, usize, usize)>,
}

impl History {
    /// What the servers would see if the client's place were this one; none if some table does not
    /// have the place, or a step leaves the cell.
    fn explained(&self, world: &Layouts, place: &(u64, String)) -> Option<Vec<Seen>> {
        self.steps.iter().map(|step| self.step(world, place, *step)).collect()
    }

    fn step(
        &self,
        world: &Layouts,
        place: &(u64, String),
        (index, distance, length): (usize, usize, usize),
    ) -> Option<Seen> {
        let (server, table) = &self.tables[index];
        let sites = table.content.sites()?;
        let start = sites.site_at("20", place.0, Some((&place.1, "C"))).ok()? + distance;
        sites.check_window(start, length).ok()?;
        let cell = Coordinate::of(sites, start)?.within(sites)?;
        let (name, bytes) = world.0.get(&(index, length, cell))?;
        Some((*server, format!("{length}/{}/{}", cell.chromosome, cell.number), name.clone(), *bytes))
    }
}

/// The servers' layouts, by table, number of sites and cell: the name that queries have, and the
/// length of a query.
struct Layouts(BTreeMap<(usize, usize, Cell), (Vec<u8>, usize)>);

/// The smallest set of places that explains all that the servers saw, over every true place of a
/// cell and long histories: scans, tables indexed anew, added sites, several servers, and 1,000
/// questions for each place. It has every place that the client states, except those from which a
/// scan leads over the border of the cell: the threat model calls that possible. The decoys of
/// earlier versions leave one place of the same history.
#[test]
fn what_servers_see_over_long_histories_is_explained_by_every_place_of_the_cell() {
    let positions = |step: u64, count: u64| (0..count).map(move |i| 1_000_001 + step * i);
    let first = table(1, panel(), positions(2_000, 800));
    let anew = table(2, panel(), positions(1_000, 1_600));
    let mut grown = first.clone();
    (800..900).for_each(|i| push(&mut grown.content, 1_000_001 + 2_000 * i));
    grown.revision = 2;
    let other = table(3, panel(), positions(3_000, 600));
    let history = History {
        tables: vec![(0, first), (0, anew), (0, grown), (1, other)],
        // a scan on each table, repeated, with windows of two lengths
        steps: (0..1_000).map(|i| (i % 4, i / 8 % 10, [3, 6][i / 4 % 2])).collect(),
    };
    let sites: Vec<&Sites> = history.tables.iter().map(|(_, table)| table.content.sites().unwrap()).collect();
    let cell = Coordinate::new("20", 1_000_001);
    let stated = common_places(&sites, &cell, 6);
    assert_eq!(stated, 167, "every 6,000 bases in a million");
    let (mut worlds, mut layouts) = ([World::new(Limits::default()), World::new(Limits::default())], BTreeMap::new());
    for (index, (server, table)) in history.tables.iter().enumerate() {
        worlds[*server].desk.serve_table(table.clone()).unwrap();
        for (start, length) in [0, 333, 599].into_iter().flat_map(|start| [(start, 3), (start, 6)]) {
            let start = start.min(table.content.sites().unwrap().len() - length);
            let (cell, arranged, query) = worlds[*server].query(table, &window(start, length, 1));
            assert_eq!(query[2..34], arranged.name()[..], "a query names the arrangement and nothing of the place");
            let bytes = (query[..51].to_vec(), query.len());
            let before = layouts.insert((index, length, cell), bytes.clone());
            assert!(before.is_none_or(|before| before == bytes), "all queries of a cell look the same");
        }
    }
    let layouts = Layouts(layouts);
    let places: Vec<(u64, String)> =
        (0..334).map(|i| 1_000_001 + 3_000 * i).map(|at| (at, ["A", "G"][(at % 2) as usize].to_owned())).collect();
    let views: Vec<Option<Vec<Seen>>> = places.iter().map(|place| history.explained(&layouts, place)).collect();
    // places whose scan stays in the cell, in every table: the last ones lead over the border
    let inside: Vec<&Vec<Seen>> =
        views.iter().flatten().filter(|view| view.iter().all(|seen| seen.1.ends_with("/1"))).collect();
    // a scan has ten beginnings, on the sparsest table 3,000 bases apart: the last common places
    // before the border are less than nine of these away
    let near = (0..stated as u64).filter(|i| 1_000_001 + 6_000 * i + 9 * 3_000 > 2_000_000).count();
    assert_eq!(near, 4);
    assert!(inside.len() >= stated - near && inside[0].len() == 1_000, "{} of {stated}", inside.len());
    for view in &inside {
        let explain = inside.iter().filter(|other| other == &view).count();
        assert_eq!(explain, inside.len(), "every other place of the cell explains the same view");
    }
    // what the threat model calls possible: a scan over the border of two cells shows the border
    let over: BTreeMap<&Vec<Seen>, usize> =
        views.iter().flatten().filter(|view| !inside.contains(view)).fold(BTreeMap::new(), |mut all, view| {
            *all.entry(view).or_default() += 1;
            all
        });
    assert!(!over.is_empty() && over.values().all(|count| *count < 15), "{:?}", over.values());
    assert_eq!(places_left_by_decoys(&history), 1, "the same measure finds the place behind decoys");
}

/// The places that explain a history if every question shows its place among 99 decoys, which each
/// table and revision draws anew: the scheme of earlier versions.
fn places_left_by_decoys(history: &History) -> usize {
    let place = 1_000_001 + 60_000;
    let shown = |table: usize, distance: usize| -> Vec<u64> {
        let sites = history.tables[table].1.content.sites().unwrap();
        let all: Vec<u64> = sites.iter().map(|site| site.position).collect();
        let start = all.binary_search(&place).unwrap() + distance;
        let mut random = rng((table * 100 + distance) as u64);
        let decoys = (0..99).map(|_| all[random.next_u32() as usize % all.len()]);
        decoys.chain([all[start]]).collect()
    };
    let explains = |candidate: u64, (table, distance): (usize, usize)| {
        let all: Vec<u64> = history.tables[table].1.content.sites().unwrap().iter().map(|site| site.position).collect();
        let start = all.binary_search(&candidate).ok().and_then(|start| all.get(start + distance));
        start.is_some_and(|start| shown(table, distance).contains(start))
    };
    let seen: BTreeSet<(usize, usize)> = history.steps.iter().map(|(table, distance, _)| (*table, *distance)).collect();
    let candidates = (0..167).map(|i| 1_000_001 + 6_000 * i);
    candidates.filter(|candidate| seen.iter().all(|step| explains(*candidate, *step))).count()
}
