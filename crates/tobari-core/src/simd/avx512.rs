//! AVX-512 with IFMA: eight lanes in one register, 52-bit multiply-add in one instruction.

#![allow(unsafe_code, reason = "vector instructions, and the calls that need them")]

use super::batch52::Batch52;
use super::lanes::{Simd, Task};
use super::lines::Line;
use super::{CurveConstants, CurveKernels, Scratch};
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
    fn view(self, lines: &[Line]) -> &[__m512i] {
        // SAFETY: a line is 64 bytes on a boundary of 64, as a register in memory is
        unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len()) }
    }

    #[inline(always)]
    fn load(self, line: &Line) -> __m512i {
        // SAFETY: as above, and a line is 64 bytes on a boundary of 64
        unsafe { _mm512_load_si512(std::ptr::from_ref(line).cast()) }
    }

    #[inline(always)]
    fn store(self, v: __m512i, line: &mut Line) {
        // SAFETY: as above, and a line is 64 bytes on a boundary of 64
        unsafe { _mm512_store_si512(std::ptr::from_mut(line).cast(), v) }
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

    #[inline(always)]
    fn inline<T: Task>(self, task: T) -> T::Output {
        task.run()
    }
}

/// The loops of this backend for curve `C`.
pub(crate) struct Avx512Kernels<C, const L: usize, const N: usize>(PhantomData<C>);

/// A kernel: the loop of the same name, compiled for these instructions.
macro_rules! kernel {
    ($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?) => {{
        fn kernel<C: CurveConstants<L>, const L: usize, const N: usize>($($argument: $type),*) $(-> $result)? {
            #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512ifma")]
            fn run<C: CurveConstants<L>, const L: usize, const N: usize>($($argument: $type),*) $(-> $result)? {
                Batch52::<Avx512, C, L, N>::new(Avx512(())).$name($($argument),*)
            }
            // SAFETY: `Avx512Kernels::detect` gives this function only to machines that have the instructions
            unsafe { run::<C, L, N>($($argument),*) }
        }
        kernel::<C, L, N>
    }};
}

impl<C: CurveConstants<L>, const L: usize, const N: usize> Avx512Kernels<C, L, N> {
    const KERNELS: CurveKernels = CurveKernels {
        backend: "avx512ifma",
        limbs: N,
        window: 6,
        packet_window: 7,
        add_assign: kernel!(add_assign(a: &mut [Line], b: &[Line], scratch: &mut Scratch)),
        double_assign: kernel!(double_assign(a: &mut [Line], scratch: &mut Scratch)),
        negate_masked: kernel!(negate_masked(a: &mut [Line], mask: &[Line])),
        canonicalise: kernel!(canonicalise(a: &mut [Line])),
        pack: kernel!(pack(a: &[Line], out: &mut [Line])),
        select: kernel!(select(table: &[Line], index: &[Line], negate: &[Line], out: &mut [Line])),
        arrange: |_| {},
        vartime_select: kernel!(vartime_select(table: &[Line], index: &[Line], negate: &[Line], out: &mut [Line])),
        multiply: kernel!(multiply(
            multiples: &[Line],
            windows: &[u8],
            terms: usize,
            out: &mut [Line],
            scratch: &mut Scratch
        )),
        fingerprints: kernel!(fingerprints(points: &[Line], out: &mut [Line])),
        vartime_pair_x: kernel!(vartime_pair_x(
            points: &[Line],
            steps: &[Line],
            out: &mut [Line],
            scratch: &mut Scratch
        ) -> bool),
        import: kernel!(import(integers: &[u64], points: &mut [Line]) -> Result<(), usize>),
        export: kernel!(export(points: &[Line], out: &mut [u64])),
        decompress: kernel!(decompress(integers: &mut [u64], points: &mut [Line]) -> Result<(), usize>),
    };

    /// The loops, if the machine has the instructions: the only way to them, so that they run on no other.
    pub(crate) fn detect() -> Option<&'static CurveKernels> {
        Avx512::detect().map(|_| &Self::KERNELS)
    }
}
