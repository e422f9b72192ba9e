//! Windows of time.

use std::sync::Arc;

/// The windows of an order, in milliseconds since 1970. One begins at `offset`, and one at each
/// multiple of `every` after it. Months, and days of a zone with summer time, have no common
/// length: such windows lie between bounds that the order lists.
///
/// ```
/// use tobari_sense::order::Windows;
/// let hours = Windows::even(3_600_000, 900_000, 0);
/// assert!(hours.begins_at(900_000) && !hours.begins_at(1_000_000));
/// let starts: Vec<u64> = hours.of(7_200_000).collect();
/// assert_eq!(starts, [4_500_000, 5_400_000, 6_300_000, 7_200_000]);
/// let months = Windows::between(&[1000, 3000, 4000]);
/// assert_eq!((months.end(1000), months.first(3500), months.begins_at(4000)), (3000, 3000, false));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    length_ms: u64,
    every_ms: u64,
    offset_ms: u64,
    lateness_ms: u64,
    /// Ascending; windows lie between two of them. Empty for even windows.
    bounds: Arc<[u64]>,
}

impl Windows {
    /// Windows of one length.
    pub fn even(length_ms: u64, every_ms: u64, offset_ms: u64) -> Self {
        Self { length_ms, every_ms, offset_ms, lateness_ms: 0, bounds: Arc::default() }
    }

    /// Windows between bounds, which ascend.
    pub fn between(bounds: &[u64]) -> Self {
        Self { length_ms: 0, every_ms: 1, offset_ms: 0, lateness_ms: 0, bounds: bounds.into() }
    }

    /// The same windows, which wait this long after their end for frames.
    pub fn waiting(self, lateness_ms: u64) -> Self {
        Self { lateness_ms, ..self }
    }

    /// The number of the bound at this time.
    fn bound(&self, time_ms: u64) -> Option<usize> {
        self.bounds.binary_search(&time_ms).ok()
    }

    /// Whether a window begins at this time.
    pub fn begins_at(&self, start_ms: u64) -> bool {
        if !self.bounds.is_empty() {
            return self.bound(start_ms).is_some_and(|bound| bound + 1 < self.bounds.len());
        }
        start_ms.checked_sub(self.offset_ms).is_some_and(|since| since.is_multiple_of(self.every_ms))
    }

    /// The end of a window: the first time that does not belong to it.
    pub fn end(&self, start_ms: u64) -> u64 {
        if !self.bounds.is_empty() {
            let next = self.bound(start_ms).and_then(|bound| self.bounds.get(bound + 1));
            return next.copied().unwrap_or(u64::MAX);
        }
        start_ms.saturating_add(self.length_ms)
    }

    /// The time from which a window's results can be fetched.
    pub fn closes(&self, start_ms: u64) -> u64 {
        self.end(start_ms).saturating_add(self.lateness_ms)
    }

    /// The beginning of the window after this one; `u64::MAX` if there is none.
    pub fn next(&self, start_ms: u64) -> u64 {
        match self.bounds.is_empty() {
            true => start_ms.saturating_add(self.every_ms),
            false => self.first(self.end(start_ms)),
        }
    }

    /// The beginning of the first window that ends after this time; `u64::MAX` if there is none.
    pub fn first(&self, time_ms: u64) -> u64 {
        if !self.bounds.is_empty() {
            let ends = self.bounds[1..].partition_point(|end| *end <= time_ms);
            let begins = self.bounds.get(ends).filter(|_| ends + 1 < self.bounds.len());
            return begins.copied().unwrap_or(u64::MAX);
        }
        let above = time_ms.saturating_add(1).saturating_sub(self.length_ms);
        let steps = above.saturating_sub(self.offset_ms).div_ceil(self.every_ms);
        steps.saturating_mul(self.every_ms).saturating_add(self.offset_ms)
    }

    /// The length of the longest window in milliseconds.
    pub fn longest(&self) -> u64 {
        let between = self.bounds.windows(2).map(|two| two[1].saturating_sub(two[0]));
        between.max().unwrap_or(self.length_ms)
    }

    /// The beginnings of all windows to which a time belongs. There is none between windows that do
    /// not meet.
    pub fn of(&self, time_ms: u64) -> impl Iterator<Item = u64> + use<'_> {
        let next = move |start: &u64| Some(self.next(*start)).filter(|next| next > start);
        std::iter::successors(Some(self.first(time_ms)), next).take_while(move |start| *start <= time_ms)
    }
}
