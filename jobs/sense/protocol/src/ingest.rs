//! Accepting and rejecting frames.
//!
//! Ingest has two steps. [`Gate::check`] looks at one frame alone, at its MAC and its form, and can
//! run on many threads. [`FrameHistory::admit`] looks at earlier frames, in the order of storage:
//! **its verdict is true once the frame is stored**. A caller that could not store the frame
//! restores the history from storage.
//!
//! | a frame is | counted as | answered |
//! |---|---|---|
//! | new, of an active device | taken | after it is durable |
//! | identical to a stored frame (its sender got no answer) | duplicate | as accepted |
//! | of a time before 2001, or more than a week ahead of the server's clock | untimely | rejected |
//! | under a used counter, but different, or too old to compare | replayed | rejected |
//! | 256 counters or more behind the newest | late | rejected |
//! | of a device that was revoked or has a new key | revoked | rejected |
//! | not made with the device's key, or of an unknown device | forged | rejected |
//! | of another length, version or profile, or with an impossible body | malformed | rejected |
//!
//! Nobody at the server sees the content of a frame: a device that has its key may send anything.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use tobari_device::{DeviceNumber, Head, MAC, MacKey, P1, P17, Profile, Refused, ReplayWindow, U25, U28, peek};

use super::schema::ProfileName;

/// Frames of a device whose tags are known: as many as the replay window has counters. So a device
/// that sends its last frames again, because a reply was lost, is told that they are stored.
const KEPT: usize = 256;

/// The numbers of accepted and rejected frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestCounts {
    /// New frames, which were stored.
    pub taken: u64,
    /// Frames that were stored before.
    pub duplicate: u64,
    /// Frames with a counter that was used before.
    pub replayed: u64,
    /// Frames too old to check.
    pub late: u64,
    /// Frames of a time that a wrong clock gave them.
    #[serde(default)]
    pub untimely: u64,
    /// Frames of a device that is no longer accepted.
    pub revoked: u64,
    /// Frames that no known device's key made.
    pub forged: u64,
    /// Bytes that are not frames.
    pub malformed: u64,
}

impl IngestCounts {
    /// The names and numbers, for metrics.
    pub fn named(&self) -> [(&'static str, u64); 8] {
        let Self { taken, duplicate, replayed, late, untimely, revoked, forged, malformed } = *self;
        [
            ("taken", taken),
            ("duplicate", duplicate),
            ("replayed", replayed),
            ("late", late),
            ("untimely", untimely),
            ("revoked", revoked),
            ("forged", forged),
            ("malformed", malformed),
        ]
    }

    /// Adds one to the count of this verdict.
    pub fn count(&mut self, verdict: Verdict) {
        *match verdict {
            Verdict::Taken => &mut self.taken,
            Verdict::Duplicate => &mut self.duplicate,
            Verdict::Replayed => &mut self.replayed,
            Verdict::Late => &mut self.late,
            Verdict::Untimely => &mut self.untimely,
            Verdict::Revoked => &mut self.revoked,
            Verdict::Forged => &mut self.forged,
            Verdict::Malformed => &mut self.malformed,
        } += 1;
    }

    /// Adds other counts to these.
    pub fn add(&mut self, other: &Self) {
        self.taken += other.taken;
        self.duplicate += other.duplicate;
        self.replayed += other.replayed;
        self.late += other.late;
        self.untimely += other.untimely;
        self.revoked += other.revoked;
        self.forged += other.forged;
        self.malformed += other.malformed;
    }
}

/// The result of the checks of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The frame is new.
    Taken,
    /// The frame was stored before.
    Duplicate,
    /// The frame's counter was used before.
    Replayed,
    /// The frame is too old to check.
    Late,
    /// A wrong clock gave the frame its time.
    Untimely,
    /// The frame's device is no longer accepted.
    Revoked,
    /// The frame's device did not make it.
    Forged,
    /// The bytes are not a frame.
    Malformed,
}

/// The earliest time of a frame, in seconds since 1970: 2001-01-01, UTC. The clock of a device that
/// was not set begins in 1970 or in 2000.
pub const EARLIEST: u64 = 978_307_200;
/// How far the time of a frame may be ahead of the server's clock, in seconds: a week.
pub const AHEAD: u64 = 604_800;

/// A frame that its device made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The device and counter of the frame.
    pub head: Head,
    /// The beginning of its MAC, which distinguishes it from another frame with the same counter.
    tag: u64,
}

