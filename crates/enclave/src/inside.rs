//! What runs inside an enclave: sessions around the handler of a job.
//!
//! The host speaks first, always, and one request at a time. Nothing it says is trusted: it can
//! refuse service, and no more. A session is made by [`Operation::Report`] and ends with its
//! script, at [`Operation::Close`], or at the first thing that is out of order; then its channel
//! and the handler's part of it are dropped, which wipes them. Their number is limited by the
//! configuration.
//!
//! What a request that fails says is one of a few [`Status`], and for anything that was sealed it
//! is always the same one.

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
/// Its code must be oblivious: no branch, address or time that depends on a secret. It has no
/// clock, no file, no thread and no network, and is killed if it tries.
pub trait Handler {
    /// What belongs to one session: its keys are born in [`Handler::open`] and wiped when this is
    /// dropped.
    type Session;

    /// A session begins: a client has opened its channel.
    ///
    /// # Errors
    ///
    /// [`Refused`]: the session ends.
    ///
    /// What is large or secret in a session belongs behind a pointer: this value is moved once, and
    /// what moves leaves its bytes behind.
    fn open(&mut self, rng: &mut dyn CryptoRng) -> Result<Self::Session, Refused>;

    /// The next message of the script. `reply` is empty; what is written there is sent, sealed if
    /// the message was the client's. For a client's it has room for the longest reply of the
    /// script, so that it does not move and leave a copy behind.
    ///
    /// # Errors
    ///
    /// [`Refused`]: the session ends, and `reply` is thrown away.
    fn handle(
        &mut self,
        session: &mut Self::Session,
        message: Message<'_>,
        reply: &mut Vec<u8>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Refused>;
}

/// A message that is the next of its script and within its size.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    /// Who sent it. A client's was sealed; a host's may say anything.
    pub from: Party,
    /// What it is, a number of the job's own.
    pub kind: u8,
    /// The number of the step over all rounds.
    pub number: u64,
    /// Its bytes.
    pub body: &'a [u8],
}

/// The handler will not go on. It has no reason in it: a reason could tell something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a message that the job can go on with, found another")]
pub struct Refused;

/// What a host asks of an enclave.
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
    /// What is asked.
    pub operation: Operation,
    /// In which session; [`Operation::Report`] makes a new one and looks at none.
    pub session: SessionId,
    /// The message's kind, for [`Operation::Client`] and [`Operation::Host`].
    pub kind: u8,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Status {
    /// Done.
    #[error("done")]
    Done,
    /// The request itself makes no sense.
    #[error("expected a request, found bytes that are none")]
    Malformed,
    /// As many sessions as the configuration allows are open.
    #[error("expected fewer open sessions, found as many as the enclave allows")]
    TooManySessions,
    /// No such session: it never was, or has ended.
    #[error("expected an open session, found none of that number: it may have ended")]
    UnknownSession,
    /// Not the next message of the script. The session has ended.
    #[error("expected the next message of the script, found another: the session has ended")]
    OutOfOrder,
    /// It did not open, was too long, or the job would not go on with it. The session has ended.
    #[error("expected a message that opens and that the job can go on with, found another: the session has ended")]
    Refused,
}

impl Operation {
    /// Its number between processes.
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
    /// Its number between processes.
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
    /// The configuration is none.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// Other bytes for the handler than the configuration names.
    #[error("expected setup bytes with digest {expected}, found {found}")]
    Setup {
        /// In the configuration.
        expected: Digest,
        /// Of the bytes.
        found: Digest,
    },
}

/// Secrets stand behind boxes: a session moves in and out of the list, and what moves leaves its
/// bytes behind.
enum Channel<S> {
    /// Reported, and not opened by a client yet.
    Waiting(Box<ChannelSecret>, Digest),
    /// With the handler's part.
    Open(Box<InsideChannel>, Box<S>),
}

struct Session<S> {
    id: SessionId,
    channel: Channel<S>,
    progress: Progress,
}

/// Sessions around a handler. One request after another goes through [`Inside::request`].
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
    /// Checks the configuration and what the handler was given.
    ///
    /// # Errors
    ///
    /// See [`StartError`].
    pub fn check(configuration: &Configuration, setup: &[u8]) -> Result<(), StartError> {
        configuration.check()?;
        let (expected, found) = (configuration.setup, Digest::of_bytes(setup));
        if expected == found { Ok(()) } else { Err(StartError::Setup { expected, found }) }
    }

    /// No session yet. The measurement is that of the executable with SHA-256 `executable`, under
    /// this configuration.
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

    /// Which code, with which configuration.
    pub fn measurement(&self) -> &Measurement {
        &self.measurement
    }

    /// What protects this enclave.
    pub fn protections(&self) -> &Protections {
        &self.protections
    }

    /// How many sessions are open.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Answers one request. `body` is used as working memory, and is wiped where a client's message
    /// was in it; `reply` is written from its start.
    ///
    /// With any status but [`Status::Done`] the reply is empty.
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
        // The session is out of the list: whatever fails from here on has ended it.
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
