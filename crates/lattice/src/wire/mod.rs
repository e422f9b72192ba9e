//! The bytes of the lattice schemes' objects.
//!
//! Every object begins with the version, its kind, and its parameters: `log2 N` (1), data primes
//! (1), special primes (1), digits (1), the plaintext modulus (8; 0 for approximate numbers), then
//! each prime (7). They take about a hundred bytes of objects of a hundred thousand. The reader of
//! an object states the parameters that it must have.
//!
//! In version `02` the identity of the key follows, which is not zero (8, [`KeyId`]). Objects of an
//! unknown key, and parameters, have version `01`.
//!
//! | kind | object | after the parameters |
//! |---|---|---|
//! | 10 | parameters | nothing |
//! | 11 | secret key, after `TOBARI` | seed 32, then 8 bytes against damage |
//! | 12 | public key | seed 32, `b` |
//! | 13 | evaluation keys of BGV | 1 if one is for products (1), automorphisms (2), the keys |
//! | 14 | ciphertext of BGV | level (1), parts (1), factor (8), noise claim, 2^-10 bits (4), parts |
//! | 15 | seeded ciphertext of BGV | level (1), seed 32, `c_0` |
//! | 16 | evaluation keys of CKKS | as 13; each `g` is 1 modulo 4 and not 1, or `2N - 1` |
//! | 17 | ciphertext of CKKS | level (1), parts (1), scale, the parts |
//! | 18 | seeded ciphertext of CKKS | level (1), scale, seed 32, `c_0` |
//! | 19 | keys of a refresh's raise | key to the sparse secret (two primes), key back |
//! | 1a | rounded ciphertext of BGV | factor (8), `c_0`, `c_1` |
//!
//! An evaluation key is `g` (4; 0 for products and raises), level (1), seed 32, `b_0 b_1 …`.
//!
//! A scale is the exponent of 2 (8) and then that of each data prime (8), in two's complement and
//! below 2^40 in absolute value. Plaintexts have no format here: the owner of the numbers encodes
//! them, to the same plaintext on every machine. For files of their owner, [`pack_plaintext`] has a
//! short form without a head.
//!
//! The bytes against damage are drawn from the seed; those of a key with an identity are XORed with
//! it. Integers are big-endian.
//!
//! An element is encoded row by row. A row has its `N` values in the order of [`crate::ring::Ntt`],
//! each in as many bits as its prime has, lowest bits first, padded with zero bits to a byte.
//! Uniform halves are encoded as seeds ([`crate::ring::Seed`]). So an object is less than one per
//! cent longer than its coefficients. Each object has exactly one encoding.

mod element;
mod head;
pub mod rounded;
pub mod words;

pub use self::element::{pack_plaintext, unpack_plaintext};
pub use self::head::{VERSION, decode_parameters, encode_parameters, without_identity};

use self::element::{element_bytes, read_element, row_bytes, unpack, write_element};
use self::head::{ID_BYTES, VERSION_WITH_KEY, check_scheme, head, head_of, open, read_head, read_parameters};
use crate::params::{LatticeError, LatticeParameters, Plaintext};
use crate::ring::{Modulus, SEED_BYTES, Seed};
use crate::rlwe::raise::{RaiseKeys, narrow};
use crate::rlwe::{self, EvaluationKey, KeyId, PublicKey, SecretKey};
use crate::{bgv, ckks};
use tobari_octets::{LengthError, Reader};
use zeroize::{Zeroize, Zeroizing};

