//! Why a server rejects or removes a member.

use std::time::Duration;

use tobari_curve::{Curve, PointError, elgamal::Mode, params::RefusedCurve, wire::WireError};

use crate::messages::{Code, MessageError, Pace};

/// Why a join is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A curve below the server's floor, or without arithmetic in its build.
    #[error(transparent)]
    RefusedCurve(#[from] RefusedCurve),
    /// Another curve than the room's.
    #[error("curve {found}: expected {expected}, as the room has")]
    Curve {
        /// The curve asked for.
        found: Curve,
        /// The room's.
        expected: Curve,
    },
    /// Another mode than the room's.
    #[error("mode {found}: expected {expected}, as the room has")]
    Mode {
        /// The mode asked for.
        found: Mode,
        /// The room's.
        expected: Mode,
    },
    /// Another pace than the room's.
    #[error("pace {found:?}: expected {expected:?}, as the room has")]
    Pace {
        /// The pace asked for.
        found: Pace,
        /// The room's.
        expected: Pace,
    },
    /// A lockstep room for no speaker, or for too many.
    #[error("room for {found} speakers: expected 1 to {most}")]
    Members {
        /// The number asked for.
        found: u16,
        /// The most possible.
        most: usize,
    },
    /// A member that would neither speak nor listen.
    #[error("a member must speak, listen, or both")]
    Idler,
    /// Every number of the room has been given out.
    #[error("the room has had {members} members, and takes no more")]
    Full {
        /// How many.
        members: usize,
    },
    /// The room has ended.
    #[error("the room is over")]
    Over,
    /// A live room has other settings.
    #[error("the room is set otherwise than this link says")]
    Settings,
    /// Not the secret of the member that opened the live room.
    #[error("the room was opened with another secret than this link's")]
    Secret,
    /// A proof that does not answer this connection's challenge.
    #[error(
        "the proof does not answer this connection's challenge: it is of another connection, room or link. Join again by the link"
    )]
    Proof,
    /// A proof for a server of another name.
    #[error(
        "the proof is for the server {found:?}: expected {expected:?}. If a proxy stands in front, have it pass the Host header on, or name the server by --host-name"
    )]
    Host {
        /// The host that the client dialled.
        found: String,
        /// This server's names.
        expected: String,
    },
    /// A token that is not the host's.
    #[error("not the token of this room's host")]
    NotTheHost,
    /// The live room already has its largest number of speakers.
    #[error("the room has {speakers} speakers, and takes no more; listeners may come")]
    Speakers {
        /// How many.
        speakers: u16,
    },
    /// The server is closing.
    #[error("the server is closing")]
    Closing,
    /// Another server, which leads the room, rejected the join.
    #[error("{reason}")]
    Elsewhere {
        /// Why, for programs.
        code: Code,
        /// Why, for people.
        reason: String,
    },
}

impl Refusal {
    /// The code to answer with.
    pub fn code(&self) -> Code {
        match self {
            Self::RefusedCurve(_) | Self::Curve { .. } => Code::Curve,
            Self::Mode { .. } => Code::Mode,
            Self::Pace { .. } | Self::Members { .. } => Code::Pace,
            Self::Idler => Code::Idler,
            Self::Full { .. } | Self::Speakers { .. } => Code::Full,
            Self::Over => Code::Ended,
            Self::Settings => Code::Settings,
            Self::Secret | Self::Proof => Code::Secret,
            Self::Host { .. } => Code::Server,
            Self::NotTheHost => Code::Host,
            Self::Closing => Code::Shutdown,
            Self::Elsewhere { code, .. } => *code,
        }
    }
}

