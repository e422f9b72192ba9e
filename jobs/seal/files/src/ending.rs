//! The last system calls for each whole file, on separate threads.

use super::FileProblem;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// The most files that wait for their end. Until then they are in memory, except large ones.
const WAITING: usize = 64;
/// The most threads: they wait for one another in the file system.
const MAX_THREADS: usize = 4;

/// The remaining work at the end of a file.
pub(super) type Rest<T> = Box<dyn FnOnce() -> Result<T, FileProblem> + Send>;

/// How a file ends.
pub(super) enum Ending<T> {
    /// The file has ended.
    Now(T),
    /// The file ends after this work, on any thread.
    Later(Rest<T>),
}

impl<T> Ending<T> {
    /// Does the remaining work on this thread.
    pub(super) fn now(self) -> Result<T, FileProblem> {
        match self {
            Self::Now(output) => Ok(output),
            Self::Later(rest) => rest(),
        }
    }
}

type Ended<T> = (u32, Result<T, FileProblem>);

/// Threads and their queue. Dropping waits for the work in progress, and abandons the queue.
pub(super) struct Endings<T> {
    work: Option<SyncSender<(u32, Rest<T>)>>,
    done: Option<Receiver<Ended<T>>>,
    open: HashSet<u32>,
    stopped: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl<T: Send + 'static> Endings<T> {
    /// Starts no thread yet.
    pub(super) fn new() -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        Self { work: None, done: None, open: HashSet::new(), stopped, threads: Vec::new() }
    }

    /// Whether the end of this file is still in progress.
    pub(super) fn has(&self, file: u32) -> bool {
        self.open.contains(&file)
    }

    /// Queues the work for a thread, or does it here without threads. Waits for room. Adds files
    /// that have ended meanwhile to `ended`.
    pub(super) fn add(&mut self, file: u32, rest: Rest<T>, ended: &mut Vec<Ended<T>>) {
        self.start();
        let Some(work) = self.work.as_ref().filter(|_| !self.threads.is_empty()) else {
            return ended.push((file, rest()));
        };
        self.open.insert(file);
        if let Err(failed) = work.send((file, rest)) {
            self.open.remove(&file);
            ended.push((file, failed.0.1()));
        }
        self.take(ended);
    }

    fn start(&mut self) {
        if self.work.is_some() {
            return;
        }
        let (work, queue) = sync_channel(WAITING);
        let (results, done) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..(tobari_host::threads::available() / 2).clamp(1, MAX_THREADS) {
            let (queue, results, stopped) = (queue.clone(), results.clone(), self.stopped.clone());
            let thread = std::thread::Builder::new().name("files".to_owned());
            // Without threads, `add` does the work.
            self.threads.extend(thread.spawn(move || work_on(&queue, &results, &stopped)).ok());
        }
        (self.work, self.done) = (Some(work), Some(done));
    }

    /// Adds files that have ended since the last call.
    pub(super) fn take(&mut self, ended: &mut Vec<Ended<T>>) {
        for result in self.done.iter().flat_map(Receiver::try_iter) {
            self.open.remove(&result.0);
            ended.push(result);
        }
    }

    /// Waits for all files.
    pub(super) fn take_all(&mut self, ended: &mut Vec<Ended<T>>) {
        while !self.open.is_empty() {
            let Some(Ok(result)) = self.done.as_ref().map(Receiver::recv) else { return };
            self.open.remove(&result.0);
            ended.push(result);
        }
    }
}

fn work_on<T>(queue: &Mutex<Receiver<(u32, Rest<T>)>>, results: &Sender<Ended<T>>, stopped: &AtomicBool) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((file, rest)) = next else { return };
        if stopped.load(Ordering::Relaxed) || results.send((file, rest())).is_err() {
            return;
        }
    }
}

impl<T> Drop for Endings<T> {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.work = None;
        for thread in self.threads.drain(..) {
            // A panic was already reported by its thread.
            let _ = thread.join();
        }
    }
}
