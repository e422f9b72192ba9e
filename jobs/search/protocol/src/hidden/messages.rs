//! Messages of the search with the place hidden: layout, registration, query and answer, as bytes.
//!
//! | kind | message | after version (`01`) and kind |
//! |---|---|---|
//! | 23 | registration | bytes of the public key (4); public key, expansion keys: lattice objects |
//! | 24 | query | name of the arrangement 32, client 16, granularity (0 boolean, 1 count); a seeded ciphertext |
//! | 25 | answer | digits of counts (0 to 2), pages, limbs (1 each); per page `R`, then `V`; rounded |
//! | 27 | sums | granularity (1), number (2), ciphertexts over all primes by page, limbs first |
//! | 26 | layout | permutation's key 16, last key (16), blocks (4), pages, limbs, digits (1 each) |
//!
//! Integers are big-endian, and there is one byte string for each message. **Uniform halves are
//! seeds only**: the format has no bytes for keys and queries whose client chose the polynomials
//! itself. The time to read a message depends on its length and on its public content.

use super::permutation::{KEY_BYTES, Permutation};
use super::program::{Layout, MAX_DIGITS, MAX_LIMBS, MAX_PAGES};
use super::server::{Page, Partial, Registration};
use crate::arithmetic::{decode_part, encode_part};
use crate::messages::{CLIENT_BYTES, MessageError, TABLE_BYTES};
use crate::server::Granularity;
use tobari_lattice::bgv::{Ciphertext, SeededCiphertext};
use tobari_lattice::params::{LatticeParameters, Plaintext};
use tobari_lattice::ring::Modulus;
use tobari_lattice::wire;
use tobari_lattice::wire::VERSION;

const REGISTRATION: u8 = 0x23;
const QUERY: u8 = 0x24;
const ANSWER: u8 = 0x25;
const LAYOUT: u8 = 0x26;
const PARTIAL: u8 = 0x27;

/// A query.
pub struct Query {
    /// The name of the table's arrangement for such questions ([`super::numbers`]).
    pub table: [u8; TABLE_BYTES],
    /// The client.
    pub client: [u8; CLIENT_BYTES],
    /// Whether the answer has counts.
    pub granularity: Granularity,
    /// The limbs and the block, encrypted.
    pub ciphertext: SeededCiphertext,
}

/// Reads fields from the front.
struct Fields<'a> {
    bytes: &'a [u8],
    taken: usize,
}

impl<'a> Fields<'a> {
    fn open(bytes: &'a [u8], expected: u8) -> Result<Self, MessageError> {
        let mut fields = Self { bytes, taken: 0 };
        let [version, found] = fields.array()?;
        let good = version == VERSION && found == expected;
        if good { Ok(fields) } else { Err(MessageError::Kind { expected, version, found }) }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], MessageError> {
        let (expected, found) = (self.taken.saturating_add(count), self.bytes.len());
        let taken = self.bytes.get(self.taken..expected).ok_or(MessageError::Truncated { expected, found })?;
        self.taken = expected;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    fn granularity(&mut self) -> Result<Granularity, MessageError> {
        match self.array()? {
            [0] => Ok(Granularity::Boolean),
            [1] => Ok(Granularity::Count),
            _ => Err(MessageError::Malformed("granularity")),
        }
    }

    fn rest(self) -> &'a [u8] {
        &self.bytes[self.taken..]
    }
}

/// Encodes a registration.
pub fn encode_registration(registration: &Registration) -> Vec<u8> {
    let public = wire::encode_ring_public_key(&registration.public);
    let keys = wire::encode_evaluation_keys(&registration.keys);
    let length = (public.len() as u32).to_be_bytes();
    [&[VERSION, REGISTRATION], &length[..], &public, &keys].concat()
}

/// Reads a registration, with keys for the steps of an expansion and no other keys.
///
/// # Errors
/// [`MessageError`].
pub fn decode_registration(bytes: &[u8], parameters: &LatticeParameters) -> Result<Registration, MessageError> {
    let mut fields = Fields::open(bytes, REGISTRATION)?;
    let length = u32::from_be_bytes(fields.array()?);
    let public = wire::decode_ring_public_key(wire::without_identity(fields.take(length as usize)?)?, parameters)?;
    let keys = wire::decode_evaluation_keys(wire::without_identity(fields.rest())?, parameters)?;
    let good = keys.expansion_depth().is_some();
    if good { Ok(Registration { public, keys }) } else { Err(MessageError::Malformed("keys of an expansion")) }
}

