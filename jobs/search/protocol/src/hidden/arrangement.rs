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
use super::numbers::{Kind, Numbers, Part, greatest_count};
use super::program::{Layout, LayoutError};
use super::server::{Form, Matcher};
use crate::messages::TABLE_BYTES;
use crate::oprf::labels::Labeller;
use crate::program::EntryError;
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
    /// Counts without room.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The part needs too many labels.
    #[error("expected a cell with at most {most} labels, found one of {found}: ask for fewer sites")]
    Labels {
        /// The most labels.
        most: usize,
        /// Labels of the cell.
        found: usize,
    },
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
        Self::of_table((matcher, None), table, kind, (room, shelf), rng)
    }

    /// The same with the labels of this labeller, made in some 40 us each.
    ///
    /// # Errors
    /// [`ArrangeError`].
    pub fn labelled(
        (matcher, labeller): (&Arc<Matcher>, &Labeller),
        table: &Table,
        kind: Kind,
        room: u64,
        shelf: Option<&dyn Shelf>,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, ArrangeError> {
        Self::of_table((matcher, Some(labeller)), table, kind, (room, shelf), rng)
    }

    fn of_table(
        (matcher, labeller): (&Arc<Matcher>, Option<&Labeller>),
        table: &Table,
        kind: Kind,
        (room, shelf): (u64, Option<&dyn Shelf>),
        rng: &mut impl CryptoRng,
    ) -> Result<Self, ArrangeError> {
        let mut numbers = Numbers::new(&table.catalogue(), kind)?;
        if let Some(labeller) = labeller {
            numbers = numbers.with_labels(*labeller.revision());
        }
        let labels = labeller.map(|labeller| (labeller, matcher.modulus()));
        let entries = numbers.numbered(&numbers.items(table)?, labels)?;
        Self::of_entries(matcher, &numbers, (&entries, greatest_count(table)), room, shelf, rng)
    }

    /// Arranges the entries of a part of a table, and a bound on the table's counts, as
    /// [`Self::new`].
    pub(crate) fn of_entries(
        matcher: &Arc<Matcher>,
        numbers: &Numbers,
        (entries, greatest): (&[(u128, u64)], u64),
        room: u64,
        shelf: Option<&dyn Shelf>,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, ArrangeError> {
        let parameters = matcher.parameters();
        let pages = pages(matcher, numbers.last(), entries.len())?;
        let arranged =
            Arranged::new(parameters, (entries, numbers.labels().is_some()), (numbers.last(), greatest), pages, rng)?;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;
    use crate::hidden::index::Block;
    use crate::oprf::function::Secret;
    use crate::oprf::labels::Label;
    use crate::panel::Pattern;
    use crate::table::{Content, Site};
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
    use tobari_lattice::bgv::Encoder;
    use tobari_lattice::wire;

    const LENGTH: usize = 6;

    fn rng(seed: u8) -> ChaCha20Rng {
        ChaCha20Rng::from_seed([seed; 32])
    }

    fn table() -> Table {
        let mut content = Content::panel(50).unwrap();
        for i in 0..300u64 {
            let site = Site {
                id: None,
                chromosome: "1".into(),
                position: 10 + i,
                reference: "A".into(),
                alternate: "C".into(),
            };
            let alleles: Vec<bool> = (0..50).map(|j| (i * 0x9e37 + j / 3 * 0x79b9).count_ones() % 3 == 0).collect();
            content.push_site(site, &alleles).unwrap();
        }
        Table::new(content, 1, "", &mut rng(1))
    }

    /// The limbs and the count of every slot: all that a client could read if no mask hid anything.
    fn slots(arrangement: &Arrangement) -> Vec<Vec<u64>> {
        let (parameters, layout) = (arrangement.matcher.parameters(), arrangement.layout());
        let encoder = Encoder::new(parameters).unwrap();
        let mut all = Vec::new();
        for block in 0..layout.blocks() {
            let Some(Block::Packed(bytes)) = arrangement.blocks.block(block) else { panic!("packed blocks") };
            let polynomials: Vec<Vec<i64>> = bytes
                .chunks(bytes.len() / layout.polynomials())
                .map(|bytes| encoder.decode(&wire::unpack_plaintext(bytes, parameters).unwrap()).unwrap())
                .collect();
            for page in polynomials.chunks(layout.page_polynomials()) {
                let t = arrangement.matcher.modulus();
                all.extend(
                    (0..encoder.slots()).map(|slot| page.iter().map(|one| t.reduce_signed(one[slot])).collect()),
                );
            }
        }
        all
    }

    /// Pearson's statistic of numbers below `t` in 16 classes; its 99.99th percentile with 15
    /// degrees of freedom is 44.3.
    fn spread(values: impl Iterator<Item = u64>, t: u64) -> f64 {
        let mut classes = [0f64; 16];
        values.for_each(|value| classes[(u128::from(value) * 16 / u128::from(t)) as usize] += 1.0);
        let expected = classes.iter().sum::<f64>() / 16.0;
        classes.iter().map(|found| (found - expected).powi(2) / expected).sum()
    }

    /// The adversary sees through all masks of a whole arrangement. Without labels it has the
    /// table: it counts the entries and reads their numbers and counts. With labels every slot is
    /// uniform, with or without an entry, and one evaluation gives one entry.
    #[test]
    fn seeing_through_all_masks_gives_a_hidden_table_but_of_one_with_labels_only_what_was_evaluated() {
        let parameters = set().unwrap().parameters().unwrap();
        let (matcher, table) = (Arc::new(Matcher::new(&parameters).unwrap()), table());
        let t = matcher.modulus();
        let numbers = Numbers::new(&table.catalogue(), Kind::Windows(LENGTH)).unwrap();
        let entries = numbers.entries(&table).unwrap();
        assert!(entries.len() > 2_000, "{}", entries.len());
        // packed blocks only
        let room = 200_000;
        let plain = Arrangement::new(&matcher, &table, Kind::Windows(LENGTH), room, None, &mut rng(2)).unwrap();
        let seen = slots(&plain);
        let there: Vec<_> = seen.iter().filter(|slot| slot[0] != t.value() - 1).collect();
        assert_eq!(there.len(), entries.len(), "the number of entries");
        let count =
            |of: &dyn Fn(u64) -> bool, all: &mut dyn Iterator<Item = u64>| all.filter(|count| of(*count)).count();
        let singles = count(&|count| count == 1, &mut entries.iter().map(|entry| entry.1));
        assert_eq!(count(&|count| count == 1, &mut there.iter().map(|slot| slot[slot.len() - 1])), singles);

        let secret = || Secret::random(&mut rng(7));
        let labeller = Labeller::new(&table.name, secret(), 0).unwrap();
        let of = (&matcher, &labeller);
        let labelled = Arrangement::labelled(of, &table, Kind::Windows(LENGTH), room, None, &mut rng(2)).unwrap();
        let seen = slots(&labelled);
        let limbs = labelled.layout().limbs();
        assert_eq!((seen.len() % matcher.slots(), limbs), (0, 3));
        assert!(seen.iter().all(|slot| slot[..limbs].iter().all(|limb| *limb != t.value() - 1)), "no slot is empty");
        for limb in 0..=limbs {
            let found = spread(seen.iter().map(|slot| slot[limb]), t.value());
            assert!(found < 44.3, "limb {limb}: {found}");
        }
        // entries of one start, by their labels: only those patterns, with their counts
        let Content::Panel { panel, .. } = &table.content else { panic!("a panel") };
        let places = panel.patterns(9, LENGTH).unwrap();
        let label_of = |secret: &Secret, pattern: Pattern| {
            let question = crate::table::Question::Window { start: 9, length: LENGTH, pattern };
            Label::new(secret.outputs(&[numbers.input(&question).unwrap()]).remove(0)).hidden(t)
        };
        let slot_of = |number: u128| {
            let (_, rest) = labelled.layout().divide(t, number).unwrap();
            let limbs: Vec<u64> = labelled.layout().limbs_of(t, rest).collect();
            seen.iter().find(|slot| slot[..limbs.len()] == limbs[..])
        };
        for pattern in 0..1 << LENGTH {
            let (number, pads) = label_of(&secret(), pattern);
            let expected = places.iter().find(|(there, _)| *there == pattern).map(|(_, count)| u64::from(*count));
            assert_eq!(slot_of(number).map(|slot| t.sub(slot[limbs], pads[0])), expected, "{pattern:b}");
            // under another key, nothing is there
            assert!(slot_of(label_of(&Secret::random(&mut rng(8)), pattern).0).is_none());
        }
    }
}
