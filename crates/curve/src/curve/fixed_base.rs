//! Many secret multiples of one public point.
//!
//! For windows of `w` bits the table holds `(2i + 1) · 2^(wj) · B` for `i < 2^(w-1)` and every
//! window `j`: one cache line an entry on curves of 256 bits. A batch is processed window by
//! window, so that the window's entries stay in the first-level cache (or in registers) while they
//! are read for each scalar. Cost of a scalar of `b` bits: `b/w` batched additions. The best width
//! depends on the backend's way to read a table (`CurveKernels::window`): with `w = 6` a table has
//! 88 KB; with `w = 9`, for tables read by byte shuffles, 475 KB.
//!
//! # Leakage
//! No address depends on a digit. Every addition adds, to a sum over the windows from `i` to before
//! `j`, a sum over windows from `j` on: `c·B + d·B` with `c` an odd multiple of `2^(wi)`,
//! `|c| < 2^(wj)`, and `d` a multiple of `2^(wj)`, not zero. As integers `|c| < |d|`, so the
//! addition is exceptional only if `c ± d` is a multiple of the order `n`, which is odd. That needs
//! `i = 0`, and `|c + d|` or `|c - d|` equal to `n`. Only the very last addition can reach that,
//! for the scalars `±(n - 2|c|)` with `c` over the lower half of the windows. A random scalar is
//! one of them with a chance of about `2^-(b/2)`.

use super::chain::vartime_powers_of_two;
use super::points::{entry_lines, group_lines};
use super::scalar::{RECODED_WORDS, Scalar, digit_count, window_start};
use super::{BuiltCurve, Points};
use crate::kernels::Scratch;
use tobari_simd::{LANES, Line, Lines};

/// Runs of windows that are summed in parallel: a power of two.
const BLOCKS: usize = 4;

/// A table of the multiples of one point.
///
/// ```
/// use tobari_curve::{BuiltCurve, FixedBase, Points, Scalar};
/// let curve = BuiltCurve::Secp256k1;
/// let table = FixedBase::new(&Points::generator(curve), 0);
/// let nine = table.multiply_all(&[Scalar::from_u64(curve, 9)]);
/// assert!(nine == Points::generator(curve).multiply(0, &Scalar::from_u64(curve, 9)));
/// ```
pub struct FixedBase(Table);

/// The same with wider windows, read by addresses that depend on the scalars: for public scalars,
/// and to compare with libraries that do the same with secret ones.
pub struct VartimeFixedBase(Table);

/// Odd multiples of a point for every window.
pub(crate) struct Table {
    curve: BuiltCurve,
    width: u32,
    /// May entries be read by address?
    vartime: bool,
    /// Window-major: `2^(width - 1)` entries a window.
    entries: Vec<Line>,
}

/// The regular signed digits of a batch of scalars, eight scalars in the lanes of a line.
pub(crate) struct Digits {
    count: usize,
    width: u32,
    /// [`RECODED_WORDS`] lines for eight scalars.
    words: Lines,
    negated: Lines,
}

impl Digits {
    pub(crate) fn of(curve: BuiltCurve, width: u32, scalars: &[Scalar]) -> Self {
        let groups = scalars.len().div_ceil(LANES);
        let mut words = Lines::zero(groups * RECODED_WORDS);
        let mut negated = Lines::zero(groups);
        for (i, scalar) in scalars.iter().enumerate() {
            assert_eq!(scalar.curve(), curve);
            let recoded = scalar.recode(width);
            for (word, line) in recoded.words.iter().zip(&mut words[i / LANES * RECODED_WORDS..]) {
                line.0[i % LANES] = *word;
            }
            negated[i / LANES].0[i % LANES] = recoded.negated;
        }
        Self { count: scalars.len(), width, words, negated }
    }

    /// The places of window `window` in a table of odd multiples, and all ones for a negative
    /// digit.
    fn split(&self, window: usize) -> [Lines; 2] {
        let mut split = [(); 2].map(|()| Lines::zero(self.negated.len()));
        let [index, negate] = &mut split;
        let (word, offset) = window_start(window, self.width);
        let half = 1u64 << (self.width - 1);
        for (group, words) in self.words.chunks_exact(RECODED_WORDS).enumerate() {
            let (low, high) = (&words[word].0, &words[(word + 1).min(RECODED_WORDS - 1)].0);
            for lane in 0..LANES {
                let value = (low[lane] >> offset) | (high[lane] << 1 << (63 - offset));
                let negative = ((value >> (self.width - 1)) & 1).wrapping_sub(1);
                index[group].0[lane] = (value ^ negative) & (half - 1);
                negate[group].0[lane] = negative;
            }
        }
        split
    }
}

impl Table {
    /// `2^(width - 1)` odd multiples for each window, batched over the windows.
    fn new(base: &Points, index: usize, width: u32, vartime: bool) -> Self {
        let curve = base.curve();
        let windows = digit_count(curve, width);
        let powers = vartime_powers_of_two(&base.repeat(index, 1), width, windows);
        // whole groups: the padding repeats the first point
        let padded = windows.next_multiple_of(LANES);
        let powers = powers.pick((0..padded).map(|window| if window < windows { window } else { 0 }));
        let multiples = powers.vartime_odd_multiples(width - 1).pack();
        let (lines, count) = (entry_lines(curve), 1 << (width - 1));
        let mut entries = vec![Line::ZERO; windows * count * lines];
        for (place, entry) in entries.chunks_exact_mut(lines).enumerate() {
            let (window, multiple) = (place / count, place % count);
            entry.copy_from_slice(&multiples[(multiple * padded + window) * lines..][..lines]);
        }
        if !vartime {
            entries.chunks_exact_mut(count * lines).for_each(curve.kernels().arrange);
        }
        Self { curve, width, vartime, entries }
    }

