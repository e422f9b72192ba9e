//! The loops that decide the speed of everything above them, and the seam where faster ones are fitted.
//!
//! A backend is a table of functions over plain slices of 64-bit words ([`CurveKernels`]), chosen once. **The portable
//! backend defines the meaning**: every other one must return the same words at every kernel boundary. Points cross the
//! boundary in one form on every backend:
//!
//! * a point is `2L` words, `x` then `y`, least significant word first, `L` = words of the field (3, 4 or 6);
//! * a coordinate stands as a canonical residue in `[0, p)`: of itself where `p = 2^B - c` with a small `c`, else of its
//!   product with `2^(64L)` (Montgomery form);
//! * the identity is `x = y = 0`, which is on none of the curves since `b ≠ 0` on all of them.
//!
//! This is the only room of the crate that may hold `unsafe`; the portable backend needs none.
//!
//! # Leakage
//! The kernels branch on whether an addition is exceptional (equal `x`, or the identity); `import` and `decompress`, which
//! see public points only, on whether a point is valid; and on nothing else that depends on the data. Every mask made of a
//! secret goes through `opaque`. [`FixedBase`](crate::curve::FixedBase) says why secret scalars meet that case with negligible
//! probability only.

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(any(target_arch = "x86_64", test))]
mod batch52;
#[cfg(any(target_arch = "x86_64", test))]
mod codec52;
mod field;
#[cfg(any(target_arch = "x86_64", test))]
mod field52;
mod inverse;
#[cfg(any(target_arch = "x86_64", test))]
mod jacobian52;
#[cfg(any(target_arch = "x86_64", test))]
mod lanes;
mod portable;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512Kernels;
pub(crate) use field::{Element, Form, Prime};
pub(crate) use portable::Portable;

/// Constants of one curve, known at compile time, so that each loop is specialised by prime.
pub(crate) trait CurveConstants<const L: usize>: Prime<L> {
    /// The coefficient `a`.
    const A: Coefficient;
    /// The coefficient `b`, canonical.
    const B: [u64; L];
    /// The generator, canonical `x` and `y`.
    const GENERATOR: [[u64; L]; 2];
    /// The prime order of the group.
    const ORDER: [u64; L];
}

/// The curve coefficient `a`: on all ten curves a small number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coefficient {
    Zero,
    MinusThree,
    Small(u64),
}

/// `mask` again, of which the compiler knows nothing any more. A mask that it sees through it may turn into a branch, or into
/// a read of the one entry that is wanted.
#[inline(always)]
pub(crate) const fn opaque(mask: u64) -> u64 {
    std::hint::black_box(mask)
}

/// Bits of a window of [`CurveKernels::multiply`].
pub(crate) const WINDOW: u32 = 4;
/// Odd multiples that its windows choose from: `1, 3, … 15`.
pub(crate) const WINDOW_ENTRIES: usize = 1 << (WINDOW - 1);

/// The place of a window value `u` in a table of odd multiples, and all ones where its digit `2u - (2^width - 1)` is
/// negative.
pub(crate) fn split_window(window: u8, width: u32) -> (u8, u64) {
    let half = 1u8 << (width - 1);
    let negative = u64::from((window >> (width - 1)) & 1).wrapping_sub(1);
    ((window ^ negative as u8) & (half - 1), negative)
}

/// `multiply(multiples, windows, out, scratch)`.
type Multiply = fn(&[u64], &[u8], &mut [u64], &mut Vec<u64>);
/// `select(table, index, negate, out)`.
type Select = fn(&[u64], &[u8], &[u64], &mut [u64]);

/// One backend's loops for one curve.
///
/// Slices of points have `2L` words a point; two slices given together have the same length (callers check it).
pub struct CurveKernels {
    /// The backend, as `tobari info` prints it.
    pub backend: &'static str,
    /// `a[i] += b[i]` in affine form with one inversion for the batch; complete: equal, opposite and identity operands
    /// give the right sum and do not touch their neighbours. 5M + 1S an addition, and one inversion.
    pub(crate) add_assign: fn(a: &mut [u64], b: &[u64], scratch: &mut Vec<u64>),
    /// `a[i] = 2 a[i]`. 5M + 2S a doubling, and one inversion.
    pub(crate) double_assign: fn(a: &mut [u64], scratch: &mut Vec<u64>),
    /// `a[i] = -a[i]` where `mask[i]` is all ones, unchanged where it is zero; constant time.
    pub(crate) negate_masked: fn(a: &mut [u64], mask: &[u64]),
    /// `out[i] = table[index[i]]`, negated where `negate[i]` is all ones, with neither an address nor a branch that depends
    /// on an index or a mask. At most 64 entries.
    pub(crate) select: Select,
    /// `out[i] = k P_i` for one secret `k`, given as window values of [`WINDOW`] bits, the highest first, and the odd
    /// multiples of all points: `P_0 P_1 …`, then `3P_0 3P_1 …`, up to `15`. Neither an address nor a branch depends on a
    /// window, but for exceptional additions.
    pub(crate) multiply: Multiply,
    /// Canonical integers to the boundary form, in place; `Err(i)` for the first point with a coordinate not below `p` or
    /// off the curve. The identity passes.
    pub(crate) import: fn(points: &mut [u64]) -> Result<(), usize>,
    /// The boundary form to canonical integers, in place.
    pub(crate) export: fn(points: &mut [u64]),
    /// Canonical `x` and, in the lowest bit of `y`, the parity of `y`, to whole points in the boundary form; `Err(i)` for
    /// the first `x` not below `p` or without a point. The identity is not expressible.
    pub(crate) decompress: fn(points: &mut [u64]) -> Result<(), usize>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::catalogue::{limbs52, with_curve};
    use crate::curve::{Curve, FixedBase, Points, Scalar};
    use chacha20::{ChaCha20Rng, rand_core::Rng, rand_core::SeedableRng};

