//! A tab's fleet and the server's half: the decrypted result equals the expected one, and a result
//! of another fleet, window or time is rejected.

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use tobari_device::{MacKey, Profile, U25};
use tobari_lattice::{
    bgv::{EvaluationKeys, SeededCiphertext},
    wire,
};
use tobari_octets::unhex_lower;
use tobari_sense::bundle::Bundle;
use tobari_sense::cloud::{Cloud, CloudError, Frames, Material};
use tobari_sense::ingest::Gate;
use tobari_sense::order::{Order, OrderError};
use tobari_sense::program::Input;
use tobari_sense::release::Figure;
use tobari_sense::setting::{Setting, key_name};
use tobari_wasm::sense::{Fleet, FleetError, Opened, Wanted};

const WINDOW_MS: u64 = 10_000;

fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

/// The objects that a server got, by name.
struct Given {
    bundle: Bundle,
    objects: BTreeMap<String, Vec<u8>>,
    setting: Setting,
}

impl Material for Given {
    fn secret(&mut self, cohort: usize, i: usize) -> Option<SeededCiphertext> {
        let bytes = self.objects.get(self.bundle.cohorts.get(cohort)?.get(i)?)?;
        wire::decode_seeded_ciphertext(bytes, &self.setting.parameters).ok()
    }

    fn key(&mut self, input: Input) -> Option<Arc<EvaluationKeys>> {
        let bytes = self.objects.get(self.bundle.keys.get(&key_name(input)?)?)?;
        wire::decode_evaluation_keys(bytes, &self.setting.parameters).ok().map(Arc::new)
    }
}

/// The computing part of a server: frames by window.
struct Server {
    cloud: Cloud,
    given: Given,
    order: Order,
    gate: Gate,
    frames: BTreeMap<u64, Frames<U25>>,
}

impl Server {
    fn new(fleet: &Fleet) -> Self {
        let told = fleet.told();
        let bundle = Bundle::decode(fleet.bundle()).unwrap();
        assert_eq!((&bundle.fleet, bundle.devices.len()), (&told.fleet, told.devices));
        let objects: BTreeMap<String, Vec<u8>> =
            (0..).zip(&told.objects).map(|(i, (name, _))| (name.clone(), fleet.object(i).unwrap().to_vec())).collect();
        assert!(fleet.object(told.objects.len()).is_none());
        assert!(bundle.objects().iter().all(|name| objects.contains_key(*name)), "all that the bundle names is there");
        let setting = Setting::of(bundle.profile).unwrap();
        let devices = bundle.keys_of_devices();
        let gate = Gate::new(bundle.profile, devices.iter().map(|(number, key, takes)| (*number, key, *takes)));
        let cloud = Cloud::new(setting.clone(), &mut rng(3)).unwrap();
        let order: Order = serde_json::from_slice(fleet.order()).unwrap();
        Self { cloud, given: Given { bundle, objects, setting }, order, gate, frames: BTreeMap::new() }
    }

    /// Stores frames that arrive at a time.
    fn take(&mut self, bytes: &[u8], at_ms: u64) {
        let keys = self.given.bundle.keys_of_devices();
        let window = self.frames.entry(at_ms - at_ms % WINDOW_MS).or_default();
        for frame in bytes.chunks(U25::FRAME) {
            let number = self.gate.check(frame).unwrap().head.device;
            let key = keys.iter().find(|known| known.0 == number).unwrap();
            window.entry(number).or_default().push(MacKey::<U25>::from_bytes(&key.1).open(frame).unwrap());
        }
    }

    fn answer(&mut self, start_ms: u64) -> Result<Vec<u8>, CloudError> {
        let seats = self.given.bundle.seats();
        let frames = self.frames.get(&start_ms).unwrap();
        self.cloud.answer(&self.order, &seats, frames, &mut self.given, &mut rng(4))
    }
}

fn send(fleet: &mut Fleet, server: &mut Server, readings: &[(usize, f64)], at_ms: u64) {
    let frames = fleet.seal(readings).unwrap();
    server.take(&frames, at_ms);
    fleet.stored(at_ms);
}

fn histogram(opened: &Opened) -> Vec<i64> {
    let of = |figure: &Figure| match figure {
        Figure::Histogram { counts, .. } => Some(counts.clone()),
        _ => None,
    };
    opened.release.groups[0].figures.iter().find_map(of).unwrap()
}