    fn window(&self, window: usize) -> &[Line] {
        let lines = (1 << (self.width - 1)) * entry_lines(self.curve);
        &self.entries[window * lines..(window + 1) * lines]
    }
}

impl FixedBase {
    /// The table of point `index` of `base`, a public point; 1,400 to 4,100 point additions.
    ///
    /// # Panics
    /// If the point does not exist.
    pub fn new(base: &Points, index: usize) -> Self {
        Self(Table::new(base, index, base.curve().kernels().window, false))
    }

    /// The table of a point for only a few hundred scalars, so that the cost of the table matters.
    pub(crate) fn of_packet(base: &Points) -> Self {
        Self(Table::new(base, 0, base.curve().kernels().packet_window, false))
    }

    /// The curve.
    pub fn curve(&self) -> BuiltCurve {
        self.0.curve
    }

    pub(crate) fn table(&self) -> &Table {
        &self.0
    }

    /// `scalars[i] · B` for every `i`; constant time in the scalars.
    ///
    /// # Panics
    /// If a scalar is of another curve.
    pub fn multiply_all(&self, scalars: &[Scalar]) -> Points {
        let [multiples] = multiply_bases([&self.0], scalars);
        multiples
    }
}

impl VartimeFixedBase {
    /// The table of point `index` of `base` in windows of `width` bits: `2^(width - 1) · ⌈b/width⌉`
    /// points for an order of `b` bits.
    ///
    /// # Panics
    /// If the point does not exist, or `width` is not from 2 to 16.
    pub fn new(base: &Points, index: usize, width: u32) -> Self {
        assert!((2..=16).contains(&width), "windows of 2 to 16 bits");
        Self(Table::new(base, index, width, true))
    }

    pub(crate) fn table(&self) -> &Table {
        &self.0
    }

    /// `scalars[i] · B` for every `i`; memory addresses depend on the scalars.
    ///
    /// # Panics
    /// If a scalar is of another curve.
    pub fn vartime_multiply_all(&self, scalars: &[Scalar]) -> Points {
        let [multiples] = multiply_bases([&self.0], scalars);
        multiples
    }
}

/// The run at a place, by reversed bits: repeatedly adding the upper half of the places to the
/// lower half then always adds neighbours, and the last run is last.
fn run_at(place: usize) -> usize {
    place.reverse_bits() >> (usize::BITS - BLOCKS.trailing_zeros())
}

/// The same scalars times several bases, base by base.
///
/// The windows are cut into [`BLOCKS`] runs that are summed in parallel, so that the one inversion
/// of a step serves `BLOCKS · bases · scalars` additions. The runs are added at the end.
///
/// # Panics
/// If the bases differ in curve or width.
pub(crate) fn multiply_bases<const B: usize>(bases: [&Table; B], scalars: &[Scalar]) -> [Points; B] {
    let Table { curve, width, .. } = *bases[0];
    assert!(bases.iter().all(|base| base.curve == curve && base.width == width));
    if scalars.is_empty() {
        return bases.map(|_| Points::identity(curve, 0));
    }
    let digits = Digits::of(curve, width, scalars);
    let kernels = curve.kernels();
    let windows = digit_count(curve, width);
    let run = windows.div_ceil(BLOCKS);
    let size = digits.negated.len() * group_lines(curve);
    let block = bases.len() * size;
    let mut sums = Lines::zero(BLOCKS * block);
    let mut addends = sums.clone();
    let mut scratch = if bases[0].vartime { Scratch::public() } else { Scratch::default() };
    for step in 0..run {
        // all runs have this step, except that the last run may be shorter
        let active = (0..BLOCKS).take_while(|&i| i * run + step < windows).count();
        for (place, out) in addends.chunks_exact_mut(block).take(active).enumerate() {
            let window = run_at(place) * run + step;
            let [index, negate] = digits.split(window);
            for (base, out) in bases.iter().zip(out.chunks_exact_mut(size)) {
                let select = if base.vartime { kernels.vartime_select } else { kernels.select };
                select(base.window(window), &index, &negate, out);
            }
        }
        let (sums, addends) = (&mut sums[..active * block], &addends[..active * block]);
        if step == 0 {
            sums.copy_from_slice(addends);
        } else {
            (kernels.add_assign)(sums, addends, &mut scratch);
        }
    }
    let mut blocks = BLOCKS;
    while blocks > 1 {
        blocks /= 2;
        let (low, high) = sums[..2 * blocks * block].split_at_mut(blocks * block);
        (kernels.add_assign)(low, high, &mut scratch);
    }
    std::array::from_fn(|base| {
        let mut lines = sums[base * size..(base + 1) * size].to_vec();
        (kernels.negate_masked)(&mut lines, &digits.negated);
        Points::from_lines(curve, digits.count, lines)
    })
}
