//! An emulated module: a process of this executable on another core. It gets chunks over a ring in
//! shared memory and computes the answers.
//!
//! It has the costs of a real module: a doorbell (a futex), the wake-up of a sleeping process, and
//! copies in both directions. At its start it must give answers that the CPU knows, like the
//! self-test of a device. Its engine is a CPU core, so its absolute speed says nothing about
//! hardware; every report with it carries the label `emulated-module`. An optional rate limit makes
//! it slower. It accepts several batches; they wait while it works on one.
//!
//! With [`EmulatedOptions::direct`] the host copies nothing: the process reads texts from the
//! host's memory and writes answers there itself, as a device with direct memory access does. The
//! process then has the powers of a debugger. So direct access is for measurements, and off by
//! default.
//!
//! Keys of chunks pass through the ring. The process overwrites each message there as it reads it.
//! Both sides overwrite the keys in their own memory after a batch. The host overwrites the ring
//! after the process was killed.
//!
//! | message | words | bytes |
//! |---|---|---|
//! | to the module | 1, chunks, 1 with direct access | the chunks, encoded as in `request` |
//! | back | 2, chunks, nanoseconds of work | the answers in turn; none with direct access |

use super::gcm::RingGcm;
use super::module::{Answers, Module, ModuleError, Pipelined};
use super::reach::{self, Stretch};
use super::request::{Job, MOST_ABOUT_BYTES, Request, Text, decode, wipe_keys};
use super::worker::thread_cpu_ns;
use bytes::Bytes;
use rustix::process::{Signal, pidfd_send_signal};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tobari_aes::{AesKey, CbcMessage, encrypt_cbc_in_lanes};
use tobari_host::enclave::memory::Shared;
use tobari_host::enclave::process::{Fate, spawn};
use tobari_host::enclave::protocol::{HOST_PROCESS, TO_HOST, TO_INSIDE};
use tobari_host::enclave::ring::{Broken, Lane, Patience, Receiver, Sender};
use tobari_host::enclave::sandbox;
use tobari_seal::{Chunk, Gcm, Operation, Rooms};
use zeroize::Zeroize;

/// The hidden verb that starts this executable as a module.
pub const MODULE_VERB: &str = "module-emulated";

/// Bytes of each ring: three full batches, and many of short chunks.
const RING_BYTES: usize = 1 << 20;
/// The most bytes of a message.
const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// The self-test's chunks of each operation, and their bytes.
const TEST_CHUNKS: usize = 64;
const TEST_BYTES: usize = 256;
/// The longest time of its start.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a batch for which the process allocates memory at its start.
const BATCH_BYTES: usize = 512 << 10;
const SEAL: u64 = 1;
const SEALED: u64 = 2;
/// The largest gap between two texts that is read with them. Devices read whole lines of memory,
/// and the system takes as long for a separate stretch as for a kilobyte.
const READ_GAP: u64 = 64;
/// How often a module that stays awake polls for a batch before it sleeps: for some milliseconds.
/// Waking a process on another core costs the waking thread 10 µs.
const AWAKE_LOOKS: u32 = 200_000;
/// Counters of the control page that carry its settings.
const ENGINE: usize = 2;
const RATE: usize = 3;
const DELAY: usize = 4;
const CORE: usize = 5;
const DIRECT: usize = 6;
const AWAKE: usize = 7;

/// The process's implementation of CBC; GCM is always `ring`'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmulatedEngine {
    /// One chain after another, as the paper's module does.
    OneChain,
    /// Chains side by side, as the CPU engine does.
    SideBySide,
}

/// Properties of an emulated module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmulatedOptions {
    /// Its implementation of CBC.
    pub engine: EmulatedEngine,
    /// The most bytes in a second; 0 for no limit.
    pub bytes_per_second: u64,
    /// A delay added to each batch. With it, the three batches of the self-test must end within ten
    /// seconds.
    pub delay: Duration,
    /// The core that it runs on; any core if `None`.
    pub core: Option<usize>,
    /// The longest time for an answer.
    pub timeout: Duration,
    /// Whether it reads and writes the host's memory itself.
    pub direct: bool,
    /// Whether its driver polls for an answer for some microseconds before it sleeps. Turn it off
    /// if a CPU worker uses the driver's core.
    pub driver_looks: bool,
    /// Whether it polls for the next batch for some milliseconds before it sleeps, like a device,
    /// which never sleeps. Turn it on only if no other process uses its core.
    pub awake: bool,
}

