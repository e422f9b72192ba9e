//! The loops that determine the speed of the crate, and the interface for faster ones.
//!
//! A backend is a table of functions ([`CurveKernels`]), chosen once. Batches of points are lines
//! of eight 64-bit lanes (`Line`), one lane a point: a group of eight points is the limbs of its
//! `x`, least significant first, then those of its `y`, one line a limb. **Each backend defines
//! the meaning of its limbs**: canonical residues of 64-bit words on the portable one, signed
//! 29-bit limbs if products of words have only 64 bits, redundant 52-bit numbers on vectors. All
//! backends share only these rules:
//!
//! * the identity has all limbs zero, and every other point has a non-zero limb in `y` (`b ≠ 0`,
//!   odd order); the lanes beyond the end of a batch are the identity;
//! * an exported point is `2L` words, `x` then `y`, canonical integers, least significant word
//!   first, `L` = 3, 4 or 6. `import` and `export` convert, and **the portable backend on words
//!   defines their results** after any operation;
//! * a table entry is the words of a point's canonical residues, in whole lines (one or two).
//!
//! This is the only module of the crate that may contain `unsafe`; the portable backend needs none.
//!
//! # Leakage
//! The kernels branch on whether an addition is exceptional (equal `x`, or the identity); `import`
//! and `decompress`, which see public points only, on whether a point is valid; and on nothing else
//! that depends on the data. Every mask made from a secret goes through `opaque`.
//! [`FixedBase`](crate::curve::FixedBase) explains why secret scalars reach that case only with
//! negligible probability.

#[cfg(any(target_arch = "x86_64", test))]
mod batch52;
#[cfg(any(target_arch = "x86_64", test))]
mod codec52;
mod coordinate;
mod field;
#[cfg(any(target_arch = "x86_64", test))]
mod field52;
mod inverse;
#[cfg(any(target_arch = "x86_64", test))]
mod jacobian52;
#[cfg(any(target_pointer_width = "32", test))]
mod narrow;
#[cfg(target_arch = "x86_64")]
mod on_avx512;
#[cfg(any(target_arch = "x86_64", test))]
mod pair52;
mod portable;
#[cfg(any(target_arch = "x86_64", test))]
mod product52;
#[cfg(any(target_feature = "simd128", test))]
mod shuffle;
#[cfg(any(target_arch = "x86_64", test))]
mod table52;

pub(crate) use coordinate::Coordinate;
pub(crate) use field::{Element, Form, Prime};
#[cfg(any(target_pointer_width = "32", test))]
pub(crate) use narrow::{Narrow, limbs29};
#[cfg(target_arch = "x86_64")]
pub(crate) use on_avx512::Avx512Kernels;
pub(crate) use portable::Portable;

use tobari_simd::{Line, Lines};

#[cfg(any(target_pointer_width = "32", test))]
/// Unrolls a block for every `$i` below `$n`, at most 16, in the source: browser engines do not
/// unroll loops, and the compiler does not unroll all of these.
macro_rules! unrolled {
    ($i:ident < $n:expr => $body:block) => { unrolled!(@ $i $n, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15) };
    (@ $i:ident $n:expr, $body:block, $($value:literal)*) => {
        $(if $value < $n {
            #[allow(non_upper_case_globals, reason = "a loop's variable")]
            const $i: usize = $value;
            $body
        })*
    };
}
#[cfg(any(target_pointer_width = "32", test))]
use unrolled;

/// Constants of one curve, known at compile time, so that each loop is specialised by prime.
pub(crate) trait CurveConstants<const L: usize>: Prime<L> {
    /// The best coordinates for a machine without vectors.
    type Scalar: Coordinate<L>;
    /// The coefficient `a`.
    const A: Coefficient;
    /// The coefficient `b`, canonical.
    const B: [u64; L];
    /// The generator, canonical `x` and `y`.
    const GENERATOR: [[u64; L]; 2];
    /// The prime order of the group.
    const ORDER: [u64; L];
    /// `β`, canonical, with `(βx, y) = λ(x, y)` for every point, if `a = 0`; else zero.
    const BETA: [u64; L];
}

/// The curve coefficient `a`: on all ten curves a small number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coefficient {
    Zero,
    MinusThree,
    #[cfg_attr(not(feature = "paper"), expect(dead_code, reason = "only p160_1 has such a coefficient"))]
    Small(u64),
}

