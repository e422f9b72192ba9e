//! Messages over a ring in shared memory: one writer, one reader, and a bell that wakes a sleeping
//! side.
//!
//! A message is four words (its length in bytes, and three of the protocol) and its bytes, padded
//! to whole words. It may be longer than the ring: the writer publishes pieces of 32 KiB, and the
//! reader copies one piece while the next is written. Both counters count words and only grow. Each
//! side keeps its own counter in private memory, and accepts the other's only within the ring's
//! length.
//!
//! A waiting side polls for a while and then sleeps on the bell (a futex). The sleeper first sets
//! its flag and then checks the ring again. The other side first publishes and then checks the
//! flag. A fence between the two steps on both sides ensures that at least one side sees the other.

use super::head;
use super::memory::Shared;
use rustix::io::Errno;
use rustix::thread::futex;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, fence};
use std::time::{Duration, Instant};

/// Words that are published together.
const PIECE: usize = 4096;
/// Polls before a side sleeps: some tens of microseconds.
const LOOKS: u32 = 1_000;
/// The longest sleep before checking whether the other side still exists.
const NAP: Duration = Duration::from_millis(100);

/// Why a transfer failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The other side has ended.
    Gone,
    /// The time limit passed.
    TimedOut,
    /// The other side's counters or lengths are impossible.
    Malformed,
}

/// How long to wait for the other side.
#[derive(Clone, Copy)]
pub enum Patience<'a> {
    /// Without a limit: in the enclave, whose process ends with the host.
    Endless,
    /// Until this time, or until the flag reports that the other side is gone.
    Until(Instant, &'a AtomicBool),
}

/// The counters and bells of one direction in the control page.
#[derive(Clone, Copy)]
pub struct Lane(pub usize);

impl Lane {
    /// Words written.
    fn head(self, shared: &Shared) -> &AtomicU64 {
        shared.counter(8 + 2 * self.0)
    }

    /// Words read.
    fn tail(self, shared: &Shared) -> &AtomicU64 {
        shared.counter(9 + 2 * self.0)
    }

    /// The reader's bell, and the flag that the reader sleeps.
    fn data(self, shared: &Shared) -> [&AtomicU32; 2] {
        [shared.bell(4 * self.0), shared.bell(4 * self.0 + 1)]
    }

    /// The writer's bell, and the flag that the writer sleeps.
    fn space(self, shared: &Shared) -> [&AtomicU32; 2] {
        [shared.bell(4 * self.0 + 2), shared.bell(4 * self.0 + 3)]
    }

    /// Wakes any sleeper at both ends of this direction, regardless of the counters.
    pub fn wake_all(self, shared: &Shared) {
        for [bell, _] in [self.data(shared), self.space(shared)] {
            ring(bell);
        }
    }
}

fn ring(bell: &AtomicU32) {
    bell.fetch_add(1, SeqCst);
    // Waking no sleeper is no error, and there is no other error.
    let _ = futex::wake(bell, futex::Flags::empty(), u32::MAX >> 1);
}

/// Whether the other side's flag says that it sleeps. The caller has already published.
fn is_asleep([_, asleep]: [&AtomicU32; 2]) -> bool {
    fence(SeqCst);
    asleep.load(Relaxed) != 0
}

/// Rings the bell if the other side's flag says that it sleeps.
fn ring_if_asleep([bell, asleep]: [&AtomicU32; 2]) {
    if is_asleep([bell, asleep]) {
        asleep.store(0, Relaxed);
        ring(bell);
    }
}

/// The same, and measures the time if there is a clock. Reads the clock only if the other side
/// sleeps.
fn wake(bells: [&AtomicU32; 2], clock: Option<fn() -> u64>, woken: &mut u64) {
    match clock.filter(|_| is_asleep(bells)) {
        None => ring_if_asleep(bells),
        Some(clock) => {
            let before = clock();
            ring_if_asleep(bells);
            *woken += clock().saturating_sub(before);
        }
    }
}