impl Default for EmulatedOptions {
    fn default() -> Self {
        Self {
            engine: EmulatedEngine::SideBySide,
            bytes_per_second: 0,
            delay: Duration::ZERO,
            core: None,
            timeout: Duration::from_secs(2),
            direct: false,
            driver_looks: true,
            awake: false,
        }
    }
}

/// Kills a module's process, for tests and demonstrations.
pub struct Killer(OwnedFd);

impl Killer {
    /// Kills the process at once.
    pub fn kill(&self) {
        // Fails only if the process has ended already.
        let _ = pidfd_send_signal(&self.0, Signal::KILL);
    }
}

/// A batch in the process.
struct Pending {
    rooms: Rooms,
    /// Bytes of all answers.
    answer_bytes: usize,
    /// The most bytes of the request.
    bytes: usize,
}

/// The host's side of an emulated module.
pub struct Emulated {
    sender: Sender,
    receiver: Receiver,
    fate: Arc<Fate>,
    keeper: Option<JoinHandle<()>>,
    handle: OwnedFd,
    process: u32,
    timeout: Duration,
    direct: bool,
    awake: bool,
    shared: Arc<Shared>,
    request: Request,
    answers: Vec<u8>,
    /// Batches in the order of their answers. With direct access the process writes into their
    /// rooms, so they stay until it has answered or ended.
    pending: VecDeque<Pending>,
    dead: Option<ModuleError>,
}

impl Emulated {
    /// Starts the process: this executable with [`MODULE_VERB`]; its `main` must call
    /// [`run_module`]. When this returns, the process has passed its self-test.
    ///
    /// # Errors
    /// [`ModuleError`].
    pub fn start(options: &EmulatedOptions) -> Result<Self, ModuleError> {
        let start = |error: std::io::Error| ModuleError::Start(error.to_string());
        let (shared, file) = Shared::create(RING_BYTES).map_err(start)?;
        shared.touch();
        let shared = Arc::new(shared);
        let core = options.core.map_or(0, |core| core as u64 + 1);
        let delay = u64::try_from(options.delay.as_nanos()).unwrap_or(u64::MAX);
        let side_by_side = u64::from(options.engine == EmulatedEngine::SideBySide);
        let settings = [
            (ENGINE, side_by_side),
            (RATE, options.bytes_per_second),
            (DELAY, delay),
            (CORE, core),
            (DIRECT, u64::from(options.direct)),
            (AWAKE, u64::from(options.awake)),
            (HOST_PROCESS, u64::from(std::process::id())),
        ];
        for (place, value) in settings {
            shared.counter(place).store(value, SeqCst);
        }
        let fate = Arc::new(Fate::default());
        let (keeper, process, handle) = spawn(MODULE_VERB, file, &shared, &fate).map_err(start)?;
        if options.direct {
            reach::let_in(process);
        }
        let mut receiver = Receiver::new(shared.clone(), Lane(TO_HOST), MAX_MESSAGE_BYTES);
        if !options.driver_looks {
            receiver.looks = 0;
        }
        let mut sender = Sender::new(shared.clone(), Lane(TO_INSIDE));
        sender.clock = Some(thread_cpu_ns);
        let mut module = Self {
            sender,
            receiver,
            fate,
            keeper: Some(keeper),
            handle,
            process,
            timeout: options.timeout.max(START_TIMEOUT),
            direct: options.direct,
            awake: options.awake,
            shared,
            request: Request::default(),
            answers: Vec::new(),
            pending: VecDeque::new(),
            dead: None,
        };
        module.test()?;
        module.timeout = options.timeout;
        Ok(module)
    }

    /// The identifier of its process.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// A handle to kill the process at any time, like an accident.
    ///
    /// # Errors
    /// The system's error if it has no more descriptors.
    pub fn killer(&self) -> std::io::Result<Killer> {
        self.handle.try_clone().map(Killer)
    }

