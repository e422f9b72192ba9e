//! Missing speakers: speakers on the roster that the lists of the sums do not name.
//!
//! In a room with constant sending every sum should have a packet of every speaker. A list cannot
//! name a speaker whose packet is not in the sum, because the tag would not fit. So nobody hears a
//! speaker that is on no list. The lists do not show the reason: the server leaves the packets out,
//! the server says that they were late, the host has muted the sender, or the packets never reached
//! the server.
//!
//! Sums are counted for a second at a time and for each speaker separately, from its first tick on.
//! A speaker is missing after two seconds in a row with less than half of the sums in each: one
//! second is too short, because a member that leaves stays on the roster for about as long. A
//! missing speaker is back after one second with nine tenths of the sums.

use tobari_curve::wire::MemberSet;

use super::{
    keys::SessionId,
    link::{Sending, Settings},
    roster::Roster,
};

/// Sums that are counted together: one second.
const COUNTED: u8 = 50;
/// A speaker in fewer than `FEW` of them counts as missing, a speaker in `ENOUGH` of them as
/// present.
const FEW: u8 = 25;
const ENOUGH: u8 = 45;
/// Counts in a row with few sums before a speaker is missing.
const ROW: u8 = 2;

/// Counts the sums of each speaker.
pub(super) struct Presence {
    constant: bool,
    epoch: u32,
    /// The speakers of that epoch, by number. It is an array because every tick goes through all of
    /// them.
    speakers: Vec<SpeakerPresence>,
}

struct SpeakerPresence {
    member: u16,
    session: SessionId,
    sums: u8,
    there: u8,
    /// Seconds in a row with few sums, up to [`ROW`].
    few: u8,
    missing: bool,
}

impl Presence {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { constant: settings.sending == Sending::Constant, epoch: 0, speakers: Vec::new() }
    }

    /// A tick with this roster is over, with a sum of these speakers. Returns the speakers, with
    /// their sessions, that are missing since now (true) or no longer (false).
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

    /// A member with a new session begins anew. A member that only listens now is not missing.
    fn take_up(&mut self, roster: &Roster, changed: &mut Vec<(u16, SessionId, bool)>) {
        self.epoch = roster.epoch;
        let goes_on = |seen: &SpeakerPresence| {
            roster.members.get(&seen.member).is_some_and(|listed| listed.speaks && listed.session == seen.session)
        };
        let (before, ended): (Vec<SpeakerPresence>, Vec<SpeakerPresence>) = self.speakers.drain(..).partition(goes_on);
        for seen in ended.iter().filter(|seen| seen.missing) {
            // the session is the one that is listed now
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

    /// `count` sums whose list is `there`.
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
        // most sums are not enough to be back
        for _ in 0..3 {
            assert_eq!(sums(&mut presence, &all, 44, &[0, 3]), []);
            assert_eq!(sums(&mut presence, &all, 6, &[0]), []);
        }
        assert_eq!(sums(&mut presence, &all, 45, &[0, 3]), []);
        assert_eq!(sums(&mut presence, &all, 5, &[0]), [(3, false)]);
        // half of the sums are too many to be missing, and one second with fewer is too short
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
        // a listener is not missing, and a member that left is not reported
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
