//! Frames from outside: their bytes, and whether ingest accepts them.

use tobari_device::{
    CounterError, CounterStore, Device, DeviceNumber, FRAME_LIMIT, GCM_FRAME, GcmDevice, GcmOpener, Head,
    InsecureVolatileCounter, MacKey, Opener, P1, P17, Profile, READINGS, Refused, ReplayWindow, Root, Stamp, U25, U28,
    fuzz_frames, peek,
};

fn root() -> Root {
    Root::from_bytes(core::array::from_fn(|i| i as u8 * 5 + 1))
}

fn number() -> DeviceNumber {
    DeviceNumber::new(0x0003_0201).unwrap()
}

/// The stamp of frames that have one.
fn stamp() -> Stamp {
    Stamp::new(0x0A_0504_0302, 0x0BCD).unwrap()
}

/// A frame of these readings from a device whose counter is `counter`.
fn sealed<P: Profile>(counter: u32, readings: &[u8; READINGS]) -> Vec<u8> {
    let (mut flash, mut frame) = (InsecureVolatileCounter(counter), P::EMPTY);
    let mut device = Device::<P, _>::open(&root(), number(), &mut flash).unwrap();
    device.seal_at(stamp().into(), readings, &mut frame).unwrap();
    frame.as_ref().to_vec()
}

