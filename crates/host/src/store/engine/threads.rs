//! Transfers by plain system calls on a few threads: on every system, also if io_uring is denied.

use super::{Job, Queue, Watch};
use crate::store::Kind;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// One attempt at a job; returns the bytes transferred.
pub(crate) trait Transfer: Fn(&File, &mut Job) -> io::Result<usize> + Clone + Send + 'static {}
impl<F: Fn(&File, &mut Job) -> io::Result<usize> + Clone + Send + 'static> Transfer for F {}

pub(crate) fn transfer(file: &File, job: &mut Job) -> io::Result<usize> {
    match job.kind {
        Kind::Read => read_at(file, job.piece.bytes_mut(), job.offset),
        Kind::Write => write_at(file, job.piece.bytes_mut(), job.offset),
    }
}

/// Starts a thread, for one request in flight.
pub(super) fn spawn(queue: &Arc<Queue>, files: &Arc<[File]>, transfer: impl Transfer) -> io::Result<JoinHandle<()>> {
    let (queue, files) = (Arc::clone(queue), Arc::clone(files));
    thread::Builder::new().name("store".to_owned()).spawn(move || {
        let _watch = Watch(&queue);
        while let Some(mut job) = queue.next() {
            let outcome = transfer(&files[job.file], &mut job);
            queue.finish(job, outcome);
        }
    })
}

#[cfg(unix)]
pub(crate) fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, into, offset)
}

#[cfg(unix)]
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, bytes, offset)
}

#[cfg(windows)]
pub(crate) fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, into, offset)
}

#[cfg(windows)]
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, offset)
}
