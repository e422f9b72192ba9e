//! Every backend against the portable one, on random residues and on extreme ones.

use super::*;
use crate::ring::{Ntt, primes_below};
use tobari_simd::Emulated;
use tobari_simd::EmulatedFused;
use tobari_simd::EmulatedQuads;

/// Residues from a simple generator; every eighth row is all `q - 1`, every ninth all zero.
struct Rows(u64);

impl Rows {
    fn row(&mut self, q: &Modulus, length: usize) -> Vec<u64> {
        self.0 += 1;
        let (extreme, mut state) = (self.0 % 8, self.0);
        let mut next = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            q.reduce(state ^ state >> 29)
        };
        match extreme {
            0 => vec![q.value() - 1; length],
            1 => vec![0; length],
            2 => (0..length).map(|i| if i % 3 == 0 { q.value() - 1 } else { next() }).collect(),
            _ => (0..length).map(|_| next()).collect(),
        }
    }
}

/// The loops of the vector modules on plain arrays.
static EMULATED: RingKernels = ring_kernels!("emulated", Transform(Emulated), Residues(Emulated));

/// The loops on doubles, on plain arrays.
static EMULATED_DOUBLES: RingKernels =
    ring_kernels!("emulated doubles", DoubleTransform(EmulatedFused), Doubles(EmulatedFused));

/// The loops on lanes of 32 bits, on plain arrays.
static EMULATED_QUADS: RingKernels =
    ring_kernels!("emulated quads", QuadTransform(EmulatedQuads), Estimates(EmulatedQuads));

fn others() -> impl Iterator<Item = &'static RingKernels> {
    RingKernels::available().filter(|kernels| kernels.name != "portable").chain([
        &EMULATED,
        &EMULATED_DOUBLES,
        &EMULATED_QUADS,
    ])
}

/// Primes of all sizes, and composite moduli: the largest, and powers of two.
fn moduli() -> Vec<Modulus> {
    let primes = [20, 30, 37, 46, 47, 49, 50].map(|bits| primes_below(bits, 1 << 9).next().unwrap());
    let others = [2, 3, 257, 1 << 20, 1 << 49, (1 << 50) - 1];
    primes.into_iter().chain(others).map(|q| Modulus::new(q).unwrap()).collect()
}

#[test]
fn transforms_of_every_backend_are_the_portable_ones() {
    let mut rows = Rows(0);
    for log in 1..=17 {
        for bits in [23, 26, 27, 30, 31, 34, 35, 45, 46, 47, 48, 49, 50] {
            let degree = 1 << log;
            let prime = primes_below(bits, 2 * degree as u64).next().unwrap();
            let (q, table) = (Modulus::new(prime).unwrap(), Ntt::new(Modulus::new(prime).unwrap(), degree).unwrap());
            for other in others().filter(|other| log < 13 || !other.name.starts_with("emulated")) {
                for _ in 0..if log < 12 { 16 } else { 3 } {
                    let row = rows.row(&q, degree);
                    for (a, b) in [(PORTABLE.ntt_forward, other.ntt_forward), (PORTABLE.ntt_inverse, other.ntt_inverse)]
                    {
                        let (mut expected, mut found) = (row.clone(), row.clone());
                        a(&q, table.table(), &mut expected);
                        b(&q, table.table(), &mut found);
                        assert!(expected == found, "{} at 2^{log}, {bits} bits", other.name);
                    }
                }
            }
        }
    }
}

