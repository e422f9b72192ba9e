//! Bytes of messages: keys, a question, an answer.
//!
//! | kind | message | after version (`01`) and kind |
//! |---|---|---|
//! | 30 | keys | the keys of the model's card in its order, each an object of the lattice schemes with one key, at its level |
//! | 31 | question | number of ciphertexts (1), and the ciphertexts, seeded |
//! | 32 | answer | number of ciphertexts (1), and the ciphertexts |
//! | 33 | the public facts of a model | [`super::card`] |
//! | 34 | a file with a question | the model's digest (32), SHA-256 of the keys (32), a question |
//! | 35 | a file with an answer | the same with an answer |
//!
//! Both sides know the model's [`Card`], which states the number of ciphertexts, their primes and
//! their scale. Any difference is rejected, and each message has exactly one byte string. **Uniform
//! halves of questions and keys are sent only as seeds.** Lengths are checked before the announced
//! memory is allocated.

use super::compile::{Card, name};
use super::program::Input;
use sha2::{Digest, Sha256};
use tobari_lattice::ckks::{Ciphertext, EvaluationKeys, SeededCiphertext};
use tobari_lattice::refresh::KeyPiece;
use tobari_lattice::wire::VERSION;
use tobari_lattice::wire::{self, LatticeWireError};

/// The most ciphertexts of a message.
pub const MAX_CIPHERTEXTS: usize = 64;

const KEYS: u8 = 0x30;
const QUESTION: u8 = 0x31;
const ANSWER: u8 = 0x32;

/// Errors of a message's bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// Too few or too many bytes.
    #[error("expected {expected} bytes, found {found}")]
    Length {
        /// The number expected.
        expected: usize,
        /// The number found.
        found: usize,
    },
    /// Another version or kind.
    #[error("expected version {VERSION} and kind {expected:#04x}, found {version} and {found:#04x}")]
    Kind {
        /// The kind.
        expected: u8,
        /// The version found.
        version: u8,
        /// The kind found.
        found: u8,
    },
    /// Another number of ciphertexts.
    #[error("expected {expected} ciphertexts, found {found}")]
    Count {
        /// The number expected.
        expected: usize,
        /// The number found.
        found: usize,
    },
    /// A ciphertext over other primes or at another scale, or a product that is not relinearised.
    #[error("expected ciphertexts over {primes} data primes at scale {scale}, found another one")]
    Ciphertext {
        /// Data primes.
        primes: usize,
        /// The scale.
        scale: String,
    },
    /// A key of another kind or level.
    #[error("expected a {name}, found another key")]
    Key {
        /// The key expected.
        name: String,
    },
    /// Bytes that are not an object of the lattice schemes.
    #[error(transparent)]
    Object(#[from] LatticeWireError),
}

/// The bytes after version and kind.
pub(super) fn open(bytes: &[u8], expected: u8) -> Result<&[u8], MessageError> {
    match bytes {
        [version, found, rest @ ..] if *version == VERSION && *found == expected => Ok(rest),
        [version, found, ..] => Err(MessageError::Kind { expected, version: *version, found: *found }),
        _ => Err(MessageError::Length { expected: 2, found: bytes.len() }),
    }
}

/// Splits bytes into the expected number of parts of one length.
fn parts(bytes: &[u8], expected: usize) -> Result<impl Iterator<Item = &[u8]>, MessageError> {
    let [count, rest @ ..] = bytes else { return Err(MessageError::Length { expected: 1, found: 0 }) };
    let found = usize::from(*count);
    if found != expected || !(1..=MAX_CIPHERTEXTS).contains(&found) {
        return Err(MessageError::Count { expected, found });
    }
    let each = rest.len() / found;
    if each == 0 || !rest.len().is_multiple_of(found) {
        return Err(MessageError::Length { expected: each.max(1) * found, found: rest.len() });
    }
    Ok(rest.chunks_exact(each))
}

/// The length of a message of keys, or the largest number if it has no such number.
pub fn keys_bytes(card: &Card) -> usize {
    card.keys.iter().fold(2usize, |sum, input| sum.saturating_add(key_bytes(card, *input)))
}

/// The length of a question.
pub fn question_bytes(card: &Card) -> usize {
    // version, kind and parameters; primes, scale, seed; a half
    let head = wire::encode_parameters(&card.parameters).len() + 1 + scale_bytes(card) + 32;
    3 + card.places.len() * (head + element_bytes(card, card.sent.0))
}

/// The length of an answer.
pub fn answer_bytes(card: &Card) -> usize {
    let head = wire::encode_parameters(&card.parameters).len() + 2 + scale_bytes(card);
    3 + card.answers() * (head + 2 * element_bytes(card, card.answer.0))
}