/// Polls `looks` times, then sleeps, until `ready`.
fn wait(
    [bell, asleep]: [&AtomicU32; 2],
    looks: u32,
    patience: Patience<'_>,
    ready: impl Fn() -> bool,
) -> Result<(), Broken> {
    for _ in 0..looks {
        if ready() {
            return Ok(());
        }
        spin_loop();
    }
    loop {
        let seen = bell.load(SeqCst);
        asleep.store(1, SeqCst);
        fence(SeqCst);
        if ready() {
            asleep.store(0, Relaxed);
            return Ok(());
        }
        let nap = match patience {
            Patience::Endless => None,
            Patience::Until(deadline, gone) => {
                if gone.load(SeqCst) {
                    return Err(Broken::Gone);
                }
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(Broken::TimedOut);
                }
                Some(left.min(NAP))
            }
        };
        let nap = nap.and_then(|nap| futex::Timespec::try_from(nap).ok());
        match futex::wait(bell, futex::Flags::empty(), seen, nap.as_ref()) {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
            Err(_) => return Err(Broken::Malformed),
        }
    }
}

/// The writing end of one direction.
pub struct Sender {
    shared: Arc<Shared>,
    lane: Lane,
    head: u64,
    /// Whether to wake a sleeping reader at the first piece, so that it reads while the rest is
    /// written. Otherwise the writer wakes it at the last piece, and when the ring is full.
    pub wakes_early: bool,
    /// The clock that measures how long it takes to wake the reader. None in the enclave, where the
    /// system call for the time may be forbidden.
    pub clock: Option<fn() -> u64>,
    /// How long these wake-ups took in total, by the clock.
    pub woken: u64,
}

impl Sender {
    pub fn new(shared: Arc<Shared>, lane: Lane) -> Self {
        Self { shared, lane, head: 0, wakes_early: true, clock: None, woken: 0 }
    }

    /// Writes one message: three words and bytes.
    pub fn send(&mut self, words: [u64; 3], bytes: &[u8], patience: Patience<'_>) -> Result<(), Broken> {
        self.send_parts(words, bytes.len(), std::iter::once(bytes), patience)
    }

    /// The same, for separate parts. Each part begins at a word, so every part except the last one
    /// should be padded to whole words. `bytes` is the length of all parts, with the padding.
    pub fn send_parts<'a>(
        &mut self,
        words: [u64; 3],
        bytes: usize,
        parts: impl Iterator<Item = &'a [u8]>,
        patience: Patience<'_>,
    ) -> Result<(), Broken> {
        self.put(&head::write(words, bytes), patience)?;
        for part in parts {
            self.put(part, patience)?;
        }
        if !self.wakes_early {
            wake(self.lane.data(&self.shared), self.clock, &mut self.woken);
        }
        Ok(())
    }

    fn put(&mut self, mut bytes: &[u8], patience: Patience<'_>) -> Result<(), Broken> {
        while !bytes.is_empty() {
            let ring = self.shared.ring(self.lane.0);
            let (capacity, tail) = (ring.len() as u64, self.lane.tail(&self.shared));
            let used = || self.head.wrapping_sub(tail.load(Acquire));
            if !self.wakes_early && used() == capacity {
                wake(self.lane.data(&self.shared), self.clock, &mut self.woken);
            }
            wait(self.lane.space(&self.shared), LOOKS, patience, || used() != capacity)?;
            let free = capacity.checked_sub(used()).ok_or(Broken::Malformed)?;
            let at = usize::try_from(self.head % capacity).map_err(|_| Broken::Malformed)?;
            let count = PIECE
                .min(bytes.len().div_ceil(8))
                .min(usize::try_from(free).unwrap_or(usize::MAX))
                .min(ring.len() - at);
            let (piece, rest) = bytes.split_at(bytes.len().min(8 * count));
            copy_in(&ring[at..at + count], piece);
            bytes = rest;
            self.head += count as u64;
            self.lane.head(&self.shared).store(self.head, Release);
            if self.wakes_early {
                wake(self.lane.data(&self.shared), self.clock, &mut self.woken);
            }
        }
        Ok(())
    }
}

/// The reading end of one direction.
pub struct Receiver {
    shared: Arc<Shared>,
    lane: Lane,
    tail: u64,
    /// The longest message, in bytes.
    pub limit: usize,
    /// Polls before the reader sleeps: 0 where the computing side needs the core.
    pub looks: u32,
    /// Whether to overwrite words with zeros after reading, before their place is free again: for
    /// messages that hold keys.
    pub wipes: bool,
}

impl Receiver {
    pub fn new(shared: Arc<Shared>, lane: Lane, limit: usize) -> Self {
        Self { shared, lane, tail: 0, limit, looks: LOOKS, wipes: false }
    }

