//! Packets and sums of live rooms stay readable and have the documented lengths. All other bytes
//! are rejected.

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::fmt::Write;
use tobari_call::mask::{EpochKey, Form, MaskReceiver, MaskSender, SessionKey, Tag, TagReceiver, TagSender, Width};
use tobari_call::wire::{self, LiveHeader, LiveLayout, LivePacket, LivePayload, LiveSum};
use tobari_curve::elgamal::{Decryptor, Encryptor, SecretKey, SharedDecryptor, SharedEncryptor, SharedKey};
use tobari_curve::params::{Parameters, SecurityFloor};
use tobari_curve::wire::{MemberSet, RoomId, WireError};
use tobari_curve::{Curve, PointEncoding};
use zeroize::Zeroizing;

const ROOM: RoomId = RoomId(*b"room-one");
const SAMPLES: [[i16; 5]; 2] = [[1000, -5, 0, i16::MIN, i16::MAX], [-1, -5, 7, i16::MIN, i16::MAX]];
const SUM: [i32; 5] = [999, -10, 7, -65_536, 65_534];
/// The members that speak.
const WHO: [u16; 2] = [3, 300];

fn key(byte: u8) -> Zeroizing<[u8; 32]> {
    Zeroizing::new([byte; 32])
}

fn epoch() -> EpochKey {
    EpochKey::from_bytes(&key(1))
}

fn session(place: usize) -> SessionKey {
    SessionKey::from_bytes(&key(2 + place as u8), &key(12 + place as u8))
}

fn layouts() -> Vec<(&'static str, LiveLayout)> {
    let width = |bits| Width::new(bits).unwrap();
    let parameters = Parameters::new(Curve::Secp256k1, SecurityFloor::Standard).unwrap();
    vec![
        ("mask-packed-17", LiveLayout::Mask { width: width(17), form: Form::Packed }),
        ("mask-packed-26", LiveLayout::Mask { width: width(26), form: Form::Packed }),
        ("mask-packed-29", LiveLayout::Mask { width: width(29), form: Form::Packed }),
        ("mask-aligned-26", LiveLayout::Mask { width: width(26), form: Form::Aligned }),
        ("shared-compressed", LiveLayout::ElgamalShared { parameters, encoding: PointEncoding::Compressed }),
        ("shared-uncompressed", LiveLayout::ElgamalShared { parameters, encoding: PointEncoding::Uncompressed }),
        ("elgamal-compressed", LiveLayout::Elgamal { parameters, encoding: PointEncoding::Compressed }),
        ("elgamal-uncompressed", LiveLayout::Elgamal { parameters, encoding: PointEncoding::Uncompressed }),
    ]
}

fn shared_key(layout: LiveLayout) -> SharedKey {
    let LiveLayout::ElgamalShared { parameters, .. } = layout else { panic!("no curve") };
    SharedKey::generate(parameters, 5, &mut ChaCha20Rng::from_seed([9; 32]))
}

fn secret_key(layout: LiveLayout) -> SecretKey {
    let LiveLayout::Elgamal { parameters, .. } = layout else { panic!("no curve") };
    SecretKey::generate(parameters, &mut ChaCha20Rng::from_seed([10; 32]))
}

/// The packets of two members in tick 77 of epoch 4.
fn packets(layout: LiveLayout) -> [LivePacket; 2] {
    [0, 1].map(|place| {
        let samples = SAMPLES[place];
        let (payload, tag) = match layout {
            LiveLayout::Mask { width, .. } => {
                let (masked, tag) = MaskSender::new(epoch(), session(place), width, 0).encrypt(77, &samples).unwrap();
                (LivePayload::Mask(masked), tag)
            }
            LiveLayout::ElgamalShared { .. } => {
                let wide = samples.map(i32::from);
                let mut rng = ChaCha20Rng::from_seed([20 + place as u8; 32]);
                let ciphertexts = SharedEncryptor::new(&shared_key(layout)).encrypt(&wide, &mut rng).unwrap();
                let tag = TagSender::new(epoch(), session(place), 0).tag(77, &wide).unwrap();
                (LivePayload::ElgamalShared(ciphertexts), tag)
            }
            LiveLayout::Elgamal { .. } => {
                let wide = samples.map(i32::from);
                let mut rng = ChaCha20Rng::from_seed([30 + place as u8; 32]);
                let key = secret_key(layout).public_key();
                let ciphertexts = Encryptor::new(&key).encrypt(&wide, &mut rng).unwrap();
                let tag = TagSender::new(epoch(), session(place), 0).tag(77, &wide).unwrap();
                (LivePayload::Elgamal(ciphertexts), tag)
            }
        };
        LivePacket { header: LiveHeader { room: ROOM, member: WHO[place], epoch: 4, tick: 77 }, tag, payload }
    })
}