#[test]
fn row_by_row_every_backend_does_what_portable_does() {
    let mut rows = Rows(1);
    for (q, other) in moduli().iter().flat_map(|q| others().map(move |other| (*q, other))) {
        for _ in 0..16 {
            let [a, b, c] = [(); 3].map(|()| rows.row(&q, 64));
            let w = q.factor(rows.row(&q, 1)[0]);
            let all = |kernels: &RingKernels| {
                let run = |work: &dyn Fn(&mut [u64])| {
                    let mut out = a.clone();
                    work(&mut out);
                    out
                };
                [
                    run(&|out| (kernels.add_assign)(&q, out, &b)),
                    run(&|out| (kernels.sub_assign)(&q, out, &b)),
                    run(&|out| (kernels.neg_assign)(&q, out)),
                    run(&|out| (kernels.mul_assign)(&q, out, &b)),
                    run(&|out| (kernels.mul)(&q, out, &b, &c)),
                    run(&|out| (kernels.mul_add_assign)(&q, out, &b, &c)),
                    run(&|out| (kernels.scale_assign)(&q, out, w)),
                    run(&|out| (kernels.scale_add_assign)(&q, out, &b, w)),
                    run(&|out| (kernels.sub_scale_assign)(&q, out, &b, w)),
                    run(&|out| {
                        let (mut second, mut third) = (vec![0; 64], vec![0; 64]);
                        (kernels.tensor)(&q, [out, &mut second, &mut third], [&a, &b], [&b, &c]);
                        // each in its own right
                        out.iter_mut().zip(second).for_each(|(x, y)| *x = x.wrapping_mul(3).wrapping_add(y));
                        out.iter_mut().zip(third).for_each(|(x, y)| *x = x.wrapping_mul(3).wrapping_add(y));
                    }),
                ]
            };
            assert_eq!(all(other), all(&PORTABLE), "{} modulo {}", other.name, q.value());
        }
    }
}

#[test]
fn sums_of_products_of_every_backend_are_the_portable_ones() {
    let mut rows = Rows(2);
    for (q, other) in moduli().iter().flat_map(|q| others().map(move |other| (*q, other))) {
        for count in [1, 2, 3, 8, 9, 15, 16, 17, 31, 40] {
            let (all, key) = (rows.row(&q, 64 * 2 * count), rows.row(&q, 64 * 2 * count));
            let rows: Vec<&[u64]> = all.chunks_exact(64).collect();
            let pairs: Vec<RowPair<'_>> = rows.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
            let run = |kernels: &RingKernels, used: usize| {
                let mut out = [[7; 64]; 3];
                let [sum, b, a] = out.each_mut();
                (kernels.inner_product)(&q, sum, &pairs);
                (kernels.key_product)(&q, [b, a], &rows[..used], &key, count);
                out
            };
            for used in [1, count.div_ceil(2), count] {
                assert_eq!(run(other, used), run(&PORTABLE, used), "{} modulo {}", other.name, q.value());
            }
        }
    }
}

#[test]
fn weighted_sums_of_every_backend_are_the_portable_ones() {
    let mut rows = Rows(9);
    for (q, other) in moduli().iter().flat_map(|q| others().map(move |other| (*q, other))) {
        for (inputs, outputs) in [(1, 1), (3, 5), (25, 8), (MAX_INPUTS, 4)] {
            for extreme in [false, true] {
                let weight = |i: usize| match (extreme, i % 3) {
                    (true, 0) => -(1 << 15),
                    (true, _) => 1 << 15,
                    _ => (i * 7919 % 65_537) as i32 - (1 << 15),
                };
                let weights: Vec<i32> = (0..inputs * outputs).map(weight).collect();
                let matrix = WeightMatrix::new(inputs, &weights).unwrap();
                let tiles = if extreme { vec![q.value() - 1; TILE * inputs] } else { rows.row(&q, TILE * inputs) };
                let run = |kernels: &RingKernels| {
                    let mut out = vec![7; TILE * outputs.next_multiple_of(BLOCK)];
                    (kernels.weighted_sums)(&q, &matrix, &tiles, &mut out);
                    out
                };
                assert_eq!(run(other), run(&PORTABLE), "{} modulo {}", other.name, q.value());
                let (last, out) = (weights.chunks(inputs).last().unwrap(), run(&PORTABLE));
                let sum: i128 = tiles.chunks(TILE).zip(last).map(|(x, w)| i128::from(x[5]) * i128::from(*w)).sum();
                assert_eq!(i128::from(out[TILE * (outputs - 1) + 5]), sum.rem_euclid(i128::from(q.value())));
            }
        }
    }
}

