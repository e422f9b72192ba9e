//! An enclave for its host: it answers requests, or has ended.

use crate::evidence::{Measurement, Nonce, SessionId};
use crate::inside::{Operation, Request, Status};
use crate::protection::Protections;

/// Why an enclave gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnclaveError {
    /// The enclave answered with an error.
    #[error("the enclave refused: {0}")]
    Refused(Status),
    /// The enclave did not start.
    #[error("the enclave did not start: {0}")]
    Start(String),
    /// The enclave has ended; its sessions and their keys are lost.
    #[error("expected an answer of the enclave, found that it has ended ({0}): its sessions are lost")]
    Gone(String),
    /// The enclave did not answer in time, and was killed; its sessions are lost.
    #[error(
        "expected an answer of the enclave within {limit_ms} ms, found none: it was killed and its sessions are lost"
    )]
    TimedOut {
        /// The time limit.
        limit_ms: u128,
    },
    /// The message is too long for the enclave, and was not sent.
    #[error("expected a message of at most {limit} bytes, found {found}")]
    TooLong {
        /// The message's length.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// The answer was malformed; the enclave was killed.
    #[error("expected an answer of the enclave, found bytes that are none: it was killed and its sessions are lost")]
    Malformed,
}

/// A running enclave.
///
/// The host carries messages; it does not understand those of clients. After
/// [`EnclaveError::Gone`], [`EnclaveError::TimedOut`] or [`EnclaveError::Malformed`] the enclave
/// has ended, with all of its sessions. Start a new one.
pub trait Enclave {
    /// Sends one request, waits for the reply, and writes it to `reply` from its start.
    ///
    /// # Errors
    ///
    /// See [`EnclaveError`].
    fn request(&mut self, request: Request, body: &[u8], reply: &mut Vec<u8>) -> Result<(), EnclaveError>;

    /// The code that runs, and its configuration. The host computed it itself; a client reads it
    /// from evidence.
    fn measurement(&self) -> &Measurement;

    /// The active and the missing protections of the enclave.
    fn protections(&self) -> &Protections;

    /// Ends the enclave and wipes its secrets. Every later request is [`EnclaveError::Gone`].
    fn stop(&mut self);

    /// Makes a session for a verifier with this nonce, and returns its evidence.
    ///
    /// # Errors
    ///
    /// See [`EnclaveError`]; [`Status::TooManySessions`] at the configuration's limit.
    fn report(&mut self, nonce: &Nonce) -> Result<Vec<u8>, EnclaveError> {
        let mut evidence = Vec::new();
        let request = Request { operation: Operation::Report, session: SessionId([0; 16]), kind: 0 };
        self.request(request, &nonce.0, &mut evidence)?;
        Ok(evidence)
    }

    /// Opens the session's channel with a client's encapsulated key. The job makes its keys now.
    ///
    /// # Errors
    ///
    /// See [`EnclaveError`].
    fn open(&mut self, session: SessionId, encapsulated: &[u8; 32]) -> Result<(), EnclaveError> {
        let request = Request { operation: Operation::Open, session, kind: 0 };
        self.request(request, encapsulated, &mut Vec::new())
    }

    /// Passes on a client's frame, and returns the frame for the client.
    ///
    /// # Errors
    ///
    /// See [`EnclaveError`]; any refusal ends the session.
    fn client(&mut self, session: SessionId, kind: u8, frame: &[u8], reply: &mut Vec<u8>) -> Result<(), EnclaveError> {
        self.request(Request { operation: Operation::Client, session, kind }, frame, reply)
    }

    /// Passes on the host's own message.
    ///
    /// # Errors
    ///
    /// See [`EnclaveError`]; any refusal ends the session.
    fn host(&mut self, session: SessionId, kind: u8, body: &[u8], reply: &mut Vec<u8>) -> Result<(), EnclaveError> {
        self.request(Request { operation: Operation::Host, session, kind }, body, reply)
    }

    /// Ends a session.
    ///
    /// # Errors
    ///
    /// See [`EnclaveError`].
    fn close(&mut self, session: SessionId) -> Result<(), EnclaveError> {
        self.request(Request { operation: Operation::Close, session, kind: 0 }, &[], &mut Vec::new())
    }
}
