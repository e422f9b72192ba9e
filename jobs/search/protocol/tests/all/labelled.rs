//! Tables of every kind with labels behind a desk, asked in two rounds with the clients' public
//! information. The answers are compared with the tables on plaintext.

use crate::world::{mosaic, rng};
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use tobari_search::client::{Asker, MatchResult};
use tobari_search::desk::{LabelledTable, Limits, Refusal, SearchService};
use tobari_search::fullness::Fullness;
use tobari_search::messages::{self, CLIENT_BYTES};
use tobari_search::oprf::function::{OprfError, Secret};
use tobari_search::question::labelled::{Labels, PreparedLabelled};
use tobari_search::question::{Prepared, QuestionError, Wish, pattern};
use tobari_search::server::Granularity;
use tobari_search::table::{Catalogue, Content, KeyTableBuilder, LIMB_BITS, MAX_COUNT, Question, Site, Sites, Table};

const COUNT: Wish = Wish { granularity: Granularity::Count, longest: false };
const CLIENT: [u8; CLIENT_BYTES] = [4; CLIENT_BYTES];

/// Haplotypes that are mosaics, over two chromosomes.
fn filled(mut content: Content, haplotypes: &[Vec<bool>]) -> Content {
    for site in 0..haplotypes[0].len() {
        let chromosome = if site < 30 { "20" } else { "21" };
        let (reference, alternate) = ("A".into(), "C".into());
        let named = Site { chromosome: chromosome.into(), position: 100 + site as u64, id: None, reference, alternate };
        content.push_site(named, &haplotypes.iter().map(|haplotype| haplotype[site]).collect::<Vec<_>>()).unwrap();
    }
    content
}

/// A desk with one table, and a client of it.
struct Bench {
    desk: SearchService,
    table: Table,
    catalogue: Catalogue,
    fullness: Fullness,
    secret: SecretKey,
}

impl Bench {
    fn new(content: Content, least: u32, limits: Limits) -> Self {
        let table = Table::new(content, least, "a test", &mut rng(1));
        let mut desk = SearchService::new(limits);
        desk.serve_table_labelled(LabelledTable::new(table.clone(), Secret::random(&mut rng(2)), 1 << 22).unwrap());
        // clients get their information as bytes
        let catalogue = Catalogue::decode(&table.catalogue().encode()).unwrap();
        let fullness = Fullness::decode(&Fullness::of(&table).levelled().encode()).unwrap();
        let parameters = crate::world::set().parameters().unwrap();
        let secret = SecretKey::from_seed(&parameters, Seed::random(&mut rng(3)));
        let public = PublicKey::generate(&secret, &mut rng(4));
        desk.register(CLIENT, crate::world::set().name, &messages::encode_registration(&public)).unwrap();
        Self { desk, table, catalogue, fullness, secret }
    }

    fn prepared(&self, question: &Question<'_>, wish: Wish) -> Result<PreparedLabelled, QuestionError> {
        PreparedLabelled::new((&self.catalogue, &self.fullness), question, wish)
    }

    fn labels(&mut self, prepared: &PreparedLabelled) -> Result<Labels, Refusal> {
        let (request, blinding) = prepared.evaluation(CLIENT, &mut rng(5)).unwrap();
        let (reply, _) = self.desk.evaluate(&request)?;
        Ok(prepared.labels(blinding, &reply).unwrap())
    }

    fn answer(&mut self, prepared: &PreparedLabelled, labels: &Labels) -> Result<MatchResult, Refusal> {
        let asker = Asker::new(&self.secret).unwrap();
        let query = prepared.query(&asker, CLIENT, labels, &mut rng(6)).unwrap();
        let (answer, _) = self.desk.answer(&query, &mut rng(7))?;
        Ok(prepared.read(&asker, labels, &answer).unwrap())
    }

