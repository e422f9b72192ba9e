//! The engine that moves pieces between memory and files, on its own threads.
//!
//! The store puts jobs into a [`Queue`] and takes finished jobs out. A ring's thread, or a few
//! plain threads, serve the queue. So transfers continue while the store's owner computes, without
//! calls to the store.

mod threads;
#[cfg_attr(linux_64, path = "uring.rs")]
#[cfg_attr(not(linux_64), path = "no_uring.rs")]
#[allow(unsafe_code)] // the kernel is given addresses
mod uring;

use super::block::Piece;
use super::{Choice, Kind, StoreError};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

pub(super) use threads::{Transfer, read_at, transfer, write_at};

/// One request: a piece of memory, a file, and an offset.
pub(super) struct Job {
    /// The store's operation that this job belongs to.
    pub(super) tag: u64,
    pub(super) kind: Kind,
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) piece: Piece,
    /// How often the system asked to try again.
    pub(super) retries: u32,
}

/// A job after its attempt, and the number of bytes transferred from its start.
pub(super) struct Done {
    pub(super) job: Job,
    pub(super) outcome: io::Result<usize>,
}

/// A queue, and the thread that serves it.
type Started = io::Result<(Arc<Queue>, JoinHandle<()>)>;

/// A running engine. Dropping it drops jobs that have not started, and waits for the others.
pub(super) struct Engine {
    queue: Arc<Queue>,
    workers: Vec<JoinHandle<()>>,
    uring: bool,
}

impl Engine {
    pub(super) fn start(choice: Choice, depth: usize, files: &Arc<[File]>) -> Result<Self, StoreError> {
        Self::start_with(choice, depth, files, uring::start, transfer)
    }

    /// Threads with the test's own transfers, which may fail.
    #[cfg(test)]
    pub(super) fn threads_with(depth: usize, files: &Arc<[File]>, transfer: impl Transfer) -> Result<Self, StoreError> {
        Self::start_with(Choice::Threads, depth, files, uring::start, transfer)
    }

    /// Starts with these functions for the ring and for the threads' transfers; tests pass failing
    /// ones.
    fn start_with(
        choice: Choice,
        depth: usize,
        files: &Arc<[File]>,
        ring: fn(usize, &Arc<[File]>) -> Started,
        transfer: impl Transfer,
    ) -> Result<Self, StoreError> {
        if choice != Choice::Threads {
            match ring(depth, files) {
                Ok((queue, worker)) => return Ok(Self { queue, workers: vec![worker], uring: true }),
                Err(source) if choice == Choice::IoUring => {
                    return Err(StoreError::Engine { name: "io_uring", source });
                }
                // Containers often deny io_uring, and old kernels lack it. Threads work without it.
                Err(_) => {}
            }
        }
        let mut engine = Self { queue: Arc::new(Queue::new(None)), workers: Vec::new(), uring: false };
        for _ in 0..depth {
            let worker = threads::spawn(&engine.queue, files, transfer.clone());
            engine.workers.push(worker.map_err(|source| StoreError::Engine { name: "threads", source })?);
        }
        Ok(engine)
    }

    pub(super) fn name(&self) -> &'static str {
        if self.uring { "io_uring" } else { "threads" }
    }

    pub(super) fn push(&self, jobs: impl Iterator<Item = Job>) {
        self.queue.push(jobs);
    }

    /// Jobs done since the last call. With `wait` at least one; some job must be running then.
    ///
    /// # Errors
    ///
    /// If the engine has stopped: running jobs are lost.
    pub(super) fn done(&self, wait: bool) -> Result<Vec<Done>, StoreError> {
        self.queue.done(wait).map_err(|source| StoreError::Engine { name: self.name(), source })
    }

    /// Returns the engine's error if it has stopped.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let broken = self.queue.lock().broken.as_ref().map(copy_of);
        broken.map_or(Ok(()), |source| Err(StoreError::Engine { name: self.name(), source }))
    }

    /// The most jobs in flight at once.
    pub(super) fn most_in_flight(&self) -> usize {
        self.queue.lock().most_in_flight
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.queue.close();
        for worker in self.workers.drain(..) {
            // A panic was already reported through the queue.
            let _ = worker.join();
        }
    }
}

/// The queue between the store and an engine's threads.
pub(super) struct Queue {
    state: Mutex<State>,
    /// Signals new jobs.
    work: Condvar,
    /// Signals finished jobs.
    finished: Condvar,
    /// Wakes a worker that does not wait on `work`.
    wake: Option<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Default)]
struct State {
    reads: VecDeque<Job>,
    writes: VecDeque<Job>,
    done: Vec<Done>,
    in_flight: usize,
    most_in_flight: usize,
    closed: bool,
    broken: Option<io::Error>,
}

