//! The half that reads nothing: it accepts frames, and arranges them for a program.
//!
//! Ingest knows MAC keys, which detect forged frames and decrypt none. **It cannot detect readings
//! out of range.** It counts rejected frames by reason.

use super::bounds::Scheme;
use super::exact::ExactPlan;
use super::layout::{Layout, of_place};
use super::linear::LinearPlan;
use super::program::{Input, Transform};
use std::collections::BTreeMap;
use tobari_device::{DeviceNumber, Envelope, MacKey, Profile, READINGS, Refused, ReplayWindow, peek};
use tobari_lattice::ring::Modulus;

/// The numbers of frames that ingest rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedFrames {
    /// Frames of another length, version or profile, or with a body that no device writes.
    pub malformed: u64,
    /// Frames that no known device's key made.
    pub forged: u64,
    /// Frames that were received before.
    pub replayed: u64,
}

/// The devices whose frames are accepted.
pub struct Ingest<P: Profile> {
    devices: BTreeMap<DeviceNumber, (MacKey<P>, ReplayWindow)>,
    refused: RefusedFrames,
}

impl<P: Profile> Default for Ingest<P> {
    fn default() -> Self {
        Self { devices: BTreeMap::new(), refused: RefusedFrames::default() }
    }
}

impl<P: Profile> Ingest<P> {
    /// Adds a device by the number of its key; a known number keeps its key. Returns whether the
    /// number was new.
    pub fn register(&mut self, number: DeviceNumber, mac_key: &[u8; 32]) -> bool {
        let new = !self.devices.contains_key(&number);
        if new {
            self.devices.insert(number, (MacKey::from_bytes(mac_key), ReplayWindow::default()));
        }
        new
    }

    /// Accepts a frame that its device made and that was not received before.
    ///
    /// # Errors
    /// [`Refused`]; an unregistered device counts as a forgery.
    pub fn take(&mut self, frame: &[u8]) -> Result<Envelope<P>, Refused> {
        let taken = self.admit(frame);
        match &taken {
            Ok(_) => {}
            Err(Refused::Mac) => self.refused.forged += 1,
            Err(Refused::Replayed) => self.refused.replayed += 1,
            Err(_) => self.refused.malformed += 1,
        }
        taken
    }

    fn admit(&mut self, frame: &[u8]) -> Result<Envelope<P>, Refused> {
        let head = peek::<P>(frame)?;
        let (key, window) = self.devices.get_mut(&head.device).ok_or(Refused::Mac)?;
        let envelope = key.open(frame)?;
        // only after the MAC check: anybody can write counters
        window.admit(head.counter)?;
        Ok(envelope)
    }

    /// The numbers of rejected frames so far.
    pub fn refused(&self) -> RefusedFrames {
        self.refused
    }
}

/// Frames of one batch in the domain of the transform, one for each block at most.
pub struct Batch {
    layout: Layout,
    q: Modulus,
    /// `a_i^`, then `b^`, by slot.
    halves: Vec<Vec<u32>>,
    filled: Vec<bool>,
}

impl Batch {
    /// A batch without frames; `None` for an invalid modulus.
    pub fn new(scheme: &Scheme, layout: Layout) -> Option<Self> {
        let q = Modulus::new(u64::try_from(scheme.modulus).ok().filter(|q| *q < 1 << 32)?)?;
        let halves = vec![vec![0; layout.slots()]; scheme.rank + 1];
        Some(Self { layout, q, halves, filled: vec![false; layout.blocks()] })
    }

    /// A batch that will have frames in these blocks, without memory for them yet.
    pub(super) fn expecting(scheme: &Scheme, layout: Layout, blocks: impl Iterator<Item = usize>) -> Option<Self> {
        let q = Modulus::new(u64::try_from(scheme.modulus).ok().filter(|q| *q < 1 << 32)?)?;
        let mut filled = vec![false; layout.blocks()];
        blocks.for_each(|block| filled[block] = true);
        Some(Self { layout, q, halves: vec![Vec::new(); scheme.rank + 1], filled })
    }

    /// Frees the memory of its frames, and remembers which blocks had one.
    pub(super) fn unload(&mut self) {
        self.halves.iter_mut().for_each(|half| *half = Vec::new());
    }

    /// Allocates memory for frames, and removes all frames.
    pub(super) fn clear(&mut self) {
        self.halves.iter_mut().for_each(|half| *half = vec![0; self.layout.slots()]);
        self.filled.fill(false);
    }

    /// Puts a frame in a block. Returns whether the block was free and the profile fits.
    pub fn put<P: Profile>(&mut self, block: usize, envelope: &Envelope<P>) -> bool {
        let rank = self.halves.len() - 1;
        let fits = rank == P::RANK && self.q.value() == u64::from(P::MODULUS);
        if !fits || self.filled.get(block) != Some(&false) {
            return false;
        }
        self.filled[block] = true;
        let slots: [usize; READINGS] = std::array::from_fn(|place| self.layout.slot(block, of_place(place)));
        let uniform = envelope.uniform();
        uniform.for_each(|i, place, a| self.halves[i][slots[place]] = a);
        for (slot, b) in slots.into_iter().zip(uniform.body()) {
            self.halves[rank][slot] = b;
        }
        true
    }

    /// Whether each block has a frame.
    pub fn filled(&self) -> &[bool] {
        &self.filled
    }

    /// One half in slots, with each block multiplied by its weight.
    fn weighted(&self, half: usize, weights: &[i64]) -> Vec<i64> {
        let mut out: Vec<i64> = self.halves[half].iter().map(|value| i64::from(*value)).collect();
        for (block, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != 1) {
            let weight = self.q.factor(self.q.reduce_signed(*weight));
            for position in 0..READINGS {
                let slot = &mut out[self.layout.slot(block, position)];
                *slot = self.q.mul_factor(*slot as u64, weight) as i64;
            }
        }
        out
    }
}

/// The slots of a public input of a linear plan. `None` for other inputs, if a batch is missing, or
/// if a weight belongs to a missing frame.
pub fn linear_slots(plan: &LinearPlan, batches: &[Batch], input: Input) -> Option<Vec<i64>> {
    let (term, half) = match input {
        Input::Uniform { term, i } => (term, i),
        Input::Body(term) => (term, plan.scheme().rank),
        _ => return None,
    };
    let term = plan.terms().get(term)?;
    let batch = batches.get(term.batch)?;
    let there = term.weights.iter().zip(batch.filled()).all(|(weight, filled)| *weight == 0 || *filled);
    there.then(|| batch.weighted(half, &term.weights))
}

/// The slots of a public input of an exact plan. `None` for other inputs, if a batch is missing, or
/// if a weight belongs to a missing frame.
pub fn exact_slots(plan: &ExactPlan, transform: &Transform, batches: &[Batch], input: Input) -> Option<Vec<i64>> {
    let (batch, half) = match input {
        Input::Uniform { term, i } => (batches.get(term)?, i),
        Input::Body(term) => (batches.get(term)?, plan.scheme().rank),
        Input::Diagonal { map, giant, baby } => return Some(transform.diagonal(plan.layout(), map, giant, baby)),
        Input::Mask { output, term } => {
            let (batch, weights) = plan.outputs().get(output)?.terms.get(term)?;
            let filled = batches.get(*batch)?.filled();
            let there = weights.iter().zip(filled).all(|(weight, filled)| *weight == 0 || *filled);
            return if there { plan.slots(input) } else { None };
        }
        _ => return plan.slots(input),
    };
    Some(batch.halves.get(half)?.iter().map(|value| i64::from(*value)).collect())
}
