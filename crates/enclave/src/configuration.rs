//! The configuration of an enclave: its content and its permissions.
//!
//! A configuration names the model, the plan, the parameters and the input of the handler by their
//! digests. It sets the output policy, and holds the **script**: the messages of a session in their
//! order. Its own digest is part of the measurement and of the evidence. So a host cannot replace
//! the plan by one that leaks more, add a round of questions, or open more sessions.
//!
//! Bytes, version 1, big-endian: version, model, plan, parameters, setup (32 each), output policy
//! (2), sessions (2), rounds (4), steps (1), and for each step party (1), kind (1), and two sizes,
//! each a form (1) and a number of bytes (4).

use crate::digest::Digest;
use crate::wire::{Reader, WrongLength};
use std::fmt;
use std::str::FromStr;

/// Version of the bytes.
const VERSION: u8 = 1;
/// Most steps of a script.
pub const MAX_STEPS: usize = 255;
/// Largest message of a script, in bytes.
pub const MAX_MESSAGE_BYTES: u32 = 64 << 20;

/// The configuration of an enclave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Digest of the model.
    pub model: Digest,
    /// Digest of the plan: where and how each layer runs.
    pub plan: Digest,
    /// Digest of the parameters of the encryption.
    pub parameters: Digest,
    /// [`Digest::of_bytes`] of the bytes that the handler is built from. An enclave with other
    /// bytes does not start.
    pub setup: Digest,
    /// The part of a result that may leave.
    pub output: OutputPolicy,
    /// Most sessions open at once, 1 to 65,535.
    pub max_sessions: u16,
    /// The number of passes through the script in one session, at least 1. It is the budget of
    /// questions under a session's keys.
    pub rounds: u32,
    /// The messages of a round.
    pub script: Script,
}

/// The part of a result that may leave. The handler enforces it; the configuration names it, so
/// that evidence binds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputPolicy {
    /// The index of the largest score.
    Label,
    /// The indices of the largest scores, this many, at least 1.
    Top(u8),
    /// Scores, rounded to this many bits.
    Rounded(u8),
    /// Exact scores. They tell about the model, and in an approximate scheme also about the key.
    Scores,
}

/// The text names no output policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected label, top:N (1 to 255), rounded:BITS (1 to 64) or scores")]
pub struct NotAPolicy;

impl OutputPolicy {
    /// Whether `other` already tells everything that this policy tells. Scores give labels. Rounded
    /// scores can have ties, so they give no more than the first label.
    pub fn tells_at_most(self, other: Self) -> bool {
        match (self, other) {
            (Self::Label, _) | (_, Self::Scores) => true,
            (Self::Top(count), other) if count <= 1 => Self::Label.tells_at_most(other),
            (Self::Top(count), Self::Top(most)) => count <= most,
            (Self::Rounded(bits), Self::Rounded(most)) => bits <= most,
            _ => false,
        }
    }

    /// Checks that the policy's numbers are in their ranges.
    fn check(self) -> Result<(), ConfigurationError> {
        match self {
            Self::Top(0) => Err(ConfigurationError::Range("at least one label")),
            Self::Rounded(0 | 65..) => Err(ConfigurationError::Range("1 to 64 bits of a score")),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for OutputPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label => f.write_str("label"),
            Self::Top(count) => write!(f, "top:{count}"),
            Self::Rounded(bits) => write!(f, "rounded:{bits}"),
            Self::Scores => f.write_str("scores"),
        }
    }
}

impl FromStr for OutputPolicy {
    type Err = NotAPolicy;

    /// Reads what [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<Self, NotAPolicy> {
        let number = |text: &str| text.parse().map_err(|_| NotAPolicy);
        let policy = match (text, text.split_once(':')) {
            ("label", _) => Self::Label,
            ("scores", _) => Self::Scores,
            (_, Some(("top", count))) => Self::Top(number(count)?),
            (_, Some(("rounded", bits))) => Self::Rounded(number(bits)?),
            _ => return Err(NotAPolicy),
        };
        policy.check().map(|()| policy).map_err(|_| NotAPolicy)
    }
}

/// The sender of a step's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// The client, through the channel: encrypted.
    Client,
    /// The host, unencrypted. The enclave trusts no message of the host.
    Host,
}

/// The length of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// At most this many bytes; the true length is visible from outside.
    UpTo(u32),
    /// To or from a client: at most this many bytes, padded to that length, so that the length
    /// tells nothing. To or from the host: exactly this many bytes.
    Fixed(u32),
}

impl Size {
    /// The largest message, in bytes.
    pub fn limit(self) -> usize {
        match self {
            Self::UpTo(bytes) | Self::Fixed(bytes) => bytes as usize,
        }
    }
}

/// One message and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The sender of the message.
    pub from: Party,
    /// The kind of the message: a number that the job chooses.
    pub kind: u8,
    /// Its length.
    pub request: Size,
    /// The reply's length.
    pub reply: Size,
}

/// The messages of a round, in order: 1 to 255.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script(Vec<Step>);

