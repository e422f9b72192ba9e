//! Drives a room with arbitrary events, and checks its invariants against a small model.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tobari_curve::{Curve, PointEncoding, elgamal::Mode, params::SecurityFloor, wire::RoomId};

use super::{AnyPayload, Event, Fault, Limits, Room, Tick};
use crate::{
    TICK_MS,
    messages::{ClientMessage, Join, Pace},
};

/// For any sequence of events: nothing panics; memory stays within the window; ticks close in
/// order, each with exactly the accepted packets, one for each member; the room never mentions a
/// removed member again.
pub fn fuzz_room(data: &[u8]) {
    let mut bytes = data.iter().copied();
    let first = bytes.next().unwrap_or(0);
    let pace = match first % 4 {
        0 => Pace::Live,
        members => Pace::Lockstep { members: u16::from(members) },
    };
    let mode = if first & 4 == 0 { Mode::Elgamal } else { Mode::ElgamalShared };
    let window = u32::from(bytes.next().unwrap_or(1) % 4) + 1;
    let limits =
        Limits { window, samples: 1, members: 12, idle: Duration::from_secs(1), gather: Duration::from_secs(3) };
    let join = Join { mode, ..Join::new(pace, Curve::Secp256k1) };
    let Ok(room) = Room::open(RoomId([0; 8]), &join, SecurityFloor::Standard, limits, Duration::ZERO) else { return };
    let mut driver =
        Driver { room, pace, mode, now: Duration::ZERO, taken: BTreeMap::new(), late: BTreeSet::new(), ticks: 0 };
    while let (Some(what), Some(which)) = (bytes.next(), bytes.next()) {
        driver.happen(what, which);
        driver.follow();
        driver.room.check();
    }
}

/// A room and its expected state.
struct Driver {
    room: Room,
    pace: Pace,
    mode: Mode,
    now: Duration,
    /// The senders of accepted packets, by tick, for ticks that have not closed.
    taken: BTreeMap<u32, BTreeSet<u16>>,
    late: BTreeSet<u16>,
    /// Ticks closed so far.
    ticks: u32,
}

impl Driver {
    fn happen(&mut self, what: u8, which: u8) {
        let member = u16::from(which % 16);
        match what % 8 {
            0 => self.join(which),
            1..=3 => self.packet(member, u32::from(which / 16)),
            4 => self.room.message(member, &ClientMessage::End {}),
            5 => {
                let tick = self.ticks.saturating_sub(u32::from(which / 16) % 4 + 1);
                self.room.message(member, &ClientMessage::Received { tick });
            }
            6 => self.now += Duration::from_millis(TICK_MS / 2 * u64::from(which)),
            _ if which < 128 => self.room.leave(member),
            _ => self.room.remove(member, Fault::Slow),
        }
    }

    fn join(&mut self, how: u8) {
        let downlink = if how & 4 == 0 { PointEncoding::Compressed } else { PointEncoding::Uncompressed };
        let curve = if how & 24 == 24 { Curve::NistP256 } else { Curve::Secp256k1 };
        let mode = if how & 96 == 96 { other(self.mode) } else { self.mode };
        let join = Join { mode, speak: how & 1 == 0, listen: how & 2 == 0, downlink, ..Join::new(self.pace, curve) };
        let before = self.room.members();
        match self.room.join(&join, self.now) {
            Ok(welcome) => {
                assert_eq!((welcome.tick, self.room.members()), (self.ticks, before + 1));
                assert!((join.speak || join.listen) && welcome.member < 12);
                assert!(join.curve == Curve::Secp256k1 && join.mode == self.mode);
            }
            Err(_) => assert_eq!(self.room.members(), before),
        }
    }

    /// A packet for an earlier tick, the open tick, or a later tick, or a packet in the other mode.
    fn packet(&mut self, member: u16, offset: u32) {
        let tick = (self.ticks + offset % 8).saturating_sub(2);
        let was_there = self.room.members.contains_key(&member);
        let mode = if offset & 8 == 0 { self.mode } else { other(self.mode) };
        let packet = AnyPayload::zero(mode, self.room.parameters(), self.room.limits.samples);
        self.room.packet(member, tick, packet);
        if was_there && self.room.members.contains_key(&member) {
            assert_eq!(mode, self.mode, "a packet in another mode was taken");
            if tick < self.ticks {
                assert_eq!(self.pace, Pace::Live, "nothing is late in lockstep");
                self.late.insert(member);
            } else {
                assert!(tick - self.ticks < self.room.limits.window);
                assert!(self.taken.entry(tick).or_default().insert(member), "two packets for one tick");
            }
        }
    }