/// Encodes a query.
pub fn encode_query(query: &Query) -> Vec<u8> {
    let mut out = vec![VERSION, QUERY];
    out.extend_from_slice(&query.table);
    out.extend_from_slice(&query.client);
    out.push(query.granularity as u8);
    out.extend_from_slice(&wire::encode_seeded_ciphertext(&query.ciphertext));
    out
}

/// The client that a query names.
///
/// # Errors
/// [`MessageError`].
pub fn query_client(bytes: &[u8]) -> Result<[u8; CLIENT_BYTES], MessageError> {
    let mut fields = Fields::open(bytes, QUERY)?;
    fields.take(TABLE_BYTES)?;
    fields.array()
}

/// Reads a query.
///
/// # Errors
/// [`MessageError`].
pub fn decode_query(bytes: &[u8], parameters: &LatticeParameters) -> Result<Query, MessageError> {
    let mut fields = Fields::open(bytes, QUERY)?;
    let (table, client, granularity) = (fields.array()?, fields.array()?, fields.granularity()?);
    let ciphertext = wire::decode_seeded_ciphertext(wire::without_identity(fields.rest())?, parameters)?;
    if ciphertext.level() != parameters.data_primes() {
        return Err(MessageError::Malformed("level"));
    }
    Ok(Query { table, client, granularity, ciphertext })
}

/// Encodes an answer.
///
/// # Errors
/// [`MessageError::Object`] for a ciphertext that everybody can read.
pub fn encode_answer(pages: &[Page]) -> Result<Vec<u8>, MessageError> {
    let digits = pages.first().map_or(0, |page| page.counts.len());
    let limbs = pages.first().map_or(0, |page| page.equal.len());
    let mut out = vec![VERSION, ANSWER, digits as u8, pages.len() as u8, limbs as u8];
    for part in pages.iter().flat_map(|page| page.equal.iter().chain(&page.counts)) {
        out.extend_from_slice(&encode_part(part)?);
    }
    Ok(out)
}

/// Reads an answer.
///
/// # Errors
/// [`MessageError`].
pub fn decode_answer(bytes: &[u8], parameters: &LatticeParameters) -> Result<Vec<Page>, MessageError> {
    let mut fields = Fields::open(bytes, ANSWER)?;
    let [digits, pages, limbs] = fields.array()?.map(usize::from);
    if digits > MAX_DIGITS {
        return Err(MessageError::Malformed("number of digits"));
    }
    if !(1..=MAX_PAGES).contains(&pages) {
        return Err(MessageError::Malformed("number of pages"));
    }
    if !(1..=MAX_LIMBS).contains(&limbs) {
        return Err(MessageError::Malformed("number of limbs"));
    }
    let parts = pages * (limbs + digits);
    let rest = fields.rest();
    if rest.is_empty() || !rest.len().is_multiple_of(parts) {
        return Err(MessageError::Malformed("length"));
    }
    let part = |bytes| -> Result<Ciphertext, MessageError> {
        let part = decode_part(bytes, parameters)?;
        let fits = part.level() == 1 && !part.needs_relinearization();
        fits.then_some(part).ok_or(MessageError::Malformed("level"))
    };
    let mut parts = rest.chunks_exact(rest.len() / parts).map(part);
    let mut next = || parts.next().unwrap_or(Err(MessageError::Malformed("length")));
    let page = |_| {
        let equal = (0..limbs).map(|_| next()).collect::<Result<_, _>>()?;
        let counts = (0..digits).map(|_| next()).collect::<Result<_, _>>()?;
        Ok(Page { equal, counts })
    };
    (0..pages).map(page).collect()
}

/// Encodes sums over some blocks, for the party that merges the shards
/// ([`super::server::Matcher::merge`]). The sums are not flooded: do not send them to clients.
pub fn encode_partial(partial: &Partial) -> Vec<u8> {
    let counts = u8::from(partial.granularity() == Granularity::Count);
    let mut out = vec![VERSION, PARTIAL, counts];
    out.extend_from_slice(&(partial.sums().len() as u16).to_be_bytes());
    for sum in partial.sums() {
        out.extend_from_slice(&wire::store_ciphertext(sum));
    }
    out
}