fn scale_bytes(card: &Card) -> usize {
    8 * (1 + card.parameters.data_primes())
}

/// The bytes of a polynomial over this many data primes.
fn element_bytes(card: &Card, primes: usize) -> usize {
    let (ring, degree) = (card.parameters.ring(), card.parameters.degree());
    let tables = &ring.data_primes()[..primes];
    tables.iter().map(|prime| (degree * prime.modulus().bits() as usize).div_ceil(8)).sum()
}

/// The bytes of one key: version, kind and parameters; the number of keys; automorphism, level,
/// seed; a half of each digit.
fn key_bytes(card: &Card, input: Input) -> usize {
    let level = match input {
        Input::Rotation { level, .. }
        | Input::Relinearization { level }
        | Input::Conjugation { level }
        | Input::Raise { level } => usize::from(level) + 1,
        _ => 0,
    };
    let (ring, degree) = (card.parameters.ring(), card.parameters.degree());
    let element = |data: usize, special: usize| {
        let primes = ring.data_primes()[..data].iter().chain(&ring.special_primes()[..special]);
        primes.map(|prime| (degree * prime.modulus().bits() as usize).div_ceil(8)).sum::<usize>()
    };
    let digits = level.div_ceil(card.parameters.digit_size());
    let body = digits * element(level, ring.special_primes().len());
    // a pair has no number of keys, and its first key is over one prime of each kind
    let rest = match input {
        Input::Raise { .. } => 2 * (4 + 1 + 32) + element(1, ring.special_primes().len().min(1)),
        _ => 3 + 4 + 1 + 32,
    };
    wire::encode_parameters(&card.parameters).len() + rest + body
}

/// The lengths of the keys in a message of them, in the card's order.
pub fn key_lengths(card: &Card) -> Vec<usize> {
    card.keys.iter().map(|input| key_bytes(card, *input)).collect()
}

/// The first bytes of a message of keys.
pub const KEYS_HEAD: [u8; 2] = [VERSION, KEYS];

/// Computes the name of keys, the SHA-256 of their message, from one key after another.
#[derive(Clone)]
pub struct KeysName(Sha256);

impl Default for KeysName {
    fn default() -> Self {
        Self(Sha256::new_with_prefix(KEYS_HEAD))
    }
}

impl KeysName {
    /// Takes the bytes of the next key in the card's order.
    pub fn add(&mut self, key: &[u8]) {
        self.0.update(key);
    }