/// Why a member is removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Bytes that are not a packet on the room's curve.
    #[error("packet: {0}")]
    Wire(#[from] WireError),
    /// Text that is not a control message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A packet for another room.
    #[error("packet: for another room")]
    Room,
    /// A packet in another member's name.
    #[error("packet of member {found}: expected {expected}, the sender's own number")]
    Sender {
        /// The number in the packet.
        found: u16,
        /// The sender's.
        expected: u16,
    },
    /// A packet in another mode than the room's.
    #[error("packet in mode {found}: expected {expected}")]
    Mode {
        /// The packet's mode.
        found: Mode,
        /// The room's.
        expected: Mode,
    },
    /// A packet of the wrong length.
    #[error("packet of {found} samples: expected {expected}")]
    Samples {
        /// How many there were.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// A packet or an end from a member that does not speak.
    #[error("a packet or `end` from a member that joined without speaking")]
    NotASpeaker,
    /// An acknowledgement from a member that does not listen.
    #[error("an acknowledgement from a member that joined without listening")]
    NotAListener,
    /// A tick sent twice, or an earlier one.
    #[error("packet for tick {tick}: expected {next} or later")]
    Backwards {
        /// The packet's tick.
        tick: u32,
        /// The first tick that was free.
        next: u32,
    },
    /// A tick left out, in a lockstep room.
    #[error("packet for tick {tick}: expected {next}, since a lockstep room skips none")]
    Gap {
        /// The packet's tick.
        tick: u32,
        /// The tick expected.
        next: u32,
    },
    /// A tick too far ahead.
    #[error("packet for tick {tick}: tick {open} is open and at most {window} ticks are taken at once")]
    Flood {
        /// The packet's tick.
        tick: u32,
        /// The open tick.
        open: u32,
        /// The window.
        window: u32,
    },
    /// Something sent after `end`.
    #[error("a packet or a second `end` after `end`")]
    AfterEnd,
    /// The first message is not a join.
    #[error("expected a `join` first")]
    NotJoined,
    /// A second join.
    #[error("a second `join`")]
    SecondJoin,
    /// An acknowledgement of a tick that is not closed yet, or was acknowledged before.
    #[error("acknowledgement of tick {tick}: expected {next} or later, and earlier than the open tick {open}")]
    Acknowledgement {
        /// The tick acknowledged.
        tick: u32,
        /// The first tick that was not acknowledged yet.
        next: u32,
        /// The open tick.
        open: u32,
    },
    /// An invalid offer to the members' group, a second offer of a session, or an offer that a
    /// member found to be false.
    #[error("the offer to the members' group is no key package of this session")]
    Offer,
    /// Part of a commit that this member was not asked for, or not in this order.
    #[error("part of a commit that was not asked for, or not at this point")]
    NotAsked,
    /// The room waited for this member too long.
    #[error("nothing came within {waited:?} that the room waits for")]
    Idle {
        /// How long the room waited.
        waited: Duration,
    },
    /// The room's speakers did not all join in time.
    #[error("the room's speakers did not all join within {waited:?}")]
    Gather {
        /// How long the room waited.
        waited: Duration,
    },
    /// The member's connection is silent.
    #[error("nothing at all came from this connection within {waited:?}")]
    Silent {
        /// How long the server waited.
        waited: Duration,
    },
    /// The member does not read fast enough.
    #[error("the member does not take what is sent to it")]
    Slow,
    /// Something that only the host may do.
    #[error("only the host may do that")]
    NotTheHost,
    /// An invalid note, a note for another room, or a note before its session has presented itself.
    #[error("not a note of this member's session in this room")]
    Note,
    /// A hello that no holder of this room's link has signed for this member, or a hello that asks
    /// for more than the member may.
    #[error("no holder of this room's link has signed this hello for this member")]
    Hello,
    /// A hello of a session that was already presented in this room.
    #[error("a hello of a session that was presented in this room before: each needs a new one")]
    Session,
    /// A commit that the other members cannot follow.
    #[error("the others cannot follow the commit that this member has made for them")]
    Commit,
    /// More messages or notes than the limit allows.
    #[error("too many messages or notes: expected at most {burst} at once and {a_second} a second")]
    Chatter {
        /// At once.
        burst: u32,
        /// In the long run.
        a_second: u32,
    },
    /// The host removed the member.
    #[error("the host has ended this member's part in the call")]
    Ejected,
    /// The server is closing.
    #[error("the server is closing")]
    Shutdown,
    /// A fault of the server itself.
    #[error("internal error")]
    Internal,
}

impl Fault {
    /// The code to answer with.
    pub fn code(&self) -> Code {
        match self {
            Self::Wire(WireError::Version(_)) => Code::Version,
            Self::Wire(WireError::Curve { .. } | WireError::UnknownCurve(_)) => Code::Curve,
            Self::Wire(WireError::Points(PointError::NotOnCurve { .. })) => Code::Point,
            Self::Mode { .. } => Code::Mode,
            Self::Wire(_) | Self::Samples { .. } => Code::Packet,
            Self::Message(error) => error.code(),
            Self::NotJoined | Self::SecondJoin | Self::NotAListener => Code::Malformed,
            Self::Room => Code::Room,
            Self::Sender { .. } | Self::NotASpeaker => Code::Member,
            Self::Backwards { .. } => Code::Backwards,
            Self::Gap { .. } => Code::Gap,
            Self::Flood { .. } => Code::Flood,
            Self::AfterEnd => Code::Ended,
            Self::Acknowledgement { .. } => Code::Acknowledgement,
            Self::Idle { .. } | Self::Gather { .. } | Self::Silent { .. } => Code::Timeout,
            Self::Slow => Code::Slow,
            Self::NotTheHost => Code::Host,
            Self::Note | Self::Offer | Self::NotAsked | Self::Commit | Self::Chatter { .. } => Code::Note,
            Self::Hello | Self::Session => Code::Hello,
            Self::Ejected => Code::Ejected,
            Self::Shutdown => Code::Shutdown,
            Self::Internal => Code::Internal,
        }
    }
}
