//! Keys that the members of a room agree on. The server only delivers their messages.
//!
//! In a room whose link asks for it ([`super::link::Keys::Group`]) the secret of an epoch depends
//! on two secrets: that of the link, and one that the members' group exports (MLS, RFC 9420:
//! `tobari_call_group`). A removed member has the first, but not the second of later epochs. A new
//! member does not have the second of earlier epochs.
//!
//! **A session is a leaf.** With each hello a session *offers* a key package, sealed under a key of
//! the link. The identity of the package is the session and the name of the hello. **A roster is a
//! commit**: the media epoch `e` belongs to one state of the group. A member accepts a roster if
//! the leaves of that state are exactly the sessions of the roster, with their names. So a server
//! can neither list a session whose keys the others do not have, nor keep a session in the group
//! without listing it.
//!
//! ```text
//! member ── hello, offer ────────▶ server              asks to join, or for another session
//!           committer ◀── task ──  server              members to remove, members to add (1)
//!           committer ── pieces ─▶ server              a commit, a welcome, and unusable offers
//! others, committer ◀──── step ──  server              the commit, and the change of the roster
//!       new members ◀──── step ──  server              the welcome, and the whole roster
//!
//! (1) at most once a second; within 250 ms after a member has left, at once after a removal
//! ```
//!
//! The committer is the host, if there is one in the group, else the member that has been there
//! longest. The server removes a committer that does not answer in time, and asks the next one. It
//! asks one at a time, so there are no two commits to choose between. If a server asks two, the
//! members of the two states do not hear one another, and have different words to compare. If there
//! is no member to ask, a new member *founds* a group with a step without a commit.
//!
//! `E_e = Expand(Extract(room, export("tobari call/2", digest of the roster)), "epoch" ‖ …)`: the
//! rest of the tree is that of `keys`.

pub(super) mod messages;
#[cfg(feature = "mls")]
mod mls;
#[cfg(any(feature = "mls", test))]
mod offer;

pub use messages::{MAX_GROUP_BYTES, STEP, TASK, is_for_the_group};

use rand_core::CryptoRng;
use tobari_curve::wire::RoomId;
use zeroize::Zeroizing;

use super::{
    keys::{RoomKeys, SessionId},
    roster::{Roster, RosterError},
};

/// A secret that a group has exported for an epoch.
pub(super) type GroupSecret = Zeroizing<[u8; 32]>;

/// The answer of a committer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// The members whose offers are invalid.
    pub(super) refused: Vec<u16>,
    pub(super) commit: Vec<u8>,
    /// Empty without new members.
    pub(super) welcome: Vec<u8>,
}

/// A member's view of its group.
pub(super) trait Agreement: Send {
    /// Begins a session, and returns the offer to send.
    fn begin(&mut self, keys: &RoomKeys, session: SessionId, name: &str, rng: &mut dyn CryptoRng) -> Option<Vec<u8>>;

    /// Makes the commit for a task, from the current roster; none if a member must not make it.
    fn commit(&mut self, keys: &RoomKeys, roster: &Roster, own: u16, task: &messages::Task) -> Option<Answer>;

    /// Goes on to the state of a roster, and exports its secret.
    fn follow(&mut self, words: &[u8], roster: &Roster, own: u16) -> Result<GroupSecret, RosterError>;

    /// The secret that this member's current state exports for a roster, even if the roster is of
    /// another state.
    fn export(&self, roster: &Roster) -> Option<GroupSecret>;

    /// Words that all members of this state share, and that nobody else has.
    fn words(&self) -> Option<String>;

    /// Words that stand for the key of a session.
    fn words_of(&self, session: SessionId) -> Option<String>;
}

/// Can this build agree on keys?
pub const HAS_GROUPS: bool = cfg!(feature = "mls");

/// A group without any state yet; none if this build has no groups.
pub(super) fn agreement(room: RoomId) -> Option<Box<dyn Agreement>> {
    #[cfg(feature = "mls")]
    return Some(Box::new(mls::MlsGroup::new(room)));
    #[cfg(not(feature = "mls"))]
    {
        let _ = room;
        None
    }
}
