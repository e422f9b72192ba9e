//! A table that is arranged for questions with the place hidden: its entries become blocks in
//! memory, in a layout whose answers hide enough.
//!
//! **Choices.** Blocks have the fewest pages, of powers of two, with which there are at most
//! [`LEAVES`] blocks and limbs. So one registration, of [`DEPTH`] steps, fits every table. Blocks
//! are prepared if the memory has room for that. Otherwise they are packed, which takes a tenth of
//! the memory and makes questions slower. An arrangement is rejected when it is made, not when a
//! client asks, if its answers would differ by more than [`DISTANCE_BITS`] allows.

use super::index::{Arranged, Blocks, IndexError, Shelf, polynomial_bytes};
use super::messages::encode_layout;
use super::numbers::{Kind, Numbers, Part};
use super::program::{Layout, LayoutError};
use super::server::{Form, Matcher};
use crate::messages::TABLE_BYTES;
use crate::question::QuestionError;
use crate::server::Granularity;
use crate::table::Table;
use rand_core::CryptoRng;
use std::sync::Arc;
use tobari_lattice::bgv::EncodeError;
use tobari_lattice::params::NamedSet;

/// The steps of an expansion that a registration has keys for.
pub const DEPTH: usize = 9;
/// The most blocks and limbs: `2^DEPTH`.
pub const LEAVES: usize = 1 << DEPTH;
/// The statistical distance of the noise of two answers is at most 2 to the minus this number.
pub const DISTANCE_BITS: f64 = 40.0;

/// The set of parameters of all queries with the place hidden.
pub fn set() -> Option<NamedSet> {
    NamedSet::from_name("search-hidden")
}

/// Why a table cannot be arranged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArrangeError {
    /// The table does not answer such questions.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// Entries without room, or counts that are too large.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// Impossible sizes.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The encoder failed.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The blocks need more memory than there is.
    #[error("expected blocks of at most {room} bytes in memory, found {found}, and no other place for them")]
    Memory {
        /// Bytes of memory that are allowed.
        room: u64,
        /// Bytes that the packed blocks take.
        found: u64,
    },
    /// The blocks could not be kept outside of memory.
    #[error("expected a place for {found} bytes of blocks: {reason}")]
    Shelf {
        /// Bytes of the blocks.
        found: u64,
        /// The reason.
        reason: String,
    },
    /// The answers would tell too much by their noise.
    #[error(
        "expected answers whose noise differs by at most 2^-{DISTANCE_BITS}, found 2^{found:.1}, because {entries} different entries need so many answers: ask for fewer sites, or divide the table"
    )]
    Distance {
        /// `log2` of the distance.
        found: f64,
        /// Entries of the table.
        entries: usize,
    },
}

/// A table that is arranged.
pub struct Arrangement {
    name: [u8; TABLE_BYTES],
    table: [u8; TABLE_BYTES],
    kind: Kind,
    part: Part,
    places: usize,
    entries: usize,
    false_positives: Option<f64>,
    pub(crate) form: Form,
    pub(crate) blocks: Box<dyn Blocks + Send + Sync>,
    memory: u64,
    shelved: u64,
    pub(crate) matcher: Arc<Matcher>,
    prepared: bool,
    told: Vec<u8>,
}

