//! Buffers between two clocks: one side writes by its own, the other reads by its own.
//!
//! Such a buffer grows each time the reader is late, and all the time if the writer's clock is
//! faster. Without help it never shrinks, and its content is delay for the rest of the call. These
//! buffers watch the least content of a while, which a burst of the writer cannot raise, and work
//! it off. They leave out silence first. They shorten speech by a few of its periods at a time, as
//! packet voice commonly catches up (time-scale modification by overlap and add). The content also
//! has a fixed bound.
//!
//! [`Backlog`] is before the encryption and [`Outlet`] after the decryption. Frames are their time:
//! 20 ms for each.

use std::collections::VecDeque;

use zeroize::Zeroize;

use super::{Conceal, splice};
use crate::PACKET_SAMPLES;

type Frame = [i16; PACKET_SAMPLES];

/// The least content that is normal, in samples: 40 ms.
const TARGET: usize = 2 * PACKET_SAMPLES;
/// Frames of a window over which the buffer is watched, and windows that are kept.
const WINDOW: usize = 50;
const WINDOWS: usize = 4;
/// A live source writes as much in a window as the call takes, within these parts of it.
const STEADY: std::ops::RangeInclusive<usize> = WINDOW * PACKET_SAMPLES * 3 / 4..=WINDOW * PACKET_SAMPLES * 4 / 3;
/// A larger excess of a live source is cut off at once, and not worked off: two seconds.
const CUT: usize = 100 * PACKET_SAMPLES;
/// Frames between two that are shortened.
const SPACING: u32 = 3;
/// By how many samples a frame is shortened.
const LAGS: std::ops::RangeInclusive<usize> = 160..=PACKET_SAMPLES;
/// Mean square of a sample below which a frame is silence.
const SILENCE: u64 = 30 * 30;

/// One window: the samples that arrived, and the least content.
#[derive(Clone, Copy)]
struct BacklogWindow {
    arrived: usize,
    least: usize,
}

impl BacklogWindow {
    const NOTHING: Self = Self { arrived: 0, least: usize::MAX };
}

/// Samples that a program writes, and that the call takes every 20 ms.
///
/// A source may be live (a microphone) or not (a file, a program that writes a whole sentence at
/// once). A live source writes one second of samples each second. It must not be late, so its
/// backlog is worked off. The samples of any other source wait until they are sent, all of them.
///
/// ```
/// use tobari_call::live::audio::Backlog;
/// let mut backlog = Backlog::default();
/// backlog.push(&[7; 320]);
/// assert_eq!(backlog.pull(), [7; 320]);
/// ```
pub struct Backlog {
    samples: VecDeque<i16>,
    over: bool,
    now: BacklogWindow,
    frames: usize,
    before: VecDeque<BacklogWindow>,
    /// Was the buffer full in this window?
    full: bool,
    /// Did the last window show a live source?
    live: bool,
    /// Samples to work off, and frames since the last one that was shortened.
    excess: usize,
    spaced: u32,
    conceal: Conceal,
}

impl Default for Backlog {
    fn default() -> Self {
        Self {
            samples: VecDeque::new(),
            over: false,
            now: BacklogWindow::NOTHING,
            frames: 0,
            before: VecDeque::new(),
            full: false,
            live: false,
            excess: 0,
            spaced: 0,
            conceal: Conceal::default(),
        }
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        self.samples.make_contiguous().zeroize();
    }
}

fn is_silent(samples: &[i16]) -> bool {
    let sum: u64 = samples.iter().map(|sample| i64::from(*sample).pow(2) as u64).sum();
    sum <= SILENCE * samples.len() as u64
}

impl Backlog {
    /// The most content, in samples: ten seconds.
    pub const MOST: usize = 500 * PACKET_SAMPLES;

    /// How many samples fit in. A program with more has to wait.
    pub fn room(&self) -> usize {
        Self::MOST - self.samples.len()
    }

    /// How many samples wait.
    pub fn waiting(&self) -> usize {
        self.samples.len()
    }

    /// Takes as many samples as fit in, and returns how many.
    pub fn push(&mut self, samples: &[i16]) -> usize {
        let taken = samples.len().min(self.room());
        self.samples.extend(&samples[..taken]);
        self.now.arrived += taken;
        self.full |= self.room() == 0;
        taken
    }

    /// Nothing more will be pushed.
    pub fn end(&mut self) {
        self.over = true;
    }

