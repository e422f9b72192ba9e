//! The roster of an epoch: who is there, under which number, with which session (kind 0c of the wire).
//!
//! ```text
//! roster = version 1, kind 1, room 8, epoch 4, base 4, from 4, gone (member set), count 2, then for each that is new: member 2, hello 142
//! digest = SHA-256("tobari roster" 1 ‖ room 8 ‖ epoch 4 ‖ from 4 ‖ count 2 ‖ for each, by number: member 2, session 16, speaks 1)
//! ```
//!
//! The server says only what changed since the roster of epoch `base`, and to somebody who comes everything, with a base of zero. It makes
//! the list; it cannot make a hello, nor give one another number: each is a note that holds its own. The digest goes into the keys of the
//! epoch, so that two who were told different lists have no keys in common.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use tobari_core::wire::{MAX_MEMBERS, MemberSet, RoomId, VERSION};

use super::{
    keys::{RoomKeys, SessionId},
    notes::{self, Hello, NOTE_BYTES, Say},
};

/// The kind of a roster on the wire.
pub(super) const KIND: u8 = 0x0c;
const HEAD: usize = 2 + 8 + 4 + 4 + 4;
const ENTRY: usize = 2 + NOTE_BYTES;
/// The longest roster.
pub const MAX_ROSTER_BYTES: usize = HEAD + 2 + MAX_MEMBERS / 8 + 2 + MAX_MEMBERS * ENTRY;

/// A roster as it is said: what changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) room: RoomId,
    pub(super) epoch: u32,
    /// The epoch whose roster is changed; 0, which there never is, for an empty one.
    pub(super) base: u32,
    /// The first tick of the epoch.
    pub(super) from: u32,
    pub(super) gone: MemberSet,
    /// By number, ascending; hellos as they came.
    pub(super) new: Vec<(u16, Vec<u8>)>,
}

impl Change {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD + 600 + self.new.len() * ENTRY);
        out.extend_from_slice(&[VERSION, KIND]);
        out.extend_from_slice(&self.room.0);
        [self.epoch, self.base, self.from].iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
        let bits = bits_of(&self.gone);
        out.extend_from_slice(&(bits.len() as u16).to_be_bytes());
        out.extend_from_slice(&bits);
        out.extend_from_slice(&(self.new.len() as u16).to_be_bytes());
        for (member, hello) in &self.new {
            out.extend_from_slice(&member.to_be_bytes());
            out.extend_from_slice(hello);
        }
        out
    }

    /// None unless these are exactly the bytes of a roster.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
        if head[..2] != [VERSION, KIND] {
            return None;
        }
        let mut room = RoomId([0; 8]);
        room.0.copy_from_slice(&head[2..10]);
        let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let (bits, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
        let gone = set_of(bits)?;
        let (count, rest) = rest.split_first_chunk::<2>()?;
        let count = usize::from(u16::from_be_bytes(*count));
        if rest.len() != count * ENTRY || count > MAX_MEMBERS {
            return None;
        }
        let mut new: Vec<(u16, Vec<u8>)> = Vec::with_capacity(count);
        for entry in rest.chunks(ENTRY) {
            let member = u16::from_be_bytes([entry[0], entry[1]]);
            let in_order = new.last().is_none_or(|(last, _)| *last < member);
            if !in_order || usize::from(member) >= MAX_MEMBERS || notes::head_of(&entry[2..]).is_none() {
                return None;
            }
            new.push((member, entry[2..].to_vec()));
        }
        let (epoch, base, from) = (number(10), number(14), number(18));
        (epoch > base).then_some(Self { room, epoch, base, from, gone, new })
    }
}

/// The bitmap of a set, without a zero byte at its end.
pub(super) fn bits_of(set: &MemberSet) -> Vec<u8> {
    let mut bits = Vec::new();
    for member in set.iter() {
        bits.resize(usize::from(member / 8) + 1, 0);
        bits[usize::from(member / 8)] |= 1u8 << (member % 8);
    }
    bits
}

/// None unless it is written as [`bits_of`] does.
pub(super) fn set_of(bits: &[u8]) -> Option<MemberSet> {
    if bits.len() > MAX_MEMBERS / 8 || bits.last() == Some(&0) {
        return None;
    }
    let mut set = MemberSet::default();
    for member in 0..8 * bits.len() as u16 {
        if bits[usize::from(member / 8)] >> (member % 8) & 1 == 1 {
            set.insert(member);
        }
    }
    Some(set)
}

/// A member as the others know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The session that its keys are derived from.
    pub session: SessionId,
    /// Does it send?
    pub speaks: bool,
    /// How its person wants to be called: its own word.
    pub name: String,
}

