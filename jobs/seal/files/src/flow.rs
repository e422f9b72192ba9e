//! Many files in the engines at once.
//!
//! Most files are small, and waking a thread costs more than sealing a small file. So chunks are
//! handed over many at a time. Other threads do the last steps of each file (writing its bytes,
//! giving it its name), while this thread reads the next files.

use super::FileProblem;
use super::ending::{Ending, Endings};
use crate::dispatch::{Made, Pool};
use bytes::Bytes;
use rand_core::CryptoRng;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use tobari_seal::Chunk;

/// The most files open at once.
const MAX_OPEN: usize = 128;
/// The number of chunks, and of their bytes, that are handed over together.
const TOGETHER: usize = 32;
const TOGETHER_BYTES: usize = 256 << 10;
/// The most bytes of results that wait for an earlier result of their file, without results still
/// in the engines.
const MAX_HELD: usize = 8 << 20;
/// A result of at least this length fills a quarter or more of its batch's buffer.
const SHORT: usize = 64 << 10;

/// The use of one file's results.
pub(super) trait Job {
    /// The result of a whole file.
    type Output: Send + 'static;

    /// The name for messages.
    fn path(&self) -> PathBuf;

    /// Takes the next result, in order.
    fn take(&mut self, bytes: &[u8]) -> Result<(), FileProblem>;

    /// Ends the file, after all results.
    fn end(self, rng: &mut dyn CryptoRng) -> Result<Ending<Self::Output>, FileProblem>;
}

struct Running<J> {
    job: J,
    next: u32,
    /// Results that arrived before their turn, failures too: all bytes before the damage of a
    /// stream are written.
    held: BTreeMap<u32, Made>,
    /// The number of chunks, once known.
    count: Option<u32>,
}

/// Files in the engines.
pub(super) struct Flow<'a, J: Job> {
    pool: &'a Pool,
    running: HashMap<u32, Running<J>>,
    next: u32,
    held_bytes: usize,
    /// Chunks not handed over yet.
    waiting: Vec<(u64, Chunk)>,
    waiting_bytes: usize,
    endings: Endings<J::Output>,
    ended: Vec<(u32, Result<J::Output, FileProblem>)>,
}

impl<'a, J: Job> Flow<'a, J> {
    pub(super) fn new(pool: &'a Pool) -> Self {
        Self {
            pool,
            running: HashMap::new(),
            next: 0,
            held_bytes: 0,
            waiting: Vec::new(),
            waiting_bytes: 0,
            endings: Endings::new(),
            ended: Vec::new(),
        }
    }

    /// Begins a file, and returns its number.
    pub(super) fn begin(&mut self, job: J, rng: &mut dyn CryptoRng) -> u32 {
        while self.running.len() >= MAX_OPEN && self.pump(rng) {}
        let number = self.next;
        self.next += 1;
        self.running.insert(number, Running { job, next: 0, held: BTreeMap::new(), count: None });
        number
    }

    /// Takes a number for a file that needs no engine.
    pub(super) fn skip(&mut self, output: Result<J::Output, FileProblem>) {
        self.ended.push((self.next, output));
        self.next += 1;
    }

    /// The last number given out.
    pub(super) fn last_number(&self) -> u32 {
        self.next.saturating_sub(1)
    }

    /// The count of numbers given out.
    pub(super) fn numbers(&self) -> u32 {
        self.next
    }

    /// Whether the file is still running, without a failure.
    pub(super) fn is_running(&self, file: u32) -> bool {
        self.running.contains_key(&file) || self.endings.has(file)
    }

    pub(super) fn job(&mut self, file: u32) -> Option<&mut J> {
        self.running.get_mut(&file).map(|running| &mut running.job)
    }

    /// Submits a chunk to the engines; takes results while there is no room.
    pub(super) fn submit(&mut self, file: u32, chunk: Chunk, rng: &mut dyn CryptoRng) {
        let ticket = u64::from(file) << 32 | u64::from(chunk.number());
        while self.held_bytes > MAX_HELD && self.pump(rng) {}
        self.waiting_bytes += chunk.bytes();
        self.waiting.push((ticket, chunk));
        if self.waiting.len() >= TOGETHER || self.waiting_bytes >= TOGETHER_BYTES {
            self.hand_over(rng);
        }
    }