    /// The name.
    pub fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

/// Encodes a key that is alone in its object.
pub(crate) fn encode_key(key: &EvaluationKeys) -> Vec<u8> {
    wire::encode_ckks_raise_keys(key).unwrap_or_else(|| wire::encode_ckks_evaluation_keys(key))
}

/// Encodes keys, in the order of the card.
pub fn encode_keys(keys: &[(Input, EvaluationKeys)]) -> Vec<u8> {
    let mut out = KEYS_HEAD.to_vec();
    keys.iter().for_each(|(_, key)| out.extend_from_slice(&encode_key(key)));
    out
}

/// The purpose and the level of a key in a ring with so many slots; `None` for another input.
fn piece(input: Input, slots: usize) -> Option<(KeyPiece, usize)> {
    let (piece, level) = match input {
        Input::Rotation { steps, level } => (KeyPiece::Rotation(steps.rem_euclid(slots as i64) as usize), level),
        Input::Relinearization { level } => (KeyPiece::Products, level),
        Input::Conjugation { level } => (KeyPiece::Conjugation, level),
        Input::Raise { level } => (KeyPiece::Raise, level),
        _ => return None,
    };
    Some((piece, usize::from(level) + 1))
}

/// Decodes keys.
///
/// # Errors
/// [`MessageError`]; it names the first key that differs from the card.
pub fn decode_keys(bytes: &[u8], card: &Card) -> Result<Vec<(Input, EvaluationKeys)>, MessageError> {
    let mut rest = open(bytes, KEYS)?;
    let (expected, found) = (keys_bytes(card), bytes.len());
    if expected != found {
        return Err(MessageError::Length { expected, found });
    }
    let mut keys = Vec::with_capacity(card.keys.len());
    for input in &card.keys {
        let (one, next) = rest.split_at_checked(key_bytes(card, *input)).unwrap_or((rest, &[]));
        rest = next;
        keys.push((*input, decode_key(one, card, *input)?));
    }
    Ok(keys)
}

/// Decodes one key of a message of keys.
///
/// # Errors
/// [`MessageError`], for another key than this one, too.
pub fn decode_key(bytes: &[u8], card: &Card, input: Input) -> Result<EvaluationKeys, MessageError> {
    let (expected, found) = (key_bytes(card, input), bytes.len());
    if expected != found {
        return Err(MessageError::Length { expected, found });
    }
    let one = wire::without_identity(bytes)?;
    let key = match input {
        Input::Raise { .. } => wire::decode_ckks_raise_keys(one, &card.parameters)?,
        _ => wire::decode_ckks_evaluation_keys(one, &card.parameters)?,
    };
    let fits = |key: &EvaluationKeys| match piece(input, card.parameters.degree() / 2) {
        Some((KeyPiece::Raise, _)) => key.is_raise(),
        Some((piece, level)) => key.only().is_some() && key.level_of(piece) == Some(level),
        None => false,
    };
    Some(key).filter(fits).ok_or_else(|| MessageError::Key { name: name(input) })
}

/// Encodes a question.
pub fn encode_question(image: &[SeededCiphertext]) -> Vec<u8> {
    let mut out = vec![VERSION, QUESTION, image.len() as u8];
    image.iter().for_each(|part| out.extend_from_slice(&wire::encode_ckks_seeded_ciphertext(part)));
    out
}

/// Decodes a question.
///
/// # Errors
/// [`MessageError`].
pub fn decode_question(bytes: &[u8], card: &Card) -> Result<Vec<SeededCiphertext>, MessageError> {
    let (primes, scale) = &card.sent;
    let part = |bytes: &[u8]| {
        let part = wire::decode_ckks_seeded_ciphertext(wire::without_identity(bytes)?, &card.parameters)?;
        let fits = part.level() == *primes && part.scale() == scale;
        fits.then_some(part).ok_or_else(|| MessageError::Ciphertext { primes: *primes, scale: scale.to_string() })
    };
    parts(open(bytes, QUESTION)?, card.places.len())?.map(part).collect()
}

/// Encodes an answer.
///
/// # Errors
/// [`MessageError::Object`] for a ciphertext that everybody can read.
pub fn encode_answer(answer: &[Ciphertext]) -> Result<Vec<u8>, MessageError> {
    let mut out = vec![VERSION, ANSWER, answer.len() as u8];
    for part in answer {
        out.extend_from_slice(&wire::encode_ckks_ciphertext(part)?);
    }
    Ok(out)
}

/// Decodes an answer.
///
/// # Errors
/// [`MessageError`].
pub fn decode_answer(bytes: &[u8], card: &Card) -> Result<Vec<Ciphertext>, MessageError> {
    let (primes, scale) = &card.answer;
    let part = |bytes: &[u8]| {
        let part = wire::decode_ckks_ciphertext(wire::without_identity(bytes)?, &card.parameters)?;
        let fits = part.level() == *primes && part.scale() == scale && !part.needs_relinearization();
        fits.then_some(part).ok_or_else(|| MessageError::Ciphertext { primes: *primes, scale: scale.to_string() })
    };
    parts(open(bytes, ANSWER)?, card.answers())?.map(part).collect()
}

/// Fuzzing: bytes that decode as a message must encode to the same bytes.
#[doc(hidden)]
pub fn fuzz_messages(data: &[u8]) {
    let Some(card) = toy_card() else { return };
    if let Ok(keys) = decode_keys(data, &card) {
        assert_eq!(encode_keys(&keys), data);
    }
    if let Ok(image) = decode_question(data, &card) {
        assert_eq!(encode_question(&image), data);
    }
    if let Ok(answer) = decode_answer(data, &card) {
        match encode_answer(&answer) {
            Ok(again) => assert_eq!(again, data),
            Err(error) => assert_eq!(error, MessageError::Object(LatticeWireError::Transparent)),
        }
    }
}

/// A card of four slots, for fuzzing.
#[doc(hidden)]
pub fn toy_card() -> Option<Card> {
    use super::model::Volume;
    use tobari_lattice::ckks::Scale;
    use tobari_lattice::params::{LatticeParameters, Plaintext};
    let parameters = LatticeParameters::insecure_of_sizes(8, &[40, 26, 26], &[40], 3, Plaintext::Approximate).ok()?;
    Some(Card {
        parameters,
        shape: Volume { channels: 1, height: 2, width: 3 },
        places: vec![vec![Some(0), Some(1), None, Some(2)], vec![Some(3), Some(4), Some(5), None]],
        sent: (3, Scale::power_of_two(26)),
        keys: vec![
            Input::Rotation { steps: 1, level: 2 },
            Input::Rotation { steps: 2, level: 0 },
            Input::Relinearization { level: 1 },
        ],
        logits: vec![(0, 0), (0, 2)],
        error: None,
        guard: None,
        answer: (1, Scale::power_of_two(34)),
        logit_bits: 1,
    })
}
