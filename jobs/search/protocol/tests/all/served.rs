//! Tables of every kind behind a desk, asked with the clients' public information and compared with
//! the tables on plaintext; and budgets that outlive the desk.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use tobari_search::client::{Asker, MatchResult};
use tobari_search::desk::ledger::Account;
use tobari_search::desk::{Limits, Refusal, SearchService};
use tobari_search::fullness::Fullness;
use tobari_search::messages;
use tobari_search::question::{Prepared, QuestionError, Wish, pattern};
use tobari_search::server::Granularity;
use tobari_search::table::{
    Catalogue, CatalogueContent, Content, KeyTableBuilder, LIMB_BITS, MAX_COUNT, Question, Site, Sites, Table,
};

const COUNT: Wish = Wish { granularity: Granularity::Count, longest: false };
const SITES: usize = 40;

fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

/// Haplotypes with five repeated patterns, over two chromosomes.
fn filled(mut content: Content) -> Content {
    let mut rng = rng(9);
    let founders: Vec<u64> = (0..5).map(|_| rng.next_u64()).collect();
    for site in 0..SITES {
        let chromosome = if site < 30 { "20" } else { "21" };
        let position = 100 + site as u64;
        let site_of =
            Site { chromosome: chromosome.into(), position, id: None, reference: "A".into(), alternate: "C".into() };
        let alleles: Vec<bool> = (0..60).map(|i| founders[i % 7 % 5] >> site & 1 == 1).collect();
        content.push_site(site_of, &alleles).unwrap();
    }
    content
}

/// A desk with one table, and a client of it.
struct Bench {
    desk: SearchService,
    table: Table,
    catalogue: Catalogue,
    fullness: Fullness,
}

impl Bench {
    fn new(content: Content, least: u32, limits: Limits) -> Self {
        let table = Table::new(content, least, "a test", &mut rng(1));
        let mut desk = SearchService::new(limits);
        desk.serve_table(table.clone()).unwrap();
        // clients get their information as bytes
        let catalogue = Catalogue::decode(&table.catalogue().encode()).unwrap();
        let fullness = Fullness::decode(&Fullness::of(&table).encode()).unwrap();
        Self { desk, table, catalogue, fullness }
    }

    fn ask(&mut self, question: &Question<'_>, wish: Wish) -> Result<MatchResult, Refusal> {
        let told = (&self.catalogue, &self.fullness);
        let prepared = Prepared::new(told, question, wish).unwrap();
        let parameters = prepared.set().parameters().unwrap();
        let secret = SecretKey::from_seed(&parameters, Seed::random(&mut rng(2)));
        let public = PublicKey::generate(&secret, &mut rng(3));
        let registration = messages::encode_registration(&public);
        if !self.desk.account(&[4; 16]).is_some_and(|account| account.uses.contains_key(prepared.set().name)) {
            self.desk.register([4; 16], prepared.set().name, &registration).unwrap();
        }
        let asker = Asker::new(&secret).unwrap();
        let query = prepared.query(&asker, [4; 16], &mut rng(5)).unwrap();
        assert_eq!(messages::query_client(&query), Ok([4; 16]));
        let (answer, _) = self.desk.answer(&query, &mut rng(6))?;
        Ok(prepared.read(&asker, &answer).unwrap())
    }

    /// The table's answer on plaintext.
    fn clear(&self, question: &Question<'_>) -> MatchResult {
        match self.table.count(question).unwrap() {
            0 => MatchResult::Absent,
            count => MatchResult::Present(Some(count)),
        }
    }
}

fn window(start: usize, text: &str) -> Question<'static> {
    let (pattern, length) = pattern(text).unwrap();
    Question::Window { start, length, pattern }
}

#[test]
fn a_panel_answers_patterns_and_longest_matches_on_any_chromosome() {
    let mut bench = Bench::new(filled(Content::panel(60).unwrap()), 9, Limits::default());
    let mut found = 0;
    for (start, text) in [(3, "0"), (3, "1"), (4, "0110"), (4, "1010"), (30, "0110"), (30, "0000"), (26, "1101")] {
        let question = window(start, text);
        let answer = bench.ask(&question, COUNT).unwrap();
        assert_eq!(answer, bench.clear(&question), "{start} {text}");
        found += usize::from(answer != MatchResult::Absent);
        let sites = bench.table.longest(&question).unwrap();
        let longest = bench.ask(&question, Wish { longest: true, granularity: Granularity::Boolean });
        let expected = if sites == 0 { MatchResult::Absent } else { MatchResult::Longest(sites, None) };
        assert_eq!(longest.unwrap(), expected, "{start} {text}");
    }
    assert!(found >= 2, "{found}");
}

