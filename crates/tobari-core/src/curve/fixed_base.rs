//! Many secret multiples of one public point.
//!
//! For windows of `w = 6` bits the table holds `(2i + 1) · 2^(wj) · B` for `i < 2^(w-1)` and every window `j`: one cache
//! line an entry on curves of 256 bits, 88 KB in all. A batch is worked window by window, so that the window's 32 entries
//! stay in the first-level cache (or in registers) while they are read for each scalar. Cost a scalar of `b` bits: `b/6`
//! batched additions.
//!
//! # Leakage
//! No address depends on a digit. Whatever is added to a sum over the windows from `i` to before `j` is a sum over windows
//! from `j` on: `c·B + d·B` with `c` an odd multiple of `2^(wi)`, `|c| < 2^(wj)`, and `d` a multiple of `2^(wj)`, not zero. As
//! integers `|c| < |d|`, so the addition is exceptional only if `c ± d` is a multiple of the order `n`, which is odd: that
//! needs `i = 0`, and `|c + d|` or `|c - d|` equal to `n`. Only the very last addition gets there, for the scalars
//! `±(n - 2|c|)` with `c` over the lower half of the windows: a random scalar is one with a chance of about `2^-(b/2)`.

use super::points::Scratch;
use super::scalar::{Scalar, digit_count};
use super::{Curve, Points, projective};
use crate::simd::split_window;
use zeroize::Zeroizing;

/// Bits of a window.
const WIDTH: u32 = 6;
/// Entries of a window: the odd multiples up to `2^WIDTH - 1`.
const ENTRIES: usize = 1 << (WIDTH - 1);

/// Runs of windows that are summed side by side: a power of two.
const BLOCKS: usize = 4;

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

    /// The entries of one window for every base and scalar, base by base.
    fn select(&self, bases: &[&FixedBase], window: usize, out: &mut [u64]) {
        let values = &self.windows[window * self.count..(window + 1) * self.count];
        let mut index = Zeroizing::new(vec![0; self.count]);
        let mut negate = Zeroizing::new(vec![0; self.count]);
        for (i, &value) in values.iter().enumerate() {
            (index[i], negate[i]) = split_window(value, WIDTH);
        }
        let size = out.len() / bases.len();
        for (base, out) in bases.iter().zip(out.chunks_exact_mut(size)) {
            (base.curve.kernels().select)(base.window(window), &index, &negate, out);
        }
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

/// Which run stands at a place: bits reversed, so that adding the upper half of the places to the lower half, again and
/// again, always adds neighbours; the last run stands last.
fn run_at(place: usize) -> usize {
    place.reverse_bits() >> (usize::BITS - BLOCKS.trailing_zeros())
}

/// The same scalars times several bases, one base's results after another's.
///
/// The windows are cut into [`BLOCKS`] runs that are summed side by side, so that each step's one inversion serves
/// `BLOCKS · bases · scalars` additions; the runs are added up in the end.
pub(crate) fn multiply_bases(bases: &[&FixedBase], digits: &Digits) -> Points {
    let curve = bases[0].curve;
    let kernels = curve.kernels();
    let windows = digit_count(curve, WIDTH);
    let run = windows.div_ceil(BLOCKS);
    let stride = 2 * curve.shape().words;
    let block = bases.len() * digits.count * stride;
    let mut sums = Points::identity(curve, BLOCKS * bases.len() * digits.count);
    if digits.count == 0 {
        return sums;
    }
    let mut addends = sums.clone();
    let mut scratch = Scratch::default();
    for step in 0..run {
        // all runs have this step but the last one, which may be shorter
        let active = (0..BLOCKS).take_while(|&i| i * run + step < windows).count();
        for (place, out) in addends.words_mut().chunks_exact_mut(block).take(active).enumerate() {
            digits.select(bases, run_at(place) * run + step, out);
        }
        let (sums, addends) = (&mut sums.words_mut()[..active * block], &addends.words()[..active * block]);
        if step == 0 {
            sums.copy_from_slice(addends);
        } else {
            (kernels.add_assign)(sums, addends, &mut scratch.0);
        }
    }
    let mut blocks = BLOCKS;
    while blocks > 1 {
        blocks /= 2;
        let (low, high) = sums.words_mut()[..2 * blocks * block].split_at_mut(blocks * block);
        (kernels.add_assign)(low, high, &mut scratch.0);
    }
    let mut result = Points::from_words(curve, sums.words()[..block].to_vec());
    let negated = Zeroizing::new(digits.negated.repeat(bases.len()));
    (kernels.negate_masked)(result.words_mut(), &negated);
    result
}
