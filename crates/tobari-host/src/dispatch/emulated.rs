//! A module that is none: this executable again, in a process of its own on another core, which seals what is copied to it over a ring in shared memory.
//!
//! It has what makes a real one cost: a doorbell (a futex), a copy there and a copy back, a process that has to be woken. Its engine is a CPU core, so its absolute speed says
//! nothing about hardware, and every report that it is part of carries the label `emulated-module`. A rate that it may not exceed makes it slower than it is.
//!
//! | message | words | bytes |
//! |---|---|---|
//! | to the module | 1, number of chunks, 0 | of each chunk: suite (1), key (32), bytes of the nonce (1) and nonce, bytes of associated data (1) and data, bytes of text (4), text |
//! | back | 2, number of chunks, 0 | of each chunk: bytes (4), ciphertext, and the tag for GCM |

use super::gcm::RingGcm;
use super::module::{Module, ModuleError};
use crate::enclave::memory::Shared;
use crate::enclave::process::{Fate, spawn};
use crate::enclave::protocol::{HOST_PROCESS, TO_HOST, TO_INSIDE};
use crate::enclave::ring::{Broken, Lane, Patience, Receiver, Sender};
use crate::enclave::sandbox;
use rustix::process::{Signal, pidfd_send_signal};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tobari_apps::seal::{Chunk, Gcm, Suite};
use tobari_core::simd::aes::{AesKey, CbcMessage, encrypt_cbc_in_lanes, padded_bytes};
use zeroize::Zeroize;

/// The hidden verb by which this executable knows that it is to be a module.
pub const MODULE_VERB: &str = "module-emulated";

/// Bytes of each ring: a batch and its answer, usually.
const RING_BYTES: usize = 1 << 20;
/// No message is longer.
const MAX_MESSAGE_BYTES: usize = 64 << 20;
const SEAL: u64 = 1;
const SEALED: u64 = 2;
/// Counters of the control page that carry its settings.
const ENGINE: usize = 2;
const RATE: usize = 3;
const DELAY: usize = 4;
const CORE: usize = 5;

/// How the process computes CBC; GCM is always `ring`'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmulatedEngine {
    /// One chain after another, as the paper's module does.
    OneChain,
    /// Chains side by side, as the CPU engine does.
    SideBySide,
}

/// What a module is emulated like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmulatedOptions {
    /// How it computes.
    pub engine: EmulatedEngine,
    /// Bytes in a second that it does not exceed; 0 for as fast as it can.
    pub bytes_per_second: u64,
    /// What is added to each batch.
    pub delay: Duration,
    /// The core that it runs on, if not any.
    pub core: Option<usize>,
    /// How long an answer may take.
    pub timeout: Duration,
}

impl Default for EmulatedOptions {
    fn default() -> Self {
        Self {
            engine: EmulatedEngine::SideBySide,
            bytes_per_second: 0,
            delay: Duration::ZERO,
            core: None,
            timeout: Duration::from_secs(2),
        }
    }
}

/// The host's half.
pub struct Emulated {
    sender: Sender,
    receiver: Receiver,
    fate: Arc<Fate>,
    keeper: Option<JoinHandle<()>>,
    handle: OwnedFd,
    process: u32,
    timeout: Duration,
    buffer: Vec<u8>,
    dead: Option<ModuleError>,
}

