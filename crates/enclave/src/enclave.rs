//! An enclave as its host sees it: something that answers requests, or is gone.

use crate::evidence::{Measurement, Nonce, SessionId};
use crate::inside::{Operation, Request, Status};
use crate::protection::Protections;

/// Why an enclave gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnclaveError {
    /// It answered, and said no.
    #[error("the enclave refused: {0}")]
    Refused(Status),
    /// It could not be started.
    #[error("the enclave did not start: {0}")]
    Start(String),
    /// It has ended; its sessions and their keys are gone with it.
    #[error("expected an answer of the enclave, found that it has ended ({0}): its sessions are lost")]
    Gone(String),
    /// It did not answer in time and has been killed; its sessions are gone with it.
    #[error(
        "expected an answer of the enclave within {limit_ms} ms, found none: it was killed and its sessions are lost"
    )]
    TimedOut {
        /// How long it was waited for.
        limit_ms: u128,
    },
    /// The message is longer than any that the enclave takes; it was not sent.
    #[error("expected a message of at most {limit} bytes, found {found}")]
    TooLong {
        /// Its length.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// What came back is no answer; it has been killed.
    #[error("expected an answer of the enclave, found bytes that are none: it was killed and its sessions are lost")]
    Malformed,
}

/// A running enclave.
///
/// The host carries messages; it does not understand those of clients. After
/// [`EnclaveError::Gone`], [`EnclaveError::TimedOut`] or [`EnclaveError::Malformed`] the enclave is
/// gone for good and a new one must be started: nothing of it can be brought back.
pub trait Enclave {
    /// Sends one request and waits for its reply, which is written to `reply` from its start.
    ///
    /// # Errors
    ///
    /// See [`EnclaveError`].
    fn request(&mut self, request: Request, body: &[u8], reply: &mut Vec<u8>) -> Result<(), EnclaveError>;

    /// Which code runs, with which configuration. The host computed it itself: a client takes it
    /// from evidence.
    fn measurement(&self) -> &Measurement;

    /// What protects it, and what could not be had.
    fn protections(&self) -> &Protections;

    /// Ends it; its secrets are wiped. Everything afterwards is [`EnclaveError::Gone`].
    fn stop(&mut self);

    /// Makes a session for a verifier with this nonce; answers its evidence.
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

    /// Opens the session's channel with a client's encapsulated key; the job's keys are born now.
    ///
    /// # Errors
    ///
    /// See [`EnclaveError`].
    fn open(&mut self, session: SessionId, encapsulated: &[u8; 32]) -> Result<(), EnclaveError> {
        let request = Request { operation: Operation::Open, session, kind: 0 };
        self.request(request, encapsulated, &mut Vec::new())
    }

    /// Hands in a client's frame; answers the frame that goes back.
    ///
    /// # Errors
    ///
    /// See [`EnclaveError`]; any refusal has ended the session.
    fn client(&mut self, session: SessionId, kind: u8, frame: &[u8], reply: &mut Vec<u8>) -> Result<(), EnclaveError> {
        self.request(Request { operation: Operation::Client, session, kind }, frame, reply)
    }

    /// Hands in the host's own message.
    ///
    /// # Errors
    ///
    /// See [`EnclaveError`]; any refusal has ended the session.
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
