//! Messages between the servers of one room on the bus.
//!
//! ```text
//! message = version 1 (its value is 2), kind 1, station 8 (the sender), then
//!   seek  (1): nothing: asks for the leader of this room
//!   over  (2): nothing: this station has ended
//!   tick  (3): tick 4, count 1, for each edge: station 8, link 4, said 4, heard 4;
//!              then a byte 0, or a byte 1 and the sum
//!   parts (4): said 4, heard 4, late (set), count 1,
//!              for each part: length 4, sum of packets of this station's members
//!   word  (5): link 4, number 4, last 1, piece of an item
//! said, heard = number of words that the sender has queued, and received, on the link
//! item to an edge    = seated (1): ticket 4, welcome (text)  refused (2): ticket 4, refusal (text)
//!                      listed (3): epoch 4, set              send (4): set, bytes
//!                      tell (5): member 2, text
//! item to the leader = join (17): ticket 4, text             note (18): member 2, bytes
//!                      said (19): member 2, text             left (20): member 2, urgent 1
//! set = length 2, bitmap without a zero byte at its end
//! ```
//!
//! Numbers are big-endian. Texts are control messages, as between members and servers. Sums are as
//! on the wire. In `parts` their points are uncompressed, because bytes are cheaper between servers
//! than square roots.

use tobari_curve::wire::MemberSet;

use super::Station;
use crate::live::{
    Proven,
    messages::{ClientMessage, ServerMessage, Welcome},
    roster::{bits_of, set_of},
};

/// The version of messages on the bus.
const BUS_VERSION: u8 = 2;
/// The most edges of one leader: their list has one byte for their number.
pub(super) const MAX_EDGES: usize = 64;
/// The most partial sums in one message.
pub(super) const MAX_PARTS: usize = 16;

/// The leader's state of its link to an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EdgeState {
    pub(super) edge: Station,
    /// The number of the leader's link. A lost link does not come back.
    pub(super) link: u32,
    /// How many words were sent, and received.
    pub(super) said: u32,
    pub(super) heard: u32,
}

/// A tick is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tick {
    pub(super) tick: u32,
    pub(super) edges: Vec<EdgeState>,
    /// None if nobody has sent.
    pub(super) sum: Option<Vec<u8>>,
}

/// The sums of an edge's members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) said: u32,
    pub(super) heard: u32,
    pub(super) late: MemberSet,
    pub(super) sums: Vec<Vec<u8>>,
}

/// A piece of an item that must arrive, once and in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) link: u32,
    pub(super) number: u32,
    pub(super) last: bool,
    pub(super) piece: Vec<u8>,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BusContent {
    Seek,
    Over,
    Tick(Tick),
    Parts(Parts),
    Word(Word),
}

/// A well-formed message of a server on the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusMessage {
    pub(super) from: Station,
    pub(super) said: BusContent,
}

impl BusMessage {
    pub(super) fn encode(&self) -> Vec<u8> {
        let kind = match self.said {
            BusContent::Seek => 1,
            BusContent::Over => 2,
            BusContent::Tick(_) => 3,
            BusContent::Parts(_) => 4,
            BusContent::Word(_) => 5,
        };
        let mut out = vec![BUS_VERSION, kind];
        out.extend_from_slice(&self.from.0);
        match &self.said {
            BusContent::Seek | BusContent::Over => {}
            BusContent::Tick(tick) => {
                out.extend_from_slice(&tick.tick.to_be_bytes());
                out.push(tick.edges.len() as u8);
                for edge in &tick.edges {
                    out.extend_from_slice(&edge.edge.0);
                    numbers(&mut out, &[edge.link, edge.said, edge.heard]);
                }
                out.push(tick.sum.is_some().into());
                out.extend_from_slice(tick.sum.as_deref().unwrap_or_default());
            }
            BusContent::Parts(parts) => {
                numbers(&mut out, &[parts.said, parts.heard]);
                set(&mut out, &parts.late);
                out.push(parts.sums.len() as u8);
                for sum in &parts.sums {
                    numbers(&mut out, &[sum.len() as u32]);
                    out.extend_from_slice(sum);
                }
            }
            BusContent::Word(word) => {
                numbers(&mut out, &[word.link, word.number]);
                out.push(word.last.into());
                out.extend_from_slice(&word.piece);
            }
        }
        out
    }

    /// None unless these are exactly the bytes of a message.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = Rest(bytes);
        if rest.byte()? != BUS_VERSION {
            return None;
        }
        let kind = rest.byte()?;
        let from = Station(rest.array()?);
        let said = match kind {
            1 => BusContent::Seek,
            2 => BusContent::Over,
            3 => BusContent::Tick(Tick::read(&mut rest)?),
            4 => BusContent::Parts(Parts::read(&mut rest)?),
            5 => {
                let (link, number, last) = (rest.number()?, rest.number()?, rest.flag()?);
                BusContent::Word(Word { link, number, last, piece: rest.all() })
            }
            _ => return None,
        };
        rest.0.is_empty().then_some(Self { from, said })
    }
}

