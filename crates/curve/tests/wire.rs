//! Files and packets of version 1 stay readable, and all other bytes are rejected with their
//! reason.

#![allow(clippy::unwrap_used, reason = "a test")]

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use tobari_curve::elgamal::{
    Ciphertexts, Decryptor, Encryptor, EpochSecret, Mode, SecretKey, SharedCiphertexts, SharedDecryptor,
    SharedEncryptor, SharedKey,
};
use tobari_curve::params::{Parameters, RefusedCurve, SecurityFloor};
use tobari_curve::wire::{self, Kind, MemberSet, Payload, RoomId, SumHeader, WireError};
use tobari_curve::{BuiltCurve, Curve, PointEncoding, PointError};
use tobari_octets::LengthError;

const ROOM: RoomId = RoomId(*b"room-one");

fn parameters(curve: Curve) -> Parameters {
    Parameters::new(curve, SecurityFloor::InsecurePaper).unwrap()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn packet(curve: Curve, encoding: PointEncoding) -> Vec<u8> {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let key = SecretKey::generate(parameters(curve), &mut rng);
    let ciphertexts = Encryptor::new(&key.public_key()).encrypt(&[1000, -5, 0], &mut rng).unwrap();
    wire::encode_packet(ROOM, 7, 9, encoding, &ciphertexts)
}

/// The objects of `vectors/wire/v1/NAME.txt`, one a line: kind, or curve, and bytes.
fn vectors(name: &str) -> Vec<(String, Vec<u8>)> {
    let path = format!("{}/../../vectors/wire/v1/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').map(|(kind, bytes)| (kind.to_owned(), unhex(bytes))).unwrap()).collect()
}

fn find(vectors: &[(String, Vec<u8>)], kind: &str) -> Vec<u8> {
    vectors.iter().find(|(found, _)| found == kind).unwrap_or_else(|| panic!("no {kind}")).1.clone()
}

/// The objects of mode `elgamal-shared`, with keys expanded from a seed.
fn shared_objects(curve: Curve, vectors: &[(String, Vec<u8>)]) {
    let key = SharedKey::generate(parameters(curve), 3, &mut ChaCha20Rng::from_seed([10; 32]));
    let decryptor = SharedDecryptor::new(&key, 2000);
    let bytes = find(vectors, "shared-packet");
    let (header, packet) = wire::decode_packet::<SharedCiphertexts>(&bytes, key.parameters()).unwrap();
    let expected = (ROOM, 7, 9, PointEncoding::Compressed, 3);
    assert_eq!((header.room, header.member, header.tick, header.encoding, header.messages), expected);
    assert_eq!(*decryptor.vartime_decrypt(&packet).unwrap(), [1000, -5, 0], "{curve}");
    assert_eq!(wire::encode_packet(ROOM, 7, 9, PointEncoding::Compressed, &packet), bytes, "{curve}");
    let other = wire::decode_packet::<Ciphertexts>(&bytes, key.parameters()).err();
    assert_eq!(other, Some(WireError::Kind { expected: Kind::Packet, found: Kind::SharedPacket as u8 }));
    let bytes = find(vectors, "shared-sum");
    let (header, sum) = wire::decode_sum::<SharedCiphertexts>(&bytes, key.parameters()).unwrap();
    assert_eq!(*decryptor.vartime_decrypt(&sum).unwrap(), [2000, -10, 0], "{curve}");
    assert_eq!(wire::encode_sum(&header, &sum), bytes, "{curve}");
}

#[test]
fn a_second_of_speech_takes_the_bandwidth_that_the_documents_say() {
    for (curve, elgamal, shared) in [(Curve::Secp256k1, 8.3, 4.2), (Curve::NistP256, 8.3, 4.2)] {
        let parameters = parameters(curve);
        let megabits = |bytes: usize| (50 * 8 * bytes) as f64 / 1e6;
        let encoding = PointEncoding::Compressed;
        assert!(megabits(wire::packet_len::<Ciphertexts>(parameters, encoding, 320)) <= elgamal, "{curve}");
        assert!(megabits(wire::packet_len::<SharedCiphertexts>(parameters, encoding, 320)) <= shared, "{curve}");
    }
}

#[test]
fn objects_of_version_1_decode_for_ever_and_to_the_same_bytes() {
    let floor = SecurityFloor::InsecurePaper;
    for curve in BuiltCurve::ALL.map(Curve::from) {
        let vectors = vectors(curve.name());
        let bytes = find(&vectors, "secret-key");
        let key = wire::decode_secret_key(&bytes, floor).unwrap();
        assert_eq!(*wire::encode_secret_key(&key), bytes, "{curve}");
        let bytes = find(&vectors, "public-key");
        let public = wire::decode_public_key(&bytes, floor).unwrap();
        assert!(public == key.public_key(), "{curve}");
        assert_eq!(wire::encode_public_key(&public), bytes, "{curve}");
        let decryptor = Decryptor::new(&key, 131_072);
        for (kind, encoding) in
            [("packet-compressed", PointEncoding::Compressed), ("packet-uncompressed", PointEncoding::Uncompressed)]
        {
            let bytes = find(&vectors, kind);
            let (header, ciphertexts) = wire::decode_packet::<Ciphertexts>(&bytes, key.parameters()).unwrap();
            let expected = (ROOM, 7, 9, encoding, 3);
            assert_eq!((header.room, header.member, header.tick, header.encoding, header.messages), expected);
            assert_eq!(*decryptor.vartime_decrypt(&ciphertexts).unwrap(), [1000, -5, 0], "{curve}");
            assert_eq!(wire::encode_packet(ROOM, 7, 9, encoding, &ciphertexts), bytes, "{curve}");
            assert_eq!(bytes.len(), wire::packet_len::<Ciphertexts>(key.parameters(), encoding, 3));
        }
        let bytes = find(&vectors, "sum");
        let (header, ciphertexts) = wire::decode_sum::<Ciphertexts>(&bytes, key.parameters()).unwrap();
        assert_eq!(header.speakers.iter().collect::<Vec<_>>(), [0, 7, 1023]);
        assert_eq!(header.late.iter().collect::<Vec<_>>(), [8]);
        assert_eq!(*decryptor.vartime_decrypt(&ciphertexts).unwrap(), [2000, -10, 0], "{curve}");
        assert_eq!(wire::encode_sum(&header, &ciphertexts), bytes, "{curve}");
        shared_objects(curve, &vectors);
    }
}

#[test]
fn epoch_secrets_of_version_1_decode_for_ever_and_open_the_packets_of_their_curve() {
    let secrets = vectors("epoch-secrets");
    for curve in BuiltCurve::ALL.map(Curve::from) {
        let bytes = find(&secrets, curve.name());
        assert_eq!(wire::mode_of_secret_key(&bytes), Ok(Mode::ElgamalShared));
        let secret = wire::decode_epoch_secret(&bytes, SecurityFloor::InsecurePaper).unwrap();
        assert_eq!(*wire::encode_epoch_secret(&secret), bytes, "{curve}");
        let packet = find(&vectors(curve.name()), "shared-packet");
        let (_, packet) = wire::decode_packet::<SharedCiphertexts>(&packet, secret.parameters()).unwrap();
        let decrypted = SharedDecryptor::new(&secret.expand(3), 1000).vartime_decrypt(&packet).unwrap();
        assert_eq!(*decrypted, [1000, -5, 0], "{curve}");
    }
}

#[test]
fn every_truncation_and_every_extension_of_a_packet_is_refused() {
    let parameters = parameters(Curve::Secp256k1);
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let shared = SharedEncryptor::new(&SharedKey::generate(parameters, 3, &mut rng));
    let shared = shared.encrypt(&[1000, -5, 0], &mut rng).unwrap();
    for encoding in [PointEncoding::Compressed, PointEncoding::Uncompressed] {
        refuses_every_other_length::<Ciphertexts>(&packet(Curve::Secp256k1, encoding), parameters);
        let bytes = wire::encode_packet(ROOM, 7, 9, encoding, &shared);
        refuses_every_other_length::<SharedCiphertexts>(&bytes, parameters);
    }
}

fn refuses_every_other_length<P: Payload>(bytes: &[u8], parameters: Parameters) {
    for len in 0..bytes.len() {
        let refused = wire::decode_packet::<P>(&bytes[..len], parameters).err();
        assert!(matches!(refused, Some(WireError::Length(LengthError::Truncated { .. }))), "{len}: {refused:?}");
        assert!(wire::decode_packet_header::<P>(&bytes[..len], parameters).is_err(), "{len}");
    }
    let long = [bytes, &[0]].concat();
    assert_eq!(
        wire::decode_packet::<P>(&long, parameters).err(),
        Some(WireError::Length(LengthError::TooLong { extra: 1 }))
    );
    assert_eq!(
        wire::decode_packet_header::<P>(&long, parameters).err(),
        Some(WireError::Length(LengthError::TooLong { extra: 1 }))
    );
}

#[test]
fn a_packet_of_another_version_kind_curve_or_encoding_is_refused() {
    let parameters = parameters(Curve::Secp256k1);
    let bytes = packet(Curve::Secp256k1, PointEncoding::Uncompressed);
    let with = |place: usize, value: u8| {
        let mut changed = bytes.clone();
        changed[place] = value;
        wire::decode_packet::<Ciphertexts>(&changed, parameters).err().unwrap()
    };
    assert_eq!(with(0, 2), WireError::Version(2));
    assert_eq!(with(1, 4), WireError::Kind { expected: Kind::Packet, found: 4 });
    assert_eq!(with(2, 0), WireError::UnknownCurve(0));
    assert_eq!(with(2, 77), WireError::UnknownCurve(77));
    let found = Curve::NistP256;
    assert_eq!(with(2, found.wire_id()), WireError::Curve { expected: Curve::Secp256k1, found });
    assert_eq!(with(3, 2), WireError::Encoding(2));
    assert_eq!(with(12, 0xff), WireError::Malformed("member number"));
    assert_eq!(with(18, 0xff), WireError::Malformed("message count"));
}

#[test]
fn an_off_curve_point_is_refused_at_its_place() {
    let parameters = parameters(Curve::Secp256k1);
    let mut bytes = packet(Curve::Secp256k1, PointEncoding::Uncompressed);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let expected = PointError::NotOnCurve { curve: Curve::Secp256k1, index: 5 };
    assert_eq!(wire::decode_packet::<Ciphertexts>(&bytes, parameters).err(), Some(WireError::Points(expected)));
    assert!(wire::decode_packet_header::<Ciphertexts>(&bytes, parameters).is_ok(), "the head alone touches no point");
}

#[test]
fn member_sets_have_one_form() {
    let parameters = parameters(Curve::Secp256k1);
    let header = SumHeader {
        room: ROOM,
        tick: 1,
        encoding: PointEncoding::Compressed,
        speakers: MemberSet::default(),
        late: MemberSet::default(),
    };
    let bytes = wire::encode_sum(&header, &Ciphertexts::zero(parameters, 1));
    assert_eq!(wire::decode_sum::<Ciphertexts>(&bytes, parameters).unwrap().0, header);
    let place = 3 + 1 + 8 + 4 + 2;
    let mut padded = bytes.clone();
    padded[place + 1] = 1;
    padded.insert(place + 2, 0);
    assert_eq!(wire::decode_sum::<Ciphertexts>(&padded, parameters).err(), Some(WireError::Malformed("member set")));
    let mut huge = bytes;
    huge[place] = 0xff;
    assert_eq!(wire::decode_sum::<Ciphertexts>(&huge, parameters).err(), Some(WireError::Malformed("member set")));
    let mut set = MemberSet::default();
    assert!(set.insert(4095) && !set.insert(4096) && !set.insert(u16::MAX));
    assert_eq!((set.len(), set.contains(4095), set.contains(0)), (1, true, false));
}

#[test]
fn damaged_and_weak_keys_are_refused_without_showing_them() {
    let mut rng = ChaCha20Rng::from_seed([2; 32]);
    let key = SecretKey::generate(parameters(Curve::Secp256k1), &mut rng);
    let bytes = wire::encode_secret_key(&key);
    let decode = |bytes: &[u8]| wire::decode_secret_key(bytes, SecurityFloor::Standard).err();
    for place in 9..41 {
        let mut damaged = bytes.clone();
        damaged[place] ^= 4;
        let error = decode(&damaged).unwrap();
        assert!(matches!(error, WireError::DamagedKey | WireError::Scalar(_)), "{error:?}");
    }
    let mut zero = bytes.clone();
    zero[9..41].fill(0);
    assert_eq!(decode(&zero), Some(WireError::DamagedKey));
    assert_eq!(decode(&bytes[..8]), Some(WireError::Length(LengthError::Truncated { expected: 9, found: 8 })));
    assert_eq!(decode(b"RIFF and so on"), Some(WireError::NotAKeyFile));
    assert_eq!(decode(&[]), Some(WireError::NotAKeyFile));
    let weak = find(&vectors("NIST_P192"), "secret-key");
    assert_eq!(decode(&weak), Some(RefusedCurve::BelowFloor { curve: Curve::NistP192 }.into()));
    let public = wire::encode_public_key(&key.public_key());
    assert!(matches!(decode(&public), Some(WireError::Kind { .. })));
    assert!(wire::decode_public_key(&bytes, SecurityFloor::Standard).is_err(), "a secret key is not a public one");
}

#[test]
fn damaged_and_weak_epoch_secrets_are_refused_without_showing_them() {
    let mut rng = ChaCha20Rng::from_seed([3; 32]);
    let secret = EpochSecret::generate(parameters(Curve::Secp256k1), &mut rng);
    let bytes = wire::encode_epoch_secret(&secret);
    let decode = |bytes: &[u8]| wire::decode_epoch_secret(bytes, SecurityFloor::Standard).err();
    assert_eq!(decode(&bytes), None);
    for place in 9..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 4;
        assert_eq!(decode(&damaged), Some(WireError::DamagedKey), "{place}");
    }
    for length in 0..bytes.len() {
        let refused = decode(&bytes[..length]).unwrap();
        assert!(
            matches!(refused, WireError::Length(LengthError::Truncated { .. }) | WireError::NotAKeyFile),
            "{length}: {refused:?}"
        );
    }
    assert_eq!(decode(&[&bytes[..], &[0]].concat()), Some(WireError::Length(LengthError::TooLong { extra: 1 })));
    let weak = find(&vectors("epoch-secrets"), "NIST_P192");
    assert_eq!(decode(&weak), Some(RefusedCurve::BelowFloor { curve: Curve::NistP192 }.into()));
    let pair = SecretKey::generate(parameters(Curve::Secp256k1), &mut rng);
    let other = wire::encode_secret_key(&pair);
    assert_eq!(decode(&other), Some(WireError::Kind { expected: Kind::EpochSecret, found: 1 }));
    assert_eq!(wire::mode_of_secret_key(&other), Ok(Mode::Elgamal));
    let public = wire::encode_public_key(&pair.public_key());
    let refused = Err(WireError::Kind { expected: Kind::SecretKey, found: 2 });
    assert_eq!(wire::mode_of_secret_key(&public), refused, "a public key decrypts nothing");
    assert_eq!(
        wire::mode_of_secret_key(&bytes[..7]),
        Err(WireError::Length(LengthError::Truncated { expected: 8, found: 7 }))
    );
}

/// The step `features` of `cargo xtask test` runs this: all other steps build with the feature.
#[test]
#[cfg(not(feature = "paper"))]
fn objects_of_curves_that_this_build_lacks_are_refused_by_name() {
    let (floor, secrets) = (SecurityFloor::InsecurePaper, vectors("epoch-secrets"));
    let weak: Vec<Curve> = Curve::ALL.into_iter().filter(|curve| curve.built().is_none()).collect();
    assert_eq!(weak, [Curve::Secp160k1, Curve::P160_1, Curve::Secp192k1, Curve::NistP192]);
    for curve in weak {
        let (not_built, vectors) = (RefusedCurve::NotBuilt { curve }, vectors(curve.name()));
        assert_eq!(Parameters::new(curve, floor).err(), Some(not_built));
        let secret = wire::decode_secret_key(&find(&vectors, "secret-key"), floor).err();
        assert_eq!(secret, Some(not_built.into()));
        let public = wire::decode_public_key(&find(&vectors, "public-key"), floor).err();
        assert_eq!(public, Some(not_built.into()));
        let epoch = wire::decode_epoch_secret(&find(&secrets, curve.name()), floor).err();
        assert_eq!(epoch, Some(not_built.into()));
        let (expected, found) = (Curve::Secp256k1, curve);
        let (other, parameters) = (Some(WireError::Curve { expected, found }), parameters(expected));
        let packet = wire::decode_packet::<Ciphertexts>(&find(&vectors, "packet-compressed"), parameters).err();
        assert_eq!(packet, other);
        let sum = wire::decode_sum::<SharedCiphertexts>(&find(&vectors, "shared-sum"), parameters).err();
        assert_eq!(sum, other);
    }
}
