//! The roster of an epoch: its members, with their numbers and sessions (kind 25 of the wire).
//!
//! ```text
//! roster = version 1, kind 1, room 8, epoch 4, base 4, from 4 (the first tick),
//!          gone (member set: removed entries), count 2, for each new entry: member 2, hello 174
//! digest = SHA-256("tobari roster" 2 ‖ room 8 ‖ epoch 4 ‖ from 4
//!          ‖ count 2 ‖ for each listed entry, by number: member 2, session 16, speaks 1
//!          ‖ count 2 ‖ for each left-out entry, by number: member 2, SHA-256 of its hello 32)
//! ```
//!
//! The server sends only the changes since the roster of epoch `base`. A new member gets the whole
//! roster, with a base of zero. The server makes the list, but it cannot make a hello, nor move a
//! hello to another number: each hello is signed with its number (`super::hello`). The digest goes
//! into the keys of the epoch. So two members who were given different lists have no keys in
//! common.
//!
//! **Left-out entries.** Members leave out an entry whose hello is not signed for this room and
//! this number, and every entry of a session that more than one verified entry has. This depends
//! only on the entries and on the link's public key, not on how a member received the entries. So a
//! member who followed every change and a member who got the whole roster leave out the same
//! entries, and the others go on. An honest server has rejected such a hello already.
//!
//! **Protocol 2** had rosters of kind 0c, whose hellos are notes ([`super::notes`]). Their digest
//! has version 1 (`"tobari roster" 1`) and no left-out entries: one entry that did not decrypt made
//! the whole roster invalid. Recordings have such rosters; they are not sent to members.

use std::{collections::BTreeMap, sync::Arc};

use sha2::{Digest, Sha256};
use tobari_curve::wire::{MAX_MEMBERS, MemberSet, RoomId, VERSION};

use super::{
    hello::{self, HELLO_BYTES},
    keys::{RoomKeys, SessionId},
    notes::{self, NOTE_BYTES, Say},
};

/// The kind of a roster on the wire.
pub(super) const KIND: u8 = 0x25;
/// The kind of a roster of protocol 2, in recordings.
pub(super) const EARLIER_KIND: u8 = 0x0c;
const HEAD: usize = 2 + 8 + 4 + 4 + 4;
/// The longest roster.
pub const MAX_ROSTER_BYTES: usize = HEAD + 2 + MAX_MEMBERS / 8 + 2 + MAX_MEMBERS * (2 + HELLO_BYTES);

/// The format of a roster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    /// With signed hellos.
    #[default]
    Signed,
    /// As in protocol 2, with notes for hellos.
    Earlier,
}

impl Form {
    fn kind(self) -> u8 {
        match self {
            Self::Signed => KIND,
            Self::Earlier => EARLIER_KIND,
        }
    }

    fn hello_bytes(self) -> usize {
        match self {
            Self::Signed => HELLO_BYTES,
            Self::Earlier => NOTE_BYTES,
        }
    }
}

/// A roster on the wire: the changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) form: Form,
    pub(super) room: RoomId,
    pub(super) epoch: u32,
    /// The epoch whose roster is changed; 0, which is no epoch, for an empty roster.
    pub(super) base: u32,
    /// The first tick of the epoch.
    pub(super) from: u32,
    pub(super) gone: MemberSet,
    /// By number, ascending; hellos as received.
    pub(super) new: Vec<(u16, Vec<u8>)>,
}