fn sum(layout: LiveLayout) -> LiveSum {
    let (mut payload, mut tag) = (LivePayload::zero(layout, 5), Tag::default());
    let (mut speakers, mut late) = (MemberSet::default(), MemberSet::default());
    for packet in packets(layout) {
        assert!(payload.add_assign_with(&packet.payload, &mut tobari_curve::Adder::default()));
        tag.add_assign(&packet.tag);
        speakers.insert(packet.header.member);
    }
    late.insert(8);
    LiveSum { room: ROOM, epoch: 4, tick: 77, speakers, late, tag, payload }
}

/// The samples of a sum of points, after the check of its tag.
fn verified(sum: &LiveSum, samples: &[i32]) -> Vec<i32> {
    let who: Vec<u16> = sum.speakers.iter().collect();
    let mut receiver = TagReceiver::new(epoch(), 0);
    WHO.iter().zip([0, 1]).for_each(|(member, place)| receiver.insert(*member, session(place)));
    receiver.verify(sum.tick, &who, samples, &sum.tag).unwrap();
    samples.to_vec()
}

/// Decrypts the sum with the keys.
fn open(layout: LiveLayout, sum: &LiveSum) -> Vec<i32> {
    let who: Vec<u16> = sum.speakers.iter().collect();
    match (&sum.payload, layout) {
        (LivePayload::Mask(masked), LiveLayout::Mask { width, .. }) => {
            let mut receiver = MaskReceiver::new(epoch(), width, 5, 0);
            WHO.iter().zip([0, 1]).for_each(|(member, place)| receiver.insert(*member, session(place)));
            receiver.open(sum.tick, &who, masked, &sum.tag).unwrap().to_vec()
        }
        (LivePayload::ElgamalShared(ciphertexts), layout) => {
            verified(sum, &SharedDecryptor::new(&shared_key(layout), 65_536).vartime_decrypt(ciphertexts).unwrap())
        }
        (LivePayload::Elgamal(ciphertexts), layout) => {
            verified(sum, &Decryptor::new(&secret_key(layout), 65_536).vartime_decrypt(ciphertexts).unwrap())
        }
        _ => panic!("another mode"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn path() -> String {
    format!("{}/../../../vectors/wire/v1/live.txt", env!("CARGO_MANIFEST_DIR"))
}

/// The lines of the file: name, then bytes.
fn vectors() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(path()).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').map(|(name, bytes)| (name.to_owned(), bytes.to_owned())).unwrap()).collect()
}

#[test]
fn live_packets_and_sums_of_version_1_are_written_for_ever_as_they_were() {
    let mut expected = Vec::new();
    for (name, layout) in layouts() {
        let packets = packets(layout);
        for (place, packet) in packets.iter().enumerate() {
            expected.push((format!("packet-{place}-{name}"), hex(&wire::encode_live_packet(layout, packet))));
        }
        expected.push((format!("sum-{name}"), hex(&wire::encode_live_sum(layout, &sum(layout)))));
    }
    if std::env::var_os("TOBARI_WRITE_VECTORS").is_some() && !std::fs::exists(path()).unwrap() {
        let lines: String = expected.iter().map(|(name, bytes)| format!("{name} {bytes}\n")).collect();
        std::fs::write(
            path(),
            format!("# wire format 1: packets and sums of live rooms, five samples each, tick 77 of epoch 4\n{lines}"),
        )
        .unwrap();
    }
    let found = vectors();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
}

#[test]
fn live_sums_of_version_1_decode_for_ever_and_open() {
    for ((name, layout), lines) in layouts().into_iter().zip(vectors().chunks(3)) {
        let bytes = |line: usize| -> Vec<u8> {
            let text = &lines[line].1;
            (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
        };
        for (place, who) in WHO.into_iter().enumerate() {
            let packet = wire::decode_live_packet(layout, &bytes(place)).unwrap();
            assert_eq!((packet.header.member, packet.header.epoch, packet.header.tick), (who, 4, 77), "{name}");
            assert_eq!(wire::decode_live_header(layout, &bytes(place)), Ok((packet.header, 5)));
            assert_eq!(layout.packet_len(5), bytes(place).len());
        }
        let sum = wire::decode_live_sum(layout, &bytes(2)).unwrap();
        assert_eq!(sum.late.iter().collect::<Vec<_>>(), [8]);
        assert_eq!(open(layout, &sum), SUM, "{name}");
        assert_eq!(wire::encode_live_sum(layout, &sum), bytes(2));
        // but no other layout decodes them
        for (other, wrong) in layouts().into_iter().filter(|(_, wrong)| *wrong != layout) {
            assert!(wire::decode_live_packet(wrong, &bytes(0)).is_err(), "{name} as {other}");
            assert!(wire::decode_live_sum(wrong, &bytes(2)).is_err(), "{name} as {other}");
        }
    }
}

#[test]
fn every_truncation_extension_and_changed_head_of_a_live_packet_or_sum_is_refused_or_another_one() {
    for (name, layout) in layouts() {
        let packet = wire::encode_live_packet(layout, &packets(layout)[0]);
        let sum = wire::encode_live_sum(layout, &sum(layout));
        for length in 0..packet.len() {
            assert!(wire::decode_live_packet(layout, &packet[..length]).is_err(), "{name} {length}");
            assert!(wire::decode_live_header(layout, &packet[..length]).is_err(), "{name} {length}");
        }
        (0..sum.len()).for_each(|length| assert!(wire::decode_live_sum(layout, &sum[..length]).is_err()));
        for bytes in [&packet, &sum] {
            let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
            assert!(
                wire::decode_live_packet(layout, &longer).is_err() && wire::decode_live_sum(layout, &longer).is_err()
            );
        }
        for place in 0..4 {
            for flip in 1..=u8::MAX {
                let mut other = packet.clone();
                other[place] ^= flip;
                assert!(wire::decode_live_packet(layout, &other).is_err(), "{name}: byte {place}");
            }
        }
        let mut other = packet.clone();
        other[12] = 0x10; // member 4096 and more
        assert_eq!(wire::decode_live_packet(layout, &other).err(), Some(WireError::Malformed("member number")));
        let mut other = packet;
        other[24..32].fill(0xff); // a number of the tag beyond its prime
        assert_eq!(wire::decode_live_packet(layout, &other).err(), Some(WireError::Malformed("tag")));
    }
}

#[test]
fn a_second_of_live_speech_takes_the_bandwidth_that_the_documents_say() {
    let megabits = |bytes: usize| (50 * 8 * bytes) as f64 / 1e6;
    for (senders, list, most) in [(1024, 128, 0.55), (4096, 512, 0.69)] {
        let layout = LiveLayout::Mask { width: Width::for_senders(senders).unwrap(), form: Form::Packed };
        assert!(megabits(layout.packet_len(321) + 2 + list + 2) <= most, "{senders}");
    }
    let width = Width::new(26).unwrap();
    assert_eq!(LiveLayout::Mask { width, form: Form::Packed }.packet_len(320), 1080);
    assert_eq!(LiveLayout::Mask { width, form: Form::Packed }.packet_len(321), 1084);
    assert_eq!(LiveLayout::Mask { width, form: Form::Aligned }.packet_len(320), 1320);
    let (_, shared) = layouts()[4];
    assert!(megabits(shared.packet_len(321) + 128) <= 4.3);
    let (_, each) = layouts()[6];
    assert!(megabits(each.packet_len(321) + 128) <= 8.4);
}
