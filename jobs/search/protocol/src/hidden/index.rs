//! A table as the server keeps it: entries in random slots of their blocks, and blocks as
//! polynomials.
//!
//! **Two forms.** A packed polynomial is its coefficients modulo `t`: 20 KB for 8,192 numbers of 20
//! bits. The server transforms it for every query. A prepared polynomial is its values modulo every
//! prime, 196 KB, and is ready for products. [`Blocks`] gives the blocks, also those of a shard or
//! of a table in a file.

use super::permutation::KEY_BYTES;
use super::program::{Layout, LayoutError};
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use rand_core::{CryptoRng, Rng};
use std::borrow::Cow;
use tobari_lattice::bgv::{EncodeError, Encoder, PreparedPlaintext};
use tobari_lattice::params::{LatticeParameters, Plaintext};
use tobari_lattice::ring::Modulus;
use tobari_lattice::wire::{self, LatticeWireError};
use zeroize::Zeroizing;

/// How many permutations are tried before a table is rejected. One in a thousand tables needs a
/// second one.
const TRIES: usize = 20;

/// Why a table cannot be laid out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The count is zero or too large.
    #[error("expected counts from 1 to {most}, found {found}")]
    Count {
        /// The largest number.
        most: u64,
        /// The count.
        found: u64,
    },
    /// A key occurs twice.
    #[error("expected each key once, found one twice")]
    Repeated,
    /// No permutation puts the entries into their blocks.
    #[error(
        "expected a permutation without a block of more than {slots} entries and without equal fingerprints, found none in {TRIES}"
    )]
    Overfull {
        /// Slots of a block.
        slots: usize,
    },
    /// Impossible sizes, or keys beyond the last one.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The encoder failed.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The bytes are not a block.
    #[error(transparent)]
    Object(#[from] LatticeWireError),
    /// The bytes have the length of another number of blocks.
    #[error("expected {expected} bytes of blocks, found {found}")]
    Bytes {
        /// The number of bytes that there must be.
        expected: usize,
        /// The number of bytes found.
        found: usize,
    },
}

/// An entry in its block.
struct Entry {
    /// The limbs that are compared, as one number.
    rest: u128,
    count: u64,
}

/// A table with a layout, ready to be written block by block.
pub struct Arranged {
    layout: Layout,
    parameters: LatticeParameters,
    encoder: Encoder,
    t: Modulus,
    blocks: Vec<Vec<Entry>>,
    /// Whether slots without an entry look like entries.
    labelled: bool,
}

