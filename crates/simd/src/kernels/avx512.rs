//! AVX-512 with IFMA: eight lanes in one register, and a 52-bit multiply-add in one instruction.
//! The loops are the generic ones of other crates, compiled for these instructions.

#![allow(unsafe_code, reason = "vector instructions, and the calls that need them")]

use super::lanes::{Simd, Task};
use super::lines::{LANES, Line};
use super::sealed::Sealed;
use std::arch::x86_64::*;

/// The distance ahead of a read at which [`Simd::prefetch`] asks for memory. The hardware
/// prefetcher stops at the end of a page.
const PREFETCH_BYTES: usize = 1024;

/// Proof that this machine has AVX-512 F, VL, DQ and IFMA.
#[derive(Clone, Copy)]
pub struct Avx512(());

impl Avx512 {
    /// The proof, if the machine has the instructions.
    pub fn detect() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512ifma");
        has.then_some(Self(()))
    }

    /// The proof, without a check of the machine.
    ///
    /// # Safety
    /// The machine has AVX-512 F, VL, DQ and IFMA.
    pub const unsafe fn assume() -> Self {
        Self(())
    }
}

/// One instruction, or a few, on registers.
macro_rules! instruction {
    ($body:expr) => {{
        // SAFETY: `self` is proof that the machine has the instructions
        unsafe { $body }
    }};
}

impl Sealed for Avx512 {}

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
    fn load_words(self, words: &[u64; LANES]) -> __m512i {
        // SAFETY: as above, and eight words are 64 bytes
        unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store_words(self, v: __m512i, words: &mut [u64; LANES]) {
        // SAFETY: as above, and eight words are 64 bytes
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), v) }
    }

    #[inline(always)]
    fn load_signed(self, words: &[i64; LANES]) -> __m512i {
        // SAFETY: as above, and eight words are 64 bytes
        unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store_signed(self, v: __m512i, words: &mut [i64; LANES]) {
        // SAFETY: as above, and eight words are 64 bytes
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), v) }
    }

    #[inline(always)]
    fn interleave(self, a: __m512i, b: __m512i) -> [__m512i; 2] {
        instruction!({
            let first = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
            let second = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
            [_mm512_permutex2var_epi64(a, first, b), _mm512_permutex2var_epi64(a, second, b)]
        })
    }

    #[inline(always)]
    fn prefetch(self, words: &[u64; LANES]) {
        let ahead = words.as_ptr().wrapping_byte_add(PREFETCH_BYTES);
        // SAFETY: as above; a prefetch has no effect that the program sees, at any address
        unsafe { _mm_prefetch::<_MM_HINT_T0>(ahead.cast()) }
    }

    #[inline(always)]
    fn min(self, a: __m512i, b: __m512i) -> __m512i {
        instruction!(_mm512_min_epu64(a, b))
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
            let (a, b) =
                (_mm512_shuffle_i64x2::<0x88>(pairs[0], pairs[2]), _mm512_shuffle_i64x2::<0x88>(pairs[1], pairs[3]));
            let (c, d) =
                (_mm512_shuffle_i64x2::<0xdd>(pairs[0], pairs[2]), _mm512_shuffle_i64x2::<0xdd>(pairs[1], pairs[3]));
            let (e, f) =
                (_mm512_shuffle_i64x2::<0x88>(pairs[4], pairs[6]), _mm512_shuffle_i64x2::<0x88>(pairs[5], pairs[7]));
            let (g, h) =
                (_mm512_shuffle_i64x2::<0xdd>(pairs[4], pairs[6]), _mm512_shuffle_i64x2::<0xdd>(pairs[5], pairs[7]));
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