    fn ask(&mut self, question: &Question<'_>, wish: Wish) -> Result<MatchResult, Refusal> {
        let prepared = self.prepared(question, wish).unwrap();
        assert_eq!(prepared.set().name, crate::world::set().name);
        let labels = self.labels(&prepared)?;
        self.answer(&prepared, &labels)
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

/// A haplotype's alleles as text, with the last one changed if `changed`.
fn text(haplotype: &[bool], start: usize, length: usize, changed: bool) -> String {
    let alleles = (start..start + length).map(|site| haplotype[site] ^ (changed && site == start + length - 1));
    alleles.map(|allele| if allele { '1' } else { '0' }).collect()
}

#[test]
fn a_panel_with_labels_answers_patterns_and_longest_matches() {
    let haplotypes = mosaic(60, 50, 31);
    for least in [1, 4] {
        let content = filled(Content::panel(60).unwrap(), &haplotypes);
        let mut bench = Bench::new(content, least, Limits::default());
        let (mut found, mut paid) = (0, 0);
        for (start, length, who, changed) in
            [(3, 1, 0, false), (4, 6, 9, false), (4, 6, 9, true), (31, 8, 7, false), (12, 15, 7, true)]
        {
            let text = text(&haplotypes[who], start, length, changed);
            let question = window(start, &text);
            let answer = bench.ask(&question, COUNT).unwrap();
            assert_eq!(answer, bench.clear(&question), "{start} {text}");
            found += usize::from(answer != MatchResult::Absent);
            let sites = bench.table.longest(&question).unwrap();
            let longest = bench.ask(&question, Wish { longest: true, granularity: Granularity::Boolean });
            let expected = if sites == 0 { MatchResult::Absent } else { MatchResult::Longest(sites, None) };
            assert_eq!(longest.unwrap(), expected, "{start} {text}");
            paid += 1 + length as u64;
            assert_eq!(bench.desk.tests_left(&CLIENT), Some(10_000 - paid), "evaluations are paid");
        }
        assert!(found >= 2, "{found}");
    }
}

#[test]
fn variants_without_phase_and_keys_with_labels_are_counted() {
    let haplotypes = mosaic(60, 50, 32);
    let content = Content::Variants { sites: Sites::new(), counts: Vec::new(), alleles: 60.into() };
    let mut bench = Bench::new(filled(content, &haplotypes), 2, Limits::default());
    for start in [0, 17, 39, 5] {
        for allele in ["0", "1"] {
            let question = window(start, allele);
            let answer = bench.ask(&question, COUNT).unwrap();
            assert_eq!(answer, bench.clear(&question), "{start} {allele}");
        }
    }
    for (length, least) in [(3, 1), (8, 2), (30, 1)] {
        let key = |i: u32| {
            let mut key = vec![b'k'; length];
            key[..3].copy_from_slice(&i.to_be_bytes()[1..]);
            key
        };
        let mut builder = KeyTableBuilder::new();
        (0..900).for_each(|i| builder.push(&key(i * 3), 1 + u64::from(i % 5)).unwrap());
        let keys = builder.finish(LIMB_BITS, MAX_COUNT, &mut rng(7)).unwrap();
        let mut bench = Bench::new(Content::Keys(keys), least, Limits { labels: 1, ..Limits::default() });
        let mut answers = Vec::new();
        for i in [0, 1, 3, 1_497, 2_697, 2_700, 12] {
            let key = key(i);
            let question = Question::Key(&key);
            answers.push(bench.ask(&question, COUNT).unwrap());
            assert_eq!(answers.last(), Some(&bench.clear(&question)), "{i}");
        }
        assert!(answers.contains(&MatchResult::Absent) && answers.iter().any(|answer| *answer != MatchResult::Absent));
    }
}

#[test]
fn labels_serve_again_until_the_table_has_another_key_and_then_are_refused_unread() {
    let haplotypes = mosaic(60, 50, 33);
    let mut bench = Bench::new(filled(Content::panel(60).unwrap(), &haplotypes), 1, Limits::default());
    let question = window(5, &text(&haplotypes[2], 5, 9, false));
    let prepared = bench.prepared(&question, COUNT).unwrap();
    let labels = bench.labels(&prepared).unwrap();
    for _ in 0..2 {
        assert_eq!(bench.answer(&prepared, &labels).unwrap(), bench.clear(&question));
    }
    assert_eq!(bench.desk.tests_left(&CLIENT), Some(9_999), "one evaluation, two answers");
    let table = LabelledTable::new(bench.table.clone(), Secret::random(&mut rng(9)), 0).unwrap();
    bench.desk.serve_table_labelled(table);
    assert!(matches!(bench.answer(&prepared, &labels), Err(Refusal::Revision)));
    assert_eq!(bench.ask(&question, COUNT).unwrap(), bench.clear(&question));
    // a plain question, and more or fewer elements than the client sent
    let plain = Prepared::new((&bench.catalogue, &bench.fullness), &question, COUNT);
    let (plain, asker) = (plain.unwrap(), |secret| Asker::new(secret).unwrap());
    let secret = SecretKey::from_seed(&plain.set().parameters().unwrap(), Seed::random(&mut rng(1)));
    let query = plain.query(&asker(&secret), CLIENT, &mut rng(1)).unwrap();
    assert!(matches!(bench.desk.answer(&query, &mut rng(1)), Err(Refusal::Mode("with labels"))));
    let longest = bench.prepared(&question, Wish { longest: true, ..COUNT }).unwrap();
    let (request, _) = longest.evaluation(CLIENT, &mut rng(5)).unwrap();
    let (reply, _) = bench.desk.evaluate(&request).unwrap();
    let (_, blinding) = prepared.evaluation(CLIENT, &mut rng(5)).unwrap();
    let wrong = prepared.labels(blinding, &reply).err().unwrap();
    assert!(matches!(wrong, QuestionError::Evaluation(OprfError::Count { expected: 1, found: 9 })), "{wrong}");
}

#[test]
fn a_question_that_needs_more_labels_than_the_limit_is_refused_on_either_side_and_costs_no_use() {
    let haplotypes = mosaic(60, 50, 34);
    let content = || filled(Content::panel(60).unwrap(), &haplotypes);
    let question = window(5, &text(&haplotypes[2], 5, 9, false));
    let longest = Wish { longest: true, ..COUNT };
    let most = {
        let Content::Panel { panel, .. } = content() else { unreachable!() };
        (1..=9).map(|sites| u64::from(panel.most_patterns(sites).unwrap())).sum::<u64>()
    };
    let mut bench = Bench::new(content(), 1, Limits { labels: most as usize, ..Limits::default() });
    assert_eq!(
        bench.ask(&question, longest).unwrap(),
        MatchResult::Longest(9, Some(bench.table.count(&question).unwrap()))
    );
    let mut bench = Bench::new(content(), 1, Limits { labels: most as usize - 1, ..Limits::default() });
    let prepared = bench.prepared(&question, longest).unwrap();
    assert!(prepared.check(most).is_ok());
    let refused = prepared.check(most - 1).unwrap_err().to_string();
    let labels = bench.labels(&prepared).unwrap();
    let on_the_server = bench.answer(&prepared, &labels).unwrap_err();
    assert!(matches!(on_the_server, Refusal::Labels { .. }));
    assert_eq!(on_the_server.to_string(), refused);
    assert!(refused.contains(&format!("at most {} labels, found one of {most}", most - 1)), "{refused}");
    assert_eq!(bench.desk.account(&CLIENT).unwrap().uses["search-40"], 0);
}
