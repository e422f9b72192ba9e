//! Bytes of a model's public facts ([`Card`]).
//!
//! | field | bytes |
//! |---|---|
//! | version `01`, kind `33` | 2 |
//! | length of the parameters; the parameters | 2; so many |
//! | channels, rows and columns of an image | 4 each |
//! | of a question: ciphertexts, data primes, scale | 1, 1, 8 and 8 per data prime of the set |
//! | for each ciphertext and slot: the number of its pixel in the image, or `ffffffff` | 4 each |
//! | keys; of each: its kind, steps (signed; 0 but for rotations), `l` | 2; 1, 4, 2 each |
//! | classes; of each: ciphertext and slot of its logit | 2; 1, 4 each |
//! | of an answer: data primes, scale | 1, as above |
//! | exponent of the logits, signed | 4 |
//! | with a foretold error of a logit: the error, a double | 8 |
//! | with a guard: its ciphertext and slot | 1, 4 |
//!
//! Integers are big-endian; keys are ordered, each once. Their kinds are 0 for a rotation, 1 for
//! products, 2 for conjugations, and 3 for the pair of a refresh. `l` means a key of the lattice's
//! level `l + 1`; the pair has the top one.
//!
//! **A card comes from a server that may lie.** A client allocates only for the bytes of the card,
//! with two exceptions, both bounded. The size of the keys is at most [`MAX_KEYS_BYTES`]; with
//! refreshes at most [`MAX_REFRESH_KEYS_BYTES`]. The parameters have at
//! most `2^16` coefficients and 64 primes; they decode only with 128 bits of security. For any
//! card, a question is an encryption under a fresh secret of these parameters: a lie costs the
//! client only a wrong answer.

use super::compile::Card;
use super::holder::{MAX_SEALED_BYTES, SEALED_HEAD};
use super::messages::{self, MAX_CIPHERTEXTS, MessageError};
use super::model::Volume;
use super::program::Input;
use tobari_lattice::ckks::Scale;
use tobari_lattice::params::{LatticeParameters, Plaintext};
use tobari_lattice::wire::VERSION;
use tobari_lattice::wire::{self, LatticeWireError};

/// The most bytes of a card.
pub const MAX_CARD_BYTES: usize = 1 << 23;
/// The most bytes of the keys that a card asks for.
pub const MAX_KEYS_BYTES: usize = 1 << 31;
/// The same of a model with refreshes: 8 GiB where memory has so many addresses.
pub const MAX_REFRESH_KEYS_BYTES: usize = match 1usize.checked_shl(33) {
    Some(most) => most,
    None => MAX_KEYS_BYTES,
};
/// The most keys, and the most classes.
const MOST: usize = 1 << 12;
const CARD: u8 = 0x33;
/// `log2` of the coefficients, and the primes, of a card and of an enclave.
const OF_CARD: (u8, usize) = (16, 64);
const OF_ENCLAVE: (u8, usize) = (15, 16);
/// Marks a slot without a number of the image.
const NONE: u32 = u32::MAX;
/// The largest binary exponent of the logits, as in a model.
const LOGIT_BITS: i32 = 64;

/// Errors of a card's bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CardError {
    /// Another version or kind, or invalid parameters.
    #[error("what is known of a model: {0}")]
    Message(#[from] MessageError),
    /// Too few or too many bytes.
    #[error("what is known of a model: expected {expected} bytes for {what}, found {found}")]
    Length {
        /// The purpose of the bytes.
        what: &'static str,
        /// The number expected.
        expected: usize,
        /// The number found.
        found: usize,
    },
    /// Keys that would be too large.
    #[error(
        "this model takes keys of {found} bytes, and at most {most} are possible: choose another set of parameters or another layout"
    )]
    Keys {
        /// Bytes of the keys.
        found: usize,
        /// The most bytes.
        most: usize,
    },
    /// An invalid value.
    #[error("what is known of a model: expected {0}, found something else")]
    Malformed(&'static str),
}

