//! Messages over two pipes, for an enclave that cannot map its host's memory: under a library
//! operating system such as Gramine.
//!
//! A message has the same form as on a ring: four words (its length in bytes, and three of the
//! protocol) and its bytes. The host's ends do not block, so that the host can give up. The
//! enclave's ends block, and the enclave's input ends when the host ends.

use super::head;
use super::ring::{Broken, Patience};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio, read, write};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// The longest wait before checking whether the other side still exists.
const NAP: Duration = Duration::from_millis(100);

/// An end of a pipe: a host's own, or a process's standard input or output.
pub(super) type End = Box<dyn AsFd + Send>;

/// Makes the host's end of a pipe non-blocking.
pub(super) fn hosts(end: impl Into<OwnedFd>) -> io::Result<End> {
    let end = end.into();
    ioctl_fionbio(&end, true)?;
    Ok(Box::new(end))
}

/// Waits until there is something to read, or room to write. In the enclave it returns at once:
/// there, the call itself blocks.
fn wait(end: &End, what: PollFlags, patience: Patience<'_>) -> Result<(), Broken> {
    let Patience::Until(deadline, gone) = patience else { return Ok(()) };
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let nap = Timespec::try_from(left.min(NAP)).map_err(|_| Broken::Malformed)?;
        match poll(&mut [PollFd::new(&end.as_fd(), what)], Some(&nap)) {
            Ok(0) | Err(Errno::INTR) if gone.load(SeqCst) => return Err(Broken::Gone),
            Ok(0) | Err(Errno::INTR) if left.is_zero() => return Err(Broken::TimedOut),
            Ok(0) | Err(Errno::INTR) => {}
            // a pipe whose other end is closed is ready too: the call reports it
            Ok(_) => return Ok(()),
            Err(_) => return Err(Broken::Malformed),
        }
    }
}

/// The writing end.
pub(super) struct Writer(pub(super) End);

impl Writer {
    /// Writes one message: three words and bytes.
    pub(super) fn send(&mut self, words: [u64; 3], bytes: &[u8], patience: Patience<'_>) -> Result<(), Broken> {
        self.put(&head::write(words, bytes.len()), patience)?;
        self.put(bytes, patience)
    }

    fn put(&mut self, mut bytes: &[u8], patience: Patience<'_>) -> Result<(), Broken> {
        while !bytes.is_empty() {
            wait(&self.0, PollFlags::OUT, patience)?;
            match write(self.0.as_fd(), bytes) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return Err(Broken::Gone),
            }
        }
        Ok(())
    }
}

/// The reading end.
pub(super) struct Reader {
    pub(super) end: End,
    /// The longest message, in bytes.
    pub(super) limit: usize,
}

impl Reader {
    /// Reads one message: its three words, and its bytes into `buffer`, from the start.
    pub(super) fn receive(&mut self, buffer: &mut Vec<u8>, patience: Patience<'_>) -> Result<[u64; 3], Broken> {
        let mut head = head::EMPTY;
        self.get(&mut head, patience)?;
        let (words, length) = head::read(&head, self.limit)?;
        head::fill(buffer, length, |piece| self.get(piece, patience))?;
        Ok(words)
    }

    fn get(&mut self, mut bytes: &mut [u8], patience: Patience<'_>) -> Result<(), Broken> {
        while !bytes.is_empty() {
            wait(&self.end, PollFlags::IN, patience)?;
            match read(self.end.as_fd(), &mut *bytes) {
                Ok(0) => return Err(Broken::Gone),
                Ok(count) => bytes = bytes.get_mut(count..).unwrap_or_default(),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return Err(Broken::Gone),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use std::sync::atomic::AtomicBool;

    fn pair(limit: usize) -> (Writer, Reader) {
        let (end, writer) = io::pipe().unwrap();
        (Writer(hosts(writer).unwrap()), Reader { end: hosts(end).unwrap(), limit })
    }

    #[test]
    fn messages_of_all_lengths_pass_a_pipe_that_is_shorter_than_they_are() {
        let (mut writer, mut reader) = pair(1 << 20);
        let there = AtomicBool::new(false);
        let soon = || Patience::Until(Instant::now() + Duration::from_secs(20), &there);
        let lengths = [0, 1, 31, 32, 65_535, 65_536, 65_537, 1_000_003];
        let message = |length: usize| (0..length).map(|at| (at * 31 + length) as u8).collect::<Vec<_>>();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for length in lengths {
                    writer.send([length as u64, 2, 3], &message(length), soon()).unwrap();
                }
            });
            let mut buffer = vec![9; 300];
            for length in lengths {
                assert_eq!(reader.receive(&mut buffer, soon()), Ok([length as u64, 2, 3]));
                assert_eq!(buffer, message(length));
            }
        });
    }

    #[test]
    fn fault_32_a_host_that_foretells_a_long_message_and_sends_none_takes_no_memory() {
        let (mut writer, mut reader) = pair(64 << 20);
        let (gone, mut buffer) = (AtomicBool::new(false), Vec::new());
        let soon = Patience::Until(Instant::now() + Duration::from_secs(20), &gone);
        writer.put(&head::write([1, 2, 3], 64 << 20), soon).unwrap();
        drop(writer);
        assert_eq!(reader.receive(&mut buffer, soon), Err(Broken::Gone));
        assert!(buffer.capacity() <= 1 << 17, "room for {} bytes", buffer.capacity());
    }

    #[test]
    fn whoever_waits_for_nobody_gives_up() {
        let (gone, mut buffer) = (AtomicBool::new(false), Vec::new());
        let soon = Patience::Until(Instant::now() + Duration::from_secs(20), &gone);
        let now = Patience::Until(Instant::now(), &gone);
        let (mut writer, mut reader) = pair(1 << 20);
        assert_eq!(reader.receive(&mut buffer, now), Err(Broken::TimedOut));
        assert_eq!(writer.send([0; 3], &vec![0; 1 << 20], now), Err(Broken::TimedOut), "nobody reads");
        drop(writer);
        let (mut writer, other) = pair(1 << 20);
        assert_eq!(reader.receive(&mut buffer, soon).map(|_| ()), Err(Broken::Gone), "a message that ends early");
        drop(other);
        assert_eq!(writer.send([0; 3], b"x", soon), Err(Broken::Gone));
        let (mut writer, mut reader) = pair(10);
        writer.send([0; 3], &[0; 11], soon).unwrap();
        assert_eq!(reader.receive(&mut buffer, soon), Err(Broken::Malformed));
        gone.store(true, SeqCst);
        let (_writer, mut reader) = pair(10);
        assert_eq!(reader.receive(&mut buffer, Patience::Until(Instant::now() + NAP, &gone)), Err(Broken::Gone));
    }
}
