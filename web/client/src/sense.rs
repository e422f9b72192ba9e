//! A fleet in a browser tab: its key holder, and devices that the tab simulates. Everything is new
//! and lasts as long as the tab, so the server can forget its data, too.
//!
//! The tab is the key holder of `tobari sense keygen`, `query` and `keyholder`, and its devices are
//! those of `provision` and `encrypt`: the same registry, question, bundle and [`ResultOpener`].
//! Unlike a fleet of real devices, the tab has keys and readings in one memory. So it knows the
//! expected answer: `Plain`.

use chacha20::ChaCha20Rng;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tobari_device::{Device, InsecureVolatileCounter, Profile, SealError, U25};
use tobari_lattice::{bgv::EncodeError, wire};
use tobari_octets::{hex, sha256};
use tobari_sense::bundle::{Bundle, DeviceLine};
use tobari_sense::client::Withheld;
use tobari_sense::desk::ResultOpener;
use tobari_sense::enrol::{Card, EnrolError};
use tobari_sense::holder::Holder;
use tobari_sense::question::{GroupBy, Question, QuestionError, Registered, Statistic, Window};
use tobari_sense::registry::{Registry, RegistryError, Secret};
use tobari_sense::release::{Figure, Release};
use tobari_sense::schema::{Channel, ProfileName, Schema, SchemaError};
use tobari_sense::setting::{SettingError, key_name};
use zeroize::Zeroizing;

/// The measured quantity.
const CHANNEL: &str = "temperature";
/// The borders of the histogram's bins, in degrees.
const EDGES: [f64; 10] = [12.0, 14.0, 16.0, 18.0, 20.0, 22.0, 24.0, 26.0, 28.0, 30.0];
/// A reading above this raises the alarm.
const ALARM: f64 = 30.0;
/// Devices with frames in a window at least.
const LEAST: u32 = 5;
/// Frames of a device in a window at most.
const FRAMES: u32 = 4;
/// Devices at most: with all their frames at full scale the sums still do not overflow.
pub const MOST_DEVICES: usize = 60;