impl Checked {
    /// Whether a right clock can have given the frame its time, at this time in seconds since 1970.
    pub fn is_timely(&self, now: u64) -> bool {
        let timely = EARLIEST..=now.saturating_add(AHEAD);
        self.head.stamp.is_none_or(|stamp| timely.contains(&stamp.seconds()))
    }

    /// The head and tag of a stored frame, which was checked before it was stored.
    pub fn of_stored(profile: ProfileName, frame: &[u8]) -> Option<Self> {
        Some(Self { head: profile.peek(frame).ok()?, tag: tag(frame) })
    }
}

/// The tag of a frame of valid length.
fn tag(frame: &[u8]) -> u64 {
    let tag = frame[frame.len() - MAC..].iter().take(8).fold(0, |tag, byte| tag << 8 | u64::from(*byte));
    // 0 is no tag
    tag.max(1)
}

/// The MAC keys of a fleet, and whether new frames of their devices are accepted.
pub enum Gate {
    /// The keys of devices with profile P1.
    P1(Keys<P1>),
    /// The keys of devices with profile U25.
    U25(Keys<U25>),
    /// The keys of devices with profile P17.
    P17(Keys<P17>),
    /// The keys of devices with profile U28.
    U28(Keys<U28>),
}

/// MAC keys by device, and whether its new frames are accepted.
pub type Keys<P> = HashMap<DeviceNumber, (MacKey<P>, bool)>;

impl Gate {
    /// The gate for these devices: number, MAC key, and whether new frames are accepted.
    pub fn new<'a>(profile: ProfileName, devices: impl Iterator<Item = (DeviceNumber, &'a [u8; 32], bool)>) -> Self {
        match profile {
            ProfileName::P1 => Self::P1(keys(devices)),
            ProfileName::U25 => Self::U25(keys(devices)),
            ProfileName::P17 => Self::P17(keys(devices)),
            ProfileName::U28 => Self::U28(keys(devices)),
        }
    }

    /// Bytes of a frame.
    pub fn frame_bytes(&self) -> usize {
        match self {
            Self::P1(_) => P1::FRAME,
            Self::U25(_) => U25::FRAME,
            Self::P17(_) => P17::FRAME,
            Self::U28(_) => U28::FRAME,
        }
    }

    /// Checks that the frame's device made it and is still accepted.
    ///
    /// # Errors
    /// The verdict, if the frame is rejected.
    pub fn check(&self, frame: &[u8]) -> Result<Checked, Verdict> {
        match self {
            Self::P1(devices) => check(devices, frame),
            Self::U25(devices) => check(devices, frame),
            Self::P17(devices) => check(devices, frame),
            Self::U28(devices) => check(devices, frame),
        }
    }
}

fn keys<'a, P: Profile>(devices: impl Iterator<Item = (DeviceNumber, &'a [u8; 32], bool)>) -> Keys<P> {
    devices.map(|(number, key, takes)| (number, (MacKey::from_bytes(key), takes))).collect()
}

fn check<P: Profile>(devices: &Keys<P>, frame: &[u8]) -> Result<Checked, Verdict> {
    let head = peek::<P>(frame).map_err(|_| Verdict::Malformed)?;
    let (key, takes) = devices.get(&head.device).ok_or(Verdict::Forged)?;
    match key.open(frame) {
        Ok(envelope) if *takes => Ok(Checked { head: envelope.head(), tag: tag(frame) }),
        Ok(_) => Err(Verdict::Revoked),
        Err(Refused::Mac) => Err(Verdict::Forged),
        Err(_) => Err(Verdict::Malformed),
    }
}

/// The frames received from a device.
#[derive(Clone)]
struct Device {
    window: ReplayWindow,
    /// Tags of frames by their counters' remainders, 0 where none is known. A tag is the beginning
    /// of a MAC that covers the counter, so it needs no counter beside it.
    tags: Box<[u64; KEPT]>,
}

impl Device {
    fn new(window: ReplayWindow) -> Self {
        Self { window, tags: Box::new([0; KEPT]) }
    }
}

/// The frames received earlier.
#[derive(Default)]
pub struct FrameHistory {
    devices: BTreeMap<DeviceNumber, Device>,
}

impl FrameHistory {
    /// Restores a device's window from storage.
    pub fn restore(&mut self, number: DeviceNumber, window: ReplayWindow) {
        self.devices.insert(number, Device::new(window));
    }