    fn follow(&mut self) {
        let mut over = self.room.over;
        while let Some(event) = self.room.poll(self.now) {
            assert!(!over, "an event after the end");
            match event {
                Event::Closed(tick) => self.closed(&tick),
                Event::Removed { member, .. } => assert!(!self.room.members.contains_key(&member)),
                Event::Ended { ticks, .. } => {
                    assert_eq!((ticks, self.taken.len()), (self.ticks, 0));
                    over = true;
                }
            }
        }
        assert!(self.room.deadline().is_none_or(|deadline| deadline > self.now), "something is due and was not told");
    }

    fn closed(&mut self, tick: &Tick) {
        assert_eq!(tick.tick, self.ticks);
        let taken = self.taken.remove(&tick.tick).unwrap_or_default();
        assert!(tick.speakers.iter().eq(taken.iter().copied()), "the list is not who was added");
        assert!(tick.late.iter().eq(std::mem::take(&mut self.late)));
        let silent = taken.is_empty() && tick.late.is_empty();
        assert!(!silent || self.pace == Pace::Live && tick.listeners.is_empty());
        self.ticks += 1;
    }
}

/// The other mode.
fn other(mode: Mode) -> Mode {
    match mode {
        Mode::Elgamal => Mode::ElgamalShared,
        Mode::ElgamalShared => Mode::Elgamal,
    }
}

impl Room {
    /// Invariants between any two events.
    fn check(&self) {
        assert!(self.sums.len() <= self.limits.window as usize);
        assert!(self.members.len() <= usize::from(self.next_member));
        assert!(usize::from(self.next_member) <= self.limits.members);
        let waits = |member: &u16| self.members.get(member).is_some_and(|found| self.waits_for(found));
        assert!(self.over || self.blockers.iter().eq(self.members.keys().filter(|member| waits(member))));
    }
}

#[cfg(test)]
mod tests {
    use super::fuzz_room;
    use chacha20::{
        ChaCha20Rng,
        rand_core::{Rng, SeedableRng},
    };

    #[test]
    fn sequences_that_matter_do_not_break_a_room() {
        for data in [
            // Lockstep for two: both send and end; one acknowledges.
            &[2, 3, 0, 0, 0, 0, 1, 0x20, 1, 0x21, 5, 0, 4, 0, 4, 1][..],
            // One member repeats a tick, the other continues.
            &[2, 3, 0, 0, 0, 0, 1, 0x20, 1, 0x20, 1, 0x21, 1, 0x31, 4, 1],
            // One member floods before the other has joined.
            &[2, 0, 0, 0, 1, 0x20, 1, 0x30, 1, 0x40, 0, 0, 1, 0x21],
            // Nobody sends: both members are idle, and are removed.
            &[2, 3, 0, 0, 0, 0, 6, 255],
            // Only one of two members joins.
            &[2, 3, 0, 0, 6, 255, 6, 255],
            // Live: late packets, an empty tick, a member that leaves.
            &[0, 3, 0, 0, 0, 0, 6, 20, 1, 0x00, 1, 0x21, 6, 4, 7, 0, 1, 0x11, 4, 1, 6, 20],
            // With shared randomness for two: a member of the other mode, then a packet in the
            // other mode.
            &[6, 3, 0, 0, 0, 96, 0, 0, 1, 0x20, 1, 0xa1, 1, 0x30, 4, 0],
            // Live with listeners only.
            &[0, 3, 0, 1, 0, 1, 6, 255, 7, 0, 7, 1],
        ] {
            fuzz_room(data);
        }
    }

    #[test]
    fn noise_does_not_break_a_room() {
        let mut rng = ChaCha20Rng::from_seed([5; 32]);
        for length in (0..3000).map(|round| round % 300) {
            let mut data = vec![0; length];
            rng.fill_bytes(&mut data);
            // Half of the inputs let members join first, because noise alone rarely gets far.
            if length > 16 && length % 2 == 0 {
                data[2..10].copy_from_slice(&[0, 0, 0, 0, 0, 4, 0, 2]);
            }
            fuzz_room(&data);
        }
    }
}
