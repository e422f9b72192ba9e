//! Objects in their form in memory, for a machine's own storage. Reading is as fast as a copy.
//!
//! The format has the object's wire form of version `02` without its elements, where an identity of
//! zeros is that of an unknown key, then zeros up to a multiple of 64
//! bytes, then the words of all rows, lowest byte first, in memory order. Keys have both halves
//! here, while the wire form has a seed for one. **This is not an exchange format**: it is as large
//! as memory, and only the version that wrote it can read it. Reading checks the same as on the
//! wire: parameters, level, lengths, and that every residue is below its prime. It does not check
//! that the uniform half of a key belongs to its seed. Use a checksum to detect changes by others.

use super::{
    ID_BYTES, LatticeKind, LatticeWireError, OfScheme, VERSION_WITH_KEY, approximate_fields, check_scheme,
    exact_fields, has_use, head, read_ciphertext_head, read_factor, read_level, read_parameters, read_scale,
    write_key_head,
};
use crate::params::LatticeParameters;
use crate::ring::{Modulus, Poly, SEED_BYTES, Seed};
use crate::rlwe::{self, EvaluationKey, KeyId};
use crate::{bgv, ckks};
use tobari_octets::Reader;

/// Bytes of a word.
const WORD: usize = 8;
/// Words begin at a multiple of this many bytes, a cache line.
const LINE: usize = 64;

/// Bytes of a ciphertext of `parts` parts over `level` data primes.
pub fn ciphertext_bytes(parameters: &LatticeParameters, level: usize, parts: usize) -> usize {
    ciphertext_head(parameters) + WORD * parts * level * parameters.degree()
}

/// Bytes of a key for `level` data primes; for a level that does not exist, of the nearest one.
pub fn key_bytes(parameters: &LatticeParameters, level: usize) -> usize {
    let level = level.clamp(1, parameters.data_primes());
    key_head(parameters) + WORD * EvaluationKey::words_at(parameters, level)
}

/// Bytes of a ciphertext before its words.
fn ciphertext_head(parameters: &LatticeParameters) -> usize {
    let of_scheme = match parameters.plaintext() {
        crate::params::Plaintext::Integers(_) => 12,
        crate::params::Plaintext::Approximate => 8 * (1 + parameters.data_primes()),
    };
    (head(LatticeKind::Ciphertext, parameters).len() + ID_BYTES + 2 + of_scheme).next_multiple_of(LINE)
}

/// Bytes of a key before its words.
fn key_head(parameters: &LatticeParameters) -> usize {
    (head(LatticeKind::EvaluationKeys, parameters).len() + ID_BYTES + 4 + 1 + SEED_BYTES).next_multiple_of(LINE)
}

/// Writes a ciphertext of BGV: exactly [`ciphertext_bytes`].
///
/// # Errors
/// [`LatticeWireError`] if `out` has another length.
pub fn write_ciphertext(ciphertext: &bgv::Ciphertext, out: &mut [u8]) -> Result<(), LatticeWireError> {
    let parts = ciphertext.inner().parts().iter().map(Poly::values);
    let head = head_of(LatticeKind::Ciphertext, ciphertext.parameters(), ciphertext.key());
    write(exact_fields(head, ciphertext), parts, out)
}

/// Reads a ciphertext of BGV.
///
/// # Errors
/// [`LatticeWireError`], with the expected and the found value.
pub fn read_ciphertext(bytes: &[u8], parameters: &LatticeParameters) -> Result<bgv::Ciphertext, LatticeWireError> {
    let (inner, (factor, claim)) = read_parts(LatticeKind::Ciphertext, bytes, parameters, read_factor)?;
    Ok(bgv::Ciphertext::claimed(inner, factor, claim))
}

/// Writes a ciphertext of CKKS: exactly [`ciphertext_bytes`].
///
/// # Errors
/// [`LatticeWireError`] if `out` has another length.
pub fn write_ckks_ciphertext(ciphertext: &ckks::Ciphertext, out: &mut [u8]) -> Result<(), LatticeWireError> {
    let parts = ciphertext.inner().parts().iter().map(Poly::values);
    let head = head_of(LatticeKind::CkksCiphertext, ciphertext.parameters(), ciphertext.key());
    write(approximate_fields(head, ciphertext), parts, out)
}

