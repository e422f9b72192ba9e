//! The process of an enclave, from start to end.

use super::OVER_PIPES;
use super::memory::Shared;
use super::pipe::{Reader, Writer};
use super::protocol::{self, Frame};
use super::ring::{self, Lane, Patience};
use super::sandbox::{self, NOT_STARTED, Open, end_now};
use super::transport::{Receiver, Sender};
use crate::process::executable_digest;
use rand_core::{CryptoRng, Rng, UnwrapErr};
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use tobari_enclave::{Configuration, Handler, Inside, Protection, Protections, Refused, SimulatedPlatform, State};

/// The system's random number generator, and no other source.
type SystemRandom = UnwrapErr<getrandom::SysRng>;

/// Whether this process was started as an enclave: its one argument is the verb, or the verb
/// followed by [`OVER_PIPES`].
pub fn is_inside(verb: &str) -> bool {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    let first = first.as_deref().and_then(|argument| argument.to_str()).unwrap_or_default();
    first.strip_prefix(verb).is_some_and(|rest| rest.is_empty() || rest == OVER_PIPES) && arguments.next().is_none()
}

/// The enclave's ends of its connection to the host.
struct Ends {
    receiver: Receiver,
    sender: Sender,
    /// The memory of the rings; none with pipes.
    shared: Option<Arc<Shared>>,
}

impl Ends {
    /// Opens the kind of ends with which the host started this process.
    fn open(protections: &mut Protections) -> io::Result<Self> {
        let limit = protocol::MAX_START_BYTES;
        if std::env::args_os().nth(1).is_some_and(|verb| verb.as_encoded_bytes().ends_with(OVER_PIPES.as_bytes())) {
            // when the host ends, the input ends; the next read notices this
            protections.set(Protection::DiesWithParent, State::Partly);
            let receiver = Receiver::Pipe(Reader { end: Box::new(io::stdin()), limit });
            let sender = Sender::Pipe(Writer(Box::new(io::stdout())));
            return Ok(Self { receiver, sender, shared: None });
        }
        let shared = Arc::new(Shared::attach(io::stdin())?);
        sandbox::die_with(shared.counter(protocol::HOST_PROCESS).load(SeqCst), protections);
        let receiver = Receiver::Ring(ring::Receiver::new(shared.clone(), Lane(protocol::TO_INSIDE), limit));
        let sender = Sender::Ring(ring::Sender::new(shared.clone(), Lane(protocol::TO_HOST)));
        Ok(Self { receiver, sender, shared: Some(shared) })
    }
}

/// Runs this process as an enclave: gives up every right, builds the handler, and answers the host
/// until the host sends a stop or ends.
///
/// If [`is_inside`] returns true, call this first in `main`, before any thread starts and any file
/// is opened. `build` receives the configuration and the setup bytes, which were checked against
/// each other, and a random number generator. It runs confined, so it cannot open anything.
pub fn run_inside<H, B>(build: B) -> ExitCode
where
    H: Handler,
    B: FnOnce(&Configuration, &[u8], &mut dyn CryptoRng) -> Result<H, Refused>,
{
    match serve(build) {
        Ok(()) => ExitCode::SUCCESS,
        // Standard error leads nowhere, so there is no message. The host reads the exit status.
        Err(_) => end_now(NOT_STARTED),
    }
}

fn serve<H, B>(build: B) -> io::Result<()>
where
    H: Handler,
    B: FnOnce(&Configuration, &[u8], &mut dyn CryptoRng) -> Result<H, Refused>,
{
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    let mut protections = Protections::none();
    protections.set(Protection::OwnProcess, State::Applied);
    let Ends { mut receiver, mut sender, shared } = Ends::open(&mut protections)?;
    let mut buffer = Vec::new();
    let words = receiver.receive(&mut buffer, Patience::Endless).map_err(|_| malformed())?;
    let Some(Frame::Start { namespaces }) = Frame::from_words(words) else { return Err(malformed()) };
    let (configuration, setup) = protocol::split_start(&buffer).ok_or_else(malformed)?;
    let checked = Configuration::decode(configuration).map_err(|error| error.to_string()).and_then(|configuration| {
        let checked = Inside::<H, SystemRandom>::check(&configuration, setup);
        checked.map(|()| configuration).map_err(|error| error.to_string())
    });
    let configuration = match checked {
        Ok(configuration) => configuration,
        Err(reason) => {
            let _ = sender.send(Frame::NotReady.to_words(), reason.as_bytes(), Patience::Endless);
            return Err(malformed());
        }
    };
    let executable = executable_digest()?;
    let own_memory = sandbox::own_memory();
    let open = match &shared {
        Some(shared) => {
            if namespaces && sandbox::unshare(&mut protections) {
                let told = |process| shared.counter(protocol::INSIDE_PROCESS).store(process, SeqCst);
                sandbox::go_on_in_child(told, &mut protections)?;
            }
            Open::Nothing
        }
        None => Open::Pipes,
    };
    sandbox::confine(own_memory, open, &mut protections);

    // From here on this process can compute, sleep and draw randomness, and nothing else.
    let mut rng = checked_randomness().ok_or_else(malformed)?;
    let attester = Box::new(SimulatedPlatform::new(&mut rng));
    let Ok(handler) = build(&configuration, setup, &mut rng) else {
        let reason = b"the handler refused its setup";
        let _ = sender.send(Frame::NotReady.to_words(), reason, Patience::Endless);
        return Err(malformed());
    };
    let ready = [protections.to_bytes().as_slice(), executable.as_bytes()].concat();
    let inside = Inside::new(configuration, &executable, protections, attester, handler, rng);
    receiver.set_limit(protocol::MAX_MESSAGE_BYTES);
    sender.send(Frame::Ready.to_words(), &ready, Patience::Endless).map_err(|_| malformed())?;
    answer(inside, &mut sender, &mut receiver, buffer).ok_or_else(malformed)
}

/// Answers one request after another; `None` if the host does not keep to the protocol.
fn answer<H: Handler>(
    mut inside: Inside<H, SystemRandom>,
    sender: &mut Sender,
    receiver: &mut Receiver,
    mut buffer: Vec<u8>,
) -> Option<()> {
    let mut reply = Vec::new();
    loop {
        let words = receiver.receive(&mut buffer, Patience::Endless).ok()?;
        match Frame::from_words(words)? {
            Frame::Request(request) => {
                let status = inside.request(request, &mut buffer, &mut reply);
                sender.send(Frame::Reply(status).to_words(), &reply, Patience::Endless).ok()?;
            }
            Frame::Stop => return Some(()), // everything is dropped, and wiped, on the way out
            _ => return None,
        }
    }
}

/// The system's random number generator, if two draws differ and neither is zero. Keys must not
/// come from a generator that fails this test.
fn checked_randomness() -> Option<SystemRandom> {
    let mut rng = UnwrapErr(getrandom::SysRng);
    let mut draws = [[0_u8; 32]; 2];
    for draw in &mut draws {
        rng.fill_bytes(draw);
    }
    let sound = draws[0] != draws[1] && draws.iter().all(|draw| *draw != [0; 32]);
    sound.then_some(rng)
}
