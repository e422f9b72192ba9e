//! A parallel map that keeps order.
//!
//! Threads take items one at a time from a shared index, so that uneven items leave no thread idle.
//! The result does not depend on the assignment of items to threads.

#[allow(unsafe_code, reason = "two system calls that no safe interface has")]
mod slices;

pub use slices::ShortSlices;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The number of threads this process may run at once, at least 1.
///
/// Respects CPU affinity and container limits if the system reports them; 1 if it reports nothing.
pub fn available() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Keeps the calling thread on a core, if the system allows it.
pub fn stay_on(core: usize) {
    stay_on_all(&[core]);
}

/// Keeps the calling thread, and all threads and processes it starts from now on, on these cores.
/// Returns whether the system allowed it.
pub fn stay_on_all(cores: &[usize]) -> bool {
    #[cfg(linux_64)]
    {
        let mut set = rustix::thread::CpuSet::new();
        cores.iter().filter(|core| **core < rustix::thread::CpuSet::MAX_CPU).for_each(|core| set.set(*core));
        set.count() > 0 && rustix::thread::sched_setaffinity(None, &set).is_ok()
    }
    #[cfg(not(linux_64))]
    {
        let _ = cores;
        false
    }
}

/// The numbers of the cores that the calling thread may run on; empty if the system does not report
/// them.
pub fn allowed() -> Vec<usize> {
    #[cfg(linux_64)]
    {
        let set = rustix::thread::sched_getaffinity(None).unwrap_or_default();
        (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
    }
    #[cfg(not(linux_64))]
    Vec::new()
}

/// CPU nanoseconds of all threads of this process, if the system reports them.
pub fn process_cpu_ns() -> Option<u64> {
    #[cfg(linux_64)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Some(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
    }
    #[cfg(not(linux_64))]
    None
}

/// Applies `f` to every item on up to `threads` threads and returns the results in the order of the
/// items.
///
/// `threads` is capped by the number of items; 0 counts as 1. With one thread everything runs on
/// the caller's thread.
///
/// # Panics
///
/// Only if `f` panics: the first panic found is raised again on the caller's thread, after every
/// thread has ended.
///
/// # Example
///
/// ```
/// let squares = tobari_host::threads::map_parallel(&[3, 1, 2], 2, |x| x * x);
/// assert_eq!(squares, [9, 1, 4]);
/// ```
pub fn map_parallel<T: Sync, R: Send>(items: &[T], threads: usize, f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.iter().map(f).collect();
    }
    let next = AtomicUsize::new(0);
    let mut numbered: Vec<(usize, R)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| pull(items, &next, &f))).collect();
        // Join every worker before raising a panic: a scope must not unwind past a running thread.
        let ended: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        ended.into_iter().flat_map(|result| result.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    numbered.sort_unstable_by_key(|(index, _)| *index);
    numbered.into_iter().map(|(_, result)| result).collect()
}

/// One worker: takes the next untaken item until none is left.
fn pull<T, R>(items: &[T], next: &AtomicUsize, f: impl Fn(&T) -> R) -> Vec<(usize, R)> {
    let mut results = Vec::new();
    loop {
        // Relaxed: the index orders nothing but itself; joining the thread publishes the results.
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(item) = items.get(index) else { return results };
        results.push((index, f(item)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;
    use std::sync::Barrier;

    #[test]
    fn map_parallel_equals_map_for_every_thread_count() {
        let items: Vec<u64> = (0..1000).collect();
        let expected: Vec<u64> = items.iter().map(|x| x * x + 1).collect();
        for threads in [0, 1, 2, 3, 16, 2000] {
            assert_eq!(map_parallel(&items, threads, |x| x * x + 1), expected, "{threads} threads");
        }
        assert_eq!(map_parallel(&[] as &[u64], 4, |x| x + 1), [] as [u64; 0]);
    }

    #[test]
    #[cfg(linux_64)]
    fn a_thread_that_is_kept_on_a_core_keeps_those_there_that_it_begins() {
        let found = thread::spawn(|| {
            let all = allowed();
            assert!(!all.is_empty() && !stay_on_all(&[]));
            assert!(stay_on_all(&all[..1]));
            (all[0], thread::spawn(|| (allowed(), available())).join().unwrap())
        });
        let (core, (cores, threads)) = found.join().unwrap();
        assert_eq!((cores, threads), (vec![core], 1));
    }

    #[test]
    fn order_is_kept_when_every_thread_takes_items_from_both_halves() {
        // Items run in pairs, one on each thread: results joined thread by thread would be out of
        // order.
        let both = Barrier::new(2);
        let results = map_parallel(&[0, 1, 2, 3], 2, |item| {
            both.wait();
            *item
        });
        assert_eq!(results, [0, 1, 2, 3]);
    }

    #[test]
    fn two_threads_really_run_at_the_same_time() {
        // Each item waits for the other, so a sequential map would never return.
        let both = Barrier::new(2);
        map_parallel(&[(), ()], 2, |()| {
            both.wait();
        });
    }

    #[test]
    fn every_item_is_taken_exactly_once() {
        let taken: Vec<AtomicUsize> = (0..500).map(|_| AtomicUsize::new(0)).collect();
        map_parallel(&taken, 8, |count| count.fetch_add(1, Ordering::Relaxed));
        assert!(taken.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn a_panic_in_a_worker_reaches_the_caller_with_its_message() {
        for threads in [1, 4] {
            let caught = catch_unwind(|| map_parallel(&[1, 2, 3, 4], threads, |x| assert_ne!(*x, 3, "item three")));
            let panic = caught.expect_err("the panic must propagate");
            let message = panic.downcast_ref::<String>().expect("an assert panics with a string");
            assert!(message.contains("item three"), "{message}");
        }
    }

    #[test]
    fn at_least_one_thread_is_available() {
        assert!(available() >= 1);
    }
}
