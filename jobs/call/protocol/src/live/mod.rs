//! A live room: members with the link talk, the server adds their encrypted packets, and each sum
//! shows that it holds the voices on its list and nothing else.
//!
//! **What is computed.** As in [`crate`]: for each tick of 20 ms the sum of the speakers' packets,
//! with the list `S_t` of these speakers, one identical sum to all. A packet has [`PACKET_WORDS`]
//! words: 320 samples, and one word in which each speaker has its own bit for *I am talking*. So
//! members see who speaks, and the server does not.
//!
//! **Messages.** Packets and sums are in [`crate::wire`]. The others are:
//!
//! | kind | object | module |
//! |---|---|---|
//! | 0c | roster of protocol 2 | `roster` |
//! | 0d | note | `notes` |
//! | 0e | recording | `recording` |
//! | 20 | offer | `group` |
//! | 21 | task | `group` |
//! | 22 | piece | `group` |
//! | 23 | step | `group` |
//! | 24 | hello | `hello` |
//! | 25 | roster | `roster` |
//!
//! **Modes.** `mask` ([`crate::mask`]) with 1,084 bytes a packet in a room for 1,024 speakers,
//! `elgamal-shared` ([`tobari_curve::elgamal`]) with 10,394, and `elgamal` with 20,665. In all
//! modes a one-time authenticator binds the sum to list, room, epoch, sessions and tick. If the
//! server alters, adds, drops, doubles, replays or moves a packet without saying so, every member
//! rejects the sum.
//!
//! **Who sees what.** Members see the sum, its list, names, and who talks. The server sees room
//! names, addresses, member numbers and the size of the room. It also sees when and how much each
//! member sends; that says nothing about speech unless the link asks for talk spurts. The server
//! sees no samples, no sum, no names, and not who talks.
//!
//! **What stays possible.** The server can leave a member out *and say so*: that member notices.
//! The server can show one member the packet of one speaker as a sum of one. Such a sum verifies,
//! but its list says so, and the histories that members exchange ([`history`]) differ. A member
//! with a copy of another member's packet can decrypt it. A member and the server together can
//! forge in another member's name. Anyone with the link is a member: lobby, mute and eject are
//! rules of the server. If the members agree on keys ([`group`]), a removed member cannot decrypt
//! later sums. `book/src/explanation/threats/call.md` has the full list.
//!
//! | file | content |
//! |---|---|
//! | [`link`] | the link: place, settings, secret |
//! | `keys` | the tree of keys |
//! | [`group`] | keys that the members agree on |
//! | `entry` | the proof of a member that joins |
//! | `hello`, `notes`, `roster`, [`messages`] | messages, encrypted and unencrypted |
//! | `modes` | the modes, behind one interface |
//! | `epoch`, `hearing`, `member`, `behind`, `cadence`, `history` | a member: the half with keys |
//! | `news`, `alarms` | events that a member reports |
//! | [`server`] | the room: the half without keys |
//! | [`cascade`] | a room that several servers share |
//! | [`audio`] | microphone and playback: gain, gate, jitter, loss, limit |
//! | [`recording`] | sums, stored for later |
//! | [`attack`] | attacks on all of it, and their results |

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

/// Words of a packet: its samples, and the word with the talk bits.
pub const PACKET_WORDS: usize = PACKET_SAMPLES + 1;
/// Members with a bit in that word. Groups of this size take turns by tick.
const FLAGS: u16 = 16;

/// The first of the sixteen members whose bits are in the last word of a tick. `last` is the
/// highest number on the roster.
fn flagged(tick: u32, last: u16) -> u16 {
    let groups = u32::from(last / FLAGS) + 1;
    (tick % groups) as u16 * FLAGS
}
