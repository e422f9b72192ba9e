//! The fingerprint of a certificate: SHA-256 of its DER bytes.

use std::{fmt, str::FromStr};

/// SHA-256 of a certificate. Written as 64 hexadecimal digits; read with or without colons, in
/// either case.
///
/// ```
/// use tobari_client::Fingerprint;
/// let text = "ab".repeat(32);
/// assert_eq!(text.parse::<Fingerprint>()?.to_string(), text);
/// assert!("abab".parse::<Fingerprint>().is_err());
/// # Ok::<(), tobari_client::NotAFingerprint>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a certificate's DER bytes.
    pub fn of(certificate: &[u8]) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, certificate).as_ref());
        Self(hash)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Fingerprint {
    type Err = NotAFingerprint;

    fn from_str(text: &str) -> Result<Self, NotAFingerprint> {
        let digits: Vec<char> = if text.contains(':') {
            let pairs = text.split(':').map(|pair| if pair.len() == 2 { pair } else { "" });
            pairs.flat_map(str::chars).collect()
        } else {
            text.chars().collect()
        };
        if digits.len() != 64 {
            return Err(NotAFingerprint);
        }
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
            for digit in pair {
                let value = digit.to_digit(16).and_then(|value| u8::try_from(value).ok()).ok_or(NotAFingerprint)?;
                *byte = *byte << 4 | value;
            }
        }
        Ok(Self(hash))
    }
}

/// A text that is not a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("certificate fingerprint: expected SHA-256 as 64 hexadecimal digits")]
pub struct NotAFingerprint;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_sha_256() {
        // FIPS 180-4's example: SHA-256("abc").
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Fingerprint::of(b"abc").to_string(), expected);
    }

    #[test]
    fn colons_and_case_do_not_matter_but_length_does() {
        let expected = Fingerprint([0xAB; 32]);
        for text in ["ab".repeat(32), "AB".repeat(32), vec!["Ab"; 32].join(":")] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in
            [String::new(), "a".repeat(63), "a".repeat(65), "g".repeat(64), "ä".repeat(32), vec!["abab"; 16].join(":")]
        {
            assert_eq!(text.parse::<Fingerprint>(), Err(NotAFingerprint), "{text}");
        }
    }
}
