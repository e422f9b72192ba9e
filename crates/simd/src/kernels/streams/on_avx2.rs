//! Sums of ChaCha20 streams, eight keys at a time: lane `i` of a register is a word of the same
//! block under key `i`, as in the module `sums`.
//!
//! A block takes 20 rounds of 16 additions, 16 exclusive ors and 16 rotations. Half of the
//! rotations are one shuffle, and half are three operations. That makes 1,280 operations for 512
//! bytes, or 0.8 cycles a byte at three operations a cycle.

#![allow(unsafe_code, reason = "vector instructions, and the calls that need them")]

use super::super::avx2::Avx2;
use super::sums::{BLOCK_WORDS, by_groups};
use super::{StreamKernels, keystream};
use std::arch::x86_64::*;

/// Keys at a time.
const LANES: usize = 8;
/// The source of each byte in each half of a register, for a rotation of its words to the left by
/// 16 bits, and by 8.
const ROTATE_BY_16: [u32; LANES] =
    [0x0100_0302, 0x0504_0706, 0x0908_0b0a, 0x0d0c_0f0e, 0x0100_0302, 0x0504_0706, 0x0908_0b0a, 0x0d0c_0f0e];
const ROTATE_BY_8: [u32; LANES] =
    [0x0201_0003, 0x0605_0407, 0x0a09_080b, 0x0e0d_0c0f, 0x0201_0003, 0x0605_0407, 0x0a09_080b, 0x0e0d_0c0f];
/// From so many keys on, a partial group costs less than its streams one by one.
const WORTH_A_GROUP: usize = 4;

static KERNELS: StreamKernels = StreamKernels {
    name: "avx2",
    keystream,
    sums: |keys, nonce, first, kept, out| {
        // SAFETY: `kernels` gives this table only to machines that have the instructions
        let proof = unsafe { Avx2::assume() };
        stream_sums(proof, keys, nonce, first, kept, out);
    },
};

/// The loops, if the machine has the instructions. Nothing else gives access to them.
pub(super) fn kernels() -> Option<&'static StreamKernels> {
    Avx2::detect().map(|_| &KERNELS)
}

/// The sum of the streams of many keys: [`super::StreamKernels::sums`].
fn stream_sums(_: Avx2, keys: &[[u8; 32]], nonce: u64, first: u64, kept: u32, out: &mut [u32]) {
    let add_group = |state: &_, streams, totals: &mut _| {
        let kept = std::array::from_fn(|lane| if lane < streams { kept } else { 0 });
        // SAFETY: an `Avx2` is proof that the machine has the instructions
        unsafe { add_group(state, first, &kept, totals) };
    };
    by_groups((keys, nonce, first, kept), WORTH_A_GROUP, &add_group, keystream, out);
}

/// Does four quarter rounds at once, step by step, so that none waits for its own previous step.
/// This is a macro, because a function would pass its argument in memory.
macro_rules! quarter_rounds {
    ($x:ident, $([$a:literal, $b:literal, $c:literal, $d:literal]),*) => {
        $(
            $x[$a] = _mm256_add_epi32($x[$a], $x[$b]);
            $x[$d] = _mm256_shuffle_epi8(_mm256_xor_si256($x[$d], $x[$a]), load(&ROTATE_BY_16));
        )*
        $(
            $x[$c] = _mm256_add_epi32($x[$c], $x[$d]);
            $x[$b] = _mm256_xor_si256($x[$b], $x[$c]);
            $x[$b] = _mm256_or_si256(_mm256_slli_epi32::<12>($x[$b]), _mm256_srli_epi32::<20>($x[$b]));
        )*
        $(
            $x[$a] = _mm256_add_epi32($x[$a], $x[$b]);
            $x[$d] = _mm256_shuffle_epi8(_mm256_xor_si256($x[$d], $x[$a]), load(&ROTATE_BY_8));
        )*
        $(
            $x[$c] = _mm256_add_epi32($x[$c], $x[$d]);
            $x[$b] = _mm256_xor_si256($x[$b], $x[$c]);
            $x[$b] = _mm256_or_si256(_mm256_slli_epi32::<7>($x[$b]), _mm256_srli_epi32::<25>($x[$b]));
        )*
    };
}

#[target_feature(enable = "avx2")]
#[inline]
fn load(lanes: &[u32; LANES]) -> __m256i {
    // SAFETY: eight words are 32 bytes
    unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
}

/// Adds the words of a group's streams to the totals of each block. The counter's words of `state`
/// must be zero.
#[target_feature(enable = "avx2")]
fn add_group(
    state: &[[u32; LANES]; BLOCK_WORDS],
    first: u64,
    kept: &[u32; LANES],
    totals: &mut [[[u32; LANES]; BLOCK_WORDS]],
) {
    let mut counter = first;
    for totals in totals {
        let (low, high) = (_mm256_set1_epi32(counter as i32), _mm256_set1_epi32((counter >> 32) as i32));
        let mut x = [_mm256_setzero_si256(); BLOCK_WORDS];
        for (x, word) in x.iter_mut().zip(state) {
            *x = load(word);
        }
        (x[12], x[13]) = (low, high);
        for _ in 0..10 {
            quarter_rounds!(x, [0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]);
            quarter_rounds!(x, [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]);
        }
        (x[12], x[13]) = (_mm256_add_epi32(x[12], low), _mm256_add_epi32(x[13], high));
        for ((x, word), total) in x.into_iter().zip(state).zip(totals) {
            let word = _mm256_and_si256(_mm256_add_epi32(x, load(word)), load(kept));
            let sum = _mm256_add_epi32(load(total), word);
            // SAFETY: eight words are 32 bytes
            unsafe { _mm256_storeu_si256(total.as_mut_ptr().cast(), sum) };
        }
        counter = counter.wrapping_add(1);
    }
}
