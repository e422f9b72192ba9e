//! The vectors of WebAssembly: four lanes of 32 bits. A module is compiled with or without them; an
//! engine without them rejects a module that uses them.

#![allow(unsafe_code, reason = "vectors are read from memory and written to it")]

use super::quads::Quads;
use super::sealed::Sealed;
use core::arch::wasm32::*;

/// The bits of 2^52: below it, integers are the low bits of doubles.
const TWO_TO_52: u64 = 0x4330_0000_0000_0000;

/// The vectors. Only a module compiled with them has this type.
#[derive(Clone, Copy)]
pub struct Wasm128;

impl Sealed for Wasm128 {}

impl Quads for Wasm128 {
    type V = v128;

    #[inline(always)]
    fn splat(self, value: u32) -> v128 {
        u32x4_splat(value)
    }

    #[inline(always)]
    fn load(self, lanes: &[u32; 4]) -> v128 {
        // SAFETY: four numbers are 16 bytes, and the instruction needs no alignment
        unsafe { v128_load(lanes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn unpack(self, words: &[u64; 2]) -> v128 {
        // SAFETY: two words are 16 bytes
        unsafe { v128_load(words.as_ptr().cast()) }
    }

    #[inline(always)]
    fn pack(self, v: v128, words: &mut [u64; 2]) {
        // SAFETY: two words are 16 bytes
        unsafe { v128_store(words.as_mut_ptr().cast(), v) }
    }

    #[inline(always)]
    fn of_words(self, [a, b, c, d]: &[u64; 4]) -> v128 {
        u32x4_shuffle::<0, 2, 4, 6>(self.unpack(&[*a, *b]), self.unpack(&[*c, *d]))
    }

    #[inline(always)]
    fn to_words(self, v: v128, words: &mut [u64; 4]) {
        if let [low, high] = words.as_chunks_mut().0 {
            self.pack(u64x2_extend_low_u32x4(v), low);
            self.pack(u64x2_extend_high_u32x4(v), high);
        }
    }

    #[inline(always)]
    fn add(self, a: v128, b: v128) -> v128 {
        u32x4_add(a, b)
    }

    #[inline(always)]
    fn sub(self, a: v128, b: v128) -> v128 {
        u32x4_sub(a, b)
    }

    #[inline(always)]
    fn mul(self, a: v128, b: v128) -> v128 {
        u32x4_mul(a, b)
    }

    #[inline(always)]
    fn mul_high(self, a: v128, b: v128) -> v128 {
        u32x4_shuffle::<1, 3, 5, 7>(u64x2_extmul_low_u32x4(a, b), u64x2_extmul_high_u32x4(a, b))
    }

    #[inline(always)]
    fn min(self, a: v128, b: v128) -> v128 {
        u32x4_min(a, b)
    }

    #[inline(always)]
    fn xor(self, a: v128, b: v128) -> v128 {
        v128_xor(a, b)
    }

    #[inline(always)]
    fn rotate_left<const BITS: u32>(self, v: v128) -> v128 {
        match BITS {
            // whole bytes change places
            8 => i8x16_shuffle::<3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14>(v, v),
            16 => i8x16_shuffle::<2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13>(v, v),
            _ => v128_or(u32x4_shl(v, BITS), u32x4_shr(v, 32 - BITS)),
        }
    }

    #[inline(always)]
    fn transpose(self, [a, b, c, d]: [v128; 4]) -> [v128; 4] {
        let (ab, cd) = (u32x4_shuffle::<0, 4, 1, 5>(a, b), u32x4_shuffle::<0, 4, 1, 5>(c, d));
        let (ab_high, cd_high) = (u32x4_shuffle::<2, 6, 3, 7>(a, b), u32x4_shuffle::<2, 6, 3, 7>(c, d));
        [
            u64x2_shuffle::<0, 2>(ab, cd),
            u64x2_shuffle::<1, 3>(ab, cd),
            u64x2_shuffle::<0, 2>(ab_high, cd_high),
            u64x2_shuffle::<1, 3>(ab_high, cd_high),
        ]
    }

    #[inline(always)]
    fn splat_word(self, word: u64) -> v128 {
        u64x2_splat(word)
    }

    #[inline(always)]
    fn and(self, a: v128, b: v128) -> v128 {
        v128_and(a, b)
    }

    #[inline(always)]
    fn words_greater(self, a: v128, b: v128) -> v128 {
        i64x2_gt(a, b)
    }

    #[inline(always)]
    fn add_words(self, a: v128, b: v128) -> v128 {
        u64x2_add(a, b)
    }

    #[inline(always)]
    fn mul_words(self, a: v128, b: v128) -> v128 {
        u64x2_mul(a, b)
    }

    #[inline(always)]
    fn interleave_words(self, a: v128, b: v128) -> [v128; 2] {
        [u64x2_shuffle::<0, 2>(a, b), u64x2_shuffle::<1, 3>(a, b)]
    }

    #[inline(always)]
    fn doubles(self, v: v128) -> v128 {
        let two_to_52 = u64x2_splat(TWO_TO_52);
        f64x2_sub(v128_or(v, two_to_52), two_to_52)
    }

    #[inline(always)]
    fn add_doubles(self, a: v128, b: v128) -> v128 {
        f64x2_add(a, b)
    }

    #[inline(always)]
    fn mul_doubles(self, a: v128, b: v128) -> v128 {
        f64x2_mul(a, b)
    }

    #[inline(always)]
    fn sub_words(self, a: v128, b: v128) -> v128 {
        u64x2_sub(a, b)
    }
}
