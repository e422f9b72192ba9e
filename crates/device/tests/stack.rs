//! Measures the stack of a frame: a thread with a small stack recurses as deep as it can and still
//! encrypts.
//!
//! The test starts itself again as a child that tries one depth and dies if that is too deep. The
//! stack of an encryption is the difference between the greatest depth without work and the
//! greatest depth with an encryption.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use std::hint::black_box;
use std::process::{Command, Stdio};
use tobari_device::{
    Device, DeviceNumber, GCM_FRAME, GcmDevice, InsecureVolatileCounter, P1, P17, Profile, READINGS, Root, Stamp, U25,
    U28,
};

const PROBE: &str = "TOBARI_DEVICE_STACK_PROBE";
const STACK: usize = 256 << 10;
/// Bytes on the stack of one recursion step.
const STEP: usize = 256;

/// Recurses `depth` times and does the work there. Returns the addresses of the first and the last
/// step, from which the size of a step follows.
#[inline(never)]
fn down(depth: usize, work: &mut dyn FnMut()) -> [usize; 2] {
    let held = black_box([depth as u8; STEP]);
    let here = core::ptr::from_ref(&held) as usize;
    if depth == 0 {
        work();
        return [here, here];
    }
    let [_, last] = down(depth - 1, work);
    black_box(&held);
    [here, last]
}

fn seal<P: Profile>() -> Box<dyn FnMut() + Send> {
    let (root, number) = (Root::from_bytes([1; 32]), DeviceNumber::new(1).unwrap());
    let mut device = Box::new(Device::<P, _>::open(&root, number, InsecureVolatileCounter(0)).unwrap());
    let (readings, mut frame) = (Box::new([7; READINGS]), Box::new(P::EMPTY));
    Box::new(move || device.seal_at(Stamp::default().into(), &readings, &mut frame).unwrap())
}

fn seal_gcm() -> Box<dyn FnMut() + Send> {
    let (root, number) = (Root::from_bytes([1; 32]), DeviceNumber::new(1).unwrap());
    let mut device = Box::new(GcmDevice::open(&root, number, InsecureVolatileCounter(0)).unwrap());
    let (readings, mut frame) = (Box::new([7; READINGS]), Box::new([0; GCM_FRAME]));
    Box::new(move || device.seal(&readings, &mut frame).unwrap())
}

/// The child process. It does nothing without the variable, which names the work and the depth.
#[test]
fn probe() {
    let Ok(asked) = std::env::var(PROBE) else { return };
    let (name, depth) = asked.split_once(' ').unwrap();
    let depth: usize = depth.parse().unwrap();
    let mut work = match name {
        "P1" => seal::<P1>(),
        "U25" => seal::<U25>(),
        "P17" => seal::<P17>(),
        "U28" => seal::<U28>(),
        "GCM" => seal_gcm(),
        _ => Box::new(|| ()),
    };
    // work that happens only once is done first
    work();
    let thread = std::thread::Builder::new().stack_size(STACK);
    let [first, last] = thread.spawn(move || down(depth, &mut work)).unwrap().join().unwrap();
    println!("step {}", (first - last) / depth.max(1));
}

/// The size of a step if the child survived.
fn lived(name: &str, depth: usize) -> Option<usize> {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["probe", "--exact", "--nocapture"]).env(PROBE, format!("{name} {depth}"));
    let output = child.stderr(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let step = text.lines().find_map(|line| line.split("step ").nth(1)?.trim().parse().ok());
    step.filter(|_| output.status.success())
}

/// The greatest depth that a child survives, and the bytes of a step.
fn deepest(name: &str) -> (usize, usize) {
    let (mut low, mut high) = (1, STACK / STEP);
    let mut step = lived(name, low).unwrap();
    while high - low > 1 {
        let middle = low.midpoint(high);
        match lived(name, middle) {
            Some(found) => (low, step) = (middle, found),
            None => high = middle,
        }
    }
    (low, step)
}

/// The limit for a frame. Where the AES library handles 64 blocks in parallel, which no device can,
/// it holds copies of them.
fn most(name: &str) -> usize {
    #[cfg(target_arch = "x86_64")]
    if name == "GCM" && is_x86_feature_detected!("vaes") && is_x86_feature_detected!("avx512f") {
        return 12 << 10;
    }
    let _ = name;
    8 << 10
}

#[test]
fn frames_are_sealed_in_eight_kib_of_stack_and_aes_in_twelve_where_it_does_64_blocks_at_once() {
    let (idle, step) = deepest("nothing");
    assert!(step >= STEP && idle * step > STACK / 2, "{idle} steps of {step} bytes");
    for name in ["P1", "U25", "P17", "U28", "GCM"] {
        let used = (idle - deepest(name).0) * step;
        println!("{name}: {used} bytes of stack, within {step}");
        assert!(used < most(name), "{name} takes {used} bytes");
    }
}
