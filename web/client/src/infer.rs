//! The client of an inference: the key for one model of one server, its questions, and its answers.

use chacha20::ChaCha20Rng;
use serde::Serialize;
use tobari_infer::{
    Model,
    card::CardError,
    client::{AnswerView, Client, ClientError, Output},
    compile::Card,
    holder::{Holder, HolderError, NAME_BYTES},
    messages::{self, MessageError},
};
use tobari_octets::hex;
use zeroize::Zeroizing;

/// The number of labels that are shown, the likeliest first. Logits are not shown: a person who
/// sees them beside the ciphertexts can compute the key.
const TOLD: usize = 3;

/// The reason why there is no key, question or answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// Less than a digest.
    #[error("expected a digest of 32 bytes and what is known of a model, found fewer bytes")]
    Model,
    /// An invalid description of a model.
    #[error(transparent)]
    Card(#[from] CardError),
    /// An invalid key.
    #[error(transparent)]
    Holder(#[from] HolderError),
    /// An invalid answer.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// An error of the client's half.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// The public facts about a key.
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

/// An answer for a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImageAnswer {
    /// Classes, the likeliest first.
    pub labels: Vec<usize>,
    /// Whether the errors of encryption may exchange the first two.
    pub close: bool,
}

/// A key that is ready for questions. It is wiped on drop.
pub struct Asker {
    holder: Holder,
    client: Client,
    /// The evaluation keys, until they are taken.
    keys: Option<Vec<u8>>,
}

impl Asker {
    /// A new key for a model. `model` is its digest (32 bytes) and the server's description.
    ///
    /// # Errors
    /// [`AskError`] for an invalid model.
    pub fn new(model: &[u8], rng: &mut ChaCha20Rng) -> Result<Self, AskError> {
        let (digest, card) = model.split_first_chunk::<NAME_BYTES>().ok_or(AskError::Model)?;
        let (holder, keys) = Holder::generate_with_keys(Card::decode(card)?, *digest, rng)?;
        Ok(Self { client: holder.client()?, holder, keys: Some(keys) })
    }

    /// Loads a stored key: see [`Self::kept`].
    ///
    /// # Errors
    /// [`AskError`] for an invalid key.
    pub fn take_up(kept: &[u8]) -> Result<Self, AskError> {
        let holder = Holder::decode(kept)?;
        Ok(Self { client: holder.client()?, holder, keys: None })
    }

    /// The public facts about the key.
    pub fn told(&self) -> KeyInfo {
        let card = self.holder.card();
        KeyInfo {
            model: hex(self.holder.model()),
            keys: hex(self.holder.keys_name()),
            pixels: card.pixels(),
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

    /// The key's own bytes, all of them secret: a page stores them only with the person's consent.
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

    /// The classes in an answer, the likeliest first, and whether the errors of encryption may
    /// exchange the first two.
    ///
    /// # Errors
    /// [`AskError`] for an invalid answer, or an answer for another key.
    pub fn answer(&self, body: &[u8]) -> Result<ImageAnswer, AskError> {
        let card = self.holder.card();
        let answer = messages::decode_answer(body, card)?;
        let AnswerView { labels, close, .. } =
            self.client.decrypt(&answer, Output::Top(TOLD.min(card.logits.len())))?;
        Ok(ImageAnswer { labels, close: close.is_some() })
    }
}