/// Returns `mask` and hides its possible values from the compiler, which could otherwise turn it
/// into a branch, or into a read of only the selected entry.
#[inline(always)]
pub(crate) const fn opaque(mask: u64) -> u64 {
    std::hint::black_box(mask)
}

/// 64 bits of a coordinate from the two lowest limbs, of 64 bits or of 52, of its canonical
/// residue.
fn fingerprint(low: u64, high: u64) -> u64 {
    low ^ high << 52
}

/// Bits of a window of [`CurveKernels::multiply`].
pub(crate) const WINDOW: u32 = 4;
/// Odd multiples that its windows choose from: `1, 3, … 15`.
#[cfg(any(target_arch = "x86_64", test))]
pub(crate) const WINDOW_ENTRIES: usize = 1 << (WINDOW - 1);

/// The place of a window value `u` in a table of odd multiples, and all ones if its digit
/// `2u - (2^width - 1)` is negative.
pub(crate) fn split_window(window: u8, width: u32) -> (u8, u64) {
    let half = 1u8 << (width - 1);
    let negative = u64::from((window >> (width - 1)) & 1).wrapping_sub(1);
    ((window ^ negative as u8) & (half - 1), negative)
}

/// Memory of the batched inversions, kept between calls and wiped at the end.
#[derive(Default)]
pub(crate) struct Scratch {
    lines: Lines,
    public: bool,
}

impl Scratch {
    /// Memory for public points: the time of inversions may depend on them.
    pub(crate) fn public() -> Self {
        Self { public: true, ..Self::default() }
    }

    /// `count` lines of any content.
    pub(crate) fn lines(&mut self, count: usize) -> &mut [Line] {
        if self.lines.len() < count {
            self.lines = Lines::zero(count); // a new one: growing would leave a copy behind
        }
        &mut self.lines[..count]
    }

    pub(crate) fn is_public(&self) -> bool {
        self.public
    }
}

/// `select(table, index, negate, out)`.
pub(crate) type Select = fn(&[Line], &[Line], &[Line], &mut [Line]);

/// One backend's loops for one curve.
///
/// Slices of points are whole groups; two slices given together have the same length (callers check
/// it).
pub struct CurveKernels {
    /// The backend, as `tobari info` prints it.
    pub backend: &'static str,
    /// Limbs of a coordinate: a group is twice as many lines.
    pub(crate) limbs: usize,
    /// The best width of windows, in bits, for a table that serves many batches by
    /// [`CurveKernels::select`].
    pub(crate) window: u32,
    /// The same for a table that serves only one packet.
    pub(crate) packet_window: u32,
    /// `a[i] += b[i]` in affine form with one inversion for the batch; complete: equal, opposite
    /// and identity operands give the right sum and do not affect their neighbours. 5M + 1S an
    /// addition, and one inversion.
    pub(crate) add_assign: fn(a: &mut [Line], b: &[Line], scratch: &mut Scratch),
    /// `a[i] = 2 a[i]`. 5M + 2S a doubling, and one inversion.
    pub(crate) double_assign: fn(a: &mut [Line], scratch: &mut Scratch),
    /// `a[i] = -a[i]` if the lane of `mask` is all ones, unchanged if it is zero; constant time.
    pub(crate) negate_masked: fn(a: &mut [Line], mask: &[Line]),
    /// Gives equal points equal limbs.
    pub(crate) canonicalise: fn(a: &mut [Line]),
    /// The batch as table entries.
    pub(crate) pack: fn(a: &[Line], out: &mut [Line]),
    /// `out[i] = table[index[i]]`, negated if `negate[i]` is all ones. No address or branch depends
    /// on an index or a mask. The table has at most as many entries as the wider of the two windows
    /// has digits of one sign.
    pub(crate) select: Select,
    /// Puts the entries of one window into the order that `select` reads: once, when the table is
    /// made.
    pub(crate) arrange: fn(&mut [Line]),
    /// The same by addresses that depend on the indices, for tables of any size.
    pub(crate) vartime_select: Select,
    /// `out[i] = k P_i` for one secret `k`, given as window values of [`WINDOW`] bits, the highest
    /// first, and the odd multiples of all points: `P_0 P_1 …`, then `3P_0 3P_1 …`, up to `15`.
    /// With two terms `k` is `k_0 + λ k_1`, whose windows alternate. No address or branch depends
    /// on a window, except in exceptional additions.
    pub(crate) multiply: fn(multiples: &[Line], windows: &[u8], terms: usize, out: &mut [Line], scratch: &mut Scratch),
    /// The fingerprints ([`fingerprint`]) of all `x`, a line for each group.
    pub(crate) fingerprints: fn(points: &[Line], out: &mut [Line]),
    /// The fingerprints ([`fingerprint`]) of `x(Q - S)` and `x(Q + S)`, two lines for each `S` of a
    /// table and each group of points `Q`: 7 products a pair, and one inversion for all. If some
    /// `Q = ±S`, it returns false and writes nothing. The result for the identity is meaningless.
    /// Variable time.
    pub(crate) vartime_pair_x: fn(points: &[Line], steps: &[Line], out: &mut [Line], scratch: &mut Scratch) -> bool,
    /// Canonical integers to points; `Err(i)` for the first point with a coordinate not below `p`
    /// or off the curve. Zeros are the identity.
    pub(crate) import: fn(integers: &[u64], points: &mut [Line]) -> Result<(), usize>,
    /// Points to canonical integers, as many as `integers` has room for.
    pub(crate) export: fn(points: &[Line], integers: &mut [u64]),
    /// Canonical `x` and, in the lowest bit of `y`, the parity of `y`, to points; `Err(i)` for the
    /// first `x` not below `p` or without a point. The identity cannot be expressed. The integers
    /// may be overwritten.
    pub(crate) decompress: fn(integers: &mut [u64], points: &mut [Line]) -> Result<(), usize>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::built::with_curve;
    use crate::curve::catalogue::limbs52;
    use crate::curve::{BuiltCurve, FixedBase, Points, Scalar};
    use chacha20::{ChaCha20Rng, rand_core::Rng, rand_core::SeedableRng};
    use tobari_simd::LANES;

