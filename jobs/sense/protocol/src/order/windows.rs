//! Windows of time.

/// The windows of an order, in milliseconds since 1970: one begins at `offset`, and one at each
/// multiple of `every` after it.
///
/// ```
/// use tobari_sense::order::Windows;
/// let hours = Windows { length_ms: 3_600_000, every_ms: 900_000, offset_ms: 0, lateness_ms: 0 };
/// assert!(hours.begins_at(900_000) && !hours.begins_at(1_000_000));
/// let starts: Vec<u64> = hours.of(7_200_000).collect();
/// assert_eq!(starts, [4_500_000, 5_400_000, 6_300_000, 7_200_000]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// The length of a window.
    pub length_ms: u64,
    /// The interval between beginnings.
    pub every_ms: u64,
    /// The first beginning, below the interval.
    pub offset_ms: u64,
    /// How long after its end a window waits for frames.
    pub lateness_ms: u64,
}

impl Windows {
    /// Whether a window begins at this time.
    pub fn begins_at(&self, start_ms: u64) -> bool {
        start_ms.checked_sub(self.offset_ms).is_some_and(|since| since.is_multiple_of(self.every_ms))
    }

    /// The end of a window: the first time that does not belong to it.
    pub fn end(&self, start_ms: u64) -> u64 {
        start_ms.saturating_add(self.length_ms)
    }

    /// The time from which a window's results can be fetched.
    pub fn closes(&self, start_ms: u64) -> u64 {
        self.end(start_ms).saturating_add(self.lateness_ms)
    }

    /// The beginning of the first window that ends after this time.
    pub fn first(&self, time_ms: u64) -> u64 {
        let above = time_ms.saturating_add(1).saturating_sub(self.length_ms);
        above.saturating_sub(self.offset_ms).div_ceil(self.every_ms).saturating_mul(self.every_ms) + self.offset_ms
    }

    /// The beginnings of all windows to which a time belongs. There is none between windows that do
    /// not meet.
    pub fn of(&self, time_ms: u64) -> impl Iterator<Item = u64> {
        let every = usize::try_from(self.every_ms).unwrap_or(usize::MAX);
        (self.first(time_ms)..=time_ms).step_by(every.max(1))
    }
}