    /// Hands over the submitted chunks.
    fn hand_over(&mut self, rng: &mut dyn CryptoRng) {
        self.waiting_bytes = 0;
        let mut chunks = std::mem::take(&mut self.waiting).into_iter().peekable();
        loop {
            self.pool.submit_all(&mut chunks);
            if chunks.peek().is_none() {
                break;
            }
            if !self.receive(rng) {
                return; // the pool has no results and takes no chunks: it is closed
            }
        }
        while let Some(finished) = self.pool.take() {
            self.deliver(finished, rng);
        }
    }

    /// Notes that all chunks of this file were submitted.
    pub(super) fn all(&mut self, file: u32, count: u32, rng: &mut dyn CryptoRng) {
        if let Some(running) = self.running.get_mut(&file) {
            running.count = Some(count);
        }
        self.end_if_whole(file, rng);
    }

    /// Gives up the file: removes its temporary file, and drops its later results.
    pub(super) fn give_up(&mut self, file: u32) {
        if let Some(running) = self.running.remove(&file) {
            self.held_bytes -= running.held.values().flatten().map(Bytes::len).sum::<usize>();
        }
    }

    /// Fails the file.
    pub(super) fn fail(&mut self, file: u32, problem: FileProblem) {
        self.give_up(file);
        self.ended.push((file, Err(problem)));
    }

    /// Files that have ended since the last call.
    pub(super) fn take_ended(&mut self) -> Vec<(u32, Result<J::Output, FileProblem>)> {
        self.endings.take(&mut self.ended);
        std::mem::take(&mut self.ended)
    }

    /// Waits for all results.
    pub(super) fn drain(&mut self, rng: &mut dyn CryptoRng) {
        while self.pump(rng) {}
        self.endings.take_all(&mut self.ended);
    }

    /// Waits for a result; false if none is due.
    fn pump(&mut self, rng: &mut dyn CryptoRng) -> bool {
        self.hand_over(rng);
        self.receive(rng)
    }

    fn receive(&mut self, rng: &mut dyn CryptoRng) -> bool {
        let finished = self.pool.wait();
        finished.map(|finished| self.deliver(finished, rng)).is_some()
    }

    fn deliver(&mut self, (ticket, result): crate::dispatch::Finished, rng: &mut dyn CryptoRng) {
        let (file, number) = ((ticket >> 32) as u32, ticket as u32);
        let Some(running) = self.running.get_mut(&file) else { return };
        self.held_bytes += result.as_ref().map_or(0, Bytes::len);
        // A waiting result keeps the buffer of its whole batch: too much for a short result.
        let result = result.map(|bytes| match number != running.next && bytes.len() < SHORT {
            true => Bytes::copy_from_slice(&bytes),
            false => bytes,
        });
        running.held.insert(number, result);
        let mut taken = Ok(());
        while let (Ok(()), Some(result)) = (&taken, running.held.remove(&running.next)) {
            running.next += 1;
            taken = match result {
                Ok(bytes) => {
                    self.held_bytes -= bytes.len();
                    running.job.take(&bytes)
                }
                Err(source) => Err(FileProblem::Seal { name: running.job.path().display().to_string(), source }),
            };
        }
        match taken {
            Ok(()) => self.end_if_whole(file, rng),
            Err(problem) => self.fail(file, problem),
        }
    }

    fn end_if_whole(&mut self, file: u32, rng: &mut dyn CryptoRng) {
        let whole = self.running.get(&file).is_some_and(|running| running.count == Some(running.next));
        if !whole {
            return;
        }
        if let Some(running) = self.running.remove(&file) {
            match running.job.end(rng) {
                Ok(Ending::Later(end)) => self.endings.add(file, end, &mut self.ended),
                Ok(Ending::Now(output)) => self.ended.push((file, Ok(output))),
                Err(problem) => self.ended.push((file, Err(problem))),
            }
        }
    }
}
