//! The client's half: an image into the channel, and what may be told out of it.
//!
//! The channel is that of [`tobari_enclave::Connector`], which opens to an enclave whose evidence
//! was accepted, and to no other.

use super::route::{ASK, IMAGE};
use tobari_enclave::channel::{ChannelEnded, ClientChannel};
use tobari_enclave::{Configuration, OutputPolicy, Party};
use zeroize::Zeroizing;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The session has ended.
    #[error(transparent)]
    Channel(#[from] ChannelEnded),
    /// What came out of the channel is nothing that the policy tells.
    #[error("expected what the output policy tells, found other bytes")]
    Told,
}

/// What was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnclaveAnswer {
    /// Classes, the likeliest first: one, or as many as the policy says.
    Labels(Vec<usize>),
    /// Logits by class, in units of the policy's bits; under [`OutputPolicy::Scores`] the last
    /// stage's numbers, `2^24` standing for one.
    Scores(Vec<i64>),
}

impl EnclaveAnswer {
    /// The likeliest class.
    pub fn label(&self) -> usize {
        match self {
            Self::Labels(labels) => labels.first().copied().unwrap_or(0),
            Self::Scores(scores) => crate::argmax(scores),
        }
    }
}

/// A client that asks about images.
pub struct Asker {
    channel: ClientChannel,
    output: OutputPolicy,
    /// Whether the answer to an image has what is told.
    at_once: bool,
}

impl Asker {
    /// On a channel to an enclave that was started with this configuration.
    pub fn new(channel: ClientChannel, configuration: &Configuration) -> Self {
        let asks = configuration.script.steps().iter().any(|step| step.from == Party::Client && step.kind == ASK);
        Self { channel, output: configuration.output, at_once: !asks }
    }

    /// The frame of an image: its pixels, a byte each, row by row.
    ///
    /// # Errors
    /// [`AskError::Channel`] if this is not the time for one, or it is too long.
    pub fn image(&mut self, pixels: &[u8]) -> Result<Vec<u8>, AskError> {
        Ok(self.channel.seal(IMAGE, pixels)?)
    }

    /// The answer to an image: what is told, or, if the frame of [`Self::ask`] is to follow,
    /// nothing yet.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn heard(&mut self, frame: Vec<u8>) -> Result<Option<EnclaveAnswer>, AskError> {
        let message = self.channel.open(frame)?;
        match self.at_once {
            true => self.told_of(&message).map(Some),
            false if message.is_empty() => Ok(None),
            false => Err(AskError::Told),
        }
    }

    /// The frame that asks for what may be told.
    ///
    /// # Errors
    /// [`AskError::Channel`].
    pub fn ask(&mut self) -> Result<Vec<u8>, AskError> {
        Ok(self.channel.seal(ASK, &[])?)
    }

    /// The answer to [`Self::ask`].
    ///
    /// # Errors
    /// [`AskError`].
    pub fn told(&mut self, frame: Vec<u8>) -> Result<EnclaveAnswer, AskError> {
        let message: Zeroizing<Vec<u8>> = self.channel.open(frame)?;
        self.told_of(&message)
    }

    fn told_of(&self, message: &[u8]) -> Result<EnclaveAnswer, AskError> {
        let labels = |count: usize| {
            let (places, rest) = message.as_chunks::<2>();
            let whole = rest.is_empty() && places.len() == count;
            let labels = places.iter().map(|place| usize::from(u16::from_be_bytes(*place))).collect();
            whole.then_some(EnclaveAnswer::Labels(labels)).ok_or(AskError::Told)
        };
        match self.output {
            OutputPolicy::Label => labels(1),
            OutputPolicy::Top(count) => labels(usize::from(count)),
            OutputPolicy::Rounded(_) | OutputPolicy::Scores => {
                let (scores, rest) = message.as_chunks::<8>();
                let scores = scores.iter().map(|score| i64::from_be_bytes(*score)).collect();
                rest.is_empty().then_some(EnclaveAnswer::Scores(scores)).ok_or(AskError::Told)
            }
        }
    }
}
