//! Which frames are taken, and why others are not.
//!
//! Two steps. [`Gate::check`] looks at one frame alone, at its MAC and its form, and can be done by
//! many threads. [`FrameHistory::admit`] looks at earlier frames, in the order of storage:
//! **what it says is true once it is stored**, and whoever could not store it takes up what is
//! stored again.
//!
//! | a frame is | counted as | answered |
//! |---|---|---|
//! | new, of a device that is active | taken | once it is durable |
//! | one that is stored, byte for byte (its sender did not hear so) | duplicate | as taken |
//! | under a counter that came, and another frame or one that is no longer known | replayed | refused |
//! | 256 counters or more behind the newest | late | refused |
//! | of a device that was revoked or has a new key | revoked | refused |
//! | not made by the device's key, or of an unknown device | forged | refused |
//! | of another length, version or profile, or with a body that no device writes | malformed | refused |
//!
//! Nobody sees what is in a frame: a device that has its key may send anything.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use tobari_device::{DeviceNumber, Head, MAC, MacKey, P1, Profile, Refused, ReplayWindow, U25, peek};

use super::schema::ProfileName;

/// Frames of a device that are known by their tags. Of older ones the counter alone is known: they
/// are refused as replayed when they come again.
const KEPT: usize = 64;

/// How many frames were taken and refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestCounts {
    /// New, and stored.
    pub taken: u64,
    /// Stored before.
    pub duplicate: u64,
    /// Under a counter that came before.
    pub replayed: u64,
    /// Too old to tell.
    pub late: u64,
    /// Of a device that is no longer listened to.
    pub revoked: u64,
    /// That no known device's key made.
    pub forged: u64,
    /// That are no frames.
    pub malformed: u64,
}

impl IngestCounts {
    /// Names and numbers, for metrics.
    pub fn named(&self) -> [(&'static str, u64); 7] {
        let Self { taken, duplicate, replayed, late, revoked, forged, malformed } = *self;
        [
            ("taken", taken),
            ("duplicate", duplicate),
            ("replayed", replayed),
            ("late", late),
            ("revoked", revoked),
            ("forged", forged),
            ("malformed", malformed),
        ]
    }

    /// With one more of these.
    pub fn count(&mut self, verdict: Verdict) {
        *match verdict {
            Verdict::Taken => &mut self.taken,
            Verdict::Duplicate => &mut self.duplicate,
            Verdict::Replayed => &mut self.replayed,
            Verdict::Late => &mut self.late,
            Verdict::Revoked => &mut self.revoked,
            Verdict::Forged => &mut self.forged,
            Verdict::Malformed => &mut self.malformed,
        } += 1;
    }

    /// Both together.
    pub fn add(&mut self, other: &Self) {
        self.taken += other.taken;
        self.duplicate += other.duplicate;
        self.replayed += other.replayed;
        self.late += other.late;
        self.revoked += other.revoked;
        self.forged += other.forged;
        self.malformed += other.malformed;
    }
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// New.
    Taken,
    /// Stored before.
    Duplicate,
    /// Its counter came before.
    Replayed,
    /// Too old to tell.
    Late,
    /// Its device is no longer listened to.
    Revoked,
    /// Its device did not make it.
    Forged,
    /// No frame.
    Malformed,
}

/// A frame that its device made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Whose, and which.
    pub head: Head,
    /// The beginning of its MAC: tells it from another under the same counter.
    tag: u64,
}

impl Checked {
    /// Of a frame that was checked before it was stored.
    pub fn of_stored(profile: ProfileName, frame: &[u8]) -> Option<Self> {
        let head = match profile {
            ProfileName::P1 => peek::<P1>(frame),
            ProfileName::U25 => peek::<U25>(frame),
        };
        Some(Self { head: head.ok()?, tag: tag(frame) })
    }
}

/// Of a frame, whose length is known.
fn tag(frame: &[u8]) -> u64 {
    frame[frame.len() - MAC..].iter().take(8).fold(0, |tag, byte| tag << 8 | u64::from(*byte))
}