#[test]
fn tensor_sums_of_every_backend_are_the_portable_ones() {
    let mut rows = Rows(10);
    for (q, other) in moduli().iter().flat_map(|q| others().map(move |other| (*q, other))) {
        for (inputs, weights) in [(1, 1), (5, 7), (5, 8), (3, 25), (2, MAX_INPUTS)] {
            for extreme in [false, true] {
                let mut tiles = |count: usize| match extreme {
                    true => vec![q.value() - 1; 2 * TILE * count],
                    false => rows.row(&q, 2 * TILE * count),
                };
                let (x, w) = (tiles(inputs), tiles(weights));
                let which: Vec<u32> = (0..weights).map(|i| (i * 7 % inputs) as u32).collect();
                let run = |kernels: &RingKernels| {
                    let mut out = vec![7; 3 * TILE];
                    (kernels.tensor_sum)(&q, &x, &which, &w, &mut out);
                    out
                };
                assert_eq!(run(other), run(&PORTABLE), "{} modulo {}", other.name, q.value());
            }
        }
    }
}

#[test]
fn sums_with_signs_of_every_backend_are_the_portable_ones() {
    let mut rows = Rows(11);
    for (q, other) in moduli().iter().flat_map(|q| others().map(move |other| (*q, other))) {
        let signs = [0, 0xffff, 1, 0x8000, 0x5aa5, 0x1234, 0xfedc];
        for extreme in [None, Some(0), Some(q.value() - 1)] {
            let tiles = extreme.map_or_else(|| rows.row(&q, 2 * TILE * SIGNED), |x| vec![x; 2 * TILE * SIGNED]);
            for part in 0..2 {
                let run = |kernels: &RingKernels| {
                    let mut out = vec![7; 2 * TILE * signs.len()];
                    (kernels.sign_sums)(&q, &tiles[TILE * part..], &signs, &mut out[TILE * part..]);
                    out
                };
                let out = run(&PORTABLE);
                assert_eq!(run(other), out, "{} modulo {}", other.name, q.value());
                for (row, signs) in signs.iter().enumerate() {
                    let term = |i: usize| {
                        let x = i128::from(tiles[2 * TILE * i + TILE * part + 9]);
                        if signs >> i & 1 == 1 { -x } else { x }
                    };
                    let sum = (0..SIGNED).map(term).sum::<i128>().rem_euclid(i128::from(q.value()));
                    assert_eq!(i128::from(out[2 * TILE * row + TILE * part + 9]), sum);
                    assert_eq!(out[2 * TILE * row + TILE * (1 - part)], 7, "every other tile stays");
                }
            }
        }
    }
}

#[test]
fn conversions_of_every_backend_are_the_portable_ones() {
    let mut rows = Rows(3);
    let primes: Vec<Modulus> = moduli().into_iter().take(7).collect();
    for count in [1, 2, 3, 7, 16, 35] {
        let from: Vec<Modulus> = (0..count).map(|i| primes[i % 7]).collect();
        let terms: Vec<Term> = from.iter().map(|q| Term::new(*q, q.factor(rows.row(q, 1)[0]))).collect();
        let all: Vec<Vec<u64>> = from.iter().map(|q| rows.row(q, 88)).collect();
        for p in moduli() {
            let combination = Combination { modulus: p, products: rows.row(&p, count + 1), offset: rows.row(&p, 1)[0] };
            let run = |kernels: &RingKernels| {
                let (mut terms_of, mut quotients, mut out) = (all.clone(), vec![1; 88], vec![1; 88]);
                let mut slices: Vec<&mut [u64]> = terms_of.iter_mut().map(Vec::as_mut_slice).collect();
                (kernels.terms_assign)(&terms, &mut slices, &mut quotients);
                let slices: Vec<&[u64]> = terms_of.iter().chain([&quotients]).map(Vec::as_slice).collect();
                (kernels.combine)(&combination, &slices, &mut out);
                (terms_of, quotients, out)
            };
            others().for_each(|other| assert!(run(other) == run(&PORTABLE), "{} of {count}", other.name));
        }
    }
}