/// The first bytes of a key file.
const KEY_MAGIC: &[u8; 6] = b"TOBARI";
/// The stream of a secret key's check bytes.
const CHECK: u64 = 1 << 40;
/// Number of check bytes.
const CHECK_BYTES: usize = 8;

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatticeKind {
    /// Parameters alone.
    Parameters = 0x10,
    /// A secret key file.
    SecretKey = 0x11,
    /// A public key.
    PublicKey = 0x12,
    /// Evaluation keys of BGV.
    EvaluationKeys = 0x13,
    /// A ciphertext of BGV.
    Ciphertext = 0x14,
    /// A fresh ciphertext of BGV; one half is a seed.
    SeededCiphertext = 0x15,
    /// Evaluation keys of CKKS.
    CkksEvaluationKeys = 0x16,
    /// A ciphertext of CKKS.
    CkksCiphertext = 0x17,
    /// A fresh ciphertext of CKKS; one half is a seed.
    CkksSeededCiphertext = 0x18,
    /// The keys of a refresh to its sparse secret and back.
    RaiseKeys = 0x19,
    /// A ciphertext of BGV that is rounded for its last journey.
    RoundedCiphertext = 0x1a,
}

/// Bytes that are not the expected object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LatticeWireError {
    /// Fewer bytes than the object has, or more.
    #[error(transparent)]
    Length(#[from] LengthError),
    /// A key file without its first bytes.
    #[error("not a tobari key file")]
    NotAKeyFile,
    /// A version that this program does not read.
    #[error("wrong version: expected {VERSION} or {VERSION_WITH_KEY}, found {0}")]
    Version(u8),
    /// A key file whose two halves do not belong together.
    #[error("damaged key file: its two halves do not match")]
    DamagedKey,
    /// An object with the identity of its key, where messages have none.
    #[error("expected an object without the identity of its key (version 1), found one with it")]
    Identity,
    /// Another object.
    #[error("wrong kind of object: expected {expected:?}, found number {found}")]
    Kind {
        /// The expected value.
        expected: LatticeKind,
        /// The number found.
        found: u8,
    },
    /// Other parameters than those expected.
    #[error("wrong parameters: expected {expected}, found others")]
    Parameters {
        /// The expected value.
        expected: String,
    },
    /// Invalid parameters, or less than 128 bits of security.
    #[error(transparent)]
    Lattice(#[from] LatticeError),
    /// A ciphertext that everybody can read, where one is sent.
    #[error(
        "expected a ciphertext that only its key opens, found a transparent one, such as x - x: everybody can read \
         it, so send the plain result, or add an encryption of 0"
    )]
    Transparent,
    /// A number out of its range, or not in its only valid form.
    #[error("malformed {0}")]
    Malformed(&'static str),
}

/// A secret key file. Zeroed on drop.
pub fn encode_ring_secret_key(key: &SecretKey) -> Zeroizing<Vec<u8>> {
    let head = head_of(LatticeKind::SecretKey, key.parameters(), key.id());
    let length = KEY_MAGIC.len() + head.len() + SEED_BYTES + CHECK_BYTES;
    let mut out = Zeroizing::new(Vec::with_capacity(length)); // never grows, so no copy is left behind
    out.extend_from_slice(KEY_MAGIC);
    out.extend_from_slice(&head);
    out.extend_from_slice(&*Zeroizing::new(key.to_seed().to_bytes()));
    out.extend_from_slice(&check(key.to_seed(), key.id()));
    out
}

fn check(seed: &Seed, id: Option<KeyId>) -> [u8; CHECK_BYTES] {
    let drawn = Zeroizing::new(seed.derive(CHECK).to_bytes());
    let id = id.map_or([0; ID_BYTES], KeyId::to_bytes);
    std::array::from_fn(|place| drawn[place] ^ id[place])
}

/// Reads a secret key file.
///
/// # Errors
/// [`LatticeWireError`]; no message holds any part of the key.
pub fn decode_ring_secret_key(bytes: &[u8], parameters: &LatticeParameters) -> Result<SecretKey, LatticeWireError> {
    let mut reader = Reader::new(bytes);
    if reader.take(KEY_MAGIC.len()).ok() != Some(KEY_MAGIC) {
        return Err(LatticeWireError::NotAKeyFile);
    }
    let id = read_head(&mut reader, LatticeKind::SecretKey, parameters)?;
    reader.expect_rest(SEED_BYTES + CHECK_BYTES)?;
    let mut bytes: [u8; SEED_BYTES] = reader.array()?;
    let seed = Seed::from_bytes(bytes);
    bytes.zeroize();
    if check(&seed, id) != reader.array()? {
        return Err(LatticeWireError::DamagedKey);
    }
    let key = SecretKey::from_seed(parameters, seed);
    Ok(match id {
        Some(id) => key.with_id(id),
        None => key,
    })
}