impl Arrangement {
    /// Arranges a table for questions of one kind, in at most `room` bytes of memory. Blocks
    /// without room go to the shelf, one by one; each question reads them back in order. The key of
    /// the permutation and the slots of entries are drawn at random.
    ///
    /// # Errors
    /// [`ArrangeError`].
    pub fn new(
        matcher: &Arc<Matcher>,
        table: &Table,
        kind: Kind,
        room: u64,
        shelf: Option<&dyn Shelf>,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, ArrangeError> {
        let numbers = Numbers::new(&table.catalogue(), kind)?;
        let entries = numbers.entries(table)?;
        Self::of_entries(matcher, &numbers, &entries, room, shelf, rng)
    }

    /// Arranges the entries of a part of a table, as [`Self::new`].
    pub(crate) fn of_entries(
        matcher: &Arc<Matcher>,
        numbers: &Numbers,
        entries: &[(u128, u64)],
        room: u64,
        shelf: Option<&dyn Shelf>,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, ArrangeError> {
        let parameters = matcher.parameters();
        let pages = pages(matcher, numbers.last(), entries.len())?;
        let arranged = Arranged::new(parameters, entries, numbers.last(), pages, rng)?;
        let entries = entries.len();
        let form = Form::new(parameters, arranged.layout())?;
        let found = matcher.distance(&form, Granularity::Count);
        if found > -DISTANCE_BITS {
            return Err(ArrangeError::Distance { found, entries });
        }
        let polynomials = (arranged.layout().blocks() * arranged.layout().polynomials()) as u64;
        let degree = parameters.degree() as u64;
        let packed = polynomials * (degree * u64::from(matcher.modulus().bits())).div_ceil(8);
        let prepared = polynomials.saturating_mul(8 * degree * parameters.data_primes() as u64) <= room;
        let (blocks, memory, shelved): (Box<dyn Blocks + Send + Sync>, u64, u64) = if packed <= room {
            let blocks = arranged.table(rng)?;
            drop(arranged);
            let blocks = if prepared { blocks.prepared()? } else { blocks };
            let memory = blocks.memory() as u64;
            (Box::new(blocks), memory, 0)
        } else {
            let shelf = shelf.ok_or(ArrangeError::Memory { room, found: packed })?;
            let bytes = arranged.layout().polynomials() * polynomial_bytes(parameters);
            let kept = shelf.keep(arranged.layout().blocks(), bytes, &mut |block| arranged.pack(block, rng));
            (kept.map_err(|reason| ArrangeError::Shelf { found: packed, reason })?, 0, packed)
        };
        let layout = form.layout();
        let both =
            [numbers.false_positives(entries as u64), layout.false_positives(matcher.slots(), matcher.modulus())];
        let sum = both.into_iter().flatten().map(f64::exp2).sum::<f64>();
        Ok(Self {
            name: numbers.name(layout),
            table: *numbers.table(),
            kind: numbers.kind(),
            part: numbers.part(),
            places: numbers.places(),
            entries,
            false_positives: (sum > 0.0).then(|| sum.log2()),
            told: encode_layout(layout),
            form,
            blocks,
            memory,
            shelved,
            matcher: Arc::clone(matcher),
            prepared,
        })
    }

    /// The arrangement's own name, as in queries.
    pub fn name(&self) -> &[u8; TABLE_BYTES] {
        &self.name
    }

    /// The name of the table.
    pub fn table(&self) -> &[u8; TABLE_BYTES] {
        &self.table
    }

    /// The kind of questions.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The part of the table.
    pub fn part(&self) -> Part {
        self.part
    }

    /// The number of places among which the true place is hidden.
    pub fn places(&self) -> usize {
        self.places
    }

    /// The number of entries.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// `log2` of a bound on the probability that the answer for an absent pattern or key says that
    /// it occurs; none if that is impossible.
    pub fn false_positives(&self) -> Option<f64> {
        self.false_positives
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        self.form.layout()
    }

    /// The bytes of the layout that clients get ([`encode_layout`]).
    pub fn told(&self) -> &[u8] {
        &self.told
    }

    /// Whether blocks are prepared; otherwise they are packed.
    pub fn prepared(&self) -> bool {
        self.prepared
    }

    /// Bytes of the blocks in memory.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Bytes of the blocks outside of memory.
    pub fn shelved(&self) -> u64 {
        self.shelved
    }
}

/// The fewest pages with which blocks and limbs are at most [`LEAVES`]. The choice does not depend
/// on the permutation's key.
fn pages(matcher: &Matcher, last: u128, entries: usize) -> Result<usize, ArrangeError> {
    let sizes = (matcher.slots(), matcher.modulus());
    let mut refused = None;
    for pages in (0..).map(|power| 1 << power).take_while(|pages| *pages <= super::program::MAX_PAGES) {
        match Layout::choose([0; super::permutation::KEY_BYTES], last, entries, sizes, pages) {
            Ok(layout) if layout.blocks() + layout.limbs() <= LEAVES => return Ok(pages),
            Ok(layout) => {
                let (blocks, limbs) = (layout.blocks(), layout.limbs());
                refused = Some(LayoutError::Size { most: LEAVES - limbs, blocks, pages, limbs });
            }
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.map_or(ArrangeError::Question(QuestionError::Kind("of fewer entries")), ArrangeError::Layout))
}
