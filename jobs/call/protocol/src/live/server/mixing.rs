//! The sums of the open ticks. The speakers of a sum are fixed packet by packet; the payloads may
//! be added later, by several cores.
//!
//! In mode `mask` an addition takes a tenth of a microsecond, in the modes of points some
//! microseconds. A room has one for each packet: fifty a second for each speaker. Addition is
//! associative and commutative, and a sum has one form, so neither the order nor the adder matters.
//! A [`Mixer`] may have each core add a share, and then add the partial sums.

use std::collections::VecDeque;

use crate::{
    mask::Tag,
    wire::{LiveLayout, LivePacket, LivePayload, LiveSum},
};
use tobari_curve::{Adder, wire::MemberSet};

use super::super::PACKET_WORDS;
use crate::server::Fault;

/// Adds the payloads of many packets of one tick.
pub trait Mixer {
    /// Adds all parts to the sum. They have its layout and length.
    fn mix(&mut self, sum: &mut LivePayload, parts: &[&LivePayload]);
}

/// Adds one packet after another.
#[derive(Default)]
pub struct OneByOne(Adder);

impl Mixer for OneByOne {
    fn mix(&mut self, sum: &mut LivePayload, parts: &[&LivePayload]) {
        for part in parts {
            let fits = sum.add_assign_with(part, &mut self.0);
            debug_assert!(fits, "packets of another layout are not enlisted");
        }
    }
}

/// The sum of one tick.
pub(in super::super) struct Sum {
    pub(in super::super) epoch: u32,
    pub(in super::super) payload: LivePayload,
    pub(in super::super) tag: Tag,
    pub(in super::super) speakers: MemberSet,
}

impl Sum {
    /// The sum of no packet.
    pub(in super::super) fn empty(layout: LiveLayout, epoch: u32) -> Self {
        let (payload, tag) = (LivePayload::zero(layout, PACKET_WORDS), Tag::default());
        Self { epoch, payload, tag, speakers: MemberSet::default() }
    }
}

/// The sums of the open tick and the later ones, up to the last packet.
#[derive(Default)]
pub(super) struct Sums(VecDeque<Option<Sum>>);

impl Sums {
    /// How many ticks from the open one on may have packets.
    pub(super) fn ticks(&self) -> u32 {
        self.0.len() as u32
    }

    /// Lists a packet's sender in a tick. True if the payload is still to be added; false if the
    /// tick's sum already has this sender.
    pub(super) fn enlist(&mut self, ahead: usize, packet: &LivePacket, layout: LiveLayout) -> Result<bool, Fault> {
        if self.0.len() <= ahead {
            self.0.resize_with(ahead + 1, || None);
        }
        let epoch = packet.header.epoch;
        let sum = self.0[ahead].get_or_insert_with(|| Sum::empty(layout, epoch));
        if sum.epoch != epoch || !packet.payload.fits(layout) || packet.payload.samples() != PACKET_WORDS {
            return Err(Fault::Internal);
        }
        let is_new = sum.speakers.insert(packet.header.member);
        if is_new {
            sum.tag.add_assign(&packet.tag);
        }
        Ok(is_new)
    }

    /// Adds a sum of packets of one tick, all or nothing. It adds nothing if the epoch differs from
    /// that of the tick's sum, or if one of the speakers is already in that sum.
    pub(super) fn merge(&mut self, ahead: usize, part: &LiveSum, layout: LiveLayout, mixer: &mut dyn Mixer) -> bool {
        if !part.payload.fits(layout) || part.payload.samples() != PACKET_WORDS {
            return false;
        }
        if self.0.len() <= ahead {
            self.0.resize_with(ahead + 1, || None);
        }
        let sum = self.0[ahead].get_or_insert_with(|| Sum::empty(layout, part.epoch));
        if sum.epoch != part.epoch || part.speakers.iter().any(|speaker| sum.speakers.contains(speaker)) {
            return false;
        }
        part.speakers.iter().for_each(|speaker| {
            sum.speakers.insert(speaker);
        });
        sum.tag.add_assign(&part.tag);
        mixer.mix(&mut sum.payload, &[&part.payload]);
        true
    }

    /// Adds the payloads of packets that were enlisted for a tick.
    pub(super) fn mix(&mut self, ahead: usize, parts: &[&LivePayload], mixer: &mut dyn Mixer) {
        if let Some(Some(sum)) = self.0.get_mut(ahead) {
            mixer.mix(&mut sum.payload, parts);
        }
    }

    /// Closes the open tick.
    pub(super) fn close(&mut self) -> Option<Sum> {
        self.0.pop_front().flatten()
    }
}