/// A public key.
pub fn encode_ring_public_key(key: &PublicKey) -> Vec<u8> {
    let mut out = head_of(LatticeKind::PublicKey, key.parameters(), key.id());
    out.extend_from_slice(&key.seed().to_bytes());
    write_element(key.body(), &mut out);
    out
}

/// Reads a public key.
///
/// # Errors
/// [`LatticeWireError`], with the expected and the found value.
pub fn decode_ring_public_key(bytes: &[u8], parameters: &LatticeParameters) -> Result<PublicKey, LatticeWireError> {
    let mut reader = Reader::new(bytes);
    let id = read_head(&mut reader, LatticeKind::PublicKey, parameters)?;
    let basis = parameters.ring().basis(parameters.data_primes());
    reader.expect_rest(SEED_BYTES + element_bytes(parameters, basis))?;
    let seed = Seed::from_bytes(reader.array()?);
    Ok(PublicKey::from_parts(parameters, id, read_element(&mut reader, parameters, basis)?, seed))
}

/// Evaluation keys of BGV.
pub fn encode_evaluation_keys(keys: &bgv::EvaluationKeys) -> Vec<u8> {
    write_keys(LatticeKind::EvaluationKeys, keys.inner(), keys.parameters())
}

/// Reads evaluation keys of BGV.
///
/// # Errors
/// [`LatticeWireError`], with the expected and the found value.
pub fn decode_evaluation_keys(
    bytes: &[u8],
    parameters: &LatticeParameters,
) -> Result<bgv::EvaluationKeys, LatticeWireError> {
    let keys = read_keys(LatticeKind::EvaluationKeys, bytes, parameters)?;
    Ok(bgv::EvaluationKeys::from_inner(parameters, keys))
}

/// Evaluation keys of CKKS.
pub fn encode_ckks_evaluation_keys(keys: &ckks::EvaluationKeys) -> Vec<u8> {
    write_keys(LatticeKind::CkksEvaluationKeys, keys.inner(), keys.parameters())
}

/// Reads evaluation keys of CKKS.
///
/// # Errors
/// [`LatticeWireError`], with the expected and the found value.
pub fn decode_ckks_evaluation_keys(
    bytes: &[u8],
    parameters: &LatticeParameters,
) -> Result<ckks::EvaluationKeys, LatticeWireError> {
    let keys = read_keys(LatticeKind::CkksEvaluationKeys, bytes, parameters)?;
    Ok(ckks::EvaluationKeys::from_inner(parameters, keys))
}

/// Writes the pair of keys that raises a ciphertext in a [refresh](crate::refresh), if it is among
/// these; [`encode_ckks_evaluation_keys`] writes all others.
pub fn encode_ckks_raise_keys(keys: &ckks::EvaluationKeys) -> Option<Vec<u8>> {
    keys.raise().map(encode_raise_keys)
}

/// Reads the pair of keys that raises a ciphertext, as keys of their own.
///
/// # Errors
/// [`LatticeWireError`], with the expected and the found value.
pub fn decode_ckks_raise_keys(
    bytes: &[u8],
    parameters: &LatticeParameters,
) -> Result<ckks::EvaluationKeys, LatticeWireError> {
    let mut keys = ckks::EvaluationKeys::new(parameters);
    keys.set_raise(decode_raise_keys(bytes, parameters)?);
    Ok(keys)
}

