//! The server's message to a key holder for a window: its tally, and a ciphertext for each result.
//!
//! | kind | message | after version (`01`) and kind |
//! |---|---|---|
//! | 40 | results of a window | the fields below |
//!
//! | bytes | field |
//! |---|---|
//! | 4 | number of devices with frames |
//! | 12 each | device number, frames, frames left out: ascending by number |
//! | 2 | number of results |
//! | 4 and as many | length and bytes of each, a ciphertext of BGV |
//!
//! Integers are big-endian. Each message has exactly one byte string. Memory is allocated only
//! after lengths are checked.

use super::order::{MAX_DEVICES, MAX_OUTPUTS, Tally};
use tobari_lattice::bgv::Ciphertext;
use tobari_lattice::params::LatticeParameters;
use tobari_lattice::wire::VERSION;
use tobari_lattice::wire::{self, LatticeWireError};

const KIND: u8 = 0x40;
const TALLY: usize = 12;
/// Largest size of a message in bytes.
pub const MAX_MESSAGE: usize = 1 << 30;

/// The results of a window.
#[derive(Clone)]
pub struct WindowResults {
    /// The number of the server's frames by device.
    pub tally: Vec<Tally>,
    /// The results in the order of the job's outputs.
    pub results: Vec<Ciphertext>,
}

