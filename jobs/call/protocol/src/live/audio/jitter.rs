//! A buffer between frames that arrive at any time and frames that are played every 20 ms.

use std::collections::BTreeMap;

use super::splice;

/// Frames that are held back: at first, at the least, and at the most (200 ms).
const FIRST: u32 = 2;
const LEAST: u32 = 1;
const MOST: u32 = 10;
/// Frames to play without a late one before less is held back: four seconds at first, and twenty at
/// most.
const CALM: [u32; 2] = [200, 1000];
/// Frames over which more must wait than is held back before the excess is worked off, and frames
/// between two that fade into the next.
const PATIENCE: u32 = 50;
const SPACING: u32 = 10;
/// A larger excess is skipped at once: half a second.
const CUT: usize = 25;
/// The largest sample of a frame in which nobody talks: senders send silence then.
const QUIET: i32 = 32;
/// Frames in a row that may be missing before the buffer waits for the next one to arrive.
const GIVE_UP: u32 = 25;
/// Ticks that a frame may be ahead. Beyond that the buffer restarts.
const FAR: u32 = 500;

/// The result of a pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Played {
    /// The samples of a tick.
    Samples(Vec<i32>),
    /// A frame is missing.
    Lost,
    /// No frame has arrived for so long that there is nothing to bridge.
    Nothing,
}

/// Frames by tick. The buffer drops a frame that arrives after its turn, and holds back more from
/// then on.
pub struct JitterBuffer {
    frames: BTreeMap<u32, Vec<i32>>,
    /// The tick that is played next; none until enough frames wait.
    next: Option<u32>,
    held_back: u32,
    /// Frames by which playback must fall back.
    owed: u32,
    calm: u32,
    /// Frames without a late one before less is held back. Late frames raise it. So a steady line
    /// soon has little delay, and an unsteady one does not lose a frame at each attempt with less.
    wanted: u32,
    /// The fewest waiting frames of this stretch.
    fewest: usize,
    since: u32,
    /// Frames to work off, and frames played since the last one that was.
    excess: usize,
    spaced: u32,
    missing: u32,
}

impl Default for JitterBuffer {
    fn default() -> Self {
        let (calm, wanted, fewest, since) = (0, CALM[0], usize::MAX, 0);
        let (frames, excess, spaced, missing) = (BTreeMap::new(), 0, 0, 0);
        Self { frames, next: None, held_back: FIRST, owed: 0, calm, wanted, fewest, since, excess, spaced, missing }
    }
}

impl JitterBuffer {
    /// Takes the frame of a tick.
    pub fn push(&mut self, tick: u32, samples: Vec<i32>) {
        match self.next {
            Some(next) if tick < next => {
                self.owed += u32::from(self.held_back < MOST && self.owed == 0);
                self.held_back = (self.held_back + self.owed).min(MOST);
                if self.calm > 0 {
                    self.wanted = (self.wanted + self.wanted / 2).min(CALM[1]);
                }
                self.calm = 0;
            }
            Some(next) if tick - next > FAR => {
                self.restart();
                self.frames.insert(tick, samples);
            }
            _ => {
                self.frames.insert(tick, samples);
            }
        }
        while self.frames.len() > FAR as usize {
            self.frames.pop_first();
        }
    }

    fn restart(&mut self) {
        (self.next, self.missing, self.fewest, self.since, self.excess) = (None, 0, usize::MAX, 0, 0);
        self.frames.clear();
    }

    /// The frame to play now.
    pub fn pull(&mut self) -> Played {
        if self.next.or_else(|| self.begin()).is_none() {
            return Played::Nothing;
        }
        if self.owed > 0 && self.missing == 0 {
            // more is held back from here on: one substitute frame fills the gap
            self.owed -= 1;
            return Played::Lost;
        }
        self.adapt();
        let Some(next) = self.next else { return Played::Nothing };
        let played = self.frames.remove(&next);
        self.next = next.checked_add(1);
        let Some(samples) = played else {
            self.missing += 1;
            if self.missing >= GIVE_UP || self.frames.is_empty() && self.next.is_none() {
                self.restart();
                return Played::Nothing;
            }
            if self.frames.is_empty() {
                // no frame waits at all: the missing one may only be slow, so wait for it
                self.next = Some(next);
                self.held_back = (self.held_back + u32::from(self.missing == 1)).min(MOST);
            }
            return Played::Lost;
        };
        self.missing = 0;
        self.calm += 1;
        if self.calm >= self.wanted {
            (self.calm, self.held_back) = (0, (self.held_back - 1).max(LEAST));
        }
        Played::Samples(self.shortened(samples))
    }

    /// The frame to play. If more frames than necessary wait for a while, one fades into the next
    /// now and then, in pauses first.
    fn shortened(&mut self, samples: Vec<i32>) -> Vec<i32> {
        self.spaced = self.spaced.saturating_add(1);
        let quiet = samples.iter().all(|sample| sample.abs() <= QUIET);
        if self.excess == 0 || self.spaced < SPACING && !quiet {
            return samples;
        }
        let Some(following) = self.next.and_then(|next| self.frames.remove(&next)) else { return samples };
        self.next = self.next.and_then(|next| next.checked_add(1));
        (self.excess, self.spaced) = (self.excess - 1, 0);
        splice::fade(&samples, &following).collect()
    }

    /// The first tick to play, if enough frames wait.
    fn begin(&mut self) -> Option<u32> {
        self.owed = 0;
        let (first, last) = (*self.frames.keys().next()?, *self.frames.keys().next_back()?);
        if last - first + 1 < self.held_back {
            return None;
        }
        self.next = Some(first);
        self.next
    }