/// The keys of a refresh's raise.
pub(crate) fn encode_raise_keys(keys: &RaiseKeys) -> Vec<u8> {
    let [to_sparse, to_dense] = keys.parts();
    let mut out = head_of(LatticeKind::RaiseKeys, to_dense.parameters(), keys.id());
    for key in [to_sparse, to_dense] {
        write_key_head(0, key, &mut out);
        key.bodies().for_each(|body| write_element(&body, &mut out));
    }
    out
}

/// Reads the keys of a refresh's raise. Parameters without room for a raise are an error.
///
/// # Errors
/// [`LatticeWireError`], with the expected and the found value.
pub(crate) fn decode_raise_keys(bytes: &[u8], parameters: &LatticeParameters) -> Result<RaiseKeys, LatticeWireError> {
    let (id, mut reader) = open(LatticeKind::RaiseKeys, bytes, parameters)?;
    let narrow = narrow(parameters)?;
    let mut key = |parameters: &LatticeParameters, level: usize| {
        let (element, key) = (reader.u32()?, read_key(&mut reader, parameters)?);
        let legal = element == 0 && key.level() == level;
        if legal { Ok(key) } else { Err(LatticeWireError::Malformed("key of a raise")) }
    };
    let keys = [key(&narrow, 1)?, key(parameters, parameters.data_primes())?];
    reader.expect_rest(0)?;
    Ok(RaiseKeys::of(id, keys))
}

fn write_keys(kind: LatticeKind, keys: &rlwe::EvaluationKeys, parameters: &LatticeParameters) -> Vec<u8> {
    let mut out = head_of(kind, parameters, keys.id());
    out.push(u8::from(keys.for_products().is_some()));
    out.extend_from_slice(&(keys.automorphisms().len() as u16).to_be_bytes());
    for (element, key) in keys.for_products().map(|key| (0, key)).into_iter().chain(keys.automorphisms()) {
        write_key_head(element, key, &mut out);
        key.bodies().for_each(|body| write_element(&body, &mut out));
    }
    out
}

/// Writes all of a key except its elements.
fn write_key_head(element: usize, key: &EvaluationKey, out: &mut Vec<u8>) {
    out.extend_from_slice(&(element as u32).to_be_bytes());
    out.push(key.level() as u8);
    out.extend_from_slice(&key.seed().to_bytes());
}

/// Can a key of this scheme be for `X -> X^element`?
fn has_use(kind: LatticeKind, parameters: &LatticeParameters, element: usize) -> bool {
    let degree = parameters.degree();
    let of_scheme = match kind {
        LatticeKind::CkksEvaluationKeys => element == rlwe::conjugation(degree) || element % 4 == 1 && element != 1,
        _ => true,
    };
    element % 2 == 1 && element < 2 * degree && of_scheme
}

fn read_keys(
    kind: LatticeKind,
    bytes: &[u8],
    parameters: &LatticeParameters,
) -> Result<rlwe::EvaluationKeys, LatticeWireError> {
    let (id, mut reader) = open(kind, bytes, parameters)?;
    let (products, count) = (reader.u8()?, reader.u16()?);
    let places = u32::from(products) + u32::from(count);
    if products > 1 || places > 0 && parameters.ring().special_primes().is_empty() {
        return Err(LatticeWireError::Malformed("evaluation keys"));
    }
    let mut keys = rlwe::EvaluationKeys::of(id);
    let mut last = 0;
    for place in 0..places {
        let element = reader.u32()? as usize;
        let for_products = place == 0 && products == 1;
        let legal = element > last && has_use(kind, parameters, element);
        if if for_products { element != 0 } else { !legal } {
            return Err(LatticeWireError::Malformed("automorphism"));
        }
        let key = read_key(&mut reader, parameters)?;
        if for_products {
            keys.set_for_products(key);
        } else {
            keys.set_for_automorphism(element, key);
        }
        last = element;
    }
    reader.expect_rest(0)?;
    Ok(keys)
}

