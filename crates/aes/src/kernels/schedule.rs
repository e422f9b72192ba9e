//! Round keys by AES instructions, for the loops that use these instructions.

use crate::{AesError, BLOCK_BYTES, Block};
use std::arch::x86_64::*;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The number of round keys of AES-256, the most.
pub(crate) const MAX_KEYS: usize = 15;

/// Whether this machine has the instructions.
pub(crate) fn detected() -> bool {
    is_x86_feature_detected!("aes") && is_x86_feature_detected!("sse4.1")
}

/// The round keys of both directions.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct RoundKeys {
    pub(crate) rounds: usize,
    pub(crate) encrypt: [Block; MAX_KEYS],
    pub(crate) decrypt: [Block; MAX_KEYS],
}

impl RoundKeys {
    /// Only for machines where [`detected`] is true: all loops that call this function are
    /// [`available`](crate::AesKernels::available) only there.
    pub(crate) fn new(key: &[u8]) -> Result<Self, AesError> {
        if !matches!(key.len(), 16 | 24 | 32) {
            return Err(AesError::KeyLength(key.len()));
        }
        let mut keys = Self { rounds: key.len() / 4 + 6, encrypt: [[0; 16]; MAX_KEYS], decrypt: [[0; 16]; MAX_KEYS] };
        // SAFETY: these loops are available only where `detected` found the instructions
        unsafe { expand(key, &mut keys) };
        Ok(keys)
    }
}

pub(crate) fn of_bytes(block: &Block) -> __m128i {
    // SAFETY: the load reads sixteen bytes, at any address; every x86-64 has the instruction
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

pub(crate) fn to_bytes(v: __m128i) -> Block {
    let mut block = [0; BLOCK_BYTES];
    // SAFETY: the store writes sixteen bytes, at any address; every x86-64 has the instruction
    unsafe { _mm_storeu_si128(block.as_mut_ptr().cast(), v) };
    block
}

/// The S-box of each byte of a word, by the instruction for the last round. The state has four
/// equal columns, so the shift of its rows changes nothing.
#[target_feature(enable = "aes,sse4.1")]
fn substitute(word: u32) -> u32 {
    let columns = _mm_set1_epi32(word as i32);
    _mm_extract_epi32::<0>(_mm_aesenclast_si128(columns, _mm_setzero_si128())) as u32
}

/// The key expansion of FIPS 197, 5.2, and that of its equivalent inverse cipher, 5.3.5.
#[target_feature(enable = "aes,sse4.1")]
fn expand(key: &[u8], keys: &mut RoundKeys) {
    let words = key.len() / 4;
    let mut schedule = [0_u32; 4 * MAX_KEYS];
    for (word, bytes) in schedule.iter_mut().zip(key.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut constant = 1_u32;
    for at in words..4 * (keys.rounds + 1) {
        let mut word = schedule[at - 1];
        if at.is_multiple_of(words) {
            word = substitute(word.rotate_right(8)) ^ constant; // little-endian: RotWord turns right
            constant = constant << 1 ^ if constant & 0x80 == 0 { 0 } else { 0x11b };
        } else if words == 8 && at % 8 == 4 {
            word = substitute(word);
        }
        schedule[at] = schedule[at - words] ^ word;
    }
    for (block, words) in keys.encrypt.iter_mut().zip(schedule.as_chunks::<4>().0) {
        for (bytes, word) in block.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
    }
    for round in 0..=keys.rounds {
        let key = keys.encrypt[keys.rounds - round];
        let middle = (1..keys.rounds).contains(&round);
        keys.decrypt[round] = if middle { to_bytes(_mm_aesimc_si128(of_bytes(&key))) } else { key };
    }
    schedule.zeroize();
}