impl Emulated {
    /// Starts the process: this executable under [`MODULE_VERB`], whose `main` must call [`run_module`].
    ///
    /// # Errors
    /// [`ModuleError::Start`].
    pub fn start(options: &EmulatedOptions) -> Result<Self, ModuleError> {
        let start = |error: std::io::Error| ModuleError::Start(error.to_string());
        let (shared, file) = Shared::create(RING_BYTES).map_err(start)?;
        let shared = Arc::new(shared);
        let core = options.core.map_or(0, |core| core as u64 + 1);
        let delay = u64::try_from(options.delay.as_nanos()).unwrap_or(u64::MAX);
        let side_by_side = u64::from(options.engine == EmulatedEngine::SideBySide);
        let settings = [(ENGINE, side_by_side), (RATE, options.bytes_per_second), (DELAY, delay), (CORE, core)];
        for (place, value) in settings.into_iter().chain([(HOST_PROCESS, u64::from(std::process::id()))]) {
            shared.counter(place).store(value, SeqCst);
        }
        let fate = Arc::new(Fate::default());
        let (keeper, process, handle) = spawn(MODULE_VERB, file, &shared, &fate).map_err(start)?;
        Ok(Self {
            sender: Sender::new(shared.clone(), Lane(TO_INSIDE)),
            receiver: Receiver::new(shared, Lane(TO_HOST), MAX_MESSAGE_BYTES),
            fate,
            keeper: Some(keeper),
            handle,
            process,
            timeout: options.timeout,
            buffer: Vec::new(),
            dead: None,
        })
    }

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.process
    }

    fn kill(&mut self) {
        // Fails only where it has ended already.
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }

    fn exchange(&mut self, count: usize) -> Result<(), Broken> {
        let fate = self.fate.clone();
        let patience = Patience::Until(Instant::now() + self.timeout, &fate.ended);
        self.sender.send([SEAL, count as u64, 0], &self.buffer, patience)?;
        let words = self.receiver.receive(&mut self.buffer, patience)?;
        if words == [SEALED, count as u64, 0] { Ok(()) } else { Err(Broken::Malformed) }
    }
}

impl Module for Emulated {
    fn name(&self) -> &'static str {
        "emulated"
    }

    fn label(&self) -> &'static str {
        "emulated-module"
    }

    fn cores(&self) -> usize {
        1
    }

    fn takes(&self, chunk: &Chunk) -> bool {
        chunk.bytes() < MAX_MESSAGE_BYTES / 16
    }

    fn seal(&mut self, chunks: &[&Chunk]) -> Result<Vec<Vec<u8>>, ModuleError> {
        if let Some(error) = &self.dead {
            return Err(error.clone());
        }
        self.buffer.clear();
        for chunk in chunks {
            encode(chunk, &mut self.buffer).ok_or(ModuleError::Malformed)?;
        }
        let answers = self.exchange(chunks.len()).and_then(|()| {
            let mut rest = self.buffer.as_slice();
            let answers: Option<Vec<Vec<u8>>> = chunks.iter().map(|_| field(&mut rest).map(<[u8]>::to_vec)).collect();
            answers.filter(|_| rest.is_empty()).ok_or(Broken::Malformed)
        });
        answers.map_err(|broken| {
            self.kill();
            let error = match broken {
                Broken::Gone => ModuleError::Gone(self.fate.how()),
                Broken::TimedOut => ModuleError::TimedOut(self.timeout.as_millis()),
                Broken::Malformed => ModuleError::Malformed,
            };
            self.dead = Some(error.clone());
            error
        })
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        self.kill();
        self.buffer.zeroize(); // the last batch, keys and all
    }
}

fn encode(chunk: &Chunk, out: &mut Vec<u8>) -> Option<()> {
    let parts = chunk.for_module()?;
    out.push(parts.suite as u8);
    out.extend_from_slice(parts.key);
    for short in [&parts.nonce[..], parts.data] {
        out.push(u8::try_from(short.len()).ok()?);
        out.extend_from_slice(short);
    }
    out.extend_from_slice(&u32::try_from(parts.text.len()).ok()?.to_be_bytes());
    out.extend_from_slice(parts.text);
    Some(())
}

/// Bytes after their length in four.
fn field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let (field, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *rest = after;
    Some(field)
}

/// Bytes after their length in one.
fn short<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first()?;
    let (field, after) = after.split_at_checked(usize::from(*length))?;
    *rest = after;
    Some(field)
}

/// One chunk, as the process reads it.
struct Job<'a> {
    suite: u8,
    key: &'a [u8; 32],
    nonce: &'a [u8],
    data: &'a [u8],
    text: &'a [u8],
}