fn read_key(reader: &mut Reader<'_>, parameters: &LatticeParameters) -> Result<EvaluationKey, LatticeWireError> {
    let level = read_level(reader, parameters)?;
    let basis = parameters.ring().key_basis(level);
    let seed = Seed::from_bytes(reader.array()?);
    let digits = EvaluationKey::digits_at(parameters, level);
    // the length is checked before memory is allocated
    reader.expect(digits * element_bytes(parameters, basis))?;
    let length = element_bytes(parameters, basis);
    let bodies = reader.take(digits * length)?;
    let mut start = 0;
    let key = EvaluationKey::from_bodies(parameters, level, seed, |q, rows| {
        let bytes = row_bytes(parameters.degree(), q);
        let bodies = bodies.chunks_exact(length).map(|body| &body[start..start + bytes]);
        let good = bodies.zip(rows).all(|(body, row)| unpack(body, q, row));
        start += bytes;
        good
    });
    key.ok_or(LatticeWireError::Malformed("residue"))
}

fn read_level(reader: &mut Reader<'_>, parameters: &LatticeParameters) -> Result<usize, LatticeWireError> {
    let level = usize::from(reader.u8()?);
    if (1..=parameters.data_primes()).contains(&level) { Ok(level) } else { Err(LatticeWireError::Malformed("level")) }
}

/// A ciphertext of BGV, to send. The bound on its noise becomes a claim
/// ([`claimed_noise`](bgv::Ciphertext::claimed_noise)): it has no effect on the reader.
///
/// # Errors
/// [`LatticeWireError::Transparent`] for a ciphertext that everybody can read.
pub fn encode_ciphertext(ciphertext: &bgv::Ciphertext) -> Result<Vec<u8>, LatticeWireError> {
    opaque(ciphertext.inner())?;
    Ok(store_ciphertext(ciphertext))
}

/// The bytes of [`encode_ciphertext`] for a place of one's own, also of a transparent ciphertext.
pub fn store_ciphertext(ciphertext: &bgv::Ciphertext) -> Vec<u8> {
    let head = head_of(LatticeKind::Ciphertext, ciphertext.parameters(), ciphertext.key());
    write_parts(exact_fields(head, ciphertext), ciphertext.inner())
}

/// Reads a ciphertext of BGV. Nothing is known about its noise: declare a bound before you decrypt
/// it or a result with it ([`declare_noise`](bgv::Ciphertext::declare_noise)).
///
/// # Errors
/// [`LatticeWireError`], with the expected and the found value.
pub fn decode_ciphertext(bytes: &[u8], parameters: &LatticeParameters) -> Result<bgv::Ciphertext, LatticeWireError> {
    let (inner, (factor, claim)) = read_ciphertext(LatticeKind::Ciphertext, bytes, parameters, read_factor)?;
    Ok(bgv::Ciphertext::claimed(inner, factor, claim))
}

/// Rejects a ciphertext that everybody can read.
fn opaque(inner: &rlwe::Ciphertext) -> Result<(), LatticeWireError> {
    if inner.is_transparent() { Err(LatticeWireError::Transparent) } else { Ok(()) }
}

/// A ciphertext of CKKS, to send.
///
/// # Errors
/// [`LatticeWireError::Transparent`] for a ciphertext that everybody can read.
pub fn encode_ckks_ciphertext(ciphertext: &ckks::Ciphertext) -> Result<Vec<u8>, LatticeWireError> {
    opaque(ciphertext.inner())?;
    Ok(store_ckks_ciphertext(ciphertext))
}

/// The bytes of [`encode_ckks_ciphertext`] for a place of one's own, also of a transparent
/// ciphertext.
pub fn store_ckks_ciphertext(ciphertext: &ckks::Ciphertext) -> Vec<u8> {
    let head = head_of(LatticeKind::CkksCiphertext, ciphertext.parameters(), ciphertext.key());
    write_parts(approximate_fields(head, ciphertext), ciphertext.inner())
}