/// The MAC keys of a fleet.
pub enum Gate {
    /// Of this profile.
    P1(HashMap<DeviceNumber, (MacKey<P1>, bool)>),
    /// Of this profile.
    U25(HashMap<DeviceNumber, (MacKey<U25>, bool)>),
}

impl Gate {
    /// With these devices: number, MAC key, and whether new frames are taken.
    pub fn new<'a>(profile: ProfileName, devices: impl Iterator<Item = (DeviceNumber, &'a [u8; 32], bool)>) -> Self {
        match profile {
            ProfileName::P1 => Self::P1(keys(devices)),
            ProfileName::U25 => Self::U25(keys(devices)),
        }
    }

    /// Bytes of a frame.
    pub fn frame_bytes(&self) -> usize {
        match self {
            Self::P1(_) => P1::FRAME,
            Self::U25(_) => U25::FRAME,
        }
    }

    /// Whether a frame's device made it, and is listened to.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn check(&self, frame: &[u8]) -> Result<Checked, Verdict> {
        match self {
            Self::P1(devices) => check(devices, frame),
            Self::U25(devices) => check(devices, frame),
        }
    }
}

fn keys<'a, P: Profile>(
    devices: impl Iterator<Item = (DeviceNumber, &'a [u8; 32], bool)>,
) -> HashMap<DeviceNumber, (MacKey<P>, bool)> {
    devices.map(|(number, key, takes)| (number, (MacKey::from_bytes(key), takes))).collect()
}

fn check<P: Profile>(devices: &HashMap<DeviceNumber, (MacKey<P>, bool)>, frame: &[u8]) -> Result<Checked, Verdict> {
    let head = peek::<P>(frame).map_err(|_| Verdict::Malformed)?;
    let (key, takes) = devices.get(&head.device).ok_or(Verdict::Forged)?;
    match key.open(frame) {
        Ok(envelope) if *takes => Ok(Checked { head: envelope.head(), tag: tag(frame) }),
        Ok(_) => Err(Verdict::Revoked),
        Err(Refused::Mac) => Err(Verdict::Forged),
        Err(_) => Err(Verdict::Malformed),
    }
}

/// What came of a device.
#[derive(Clone)]
struct Device {
    window: ReplayWindow,
    /// Tags of the newest frames, by their counters' remainders; with the counter, lest another be
    /// taken for it.
    tags: Box<[Option<(u32, u64)>; KEPT]>,
}

/// What came before.
#[derive(Default)]
pub struct FrameHistory {
    devices: BTreeMap<DeviceNumber, Device>,
}

impl FrameHistory {
    /// Takes up a device's window from storage.
    pub fn restore(&mut self, number: DeviceNumber, window: ReplayWindow) {
        self.devices.insert(number, Device { window, tags: Box::new([None; KEPT]) });
    }

    /// Takes up a frame from storage, whose device's window was taken up: a sender that sends it
    /// again is told so.
    pub fn recall(&mut self, checked: &Checked) {
        if let Some(device) = self.devices.get_mut(&checked.head.device) {
            let counter = checked.head.counter;
            let place = &mut device.tags[counter as usize % KEPT];
            if place.is_none_or(|(known, _)| known < counter) {
                *place = Some((counter, checked.tag));
            }
        }
    }

    /// The verdict on a frame that was checked.
    pub fn admit(&mut self, checked: &Checked) -> Verdict {
        let Checked { head: Head { device, counter }, tag } = *checked;
        let device = self
            .devices
            .entry(device)
            .or_insert_with(|| Device { window: ReplayWindow::default(), tags: Box::new([None; KEPT]) });
        let place = &mut device.tags[counter as usize % KEPT];
        if *place == Some((counter, tag)) {
            return Verdict::Duplicate;
        }
        if device.window.is_behind(counter) {
            return Verdict::Late;
        }
        if device.window.admit(counter).is_err() {
            return Verdict::Replayed;
        }
        *place = Some((counter, tag));
        Verdict::Taken
    }

