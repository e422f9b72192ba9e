//! The bytes of the lattice schemes' objects.
//!
//! Every object begins with the version (`01`), its kind, and its parameters: `log2 N` (1), data primes (1), special primes (1),
//! digits (1), the plaintext modulus (8; 0 where numbers are approximate), then each prime (7). They take a hundred bytes or so,
//! of objects of a hundred thousand, and whoever reads an object says which parameters it must have.
//!
//! | kind | object | after the parameters |
//! |---|---|---|
//! | 10 | parameters | nothing |
//! | 11 | secret key, after `TOBARI` | seed 32, then 8 bytes drawn from it, against damage |
//! | 12 | public key | seed 32, `b` |
//! | 13 | evaluation keys of BGV | whether there is one for products (1), how many automorphisms (2); then for each key: `g` (4; 0 for products), level (1), seed 32, `b_0 b_1 …` |
//! | 14 | ciphertext of BGV | level (1), parts (1), factor (8), bound on the noise in 1,024ths of a bit (4), the parts |
//! | 15 | seeded ciphertext of BGV | level (1), seed 32, `c_0` |
//!
//! Integers are big-endian. An element is its rows, and a row its `N` values in the order of [`crate::ring::Ntt`], each in as many
//! bits as its prime has, lowest bits first, filled up with zero bits to a byte. Uniform halves are seeds: [`crate::ring::Seed`].
//! So an object is its coefficients and less than one per cent more, and there is one byte string for each.

use super::{Reader, VERSION, WireError};
use crate::bgv::{Ciphertext, EvaluationKeys, SeededCiphertext};
use crate::params::{LatticeError, LatticeParameters, Plaintext};
use crate::ring::{Basis, Eval, Modulus, Poly, SEED_BYTES, Seed};
use crate::rlwe::{EvaluationKey, PublicKey, SecretKey};
use zeroize::{Zeroize, Zeroizing};

/// The first bytes of a key file.
const KEY_MAGIC: &[u8; 6] = b"TOBARI";
/// Where a secret key's check is drawn from.
const CHECK: u64 = 1 << 40;
/// Bytes of it.
const CHECK_BYTES: usize = 8;
/// Of a bound on noise, in a bit: a power of two, so that what is read is written again.
const BOUND_UNITS: f64 = 1024.0;
/// Bytes of a prime.
const PRIME_BYTES: usize = 7;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatticeKind {
    /// Parameters alone.
    Parameters = 0x10,
    /// A secret key file.
    SecretKey = 0x11,
    /// A public key.
    PublicKey = 0x12,
    /// What a server computes with.
    EvaluationKeys = 0x13,
    /// A ciphertext.
    Ciphertext = 0x14,
    /// A fresh ciphertext, half of it a seed.
    SeededCiphertext = 0x15,
}

