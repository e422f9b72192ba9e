//! ChaCha20 on sixteen blocks at a time: lane `i` of a register is a word of block `i`.
//!
//! Sixteen blocks take 20 rounds of 16 additions, 16 exclusive ors and 16 rotations, and 64 moves
//! that put the blocks one after another. That makes 1,024 operations for 1,024 bytes, or 0.4
//! cycles a byte at two and a half operations a cycle.

#![allow(unsafe_code, reason = "vector instructions, and the calls that need them")]

use super::super::avx512::Avx512;
use super::StreamKernels;
use super::sums::{BLOCK_WORDS, CONSTANTS, by_groups};
use std::arch::x86_64::*;
use zeroize::Zeroizing;

/// Blocks at a time, and words of a block.
const LANES: usize = 16;
/// From so many keys on, a partial group costs less than its streams one by one, which take two
/// passes for twenty blocks.
const WORTH_A_GROUP: usize = 7;

static KERNELS: StreamKernels = StreamKernels {
    name: "avx512ifma",
    keystream: |key, nonce, first, out| {
        // SAFETY: `kernels` gives this table only to machines that have the instructions
        let proof = unsafe { Avx512::assume() };
        keystream(proof, key, nonce, first, out);
    },
    sums: |keys, nonce, first, kept, out| {
        // SAFETY: `kernels` gives this table only to machines that have the instructions
        let proof = unsafe { Avx512::assume() };
        stream_sums(proof, keys, nonce, first, kept, out);
    },
};

/// The loops, if the machine has the instructions. Nothing else gives access to them.
pub(super) fn kernels() -> Option<&'static StreamKernels> {
    Avx512::detect().map(|_| &KERNELS)
}

/// The words of whole blocks from block `first` on, of the stream with this key and 64-bit nonce.
fn keystream(_: Avx512, key: &[u8; 32], nonce: u64, first: u64, out: &mut [u64]) {
    let mut state = [[0; LANES]; 16];
    for (word, constant) in state.iter_mut().zip(CONSTANTS) {
        *word = [constant; LANES];
    }
    for (word, bytes) in state[4..].iter_mut().zip(key.as_chunks().0) {
        *word = [u32::from_le_bytes(*bytes); LANES];
    }
    (state[14], state[15]) = ([nonce as u32; LANES], [(nonce >> 32) as u32; LANES]);
    let mut counter = first;
    for out in out.chunks_mut(8 * LANES) {
        let [.., low, high, _, _] = &mut state;
        for (lane, (low, high)) in low.iter_mut().zip(high).enumerate() {
            let block = counter.wrapping_add(lane as u64);
            (*low, *high) = (block as u32, (block >> 32) as u32);
        }
        counter = counter.wrapping_add(LANES as u64);
        if let Ok(out) = out.try_into() {
            // SAFETY: an `Avx512` is proof that the machine has the instructions
            unsafe { blocks(&state, out) };
        } else {
            let mut all = Zeroizing::new([0; 8 * LANES]);
            // SAFETY: as above
            unsafe { blocks(&state, &mut all) };
            out.copy_from_slice(&all[..out.len()]);
        }
    }
    zeroize::Zeroize::zeroize(&mut state);
}

/// The sum of the streams of many keys: [`super::StreamKernels::sums`]. 976 operations for 1,024
/// bytes.
fn stream_sums(_: Avx512, keys: &[[u8; 32]], nonce: u64, first: u64, kept: u32, out: &mut [u32]) {
    let add_group = |state: &_, streams: usize, totals: &mut _| {
        let lanes = (u32::MAX >> (32 - streams)) as u16;
        // SAFETY: an `Avx512` is proof that the machine has the instructions
        unsafe { add_group(state, first, lanes, kept, totals) };
    };
    let stream = |key: &_, nonce, first, out: &mut _| {
        // SAFETY: an `Avx512` is proof that the machine has the instructions
        let proof = unsafe { Avx512::assume() };
        keystream(proof, key, nonce, first, out);
    };
    by_groups((keys, nonce, first, kept), WORTH_A_GROUP, &add_group, stream, out);
}

