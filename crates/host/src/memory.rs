//! An allocator for large objects, in huge pages, that returns unused memory to the system.
//!
//! A ciphertext has some megabytes, and a computation makes and drops one every few milliseconds.
//! Usual allocators have one of two faults. Some ask the system for each object, at the cost of a
//! page fault for every 4 KiB. Others keep freed memory in pieces that fit no other object.
//! [`Large`] is a global allocator that leaves small objects to the system's allocator. It serves
//! objects of [`LARGE`] bytes or more from one reserved range of addresses:
//!
//! * Extents are multiples of 64 KiB. The smallest extent that is large enough is used first (best
//!   fit), and extents with pages before those without. Free neighbours are joined. The values of a
//!   plan have few sizes, so small gaps are rare.
//! * Huge pages, if the system gives them on advice: one fault for each 2 MiB, and fewer misses of
//!   address translation.
//! * **Unused bytes are kept up to [`IDLE`], or up to the number of used bytes**, as long as used
//!   and unused bytes together exceed the peak of used bytes by at most [`IDLE`]. The reasons: a
//!   fault costs more than the work in its page, and a stage of a job that drops its input soon
//!   allocates as much again. Beyond these bounds pages go back, from the largest extents first.
//!   While a plan runs (`run`), and for [`LINGER`] afterwards, only the bound by the peak holds:
//!   one step may use twice the memory that remains between steps, and so will the next step and
//!   the next question. Later, both bounds hold from the next freed large object on; a waiting
//!   program calls [`settle`] now and then.
//!
//! Without such a range, for example under a limit on addresses, the system's allocator serves
//! everything.

#![allow(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout};
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The allocator of small objects. musl's own one takes a lock for every object, and gives pages
/// back at once: a demonstration then spends twice the time in the system.
#[cfg(target_env = "musl")]
use mimalloc::MiMalloc as Small;
#[cfg(not(target_env = "musl"))]
use std::alloc::System as Small;

/// The smallest object of this allocator. Its own tables of free extents are smaller, and come from
/// the system's allocator.
pub const LARGE: usize = 128 << 10;

/// Unused bytes that are always kept for the next object.
pub const IDLE: usize = 64 << 20;

/// Extents are multiples of this.
const GRAIN: usize = 64 << 10;

/// Pages go back in aligned multiples of this.
const HUGE: usize = 2 << 20;

/// Reserved addresses for each byte of the machine's memory. More than one, as free extents lie
/// between used ones, and addresses are never returned. Untouched addresses take no memory, but an
/// emulator of another processor may need some for each of their pages.
const ADDRESSES: usize = 4;

/// The addresses become readable in steps of this many bytes. So a search of the process's memory
/// reads only addresses that may have been used.
const STEP: usize = 64 << 20;

/// Free bytes at the end of a heap that the system's allocator keeps, for a program that soon
/// allocates as much again: see [`keep_small`].
pub const KEPT_SMALL: usize = 16 << 20;

/// Makes glibc's allocator keep up to `bytes` of free memory at the end of each heap, for small
/// objects. By default it returns free memory there beyond 128 KiB, and each page allocated again
/// costs a page fault; many thousands of short messages would pay this all the time. Only for
/// programs with [`Large`]: afterwards glibc maps each object of 128 KiB or more anew.
pub fn keep_small(bytes: usize) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        // SAFETY: takes two numbers, and a lock of the allocator's own
        let _ = unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, bytes) };
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = bytes;
}

/// Makes glibc's allocator use one heap for the small objects of all threads started from now on.
/// For comparisons of a program of one thread with a program of three on one core: with several
/// heaps, their memory would be new at different times.
pub fn one_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes two numbers, and a lock of the allocator's own
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// How long the memory of a plan is kept for the next plan.
pub const LINGER: Duration = Duration::from_secs(10);

/// The busy plans of this process.
static BUSY: Pace = Pace::new();

/// The number of busy plans, and the time until which memory is kept after them.
#[derive(Debug)]
struct Pace {
    busy: AtomicUsize,
    /// Milliseconds since the first reading of the clock.
    until: AtomicU64,
}