/// Reads a ciphertext of CKKS.
///
/// # Errors
/// [`LatticeWireError`], with the expected and the found value.
pub fn read_ckks_ciphertext(
    bytes: &[u8],
    parameters: &LatticeParameters,
) -> Result<ckks::Ciphertext, LatticeWireError> {
    let (inner, scale) = read_parts(LatticeKind::CkksCiphertext, bytes, parameters, read_scale)?;
    Ok(ckks::Ciphertext::new(inner, scale, None))
}

/// Writes the only key of an object of BGV: exactly [`key_bytes`].
///
/// # Errors
/// [`LatticeWireError`] if `out` has another length, or there is not exactly one key.
pub fn write_evaluation_key(keys: &bgv::EvaluationKeys, out: &mut [u8]) -> Result<(), LatticeWireError> {
    write_key(LatticeKind::EvaluationKeys, keys.inner(), out)
}

/// Reads a key of BGV.
///
/// # Errors
/// [`LatticeWireError`], with the expected and the found value.
pub fn read_evaluation_key(
    bytes: &[u8],
    parameters: &LatticeParameters,
) -> Result<bgv::EvaluationKeys, LatticeWireError> {
    let keys = read_key(LatticeKind::EvaluationKeys, bytes, parameters)?;
    Ok(bgv::EvaluationKeys::from_inner(parameters, keys))
}

/// Writes the only key of an object of CKKS: exactly [`key_bytes`].
///
/// # Errors
/// [`LatticeWireError`] if `out` has another length, or there is not exactly one key.
pub fn write_ckks_evaluation_key(keys: &ckks::EvaluationKeys, out: &mut [u8]) -> Result<(), LatticeWireError> {
    write_key(LatticeKind::CkksEvaluationKeys, keys.inner(), out)
}

/// Reads a key of CKKS.
///
/// # Errors
/// [`LatticeWireError`], with the expected and the found value.
pub fn read_ckks_evaluation_key(
    bytes: &[u8],
    parameters: &LatticeParameters,
) -> Result<ckks::EvaluationKeys, LatticeWireError> {
    let keys = read_key(LatticeKind::CkksEvaluationKeys, bytes, parameters)?;
    Ok(ckks::EvaluationKeys::from_inner(parameters, keys))
}

/// The first bytes of an object: as many with and without a known key.
fn head_of(kind: LatticeKind, parameters: &LatticeParameters, key: Option<KeyId>) -> Vec<u8> {
    let mut out = head(kind, parameters);
    out[0] = VERSION_WITH_KEY;
    out.extend_from_slice(&key.map_or([0; ID_BYTES], KeyId::to_bytes));
    out
}

/// Starts to read an object: its key, and the bytes after that.
fn open<'a>(
    expected: LatticeKind,
    bytes: &'a [u8],
    parameters: &LatticeParameters,
) -> Result<(Option<KeyId>, Reader<'a>), LatticeWireError> {
    let mut reader = Reader::new(bytes);
    let version = read_parameters(&mut reader, expected, parameters)?;
    if version != VERSION_WITH_KEY {
        return Err(LatticeWireError::Version(version));
    }
    check_scheme(expected, parameters)?;
    Ok((KeyId::from_bytes(reader.array()?), reader))
}

/// Writes a head, then words.
fn write<'a>(
    mut head: Vec<u8>,
    words: impl Iterator<Item = &'a [u64]>,
    mut out: &mut [u8],
) -> Result<(), LatticeWireError> {
    head.resize(head.len().next_multiple_of(LINE), 0);
    let mut take = |bytes: usize| {
        Reader::new(out).expect(bytes)?;
        let room;
        (room, out) = std::mem::take(&mut out).split_at_mut(bytes);
        Ok::<_, LatticeWireError>(room)
    };
    take(head.len())?.copy_from_slice(&head);
    for words in words {
        let room = take(WORD * words.len())?.as_chunks_mut().0;
        room.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
    }
    Ok(Reader::new(out).expect_rest(0)?)
}

