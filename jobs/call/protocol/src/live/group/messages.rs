//! Offers, tasks, pieces and steps (kinds 20 to 23 of the wire): the envelopes of a group's
//! messages.
//!
//! ```text
//! offer = version 1, kind 1, room 8, session 16, sealed
//!         sealed = AES-256-GCM(offer_sid, nonce 0, the fields before it, key package);
//!         a session makes one offer
//! task  = version 1, kind 1, room 8, length 4, roster, for each new session on it: length 2, offer
//!         the roster is a change (`super::super::roster`) of the last one; its first tick is 0
//! piece = version 1, kind 1, room 8, epoch 4, total 4, offset 4, up to 16 KiB of an answer
//! answer = count 2, numbers of refused members 2 each, ascending; length 4, commit; welcome
//! step  = version 1, kind 1, room 8, length 4, commit or welcome or nothing; roster
//! ```

use tobari_curve::wire::{MAX_MEMBERS, RoomId, VERSION};

use super::{
    super::{
        keys::SessionId,
        roster::{Change, Form, MAX_ROSTER_BYTES},
    },
    Answer,
};

pub(in super::super) const OFFER: u8 = 0x20;
/// The kind of a task on the wire.
pub const TASK: u8 = 0x21;
pub(in super::super) const PIECE: u8 = 0x22;
/// The kind of a step on the wire.
pub const STEP: u8 = 0x23;

const ROOM_HEAD: usize = 2 + 8;
pub(super) const OFFER_HEAD: usize = ROOM_HEAD + 16;
pub(super) const TAG: usize = 16;
/// The longest key package.
pub(super) const MAX_PACKAGE: usize = 1024;
/// The longest offer.
pub(in super::super) const MAX_OFFER: usize = OFFER_HEAD + MAX_PACKAGE + TAG;
/// The longest commit and the longest welcome.
const MAX_COMMIT: usize = 3 << 20;
const MAX_WELCOME: usize = 4 << 20;
/// The longest answer.
pub(in super::super) const MAX_ANSWER: usize = 2 + 2 * MAX_MEMBERS + 4 + MAX_COMMIT + MAX_WELCOME;
/// Bytes of an answer in one piece.
const PIECE_BYTES: usize = 16 << 10;
/// The longest message to a member of a live room: a step, or a task of four thousand offers.
pub const MAX_GROUP_BYTES: usize =
    ROOM_HEAD + 4 + MAX_ROSTER_BYTES + longer(MAX_WELCOME, MAX_MEMBERS * (2 + MAX_OFFER));

const fn longer(one: usize, other: usize) -> usize {
    if one > other { one } else { other }
}

pub(super) fn head(kind: u8, room: RoomId) -> Vec<u8> {
    let mut out = vec![VERSION, kind];
    out.extend_from_slice(&room.0);
    out
}

/// The room and the rest; none unless these bytes begin like this kind.
fn body(kind: u8, bytes: &[u8]) -> Option<(RoomId, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<ROOM_HEAD>()?;
    let mut room = RoomId([0; 8]);
    room.0.copy_from_slice(&head[2..]);
    (head[..2] == [VERSION, kind]).then_some((room, rest))
}

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*number), rest))
}

fn short(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<2>()?;
    Some((u16::from_be_bytes(*number), rest))
}

/// Room and session of an offer: all that a server can read of it. None if it is no offer.
pub(in super::super) fn offer_head(offer: &[u8]) -> Option<(RoomId, SessionId)> {
    let (room, rest) = body(OFFER, offer)?;
    let (session, sealed) = rest.split_first_chunk::<16>()?;
    (sealed.len() > TAG && offer.len() <= MAX_OFFER).then_some((room, SessionId(*session)))
}

/// The order to make a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Task {
    pub(in super::super) change: Change,
    /// In the order of the new entries.
    pub(in super::super) offers: Vec<Vec<u8>>,
}

impl Task {
    pub(in super::super) fn encode(&self) -> Vec<u8> {
        let roster = self.change.encode();
        let mut out = head(TASK, self.change.room);
        out.extend_from_slice(&(roster.len() as u32).to_be_bytes());
        out.extend_from_slice(&roster);
        for offer in &self.offers {
            out.extend_from_slice(&(offer.len() as u16).to_be_bytes());
            out.extend_from_slice(offer);
        }
        out
    }

