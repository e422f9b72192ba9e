//! AVX2 with FMA: four doubles in one register. Loops over residues and over key streams are
//! compiled for these instructions.

#![allow(unsafe_code, reason = "vector instructions, and the calls that need them")]

use super::fused::Fused;
use super::sealed::Sealed;
use std::arch::x86_64::*;

/// Proof that this machine has AVX2 and FMA.
#[derive(Clone, Copy)]
pub struct Avx2(());

impl Avx2 {
    /// The proof, if the machine has the instructions.
    pub fn detect() -> Option<Self> {
        let has =
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("bmi2");
        has.then_some(Self(()))
    }

    /// The proof, without a check of the machine.
    ///
    /// # Safety
    /// The machine has AVX2, FMA and BMI2.
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

/// The bits of 2^52: below it, integers are the low bits of doubles.
const TWO_TO_52: u64 = 0x4330_0000_0000_0000;

impl Avx2 {
    #[inline(always)]
    fn two_to_52(self) -> __m256d {
        self.splat(f64::from_bits(TWO_TO_52))
    }

    /// The bits of integers of 64 bits.
    #[inline(always)]
    fn integers(self, v: __m256d) -> __m256d {
        instruction!(_mm256_xor_pd(_mm256_add_pd(v, self.two_to_52()), self.two_to_52()))
    }
}

impl Sealed for Avx2 {}

impl Fused for Avx2 {
    type V = __m256d;

    #[inline(always)]
    fn splat(self, value: f64) -> __m256d {
        instruction!(_mm256_set1_pd(value))
    }

    #[inline(always)]
    fn of_words(self, words: &[u64; 4]) -> __m256d {
        instruction!(_mm256_sub_pd(_mm256_or_pd(self.load_bits(words), self.two_to_52()), self.two_to_52()))
    }

    #[inline(always)]
    fn to_words(self, v: __m256d, words: &mut [u64; 4]) {
        self.store_bits(self.integers(v), words);
    }

    #[inline(always)]
    fn add_to_words(self, v: __m256d, words: &mut [u64; 4]) {
        let sum = instruction!({
            let (integers, words) = (_mm256_castpd_si256(self.integers(v)), _mm256_castpd_si256(self.load_bits(words)));
            _mm256_castsi256_pd(_mm256_add_epi64(integers, words))
        });
        self.store_bits(sum, words);
    }

    #[inline(always)]
    fn load(self, doubles: &[f64; 4]) -> __m256d {
        // SAFETY: as above, and four doubles are 32 bytes
        unsafe { _mm256_loadu_pd(doubles.as_ptr()) }
    }

    #[inline(always)]
    fn load_bits(self, bits: &[u64; 4]) -> __m256d {
        // SAFETY: as above, and four words are 32 bytes
        unsafe { _mm256_loadu_pd(bits.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store_bits(self, v: __m256d, bits: &mut [u64; 4]) {
        // SAFETY: as above, and four words are 32 bytes
        unsafe { _mm256_storeu_pd(bits.as_mut_ptr().cast(), v) }
    }

    #[inline(always)]
    fn add(self, a: __m256d, b: __m256d) -> __m256d {
        instruction!(_mm256_add_pd(a, b))
    }

    #[inline(always)]
    fn sub(self, a: __m256d, b: __m256d) -> __m256d {
        instruction!(_mm256_sub_pd(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m256d, b: __m256d) -> __m256d {
        instruction!(_mm256_mul_pd(a, b))
    }

    #[inline(always)]
    fn mul_sub(self, a: __m256d, b: __m256d, c: __m256d) -> __m256d {
        instruction!(_mm256_fmsub_pd(a, b, c))
    }

    #[inline(always)]
    fn neg_mul_add(self, a: __m256d, b: __m256d, c: __m256d) -> __m256d {
        instruction!(_mm256_fnmadd_pd(a, b, c))
    }

    #[inline(always)]
    fn round(self, v: __m256d) -> __m256d {
        instruction!(_mm256_round_pd::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(v))
    }

    #[inline(always)]
    fn floor(self, v: __m256d) -> __m256d {
        instruction!(_mm256_round_pd::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(v))
    }

    #[inline(always)]
    fn where_negative(self, v: __m256d, value: __m256d) -> __m256d {
        instruction!(_mm256_and_pd(_mm256_cmp_pd::<_CMP_LT_OQ>(v, _mm256_setzero_pd()), value))
    }

    #[inline(always)]
    fn transpose(self, [a, b, c, d]: [__m256d; 4]) -> [__m256d; 4] {
        instruction!({
            let (ab, cd) = (_mm256_unpacklo_pd(a, b), _mm256_unpacklo_pd(c, d));
            let (ab_odd, cd_odd) = (_mm256_unpackhi_pd(a, b), _mm256_unpackhi_pd(c, d));
            [
                _mm256_permute2f128_pd::<0x20>(ab, cd),
                _mm256_permute2f128_pd::<0x20>(ab_odd, cd_odd),
                _mm256_permute2f128_pd::<0x31>(ab, cd),
                _mm256_permute2f128_pd::<0x31>(ab_odd, cd_odd),
            ]
        })
    }
}