/// The `count` words after the head.
fn words_after<'a>(mut reader: Reader<'a>, count: usize) -> Result<&'a [u8], LatticeWireError> {
    let padding = reader.taken().next_multiple_of(LINE) - reader.taken();
    if reader.take(padding)?.iter().any(|byte| *byte != 0) {
        return Err(LatticeWireError::Malformed("padding"));
    }
    reader.expect_rest(WORD * count)?;
    Ok(reader.take(WORD * count)?)
}

/// Reads words modulo `q`. Returns whether all are below `q`.
fn read_words(bytes: &[u8], q: &Modulus, out: &mut [u64]) -> bool {
    let mut outside = 0;
    for (word, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
        outside |= (q.value() - 1).wrapping_sub(*word) | *word; // primes have fewer than 63 bits
    }
    outside >> 63 == 0
}

fn read_parts<T>(
    kind: LatticeKind,
    bytes: &[u8],
    parameters: &LatticeParameters,
    of_scheme: OfScheme<T>,
) -> Result<(rlwe::Ciphertext, T), LatticeWireError> {
    let (key, mut reader) = open(kind, bytes, parameters)?;
    let (level, parts, of_scheme) = read_ciphertext_head(&mut reader, parameters, of_scheme)?;
    let (ring, basis) = (parameters.ring(), parameters.ring().basis(level));
    let words = words_after(reader, parts * level * ring.degree())?;
    let part = |words: &[u8]| {
        let mut part = Poly::any(ring, basis);
        let rows = ring.tables(basis).zip(words.chunks_exact(WORD * ring.degree()));
        let good = rows.enumerate().all(|(row, (table, words))| read_words(words, table.modulus(), part.row_mut(row)));
        good.then_some(part).ok_or(LatticeWireError::Malformed("residue"))
    };
    let parts = words.chunks_exact(WORD * level * ring.degree()).map(part).collect::<Result<_, _>>()?;
    Ok((rlwe::Ciphertext::new(parameters, key, parts), of_scheme))
}

fn write_key(kind: LatticeKind, keys: &rlwe::EvaluationKeys, out: &mut [u8]) -> Result<(), LatticeWireError> {
    let key = keys.only().ok_or(LatticeWireError::Malformed("number of keys"))?;
    let element = keys.automorphisms().next().map_or(0, |(element, _)| element);
    let mut head = head_of(kind, key.parameters(), keys.id());
    write_key_head(element, key, &mut head);
    write(head, [key.values()].into_iter(), out)
}

fn read_key(
    kind: LatticeKind,
    bytes: &[u8],
    parameters: &LatticeParameters,
) -> Result<rlwe::EvaluationKeys, LatticeWireError> {
    let (id, mut reader) = open(kind, bytes, parameters)?;
    if parameters.ring().special_primes().is_empty() {
        return Err(LatticeWireError::Malformed("evaluation keys"));
    }
    let element = reader.u32()? as usize;
    if element != 0 && !has_use(kind, parameters, element) {
        return Err(LatticeWireError::Malformed("automorphism"));
    }
    let level = read_level(&mut reader, parameters)?;
    let seed = Seed::from_bytes(reader.array()?);
    let words = words_after(reader, EvaluationKey::words_at(parameters, level))?;
    let key = EvaluationKey::from_rows(parameters, level, seed, |row, q, out| {
        let length = WORD * out.len();
        read_words(&words[row * length..(row + 1) * length], q, out)
    });
    let key = key.ok_or(LatticeWireError::Malformed("residue"))?;
    let mut keys = rlwe::EvaluationKeys::of(id);
    match element {
        0 => keys.set_for_products(key),
        _ => keys.set_for_automorphism(element, key),
    }
    Ok(keys)
}