/// Why a configuration is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// The version is unknown.
    #[error("expected a configuration of version 1, found version {0}")]
    Version(u8),
    /// The bytes are truncated, or have a rest.
    #[error("expected the bytes of one configuration, found too few or too many")]
    Length,
    /// A number without a meaning.
    #[error("expected a known {0}, found another number")]
    Unknown(&'static str),
    /// A number is out of its range.
    #[error("expected {0}")]
    Range(&'static str),
}

impl From<WrongLength> for ConfigurationError {
    fn from(_: WrongLength) -> Self {
        Self::Length
    }
}

impl Script {
    /// # Errors
    ///
    /// [`ConfigurationError::Range`] for no step, for more than [`MAX_STEPS`], and for a message
    /// beyond [`MAX_MESSAGE_BYTES`].
    pub fn new(steps: Vec<Step>) -> Result<Self, ConfigurationError> {
        if steps.is_empty() || steps.len() > MAX_STEPS {
            return Err(ConfigurationError::Range("1 to 255 steps"));
        }
        let within = |size: Size| size.limit() <= MAX_MESSAGE_BYTES as usize;
        if !steps.iter().all(|step| within(step.request) && within(step.reply)) {
            return Err(ConfigurationError::Range("messages of at most 64 MiB"));
        }
        Ok(Self(steps))
    }

    /// The steps.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }
}

impl Configuration {
    /// The only bytes of this configuration.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        for digest in [&self.model, &self.plan, &self.parameters, &self.setup] {
            bytes.extend(digest.as_bytes());
        }
        bytes.extend(match self.output {
            OutputPolicy::Label => [1, 0],
            OutputPolicy::Top(count) => [2, count],
            OutputPolicy::Rounded(bits) => [3, bits],
            OutputPolicy::Scores => [4, 0],
        });
        bytes.extend(self.max_sessions.to_be_bytes());
        bytes.extend(self.rounds.to_be_bytes());
        let steps = self.script.steps();
        bytes.push(u8::try_from(steps.len()).unwrap_or(u8::MAX)); // a script has at most 255
        for step in steps {
            bytes.push(match step.from {
                Party::Client => 1,
                Party::Host => 2,
            });
            bytes.push(step.kind);
            for size in [step.request, step.reply] {
                let (form, count) = match size {
                    Size::UpTo(count) => (1, count),
                    Size::Fixed(count) => (2, count),
                };
                bytes.push(form);
                bytes.extend(count.to_be_bytes());
            }
        }
        bytes
    }

    /// Reads the bytes of [`Configuration::encode`], and nothing else.
    ///
    /// # Errors
    ///
    /// See [`ConfigurationError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, ConfigurationError> {
        let mut reader = Reader::new(bytes);
        match reader.u8()? {
            VERSION => {}
            other => return Err(ConfigurationError::Version(other)),
        }
        let mut digest = || reader.array().map(Digest::new);
        let (model, plan, parameters, setup) = (digest()?, digest()?, digest()?, digest()?);
        let output = match (reader.u8()?, reader.u8()?) {
            (1, 0) => OutputPolicy::Label,
            (2, count) => OutputPolicy::Top(count),
            (3, bits) => OutputPolicy::Rounded(bits),
            (4, 0) => OutputPolicy::Scores,
            _ => return Err(ConfigurationError::Unknown("output policy")),
        };
        let (max_sessions, rounds, count) = (reader.u16()?, reader.u32()?, reader.u8()?);
        let steps = (0..count).map(|_| decode_step(&mut reader)).collect::<Result<_, _>>()?;
        reader.end()?;
        let configuration =
            Self { model, plan, parameters, setup, output, max_sessions, rounds, script: Script::new(steps)? };
        configuration.check()?;
        Ok(configuration)
    }

    /// Checks that all numbers are in their ranges. Decoding and starting call it.
    ///
    /// # Errors
    ///
    /// [`ConfigurationError::Range`] if the configuration allows no session or no round, or the
    /// policy outputs nothing.
    pub fn check(&self) -> Result<(), ConfigurationError> {
        if self.max_sessions == 0 {
            return Err(ConfigurationError::Range("at least one session"));
        }
        if self.rounds == 0 {
            return Err(ConfigurationError::Range("at least one round"));
        }
        self.output.check()
    }

    /// The digest that evidence contains.
    pub fn digest(&self) -> Digest {
        Digest::of("tobari enclave configuration 1", &[&self.encode()])
    }
}

fn decode_step(reader: &mut Reader<'_>) -> Result<Step, ConfigurationError> {
    let from = match reader.u8()? {
        1 => Party::Client,
        2 => Party::Host,
        _ => return Err(ConfigurationError::Unknown("party")),
    };
    let kind = reader.u8()?;
    let mut size = || match (reader.u8()?, reader.u32()?) {
        (1, count) => Ok(Size::UpTo(count)),
        (2, count) => Ok(Size::Fixed(count)),
        _ => Err(ConfigurationError::Unknown("form of a size")),
    };
    Ok(Step { from, kind, request: size()?, reply: size()? })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;

    #[test]
    fn a_policy_comes_back_from_its_text_and_other_text_is_none() {
        for policy in [OutputPolicy::Label, OutputPolicy::Top(3), OutputPolicy::Rounded(64), OutputPolicy::Scores] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        for wrong in ["", "labels", "top", "top:", "top:0", "top:256", "rounded:0", "rounded:65", "rounded:-1", "Label"]
        {
            assert_eq!(wrong.parse::<OutputPolicy>(), Err(NotAPolicy), "{wrong}");
        }
    }

    #[test]
    fn a_policy_tells_at_most_what_follows_from_the_other() {
        use OutputPolicy::{Label, Rounded, Scores, Top};
        let order = [(Label, Label), (Top(1), Label), (Top(2), Top(3)), (Rounded(2), Rounded(2)), (Label, Rounded(1))];
        assert!(order.iter().all(|(less, more)| less.tells_at_most(*more)));
        assert!([Label, Top(9), Rounded(64), Scores].iter().all(|policy| policy.tells_at_most(Scores)));
        for (more, less) in [(Top(2), Label), (Top(4), Top(3)), (Rounded(3), Rounded(2)), (Top(2), Rounded(9))] {
            assert!(!more.tells_at_most(less), "{more} {less}");
        }
        for less in [Label, Top(200), Rounded(64)] {
            assert!(!Scores.tells_at_most(less), "{less}");
        }
    }
}