#[test]
fn permutations_of_every_backend_are_the_portable_ones() {
    for (degree, element) in [(8, 5), (16, 31), (64, 3), (1024, 2047), (1024, 125)] {
        let permutation = Permutation::new(degree, |place| {
            let reverse = |index: usize| index.reverse_bits() >> (usize::BITS - degree.trailing_zeros());
            reverse((((2 * reverse(place) + 1) * element) % (2 * degree) - 1) / 2)
        });
        let from: Vec<u64> = (0..degree as u64).collect();
        let run = |kernels: &RingKernels| {
            let mut to = vec![0; degree];
            (kernels.permute)(&permutation, &from, &mut to);
            to
        };
        others().for_each(|other| assert_eq!(run(other), run(&PORTABLE), "{} at {degree}", other.name));
    }
}

#[test]
fn samples_of_every_backend_are_the_portable_ones() {
    let mut rows = Rows(5);
    let all = Modulus::new((1 << 50) - 1).unwrap();
    let table: Vec<u64> = (1..30u64).map(|i| (u64::MAX >> 1) - (1 << (62 - 2 * i))).collect();
    for other in others() {
        for _ in 0..64 {
            let words: Vec<u64> =
                rows.row(&all, 128).iter().map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
            let words: Vec<u64> = words.iter().chain(&table).chain(&[0, u64::MAX, 1 << 63, !0 >> 1]).copied().collect();
            let words = &words[..words.len() - rows.0 as usize % 8];
            let gaussian = |kernels: &RingKernels| {
                let mut out = vec![0; words.len()];
                (kernels.gaussian)(&table, words, &mut out);
                out
            };
            assert_eq!(gaussian(other), gaussian(&PORTABLE), "{}", other.name);
            for q in moduli() {
                let accepted = |kernels: &RingKernels| {
                    let mut out = vec![0; 2 * words.len() + 1];
                    let kept = (kernels.accept)(&q, words, &mut out);
                    out[..kept].to_vec()
                };
                assert_eq!(accepted(other), accepted(&PORTABLE), "{} modulo {}", other.name, q.value());
                let signed: Vec<i64> = rows.row(&q, 64).iter().map(|x| q.centred(*x)).collect();
                let of_signed = |kernels: &RingKernels| {
                    let mut out = vec![0; 64];
                    (kernels.of_signed)(&q, &signed, &mut out);
                    out
                };
                assert_eq!(of_signed(other), of_signed(&PORTABLE), "{} modulo {}", other.name, q.value());
                let residues = rows.row(&q, 64);
                let centred = |kernels: &RingKernels| {
                    let mut out = vec![0; 64];
                    (kernels.centred)(&q, &residues, &mut out);
                    out
                };
                assert_eq!(centred(other), centred(&PORTABLE), "{} modulo {}", other.name, q.value());
                let wide: Vec<i64> = words.iter().take(64).map(|word| *word as i64 >> 12).collect();
                let of_integers = |kernels: &RingKernels| {
                    let mut out = vec![0; 64];
                    (kernels.of_integers)(&q, &wide, &mut out);
                    out
                };
                assert_eq!(of_integers(other), of_integers(&PORTABLE), "{} modulo {}", other.name, q.value());
            }
        }
    }
}

#[test]
fn doubles_have_the_same_bits_on_every_backend() {
    for length in [2, 4, 8, 64, 1024] {
        let number = |i: usize| ((i * 7919 % 1009) as f64 - 500.0) / 37.0;
        let twiddles = Parts { re: (0..length).map(number).collect(), im: (3..length + 3).map(number).collect() };
        let run = |kernels: &RingKernels, forward: bool| {
            let (mut re, mut im): (Vec<f64>, Vec<f64>) = (0..length).map(|i| (number(i * i), number(i + 9))).unzip();
            let stages = if forward { kernels.to_slots } else { kernels.to_coefficients };
            stages(&twiddles, &mut re, &mut im);
            re.iter().chain(&im).map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        for other in others() {
            for forward in [false, true] {
                assert!(run(other, forward) == run(&PORTABLE, forward), "{} at {length}", other.name);
            }
        }
    }
}
