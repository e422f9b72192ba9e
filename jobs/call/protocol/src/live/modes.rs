//! The modes of a live room behind one interface: encrypting the words of a packet under the keys
//! of an epoch, and decrypting a sum.
//!
//! | mode | payload | keys that a member derives |
//! |---|---|---|
//! | `mask` | `c_i = m_i + F(k_u, t, i) mod 2^w` | every sender's `k_u` |
//! | `elgamal-shared` | `C_i = (m_i + r s_i)G` and `R = rG` | the `s_i` of the places |
//! | `elgamal` | `S_i = m_i G + r_i sG` and `R_i = r_i G` | `s` |
//!
//! **The tag binds the same in all modes.** Members hold the key of the tags, so each packet has a
//! tag ([`crate::mask`]). A sum is accepted only if the sum of its tags is that of its list. The
//! modes of points decrypt without the list. Decryption alone would bind nothing: if a server adds,
//! doubles, negates or leaves out packets, the sum decrypts as well. So a sum is decrypted first
//! and compared with its tag afterwards. Before that, neither the samples nor the fact that they
//! decrypted leaves this module.

use crate::{
    mask::{Form, MaskReceiver, MaskSender, OpenError, Tag, TagReceiver, TagSender},
    wire::{LiveLayout, LivePayload, LiveSum},
};
use rand_core::CryptoRng;
use tobari_curve::{
    Curve, PointEncoding,
    elgamal::{Ciphertexts, Decryptor, Encryptor, SAMPLE_BOUND, SharedCiphertexts, SharedDecryptor, SharedEncryptor},
    params::{Parameters, SecurityFloor},
};
use zeroize::Zeroizing;

use super::{
    PACKET_WORDS,
    keys::{EpochKeys, SessionId},
    link::{LiveMode, Settings},
};

/// The layout of packets in a room with these settings; none if the settings are impossible.
pub(super) fn layout_of(settings: &Settings) -> Option<LiveLayout> {
    if !settings.is_valid() {
        return None;
    }
    let parameters = Parameters::new(Curve::Secp256k1, SecurityFloor::Standard).ok()?;
    let encoding = PointEncoding::Compressed;
    Some(match settings.mode {
        LiveMode::Mask => LiveLayout::Mask { width: settings.width()?, form: Form::Packed },
        LiveMode::ElgamalShared => LiveLayout::ElgamalShared { parameters, encoding },
        LiveMode::Elgamal => LiveLayout::Elgamal { parameters, encoding },
    })
}

/// A speaker of an epoch: its number and session.
pub(super) type Speaker = (u16, SessionId);

/// Decrypts the sums of an epoch.
pub(super) enum Opener {
    Mask(MaskReceiver),
    Points(TagReceiver, Points),
}

/// Decrypts points without the list of their senders.
pub(super) enum Points {
    Shared(Box<SharedDecryptor>),
    Each(Box<Decryptor>),
}

/// Encrypts the packets of one session in an epoch.
pub(super) enum Sender {
    Mask(MaskSender),
    Shared(TagSender, Box<SharedEncryptor>),
    Each(TagSender, Box<Encryptor>),
}

impl Opener {
    /// For the epoch that begins at tick `from`, with these speakers, in a room for `most`
    /// speakers.
    pub(super) fn new(
        layout: LiveLayout,
        keys: &EpochKeys,
        from: u32,
        speakers: impl Iterator<Item = Speaker>,
        most: u16,
    ) -> Self {
        let sessions = speakers.map(|(member, session)| (member, keys.session(member, session)));
        let bound = u32::from(most) * SAMPLE_BOUND as u32;
        let points = match layout {
            LiveLayout::Mask { width, .. } => {
                let mut receiver = MaskReceiver::new(keys.coefficients(), width, PACKET_WORDS, from);
                sessions.for_each(|(member, key)| receiver.insert(member, key));
                return Self::Mask(receiver);
            }
            LiveLayout::ElgamalShared { parameters, .. } => {
                let key = keys.points(parameters).expand(PACKET_WORDS);
                Points::Shared(Box::new(SharedDecryptor::new(&key, bound)))
            }
            LiveLayout::Elgamal { parameters, .. } => {
                Points::Each(Box::new(Decryptor::new(&keys.secret_key(parameters), bound)))
            }
        };
        let mut receiver = TagReceiver::new(keys.coefficients(), from);
        sessions.for_each(|(member, key)| receiver.insert(member, key));
        Self::Points(receiver, points)
    }

