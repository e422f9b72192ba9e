//! Characters of bytes: `χ_u(x) = (-1)^(u·x)` for a mask `u` of bits.

use super::cipher::substitute;

/// The bits of the two nibbles, which are not adjacent. The pairs are chosen so that each pair of a
/// round is a sum of few characters of the previous S-boxes (see [`doubled`]).
const NIBBLES: [[u8; 4]; 2] = [[0, 3, 1, 4], [2, 5, 6, 7]];

/// The mask of a nibble's characters, by their number from 1 to 15.
pub(super) fn mask(nibble: usize, number: usize) -> u8 {
    (0..4).filter(|bit| number >> bit & 1 == 1).map(|bit| 1 << NIBBLES[nibble][bit]).sum()
}

/// `χ_u(x)`.
pub(super) fn value(mask: u8, byte: u8) -> i64 {
    1 - 2 * i64::from((mask & byte).count_ones() & 1)
}

/// The mask `v` with `v·x = u·(2 x)` for the product with 2 in AES's field.
pub(super) fn doubled(mask: u8) -> u8 {
    // bit k of 2 x is the sum of these bits of x
    let bits: [u8; 8] = [0x80, 0x81, 0x02, 0x84, 0x88, 0x10, 0x20, 0x40];
    (0..8).filter(|bit| mask >> bit & 1 == 1).fold(0, |sum, bit| sum ^ bits[bit])
}

/// A mask as the sum of at most two masks of this list.
pub(super) fn split(mask: u8, of: &[u8]) -> Option<Vec<u8>> {
    if of.contains(&mask) {
        return Some(vec![mask]);
    }
    of.iter().find(|first| of.contains(&(mask ^ **first))).map(|first| vec![*first, mask ^ first])
}

/// The divisor of the sums of [`form`].
pub(super) const FORM_DIVISOR: i64 = 64;

/// The weights of `64 χ_v(S(x))`. Each row is a character of the first nibble, from 0 on, and holds
/// the characters of the second nibble.
pub(super) fn form(v: u8) -> Vec<i64> {
    let mut walsh: Vec<i64> = (0..=255).map(|x| value(v, substitute(x))).collect();
    for bit in 0..8 {
        for x in (0..256).filter(|x| x >> bit & 1 == 0) {
            let (a, b) = (walsh[x], walsh[x | 1 << bit]);
            (walsh[x], walsh[x | 1 << bit]) = (a + b, a - b);
        }
    }
    let place = |place: usize| usize::from(mask(0, place / 16) | mask(1, place % 16));
    // every coefficient of the S-box is a multiple of 4
    (0..256).map(|number| walsh[place(number)] / 4).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_characters_of_the_s_box() {
        for v in [1, 2, 0x80, 0x09, 0x12, 0xff] {
            let weights = form(v);
            assert!(weights.iter().all(|weight| weight.abs() <= 8));
            for x in 0..=255u8 {
                let sum: i64 = (0..256)
                    .map(|number| weights[number] * value(mask(0, number / 16), x) * value(mask(1, number % 16), x))
                    .sum();
                assert_eq!(sum, FORM_DIVISOR * value(v, substitute(x)), "{v:02x} of {x:02x}");
            }
        }
    }

    #[test]
    fn masks_of_products_are_those_of_their_factors() {
        let double = |x: u8| (x << 1) ^ if x & 0x80 != 0 { 0x1b } else { 0 };
        for mask in 0..=255 {
            for x in 0..=255 {
                assert_eq!(value(doubled(mask), x), value(mask, double(x)));
            }
        }
    }

    #[test]
    fn nibbles_have_all_bits_and_all_masks_of_either() {
        let all = |nibble| (1..16).map(move |number| mask(nibble, number));
        assert_eq!(mask(0, 15) ^ mask(1, 15), 0xff);
        let mut masks: Vec<u8> = all(0).chain(all(1)).collect();
        masks.sort_unstable();
        masks.dedup();
        assert_eq!(masks.len(), 30);
        assert_eq!(split(3, &[1, 2, 4]), Some(vec![1, 2]));
        assert_eq!((split(4, &[1, 2, 4]), split(7, &[1, 2, 4])), (Some(vec![4]), None));
    }
}