    /// Reports that a test needs an instruction set that this machine lacks.
    pub(crate) fn not_run(test: &str) {
        use std::io::Write;
        let Ok(path) = std::env::var("TOBARI_NOT_RUN_LOG") else { return };
        let log = std::fs::OpenOptions::new().append(true).create(true).open(path);
        log.and_then(|mut log| writeln!(log, "{test}: this machine has no AVX-512 IFMA")).unwrap();
    }

    /// The portable loops, then all other loops that can run here, including emulated lanes.
    fn backends(curve: BuiltCurve) -> (&'static CurveKernels, Vec<CurveKernels>) {
        with_curve!(curve, C => {
            let mut others = vec![emulated::<C, { C::WORDS }, { limbs52(C::WORDS) }>()];
            others.extend(C::vector_kernels().map(|kernels| CurveKernels { ..*kernels }));
            others.extend(C::NARROW);
            (C::PORTABLE, others)
        })
    }

    fn emulated<C: CurveConstants<L>, const L: usize, const N: usize>() -> CurveKernels {
        use batch52::Batch52;
        use tobari_simd::Emulated;
        macro_rules! kernel {
            ($name:ident($($argument:ident),*)) => {
                |$($argument),*| Batch52::<Emulated, C, L, N>::new(Emulated).$name($($argument),*)
            };
        }
        CurveKernels {
            backend: "emulated lanes",
            limbs: N,
            window: 6,
            packet_window: 7,
            add_assign: kernel!(add_assign(a, b, scratch)),
            double_assign: kernel!(double_assign(a, scratch)),
            negate_masked: kernel!(negate_masked(a, mask)),
            canonicalise: kernel!(canonicalise(a)),
            pack: kernel!(pack(a, out)),
            select: kernel!(select(table, index, negate, out)),
            arrange: |_| {},
            vartime_select: kernel!(vartime_select(table, index, negate, out)),
            multiply: kernel!(multiply(multiples, windows, terms, out, scratch)),
            fingerprints: kernel!(fingerprints(points, out)),
            vartime_pair_x: kernel!(vartime_pair_x(points, steps, out, scratch)),
            import: kernel!(import(integers, points)),
            export: kernel!(export(points, integers)),
            decompress: kernel!(decompress(integers, points)),
        }
    }

    impl CurveKernels {
        fn of_integers(&self, curve: BuiltCurve, integers: &[u64]) -> Vec<Line> {
            let mut points = vec![Line::ZERO; (integers.len() / stride(curve)).div_ceil(LANES) * 2 * self.limbs];
            assert_eq!((self.import)(integers, &mut points), Ok(()), "{curve}: {}", self.backend);
            points
        }