/// Bytes that are not such a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// Too few or too many bytes.
    #[error("expected {expected} bytes, found {found}")]
    Length {
        /// The number of bytes expected.
        expected: usize,
        /// The number of bytes found.
        found: usize,
    },
    /// Another version or kind.
    #[error("expected version {VERSION} and kind {KIND:#04x}, found {version} and {kind:#04x}")]
    Kind {
        /// The version found.
        version: u8,
        /// The kind found.
        kind: u8,
    },
    /// A number beyond its limit, or a wrong order.
    #[error("expected {0}, found another")]
    Malformed(&'static str),
    /// Bytes that are not a ciphertext.
    #[error(transparent)]
    Object(#[from] LatticeWireError),
}

/// Encodes a message.
///
/// # Errors
/// [`MessageError::Object`] for a result that everybody can read.
pub fn encode(message: &WindowResults) -> Result<Vec<u8>, MessageError> {
    let mut out = vec![VERSION, KIND];
    out.extend_from_slice(&(message.tally.len() as u32).to_be_bytes());
    for tally in &message.tally {
        [tally.number, tally.frames, tally.left_out].iter().for_each(|n| out.extend_from_slice(&n.to_be_bytes()));
    }
    out.extend_from_slice(&(message.results.len() as u16).to_be_bytes());
    for result in &message.results {
        let bytes = wire::encode_ciphertext(result)?;
        out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        out.extend_from_slice(&bytes);
    }
    Ok(out)
}

/// Splits off the first bytes.
fn take(bytes: &[u8], count: usize) -> Result<(&[u8], &[u8]), MessageError> {
    bytes.split_at_checked(count).ok_or(MessageError::Length { expected: count, found: bytes.len() })
}

fn number(bytes: &[u8]) -> Result<(usize, &[u8]), MessageError> {
    let (first, rest) = take(bytes, 4)?;
    Ok((first.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest))
}

/// Decodes a message.
///
/// # Errors
/// [`MessageError`].
pub fn decode(bytes: &[u8], parameters: &LatticeParameters) -> Result<WindowResults, MessageError> {
    let (head, rest) = take(bytes, 2)?;
    if head != [VERSION, KIND] {
        return Err(MessageError::Kind { version: head[0], kind: head[1] });
    }
    let (devices, rest) = number(rest)?;
    if devices > MAX_DEVICES {
        return Err(MessageError::Malformed("no more devices than a fleet has"));
    }
    let (tallies, rest) = take(rest, devices * TALLY)?;
    let word = |bytes: &[u8], at: usize| bytes[4 * at..][..4].iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
    let of = |bytes: &[u8]| Tally { number: word(bytes, 0), frames: word(bytes, 1), left_out: word(bytes, 2) };
    let tally: Vec<Tally> = tallies.chunks_exact(TALLY).map(of).collect();
    if !tally.is_sorted_by(|a, b| a.number < b.number) {
        return Err(MessageError::Malformed("ascending device numbers"));
    }
    let (count, mut rest) = take(rest, 2)?;
    let count = usize::from(count[0]) << 8 | usize::from(count[1]);
    if count > MAX_OUTPUTS {
        return Err(MessageError::Malformed("no more results than a question has"));
    }
    // reserves memory only for bytes that are there, whatever count is announced
    let mut results = Vec::new();
    for _ in 0..count {
        let (length, after) = number(rest)?;
        let (bytes, after) = take(after, length)?;
        results.push(wire::decode_ciphertext(wire::without_identity(bytes)?, parameters)?);
        rest = after;
    }
    if rest.is_empty() {
        Ok(WindowResults { tally, results })
    } else {
        Err(MessageError::Length { expected: 0, found: rest.len() })
    }
}

/// Any bytes that decode as a message encode to the same bytes.
#[doc(hidden)]
pub fn fuzz_window_results(data: &[u8]) {
    let Some(parameters) = toy_parameters() else { return };
    if let Ok(message) = decode(data, &parameters) {
        match encode(&message) {
            Ok(again) => assert_eq!(again, data),
            Err(error) => assert_eq!(error, MessageError::Object(LatticeWireError::Transparent)),
        }
    }
}

/// Parameters of a few slots, for fuzzing.
#[doc(hidden)]
pub fn toy_parameters() -> Option<LatticeParameters> {
    use tobari_lattice::params::Plaintext;
    let t = tobari_lattice::ring::Modulus::new(33_292_289)?;
    LatticeParameters::insecure_of_sizes(8, &[50, 50], &[50], 2, Plaintext::Integers(t)).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use chacha20::ChaCha20Rng;
    use chacha20::rand_core::SeedableRng;
    use tobari_lattice::bgv::Encoder;
    use tobari_lattice::ring::Seed;
    use tobari_lattice::rlwe::SecretKey;

    #[test]
    fn a_message_is_read_as_it_was_written_and_nothing_else_is_one() {
        let parameters = toy_parameters().unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let secret = SecretKey::from_seed(&parameters, Seed::random(&mut rng));
        let plain = Encoder::new(&parameters).unwrap().encode(&[1, 2, 3]).unwrap();
        let result = plain.encrypt_seeded(&secret, 2, &mut rng).unwrap().expand();
        let tally = vec![Tally { number: 3, frames: 1, left_out: 0 }, Tally { number: 9, frames: 2, left_out: 7 }];
        let message = WindowResults { tally: tally.clone(), results: vec![result.clone(), result] };
        let bytes = encode(&message).unwrap();
        fuzz_window_results(&bytes);
        let read = decode(&bytes, &parameters).unwrap();
        assert_eq!((read.tally, read.results.len(), encode(&message)), (tally, 2, Ok(bytes.clone())));
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length], &parameters).is_err(), "{length} of {} bytes", bytes.len());
        }
        assert!(decode(&[&bytes[..], &[0]].concat(), &parameters).is_err());
        let mut swapped = bytes.clone();
        swapped[6..30].rotate_left(12);
        assert!(decode(&swapped, &parameters).is_err(), "numbers ascend");
        let mut named = bytes.clone();
        let first = 6 + 2 * TALLY + 2 + 4;
        assert_eq!(named[first..][..2], [VERSION, 0x14], "an object");
        named[first] = 2;
        assert_eq!(decode(&named, &parameters).err(), Some(MessageError::Object(LatticeWireError::Identity)));
        let mut many = bytes;
        many[2..6].fill(0xff);
        assert!(decode(&many, &parameters).is_err());
    }
}