/// Reads a ciphertext of CKKS.
///
/// # Errors
/// [`LatticeWireError`], with the expected and the found value.
pub fn decode_ckks_ciphertext(
    bytes: &[u8],
    parameters: &LatticeParameters,
) -> Result<ckks::Ciphertext, LatticeWireError> {
    let (inner, scale) = read_ciphertext(LatticeKind::CkksCiphertext, bytes, parameters, read_scale)?;
    Ok(ckks::Ciphertext::new(inner, scale, None))
}

/// Adds all of a ciphertext of BGV except its parts.
fn exact_fields(mut out: Vec<u8>, ciphertext: &bgv::Ciphertext) -> Vec<u8> {
    write_size(ciphertext.inner(), &mut out);
    out.extend_from_slice(&ciphertext.factor().to_be_bytes());
    out.extend_from_slice(&ciphertext.bound_units().to_be_bytes());
    out
}

/// Adds all of a ciphertext of CKKS except its parts.
fn approximate_fields(mut out: Vec<u8>, ciphertext: &ckks::Ciphertext) -> Vec<u8> {
    write_size(ciphertext.inner(), &mut out);
    write_scale(ciphertext.scale(), ciphertext.parameters(), &mut out);
    out
}

/// Level and number of parts.
fn write_size(ciphertext: &rlwe::Ciphertext, out: &mut Vec<u8>) {
    out.extend_from_slice(&[ciphertext.level() as u8, ciphertext.parts().len() as u8]);
}

fn write_parts(mut out: Vec<u8>, ciphertext: &rlwe::Ciphertext) -> Vec<u8> {
    ciphertext.parts().iter().for_each(|part| write_element(part, &mut out));
    out
}

