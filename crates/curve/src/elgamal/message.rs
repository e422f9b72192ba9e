//! The message part `mG` of a ciphertext, in constant time and without an exceptional addition.
//!
//! `m + 2^17` is written in three unsigned digits of six bits. A digit may be zero, and `0·G` is
//! the identity, a special case of the affine formulas whose time would reveal the digit. So the
//! entries are shifted by fixed points,
//!
//! ```text
//! T_0[d] = dG + H_0      T_1[d] = 2^6 dG + H_1      T_2[d] = 2^12 dG - H_0 - H_1 - 2^17 G
//! ```
//!
//! with `H_0 = 2^100 G` and `H_1 = 2^101 G`: no entry is the identity, and `T_0 + T_1 + T_2 = mG`.

use crate::curve::{BuiltCurve, Points, vartime_powers_of_two};
use crate::kernels::Scratch;
use tobari_simd::Line;
use zeroize::Zeroizing;

/// Bits of a digit.
const WIDTH: u32 = 6;
/// Values of a digit.
const ENTRIES: usize = 1 << WIDTH;
/// Digits of a message.
const DIGITS: usize = 3;
/// Added to a message to make it positive: half the range of three digits.
const OFFSET: i32 = 1 << (WIDTH * DIGITS as u32 - 1);

/// The shifted multiples of the generator.
pub(super) struct MessageTable {
    /// `ENTRIES` points for each digit.
    digits: [Vec<Line>; DIGITS],
}

impl MessageTable {
    pub(super) fn new(curve: BuiltCurve) -> Self {
        Self { digits: points(curve).map(|digit| digit.pack()) }
    }

    /// Adds `m_i G` to every point; constant time in the messages, each within
    /// [`SAMPLE_BOUND`](super::SAMPLE_BOUND).
    pub(super) fn add_to(&self, points: &mut Points, messages: &[i32]) {
        let curve = points.curve();
        let mut scratch = Scratch::default();
        let positive = vec![0; messages.len()];
        let mut index = Zeroizing::new(positive.clone());
        for (position, table) in self.digits.iter().enumerate() {
            for (digit, m) in index.iter_mut().zip(messages) {
                *digit = u64::from((m + OFFSET) as u32 >> (WIDTH as usize * position)) & (ENTRIES as u64 - 1);
            }
            let addend = Points::selected(curve, curve.kernels().select, table, &index, &positive);
            points.add(&addend, &mut scratch);
        }
    }
}

/// The entries of each digit.
fn points(curve: BuiltCurve) -> [Points; DIGITS] {
    let mut scratch = Scratch::default();
    let power = |exponent| vartime_powers_of_two(&Points::generator(curve), exponent, 2).repeat(1, 1);
    let shifts = [power(100), power(101)];
    let mut last = power(WIDTH * DIGITS as u32 - 1);
    for shift in &shifts {
        last.add(shift, &mut scratch);
    }
    last.negate_assign();
    let [first, second] = shifts;
    let starts = [first, second, last];
    let mut digit = 0;
    starts.map(|start| {
        digit += 1;
        progression(&start, &power(WIDTH * (digit - 1)), &mut scratch)
    })
}

/// `start + i·step` for `i < ENTRIES`.
fn progression(start: &Points, step: &Points, scratch: &mut Scratch) -> Points {
    let mut all = start.clone();
    let mut current = start.clone();
    for _ in 1..ENTRIES {
        current.add(step, scratch);
        all.append(&current);
    }
    all
}

/// `mG` by double and add, for tests.
#[cfg(test)]
pub(super) fn lifted(curve: BuiltCurve, m: i32) -> Points {
    let mut point =
        Points::generator(curve).multiply(0, &crate::curve::Scalar::from_u64(curve, u64::from(m.unsigned_abs())));
    if m < 0 {
        point.negate_assign();
    }
    point
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digit_pattern_adds_its_message() {
        for curve in BuiltCurve::ALL {
            let table = MessageTable::new(curve);
            let mut messages: Vec<i32> = (-32_768..=32_768).step_by(4_097).collect();
            messages.extend([-32_768, -32_767, -65, -64, -63, -1, 0, 1, 63, 64, 4_095, 4_096, 32_767, 32_768]);
            let start = Points::generator(curve).multiply(0, &crate::curve::Scalar::from_u64(curve, 1 << 40));
            let mut sums = start.repeat(0, messages.len());
            table.add_to(&mut sums, &messages);
            for (i, m) in messages.into_iter().enumerate() {
                let mut expected = start.clone();
                expected.add_assign(&lifted(curve, m)).unwrap();
                assert!(sums.repeat(i, 1) == expected, "{curve}: {m}");
            }
        }
    }

    #[test]
    fn no_entry_is_the_identity() {
        for curve in BuiltCurve::ALL {
            for table in &points(curve) {
                assert!((0..table.len()).all(|i| !table.is_identity(i)), "{curve}");
            }
        }
    }
}