    /// A device's window, for storage.
    pub fn window(&self, number: DeviceNumber) -> Option<ReplayWindow> {
        self.devices.get(&number).map(|device| device.window)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use tobari_device::{Device as Sealer, InsecureVolatileCounter, READINGS, Root};

    fn frames<P: Profile>(root: &Root, number: u32, first: u32, count: usize) -> Vec<P::Frame> {
        let number = DeviceNumber::new(number).unwrap();
        let mut device = Sealer::<P, _>::open(root, number, InsecureVolatileCounter(first)).unwrap();
        let seal = |i: usize| {
            let mut frame = P::EMPTY;
            device.seal(&[i as u8; READINGS], &mut frame).unwrap();
            frame
        };
        (0..count).map(seal).collect()
    }

    fn every_reason<P: Profile>(profile: ProfileName) {
        let (root, other) = (Root::from_bytes([1; 32]), Root::from_bytes([2; 32]));
        let keys = [root.mac_key::<P>(), other.mac_key::<P>()];
        let numbers = [3, 4].map(|number| DeviceNumber::new(number).unwrap());
        let gate = Gate::new(profile, [(numbers[0], &keys[0], true), (numbers[1], &keys[1], false)].into_iter());
        assert_eq!(gate.frame_bytes(), P::FRAME);
        let sent = frames::<P>(&root, 3, 0, 601);
        let mut seen = FrameHistory::default();
        let mut counts = IngestCounts::default();
        let mut send = |frame: &[u8]| {
            let verdict = gate.check(frame).map_or_else(|refused| refused, |checked| seen.admit(&checked));
            counts.count(verdict);
            verdict
        };
        assert_eq!(send(sent[300].as_ref()), Verdict::Taken);
        assert_eq!(send(sent[300].as_ref()), Verdict::Duplicate);
        assert_eq!(send(sent[299].as_ref()), Verdict::Taken, "frames may overtake one another");
        assert_eq!(send(sent[45].as_ref()), Verdict::Taken);
        assert_eq!(send(sent[44].as_ref()), Verdict::Late);
        // storage that was put back: the same counter, another reading
        let restored = frames::<P>(&root, 3, 264, 37);
        assert_eq!(send(restored[36].as_ref()), Verdict::Replayed);
        let mut changed = sent[301].clone();
        changed.as_mut()[90] ^= 1;
        assert_eq!(send(changed.as_ref()), Verdict::Forged);
        assert_eq!(send(frames::<P>(&root, 9, 0, 1)[0].as_ref()), Verdict::Forged, "nobody's number");
        assert_eq!(send(frames::<P>(&other, 4, 0, 1)[0].as_ref()), Verdict::Revoked);
        assert_eq!(send(&sent[301].as_ref()[1..]), Verdict::Malformed);
        let found = counts.named().map(|(_, count)| count);
        assert_eq!(found, [3, 1, 1, 1, 1, 2, 1]);
        // a new start knows windows, and those tags that are still in storage
        let mut again = FrameHistory::default();
        again.restore(numbers[0], seen.window(numbers[0]).unwrap());
        again.recall(&Checked::of_stored(profile, sent[300].as_ref()).unwrap());
        let mut send = |frame: &P::Frame| again.admit(&gate.check(frame.as_ref()).unwrap());
        assert_eq!(
            [send(&sent[300]), send(&sent[299]), send(&sent[44])],
            [Verdict::Duplicate, Verdict::Replayed, Verdict::Late]
        );
        assert_eq!([send(&sent[556]), send(&sent[300])], [Verdict::Taken, Verdict::Late]);
    }

    #[test]
    fn every_reason_to_refuse_a_frame_is_counted_apart() {
        every_reason::<P1>(ProfileName::P1);
        every_reason::<U25>(ProfileName::U25);
    }
}
