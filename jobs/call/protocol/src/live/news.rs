//! News of a member, for its person or for the program that started it.

use serde_json::{Value, json};

use super::{epoch::SumError, roster::RosterError};
use crate::messages::Code;

/// An event that a person may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum News {
    /// The host has admitted this member.
    Admitted,
    /// The roster has changed: [`super::LiveMember::roster`] returns it.
    Roster {
        /// The epoch.
        epoch: u32,
    },
    /// This member may speak from now on, or only listen.
    Granted {
        /// May it speak?
        speak: bool,
    },
    /// The host has muted this member, or no longer.
    Muted {
        /// Is it muted?
        muted: bool,
    },
    /// To hosts: a member waits in the lobby.
    Waiting {
        /// The member.
        member: u16,
        /// Its name.
        name: String,
    },
    /// To hosts: a member wants to speak, or no longer.
    Hand {
        /// The member.
        member: u16,
        /// Is the hand up?
        raised: bool,
    },
    /// To hosts: a member has left.
    Left {
        /// The member.
        member: u16,
    },
    /// A member began to talk, or ended.
    Talking {
        /// The member.
        member: u16,
        /// Does it talk?
        talking: bool,
    },
    /// A speaker on the roster, perhaps this member, is missing from the sums: with constant
    /// sending nobody hears a speaker that is in no sum. Or the speaker is no longer missing: it is
    /// back, has begun anew, or only listens now. Members that have left the roster are not
    /// reported.
    Missing {
        /// The member.
        member: u16,
        /// Is it missing?
        missing: bool,
    },
    /// A packet of this member was late, or was kept back ([`super::LiveMember::keep_back`]).
    Late {
        /// Its tick, as far as is known.
        tick: u32,
    },
    /// The round trip to the server is longer than the server's window allows, so nobody hears this
    /// member. It goes on with one packet a second, until one is in time.
    Far {
        /// The measured round trip, in milliseconds.
        round_trip_ms: u32,
        /// The longest round trip that the server's window allows, in milliseconds.
        most_ms: u32,
    },
    /// The round trip is no longer too long.
    Near,
    /// The room will end.
    Closing {
        /// Seconds until the end, at the latest.
        seconds: u32,
    },
    /// The room is over, or this member is no longer in it; nothing follows.
    Over {
        /// The reason; none if the room has ended.
        code: Option<Code>,
        /// The reason in words.
        reason: String,
    },
    /// Something is wrong.
    Alarm(Alarm),
}

/// Misbehaviour of the server, or of a member together with the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Alarm {
    /// A sum that was rejected.
    #[error("a sum was refused: {0}")]
    Sum(SumError),
    /// A roster that was rejected.
    #[error("a list of members was refused: {0}")]
    Roster(RosterError),
    /// Invalid entries of the server's list (`super::roster`). All members ignore them, and nobody
    /// hears their senders.
    #[error(
        "the server lists {}, whom nobody with this link has introduced so, or whose session is there twice: all members leave that out",
        some(members)
    )]
    LeftOut {
        /// Their numbers.
        members: Vec<u16>,
    },
    /// This member has sent a packet. The server says that the packet is not in the sum, and has
    /// not said that it was late.
    #[error("the server left your packet of tick {tick} out")]
    Omitted {
        /// The tick.
        tick: u32,
    },
    /// A member was given other lists than this one.
    #[error("member {member} was told another list of speakers than you, in the five seconds number {window}")]
    Histories {
        /// The member.
        member: u16,
        /// The number of the five seconds, counted from the beginning of the room.
        window: u32,
    },
    /// For some time, nothing that these members heard could be compared with what this one heard.
    /// Sums are lost on the way, or the server keeps notes back to hide what others were given.
    #[error("nothing that {} heard could be compared with what you heard for some time", some(members))]
    Unconfirmed {
        /// The members.
        members: Vec<u16>,
    },
    /// A message that is not of this protocol, or not allowed at this point.
    #[error("the server sent something that is not of this protocol")]
    Unexpected,
}

impl Alarm {
    /// The kind of alarm, in a word that never changes. Repeated alarms of one kind are merged.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Sum(SumError::Malformed) => "sum-malformed",
            Self::Sum(SumError::Rewound { .. }) => "sum-rewound",
            Self::Sum(SumError::Epoch { .. }) => "sum-epoch",
            Self::Sum(SumError::Forged { .. }) => "sum-forged",
            Self::Roster(error) => match error {
                RosterError::Malformed => "roster-malformed",
                RosterError::Rewound { .. } => "roster-rewound",
                RosterError::Base { .. } => "roster-base",
                RosterError::Stranger(_) => "roster-stranger",
                RosterError::Twice(_) => "roster-twice",
                RosterError::NotListed => "roster-not-listed",
                RosterError::Keys => "roster-keys",
                RosterError::Members => "roster-members",
                RosterError::NumberTaken(_) => "roster-number-taken",
            },
            Self::LeftOut { .. } => "left-out",
            Self::Omitted { .. } => "omitted",
            Self::Histories { .. } => "histories",
            Self::Unconfirmed { .. } => "unconfirmed",
            Self::Unexpected => "unexpected",
        }
    }

    /// The alarm as in [`News::to_json`].
    pub fn to_json(&self) -> Value {
        json!({ "news": "alarm", "kind": self.kind(), "alarm": self.to_string() })
    }
}

/// Up to five member numbers, for people.
fn some(members: &[u16]) -> String {
    const NAMED: usize = 5;
    let named: Vec<String> = members.iter().take(NAMED).map(u16::to_string).collect();
    let more = members.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("member {}{more}", named.join(", "))
}