        fn integers(&self, points: &[Line], like: &[u64]) -> Vec<u64> {
            let mut integers = vec![0; like.len()];
            (self.export)(points, &mut integers);
            integers
        }
    }

    /// Words of an exported point.
    fn stride(curve: BuiltCurve) -> usize {
        2 * curve.shape().words
    }

    /// Random points with the identity, repetitions and opposites among them, as integers.
    fn mixture(curve: BuiltCurve, count: usize, rng: &mut ChaCha20Rng) -> Vec<u64> {
        let scalars: Vec<Scalar> = (0..count.max(1)).map(|_| Scalar::random(curve, rng)).collect();
        let points = FixedBase::new(&Points::generator(curve), 0).multiply_all(&scalars);
        let mut batch = Points::identity(curve, 0);
        for i in 0..count {
            match rng.next_u64() % 8 {
                0 => batch.append(&Points::identity(curve, 1)),
                1 => batch.append(&points.repeat(0, 1)),
                2 => {
                    let mut opposite = points.repeat(0, 1);
                    opposite.negate_assign();
                    batch.append(&opposite);
                }
                _ => batch.append(&points.repeat(i, 1)),
            }
        }
        batch.to_integers()
    }

    /// Applies `work` to the integers on `kernels`. Returns integers.
    fn done(
        kernels: &CurveKernels,
        curve: BuiltCurve,
        integers: &[u64],
        work: impl FnOnce(&mut Vec<Line>, &mut Scratch),
    ) -> Vec<u64> {
        let mut points = kernels.of_integers(curve, integers);
        work(&mut points, &mut Scratch::default());
        kernels.integers(&points, integers)
    }

    #[test]
    fn every_backend_adds_and_doubles_as_portable_does() {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        for curve in BuiltCurve::ALL {
            let (portable, others) = backends(curve);
            for count in [0, 1, 7, 8, 9, 31, 32, 33, 64, 71] {
                let (a, b) = (mixture(curve, count, &mut rng), mixture(curve, count, &mut rng));
                let plus = |kernels: &CurveKernels, a: &[u64], b: &[u64]| {
                    let b = kernels.of_integers(curve, b);
                    done(kernels, curve, a, |a, scratch| (kernels.add_assign)(a, &b, scratch))
                };
                let twice =
                    |kernels: &CurveKernels| done(kernels, curve, &a, |a, scratch| (kernels.double_assign)(a, scratch));
                let (sum, double) = (plus(portable, &a, &b), twice(portable));
                for other in &others {
                    assert!(plus(other, &a, &b) == sum, "{curve}: {} adds {count} points otherwise", other.backend);
                    assert!(twice(other) == double, "{curve}: {} doubles {count} points otherwise", other.backend);
                    assert!(
                        plus(other, &a, &a) == double,
                        "{curve}: {} adds a point to itself otherwise",
                        other.backend
                    );
                }
            }
        }
    }

    /// Sums of sums stay right: the outputs of a kernel are within the bounds of its inputs.
    #[test]
    fn every_backend_agrees_after_long_chains() {
        let mut rng = ChaCha20Rng::from_seed([6; 32]);
        for curve in BuiltCurve::ALL {
            let (portable, others) = backends(curve);
            let (a, b) = (mixture(curve, 40, &mut rng), mixture(curve, 40, &mut rng));
            let chain = |kernels: &CurveKernels| {
                let mut b = kernels.of_integers(curve, &b);
                let negate = vec![Line([0, u64::MAX, 0, u64::MAX, 0, 0, u64::MAX, u64::MAX]); 5];
                done(kernels, curve, &a, |a, scratch| {
                    for _ in 0..20 {
                        (kernels.add_assign)(a, &b, scratch);
                        (kernels.negate_masked)(a, &negate);
                        (kernels.add_assign)(&mut b, a, scratch);
                        (kernels.double_assign)(&mut b, scratch);
                    }
                })
            };
            let expected = chain(portable);
            for other in &others {
                assert!(chain(other) == expected, "{curve}: {} drifts", other.backend);
            }
        }
    }