    /// Whether a whole message of `bytes` bytes has arrived.
    pub fn has_message(&self, bytes: usize) -> bool {
        let words = (head::EMPTY.len() / 8 + bytes.div_ceil(8)) as u64;
        self.lane.head(&self.shared).load(Acquire).wrapping_sub(self.tail) >= words
    }

    /// Waits until a message begins.
    pub fn wait(&self, patience: Patience<'_>) -> Result<(), Broken> {
        let head = self.lane.head(&self.shared);
        wait(self.lane.data(&self.shared), self.looks, patience, || head.load(Acquire) != self.tail)
    }

    /// Reads one message: its three words, and its bytes into `buffer`, from the start.
    ///
    /// The buffer is private memory, so checked bytes cannot change afterwards. It is not cleared
    /// first: writing zeros would cost as much as the copy.
    pub fn receive(&mut self, buffer: &mut Vec<u8>, patience: Patience<'_>) -> Result<[u64; 3], Broken> {
        let mut head = head::EMPTY;
        self.get(&mut head, patience)?;
        let (words, length) = head::read(&head, self.limit)?;
        head::fill(buffer, length, |piece| self.get(piece, patience))?;
        Ok(words)
    }

    fn get(&mut self, mut bytes: &mut [u8], patience: Patience<'_>) -> Result<(), Broken> {
        while !bytes.is_empty() {
            let ring = self.shared.ring(self.lane.0);
            let (capacity, head) = (ring.len() as u64, self.lane.head(&self.shared));
            let there = || head.load(Acquire).wrapping_sub(self.tail);
            wait(self.lane.data(&self.shared), self.looks, patience, || there() != 0)?;
            let there = there();
            if there > capacity {
                return Err(Broken::Malformed);
            }
            let at = usize::try_from(self.tail % capacity).map_err(|_| Broken::Malformed)?;
            let count = PIECE
                .min(bytes.len().div_ceil(8))
                .min(usize::try_from(there).unwrap_or(usize::MAX))
                .min(ring.len() - at);
            let (piece, rest) = bytes.split_at_mut((8 * count).min(bytes.len()));
            copy_out(&ring[at..at + count], piece);
            if self.wipes {
                ring[at..at + count].iter().for_each(|word| word.store(0, Relaxed));
            }
            bytes = rest;
            self.tail += count as u64;
            self.lane.tail(&self.shared).store(self.tail, Release);
            ring_if_asleep(self.lane.space(&self.shared));
        }
        Ok(())
    }
}

/// Words that are copied together: a cache line.
const LINE: usize = 8;

/// Writes the bytes to as many words as they need, and pads the last word with zeros.
fn copy_in(words: &[AtomicU64], bytes: &[u8]) {
    let (lines, rest) = bytes.as_chunks::<{ 8 * LINE }>();
    let (word_lines, words) = words.split_at((LINE * lines.len()).min(words.len()));
    for (line, from) in word_lines.as_chunks::<LINE>().0.iter().zip(lines) {
        for (word, chunk) in line.iter().zip(from.as_chunks::<8>().0) {
            word.store(u64::from_ne_bytes(*chunk), Relaxed);
        }
    }
    for (word, chunk) in words.iter().zip(rest.chunks(8)) {
        let mut last = [0; 8];
        last[..chunk.len()].copy_from_slice(chunk);
        word.store(u64::from_ne_bytes(last), Relaxed);
    }
}

