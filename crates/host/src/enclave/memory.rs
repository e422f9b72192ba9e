//! Memory that a host and its enclave share. Its length is sealed, and all access is by atomic
//! words.

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Bytes before the two rings: counters and bells.
const CONTROL_BYTES: usize = 4096;
/// The second half of the control page holds the bells, 64 bytes apart.
const BELLS_AT: usize = 2048;
const LINE: usize = 64;

/// A control page and two rings, mapped into this process and the other.
///
/// The other side may change any byte at any time, and may violate the protocol. So this side
/// accesses the memory only as atomic integers, and checks everything it reads before use. The
/// length is sealed: neither side can truncate the memory under the other.
pub struct Shared {
    address: NonNull<u8>,
    ring_bytes: usize,
}

// SAFETY: the mapping belongs to no thread, and is reached through atomics only.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Creates memory with two rings of `ring_bytes` each, a power of two of at least a page. Also
    /// returns the memory's file descriptor.
    pub fn create(ring_bytes: usize) -> io::Result<(Self, OwnedFd)> {
        if !ring_bytes.is_power_of_two() || !(CONTROL_BYTES..=1 << 30).contains(&ring_bytes) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected rings of 2^12 to 2^30 bytes"));
        }
        let file = memfd_create("tobari-enclave", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, (CONTROL_BYTES + 2 * ring_bytes) as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Self::map(&file, ring_bytes)?, file))
    }

    /// Maps the memory of a file that another process created with [`Shared::create`].
    pub fn attach(file: impl AsFd) -> io::Result<Self> {
        let not_ours =
            || io::Error::new(io::ErrorKind::InvalidInput, "expected sealed shared memory on standard input");
        let seals = fcntl_get_seals(&file).map_err(|_| not_ours())?;
        let bytes = usize::try_from(fstat(&file)?.st_size).map_err(|_| not_ours())?;
        let ring_bytes = bytes.checked_sub(CONTROL_BYTES).ok_or_else(not_ours)? / 2;
        let whole =
            CONTROL_BYTES + 2 * ring_bytes == bytes && ring_bytes.is_power_of_two() && ring_bytes >= CONTROL_BYTES;
        if !seals.contains(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL) || !whole {
            return Err(not_ours());
        }
        Self::map(&file, ring_bytes)
    }

    fn map(file: impl AsFd, ring_bytes: usize) -> io::Result<Self> {
        let (bytes, access) = (CONTROL_BYTES + 2 * ring_bytes, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping, at an address that the system chooses, overlaps no other memory.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, file, 0) }?;
        let address = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { address, ring_bytes })
    }

    /// Ring 0 or 1, as words.
    pub fn ring(&self, ring: usize) -> &[AtomicU64] {
        let start = CONTROL_BYTES + (ring & 1) * self.ring_bytes;
        // SAFETY: `start` is inside the mapping: it has a control page and two rings.
        let start = unsafe { self.address.add(start) };
        // SAFETY: `ring_bytes` from `start` lie inside the mapping, which lives as long as `self`;
        // they start at a page, and a word of eight bytes may hold anything. Atomics may be changed
        // by others, this process or another.
        unsafe { std::slice::from_raw_parts(start.as_ptr().cast::<AtomicU64>(), self.ring_bytes / 8) }
    }

    /// Makes every page of the rings resident now, and not when a message first reaches it. Changes
    /// no byte, so the other side may use the rings meanwhile.
    pub fn touch(&self) {
        for ring in [0, 1] {
            // For the processor a compare-exchange is a write. A compiler may turn other operations
            // that change nothing into loads.
            let write = |word: &AtomicU64| _ = word.compare_exchange(0, 0, Relaxed, Relaxed);
            self.ring(ring).iter().step_by(CONTROL_BYTES / 8).for_each(write);
        }
    }

    /// Overwrites both rings with zeros.
    pub fn wipe(&self) {
        for ring in [0, 1] {
            self.ring(ring).iter().for_each(|word| word.store(0, Relaxed));
        }
    }

    /// Counter `index`, below 32, each on a cache line of its own.
    pub fn counter(&self, index: usize) -> &AtomicU64 {
        // SAFETY: 32 lines of 64 bytes are the first half of the control page.
        let place = unsafe { self.address.add((index % (BELLS_AT / LINE)) * LINE) };
        // SAFETY: inside the mapping, aligned, any bits are a word, and atomics may be changed by
        // others. Bells are elsewhere.
        unsafe { place.cast::<AtomicU64>().as_ref() }
    }

    /// Bell `index`, below 32: a word that a process can sleep on.
    pub fn bell(&self, index: usize) -> &AtomicU32 {
        // SAFETY: 32 lines of 64 bytes are the second half of the control page.
        let place = unsafe { self.address.add(BELLS_AT + (index % (BELLS_AT / LINE)) * LINE) };
        // SAFETY: inside the mapping, aligned, any bits are a word, and atomics may be changed by
        // others. Counters are elsewhere.
        unsafe { place.cast::<AtomicU32>().as_ref() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no borrow of it outlives it. A failure leaves it
        // mapped.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), CONTROL_BYTES + 2 * self.ring_bytes) };
    }
}
