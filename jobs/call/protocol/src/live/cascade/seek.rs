//! Finds the leader of a room: a server whose ticks are heard, else the seeking server with the
//! smallest station.

use std::time::Duration;

use super::{
    SEEK, Station,
    messages::{BusContent, BusMessage},
};

/// The time between two messages of a server that seeks.
const SAY: Duration = Duration::from_millis(50);
/// How long a server waits for the ticks of another one that seeks and has a smaller station.
const DEFER: Duration = Duration::from_millis(600);

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SeekOutcome {
    Nobody,
    Leader(Station),
}

/// The search.
pub(super) struct Seek {
    me: Station,
    /// The time from which on no other server is expected.
    until: Duration,
    since: Option<Duration>,
    leader: Option<Station>,
    /// The smaller station that this one waits for, or has waited for.
    deferred: Option<Station>,
    say: Duration,
}

impl Seek {
    pub(super) fn new(me: Station, now: Duration) -> Self {
        Self { me, until: now + SEEK, since: None, leader: None, deferred: None, say: now }
    }

    pub(super) fn hear(&mut self, message: &BusMessage, now: Duration) {
        match message.said {
            BusContent::Tick(_) => {
                self.leader = Some(self.leader.map_or(message.from, |leader| leader.min(message.from)));
            }
            BusContent::Over if self.leader == Some(message.from) => self.leader = None,
            BusContent::Over if self.deferred == Some(message.from) => self.deferred = None,
            // waits once for each new smallest station, not again at each of its messages
            BusContent::Seek
                if message.from < self.me && self.deferred.is_none_or(|deferred| message.from < deferred) =>
            {
                self.deferred = Some(message.from);
                self.until = self.until.max(now + DEFER);
            }
            _ => {}
        }
    }

    /// None while the search goes on.
    pub(super) fn found(&mut self, now: Duration) -> Option<SeekOutcome> {
        // counted from the first member that waits
        let since = *self.since.get_or_insert(now);
        self.until = self.until.max(since + SEEK);
        match self.leader {
            // a leader publishes every tick; if this one was stale, none follows, and the edge
            // gives up after `LOST`
            Some(leader) => Some(SeekOutcome::Leader(leader)),
            None => (now >= self.until).then_some(SeekOutcome::Nobody),
        }
    }

    pub(super) fn is_to_say(&mut self, now: Duration) -> bool {
        let due = now >= self.say;
        if due {
            self.say = now + SAY;
        }
        due
    }

    pub(super) fn deadline(&self) -> Duration {
        self.say.min(self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::cascade::messages::Tick;

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn from(station: u8, said: BusContent) -> BusMessage {
        BusMessage { from: Station([station; 8]), said }
    }

    #[test]
    fn who_hears_nobody_leads_and_who_hears_ticks_follows() {
        let mut seek = Seek::new(Station([5; 8]), at(0));
        assert_eq!(
            (seek.found(at(0)), seek.found(at(299)), seek.found(at(300))),
            (None, None, Some(SeekOutcome::Nobody))
        );
        let tick = BusContent::Tick(Tick { tick: 1, edges: Vec::new(), sum: None });
        seek.hear(&from(9, tick.clone()), at(10));
        seek.hear(&from(7, tick), at(10));
        assert_eq!(seek.found(at(10)), Some(SeekOutcome::Leader(Station([7; 8]))));
        seek.hear(&from(7, BusContent::Over), at(11));
        assert_eq!(seek.found(at(11)), None);
    }

    #[test]
    fn of_those_who_seek_the_smallest_leads_and_is_waited_for_once() {
        let (mut small, mut large) = (Seek::new(Station([1; 8]), at(0)), Seek::new(Station([2; 8]), at(0)));
        assert_eq!((small.found(at(0)), large.found(at(0))), (None, None));
        for now in (0..600).step_by(50) {
            small.hear(&from(2, BusContent::Seek), at(now));
            large.hear(&from(1, BusContent::Seek), at(now));
        }
        assert_eq!(small.found(at(300)), Some(SeekOutcome::Nobody));
        assert_eq!((large.found(at(599)), large.found(at(600))), (None, Some(SeekOutcome::Nobody)));
    }
}