impl Card {
    /// The card's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let parameters = wire::encode_parameters(&self.parameters);
        let mut out = vec![VERSION, CARD];
        out.extend_from_slice(&(parameters.len() as u16).to_be_bytes());
        out.extend_from_slice(&parameters);
        let Volume { channels, height, width } = self.shape;
        [channels, height, width].iter().for_each(|side| out.extend_from_slice(&(*side as u32).to_be_bytes()));
        out.extend_from_slice(&[self.places.len() as u8, self.sent.0 as u8]);
        self.put_scale(&mut out, &self.sent.1);
        self.places.iter().flatten().for_each(|place| out.extend_from_slice(&place.unwrap_or(NONE).to_be_bytes()));
        out.extend_from_slice(&(self.keys.len() as u16).to_be_bytes());
        for key in &self.keys {
            let (kind, steps, level) = match *key {
                Input::Rotation { steps, level } => (0, steps as i32, level),
                Input::Relinearization { level } => (1, 0, level),
                Input::Conjugation { level } => (2, 0, level),
                Input::Raise { level } => (3, 0, level),
                _ => continue, // no key: a card has none
            };
            out.push(kind);
            out.extend_from_slice(&steps.to_be_bytes());
            out.extend_from_slice(&level.to_be_bytes());
        }
        out.extend_from_slice(&(self.logits.len() as u16).to_be_bytes());
        for (output, slot) in &self.logits {
            out.push(*output as u8);
            out.extend_from_slice(&(*slot as u32).to_be_bytes());
        }
        out.push(self.answer.0 as u8);
        self.put_scale(&mut out, &self.answer.1);
        out.extend_from_slice(&self.logit_bits.to_be_bytes());
        out.extend(self.error.iter().flat_map(|error| error.to_be_bytes()));
        if let Some((output, slot)) = &self.guard {
            out.push(*output as u8);
            out.extend_from_slice(&(*slot as u32).to_be_bytes());
        }
        out
    }

    /// Checks that [`Self::decode`] accepts the bytes of [`Self::encode`], so that every command
    /// that reads this card accepts the key or the served model that holds it.
    ///
    /// # Errors
    /// [`CardError`] names the limit.
    pub fn check(&self) -> Result<(), CardError> {
        if self.places.len() > MAX_CIPHERTEXTS {
            return Err(CardError::Malformed("1 to 64 ciphertexts of a question"));
        }
        self.limit()?;
        let bytes = self.encode();
        let same = Self::decode(&bytes)?.encode() == bytes;
        same.then_some(()).ok_or(CardError::Malformed("numbers that fit their fields"))
    }

    /// Checks the sizes of the messages that follow from the card.
    fn limit(&self) -> Result<(), CardError> {
        let found = messages::keys_bytes(self);
        let most = if self.is_refreshed() { MAX_REFRESH_KEYS_BYTES } else { MAX_KEYS_BYTES };
        if found > most {
            return Err(CardError::Keys { found, most });
        }
        if self.answers() > MAX_CIPHERTEXTS {
            return Err(CardError::Malformed("1 to 64 ciphertexts of an answer"));
        }
        let sealed = messages::question_bytes(self).max(messages::answer_bytes(self));
        if sealed > MAX_SEALED_BYTES - SEALED_HEAD {
            return Err(CardError::Malformed("questions and answers of at most 2^28 bytes in a file"));
        }
        Ok(())
    }

    /// Whether the model refreshes its ciphertexts.
    pub fn is_refreshed(&self) -> bool {
        self.keys.iter().any(|key| matches!(key, Input::Raise { .. }))
    }

    fn put_scale(&self, out: &mut Vec<u8>, scale: &Scale) {
        let exponents = scale.exponents(self.parameters.data_primes());
        exponents.for_each(|exponent| out.extend_from_slice(&exponent.to_be_bytes()));
    }

    /// Decodes a card.
    ///
    /// # Errors
    /// [`CardError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, CardError> {
        if bytes.len() > MAX_CARD_BYTES {
            return Err(CardError::Malformed("at most 2^23 bytes"));
        }
        let mut fields = Fields { rest: messages::open(bytes, CARD)? };
        let parameters = parameters(&mut fields)?;
        let shape = shape(&mut fields)?;
        let pixels = shape.len() as u32;
        let [count, primes] = fields.array("the shape of a question")?;
        if !(1..=MAX_CIPHERTEXTS).contains(&usize::from(count)) {
            return Err(CardError::Malformed("1 to 64 ciphertexts of a question"));
        }
        let sent = (level(primes, &parameters)?, scale(&mut fields, &parameters)?);
        let slots = parameters.degree() / 2;
        let bytes = fields.take("the places of an image's numbers", usize::from(count) * slots * 4)?;
        let place = |bytes: &[u8; 4]| match u32::from_be_bytes(*bytes) {
            NONE => Ok(None),
            place if place < pixels => Ok(Some(place)),
            _ => Err(CardError::Malformed("numbers of the image in the slots")),
        };
        let places: Vec<Option<u32>> = bytes.as_chunks::<4>().0.iter().map(place).collect::<Result<_, _>>()?;
        let places = places.chunks_exact(slots).map(<[_]>::to_vec).collect();
        let keys = keys(&mut fields, &parameters)?;
        let logits = logits(&mut fields, slots)?;
        let [primes] = fields.array("the shape of an answer")?;
        let answer = (level(primes, &parameters)?, scale(&mut fields, &parameters)?);
        let logit_bits = i32::from_be_bytes(fields.array("the exponent of the logits")?);
        if !(-LOGIT_BITS..=LOGIT_BITS).contains(&logit_bits) {
            return Err(CardError::Malformed("an exponent of the logits from -64 to 64"));
        }
        let error = match fields.rest.len() {
            8 | 13 => Some(f64::from_be_bytes(fields.array("the foretold error")?)),
            _ => None,
        };
        if !error.is_none_or(|error| error >= 0.0) {
            return Err(CardError::Malformed("a foretold error of at least 0"));
        }
        let guard = match fields.rest.len() {
            5 => Some(place_of(&fields.array("the place of the guard")?, slots)?),
            _ => None,
        };
        if !fields.rest.is_empty() {
            return Err(CardError::Length { what: "the end", expected: 0, found: fields.rest.len() });
        }
        let card = Self { parameters, shape, places, sent, keys, logits, error, guard, answer, logit_bits };
        card.limit()?;
        Ok(card)
    }
}

