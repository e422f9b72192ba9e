//! AVX-512 with IFMA: eight lanes in one register, 52-bit multiply-add in one instruction.

#![allow(unsafe_code, reason = "vector instructions, and the calls that need them")]

use super::batch52::Batch52;
use super::lanes::{Simd, Task};
use super::portable::Portable;
use super::{CurveConstants, CurveKernels};
use std::arch::x86_64::*;
use std::marker::PhantomData;

/// Proof that this machine has AVX-512 F, VL, DQ and IFMA.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

impl Avx512 {
    /// The proof, if the machine has the instructions.
    pub(super) fn detect() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512ifma");
        has.then_some(Self(()))
    }
}

/// One instruction, or a few, on registers.
macro_rules! instruction {
    ($body:expr) => {{
        // SAFETY: `self` is proof that the machine has the instructions
        unsafe { $body }
    }};
}

impl Simd for Avx512 {
    type V = __m512i;

    #[inline(always)]
    fn splat(self, value: u64) -> __m512i {
        instruction!(_mm512_set1_epi64(value as i64))
    }

    #[inline(always)]
    fn load(self, words: &[u64]) -> __m512i {
        if words.len() >= 8 {
            // SAFETY: as above, and the slice has the 64 bytes that are read
            return unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
        }
        let mask = (1u8 << words.len()) - 1;
        // SAFETY: as above, and only the words of the slice are read
        unsafe { _mm512_maskz_loadu_epi64(mask, words.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, v: __m512i, words: &mut [u64]) {
        if words.len() >= 8 {
            // SAFETY: as above, and the slice has the 64 bytes that are written
            return unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), v) };
        }
        let mask = (1u8 << words.len()) - 1;
        // SAFETY: as above, and only the words of the slice are written
        unsafe { _mm512_mask_storeu_epi64(words.as_mut_ptr().cast(), mask, v) }
    }

    #[inline(always)]
    fn add(self, a: __m512i, b: __m512i) -> __m512i {
        instruction!(_mm512_add_epi64(a, b))
    }

    #[inline(always)]
    fn sub(self, a: __m512i, b: __m512i) -> __m512i {
        instruction!(_mm512_sub_epi64(a, b))
    }

    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        instruction!(_mm512_and_si512(a, b))
    }

    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        instruction!(_mm512_or_si512(a, b))
    }

    #[inline(always)]
    fn shl(self, v: __m512i, count: u32) -> __m512i {
        instruction!(_mm512_sllv_epi64(v, _mm512_set1_epi64(i64::from(count))))
    }

    #[inline(always)]
    fn shr(self, v: __m512i, count: u32) -> __m512i {
        instruction!(_mm512_srlv_epi64(v, _mm512_set1_epi64(i64::from(count))))
    }

    #[inline(always)]
    fn sar(self, v: __m512i, count: u32) -> __m512i {
        instruction!(_mm512_srav_epi64(v, _mm512_set1_epi64(i64::from(count))))
    }

    #[inline(always)]
    fn multiply_add_low(self, sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        instruction!(_mm512_madd52lo_epu64(sum, a, b))
    }

    #[inline(always)]
    fn multiply_add_high(self, sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        instruction!(_mm512_madd52hi_epu64(sum, a, b))
    }

    #[inline(always)]
    fn equal(self, a: __m512i, b: __m512i) -> u8 {
        instruction!(_mm512_cmpeq_epu64_mask(a, b))
    }

    #[inline(always)]
    fn below(self, a: __m512i, b: __m512i) -> u8 {
        instruction!(_mm512_cmplt_epu64_mask(a, b))
    }

    #[inline(always)]
    fn select(self, bits: u8, a: __m512i, b: __m512i) -> __m512i {
        instruction!(_mm512_mask_blend_epi64(bits, a, b))
    }

    #[inline(always)]
    fn look_up(self, index: __m512i, low: __m512i, high: __m512i) -> __m512i {
        instruction!(_mm512_permutex2var_epi64(low, index, high))
    }

    #[inline(always)]
    fn transpose(self, r: [__m512i; 8]) -> [__m512i; 8] {
        instruction!({
            let pairs = [
                _mm512_unpacklo_epi64(r[0], r[1]),
                _mm512_unpackhi_epi64(r[0], r[1]),
                _mm512_unpacklo_epi64(r[2], r[3]),
                _mm512_unpackhi_epi64(r[2], r[3]),
                _mm512_unpacklo_epi64(r[4], r[5]),
                _mm512_unpackhi_epi64(r[4], r[5]),
                _mm512_unpacklo_epi64(r[6], r[7]),
                _mm512_unpackhi_epi64(r[6], r[7]),
            ];
            // quarters of four rows: 0x88 takes the even ones, 0xdd the odd ones
            let [a, b] = [0, 1].map(|i| _mm512_shuffle_i64x2::<0x88>(pairs[i], pairs[i + 2]));
            let [c, d] = [0, 1].map(|i| _mm512_shuffle_i64x2::<0xdd>(pairs[i], pairs[i + 2]));
            let [e, f] = [4, 5].map(|i| _mm512_shuffle_i64x2::<0x88>(pairs[i], pairs[i + 2]));
            let [g, h] = [4, 5].map(|i| _mm512_shuffle_i64x2::<0xdd>(pairs[i], pairs[i + 2]));
            [
                _mm512_shuffle_i64x2::<0x88>(a, e),
                _mm512_shuffle_i64x2::<0x88>(b, f),
                _mm512_shuffle_i64x2::<0x88>(c, g),
                _mm512_shuffle_i64x2::<0x88>(d, h),
                _mm512_shuffle_i64x2::<0xdd>(a, e),
                _mm512_shuffle_i64x2::<0xdd>(b, f),
                _mm512_shuffle_i64x2::<0xdd>(c, g),
                _mm512_shuffle_i64x2::<0xdd>(d, h),
            ]
        })
    }

    #[inline(always)]
    fn outline<T: Task>(self, task: T) -> T::Output {
        #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512ifma")]
        #[inline(never)]
        fn run<T: Task>(task: T) -> T::Output {
            task.run()
        }
        instruction!(run(task))
    }
}

