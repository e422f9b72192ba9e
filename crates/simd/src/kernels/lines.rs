//! Eight lanes in memory, memory that is wiped, and memory that is reused.

#![allow(unsafe_code, reason = "lines are words")]

use std::sync::{Arc, Mutex, PoisonError};

/// Eight lanes in memory: one cache line.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Line(pub [u64; LANES]);

/// Lanes of a line.
pub const LANES: usize = 8;

impl Line {
    /// Zeros.
    pub const ZERO: Line = Line([0; LANES]);
}

/// Lines that may hold secrets; they are wiped when dropped.
#[derive(Clone, Default)]
pub struct Lines(Vec<Line>);

impl Lines {
    /// Takes over these lines.
    #[inline]
    pub fn new(lines: Vec<Line>) -> Self {
        Self(lines)
    }

    /// Lines of zeros.
    pub fn zero(count: usize) -> Self {
        Self(vec![Line::ZERO; count])
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.0.fill(Line::ZERO);
        // keeps the compiler from removing the writes as dead
        std::hint::black_box(self.0.as_ptr());
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    }
}

impl std::ops::Deref for Lines {
    type Target = [Line];

    #[inline]
    fn deref(&self) -> &[Line] {
        &self.0
    }
}

impl std::ops::DerefMut for Lines {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Line] {
        &mut self.0
    }
}

/// Numbers that may reveal a secret. They are wiped when dropped, as one fill of the memory.
pub struct Wiped<T: Copy + Default>(Vec<T>);

impl<T: Copy + Default> Wiped<T> {
    /// Takes over these numbers.
    #[inline]
    pub fn new(values: Vec<T>) -> Self {
        Self(values)
    }
}

impl<T: Copy + Default> Drop for Wiped<T> {
    fn drop(&mut self) {
        self.0.fill(T::default());
        // keeps the compiler from removing the writes as dead
        std::hint::black_box(self.0.as_ptr());
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    }
}

impl<T: Copy + Default> std::ops::Deref for Wiped<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Copy + Default> std::ops::DerefMut for Wiped<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

/// Lines as words.
#[inline]
pub(crate) fn words(lines: &[Line]) -> &[u64] {
    // SAFETY: a line is eight words and nothing else
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * LANES) }
}

/// Lines as words.
#[inline]
pub(crate) fn words_mut(lines: &mut [Line]) -> &mut [u64] {
    // SAFETY: as above
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * LANES) }
}

/// Released memory, kept for the next request of the same size. For large pieces, a round trip to
/// the system costs more than the computation in them.
#[derive(Default)]
pub struct Pool(Mutex<Vec<Vec<Line>>>);

/// The most lines that a pool keeps: 64 MiB.
const MOST: usize = 1 << 20;

/// Lines with arbitrary content. The caller overwrites them; zeroing them first would be a second
/// pass over megabytes.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[allow(clippy::uninit_vec, reason = "the memory counts as written")]
fn fresh(count: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::with_capacity(count);
    // SAFETY: the assembly holds no instruction. The compiler has to assume that it writes through
    // the pointer, and such a write could store the bytes that are there. So the memory of these
    // lines is initialised from here on.
    unsafe { std::arch::asm!("/* {0} */", in(reg) lines.as_mut_ptr(), options(nostack, preserves_flags)) };
    // SAFETY: there is room for them, any bits are a line, and they are initialised, as above.
    unsafe { lines.set_len(count) };
    lines
}

/// Lines of zeros.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn fresh(count: usize) -> Vec<Line> {
    vec![Line::ZERO; count]
}

impl Pool {
    /// `count` lines of any content.
    fn take(&self, count: usize) -> Vec<Line> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.iter().rposition(|lines| lines.len() == count) {
            Some(place) => kept.remove(place),
            None => {
                drop(kept);
                fresh(count)
            }
        }
    }

    /// All words that the pool keeps.
    #[doc(hidden)]
    pub fn kept(&self) -> Vec<u64> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().flat_map(|lines| words(lines).to_vec()).collect()
    }

    /// Takes lines back. A full pool drops the oldest first.
    fn give(&self, lines: Vec<Line>) {
        if lines.len() > MOST {
            return;
        }
        let mut old = Vec::new(); // given back to the system when the lock is free
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(lines);
        let mut left = kept.iter().map(Vec::len).sum::<usize>();
        while left > MOST {
            old.push(kept.remove(0));
            left -= old.last().map_or(0, Vec::len);
        }
    }
}

/// Words in whole lines, from a pool. They return to the pool when dropped. Wipe secrets before
/// that.
pub struct Buffer {
    lines: Vec<Line>,
    pool: Arc<Pool>,
}

impl Buffer {
    /// `count` words of any content. `count` must be a multiple of eight.
    ///
    /// # Panics
    /// If `count` is no multiple of eight.
    pub fn any(pool: &Arc<Pool>, count: usize) -> Self {
        assert_eq!(count % LANES, 0, "whole lines");
        Self { lines: pool.take(count / LANES), pool: Arc::clone(pool) }
    }

    /// Keeps the first `count` words only. The allocator of the `tobari` command frees the end and
    /// leaves the rest where it is; other allocators copy it. The end is not wiped: wipe secrets
    /// before the call.
    ///
    /// # Panics
    /// If `count` is no multiple of eight, or more than the length.
    pub fn truncate(&mut self, count: usize) {
        assert!(count.is_multiple_of(LANES) && count <= self.len(), "whole lines of these");
        self.lines.truncate(count / LANES);
        self.lines.shrink_to_fit();
    }

    /// Overwrites the words with zeros. The compiler cannot remove the writes.
    pub fn wipe(&mut self) {
        self.fill(0);
        // keeps the compiler from removing the writes as dead
        std::hint::black_box(self.lines.as_ptr());
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pool")
    }
}

/// Prints the length only, because the content may be secret.
impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} words", self.len())
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        let mut copy = Self::any(&self.pool, self.len());
        copy.copy_from_slice(self);
        copy
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.lines));
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u64];

    #[inline]
    fn deref(&self) -> &[u64] {
        words(&self.lines)
    }
}

impl std::ops::DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u64] {
        words_mut(&mut self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_pool_keeps_what_was_given_last() {
        let pool: Arc<Pool> = Arc::default();
        let third = LANES * (MOST / 3);
        for count in [third, third + LANES, third, LANES * (MOST + 1), third + 2 * LANES] {
            drop(Buffer::any(&pool, count));
        }
        let kept: Vec<usize> = pool.0.lock().unwrap().iter().map(|lines| lines.len() * LANES).collect();
        assert_eq!(kept, [third, third + 2 * LANES]);
    }
}
