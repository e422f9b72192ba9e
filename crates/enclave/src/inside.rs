//! The inside of an enclave: sessions around the handler of a job.
//!
//! The host always speaks first, with one request at a time. The enclave trusts nothing that the
//! host says: the host can deny service, and no more. [`Operation::Report`] makes a session. The
//! session ends with its script, at [`Operation::Close`], or at the first violation. Then its
//! channel and the handler's part are dropped, which wipes them. The configuration limits the
//! number of sessions.
//!
//! A failed request answers one of a few [`Status`] values. All failures with encrypted messages
//! have the same status.

use crate::channel::{ChannelSecret, InsideChannel, room};
use crate::configuration::{Configuration, ConfigurationError, Party, Size};
use crate::digest::Digest;
use crate::evidence::{Attester, Evidence, Measurement, Nonce, SessionId, Statement};
use crate::protection::Protections;
use crate::session::Progress;
use rand_core::CryptoRng;
use zeroize::Zeroize;

/// A job inside an enclave.
///
/// The code must be oblivious: no branch, address or running time may depend on a secret. It has no
/// clock, file, thread or network; the enclave is killed if it tries to use one.
pub trait Handler {
    /// The state of one session. [`Handler::open`] makes the session's keys; they are wiped on
    /// drop.
    type Session;

    /// Begins a session, after a client has opened its channel.
    ///
    /// # Errors
    ///
    /// [`Refused`]: the session ends.
    ///
    /// Keep large or secret state behind a pointer: the value is moved once, and a move leaves its
    /// bytes behind.
    fn open(&mut self, rng: &mut dyn CryptoRng) -> Result<Self::Session, Refused>;

    /// Handles the next message of the script. `reply` is empty. The bytes that the handler writes
    /// there are sent, encrypted if the message was the client's. For a client's message `reply`
    /// has room for the longest reply of the script, so that it does not move and leave a copy
    /// behind.
    ///
    /// # Errors
    ///
    /// [`Refused`]: the session ends, and `reply` is discarded.
    fn handle(
        &mut self,
        session: &mut Self::Session,
        message: Message<'_>,
        reply: &mut Vec<u8>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Refused>;
}

/// The next message of the script, within its size.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    /// The sender. A client's message was encrypted; a host's message may say anything.
    pub from: Party,
    /// The kind of the message: a number that the job chooses.
    pub kind: u8,
    /// The number of the step over all rounds.
    pub number: u64,
    /// The message's bytes.
    pub body: &'a [u8],
}

/// The handler stops. It gives no reason, because a reason could tell about secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a message that the job can go on with, found another")]
pub struct Refused;

/// A host's request to an enclave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Body: a nonce. Makes a session; the reply is its evidence.
    Report,
    /// Body: the client's encapsulated key. The reply is empty.
    Open,
    /// Body: a frame of the client. The reply is a frame.
    Client,
    /// Body: the host's own message. The reply is the handler's.
    Host,
    /// Ends a session. Both bodies are empty.
    Close,
}

/// A request without its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The operation.
    pub operation: Operation,
    /// The session. [`Operation::Report`] makes a new session and ignores this field.
    pub session: SessionId,
    /// The message's kind, for [`Operation::Client`] and [`Operation::Host`].
    pub kind: u8,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Status {
    /// Done.
    #[error("done")]
    Done,
    /// The request is malformed.
    #[error("expected a request, found bytes that are none")]
    Malformed,
    /// The configuration allows no more open sessions.
    #[error("the enclave has as many open sessions as it allows: try again later")]
    TooManySessions,
    /// The session does not exist, or has ended.
    #[error("no open session has this number; it may have ended: begin a new session")]
    UnknownSession,
    /// The message is not the next one of the script. The session has ended.
    #[error("expected the next message of the script, found another: the session has ended")]
    OutOfOrder,
    /// The message did not decrypt or was too long, or the job stopped. The session has ended.
    #[error("expected a message that opens and that the job can go on with, found another: the session has ended")]
    Refused,
}

