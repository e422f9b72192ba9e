//! The client's part: an image into the channel, and the permitted output from the channel.
//!
//! The channel is that of [`tobari_enclave::Connector`]. It opens only to an enclave with accepted
//! evidence.

use super::route::{ASK, IMAGE};
use tobari_enclave::channel::{ChannelEnded, ClientChannel};
use tobari_enclave::{Configuration, OutputPolicy, Party};
use zeroize::Zeroizing;

/// Errors of a question to an enclave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The session has ended.
    #[error(transparent)]
    Channel(#[from] ChannelEnded),
    /// Bytes from the channel that the output policy does not allow.
    #[error("expected what the output policy tells, found other bytes")]
    Told,
}

/// The enclave's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnclaveAnswer {
    /// Classes, the likeliest first: one, or as many as the policy allows.
    Labels(Vec<usize>),
    /// The same, where another class may be the likeliest: the two best logits differ by less than
    /// twice the foretold error.
    Doubtful(Vec<usize>),
    /// Logits by class, in units of the policy's bits. Under [`OutputPolicy::Scores`] these are the
    /// last stage's numbers, with `2^24` for 1.
    Scores(Vec<i64>),
}

impl EnclaveAnswer {
    /// The likeliest class.
    pub fn label(&self) -> usize {
        match self {
            Self::Labels(labels) | Self::Doubtful(labels) => labels.first().copied().unwrap_or(0),
            Self::Scores(scores) => crate::argmax(scores),
        }
    }
}

/// A client that asks about images.
pub struct Asker {
    channel: ClientChannel,
    output: OutputPolicy,
    /// Whether the reply to an image already holds the answer.
    at_once: bool,
}

impl Asker {
    /// Uses a channel to an enclave that was started with this configuration.
    pub fn new(channel: ClientChannel, configuration: &Configuration) -> Self {
        let asks = configuration.script.steps().iter().any(|step| step.from == Party::Client && step.kind == ASK);
        Self { channel, output: configuration.output, at_once: !asks }
    }

    /// The frame of an image: its pixels, one byte each, row by row.
    ///
    /// # Errors
    /// [`AskError::Channel`] if the script expects no image now, or the image is too long.
    pub fn image(&mut self, pixels: &[u8]) -> Result<Vec<u8>, AskError> {
        Ok(self.channel.seal(IMAGE, pixels)?)
    }

    /// Reads the reply to an image: the answer, or `None` if the frame of [`Self::ask`] must
    /// follow.
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

    /// The frame that asks for the answer.
    ///
    /// # Errors
    /// [`AskError::Channel`].
    pub fn ask(&mut self) -> Result<Vec<u8>, AskError> {
        Ok(self.channel.seal(ASK, &[])?)
    }

    /// Reads the reply to [`Self::ask`].
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
            let labels = places.iter().map(|place| usize::from(u16::from_be_bytes(*place))).collect();
            match rest {
                [0] if places.len() == count => Ok(EnclaveAnswer::Labels(labels)),
                [1] if places.len() == count => Ok(EnclaveAnswer::Doubtful(labels)),
                _ => Err(AskError::Told),
            }
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
