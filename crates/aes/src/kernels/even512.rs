//! Sixteen messages of one key and one length, with VAES and AVX-512: four registers of chains that
//! advance together.
//!
//! The loop keeps no state per lane, and all lanes share their round keys. For messages below a
//! kilobyte the book-keeping of lanes takes longer than encryption. Without it, messages of 256
//! bytes run at 16 GB/s instead of 9 (AES-128, one core).

use super::schedule::{MAX_KEYS, RoundKeys, of_bytes};
use super::vaes512::{QUAD, Quad, gather, scatter, transpose};
use crate::{BLOCK_BYTES, CbcMessage, Path, Schedule, last_block};
use std::arch::x86_64::*;

/// Messages of one key and one length that advance together: four registers of chains.
pub(crate) const EVEN: usize = 4 * QUAD;

/// Encrypts messages of one key and one length, in whole groups. Lanes need no state, and round
/// keys are in registers or one cache line away.
pub(crate) fn encrypt_even(messages: &mut [CbcMessage<'_>]) {
    let Some(Schedule::Instructions(key)) = messages.first().map(|message| &message.key.schedule) else { return };
    let groups: unsafe fn(&RoundKeys, &mut [[CbcMessage<'_>; EVEN]]) = match key.rounds {
        10 => even_groups::<10>,
        12 => even_groups::<12>,
        _ => even_groups::<14>,
    };
    // SAFETY: there are round keys only where `detected` found the instructions; `alike` found the
    // messages of one length
    unsafe { groups(key, messages.as_chunks_mut().0) };
}

/// Groups of messages under one key.
///
/// # Safety
/// The machine has the instructions, and all messages of a group have one length.
#[target_feature(enable = "avx512f,vaes,aes,sse4.1")]
unsafe fn even_groups<const R: usize>(key: &RoundKeys, groups: &mut [[CbcMessage<'_>; EVEN]]) {
    let mut keys = [_mm512_setzero_si512(); MAX_KEYS];
    for (wide, key) in keys.iter_mut().zip(&key.encrypt[..=R]) {
        *wide = _mm512_broadcast_i32x4(of_bytes(key));
    }
    // Where messages are whole blocks, the last block is padding.
    let mut tails = [Quad([[BLOCK_BYTES as u8; BLOCK_BYTES]; QUAD]); EVEN / QUAD];
    for group in groups {
        // SAFETY: the caller's promise
        unsafe { even_group::<R>(&keys, &mut tails, group) };
    }
    let nothing = [_mm512_setzero_si512(); MAX_KEYS];
    // SAFETY: a local variable is valid to be written to
    unsafe { std::ptr::write_volatile(&raw mut keys, nothing) };
    // SAFETY: as above
    unsafe { std::ptr::write_volatile(&raw mut tails, [Quad([[0; BLOCK_BYTES]; QUAD]); EVEN / QUAD]) };
}

/// One group.
///
/// # Safety
/// The machine has the instructions, and all messages have one length.
#[target_feature(enable = "avx512f,vaes")]
#[inline]
unsafe fn even_group<const R: usize>(
    keys: &[__m512i; MAX_KEYS],
    tails: &mut [Quad; EVEN / QUAD],
    group: &mut [CbcMessage<'_>; EVEN],
) {
    let nowhere = Path { input: std::ptr::null(), output: std::ptr::null_mut() };
    let (mut paths, mut ivs, bytes) = ([nowhere; EVEN], [nowhere; EVEN], group[0].plaintext.len());
    for (at, message) in group.iter_mut().enumerate() {
        paths[at] = Path { input: message.plaintext.as_ptr(), output: message.ciphertext.as_mut_ptr() };
        ivs[at].input = message.iv.as_ptr();
        if !bytes.is_multiple_of(BLOCK_BYTES) {
            tails[at / QUAD].0[at % QUAD] = last_block(message.plaintext);
        }
    }
    let (paths, blocks) = (paths.as_chunks::<QUAD>().0, bytes / BLOCK_BYTES);
    let mut chains = [_mm512_setzero_si512(); EVEN / QUAD];
    for (chain, ivs) in chains.iter_mut().zip(ivs.as_chunks::<QUAD>().0) {
        // SAFETY: an IV is one block
        *chain = unsafe { gather(ivs, 0) };
    }
    for four in 0..blocks / QUAD {
        // SAFETY: these four blocks are whole ones of each message, and there is room for them
        unsafe { even_four::<R>(keys, &mut chains, paths, four) };
    }
    for block in blocks / QUAD * QUAD..=blocks {
        let mut input = [_mm512_setzero_si512(); EVEN / QUAD];
        for ((input, paths), tail) in input.iter_mut().zip(paths).zip(tails.iter()) {
            *input = if block < blocks {
                // SAFETY: a whole block of each message
                unsafe { gather(paths, block) }
            } else {
                // SAFETY: four blocks are 64 bytes on a boundary of 64
                unsafe { _mm512_load_si512(tail.0.as_ptr().cast()) }
            };
        }
        even_block::<R>(keys, &mut chains, &input);
        for (chain, paths) in chains.iter().zip(paths) {
            // SAFETY: there is room for one block more than the message has whole ones
            unsafe { scatter(*chain, paths, block) };
        }
    }
}

/// Encrypts four blocks of each message, from block `4 · four` on.
///
/// # Safety
/// The machine has the instructions, and each path has these blocks to read and to write.
#[target_feature(enable = "avx512f,vaes")]
#[inline]
unsafe fn even_four<const R: usize>(
    keys: &[__m512i; MAX_KEYS],
    chains: &mut [__m512i; EVEN / QUAD],
    paths: &[[Path; QUAD]],
    four: usize,
) {
    let mut x = [[_mm512_setzero_si512(); QUAD]; EVEN / QUAD];
    for (x, paths) in x.iter_mut().zip(paths) {
        for (x, path) in x.iter_mut().zip(paths) {
            // SAFETY: the caller's promise
            *x = unsafe { _mm512_loadu_si512(path.input.wrapping_add(64 * four).cast()) };
        }
        *x = transpose(*x);
    }
    for block in 0..QUAD {
        let mut input = [_mm512_setzero_si512(); EVEN / QUAD];
        for (input, x) in input.iter_mut().zip(&x) {
            *input = x[block];
        }
        even_block::<R>(keys, chains, &input);
        for (x, chain) in x.iter_mut().zip(chains.iter()) {
            x[block] = *chain;
        }
    }
    for (x, paths) in x.into_iter().zip(paths) {
        for (x, path) in transpose(x).into_iter().zip(paths) {
            // SAFETY: the caller's promise
            unsafe { _mm512_storeu_si512(path.output.wrapping_add(64 * four).cast(), x) };
        }
    }
}

/// Encrypts one block of each chain under one key.
#[target_feature(enable = "avx512f,vaes")]
#[inline]
fn even_block<const R: usize>(
    keys: &[__m512i; MAX_KEYS],
    chains: &mut [__m512i; EVEN / QUAD],
    input: &[__m512i; EVEN / QUAD],
) {
    for (chain, input) in chains.iter_mut().zip(input) {
        *chain = _mm512_ternarylogic_epi64::<0x96>(*chain, *input, keys[0]); // the exclusive or of all three
    }
    for key in &keys[1..R] {
        for chain in chains.iter_mut() {
            *chain = _mm512_aesenc_epi128(*chain, *key);
        }
    }
    for chain in chains.iter_mut() {
        *chain = _mm512_aesenclast_epi128(*chain, keys[R]);
    }
}