    fn kill(&mut self) {
        // Fails only if the process has ended already.
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
            self.shared.wipe(); // no process reads it any more
        }
    }

    fn fail(&mut self, broken: Broken) -> ModuleError {
        self.kill();
        let error = match broken {
            Broken::Gone => ModuleError::Gone(self.fate.how()),
            Broken::TimedOut => ModuleError::TimedOut(self.timeout.as_millis()),
            Broken::Malformed => ModuleError::Malformed,
        };
        self.dead = Some(error.clone());
        self.pending.clear();
        error
    }

    /// Sends the request; `text` returns the text of a chunk by its number.
    fn send<'a>(&mut self, text: impl Fn(usize) -> &'a [u8]) -> Result<(), Broken> {
        let patience = Patience::Until(Instant::now() + self.timeout, &self.fate.ended);
        let words = [SEAL, self.request.count() as u64, u64::from(self.direct)];
        let sent = self.sender.send_parts(words, self.request.all_bytes(), self.request.parts(|at| text(at)), patience);
        self.request.wipe();
        sent
    }

    fn receive(&mut self, pending: &mut Pending) -> Result<u64, Broken> {
        let fate = self.fate.clone();
        let patience = Patience::Until(Instant::now() + self.timeout, &fate.ended);
        let expected = if self.direct { 0 } else { pending.answer_bytes };
        let (words, found) = match pending.rooms.all_answers().filter(|_| !self.direct) {
            // Directly into the buffer of the results.
            Some(all) => (self.receiver.receive(all, patience)?, all.len()),
            None => (self.receiver.receive(&mut self.answers, patience)?, self.answers.len()),
        };
        let [SEALED, count, device_ns] = words else { return Err(Broken::Malformed) };
        if count != pending.rooms.count() as u64 || found != expected {
            return Err(Broken::Malformed);
        }
        if !self.direct && pending.rooms.all_answers().is_none() {
            let mut rest = self.answers.as_slice();
            for answer in pending.rooms.answers() {
                let (mine, after) = rest.split_at_checked(answer.len()).ok_or(Broken::Malformed)?;
                answer.copy_from_slice(mine);
                rest = after;
            }
        }
        Ok(device_ns)
    }

    /// The process's answers to GCM with arbitrary nonces and associated data, for tests with known
    /// answers. Each record has key, nonce and associated data, and the text.
    ///
    /// # Errors
    /// As [`Module::seal`].
    #[doc(hidden)]
    pub fn known_answers(&mut self, records: &[([&[u8]; 3], &[u8])]) -> Result<Vec<Bytes>, ModuleError> {
        self.answer(Operation::Gcm, records)
    }

    fn answer(&mut self, operation: Operation, records: &[([&[u8]; 3], &[u8])]) -> Result<Vec<Bytes>, ModuleError> {
        let about = |shorts: &[&[u8]; 3]| MOST_ABOUT_BYTES + shorts[2].len();
        self.request.begin(records.iter().map(|(shorts, text)| about(shorts) + text.len()).sum());
        let mut rooms = Rooms::for_answers(records.iter().map(|(_, text)| operation.answer_bytes(text.len())));
        for ((shorts, text), answer) in records.iter().zip(rooms.answers()) {
            let to = answer.as_mut_ptr().expose_provenance() as u64;
            let added = self.request.add_parts(operation, *shorts, text, self.direct.then_some(to));
            added.ok_or(ModuleError::Malformed)?;
        }
        let answer_bytes = rooms.answers().map(|answer| answer.len()).sum();
        self.pending.push_back(Pending { rooms, answer_bytes, bytes: self.request.all_bytes() });
        self.send(|at| records[at].1).map_err(|broken| self.fail(broken))?;
        Ok(self.end()?.rooms.into_answers())
    }

    /// The self-test: compares the process's answers for each operation with the CPU's. The process
    /// also touches all its memory here, so that later measurements do not include this.
    fn test(&mut self) -> Result<(), ModuleError> {
        let (key, nonce, plaintext) = ([0x5a; 32], [0xa5; 16], (0..TEST_BYTES).map(|at| at as u8).collect::<Vec<_>>());
        let aes = AesKey::new(&key).map_err(|_| ModuleError::Malformed)?;
        let mut chained = vec![0; Operation::CbcEncrypt.answer_bytes(TEST_BYTES)];
        let mut message =
            [CbcMessage::new(&aes, &nonce, &plaintext, &mut chained).map_err(|_| ModuleError::Malformed)?];
        encrypt_cbc_in_lanes(&mut message, |_| 1);
        let mut counted = plaintext.clone();
        let tag = RingGcm.seal(&key, &[0xa5; 12], &[1; 32], &mut counted);
        counted.extend_from_slice(&tag);
        let mut asks = |operation, nonce: &[u8], data: &[u8], text: &[u8], expected: &[u8]| {
            let found = self.answer(operation, &[([&key, nonce, data], text); TEST_CHUNKS])?;
            let right = found.iter().all(|answer| answer.starts_with(expected));
            if right { Ok(()) } else { Err(ModuleError::Wrong) }
        };
        asks(Operation::CbcEncrypt, &nonce, &[], &plaintext, &chained)?;
        asks(Operation::CbcDecrypt, &nonce, &[], &chained, &plaintext)?;
        asks(Operation::Gcm, &nonce[..12], &[1; 32], &plaintext, &counted)
    }

    /// Builds the request, and room for its answers.
    fn prepare(&mut self, chunks: &[&Chunk]) -> Option<Pending> {
        let bytes = message_bytes(chunks);
        self.request.begin(bytes);
        let (mut rooms, mut answer_bytes) = (Rooms::new(chunks)?, 0);
        for (chunk, answer) in chunks.iter().zip(rooms.answers()) {
            let to = answer.as_mut_ptr().expose_provenance() as u64;
            self.request.add(&chunk.for_module()?, self.direct.then_some(to))?;
            answer_bytes += answer.len();
        }
        Some(Pending { rooms, answer_bytes, bytes })
    }
}