/// Bytes that are not the object expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LatticeWireError {
    /// Wrong bytes before the object itself, too few, or too many.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Another object.
    #[error("wrong kind of object: expected {expected:?}, found number {found}")]
    Kind {
        /// What was asked for.
        expected: LatticeKind,
        /// The number found.
        found: u8,
    },
    /// Other parameters than those expected.
    #[error("wrong parameters: expected {expected}, found others")]
    Parameters {
        /// What was asked for.
        expected: String,
    },
    /// Numbers that are no parameters, or less than 128 bits of security.
    #[error(transparent)]
    Lattice(#[from] LatticeError),
    /// A number out of its range, or written otherwise than in its one form.
    #[error("malformed {0}")]
    Malformed(&'static str),
}

fn head(kind: LatticeKind, parameters: &LatticeParameters) -> Vec<u8> {
    let ring = parameters.ring();
    let t = match parameters.plaintext() {
        Plaintext::Approximate => 0,
        Plaintext::Integers(t) => t.value(),
    };
    let counts = [ring.data_primes().len(), ring.special_primes().len(), parameters.digits()];
    let mut out = vec![VERSION, kind as u8, ring.degree().trailing_zeros() as u8];
    out.extend(counts.map(|count| count as u8));
    out.extend_from_slice(&t.to_be_bytes());
    for prime in ring.data_primes().iter().chain(ring.special_primes()) {
        out.extend_from_slice(&prime.modulus().value().to_be_bytes()[8 - PRIME_BYTES..]);
    }
    out
}

/// Reads version, kind and parameters, which must be these.
fn read_head(
    reader: &mut Reader<'_>,
    expected: LatticeKind,
    parameters: &LatticeParameters,
) -> Result<(), LatticeWireError> {
    let found = reader.version_and_kind()?;
    if found != expected as u8 {
        return Err(LatticeWireError::Kind { expected, found });
    }
    let wanted = head(expected, parameters);
    if reader.take(wanted.len() - 2)? != &wanted[2..] {
        return Err(LatticeWireError::Parameters { expected: format!("{parameters:?}") });
    }
    Ok(())
}

/// Parameters alone.
pub fn encode_parameters(parameters: &LatticeParameters) -> Vec<u8> {
    head(LatticeKind::Parameters, parameters)
}

/// Reads parameters.
///
/// # Errors
/// [`LatticeWireError`]: numbers that are no parameters, or have less than 128 bits of security.
pub fn decode_parameters(bytes: &[u8]) -> Result<LatticeParameters, LatticeWireError> {
    let mut reader = Reader::new(bytes);
    let found = reader.version_and_kind()?;
    if found != LatticeKind::Parameters as u8 {
        return Err(LatticeWireError::Kind { expected: LatticeKind::Parameters, found });
    }
    let [log_degree, data, special, digits] = reader.array()?;
    if log_degree > 17 {
        return Err(LatticeWireError::Malformed("degree"));
    }
    let t = u64::from_be_bytes(reader.array()?);
    let plaintext = match t {
        0 => Plaintext::Approximate,
        t => Plaintext::Integers(Modulus::new(t).ok_or(LatticeWireError::Malformed("plaintext modulus"))?),
    };
    reader.expect_rest(PRIME_BYTES * (usize::from(data) + usize::from(special)))?;
    let mut primes = |count: u8| {
        let prime = |_| {
            let mut padded = [0; 8];
            padded[8 - PRIME_BYTES..].copy_from_slice(reader.take(PRIME_BYTES)?);
            Ok(u64::from_be_bytes(padded))
        };
        (0..count).map(prime).collect::<Result<Vec<_>, WireError>>()
    };
    let (data, special) = (primes(data)?, primes(special)?);
    Ok(LatticeParameters::new(1 << log_degree, &data, &special, digits.into(), plaintext)?)
}

/// A secret key file. Zeroed on drop.
pub fn encode_ring_secret_key(key: &SecretKey) -> Zeroizing<Vec<u8>> {
    let head = head(LatticeKind::SecretKey, key.parameters());
    let length = KEY_MAGIC.len() + head.len() + SEED_BYTES + CHECK_BYTES;
    let mut out = Zeroizing::new(Vec::with_capacity(length)); // never grows, so no copy is left behind
    out.extend_from_slice(KEY_MAGIC);
    out.extend_from_slice(&head);
    out.extend_from_slice(&*Zeroizing::new(key.to_seed().to_bytes()));
    out.extend_from_slice(&check(key.to_seed()));
    out
}

fn check(seed: &Seed) -> [u8; CHECK_BYTES] {
    let drawn = Zeroizing::new(seed.derive(CHECK).to_bytes());
    let mut check = [0; CHECK_BYTES];
    check.copy_from_slice(&drawn[..CHECK_BYTES]);
    check
}

/// Reads a secret key file.
///
/// # Errors
/// [`LatticeWireError`]; no message holds any part of the key.
pub fn decode_ring_secret_key(bytes: &[u8], parameters: &LatticeParameters) -> Result<SecretKey, LatticeWireError> {
    let mut reader = Reader::new(bytes);
    if reader.take(KEY_MAGIC.len()).ok() != Some(KEY_MAGIC) {
        return Err(WireError::NotAKeyFile.into());
    }
    read_head(&mut reader, LatticeKind::SecretKey, parameters)?;
    reader.expect_rest(SEED_BYTES + CHECK_BYTES)?;
    let mut bytes: [u8; SEED_BYTES] = reader.array()?;
    let seed = Seed::from_bytes(bytes);
    bytes.zeroize();
    if check(&seed) != reader.array()? {
        return Err(WireError::DamagedKey.into());
    }
    Ok(SecretKey::from_seed(parameters, seed))
}

/// A public key.
pub fn encode_ring_public_key(key: &PublicKey) -> Vec<u8> {
    let mut out = head(LatticeKind::PublicKey, key.parameters());
    out.extend_from_slice(&key.seed().to_bytes());
    write_element(key.body(), &mut out);
    out
}

/// Reads a public key.
///
/// # Errors
/// [`LatticeWireError`] that names what was expected and found.
pub fn decode_ring_public_key(bytes: &[u8], parameters: &LatticeParameters) -> Result<PublicKey, LatticeWireError> {
    let mut reader = Reader::new(bytes);
    read_head(&mut reader, LatticeKind::PublicKey, parameters)?;
    let basis = parameters.ring().basis(parameters.data_primes());
    reader.expect_rest(SEED_BYTES + element_bytes(parameters, basis))?;
    let seed = Seed::from_bytes(reader.array()?);
    Ok(PublicKey::from_parts(parameters, read_element(&mut reader, parameters, basis)?, seed))
}

/// What a server computes with.
pub fn encode_evaluation_keys(keys: &EvaluationKeys, parameters: &LatticeParameters) -> Vec<u8> {
    let mut out = head(LatticeKind::EvaluationKeys, parameters);
    out.push(u8::from(keys.for_products().is_some()));
    out.extend_from_slice(&(keys.automorphisms().count() as u16).to_be_bytes());
    for (element, key) in keys.for_products().map(|key| (0, key)).into_iter().chain(keys.automorphisms()) {
        out.extend_from_slice(&(element as u32).to_be_bytes());
        out.push(key.level() as u8);
        out.extend_from_slice(&key.seed().to_bytes());
        key.bodies().for_each(|body| write_element(&body, &mut out));
    }
    out
}

/// Reads what a server computes with.
///
/// # Errors
/// [`LatticeWireError`] that names what was expected and found.
pub fn decode_evaluation_keys(
    bytes: &[u8],
    parameters: &LatticeParameters,
) -> Result<EvaluationKeys, LatticeWireError> {
    let mut reader = Reader::new(bytes);
    read_head(&mut reader, LatticeKind::EvaluationKeys, parameters)?;
    let (products, count) = (reader.u8()?, reader.u16()?);
    if products > 1 || parameters.ring().special_primes().is_empty() {
        return Err(LatticeWireError::Malformed("evaluation keys"));
    }
    let mut keys = EvaluationKeys::none();
    let mut last = 0;
    for place in 0..u32::from(products) + u32::from(count) {
        let element = reader.u32()? as usize;
        let for_products = place == 0 && products == 1;
        let legal = element % 2 == 1 && element > last && element < 2 * parameters.degree();
        if if for_products { element != 0 } else { !legal } {
            return Err(LatticeWireError::Malformed("automorphism"));
        }
        let key = read_key(&mut reader, parameters)?;
        keys = if for_products { keys.and_products(key) } else { keys.and_automorphism(element, key) };
        last = element;
    }
    reader.expect_rest(0)?;
    Ok(keys)
}

fn read_key(reader: &mut Reader<'_>, parameters: &LatticeParameters) -> Result<EvaluationKey, LatticeWireError> {
    let level = read_level(reader, parameters)?;
    let basis = parameters.ring().key_basis(level);
    let seed = Seed::from_bytes(reader.array()?);
    let bodies = (0..EvaluationKey::digits_at(parameters, level)).map(|_| read_element(reader, parameters, basis));
    Ok(EvaluationKey::from_parts(parameters, level, &bodies.collect::<Result<Vec<_>, _>>()?, seed))
}

fn read_level(reader: &mut Reader<'_>, parameters: &LatticeParameters) -> Result<usize, LatticeWireError> {
    let level = usize::from(reader.u8()?);
    if (1..=parameters.data_primes()).contains(&level) { Ok(level) } else { Err(LatticeWireError::Malformed("level")) }
}

/// A ciphertext of BGV. The bound on its noise is for information: whoever sends it may write any.
pub fn encode_ciphertext(ciphertext: &Ciphertext) -> Vec<u8> {
    let parts = ciphertext.inner().parts();
    let mut out = head(LatticeKind::Ciphertext, ciphertext.parameters());
    out.extend_from_slice(&[ciphertext.level() as u8, parts.len() as u8]);
    out.extend_from_slice(&ciphertext.factor().to_be_bytes());
    let fraction = (BOUND_UNITS * ciphertext.noise_bound()).ceil().clamp(0.0, f64::from(u32::MAX));
    out.extend_from_slice(&(fraction as u32).to_be_bytes());
    parts.iter().for_each(|part| write_element(part, &mut out));
    out
}

/// Reads a ciphertext of BGV.
///
/// # Errors
/// [`LatticeWireError`] that names what was expected and found.
pub fn decode_ciphertext(bytes: &[u8], parameters: &LatticeParameters) -> Result<Ciphertext, LatticeWireError> {
    let mut reader = Reader::new(bytes);
    read_head(&mut reader, LatticeKind::Ciphertext, parameters)?;
    let level = read_level(&mut reader, parameters)?;
    let parts = usize::from(reader.u8()?);
    let factor = u64::from_be_bytes(reader.array()?);
    let bound = f64::from(reader.u32()?) / BOUND_UNITS;
    let Plaintext::Integers(t) = parameters.plaintext() else { return Err(LatticeWireError::Malformed("scheme")) };
    if !(2..=3).contains(&parts) || factor >= t.value() || t.inverse(factor).is_none() {
        return Err(LatticeWireError::Malformed("ciphertext"));
    }
    let basis = parameters.ring().basis(level);
    reader.expect_rest(parts * element_bytes(parameters, basis))?;
    let parts = (0..parts).map(|_| read_element(&mut reader, parameters, basis)).collect::<Result<_, _>>()?;
    Ok(Ciphertext::from_parts(parameters, parts, factor, bound))
}

/// A fresh ciphertext of BGV, half of it a seed.
pub fn encode_seeded_ciphertext(ciphertext: &SeededCiphertext) -> Vec<u8> {
    let inner = ciphertext.inner();
    let mut out = head(LatticeKind::SeededCiphertext, inner.parameters());
    out.push(ciphertext.level() as u8);
    out.extend_from_slice(&inner.seed.to_bytes());
    write_element(&inner.body, &mut out);
    out
}

/// Reads a fresh ciphertext of BGV.
///
/// # Errors
/// [`LatticeWireError`] that names what was expected and found.
pub fn decode_seeded_ciphertext(
    bytes: &[u8],
    parameters: &LatticeParameters,
) -> Result<SeededCiphertext, LatticeWireError> {
    let mut reader = Reader::new(bytes);
    read_head(&mut reader, LatticeKind::SeededCiphertext, parameters)?;
    let level = read_level(&mut reader, parameters)?;
    if parameters.plaintext() == Plaintext::Approximate {
        return Err(LatticeWireError::Malformed("scheme"));
    }
    let basis = parameters.ring().basis(level);
    reader.expect_rest(SEED_BYTES + element_bytes(parameters, basis))?;
    let seed = Seed::from_bytes(reader.array()?);
    Ok(SeededCiphertext::from_parts(parameters, read_element(&mut reader, parameters, basis)?, seed))
}

/// Bytes of a row modulo `q`.
fn row_bytes(degree: usize, q: &Modulus) -> usize {
    (degree * q.bits() as usize).div_ceil(8)
}

fn element_bytes(parameters: &LatticeParameters, basis: Basis) -> usize {
    let ring = parameters.ring();
    ring.tables(basis).map(|table| row_bytes(ring.degree(), table.modulus())).sum()
}

fn write_element(element: &Poly<Eval>, out: &mut Vec<u8>) {
    let ring = element.ring();
    for (row, table) in ring.tables(element.basis()).enumerate() {
        let bits = table.modulus().bits();
        let (mut buffer, mut held) = (0u128, 0);
        for residue in element.row(row) {
            buffer |= u128::from(*residue) << held;
            held += bits;
            if held >= 64 {
                out.extend_from_slice(&(buffer as u64).to_le_bytes());
                (buffer, held) = (buffer >> 64, held - 64);
            }
        }
        out.extend_from_slice(&(buffer as u64).to_le_bytes()[..held.div_ceil(8) as usize]);
    }
}

fn read_element(
    reader: &mut Reader<'_>,
    parameters: &LatticeParameters,
    basis: Basis,
) -> Result<Poly<Eval>, LatticeWireError> {
    let ring = parameters.ring();
    // all of it is there before there is memory for it
    let mut bytes = reader.take(element_bytes(parameters, basis))?;
    let mut values = Vec::with_capacity(basis.rows() * ring.degree());
    for table in ring.tables(basis) {
        let q = table.modulus();
        let row;
        (row, bytes) = bytes.split_at(row_bytes(ring.degree(), q));
        let (mut buffer, mut held, mut words) = (0u128, 0, row.chunks(8));
        for _ in 0..ring.degree() {
            if held < q.bits() {
                let word = words.next().unwrap_or_default();
                let mut padded = [0; 8];
                padded[..word.len()].copy_from_slice(word);
                buffer |= u128::from(u64::from_le_bytes(padded)) << held;
                held += 64;
            }
            let residue = buffer as u64 & (u64::MAX >> (64 - q.bits()));
            if residue >= q.value() {
                return Err(LatticeWireError::Malformed("residue"));
            }
            values.push(residue);
            (buffer, held) = (buffer >> q.bits(), held - q.bits());
        }
        if buffer != 0 {
            return Err(LatticeWireError::Malformed("row"));
        }
    }
    Ok(Poly::from_values(ring, basis, &values))
}
