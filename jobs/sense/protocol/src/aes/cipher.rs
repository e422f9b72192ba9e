//! AES-128 itself (FIPS 197): the S-box, and the round keys for the key holder.
//!
//! # Leakage
//! Constant time: no table lookup and no branch depends on a key.

use zeroize::Zeroizing;

/// Bytes of a block, and of a key.
pub const BLOCK: usize = 16;
/// Rounds of AES-128.
pub const ROUNDS: usize = 10;

/// `x a` in `F_2[x]/(x^8 + x^4 + x^3 + x + 1)`.
fn double(a: u8) -> u8 {
    (a << 1) ^ (0x1b & 0u8.wrapping_sub(a >> 7))
}

fn multiply(a: u8, b: u8) -> u8 {
    let (mut power, mut product) = (a, 0);
    for bit in 0..8 {
        product ^= power & 0u8.wrapping_sub(b >> bit & 1);
        power = double(power);
    }
    product
}

/// The S-box: the inverse in the field (0 for 0), then an affine map.
///
/// ```
/// use tobari_sense::aes::cipher::substitute;
/// assert_eq!([0x00, 0x53, 0xff].map(substitute), [0x63, 0xed, 0x16]);
/// ```
pub fn substitute(a: u8) -> u8 {
    // a^254: a^(2^i - 1) to i = 7, squared
    let inverse = (0..6).fold(a, |power, _| multiply(multiply(power, power), a));
    let inverse = multiply(inverse, inverse);
    (1..5).fold(inverse ^ 0x63, |sum, turn| sum ^ inverse.rotate_left(turn))
}

/// The eleven round keys, each in the column order of blocks.
///
/// ```
/// use tobari_sense::aes::cipher::round_keys;
/// let key = std::array::from_fn(|i| i as u8);
/// assert_eq!(round_keys(&key)[10][..4], [0x13, 0x11, 0x1d, 0x7f]);
/// ```
pub fn round_keys(key: &[u8; BLOCK]) -> Zeroizing<[[u8; BLOCK]; ROUNDS + 1]> {
    let mut keys = Zeroizing::new([[0; BLOCK]; ROUNDS + 1]);
    keys[0] = *key;
    let mut constant = 1;
    for round in 1..=ROUNDS {
        let last = keys[round - 1];
        let mut word = [13, 14, 15, 12].map(|place: usize| substitute(last[place]));
        word[0] ^= constant;
        constant = double(constant);
        for (place, byte) in keys[round].iter_mut().enumerate() {
            word[place % 4] ^= last[place];
            *byte = word[place % 4];
        }
    }
    keys
}

/// The state at the start of every round, and the result. A holder of the key checks a run with it.
///
/// ```
/// use tobari_sense::aes::cipher::states;
/// let (key, block) = (std::array::from_fn(|i| i as u8), std::array::from_fn(|i| 17 * i as u8));
/// let fips = 0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a_u128.to_be_bytes();
/// assert_eq!(states(&key, &block)[10], fips);
/// ```
pub fn states(key: &[u8; BLOCK], block: &[u8; BLOCK]) -> Zeroizing<[[u8; BLOCK]; ROUNDS + 1]> {
    let keys = round_keys(key);
    let mut states = Zeroizing::new([[0; BLOCK]; ROUNDS + 1]);
    states[0] = std::array::from_fn(|i| block[i] ^ keys[0][i]);
    for round in 1..=ROUNDS {
        let last = &states[round - 1];
        // byte 4 c + r of a state is in column c and row r
        let shifted: [u8; BLOCK] = std::array::from_fn(|i| substitute(last[(i + 4 * (i % 4)) % BLOCK]));
        let mixed = |i: usize| {
            let of = |further: usize| shifted[i / 4 * 4 + (i + further) % 4];
            if round == ROUNDS { of(0) } else { double(of(0) ^ of(1)) ^ of(1) ^ of(2) ^ of(3) }
        };
        states[round] = std::array::from_fn(|i| mixed(i) ^ keys[round][i]);
    }
    states
}