fn message_bytes(chunks: &[&Chunk]) -> usize {
    chunks.iter().map(|chunk| chunk.bytes() + MOST_ABOUT_BYTES).sum()
}

impl Pipelined for Emulated {
    /// Whether all pending messages and these chunks fit into the ring, and their answers, too. So
    /// neither side ever waits for the other to read.
    fn fits(&self, chunks: &[&Chunk]) -> bool {
        let pending: usize = self.pending.iter().map(|pending| pending.bytes).sum();
        pending + message_bytes(chunks) <= RING_BYTES - RING_BYTES / 8
    }

    fn begin(&mut self, chunks: &[&Chunk]) -> Result<u64, ModuleError> {
        if let Some(error) = &self.dead {
            return Err(error.clone());
        }
        let pending = self.prepare(chunks).ok_or(ModuleError::Malformed)?;
        self.pending.push_back(pending);
        let before = self.sender.woken;
        self.send(|at| chunks[at].input()).map_err(|broken| self.fail(broken))?;
        Ok(if self.awake { self.sender.woken - before } else { 0 })
    }

    fn is_done(&self, within: Duration) -> bool {
        let answer = if self.direct { 0 } else { self.pending.front().map_or(0, |pending| pending.answer_bytes) };
        let ended = self.dead.is_some() || self.fate.ended.load(SeqCst) || self.receiver.has_message(answer);
        let wait = || self.receiver.wait(Patience::Until(Instant::now() + within, &self.fate.ended));
        // A process that has ended counts as done: `end` returns the error.
        ended || !within.is_zero() && !matches!(wait(), Err(Broken::TimedOut))
    }

    fn end(&mut self) -> Result<Answers, ModuleError> {
        if let Some(error) = &self.dead {
            return Err(error.clone());
        }
        let mut pending = self.pending.pop_front().ok_or(ModuleError::Malformed)?;
        match self.receive(&mut pending) {
            Ok(ns) => Ok(Answers { rooms: pending.rooms, device_ns: Some(ns) }),
            Err(broken) => {
                // Put back: the rooms must stay until the process has ended.
                self.pending.push_front(pending);
                Err(self.fail(broken))
            }
        }
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
        // Neither the request nor the answer may be longer than the ring; else `is_done` could not
        // detect an answer.
        let ring = RING_BYTES - RING_BYTES / 8 - 2 * MOST_ABOUT_BYTES;
        chunk.bytes() < if self.direct { MAX_MESSAGE_BYTES / 16 } else { ring }
    }