impl Operation {
    /// The operation's number between processes.
    pub fn to_number(self) -> u8 {
        match self {
            Self::Report => 1,
            Self::Open => 2,
            Self::Client => 3,
            Self::Host => 4,
            Self::Close => 5,
        }
    }

    /// The operation with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Report, Self::Open, Self::Client, Self::Host, Self::Close]
            .into_iter()
            .find(|op| op.to_number() == number)
    }
}

impl Status {
    /// The status's number between processes.
    pub fn to_number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Malformed => 1,
            Self::TooManySessions => 2,
            Self::UnknownSession => 3,
            Self::OutOfOrder => 4,
            Self::Refused => 5,
        }
    }

    /// The status with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        let all =
            [Self::Done, Self::Malformed, Self::TooManySessions, Self::UnknownSession, Self::OutOfOrder, Self::Refused];
        all.into_iter().find(|status| status.to_number() == number)
    }
}

/// Why an enclave does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration is invalid.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// The handler's bytes do not match the configuration.
    #[error("expected setup bytes with digest {expected}, found {found}")]
    Setup {
        /// The digest in the configuration.
        expected: Digest,
        /// The digest of the bytes.
        found: Digest,
    },
}

/// Secrets are behind boxes: a session moves in and out of the list, and a move leaves bytes
/// behind.
enum Channel<S> {
    /// Reported, and not yet opened by a client.
    Waiting(Box<ChannelSecret>, Digest),
    /// Open, with the handler's part.
    Open(Box<InsideChannel>, Box<S>),
}

struct Session<S> {
    id: SessionId,
    channel: Channel<S>,
    progress: Progress,
}

/// Sessions around a handler. [`Inside::request`] handles one request after another.
pub struct Inside<H: Handler, R> {
    configuration: Configuration,
    digest: Digest,
    measurement: Measurement,
    protections: Protections,
    attester: Box<dyn Attester>,
    handler: H,
    rng: R,
    sessions: Vec<Session<H::Session>>,
}

impl<H: Handler, R: CryptoRng> Inside<H, R> {
    /// Checks the configuration, and the handler's bytes.
    ///
    /// # Errors
    ///
    /// See [`StartError`].
    pub fn check(configuration: &Configuration, setup: &[u8]) -> Result<(), StartError> {
        configuration.check()?;
        let (expected, found) = (configuration.setup, Digest::of_bytes(setup));
        if expected == found { Ok(()) } else { Err(StartError::Setup { expected, found }) }
    }

    /// An inside without sessions. Its measurement is that of the executable with SHA-256
    /// `executable`, under this configuration.
    pub fn new(
        configuration: Configuration,
        executable: &Digest,
        protections: Protections,
        attester: Box<dyn Attester>,
        handler: H,
        rng: R,
    ) -> Self {
        let digest = configuration.digest();
        let measurement = Measurement::new(executable, &digest);
        Self { configuration, digest, measurement, protections, attester, handler, rng, sessions: Vec::new() }
    }

    /// The code that runs, and its configuration.
    pub fn measurement(&self) -> &Measurement {
        &self.measurement
    }

    /// The protections of this enclave.
    pub fn protections(&self) -> &Protections {
        &self.protections
    }

    /// The number of open sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Answers one request. `body` is working memory, and is wiped if it held a client's message.
    /// `reply` is written from its start.
    ///
    /// The reply is empty for every status except [`Status::Done`].
    pub fn request(&mut self, request: Request, body: &mut [u8], reply: &mut Vec<u8>) -> Status {
        reply.clear();
        let Request { operation, session, kind } = request;
        let result = match operation {
            Operation::Report => self.report(body, reply),
            Operation::Open => self.open(session, body),
            Operation::Client | Operation::Host => {
                let from = if operation == Operation::Client { Party::Client } else { Party::Host };
                self.message(session, from, kind, body, reply)
            }
            Operation::Close => self.close(session, body),
        };
        match result {
            Ok(()) => Status::Done,
            Err(status) => {
                reply.zeroize();
                status
            }
        }
    }