/// Reads the scheme-specific fields, for this number of data primes.
type OfScheme<T> = fn(&mut Reader<'_>, &LatticeParameters, usize) -> Result<T, LatticeWireError>;

/// Reads the level, the number of parts, and the scheme-specific fields.
fn read_ciphertext_head<T>(
    reader: &mut Reader<'_>,
    parameters: &LatticeParameters,
    of_scheme: OfScheme<T>,
) -> Result<(usize, usize, T), LatticeWireError> {
    let level = read_level(reader, parameters)?;
    let parts = usize::from(reader.u8()?);
    if !(2..=3).contains(&parts) {
        return Err(LatticeWireError::Malformed("number of parts"));
    }
    Ok((level, parts, of_scheme(reader, parameters, level)?))
}

fn read_ciphertext<T>(
    kind: LatticeKind,
    bytes: &[u8],
    parameters: &LatticeParameters,
    of_scheme: OfScheme<T>,
) -> Result<(rlwe::Ciphertext, T), LatticeWireError> {
    let (key, mut reader) = open(kind, bytes, parameters)?;
    let (level, parts, of_scheme) = read_ciphertext_head(&mut reader, parameters, of_scheme)?;
    let basis = parameters.ring().basis(level);
    reader.expect_rest(parts * element_bytes(parameters, basis))?;
    let parts = (0..parts).map(|_| read_element(&mut reader, parameters, basis)).collect::<Result<_, _>>()?;
    Ok((rlwe::Ciphertext::new(parameters, key, parts), of_scheme))
}

/// A fresh ciphertext of BGV; one half is a seed.
pub fn encode_seeded_ciphertext(ciphertext: &bgv::SeededCiphertext) -> Vec<u8> {
    write_seeded(LatticeKind::SeededCiphertext, ciphertext.inner(), |_| ())
}

/// Reads a fresh ciphertext of BGV.
///
/// # Errors
/// [`LatticeWireError`], with the expected and the found value.
pub fn decode_seeded_ciphertext(
    bytes: &[u8],
    parameters: &LatticeParameters,
) -> Result<bgv::SeededCiphertext, LatticeWireError> {
    let (inner, ()) = read_seeded(LatticeKind::SeededCiphertext, bytes, parameters, |_, _, _| Ok(()))?;
    Ok(bgv::SeededCiphertext::new(inner))
}

/// A fresh ciphertext of CKKS; one half is a seed.
pub fn encode_ckks_seeded_ciphertext(ciphertext: &ckks::SeededCiphertext) -> Vec<u8> {
    write_seeded(LatticeKind::CkksSeededCiphertext, ciphertext.inner(), |out| {
        write_scale(ciphertext.scale(), ciphertext.parameters(), out);
    })
}

/// Reads a fresh ciphertext of CKKS.
///
/// # Errors
/// [`LatticeWireError`], with the expected and the found value.
pub fn decode_ckks_seeded_ciphertext(
    bytes: &[u8],
    parameters: &LatticeParameters,
) -> Result<ckks::SeededCiphertext, LatticeWireError> {
    let (inner, scale) = read_seeded(LatticeKind::CkksSeededCiphertext, bytes, parameters, read_scale)?;
    Ok(ckks::SeededCiphertext::new(inner, scale, None))
}

/// Writes the level, the fields from `of_scheme`, the seed and `c_0`.
fn write_seeded(
    kind: LatticeKind,
    ciphertext: &rlwe::SeededCiphertext,
    of_scheme: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let mut out = head_of(kind, ciphertext.parameters(), ciphertext.key());
    out.push(ciphertext.level() as u8);
    of_scheme(&mut out);
    out.extend_from_slice(&ciphertext.seed.to_bytes());
    write_element(&ciphertext.body, &mut out);
    out
}

/// Reads the level, the scheme-specific fields, the seed and `c_0`.
fn read_seeded<T>(
    kind: LatticeKind,
    bytes: &[u8],
    parameters: &LatticeParameters,
    of_scheme: OfScheme<T>,
) -> Result<(rlwe::SeededCiphertext, T), LatticeWireError> {
    let (key, mut reader) = open(kind, bytes, parameters)?;
    let level = read_level(&mut reader, parameters)?;
    let of_scheme = of_scheme(&mut reader, parameters, level)?;
    let basis = parameters.ring().basis(level);
    reader.expect_rest(SEED_BYTES + element_bytes(parameters, basis))?;
    let seed = Seed::from_bytes(reader.array()?);
    let body = read_element(&mut reader, parameters, basis)?;
    Ok((rlwe::SeededCiphertext::new(parameters, key, body, seed), of_scheme))
}

fn write_scale(scale: &ckks::Scale, parameters: &LatticeParameters, out: &mut Vec<u8>) {
    scale.exponents(parameters.data_primes()).for_each(|exponent| out.extend_from_slice(&exponent.to_be_bytes()));
}

/// The factor of a ciphertext of BGV and the claim of its noise.
fn read_factor(
    reader: &mut Reader<'_>,
    parameters: &LatticeParameters,
    _: usize,
) -> Result<(u64, u32), LatticeWireError> {
    Ok((read_unit(reader, parameters)?, reader.u32()?))
}

/// A factor that is prime to `t`.
fn read_unit(reader: &mut Reader<'_>, parameters: &LatticeParameters) -> Result<u64, LatticeWireError> {
    let factor = u64::from_be_bytes(reader.array()?);
    let unit = |t: Modulus| factor < t.value() && t.inverse(factor).is_some();
    let legal = matches!(parameters.plaintext(), Plaintext::Integers(t) if unit(t));
    if legal { Ok(factor) } else { Err(LatticeWireError::Malformed("factor")) }
}

/// The scale of a message over the first `level` data primes.
fn read_scale(
    reader: &mut Reader<'_>,
    parameters: &LatticeParameters,
    level: usize,
) -> Result<ckks::Scale, LatticeWireError> {
    let mut exponent = || Ok(i64::from_be_bytes(reader.array()?));
    let log2 = exponent()?;
    let primes = (0..parameters.data_primes()).map(|_| exponent()).collect::<Result<_, LengthError>>()?;
    let scale = ckks::Scale::from_exponents(log2, primes).filter(|scale| scale.is_possible(parameters, level));
    scale.ok_or(LatticeWireError::Malformed("scale"))
}
