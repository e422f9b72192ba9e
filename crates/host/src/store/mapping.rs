//! Memory from the system: whole pages, returned when dropped.

use std::io;
use std::ptr::NonNull;

/// Direct transfers need memory, offsets and lengths in multiples of this: the largest sector in
/// common use.
pub(super) const PAGE: usize = 4096;

/// Mappings of at least this length start at a multiple of it and may use huge pages.
#[cfg(unix)]
const HUGE: usize = 2 << 20;

/// Memory of one owner, aligned at least to [`PAGE`]. Its bytes are zero at first.
pub(super) struct Mapping {
    address: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is plain memory that belongs to no thread.
unsafe impl Send for Mapping {}
// SAFETY: without an exclusive borrow nothing of a mapping changes; who writes through the address
// answers for it.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` bytes, a multiple of [`granule`] and not zero.
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        debug_assert!(bytes > 0 && bytes.is_multiple_of(granule()));
        Ok(Self { address: map(bytes)?, bytes })
    }

    /// A mapping without memory, in the place of one that was taken.
    pub(super) fn none() -> Self {
        Self { address: NonNull::dangling(), bytes: 0 }
    }

    pub(super) fn address(&self) -> NonNull<u8> {
        self.address
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.bytes > 0 {
            unmap(self.address, self.bytes);
        }
    }
}

/// The unit in which the system gives memory: its page, but at least [`PAGE`].
#[cfg(unix)]
pub(super) fn granule() -> usize {
    rustix::param::page_size().max(PAGE)
}

/// The unit in which the system gives memory: its page, but at least [`PAGE`].
#[cfg(not(unix))]
pub(super) fn granule() -> usize {
    PAGE
}

#[cfg(unix)]
fn map(bytes: usize) -> io::Result<NonNull<u8>> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    // A huge page must start at a multiple of its length. So more is mapped, and both ends are
    // unmapped, untouched.
    let surplus = if bytes >= HUGE { HUGE } else { 0 };
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, where the system chooses, is over nobody else's memory.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes + surplus, access, MapFlags::PRIVATE) }?;
    let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
    if surplus == 0 {
        return Ok(start);
    }
    let head = start.addr().get().next_multiple_of(HUGE) - start.addr().get();
    // SAFETY: `head` is below `surplus`, so this lies inside the mapping.
    let aligned = unsafe { start.add(head) };
    // SAFETY: `head + bytes` is at most the mapping's length.
    let tail = unsafe { aligned.add(bytes) };
    unmap(start, head);
    unmap(tail, surplus - head);
    advise_huge(aligned, bytes);
    Ok(aligned)
}

#[cfg(unix)]
fn unmap(address: NonNull<u8>, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the caller owns these pages and uses them no more. A failure leaves them mapped
        // and costs nothing but addresses where they were never touched.
        let _ = unsafe { rustix::mm::munmap(address.as_ptr().cast(), bytes) };
    }
}

#[cfg(target_os = "linux")]
fn advise_huge(address: NonNull<u8>, bytes: usize) {
    // SAFETY: advice on one's own new pages changes no byte of them. A kernel without huge pages
    // refuses; no harm.
    let _ = unsafe { rustix::mm::madvise(address.as_ptr().cast(), bytes, rustix::mm::Advice::LinuxHugepage) };
}

#[cfg(all(unix, not(target_os = "linux")))]
fn advise_huge(_: NonNull<u8>, _: usize) {}

#[cfg(not(unix))]
fn layout(bytes: usize) -> io::Result<std::alloc::Layout> {
    std::alloc::Layout::from_size_align(bytes, PAGE).map_err(|_| io::ErrorKind::OutOfMemory.into())
}

#[cfg(not(unix))]
fn map(bytes: usize) -> io::Result<NonNull<u8>> {
    let layout = layout(bytes)?;
    // SAFETY: the layout is not empty.
    let address = unsafe { std::alloc::alloc_zeroed(layout) };
    NonNull::new(address).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

#[cfg(not(unix))]
fn unmap(address: NonNull<u8>, bytes: usize) {
    if let Ok(layout) = layout(bytes) {
        // SAFETY: `map` allocated it with this layout.
        unsafe { std::alloc::dealloc(address.as_ptr(), layout) };
    }
}