    /// Were all samples taken?
    pub fn is_over(&self) -> bool {
        self.over && self.samples.is_empty()
    }

    /// The next 20 ms. For missing samples there is a substitute at first, and then silence.
    pub fn pull(&mut self) -> Frame {
        self.watch();
        self.spaced = self.spaced.saturating_add(1);
        self.leave_out_silence();
        if self.samples.len() < PACKET_SAMPLES && !self.over {
            return self.conceal.lost().map(narrow);
        }
        let lag = self.shortening();
        let mut frame = [0; PACKET_SAMPLES];
        if let Some(lag) = lag {
            let ahead = &self.samples.make_contiguous()[..PACKET_SAMPLES + lag];
            frame
                .iter_mut()
                .zip(splice::fade(&ahead[..PACKET_SAMPLES], &ahead[lag..]))
                .for_each(|(to, from)| *to = from);
        } else {
            frame.iter_mut().zip(&self.samples).for_each(|(to, from)| *to = *from);
        }
        self.discard(PACKET_SAMPLES + lag.unwrap_or(0));
        self.conceal.heard(frame.iter().map(|sample| i32::from(*sample)).collect()).map(narrow)
    }

    /// Passes 20 ms in which nothing can be sent yet, as in a lobby. Samples of a live source do
    /// not wait meanwhile.
    pub fn wait(&mut self) {
        self.watch();
        if self.live {
            self.discard(self.samples.len().saturating_sub(TARGET));
            self.excess = 0;
        }
    }

    fn discard(&mut self, samples: usize) {
        self.samples.drain(..samples.min(self.samples.len()));
    }

    /// Looks at the least content, once in each window.
    fn watch(&mut self) {
        self.now.least = self.now.least.min(self.samples.len());
        self.frames += 1;
        if self.frames < WINDOW {
            return;
        }
        self.before.truncate(WINDOWS - 1);
        self.before.push_front(std::mem::replace(&mut self.now, BacklogWindow::NOTHING));
        let full = std::mem::take(&mut self.full);
        self.frames = 0;
        let least = self.least_of_live().filter(|_| !full && !self.over);
        self.live = least.is_some();
        self.excess = least.unwrap_or(0).saturating_sub(TARGET);
        if self.excess > CUT {
            let cut = std::mem::take(&mut self.excess);
            self.discard(cut);
        }
    }

    /// The least content, if the source is live: by the last window, or by all kept windows if the
    /// source writes seldom.
    fn least_of_live(&self) -> Option<usize> {
        let last = self.before.front()?;
        if STEADY.contains(&last.arrived) {
            return Some(last.least);
        }
        let whole = self.before.len() == WINDOWS && self.before.iter().all(|seen| seen.arrived > 0);
        let mean = self.before.iter().map(|seen| seen.arrived).sum::<usize>() / WINDOWS;
        let least = self.before.iter().map(|seen| seen.least).min()?;
        (whole && STEADY.contains(&mean)).then_some(least)
    }

    fn leave_out_silence(&mut self) {
        while self.excess >= PACKET_SAMPLES && self.samples.len() >= 2 * PACKET_SAMPLES {
            if !is_silent(&self.samples.make_contiguous()[..2 * PACKET_SAMPLES]) {
                return;
            }
            self.discard(PACKET_SAMPLES);
            self.excess -= PACKET_SAMPLES;
        }
    }

    /// By how many samples the next frame is shortened, if it is.
    fn shortening(&mut self) -> Option<usize> {
        let enough = self.samples.len() >= PACKET_SAMPLES + LAGS.end();
        if self.excess < *LAGS.start() || self.spaced < SPACING || !enough {
            return None;
        }
        let lag = splice::best_lag(self.samples.make_contiguous(), PACKET_SAMPLES, LAGS);
        (self.excess, self.spaced) = (self.excess.saturating_sub(lag), 0);
        Some(lag)
    }
}

fn narrow(sample: i32) -> i16 {
    sample.clamp(i16::MIN.into(), i16::MAX.into()) as i16
}

/// Frames that were heard, for a program that reads when it can.
///
/// A reader with a slower clock, or one that paused, soon hears new frames again. Frames that wait
/// for a second fade into the next ones. If a reader does not read at all, only the last frames
/// wait.
#[derive(Default)]
pub struct Outlet {
    frames: VecDeque<Frame>,
    least: usize,
    since: usize,
    excess: usize,
    spaced: u32,
}

