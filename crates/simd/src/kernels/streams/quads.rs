//! ChaCha20 on four blocks at a time: lane `i` of a vector is a word of block `i`, or of one block
//! under key `i`.

use super::super::quads::Quads;
use super::sums::{BLOCK_WORDS, CONSTANTS, group_state};
use zeroize::{Zeroize, Zeroizing};

/// Blocks at a time.
const LANES: usize = 4;

/// The words of whole blocks from block `first` on, of the stream with this key and 64-bit nonce.
#[inline(always)]
pub(super) fn keystream<Q: Quads>(q: Q, key: &[u8; 32], nonce: u64, first: u64, out: &mut [u64]) {
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
        let blocks: [u64; LANES] = std::array::from_fn(|lane| counter.wrapping_add(lane as u64));
        state[12] = blocks.map(|block| block as u32);
        state[13] = blocks.map(|block| (block >> 32) as u32);
        counter = counter.wrapping_add(LANES as u64);
        if let Ok(out) = out.try_into() {
            four_blocks(q, &state, out);
        } else {
            let mut all = Zeroizing::new([0; 8 * LANES]);
            four_blocks(q, &state, &mut all);
            out.copy_from_slice(&all[..out.len()]);
        }
    }
    state.zeroize();
}

/// The sum of the streams of many keys, four keys at a time: see the module `streams`.
#[inline(always)]
pub(super) fn stream_sums<Q: Quads>(q: Q, keys: &[[u8; 32]], nonce: u64, first: u64, kept: u32, out: &mut [u32]) {
    // two lanes in each word
    let mut totals = Zeroizing::new(vec![[[0u64; 2]; BLOCK_WORDS]; out.len() / BLOCK_WORDS]);
    for group in keys.chunks(LANES) {
        let mut state = Zeroizing::new(group_state::<LANES>(group, nonce));
        let kept = q.load(&std::array::from_fn(|lane| if lane < group.len() { kept } else { 0 }));
        for (block, totals) in totals.iter_mut().enumerate() {
            let counter = first.wrapping_add(block as u64);
            (state[12], state[13]) = ([counter as u32; LANES], [(counter >> 32) as u32; LANES]);
            let x = mixed(q, &state);
            for ((total, x), word) in totals.iter_mut().zip(x).zip(state.iter()) {
                let word = q.and(q.add(x, q.load(word)), kept);
                let sum = q.add(q.unpack(total), word);
                q.pack(sum, total);
            }
        }
    }
    for (out, lanes) in out.iter_mut().zip(totals.as_flattened()) {
        let [a, b] = lanes.map(|pair| (pair as u32).wrapping_add((pair >> 32) as u32));
        *out = out.wrapping_add(a).wrapping_add(b);
    }
}

#[inline(always)]
fn mixed<Q: Quads>(q: Q, state: &[[u32; LANES]; 16]) -> [Q::V; 16] {
    let mut x = state.map(|word| q.load(&word));
    for _ in 0..10 {
        quarter_round(q, &mut x, [0, 4, 8, 12]);
        quarter_round(q, &mut x, [1, 5, 9, 13]);
        quarter_round(q, &mut x, [2, 6, 10, 14]);
        quarter_round(q, &mut x, [3, 7, 11, 15]);
        quarter_round(q, &mut x, [0, 5, 10, 15]);
        quarter_round(q, &mut x, [1, 6, 11, 12]);
        quarter_round(q, &mut x, [2, 7, 8, 13]);
        quarter_round(q, &mut x, [3, 4, 9, 14]);
    }
    x
}

#[inline(always)]
fn four_blocks<Q: Quads>(q: Q, state: &[[u32; LANES]; 16], out: &mut [u64; 8 * LANES]) {
    let x = mixed(q, state);
    let out = out.as_chunks_mut::<2>().0;
    for (i, (x, state)) in x.as_chunks::<4>().0.iter().zip(state.as_chunks::<4>().0).enumerate() {
        let rows = std::array::from_fn(|j| q.add(x[j], q.load(&state[j])));
        for (block, row) in q.transpose(rows).into_iter().enumerate() {
            q.pack(row, &mut out[4 * block + i]);
        }
    }
}

#[inline(always)]
fn quarter_round<Q: Quads>(q: Q, x: &mut [Q::V; 16], [a, b, c, d]: [usize; 4]) {
    x[a] = q.add(x[a], x[b]);
    x[d] = q.rotate_left::<16>(q.xor(x[d], x[a]));
    x[c] = q.add(x[c], x[d]);
    x[b] = q.rotate_left::<12>(q.xor(x[b], x[c]));
    x[a] = q.add(x[a], x[b]);
    x[d] = q.rotate_left::<8>(q.xor(x[d], x[a]));
    x[c] = q.add(x[c], x[d]);
    x[b] = q.rotate_left::<7>(q.xor(x[b], x[c]));
}
