//! Measures the time for a frame on this machine: the minimum and the median of many, for each
//! profile.
//!
//!     cargo run --release -p tobari-device --example measure

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example that reports")]

use std::hint::black_box;
use std::time::Instant;
use tobari_device::{
    Device, DeviceNumber, GCM_FRAME, GcmDevice, InsecureVolatileCounter, MacKey, Opener, P1, P17, Profile, Root, Stamp,
    U25, U28,
};

/// Microseconds of one call: the minimum and the median over runs of 64 calls.
fn measure(mut work: impl FnMut()) -> (f64, f64) {
    let mut times: Vec<f64> = (0..300)
        .map(|_| {
            let start = Instant::now();
            (0..64).for_each(|_| work());
            start.elapsed().as_secs_f64() * 1e6 / 64.0
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[0], times[times.len() / 2])
}

fn report(what: &str, (least, median): (f64, f64)) {
    println!("{what:<24} {least:8.2} us least {median:8.2} us median");
}

fn profile<P: Profile>(root: &Root, number: DeviceNumber) {
    let mut device = Device::<P, _>::open(root, number, InsecureVolatileCounter(0)).unwrap();
    let (readings, stamp, mut frame) = ([7; 256], P::Stamp::from(Stamp::default()), P::EMPTY);
    report(&format!("{} seal", P::NAME), measure(|| device.seal_at(stamp, black_box(&readings), &mut frame).unwrap()));
    let key = MacKey::<P>::from_bytes(&root.mac_key::<P>());
    report(&format!("{} ingest", P::NAME), measure(|| drop(black_box(key.open(black_box(frame.as_ref()))))));
    let (envelope, opener) = (key.open(frame.as_ref()).unwrap(), Opener::<P>::new(root));
    report(&format!("{} open", P::NAME), measure(|| drop(black_box(opener.open(black_box(&envelope))))));
    let draw = || {
        let mut sum = 0;
        envelope.uniform().for_each(|_, _, a| sum ^= a);
        black_box((sum, envelope.uniform().body()));
    };
    report(&format!("{} uniform half", P::NAME), measure(draw));
}

fn main() {
    let (root, number) = (Root::from_bytes([5; 32]), DeviceNumber::new(1).unwrap());
    profile::<P1>(&root, number);
    profile::<U25>(&root, number);
    profile::<P17>(&root, number);
    profile::<U28>(&root, number);
    let mut device = GcmDevice::open(&root, number, InsecureVolatileCounter(0)).unwrap();
    let mut frame = [0; GCM_FRAME];
    report("AES-128-GCM seal", measure(|| device.seal(black_box(&[7; 256]), &mut frame).unwrap()));
}