    /// Says that a test needs an instruction set that this machine lacks.
    pub(crate) fn not_run(test: &str) {
        use std::io::Write;
        let Ok(path) = std::env::var("TOBARI_NOT_RUN_LOG") else { return };
        let log = std::fs::OpenOptions::new().append(true).create(true).open(path);
        log.and_then(|mut log| writeln!(log, "{test}: this machine has no AVX-512 IFMA")).unwrap();
    }

    /// The portable loops, then every other set of loops that can run here, the emulated lanes included.
    fn backends(curve: Curve) -> (&'static CurveKernels, Vec<CurveKernels>) {
        with_curve!(curve, C => {
            let mut others = vec![emulated::<C, { C::WORDS }, { limbs52(C::WORDS) }>()];
            others.extend(C::vector_kernels().map(|kernels| CurveKernels { ..*kernels }));
            (C::PORTABLE, others)
        })
    }

    fn emulated<C: CurveConstants<L>, const L: usize, const N: usize>() -> CurveKernels {
        use batch52::Batch52;
        use lanes::Emulated;
        CurveKernels {
            backend: "emulated lanes",
            add_assign: |a, b, scratch| Batch52::<Emulated, C, L, N>::new(Emulated).add_assign(a, b, scratch),
            double_assign: |a, scratch| Batch52::<Emulated, C, L, N>::new(Emulated).double_assign(a, scratch),
            select: |table, index, negate, out| {
                Batch52::<Emulated, C, L, N>::new(Emulated).select(table, index, negate, out);
            },
            multiply: |multiples, windows, out, scratch| {
                Batch52::<Emulated, C, L, N>::new(Emulated).multiply(multiples, windows, out, scratch);
            },
            import: |points| Batch52::<Emulated, C, L, N>::new(Emulated).import(points),
            export: |points| Batch52::<Emulated, C, L, N>::new(Emulated).export(points),
            decompress: |points| Batch52::<Emulated, C, L, N>::new(Emulated).decompress(points),
            ..Portable::<C, L>::KERNELS
        }
    }

    /// Random points with the identity, repetitions and opposites among them.
    fn mixture(curve: Curve, count: usize, rng: &mut ChaCha20Rng) -> Vec<u64> {
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
        batch.words().to_vec()
    }

    #[test]
    fn every_backend_adds_and_doubles_as_portable_does() {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        for curve in Curve::ALL {
            let (portable, others) = backends(curve);
            for count in [0, 1, 7, 8, 9, 31, 32, 33, 64, 71] {
                let (a, b) = (mixture(curve, count, &mut rng), mixture(curve, count, &mut rng));
                let mut scratch = Vec::new();
                let (mut sum, mut double) = (a.clone(), a.clone());
                (portable.add_assign)(&mut sum, &b, &mut scratch);
                (portable.double_assign)(&mut double, &mut scratch);
                for other in &others {
                    let (mut other_sum, mut other_double) = (a.clone(), a.clone());
                    (other.add_assign)(&mut other_sum, &b, &mut scratch);
                    (other.double_assign)(&mut other_double, &mut scratch);
                    assert!(other_sum == sum, "{curve}: {} adds {count} points otherwise", other.backend);
                    assert!(other_double == double, "{curve}: {} doubles {count} points otherwise", other.backend);
                    let mut itself = a.clone();
                    (other.add_assign)(&mut itself, &a, &mut scratch);
                    assert!(itself == double, "{curve}: {} adds a point to itself otherwise", other.backend);
                }
            }
        }
    }