/// Whether the bytes of parameters state at most so many coefficients and primes, which bounds the
/// tables made for them.
fn are_bounded(parameters: &[u8], (log_degree, primes): (u8, usize)) -> bool {
    // version, kind, degree, data and special primes
    matches!(parameters, [_, _, degree, data, special, ..]
        if *degree <= log_degree && usize::from(*data) + usize::from(*special) <= primes)
}

/// Rejects bytes of parameters that are larger than an enclave allows.
///
/// # Errors
/// [`LatticeWireError::Malformed`].
pub(super) fn check_bounds(parameters: &[u8]) -> Result<(), LatticeWireError> {
    let message = "parameters: expected at most 2^15 coefficients and 16 primes, found others; choose another set";
    are_bounded(parameters, OF_ENCLAVE).then_some(()).ok_or(LatticeWireError::Malformed(message))
}

fn parameters(fields: &mut Fields<'_>) -> Result<LatticeParameters, CardError> {
    let length = u16::from_be_bytes(fields.array("the length of the parameters")?);
    let bytes = fields.take("the parameters", length.into())?;
    if !are_bounded(bytes, OF_CARD) {
        return Err(CardError::Malformed("parameters of at most 2^16 coefficients and 64 primes"));
    }
    let parameters = wire::decode_parameters(bytes).map_err(MessageError::from)?;
    let suits = parameters.plaintext() == Plaintext::Approximate && !parameters.ring().special_primes().is_empty();
    suits.then_some(parameters).ok_or(CardError::Malformed("parameters for approximate numbers with a special prime"))
}

/// The shape of an image, of at least one number.
fn shape(fields: &mut Fields<'_>) -> Result<Volume, CardError> {
    let mut side = || fields.array("the shape of an image").map(|bytes| u32::from_be_bytes(bytes) as usize);
    let shape = Volume { channels: side()?, height: side()?, width: side()? };
    let numbers = shape.channels.checked_mul(shape.height).and_then(|numbers| numbers.checked_mul(shape.width));
    let fits = numbers.is_some_and(|numbers| (1..=super::model::MAX_NUMBERS).contains(&numbers));
    fits.then_some(shape).ok_or(CardError::Malformed("1 to 2^20 numbers of an image"))
}