fn decode<'a>(rest: &mut &'a [u8]) -> Option<Job<'a>> {
    let (suite, after) = rest.split_first()?;
    let (key, after) = after.split_first_chunk::<32>()?;
    *rest = after;
    Some(Job { suite: *suite, key, nonce: short(rest)?, data: short(rest)?, text: field(rest)? })
}

/// Is a module: answers its host until that ends.
///
/// To be called first thing in `main`, before any thread is started, if this process was started under [`MODULE_VERB`].
pub fn run_module() -> ExitCode {
    match serve() {
        Some(()) => ExitCode::SUCCESS,
        None => ExitCode::FAILURE, // there is nobody to tell: the host reads the status
    }
}

fn serve() -> Option<()> {
    let shared = Arc::new(Shared::attach(std::io::stdin()).ok()?);
    let setting = |place| shared.counter(place).load(SeqCst);
    sandbox::die_with(setting(HOST_PROCESS), &mut tobari_enclave::Protections::none());
    if let Some(core) = setting(CORE).checked_sub(1) {
        let mut cores = rustix::thread::CpuSet::new();
        cores.set(usize::try_from(core).ok().filter(|core| *core < rustix::thread::CpuSet::MAX_CPU)?);
        // Where it may not choose, it runs anywhere.
        let _ = rustix::thread::sched_setaffinity(None, &cores);
    }
    let (lanes, rate) = (if setting(ENGINE) == 1 { None } else { Some(1) }, setting(RATE));
    let delay = Duration::from_nanos(setting(DELAY));
    let mut receiver = Receiver::new(shared.clone(), Lane(TO_INSIDE), MAX_MESSAGE_BYTES);
    let mut sender = Sender::new(shared, Lane(TO_HOST));
    let (mut request, mut reply) = (Vec::new(), Vec::new());
    loop {
        let words = receiver.receive(&mut request, Patience::Endless).ok()?;
        let began = Instant::now();
        let [SEAL, count, 0] = words else { return None };
        reply.clear();
        seal(&request, count, lanes, &mut reply)?;
        let least = if rate == 0 { 0.0 } else { request.len() as f64 / rate as f64 };
        // It computes, as far as anybody can see: a module does not sleep while it has work.
        while began.elapsed() < delay + Duration::from_secs_f64(least) {
            std::hint::spin_loop();
        }
        sender.send([SEALED, count, 0], &reply, Patience::Endless).ok()?;
    }
}

/// Seals all chunks of a request.
fn seal(mut request: &[u8], count: u64, lanes: Option<usize>, reply: &mut Vec<u8>) -> Option<()> {
    let jobs: Vec<Job<'_>> = (0..count).map(|_| decode(&mut request)).collect::<Option<_>>()?;
    let keys: Vec<Option<AesKey>> = jobs
        .iter()
        .map(|job| if job.suite == Suite::CbcHmac as u8 { AesKey::new(job.key).ok() } else { None })
        .collect();
    let mut answers: Vec<Vec<u8>> = Vec::with_capacity(jobs.len());
    for (job, key) in jobs.iter().zip(&keys) {
        answers.push(match key {
            Some(_) => vec![0; padded_bytes(job.text.len())],
            None => {
                let mut text = job.text.to_vec();
                let tag = RingGcm.seal(job.key, job.nonce.try_into().ok()?, job.data, &mut text);
                text.extend_from_slice(&tag);
                text
            }
        });
    }
    let mut messages = Vec::new();
    for ((job, key), answer) in jobs.iter().zip(&keys).zip(&mut answers) {
        let Some(key) = key else { continue };
        messages.push(CbcMessage::new(key, job.nonce.try_into().ok()?, job.text, answer).ok()?);
    }
    let longest = jobs.iter().map(|job| job.text.len()).max().unwrap_or(0);
    encrypt_cbc_in_lanes(&mut messages, |kernels| lanes.unwrap_or_else(|| kernels.lanes(longest)));
    for answer in &answers {
        reply.extend_from_slice(&u32::try_from(answer.len()).ok()?.to_be_bytes());
        reply.extend_from_slice(answer);
    }
    request.is_empty().then_some(())
}