/// Reads sums over some blocks. **Read those of your own shards only**: this function takes the
/// shard's claim of their noise, and the merging party floods by this claim.
///
/// # Errors
/// [`MessageError`].
pub fn decode_partial(bytes: &[u8], parameters: &LatticeParameters) -> Result<Partial, MessageError> {
    let mut fields = Fields::open(bytes, PARTIAL)?;
    let granularity = fields.granularity()?;
    let count = usize::from(u16::from_be_bytes(fields.array()?));
    if !(1..=MAX_PAGES * (MAX_LIMBS + MAX_DIGITS)).contains(&count) {
        return Err(MessageError::Malformed("number of sums"));
    }
    let rest = fields.rest();
    if rest.is_empty() || !rest.len().is_multiple_of(count) {
        return Err(MessageError::Malformed("length"));
    }
    let sum = |bytes| -> Result<Ciphertext, MessageError> {
        let mut sum = wire::decode_ciphertext(wire::without_identity(bytes)?, parameters)?;
        sum.declare_noise(sum.claimed_noise());
        let fits = sum.level() == parameters.data_primes() && !sum.needs_relinearization();
        fits.then_some(sum).ok_or(MessageError::Malformed("level"))
    };
    let sums = rest.chunks_exact(rest.len() / count).map(sum).collect::<Result<_, _>>()?;
    Ok(Partial::new(sums, granularity))
}

/// Encodes a layout.
pub fn encode_layout(layout: &Layout) -> Vec<u8> {
    let permutation = layout.permutation();
    let mut out = vec![VERSION, LAYOUT];
    out.extend_from_slice(permutation.key());
    out.extend_from_slice(&permutation.last().to_be_bytes());
    out.extend_from_slice(&(layout.blocks() as u32).to_be_bytes());
    out.extend_from_slice(&[layout.pages() as u8, layout.limbs() as u8, layout.digits() as u8]);
    out
}

/// Reads the layout of a table under these parameters.
///
/// # Errors
/// [`MessageError`].
pub fn decode_layout(bytes: &[u8], parameters: &LatticeParameters) -> Result<Layout, MessageError> {
    let mut fields = Fields::open(bytes, LAYOUT)?;
    let key: [u8; KEY_BYTES] = fields.array()?;
    let last = u128::from_be_bytes(fields.array()?);
    let blocks = u32::from_be_bytes(fields.array()?) as usize;
    let [pages, limbs, digits] = fields.array()?.map(usize::from);
    if !(1..=MAX_DIGITS).contains(&digits) {
        return Err(MessageError::Malformed("number of digits"));
    }
    if !fields.rest().is_empty() {
        return Err(MessageError::Malformed("length"));
    }
    let layout = Layout::new(Permutation::new(key, last), parameters.degree(), blocks, pages, limbs);
    layout.map(|layout| layout.with_digits(digits)).map_err(|_| MessageError::Malformed("layout"))
}

/// Bytes that decode as a message encode to the same bytes.
#[doc(hidden)]
pub fn fuzz_hidden_messages(data: &[u8]) {
    let Some(t) = Modulus::new(257) else { return };
    let plaintext = Plaintext::Integers(t);
    let Ok(parameters) = LatticeParameters::insecure_of_sizes(8, &[33, 30], &[34], 2, plaintext) else { return };
    if let Ok(registration) = decode_registration(data, &parameters) {
        assert_eq!(encode_registration(&registration), data);
    }
    if let Ok(query) = decode_query(data, &parameters) {
        assert_eq!(encode_query(&query), data);
    }
    if let Ok(pages) = decode_answer(data, &parameters) {
        match encode_answer(&pages) {
            Ok(again) => assert_eq!(again, data),
            Err(error) => assert_eq!(error, MessageError::Object(wire::LatticeWireError::Transparent)),
        }
    }
    if let Ok(partial) = decode_partial(data, &parameters) {
        assert_eq!(encode_partial(&partial), data);
    }
    if let Ok(layout) = decode_layout(data, &parameters) {
        assert_eq!(encode_layout(&layout), data);
    }
}
