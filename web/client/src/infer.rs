//! Who asks about an image: the key of one model of one server, its questions and what answers say.

use chacha20::ChaCha20Rng;
use serde::Serialize;
use tobari_infer::{
    Model,
    card::CardError,
    client::{Client, ClientError, Output},
    compile::Card,
    holder::{Holder, HolderError, NAME_BYTES},
    messages::{self, MessageError},
};
use tobari_octets::hex;
use zeroize::Zeroizing;

/// Labels that are told, the likeliest first. Logits are not: whoever sees them beside ciphertexts
/// can compute the key.
const TOLD: usize = 3;

/// Why there is no key, question or answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// Less than a digest.
    #[error("expected a digest of 32 bytes and what is known of a model, found fewer bytes")]
    Model,
    /// What is known of a model, and is not.
    #[error(transparent)]
    Card(#[from] CardError),
    /// A key that is none.
    #[error(transparent)]
    Holder(#[from] HolderError),
    /// An answer that is none.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// What the client says.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// What is told of a key: nothing of it is secret.
#[derive(Debug, Serialize)]
pub struct KeyInfo {
    /// The model's digest.
    pub model: String,
    /// SHA-256 of the evaluation keys: their name on the server.
    pub keys: String,
    /// Pixels of an image.
    pub pixels: usize,
    /// Classes.
    pub classes: usize,
}

/// A key, ready to ask. It is wiped on drop.
pub struct Asker {
    holder: Holder,
    client: Client,
    /// The evaluation keys, until they are taken.
    keys: Option<Vec<u8>>,
}

impl Asker {
    /// A new key for a model: its digest (32 bytes), and what the server tells of it.
    ///
    /// # Errors
    /// [`AskError`] for what is no model.
    pub fn new(model: &[u8], rng: &mut ChaCha20Rng) -> Result<Self, AskError> {
        let (digest, card) = model.split_first_chunk::<NAME_BYTES>().ok_or(AskError::Model)?;
        let (holder, keys) = Holder::generate_with_keys(Card::decode(card)?, *digest, rng)?;
        Ok(Self { client: holder.client()?, holder, keys: Some(keys) })
    }

    /// A key that was kept: see [`Self::kept`].
    ///
    /// # Errors
    /// [`AskError`] for bytes that are no key.
    pub fn take_up(kept: &[u8]) -> Result<Self, AskError> {
        let holder = Holder::decode(kept)?;
        Ok(Self { client: holder.client()?, holder, keys: None })
    }

    /// What may be told of it.
    pub fn told(&self) -> KeyInfo {
        let card = self.holder.card();
        KeyInfo {
            model: hex(self.holder.model()),
            keys: hex(self.holder.keys_name()),
            pixels: card.pixels,
            classes: card.logits.len(),
        }
    }

    /// The evaluation keys, for the server: always the same bytes. They decrypt nothing.
    ///
    /// # Errors
    /// [`AskError`] if they cannot be made.
    pub fn keys(&mut self) -> Result<Vec<u8>, AskError> {
        match self.keys.take() {
            Some(keys) => Ok(keys),
            None => Ok(self.holder.keys()?),
        }
    }

    /// The key's own bytes, all of them secret: to be kept by whoever agreed to it.
    pub fn kept(&self) -> Zeroizing<Vec<u8>> {
        self.holder.encode()
    }

    /// A question: grey pixels row by row, 0 the background, encrypted.
    ///
    /// # Errors
    /// [`AskError`] for an image of another size.
    pub fn question(&self, pixels: &[u8], rng: &mut ChaCha20Rng) -> Result<Vec<u8>, AskError> {
        let numbers = Zeroizing::new(Model::numbers(pixels));
        Ok(messages::encode_question(&self.client.encrypt(&numbers, rng)?))
    }

    /// The classes that an answer tells, the likeliest first.
    ///
    /// # Errors
    /// [`AskError`] for what is no answer, or one to somebody else.
    pub fn answer(&self, body: &[u8]) -> Result<Vec<usize>, AskError> {
        let card = self.holder.card();
        let answer = messages::decode_answer(body, card)?;
        Ok(self.client.decrypt(&answer, Output::Top(TOLD.min(card.logits.len())))?.labels)
    }
}