impl Outlet {
    /// The most frames that wait: half a second.
    const MOST: usize = 25;
    /// The least number of waiting frames that is normal.
    const LEAST: usize = 1;

    /// Takes 20 ms.
    pub fn push(&mut self, frame: &Frame) {
        self.least = if self.since == 0 { self.frames.len() } else { self.least.min(self.frames.len()) };
        (self.since, self.spaced) = (self.since + 1, self.spaced.saturating_add(1));
        if self.since >= WINDOW {
            (self.excess, self.since) = (self.least.saturating_sub(Self::LEAST), 0);
        }
        if self.frames.len() >= Self::MOST {
            self.frames.drain(..Self::MOST - Self::LEAST);
            self.excess = 0;
        }
        let is_due = self.excess > 0 && (self.spaced > SPACING || is_silent(frame));
        match self.frames.back_mut().filter(|_| is_due) {
            Some(last) => {
                *last = splice::overlap(last, frame);
                (self.excess, self.spaced) = (self.excess - 1, 0);
            }
            None => self.frames.push_back(*frame),
        }
    }

    /// The next frame.
    pub fn pull(&mut self) -> Option<Frame> {
        self.frames.pop_front()
    }

    /// How many frames wait.
    pub fn waiting(&self) -> usize {
        self.frames.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Similar to a voice: a wave of changing pitch, in words with pauses if there are any.
    fn voice(place: usize, pauses: bool) -> i16 {
        // words of 600 ms that begin and end softly, with 300 ms between two
        let word = place % 14_400;
        let loud = if pauses { word.min(9600usize.saturating_sub(word)).min(400) } else { 400 };
        let seconds = place as f64 / 16_000.0;
        ((800.0 * seconds - 160.0 * seconds.cos()).sin() * 20.0 * loud as f64) as i16
    }

    /// A source that has written `written(frame)` samples when the call takes the frame of that
    /// number. `delays` has the least wait of a sample in each second, in milliseconds.
    struct Play {
        delays: Vec<f64>,
        steps: i32,
        said: Vec<i16>,
    }

    fn play(seconds: usize, pauses: bool, written: impl Fn(usize) -> usize) -> Play {
        let (mut backlog, mut place) = (Backlog::default(), 0);
        let mut play = Play { delays: Vec::new(), steps: 0, said: Vec::new() };
        for frame in 0..seconds * 50 {
            let upto = written(frame);
            while place < upto {
                let piece: Vec<i16> = (place..upto.min(place + 500)).map(|place| voice(place, pauses)).collect();
                let taken = backlog.push(&piece);
                place += taken;
                if taken < piece.len() {
                    break;
                }
            }
            let said = backlog.pull();
            let waits = backlog.waiting() as f64 / 16.0;
            if frame % 50 == 0 {
                play.delays.push(waits);
            }
            let last = play.delays.last_mut().unwrap();
            *last = last.min(waits);
            let edge = play.said.last().copied().unwrap_or(0);
            let all = std::iter::once(edge).chain(said);
            let step = all.clone().zip(all.skip(1)).map(|(a, b)| (i32::from(a) - i32::from(b)).abs()).max().unwrap();
            play.steps = play.steps.max(if frame > 50 { step } else { 0 });
            play.said.extend(said);
        }
        play
    }

    /// Twice the largest step between two samples of the voice itself, because two of its places
    /// overlap.
    const STEP: i32 = 1000;

    #[test]
    fn fault_23_a_source_that_began_late_is_heard_within_60_ms_some_seconds_later() {
        for pauses in [false, true] {
            let play = play(30, pauses, |frame| 11_200 + (frame + 1) * 320);
            assert!(play.delays[0] > 650.0, "{:?}", play.delays);
            assert!(play.delays[8..].iter().all(|delay| *delay <= 60.0), "{pauses}: {:?}", play.delays);
            assert!(play.steps < STEP, "{pauses}: a step of {}", play.steps);
        }
    }

    #[test]
    fn fault_23_a_clock_that_is_too_fast_or_too_slow_adds_no_delay_in_ten_minutes() {
        for million in [5000.0, -5000.0, 200.0, -200.0] {
            let play = play(600, false, |frame| ((frame + 1) as f64 * 320.0 * (1.0 + million / 1e6)) as usize);
            assert!(play.delays[5..].iter().all(|delay| *delay <= 60.0), "{million}: {:?}", play.delays);
            assert!(play.steps < STEP, "{million}: a step of {}", play.steps);
            // nothing but the difference is left out or made up
            let power = |samples: &[i16]| samples.iter().map(|sample| f64::from(*sample).powi(2)).sum::<f64>();
            let mean = power(&play.said) / play.said.len() as f64;
            assert!(mean > 0.93 * 3.2e7, "{million}: {mean}");
        }
    }

    #[test]
    fn fault_23_after_a_pause_of_the_program_what_is_new_is_heard_soon() {
        // for eight seconds the program reads nothing, then all samples are there at once
        let play = play(40, false, |frame| (frame + 1 + if frame >= 500 { 400 } else { 0 }) * 320);
        assert!(play.delays[10] > 7000.0, "{:?}", play.delays);
        assert!(play.delays[13..].iter().all(|delay| *delay <= 60.0), "{:?}", play.delays);
    }

    #[test]
    fn fault_23_a_pipe_that_brings_200_ms_at_once_is_heard_whole_with_no_delay_of_its_own() {
        for (burst, late) in [(10, 0), (10, 11_200), (50, 11_200)] {
            let play = play(40, false, |frame| late + (frame / burst + 1) * burst * 320);
            assert!(play.delays[20..].iter().all(|delay| *delay <= 60.0), "{burst}, {late}: {:?}", play.delays);
            if late == 0 {
                let whole = play.said.iter().enumerate().all(|(place, sample)| *sample == voice(place, false));
                assert!(whole, "not a sample is left out of what was never late");
            }
        }
    }

    #[test]
    fn what_is_no_live_source_is_said_whole_however_long_it_waits() {
        // a file, a sentence that is written at once, and several with pauses
        let file: fn(usize) -> usize = |_| 40 * 16_000;
        let sentence: fn(usize) -> usize = |_| 5 * 16_000;
        let sentences: fn(usize) -> usize = |frame| (frame / 300 + 1) * 5 * 16_000;
        for (which, written) in [("file", file), ("sentence", sentence), ("sentences", sentences)] {
            let play = play(30, true, written);
            let most = match which {
                "file" => 30 * 16_000,
                _ => 5 * 16_000,
            };
            let whole = play.said[..most].iter().enumerate().all(|(place, sample)| *sample == voice(place, true));
            assert!(whole, "{which} is said as it is");
        }
    }

    #[test]
    fn of_a_live_source_nothing_waits_in_a_lobby_and_a_file_waits_whole() {
        let mut live = Backlog::default();
        let mut file = Backlog::default();
        for frame in 0..3000 {
            live.push(&[frame as i16; PACKET_SAMPLES]);
            file.push(&[frame as i16; 3 * PACKET_SAMPLES]);
            live.wait();
            file.wait();
        }
        assert!(live.waiting() <= TARGET + WINDOW * PACKET_SAMPLES, "{}", live.waiting());
        assert!(live.pull()[0] > 2900);
        assert_eq!((file.waiting(), file.pull()), (Backlog::MOST, [0; PACKET_SAMPLES]));
    }

    #[test]
    fn the_end_is_said_filled_up_with_silence() {
        let mut backlog = Backlog::default();
        backlog.push(&[5; 400]);
        backlog.end();
        assert!(backlog.pull() == [5; PACKET_SAMPLES] && !backlog.is_over());
        let last = backlog.pull();
        assert!(last[..80] == [5; 80] && last[80..] == [0; 240] && backlog.is_over());
    }

    #[test]
    fn fault_23_a_reader_with_a_slower_clock_or_a_pause_hears_what_is_new_within_60_ms() {
        // one reads 995 of 1,000, and one reads nothing for ten seconds
        for (name, reads) in [("slow", [1_000, 5, 0]), ("paused", [1_000_000, 0, 500])] {
            let [of, fewer, pause] = reads;
            let (mut outlet, mut late) = (Outlet::default(), 0);
            for frame in 0..30_000usize {
                outlet.push(&[(frame % 30_000) as i16; PACKET_SAMPLES]);
                assert!(outlet.waiting() <= Outlet::MOST, "{name}");
                let is_read = frame % of >= fewer && !(100..100 + pause).contains(&frame);
                if is_read {
                    outlet.pull();
                }
                if frame > 1000 {
                    late = late.max(outlet.waiting());
                }
            }
            assert!(late <= 6 && outlet.waiting() <= 3, "{name}: {late}, {}", outlet.waiting());
        }
    }
}