    #[test]
    fn fingerprints_of_pairs_are_those_of_the_sums_on_every_backend() {
        let mut rng = ChaCha20Rng::from_seed([7; 32]);
        for curve in BuiltCurve::ALL {
            let (portable, others) = backends(curve);
            let scalars: Vec<Scalar> = (0..44).map(|_| Scalar::random(curve, &mut rng)).collect();
            let points = FixedBase::new(&Points::generator(curve), 0).multiply_all(&scalars).to_integers();
            let (steps, points) = points.split_at(3 * stride(curve));
            for kernels in others.iter().chain([portable]) {
                let lines = kernels.of_integers(curve, points);
                let (groups, entry) = (lines.len() / (2 * kernels.limbs), stride(curve).div_ceil(LANES));
                let mut table = vec![Line::ZERO; 3 * entry];
                (kernels.pack)(&kernels.of_integers(curve, steps), &mut table);
                let (mut found, mut scratch) = (vec![Line::ZERO; 3 * 2 * groups], Scratch::public());
                assert!((kernels.vartime_pair_x)(&lines, &table, &mut found, &mut scratch));
                for (place, found) in found.iter().enumerate() {
                    let (step, group, side) = (place / (2 * groups), place / 2 % groups, place % 2);
                    let step = &steps[step * stride(curve)..(step + 1) * stride(curve)];
                    let mut sum = kernels.of_integers(curve, &step.repeat(LANES));
                    (kernels.negate_masked)(&mut sum, &[Line([(side as u64).wrapping_sub(1); 8])]);
                    let own = &lines[group * 2 * kernels.limbs..(group + 1) * 2 * kernels.limbs];
                    (kernels.add_assign)(&mut sum, own, &mut scratch);
                    let mut expected = [Line::ZERO];
                    (kernels.fingerprints)(&sum, &mut expected);
                    for lane in 0..(41 - group * LANES).min(LANES) {
                        assert_eq!(found.0[lane], expected[0].0[lane], "{curve}: {} {place}", kernels.backend);
                    }
                }
                (kernels.pack)(&lines, &mut table);
                assert!(!(kernels.vartime_pair_x)(&lines, &table, &mut found, &mut scratch), "a point is its own step");
            }
        }
    }

    #[test]
    fn every_backend_selects_as_portable_does() {
        let mut rng = ChaCha20Rng::from_seed([2; 32]);
        for curve in BuiltCurve::ALL {
            let (portable, others) = backends(curve);
            for (entries, count) in [(1, 3_usize), (8, 8), (32, 41), (64, 100), (128, 24)] {
                let table = mixture(curve, entries, &mut rng);
                let lanes = |bound: u64, rng: &mut ChaCha20Rng| -> Vec<Line> {
                    (0..count.div_ceil(8)).map(|_| Line(std::array::from_fn(|_| rng.next_u64() % bound))).collect()
                };
                let index = lanes(entries as u64, &mut rng);
                let negate: Vec<Line> =
                    lanes(2, &mut rng).into_iter().map(|line| Line(line.0.map(u64::wrapping_neg))).collect();
                let like = vec![0; 8 * index.len() * stride(curve)];
                let chosen = |kernels: &CurveKernels, select: Select| {
                    let mut packed = vec![Line::ZERO; entries * stride(curve).div_ceil(LANES)];
                    (kernels.pack)(&kernels.of_integers(curve, &table), &mut packed);
                    if !std::ptr::fn_addr_eq(select, kernels.vartime_select) {
                        (kernels.arrange)(&mut packed);
                    }
                    let mut out = vec![Line::ZERO; index.len() * 2 * kernels.limbs];
                    select(&packed, &index, &negate, &mut out);
                    kernels.integers(&out, &like)
                };
                let expected = chosen(portable, portable.select);
                assert!(chosen(portable, portable.vartime_select) == expected, "{curve}");
                let widest = |kernels: &CurveKernels| kernels.window.max(kernels.packet_window);
                for other in others.iter().filter(|other| entries <= 1 << (widest(other) - 1)) {
                    for select in [other.select, other.vartime_select] {
                        assert!(chosen(other, select) == expected, "{curve}: {} selects otherwise", other.backend);
                    }
                }
            }
        }
    }

