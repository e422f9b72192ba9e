//! Sums of many ChaCha20 streams, one lane for each stream. Single streams are not needed, so their
//! words are never put in order.
//!
//! Lane `i` of a vector is a word of the same block under key `i` of a group. The words of all keys
//! are added in place: sixteen additions for each block, instead of the moves that put blocks one
//! after another. The lanes are added to one another once, at the end.

use zeroize::Zeroizing;

/// The ASCII bytes of "expand 32-byte k".
pub(super) const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];
/// Words of a block.
pub(super) const BLOCK_WORDS: usize = 16;

/// `sums(keys, nonce, first block, kept bits, out)`.
pub(super) type StreamSums = fn(&[[u8; 32]], u64, u64, u32, &mut [u32]);

/// The state under the keys of a group, without its counter. Lanes without a key get the zero key.
pub(super) fn group_state<const L: usize>(keys: &[[u8; 32]], nonce: u64) -> [[u32; L]; BLOCK_WORDS] {
    let mut state = [[0; L]; BLOCK_WORDS];
    for (word, constant) in state.iter_mut().zip(CONSTANTS) {
        *word = [constant; L];
    }
    for (lane, key) in keys.iter().enumerate() {
        for (word, bytes) in state[4..].iter_mut().zip(key.as_chunks().0) {
            word[lane] = u32::from_le_bytes(*bytes);
        }
    }
    (state[14], state[15]) = ([nonce as u32; L], [(nonce >> 32) as u32; L]);
    state
}

/// Adds the streams of all `keys` to `out`, modulo 2^32, word by word. `out` is whole blocks from
/// block `first` on, and `kept` masks each word of a stream.
#[inline(always)]
pub(super) fn stream_sums<const L: usize>(keys: &[[u8; 32]], nonce: u64, first: u64, kept: u32, out: &mut [u32]) {
    let mut totals = Zeroizing::new(vec![[[0u32; L]; BLOCK_WORDS]; out.len() / BLOCK_WORDS]);
    for group in keys.chunks(L) {
        let mut state = Zeroizing::new(group_state::<L>(group, nonce));
        let kept: [u32; L] = std::array::from_fn(|lane| if lane < group.len() { kept } else { 0 });
        for (block, totals) in totals.iter_mut().enumerate() {
            let counter = first.wrapping_add(block as u64);
            (state[12], state[13]) = ([counter as u32; L], [(counter >> 32) as u32; L]);
            let words = block_words(&state);
            for (total, word) in totals.iter_mut().zip(&words) {
                for lane in 0..L {
                    total[lane] = total[lane].wrapping_add(word[lane] & kept[lane]);
                }
            }
        }
    }
    add_lanes(&totals, out);
}

/// Adds the lanes of each word.
fn add_lanes<const L: usize>(totals: &[[[u32; L]; BLOCK_WORDS]], out: &mut [u32]) {
    for (out, lanes) in out.iter_mut().zip(totals.as_flattened()) {
        *out = lanes.iter().fold(*out, |sum, lane| sum.wrapping_add(*lane));
    }
}

#[inline(always)]
fn block_words<const L: usize>(state: &[[u32; L]; BLOCK_WORDS]) -> [[u32; L]; BLOCK_WORDS] {
    let mut x = *state;
    for _ in 0..10 {
        for [a, b, c, d] in [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]] {
            quarter_round(&mut x, a, b, c, d);
        }
        for [a, b, c, d] in [[0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]] {
            quarter_round(&mut x, a, b, c, d);
        }
    }
    for (x, word) in x.iter_mut().zip(state) {
        x.iter_mut().zip(word).for_each(|(x, word)| *x = x.wrapping_add(*word));
    }
    x
}

#[inline(always)]
fn quarter_round<const L: usize>(x: &mut [[u32; L]; BLOCK_WORDS], a: usize, b: usize, c: usize, d: usize) {
    for (sum, other, mixed, bits) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        let added = x[other];
        x[sum].iter_mut().zip(added).for_each(|(sum, added)| *sum = sum.wrapping_add(added));
        let summed = x[sum];
        x[mixed].iter_mut().zip(summed).for_each(|(mixed, sum)| *mixed = (*mixed ^ sum).rotate_left(bits));
    }
}

/// Words of a group's streams, added to the totals of each block:
/// `(state without a counter, streams in the group, totals)`.
#[cfg(target_arch = "x86_64")]
type AddGroup<'a, const L: usize> = dyn Fn(&[[u32; L]; BLOCK_WORDS], usize, &mut [[[u32; L]; BLOCK_WORDS]]) + 'a;

/// Computes [`StreamSums`] in groups. A partial last group of fewer than `worth` streams goes
/// through `keystream` one by one.
#[cfg(target_arch = "x86_64")]
pub(super) fn by_groups<const L: usize>(
    (keys, nonce, first, kept): (&[[u8; 32]], u64, u64, u32),
    worth: usize,
    add_group: &AddGroup<L>,
    keystream: fn(&[u8; 32], u64, u64, &mut [u64]),
    out: &mut [u32],
) {
    let full = keys.len() / L * L;
    let (grouped, rest) = if keys.len() - full >= worth { (keys, &[][..]) } else { keys.split_at(full) };
    if !grouped.is_empty() {
        let mut totals = Zeroizing::new(vec![[[0; L]; BLOCK_WORDS]; out.len() / BLOCK_WORDS]);
        for group in grouped.chunks(L) {
            add_group(&Zeroizing::new(group_state::<L>(group, nonce)), group.len(), &mut totals);
        }
        add_lanes(&totals, out);
    }
    if !rest.is_empty() {
        one_by_one(keystream, rest, nonce, first, kept, out);
    }
}

/// Adds one stream after another, each through `keystream`, for too few keys to fill the lanes.
#[cfg(target_arch = "x86_64")]
fn one_by_one(
    keystream: fn(&[u8; 32], u64, u64, &mut [u64]),
    keys: &[[u8; 32]],
    nonce: u64,
    first: u64,
    kept: u32,
    out: &mut [u32],
) {
    let mut words = Zeroizing::new(vec![0; out.len() / 2]);
    for key in keys {
        keystream(key, nonce, first, &mut words);
        for (out, word) in out.as_chunks_mut::<2>().0.iter_mut().zip(words.iter()) {
            out[0] = out[0].wrapping_add(*word as u32 & kept);
            out[1] = out[1].wrapping_add((word >> 32) as u32 & kept);
        }
    }
}