/// Why a roster is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RosterError {
    /// Bytes that are no roster, or one of another room.
    #[error("not a roster of this room")]
    Malformed,
    /// A roster of an epoch that is not later than the last, or one that begins before it.
    #[error("roster of epoch {found}: expected a later one than {expected}")]
    Rewound {
        /// The last.
        expected: u32,
        /// What was said.
        found: u32,
    },
    /// A change of a roster that is not the last.
    #[error("change of the roster of epoch {found}: expected {expected}")]
    Base {
        /// The last.
        expected: u32,
        /// What was said.
        found: u32,
    },
    /// A hello that no member of this room has sealed, or one for another number.
    #[error("the server lists as member {0} whom no member of this room has introduced so")]
    Stranger(u16),
    /// A session that is there twice: under two numbers, or again after it was there before.
    #[error("the server lists one session twice, as member {0} too")]
    Twice(u16),
    /// This member is not on it: it is of another time, or for others.
    #[error("a roster without this member")]
    NotListed,
    /// A step without the commit or welcome that this member needs to follow it, or a roster without a step where there must be one.
    #[error("a roster whose keys the group does not have: its commit is not for this member at this epoch")]
    Keys,
    /// The group has other members than the roster.
    #[error("the group has other members than the server lists")]
    Members,
    /// Somebody else stands on it under this member's number.
    #[error("the server lists somebody else under this member's number {0}")]
    NumberTaken(u16),
}

/// The roster as a member knows it.
#[derive(Clone, Debug, Default)]
pub(super) struct Roster {
    pub(super) epoch: u32,
    pub(super) from: u32,
    pub(super) members: BTreeMap<u16, Listed>,
}

impl Roster {
    /// The roster after a change.
    pub(super) fn changed(&self, change: &Change, keys: &RoomKeys, room: RoomId) -> Result<Self, RosterError> {
        if change.room != room {
            return Err(RosterError::Malformed);
        }
        if change.epoch <= self.epoch || self.epoch > 0 && change.from <= self.from {
            return Err(RosterError::Rewound { expected: self.epoch, found: change.epoch });
        }
        if change.base != 0 && change.base != self.epoch {
            return Err(RosterError::Base { expected: self.epoch, found: change.base });
        }
        let mut members = if change.base == 0 { BTreeMap::new() } else { self.members.clone() };
        members.retain(|member, _| !change.gone.contains(*member));
        for (member, hello) in &change.new {
            members.insert(*member, introduced(*member, hello, keys, room)?);
        }
        let mut sessions: Vec<(SessionId, u16)> = members.iter().map(|(member, it)| (it.session, *member)).collect();
        sessions.sort_unstable();
        if let Some(pair) = sessions.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(RosterError::Twice(pair[1].1));
        }
        Ok(Self { epoch: change.epoch, from: change.from, members })
    }

    /// The highest number on it.
    pub(super) fn last(&self) -> u16 {
        self.members.keys().next_back().copied().unwrap_or_default()
    }

    /// What stands for all of it in the keys.
    pub(super) fn digest(&self, room: RoomId) -> [u8; 32] {
        let mut hash = Sha256::new().chain_update(b"tobari roster\x01").chain_update(room.0);
        hash.update(self.epoch.to_be_bytes());
        hash.update(self.from.to_be_bytes());
        hash.update((self.members.len() as u16).to_be_bytes());
        for (member, listed) in &self.members {
            hash.update(member.to_be_bytes());
            hash.update(listed.session.0);
            hash.update([u8::from(listed.speaks)]);
        }
        hash.finalize().into()
    }
}

fn introduced(member: u16, hello: &[u8], keys: &RoomKeys, room: RoomId) -> Result<Listed, RosterError> {
    let (session, hello) = hello_of(member, hello, keys, room).ok_or(RosterError::Stranger(member))?;
    Ok(Listed { session, speaks: hello.speaks, name: hello.name })
}

/// What somebody with the link says of itself under this number.
pub(super) fn hello_of(member: u16, hello: &[u8], keys: &RoomKeys, room: RoomId) -> Option<(SessionId, Hello)> {
    match notes::open(keys, room, hello)? {
        (head, Say::Hello(hello)) if hello.member == member => Some((head.session, hello)),
        _ => None,
    }
}