    fn seal(&mut self, chunks: &[&Chunk]) -> Result<Rooms, ModuleError> {
        self.begin(chunks)?;
        Ok(self.end()?.rooms)
    }

    fn pipelined(&mut self) -> Option<&mut dyn Pipelined> {
        Some(self)
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        self.kill();
        self.answers.zeroize(); // the last batch
    }
}

/// Runs this process as a module: answers its host until the host ends.
///
/// Call this first in `main`, before any thread is started, if this process was started with
/// [`MODULE_VERB`].
pub fn run_module() -> ExitCode {
    match serve() {
        Some(()) => ExitCode::SUCCESS,
        None => ExitCode::FAILURE, // the host reads only the status
    }
}

fn serve() -> Option<()> {
    let shared = Arc::new(Shared::attach(std::io::stdin()).ok()?);
    shared.touch();
    let setting = |place| shared.counter(place).load(SeqCst);
    let host = setting(HOST_PROCESS);
    sandbox::die_with_parent(host);
    if let Some(core) = setting(CORE).checked_sub(1) {
        let mut cores = rustix::thread::CpuSet::new();
        cores.set(usize::try_from(core).ok().filter(|core| *core < rustix::thread::CpuSet::MAX_CPU)?);
        // Without permission to choose a core, it runs on any.
        let _ = rustix::thread::sched_setaffinity(None, &cores);
    }
    let host = (setting(DIRECT) == 1).then_some(i32::try_from(host).ok()?);
    let mut engine = Engine { lanes: if setting(ENGINE) == 1 { None } else { Some(1) }, host, ..Engine::default() };
    let (rate, delay) = (setting(RATE), Duration::from_nanos(setting(DELAY)));
    let mut receiver = Receiver::new(shared.clone(), Lane(TO_INSIDE), MAX_MESSAGE_BYTES);
    receiver.wipes = true;
    if setting(AWAKE) == 1 {
        receiver.looks = AWAKE_LOOKS;
    }
    let mut sender = Sender::new(shared, Lane(TO_HOST));
    // The driver has other work, so it is not woken for every piece of an answer.
    sender.wakes_early = false;
    let (mut request, mut copying) = (touched(BATCH_BYTES), 0.0);
    (engine.texts, engine.answers) = (touched(BATCH_BYTES), touched(BATCH_BYTES));
    loop {
        receiver.wait(Patience::Endless).ok()?;
        let began = Instant::now();
        let [SEAL, count, _] = receiver.receive(&mut request, Patience::Endless).ok()? else { return None };
        let bytes = engine.work(&request, count)?;
        wipe_keys(&mut request, engine.host.is_some());
        let least = if rate == 0 { 0.0 } else { bytes as f64 / rate as f64 };
        // Waits by computing: a module does not sleep while it has work.
        while began.elapsed() < delay + Duration::from_secs_f64(least) {
            std::hint::spin_loop();
        }
        let reply: &[u8] = if engine.host.is_some() { &[] } else { &engine.answers };
        // Adds the time to copy the answer, estimated from the last copy: the real time is known
        // only later.
        let (done, took) = (Instant::now(), began.elapsed().as_nanos() as f64 + copying * reply.len() as f64);
        sender.send([SEALED, count, took as u64], reply, Patience::Endless).ok()?;
        if !reply.is_empty() {
            copying = done.elapsed().as_nanos() as f64 / reply.len() as f64;
        }
    }
}

/// An empty buffer whose pages were all touched.
fn touched(bytes: usize) -> Vec<u8> {
    let mut buffer = vec![1; bytes];
    buffer.clear();
    buffer
}

/// The engine of the process.
#[derive(Default)]
struct Engine {
    lanes: Option<usize>,
    /// The host, with direct access to its memory.
    host: Option<i32>,
    texts: Vec<u8>,
    /// Answers to the last request, one after another.
    answers: Vec<u8>,
}