impl Pace {
    const fn new() -> Self {
        Self { busy: AtomicUsize::new(0), until: AtomicU64::new(0) }
    }

    fn now() -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_millis() as u64
    }

    /// Whether memory is kept now. Reads the clock only after a plan was busy. No plan is busy in
    /// an enclave, and the enclave's filter may deny the call for the time.
    fn keeps(&self) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        self.busy.load(Ordering::Relaxed) > 0 || (until > 0 && Self::now() < until)
    }

    fn begin(&self) {
        self.busy.fetch_add(1, Ordering::Relaxed);
    }

    fn end(&self, linger: Duration) {
        self.until.fetch_max(1 + Self::now() + linger.as_millis() as u64, Ordering::Relaxed);
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// As long as such a value exists, freed memory is kept for later objects, even gigabytes: see the
/// head of this module. [`run`](crate::run::run) holds one.
#[derive(Debug)]
pub struct Busy(());

impl Busy {
    /// Begins a busy time.
    #[allow(clippy::new_without_default, reason = "it is counted, and not a value")]
    pub fn new() -> Self {
        BUSY.begin();
        Self(())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.end(LINGER);
    }
}

/// Allocates and frees a large object. This returns memory that is no longer kept to the system. It
/// also reserves the range of addresses, if not done before; this asks the system for the machine's
/// memory.
pub fn settle() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGE)));
}

/// Returns free pages of small objects to the system. glibc has a heap for each of several threads,
/// and keeps what is free below an object that is used. After work with many small objects, the
/// next thread's heap would grow beside it. Searches all heaps, so only for the end of such work.
pub fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes a number, and locks of the allocator's own
    let _ = unsafe { libc::malloc_trim(0) };
}

/// A global allocator: see the head of this module.
#[derive(Debug)]
pub struct Large(Mutex<State>);

/// Free and used extents, as offsets into the range.
#[derive(Debug)]
struct State {
    range: Range,
    /// Addresses from here on were never used.
    top: usize,
    /// Addresses from here on are not readable yet.
    readable: usize,
    /// Free extents below `top` by their start: their bytes, and whether they may hold pages.
    free: BTreeMap<usize, (usize, bool)>,
    /// The same by size: extents without pages, and extents that may hold some.
    sizes: [BTreeSet<(usize, usize)>; 2],
    /// Bytes of free extents that may hold pages.
    idle: usize,
    used: usize,
    peak: usize,
    pace: &'static Pace,
}

#[derive(Clone, Copy, Debug)]
enum Range {
    /// Not reserved yet.
    Unknown,
    /// The system gave none.
    None,
    /// Its first address, and its length.
    At(usize, usize),
}

/// The use of memory by large objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of large objects now.
    pub used: usize,
    /// The most bytes of large objects so far.
    pub peak: usize,
    /// Unused bytes that are kept for later objects.
    pub idle: usize,
}

impl Default for Large {
    fn default() -> Self {
        Self::new()
    }
}

impl Large {
    /// An allocator with nothing reserved yet.
    pub const fn new() -> Self {
        Self::at(&BUSY)
    }