impl Change {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD + 600 + self.new.len() * (2 + self.form.hello_bytes()));
        out.extend_from_slice(&[VERSION, self.form.kind()]);
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
        let form = match head[..2] {
            [VERSION, KIND] => Form::Signed,
            [VERSION, EARLIER_KIND] => Form::Earlier,
            _ => return None,
        };
        let entry_bytes = 2 + form.hello_bytes();
        let mut room = RoomId([0; 8]);
        room.0.copy_from_slice(&head[2..10]);
        let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let (bits, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
        let gone = set_of(bits)?;
        let (count, rest) = rest.split_first_chunk::<2>()?;
        let count = usize::from(u16::from_be_bytes(*count));
        if rest.len() != count * entry_bytes || count > MAX_MEMBERS {
            return None;
        }
        let mut new: Vec<(u16, Vec<u8>)> = Vec::with_capacity(count);
        for entry in rest.chunks(entry_bytes) {
            let member = u16::from_be_bytes([entry[0], entry[1]]);
            let in_order = new.last().is_none_or(|(last, _)| *last < member);
            let is_note = form == Form::Signed || notes::head_of(&entry[2..]).is_some();
            if !in_order || usize::from(member) >= MAX_MEMBERS || !is_note {
                return None;
            }
            new.push((member, entry[2..].to_vec()));
        }
        let (epoch, base, from) = (number(10), number(14), number(18));
        (epoch > base).then_some(Self { form, room, epoch, base, from, gone, new })
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

/// None unless [`bits_of`] would write the set like this.
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

/// The epoch of a roster, from its head; none if the bytes do not begin as a roster does.
pub(super) fn epoch_of(bytes: &[u8]) -> Option<u32> {
    let (head, _) = bytes.split_first_chunk::<HEAD>()?;
    (head[..2] == [VERSION, KIND]).then(|| u32::from_be_bytes([head[10], head[11], head[12], head[13]]))
}

/// A member as the others know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The session that its keys are derived from.
    pub session: SessionId,
    /// Does it send?
    pub speaks: bool,
    /// The name that its person chose. Empty if its hello has no name that decrypts.
    pub name: String,
}

/// Why a roster is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RosterError {
    /// Bytes that are no roster, or a roster of another room.
    #[error("not a roster of this room")]
    Malformed,
    /// A roster of an epoch that is not later than the last, or that does not begin after it.
    #[error("roster of epoch {found}: expected a later one than {expected}")]
    Rewound {
        /// The last epoch.
        expected: u32,
        /// The epoch of the roster.
        found: u32,
    },
    /// A change of a roster that is not the last.
    #[error("change of the roster of epoch {found}: expected {expected}")]
    Base {
        /// The last epoch.
        expected: u32,
        /// The base of the change.
        found: u32,
    },
    /// In a recording of protocol 2: a hello that no member of this room has sealed, or a hello for
    /// another number. In a recording of this protocol: a roster without any valid entry.
    #[error("the server lists as member {0} whom no member of this room has introduced so")]
    Stranger(u16),
    /// In a recording of protocol 2: one session under two numbers.
    #[error("the server lists one session twice, as member {0} too")]
    Twice(u16),
    /// This member is not on the roster: it is of another time, or for others.
    #[error("a roster without this member")]
    NotListed,
    /// A step without the commit or welcome that this member needs to follow it, or a roster
    /// without a step where there must be one.
    #[error("a roster whose keys the group does not have: its commit is not for this member at this epoch")]
    Keys,
    /// The group has other members than the roster.
    #[error("the group has other members than the server lists")]
    Members,
    /// The entry under this member's number is not this member's.
    #[error("the server lists another client under this member's number {0}")]
    NumberTaken(u16),
}

/// A checked entry of a roster.
#[derive(Debug)]
struct Introduced {
    /// SHA-256 of the hello.
    hash: [u8; 32],
    /// Its content, if it is signed for this room and this number.
    said: Option<Listed>,
}

/// The roster as a member knows it.
#[derive(Clone, Debug, Default)]
pub(super) struct Roster {
    pub(super) epoch: u32,
    pub(super) from: u32,
    /// The members: the entries that are not left out.
    pub(super) members: BTreeMap<u16, Listed>,
    /// The left-out entries, with the hash of the hello.
    pub(super) left_out: BTreeMap<u16, [u8; 32]>,
    entries: BTreeMap<u16, Arc<Introduced>>,
    form: Form,
}