/// Reads the bytes from as many words as they need.
fn copy_out(words: &[AtomicU64], bytes: &mut [u8]) {
    let (lines, rest) = bytes.as_chunks_mut::<{ 8 * LINE }>();
    let (word_lines, words) = words.split_at((LINE * lines.len()).min(words.len()));
    for (line, to) in word_lines.as_chunks::<LINE>().0.iter().zip(lines) {
        for (word, chunk) in line.iter().zip(to.as_chunks_mut::<8>().0) {
            *chunk = word.load(Relaxed).to_ne_bytes();
        }
    }
    for (word, chunk) in words.iter().zip(rest.chunks_mut(8)) {
        chunk.copy_from_slice(&word.load(Relaxed).to_ne_bytes()[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn pair(ring_bytes: usize) -> (Sender, Receiver, Arc<Shared>) {
        let (shared, file) = Shared::create(ring_bytes).unwrap();
        let (ours, theirs) = (Arc::new(shared), Arc::new(Shared::attach(&file).unwrap()));
        (Sender::new(ours.clone(), Lane(0)), Receiver::new(theirs, Lane(0), 1 << 20), ours)
    }

    fn soon(gone: &AtomicBool) -> Patience<'_> {
        Patience::Until(Instant::now() + Duration::from_secs(20), gone)
    }

    #[test]
    fn messages_of_all_lengths_pass_a_ring_that_is_shorter_than_they_are() {
        let (mut sender, mut receiver, _) = pair(4096);
        let lengths = [0, 1, 7, 8, 9, 4063, 4064, 4065, 4096, 5000, 100_003];
        let message = |length: usize| (0..length).map(|at| (at * 31 + length) as u8).collect::<Vec<_>>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for length in lengths {
                    sender.send([length as u64, 2, 3], &message(length), soon(&AtomicBool::new(false))).unwrap();
                }
            });
            let mut buffer = vec![9; 300];
            for length in lengths {
                let words = receiver.receive(&mut buffer, soon(&AtomicBool::new(false))).unwrap();
                assert_eq!((words, &buffer), ([length as u64, 2, 3], &message(length)), "{length}");
            }
        });
    }

    #[test]
    fn a_reader_that_wipes_leaves_nothing_of_a_message_in_the_ring_and_a_wiped_ring_has_none() {
        for (wipes, message) in [(true, vec![0xab; 3000]), (false, vec![0xcd; 3000])] {
            let (mut sender, mut receiver, shared) = pair(4096);
            let (gone, mut buffer) = (AtomicBool::new(false), Vec::new());
            receiver.wipes = wipes;
            sender.send([1, 2, 3], &message, soon(&gone)).unwrap();
            receiver.receive(&mut buffer, soon(&gone)).unwrap();
            assert_eq!(buffer, message);
            let left = || shared.ring(0).iter().filter(|word| word.load(SeqCst) != 0).count();
            assert_eq!(left() == 0, wipes, "{} words", left());
            shared.wipe();
            assert_eq!(left(), 0);
        }
    }

    #[test]
    fn a_sleeper_is_woken_and_one_whose_other_side_is_gone_gives_up() {
        let (mut sender, mut receiver, shared) = pair(4096);
        let (gone, mut buffer) = (AtomicBool::new(false), Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(30));
                sender.send([1, 2, 3], b"after a while", soon(&gone)).unwrap();
                std::thread::sleep(Duration::from_millis(30));
                gone.store(true, SeqCst);
                Lane(0).wake_all(&shared);
            });
            receiver.receive(&mut buffer, soon(&AtomicBool::new(false))).unwrap();
            assert_eq!(buffer, b"after a while");
            assert_eq!(receiver.receive(&mut buffer, soon(&gone)), Err(Broken::Gone));
        });
        let there = AtomicBool::new(false);
        let late = Patience::Until(Instant::now(), &there);
        assert_eq!(receiver.receive(&mut buffer, late), Err(Broken::TimedOut));
    }

    #[test]
    fn counters_and_lengths_that_cannot_be_are_refused() {
        let (mut sender, mut receiver, shared) = pair(4096);
        let gone = AtomicBool::new(false);
        Lane(0).head(&shared).store(u64::MAX / 2, SeqCst);
        assert_eq!(receiver.receive(&mut Vec::new(), soon(&gone)), Err(Broken::Malformed));
        Lane(0).tail(&shared).store(77, SeqCst);
        assert_eq!(sender.send([0; 3], b"x", soon(&gone)), Err(Broken::Malformed));
        let (mut sender, mut receiver, _) = pair(1 << 20);
        receiver.limit = 10;
        sender.send([0; 3], &[0; 11], soon(&gone)).unwrap();
        assert_eq!(receiver.receive(&mut Vec::new(), soon(&gone)), Err(Broken::Malformed));
    }

    #[test]
    fn memory_that_is_not_sealed_is_not_attached() {
        use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
        let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, 3 * 4096).unwrap();
        assert!(Shared::attach(&file).is_err(), "of the right length, and either side could cut it short");
        assert!(Shared::attach(std::fs::File::open("/dev/null").unwrap()).is_err());
        assert!(Shared::create(5000).is_err(), "no power of two");
    }
}
