//! A question to a table of which the catalogue and the fullness are known: what goes into a query,
//! and how its answer is read.
//!
//! A question names a site and alleles, or a key; what the server sees of it is its [`Shape`], and
//! the places among which the true one is ([`super::client::places`]), nothing else. One place is
//! the true one in public. Other places hide the true one for one question only ([`decoys`]).
//! Tables with labels are asked in two rounds ([`labelled`]).

pub mod decoys;
pub mod labelled;

use super::client::{Asker, ClientError, MatchResult, places};
use super::fullness::Fullness;
use super::messages::{self, CLIENT_BYTES, MAX_BLOCKS, MAX_PLACES, MessageError, Query};
use super::oprf::Mode;
use super::oprf::function::OprfError;
use super::panel::Pattern;
use super::program::{Key, Keys, Layout, Shape};
use super::server::Granularity;
use super::table::{Catalogue, CatalogueContent, MAX_COUNT, Question, SiteError};
use decoys::Decoys;
use rand_core::CryptoRng;
use tobari_lattice::params::NamedSet;
use tobari_lattice::ring::Modulus;

/// What is wanted besides the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// What is told.
    pub granularity: Granularity,
    /// How many of the alleles occur, from the first on, and not only whether all do.
    pub longest: bool,
    /// Places of the query, the true one among them: 1 says the place in public.
    pub places: u32,
}

/// Why a question cannot be asked or its answer not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionError {
    /// A question that this table does not answer.
    #[error("expected a question that the table answers, {0}")]
    Kind(&'static str),
    /// Too many places, or none.
    #[error("expected 1 to {most} places, found {found}")]
    Places {
        /// How many there may be.
        most: u32,
        /// How many.
        found: u32,
    },
    /// Other places than those that this client showed before.
    #[error(
        "decoys hide one place of one table: after another question the server could compare both \
         lists of places, and see which place is meant. Hide the place among all places \
         (tobari search query --hidden), or ask without decoys"
    )]
    Decoys,
    /// An answer with more blocks than there may be.
    #[error("expected a question whose answer has at most {MAX_BLOCKS} blocks, found one of {found}")]
    Blocks {
        /// How many.
        found: usize,
    },
    /// A question that would need more labels than the server makes for one.
    #[error("expected a question that needs at most {most} labels, found one of {found}: take fewer places or sites")]
    Labels {
        /// How many it may need.
        most: u64,
        /// How many it may need at the fullest windows.
        found: u64,
    },
    /// What cannot be evaluated, or an evaluation that is none.
    #[error(transparent)]
    Evaluation(#[from] OprfError),
    /// Sites that the table has not.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// What the client's half says.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An answer that is none.
    #[error(transparent)]
    Message(#[from] MessageError),
}

/// A question that is ready to be encrypted.
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
    /// The question, of a table; `decoys` has the secret that the other places are a function of,
    /// and the places that were shown before.
    ///
    /// # Errors
    /// [`QuestionError`].
    pub fn new(
        (catalogue, fullness): (&Catalogue, &Fullness),
        question: &Question<'_>,
        wish: Wish,
        decoys: &Decoys,
    ) -> Result<Self, QuestionError> {
        let (shape, starts, index) = placed(catalogue, question, wish, decoys)?;
        let set = shape.set(counted(catalogue)).ok_or(QuestionError::Kind("of fewer bits or sites"))?;
        let slots = set.degree;
        let t = set.plaintext_modulus.and_then(Modulus::new).ok_or(QuestionError::Kind("with parameters"))?;
        let keys = Keys::new(&t, shape, &catalogue.name);
        let numbers = match question {
            Question::Window { pattern, length, .. } if wish.longest => {
                (1..=*length).map(|sites| keys.of_pattern(index, *pattern, sites)).collect()
            }
            Question::Window { pattern, length, .. } => vec![keys.of_pattern(index, *pattern, *length)],
            Question::Key(key) => vec![keys.of_number(key_number(catalogue, key)?)],
        };
        let layout = fitting(fullness, shape, &starts, slots)?;
        let false_matches = keys.false_matches(compared(&layout)).or_else(|| rule_false_matches(catalogue));
        let (table, granularity, limbs) = (catalogue.name, wish.granularity, keys.limbs());
        Ok(Self { table, shape, set, granularity, starts, numbers, layout, limbs, false_matches })
    }

    /// The set of parameters whose key asks it.
    pub fn set(&self) -> NamedSet {
        self.set
    }

    /// What the server sees of it.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The places that the server sees, as numbers of sites, the true one among them; none for a
    /// key.
    pub fn places(&self) -> &[u32] {
        &self.starts
    }

    /// `log2` of a bound on the probability of a false match; none where there is none.
    pub fn false_matches(&self) -> Option<f64> {
        self.false_matches
    }

    /// The query's bytes, encrypted with a key of [`Prepared::set`].
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

    /// The query for numbers that came about in some way.
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

    /// Reads the answer's bytes.
    ///
    /// # Errors
    /// [`QuestionError`] for an answer that is none to this question.
    pub fn read(&self, asker: &Asker<'_>, bytes: &[u8]) -> Result<MatchResult, QuestionError> {
        let answer = messages::decode_answer(bytes, asker.parameters())?;
        let counts = self.granularity == Granularity::Count;
        let fits = |block: &super::server::Block| block.equal.len() == self.limbs && block.count.is_some() == counts;
        if answer.len() != self.layout.blocks() || !answer.iter().all(fits) {
            return Err(MessageError::Malformed("answer: blocks, limbs or counts that were not asked for").into());
        }
        Ok(match (asker.read(&answer, (&self.layout, self.limbs))?, self.shape) {
            // one group says only whether it occurs
            (MatchResult::Present(count), Shape::Longest { .. }) => MatchResult::Longest(1, count),
            (found, _) => found,
        })
    }
}

