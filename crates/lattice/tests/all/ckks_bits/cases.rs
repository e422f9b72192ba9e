//! Encodings and decodings with every bit pinned. The same file is compiled into `bench/wasm`, so
//! that the same function runs in a JavaScript engine. It may use only IEEE additions and products,
//! and integers, but no mathematical library.

use tobari_lattice::ckks::{Complex, Encoder, Scale};
use tobari_lattice::params::{LatticeParameters, Plaintext};

/// Degrees, from `2^8` on.
const LOG_DEGREES: std::ops::RangeInclusive<u32> = 8..=14;

/// The contents of the slots, with scale and level.
const KINDS: [&str; 7] = ["real", "complex", "wide", "tiny", "huge", "ties", "rescaled"];

/// Number of cases.
pub(crate) fn count() -> usize {
    LOG_DEGREES.count() * KINDS.len()
}

/// The degree's logarithm and the kind of case number `case`.
pub(crate) fn name(case: usize) -> (u32, &'static str) {
    (LOG_DEGREES.start() + (case / KINDS.len()) as u32, KINDS[case % KINDS.len()])
}

/// Digests of the residues of an encoding, and of the decoded slots; none after an error.
pub(crate) fn digests(case: usize) -> Option<[u64; 2]> {
    let (log_degree, kind) = name(case);
    let parameters =
        LatticeParameters::insecure_of_sizes(1 << log_degree, &[50, 30, 45], &[], 1, Plaintext::Approximate).ok()?;
    let encoder = Encoder::new(&parameters).ok()?;
    let scale = match kind {
        "wide" => Scale::power_of_two(90), // beyond 2^53
        "huge" => Scale::power_of_two(20),
        "tiny" => Scale::power_of_two(60),
        // not a power of two, as after products and rescalings
        "rescaled" => Scale::power_of_two(75).quotient(&Scale::prime(1))?,
        _ => Scale::power_of_two(30),
    };
    let level = if kind == "real" { 1 } else { 3 };
    let slots = slots(kind, encoder.slots(), u64::from(log_degree));
    let plaintext = match kind {
        "real" => encoder.encode(&slots.iter().map(|z| z.re).collect::<Vec<_>>(), &scale, level),
        _ => encoder.encode_complex(&slots, &scale, level),
    };
    let plaintext = plaintext.ok()?;
    let residues = (0..level).flat_map(|row| plaintext.element().row(row));
    let encoded = digest(residues.copied());
    let decoded = encoder.decode_complex(&plaintext).ok()?;
    Some([encoded, digest(decoded.iter().flat_map(|z| [z.re.to_bits(), z.im.to_bits()]))])
}

/// Numbers of a kind.
fn slots(kind: &str, count: usize, seed: u64) -> Vec<Complex> {
    let mut state = seed;
    let mut number = |place: usize| match kind {
        // subnormal numbers, zeros of both signs, less than a unit at the scale 2^60, and a little
        // more
        "tiny" => match place % 7 {
            0 => f64::from_bits(1),
            1 => -f64::MIN_POSITIVE,
            2 => -0.0,
            3 => float(&mut state, -70),
            4 => float(&mut state, -60),
            _ => float(&mut state, -30),
        },
        // sizes that differ by 2^130; times the scale, up to 2^110 at a modulus of 2^125
        "huge" => float(&mut state, [80, 20, -40, 90, 3][place % 5]),
        // the same in all slots: two coefficients, 2.5 and -3.5, which go to 2 and -4
        "ties" => [5.0, -7.0][place % 2] * f64::from_bits((1023 - 31) << 52),
        _ => float(&mut state, 0),
    };
    (0..count).map(|slot| Complex { re: number(2 * slot), im: number(2 * slot + 1) }).collect()
}

/// A number from `-2^exponent` to `2^exponent`, by splitmix64 (Steele, Lea, Flood, OOPSLA 2014): 53
/// bits and a power of two.
fn float(state: &mut u64, exponent: i64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^= word >> 31;
    let unit = f64::from_bits(((1023 + exponent - 53) as u64) << 52);
    let absolute = (word >> 11) as f64 * unit;
    if word & 1 == 1 { -absolute } else { absolute }
}

/// FNV-1a of the words' bytes, least significant first.
fn digest(words: impl Iterator<Item = u64>) -> u64 {
    let bytes = words.flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
