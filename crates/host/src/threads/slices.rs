//! Short time slices for a thread whose core is shared.
//!
//! Linux gives each thread its share of a core in slices of one to four milliseconds. A thread that
//! wakes up waits for the end of the running thread's slice. From version 6.12 on a thread may ask
//! for short slices (`sched_setattr`, `sched_runtime`). It then runs as soon as it has work and
//! some of its share left; the share does not grow. Older systems accept the request and ignore it.

use std::marker::PhantomData;

/// The shortest possible slice, in nanoseconds.
const SHORTEST_NS: u64 = 100_000;

/// Gives the calling thread short slices until this value is dropped, and then the length before.
/// If the system refuses, nothing changes.
#[derive(Debug)]
pub struct ShortSlices {
    /// Nanoseconds of a slice.
    before: Option<u64>,
    /// Binds the value to its thread.
    here: PhantomData<*const ()>,
}

impl ShortSlices {
    /// Asks for short slices. Does nothing for threads with another scheduling policy (real time,
    /// idle).
    pub fn ask() -> Self {
        let before = Attributes::get().filter(|found| [NORMAL, BATCH].contains(&found.policy));
        let asked = before.filter(|before| Attributes { runtime_ns: SHORTEST_NS, ..*before }.set());
        Self { before: asked.map(|before| before.runtime_ns), here: PhantomData }
    }
}

impl Drop for ShortSlices {
    fn drop(&mut self) {
        // The other attributes may have changed since, so only the slice is restored.
        if let (Some(before), Some(now)) = (self.before, Attributes::get()) {
            // If this fails, short slices remain and do no harm.
            let _ = Attributes { runtime_ns: before, ..now }.set();
        }
    }
}

/// `SCHED_NORMAL` and `SCHED_BATCH`.
const NORMAL: u32 = 0;
const BATCH: u32 = 3;

/// The first version of the system's `struct sched_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// The slice, for threads without a deadline.
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

#[cfg(linux_64)]
impl Attributes {
    /// The attributes of the calling thread.
    fn get() -> Option<Self> {
        let (mut found, bytes) = (Self::default(), size_of::<Self>());
        // SAFETY: the call writes at most `bytes` bytes to `found`, for which any bytes are valid
        let failed = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut found, bytes, 0) };
        (failed == 0).then_some(found)
    }

    /// Sets them for the calling thread, and returns whether the system did so.
    fn set(&self) -> bool {
        let told = Self { size: size_of::<Self>() as u32, ..*self };
        // SAFETY: the call reads `told.size` bytes, the size of `told`
        let failed = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const told, 0) };
        failed == 0
    }
}

#[cfg(not(linux_64))]
impl Attributes {
    fn get() -> Option<Self> {
        None
    }

    fn set(&self) -> bool {
        false
    }
}

#[cfg(all(test, linux_64))]
mod tests {
    use super::*;

    #[test]
    fn slices_are_short_as_long_as_they_are_asked_for_and_nothing_else_is_other() {
        let before = Attributes::get().expect("every thread has attributes");
        let asked = ShortSlices::ask();
        let during = Attributes::get().expect("as before");
        // Before 6.12 the system reports 0.
        let expected = if before.runtime_ns == 0 { 0 } else { SHORTEST_NS };
        assert_eq!(during, Attributes { runtime_ns: expected, ..before });
        drop(asked);
        assert_eq!(Attributes::get(), Some(before));
    }

    #[test]
    fn a_thread_that_runs_only_when_nobody_else_does_stays_one() {
        const IDLE: u32 = 5;
        let found = std::thread::spawn(|| {
            let before = Attributes { policy: IDLE, ..Attributes::get()? };
            before.set().then(|| (ShortSlices::ask().before, Attributes::get().map(|now| now.policy)))
        });
        assert_eq!(found.join().expect("no panic"), Some((None, Some(IDLE))));
    }
}