    /// None unless these are exactly the bytes of a task.
    pub(in super::super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (room, rest) = body(TASK, bytes)?;
        let (length, rest) = number(rest)?;
        let (roster, mut rest) = rest.split_at_checked(length as usize)?;
        let change = Change::decode(roster)
            .filter(|change| change.form == Form::Signed && change.room == room && change.from == 0)?;
        let mut offers = Vec::with_capacity(change.new.len());
        for _ in &change.new {
            let (length, after) = short(rest)?;
            let (offer, after) = after.split_at_checked(length.into())?;
            offer_head(offer)?;
            offers.push(offer.to_vec());
            rest = after;
        }
        rest.is_empty().then_some(Self { change, offers })
    }
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Piece {
    pub(in super::super) room: RoomId,
    pub(in super::super) epoch: u32,
    pub(in super::super) total: u32,
    pub(in super::super) offset: u32,
    pub(in super::super) bytes: Vec<u8>,
}

impl Piece {
    fn encode(&self) -> Vec<u8> {
        let mut out = head(PIECE, self.room);
        [self.epoch, self.total, self.offset].iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
        out.extend_from_slice(&self.bytes);
        out
    }

    /// None unless these are exactly the bytes of a piece.
    pub(in super::super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (room, rest) = body(PIECE, bytes)?;
        let (epoch, rest) = number(rest)?;
        let (total, rest) = number(rest)?;
        let (offset, rest) = number(rest)?;
        let end = (offset as usize).checked_add(rest.len())?;
        let fits = !rest.is_empty() && rest.len() <= PIECE_BYTES && end <= total as usize;
        let is_one = fits && total as usize <= MAX_ANSWER;
        is_one.then(|| Self { room, epoch, total, offset, bytes: rest.to_vec() })
    }
}

impl Answer {
    pub(in super::super) fn encode(&self) -> Vec<u8> {
        let mut out = (self.refused.len() as u16).to_be_bytes().to_vec();
        self.refused.iter().for_each(|member| out.extend_from_slice(&member.to_be_bytes()));
        out.extend_from_slice(&(self.commit.len() as u32).to_be_bytes());
        out.extend_from_slice(&self.commit);
        out.extend_from_slice(&self.welcome);
        out
    }

    /// None unless these are exactly the bytes of an answer.
    pub(in super::super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (count, rest) = short(bytes)?;
        let (refused, rest) = rest.split_at_checked(2 * usize::from(count))?;
        let refused: Vec<u16> = refused.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
        let (length, rest) = number(rest)?;
        let (commit, welcome) = rest.split_at_checked(length as usize)?;
        let lengths = (1..=MAX_COMMIT).contains(&commit.len()) && welcome.len() <= MAX_WELCOME;
        let is_one = lengths && refused.windows(2).all(|pair| pair[0] < pair[1]);
        is_one.then(|| Self { refused, commit: commit.to_vec(), welcome: welcome.to_vec() })
    }

    /// The pieces of the answer to the task of an epoch.
    pub(in super::super) fn pieces(&self, room: RoomId, epoch: u32) -> Vec<Vec<u8>> {
        let bytes = self.encode();
        let total = bytes.len() as u32;
        let piece = |(place, bytes): (usize, &[u8])| {
            let offset = (place * PIECE_BYTES) as u32;
            Piece { room, epoch, total, offset, bytes: bytes.to_vec() }.encode()
        };
        bytes.chunks(PIECE_BYTES).enumerate().map(piece).collect()
    }
}

/// A roster, and the message that leads to its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Step<'a> {
    pub(in super::super) room: RoomId,
    /// A commit, a welcome, or nothing if a group is to be founded.
    pub(in super::super) words: &'a [u8],
    /// The bytes of a roster.
    pub(in super::super) roster: &'a [u8],
}

impl<'a> Step<'a> {
    pub(in super::super) fn encode(&self) -> Vec<u8> {
        let mut out = head(STEP, self.room);
        out.extend_from_slice(&(self.words.len() as u32).to_be_bytes());
        out.extend_from_slice(self.words);
        out.extend_from_slice(self.roster);
        out
    }

    /// None unless these are the bytes of a step. The recipient checks the roster in it.
    pub(in super::super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (room, rest) = body(STEP, bytes)?;
        let (length, rest) = number(rest)?;
        let (words, roster) = rest.split_at_checked(length as usize)?;
        (words.len() <= MAX_WELCOME && roster.len() <= MAX_ROSTER_BYTES).then_some(Self { room, words, roster })
    }
}

/// Does this message go to the members' group by way of the room, and not to the sums?
pub fn is_for_the_group(bytes: &[u8]) -> bool {
    matches!(bytes, [VERSION, OFFER | PIECE, ..])
}