impl Tick {
    fn read(rest: &mut Rest<'_>) -> Option<Self> {
        let tick = rest.number()?;
        let count = rest.byte()?;
        if usize::from(count) > MAX_EDGES {
            return None;
        }
        let mut edges = Vec::with_capacity(count.into());
        for _ in 0..count {
            let edge = Station(rest.array()?);
            edges.push(EdgeState { edge, link: rest.number()?, said: rest.number()?, heard: rest.number()? });
        }
        let sum = if rest.flag()? { Some(rest.all()) } else { None };
        Some(Self { tick, edges, sum })
    }
}

impl Parts {
    fn read(rest: &mut Rest<'_>) -> Option<Self> {
        let (said, heard, late) = (rest.number()?, rest.number()?, rest.set()?);
        let count = rest.byte()?;
        if usize::from(count) > MAX_PARTS {
            return None;
        }
        let mut sums = Vec::with_capacity(count.into());
        for _ in 0..count {
            let length = rest.number()? as usize;
            sums.push(rest.take(length)?.to_vec());
        }
        Some(Self { said, heard, late, sums })
    }
}

/// An item from the leader to an edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ToEdge {
    Seated {
        ticket: u32,
        welcome: Welcome,
    },
    /// `refusal` is a [`ServerMessage::Refused`].
    Refused {
        ticket: u32,
        refusal: ServerMessage,
    },
    /// These members are on the rosters from this epoch on.
    Listed {
        epoch: u32,
        members: MemberSet,
    },
    Send {
        members: MemberSet,
        bytes: Vec<u8>,
    },
    Tell {
        member: u16,
        message: ServerMessage,
    },
}

impl ToEdge {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Seated { ticket, welcome } => {
                out.push(1);
                numbers(&mut out, &[*ticket]);
                out.extend_from_slice(ServerMessage::Welcome(*welcome).to_text().as_bytes());
            }
            Self::Refused { ticket, refusal } => {
                out.push(2);
                numbers(&mut out, &[*ticket]);
                out.extend_from_slice(refusal.to_text().as_bytes());
            }
            Self::Listed { epoch, members } => {
                out.push(3);
                numbers(&mut out, &[*epoch]);
                set(&mut out, members);
            }
            Self::Send { members, bytes } => {
                out.push(4);
                set(&mut out, members);
                out.extend_from_slice(bytes);
            }
            Self::Tell { member, message } => {
                out.push(5);
                out.extend_from_slice(&member.to_be_bytes());
                out.extend_from_slice(message.to_text().as_bytes());
            }
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = Rest(bytes);
        let item = match rest.byte()? {
            1 => {
                let ticket = rest.number()?;
                let ServerMessage::Welcome(welcome) = ServerMessage::parse(rest.text()?).ok()? else { return None };
                Self::Seated { ticket, welcome }
            }
            2 => {
                let ticket = rest.number()?;
                let refusal = ServerMessage::parse(rest.text()?).ok()?;
                if !matches!(refusal, ServerMessage::Refused { .. }) {
                    return None;
                }
                Self::Refused { ticket, refusal }
            }
            3 => Self::Listed { epoch: rest.number()?, members: rest.set()? },
            4 => Self::Send { members: rest.set()?, bytes: rest.all() },
            5 => Self::Tell { member: rest.member()?, message: ServerMessage::parse(rest.text()?).ok()? },
            _ => return None,
        };
        rest.0.is_empty().then_some(item)
    }
}

/// An item from an edge to the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ToLeader {
    /// The edge has checked its proof.
    Join {
        ticket: u32,
        join: Proven,
    },
    Note {
        member: u16,
        bytes: Vec<u8>,
    },
    Said {
        member: u16,
        message: ClientMessage,
    },
    /// The member has left, or the edge has removed it, which is urgent.
    Left {
        member: u16,
        urgent: bool,
    },
}

impl ToLeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Join { ticket, join } => {
                out.push(17);
                numbers(&mut out, &[*ticket]);
                out.extend_from_slice(ClientMessage::Join(join.join().clone()).to_text().as_bytes());
            }
            Self::Note { member, bytes } => {
                out.push(18);
                out.extend_from_slice(&member.to_be_bytes());
                out.extend_from_slice(bytes);
            }
            Self::Said { member, message } => {
                out.push(19);
                out.extend_from_slice(&member.to_be_bytes());
                out.extend_from_slice(message.to_text().as_bytes());
            }
            Self::Left { member, urgent } => {
                out.push(20);
                out.extend_from_slice(&member.to_be_bytes());
                out.push((*urgent).into());
            }
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = Rest(bytes);
        let item = match rest.byte()? {
            17 => {
                let ticket = rest.number()?;
                let ClientMessage::Join(join) = ClientMessage::parse(rest.text()?).ok()? else { return None };
                Self::Join { ticket, join: Proven::unchecked(join) }
            }
            18 => Self::Note { member: rest.member()?, bytes: rest.all() },
            19 => Self::Said { member: rest.member()?, message: ClientMessage::parse(rest.text()?).ok()? },
            20 => Self::Left { member: rest.member()?, urgent: rest.flag()? },
            _ => return None,
        };
        rest.0.is_empty().then_some(item)
    }
}