fn every_reading_comes_back<P: Profile>() {
    let (mac, opener) = (MacKey::<P>::from_bytes(&root().mac_key::<P>()), Opener::<P>::new(&root()));
    let mut state = 1u32;
    let random: [u8; READINGS] = core::array::from_fn(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    for readings in [[0; READINGS], [255; READINGS], core::array::from_fn(|i| i as u8), random] {
        for counter in 0..20 {
            let frame = sealed::<P>(counter, &readings);
            let envelope = mac.open(&frame).unwrap();
            let stamp = (P::VERSION == 2).then(stamp);
            assert_eq!(envelope.head(), Head { device: number(), counter, stamp });
            assert_eq!(peek::<P>(&frame), Ok(envelope.head()));
            assert_eq!(*opener.open(&envelope).unwrap(), readings);
        }
    }
}

#[test]
fn every_reading_comes_back_in_every_profile() {
    every_reading_comes_back::<P1>();
    every_reading_comes_back::<U25>();
    every_reading_comes_back::<P17>();
    every_reading_comes_back::<U28>();
    let (mut flash, mut frame) = (InsecureVolatileCounter(7), [0; GCM_FRAME]);
    GcmDevice::open(&root(), number(), &mut flash).unwrap().seal(&[9; READINGS], &mut frame).unwrap();
    let (head, readings) = GcmOpener::new(&root()).open(&frame).unwrap();
    assert_eq!((head.counter, *readings), (7, [9; READINGS]));
}

#[test]
fn frames_have_exactly_the_lengths_that_were_promised() {
    assert_eq!(sealed::<P1>(0, &[1; READINGS]).len(), 553);
    assert_eq!(sealed::<U25>(0, &[1; READINGS]).len(), 840);
    assert_eq!((sealed::<P17>(0, &[1; READINGS]).len(), sealed::<U28>(0, &[1; READINGS]).len()), (560, 943));
    assert_eq!((P1::FRAME, U25::FRAME, GCM_FRAME), (553, 840, 256 + 28));
    assert_eq!((P17::FRAME, U28::FRAME), (560, 943));
    let frame = sealed::<P1>(0x0605_0403, &[1; READINGS]);
    assert_eq!(frame[..8], [0x11, 1, 2, 3, 3, 4, 5, 6], "version 1, profile 1, device, counter");
    let frame = sealed::<U28>(0x0605_0403, &[1; READINGS]);
    let head = [0x24, 1, 2, 3, 3, 4, 5, 6, 2, 3, 4, 5, 0x0A, 0xCD, 0x0B];
    assert_eq!(frame[..15], head, "version 2, profile 4, device, counter, time, sheet");
}

/// The device's computation in the slots of the converting server: `b^ - Σ a^ s^` is the transform
/// of `Δ m + e`.
fn slots_decrypt<P: Profile>() {
    let readings: [u8; READINGS] = core::array::from_fn(|i| (i * 3) as u8);
    let frame = sealed::<P>(3, &readings);
    let envelope = MacKey::<P>::from_bytes(&root().mac_key::<P>()).open(&frame).unwrap();
    let (q, mut secret) = (u64::from(P::MODULUS), vec![[0u64; READINGS]; P::RANK]);
    Opener::<P>::new(&root()).for_each_secret(|i, place, s| secret[i][place] = s.into());
    let mut values = envelope.uniform().body();
    envelope.uniform().for_each(|i, place, a| {
        assert!(u64::from(a) < q);
        values[place] = ((u64::from(values[place]) + q * q - u64::from(a) * secret[i][place]) % q) as u32;
    });
    Opener::<P>::coefficients(&mut values);
    assert_eq!(values, *Opener::<P>::new(&root()).phase(&envelope));
    for (value, reading) in values.iter().zip(readings) {
        let noise = i64::from(*value) - i64::from(P::DELTA) * i64::from(reading);
        assert!(noise.abs() <= 3 || (noise - q as i64).abs() <= 3);
    }
}

#[test]
fn taking_the_secret_off_slot_by_slot_leaves_the_transform_of_the_readings_and_noise() {
    slots_decrypt::<P1>();
    slots_decrypt::<U25>();
    slots_decrypt::<P17>();
    slots_decrypt::<U28>();
}

fn tampering_is_refused<P: Profile>() {
    let mac = MacKey::<P>::from_bytes(&root().mac_key::<P>());
    let frame = sealed::<P>(3, &[77; READINGS]);
    for bit in (0..frame.len() * 8).step_by(if cfg!(debug_assertions) { 3 } else { 1 }) {
        let mut changed = frame.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let refused = mac.open(&changed).map(|_| ()).unwrap_err();
        match bit / 8 {
            0 => assert!(matches!(refused, Refused::Version { .. } | Refused::Profile { .. })),
            // no device writes a sheet of 13 bits and more
            14 if P::VERSION == 2 && bit % 8 > 3 => assert_eq!(refused, Refused::Malformed),
            _ => assert_eq!(refused, Refused::Mac, "bit {bit}"),
        }
    }
    for length in [0, 1, 8, frame.len() - 1, frame.len() + 1] {
        let mut other = frame.clone();
        other.resize(length, 0);
        assert_eq!(mac.open(&other).map(|_| ()).unwrap_err(), Refused::Length { expected: P::FRAME, found: length });
    }
    let other = MacKey::<P>::from_bytes(&Root::from_bytes([8; 32]).mac_key::<P>());
    assert_eq!(other.open(&frame).map(|_| ()).unwrap_err(), Refused::Mac);
}

#[test]
fn every_changed_bit_and_every_other_length_is_refused() {
    tampering_is_refused::<P1>();
    tampering_is_refused::<U25>();
    tampering_is_refused::<P17>();
    tampering_is_refused::<U28>();
    let (mut flash, mut frame) = (InsecureVolatileCounter(0), [0; GCM_FRAME]);
    GcmDevice::open(&root(), number(), &mut flash).unwrap().seal(&[9; READINGS], &mut frame).unwrap();
    for bit in 8..frame.len() * 8 {
        let mut changed = frame;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(GcmOpener::new(&root()).open(&changed).is_err());
    }
    assert!(matches!(GcmOpener::new(&root()).open(&frame[1..]), Err(Refused::Length { .. })));
}

#[test]
fn at_the_limit_of_its_key_a_device_refuses_to_seal() {
    let mut flash = InsecureVolatileCounter(FRAME_LIMIT - 1);
    let mut device = Device::<P1, _>::open(&root(), number(), &mut flash).unwrap();
    let (mut frame, before) = (P1::EMPTY, P1::EMPTY);
    device.seal(&[1; READINGS], &mut frame).unwrap();
    let mut untouched = before;
    assert_eq!(device.seal(&[1; READINGS], &mut untouched), Err(CounterError::Exhausted));
    assert_eq!(untouched, before, "nothing was written");
    let mut again = GcmDevice::open(&root(), number(), &mut flash).unwrap();
    assert_eq!(again.seal(&[1; READINGS], &mut [0; GCM_FRAME]), Err(CounterError::Exhausted), "nor after a restart");
}

/// Storage with a crash before or after a write.
#[derive(Default)]
struct Flash {
    kept: u32,
    /// The number of writes before it fails, and whether the failed write is stored.
    fails: Option<(u32, bool)>,
}

impl CounterStore for Flash {
    type Error = &'static str;

    fn load(&mut self) -> Result<u32, Self::Error> {
        Ok(self.kept)
    }

    fn store(&mut self, next: u32) -> Result<(), Self::Error> {
        match self.fails {
            Some((0, written)) => {
                self.kept = if written { next } else { self.kept };
                return Err("a crash");
            }
            Some((left, written)) => self.fails = Some((left - 1, written)),
            None => {}
        }
        self.kept = next;
        Ok(())
    }
}

/// The number of different nonces, and of frames, of a device that restarts after some frames; its
/// storage may crash in between.
fn nonces(mut seal: impl FnMut(&mut Flash, u32, u32) -> Vec<Vec<u8>>, put_back: bool) -> (usize, usize) {
    let (mut flash, mut nonces, mut frames) = (Flash::default(), std::collections::BTreeSet::new(), 0);
    for restart in 0..60u32 {
        let kept = flash.kept;
        flash.fails =
            [None, Some((0, false)), Some((0, true)), Some((1, false)), Some((1, true))][restart as usize % 5];
        let sealed = seal(&mut flash, restart, restart * 37 % 150);
        frames += sealed.len();
        nonces.extend(sealed);
        if put_back && restart % 7 == 6 {
            flash.kept = kept; // a copy from before
        }
    }
    assert!(frames > 1_000, "{frames}");
    (nonces.len(), frames)
}

/// Different readings each time, so that a repeated nonce would belong to another message.
fn some(restart: u32, i: u32) -> [u8; READINGS] {
    let mut readings = [0; READINGS];
    (readings[0], readings[1]) = (restart as u8, i as u8);
    readings
}

fn synthetic<P: Profile>(flash: &mut Flash, restart: u32, count: u32) -> Vec<Vec<u8>> {
    let mut device = Device::<P, _>::open(&root(), number(), flash).unwrap();
    let mut seal = |i| {
        let mut frame = P::EMPTY;
        let nonce = P::HEAD..P::HEAD + 16;
        device.seal_at(stamp().into(), &some(restart, i), &mut frame).ok().map(|()| frame.as_ref()[nonce].to_vec())
    };
    (0..count).map_while(&mut seal).collect()
}

fn counted(flash: &mut Flash, restart: u32, count: u32) -> Vec<Vec<u8>> {
    let mut device = GcmDevice::open(&root(), number(), flash).unwrap();
    let mut seal = |i| {
        let mut frame = [0; GCM_FRAME];
        device.seal(&some(restart, i), &mut frame).ok().map(|()| frame[..12].to_vec())
    };
    (0..count).map_while(&mut seal).collect()
}

#[test]
fn no_nonce_repeats_across_restarts_and_crashes_nor_those_of_lattices_when_storage_is_put_back() {
    for put_back in [false, true] {
        for (found, frames) in [nonces(synthetic::<P1>, put_back), nonces(synthetic::<U28>, put_back)] {
            assert_eq!(found, frames);
        }
    }
    let (found, frames) = nonces(counted, false);
    assert_eq!(found, frames);
    // this is why the counter has a contract: AES-GCM has no other protection
    let (found, frames) = nonces(counted, true);
    assert!(found < frames);
}

#[test]
fn a_replay_window_takes_each_counter_once_whatever_the_order() {
    let mut window = ReplayWindow::default();
    let order = [0, 2, 1, 262, 10, 261, 7, 263, 800, 545, u32::MAX, u32::MAX - 255];
    for counter in order {
        assert_eq!(window.admit(counter), Ok(()), "{counter}");
        assert_eq!(window.admit(counter), Err(Refused::Replayed), "{counter}");
    }
    for old in [0, 6, 544, 800, u32::MAX - 256, u32::MAX - 255, u32::MAX] {
        assert_eq!(window.admit(old), Err(Refused::Replayed), "{old}");
    }
}

#[test]
fn any_bytes_are_refused_or_are_what_a_device_writes() {
    for length in [0, 7, 24, 284, 553, 560, 840, 943] {
        for filler in [0, 1, 0x11, 0x12, 0x13, 0x24, 0x25, 255] {
            let mut bytes = vec![filler; length];
            fuzz_frames(&bytes);
            for first in [0x11, 0x12, 0x13, 0x24, 0x25] {
                if let Some(byte) = bytes.first_mut() {
                    *byte = first;
                }
                fuzz_frames(&bytes);
            }
        }
    }
    for frame in [sealed::<P1>(0, &[3; READINGS]), sealed::<U25>(0, &[3; READINGS])] {
        fuzz_frames(&frame);
    }
    for frame in [sealed::<P17>(0, &[3; READINGS]), sealed::<U28>(0, &[3; READINGS])] {
        fuzz_frames(&frame);
    }
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/device_frames");
    for file in std::fs::read_dir(corpus).unwrap() {
        fuzz_frames(&std::fs::read(file.unwrap().path()).unwrap());
    }
}

/// A frame of an older version, made with the same root, is no frame of a fleet with a newer one,
/// even if its first byte and length are changed: each profile has keys of its own.
#[test]
fn a_frame_of_version_1_is_none_of_version_2() {
    let (old, mac) = (sealed::<P1>(3, &[1; READINGS]), MacKey::<P17>::from_bytes(&root().mac_key::<P17>()));
    assert_eq!(peek::<P17>(&old), Err(Refused::Length { expected: 560, found: 553 }));
    let mut longer = old.clone();
    longer.splice(8..8, [0; 7]);
    assert_eq!(peek::<P17>(&longer), Err(Refused::Version { expected: 2, found: 1 }));
    longer[0] = 0x21;
    assert_eq!(peek::<P17>(&longer), Err(Refused::Profile { expected: 5, found: 1 }));
    longer[0] = 0x25;
    assert_eq!(mac.open(&longer).map(|_| ()).unwrap_err(), Refused::Mac);
    let keys = [root().mac_key::<P1>(), root().mac_key::<P17>(), root().mac_key::<U25>(), root().mac_key::<U28>()];
    assert!((0..4).all(|i| (0..i).all(|j| keys[i] != keys[j])));
}
