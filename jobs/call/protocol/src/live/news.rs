//! What a member has to tell: to its person, or to the program that started it.

use serde_json::{Value, json};

use super::{epoch::SumError, roster::RosterError};
use crate::messages::Code;

/// What a person may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum News {
    /// The host has let this member in.
    Admitted,
    /// The roster has changed: it can be read by [`super::LiveMember::roster`].
    Roster {
        /// The epoch.
        epoch: u32,
    },
    /// This member may speak from now on, or only listen.
    Granted {
        /// Which.
        speak: bool,
    },
    /// The host has muted this member, or no longer.
    Muted {
        /// Which.
        muted: bool,
    },
    /// To hosts: somebody waits in the lobby.
    Waiting {
        /// The number.
        member: u16,
        /// How it wants to be called.
        name: String,
    },
    /// To hosts: somebody wants to speak, or no longer.
    Hand {
        /// Who.
        member: u16,
        /// Which.
        raised: bool,
    },
    /// To hosts: somebody is gone.
    Left {
        /// Who.
        member: u16,
    },
    /// Somebody began to talk, or ended.
    Talking {
        /// Who.
        member: u16,
        /// Which.
        talking: bool,
    },
    /// A speaker on the roster is missing from the sums, this member too: where sending is
    /// constant, nobody hears who is in none. Or it is no longer, be it that it is there again, has
    /// begun anew, or only listens now. Of who is gone from the roster nothing is said.
    Missing {
        /// Who.
        member: u16,
        /// Which.
        missing: bool,
    },
    /// A packet of this member came too late, or was kept back ([`super::LiveMember::keep_back`]).
    Late {
        /// Its tick, as far as is known.
        tick: u32,
    },
    /// The round trip to the server is longer than its window allows: nobody hears this member. It
    /// goes on with one packet a second, until one is in time.
    Far {
        /// The round trip that was measured, in milliseconds.
        round_trip_ms: u32,
        /// The longest that the server's window allows.
        most_ms: u32,
    },
    /// The round trip is no longer too long.
    Near,
    /// The room will end.
    Closing {
        /// In how many seconds, at the latest.
        seconds: u32,
    },
    /// The room is over, or this member is out of it; nothing follows.
    Over {
        /// Why, if it was not by itself.
        code: Option<Code>,
        /// The same in words.
        reason: String,
    },
    /// Something is not as it should be.
    Alarm(Alarm),
}

/// What a server, or somebody with it, has done wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Alarm {
    /// A sum that was not taken.
    #[error("a sum was refused: {0}")]
    Sum(SumError),
    /// A roster that was not taken.
    #[error("a list of members was refused: {0}")]
    Roster(RosterError),
    /// Entries of the server's list that do not hold (`super::roster`): nobody counts them, and
    /// whoever has them is not heard.
    #[error(
        "the server lists {}, whom nobody with this link has introduced so, or whose session is there twice: all members leave that out",
        some(members)
    )]
    LeftOut {
        /// Their numbers.
        members: Vec<u16>,
    },
    /// This member has sent a packet, and the server says that it is not in the sum, without having
    /// been late.
    #[error("the server left your packet of tick {tick} out")]
    Omitted {
        /// The tick.
        tick: u32,
    },
    /// A member was told other lists than this one.
    #[error("member {member} was told another list of speakers than you, in the five seconds number {window}")]
    Histories {
        /// Who.
        member: u16,
        /// In which five seconds, counted from the beginning of the room.
        window: u32,
    },
    /// What these members heard could not be compared with what this one heard for some time: sums
    /// are lost on the way, or the server keeps words back so that nobody finds out what others
    /// were told.
    #[error("nothing that {} heard could be compared with what you heard for some time", some(members))]
    Unconfirmed {
        /// Who.
        members: Vec<u16>,
    },
    /// Something that is not of this protocol, or not at this point.
    #[error("the server sent something that is not of this protocol")]
    Unexpected,
}

impl Alarm {
    /// The kind of alarm, by which those that repeat are told as one: a word that never changes.
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

    /// As [`News::to_json`] has it.
    pub fn to_json(&self) -> Value {
        json!({ "news": "alarm", "kind": self.kind(), "alarm": self.to_string() })
    }
}

/// Some numbers, for people.
fn some(members: &[u16]) -> String {
    const NAMED: usize = 5;
    let named: Vec<String> = members.iter().take(NAMED).map(u16::to_string).collect();
    let more = members.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("member {}{more}", named.join(", "))
}
