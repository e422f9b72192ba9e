//! Memory whose addresses depend on nothing but the sizes and the order of requests.
//!
//! The system's allocator gives other addresses after other histories, and two runs would part
//! without a secret. So a traced run takes its memory from an arena, from the start, and gives
//! nothing back.

#![expect(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes of the arena.
const BYTES: usize = 64 << 20;

#[repr(align(4096))]
struct Arena {
    bytes: UnsafeCell<[u8; BYTES]>,
    used: AtomicUsize,
    is_open: AtomicBool,
}

// SAFETY: threads get parts of the bytes that do not overlap
unsafe impl Sync for Arena {}

static ARENA: Arena =
    Arena { bytes: UnsafeCell::new([0; BYTES]), used: AtomicUsize::new(0), is_open: AtomicBool::new(false) };

struct Memory;

#[global_allocator]
static MEMORY: Memory = Memory;

/// From here on memory comes from the start of the arena. Nothing that was allocated there before
/// may be used again.
pub(super) fn restart() {
    ARENA.used.store(0, Ordering::SeqCst);
    ARENA.is_open.store(true, Ordering::SeqCst);
}

// SAFETY: parts of the arena do not overlap between two restarts, and the system has the rest
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !ARENA.is_open.load(Ordering::Relaxed) {
            // SAFETY: the caller's promise
            return unsafe { System.alloc(layout) };
        }
        let start = ARENA.used.load(Ordering::Relaxed).next_multiple_of(layout.align());
        let Some(end) = start.checked_add(layout.size()).filter(|end| *end <= BYTES) else {
            return std::ptr::null_mut();
        };
        ARENA.used.store(end, Ordering::Relaxed);
        // SAFETY: `start` is within the arena
        unsafe { ARENA.bytes.get().cast::<u8>().add(start) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        let start = ARENA.bytes.get() as usize;
        if !(start..start + BYTES).contains(&(at as usize)) {
            // SAFETY: the caller's promise: the system gave it
            unsafe { System.dealloc(at, layout) };
        }
    }
}
