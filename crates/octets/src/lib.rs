//! Bytes as hexadecimal digits, the SHA-256 of bytes, and a reader of fields.
//!
//! Tables, models, fleets, keys and files are named by a hash, and the name travels as digits.
//! Every part of Tobari writes and reads such names with these functions.
//!
//! The digits of a secret are a secret, too. [`hex`] looks up no table and branches on no digit,
//! and allocates its text once, so that no copy of a secret stays behind. The parsers are for
//! names: they stop at the first wrong character.

#![forbid(unsafe_code)]

mod reader;
#[doc(hidden)]
pub mod testing;

pub use reader::{LengthError, Reader};

use sha2::{Digest, Sha256};

/// The bytes as lower-case digits, two for each byte, the high half first.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(digit(byte >> 4).into());
        text.push(digit(byte & 15).into());
    }
    text
}

/// The bytes of exactly `2 N` digits in lower or upper case; `None` for other text.
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = value(*high)? << 4 | value(*low)?;
    }
    Some(bytes)
}

/// The bytes of exactly `2 N` digits in lower case; `None` for other text.
///
/// Names that are compared as text have one spelling: use this function for them.
pub fn unhex_lower<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.bytes().any(|digit| digit.is_ascii_uppercase()) {
        return None;
    }
    unhex(text)
}

/// The SHA-256 of the bytes (FIPS 180-4).
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The digit of a value below 16, without a branch: letters stand 39 places after `9`.
fn digit(value: u8) -> u8 {
    let is_letter = 9u8.wrapping_sub(value) >> 7;
    b'0' + value + 39 * is_letter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_library_and_come_back() {
        let all: Vec<u8> = (0..=255).collect();
        let expected: String = all.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex(&all), expected);
        let bytes: [u8; 256] = std::array::from_fn(|at| at as u8);
        assert_eq!(unhex(&expected), Some(bytes));
        assert_eq!(unhex(&expected.to_uppercase()), Some(bytes));
        assert_eq!(unhex_lower(&expected), Some(bytes));
        assert_eq!(unhex_lower::<256>(&expected.to_uppercase()), None);
    }

    #[test]
    fn other_text_is_no_bytes() {
        for text in ["", "0", "000", "0g", "g0", " 0", "+1", "é", "0é", "0x"] {
            assert_eq!((unhex::<1>(text), unhex_lower::<1>(text)), (None, None), "{text}");
        }
        assert_eq!(unhex::<0>(""), Some([]));
    }

    #[test]
    fn the_hash_is_that_of_the_standard() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(&sha256(b"abc")), expected);
    }
}
