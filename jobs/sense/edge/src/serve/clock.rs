//! The time until which windows of version 2 are closed.
//!
//! A window closes by the server's clock. **A clock that jumps ahead by three days would close the
//! windows of three days at once**, and the frames of these days would come too late. So a jump is
//! not believed at first: time goes on as a clock shows it that nobody can set. A clock that is
//! right again within [`HOLD`] has closed nothing; one that stays is believed then, because a
//! machine that slept shows the same jump. A clock that goes back is believed at once: it only
//! delays windows. A clock before 2026 was not set, and closes nothing. If a server starts
//! under one, the next clock is believed.
//!
//! A jump while the server does not run is not seen.

use super::commit::RELEASED_MS;
#[cfg(not(feature = "simulated-clock"))]
use std::time::{SystemTime, UNIX_EPOCH};
use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The time of a clock that nobody can set, and the wall clock's in milliseconds since 1970.
#[cfg(not(feature = "simulated-clock"))]
pub(super) fn clocks() -> (Instant, u64) {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH);
    (Instant::now(), wall.map_or(0, |time| time.as_millis() as u64))
}

/// The same from a file, for tests of long times: two numbers of 8 bytes, the milliseconds since
/// some moment and those since 1970.
#[cfg(feature = "simulated-clock")]
pub(super) fn clocks() -> (Instant, u64) {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    let file = std::env::var_os("TOBARI_SIMULATED_CLOCK").unwrap_or_default();
    let bytes = std::fs::read(file).unwrap_or_default();
    let number = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
    let (passed, wall) = number(0).zip(number(8)).unwrap_or_default();
    (*START + Duration::from_millis(passed), wall)
}
use tobari_sense_files::CLOCK_STEP_MS;

/// How long a clock that jumped ahead is not believed.
pub(super) const HOLD: Duration = Duration::from_secs(3600);

/// The last time that was believed.
struct Believed {
    at: Instant,
    wall_ms: u64,
    /// When the clock was first seen ahead of it.
    ahead_since: Option<Instant>,
}

/// A wall clock whose jumps ahead are believed late.
pub(super) struct ClosingClock(Mutex<Believed>);

impl ClosingClock {
    /// The clock of a server that starts now, when the wall clock shows `wall_ms`.
    pub(super) fn new(now: Instant, wall_ms: u64) -> Self {
        Self(Mutex::new(Believed { at: now, wall_ms, ahead_since: None }))
    }

    /// The time in milliseconds since 1970 until which windows are closed, when the wall clock
    /// shows `wall_ms`.
    pub(super) fn until(&self, now: Instant, wall_ms: u64) -> u64 {
        let mut believed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // a clock that was not set closes nothing, and is no measure for the clock behind it
        if wall_ms < RELEASED_MS {
            return wall_ms;
        }
        let passed = now.saturating_duration_since(believed.at).as_millis() as u64;
        let expected = believed.wall_ms.saturating_add(passed);
        if wall_ms.saturating_sub(expected) > CLOCK_STEP_MS && expected >= RELEASED_MS {
            let since = *believed.ahead_since.get_or_insert_with(|| {
                let seconds = (wall_ms - expected) / 1000;
                tracing::error!(
                    seconds,
                    "the server's clock went ahead: no window closes by it for an hour. If it is wrong, set it: then \
                     nothing is lost. If it is right, because it was wrong before or the machine slept, wait"
                );
                now
            });
            if now.saturating_duration_since(since) < HOLD {
                return expected;
            }
            tracing::warn!("the server's clock is believed again: windows close by it");
        }
        *believed = Believed { at: now, wall_ms, ahead_since: None };
        wall_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;
    const DAYS: u64 = 72 * HOUR;

    #[test]
    fn a_clock_that_is_wrong_for_less_than_an_hour_closes_no_window_early() {
        let start = Instant::now();
        let clock = ClosingClock::new(start, RELEASED_MS + 1_000_000);
        let at = |ms: u64| start + Duration::from_millis(ms);
        let until = |ms: u64, wall_ms: u64| clock.until(at(ms), RELEASED_MS + wall_ms) - RELEASED_MS;
        assert_eq!(until(0, 1_000_000), 1_000_000);
        assert_eq!(until(60_000, 1_060_000 + CLOCK_STEP_MS), 1_060_000 + CLOCK_STEP_MS, "a correction");
        assert_eq!(until(120_000, 1_125_000), 1_125_000);
        for minute in 3..60 {
            let at = 60_000 * minute;
            assert_eq!(until(at, 1_005_000 + at + DAYS), 1_005_000 + at, "minute {minute}");
        }
        assert_eq!(until(HOUR, 1_005_000 + HOUR), 1_005_000 + HOUR, "it was set right");
        // the next jump is held as long as the first
        assert_eq!(until(2 * HOUR, 1_005_000 + 2 * HOUR + DAYS), 1_005_000 + 2 * HOUR);
        assert_eq!(until(3 * HOUR - 1, 1_005_000 + 3 * HOUR + DAYS), 1_005_000 + 3 * HOUR - 1);
    }

    #[test]
    fn a_clock_that_stays_ahead_is_believed_after_an_hour_and_one_that_goes_back_at_once() {
        let start = Instant::now();
        let clock = ClosingClock::new(start, RELEASED_MS + DAYS);
        let at = |ms: u64| start + Duration::from_millis(ms);
        let until = |ms: u64, wall_ms: u64| clock.until(at(ms), RELEASED_MS + wall_ms) - RELEASED_MS;
        assert_eq!(until(0, DAYS), DAYS);
        assert_eq!(until(1, 2 * DAYS), DAYS + 1, "the machine slept for three days");
        assert_eq!(until(HOUR, 2 * DAYS + HOUR), DAYS + HOUR);
        assert_eq!(until(HOUR + 1, 2 * DAYS + HOUR), 2 * DAYS + HOUR);
        assert_eq!(until(HOUR + 2, 2 * DAYS + HOUR + 1), 2 * DAYS + HOUR + 1);
        assert_eq!(until(HOUR + 3, DAYS), DAYS);
        assert_eq!(until(2 * HOUR + 3, DAYS + HOUR), DAYS + HOUR);
    }

    #[test]
    fn a_jump_before_the_first_question_is_held_and_a_clock_that_was_not_set_is_no_measure() {
        let start = Instant::now();
        let clock = ClosingClock::new(start, RELEASED_MS + DAYS);
        assert_eq!(clock.until(start + HOLD, RELEASED_MS + 3 * DAYS), RELEASED_MS + DAYS + HOUR);
        // nor does a clock that falls to 1970 let a jump through
        assert_eq!(clock.until(start + HOLD, 5_000), 5_000);
        assert_eq!(clock.until(start + HOLD, RELEASED_MS + 3 * DAYS), RELEASED_MS + DAYS + HOUR);
        // a machine without a battery starts in 1970, and is right a minute later
        let unset = ClosingClock::new(start, 5_000);
        assert_eq!(unset.until(start + Duration::from_secs(60), RELEASED_MS + DAYS), RELEASED_MS + DAYS);
    }
}