impl Arranged {
    /// Arranges entries under different keys up to `last`, with counts from 1 to `most`, in blocks
    /// of so many pages. The permutation is one under which every block has room for its entries,
    /// and no two entries of a block have the same limbs. With labels, keys and counts are uniform
    /// numbers, and slots without an entry get uniform numbers too.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn new(
        parameters: &LatticeParameters,
        (entries, labelled): (&[(u128, u64)], bool),
        (last, most): (u128, u64),
        pages: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, IndexError> {
        let encoder = Encoder::new(parameters)?;
        let Plaintext::Integers(t) = parameters.plaintext() else { return Err(EncodeError::Approximate.into()) };
        let greatest = most.min(u64::from(u32::MAX));
        // the pads of labels are below t in every digit
        let (least, most) = if labelled { (0, u64::MAX) } else { (1, greatest) };
        if let Some((_, found)) = entries.iter().find(|(_, count)| !(least..=most).contains(count)) {
            return Err(IndexError::Count { most, found: *found });
        }
        for _ in 0..TRIES {
            let mut key = [0; KEY_BYTES];
            rng.fill_bytes(&mut key);
            let layout = Layout::choose(key, last, entries.len(), (encoder.slots(), &t), pages)?.counting(greatest, &t);
            if let Some(blocks) = distribute(&layout, &t, encoder.slots() * pages, entries)? {
                return Ok(Self { layout, parameters: parameters.clone(), encoder, t, blocks, labelled });
            }
        }
        let mut keys: Vec<u128> = entries.iter().map(|entry| entry.0).collect();
        keys.sort_unstable();
        let repeated = keys.windows(2).any(|pair| pair[0] == pair[1]);
        Err(if repeated { IndexError::Repeated } else { IndexError::Overfull { slots: encoder.slots() * pages } })
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A block, packed: its polynomials one after another. Its entries take secret slots, drawn
    /// from `rng`. Slots without an entry have limbs that no key has; with labels they have uniform
    /// limbs and counts, so that nobody can count entries. A block beyond the last one is empty.
    ///
    /// # Errors
    /// [`IndexError`].
    pub fn pack(&self, block: usize, rng: &mut impl CryptoRng) -> Result<Vec<u8>, IndexError> {
        let (slots, limbs) = (self.encoder.slots(), self.layout.limbs());
        let entries: &[Entry] = self.blocks.get(block).map_or(&[], Vec::as_slice);
        let mut seed = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *seed);
        let mut drawn = ChaCha20Rng::from_seed(*seed);
        let places = shuffled(slots * self.layout.pages(), entries, &mut drawn);
        let empty = self.t.value() - 1;
        let mut below = |most: u64| ((u128::from(drawn.next_u64()) * u128::from(most)) >> 64) as u64;
        let mut bytes = Vec::new();
        for page in places.chunks(slots) {
            for limb in 0..self.layout.page_polynomials() {
                let value = |entry: &Option<&Entry>| match entry {
                    Some(entry) => {
                        let digits = self.layout.digits_of(&self.t, entry.count);
                        self.layout.limbs_of(&self.t, entry.rest).chain(digits).nth(limb).unwrap_or(0)
                    }
                    None if self.labelled => below(empty + u64::from(limb >= limbs)),
                    None if limb < limbs => empty,
                    None => 0,
                };
                let values = page.iter().map(value).map(|value| value as i64).collect::<Vec<i64>>();
                let plaintext = self.encoder.encode(&values)?;
                bytes.extend_from_slice(&wire::pack_plaintext(&plaintext, &self.parameters)?);
            }
        }
        Ok(bytes)
    }

    /// All blocks, packed.
    ///
    /// # Errors
    /// See [`Self::pack`].
    pub fn table(&self, rng: &mut impl CryptoRng) -> Result<Table, IndexError> {
        let mut bytes = Vec::new();
        for block in 0..self.layout.blocks() {
            bytes.extend_from_slice(&self.pack(block, rng)?);
        }
        Table::packed(&self.parameters, self.layout.clone(), bytes)
    }
}

/// Entries by block; none if a block has too few slots, or if two of its entries have the same
/// limbs.
fn distribute(
    layout: &Layout,
    t: &Modulus,
    room: usize,
    entries: &[(u128, u64)],
) -> Result<Option<Vec<Vec<Entry>>>, IndexError> {
    let mut blocks: Vec<Vec<Entry>> = Vec::new();
    blocks.resize_with(layout.blocks(), Vec::new);
    for (key, count) in entries {
        let (block, rest) = layout.divide(t, *key)?;
        let block = &mut blocks[block];
        if block.len() == room {
            return Ok(None);
        }
        block.push(Entry { rest, count: *count });
    }
    for block in &mut blocks {
        block.sort_unstable_by_key(|entry| entry.rest);
        if block.windows(2).any(|pair| pair[0].rest == pair[1].rest) {
            return Ok(None);
        }
    }
    Ok(Some(blocks))
}

/// Entries in places of their own, in a secret order: the Fisher-Yates shuffle. A choice among `n`
/// is within `n 2^-64` of uniform.
fn shuffled<'a>(places: usize, entries: &'a [Entry], rng: &mut impl Rng) -> Vec<Option<&'a Entry>> {
    let mut all: Vec<Option<&Entry>> = entries.iter().map(Some).collect();
    all.resize(places, None);
    for last in (1..places).rev() {
        let chosen = (u128::from(rng.next_u64()) * (last as u128 + 1)) >> 64;
        all.swap(last, chosen as usize);
    }
    all
}

