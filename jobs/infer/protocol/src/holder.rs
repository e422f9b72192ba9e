//! The key holder's file, and the files of questions and answers.
//!
//! A holder has one secret of 32 bytes for one model of one server. The secret key and **the keys
//! that the server needs follow from it, always as the same bytes**. They are therefore not stored
//! beside it, and have a name, their SHA-256, before they are made again.
//!
//! | file | bytes |
//! |---|---|
//! | holder | `TIK`, version (4); the secret (32); the model's digest (32); SHA-256 of the keys (32); the card |
//! | question | `01 34`; model's digest (32); SHA-256 of keys (32); a question ([`messages`]) |
//! | answer | `01 35`; model's digest (32); SHA-256 of keys (32); an answer ([`messages`]) |
//!
//! A holder's bytes are secret. Questions and answers are not, with one exception: an attacker who
//! sees an exact decryption beside them can compute the key ([`super::client`]).

use super::card::{CardError, MAX_CARD_BYTES};
use super::client::{AnswerView, Client, ClientError, Output};
use super::compile::Card;
use super::messages::{self, KeysName, MessageError};
use super::program::Input;
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use rand_core::CryptoRng;
use sha2::{Digest, Sha256};
use tobari_lattice::ckks::EvaluationKeys;
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::SecretKey;
use tobari_lattice::wire::VERSION;
use tobari_octets::hex;
use zeroize::Zeroizing;

const MAGIC: [u8; 4] = *b"TIK\x01";
const HEAD: usize = 4 + 3 * NAME_BYTES;
/// Bytes of a digest of a model, and of keys.
pub const NAME_BYTES: usize = 32;
/// The most bytes of a holder.
pub const MAX_HOLDER_BYTES: usize = HEAD + MAX_CARD_BYTES;
/// The most bytes of a question or an answer.
pub const MAX_SEALED_BYTES: usize = 1 << 28;
/// Bytes before the message in such a file.
pub(super) const SEALED_HEAD: usize = 2 + 2 * NAME_BYTES;
/// Branches of the seed.
const SECRET: u64 = 0;
const KEYS: u64 = 1;