    /// Restores a frame from storage, after its device's window was restored. A sender that repeats
    /// the frame then gets the answer "duplicate".
    pub fn recall(&mut self, checked: &Checked) {
        if let Some(device) = self.devices.get_mut(&checked.head.device) {
            let counter = checked.head.counter;
            // within the window each place belongs to one counter
            if !device.window.is_behind(counter) {
                device.tags[counter as usize % KEPT] = checked.tag;
            }
        }
    }

    /// The verdict on a checked frame.
    pub fn admit(&mut self, checked: &Checked) -> Verdict {
        let Checked { head: Head { device, counter, .. }, tag } = *checked;
        let device = self.devices.entry(device).or_insert_with(|| Device::new(ReplayWindow::default()));
        let place = &mut device.tags[counter as usize % KEPT];
        if *place == tag {
            return Verdict::Duplicate;
        }
        if device.window.is_behind(counter) {
            return Verdict::Late;
        }
        if device.window.admit(counter).is_err() {
            return Verdict::Replayed;
        }
        *place = tag;
        Verdict::Taken
    }

    /// The replay window of a device, for storage.
    pub fn window(&self, number: DeviceNumber) -> Option<ReplayWindow> {
        self.devices.get(&number).map(|device| device.window)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use tobari_device::{Device as Sealer, InsecureVolatileCounter, READINGS, Root, Stamp};

    fn frames<P: Profile>(root: &Root, number: u32, first: u32, count: usize) -> Vec<P::Frame> {
        let number = DeviceNumber::new(number).unwrap();
        let mut device = Sealer::<P, _>::open(root, number, InsecureVolatileCounter(first)).unwrap();
        let seal = |i: usize| {
            let mut frame = P::EMPTY;
            device.seal_at(Stamp::default().into(), &[i as u8; READINGS], &mut frame).unwrap();
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
        // storage that was restored from a copy: the same counter, another reading
        let restored = frames::<P>(&root, 3, 264, 37);
        assert_eq!(send(restored[36].as_ref()), Verdict::Replayed);
        let mut changed = sent[301].clone();
        changed.as_mut()[90] ^= 1;
        assert_eq!(send(changed.as_ref()), Verdict::Forged);
        assert_eq!(send(frames::<P>(&root, 9, 0, 1)[0].as_ref()), Verdict::Forged, "nobody's number");
        assert_eq!(send(frames::<P>(&other, 4, 0, 1)[0].as_ref()), Verdict::Revoked);
        assert_eq!(send(&sent[301].as_ref()[1..]), Verdict::Malformed);
        let found = counts.named().map(|(_, count)| count);
        assert_eq!(found, [3, 1, 1, 1, 0, 1, 2, 1]);
        // after a restart the windows are known, and the tags that are still in storage
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

    /// A device that got no reply sends all of its last 256 counters again, also to a server that
    /// was started again meanwhile.
    #[test]
    fn the_last_256_frames_of_a_device_are_recognised_byte_for_byte() {
        let root = Root::from_bytes([5; 32]);
        let number = DeviceNumber::new(3).unwrap();
        let key = root.mac_key::<U25>();
        let gate = Gate::new(ProfileName::U25, [(number, &key, true)].into_iter());
        let sent = frames::<U25>(&root, 3, 1000, 300);
        let checked: Vec<Checked> = sent.iter().map(|frame| gate.check(frame.as_ref()).unwrap()).collect();
        let mut seen = FrameHistory::default();
        assert!(checked.iter().all(|frame| seen.admit(frame) == Verdict::Taken));
        assert!(checked[44..].iter().all(|frame| seen.admit(frame) == Verdict::Duplicate));
        // a later start reads stored frames, newest records first
        let mut again = FrameHistory::default();
        again.restore(number, seen.window(number).unwrap());
        for record in checked.chunks(70).rev() {
            record.iter().for_each(|frame| again.recall(frame));
        }
        assert!(checked[44..].iter().all(|frame| again.admit(frame) == Verdict::Duplicate));
        assert_eq!(again.admit(&checked[43]), Verdict::Late);
        // other frames under the same counters are no duplicates
        let others = frames::<U25>(&root, 3, 1040, 260);
        let others = others.iter().skip(4).map(|frame| gate.check(frame.as_ref()).unwrap());
        assert!(others.into_iter().all(|frame| again.admit(&frame) == Verdict::Replayed));
    }

    #[test]
    fn every_reason_to_refuse_a_frame_is_counted_apart() {
        every_reason::<P1>(ProfileName::P1);
        every_reason::<U25>(ProfileName::U25);
    }
}
