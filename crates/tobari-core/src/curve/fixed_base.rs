//! Many secret multiples of one public point.
//!
//! For windows of `w = 6` bits the table holds `(2i + 1) · 2^(wj) · B` for `i < 2^(w-1)` and every window `j`: one cache
//! line an entry on curves of 256 bits, 88 KB in all. A batch is worked window by window, so that the window's 32 entries
//! stay in the first-level cache while they are scanned for each scalar, and one field inversion serves the whole batch.
//! Cost a scalar of `b` bits: `b/6` batched additions.
//!
//! # Leakage
//! Every lookup reads its whole window. Before window `j` the accumulator is `c·B` with `c` odd and `|c| < 2^(wj)`, the
//! addend `d·B` with `|d| ≥ 2^(wj)`: different integers, so an exceptional addition needs `c ≡ ±d (mod n)`, which only
//! the last windows can reach, and there only scalars of the form `±(n - 2|c|)`: at most `2^-(b/2)` of them.

use super::points::{Scratch, split_window};
use super::scalar::{Scalar, digit_count};
use super::{Curve, Points, projective};
use zeroize::Zeroizing;

/// Bits of a window.
const WIDTH: u32 = 6;
/// Entries of a window: the odd multiples up to `2^WIDTH - 1`.
const ENTRIES: usize = 1 << (WIDTH - 1);

/// A table of the multiples of one point.
///
/// ```
/// use tobari_core::curve::{Curve, FixedBase, Points, Scalar};
/// let curve = Curve::Secp256k1;
/// let table = FixedBase::new(&Points::generator(curve), 0);
/// let nine = table.multiply_all(&[Scalar::from_u64(curve, 9)]);
/// assert!(nine == Points::generator(curve).multiply(0, &Scalar::from_u64(curve, 9)));
/// ```
pub struct FixedBase {
    curve: Curve,
    /// Window-major: `ENTRIES` points a window.
    table: Vec<u64>,
}

/// The regular signed digits of a batch of scalars, window-major.
pub(crate) struct Digits {
    count: usize,
    windows: Zeroizing<Vec<u8>>,
    negated: Zeroizing<Vec<u64>>,
}

impl Digits {
    pub(crate) fn of(curve: Curve, scalars: &[Scalar]) -> Self {
        let count = scalars.len();
        let mut windows = Zeroizing::new(vec![0; digit_count(curve, WIDTH) * count]);
        let mut negated = Zeroizing::new(vec![0; count]);
        for (i, scalar) in scalars.iter().enumerate() {
            assert_eq!(scalar.curve(), curve);
            negated[i] = scalar.write_signed_digits(WIDTH, &mut windows[i..], count);
        }
        Self { count, windows, negated }
    }
}

impl FixedBase {
    /// The table of point `index` of `base`; about 1,400 point additions.
    ///
    /// # Panics
    /// If there is no such point.
    pub fn new(base: &Points, index: usize) -> Self {
        let curve = base.curve();
        let windows = digit_count(curve, WIDTH);
        let bases = projective::powers_of_two(curve, base.repeat(index, 1).words(), WIDTH, windows);
        let multiples = Points::from_words(curve, bases).odd_multiples(ENTRIES, &mut Scratch::default());
        let stride = 2 * curve.shape().words;
        let mut table = Vec::with_capacity(windows * ENTRIES * stride);
        for window in 0..windows {
            for multiple in &multiples {
                table.extend_from_slice(&multiple.words()[window * stride..(window + 1) * stride]);
            }
        }
        Self { curve, table }
    }

    /// The curve.
    pub fn curve(&self) -> Curve {
        self.curve
    }

    /// `scalars[i] · B` for every `i`; constant time in the scalars.
    ///
    /// # Panics
    /// If a scalar is of another curve.
    pub fn multiply_all(&self, scalars: &[Scalar]) -> Points {
        multiply_bases(&[self], &Digits::of(self.curve, scalars))
    }

    fn window(&self, window: usize) -> &[u64] {
        let words = ENTRIES * 2 * self.curve.shape().words;
        &self.table[window * words..(window + 1) * words]
    }
}

/// The same scalars times several bases, one base's results after another's; all share their inversions.
pub(crate) fn multiply_bases(bases: &[&FixedBase], digits: &Digits) -> Points {
    let curve = bases[0].curve;
    let kernels = curve.kernels();
    let chunk = digits.count * 2 * curve.shape().words;
    let total = digits.count * bases.len();
    let mut result = Points::identity(curve, total);
    if digits.count == 0 {
        return result;
    }
    let mut addend = Points::identity(curve, total);
    let mut scratch = Scratch::default();
    let mut index = Zeroizing::new(vec![0; digits.count]);
    let mut negate = Zeroizing::new(vec![0; digits.count]);
    for (window, values) in digits.windows.chunks_exact(digits.count).enumerate() {
        for (i, &value) in values.iter().enumerate() {
            (index[i], negate[i]) = split_window(value, WIDTH);
        }
        for (base, out) in bases.iter().zip(addend.words_mut().chunks_exact_mut(chunk)) {
            (kernels.select)(base.window(window), &index, &negate, out);
        }
        if window == 0 {
            result.words_mut().copy_from_slice(addend.words());
        } else {
            result.add_words(addend.words(), &mut scratch);
        }
    }
    let negated = Zeroizing::new(digits.negated.repeat(bases.len()));
    (kernels.negate_masked)(result.words_mut(), &negated);
    result
}