impl Engine {
    /// Processes all chunks of a request, and returns the bytes of their texts.
    fn work(&mut self, mut request: &[u8], count: u64) -> Option<usize> {
        let direct = self.host.is_some();
        let mut last = None;
        let jobs: Vec<Job<'_>> = (0..count).map(|_| decode(&mut request, direct, &mut last)).collect::<Option<_>>()?;
        let bytes: usize = jobs.iter().map(|job| job.text_bytes).sum();
        if !request.is_empty() || bytes > MAX_MESSAGE_BYTES {
            return None;
        }
        self.answers.resize(jobs.iter().map(|job| job.operation.answer_bytes(job.text_bytes)).sum(), 0);
        let Some(host) = self.host else {
            let texts: Vec<&[u8]> =
                jobs.iter().map(|job| if let Text::Here(text) = job.text { text } else { &[] }).collect();
            compute(&jobs, &texts, self.lanes, &mut self.answers)?;
            return Some(bytes);
        };
        let (mut from, mut to, mut places) = (Vec::<Stretch>::new(), Vec::new(), Vec::new());
        let mut fetched = 0;
        for job in &jobs {
            let Text::There(text, answer) = job.text else { return None };
            fetched += reach::go_on(&mut from, (text, job.text_bytes), READ_GAP)?;
            places.push(fetched - job.text_bytes..fetched);
            reach::go_on(&mut to, (answer, job.operation.answer_bytes(job.text_bytes)), 0)?;
        }
        self.texts.resize(fetched, 0);
        reach::fetch(host, &from, &mut self.texts).ok()?;
        let texts = places.into_iter().map(|place| self.texts.get(place)).collect::<Option<Vec<_>>>()?;
        compute(&jobs, &texts, self.lanes, &mut self.answers)?;
        reach::deliver(host, &self.answers, &to).ok()?;
        Some(bytes)
    }
}