fn numbers(out: &mut Vec<u8>, numbers: &[u32]) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
}

fn set(out: &mut Vec<u8>, members: &MemberSet) {
    let bits = bits_of(members);
    out.extend_from_slice(&(bits.len() as u16).to_be_bytes());
    out.extend_from_slice(&bits);
}

/// The bytes that are still to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn member(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn number(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn set(&mut self) -> Option<MemberSet> {
        let length = u16::from_be_bytes(self.array()?);
        set_of(self.take(length.into())?)
    }

    fn all(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(std::mem::take(&mut self.0)).ok()
    }
}

/// Bytes that decode as a message encode to the same bytes. An item that was decoded decodes from
/// its own bytes as the same item; the bytes of a text in it may differ.
pub fn fuzz_cascade_messages(data: &[u8]) {
    if let Some(message) = BusMessage::decode(data) {
        assert_eq!(message.encode(), data);
    }
    if let Some(item) = ToEdge::decode(data) {
        let written = item.encode();
        // a reason may be longer once its characters are escaped, and no longer fit
        assert!(ToEdge::decode(&written).is_none_or(|again| again == item));
    }
    if let Some(item) = ToLeader::decode(data) {
        assert_eq!(ToLeader::decode(&item.encode()), Some(item));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        live::{RoomLink, Settings, attack::proven},
        messages::Code,
    };
    use chacha20::{
        ChaCha20Rng,
        rand_core::{Rng, SeedableRng},
    };
    use tobari_curve::wire::RoomId;

    const FROM: Station = Station([7; 8]);

    fn some() -> MemberSet {
        let mut set = MemberSet::default();
        [0, 9, 4095].iter().for_each(|member| assert!(set.insert(*member)));
        set
    }

    fn messages() -> Vec<BusMessage> {
        let edge = EdgeState { edge: Station([1; 8]), link: 2, said: 3, heard: 4 };
        let tick = |sum| BusContent::Tick(Tick { tick: 5, edges: vec![edge, edge], sum });
        let parts = Parts { said: 1, heard: 2, late: some(), sums: vec![vec![1, 2, 3], Vec::new()] };
        let word = Word { link: 1, number: 2, last: true, piece: vec![9; 20] };
        let all = [
            BusContent::Seek,
            BusContent::Over,
            tick(None),
            tick(Some(vec![8; 30])),
            BusContent::Parts(parts),
            BusContent::Word(word),
        ];
        all.into_iter().map(|said| BusMessage { from: FROM, said }).collect()
    }

    #[test]
    fn every_message_reads_as_it_was_written_and_nothing_shorter_does_as_another() {
        for message in messages() {
            let bytes = message.encode();
            assert_eq!(BusMessage::decode(&bytes).as_ref(), Some(&message));
            fuzz_cascade_messages(&bytes);
            (0..bytes.len()).for_each(|end| fuzz_cascade_messages(&bytes[..end]));
            assert!(BusMessage::decode(&bytes[..9]).is_none());
        }
        let seek = messages()[0].encode();
        assert_eq!(seek, [&[2, 1][..], &[7; 8]].concat(), "as documented");
        for (at, wrong) in [(0, 1), (1, 0), (1, 6)] {
            let mut bytes = seek.clone();
            bytes[at] = wrong;
            assert!(BusMessage::decode(&bytes).is_none());
        }
    }

    #[test]
    fn every_item_reads_as_it_was_written() {
        let welcome = Welcome { room: RoomId([1; 8]), member: 7, tick: 9, window: 32, waiting: true };
        let refusal = ServerMessage::Refused { code: Code::Full, reason: "full".to_owned() };
        for item in [
            ToEdge::Seated { ticket: 1, welcome },
            ToEdge::Refused { ticket: 2, refusal },
            ToEdge::Listed { epoch: 3, members: some() },
            ToEdge::Send { members: some(), bytes: vec![1, 2] },
            ToEdge::Tell { member: 4, message: ServerMessage::Muted { muted: true } },
        ] {
            assert_eq!(ToEdge::decode(&item.encode()), Some(item.clone()));
            fuzz_cascade_messages(&item.encode());
        }
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let link = RoomLink::new("http://h", "r".parse().unwrap(), Settings::default(), &mut rng);
        let join = proven(&link, true);
        for item in [
            ToLeader::Join { ticket: 1, join },
            ToLeader::Note { member: 2, bytes: vec![1, 2] },
            ToLeader::Said { member: 3, message: ClientMessage::Hand { raised: true } },
            ToLeader::Left { member: 4, urgent: true },
        ] {
            assert_eq!(ToLeader::decode(&item.encode()), Some(item.clone()));
            fuzz_cascade_messages(&item.encode());
        }
    }

    #[test]
    fn noise_is_refused_without_a_panic() {
        let mut rng = ChaCha20Rng::from_seed([3; 32]);
        for length in (0..4000).map(|round| round % 400) {
            let mut data = vec![0; length];
            rng.fill_bytes(&mut data);
            if length > 20 {
                data[..2].copy_from_slice(&[2, (length % 6) as u8]);
                data[14] %= 4;
            }
            fuzz_cascade_messages(&data);
        }
    }
}
