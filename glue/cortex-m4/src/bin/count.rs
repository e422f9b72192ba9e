//! Compares this processor's frames with the vectors, counts the instructions of a frame, and
//! compares the counts of frames that differ in secrets only.
//!
//! QEMU counts instructions, not cycles. So an instruction that takes more cycles for some values
//! than for others would not be seen: on a Cortex-M4 these are divisions, and the step `device`
//! looks for them in the program.

#![no_std]
#![no_main]

use core::hint::black_box;
use cortex_m_rt::entry;
use cortex_m_semihosting::hprintln;
use tobari_cortex_m4::board::{self, Clock, Count};
use tobari_device::{
    Device, DeviceNumber, GCM_FRAME, GcmDevice, InsecureVolatileCounter, NONCE, P1, P17, Profile, READINGS, Root,
    STAMPED_HEAD, Stamp, U25, U28, time_a_frame,
};

/// Pairs of a root and readings that are compared.
const SECRETS: u8 = 24;

fn number() -> DeviceNumber {
    DeviceNumber::new(1).expect("a number below 2^24")
}

fn profile<P: Profile>(clock: &Clock) {
    let root = Root::from_bytes([5; 32]);
    let open = || Device::<P, _>::open(&root, number(), InsecureVolatileCounter(0)).expect("a counter");
    let opening = clock.count(|| drop(black_box(open())));
    let (mut device, stamp) = (open(), P::Stamp::from(Stamp::default()));
    let (readings, mut frame) = ([7; READINGS], P::EMPTY);
    let sealing = clock.count(|| {
        device.seal_at(stamp, black_box(&readings), &mut frame).expect("a counter");
    });
    let time = |secret: u8| {
        // bytes with few ones and with many, and mixed
        let root = Root::from_bytes(core::array::from_fn(|i| secret.wrapping_mul(i as u8 + 11)));
        let readings = core::array::from_fn(|i| match secret % 3 {
            0 => 0,
            1 => 255,
            _ => (i as u8).wrapping_mul(secret),
        });
        clock.count(|| time_a_frame::<P>(black_box(&root), black_box(&readings), &[9; NONCE]))
    };
    let first = time(0);
    for secret in 1..SECRETS {
        let next = time(secret);
        let [first, next] = [first, next].map(|count| (count, count.instructions()));
        assert!(first.0.equals(next.0), "{}: {} instructions, and {} with secret {}", P::NAME, first.1, next.1, secret);
    }
    hprintln!(
        "{} {} to open, {} to seal, equal for {} secrets",
        P::NAME,
        opening.instructions(),
        sealing.instructions(),
        SECRETS
    );
}

fn gcm(clock: &Clock) {
    let root = Root::from_bytes([5; 32]);
    let open = || GcmDevice::open(&root, number(), InsecureVolatileCounter(0)).expect("a counter");
    let opening = clock.count(|| drop(black_box(open())));
    let (mut device, mut frame) = (open(), [0; GCM_FRAME]);
    let sealing = clock.count(|| device.seal(black_box(&[7; READINGS]), &mut frame).expect("a counter"));
    hprintln!("GCM {} to open, {} to seal", opening.instructions(), sealing.instructions());
}

/// The count of a call with a branch on a secret. It is compiled once for all secrets.
#[inline(never)]
fn branch(clock: &Clock, secret: u32) -> Count {
    clock.count(|| {
        if black_box(secret) & 1 == 1 {
            black_box(secret);
        }
    })
}

/// A branch on a secret is seen: without this, equal counts would prove nothing.
fn fault(clock: &Clock) {
    assert!(!branch(clock, 0).equals(branch(clock, 1)), "a branch is seen");
    assert!(branch(clock, 2).equals(branch(clock, 4)), "the same instructions are counted alike");
}

/// The vectors of both versions.
const VECTORS: [&str; 2] = [
    include_str!("../../../../vectors/device/v1/frames.txt"),
    include_str!("../../../../vectors/device/v2/frames.txt"),
];

/// The next word of a line.
fn next<'a>(words: &mut impl Iterator<Item = &'a str>) -> &'a str {
    words.next().expect("a word")
}

fn value<'a>(words: &mut impl Iterator<Item = &'a str>) -> u64 {
    next(words).parse().expect("a number")
}

fn hex(text: &str, bytes: &mut [u8]) {
    assert_eq!(text.len(), 2 * bytes.len());
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hexadecimal digits");
    }
}

/// Makes the frame of a vector again: a line without the name of its profile.
fn vector<'a, P: Profile>(mut words: impl Iterator<Item = &'a str>) {
    let (mut root, mut readings, mut expected, mut frame) = ([0; 32], [0; READINGS], P::EMPTY, P::EMPTY);
    hex(next(&mut words), &mut root);
    let number = DeviceNumber::new(value(&mut words) as u32).expect("a number below 2^24");
    let counter = InsecureVolatileCounter(value(&mut words) as u32);
    let stamp = if P::HEAD == STAMPED_HEAD {
        let seconds = value(&mut words);
        Stamp::new(seconds, value(&mut words) as u16).expect("a time and a sheet")
    } else {
        Stamp::default()
    };
    hex(next(&mut words), &mut readings);
    hex(next(&mut words), expected.as_mut());
    let mut device = Device::<P, _>::open(&Root::from_bytes(root), number, counter).expect("a counter");
    device.seal_at(stamp.into(), &readings, &mut frame).expect("a counter");
    assert!(frame.as_ref() == expected.as_ref(), "{}: the frame of the vector", P::NAME);
}

fn vectors() {
    let mut seen = 0;
    for line in VECTORS.iter().flat_map(|text| text.lines()) {
        let mut words = line.split(' ');
        match words.next() {
            Some(name) if name == P1::NAME => vector::<P1>(words),
            Some(name) if name == U25::NAME => vector::<U25>(words),
            Some(name) if name == P17::NAME => vector::<P17>(words),
            Some(name) if name == U28::NAME => vector::<U28>(words),
            _ => continue,
        }
        seen += 1;
    }
    assert_eq!(seen, 12, "twelve vectors");
    hprintln!("{} frames are those of the vectors", seen);
}

#[entry]
fn main() -> ! {
    let clock = Clock::start().expect("the clock of a board that just started");
    vectors();
    fault(&clock);
    profile::<P1>(&clock);
    profile::<U25>(&clock);
    profile::<P17>(&clock);
    profile::<U28>(&clock);
    gcm(&clock);
    board::end()
}
