//! Messages as bytes: a registration, a query, an answer.
//!
//! | kind (hex) | message | after version (`01`) and kind |
//! |---|---|---|
//! | 20 | registration | the client's public key, as an object of the lattice schemes |
//! | 21 | query | the fields below |
//! | 22 | answer | granularity (1), limbs (1), blocks (2); per block `R` by limb, `V` with counts; rounded |
//!
//! `R` and `V` are ciphertexts over one prime. A query has these fields:
//!
//! | field | bytes |
//! |---|---|
//! | table, client | 32, 16 |
//! | question: 0 pattern, 1 longest match, 2 key; 4 more with labels | 1 |
//! | granularity: 0 boolean, 1 count | 1 |
//! | sites of the pattern, or bits of the key | 1 |
//! | number of places; 0 for a key | 1 |
//! | with labels: the name of their key | 16 |
//! | first site of each place, not descending | 4 each |
//! | number of ciphertexts | 2 |
//! | the ciphertexts, seeded | |
//!
//! A question with labels exchanges two messages before these ([`super::oprf::messages`]). Integers
//! are big-endian, and each message has exactly one byte string. **Uniform halves are sent as seeds
//! only**: a key or a query with chosen polynomials has no encoding here. The time to read a
//! message depends on its length and its public fields.

pub use super::fields::{CLIENT_BYTES, MessageError, TABLE_BYTES};

use super::arithmetic::{decode_part, encode_part};
use super::fields::Fields;
use super::oprf::{self, Mode};
use super::panel::MAX_LENGTH;
use super::program::{LIMBS, Shape, WORD_BITS};
use super::server::{Block, Granularity};
use tobari_lattice::bgv::{Ciphertext, SeededCiphertext};
use tobari_lattice::params::{LatticeParameters, Plaintext};
use tobari_lattice::ring::Modulus;
use tobari_lattice::rlwe::PublicKey;
use tobari_lattice::wire;
use tobari_lattice::wire::VERSION;

/// The most places of a query.
pub const MAX_PLACES: usize = 100;
/// The most blocks of an answer.
pub const MAX_BLOCKS: usize = 256;
const REGISTRATION: u8 = 0x20;
const QUERY: u8 = 0x21;
const ANSWER: u8 = 0x22;

/// Added to the byte of the question for a question with labels.
const LABELLED: u8 = 4;

/// A query.
pub struct Query {
    /// The table's name.
    pub table: [u8; TABLE_BYTES],
    /// The client that asks.
    pub client: [u8; CLIENT_BYTES],
    /// What the answer tells.
    pub granularity: Granularity,
    /// The kind of the question.
    pub shape: Shape,
    /// Whether the number follows from the public rule, or is a label.
    pub mode: Mode,
    /// The first site of each place, not descending; one of the places is the true one. Empty for
    /// a key.
    pub starts: Vec<u32>,
    /// The encrypted number of a place and a pattern, or of a key: by limb, and by block where the
    /// layout has several groups.
    pub ciphertexts: Vec<SeededCiphertext>,
}

/// Encodes a registration.
pub fn encode_registration(public: &PublicKey) -> Vec<u8> {
    [&[VERSION, REGISTRATION], &wire::encode_ring_public_key(public)[..]].concat()
}

/// Decodes a registration.
///
/// # Errors
/// [`MessageError`].
pub fn decode_registration(bytes: &[u8], parameters: &LatticeParameters) -> Result<PublicKey, MessageError> {
    Ok(wire::decode_ring_public_key(wire::without_identity(Fields::open(bytes, REGISTRATION)?.rest())?, parameters)?)
}

