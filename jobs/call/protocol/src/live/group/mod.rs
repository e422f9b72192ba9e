//! Keys that the members of a room agree on, with the server as the post office.
//!
//! In a room whose link says so ([`super::link::Keys::Group`]) the secret of an epoch depends on
//! two things: the link's secret, and a secret that the members' group exports (MLS, RFC 9420:
//! `tobari_call_group`). Who was put out has the first and not the second; so has who comes later,
//! of what was before.
//!
//! **A session is a leaf.** With each hello a session *offers* a key package, sealed under a key of
//! the link, whose identity is the session and the name of the hello. **A roster is a commit**: the
//! media epoch `e` belongs to one state of the group, and a roster is taken if the leaves of that
//! state are exactly its sessions with their names. So a server can list nobody whose keys the
//! others do not have, nor leave anybody in the group whom it does not list.
//!
//! ```text
//! member ── hello, offer ────────▶ server                                  wants to come in, or to begin another session
//!           committer ◀── task ──  server                                  who goes, who comes: at most once a second; within a quarter of one when somebody has left, at once when somebody is put out
//!           committer ── pieces ─▶ server                                  a commit, a welcome, and whose offers are no good
//! others, committer ◀──── step ──  server                                  the commit, and the change of the roster
//!         newcomers ◀──── step ──  server                                  the welcome, and the whole roster
//! ```
//!
//! The committer is the host, if there is one in the group, else who has been there longest;
//! whoever does not answer in time is put out, and the next is asked. As one is asked at a time
//! there are no two commits to choose between; if a server asks two, the members of two states do
//! not hear one another and have other words to compare. Who comes when there is nobody to ask
//! *founds* a group: a step without a commit.
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

/// What a committer answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// Whose offers are no good.
    pub(super) refused: Vec<u16>,
    pub(super) commit: Vec<u8>,
    /// Empty if nobody comes.
    pub(super) welcome: Vec<u8>,
}

/// A member's view of its group.
pub(super) trait Agreement: Send {
    /// Begins a session, with an offer to be sent.
    fn begin(&mut self, keys: &RoomKeys, session: SessionId, name: &str, rng: &mut dyn CryptoRng) -> Option<Vec<u8>>;

    /// Makes the commit that a task asks for, from the roster that there is; none if a member must
    /// not do that.
    fn commit(&mut self, keys: &RoomKeys, roster: &Roster, own: u16, task: &messages::Task) -> Option<Answer>;

    /// Goes on to the state of a roster, and exports its secret.
    fn follow(&mut self, words: &[u8], roster: &Roster, own: u16) -> Result<GroupSecret, RosterError>;

    /// The secret that the state which this member is in gives for a roster, whether that roster is
    /// of this state or not.
    fn export(&self, roster: &Roster) -> Option<GroupSecret>;

    /// Words that all members of this state have, and nobody else.
    fn words(&self) -> Option<String>;

    /// Words that stand for the key of a session.
    fn words_of(&self, session: SessionId) -> Option<String>;
}

/// Can this build agree on keys?
pub const HAS_GROUPS: bool = cfg!(feature = "mls");

/// A view of a group that is not there yet; none where this build has no groups.
pub(super) fn agreement(room: RoomId) -> Option<Box<dyn Agreement>> {
    #[cfg(feature = "mls")]
    return Some(Box::new(mls::MlsGroup::new(room)));
    #[cfg(not(feature = "mls"))]
    {
        let _ = room;
        None
    }
}