/// Whatever decodes as a roster encodes to the same bytes.
pub(super) fn fuzz(data: &[u8]) {
    if let Some(change) = Change::decode(data) {
        assert_eq!(change.encode(), data);
        assert!(data.len() <= MAX_ROSTER_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::{RoomLink, Settings};
    use super::super::notes::NoteWriter;
    use super::*;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

    const ROOM: RoomId = RoomId([3; 8]);

    fn keys() -> RoomKeys {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        RoomKeys::new(&RoomLink::new("http://h", "r".parse().unwrap(), Settings::default(), &mut rng))
    }

    fn hello(member: u16, session: u8) -> Vec<u8> {
        let say = Say::Hello(Hello { member, speaks: true, name: format!("member {member}") });
        NoteWriter::new(&keys(), SessionId([session; 16]), ROOM).write(&say).unwrap()
    }

    fn change(epoch: u32, base: u32, gone: &[u16], new: &[(u16, u8)]) -> Change {
        let mut set = MemberSet::default();
        gone.iter().for_each(|member| assert!(set.insert(*member)));
        let new = new.iter().map(|(member, session)| (*member, hello(*member, *session))).collect();
        Change { room: ROOM, epoch, base, from: 10 * epoch, gone: set, new }
    }

    fn numbers(roster: &Roster) -> Vec<u16> {
        roster.members.keys().copied().collect()
    }

    #[test]
    fn changes_add_up_to_what_a_newcomer_is_told_at_once() {
        let keys = keys();
        let one = Roster::default().changed(&change(1, 0, &[], &[(0, 1), (3, 2)]), &keys, ROOM).unwrap();
        let two = one.changed(&change(2, 1, &[0], &[(1, 3), (4000, 4)]), &keys, ROOM).unwrap();
        assert_eq!(numbers(&two), [1, 3, 4000]);
        let whole = Roster::default().changed(&change(2, 0, &[], &[(1, 3), (3, 2), (4000, 4)]), &keys, ROOM).unwrap();
        assert_eq!(two.digest(ROOM), whole.digest(ROOM));
        assert_eq!(two.members, whole.members);
        assert!(one.digest(ROOM) != two.digest(ROOM));
    }

    #[test]
    fn a_digest_depends_on_everything_that_keys_must_depend_on() {
        let keys = keys();
        let of = |change: &Change| Roster::default().changed(change, &keys, ROOM).unwrap().digest(ROOM);
        let usual = change(1, 0, &[], &[(0, 1), (3, 2)]);
        let others = [
            change(2, 0, &[], &[(0, 1), (3, 2)]),
            Change { from: 11, ..usual.clone() },
            change(1, 0, &[], &[(0, 1)]),
            change(1, 0, &[], &[(0, 1), (3, 9)]),
            change(1, 0, &[], &[(0, 1), (4, 2)]),
        ];
        others.iter().for_each(|other| assert!(of(other) != of(&usual)));
        let mut mute = Roster::default().changed(&usual, &keys, ROOM).unwrap();
        mute.members.get_mut(&0).unwrap().speaks = false;
        assert!(mute.digest(ROOM) != of(&usual));
    }

    #[test]
    fn what_a_server_cannot_say_is_refused() {
        let keys = keys();
        let one = Roster::default().changed(&change(5, 0, &[], &[(0, 1), (3, 2)]), &keys, ROOM).unwrap();
        let refused = |change: Change| one.changed(&change, &keys, ROOM).err();
        assert_eq!(refused(change(5, 0, &[], &[])), Some(RosterError::Rewound { expected: 5, found: 5 }));
        let early = Change { from: 50, ..change(6, 5, &[], &[]) };
        assert_eq!(refused(early), Some(RosterError::Rewound { expected: 5, found: 6 }));
        assert_eq!(refused(change(6, 4, &[], &[])), Some(RosterError::Base { expected: 5, found: 4 }));
        // a session under two numbers, or a hello under another number
        assert_eq!(refused(change(6, 5, &[], &[(7, 2)])), Some(RosterError::Twice(7)));
        let other = Change { new: vec![(8, hello(7, 9))], ..change(6, 5, &[], &[]) };
        assert_eq!(refused(other), Some(RosterError::Stranger(8)));
        // words that are not a hello, and a hello of somebody without the secret
        let say = Say::History { window: 1, digest: [0; 32] };
        let note = NoteWriter::new(&keys, SessionId([9; 16]), ROOM).write(&say).unwrap();
        let other = Change { new: vec![(8, note)], ..change(6, 5, &[], &[]) };
        assert_eq!(refused(other), Some(RosterError::Stranger(8)));
        let mut forged = hello(8, 9);
        forged[100] ^= 1;
        let other = Change { new: vec![(8, forged)], ..change(6, 5, &[], &[]) };
        assert_eq!(refused(other), Some(RosterError::Stranger(8)));
    }

    #[test]
    fn a_roster_has_one_form() {
        let bytes = change(2, 1, &[0, 9], &[(1, 3), (4000, 4)]).encode();
        assert_eq!(Change::decode(&bytes).unwrap().encode(), bytes);
        (0..bytes.len()).for_each(|length| assert_eq!(Change::decode(&bytes[..length]), None, "{length}"));
        let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
        assert_eq!(Change::decode(&longer), None);
        // out of order, and a set with a zero byte at its end
        let mut swapped = change(2, 1, &[], &[(1, 3), (4000, 4)]);
        swapped.new.swap(0, 1);
        assert_eq!(Change::decode(&swapped.encode()), None);
        let mut padded = bytes.clone();
        padded[23] = 3;
        padded.insert(26, 0);
        assert_eq!(Change::decode(&padded), None);
        let all: Vec<(u16, u8)> = vec![(4095, 1)];
        assert!(change(1, 0, &[4095], &all).encode().len() < MAX_ROSTER_BYTES);
    }
}
