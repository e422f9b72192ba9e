//! One epoch as a member knows it: its roster, and the keys to encrypt and decrypt with.

use crate::{
    mask::{OpenError, Tag},
    wire::{LiveLayout, LivePayload, LiveSum},
};
use rand_core::CryptoRng;
use tobari_curve::wire::RoomId;
use zeroize::Zeroizing;

use super::{
    PACKET_WORDS,
    group::GroupSecret,
    keys::RoomKeys,
    link::Settings,
    modes::{Opener, Sender, Speaker},
    roster::Roster,
};

/// Keys of one epoch.
pub(super) struct Epoch {
    pub(super) roster: Roster,
    opener: Opener,
    sender: Option<Sender>,
}

/// Why a sum is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SumError {
    /// Bytes that are not a sum of this room.
    #[error("not a sum of this room")]
    Malformed,
    /// A tick that was heard before, or an earlier one.
    #[error("the server went back to tick {tick}: expected {next} or later")]
    Rewound {
        /// The tick.
        tick: u32,
        /// The first tick that was allowed.
        next: u32,
    },
    /// A sum of another epoch than the epoch of its tick.
    #[error("tick {tick} under the keys of epoch {found}: expected {expected}")]
    Epoch {
        /// The tick.
        tick: u32,
        /// The epoch that the sum names.
        found: u32,
        /// The epoch of the tick.
        expected: u32,
    },
    /// The list names a member that is no speaker on the roster, or the tag does not fit: the sum
    /// is not what the listed members have sent.
    #[error("tick {tick}: {error}")]
    Forged {
        /// The tick.
        tick: u32,
        /// The error.
        error: OpenError,
    },
}

impl Epoch {
    /// Derives the keys of all speakers on the roster, from the secret of the members' group too if
    /// there is one. If `own` is one of these speakers, derives the keys to send with as well.
    pub(super) fn new(
        roster: Roster,
        keys: &RoomKeys,
        group: Option<&GroupSecret>,
        room: RoomId,
        settings: &Settings,
        layout: LiveLayout,
        own: Speaker,
    ) -> Self {
        let epoch = keys.epoch(roster.epoch, &roster.digest(room), group.map(|secret| &**secret));
        let speakers = roster.members.iter().filter(|(_, listed)| listed.speaks);
        let speakers = speakers.map(|(member, listed)| (*member, listed.session));
        let opener = Opener::new(layout, &epoch, roster.from, speakers, settings.speakers);
        let sends = roster.members.get(&own.0).is_some_and(|listed| listed.speaks && listed.session == own.1);
        let sender = sends.then(|| Sender::new(layout, &epoch, roster.from, own));
        Self { roster, opener, sender }
    }

    pub(super) fn number(&self) -> u32 {
        self.roster.epoch
    }

    pub(super) fn from(&self) -> u32 {
        self.roster.from
    }

    /// The payload and tag for `tick`; none if this member does not speak in this epoch, or has
    /// sent that tick or a later one.
    pub(super) fn encrypt(
        &mut self,
        tick: u32,
        words: &[i16; PACKET_WORDS],
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Option<(LivePayload, Tag)> {
        self.sender.as_mut()?.encrypt(tick, words, rng)
    }

    /// The exact sum, after its tag was checked against the list.
    pub(super) fn open(&mut self, sum: &LiveSum) -> Result<Zeroizing<Vec<i32>>, OpenError> {
        self.opener.open(sum)
    }
}