    fn report(&mut self, body: &[u8], reply: &mut Vec<u8>) -> Result<(), Status> {
        let nonce = Nonce(body.try_into().map_err(|_| Status::Malformed)?);
        if self.sessions.len() >= usize::from(self.configuration.max_sessions) {
            return Err(Status::TooManySessions);
        }
        let (secret, channel_key) = ChannelSecret::draw(&mut self.rng);
        let id = SessionId::draw(&mut self.rng);
        let protections = self.protections.clone();
        let statement = Statement { session: id, channel_key, nonce, configuration: self.digest, protections };
        let proof = self.attester.prove(&self.measurement, &statement.report_data());
        let evidence = Evidence { measurement: self.measurement, statement, proof }.encode();
        let channel = Channel::Waiting(Box::new(secret), Digest::of_bytes(&evidence));
        let progress = Progress::new(&self.configuration);
        self.sessions.push(Session { id, channel, progress });
        reply.extend(evidence);
        Ok(())
    }

    fn open(&mut self, id: SessionId, body: &[u8]) -> Result<(), Status> {
        let Session { channel, progress, .. } = self.take(id)?;
        // The session is no longer in the list, so any failure from here on has ended it.
        let Channel::Waiting(secret, evidence) = channel else { return Err(Status::OutOfOrder) };
        let channel = Box::new(secret.accept(body, &evidence, id).map_err(|_| Status::Refused)?);
        let own = Box::new(self.handler.open(&mut self.rng).map_err(|_| Status::Refused)?);
        self.sessions.push(Session { id, channel: Channel::Open(channel, own), progress });
        Ok(())
    }

    fn message(
        &mut self,
        id: SessionId,
        from: Party,
        kind: u8,
        body: &mut [u8],
        reply: &mut Vec<u8>,
    ) -> Result<(), Status> {
        let mut session = self.take(id)?;
        let Channel::Open(channel, own) = &mut session.channel else { return Err(Status::OutOfOrder) };
        let due = session.progress.take(from, kind).map_err(|_| Status::OutOfOrder)?;
        let (handler, rng) = (&mut self.handler, &mut self.rng);
        let mut handle = |own: &mut H::Session, body: &[u8], reply: &mut Vec<u8>| {
            handler
                .handle(own, Message { from, kind, number: due.number, body }, reply, rng)
                .map_err(|_| Status::Refused)
        };
        match from {
            Party::Client => {
                reply.reserve(room(due.step.reply));
                let handled = channel
                    .open(&due, body)
                    .map_err(|_| Status::Refused)
                    .and_then(|message| handle(own, message, reply));
                body.zeroize();
                handled?;
                channel.seal(&due, reply).map_err(|_| Status::Refused)?;
            }
            Party::Host => {
                if !allowed(body.len(), due.step.request) {
                    return Err(Status::Refused);
                }
                handle(own, body, reply)?;
                if !allowed(reply.len(), due.step.reply) {
                    return Err(Status::Refused);
                }
            }
        }
        if session.progress.next().is_some() {
            self.sessions.push(session);
        }
        Ok(())
    }

    fn close(&mut self, id: SessionId, body: &[u8]) -> Result<(), Status> {
        if !body.is_empty() {
            return Err(Status::Malformed);
        }
        self.take(id).map(drop)
    }

    fn take(&mut self, id: SessionId) -> Result<Session<H::Session>, Status> {
        let place = self.sessions.iter().position(|session| session.id == id).ok_or(Status::UnknownSession)?;
        Ok(self.sessions.swap_remove(place))
    }
}

fn allowed(length: usize, size: Size) -> bool {
    match size {
        Size::UpTo(bytes) => length <= bytes as usize,
        Size::Fixed(bytes) => length == bytes as usize,
    }
}
