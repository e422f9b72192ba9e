//! A question to a table whose catalogue and fullness are known: how to make its query, and how to
//! read its answer.
//!
//! A question names a site and alleles, or a key. The server sees its [`Shape`] and **its place**.
//! [`super::hidden`] hides the place. Tables with labels are asked in two rounds ([`labelled`]).

pub mod labelled;

use super::client::{Asker, ClientError, MatchResult};
use super::fullness::Fullness;
use super::messages::{self, CLIENT_BYTES, MAX_BLOCKS, MessageError, Query};
use super::oprf::Mode;
use super::oprf::function::OprfError;
use super::panel::Pattern;
use super::program::{Key, Keys, Layout, Shape};
use super::server::Granularity;
use super::table::{Catalogue, CatalogueContent, MAX_COUNT, Question, SiteError};
use rand_core::CryptoRng;
use tobari_lattice::params::NamedSet;
use tobari_lattice::ring::Modulus;

/// Options of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// What the answer tells.
    pub granularity: Granularity,
    /// Ask how many of the alleles occur, from the first on, not only whether all occur.
    pub longest: bool,
}

/// Why a question cannot be asked, or its answer not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionError {
    /// The table does not answer such a question.
    #[error("expected a question that the table answers, {0}")]
    Kind(&'static str),
    /// The answer would have too many blocks.
    #[error("expected a question whose answer has at most {MAX_BLOCKS} blocks, found one of {found}")]
    Blocks {
        /// The number of blocks.
        found: usize,
    },
    /// The question may need more labels than the server makes for one question.
    #[error("expected a question that needs at most {most} labels, found one of {found}: take fewer places or sites")]
    Labels {
        /// The most labels of the server.
        most: u64,
        /// The labels that the question may need at the fullest windows.
        found: u64,
    },
    /// An input that cannot be evaluated, or an invalid evaluation.
    #[error(transparent)]
    Evaluation(#[from] OprfError),
    /// The table does not have the sites.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// The client's computation failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The bytes are not an answer.
    #[error(transparent)]
    Message(#[from] MessageError),
}

/// A question that is ready for encryption.
#[derive(Clone, Debug)]
pub struct Prepared {
    table: [u8; messages::TABLE_BYTES],
    shape: Shape,
    set: NamedSet,
    granularity: Granularity,
    starts: Vec<u32>,
    numbers: Vec<Key>,
    layout: Layout,
    limbs: usize,
    false_matches: Option<f64>,
}

impl Prepared {
    /// Prepares a question to a table.
    ///
    /// # Errors
    /// [`QuestionError`].
    pub fn new(
        (catalogue, fullness): (&Catalogue, &Fullness),
        question: &Question<'_>,
        wish: Wish,
    ) -> Result<Self, QuestionError> {
        let (shape, starts) = placed(catalogue, question, wish)?;
        let set = shape.set(counted(catalogue)).ok_or(QuestionError::Kind("of fewer bits or sites"))?;
        let slots = set.degree;
        let t = set.plaintext_modulus.and_then(Modulus::new).ok_or(QuestionError::Kind("with parameters"))?;
        let keys = Keys::new(&t, shape, &catalogue.name);
        let numbers = match question {
            Question::Window { pattern, length, .. } if wish.longest => {
                (1..=*length).map(|sites| keys.of_pattern(0, *pattern, sites)).collect()
            }
            Question::Window { pattern, length, .. } => vec![keys.of_pattern(0, *pattern, *length)],
            Question::Key(key) => vec![keys.of_number(key_number(catalogue, key)?)],
        };
        let layout = fitting(fullness, shape, &starts, slots)?;
        let false_matches = keys.false_matches(compared(&layout)).or_else(|| rule_false_matches(catalogue));
        let (table, granularity, limbs) = (catalogue.name, wish.granularity, keys.limbs());
        Ok(Self { table, shape, set, granularity, starts, numbers, layout, limbs, false_matches })
    }

    /// The set of parameters of the key for this question.
    pub fn set(&self) -> NamedSet {
        self.set
    }

    /// The kind of the question, as the server sees it.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The place that the server sees, as the number of a site; none for a key.
    pub fn place(&self) -> Option<u32> {
        self.starts.first().copied()
    }

    /// `log2` of a bound on the probability of a false match; none if false matches are impossible.
    pub fn false_matches(&self) -> Option<f64> {
        self.false_matches
    }

    /// Encodes the query, encrypted with a key of [`Prepared::set`].
    ///
    /// # Errors
    /// [`QuestionError::Client`].
    pub fn query(
        &self,
        asker: &Asker<'_>,
        client: [u8; CLIENT_BYTES],
        rng: &mut impl CryptoRng,
    ) -> Result<Vec<u8>, QuestionError> {
        self.encrypted(asker, client, (&self.numbers, Mode::Plain), rng)
    }

    /// Encodes the query for these numbers.
    fn encrypted(
        &self,
        asker: &Asker<'_>,
        client: [u8; CLIENT_BYTES],
        (numbers, mode): (&[Key], Mode),
        rng: &mut impl CryptoRng,
    ) -> Result<Vec<u8>, QuestionError> {
        let ciphertexts = asker.query(numbers, (&self.layout, self.limbs), rng)?;
        let (table, granularity, shape, starts) = (self.table, self.granularity, self.shape, self.starts.clone());
        Ok(messages::encode_query(&Query { table, client, granularity, shape, mode, starts, ciphertexts }))
    }

    /// Decodes and decrypts the answer.
    ///
    /// # Errors
    /// [`QuestionError`] for an answer that does not fit this question.
    pub fn read(&self, asker: &Asker<'_>, bytes: &[u8]) -> Result<MatchResult, QuestionError> {
        let answer = messages::decode_answer(bytes, asker.parameters())?;
        let counts = self.granularity == Granularity::Count;
        let fits = |block: &super::server::Block| block.equal.len() == self.limbs && block.count.is_some() == counts;
        if answer.len() != self.layout.blocks() || !answer.iter().all(fits) {
            return Err(MessageError::Malformed("answer: blocks, limbs or counts that were not asked for").into());
        }
        Ok(match (asker.read(&answer, (&self.layout, self.limbs))?, self.shape) {
            // one group only shows whether the pattern occurs
            (MatchResult::Present(count), Shape::Longest { .. }) => MatchResult::Longest(1, count),
            (found, _) => found,
        })
    }
}

/// The highest possible count of an answer.
fn counted(catalogue: &Catalogue) -> u64 {
    match &catalogue.content {
        CatalogueContent::Panel { haplotypes, .. } => u64::from(*haplotypes),
        CatalogueContent::Variants { alleles, .. } => u64::from(*alleles),
        CatalogueContent::Keys { .. } => MAX_COUNT,
    }
}

/// The layout of an answer, if the answer is not too long.
fn fitting(fullness: &Fullness, shape: Shape, starts: &[u32], slots: usize) -> Result<Layout, QuestionError> {
    let layout =
        fullness.layout(shape, different(starts), slots).ok_or(QuestionError::Kind("of its kind and length"))?;
    let found = layout.blocks();
    if found > MAX_BLOCKS { Err(QuestionError::Blocks { found }) } else { Ok(layout) }
}

/// The number of different places.
fn different(starts: &[u32]) -> usize {
    1 + starts.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// The most entries that a query is compared with.
fn compared(layout: &Layout) -> usize {
    (0..layout.groups()).map(|group| layout.group(group).len()).sum()
}

/// A bound on false matches from the rule of keys, under which several keys may have one number.
fn rule_false_matches(catalogue: &Catalogue) -> Option<f64> {
    match &catalogue.content {
        CatalogueContent::Keys { rule, entries } => rule.false_positive_log2(*entries),
        _ => None,
    }
}

/// The shape of a question, and its place; no place for a key.
fn placed(catalogue: &Catalogue, question: &Question<'_>, wish: Wish) -> Result<(Shape, Vec<u32>), QuestionError> {
    let (start, length) = match (question, &catalogue.content) {
        (Question::Key(_), CatalogueContent::Keys { .. }) if wish.longest => {
            return Err(QuestionError::Kind("for a whole key: a key has no longest match"));
        }
        (Question::Key(_), CatalogueContent::Keys { rule, .. }) => {
            return Ok((Shape::Word { bits: rule.bits() as usize }, Vec::new()));
        }
        (Question::Key(_), _) => return Err(QuestionError::Kind("about alleles at sites")),
        (_, CatalogueContent::Keys { .. }) => return Err(QuestionError::Kind("for a key")),
        (Question::Window { length, .. }, CatalogueContent::Variants { .. }) if *length != 1 || wish.longest => {
            let why = "of one site: its variants have no phase, so that haplotypes are not known";
            return Err(QuestionError::Kind(why));
        }
        (Question::Window { start, length, .. }, _) => (*start, *length),
    };
    let sites = catalogue.sites().ok_or(QuestionError::Kind("for a key"))?;
    sites.check_window(start, length)?;
    if length > catalogue.longest_pattern() {
        return Err(QuestionError::Kind("of fewer sites"));
    }
    let shape = if wish.longest { Shape::Longest { places: 1, length } } else { Shape::Pattern { places: 1, length } };
    Ok((shape, vec![start as u32]))
}

fn key_number(catalogue: &Catalogue, key: &[u8]) -> Result<u128, QuestionError> {
    match &catalogue.content {
        CatalogueContent::Keys { rule, .. } => Ok(rule.key_number(key)),
        _ => Err(QuestionError::Kind("about alleles at sites")),
    }
}

/// The alleles of a window from text of `0` and `1`: the pattern and its length.
///
/// # Errors
/// [`QuestionError::Kind`] for other text, or for text that is too long.
pub fn pattern(text: &str) -> Result<(Pattern, usize), QuestionError> {
    let allele = |(i, c): (usize, char)| c.to_digit(2).map(|allele| Pattern::from(allele) << i);
    let fits = (1..=super::panel::MAX_LENGTH).contains(&text.chars().count());
    let alleles = text.chars().enumerate().map(allele).collect::<Option<Vec<_>>>().filter(|_| fits);
    let alleles = alleles.ok_or(QuestionError::Kind("of 1 to 128 alleles, each 0 or 1"))?;
    Ok((alleles.iter().fold(0, |all, one| all | one), alleles.len()))
}
