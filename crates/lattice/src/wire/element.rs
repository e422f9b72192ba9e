//! The encoding of an element: row after row, bit after bit.

use super::LatticeWireError;
use crate::bgv::{EncodeError, Plaintext, centred, modulus};
use crate::kernels::RingKernels;
use crate::params::LatticeParameters;
use crate::ring::{Basis, Eval, Modulus, Poly};
use tobari_octets::Reader;

/// Bytes of an element over this basis.
pub(super) fn element_bytes(parameters: &LatticeParameters, basis: Basis) -> usize {
    let ring = parameters.ring();
    ring.tables(basis).map(|table| row_bytes(ring.degree(), table.modulus())).sum()
}

/// Bytes of a row modulo `q`.
pub(super) fn row_bytes(degree: usize, q: &Modulus) -> usize {
    (degree * q.bits() as usize).div_ceil(8)
}

pub(super) fn write_element(element: &Poly<Eval>, out: &mut Vec<u8>) {
    let ring = element.ring();
    for (row, table) in ring.tables(element.basis()).enumerate() {
        pack(element.row(row), table.modulus(), out);
    }
}

fn pack(residues: &[u64], q: &Modulus, out: &mut Vec<u8>) {
    pack_bits(residues, q.bits(), out);
}

/// Writes numbers below `2^bits`. A word is written after every number, repeatedly until it is
/// full: a store costs less than an unpredictable branch.
pub(super) fn pack_bits(residues: &[u64], bits: u32, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + (residues.len() * bits as usize).div_ceil(8), 0);
    let (words, rest) = out[start..].as_chunks_mut::<8>();
    let (mut word, mut held, mut at) = (0, 0, 0);
    for residue in residues {
        let (both, full) = (word | residue << held, held + bits >= 64);
        if let Some(place) = words.get_mut(at) {
            *place = both.to_le_bytes();
        }
        word = if full { residue >> (64 - held) } else { both };
        (at, held) = (at + usize::from(full), (held + bits) % 64);
    }
    rest.copy_from_slice(&word.to_le_bytes()[..rest.len()]);
}

/// A public plaintext of BGV in its shortest form, without a head: its coefficients modulo `t` as a
/// row of an element.
///
/// # Errors
/// [`EncodeError::Approximate`] for parameters of another scheme.
pub fn pack_plaintext(plaintext: &Plaintext, parameters: &LatticeParameters) -> Result<Vec<u8>, EncodeError> {
    let t = modulus(parameters)?;
    let mut residues = vec![0; parameters.degree()];
    (RingKernels::best().of_integers)(&t, plaintext.coefficients(), &mut residues);
    let mut out = Vec::with_capacity(row_bytes(residues.len(), &t));
    pack(&residues, &t, &mut out);
    Ok(out)
}

/// Decodes the output of [`pack_plaintext`].
///
/// # Errors
/// [`LatticeWireError`], with the expected and the found value.
pub fn unpack_plaintext(bytes: &[u8], parameters: &LatticeParameters) -> Result<Plaintext, LatticeWireError> {
    let t = modulus(parameters).map_err(|_| LatticeWireError::Malformed("scheme"))?;
    let mut reader = Reader::new(bytes);
    let length = row_bytes(parameters.degree(), &t);
    reader.expect_rest(length)?;
    let mut residues = vec![0; parameters.degree()];
    if !unpack(reader.take(length)?, &t, &mut residues) {
        return Err(LatticeWireError::Malformed("coefficient"));
    }
    Ok(Plaintext::from_centred(&t, centred(&t, &residues)))
}

pub(super) fn read_element(
    reader: &mut Reader<'_>,
    parameters: &LatticeParameters,
    basis: Basis,
) -> Result<Poly<Eval>, LatticeWireError> {
    let ring = parameters.ring();
    // the length is checked before memory is allocated
    let mut bytes = reader.take(element_bytes(parameters, basis))?;
    let mut element = Poly::any(ring, basis);
    for (index, table) in ring.tables(basis).enumerate() {
        let q = table.modulus();
        let row;
        (row, bytes) = bytes.split_at(row_bytes(ring.degree(), q));
        if !unpack(row, q, element.row_mut(index)) {
            return Err(LatticeWireError::Malformed("residue"));
        }
    }
    Ok(element)
}

/// Bytes of eight values, with the word that holds the last of them.
const WINDOW: usize = 64;

/// Reads residues of as many bits as `q` has. Returns whether all are below `q`.
pub(super) fn unpack(row: &[u8], q: &Modulus, out: &mut [u64]) -> bool {
    unpack_bits(row, q.bits(), q.value(), out)
}

/// Reads numbers of so many bits. Returns whether all are below `end`. Eight numbers fill whole
/// bytes, and each lies in a word that starts at a byte, because none has more than 57 bits. The
/// length of a row is a multiple of eight, so nothing is left at its end.
pub(super) fn unpack_bits(row: &[u8], bits: u32, end: u64, out: &mut [u64]) -> bool {
    let bits = bits as usize;
    let mask = u64::MAX >> (64 - bits);
    let places: [(usize, usize); 8] = std::array::from_fn(|i| (i * bits / 8, i * bits % 8));
    let mut outside = 0;
    for (block, eight) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let rest = &row[block * bits..];
        let mut padded = [0; WINDOW];
        let window = rest.first_chunk().unwrap_or_else(|| {
            padded[..rest.len()].copy_from_slice(rest);
            &padded
        });
        for (value, (byte, shift)) in eight.iter_mut().zip(places) {
            let word = window[byte..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            *value = word >> shift & mask;
            outside |= (end - 1).wrapping_sub(*value); // its highest bit is set if the value is not below `end`
        }
    }
    outside >> 63 == 0
}
