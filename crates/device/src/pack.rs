//! Residues as bytes: each polynomial has one string, and no other string is accepted.
//!
//! **Modulo 65,537**: the lower 16 bits of each residue, and a last byte that marks which of the
//! first eight zero words stand for 65,536. A polynomial whose ninth or a later zero word stands
//! for 65,536 has no encoding, and the device takes the next nonce. Uniform residues have more than
//! eight words that are 0 or 65,536 with probability below `2^-81`. A zero word after the eighth is
//! always 0, so each polynomial with an encoding has exactly one. Base 65,537 would take 513 bytes,
//! too.
//!
//! **Of 25 and 28 bits**: the residues one after another, the lowest bit first.

use crate::frame::READINGS;

/// Zero words that the last byte can mark.
const TOLD: usize = 8;

pub(crate) fn pack_17(residues: &[u32; READINGS], body: &mut [u8]) -> bool {
    let (mut zeros, mut last, mut fits) = (0, 0, true);
    for (word, residue) in body.as_chunks_mut::<2>().0.iter_mut().zip(residues) {
        *word = (*residue as u16).to_le_bytes();
        if *residue as u16 == 0 {
            if *residue != 0 {
                fits &= zeros < TOLD;
                last |= 1u8.checked_shl(zeros as u32).unwrap_or(0);
            }
            zeros += 1;
        }
    }
    if let Some(byte) = body.get_mut(2 * READINGS) {
        *byte = last;
    }
    fits
}

pub(crate) fn unpack_17(body: &[u8]) -> Option<[u32; READINGS]> {
    let (words, [last]) = body.as_chunks::<2>() else { return None };
    if words.len() != READINGS {
        return None;
    }
    let (mut residues, mut zeros) = ([0; READINGS], 0);
    for (residue, word) in residues.iter_mut().zip(words) {
        *residue = u32::from(u16::from_le_bytes(*word));
        if *residue == 0 {
            if zeros < TOLD {
                *residue = u32::from((last >> zeros) & 1) << 16;
            }
            zeros += 1;
        }
    }
    // the last byte marks no word that does not exist
    (zeros >= TOLD || last >> zeros == 0).then_some(residues)
}

/// Eight residues of `BITS` bits take `BYTES = BITS` bytes.
pub(crate) fn pack_bits<const BITS: u32, const BYTES: usize>(residues: &[u32; READINGS], body: &mut [u8]) {
    for (bytes, residues) in body.as_chunks_mut::<BYTES>().0.iter_mut().zip(residues.as_chunks::<8>().0) {
        let (mut held, mut bits, mut bytes) = (0u64, 0, bytes.iter_mut());
        for residue in residues {
            held |= u64::from(*residue) << bits;
            bits += BITS;
            while bits >= 8 {
                if let Some(byte) = bytes.next() {
                    *byte = held as u8;
                }
                held >>= 8;
                bits -= 8;
            }
        }
    }
}

pub(crate) fn unpack_bits<const BITS: u32, const BYTES: usize>(body: &[u8], q: u32) -> Option<[u32; READINGS]> {
    let (groups, []) = body.as_chunks::<BYTES>() else { return None };
    if groups.len() != READINGS / 8 {
        return None;
    }
    let (mut residues, mut good) = ([0; READINGS], true);
    for (bytes, residues) in groups.iter().zip(residues.as_chunks_mut::<8>().0) {
        let (mut held, mut bits, mut bytes) = (0u64, 0, bytes.iter());
        for residue in residues {
            while bits < BITS {
                held |= u64::from(*bytes.next()?) << bits;
                bits += 8;
            }
            *residue = (held & ((1 << BITS) - 1)) as u32;
            held >>= BITS;
            bits -= BITS;
            good &= *residue < q;
        }
    }
    good.then_some(residues)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn residues_of_17_bits_come_back_whatever_zeros_they_have() {
        let mut body = [0; 513];
        let (zero, most) = (0, 1 << 16);
        for places in [&[][..], &[0], &[255], &[0, 1, 2, 3, 4, 5, 6, 7], &[9, 30, 31, 200]] {
            for filler in [zero, 1, 65_535] {
                let mut residues = [filler; READINGS];
                places.iter().for_each(|place| residues[*place] = most);
                let told = if filler == zero { places.iter().all(|place| *place < TOLD) } else { true };
                assert_eq!(pack_17(&residues, &mut body), told, "{places:?} among {filler}");
                assert_eq!(unpack_17(&body) == Some(residues), told);
            }
        }
        assert!(!pack_17(&[most; READINGS], &mut body));
        // zero words before the marked ones
        let mut residues = [5; READINGS];
        (residues[3], residues[4], residues[6]) = (zero, most, zero);
        assert!(pack_17(&residues, &mut body) && body[512] == 2 && unpack_17(&body) == Some(residues));
    }

    #[test]
    fn a_polynomial_of_17_bits_has_one_string() {
        let mut body = [1; 513];
        for last in 0..=u8::MAX {
            body[512] = last;
            assert_eq!(unpack_17(&body).is_some(), last == 0, "no zero word");
        }
        body[20..24].fill(0);
        for last in 0..=u8::MAX {
            body[512] = last;
            let found = unpack_17(&body);
            assert_eq!(found.is_some(), last < 4, "two zero words");
            let mut again = [0; 513];
            assert!(found.is_none_or(|residues| pack_17(&residues, &mut again) && again == body));
        }
        assert!(unpack_17(&body[..512]).is_none() && unpack_17(&[0; 515]).is_none());
    }

    fn whole<const BITS: u32, const BYTES: usize>(q: u32) {
        let mut body = vec![0; READINGS * BYTES / 8];
        for scale in [0, 1, 130_051] {
            let mut residues = [q - 1; READINGS];
            residues.iter_mut().zip(0..).step_by(2).for_each(|(residue, i)| *residue = scale * i % q);
            pack_bits::<BITS, BYTES>(&residues, &mut body);
            assert_eq!(unpack_bits::<BITS, BYTES>(&body, q), Some(residues));
        }
        for place in [0, 7, 8, 255] {
            let mut residues = [1; READINGS];
            residues[place] = q;
            pack_bits::<BITS, BYTES>(&residues, &mut body);
            assert_eq!(unpack_bits::<BITS, BYTES>(&body, q), None);
        }
        assert!(unpack_bits::<BITS, BYTES>(&body[1..], q).is_none());
        body.extend([0; BYTES]);
        assert!(unpack_bits::<BITS, BYTES>(&body, q).is_none());
    }

    #[test]
    fn residues_of_25_and_28_bits_come_back_and_larger_ones_are_refused() {
        whole::<25, 25>(33_292_289);
        whole::<28, 28>(268_042_241);
    }
}
