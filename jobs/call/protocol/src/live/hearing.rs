//! Decryption of sums: the chain of rosters, the keys of current epochs, and the order of ticks.

use std::collections::VecDeque;

use crate::wire::{self, LiveLayout};
use tobari_curve::wire::{MemberSet, RoomId};
use zeroize::Zeroizing;

use super::{
    PACKET_WORDS,
    epoch::{Epoch, SumError},
    flagged,
    group::GroupSecret,
    keys::{RoomKeys, SessionId},
    link::{RoomLink, Settings},
    modes::layout_of,
    roster::{Change, Form, Roster, RosterError},
};

/// Ticks for which the keys of an epoch are kept after the next one has begun: three seconds.
const KEPT_TICKS: u32 = 150;
/// Epochs that have begun or are about to begin, at most. Rosters are sent once a second, four
/// times a second if members leave, and at once if a member is removed.
const MOST_EPOCHS: usize = 64;

/// Decrypts the sums of a room.
pub(super) struct Hearing {
    pub(super) keys: RoomKeys,
    pub(super) settings: Settings,
    pub(super) layout: LiveLayout,
    pub(super) room: RoomId,
    /// By first tick, ascending.
    epochs: VecDeque<Epoch>,
    /// The first tick that may still be heard.
    next: u32,
    /// Are rosters of protocol 2 accepted?
    earlier: bool,
}

/// A decrypted sum.
pub(super) struct Opened {
    pub(super) tick: u32,
    pub(super) speakers: MemberSet,
    pub(super) late: MemberSet,
    pub(super) samples: Zeroizing<Vec<i32>>,
    /// The first of sixteen members, and their talk bits.
    pub(super) flags: (u16, u16),
}

impl Hearing {
    /// None if the settings of the link are impossible.
    pub(super) fn new(link: &RoomLink, room: RoomId) -> Option<Self> {
        let layout = layout_of(&link.settings)?;
        let (keys, settings) = (RoomKeys::new(link), link.settings);
        Some(Self { keys, settings, layout, room, epochs: VecDeque::new(), next: 0, earlier: false })
    }

    /// The same for a recording of this version or an earlier one.
    pub(super) fn of_a_recording(link: &RoomLink, room: RoomId) -> Option<Self> {
        Some(Self { earlier: true, ..Self::new(link, room)? })
    }

    /// The last roster.
    pub(super) fn roster(&self) -> Option<&Roster> {
        self.epochs.back().map(|epoch| &epoch.roster)
    }

    /// The epoch of a tick.
    pub(super) fn epoch_at(&mut self, tick: u32) -> Option<&mut Epoch> {
        self.epochs.iter_mut().rev().find(|epoch| epoch.from() <= tick)
    }

    /// The first tick that may still be heard.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// Takes a roster if `accept` does, and derives its keys. `accept` returns the secret of the
    /// group, if there is one. If `own` is on the roster, the keys to send with are derived too.
    pub(super) fn take_roster(
        &mut self,
        bytes: &[u8],
        own: (u16, SessionId),
        accept: impl FnOnce(&Roster) -> Result<Option<GroupSecret>, RosterError>,
    ) -> Result<&Roster, RosterError> {
        let nobody = Roster::default();
        let change = Change::decode(bytes).ok_or(RosterError::Malformed)?;
        if change.form == Form::Earlier && !self.earlier {
            return Err(RosterError::Malformed);
        }
        let roster = self.roster().unwrap_or(&nobody).changed(&change, &self.keys, self.room)?;
        let group = accept(&roster)?;
        let epoch = Epoch::new(roster, &self.keys, group.as_ref(), self.room, &self.settings, self.layout, own);
        if self.epochs.len() == MOST_EPOCHS {
            self.epochs.pop_front();
        }
        self.epochs.push_back(epoch);
        self.roster().ok_or(RosterError::Malformed)
    }

    /// Decrypts a sum. The sum counts as heard once [`Hearing::pass`] gets its tick. None for a
    /// tick before the first epoch that is known here: other members may decrypt it.
    pub(super) fn open(&mut self, bytes: &[u8]) -> Result<Option<Opened>, SumError> {
        let sum = wire::decode_live_sum(self.layout, bytes).map_err(|_| SumError::Malformed)?;
        if sum.room != self.room || sum.payload.samples() != PACKET_WORDS {
            return Err(SumError::Malformed);
        }
        let tick = sum.tick;
        if tick < self.next {
            return Err(SumError::Rewound { tick, next: self.next });
        }
        let Some(epoch) = self.epoch_at(tick) else { return Ok(None) };
        if epoch.number() != sum.epoch {
            return Err(SumError::Epoch { tick, found: sum.epoch, expected: epoch.number() });
        }
        let mut samples = epoch.open(&sum).map_err(|error| SumError::Forged { tick, error })?;
        let flags = samples.pop().unwrap_or_default() as u16;
        let flags = (flagged(tick, epoch.roster.last()), flags);
        Ok(Some(Opened { tick, speakers: sum.speakers, late: sum.late, samples, flags }))
    }

    /// A tick is over. Keys that decrypt nothing any more are dropped.
    pub(super) fn pass(&mut self, tick: u32) {
        self.next = tick.saturating_add(1);
        while self.epochs.get(1).is_some_and(|next| next.from().saturating_add(KEPT_TICKS) <= tick) {
            self.epochs.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::attack::{ROOM, Stage};
    use super::*;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

    #[test]
    fn keys_of_an_epoch_are_kept_for_three_seconds_after_the_next_begins_and_then_forgotten() {
        let (settings, mut rng) = (Settings { speakers: 8, ..Settings::default() }, ChaCha20Rng::from_seed([4; 32]));
        let link = RoomLink::new("http://h", "r".parse().unwrap(), settings, &mut rng);
        let mut stage = Stage::open(link.clone(), [5; 32]).unwrap();
        for _ in 0..2 {
            stage.enter(&link, true).unwrap();
            stage.frames(80);
        }
        let person = &stage.people[&0];
        let knowing = || {
            let mut hearing = Hearing::new(&link, ROOM).unwrap();
            for roster in &person.rosters {
                hearing.take_roster(roster, (u16::MAX, SessionId([0; 16])), |_| Ok(None)).unwrap();
            }
            hearing
        };
        let mut hearing = knowing();
        let [first, second] = [&hearing.epochs[0], &hearing.epochs[1]].map(Epoch::from);
        assert!(hearing.epochs.len() == 2 && first < second);
        // each sum is decrypted once, so all are in one pass
        let opened = |hearing: &mut Hearing| -> Vec<u32> {
            let sums = person.came.iter().filter_map(|bytes| hearing.open(bytes).ok().flatten());
            sums.map(|opened| opened.tick).collect()
        };
        assert!(opened(&mut knowing()).contains(&(second - 1)), "a sum that comes late opens");
        hearing.pass(second + KEPT_TICKS - 1);
        assert!(hearing.epoch_at(second - 1).is_some_and(|epoch| epoch.from() == first));
        hearing.pass(second + KEPT_TICKS);
        assert!(hearing.epochs.len() == 1 && hearing.epoch_at(second - 1).is_none());
        // even if the member went back
        hearing.next = 0;
        let left = opened(&mut hearing);
        assert!(left.first() == Some(&second), "{left:?}");
    }
}