#[test]
fn a_panel_whose_samples_change_their_number_of_alleles_answers_on_each_side() {
    let mut content = filled(Content::panel(60).unwrap());
    let site =
        |position| Site { chromosome: "21".into(), position, id: None, reference: "A".into(), alternate: "C".into() };
    content.push_after_break(site(500), &[true; 70]).unwrap();
    content.push_site(site(501), &[vec![true; 9], vec![false; 61]].concat()).unwrap();
    let mut bench = Bench::new(content, 1, Limits::default());
    for (start, text, count) in [(38, "11", None), (40, "11", Some(9)), (40, "10", Some(61)), (41, "1", Some(9))] {
        let question = window(start, text);
        let answer = bench.ask(&question, COUNT).unwrap();
        assert_eq!(answer, bench.clear(&question), "{start} {text}");
        assert!(count.is_none() || answer == MatchResult::Present(count), "{start} {text}");
    }
    let over = window(39, "11");
    let refused = Prepared::new((&bench.catalogue, &bench.fullness), &over, COUNT).unwrap_err();
    assert!(refused.to_string().contains("number changes at 21:500:A:C"), "{refused}");
    // a client that asks anyway
    let mut sites = Sites::new();
    bench.catalogue.sites().unwrap().iter().for_each(|site| sites.push(site.to_site()).unwrap());
    bench.catalogue.content = CatalogueContent::Panel { sites, haplotypes: 70 };
    let refused = bench.ask(&over, COUNT).unwrap_err();
    assert!(refused.to_string().contains("another number from site 40 on"), "{refused}");
}

#[test]
fn variants_without_phase_answer_one_site_and_refuse_haplotypes_on_either_side() {
    let content = Content::Variants { sites: Sites::new(), counts: Vec::new(), alleles: 60.into() };
    let mut content = filled(content);
    let [reference, alternate] = ["A", "C"].map(Into::into);
    let other = Site { chromosome: "21".into(), position: 900, id: None, reference, alternate };
    content.push_count(other, 7, 150).unwrap();
    let mut bench = Bench::new(content, 2, Limits::default());
    assert_eq!(bench.ask(&window(40, "0"), COUNT).unwrap(), MatchResult::Present(Some(143)));
    for start in [0, 17, 39, 40, 5] {
        for text in ["0", "1"] {
            let question = window(start, text);
            assert_eq!(bench.ask(&question, COUNT).unwrap(), bench.clear(&question), "{start} {text}");
        }
    }
    let told = (&bench.catalogue, &bench.fullness);
    let refused = Prepared::new(told, &window(3, "01"), COUNT).unwrap_err();
    assert!(refused.to_string().contains("no phase"), "{refused}");
    // a client that asks anyway
    let mut panel = Bench::new(filled(Content::panel(60).unwrap()), 1, Limits::default());
    let table = Table { name: panel.table.name, ..bench.table };
    panel.desk.serve_table(table).unwrap();
    let refused = panel.ask(&window(3, "01"), COUNT).unwrap_err();
    assert!(refused.to_string().contains("no phase"), "{refused}");
}

#[test]
fn keys_of_any_length_are_counted() {
    for (length, least) in [(3, 1), (8, 2), (30, 1)] {
        let key = |i: u32| {
            let mut key = vec![b'k'; length];
            key[..3].copy_from_slice(&i.to_be_bytes()[1..]);
            key
        };
        let mut builder = KeyTableBuilder::new();
        (0..9_000).for_each(|i| builder.push(&key(i * 3), 1 + u64::from(i % 5)).unwrap());
        let keys = builder.finish(LIMB_BITS, MAX_COUNT, &mut rng(7)).unwrap();
        let mut bench = Bench::new(Content::Keys(keys), least, Limits::default());
        for i in [0, 1, 3, 14_997, 26_997, 27_000, 12] {
            let key = key(i);
            let question = Question::Key(&key);
            assert_eq!(bench.ask(&question, COUNT).unwrap(), bench.clear(&question), "{length} {i}");
        }
        let question = Question::Key(b"another");
        let longest = Wish { longest: true, ..COUNT };
        let told = (&bench.catalogue, &bench.fullness);
        let refused = Prepared::new(told, &question, longest);
        assert!(matches!(refused, Err(QuestionError::Kind(_))));
    }
}