fn level(primes: u8, parameters: &LatticeParameters) -> Result<usize, CardError> {
    let primes = usize::from(primes);
    let fits = (1..=parameters.data_primes()).contains(&primes);
    fits.then_some(primes).ok_or(CardError::Malformed("data primes that the parameters have"))
}

fn scale(fields: &mut Fields<'_>, parameters: &LatticeParameters) -> Result<Scale, CardError> {
    let bytes = fields.take("a scale", 8 * (1 + parameters.data_primes()))?;
    let mut exponents = bytes.as_chunks::<8>().0.iter().map(|bytes| i64::from_be_bytes(*bytes));
    let log2 = exponents.next().unwrap_or(0);
    let scale = Scale::from_exponents(log2, exponents.collect());
    let range = |scale: &Scale| scale.to_f64(parameters).is_some_and(|value| value.is_finite() && value >= 1.0);
    scale.filter(range).ok_or(CardError::Malformed("a scale of at least 1 in the range of doubles"))
}

fn keys(fields: &mut Fields<'_>, parameters: &LatticeParameters) -> Result<Vec<Input>, CardError> {
    let count = usize::from(u16::from_be_bytes(fields.array("the number of keys")?));
    if count > MOST {
        return Err(CardError::Malformed("at most 4,096 keys"));
    }
    let bytes = fields.take("the keys", 7 * count)?;
    let slots = (parameters.degree() / 2) as i64;
    let key = |bytes: &[u8; 7]| {
        let [kind, a, b, c, d, e, f] = *bytes;
        let (steps, level) = (i64::from(i32::from_be_bytes([a, b, c, d])), u16::from_be_bytes([e, f]));
        let fits = usize::from(level) < parameters.data_primes();
        match kind {
            0 if fits && steps != 0 && steps.abs() < slots => Ok(Input::Rotation { steps, level }),
            1 if fits && steps == 0 => Ok(Input::Relinearization { level }),
            2 if fits && steps == 0 => Ok(Input::Conjugation { level }),
            3 if usize::from(level) + 1 == parameters.data_primes() && steps == 0 => Ok(Input::Raise { level }),
            _ => Err(CardError::Malformed("keys of rotations, products and refreshes at levels that there are")),
        }
    };
    let keys: Vec<Input> = bytes.as_chunks::<7>().0.iter().map(key).collect::<Result<_, _>>()?;
    let ordered = keys.windows(2).all(|pair| pair[0] < pair[1]);
    ordered.then_some(keys).ok_or(CardError::Malformed("keys in their order, each once"))
}

fn logits(fields: &mut Fields<'_>, slots: usize) -> Result<Vec<(usize, usize)>, CardError> {
    let count = usize::from(u16::from_be_bytes(fields.array("the number of classes")?));
    if !(1..=MOST).contains(&count) {
        return Err(CardError::Malformed("1 to 4,096 classes"));
    }
    let bytes = fields.take("the slots of logits", 5 * count)?;
    bytes.as_chunks::<5>().0.iter().map(|bytes| place_of(bytes, slots)).collect()
}

/// A ciphertext and its slot.
fn place_of(bytes: &[u8; 5], slots: usize) -> Result<(usize, usize), CardError> {
    let [output, a, b, c, d] = *bytes;
    let (output, slot) = (usize::from(output), u32::from_be_bytes([a, b, c, d]) as usize);
    let fits = output < MAX_CIPHERTEXTS && slot < slots;
    fits.then_some((output, slot)).ok_or(CardError::Malformed("slots that there are"))
}

struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn take(&mut self, what: &'static str, expected: usize) -> Result<&'a [u8], CardError> {
        let found = self.rest.len();
        let (taken, rest) = self.rest.split_at_checked(expected).ok_or(CardError::Length { what, expected, found })?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], CardError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(what, N)?);
        Ok(out)
    }
}