    /// Looks at the fewest waiting frames once in a while.
    fn adapt(&mut self) {
        self.fewest = self.fewest.min(self.frames.len());
        self.since += 1;
        if self.since < PATIENCE {
            return;
        }
        self.excess = self.fewest.saturating_sub(self.held_back as usize);
        (self.fewest, self.since) = (usize::MAX, 0);
        if self.excess > CUT {
            for _ in 0..std::mem::take(&mut self.excess) {
                self.frames.pop_first();
            }
            self.next = self.frames.keys().next().copied().or(self.next);
        }
    }

    /// How many frames wait.
    pub fn depth(&self) -> usize {
        self.frames.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(tick: u32) -> Vec<i32> {
        vec![tick as i32; 4]
    }

    /// Plays 2,000 frames; tick `t` arrives at `arrival(t)`, or never if that is none. Returns the
    /// played frames, and the depth at the end.
    fn play(arrival: impl Fn(u32) -> Option<u32>) -> (Vec<Played>, usize) {
        let mut buffer = JitterBuffer::default();
        let mut played = Vec::new();
        for now in 0..2000 {
            (0..2000).filter(|tick| arrival(*tick) == Some(now)).for_each(|tick| buffer.push(tick, frame(tick)));
            played.push(buffer.pull());
        }
        (played, buffer.depth())
    }

    fn voices(played: &[Played]) -> Vec<u32> {
        played
            .iter()
            .filter_map(|played| if let Played::Samples(samples) = played { Some(samples[0] as u32) } else { None })
            .collect()
    }

    #[test]
    fn frames_that_come_in_time_are_all_played_in_order_and_soon() {
        let (played, depth) = play(Some);
        let voices = voices(&played);
        assert!(voices.is_sorted_by(|a, b| a < b) && voices.len() >= 1995 && depth <= 2);
    }

    #[test]
    fn a_steady_line_is_soon_played_without_delay_and_one_that_was_late_once_a_little_later() {
        for (late, at, depth) in [(None, 300, 0), (Some(5), 300, 2), (Some(5), 1000, 0)] {
            let mut buffer = JitterBuffer::default();
            for now in 0..at {
                (0..=now)
                    .filter(|tick| now == tick + if Some(*tick) == late { 3 } else { 0 })
                    .for_each(|tick| buffer.push(tick, frame(tick)));
                buffer.pull();
            }
            assert!(buffer.depth() <= depth, "{late:?}: {} frames lie there after {at}", buffer.depth());
        }
    }

    #[test]
    fn two_hundred_milliseconds_of_jitter_are_bridged_after_a_while() {
        let (played, depth) = play(|tick| Some(tick + (tick * 7919) % 10));
        let lost = played[500..].iter().filter(|played| **played != Played::Lost).count();
        assert!(lost >= 1490, "{lost} of 1500 were there");
        assert!(depth <= 12);
        assert!(voices(&played).is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn what_is_lost_is_lost_once_and_all_else_is_played() {
        let (played, _) = play(|tick| (tick % 20 != 7).then_some(tick));
        assert_eq!(played.iter().filter(|played| **played == Played::Lost).count(), 100);
        assert!(voices(&played).len() >= 1895);
    }

    #[test]
    fn after_a_long_silence_it_goes_on_and_not_later_than_before() {
        let (played, depth) = play(|tick| (!(300..900).contains(&tick)).then_some(tick));
        assert!(played[400..800].iter().all(|played| *played == Played::Nothing));
        assert!(voices(&played[900..]).len() > 1080 && depth <= 4);
    }

    #[test]
    fn a_burst_after_a_standstill_is_worked_off() {
        let (played, depth) = play(|tick| Some(if (300..320).contains(&tick) { 320 } else { tick }));
        assert!(depth <= 5, "{depth}");
        assert!(voices(&played).len() > 1930);
    }

    #[test]
    fn fault_23_what_lies_there_too_long_is_worked_off_within_seconds() {
        // after a pause of the program this many frames are there at once
        for burst in [10, 20, 100, 400] {
            let mut buffer = JitterBuffer::default();
            for now in 0..1000u32 {
                let ticks = if now < 200 { now..now + 1 } else { now + burst..now + burst + 1 };
                let ticks = if now == 200 { now..now + burst + 1 } else { ticks };
                ticks.for_each(|tick| buffer.push(tick, frame(tick + 1000)));
                buffer.pull();
                let most = if now > 200 + 5 * 50 { 3 } else { usize::MAX };
                assert!(buffer.depth() <= most, "{burst}: {} frames at {now}", buffer.depth());
            }
        }
    }

    #[test]
    fn fault_23_a_sound_card_with_a_slower_clock_adds_no_delay() {
        let mut buffer = JitterBuffer::default();
        for now in 0..30_000u32 {
            buffer.push(now, frame(now + 1000));
            // the program does not read 5,000 of a million frames
            if now % 200 != 0 {
                buffer.pull();
            }
            assert!(buffer.depth() <= 4, "{} frames at {now}", buffer.depth());
        }
    }

    #[test]
    fn ticks_far_apart_and_at_the_end_of_all_do_not_break_it() {
        let mut buffer = JitterBuffer::default();
        for tick in [5, u32::MAX, 0, u32::MAX - 1, 7, 1 << 31] {
            buffer.push(tick, frame(0));
            (0..40).for_each(|_| drop(buffer.pull()));
        }
        assert!(buffer.depth() <= 2);
    }
}