impl Roster {
    /// The roster after a change. Invalid entries are left out; see the module.
    pub(super) fn changed(&self, change: &Change, keys: &RoomKeys, room: RoomId) -> Result<Self, RosterError> {
        if change.room != room || change.base != 0 && change.form != self.form {
            return Err(RosterError::Malformed);
        }
        if change.epoch <= self.epoch || self.epoch > 0 && change.from <= self.from {
            return Err(RosterError::Rewound { expected: self.epoch, found: change.epoch });
        }
        if change.base != 0 && change.base != self.epoch {
            return Err(RosterError::Base { expected: self.epoch, found: change.base });
        }
        if change.form == Form::Earlier {
            return self.changed_as_before(change, keys, room);
        }
        let mut entries = if change.base == 0 { BTreeMap::new() } else { self.entries.clone() };
        entries.retain(|member, _| !change.gone.contains(*member));
        for (member, hello) in &change.new {
            let hash: [u8; 32] = Sha256::digest(hello).into();
            // a whole roster repeats known entries: they are not checked again
            let known = self.entries.get(member).filter(|entry| entry.hash == hash);
            let entry = known.map_or_else(|| Arc::new(introduced(*member, hello, hash, keys, room)), Arc::clone);
            entries.insert(*member, entry);
        }
        Ok(Self::of(change, entries))
    }

    fn of(change: &Change, entries: BTreeMap<u16, Arc<Introduced>>) -> Self {
        let mut sessions: BTreeMap<SessionId, usize> = BTreeMap::new();
        for said in entries.values().filter_map(|entry| entry.said.as_ref()) {
            *sessions.entry(said.session).or_default() += 1;
        }
        let (mut members, mut left_out) = (BTreeMap::new(), BTreeMap::new());
        for (member, entry) in &entries {
            match entry.said.as_ref().filter(|said| sessions.get(&said.session) == Some(&1)) {
                Some(said) => drop(members.insert(*member, said.clone())),
                None => drop(left_out.insert(*member, entry.hash)),
            }
        }
        Self { epoch: change.epoch, from: change.from, members, left_out, entries, form: Form::Signed }
    }

    /// A roster of protocol 2 is taken whole or not at all.
    fn changed_as_before(&self, change: &Change, keys: &RoomKeys, room: RoomId) -> Result<Self, RosterError> {
        let mut members = if change.base == 0 { BTreeMap::new() } else { self.members.clone() };
        members.retain(|member, _| !change.gone.contains(*member));
        for (member, hello) in &change.new {
            members.insert(*member, sealed(*member, hello, keys, room).ok_or(RosterError::Stranger(*member))?);
        }
        let mut sessions: Vec<(SessionId, u16)> = members.iter().map(|(member, it)| (it.session, *member)).collect();
        sessions.sort_unstable();
        if let Some(pair) = sessions.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(RosterError::Twice(pair[1].1));
        }
        Ok(Self { epoch: change.epoch, from: change.from, members, form: Form::Earlier, ..Self::default() })
    }

    /// The session in the valid hello of a number, even if the entry is left out.
    pub(super) fn session_of(&self, member: u16) -> Option<SessionId> {
        Some(self.entries.get(&member)?.said.as_ref()?.session)
    }

    /// The highest number on the roster.
    pub(super) fn last(&self) -> u16 {
        self.members.keys().next_back().copied().unwrap_or_default()
    }

    /// The digest that stands for the whole roster in the keys.
    pub(super) fn digest(&self, room: RoomId) -> [u8; 32] {
        let version: u8 = if self.form == Form::Earlier { 1 } else { 2 };
        let mut hash = Sha256::new().chain_update(b"tobari roster").chain_update([version]).chain_update(room.0);
        hash.update(self.epoch.to_be_bytes());
        hash.update(self.from.to_be_bytes());
        hash.update((self.members.len() as u16).to_be_bytes());
        for (member, listed) in &self.members {
            hash.update(member.to_be_bytes());
            hash.update(listed.session.0);
            hash.update([u8::from(listed.speaks)]);
        }
        if self.form == Form::Signed {
            hash.update((self.left_out.len() as u16).to_be_bytes());
            for (member, hello) in &self.left_out {
                hash.update(member.to_be_bytes());
                hash.update(hello);
            }
        }
        hash.finalize().into()
    }
}

fn introduced(member: u16, hello: &[u8], hash: [u8; 32], keys: &RoomKeys, room: RoomId) -> Introduced {
    Introduced { hash, said: hello_of(member, hello, keys, room) }
}

/// The content of a hello, if it is signed for this number and this room.
pub(super) fn hello_of(member: u16, bytes: &[u8], keys: &RoomKeys, room: RoomId) -> Option<Listed> {
    let head = hello::verified(&keys.verifying(), room, member, bytes)?;
    let name = hello::name_of(keys, bytes).unwrap_or_default();
    Some(Listed { session: head.session, speaks: head.speaks, name })
}