    #[test]
    fn every_backend_selects_as_portable_does() {
        let mut rng = ChaCha20Rng::from_seed([2; 32]);
        for curve in Curve::ALL {
            let (portable, others) = backends(curve);
            let stride = 2 * curve.shape().words;
            for (entries, count) in [(1, 3), (8, 8), (32, 41), (64, 100)] {
                let table = mixture(curve, entries, &mut rng);
                let index: Vec<u8> = (0..count).map(|_| (rng.next_u64() % entries as u64) as u8).collect();
                let negate: Vec<u64> = (0..count).map(|_| (rng.next_u64() & 1).wrapping_neg()).collect();
                let mut expected = vec![0; count * stride];
                (portable.select)(&table, &index, &negate, &mut expected);
                for other in &others {
                    let mut found = vec![0; count * stride];
                    (other.select)(&table, &index, &negate, &mut found);
                    assert!(found == expected, "{curve}: {} selects otherwise", other.backend);
                }
            }
        }
    }

    #[test]
    fn every_backend_imports_exports_and_decompresses_as_portable_does() {
        let mut rng = ChaCha20Rng::from_seed([3; 32]);
        for curve in Curve::ALL {
            let (portable, others) = backends(curve);
            let (stride, words) = (2 * curve.shape().words, curve.shape().words);
            for count in [0, 1, 8, 31, 32, 33, 70] {
                let points = mixture(curve, count, &mut rng);
                let mut integers = points.clone();
                (portable.export)(&mut integers);
                let mut compressed: Vec<u64> = Vec::new();
                for point in integers.chunks_exact(stride).filter(|point| point.iter().any(|word| *word != 0)) {
                    compressed.extend_from_slice(point);
                    let place = compressed.len() - words;
                    compressed[place + 1..].fill(0);
                    compressed[place] &= 1;
                }
                let mut decompressed = compressed.clone();
                assert_eq!((portable.decompress)(&mut decompressed), Ok(()));
                for other in &others {
                    let (mut found, mut back) = (points.clone(), integers.clone());
                    (other.export)(&mut found);
                    assert!(found == integers, "{curve}: {} exports otherwise", other.backend);
                    assert_eq!((other.import)(&mut back), Ok(()), "{curve}: {}", other.backend);
                    assert!(back == points, "{curve}: {} imports otherwise", other.backend);
                    let mut found = compressed.clone();
                    assert_eq!((other.decompress)(&mut found), Ok(()), "{curve}: {}", other.backend);
                    assert!(found == decompressed, "{curve}: {} decompresses otherwise", other.backend);
                }
            }
        }
    }

    #[test]
    fn every_backend_refuses_the_same_points_at_the_same_place() {
        let mut rng = ChaCha20Rng::from_seed([4; 32]);
        for curve in Curve::ALL {
            let (portable, others) = backends(curve);
            let (stride, words) = (2 * curve.shape().words, curve.shape().words);
            let mut integers = mixture(curve, 50, &mut rng);
            (portable.export)(&mut integers);
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
                    let x_only = bad.clone();
                    let expected = (portable.import)(&mut bad.clone());
                    let expected_root = (portable.decompress)(&mut x_only.clone());
                    assert!(fault < 2 || expected == Err(place));
                    for other in &others {
                        assert_eq!((other.import)(&mut bad.clone()), expected, "{curve}: {}", other.backend);
                        assert_eq!(
                            (other.decompress)(&mut x_only.clone()),
                            expected_root,
                            "{curve}: {}",
                            other.backend
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn every_backend_multiplies_as_portable_does() {
        let mut rng = ChaCha20Rng::from_seed([5; 32]);
        for curve in Curve::ALL {
            let (portable, others) = backends(curve);
            for count in [0, 1, 8, 15, 16, 17, 40] {
                let points = Points::from_words(curve, mixture(curve, count, &mut rng));
                let multiples: Vec<u64> = points
                    .odd_multiples(WINDOW_ENTRIES, &mut crate::curve::points::Scratch::default())
                    .iter()
                    .flat_map(|batch| batch.words().to_vec())
                    .collect();
                // random windows, and those of small scalars, where sums meet their own addends
                for shape in 0..4 {
                    let windows: Vec<u8> = (0..6 + 20 * shape)
                        .map(|i| match shape {
                            0 => 8 - u8::from(i > 0) * (rng.next_u64() % 2) as u8,
                            1 => {
                                if i == 0 {
                                    8
                                } else {
                                    7
                                }
                            }
                            _ => (rng.next_u64() % 16) as u8,
                        })
                        .collect();
                    let mut expected = vec![0; points.words().len()];
                    (portable.multiply)(&multiples, &windows, &mut expected, &mut Vec::new());
                    for other in &others {
                        let mut found = vec![0; points.words().len()];
                        (other.multiply)(&multiples, &windows, &mut found, &mut Vec::new());
                        assert!(found == expected, "{curve}: {} multiplies otherwise", other.backend);
                    }
                }
            }
        }
    }
}