/// Errors of a holder, and of files for it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HolderError {
    /// Bytes that are not a holder.
    #[error(
        "malformed key for inference: expected \"TIK\", version 1, 96 bytes and what is known of a model, found others"
    )]
    Malformed,
    /// An invalid card.
    #[error(transparent)]
    Card(#[from] CardError),
    /// An invalid question or answer.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// An answer of another model.
    #[error("expected an answer of the model {expected}, found one of {found}")]
    Model {
        /// The beginning of the holder's model's digest.
        expected: String,
        /// The beginning of the other model's digest.
        found: String,
    },
    /// An answer for another key.
    #[error("expected an answer for the key {expected}, found one for {found}")]
    Key {
        /// The beginning of the hash of the holder's keys.
        expected: String,
        /// The beginning of the other hash.
        found: String,
    },
    /// An error of the client.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// The secret of a client of one model, and the model's public facts. A holder is never printed,
/// and is wiped on drop.
pub struct Holder {
    seed: Seed,
    model: [u8; NAME_BYTES],
    keys: [u8; NAME_BYTES],
    card: Card,
}

impl Holder {
    /// A new holder, for the model of this digest. The keys are made once to compute their hash.
    ///
    /// # Errors
    /// [`HolderError::Card`] for a card beyond the limits of a key file, [`HolderError::Client`]
    /// for a card without possible keys.
    pub fn generate(card: Card, model: [u8; NAME_BYTES], rng: &mut impl CryptoRng) -> Result<Self, HolderError> {
        card.check()?;
        let mut holder = Self { seed: Seed::random(rng), model, keys: [0; NAME_BYTES], card };
        // keys may take gigabytes: one at a time
        let mut name = KeysName::default();
        holder.each_key(|_, key| {
            name.add(&messages::encode_key(&key));
            true
        })?;
        holder.keys = name.finish();
        Ok(holder)
    }

    /// The same, together with the keys that the server needs, as a message. A caller that sends
    /// them at once need not make them twice.
    ///
    /// # Errors
    /// As [`Self::generate`].
    pub fn generate_with_keys(
        card: Card,
        model: [u8; NAME_BYTES],
        rng: &mut impl CryptoRng,
    ) -> Result<(Self, Vec<u8>), HolderError> {
        // every key that is made can also be read
        card.check()?;
        let mut holder = Self { seed: Seed::random(rng), model, keys: [0; NAME_BYTES], card };
        let keys = holder.keys()?;
        holder.keys = Sha256::digest(&keys).into();
        Ok((holder, keys))
    }

    /// As [`Self::generate`], for a card of a toy that is not secure.
    ///
    /// # Errors
    /// As [`Self::generate`].
    #[doc(hidden)]
    pub fn insecure_for_tests(
        card: Card,
        model: [u8; NAME_BYTES],
        rng: &mut impl CryptoRng,
    ) -> Result<Self, HolderError> {
        let mut holder = Self { seed: Seed::random(rng), model, keys: [0; NAME_BYTES], card };
        holder.keys = Sha256::digest(holder.keys()?).into();
        Ok(holder)
    }

    /// The digest of the model.
    pub fn model(&self) -> &[u8; NAME_BYTES] {
        &self.model
    }

    /// SHA-256 of the keys: their name on the server.
    pub fn keys_name(&self) -> &[u8; NAME_BYTES] {
        &self.keys
    }

    /// The public facts of the model.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// The client, which encrypts and decrypts.
    ///
    /// # Errors
    /// [`ClientError`] for a card of another scheme.
    pub fn client(&self) -> Result<Client, ClientError> {
        let secret = SecretKey::from_seed(&self.card.parameters, self.seed.derive(SECRET));
        Client::with_secret(self.card.clone(), secret)
    }

    /// The keys that the server needs, as a message.
    ///
    /// # Errors
    /// [`ClientError`] for a card without possible keys.
    pub fn keys(&self) -> Result<Vec<u8>, ClientError> {
        Ok(messages::encode_keys(&self.loose_keys()?))
    }

    /// The same keys, each as an object of its own.
    ///
    /// # Errors
    /// As [`Self::keys`].
    pub fn loose_keys(&self) -> Result<Vec<(Input, EvaluationKeys)>, ClientError> {
        let mut all = Vec::with_capacity(self.card.keys.len());
        self.each_key(|input, key| {
            all.push((input, key));
            true
        })?;
        Ok(all)
    }

    /// The bytes of the same keys one after another, from a place in the card's order on, for a
    /// server that takes them one by one: `send` gets each place and the key's bytes
    /// ([`messages::decode_key`]), and returns whether to go on. The keys before that place are
    /// made, too, because all are drawn in one order.
    ///
    /// # Errors
    /// As [`Self::keys`].
    pub fn each_message(&self, from: usize, mut send: impl FnMut(usize, Vec<u8>) -> bool) -> Result<(), ClientError> {
        let mut place = 0;
        self.each_key(|_, key| {
            let goes_on = place < from || send(place, messages::encode_key(&key));
            place += 1;
            goes_on
        })
    }

    /// Makes the same keys one after another: `take` gets each of them, and returns whether to go
    /// on.
    fn each_key(&self, take: impl FnMut(Input, EvaluationKeys) -> bool) -> Result<(), ClientError> {
        let drawn = Zeroizing::new(self.seed.derive(KEYS).to_bytes());
        self.client()?.each_key(&mut ChaCha20Rng::from_seed(*drawn), take)
    }

    /// Encrypts an image into a file: its pixels, from 0 to 1, row by row.
    ///
    /// # Errors
    /// [`ClientError`] for an image of another size, or a pixel outside 0 to 1.
    pub fn encrypt(&self, image: &[f64], rng: &mut impl CryptoRng) -> Result<Vec<u8>, ClientError> {
        let question = messages::encode_question(&self.client()?.encrypt(image, rng)?);
        Ok(Sealed { kind: SealedKind::Question, model: self.model, keys: self.keys, body: &question }.encode())
    }

    /// Decrypts a file with an answer and returns the requested part.
    ///
    /// # Errors
    /// [`HolderError`] for another model's or another key's answer, and for other bytes.
    pub fn decrypt(&self, bytes: &[u8], output: Output) -> Result<AnswerView, HolderError> {
        let sealed = Sealed::decode(SealedKind::Answer, bytes)?;
        if sealed.model != self.model {
            return Err(HolderError::Model { expected: short(&self.model), found: short(&sealed.model) });
        }
        if sealed.keys != self.keys {
            return Err(HolderError::Key { expected: short(&self.keys), found: short(&sealed.keys) });
        }
        let answer = messages::decode_answer(sealed.body, &self.card)?;
        Ok(self.client()?.decrypt(&answer, output)?)
    }

    /// The holder's bytes, all of them secret.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let card = self.card.encode();
        let mut out = Zeroizing::new(Vec::with_capacity(HEAD + card.len()));
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&*Zeroizing::new(self.seed.to_bytes()));
        out.extend_from_slice(&self.model);
        out.extend_from_slice(&self.keys);
        out.extend_from_slice(&card);
        out
    }

    /// Decodes a holder.
    ///
    /// # Errors
    /// [`HolderError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, HolderError> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(HolderError::Malformed)?;
        let (names, card) = rest.split_at_checked(3 * NAME_BYTES).ok_or(HolderError::Malformed)?;
        let [seed, model, keys] = names.as_chunks::<NAME_BYTES>().0 else { return Err(HolderError::Malformed) };
        Ok(Self { seed: Seed::from_bytes(*seed), model: *model, keys: *keys, card: Card::decode(card)? })
    }
}

