//! A fleet from its registry to the desk that decrypts results: devices that encrypt rows of bytes,
//! a server without keys, and the reference on plaintext.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use tobari_device::{Device, Envelope, InsecureVolatileCounter, MacKey, Opener, Profile, Stamp};
use tobari_lattice::bgv::{EvaluationKeys, SeededCiphertext};
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::SecretKey;
use tobari_sense::client::{self, Cohort};
use tobari_sense::cloud::{Cloud, CloudError, Frames, Material};
use tobari_sense::desk::ResultOpener;
use tobari_sense::program::Input;
use tobari_sense::question::{Question, QuestionError, QuestionNames, Registered};
use tobari_sense::registry::{Registry, Secret};
use tobari_sense::schema::{ProfileName, Schema};
use tobari_sense::setting::{Setting, key_name};

pub(crate) const WINDOW: u64 = 60_000;

pub(crate) fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// Rows of numbers by device and frame.
pub(crate) type Rows = Vec<Vec<Vec<Vec<u32>>>>;

/// All parties of the protocol.
pub(crate) struct Fleet<P: Profile> {
    pub(crate) setting: Setting,
    pub(crate) schema: Schema,
    pub(crate) registry: Registry,
    pub(crate) secret: SecretKey,
    pub(crate) frames: Frames<P>,
    devices: Vec<Device<P, InsecureVolatileCounter>>,
    pub(crate) material: Memory,
    pub(crate) cloud: Cloud,
}

/// The key holder's objects on the server.
pub(crate) struct Memory {
    pub(crate) cohorts: Vec<Vec<SeededCiphertext>>,
    keys: BTreeMap<String, Arc<EvaluationKeys>>,
}

impl Material for Memory {
    fn secret(&mut self, cohort: usize, i: usize) -> Option<SeededCiphertext> {
        self.cohorts.get(cohort)?.get(i).cloned()
    }

    fn key(&mut self, input: Input) -> Option<Arc<EvaluationKeys>> {
        self.keys.get(&key_name(input)?).cloned()
    }
}

impl<P: Profile> Fleet<P> {
    pub(crate) fn new(setting: Setting, schema: &str, devices: usize) -> Self {
        let (schema, mut rng): (Schema, _) = (serde_json::from_str(schema).unwrap(), rng(devices as u64));
        schema.check().unwrap();
        let mut registry = Registry::default();
        for device in 0..devices {
            let tenant = ["north", "south", "west"][device % 3];
            registry.add(&format!("d{device}"), tenant, None, Secret::random(&mut rng)).unwrap();
        }
        let open = |entry: &tobari_sense::registry::Entry| {
            Device::open(&entry.root(), entry.number, InsecureVolatileCounter(0)).unwrap()
        };
        let sealers = registry.entries().iter().map(open).collect();
        let secret = SecretKey::from_seed(&setting.parameters, Seed::random(&mut rng));
        let mut cohorts = Vec::new();
        for entries in registry.entries().chunks(setting.layout.blocks()) {
            let mut cohort = Cohort::new(&setting.scheme, setting.layout);
            for (block, entry) in entries.iter().enumerate() {
                assert!(cohort.put(block, &Opener::<P>::new(&entry.root())));
            }
            cohorts.push(cohort.encrypt(&secret, &mut rng).unwrap());
        }
        let inputs = setting.keys().unwrap();
        let mut key = |input| client::key(&secret, input, &mut rng).map(Arc::new).unwrap();
        let keys = inputs.iter().map(|input| (key_name(*input).unwrap(), key(*input)));
        let material = Memory { cohorts, keys: keys.collect() };
        let cloud = Cloud::new(setting.clone(), &mut rng).unwrap();
        Self { setting, schema, registry, secret, frames: Frames::new(), devices: sealers, material, cloud }
    }

    /// Sends a frame of each list of rows, through ingest.
    pub(crate) fn send(&mut self, rows: &Rows) {
        for (device, frames) in rows.iter().enumerate() {
            let entry = &self.registry.entries()[device];
            let key = MacKey::<P>::from_bytes(&entry.root().mac_key::<P>());
            for rows in frames {
                for (sheet, readings) in (0..).zip(self.schema.frames(rows).unwrap()) {
                    let (mut frame, stamp) = (P::EMPTY, Stamp::new(60, sheet).unwrap());
                    self.devices[device].seal_at(stamp.into(), &readings, &mut frame).unwrap();
                    self.frames.entry(entry.number).or_default().push(key.open(frame.as_ref()).unwrap());
                }
            }
        }
    }

    /// Registers a question about one sheet.
    pub(crate) fn register(&self, question: &str) -> Result<Registered, QuestionError> {
        let mut all = self.register_all(question)?;
        assert_eq!(all.len(), 1);
        Ok(all.remove(0))
    }

    pub(crate) fn register_all(&self, question: &str) -> Result<Vec<Registered>, QuestionError> {
        let question: Question = serde_json::from_str(question).unwrap();
        question.register(&self.schema, &self.setting, &self.registry, &QuestionNames::from_bytes([5; 32].into()))
    }

    /// The server's message.
    pub(crate) fn answer(&mut self, registered: &Registered) -> Result<Vec<u8>, CloudError> {
        let (seats, sheet) = (self.registry.seats(), registered.order.sheet);
        let of_sheet = |frame: &&Envelope<P>| frame.head().stamp.map_or(0, Stamp::sheet) == sheet;
        let frames =
            self.frames.iter().map(|(number, frames)| (*number, frames.iter().filter(of_sheet).cloned().collect()));
        self.cloud.answer(&registered.order, &seats, &frames.collect(), &mut self.material, &mut rng(77))
    }

    /// The desk that decrypts the message.
    pub(crate) fn desk(&self, registered: &Registered) -> ResultOpener {
        let secret = SecretKey::from_seed(&self.setting.parameters, self.secret.to_seed().clone());
        let mut desk = ResultOpener::new(self.setting.clone(), self.schema.clone(), secret);
        desk.register(registered.clone()).unwrap();
        desk
    }
}

/// Random or constant rows, by device and frame.
pub(crate) fn rows(
    schema: &str,
    devices: usize,
    shape: impl Fn(usize) -> Vec<usize>,
    constant: Option<u32>,
    seed: u64,
) -> Rows {
    let schema: Schema = serde_json::from_str(schema).unwrap();
    let mut rng = rng(seed);
    let mut row = || -> Vec<u32> {
        schema.row_channels().map(|channel| constant.unwrap_or_else(|| rng.next_u32() & channel.most())).collect()
    };
    (0..devices)
        .map(|device| shape(device).into_iter().map(|count| (0..count).map(|_| row()).collect()).collect())
        .collect()
}

/// The profile's setting with toy parameters, which are not secure.
pub(crate) fn toy(profile: ProfileName) -> Setting {
    use tobari_lattice::params::{LatticeParameters, NamedSet, Plaintext};
    use tobari_lattice::ring::Modulus;
    let parameters = match profile {
        ProfileName::U25 | ProfileName::U28 => {
            let t = if profile == ProfileName::U25 { 33_292_289 } else { 268_042_241 };
            let t = Plaintext::Integers(Modulus::new(t).unwrap());
            LatticeParameters::insecure_of_sizes(1 << 11, &[50, 50], &[50], 2, t)
        }
        ProfileName::P1 | ProfileName::P17 => {
            let set = NamedSet::from_name(tobari_sense::exact::SET).unwrap();
            let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
            LatticeParameters::insecure_of_sizes(1 << 11, set.data, set.special, set.digits, t)
        }
    };
    Setting::with(profile, parameters.unwrap()).unwrap()
}
