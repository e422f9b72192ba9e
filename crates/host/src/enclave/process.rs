//! The host's half: starts the process, sends and receives messages, and notices the process's end.

use super::memory::Shared;
use super::pipe::{self, Reader, Writer};
use super::protocol::{self, Frame};
use super::ring::{self, Broken, Lane, Patience};
use super::sandbox::{BY_SIGNAL, NOT_STARTED, PANICKED};
use super::transport::{Receiver, Sender};
use crate::process::executable_digest;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tobari_enclave::{
    Configuration, Digest, Enclave, EnclaveError, Measurement, Protection, Protections, Request, State, Status,
};

/// How long a stopped process may take to wipe its memory before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// How to start an enclave's process, and how long to wait for it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The hidden verb that tells this executable to run as an enclave.
    pub verb: String,
    /// A program and its arguments. It must start this executable with the verb and
    /// [`OVER_PIPES`](super::OVER_PIPES), and pass on standard input and output. Empty for a
    /// process of this host.
    pub launcher: Vec<OsString>,
    /// Bytes of each of the two rings, a power of two. Longer messages pass in pieces.
    pub ring_bytes: usize,
    /// How long the start may take, including its measurement.
    pub start_timeout: Duration,
    /// How long one request may take; a process that takes longer is killed.
    pub call_timeout: Duration,
    /// Whether to ask for namespaces.
    pub namespaces: bool,
    /// Protections that must be fully in force; otherwise the enclave does not start.
    pub required: Vec<Protection>,
}

impl Options {
    /// Rings of 1 MiB, 30 s for the start, 60 s for a request, namespaces where available. Always
    /// requires a system call filter, no dumps and no new privileges.
    pub fn new(verb: &str) -> Self {
        Self {
            verb: verb.to_owned(),
            launcher: Vec::new(),
            ring_bytes: 1 << 20,
            start_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_secs(60),
            namespaces: true,
            required: vec![Protection::SystemCallFilter, Protection::NotDumpable, Protection::NoNewPrivileges],
        }
    }

    /// Starts the enclave with a launcher, which must confine its process: nothing is required of
    /// this system. The start may take five minutes, because pages may be measured.
    pub fn launched(verb: &str, launcher: Vec<OsString>) -> Self {
        let start_timeout = Duration::from_secs(300);
        Self { launcher, start_timeout, namespaces: false, required: Vec::new(), ..Self::new(verb) }
    }
}

/// The state of a process that is running or has ended.
#[derive(Default)]
pub struct Fate {
    pub ended: AtomicBool,
    how: Mutex<String>,
}