/// Adds the words of a group's streams to the totals of each block. The counter's words of `state`
/// must be zero.
#[target_feature(enable = "avx512f")]
fn add_group(
    state: &[[u32; LANES]; BLOCK_WORDS],
    first: u64,
    lanes: u16,
    kept: u32,
    totals: &mut [[[u32; LANES]; BLOCK_WORDS]],
) {
    let kept = _mm512_maskz_set1_epi32(lanes, kept as i32);
    let mut counter = first;
    for totals in totals {
        let mut x = [_mm512_setzero_si512(); BLOCK_WORDS];
        for (x, word) in x.iter_mut().zip(state) {
            // SAFETY: sixteen words are 64 bytes
            *x = unsafe { _mm512_loadu_si512(word.as_ptr().cast()) };
        }
        let (low, high) = (_mm512_set1_epi32(counter as i32), _mm512_set1_epi32((counter >> 32) as i32));
        (x[12], x[13]) = (low, high);
        rounds(&mut x);
        (x[12], x[13]) = (_mm512_add_epi32(x[12], low), _mm512_add_epi32(x[13], high));
        for ((x, word), total) in x.into_iter().zip(state).zip(totals) {
            // SAFETY: sixteen words are 64 bytes
            let word = unsafe { _mm512_loadu_si512(word.as_ptr().cast()) };
            // SAFETY: as above
            let sum = unsafe { _mm512_loadu_si512(total.as_ptr().cast()) };
            let sum = _mm512_add_epi32(sum, _mm512_and_si512(_mm512_add_epi32(x, word), kept));
            // SAFETY: as above
            unsafe { _mm512_storeu_si512(total.as_mut_ptr().cast(), sum) };
        }
        counter = counter.wrapping_add(1);
    }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn rounds(x: &mut [__m512i; BLOCK_WORDS]) {
    for _ in 0..10 {
        for [a, b, c, d] in [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]] {
            quarter_round(x, a, b, c, d);
        }
        for [a, b, c, d] in [[0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]] {
            quarter_round(x, a, b, c, d);
        }
    }
}

#[target_feature(enable = "avx512f")]
fn blocks(state: &[[u32; LANES]; 16], out: &mut [u64; 8 * LANES]) {
    let mut x = [_mm512_setzero_si512(); 16];
    for (x, word) in x.iter_mut().zip(state) {
        // SAFETY: sixteen words are 64 bytes
        *x = unsafe { _mm512_loadu_si512(word.as_ptr().cast()) };
    }
    rounds(&mut x);
    for (x, word) in x.iter_mut().zip(state) {
        // SAFETY: as above
        *x = _mm512_add_epi32(*x, unsafe { _mm512_loadu_si512(word.as_ptr().cast()) });
    }
    for (block, out) in transpose(x).into_iter().zip(out.as_chunks_mut::<8>().0) {
        // SAFETY: eight words of 64 bits are 64 bytes
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), block) };
    }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn quarter_round(x: &mut [__m512i; 16], a: usize, b: usize, c: usize, d: usize) {
    x[a] = _mm512_add_epi32(x[a], x[b]);
    x[d] = _mm512_rol_epi32::<16>(_mm512_xor_si512(x[d], x[a]));
    x[c] = _mm512_add_epi32(x[c], x[d]);
    x[b] = _mm512_rol_epi32::<12>(_mm512_xor_si512(x[b], x[c]));
    x[a] = _mm512_add_epi32(x[a], x[b]);
    x[d] = _mm512_rol_epi32::<8>(_mm512_xor_si512(x[d], x[a]));
    x[c] = _mm512_add_epi32(x[c], x[d]);
    x[b] = _mm512_rol_epi32::<7>(_mm512_xor_si512(x[b], x[c]));
}

/// Transposes sixteen by sixteen words of 32 bits.
#[target_feature(enable = "avx512f")]
#[inline]
fn transpose(x: [__m512i; 16]) -> [__m512i; 16] {
    let mut fours = [_mm512_setzero_si512(); 16];
    for i in (0..16).step_by(4) {
        let (a, b) = (_mm512_unpacklo_epi32(x[i], x[i + 1]), _mm512_unpackhi_epi32(x[i], x[i + 1]));
        let (c, d) = (_mm512_unpacklo_epi32(x[i + 2], x[i + 3]), _mm512_unpackhi_epi32(x[i + 2], x[i + 3]));
        // quarter `k` of `fours[i + j]`: words `i` to `i + 3` of block `4 k + j`
        fours[i] = _mm512_unpacklo_epi64(a, c);
        fours[i + 1] = _mm512_unpackhi_epi64(a, c);
        fours[i + 2] = _mm512_unpacklo_epi64(b, d);
        fours[i + 3] = _mm512_unpackhi_epi64(b, d);
    }
    let mut out = [_mm512_setzero_si512(); 16];
    for j in 0..4 {
        let (a, b, c, d) = (fours[j], fours[4 + j], fours[8 + j], fours[12 + j]);
        // 0x88 takes the even quarters of both, 0xdd the odd ones
        let (ab, cd) = (_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0x88>(c, d));
        out[j] = _mm512_shuffle_i32x4::<0x88>(ab, cd);
        out[8 + j] = _mm512_shuffle_i32x4::<0xdd>(ab, cd);
        let (ab, cd) = (_mm512_shuffle_i32x4::<0xdd>(a, b), _mm512_shuffle_i32x4::<0xdd>(c, d));
        out[4 + j] = _mm512_shuffle_i32x4::<0x88>(ab, cd);
        out[12 + j] = _mm512_shuffle_i32x4::<0xdd>(ab, cd);
    }
    out
}
