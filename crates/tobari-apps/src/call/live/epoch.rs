//! One epoch as a member knows it: its roster, and the keys to send and to open with.

use std::sync::Arc;

use rand_core::CryptoRng;
use tobari_core::{
    elgamal::{SAMPLE_BOUND, SharedCiphertexts, SharedDecryptor, SharedEncryptor},
    mask::{MaskReceiver, MaskSender, OpenError, Tag, TagReceiver, TagSender},
    wire::{LiveLayout, LivePayload, LiveSum, RoomId},
};
use zeroize::Zeroizing;

use super::{
    PACKET_WORDS,
    keys::{RoomKeys, SessionId},
    link::Settings,
    roster::Roster,
};

/// Keys of one epoch.
pub(super) struct Epoch {
    pub(super) roster: Roster,
    opener: Opener,
    sender: Option<Sender>,
}

enum Opener {
    Mask(MaskReceiver),
    Points(TagReceiver, Box<SharedDecryptor>),
}

enum Sender {
    Mask(MaskSender),
    Points(TagSender, Arc<SharedEncryptor>),
}

/// Why a sum is not heard.
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
        /// The first that might have come.
        next: u32,
    },
    /// A sum of another epoch than its tick belongs to.
    #[error("tick {tick} under the keys of epoch {found}: expected {expected}")]
    Epoch {
        /// The tick.
        tick: u32,
        /// The epoch that the sum names.
        found: u32,
        /// The epoch of the tick.
        expected: u32,
    },
    /// Somebody in the list who is not on the roster as a speaker, or a tag that does not fit: the sum is not what those in its list have sent.
    #[error("tick {tick}: {error}")]
    Forged {
        /// The tick.
        tick: u32,
        /// What was found.
        error: OpenError,
    },
}

impl Epoch {
    /// Derives the keys of all speakers on the roster, and those to send with if `own` is one of them.
    pub(super) fn new(
        roster: Roster,
        keys: &RoomKeys,
        room: RoomId,
        settings: &Settings,
        layout: LiveLayout,
        own: (u16, SessionId),
    ) -> Self {
        let epoch = keys.epoch(roster.epoch, &roster.digest(room));
        let (coefficients, from) = (|| epoch.coefficients(), roster.from);
        let sends = roster.members.get(&own.0).is_some_and(|listed| listed.speaks && listed.session == own.1);
        let own_key = || epoch.session(own.0, own.1);
        let speakers = roster.members.iter().filter(|(_, listed)| listed.speaks);
        let speakers = speakers.map(|(member, listed)| (*member, epoch.session(*member, listed.session)));
        let (opener, sender) = match layout {
            LiveLayout::Mask { width, .. } => {
                let mut receiver = MaskReceiver::new(coefficients(), width, PACKET_WORDS, from);
                speakers.for_each(|(member, key)| receiver.insert(member, key));
                let sender = sends.then(|| Sender::Mask(MaskSender::new(coefficients(), own_key(), width, from)));
                (Opener::Mask(receiver), sender)
            }
            LiveLayout::ElgamalShared { parameters, .. } => {
                let mut receiver = TagReceiver::new(coefficients(), from);
                speakers.for_each(|(member, key)| receiver.insert(member, key));
                let key = epoch.points(parameters).expand(PACKET_WORDS);
                let sender = sends.then(|| {
                    let tags = TagSender::new(coefficients(), own_key(), from);
                    Sender::Points(tags, Arc::new(SharedEncryptor::new(&key)))
                });
                let bound = u32::from(settings.speakers) * SAMPLE_BOUND as u32;
                (Opener::Points(receiver, Box::new(SharedDecryptor::new(&key, bound))), sender)
            }
        };
        Self { roster, opener, sender }
    }

    pub(super) fn number(&self) -> u32 {
        self.roster.epoch
    }

    pub(super) fn from(&self) -> u32 {
        self.roster.from
    }

    /// What is sent in `tick`; none if this member does not speak in this epoch, or has sent that tick or a later one.
    pub(super) fn encrypt(
        &mut self,
        tick: u32,
        words: &[i16; PACKET_WORDS],
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Option<(LivePayload, Tag)> {
        match self.sender.as_mut()? {
            Sender::Mask(sender) => {
                let (masked, tag) = sender.encrypt(tick, words).ok()?;
                Some((LivePayload::Mask(masked), tag))
            }
            Sender::Points(tags, encryptor) => {
                let wide = Zeroizing::new(words.map(i32::from));
                let tag = tags.tag(tick, wide.as_ref()).ok()?;
                Some((LivePayload::ElgamalShared(encryptor.encrypt(wide.as_ref(), rng).ok()?), tag))
            }
        }
    }

    /// The exact sum, after its tag was checked against the list.
    pub(super) fn open(&mut self, sum: &LiveSum) -> Result<Zeroizing<Vec<i32>>, OpenError> {
        let senders: Vec<u16> = sum.speakers.iter().collect();
        match (&mut self.opener, &sum.payload) {
            (Opener::Mask(receiver), LivePayload::Mask(masked)) => receiver.open(sum.tick, &senders, masked, &sum.tag),
            (Opener::Points(tags, _), LivePayload::ElgamalShared(points)) if senders.is_empty() => {
                // nobody has sent: there is nothing to decrypt, and nothing else may be there
                let nothing = SharedCiphertexts::zero(points.parameters(), points.len());
                let silence = Zeroizing::new(vec![0; points.len()]);
                if *points != nothing {
                    return Err(OpenError::Forged);
                }
                tags.verify(sum.tick, &senders, &silence, &sum.tag)?;
                Ok(silence)
            }
            (Opener::Points(tags, decryptor), LivePayload::ElgamalShared(points)) => {
                // beyond the bound there is no sum that honest members make
                let samples = decryptor.vartime_decrypt(points).map_err(|_| OpenError::Forged)?;
                tags.verify(sum.tick, &senders, &samples, &sum.tag)?;
                Ok(samples)
            }
            _ => Err(OpenError::Forged),
        }
    }
}