impl Fate {
    pub fn how(&self) -> String {
        self.how.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// An enclave in a separate process: "simulated", because no hardware keeps its host out.
pub struct ProcessEnclave {
    sender: Sender,
    receiver: Receiver,
    /// The memory of the rings; none with pipes.
    shared: Option<Arc<Shared>>,
    fate: Arc<Fate>,
    keeper: Option<JoinHandle<()>>,
    handle: OwnedFd,
    process: u32,
    options: Options,
    measurement: Measurement,
    executable: Digest,
    protections: Protections,
    ended: Option<EnclaveError>,
    startup: Duration,
    last_request: Duration,
}

impl ProcessEnclave {
    /// Starts this executable again as an enclave, with nothing but the verb and shared memory, and
    /// waits until its handler is built. With a launcher, starts the launcher, with this process's
    /// environment and two pipes.
    ///
    /// # Errors
    ///
    /// [`EnclaveError::Start`], [`EnclaveError::TooLong`], [`EnclaveError::Gone`],
    /// [`EnclaveError::TimedOut`] or [`EnclaveError::Malformed`]. No process is left.
    pub fn start(configuration: &Configuration, setup: &[u8], options: &Options) -> Result<Self, EnclaveError> {
        let began = Instant::now();
        let start = |error: io::Error| EnclaveError::Start(error.to_string());
        let body = protocol::join_start(&configuration.encode(), setup)
            .filter(|body| body.len() <= protocol::MAX_START_BYTES)
            .ok_or(EnclaveError::TooLong { found: setup.len(), limit: protocol::MAX_START_BYTES })?;
        let executable = this_executable().map_err(start)?;
        let fate = Arc::new(Fate::default());
        let Parts { sender, receiver, shared, keeper, handle, process } =
            Parts::start(options, &fate).map_err(start)?;
        // From here on this value owns the process, so every early return kills it.
        let mut enclave = Self {
            sender,
            receiver,
            shared,
            fate,
            keeper: Some(keeper),
            handle,
            process,
            options: options.clone(),
            measurement: Measurement::new(&executable, &configuration.digest()),
            executable,
            protections: Protections::none(),
            ended: None,
            startup: Duration::ZERO,
            last_request: Duration::ZERO,
        };
        enclave.greet(&body, began)?;
        enclave.startup = began.elapsed();
        Ok(enclave)
    }

    /// Sends the start message and checks the reply.
    fn greet(&mut self, body: &[u8], began: Instant) -> Result<(), EnclaveError> {
        let limit = self.options.start_timeout;
        let mut reply = Vec::new();
        let frame = Frame::Start { namespaces: self.options.namespaces };
        match self.exchange(frame, body, &mut reply, began + limit).map_err(|broken| self.end(broken, limit))? {
            Frame::Ready => {}
            Frame::NotReady => {
                self.kill_and_wait();
                return Err(EnclaveError::Start(String::from_utf8_lossy(&reply).into_owned()));
            }
            _ => return Err(self.end(Broken::Malformed, limit)),
        }
        let ready = reply
            .split_last_chunk::<32>()
            .map(|(protections, digest)| (Protections::from_bytes(protections), Digest::new(*digest)));
        let Some((Some(protections), executable)) = ready else { return Err(self.end(Broken::Malformed, limit)) };
        if executable != self.executable {
            self.kill_and_wait();
            let expected = self.executable;
            return Err(EnclaveError::Start(format!("expected executable {expected}, found {executable}")));
        }
        let lacking = self.options.required.iter().copied().find(|&one| protections.state(one) != State::Applied);
        if let Some(lacking) = lacking {
            let state = protections.state(lacking);
            self.kill_and_wait();
            return Err(EnclaveError::Start(format!("expected {lacking}, found it {state}")));
        }
        self.protections = protections;
        Ok(())
    }

    fn exchange(&mut self, frame: Frame, body: &[u8], reply: &mut Vec<u8>, deadline: Instant) -> Result<Frame, Broken> {
        let fate = self.fate.clone();
        let patience = Patience::Until(deadline, &fate.ended);
        self.sender.send(frame.to_words(), body, patience)?;
        let words = self.receiver.receive(reply, patience)?;
        Frame::from_words(words).ok_or(Broken::Malformed)
    }

    /// Kills the process, which is unusable now. Returns the reason, and keeps it for later
    /// requests.
    fn end(&mut self, broken: Broken, limit: Duration) -> EnclaveError {
        self.kill_and_wait();
        let error = match broken {
            Broken::Gone => EnclaveError::Gone(self.fate.how()),
            Broken::TimedOut => EnclaveError::TimedOut { limit_ms: limit.as_millis() },
            Broken::Malformed => EnclaveError::Malformed,
        };
        self.ended = Some(error.clone());
        error
    }

    fn kill_and_wait(&mut self) {
        // This fails only if the process has already ended.
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }

    /// The number of the computing process, as this process sees it. With a launcher, the
    /// launcher's number.
    pub fn process(&self) -> u32 {
        let inside = self.shared.as_ref().map_or(0, |shared| shared.counter(protocol::INSIDE_PROCESS).load(SeqCst));
        u32::try_from(inside).ok().filter(|number| *number != 0).unwrap_or(self.process)
    }

    /// SHA-256 of the executable, for a verifier's list.
    pub fn executable(&self) -> &Digest {
        &self.executable
    }

    /// How long the start took: process, measurement, confinement and the construction of the
    /// handler.
    pub fn startup(&self) -> Duration {
        self.startup
    }

    /// How long the last request took. For [`Enclave::open`] this is the cost of a session's fresh
    /// keys.
    pub fn last_request(&self) -> Duration {
        self.last_request
    }
}

impl Enclave for ProcessEnclave {
    fn request(&mut self, request: Request, body: &[u8], reply: &mut Vec<u8>) -> Result<(), EnclaveError> {
        if let Some(ended) = &self.ended {
            return Err(match ended {
                EnclaveError::Gone(how) => EnclaveError::Gone(how.clone()),
                other => EnclaveError::Gone(other.to_string()),
            });
        }
        let limit = protocol::MAX_MESSAGE_BYTES;
        if body.len() > limit {
            return Err(EnclaveError::TooLong { found: body.len(), limit });
        }
        let (began, limit) = (Instant::now(), self.options.call_timeout);
        let answer = self.exchange(Frame::Request(request), body, reply, began + limit);
        self.last_request = began.elapsed();
        match answer {
            Ok(Frame::Reply(Status::Done)) => Ok(()),
            Ok(Frame::Reply(status)) => Err(EnclaveError::Refused(status)),
            Ok(_) => Err(self.end(Broken::Malformed, limit)),
            Err(broken) => Err(self.end(broken, limit)),
        }
    }

    fn measurement(&self) -> &Measurement {
        &self.measurement
    }

    fn protections(&self) -> &Protections {
        &self.protections
    }

    fn stop(&mut self) {
        if self.ended.is_none() {
            self.ended = Some(EnclaveError::Gone("stopped".to_owned()));
            let deadline = Instant::now() + GRACE;
            let fate = self.fate.clone();
            let sent = self.sender.send(Frame::Stop.to_words(), &[], Patience::Until(deadline, &fate.ended));
            // The process wipes its memory and ends; the keeper notices.
            while sent.is_ok() && !fate.ended.load(SeqCst) && Instant::now() < deadline {
                thread::sleep(Duration::from_micros(200));
            }
        }
        self.kill_and_wait();
    }
}

impl Drop for ProcessEnclave {
    fn drop(&mut self) {
        self.stop();
    }
}

/// SHA-256 of this executable, computed once.
fn this_executable() -> io::Result<Digest> {
    static KNOWN: Mutex<Option<Digest>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(digest) = *known {
        return Ok(digest);
    }
    let digest = executable_digest()?;
    *known = Some(digest);
    Ok(digest)
}

/// A started process, and the ends of its connection.
struct Parts {
    sender: Sender,
    receiver: Receiver,
    shared: Option<Arc<Shared>>,
    keeper: JoinHandle<()>,
    handle: OwnedFd,
    process: u32,
}

impl Parts {
    fn start(options: &Options, fate: &Arc<Fate>) -> io::Result<Self> {
        let limit = protocol::MAX_MESSAGE_BYTES;
        if let Some((program, arguments)) = options.launcher.split_first() {
            let mut command = Command::new(program);
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
            let Started { keeper, process, handle, pipes } = start(command, fate, || ())?;
            let (Some(to), Some(from)) = pipes else { return Err(io::Error::other("expected two pipes, found none")) };
            let sender = Sender::Pipe(Writer(pipe::hosts(to)?));
            let receiver = Receiver::Pipe(Reader { end: pipe::hosts(from)?, limit });
            return Ok(Self { sender, receiver, shared: None, keeper, handle, process });
        }
        let (shared, file) = Shared::create(options.ring_bytes)?;
        let shared = Arc::new(shared);
        shared.counter(protocol::HOST_PROCESS).store(u64::from(std::process::id()), SeqCst);
        let (keeper, process, handle) = spawn(&options.verb, file, &shared, fate)?;
        let sender = Sender::Ring(ring::Sender::new(shared.clone(), Lane(protocol::TO_INSIDE)));
        let receiver = Receiver::Ring(ring::Receiver::new(shared.clone(), Lane(protocol::TO_HOST), limit));
        Ok(Self { sender, receiver, shared: Some(shared), keeper, handle, process })
    }
}

/// Starts this executable with a verb, and with shared memory as its standard input.
pub fn spawn(
    verb: &str,
    file: OwnedFd,
    shared: &Arc<Shared>,
    fate: &Arc<Fate>,
) -> io::Result<(JoinHandle<()>, u32, OwnedFd)> {
    let mut command = Command::new("/proc/self/exe");
    command.arg(verb).env_clear().current_dir("/").stdin(Stdio::from(file)).stdout(Stdio::null());
    let shared = shared.clone();
    let started = start(command, fate, move || {
        for lane in [protocol::TO_INSIDE, protocol::TO_HOST] {
            Lane(lane).wake_all(&shared);
        }
    })?;
    Ok((started.keeper, started.process, started.handle))
}

/// The handles of a started process.
struct Started {
    keeper: JoinHandle<()>,
    process: u32,
    handle: OwnedFd,
    pipes: (Option<ChildStdin>, Option<ChildStdout>),
}

/// The report of the thread that starts a process.
type SpawnResult = io::Result<(u32, OwnedFd, (Option<ChildStdin>, Option<ChildStdout>))>;

/// Starts a process from a thread that waits for the process's end and then calls `ended`. A
/// process dies with the *thread* that started it, so this thread must live as long as the process.
fn start(mut command: Command, fate: &Arc<Fate>, ended: impl FnOnce() + Send + 'static) -> io::Result<Started> {
    let (tell, told) = sync_channel(1);
    let fate = fate.clone();
    command.stderr(Stdio::null());
    // A terminal's signals to its process group are for the host, which then ends its enclaves in
    // order.
    command.process_group(0);
    let keeper = thread::Builder::new().name("enclave".to_owned()).spawn(move || {
        keep(command, &fate, &tell);
        ended();
    })?;
    match told.recv() {
        Ok(Ok((process, handle, pipes))) => Ok(Started { keeper, process, handle, pipes }),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::Error::other("expected a started process, found none")),
    }
}

fn keep(mut command: Command, fate: &Fate, tell: &SyncSender<SpawnResult>) {
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return drop(tell.send(Err(error))),
    };
    drop(command); // and with it this side's descriptor of the memory
    let pipes = (child.stdin.take(), child.stdout.take());
    let handle = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData.into());
    let handle = handle.and_then(|process| Ok(pidfd_open(process, PidfdFlags::empty())?));
    let opened = handle.is_ok();
    let heard = tell.send(handle.map(|handle| (child.id(), handle, pipes)));
    if !opened || heard.is_err() {
        let _ = child.kill();
    }
    let how = match child.wait() {
        Ok(status) => describe(status),
        Err(error) => error.to_string(),
    };
    *fate.how.lock().unwrap_or_else(PoisonError::into_inner) = how;
    fate.ended.store(true, SeqCst);
}

/// Describes how the process ended, without any of its data.
fn describe(status: ExitStatus) -> String {
    let signal = status.signal().or_else(|| status.code().map(|code| code - BY_SIGNAL).filter(|signal| *signal > 0));
    match (signal, status.code()) {
        (Some(libc::SIGSYS), _) => "killed for a system call outside its list".to_owned(),
        (Some(signal), _) => format!("killed by signal {signal}"),
        (None, Some(PANICKED)) => "its code panicked".to_owned(),
        (None, Some(NOT_STARTED)) => "it could not begin".to_owned(),
        (None, Some(code)) => format!("it ended with status {code}"),
        (None, None) => "it ended".to_owned(),
    }
}
