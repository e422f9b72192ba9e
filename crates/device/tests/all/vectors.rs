//! Frames of versions 1 and 2, as written by the releases that fixed the formats. They must decrypt
//! forever, and must be made again with the same bytes.
//!
//! With `TOBARI_WRITE_VECTORS` set, the test writes a missing file.

use std::fmt::Write as _;
use std::path::Path;
use tobari_device::{
    Device, DeviceNumber, GCM_FRAME, GcmDevice, GcmOpener, InsecureVolatileCounter, MacKey, Opener, P1, P17, Profile,
    READINGS, Root, Stamp, U25, U28,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

/// Root, device number, counter, readings.
type Case = ([u8; 32], u32, u32, [u8; READINGS]);

fn cases() -> Vec<Case> {
    vec![
        ([0; 32], 0, 0, [0; READINGS]),
        (core::array::from_fn(|i| i as u8), 0x00ab_cdef, 1, core::array::from_fn(|i| i as u8)),
        ([255; 32], 0x00ff_ffff, (1 << 30) - 1, [255; READINGS]),
    ]
}

fn frame<P: Profile>((root, number, counter, readings): &Case, stamp: Stamp) -> Vec<u8> {
    let (root, number) = (Root::from_bytes(*root), DeviceNumber::new(*number).unwrap());
    let mut frame = P::EMPTY;
    let mut device = Device::<P, _>::open(&root, number, InsecureVolatileCounter(*counter)).unwrap();
    device.seal_at(stamp.into(), readings, &mut frame).unwrap();
    let envelope = MacKey::<P>::from_bytes(&root.mac_key::<P>()).open(frame.as_ref()).unwrap();
    assert_eq!(*Opener::<P>::new(&root).open(&envelope).unwrap(), *readings);
    frame.as_ref().to_vec()
}

fn gcm((root, number, counter, readings): &Case) -> Vec<u8> {
    let (root, number) = (Root::from_bytes(*root), DeviceNumber::new(*number).unwrap());
    let mut frame = [0; GCM_FRAME];
    GcmDevice::open(&root, number, InsecureVolatileCounter(*counter)).unwrap().seal(readings, &mut frame).unwrap();
    assert_eq!(*GcmOpener::new(&root).open(&frame).unwrap().1, *readings);
    frame.to_vec()
}

#[test]
fn frames_of_version_1_open_for_ever_and_are_made_to_the_same_bytes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/device/v1/frames.txt");
    if !path.exists() && std::env::var_os("TOBARI_WRITE_VECTORS").is_some() {
        let mut text = "# profile root device counter readings frame\n".to_owned();
        for case in &cases() {
            let (root, number, counter, readings) = case;
            for (name, frame) in [
                ("P1", frame::<P1>(case, Stamp::default())),
                ("U25", frame::<U25>(case, Stamp::default())),
                ("GCM", gcm(case)),
            ] {
                let (root, readings, frame) = (hex(root), hex(readings), hex(&frame));
                writeln!(text, "{name} {root} {number} {counter} {readings} {frame}").unwrap();
            }
        }
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let mut seen = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        let [name, root, number, counter, readings, expected] = fields[..] else { panic!("six fields") };
        let case = (
            bytes(root).try_into().unwrap(),
            number.parse().unwrap(),
            counter.parse().unwrap(),
            bytes(readings).try_into().unwrap(),
        );
        let found = match name {
            "P1" => frame::<P1>(&case, Stamp::default()),
            "U25" => frame::<U25>(&case, Stamp::default()),
            _ => gcm(&case),
        };
        assert_eq!(hex(&found), expected, "{name}");
        seen += 1;
    }
    assert_eq!(seen, 9);
}

#[test]
fn frames_of_version_2_open_for_ever_and_are_made_to_the_same_bytes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/device/v2/frames.txt");
    let stamps = [(0, 0), (1_798_761_600, 1), ((1 << 40) - 1, (1 << 12) - 1)];
    if !path.exists() && std::env::var_os("TOBARI_WRITE_VECTORS").is_some() {
        let mut text = "# profile root device counter seconds sheet readings frame\n".to_owned();
        for (case, (seconds, sheet)) in cases().iter().zip(stamps) {
            let (root, number, counter, readings) = case;
            let stamp = Stamp::new(seconds, sheet).unwrap();
            for (name, frame) in [("P17", frame::<P17>(case, stamp)), ("U28", frame::<U28>(case, stamp))] {
                let (root, readings, frame) = (hex(root), hex(readings), hex(&frame));
                writeln!(text, "{name} {root} {number} {counter} {seconds} {sheet} {readings} {frame}").unwrap();
            }
        }
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut seen = 0;
    for line in lines {
        let fields: Vec<&str> = line.split(' ').collect();
        let [name, root, number, counter, seconds, sheet, readings, expected] = fields[..] else {
            panic!("eight fields")
        };
        let case = (
            bytes(root).try_into().unwrap(),
            number.parse().unwrap(),
            counter.parse().unwrap(),
            bytes(readings).try_into().unwrap(),
        );
        let stamp = Stamp::new(seconds.parse().unwrap(), sheet.parse().unwrap()).unwrap();
        let found = if name == "P17" { frame::<P17>(&case, stamp) } else { frame::<U28>(&case, stamp) };
        assert_eq!(hex(&found), expected, "{name}");
        seen += 1;
    }
    assert_eq!(seen, 6);
}