/// Encodes a query.
pub fn encode_query(query: &Query) -> Vec<u8> {
    let mut out = vec![VERSION, QUERY];
    out.extend_from_slice(&query.table);
    out.extend_from_slice(&query.client);
    let kind = match query.shape {
        Shape::Pattern { .. } => 0,
        Shape::Longest { .. } => 1,
        Shape::Word { .. } => 2,
    };
    let kind = if query.mode == Mode::Plain { kind } else { kind + LABELLED };
    out.extend_from_slice(&[kind, query.granularity as u8, query.shape.length() as u8, query.starts.len() as u8]);
    if let Mode::Labelled(revision) = &query.mode {
        out.extend_from_slice(revision);
    }
    query.starts.iter().for_each(|start| out.extend_from_slice(&start.to_be_bytes()));
    out.extend_from_slice(&(query.ciphertexts.len() as u16).to_be_bytes());
    query.ciphertexts.iter().for_each(|part| out.extend_from_slice(&wire::encode_seeded_ciphertext(part)));
    out
}

/// The table and the kind of a query. They decide the parameters under which the query is decoded.
///
/// # Errors
/// [`MessageError`].
pub fn query_head(bytes: &[u8]) -> Result<([u8; TABLE_BYTES], Shape), MessageError> {
    head(&mut Fields::open(bytes, QUERY)?).map(|(table, _, _, shape, _)| (table, shape))
}

/// Whether a query has labels.
///
/// # Errors
/// [`MessageError`].
pub fn query_mode(bytes: &[u8]) -> Result<Mode, MessageError> {
    head(&mut Fields::open(bytes, QUERY)?).map(|(.., mode)| mode)
}

/// The client's name in a query.
///
/// # Errors
/// [`MessageError`].
pub fn query_client(bytes: &[u8]) -> Result<[u8; CLIENT_BYTES], MessageError> {
    head(&mut Fields::open(bytes, QUERY)?).map(|(_, client, ..)| client)
}

type Head = ([u8; TABLE_BYTES], [u8; CLIENT_BYTES], Granularity, Shape, Mode);

fn head(fields: &mut Fields<'_>) -> Result<Head, MessageError> {
    let (table, client, [kind], granularity) =
        (fields.array()?, fields.array()?, fields.array()?, granularity(fields)?);
    let [length, places] = fields.array()?.map(usize::from);
    let word = kind % LABELLED == 2;
    let shape = match kind % LABELLED {
        _ if kind >= 2 * LABELLED => return Err(MessageError::Malformed("kind of question")),
        0 => Shape::Pattern { places, length },
        1 => Shape::Longest { places, length },
        2 => Shape::Word { bits: length },
        _ => return Err(MessageError::Malformed("kind of question")),
    };
    if !(1..=if word { WORD_BITS } else { MAX_LENGTH }).contains(&length) {
        return Err(MessageError::Malformed("number of sites or bits"));
    }
    if !(if word { 0..=0 } else { 1..=MAX_PLACES }).contains(&places) {
        return Err(MessageError::Malformed("number of places"));
    }
    let mode = if kind < LABELLED { Mode::Plain } else { Mode::Labelled(fields.array()?) };
    Ok((table, client, granularity, shape, mode))
}

/// Decodes a query.
///
/// # Errors
/// [`MessageError`].
pub fn decode_query(bytes: &[u8], parameters: &LatticeParameters) -> Result<Query, MessageError> {
    let mut fields = Fields::open(bytes, QUERY)?;
    let (table, client, granularity, shape, mode) = head(&mut fields)?;
    let places = if let Shape::Word { .. } = shape { 0 } else { shape.places() };
    let starts = (0..places).map(|_| Ok(u32::from_be_bytes(fields.array()?)));
    let starts: Vec<u32> = starts.collect::<Result<_, MessageError>>()?;
    if !starts.is_sorted() {
        return Err(MessageError::Malformed("order of places"));
    }
    let count = usize::from(u16::from_be_bytes(fields.array()?));
    if !(1..=LIMBS * MAX_BLOCKS).contains(&count) {
        return Err(MessageError::Malformed("number of ciphertexts"));
    }
    let ciphertexts = parts(fields.rest(), count)?.map(|part| {
        let part = wire::decode_seeded_ciphertext(wire::without_identity(part)?, parameters)?;
        let fits = part.level() == parameters.data_primes();
        fits.then_some(part).ok_or(MessageError::Malformed("level"))
    });
    let ciphertexts = ciphertexts.collect::<Result<_, _>>()?;
    Ok(Query { table, client, granularity, shape, mode, starts, ciphertexts })
}

