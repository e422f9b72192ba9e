//! A table arranged to be asked with the place hidden: from its entries to blocks in memory, with a
//! layout whose answers hide what they should.
//!
//! **Choices.** Blocks have the fewest pages, of powers of two, with which there are at most
//! [`LEAVES`] blocks and limbs: so one registration, of [`DEPTH`] steps, is good for every table.
//! Blocks are prepared where that fits the memory, and packed else, which is a tenth of it and
//! takes longer to ask. An arrangement whose answers would differ by more than [`DISTANCE_BITS`]
//! says is refused when it is made, and not when it is asked.

use super::index::{Arranged, Blocks, IndexError, Shelf, polynomial_bytes};
use super::messages::encode_layout;
use super::numbers::{Kind, Numbers};
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

/// Steps that a registration is for.
pub const DEPTH: usize = 9;
/// Blocks and limbs at most: `2^DEPTH`.
pub const LEAVES: usize = 1 << DEPTH;
/// The statistical distance of the noise of two answers is at most two to the power of less this.
pub const DISTANCE_BITS: f64 = 32.0;

/// The set of parameters of all queries with the place hidden.
pub fn set() -> Option<NamedSet> {
    NamedSet::from_name("search-hidden")
}

/// Why a table cannot be arranged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArrangeError {
    /// A table that does not answer such questions.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// Entries that have no room, or counts that no number holds.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// Sizes that are none.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// What the encoder says.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// More than there is memory for.
    #[error("expected blocks of at most {room} bytes in memory, found {found}, and no other place for them")]
    Memory {
        /// Bytes that there are.
        room: u64,
        /// Bytes that it takes, packed.
        found: u64,
    },
    /// Blocks that could not be kept outside of memory.
    #[error("expected a place for {found} bytes of blocks: {reason}")]
    Shelf {
        /// Bytes.
        found: u64,
        /// Why there is none.
        reason: String,
    },
    /// Answers that would tell too much by their noise.
    #[error(
        "expected answers whose noise differs by at most 2^-{DISTANCE_BITS}, found 2^{found:.1}, because {entries} different entries need so many answers: ask for fewer sites, or divide the table"
    )]
    Distance {
        /// `log2` of it.
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
    /// For questions of one kind, in at most `room` bytes of memory; what needs more goes to the
    /// shelf, block by block, and comes back in order with each question. The key of the
    /// permutation and the slots of entries are drawn.
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
        let (catalogue, parameters) = (table.catalogue(), matcher.parameters());
        let numbers = Numbers::new(&catalogue, kind)?;
        let entries = numbers.entries(table)?;
        let pages = pages(matcher, numbers.last(), entries.len())?;
        let arranged = Arranged::new(parameters, &entries, numbers.last(), pages, rng)?;
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
            table: catalogue.name,
            kind,
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

    /// Its own name, which queries have.
    pub fn name(&self) -> &[u8; TABLE_BYTES] {
        &self.name
    }

    /// The name of the table that it is of.
    pub fn table(&self) -> &[u8; TABLE_BYTES] {
        &self.table
    }

    /// What may be asked.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Among how many places the one that is meant is.
    pub fn places(&self) -> usize {
        self.places
    }

    /// How many entries it has.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// `log2` of a bound on the chance that what does not occur is answered as if it did; none if
    /// that cannot be.
    pub fn false_positives(&self) -> Option<f64> {
        self.false_positives
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        self.form.layout()
    }

    /// The layout as clients are told it ([`encode_layout`]).
    pub fn told(&self) -> &[u8] {
        &self.told
    }

    /// Whether blocks are prepared, and not packed.
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

/// The fewest pages with which blocks and limbs are at most [`LEAVES`]. What is chosen does not
/// depend on the permutation's key.
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
