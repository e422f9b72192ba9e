//! Transfers by Linux's io_uring: one thread, one ring.
//!
//! The thread waits in the kernel for the end of a transfer, or for a call of the queue. The queue
//! calls through an eventfd that the ring watches. Files are not registered with the ring:
//! registration helps small requests only, and an unlinked file would keep its space until the
//! kernel has freed the ring, some time after its end.

use super::{Job, Queue, Started, Watch};
use crate::store::Kind;
use io_uring::{IoUring, Probe, opcode, squeue, types};
use rustix::event::{EventfdFlags, eventfd};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Marks the completion of the queue's call, unlike those of transfers.
const CALL: u64 = u64::MAX;

/// `libc::POLLIN`, the same on every Linux.
const POLLIN: u32 = 1;

/// A ring that serves a new queue, if the system allows one that can read and write.
pub(super) fn start(depth: usize, files: &Arc<[File]>) -> Started {
    // One more entry for the call.
    let entries = u32::try_from(depth + 1).map_err(|_| io::ErrorKind::InvalidInput)?;
    let ring = IoUring::new(entries)?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    if ![opcode::Read::CODE, opcode::Write::CODE, opcode::PollAdd::CODE].iter().all(|&code| probe.is_supported(code)) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let call = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let caller = Arc::clone(&call);
    let wake = move || {
        // This fails only if the counter is full; then a call is pending already.
        let _ = rustix::io::write(&caller, &1_u64.to_ne_bytes());
    };
    let queue = Arc::new(Queue::new(Some(Box::new(wake))));
    let (served, files) = (Arc::clone(&queue), Arc::clone(files));
    let worker = thread::Builder::new().name("store".to_owned()).spawn(move || {
        let _watch = Watch(&served);
        let mut server = Server { flights: Flights::new(depth), ring, files, call, listens: false };
        if let Err(error) = server.serve(&served) {
            served.fail(error);
        }
    })?;
    Ok((queue, worker))
}

struct Server {
    // Before the ring, so that jobs in flight are dropped before it during unwinding.
    flights: Flights,
    ring: IoUring,
    files: Arc<[File]>,
    call: Arc<OwnedFd>,
    /// Whether the ring watches for the queue's call.
    listens: bool,
}

impl Server {
    /// Serves the queue until it is closed and nothing is in flight.
    fn serve(&mut self, queue: &Queue) -> io::Result<()> {
        loop {
            self.listen()?;
            if self.submit(queue)? && self.flights.is_empty() {
                return Ok(());
            }
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The kernel lacks memory or room for completions now; jobs in flight will free
                // some.
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy) => {
                    thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(error),
            }
            self.harvest(queue);
        }
    }

    /// Watches for the queue's call. An earlier call is not lost: the counter keeps it.
    fn listen(&mut self) -> io::Result<()> {
        if !self.listens {
            let entry = opcode::PollAdd::new(types::Fd(self.call.as_raw_fd()), POLLIN).build().user_data(CALL);
            // SAFETY: the entry names no memory, and the descriptor is open as long as this value,
            // which `serve` uses until nothing is in flight.
            unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
            self.listens = true;
        }
        Ok(())
    }

    /// Takes jobs while there is room, and returns whether the queue is closed.
    fn submit(&mut self, queue: &Queue) -> io::Result<bool> {
        while let Some(slot) = self.flights.room() {
            let (job, closed) = queue.try_next();
            let Some(job) = job else { return Ok(closed) };
            let entry = self.flights.board(slot, job, &self.files)?;
            // SAFETY: the entry's memory is the piece's alone, and `flights` holds the piece until
            // the kernel is done with it, for ever if need be. Its file is open as long as this
            // value.
            unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        }
        Ok(false)
    }

    fn harvest(&mut self, queue: &Queue) {
        for completion in self.ring.completion() {
            if completion.user_data() == CALL {
                // Resets the counter; its value does not matter.
                let _ = rustix::io::read(&self.call, &mut [0_u8; 8]);
                self.listens = false;
            } else if let Some(job) = self.flights.land(completion.user_data()) {
                let moved = usize::try_from(completion.result());
                queue.finish(job, moved.map_err(|_| io::Error::from_raw_os_error(-completion.result())));
            }
        }
    }
}

/// The jobs in the kernel. Jobs that remain when this is dropped are never freed: the kernel may
/// still write to their memory.
struct Flights(Vec<Option<Job>>);

impl Flights {
    fn new(depth: usize) -> Self {
        Self((0..depth).map(|_| None).collect())
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    fn room(&self) -> Option<usize> {
        self.0.iter().position(Option::is_none)
    }

    fn board(&mut self, slot: usize, mut job: Job, files: &[File]) -> io::Result<squeue::Entry> {
        let file = types::Fd(files[job.file].as_raw_fd());
        let length = u32::try_from(job.piece.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let (memory, offset) = (job.piece.address(), job.offset);
        let entry = match job.kind {
            Kind::Read => opcode::Read::new(file, memory, length).offset(offset).build(),
            Kind::Write => opcode::Write::new(file, memory, length).offset(offset).build(),
        };
        self.0[slot] = Some(job);
        Ok(entry.user_data(slot as u64))
    }

    fn land(&mut self, slot: u64) -> Option<Job> {
        self.0.get_mut(usize::try_from(slot).ok()?)?.take()
    }
}

impl Drop for Flights {
    fn drop(&mut self) {
        self.0.drain(..).for_each(std::mem::forget);
    }
}