/// The reason why there is no fleet, frame or answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// An invalid order for a fleet, or an invalid reading.
    #[error("expected {0}, found something else")]
    Wanted(&'static str),
    /// An invalid schema, or a reading out of its range.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// An impossible question.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// Impossible devices.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// An invalid card.
    #[error(transparent)]
    Card(#[from] EnrolError),
    /// Invalid parameters.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Secrets that cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A device whose key is used up.
    #[error(transparent)]
    Seal(#[from] SealError<std::convert::Infallible>),
    /// A result that is withheld.
    #[error(transparent)]
    Withheld(#[from] Withheld),
    /// A message that cannot be encoded.
    #[error("expected a message that can be written, found none")]
    Text,
}

/// A person's order for a fleet.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Number of devices, with the person's own as the last one.
    pub devices: usize,
    /// Seconds of a window.
    pub window_s: u32,
}

/// The public facts about a fleet.
#[derive(Debug, Serialize)]
pub struct FleetInfo {
    /// Its name.
    pub fleet: String,
    /// The question's name.
    pub question: String,
    /// Milliseconds of a window.
    pub window_ms: u64,
    /// Devices.
    pub devices: usize,
    /// Devices with frames in a window at least.
    pub least_devices: u32,
    /// Frames of a device in a window at most.
    pub frames: u32,
    /// Bytes of a frame.
    pub frame_bytes: usize,
    /// The range of readings, and the step between two, in degrees.
    pub range: [f64; 3],
    /// The borders of the histogram's bins.
    pub edges: Vec<f64>,
    /// A reading above this raises the alarm.
    pub alarm: f64,
    /// SHA-256 and length of each object that the server needs.
    pub objects: Vec<(String, usize)>,
    /// Bytes of all data for the server.
    pub bytes: usize,
}

/// The result of a window.
#[derive(Debug, Serialize)]
pub struct Opened {
    /// The key holder's release.
    pub release: Release,
    /// The expected result, computed on unencrypted readings; none if the tab does not know all
    /// frames of the window.
    pub plain: Option<Vec<Figure>>,
    /// Whether both are equal, to the last digit.
    pub exact: Option<bool>,
}

/// Readings that the tab has sent, as bytes, by window and device; wiped on drop.
#[derive(Default)]
struct Plain {
    windows: BTreeMap<u64, BTreeMap<usize, Zeroizing<Vec<u32>>>>,
    /// Readings that were sent and are not confirmed yet.
    pending: Vec<(usize, Zeroizing<u32>)>,
    /// The time of the last confirmation.
    last_ms: u64,
    /// The start of the current time without knowledge of the server's frames.
    lost_ms: Option<u64>,
    /// Earlier times without that knowledge.
    unsure: Vec<(u64, u64)>,
}

impl Plain {
    fn stored(&mut self, at_ms: u64, window_ms: u64) {
        if let Some(from) = self.lost_ms.take() {
            self.unsure.push((from, at_ms));
        }
        let window = self.windows.entry(at_ms - at_ms % window_ms).or_default();
        for (device, byte) in self.pending.drain(..) {
            window.entry(device).or_insert_with(|| Zeroizing::new(Vec::with_capacity(FRAMES as usize))).push(*byte);
        }
        self.last_ms = at_ms;
    }

    fn lost(&mut self) {
        if !self.pending.is_empty() {
            self.pending.clear();
            self.lost_ms.get_or_insert(self.last_ms);
        }
    }

    /// The figures of a window, in a few plain lines of code; none if not all frames are known.
    /// Earlier windows are forgotten.
    fn figures(&mut self, start_ms: u64, end_ms: u64, channel: &Channel) -> Option<Vec<Figure>> {
        self.windows = self.windows.split_off(&start_ms);
        let sure = self.unsure.iter().all(|(from, to)| *from >= end_ms || *to < start_ms);
        if !sure || self.lost_ms.is_some_and(|from| from < end_ms) {
            return None;
        }
        let devices = self.windows.remove(&start_ms)?;
        let bytes = || devices.values().flat_map(|bytes| bytes.iter().take(FRAMES as usize));
        let degrees = || bytes().map(|byte| channel.least + channel.step * f64::from(*byte));
        let (n, sum) = (bytes().count(), bytes().map(|byte| u64::from(*byte)).sum::<u64>());
        let mut counts = vec![0; EDGES.len() + 1];
        degrees().for_each(|value| counts[EDGES.iter().filter(|edge| value >= **edge).count()] += 1);
        let above = degrees().filter(|value| *value > ALARM).count() as i64;
        let name = || channel.name.clone();
        Some(vec![
            Figure::Count { value: n as u64 },
            Figure::Number {
                statistic: "mean".to_owned(),
                channel: name(),
                value: Some(channel.least + channel.step * (sum as f64 / n as f64)),
                exact: format!("{sum}/{n}"),
            },
            Figure::Histogram { channel: name(), edges: EDGES.to_vec(), counts },
            Figure::Above { channel: name(), threshold: ALARM, count: above, alarm: Some(above >= 1) },
        ])
    }
}

/// An object for the server, and its name.
struct Object {
    name: String,
    bytes: Vec<u8>,
}

/// A fleet. Its secrets are wiped on drop.
pub struct Fleet {
    registry: Registry,
    schema: Schema,
    registered: Registered,
    desk: ResultOpener,
    devices: Vec<Device<U25, InsecureVolatileCounter>>,
    objects: Vec<Object>,
    bundle: Zeroizing<Vec<u8>>,
    order: Vec<u8>,
    fleet: String,
    plain: Plain,
}

fn schema() -> Schema {
    let channel = Channel {
        name: CHANNEL.to_owned(),
        least: -40.0,
        step: 0.5,
        bits: 8,
        length: None,
        square: false,
        edges: EDGES.to_vec(),
        above: vec![ALARM],
    };
    let (profile, channels) = (ProfileName::U25, vec![channel]);
    Schema { profile, samples: 1, count: None, slice: None, channels, products: Vec::new() }
}

fn question(window_s: u32) -> Question {
    let channel = || CHANNEL.to_owned();
    Question {
        name: "climate".to_owned(),
        window: Window { length: format!("{window_s}s"), every: None, zone: None, lateness: None },
        group_by: GroupBy::None,
        least_devices: LEAST,
        frames: FRAMES,
        part: None,
        devices: Vec::new(),
        tenants: Vec::new(),
        weights: BTreeMap::new(),
        statistics: vec![
            Statistic::Count,
            Statistic::Mean { channel: channel() },
            Statistic::Histogram { channel: channel(), edges: Vec::new() },
            Statistic::Alarm { channel: channel(), threshold: ALARM, at_least: 1 },
        ],
    }
}

impl Fleet {
    /// Makes a fleet: keys, devices, the question, and all data for the server.
    ///
    /// # Errors
    /// [`FleetError`] for an impossible number of devices or seconds.
    pub fn new(wanted: Wanted, rng: &mut ChaCha20Rng) -> Result<Self, FleetError> {
        if !(LEAST as usize..=MOST_DEVICES).contains(&wanted.devices) || !(1..=3600).contains(&wanted.window_s) {
            return Err(FleetError::Wanted("5 to 60 devices and windows of 1 to 3600 s"));
        }
        let schema = schema();
        schema.check()?;
        let holder = Holder::generate(schema.profile, rng);
        let (setting, mut registry) = (holder.setting()?, Registry::default());
        let secret = holder.secret(&setting);
        let mut devices = Vec::with_capacity(wanted.devices);
        for i in 0..wanted.devices {
            let entry = registry.add(&format!("device-{i}"), "", None, Secret::random(rng))?;
            // neither key nor counter outlasts the tab
            devices.push(Device::open(&entry.root(), entry.number, InsecureVolatileCounter(0))?);
        }
        let mut all = question(wanted.window_s).register(&schema, &setting, &registry, &holder.question_names())?;
        let registered = all.pop().ok_or(FleetError::Text)?;
        let (mut objects, mut keys, mut cohorts) = (Vec::new(), BTreeMap::new(), Vec::new());
        let mut keep = |bytes: Vec<u8>| {
            let name = hex(&sha256(&bytes));
            objects.push(Object { name: name.clone(), bytes });
            name
        };
        for input in setting.keys()? {
            if let (Some(name), Some(key)) = (key_name(input), holder.key(&secret, input)) {
                keys.insert(name, keep(wire::encode_evaluation_keys(&key)));
            }
        }
        for cohort in 0..wanted.devices.div_ceil(setting.layout.blocks()) {
            let parts = holder.cohort(&setting, &secret, &registry, cohort, rng)?;
            cohorts.push(parts.iter().map(|part| keep(wire::encode_seeded_ciphertext(part))).collect());
        }
        let fleet = Card::new(&holder, schema.clone()).fleet;
        let lines = DeviceLine::of_registry(&registry, schema.profile);
        let bundle = Bundle { fleet: fleet.clone(), profile: schema.profile, devices: lines, cohorts, keys };
        let bundle = Zeroizing::new(serde_json::to_vec(&bundle).map_err(|_| FleetError::Text)?);
        let order = serde_json::to_vec(&registered.order).map_err(|_| FleetError::Text)?;
        let mut desk = ResultOpener::new(setting, schema.clone(), secret);
        desk.register(registered.clone())?;
        let plain = Plain::default();
        Ok(Self { registry, schema, registered, desk, devices, objects, bundle, order, fleet, plain })
    }

    /// The public facts about the fleet.
    pub fn told(&self) -> FleetInfo {
        let Channel { least, step, .. } = self.schema.channels[0];
        let objects: Vec<_> = self.objects.iter().map(|object| (object.name.clone(), object.bytes.len())).collect();
        FleetInfo {
            fleet: self.fleet.clone(),
            question: self.registered.id(),
            window_ms: self.registered.order.length_ms,
            devices: self.devices.len(),
            least_devices: LEAST,
            frames: FRAMES,
            frame_bytes: U25::FRAME,
            range: [least, least + 255.0 * step, step],
            edges: EDGES.to_vec(),
            alarm: ALARM,
            bytes: objects.iter().map(|object| object.1).sum::<usize>() + self.bundle.len() + self.order.len(),
            objects,
        }
    }

    /// The bytes of an object: secrets under encryption, or a key that decrypts nothing.
    pub fn object(&self, index: usize) -> Option<&[u8]> {
        self.objects.get(index).map(|object| &object.bytes[..])
    }

    /// The bundle for the server: numbers and MAC keys of devices.
    pub fn bundle(&self) -> &[u8] {
        &self.bundle
    }

    /// The order for the server: the computation.
    pub fn order(&self) -> &[u8] {
        &self.order
    }

    /// Encrypts readings to frames; a device is given by its index. Unless the frames of the last
    /// call were confirmed as [stored](Self::stored), they count as [lost](Self::lost).
    ///
    /// # Errors
    /// [`FleetError`] for an unknown device, or a reading out of range: then no frame is made.
    pub fn seal(&mut self, readings: &[(usize, f64)]) -> Result<Vec<u8>, FleetError> {
        self.lost();
        let mut rows = Vec::with_capacity(readings.len());
        for (device, reading) in readings {
            if *device >= self.devices.len() {
                return Err(FleetError::Wanted("a device of the fleet"));
            }
            rows.push((*device, Zeroizing::new(self.schema.numbers(&[*reading])?)));
        }
        let mut frames = Vec::with_capacity(rows.len() * U25::FRAME);
        for (device, row) in rows {
            let (readings, mut frame) = (Zeroizing::new(self.schema.frames(std::slice::from_ref(&*row))?), U25::EMPTY);
            self.devices[device].seal(&readings[0], &mut frame)?;
            frames.extend_from_slice(frame.as_ref());
            self.plain.pending.push((device, Zeroizing::new(row[0])));
        }
        Ok(frames)
    }

    /// Notes that the server has stored all frames of the last call, at this time of its clock.
    pub fn stored(&mut self, at_ms: u64) {
        self.plain.stored(at_ms, self.registered.order.every_ms);
    }

    /// Notes that the tab does not know whether the server has stored them.
    pub fn lost(&mut self) {
        self.plain.lost();
    }

    /// Decrypts the server's result of a window. A second attempt for the same window fails, even
    /// if the first one failed.
    ///
    /// # Errors
    /// [`FleetError::Withheld`], for every reason there is.
    pub fn open(&mut self, start_ms: u64, answer: &[u8]) -> Result<Opened, FleetError> {
        let release = self.desk.open(&self.registered.id(), start_ms, answer, &self.registry)?;
        let plain = self.plain.figures(release.start_ms, release.end_ms, &self.schema.channels[0]);
        let exact = plain.as_ref().map(|plain| release.groups.len() == 1 && release.groups[0].figures == *plain);
        Ok(Opened { release, plain, exact })
    }
}