    /// The exact sum, after its tag was checked against the list.
    pub(super) fn open(&mut self, sum: &LiveSum) -> Result<Zeroizing<Vec<i32>>, OpenError> {
        let senders: Vec<u16> = sum.speakers.iter().collect();
        match (self, &sum.payload) {
            (Self::Mask(receiver), LivePayload::Mask(masked)) => receiver.open(sum.tick, &senders, masked, &sum.tag),
            (Self::Points(tags, points), payload) => {
                let samples = if senders.is_empty() { Points::nothing(payload) } else { points.decrypt(payload) };
                // no sum of honest members is beyond the bound
                let samples = samples.ok_or(OpenError::Forged)?;
                tags.verify(sum.tick, &senders, &samples, &sum.tag)?;
                Ok(samples)
            }
            _ => Err(OpenError::Forged),
        }
    }
}

impl Points {
    fn decrypt(&self, payload: &LivePayload) -> Option<Zeroizing<Vec<i32>>> {
        match (self, payload) {
            (Self::Shared(decryptor), LivePayload::ElgamalShared(points)) => decryptor.vartime_decrypt(points).ok(),
            (Self::Each(decryptor), LivePayload::Elgamal(points)) => decryptor.vartime_decrypt(points).ok(),
            _ => None,
        }
    }

    /// Without a sender there is nothing to decrypt, and the payload must be zero.
    fn nothing(payload: &LivePayload) -> Option<Zeroizing<Vec<i32>>> {
        let is_nothing = match payload {
            LivePayload::Mask(_) => false,
            LivePayload::ElgamalShared(points) => *points == SharedCiphertexts::zero(points.parameters(), points.len()),
            LivePayload::Elgamal(points) => *points == Ciphertexts::zero(points.parameters(), points.len()),
        };
        is_nothing.then(|| Zeroizing::new(vec![0; payload.samples()]))
    }
}

impl Sender {
    /// For a session that speaks in the epoch that begins at tick `from`.
    pub(super) fn new(layout: LiveLayout, keys: &EpochKeys, from: u32, own: Speaker) -> Self {
        let session = keys.session(own.0, own.1);
        match layout {
            LiveLayout::Mask { width, .. } => Self::Mask(MaskSender::new(keys.coefficients(), session, width, from)),
            LiveLayout::ElgamalShared { parameters, .. } => {
                let key = keys.points(parameters).expand(PACKET_WORDS);
                let tags = TagSender::new(keys.coefficients(), session, from);
                Self::Shared(tags, Box::new(SharedEncryptor::new(&key)))
            }
            LiveLayout::Elgamal { parameters, .. } => {
                let tags = TagSender::new(keys.coefficients(), session, from);
                Self::Each(tags, Box::new(Encryptor::new(&keys.secret_key(parameters).public_key())))
            }
        }
    }

