//! For which tick a frame is: frames come by the clock of a microphone, ticks go by the clock of the server.
//!
//! A frame is for the tick after that of the frame before, and is to arrive while that tick is open: some ticks, the *lead*, ahead of the
//! first that has not closed as far as is known. If sums say that packets come too late the lead grows; after a while without a late one it
//! is tried with less. A microphone that is slow leaves ticks out; one that is fast loses a frame now and then. Ticks never go back.

/// The lead that a member begins with, which is enough where the way there and back takes less than a tick, and the largest.
const FIRST_LEAD: u32 = 1;
const MOST_LEAD: u32 = 12;
/// Frames over which the lead was too large before one is passed over.
const PATIENCE: u32 = 100;
/// Frames after a change of the lead in which late packets are still those of the lead before.
const SETTLING: u32 = 15;
/// Frames without a late packet until less is tried: at first, and at most.
const CALM: [u32; 2] = [500, 8000];

/// Which tick the next frame is for.
pub(super) struct Cadence {
    /// The first tick that has not closed, as far as is known.
    open: u32,
    /// The first that may still be sent.
    next: u32,
    lead: u32,
    /// The least by which the last frames were further ahead than the lead, and how many they were.
    surplus: u32,
    frames: u32,
    /// Frames since the lead changed, and how many there must be before less is tried.
    calm: u32,
    wanted: u32,
    /// How many ticks are open at once.
    window: u32,
}

impl Cadence {
    pub(super) fn new(open: u32, window: u32) -> Self {
        let window = window.max(1);
        let lead = FIRST_LEAD.min(window - 1);
        Self { open, next: 0, lead, surplus: u32::MAX, frames: 0, calm: 0, wanted: CALM[0], window }
    }

    /// Tick `open - 1` has closed.
    pub(super) fn opened(&mut self, open: u32) {
        self.open = self.open.max(open);
    }

    /// A packet of ours was too late.
    pub(super) fn late(&mut self) {
        if self.calm >= SETTLING {
            self.lead = (self.lead + 1).min(MOST_LEAD).min(self.window - 1);
            self.wanted = (2 * self.wanted).min(CALM[1]);
            self.calm = 0;
        }
    }

    /// The tick of the next frame; none if the frame is to be passed over.
    pub(super) fn next(&mut self) -> Option<u32> {
        self.calm += 1;
        if self.calm > self.wanted && self.lead > 1 {
            (self.lead, self.calm) = (self.lead - 1, 0);
        }
        let wanted = self.open.checked_add(self.lead)?;
        let tick = self.next.max(wanted);
        if tick - self.open >= self.window {
            // nothing has been heard for long: the server would not take it
            return None;
        }
        self.surplus = self.surplus.min(tick - wanted);
        self.frames += 1;
        if self.frames >= PATIENCE {
            let surplus = std::mem::replace(&mut self.surplus, u32::MAX);
            self.frames = 0;
            if surplus > 0 {
                return None;
            }
        }
        self.next = tick.checked_add(1)?;
        Some(tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames and ticks of equal length, packets `delay` ticks under way both ways together.
    fn run(cadence: &mut Cadence, ticks: std::ops::Range<u32>, delay: u32) -> (u32, u32) {
        let (mut sent, mut late) = (0, 0);
        for now in ticks {
            cadence.opened(now.saturating_sub(delay));
            if let Some(tick) = cadence.next() {
                sent += 1;
                if tick < now {
                    late += 1;
                    cadence.late();
                }
            }
        }
        (sent, late)
    }

    #[test]
    fn ticks_increase_whatever_the_server_says() {
        let mut cadence = Cadence::new(0, 32);
        let mut last = None;
        for (i, open) in [5, 3, 3, 0, 9, 9, 9, 2, 100, 50, 0].into_iter().cycle().take(3000).enumerate() {
            cadence.opened(open);
            if i % 3 == 0 {
                cadence.late();
            }
            if let Some(tick) = cadence.next() {
                assert!(last.is_none_or(|last| tick > last), "{tick} after {last:?}");
                last = Some(tick);
            }
        }
    }

    #[test]
    fn a_member_far_away_finds_its_lead_and_is_late_no_more() {
        for delay in [0, 1, 4, 8] {
            let mut cadence = Cadence::new(0, 32);
            let (_, at_first) = run(&mut cadence, 10..500, delay);
            assert!(at_first <= 8 * (SETTLING + 3) + 20, "{delay}: {at_first}");
            let (sent, late) = run(&mut cadence, 500..20_000, delay);
            assert!(sent > 19_300 && late < 120, "{delay}: {late} of {sent}");
        }
    }

    #[test]
    fn a_fast_microphone_loses_a_frame_now_and_then_and_a_slow_one_leaves_ticks_out() {
        // one frame in a hundred too many
        let mut cadence = Cadence::new(0, 32);
        let mut ahead = 0;
        for now in 0..20_000u32 {
            cadence.opened(now);
            for _ in 0..1 + u32::from(now % 200 == 0) {
                if let Some(tick) = cadence.next() {
                    ahead = tick - now;
                }
            }
            assert!(ahead <= 6, "{now}: {ahead} ticks ahead");
        }
        // one too few
        let mut cadence = Cadence::new(0, 32);
        for now in (0..20_000u32).filter(|now| now % 100 != 0) {
            cadence.opened(now);
            assert!(cadence.next().is_none_or(|tick| tick >= now && tick <= now + 6));
        }
    }

    #[test]
    fn nothing_is_sent_beyond_the_window() {
        let mut cadence = Cadence::new(7, 4);
        let sent: Vec<u32> = (0..50).filter_map(|_| cadence.next()).collect();
        assert_eq!(sent, [8, 9, 10]);
        assert_eq!(Cadence::new(0, 1).next(), Some(0));
        assert_eq!(Cadence::new(u32::MAX, 4).next(), None);
    }
}
