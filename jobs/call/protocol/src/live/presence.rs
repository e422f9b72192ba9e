//! Who is missing from the sums: speakers on the roster of whom the lists of the sums say that no
//! packet is in them.
//!
//! In a room with constant sending a packet of every speaker belongs in every sum. A list cannot
//! name somebody whose packet is not in its sum, as the tag would not fit; so whoever is on none of
//! them is heard by nobody, be it that the server leaves the packets out, that it says they came
//! late, that the host has muted their sender, or that they never reached the server. Which of
//! these it is, the lists do not say.
//!
//! Counted over a second at a time and for each speaker apart, from its first tick on: missing is
//! who was in less than half of the sums of two seconds in a row, and there again who was in nine
//! of ten of one. One second alone is not enough: who leaves stays on the roster for about as long.

use tobari_curve::wire::MemberSet;

use super::{
    keys::SessionId,
    link::{Sending, Settings},
    roster::Roster,
};

/// Sums that are counted together: one second of them.
const COUNTED: u8 = 50;
/// Who is in fewer of them is missing, and who is in so many is there.
const FEW: u8 = 25;
const ENOUGH: u8 = 45;
/// Counts in a row in which who is missing was in few.
const ROW: u8 = 2;

/// What the lists of the sums have said so far.
pub(super) struct Presence {
    constant: bool,
    epoch: u32,
    /// The speakers of that epoch, by number: as an array, since every tick goes through all of
    /// them.
    speakers: Vec<SpeakerPresence>,
}

struct SpeakerPresence {
    member: u16,
    session: SessionId,
    sums: u8,
    there: u8,
    /// Seconds in a row in which it was in few sums, up to [`ROW`].
    few: u8,
    missing: bool,
}

