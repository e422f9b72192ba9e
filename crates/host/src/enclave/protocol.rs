//! The messages between a host and its enclave.

use super::head;
use tobari_enclave::configuration;
use tobari_enclave::{Operation, Request, SessionId, Status};

/// The direction, and ring, from host to enclave.
pub const TO_INSIDE: usize = 0;
/// The direction, and ring, from enclave to host.
pub const TO_HOST: usize = 1;
/// The counter that holds the host's process number.
pub const HOST_PROCESS: usize = 0;
/// The counter that holds the enclave's process number, as the host sees it. It is 0 if this is the
/// process that the host started.
pub(super) const INSIDE_PROCESS: usize = 1;

/// The longest message after the start, in bytes: a script's longest message, in a frame.
pub(super) const MAX_MESSAGE_BYTES: usize = configuration::MAX_MESSAGE_BYTES as usize + 4096;
/// The longest start message, in bytes: configuration and setup.
pub(super) const MAX_START_BYTES: usize = 1 << 30;

/// The head of a message, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// To the enclave, first: see [`join_start`].
    Start {
        namespaces: bool,
    },
    /// To the host: protections and the executable's digest.
    Ready,
    /// To the host: the reason, as text.
    NotReady,
    Request(Request),
    Reply(Status),
    /// To the enclave: end.
    Stop,
}

impl Frame {
    pub(super) fn to_words(self) -> [u64; 3] {
        let simple = |number: u64, detail: u64| [number | detail << 8, 0, 0];
        match self {
            Self::Start { namespaces } => simple(1, u64::from(namespaces)),
            Self::Ready => simple(2, 0),
            Self::NotReady => simple(3, 0),
            Self::Request(Request { operation, session, kind }) => {
                let session = u128::from_be_bytes(session.0);
                let head = 4 | u64::from(operation.to_number()) << 8 | u64::from(kind) << 16;
                [head, (session >> 64) as u64, session as u64]
            }
            Self::Reply(status) => simple(5, u64::from(status.to_number())),
            Self::Stop => simple(6, 0),
        }
    }

    /// `None` for words that encode no frame.
    pub(super) fn from_words(words: [u64; 3]) -> Option<Self> {
        let [number, detail, kind, rest @ ..] = words[0].to_le_bytes();
        let frame = match number {
            1 => Self::Start { namespaces: detail == 1 },
            2 => Self::Ready,
            3 => Self::NotReady,
            4 => {
                let session = SessionId((u128::from(words[1]) << 64 | u128::from(words[2])).to_be_bytes());
                Self::Request(Request { operation: Operation::from_number(detail)?, session, kind })
            }
            5 => Self::Reply(Status::from_number(detail)?),
            6 => Self::Stop,
            _ => return None,
        };
        (rest == [0; 5] && frame.to_words() == words).then_some(frame)
    }
}

/// Length of the configuration (4 bytes, big-endian), configuration, setup.
pub(super) fn join_start(configuration: &[u8], setup: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(configuration.len()).ok()?.to_be_bytes();
    Some([length.as_slice(), configuration, setup].concat())
}

pub(super) fn split_start(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

/// For any bytes, a start, a frame and a head are read within the bytes, and encode to the same
/// bytes again. No head announces more than the limit.
#[doc(hidden)]
pub fn fuzz_protocol(data: &[u8]) {
    if let Some((configuration, setup)) = split_start(data) {
        assert_eq!(join_start(configuration, setup).as_deref(), Some(data));
    }
    for bytes in data.windows(size_of::<head::Head>()) {
        let Some(bytes) = bytes.first_chunk() else { continue };
        let Ok((words, length)) = head::read(bytes, data.len()) else { continue };
        assert!(length <= data.len());
        assert_eq!(head::write(words, length), *bytes);
        if let Some(frame) = Frame::from_words(words) {
            assert_eq!(frame.to_words(), words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_comes_back_and_other_words_are_none() {
        let request = Request { operation: Operation::Host, session: SessionId(*b"0123456789abcdef"), kind: 200 };
        let frames = [
            Frame::Start { namespaces: true },
            Frame::Start { namespaces: false },
            Frame::Ready,
            Frame::NotReady,
            Frame::Request(request),
            Frame::Reply(Status::OutOfOrder),
            Frame::Stop,
        ];
        for frame in frames {
            let words = frame.to_words();
            assert_eq!(Frame::from_words(words), Some(frame));
            assert_eq!(Frame::from_words([words[0] | 1 << 60, words[1], words[2]]), None);
        }
        assert_eq!(Frame::from_words([0, 0, 0]), None);
        assert_eq!(Frame::from_words([6, 1, 0]), None);
        assert_eq!(Frame::from_words([5 | 99 << 8, 0, 0]), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_what_host_and_inside_say_or_nothing(
            number in 0_u8..8, detail in 0_u8..9, length in 0_u8..99, rest: Vec<u8>,
        ) {
            fuzz_protocol(&rest);
            fuzz_protocol(&[&[0, 0, 0, length][..], &rest].concat());
            let head = head::write([u64::from(number) | u64::from(detail) << 8, 0, 0], length.into());
            fuzz_protocol(&[&head[..], &rest, &[0; 99]].concat());
        }
    }
}