/// Bytes that decode encode to the same bytes.
pub(in super::super) fn fuzz(data: &[u8]) {
    if let Some(task) = Task::decode(data) {
        assert_eq!(task.encode(), data);
    }
    if let Some(piece) = Piece::decode(data) {
        assert_eq!(piece.encode(), data);
    }
    if let Some(step) = Step::decode(data) {
        assert_eq!(step.encode(), data);
    }
    if let Some(answer) = Answer::decode(data) {
        assert_eq!(answer.encode(), data);
    }
    if let Some((room, session)) = offer_head(data) {
        assert!(data[2..10] == room.0 && data[10..26] == session.0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{hello, notes::Hello};
    use super::super::{
        super::{
            keys::RoomKeys,
            link::{RoomLink, Settings},
        },
        offer::seal,
    };
    use super::*;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
    use tobari_curve::wire::MemberSet;

    const ROOM: RoomId = RoomId([3; 8]);
    const SESSION: SessionId = SessionId([5; 16]);

    fn keys(seed: u8) -> RoomKeys {
        let mut rng = ChaCha20Rng::from_seed([seed; 32]);
        RoomKeys::new(&RoomLink::new("http://h", "r".parse().unwrap(), Settings::default(), &mut rng))
    }

    fn task() -> Task {
        let (keys, said) = (keys(1), Hello { member: 7, speaks: true, name: String::new() });
        let hello = hello::write(&keys, ROOM, SESSION, &said).unwrap();
        let mut gone = MemberSet::default();
        gone.insert(3);
        let change = Change { form: Form::Signed, room: ROOM, epoch: 2, base: 1, from: 0, gone, new: vec![(7, hello)] };
        Task { change, offers: vec![seal(&keys, ROOM, SESSION, b"a key package").unwrap()] }
    }

    #[test]
    fn messages_have_one_form() {
        let answer = Answer { refused: vec![1, 9], commit: vec![4; 20_000], welcome: vec![5; 30_000] };
        let roster = task().change.encode();
        let step = Step { room: ROOM, words: b"words", roster: &roster }.encode();
        let pieces = answer.pieces(ROOM, 4);
        assert_eq!(pieces.len(), 4);
        let task = task().encode();
        let mut whole = Vec::new();
        for bytes in pieces.iter().chain([&task, &step]) {
            fuzz(bytes);
            if let Some(piece) = Piece::decode(bytes) {
                assert_eq!((piece.offset as usize, piece.epoch, piece.room), (whole.len(), 4, ROOM));
                whole.extend(piece.bytes);
            }
        }
        assert_eq!(Answer::decode(&whole), Some(answer));
        assert_eq!(Task::decode(&task), Some(self::task()));
        assert_eq!(Step::decode(&step).unwrap().roster, roster);
        (0..task.len()).for_each(|length| assert_eq!(Task::decode(&task[..length]), None, "{length}"));
        assert_eq!(Task::decode(&[&task[..], &[0]].concat()), None);
        assert!(Piece::decode(&pieces[0][..ROOM_HEAD + 12]).is_none() && Piece::decode(&pieces[0]).is_some());
    }

    #[test]
    fn answers_out_of_order_or_too_long_are_none() {
        let answer = |refused: &[u16], commit: usize| {
            Answer { refused: refused.to_vec(), commit: vec![0; commit], welcome: Vec::new() }.encode()
        };
        assert!(Answer::decode(&answer(&[1, 2], 1)).is_some());
        for bad in [answer(&[2, 1], 1), answer(&[1, 1], 1), answer(&[], 0), answer(&[], MAX_COMMIT + 1)] {
            assert!(Answer::decode(&bad).is_none());
        }
        let piece = Piece { room: ROOM, epoch: 1, total: 10, offset: 5, bytes: vec![0; 5] };
        assert!(Piece::decode(&piece.encode()).is_some());
        for bad in [
            Piece { offset: 6, ..piece.clone() },
            Piece { total: MAX_ANSWER as u32 + 1, ..piece.clone() },
            Piece { offset: u32::MAX, ..piece.clone() },
            Piece { bytes: vec![0; PIECE_BYTES + 1], total: MAX_ANSWER as u32, ..piece },
        ] {
            assert!(Piece::decode(&bad.encode()).is_none());
        }
    }

    #[test]
    #[cfg(feature = "mls")]
    fn limits_are_those_of_the_group() {
        assert_eq!(
            [MAX_PACKAGE, MAX_COMMIT, MAX_WELCOME, MAX_MEMBERS],
            [
                tobari_call_group::MAX_PACKAGE,
                tobari_call_group::MAX_COMMIT,
                tobari_call_group::MAX_WELCOME,
                tobari_call_group::MAX_MEMBERS
            ]
        );
    }
}