    const fn at(pace: &'static Pace) -> Self {
        Self(Mutex::new(State {
            range: Range::Unknown,
            top: 0,
            readable: 0,
            free: BTreeMap::new(),
            sizes: [BTreeSet::new(), BTreeSet::new()],
            idle: 0,
            used: 0,
            peak: 0,
            pace,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The use of memory.
    pub fn usage(&self) -> Usage {
        let State { used, peak, idle, .. } = *self.lock();
        Usage { used, peak, idle }
    }

    /// An extent, and whether its bytes are zero. `None` if the system's allocator must serve this
    /// object.
    fn take(&self, layout: Layout) -> Option<(NonNull<u8>, bool)> {
        if layout.size() < LARGE || layout.align() > GRAIN {
            return None;
        }
        let bytes = layout.size().checked_next_multiple_of(GRAIN)?;
        let mut state = self.lock();
        let (base, length) = state.range()?;
        let (offset, clean) = state.take(base, length, bytes)?;
        NonNull::new((base + offset) as *mut u8).map(|start| (start, clean))
    }
}

impl State {
    fn range(&mut self) -> Option<(usize, usize)> {
        if let Range::Unknown = self.range {
            self.range = reserve().map_or(Range::None, |(base, length)| Range::At(base, length));
        }
        match self.range {
            Range::At(base, length) => Some((base, length)),
            _ => None,
        }
    }

    fn take(&mut self, base: usize, length: usize, bytes: usize) -> Option<(usize, bool)> {
        // Existing pages before new ones, even from a larger extent: a new page costs a fault, and
        // returning another page for it costs a second fault later.
        let [clean, dirty] = self.sizes.each_ref().map(|sizes| sizes.range((bytes, 0)..).next());
        let found = dirty.or(clean).copied();
        let (offset, clean) = match found {
            Some((found, start)) => {
                let dirty = self.remove(start);
                if found > bytes {
                    self.insert(start + bytes, found - bytes, dirty);
                }
                (start, !dirty)
            }
            None => {
                let start = self.top;
                let top = start.checked_add(bytes).filter(|top| *top <= length)?;
                if top > self.readable {
                    let readable = top.next_multiple_of(STEP).min(length);
                    if !make_readable(base + self.readable, readable - self.readable) {
                        return None;
                    }
                    self.readable = readable;
                }
                self.top = top;
                (start, true)
            }
        };
        self.used += bytes;
        self.peak = self.peak.max(self.used);
        Some((offset, clean))
    }

    fn insert(&mut self, start: usize, bytes: usize, dirty: bool) {
        self.free.insert(start, (bytes, dirty));
        self.sizes[usize::from(dirty)].insert((bytes, start));
        self.idle += if dirty { bytes } else { 0 };
    }

    /// Removes a free extent, and returns whether it may hold pages.
    fn remove(&mut self, start: usize) -> bool {
        let Some((bytes, dirty)) = self.free.remove(&start) else { return true };
        self.sizes[usize::from(dirty)].remove(&(bytes, start));
        self.idle -= if dirty { bytes } else { 0 };
        dirty
    }

    fn give(&mut self, base: usize, offset: usize, bytes: usize) {
        self.used -= bytes;
        let (mut start, mut end) = (offset, offset + bytes);
        // Dirty neighbours are joined; clean ones stay apart, for objects that must be zero.
        if let Some((before, (length, true))) = self.free.range(..start).next_back().map(|(k, v)| (*k, *v))
            && before + length == start
        {
            self.remove(before);
            start = before;
        }
        if let Some((length, true)) = self.free.get(&end).copied() {
            self.remove(end);
            end += length;
        }
        self.insert(start, end - start, true);
        while let Some(surplus) = self.surplus() {
            let Some((bytes, start)) = self.sizes[1].last().copied() else { return };
            // Only the end of the extent, and at most the surplus.
            let first = start + bytes.saturating_sub(surplus);
            if !self.give_back(base, start, first, start + bytes) {
                return;
            }
        }
    }

    /// Idle bytes beyond the limit for kept bytes, in whole [`STEP`]s.
    fn surplus(&self) -> Option<usize> {
        let above = self.idle.saturating_sub(IDLE);
        if above == 0 {
            return None;
        }
        let than_used = if self.pace.keeps() { 0 } else { self.idle.saturating_sub(self.used) };
        let than_ever = (self.used + self.idle).saturating_sub(self.peak + IDLE);
        let surplus = than_used.max(than_ever).min(above);
        (surplus > 0).then(|| surplus.next_multiple_of(STEP))
    }

    /// Returns the pages of a free extent from `first` on to the system, if they are whole huge
    /// pages. Returns whether there was one.
    fn give_back(&mut self, base: usize, start: usize, first: usize, end: usize) -> bool {
        let (first, last) = ((first / HUGE * HUGE).max(start.next_multiple_of(HUGE)), end / HUGE * HUGE);
        if first >= last || !discard(base + first, last - first) {
            return false;
        }
        self.remove(start);
        if start < first {
            self.insert(start, first - start, true);
        }
        if last < end {
            self.insert(last, end - last, true);
        }
        // Clean neighbours are joined.
        let (mut from, mut to) = (first, last);
        if let Some((before, (length, false))) = self.free.range(..from).next_back().map(|(k, v)| (*k, *v))
            && before + length == from
        {
            self.remove(before);
            from = before;
        }
        if let Some((length, false)) = self.free.get(&to).copied() {
            self.remove(to);
            to += length;
        }
        self.insert(from, to - from, false);
        true
    }
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn reserve() -> Option<(usize, usize)> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    let machine = rustix::system::sysinfo();
    let memory = (machine.totalram as usize).saturating_add(machine.totalswap as usize);
    let length =
        memory.saturating_mul(machine.mem_unit as usize).saturating_mul(ADDRESSES).checked_next_multiple_of(HUGE)?;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping, where the system chooses, is over nobody else's memory
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), length + HUGE, ProtFlags::empty(), flags) }.ok()?;
    // SAFETY: advice on one's own new pages changes no byte of them; a kernel without huge pages
    // refuses, which does no harm
    let _ = unsafe { madvise(start, length + HUGE, Advice::LinuxHugepage) };
    Some(((start as usize).next_multiple_of(HUGE), length))
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
fn reserve() -> Option<(usize, usize)> {
    None
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn make_readable(address: usize, bytes: usize) -> bool {
    use rustix::mm::{MprotectFlags, mprotect};
    // SAFETY: these pages are in the range, and nobody has them yet
    unsafe { mprotect(address as *mut _, bytes, MprotectFlags::READ | MprotectFlags::WRITE) }.is_ok()
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
fn make_readable(_: usize, _: usize) -> bool {
    false
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn discard(address: usize, bytes: usize) -> bool {
    // SAFETY: these pages are in the range and nobody has them: they come back as zeros
    unsafe { rustix::mm::madvise(address as *mut _, bytes, rustix::mm::Advice::LinuxDontNeed) }.is_ok()
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
fn discard(_: usize, _: usize) -> bool {
    false
}

// SAFETY: every extent belongs to one caller from `take` to `give`, is at least as long as asked
// for, and begins at a multiple of 64 KiB, since the first address is one of 2 MiB; whatever is not
// from the range goes to the system's allocator as it came
unsafe impl GlobalAlloc for Large {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.take(layout) {
            Some((start, _)) => start.as_ptr(),
            // SAFETY: the caller's promise
            None => unsafe { Small.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match self.take(layout) {
            Some((start, clean)) => {
                if !clean {
                    // SAFETY: the extent is the caller's and has as many bytes
                    unsafe { start.as_ptr().write_bytes(0, layout.size()) };
                }
                start.as_ptr()
            }
            // SAFETY: the caller's promise
            None => unsafe { Small.alloc_zeroed(layout) },
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if layout.size() < LARGE && bytes < LARGE {
            // SAFETY: the caller's promise, and it is none of ours
            return unsafe { Small.realloc(pointer, layout, bytes) };
        }
        if bytes >= LARGE && bytes <= layout.size() {
            let mut state = self.lock();
            if let Range::At(base, length) = state.range
                && (base..base + length).contains(&(pointer as usize))
            {
                // An object that shrinks stays in its place.
                let [kept, had] = [bytes, layout.size()].map(|bytes| bytes.next_multiple_of(GRAIN));
                if kept < had {
                    state.give(base, pointer as usize - base + kept, had - kept);
                }
                return pointer;
            }
        }
        // SAFETY: the caller's promise: not empty, and no longer than addresses go
        let wanted = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        // SAFETY: the caller's promise
        let other = unsafe { self.alloc(wanted) };
        if !other.is_null() {
            // SAFETY: both have as many bytes, and the new ones are nobody else's
            unsafe { std::ptr::copy_nonoverlapping(pointer, other, layout.size().min(bytes)) };
            // SAFETY: the caller's promise
            unsafe { self.dealloc(pointer, layout) };
        }
        other
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if layout.size() >= LARGE {
            let mut state = self.lock();
            if let Range::At(base, length) = state.range
                && (base..base + length).contains(&(pointer as usize))
            {
                state.give(base, pointer as usize - base, layout.size().next_multiple_of(GRAIN));
                return;
            }
        }
        // SAFETY: the caller's promise, and it is none of ours
        unsafe { Small.dealloc(pointer, layout) }
    }
}

/// Bytes of this process in memory, now and at most so far, as the system counts them.
#[cfg(target_os = "linux")]
pub fn resident() -> Option<[u64; 2]> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = |name: &str| -> Option<u64> {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    Some([kib("VmRSS:")? << 10, kib("VmHWM:")? << 10])
}

/// Bytes of this process in memory, now and at most so far: not known on this system.
#[cfg(not(target_os = "linux"))]
pub fn resident() -> Option<[u64; 2]> {
    None
}

/// Resets the maximum of [`resident`]; false if the system cannot do this.
pub fn forget_peak() -> bool {
    cfg!(target_os = "linux") && std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pseudorandom number below `bound`, from a linear congruential generator.
    fn draw(state: &mut u64, bound: usize) -> usize {
        *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        ((*state >> 33) as usize) % bound
    }

    #[test]
    fn what_is_given_is_the_callers_alone_and_zero_if_so_asked() {
        static OWN: Pace = Pace::new();
        let large = Large::at(&OWN);
        let mut held: Vec<(*mut u8, Layout, u8)> = Vec::new();
        let mut state = 7;
        for round in 0..3_000usize {
            if held.len() > 24 || (!held.is_empty() && draw(&mut state, 3) == 0) {
                let (pointer, layout, mark) = held.swap_remove(draw(&mut state, held.len()));
                // SAFETY: it is ours until here
                let bytes = unsafe { std::slice::from_raw_parts(pointer, layout.size()) };
                assert!(bytes.iter().step_by(509).all(|byte| *byte == mark) && bytes.last() == Some(&mark));
                if draw(&mut state, 2) == 0 {
                    let size = 1 + draw(&mut state, 2 * layout.size());
                    // SAFETY: allocated there with this layout, and the size is not zero
                    let moved = unsafe { large.realloc(pointer, layout, size) };
                    assert!(!moved.is_null() && (moved as usize).is_multiple_of(layout.align()));
                    let in_range = cfg!(all(target_os = "linux", target_pointer_width = "64"));
                    let stays = in_range && layout.size() >= size && size >= LARGE;
                    assert!(!stays || moved == pointer, "{} bytes are moved to become {size}", layout.size());
                    // SAFETY: as many bytes are ours
                    let bytes = unsafe { std::slice::from_raw_parts_mut(moved, size) };
                    assert!(bytes[..layout.size().min(size)].iter().step_by(509).all(|byte| *byte == mark));
                    bytes.fill(mark);
                    held.push((moved, Layout::from_size_align(size, layout.align()).unwrap(), mark));
                    continue;
                }
                // SAFETY: allocated there with this layout
                unsafe { large.dealloc(pointer, layout) };
                continue;
            }
            let most = [1 << 10, 1 << 18, 1 << 23][draw(&mut state, 3)];
            let size = 1 + draw(&mut state, most);
            let layout = Layout::from_size_align(size, 1 << draw(&mut state, 13)).unwrap();
            let zeroed = draw(&mut state, 2) == 0;
            let pointer = match zeroed {
                // SAFETY: the layout is not empty
                true => unsafe { large.alloc_zeroed(layout) },
                // SAFETY: the layout is not empty
                false => unsafe { large.alloc(layout) },
            };
            assert!(!pointer.is_null() && (pointer as usize).is_multiple_of(layout.align()));
            // SAFETY: as many bytes are ours
            let bytes = unsafe { std::slice::from_raw_parts_mut(pointer, size) };
            assert!(!zeroed || bytes.iter().all(|byte| *byte == 0));
            bytes.fill(round as u8);
            held.push((pointer, layout, round as u8));
        }
        for (pointer, layout, _) in held {
            // SAFETY: allocated there with this layout
            unsafe { large.dealloc(pointer, layout) };
        }
        let usage = large.usage();
        assert_eq!(usage.used, 0);
        assert!(usage.idle <= IDLE + (32 << 20), "{usage:?}");
    }

    #[test]
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    fn as_much_is_kept_as_is_used_but_the_process_does_not_grow_for_it() {
        static OWN: Pace = Pace::new();
        let large = Large::at(&OWN);
        let layout = Layout::from_size_align(4 << 20, 64).unwrap();
        // SAFETY: the layout is not empty
        let take = |count: usize| (0..count).map(|_| unsafe { large.alloc(layout) }).collect::<Vec<*mut u8>>();
        // SAFETY: allocated there with this layout
        let give = |all: &[*mut u8]| all.iter().for_each(|pointer| unsafe { large.dealloc(*pointer, layout) });
        let (first, second) = (take(64), take(64));
        give(&first);
        assert_eq!(large.usage().idle, 256 << 20, "half of what there was at most");
        let third = take(64);
        assert_eq!(large.usage(), Usage { used: 512 << 20, peak: 512 << 20, idle: 0 }, "the same pages again");
        give(&second);
        give(&third[..1]);
        let usage = large.usage();
        assert!(usage.idle <= usage.used, "{usage:?}");
        give(&third[1..]);
        assert!(large.usage().idle <= IDLE, "{:?}", large.usage());
    }

    #[test]
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    fn who_is_busy_keeps_what_there_was_and_pages_are_used_before_new_ones() {
        static OWN: Pace = Pace::new();
        OWN.begin();
        let large = Large::at(&OWN);
        let layout = |mib: usize| Layout::from_size_align(mib << 20, 64).unwrap();
        // SAFETY: the layout is not empty
        let take = |mib| unsafe { large.alloc(layout(mib)) };
        // SAFETY: allocated there with this layout
        let give = |pointer, mib| unsafe { large.dealloc(pointer, layout(mib)) };
        let (first, wall, second) = (take(192), take(2), take(256));
        give(first, 192);
        give(second, 256);
        assert_eq!(large.usage(), Usage { used: 2 << 20, peak: 450 << 20, idle: 448 << 20 });
        // Memory is kept for a moment longer.
        let linger = Duration::from_millis(200);
        let ended = Instant::now();
        OWN.end(linger);
        give(take(1), 1);
        assert!(large.usage().idle == 448 << 20 || ended.elapsed() >= linger, "{:?}", large.usage());
        // Without busy plans, everything beyond `IDLE` goes back, from the ends of the largest
        // extents.
        std::thread::sleep(linger + Duration::from_millis(20));
        give(take(1), 1);
        let idle = large.usage().idle;
        assert!(idle <= IDLE && idle + STEP > IDLE - HUGE, "{idle}");
        // A clean extent may fit as well or better, but an extent with pages that is large enough
        // is used first.
        let small = take(1);
        assert_eq!(large.usage().idle, idle - (1 << 20));
        give(small, 1);
        give(wall, 2);
        assert_eq!(large.usage().used, 0);
    }

    #[test]
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    fn what_nobody_uses_goes_back() {
        static OWN: Pace = Pace::new();
        let large = Large::at(&OWN);
        let layout = Layout::from_size_align(16 << 20, 64).unwrap();
        for _ in 0..3 {
            // SAFETY: the layout is not empty
            let all: Vec<*mut u8> = (0..16).map(|_| unsafe { large.alloc(layout) }).collect();
            for pointer in &all {
                // SAFETY: as many bytes are ours
                unsafe { pointer.write_bytes(1, layout.size()) };
            }
            assert_eq!(large.usage().used, 256 << 20);
            for pointer in all {
                // SAFETY: allocated there with this layout
                unsafe { large.dealloc(pointer, layout) };
            }
            assert!(large.usage().idle <= IDLE + (4 << 20), "{:?}", large.usage());
        }
        assert!(large.usage().idle <= IDLE, "all of it: {:?}", large.usage());
        // Three equal rounds take no more addresses than one.
        assert_eq!(large.usage().peak, 256 << 20);
        assert!(large.lock().top <= 272 << 20);
    }
}
