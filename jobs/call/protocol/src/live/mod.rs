//! A live room: who has the link talks, the server adds, and the sum shows whose voices are in it
//! and that nothing else is.
//!
//! **What is computed.** As in [`crate`]: for each tick of 20 ms the sum of the speakers' packets,
//! with the list `S_t` of those in it, one identical sum to all. A packet has [`PACKET_WORDS`]
//! words: 320 samples, and one in which each speaker has a bit of its own for *I am talking*, so
//! that members see who speaks and the server does not.
//!
//! **Modes.** `mask` ([`crate::mask`]), 1,084 bytes a packet in a room for 1,024 speakers,
//! `elgamal-shared` ([`tobari_curve::elgamal`]), 10,394, and `elgamal`, 20,665. In all a one-time
//! authenticator binds the sum to list, room, epoch, sessions and tick: what a server alters, adds,
//! drops, doubles, replays or moves without saying so is refused by every member.
//!
//! **Who sees what.** Members: the sum, its list, who talks, names. The server: room names,
//! addresses, numbers, when who sends and how much (which says nothing about speech unless the link
//! asks for talk spurts), and the size of the room. Not: samples, the sum, names, who talks.
//!
//! **What stays possible.** The server can leave somebody out *and say so*: the member itself
//! notices. It can show one member the packet of one speaker as a sum of one: it verifies, the list
//! says so, and the histories that members tell one another ([`history`]) differ. A member who gets
//! hold of another's packet opens it; a member and the server together forge in another's name.
//! Whoever has the link is a member: lobby, mute and eject are rules of the server, unless the
//! members agree on keys ([`group`]): then who is out cannot hear.
//! `book/src/explanation/threats/call.md` has all of it.
//!
//! | file | what is in it |
//! |---|---|
//! | [`link`] | the link: place, settings, secret |
//! | `keys` | the tree of keys |
//! | [`group`] | keys that the members agree on |
//! | `entry` | the way in: what a member proves |
//! | `hello`, `notes`, `roster`, [`messages`] | what is said, sealed and in the open |
//! | `modes` | what differs between the modes, behind one interface |
//! | `epoch`, `hearing`, `member`, `behind`, `cadence`, `history` | a member: the half with keys |
//! | `news`, `alarms` | what it has to tell |
//! | [`server`] | the room: the half without |
//! | [`cascade`] | a room that several servers hold together |
//! | [`audio`] | microphone and ear: gain, gate, jitter, loss, limit |
//! | [`recording`] | sums, kept for later |
//! | [`attack`] | what can be tried against all of it, and what comes of it |

mod alarms;
pub mod attack;
pub mod audio;
mod behind;
mod cadence;
pub mod cascade;
mod entry;
mod epoch;
mod fuzz;
pub mod group;
mod hearing;
mod hello;
pub mod history;
mod keys;
pub mod link;
mod member;
pub mod messages;
mod modes;
mod news;
mod notes;
mod presence;
pub mod recording;
mod roster;
pub mod server;
mod told;

pub use alarms::{Alarms, Merged};
pub use entry::{Challenge, Proven, host_of};
pub use epoch::SumError;
#[doc(hidden)]
pub use fuzz::fuzz_live_messages;
pub use hello::{HELLO_BYTES, is_hello};
pub use keys::SessionId;
pub use link::{HostToken, Keys, LinkError, LiveMode, RoomLink, RoomSecret, Sending, Settings};
pub use member::{LiveMember, OpenedTick, Outgoing};
pub use news::{Alarm, News};
pub use notes::{MAX_NAME, NOTE_BYTES, is_name};
pub use roster::{Listed, MAX_ROSTER_BYTES, RosterError};
#[doc(hidden)]
pub use server::fuzz_live_room;
pub use server::{LiveEvent, LiveLimits, LiveRoom, LiveUplink, Mixer, OneByOne};

use crate::PACKET_SAMPLES;

/// Words of a packet: its samples, and the one with bits for who is talking.
pub const PACKET_WORDS: usize = PACKET_SAMPLES + 1;
/// Members whose bits are in that word; they take turns by tick.
const FLAGS: u16 = 16;

/// Whose bits are in the last word of a tick, as the first number of sixteen, where `last` is the
/// highest number on the roster.
fn flagged(tick: u32, last: u16) -> u16 {
    let groups = u32::from(last / FLAGS) + 1;
    (tick % groups) as u16 * FLAGS
}