impl Presence {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { constant: settings.sending == Sending::Constant, epoch: 0, speakers: Vec::new() }
    }

    /// A tick with this roster is over, with a sum of these speakers. Answers of whom, under which
    /// session, it is known anew that it is missing, or no longer.
    pub(super) fn passed(&mut self, roster: &Roster, there: &MemberSet) -> Vec<(u16, SessionId, bool)> {
        let mut changed = Vec::new();
        if !self.constant {
            return changed;
        }
        if self.epoch != roster.epoch {
            self.take_up(roster, &mut changed);
        }
        for seen in &mut self.speakers {
            seen.sums += 1;
            seen.there += u8::from(there.contains(seen.member));
            if seen.sums < COUNTED {
                continue;
            }
            seen.few = if seen.there < FEW { (seen.few + 1).min(ROW) } else { 0 };
            let missing = if seen.missing { seen.there < ENOUGH } else { seen.few == ROW };
            if missing != seen.missing {
                changed.push((seen.member, seen.session, missing));
            }
            (seen.sums, seen.there, seen.missing) = (0, 0, missing);
        }
        changed
    }

    /// Whoever has another session than before begins anew, and who only listens now is not
    /// missing.
    fn take_up(&mut self, roster: &Roster, changed: &mut Vec<(u16, SessionId, bool)>) {
        self.epoch = roster.epoch;
        let goes_on = |seen: &SpeakerPresence| {
            roster.members.get(&seen.member).is_some_and(|listed| listed.speaks && listed.session == seen.session)
        };
        let (before, ended): (Vec<SpeakerPresence>, Vec<SpeakerPresence>) = self.speakers.drain(..).partition(goes_on);
        for seen in ended.iter().filter(|seen| seen.missing) {
            // the session is that of who stands there now
            changed.extend(roster.members.get(&seen.member).map(|listed| (seen.member, listed.session, false)));
        }
        let mut before = before.into_iter().peekable();
        for (&member, listed) in roster.members.iter().filter(|(_, listed)| listed.speaks) {
            let new = SpeakerPresence { member, session: listed.session, sums: 0, there: 0, few: 0, missing: false };
            self.speakers.push(before.next_if(|seen| seen.member == member).unwrap_or(new));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::roster::Listed;
    use super::*;

    fn roster(epoch: u32, members: &[(u16, u8, bool)]) -> Roster {
        let listed = |&(member, session, speaks)| {
            (member, Listed { session: SessionId([session; 16]), speaks, name: String::new() })
        };
        let mut roster = Roster::default();
        (roster.members, roster.epoch) = (members.iter().map(listed).collect(), epoch);
        roster
    }

    /// So many sums on which `there` is.
    fn sums(presence: &mut Presence, roster: &Roster, count: usize, there: &[u16]) -> Vec<(u16, bool)> {
        let mut set = MemberSet::default();
        for member in there {
            set.insert(*member);
        }
        let told = (0..count).flat_map(|_| presence.passed(roster, &set));
        told.map(|(member, _, missing)| (member, missing)).collect()
    }

    #[test]
    fn who_is_on_few_lists_is_missing_until_it_is_on_most() {
        let (mut presence, all) =
            (Presence::new(&Settings::default()), roster(1, &[(0, 1, true), (3, 2, true), (5, 3, false)]));
        assert_eq!(sums(&mut presence, &all, 99, &[0]), []);
        // a listener is on no list, and nobody misses it
        assert_eq!(sums(&mut presence, &all, 1, &[0]), [(3, true)]);
        // most of the time is not enough to be there again
        for _ in 0..3 {
            assert_eq!(sums(&mut presence, &all, 44, &[0, 3]), []);
            assert_eq!(sums(&mut presence, &all, 6, &[0]), []);
        }
        assert_eq!(sums(&mut presence, &all, 45, &[0, 3]), []);
        assert_eq!(sums(&mut presence, &all, 5, &[0]), [(3, false)]);
        // half of it is too much to be missing, and so is one second with less
        for _ in 0..3 {
            assert_eq!(sums(&mut presence, &all, 25, &[0, 3]), []);
            assert_eq!(sums(&mut presence, &all, 25, &[0]), []);
            assert_eq!(sums(&mut presence, &all, 50, &[0]), []);
        }
        assert_eq!(sums(&mut presence, &all, 24, &[0, 3]), []);
        assert_eq!(sums(&mut presence, &all, 26, &[0]), [(3, true)]);
    }

    #[test]
    fn whoever_comes_anew_is_counted_from_its_first_tick() {
        let mut presence = Presence::new(&Settings::default());
        let first = roster(1, &[(0, 1, true)]);
        assert_eq!(sums(&mut presence, &first, 30, &[0]), []);
        let second = roster(2, &[(0, 1, true), (1, 2, true)]);
        assert_eq!(sums(&mut presence, &second, 99, &[0]), []);
        assert_eq!(sums(&mut presence, &second, 1, &[0]), [(1, true)]);
        // another session of the same number begins anew
        let third = roster(3, &[(0, 1, true), (1, 3, true)]);
        assert_eq!(sums(&mut presence, &third, 20, &[0, 1]), [(1, false)]);
        assert_eq!(sums(&mut presence, &third, 99, &[1]), []);
        assert_eq!(sums(&mut presence, &third, 1, &[1]), [(0, true)]);
        // who listens is not missing, and of who is gone nothing is said
        let fourth = roster(4, &[(0, 1, false), (1, 3, true)]);
        assert_eq!(sums(&mut presence, &fourth, 200, &[]), [(0, false), (1, true)]);
        assert_eq!(sums(&mut presence, &roster(5, &[(0, 1, false)]), 100, &[]), []);
    }

    #[test]
    fn where_packets_come_only_while_somebody_talks_nobody_is_missing() {
        let mut presence = Presence::new(&Settings { sending: Sending::Spurts, ..Settings::default() });
        assert_eq!(sums(&mut presence, &roster(1, &[(0, 1, true)]), 200, &[]), []);
    }
}
