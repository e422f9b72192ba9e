//! Many files on their way through the engines at once.
//!
//! Most files are small, and waking a thread costs more than sealing one: chunks are handed over
//! many at a time, and what makes a finished file of a whole one (its bytes written, its name
//! given) is done by other threads, beside the reading of the next ones.

use super::FileProblem;
use super::ending::{Ending, Endings};
use crate::dispatch::{Made, Pool};
use bytes::Bytes;
use rand_core::CryptoRng;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use tobari_seal::Chunk;

/// Files that are open at once, at most.
const MAX_OPEN: usize = 128;
/// Chunks, and bytes of them, that are handed over together.
const TOGETHER: usize = 32;
const TOGETHER_BYTES: usize = 256 << 10;
/// Bytes of results that wait for an earlier one of their file, at most, but for what is on its
/// way.
const MAX_HELD: usize = 8 << 20;
/// A result from this length on has a quarter of a batch's buffer or more.
const SHORT: usize = 64 << 10;

/// What becomes of the chunks of one file.
pub(super) trait Job {
    /// What is known when all are there.
    type Output: Send + 'static;

    /// The name for messages.
    fn path(&self) -> PathBuf;

    /// The next chunk, in order.
    fn take(&mut self, bytes: &[u8]) -> Result<(), FileProblem>;

    /// All were taken.
    fn end(self, rng: &mut dyn CryptoRng) -> Result<Ending<Self::Output>, FileProblem>;
}

struct Running<J> {
    job: J,
    next: u32,
    /// What came before its turn, failures too: of a damaged stream all that precedes the damage is
    /// written.
    held: BTreeMap<u32, Made>,
    /// How many chunks there are, when that is known.
    count: Option<u32>,
}

/// Files on their way.
pub(super) struct Flow<'a, J: Job> {
    pool: &'a Pool,
    running: HashMap<u32, Running<J>>,
    next: u32,
    held_bytes: usize,
    /// Not handed over yet.
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

    /// Begins a file; answers its number.
    pub(super) fn begin(&mut self, job: J, rng: &mut dyn CryptoRng) -> u32 {
        while self.running.len() >= MAX_OPEN && self.pump(rng) {}
        let number = self.next;
        self.next += 1;
        self.running.insert(number, Running { job, next: 0, held: BTreeMap::new(), count: None });
        number
    }

    /// A number for a file that needs no engine.
    pub(super) fn skip(&mut self, output: Result<J::Output, FileProblem>) {
        self.ended.push((self.next, output));
        self.next += 1;
    }

    /// The number that was given out last.
    pub(super) fn last_number(&self) -> u32 {
        self.next.saturating_sub(1)
    }

    /// Numbers that were given out.
    pub(super) fn numbers(&self) -> u32 {
        self.next
    }

    /// Whether the file is still on its way: nothing went wrong.
    pub(super) fn is_running(&self, file: u32) -> bool {
        self.running.contains_key(&file) || self.endings.has(file)
    }

    pub(super) fn job(&mut self, file: u32) -> Option<&mut J> {
        self.running.get_mut(&file).map(|running| &mut running.job)
    }

    /// A chunk for the engines; takes results while there is no room.
    pub(super) fn submit(&mut self, file: u32, chunk: Chunk, rng: &mut dyn CryptoRng) {
        let ticket = u64::from(file) << 32 | u64::from(chunk.number());
        while self.held_bytes > MAX_HELD && self.pump(rng) {}
        self.waiting_bytes += chunk.bytes();
        self.waiting.push((ticket, chunk));
        if self.waiting.len() >= TOGETHER || self.waiting_bytes >= TOGETHER_BYTES {
            self.hand_over(rng);
        }
    }

    /// Hands over what was submitted.
    fn hand_over(&mut self, rng: &mut dyn CryptoRng) {
        self.waiting_bytes = 0;
        let mut chunks = std::mem::take(&mut self.waiting).into_iter().peekable();
        loop {
            self.pool.submit_all(&mut chunks);
            if chunks.peek().is_none() {
                break;
            }
            if !self.receive(rng) {
                return; // the pool has nothing and takes nothing: it is closed
            }
        }
        while let Some(finished) = self.pool.take() {
            self.deliver(finished, rng);
        }
    }

    /// All chunks of this file were submitted.
    pub(super) fn all(&mut self, file: u32, count: u32, rng: &mut dyn CryptoRng) {
        if let Some(running) = self.running.get_mut(&file) {
            running.count = Some(count);
        }
        self.end_if_whole(file, rng);
    }

    /// The file is given up: its temporary file goes away, and what is still on its way is dropped
    /// when it comes.
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

    /// What has ended since.
    pub(super) fn take_ended(&mut self) -> Vec<(u32, Result<J::Output, FileProblem>)> {
        self.endings.take(&mut self.ended);
        std::mem::take(&mut self.ended)
    }

    /// Waits for all that is on its way.
    pub(super) fn drain(&mut self, rng: &mut dyn CryptoRng) {
        while self.pump(rng) {}
        self.endings.take_all(&mut self.ended);
    }

    /// Waits for a result; false if nothing is on its way.
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
        // What waits for its turn keeps the buffer of its whole batch: too much for a short one.
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