/// An operator's panel over time: indexed anew under other names, with other sites, grown,
/// restarted.
#[test]
fn fault_18_budgets_of_regions_are_about_positions_and_stay_whatever_becomes_of_the_table() {
    let limits = |region| Limits { region, region_tests: 5, ..Limits::default() };
    let panel = |chromosome: &str, positions: &[u64]| {
        let mut content = Content::panel(4).unwrap();
        for position in positions {
            let (reference, alternate) = ("A".into(), "C".into());
            let site = Site { chromosome: chromosome.into(), position: *position, id: None, reference, alternate };
            content.push_site(site, &[true, false, true, false]).unwrap();
        }
        content
    };
    let region = |refused: Result<MatchResult, Refusal>| match refused {
        Err(Refusal::Region { tests: 5, region }) => region,
        other => panic!("expected a refusal by region, found {other:?}"),
    };
    let mut bench = Bench::new(panel("20", &[10, 20, 110, 120, 1_010]), 1, limits(100));
    for _ in 0..5 {
        bench.ask(&window(0, "1"), COUNT).unwrap();
    }
    assert_eq!(region(bench.ask(&window(1, "1"), COUNT)), "20:1-100");
    bench.ask(&window(2, "1"), COUNT).unwrap();
    let kept = Account::decode(&bench.desk.account(&[4; 16]).unwrap().encode()).unwrap();

    // indexed anew: another name, more sites before these, another name of the chromosome, another
    // table beside
    for (number, chromosome) in [(11, "20"), (12, "chr20"), (13, "CHR20")] {
        let content = panel(chromosome, &[1, 3, 5, 50, 111, 1_010]);
        let table = Table::new(content, 1, "anew", &mut rng(number));
        bench.desk.serve_table(table.clone()).unwrap();
        (bench.catalogue, bench.fullness, bench.table) = (table.catalogue(), Fullness::of(&table), table);
        for start in 0..4 {
            assert_eq!(region(bench.ask(&window(start, "1"), COUNT)), "20:1-100", "{chromosome} {start}");
        }
        // a window that only touches the region
        assert_eq!(region(bench.ask(&window(3, "11"), COUNT)), "20:1-100");
    }
    for _ in 0..4 {
        bench.ask(&window(4, "1"), COUNT).unwrap();
    }
    assert_eq!(region(bench.ask(&window(4, "1"), COUNT)), "20:101-200");
    bench.ask(&window(5, "1"), COUNT).unwrap();

    // a restart, with regions of another length: tests count in every region where they may have
    // been
    for (bases, open) in [(100, 2), (50, 2), (1_000, 4)] {
        let mut again = Bench::new(panel("20", &[10, 20, 110, 120, 1_010]), 1, limits(bases));
        again.ask(&window(4, "1"), COUNT).unwrap();
        again.desk.restore(&kept);
        for start in 0..5 {
            let answer = again.ask(&window(start, "1"), COUNT);
            if start < open {
                assert!(region(answer).starts_with("20:"), "{bases} {start}");
            } else {
                assert!(answer.is_ok(), "{bases} {start}");
            }
        }
    }
}

#[test]
fn what_was_used_outlives_the_desk_and_is_charged_against_todays_limits() {
    let limits = Limits { tests: 10, ..Limits::default() };
    let mut bench = Bench::new(filled(Content::panel(60).unwrap()), 1, limits);
    for start in 0..7 {
        bench.ask(&window(start, "01"), COUNT).unwrap();
    }
    let kept = bench.desk.account(&[4; 16]).unwrap().encode();
    let account = Account::decode(&kept).unwrap();
    assert_eq!((account.tests, account.uses["search"], account.regions.regions()), (7, 7, 1));
    for (tests, more) in [(10, 3), (5, 0), (9, 2)] {
        let mut again = Bench::new(filled(Content::panel(60).unwrap()), 1, Limits { tests, ..limits });
        again.ask(&window(0, "01"), COUNT).unwrap();
        again.desk.restore(&account);
        assert_eq!(again.desk.account(&[4; 16]).unwrap(), account);
        for start in 0..more {
            again.ask(&window(start, "01"), COUNT).unwrap();
        }
        assert!(matches!(again.ask(&window(0, "01"), COUNT), Err(Refusal::Budget { .. })), "{tests}");
    }
    bench.desk.withdraw(&bench.table.name);
    assert!(matches!(bench.ask(&window(0, "01"), COUNT), Err(Refusal::Table)));
}
