//! A fleet of devices, its ingest, and the key holder.

#[allow(dead_code, reason = "every test of a world uses its own part")]
pub(crate) mod asked;

use asked::Fleet;
use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use tobari_device::{Device, DeviceNumber, InsecureVolatileCounter, Opener, Profile, READINGS, Root, Stamp};
use tobari_lattice::bgv::{EvaluationKeys, SeededCiphertext};
use tobari_lattice::rlwe::SecretKey;
use tobari_sense::client::{self, Cohort};
use tobari_sense::program::Input;
use tobari_sense::server::{Batch, Ingest};
use tobari_sense::{Layout, Scheme};

pub(crate) fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// Devices with their readings by time.
pub(crate) struct World<P: Profile> {
    pub(crate) layout: Layout,
    pub(crate) fleet: Fleet,
    pub(crate) scheme: Scheme,
    pub(crate) ingest: Ingest<P>,
    pub(crate) devices: Vec<Device<P, InsecureVolatileCounter>>,
    pub(crate) roots: Vec<Root>,
    pub(crate) batches: Vec<Batch>,
}

impl<P: Profile> World<P> {
    pub(crate) fn new(layout: Layout, devices: usize) -> Self {
        let mut ingest = Ingest::default();
        let roots: Vec<Root> = (0..devices)
            .map(|device| {
                let mut bytes = [0; 32];
                bytes[..8].copy_from_slice(&(device as u64).to_le_bytes());
                Root::from_bytes(bytes)
            })
            .collect();
        let number = |device: usize| DeviceNumber::new(device as u32).unwrap();
        for (device, root) in roots.iter().enumerate() {
            assert!(ingest.register(number(device), &root.mac_key::<P>()));
        }
        let open = |(device, root)| Device::open(root, number(device), InsecureVolatileCounter(0)).unwrap();
        let devices: Vec<Device<P, InsecureVolatileCounter>> = roots.iter().enumerate().map(open).collect();
        let fleet = Fleet { devices: devices.len(), blocks: layout.blocks() };
        Self { layout, fleet, scheme: Scheme::of::<P>(), ingest, devices, roots, batches: Vec::new() }
    }

    /// Sends one frame of every device that has readings, through ingest.
    pub(crate) fn send(&mut self, readings: impl Fn(usize) -> Option<[u8; READINGS]>) {
        for cohort in 0..self.fleet.cohorts() {
            let mut batch = Batch::new(&self.scheme, self.layout).unwrap();
            for block in 0..self.fleet.blocks {
                let device = cohort * self.fleet.blocks + block;
                let Some(readings) = (device < self.fleet.devices).then(|| readings(device)).flatten() else {
                    continue;
                };
                let mut frame = P::EMPTY;
                self.devices[device].seal_at(Stamp::default().into(), &readings, &mut frame).unwrap();
                let envelope = self.ingest.take(frame.as_ref()).unwrap();
                assert!(batch.put(block, &envelope) && !batch.put(block, &envelope));
            }
            self.batches.push(batch);
        }
    }

    /// The secrets of every cohort, encrypted.
    pub(crate) fn secrets(&self, secret: &SecretKey, rng: &mut ChaCha20Rng) -> Vec<Vec<SeededCiphertext>> {
        let cohort = |cohort: usize| {
            let mut all = Cohort::new(&self.scheme, self.layout);
            for block in 0..self.fleet.blocks {
                if let Some(root) = self.roots.get(cohort * self.fleet.blocks + block) {
                    assert!(all.put(block, &Opener::<P>::new(root)));
                }
            }
            all.encrypt(secret, rng).unwrap()
        };
        (0..self.fleet.cohorts()).map(cohort).collect()
    }
}

/// Evaluation keys, each made once.
#[derive(Default)]
pub(crate) struct Keys(BTreeMap<String, EvaluationKeys>);

impl Keys {
    pub(crate) fn of(&mut self, secret: &SecretKey, input: Input, rng: &mut ChaCha20Rng) -> Option<EvaluationKeys> {
        let name = format!("{input:?}");
        if !self.0.contains_key(&name) {
            self.0.insert(name.clone(), client::key(secret, input, rng)?);
        }
        self.0.get(&name).cloned()
    }
}

/// Random readings.
pub(crate) fn random(rng: &mut ChaCha20Rng) -> [u8; READINGS] {
    let mut readings = [0; READINGS];
    rng.fill_bytes(&mut readings);
    readings
}