/// The highest count that an answer may tell.
fn counted(catalogue: &Catalogue) -> u64 {
    match &catalogue.content {
        CatalogueContent::Panel { haplotypes, .. } => u64::from(*haplotypes),
        CatalogueContent::Variants { alleles, .. } => u64::from(*alleles),
        CatalogueContent::Keys { .. } => MAX_COUNT,
    }
}

/// The layout of an answer, if it is not too long.
fn fitting(fullness: &Fullness, shape: Shape, starts: &[u32], slots: usize) -> Result<Layout, QuestionError> {
    let layout =
        fullness.layout(shape, different(starts), slots).ok_or(QuestionError::Kind("of its kind and length"))?;
    let found = layout.blocks();
    if found > MAX_BLOCKS { Err(QuestionError::Blocks { found }) } else { Ok(layout) }
}

/// How many different places there are.
fn different(starts: &[u32]) -> usize {
    1 + starts.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// Entries that a query is compared with, at most.
fn compared(layout: &Layout) -> usize {
    (0..layout.groups()).map(|group| layout.group(group).len()).sum()
}

/// Of a rule of keys, under which some have one number.
fn rule_false_matches(catalogue: &Catalogue) -> Option<f64> {
    match &catalogue.content {
        CatalogueContent::Keys { rule, entries } => rule.false_positive_log2(*entries),
        _ => None,
    }
}

/// What is asked at which places, and which one of these is meant.
fn placed(
    catalogue: &Catalogue,
    question: &Question<'_>,
    wish: Wish,
    decoys: &Decoys,
) -> Result<(Shape, Vec<u32>, usize), QuestionError> {
    let (start, length) = match (question, &catalogue.content) {
        (Question::Key(_), CatalogueContent::Keys { .. }) if wish.longest => {
            return Err(QuestionError::Kind("for a whole key: a key has no longest match"));
        }
        (Question::Key(_), CatalogueContent::Keys { rule, .. }) => {
            return Ok((Shape::Word { bits: rule.bits() as usize }, Vec::new(), 0));
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
    // places are counted over windows on any chromosome, so that what is drawn does not depend on
    // where they end
    let windows: Vec<u32> = match wish.places {
        1 => Vec::new(),
        _ => (0..sites.len())
            .filter(|start| sites.check_window(*start, length).is_ok())
            .map(|start| start as u32)
            .collect(),
    };
    let most = windows.len().clamp(1, MAX_PLACES) as u32;
    if !(1..=most).contains(&wish.places) {
        return Err(QuestionError::Places { most, found: wish.places });
    }
    let (starts, index) = if wish.places == 1 {
        (vec![start as u32], 0)
    } else {
        let at = windows.partition_point(|window| (*window as usize) < start) as u32;
        let (chosen, index) = places(decoys.secret(), &catalogue.name, (at, windows.len() as u32), wish.places)?;
        (chosen.into_iter().map(|window| windows[window as usize]).collect(), index)
    };
    decoys.show(&starts)?;
    let places = starts.len();
    let shape = if wish.longest { Shape::Longest { places, length } } else { Shape::Pattern { places, length } };
    Ok((shape, starts, index))
}

fn key_number(catalogue: &Catalogue, key: &[u8]) -> Result<u128, QuestionError> {
    match &catalogue.content {
        CatalogueContent::Keys { rule, .. } => Ok(rule.key_number(key)),
        _ => Err(QuestionError::Kind("about alleles at sites")),
    }
}

/// The alleles of a window as text, `0` and `1`: the pattern, and how many there are.
///
/// # Errors
/// [`QuestionError::Kind`] for other text, or too long a one.
pub fn pattern(text: &str) -> Result<(Pattern, usize), QuestionError> {
    let allele = |(i, c): (usize, char)| c.to_digit(2).map(|allele| Pattern::from(allele) << i);
    let fits = (1..=super::panel::MAX_LENGTH).contains(&text.chars().count());
    let alleles = text.chars().enumerate().map(allele).collect::<Option<Vec<_>>>().filter(|_| fits);
    let alleles = alleles.ok_or(QuestionError::Kind("of 1 to 128 alleles, each 0 or 1"))?;
    Ok((alleles.iter().fold(0, |all, one| all | one), alleles.len()))
}
