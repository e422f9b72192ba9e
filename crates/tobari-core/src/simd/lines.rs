//! Eight lanes in memory, and memory that is wiped.

/// Eight lanes in memory: one cache line.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u64; LANES]);

/// Lanes of a line.
pub(crate) const LANES: usize = 8;

impl Line {
    pub(crate) const ZERO: Line = Line([0; LANES]);
}

/// Lines that may hold secrets: wiped at the end.
#[derive(Clone, Default)]
pub(crate) struct Lines(Vec<Line>);

impl Lines {
    pub(crate) fn new(lines: Vec<Line>) -> Self {
        Self(lines)
    }

    pub(crate) fn zero(count: usize) -> Self {
        Self(vec![Line::ZERO; count])
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.0.fill(Line::ZERO);
        // the compiler may not take the memory for dead
        std::hint::black_box(self.0.as_ptr());
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    }
}

impl std::ops::Deref for Lines {
    type Target = [Line];

    fn deref(&self) -> &[Line] {
        &self.0
    }
}

impl std::ops::DerefMut for Lines {
    fn deref_mut(&mut self) -> &mut [Line] {
        &mut self.0
    }
}