    /// The payload and tag for `tick`; none if that tick or a later one was sent before.
    pub(super) fn encrypt(
        &mut self,
        tick: u32,
        words: &[i16; PACKET_WORDS],
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Option<(LivePayload, Tag)> {
        let tagged = |tags: &mut TagSender| {
            let wide = Zeroizing::new(words.map(i32::from));
            let tag = tags.tag(tick, wide.as_ref()).ok()?;
            Some((wide, tag))
        };
        match self {
            Self::Mask(sender) => {
                let (masked, tag) = sender.encrypt(tick, words).ok()?;
                Some((LivePayload::Mask(masked), tag))
            }
            Self::Shared(tags, encryptor) => {
                let (wide, tag) = tagged(tags)?;
                Some((LivePayload::ElgamalShared(encryptor.encrypt(wide.as_ref(), rng).ok()?), tag))
            }
            Self::Each(tags, encryptor) => {
                let (wide, tag) = tagged(tags)?;
                Some((LivePayload::Elgamal(encryptor.encrypt(wide.as_ref(), rng).ok()?), tag))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
    use tobari_curve::{
        Adder,
        wire::{MemberSet, RoomId},
    };

    use super::super::{
        keys::RoomKeys,
        link::{LiveMode, RoomLink, Settings},
    };
    use super::*;

    /// An epoch of two speakers, and the sum of their packets in tick 5.
    fn epoch(mode: LiveMode) -> (Opener, LiveSum) {
        let mut rng = ChaCha20Rng::from_seed([4; 32]);
        let settings = Settings { mode, speakers: 4, ..Settings::default() };
        let link = RoomLink::new("http://h", "r".parse().unwrap(), settings, &mut rng);
        let (keys, layout) = (RoomKeys::new(&link).epoch(1, &[7; 32], None), layout_of(&settings).unwrap());
        let speakers = [(0, SessionId([1; 16])), (9, SessionId([2; 16]))];
        let opener = Opener::new(layout, &keys, 0, speakers.into_iter(), settings.speakers);
        let (mut payload, mut tag) = (LivePayload::zero(layout, PACKET_WORDS), Tag::default());
        let mut who = MemberSet::default();
        for (own, level) in speakers.into_iter().zip([300, -1]) {
            let mut sender = Sender::new(layout, &keys, 0, own);
            let (packet, its) = sender.encrypt(5, &[level; PACKET_WORDS], &mut rng).unwrap();
            assert!(sender.encrypt(5, &[0; PACKET_WORDS], &mut rng).is_none(), "a tick is sent once");
            assert!(payload.add_assign_with(&packet, &mut Adder::default()));
            tag.add_assign(&its);
            who.insert(own.0);
        }
        let late = MemberSet::default();
        (opener, LiveSum { room: RoomId([0; 8]), epoch: 1, tick: 5, speakers: who, late, tag, payload })
    }

    #[test]
    fn a_sum_opens_exactly_in_every_mode_and_in_no_other() {
        for mode in LiveMode::ALL {
            let (mut opener, sum) = epoch(mode);
            assert_eq!(*opener.open(&sum).unwrap(), vec![299; PACKET_WORDS], "{mode}");
            for other in LiveMode::ALL.into_iter().filter(|other| *other != mode) {
                assert!(epoch(other).0.open(&sum).is_err(), "{mode} as {other}");
            }
        }
    }

    /// A sender with the public key of mode `elgamal`, but without a key of the tags, can encrypt
    /// and is not heard.
    #[test]
    fn a_sender_with_the_public_key_alone_makes_no_sum_that_opens() {
        let (mut opener, sum) = epoch(LiveMode::Elgamal);
        let mut rng = ChaCha20Rng::from_seed([4; 32]);
        let settings = Settings { mode: LiveMode::Elgamal, speakers: 4, ..Settings::default() };
        let link = RoomLink::new("http://h", "r".parse().unwrap(), settings, &mut rng);
        let Some(LiveLayout::Elgamal { parameters, .. }) = layout_of(&settings) else { panic!("no points") };
        let public = RoomKeys::new(&link).epoch(1, &[7; 32], None).secret_key(parameters).public_key();
        let said = Encryptor::new(&public).encrypt(&[100; PACKET_WORDS], &mut rng).unwrap();
        let (mut alone, mut added) = (sum.clone(), sum);
        alone.payload = LivePayload::Elgamal(said.clone());
        assert!(added.payload.add_assign_with(&LivePayload::Elgamal(said), &mut Adder::default()));
        let Opener::Points(_, points) = &opener else { panic!("no points") };
        assert_eq!(*points.decrypt(&added.payload).unwrap(), vec![399; PACKET_WORDS], "it is under the key of all");
        for sum in [alone, added] {
            assert_eq!(opener.open(&sum).err(), Some(OpenError::Forged));
        }
    }

    /// The reason for the list: without it, altered points decrypt as well.
    #[test]
    fn what_is_doubled_decrypts_without_the_list_and_is_refused_with_it() {
        for mode in [LiveMode::ElgamalShared, LiveMode::Elgamal] {
            let (mut opener, mut sum) = epoch(mode);
            let (payload, tag) = (sum.payload.clone(), sum.tag);
            assert!(sum.payload.add_assign_with(&payload, &mut Adder::default()));
            sum.tag.add_assign(&tag);
            let Opener::Points(_, points) = &opener else { panic!("{mode} has no points") };
            assert_eq!(*points.decrypt(&sum.payload).unwrap(), vec![598; PACKET_WORDS], "{mode}");
            assert_eq!(opener.open(&sum).err(), Some(OpenError::Forged), "{mode}");
        }
    }
}