/// A block as it is read: its polynomials one after another, page after page, limbs before counts.
pub enum Block<'a> {
    /// Packed polynomials, all of the same number of bytes.
    Packed(Cow<'a, [u8]>),
    /// Prepared polynomials.
    Prepared(&'a [PreparedPlaintext]),
}

/// The source of blocks: memory, a file, a shard.
pub trait Blocks {
    /// A block by its number; none if there is no such block.
    fn block(&self, block: usize) -> Option<Block<'_>>;
}

impl Blocks for Box<dyn Blocks + Send + Sync> {
    fn block(&self, block: usize) -> Option<Block<'_>> {
        (**self).block(block)
    }
}

/// A store for packed blocks without room in memory: usually a file.
pub trait Shelf {
    /// Keeps so many blocks, each of so many bytes, in their order. The shelf asks `next` to make
    /// each block. The result reads the blocks again.
    ///
    /// # Errors
    /// The error of `next`, or in words why the blocks could not be kept.
    fn keep(
        &self,
        blocks: usize,
        bytes: usize,
        next: &mut NextBlock<'_>,
    ) -> Result<Box<dyn Blocks + Send + Sync>, String>;
}

/// Makes the block with a number.
pub type NextBlock<'a> = dyn FnMut(usize) -> Result<Vec<u8>, IndexError> + 'a;

enum Form {
    Packed(Vec<u8>),
    Prepared(Vec<PreparedPlaintext>),
}

/// A table in memory.
pub struct Table {
    parameters: LatticeParameters,
    layout: Layout,
    form: Form,
}

/// Bytes of a packed polynomial.
pub(crate) fn polynomial_bytes(parameters: &LatticeParameters) -> usize {
    let Plaintext::Integers(t) = parameters.plaintext() else { return 0 };
    (parameters.degree() * t.bits() as usize).div_ceil(8)
}

impl Table {
    /// A table of all blocks, packed ([`Arranged::pack`]), one after another.
    ///
    /// # Errors
    /// [`IndexError::Bytes`] for another number of bytes.
    pub fn packed(parameters: &LatticeParameters, layout: Layout, bytes: Vec<u8>) -> Result<Self, IndexError> {
        let expected = layout.blocks() * layout.polynomials() * polynomial_bytes(parameters);
        if bytes.len() != expected {
            return Err(IndexError::Bytes { expected, found: bytes.len() });
        }
        Ok(Self { parameters: parameters.clone(), layout, form: Form::Packed(bytes) })
    }

    /// The same table with its blocks prepared: it is ten times as large, and products need no
    /// transform.
    ///
    /// # Errors
    /// [`IndexError::Object`] for bytes that are not blocks.
    pub fn prepared(&self) -> Result<Self, IndexError> {
        let (parameters, level) = (&self.parameters, self.parameters.data_primes());
        let polynomials = match &self.form {
            Form::Packed(bytes) => bytes
                .chunks(polynomial_bytes(parameters).max(1))
                .map(|bytes| {
                    let plaintext = wire::unpack_plaintext(bytes, parameters)?;
                    Ok(PreparedPlaintext::new(parameters, &plaintext, level)?)
                })
                .collect::<Result<Vec<_>, IndexError>>()?,
            Form::Prepared(polynomials) => polynomials.clone(),
        };
        Ok(Self { parameters: parameters.clone(), layout: self.layout.clone(), form: Form::Prepared(polynomials) })
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The bytes of all blocks, if they are packed.
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.form {
            Form::Packed(bytes) => Some(bytes),
            Form::Prepared(_) => None,
        }
    }

    /// Bytes of the blocks in memory.
    pub fn memory(&self) -> usize {
        match &self.form {
            Form::Packed(bytes) => bytes.len(),
            Form::Prepared(polynomials) => polynomials.iter().map(PreparedPlaintext::memory).sum(),
        }
    }
}

impl Blocks for Table {
    fn block(&self, block: usize) -> Option<Block<'_>> {
        if block >= self.layout.blocks() {
            return None;
        }
        let count = self.layout.polynomials();
        match &self.form {
            Form::Packed(bytes) => {
                let length = count * polynomial_bytes(&self.parameters);
                bytes.get(block * length..(block + 1) * length).map(|bytes| Block::Packed(bytes.into()))
            }
            Form::Prepared(polynomials) => polynomials.get(block * count..(block + 1) * count).map(Block::Prepared),
        }
    }
}
