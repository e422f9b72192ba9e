//! The two ends of each direction, over rings or over pipes.

use super::pipe::{Reader, Writer};
use super::ring::{self, Broken, Patience};

/// The writing end of one direction.
pub(super) enum Sender {
    Ring(ring::Sender),
    Pipe(Writer),
}

impl Sender {
    /// Writes one message: three words and bytes.
    pub(super) fn send(&mut self, words: [u64; 3], bytes: &[u8], patience: Patience<'_>) -> Result<(), Broken> {
        match self {
            Self::Ring(sender) => sender.send(words, bytes, patience),
            Self::Pipe(writer) => writer.send(words, bytes, patience),
        }
    }
}

/// The reading end of one direction.
pub(super) enum Receiver {
    Ring(ring::Receiver),
    Pipe(Reader),
}

impl Receiver {
    /// Reads one message: its three words, and its bytes into `buffer`, from the start.
    pub(super) fn receive(&mut self, buffer: &mut Vec<u8>, patience: Patience<'_>) -> Result<[u64; 3], Broken> {
        match self {
            Self::Ring(receiver) => receiver.receive(buffer, patience),
            Self::Pipe(reader) => reader.receive(buffer, patience),
        }
    }

    /// Sets the longest message, in bytes.
    pub(super) fn set_limit(&mut self, limit: usize) {
        match self {
            Self::Ring(receiver) => receiver.limit = limit,
            Self::Pipe(reader) => reader.limit = limit,
        }
    }
}