/// The content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedKind {
    /// An image.
    Question,
    /// Its logits.
    Answer,
}

impl SealedKind {
    fn byte(self) -> u8 {
        match self {
            Self::Question => 0x34,
            Self::Answer => 0x35,
        }
    }
}

/// A question or an answer in a file, with the names of its model and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed<'a> {
    /// The kind of content.
    pub kind: SealedKind,
    /// The digest of the model.
    pub model: [u8; NAME_BYTES],
    /// SHA-256 of the keys.
    pub keys: [u8; NAME_BYTES],
    /// The message.
    pub body: &'a [u8],
}

impl<'a> Sealed<'a> {
    /// The file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        [&[VERSION, self.kind.byte()][..], &self.model, &self.keys, self.body].concat()
    }

    /// Decodes a file; the message is not checked.
    ///
    /// # Errors
    /// [`MessageError`] for too few bytes, or another version or kind.
    pub fn decode(kind: SealedKind, bytes: &'a [u8]) -> Result<Self, MessageError> {
        let rest = messages::open(bytes, kind.byte())?;
        let short = || MessageError::Length { expected: 2 * NAME_BYTES, found: rest.len() };
        let (names, body) = rest.split_at_checked(2 * NAME_BYTES).ok_or_else(short)?;
        let [model, keys] = names.as_chunks::<NAME_BYTES>().0 else { return Err(short()) };
        Ok(Self { kind, model: *model, keys: *keys, body })
    }
}

/// The first four bytes of a digest in hexadecimal, for messages.
pub fn short(name: &[u8; NAME_BYTES]) -> String {
    hex(&name[..4])
}

/// Fuzzing: a client's files that decode must encode to the same bytes.
#[doc(hidden)]
pub fn fuzz_kept(data: &[u8]) {
    if let Ok(holder) = Holder::decode(data) {
        assert_eq!(holder.encode()[..], *data);
    }
    if let Ok(card) = Card::decode(data) {
        assert_eq!(card.encode(), data);
    }
    for kind in [SealedKind::Question, SealedKind::Answer] {
        if let Ok(sealed) = Sealed::decode(kind, data) {
            assert_eq!(sealed.encode(), data);
        }
    }
}
