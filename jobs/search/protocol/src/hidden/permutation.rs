//! A keyed permutation of the numbers from 0 to any last one.
//!
//! A Feistel network of [`ROUNDS`] rounds on two halves of `w` bits, where `2w` is the number of
//! bits of the last number, or one more. The round function is the pseudo-random function
//! SipHash-2-4 (Aumasson, Bernstein, INDOCRYPT 2012) of the round and a half. An output beyond the
//! last number is the next input, until the output is in range (cycle walking: Black, Rogaway,
//! CT-RSA 2002). That takes fewer than four passes on average, because there are at most `4 (last +
//! 1)` numbers of `2w` bits.
//!
//! **No secret depends on the permutation.** The key is public; the permutation only spreads
//! entries over blocks like a random function. A party that knows the key can find keys that
//! collide. This makes its own entry hard to find, and no other entry easier to find. The running
//! time depends on the number, and shows only where queries are made.

/// Bytes of a key.
pub const KEY_BYTES: usize = 16;
/// Rounds.
pub const ROUNDS: u64 = 6;

/// A permutation of `0 … last`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permutation {
    key: [u8; KEY_BYTES],
    last: u128,
    half: u32,
}

impl Permutation {
    /// The permutation of the numbers up to `last`.
    pub fn new(key: [u8; KEY_BYTES], last: u128) -> Self {
        let bits = u128::BITS - last.leading_zeros();
        Self { key, last, half: bits.div_ceil(2).max(1) }
    }

    /// The key.
    pub fn key(&self) -> &[u8; KEY_BYTES] {
        &self.key
    }

    /// The last number.
    pub fn last(&self) -> u128 {
        self.last
    }

    /// The image of a number; none for a number beyond the last one.
    pub fn of(&self, number: u128) -> Option<u128> {
        if number > self.last {
            return None;
        }
        let mask = u64::MAX >> (64 - self.half);
        let mut value = number;
        loop {
            let (mut left, mut right) = ((value >> self.half) as u64, value as u64 & mask);
            for round in 0..ROUNDS {
                (left, right) = (right, left ^ siphash(&self.key, [round, right]) & mask);
            }
            value = u128::from(left) << self.half | u128::from(right);
            if value <= self.last {
                return Some(value);
            }
        }
    }
}

/// SipHash-2-4 of two words, the bytes of the first before those of the second, lowest byte first.
fn siphash(key: &[u8; KEY_BYTES], message: [u64; 2]) -> u64 {
    let (low, high) = (word(&key[..8]), word(&key[8..]));
    let mut state = [
        low ^ 0x736f_6d65_7073_6575,
        high ^ 0x646f_7261_6e64_6f6d,
        low ^ 0x6c79_6765_6e65_7261,
        high ^ 0x7465_6462_7974_6573,
    ];
    // the last word has the length, modulo 256, in its highest byte
    for word in [message[0], message[1], 16 << 56] {
        state[3] ^= word;
        rounds(&mut state, 2);
        state[0] ^= word;
    }
    state[2] ^= 0xff;
    rounds(&mut state, 4);
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn rounds(state: &mut [u64; 4], count: u32) {
    let [mut a, mut b, mut c, mut d] = *state;
    for _ in 0..count {
        (a, c) = (a.wrapping_add(b), c.wrapping_add(d));
        (b, d) = (b.rotate_left(13) ^ a, d.rotate_left(16) ^ c);
        a = a.rotate_left(32);
        (c, a) = (c.wrapping_add(b), a.wrapping_add(d));
        (b, d) = (b.rotate_left(17) ^ c, d.rotate_left(21) ^ a);
        c = c.rotate_left(32);
    }
    *state = [a, b, c, d];
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector of the authors' reference code for the message `00 01 … 0f` under the key
    /// `00 01 … 0f`.
    #[test]
    fn the_round_function_is_siphash() {
        let bytes: [u8; 16] = std::array::from_fn(|i| i as u8);
        assert_eq!(siphash(&bytes, [word(&bytes[..8]), word(&bytes[8..])]), 0x3f2a_cc7f_57c2_9bdb);
    }

    #[test]
    fn every_number_comes_from_one_number() {
        for last in [0u128, 1, 2, 3, 4, 15, 16, 17, 999, 4_096] {
            let permutation = Permutation::new([last as u8; KEY_BYTES], last);
            let mut found: Vec<u128> = (0..=last).filter_map(|number| permutation.of(number)).collect();
            found.sort_unstable();
            assert!(found.into_iter().eq(0..=last), "{last}");
            assert_eq!(permutation.of(last + 1), None);
        }
    }

    #[test]
    fn wide_numbers_stay_in_their_range_and_apart_and_depend_on_the_key() {
        for last in [u128::MAX, u128::MAX - 1, 1 << 127, (1 << 117) - 1, u128::from(u64::MAX)] {
            let [one, other] = [1, 2].map(|key| Permutation::new([key; KEY_BYTES], last));
            let mut found: Vec<u128> = (0..500).filter_map(|i| one.of(last - i)).collect();
            assert!(found.iter().all(|value| *value <= last));
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len(), 500);
            assert_ne!(one.of(last), other.of(last));
        }
    }
}