impl State {
    /// Takes reads first: a computation may wait for a read, but only memory waits for a write.
    fn take(&mut self) -> Option<Job> {
        let job = self.reads.pop_front().or_else(|| self.writes.pop_front())?;
        self.in_flight += 1;
        self.most_in_flight = self.most_in_flight.max(self.in_flight);
        Some(job)
    }
}

impl Queue {
    fn new(wake: Option<Box<dyn Fn() + Send + Sync>>) -> Self {
        Self { state: Mutex::default(), work: Condvar::new(), finished: Condvar::new(), wake }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, jobs: impl Iterator<Item = Job>) {
        let mut state = self.lock();
        for job in jobs {
            match job.kind {
                Kind::Read => state.reads.push_back(job),
                Kind::Write => state.writes.push_back(job),
            }
        }
        drop(state);
        self.tell_workers();
    }

    fn done(&self, wait: bool) -> io::Result<Vec<Done>> {
        let mut state = self.lock();
        while wait && state.done.is_empty() && state.broken.is_none() {
            state = self.finished.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match &state.broken {
            Some(source) if state.done.is_empty() => Err(copy_of(source)),
            _ => Ok(std::mem::take(&mut state.done)),
        }
    }

    /// Waits for the next job of a worker; `None` once the queue is closed.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.take() {
                return Some(job);
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next job for a ring's thread, without waiting, and whether the queue is closed.
    #[cfg(linux_64)]
    fn try_next(&self) -> (Option<Job>, bool) {
        let mut state = self.lock();
        (state.take(), state.closed)
    }

    fn finish(&self, job: Job, outcome: io::Result<usize>) {
        let mut state = self.lock();
        state.in_flight -= 1;
        state.done.push(Done { job, outcome });
        drop(state);
        self.finished.notify_all();
    }

    /// Reports that a worker cannot continue, so that no caller waits for it.
    fn fail(&self, error: io::Error) {
        self.lock().broken.get_or_insert(error);
        self.finished.notify_all();
    }

    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let unstarted = (std::mem::take(&mut state.reads), std::mem::take(&mut state.writes));
        drop(state);
        // The blocks return to their pool here, outside the lock.
        drop(unstarted);
        self.tell_workers();
    }

    fn tell_workers(&self) {
        self.work.notify_all();
        if let Some(wake) = &self.wake {
            wake();
        }
    }
}

/// Reports a panic of the worker to the queue, so that no caller waits for ever.
struct Watch<'a>(&'a Queue);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(io::Error::other("a worker panicked"));
        }
    }
}

/// A copy of an error, for repeated reports: `io::Error` cannot be cloned.
fn copy_of(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Blocks;

    fn job(tag: u64, kind: Kind) -> Job {
        let piece = Piece::split(Blocks::new(1 << 20).take(1).unwrap(), 4096).next().unwrap();
        Job { tag, kind, file: 0, offset: 0, piece, retries: 0 }
    }

    #[test]
    fn reads_go_before_queued_writes() {
        let queue = Queue::new(None);
        let kinds = [Kind::Write, Kind::Read, Kind::Write, Kind::Read];
        queue.push((0..).zip(kinds).map(|(tag, kind)| job(tag, kind)));
        let order: Vec<u64> = std::iter::from_fn(|| queue.try_next().0).map(|job| job.tag).collect();
        assert_eq!(order, [1, 3, 0, 2]);
        assert_eq!(queue.lock().most_in_flight, 4);
    }

    #[test]
    fn where_a_ring_is_denied_threads_stand_in_unless_it_was_asked_for_by_name() {
        let files: Arc<[File]> = Arc::new([tempfile::tempfile().unwrap()]);
        let denied = |_: usize, _: &Arc<[File]>| Err(io::ErrorKind::PermissionDenied.into());
        let auto = Engine::start_with(Choice::Auto, 2, &files, denied, transfer).unwrap();
        assert_eq!(auto.name(), "threads");
        let named = Engine::start_with(Choice::IoUring, 2, &files, denied, transfer).map(|_| ());
        assert!(matches!(named, Err(StoreError::Engine { name: "io_uring", source })
            if source.kind() == io::ErrorKind::PermissionDenied));
    }

    #[test]
    fn a_worker_that_panics_ends_the_wait_with_an_error() {
        let files: Arc<[File]> = Arc::new([tempfile::tempfile().unwrap()]);
        let panics = |_: &File, _: &mut Job| -> io::Result<usize> { panic!("on purpose") };
        let engine = Engine::threads_with(1, &files, panics).unwrap();
        engine.push(std::iter::once(job(0, Kind::Read)));
        assert!(matches!(engine.done(true), Err(StoreError::Engine { .. })));
        assert!(engine.check().is_err());
    }
}