/// The loops of this backend for curve `C`.
pub(crate) struct Avx512Kernels<C, const L: usize, const N: usize>(PhantomData<C>);

impl<C: CurveConstants<L>, const L: usize, const N: usize> Avx512Kernels<C, L, N> {
    const KERNELS: CurveKernels = CurveKernels {
        backend: "avx512ifma",
        add_assign: add_assign::<C, L, N>,
        double_assign: double_assign::<C, L, N>,
        select: select::<C, L, N>,
        multiply: multiply::<C, L, N>,
        import: import::<C, L, N>,
        export: export::<C, L, N>,
        decompress: decompress::<C, L, N>,
        ..Portable::<C, L>::KERNELS
    };

    /// The loops, if the machine has the instructions: the only way to them, so that they run on no other.
    pub(crate) fn detect() -> Option<&'static CurveKernels> {
        Avx512::detect().map(|_| &Self::KERNELS)
    }
}

fn add_assign<C: CurveConstants<L>, const L: usize, const N: usize>(a: &mut [u64], b: &[u64], scratch: &mut Vec<u64>) {
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512ifma")]
    fn run<C: CurveConstants<L>, const L: usize, const N: usize>(a: &mut [u64], b: &[u64], scratch: &mut Vec<u64>) {
        Batch52::<Avx512, C, L, N>::new(Avx512(())).add_assign(a, b, scratch);
    }
    // SAFETY: `Avx512Kernels::detect` gives this function only to machines that have the instructions
    unsafe { run::<C, L, N>(a, b, scratch) }
}

fn double_assign<C: CurveConstants<L>, const L: usize, const N: usize>(a: &mut [u64], scratch: &mut Vec<u64>) {
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512ifma")]
    fn run<C: CurveConstants<L>, const L: usize, const N: usize>(a: &mut [u64], scratch: &mut Vec<u64>) {
        Batch52::<Avx512, C, L, N>::new(Avx512(())).double_assign(a, scratch);
    }
    // SAFETY: as above
    unsafe { run::<C, L, N>(a, scratch) }
}

fn select<C: CurveConstants<L>, const L: usize, const N: usize>(
    table: &[u64],
    index: &[u8],
    negate: &[u64],
    out: &mut [u64],
) {
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512ifma")]
    fn run<C: CurveConstants<L>, const L: usize, const N: usize>(
        table: &[u64],
        index: &[u8],
        negate: &[u64],
        out: &mut [u64],
    ) {
        Batch52::<Avx512, C, L, N>::new(Avx512(())).select(table, index, negate, out);
    }
    // SAFETY: as above
    unsafe { run::<C, L, N>(table, index, negate, out) }
}

fn multiply<C: CurveConstants<L>, const L: usize, const N: usize>(
    multiples: &[u64],
    windows: &[u8],
    out: &mut [u64],
    scratch: &mut Vec<u64>,
) {
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512ifma")]
    fn run<C: CurveConstants<L>, const L: usize, const N: usize>(
        multiples: &[u64],
        windows: &[u8],
        out: &mut [u64],
        scratch: &mut Vec<u64>,
    ) {
        Batch52::<Avx512, C, L, N>::new(Avx512(())).multiply(multiples, windows, out, scratch);
    }
    // SAFETY: as above
    unsafe { run::<C, L, N>(multiples, windows, out, scratch) }
}

fn import<C: CurveConstants<L>, const L: usize, const N: usize>(points: &mut [u64]) -> Result<(), usize> {
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512ifma")]
    fn run<C: CurveConstants<L>, const L: usize, const N: usize>(points: &mut [u64]) -> Result<(), usize> {
        Batch52::<Avx512, C, L, N>::new(Avx512(())).import(points)
    }
    // SAFETY: as above
    unsafe { run::<C, L, N>(points) }
}

fn export<C: CurveConstants<L>, const L: usize, const N: usize>(points: &mut [u64]) {
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512ifma")]
    fn run<C: CurveConstants<L>, const L: usize, const N: usize>(points: &mut [u64]) {
        Batch52::<Avx512, C, L, N>::new(Avx512(())).export(points);
    }
    // SAFETY: as above
    unsafe { run::<C, L, N>(points) }
}

fn decompress<C: CurveConstants<L>, const L: usize, const N: usize>(points: &mut [u64]) -> Result<(), usize> {
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512ifma")]
    fn run<C: CurveConstants<L>, const L: usize, const N: usize>(points: &mut [u64]) -> Result<(), usize> {
        Batch52::<Avx512, C, L, N>::new(Avx512(())).decompress(points)
    }
    // SAFETY: as above
    unsafe { run::<C, L, N>(points) }
}