    #[test]
    fn every_backend_imports_exports_and_decompresses_as_portable_does() {
        let mut rng = ChaCha20Rng::from_seed([3; 32]);
        for curve in BuiltCurve::ALL {
            let (portable, others) = backends(curve);
            let (stride, words) = (stride(curve), curve.shape().words);
            for count in [0, 1, 8, 31, 32, 33, 70] {
                let points = mixture(curve, count, &mut rng);
                let mut compressed: Vec<u64> = Vec::new();
                let finite = points.chunks_exact(stride).filter(|point| point.iter().any(|word| *word != 0));
                let finite: Vec<u64> = finite.flatten().copied().collect();
                for point in finite.chunks_exact(stride) {
                    compressed.extend_from_slice(&point[..words]);
                    compressed.push(point[words] & 1);
                    compressed.extend(vec![0; words - 1]);
                }
                for kernels in others.iter().chain([portable]) {
                    let back = done(kernels, curve, &points, |lines, _| (kernels.canonicalise)(lines));
                    assert!(back == points, "{curve}: {} imports or exports otherwise", kernels.backend);
                    let mut lines = kernels.of_integers(curve, &finite);
                    assert_eq!((kernels.decompress)(&mut compressed.clone(), &mut lines), Ok(()));
                    assert!(kernels.integers(&lines, &finite) == finite, "{curve}: {}", kernels.backend);
                    (kernels.canonicalise)(&mut lines);
                    let mut again = kernels.of_integers(curve, &finite);
                    (kernels.canonicalise)(&mut again);
                    assert!(lines == again, "{curve}: {} has two forms of a point", kernels.backend);
                }
            }
        }
    }

    #[test]
    fn every_backend_refuses_the_same_points_at_the_same_place() {
        let mut rng = ChaCha20Rng::from_seed([4; 32]);
        for curve in BuiltCurve::ALL {
            let (portable, others) = backends(curve);
            let (stride, words) = (stride(curve), curve.shape().words);
            let integers = mixture(curve, 50, &mut rng);
            for place in [0, 7, 8, 33, 49] {
                for fault in 0..4 {
                    let mut bad = integers.clone();
                    let point = &mut bad[place * stride..(place + 1) * stride];
                    match fault {
                        0 => point[words] ^= 1,
                        1 => point[0] = point[0].wrapping_add(1),
                        2 => point[..words].fill(u64::MAX), // not below p
                        _ => {
                            // p itself for x, and a y
                            let p = with_curve!(curve, C => <C as Prime<{ C::WORDS }>>::MODULUS.to_vec());
                            point[..words].copy_from_slice(&p);
                            point[words] = 1;
                        }
                    }
                    let read = |kernels: &CurveKernels| {
                        let mut lines = vec![Line::ZERO; 50_usize.div_ceil(LANES) * 2 * kernels.limbs];
                        [(kernels.import)(&bad, &mut lines), (kernels.decompress)(&mut bad.clone(), &mut lines)]
                    };
                    let expected = read(portable);
                    assert!(fault < 2 || expected[0] == Err(place));
                    for other in &others {
                        assert_eq!(read(other), expected, "{curve}: {}", other.backend);
                    }
                }
            }
        }
    }

    #[test]
    fn every_backend_multiplies_as_portable_does() {
        let mut rng = ChaCha20Rng::from_seed([5; 32]);
        for curve in BuiltCurve::ALL {
            let (portable, others) = backends(curve);
            let most_terms = if curve.shape().halves.is_some() { 2 } else { 1 };
            for count in [0, 1, 8, 15, 16, 17, 40] {
                let points = mixture(curve, count, &mut rng);
                // random windows, and those of small scalars, for which sums equal their addends
                for (shape, terms) in (0..4).flat_map(|shape| (1..=most_terms).map(move |terms| (shape, terms))) {
                    let windows: Vec<u8> = (0..terms * (6 + 20 * shape))
                        .map(|i| match shape {
                            0 => 8 - u8::from(i > 0) * (rng.next_u64() % 2) as u8,
                            1 => 7 + u8::from(i < terms),
                            _ => (rng.next_u64() % 16) as u8,
                        })
                        .collect();
                    let product = |kernels: &CurveKernels| {
                        let (mut odd, mut scratch) = (kernels.of_integers(curve, &points), Scratch::default());
                        let (mut double, mut multiples) = (odd.clone(), odd.clone());
                        (kernels.double_assign)(&mut double, &mut scratch);
                        for _ in 1..WINDOW_ENTRIES {
                            (kernels.add_assign)(&mut odd, &double, &mut scratch);
                            multiples.extend_from_slice(&odd);
                        }
                        (kernels.multiply)(&multiples, &windows, terms, &mut odd, &mut scratch);
                        kernels.integers(&odd, &points)
                    };
                    let expected = product(portable);
                    for other in &others {
                        assert!(product(other) == expected, "{curve}: {} multiplies otherwise", other.backend);
                    }
                }
            }
        }
    }
}