/// Writes each job's answer, one after another. Consecutive jobs with one key share its expansion.
fn compute(jobs: &[Job<'_>], texts: &[&[u8]], lanes: Option<usize>, mut answers: &mut [u8]) -> Option<()> {
    let mut keys: Vec<(&[u8], AesKey)> = Vec::new();
    let mut key_of = Vec::with_capacity(jobs.len());
    for job in jobs {
        if job.operation != Operation::Gcm && keys.last().is_none_or(|(bytes, _)| *bytes != job.key) {
            keys.push((job.key, AesKey::new(job.key).ok()?));
        }
        key_of.push(keys.len().checked_sub(1));
    }
    let (mut messages, mut longest) = (Vec::with_capacity(jobs.len()), 0);
    for ((job, text), key) in jobs.iter().zip(texts).zip(key_of) {
        let (answer, rest) =
            std::mem::take(&mut answers).split_at_mut_checked(job.operation.answer_bytes(text.len()))?;
        answers = rest;
        let key = || Some(&keys.get(key?)?.1);
        match job.operation {
            Operation::CbcEncrypt => {
                longest = longest.max(text.len());
                messages.push(CbcMessage::new(key()?, job.nonce.try_into().ok()?, text, answer).ok()?);
            }
            Operation::CbcDecrypt => key()?.decrypt_cbc(job.nonce.try_into().ok()?, text, answer).ok()?,
            Operation::Gcm => {
                let (out, tag) = answer.split_at_mut_checked(text.len())?;
                out.copy_from_slice(text);
                let found = RingGcm.seal(job.key.try_into().ok()?, job.nonce.try_into().ok()?, job.data, out);
                tag.copy_from_slice(&found);
            }
        }
    }
    encrypt_cbc_in_lanes(&mut messages, |kernels| lanes.unwrap_or_else(|| kernels.lanes(longest)));
    Some(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::super::request::fuzz_requests;
    use super::*;

    /// Fields of NIST's known answers for GCM: key, nonce, associated data, plaintext, ciphertext,
    /// tag.
    fn nist() -> Vec<Vec<Vec<u8>>> {
        let bytes = |hex: &str| {
            let digits = hex.trim_matches('-').as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
            digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
        };
        let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../vectors/aes/nist.txt"));
        let text = text.unwrap();
        text.lines().filter_map(|line| Some(line.strip_prefix("gcm ")?.split(' ').map(bytes).collect())).collect()
    }

    fn request(records: &[Vec<Vec<u8>>]) -> Vec<u8> {
        let mut out = Request::default();
        for record in records {
            out.add_parts(Operation::Gcm, [&record[0][..], &record[1], &record[2]], &record[3], None).unwrap();
        }
        let padded = |part: &[u8]| [part, &[0; 8][..part.len().wrapping_neg() % 8]].concat();
        out.parts(|at| &records[at][3]).flat_map(padded).collect()
    }

    #[test]
    fn the_engine_of_a_module_gives_nists_answers_of_gcm_and_no_key_is_left_in_the_request() {
        let (records, mut engine) = (nist(), Engine::default());
        assert_eq!(records.len(), 150);
        for some in records.chunks(40) {
            let mut request = request(some);
            engine.work(&request, some.len() as u64).unwrap();
            let expected: Vec<u8> = some.iter().flat_map(|record| [&record[4][..], &record[5]].concat()).collect();
            assert!(engine.answers == expected);
            let has = |request: &[u8], key: &[u8]| request.windows(key.len()).any(|window| window == key);
            assert!(some.iter().all(|record| has(&request, &record[0])));
            wipe_keys(&mut request, false);
            assert!(!some.iter().any(|record| has(&request, &record[0])));
        }
    }

    #[test]
    fn long_texts_stay_where_they_are_until_they_are_sent_and_chunks_of_one_file_have_one_key_in_a_request() {
        let (keys, texts) =
            ([[1; 32], [2; 32]], [vec![3; 5000], vec![4; 5], vec![5; 4096], vec![6; 4095], vec![7; 77]]);
        let (mut asked, mut engine) = (Request::default(), Engine::default());
        asked.begin(20_000);
        for (at, text) in texts.iter().enumerate() {
            asked.add_parts(Operation::CbcEncrypt, [&keys[at / 3], &[at as u8; 16], &[]], text, None).unwrap();
        }
        let parts: Vec<&[u8]> = asked.parts(|at| &texts[at]).collect();
        assert!(parts.iter().any(|part| std::ptr::eq(part.as_ptr(), texts[0].as_ptr())), "not copied");
        let padded = |part: &&[u8]| [*part, &[0; 8][..part.len().wrapping_neg() % 8]].concat();
        let mut request: Vec<u8> = parts.iter().flat_map(padded).collect();
        assert_eq!((asked.count(), asked.all_bytes()), (5, request.len()));
        let keys_in =
            |request: &[u8]| request.windows(32).filter(|window| keys.contains((*window).try_into().unwrap())).count();
        assert_eq!(keys_in(&request), 2);
        assert_eq!(engine.work(&request, 5), Some(5000 + 5 + 4096 + 4095 + 77));
        let mut answers = engine.answers.as_slice();
        for (at, text) in texts.iter().enumerate() {
            let mut expected = vec![0; Operation::CbcEncrypt.answer_bytes(text.len())];
            let (key, iv) = (AesKey::new(&keys[at / 3]).unwrap(), [at as u8; 16]);
            encrypt_cbc_in_lanes(&mut [CbcMessage::new(&key, &iv, text, &mut expected).unwrap()], |_| 1);
            assert!(answers.split_off(..expected.len()).unwrap() == expected, "{at}");
        }
        assert!(answers.is_empty() && engine.work(&request, 6).is_none());
        wipe_keys(&mut request, false);
        asked.wipe();
        assert_eq!((keys_in(&request), keys_in(&asked.parts(|_| &[]).flatten().copied().collect::<Vec<_>>())), (0, 0));
    }

    #[test]
    fn a_process_that_is_no_module_is_none() {
        // This executable again; its `main` is that of the tests.
        let started = Emulated::start(&EmulatedOptions::default());
        assert!(matches!(started, Err(ModuleError::Gone(_) | ModuleError::Start(_))), "{:?}", started.err());
    }

    #[test]
    fn any_bytes_are_requests_of_which_keys_alone_are_wiped() {
        let good = request(&nist()[..2]);
        for place in 0..good.len() {
            for change in [0, 1, 0x7f, 0xff] {
                let mut changed = good.clone();
                changed[place] = change;
                fuzz_requests(&changed);
                fuzz_requests(&changed[..place]);
            }
        }
    }
}
