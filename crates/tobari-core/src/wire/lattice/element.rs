//! The bytes of an element: row after row, bit after bit.

use super::LatticeWireError;
use crate::params::LatticeParameters;
use crate::ring::{Basis, Eval, Modulus, Poly};
use crate::wire::Reader;

/// Bytes of an element over this basis.
pub(super) fn element_bytes(parameters: &LatticeParameters, basis: Basis) -> usize {
    let ring = parameters.ring();
    ring.tables(basis).map(|table| row_bytes(ring.degree(), table.modulus())).sum()
}

/// Bytes of a row modulo `q`.
fn row_bytes(degree: usize, q: &Modulus) -> usize {
    (degree * q.bits() as usize).div_ceil(8)
}

pub(super) fn write_element(element: &Poly<Eval>, out: &mut Vec<u8>) {
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

pub(super) fn read_element(
    reader: &mut Reader<'_>,
    parameters: &LatticeParameters,
    basis: Basis,
) -> Result<Poly<Eval>, LatticeWireError> {
    let ring = parameters.ring();
    // all of it is there before there is memory for it
    let mut bytes = reader.take(element_bytes(parameters, basis))?;
    let mut element = Poly::any(ring, basis);
    for (index, table) in ring.tables(basis).enumerate() {
        let q = table.modulus();
        let row;
        (row, bytes) = bytes.split_at(row_bytes(ring.degree(), q));
        let (mut buffer, mut held, mut words) = (0u128, 0, row.chunks(8));
        for value in element.row_mut(index) {
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
            *value = residue;
            (buffer, held) = (buffer >> q.bits(), held - q.bits());
        }
        if buffer != 0 {
            return Err(LatticeWireError::Malformed("row"));
        }
    }
    Ok(element)
}
