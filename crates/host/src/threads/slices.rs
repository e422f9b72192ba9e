//! How long a thread runs when its turn comes, where others want its core.
//!
//! Linux gives each thread its share of a core in slices of one to four milliseconds, and one that
//! has slept waits until whoever runs has had his. From 6.12 on a thread may say that its slices
//! are to be short (`sched_setattr`, `sched_runtime`): it then runs as soon as it has something to
//! do and something left of its share, which gets no larger. Older systems take the request and do
//! nothing about it.

use std::marker::PhantomData;

/// The shortest that there are.
const SHORTEST_NS: u64 = 100_000;

/// The calling thread has short slices, until this is dropped: then as long ones as before. Where
/// the system does not let it, nothing has changed.
#[derive(Debug)]
pub struct ShortSlices {
    /// Nanoseconds of a slice.
    before: Option<u64>,
    /// Of this thread.
    here: PhantomData<*const ()>,
}

impl ShortSlices {
    /// Asks for them. Threads that have a priority of their own kind (real time, idle) are left
    /// alone.
    pub fn ask() -> Self {
        let before = Attributes::get().filter(|found| [NORMAL, BATCH].contains(&found.policy));
        let asked = before.filter(|before| Attributes { runtime_ns: SHORTEST_NS, ..*before }.set());
        Self { before: asked.map(|before| before.runtime_ns), here: PhantomData }
    }
}

impl Drop for ShortSlices {
    fn drop(&mut self) {
        // All else may have been changed by somebody since.
        if let (Some(before), Some(now)) = (self.before, Attributes::get()) {
            // Nobody is worse off with short slices.
            let _ = Attributes { runtime_ns: before, ..now }.set();
        }
    }
}

/// `SCHED_NORMAL` and `SCHED_BATCH`.
const NORMAL: u32 = 0;
const BATCH: u32 = 3;

/// The first version of `struct sched_attr`, as the system has it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// The slice, for threads that have no deadline.
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

#[cfg(linux_64)]
impl Attributes {
    /// Those of the calling thread.
    fn get() -> Option<Self> {
        let (mut found, bytes) = (Self::default(), size_of::<Self>());
        // SAFETY: writes at most as many bytes as it is told, which are there and may be any
        let failed = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut found, bytes, 0) };
        (failed == 0).then_some(found)
    }

    /// Gives them to the calling thread; whether the system did.
    fn set(&self) -> bool {
        let told = Self { size: size_of::<Self>() as u32, ..*self };
        // SAFETY: reads as many bytes as they say of themselves, which are there
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
        // Before 6.12 a system says 0.
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