/// The content of a hello of protocol 2, if it was sealed for this number.
fn sealed(member: u16, hello: &[u8], keys: &RoomKeys, room: RoomId) -> Option<Listed> {
    match notes::open(keys, room, hello)? {
        (head, Say::Hello(hello)) if hello.member == member => {
            Some(Listed { session: head.session, speaks: hello.speaks, name: hello.name })
        }
        _ => None,
    }
}

/// Bytes that decode as a roster encode to the same bytes.
pub(super) fn fuzz(data: &[u8]) {
    if let Some(change) = Change::decode(data) {
        assert_eq!(change.encode(), data);
        assert!(data.len() <= MAX_ROSTER_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::{RoomLink, Settings};
    use super::super::notes::Hello;
    use super::*;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

    const ROOM: RoomId = RoomId([3; 8]);

    fn keys_of(seed: u8) -> RoomKeys {
        let mut rng = ChaCha20Rng::from_seed([seed; 32]);
        RoomKeys::new(&RoomLink::new("http://h", "r".parse().unwrap(), Settings::default(), &mut rng))
    }

    fn keys() -> RoomKeys {
        keys_of(1)
    }

    fn hello(member: u16, session: u8) -> Vec<u8> {
        let said = Hello { member, speaks: true, name: format!("member {member}") };
        hello::write(&keys(), ROOM, SessionId([session; 16]), &said).unwrap()
    }

    /// New members, with their hellos.
    type New = Vec<(u16, Vec<u8>)>;

    fn change(epoch: u32, base: u32, gone: &[u16], new: &[(u16, Vec<u8>)]) -> Change {
        let mut set = MemberSet::default();
        gone.iter().for_each(|member| assert!(set.insert(*member)));
        Change { form: Form::Signed, room: ROOM, epoch, base, from: 10 * epoch, gone: set, new: new.to_vec() }
    }

    fn of(new: &[(u16, u8)]) -> Vec<(u16, Vec<u8>)> {
        new.iter().map(|(member, session)| (*member, hello(*member, *session))).collect()
    }

    fn numbers(roster: &Roster) -> Vec<u16> {
        roster.members.keys().copied().collect()
    }

    #[test]
    fn changes_add_up_to_what_a_newcomer_is_told_at_once() {
        let keys = keys();
        let one = Roster::default().changed(&change(1, 0, &[], &of(&[(0, 1), (3, 2)])), &keys, ROOM).unwrap();
        let two = one.changed(&change(2, 1, &[0], &of(&[(1, 3), (4000, 4)])), &keys, ROOM).unwrap();
        assert_eq!(numbers(&two), [1, 3, 4000]);
        let whole = change(2, 0, &[], &of(&[(1, 3), (3, 2), (4000, 4)]));
        let whole = Roster::default().changed(&whole, &keys, ROOM).unwrap();
        assert_eq!(two.digest(ROOM), whole.digest(ROOM));
        assert_eq!(two.members, whole.members);
        assert!(one.digest(ROOM) != two.digest(ROOM));
    }

    /// Hellos that no honest server lists, and that a member must handle.
    fn bad(member: u16) -> Vec<Vec<u8>> {
        let noise: Vec<u8> = (0..HELLO_BYTES).map(|i| (i * 37 % 251) as u8).collect();
        let mut sealed_noise = hello(member, 99);
        sealed_noise[60..80].fill(9);
        let other_secret = {
            let said = Hello { member, speaks: true, name: String::new() };
            hello::write(&keys_of(2), ROOM, SessionId([98; 16]), &said).unwrap()
        };
        let other_room = {
            let said = Hello { member, speaks: true, name: String::new() };
            hello::write(&keys(), RoomId([4; 8]), SessionId([97; 16]), &said).unwrap()
        };
        vec![noise, vec![0; HELLO_BYTES], sealed_noise, other_secret, other_room, hello(member + 1, 96)]
    }

    #[test]
    fn fault_20_an_entry_that_does_not_hold_is_left_out_on_whatever_way_the_roster_came() {
        let keys = keys();
        for (which, bad) in bad(7).into_iter().enumerate() {
            // this member follows every change; honest members join and leave before, with and
            // after the bad entry
            let mut followed = Roster::default();
            let mut entries: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
            let steps: [(&[u16], New); 6] = [
                (&[], of(&[(0, 1), (1, 2)])),
                (&[], vec![(2, hello(2, 3)), (7, bad)]),
                (&[0], of(&[(3, 4)])),
                (&[], of(&[(0, 5), (8, 6)])),
                (&[7], Vec::new()),
                (&[], of(&[(7, 7)])),
            ];
            for (epoch, (gone, new)) in (1..).zip(&steps) {
                followed = followed.changed(&change(epoch, epoch - 1, gone, new), &keys, ROOM).unwrap();
                entries.retain(|member, _| !gone.contains(member));
                entries.extend(new.iter().cloned());
                let all: Vec<(u16, Vec<u8>)> = entries.clone().into_iter().collect();
                let whole = Roster::default().changed(&change(epoch, 0, &[], &all), &keys, ROOM).unwrap();
                assert_eq!(followed.digest(ROOM), whole.digest(ROOM), "{which}, epoch {epoch}");
                assert_eq!((&followed.members, &followed.left_out), (&whole.members, &whole.left_out));
                let left_out: Vec<u16> = followed.left_out.keys().copied().collect();
                assert_eq!(left_out, if (2..5).contains(&epoch) { vec![7] } else { Vec::new() }, "{which}");
                assert_eq!(followed.members.len() + left_out.len(), entries.len());
            }
        }
    }

    #[test]
    fn fault_20_a_session_that_is_there_twice_is_left_out_with_every_entry_and_comes_back_with_the_last() {
        let keys = keys();
        let one = Roster::default().changed(&change(1, 0, &[], &of(&[(0, 1), (3, 2)])), &keys, ROOM).unwrap();
        let twice = one.changed(&change(2, 1, &[], &of(&[(5, 2)])), &keys, ROOM).unwrap();
        assert_eq!((numbers(&twice), twice.left_out.keys().copied().collect::<Vec<_>>()), (vec![0], vec![3, 5]));
        let at_once = change(2, 0, &[], &of(&[(0, 1), (3, 2), (5, 2)]));
        assert_eq!(Roster::default().changed(&at_once, &keys, ROOM).unwrap().digest(ROOM), twice.digest(ROOM));
        assert_eq!(twice.session_of(3), Some(SessionId([2; 16])), "whoever it is knows that it is meant");
        // an entry that is left out for its signature does not take another entry with it
        let mut forged = hello(6, 1);
        forged[40] ^= 1;
        let forged = one.changed(&change(2, 1, &[], &[(6, forged)]), &keys, ROOM).unwrap();
        assert_eq!(numbers(&forged), [0, 3]);
        let gone = twice.changed(&change(3, 2, &[5], &[]), &keys, ROOM).unwrap();
        assert_eq!((numbers(&gone), gone.left_out.len()), (vec![0, 3], 0));
    }

    #[test]
    fn a_digest_depends_on_everything_that_keys_must_depend_on() {
        let keys = keys();
        let digest = |change: &Change| Roster::default().changed(change, &keys, ROOM).unwrap().digest(ROOM);
        let usual = change(1, 0, &[], &of(&[(0, 1), (3, 2)]));
        let with = |hello: Vec<u8>| {
            let mut new = of(&[(0, 1), (3, 2)]);
            new.push((7, hello));
            change(1, 0, &[], &new)
        };
        let mut others = vec![
            change(2, 0, &[], &of(&[(0, 1), (3, 2)])),
            Change { from: 11, ..usual.clone() },
            change(1, 0, &[], &of(&[(0, 1)])),
            change(1, 0, &[], &of(&[(0, 1), (3, 9)])),
            change(1, 0, &[], &of(&[(0, 1), (4, 2)])),
        ];
        // the left-out entries, and their bytes
        others.extend(bad(7).into_iter().map(with));
        let mut digests: Vec<[u8; 32]> = others.iter().chain([&usual]).map(digest).collect();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), others.len() + 1);
        let mut mute = Roster::default().changed(&usual, &keys, ROOM).unwrap();
        mute.members.get_mut(&0).unwrap().speaks = false;
        assert!(mute.digest(ROOM) != digest(&usual));
    }

    #[test]
    fn what_a_server_cannot_say_is_refused() {
        let keys = keys();
        let one = Roster::default().changed(&change(5, 0, &[], &of(&[(0, 1), (3, 2)])), &keys, ROOM).unwrap();
        let refused = |change: Change| one.changed(&change, &keys, ROOM).err();
        assert_eq!(refused(change(5, 0, &[], &[])), Some(RosterError::Rewound { expected: 5, found: 5 }));
        let early = Change { from: 50, ..change(6, 5, &[], &[]) };
        assert_eq!(refused(early), Some(RosterError::Rewound { expected: 5, found: 6 }));
        assert_eq!(refused(change(6, 4, &[], &[])), Some(RosterError::Base { expected: 5, found: 4 }));
        assert_eq!(refused(Change { room: RoomId([4; 8]), ..change(6, 5, &[], &[]) }), Some(RosterError::Malformed));
        let earlier = Change { form: Form::Earlier, ..change(6, 5, &[], &[]) };
        assert_eq!(refused(earlier), Some(RosterError::Malformed), "a change of protocol 2");
    }

    #[test]
    fn a_roster_of_protocol_2_is_whole_or_none() {
        let keys = keys();
        let note = |member: u16, session: u8, said: u16| {
            let say = Say::Hello(Hello { member: said, speaks: true, name: "Ada".to_owned() });
            (member, notes::NoteWriter::new(&keys, SessionId([session; 16]), ROOM).write(&say).unwrap())
        };
        let earlier = |new: &[(u16, Vec<u8>)]| Change { form: Form::Earlier, ..change(1, 0, &[], new) };
        let taken = |new: &[(u16, Vec<u8>)]| {
            let bytes = earlier(new).encode();
            Roster::default().changed(&Change::decode(&bytes).unwrap(), &keys, ROOM).map(|roster| numbers(&roster))
        };
        assert_eq!(taken(&[note(0, 1, 0), note(3, 2, 3)]), Ok(vec![0, 3]));
        assert_eq!(taken(&[note(0, 1, 0), note(3, 2, 4)]), Err(RosterError::Stranger(3)));
        assert_eq!(taken(&[note(0, 1, 0), note(3, 1, 3)]), Err(RosterError::Twice(3)));
    }

    #[test]
    fn a_roster_has_one_form() {
        let bytes = change(2, 1, &[0, 9], &of(&[(1, 3), (4000, 4)])).encode();
        assert_eq!((Change::decode(&bytes).unwrap().encode(), epoch_of(&bytes)), (bytes.clone(), Some(2)));
        (0..bytes.len()).for_each(|length| assert_eq!(Change::decode(&bytes[..length]), None, "{length}"));
        let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
        assert_eq!(Change::decode(&longer), None);
        // out of order, and a set with a zero byte at its end
        let mut swapped = change(2, 1, &[], &of(&[(1, 3), (4000, 4)]));
        swapped.new.swap(0, 1);
        assert_eq!(Change::decode(&swapped.encode()), None);
        let mut padded = bytes.clone();
        padded[23] = 3;
        padded.insert(26, 0);
        assert_eq!(Change::decode(&padded), None);
        assert!(change(1, 0, &[4095], &of(&[(4095, 1)])).encode().len() < MAX_ROSTER_BYTES);
    }

    /// It must take less than a second, even on a slow and busy machine.
    #[test]
    fn fault_20_a_whole_roster_is_checked_in_well_under_a_second() {
        let keys = keys();
        let write = |member: u16| {
            let session = SessionId((u128::from(member) + 1).to_be_bytes());
            let said = Hello { member, speaks: true, name: format!("member {member}") };
            (member, hello::write(&keys, ROOM, session, &said).unwrap())
        };
        let new: New = (0..1024).map(write).collect();
        let bytes = change(1, 0, &[], &new).encode();
        let times = (0..3).map(|_| {
            let begun = std::time::Instant::now();
            let roster = Roster::default().changed(&Change::decode(&bytes).unwrap(), &keys, ROOM).unwrap();
            assert_eq!((roster.members.len(), roster.left_out.len()), (1024, 0));
            begun.elapsed()
        });
        let least = times.min().unwrap();
        assert!(least < std::time::Duration::from_secs(1), "{least:?} for {} bytes", bytes.len());
    }
}