#[test]
fn what_the_key_holder_opens_is_what_the_tab_knows_and_nobody_else_opens_it() {
    let mut fleet = Fleet::new(Wanted { devices: 40, window_s: 10 }, &mut rng(1)).unwrap();
    let mut stranger = Fleet::new(Wanted { devices: 40, window_s: 10 }, &mut rng(2)).unwrap();
    let mut server = Server::new(&fleet);
    assert_eq!(fleet.told().window_ms, WINDOW_MS);
    // the first window: all of them, the extremes too, in two batches; the last device five times,
    // of which four count
    let readings: Vec<(usize, f64)> = (0..40).map(|i| (i, [-40.0, 87.5, 30.0, 30.5, 12.0][i % 5])).collect();
    send(&mut fleet, &mut server, &readings[..25], 20_000);
    send(&mut fleet, &mut server, &readings[25..], 29_999);
    for reading in [21.0, 21.5, 22.0, 22.5] {
        send(&mut fleet, &mut server, &[(39, reading)], 29_999);
    }
    // the second: five
    send(&mut fleet, &mut server, &readings[..5], 30_000);
    // the third: four, which is too few
    send(&mut fleet, &mut server, &readings[..4], 40_000);
    let answer = server.answer(20_000).unwrap();
    assert!(matches!(stranger.open(20_000, &answer), Err(FleetError::Withheld(_))), "another key");
    let opened = fleet.open(20_000, &answer).unwrap();
    assert_eq!((opened.exact, opened.release.left_out), (Some(true), 1));
    assert_eq!((opened.release.groups[0].devices, opened.release.groups[0].frames), (40, 43));
    let counts = histogram(&opened);
    assert_eq!((counts[0], counts[1], counts[10], counts.iter().sum::<i64>()), (8, 8, 24, 43), "{counts:?}");
    assert!(matches!(fleet.open(20_000, &answer), Err(FleetError::Withheld(_))), "once");
    let second = server.answer(30_000).unwrap();
    let opened = fleet.open(30_000, &second).unwrap();
    assert_eq!((opened.exact, histogram(&opened).iter().sum::<i64>()), (Some(true), 5));
    assert!(matches!(server.answer(40_000), Err(CloudError::Order(OrderError::Empty { least: 5, .. }))));
    assert!(
        matches!(fleet.open(40_000, &second), Ok(Opened { exact: Some(false), .. })),
        "a server that lies about the window is seen here, where the tab knows better"
    );
}

#[test]
fn a_window_with_a_batch_that_may_be_lost_is_opened_and_not_compared() {
    let mut fleet = Fleet::new(Wanted { devices: 6, window_s: 10 }, &mut rng(5)).unwrap();
    let mut server = Server::new(&fleet);
    let readings: Vec<(usize, f64)> = (0..6).map(|i| (i, 20.0 + i as f64)).collect();
    send(&mut fleet, &mut server, &readings, 5_000);
    // sealed and stored, but the confirmation is lost
    let frames = fleet.seal(&[(0, 25.0)]).unwrap();
    server.take(&frames, 15_000);
    fleet.lost();
    send(&mut fleet, &mut server, &readings, 16_000);
    send(&mut fleet, &mut server, &readings, 25_000);
    let told = [0, 10_000, 20_000].map(|start| {
        let answer = server.answer(start).unwrap();
        fleet.open(start, &answer).unwrap().exact
    });
    assert_eq!(told, [None, None, Some(true)], "the loss was somewhere between 5 s and 16 s");
}

#[test]
fn what_is_no_fleet_no_device_and_no_reading_is_refused_and_told_without_the_reading() {
    for (devices, window_s) in [(4, 10), (61, 10), (10, 0), (10, 3_601)] {
        assert!(matches!(Fleet::new(Wanted { devices, window_s }, &mut rng(6)), Err(FleetError::Wanted(_))));
    }
    let mut fleet = Fleet::new(Wanted { devices: 60, window_s: 1 }, &mut rng(7)).unwrap();
    let told = fleet.told();
    assert_eq!(
        told.objects.iter().map(|object| object.1).sum::<usize>() + fleet.bundle().len() + fleet.order().len(),
        told.bytes
    );
    assert!(told.bytes < 4 << 20 && unhex_lower::<8>(&told.fleet).is_some(), "{} bytes", told.bytes);
    for wrong in [&[(0, 88.0)][..], &[(1, 20.0), (0, -41.0)], &[(0, f64::NAN)]] {
        let error = fleet.seal(wrong).unwrap_err().to_string();
        assert!(error.contains("temperature") && !error.contains("88") && !error.contains("41"), "{error}");
    }
    assert!(matches!(fleet.seal(&[(60, 20.0)]), Err(FleetError::Wanted(_))));
    assert!(matches!(fleet.open(0, b"no answer"), Err(FleetError::Withheld(_))));
    // the server's data has no names, and no key of the key holder
    let text = [fleet.bundle(), fleet.order()].map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()).concat();
    assert!(!text.contains("device-") && !text.contains("temperature") && !text.contains("climate"));
}