/// Splits the bytes into `count` parts of one length.
fn parts(bytes: &[u8], count: usize) -> Result<std::slice::ChunksExact<'_, u8>, MessageError> {
    let whole = !bytes.is_empty() && bytes.len().is_multiple_of(count);
    if whole { Ok(bytes.chunks_exact(bytes.len() / count)) } else { Err(MessageError::Malformed("length")) }
}

/// Encodes an answer.
///
/// # Errors
/// [`MessageError::Object`] for a ciphertext that everybody can read.
pub fn encode_answer(blocks: &[Block]) -> Result<Vec<u8>, MessageError> {
    let granularity = match blocks.first() {
        Some(Block { count: Some(_), .. }) => Granularity::Count,
        _ => Granularity::Boolean,
    };
    let limbs = blocks.first().map_or(0, |block| block.equal.len());
    let mut out = vec![VERSION, ANSWER, granularity as u8, limbs as u8];
    out.extend_from_slice(&(blocks.len() as u16).to_be_bytes());
    for part in blocks.iter().flat_map(|block| block.equal.iter().chain(&block.count)) {
        out.extend_from_slice(&encode_part(part)?);
    }
    Ok(out)
}

/// Decodes an answer.
///
/// # Errors
/// [`MessageError`].
pub fn decode_answer(bytes: &[u8], parameters: &LatticeParameters) -> Result<Vec<Block>, MessageError> {
    let mut fields = Fields::open(bytes, ANSWER)?;
    let (granularity, [limbs]) = (granularity(&mut fields)?, fields.array()?);
    let (limbs, blocks) = (usize::from(limbs), usize::from(u16::from_be_bytes(fields.array()?)));
    if !(1..=LIMBS).contains(&limbs) {
        return Err(MessageError::Malformed("number of limbs"));
    }
    if !(1..=MAX_BLOCKS).contains(&blocks) {
        return Err(MessageError::Malformed("number of blocks"));
    }
    let counts = granularity == Granularity::Count;
    let part = |bytes| -> Result<Ciphertext, MessageError> {
        let part = decode_part(bytes, parameters)?;
        let fits = part.level() == 1 && !part.needs_relinearization();
        fits.then_some(part).ok_or(MessageError::Malformed("level"))
    };
    let mut parts = parts(fields.rest(), blocks * (limbs + usize::from(counts)))?.map(part);
    let mut next = || parts.next().unwrap_or(Err(MessageError::Malformed("length")));
    let block = |_| {
        let equal = (0..limbs).map(|_| next()).collect::<Result<_, _>>()?;
        let count = if counts { Some(next()?) } else { None };
        Ok(Block { equal, count })
    };
    (0..blocks).map(block).collect()
}

fn granularity(fields: &mut Fields<'_>) -> Result<Granularity, MessageError> {
    match fields.array()? {
        [0] => Ok(Granularity::Boolean),
        [1] => Ok(Granularity::Count),
        _ => Err(MessageError::Malformed("granularity")),
    }
}

/// Every decoded message encodes to the same bytes.
#[doc(hidden)]
pub fn fuzz_messages(data: &[u8]) {
    let Some(t) = Modulus::new(257) else { return };
    let plaintext = Plaintext::Integers(t);
    let Ok(parameters) = LatticeParameters::insecure_of_sizes(8, &[33, 30, 31], &[], 3, plaintext) else { return };
    if let Ok(public) = decode_registration(data, &parameters) {
        assert_eq!(encode_registration(&public), data);
    }
    if let Ok(query) = decode_query(data, &parameters) {
        assert_eq!(encode_query(&query), data);
    }
    if let Ok(blocks) = decode_answer(data, &parameters) {
        match encode_answer(&blocks) {
            Ok(again) => assert_eq!(again, data),
            Err(error) => assert_eq!(error, MessageError::Object(wire::LatticeWireError::Transparent)),
        }
    }
    oprf::messages::fuzz(data);
}
