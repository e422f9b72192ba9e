//! Control messages of any protocol: one JSON object each, of at most [`MAX_CONTROL_BYTES`] bytes,
//! parsed strictly.

use serde::{Deserialize, Serialize};

use super::messages::{Code, MAX_CONTROL_BYTES};

/// Reading and writing members' messages, for a protocol of this version.
macro_rules! client_messages {
    ($message:ty, $version:expr) => {
        impl $message {
            /// Reads a member's message.
            ///
            /// # Errors
            /// [`MessageError`] if `text` is too long, is not exactly one of these messages, or
            /// joins in another version.
            pub fn parse(text: &str) -> Result<Self, MessageError> {
                match $crate::control::version_of(text) {
                    Some(found) if found != u64::from($version) => {
                        Err(MessageError::Version { found, expected: $version })
                    }
                    _ => $crate::control::parse_object(text),
                }
            }

            /// The message as text.
            pub fn to_text(&self) -> String {
                $crate::control::to_text(self)
            }
        }
    };
}

/// Reading and writing servers' messages.
macro_rules! server_messages {
    ($message:ty) => {
        impl $message {
            /// Reads a server's message.
            ///
            /// # Errors
            /// [`MessageError`] if `text` is too long or is not exactly one of these messages.
            pub fn parse(text: &str) -> Result<Self, MessageError> {
                $crate::control::parse_object(text)
            }

            /// The message as text.
            pub fn to_text(&self) -> String {
                $crate::control::to_text(self)
            }
        }
    };
}

pub(super) use {client_messages, server_messages};

pub(super) fn parse_object<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, MessageError> {
    if text.len() > MAX_CONTROL_BYTES {
        return Err(MessageError::TooLong);
    }
    // serde would also take a message written as an array.
    if !text.trim_start().starts_with('{') {
        return Err(MessageError::NotAnObject);
    }
    serde_json::from_str(text).map_err(|error| MessageError::Malformed { line: error.line(), column: error.column() })
}

/// The version in `text`, whatever else the object contains, so that a newer client gets the right
/// reason.
pub(super) fn version_of(text: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u64,
    }
    parse_object::<Versioned>(text).ok().map(|join| join.version)
}

pub(super) fn to_text(message: &impl Serialize) -> String {
    // Messages have only strings, numbers and named fields, and JSON can hold all of them.
    serde_json::to_string(message).unwrap_or_default()
}

/// A text that is not a control message. The error does not repeat the text, because the text must
/// not reach a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// Longer than any message may be.
    #[error("message too long: a control message has at most {MAX_CONTROL_BYTES} bytes")]
    TooLong,
    /// Not a JSON object.
    #[error("control message: expected a JSON object")]
    NotAnObject,
    /// Not one of the messages of this protocol.
    #[error("control message: not one of this protocol (line {line}, column {column})")]
    Malformed {
        /// The line at which parsing failed.
        line: usize,
        /// The column at which parsing failed.
        column: usize,
    },
    /// A join in another version.
    #[error("protocol version {found}: expected {expected}. Update whichever of client and server is the older")]
    Version {
        /// The version found.
        found: u64,
        /// The version of this protocol.
        expected: u32,
    },
}

impl MessageError {
    /// The code to answer with.
    pub fn code(self) -> Code {
        match self {
            Self::Version { .. } => Code::Version,
            Self::TooLong | Self::NotAnObject | Self::Malformed { .. } => Code::Malformed,
        }
    }
}
