//! Speakers, a blind room and listeners together, by wire bytes only, and the input that each
//! rejects.

use std::{sync::Arc, time::Duration};

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use tobari_call::PACKET_SAMPLES;
use tobari_call::client::{Decrypt, Encrypt, ListenError, Listener, SpeakError, Speaker};
use tobari_call::messages::{Code, Join, Pace, Welcome};
use tobari_call::program::{frame, mix, ticks};
use tobari_call::server::{Event, Fault, Limits, Room, Uplink};
use tobari_curve::{
    BuiltCurve, Curve, PointEncoding,
    elgamal::{
        Ciphertexts, Decryptor, EncryptError, Encryptor, Mode, SAMPLE_BOUND, SecretKey, SharedCiphertexts,
        SharedDecryptor, SharedEncryptor, SharedKey,
    },
    params::{Parameters, SecurityFloor},
    wire::{self, MemberSet, RoomId, SumHeader},
};

const ROOM: RoomId = RoomId(*b"the room");

struct Keys {
    encryptor: Arc<Encryptor>,
    decryptor: Arc<Decryptor>,
    rng: ChaCha20Rng,
}

fn keys(curve: Curve, speakers: u32) -> Keys {
    let mut rng = ChaCha20Rng::from_seed([9; 32]);
    let key = SecretKey::generate(parameters(curve), &mut rng);
    let decryptor = Decryptor::new(&key, speakers * SAMPLE_BOUND.unsigned_abs());
    Keys { encryptor: Arc::new(Encryptor::new(&key.public_key())), decryptor: Arc::new(decryptor), rng }
}

fn parameters(curve: Curve) -> Parameters {
    Parameters::new(curve, SecurityFloor::InsecurePaper).unwrap()
}

fn welcome(member: u16) -> Welcome {
    Welcome { room: ROOM, member, tick: 0, window: 32 }
}

/// The key that all members hold in mode `elgamal-shared`.
fn shared_keys(curve: Curve, speakers: u32) -> (Arc<SharedEncryptor>, Arc<SharedDecryptor>) {
    let key = SharedKey::generate(parameters(curve), PACKET_SAMPLES, &mut ChaCha20Rng::from_seed([8; 32]));
    let decryptor = SharedDecryptor::new(&key, speakers * SAMPLE_BOUND.unsigned_abs());
    (Arc::new(SharedEncryptor::new(&key)), Arc::new(decryptor))
}

/// Mixes the recordings in this mode.
fn mix_blindly(mode: Mode, curve: Curve, recordings: &[&[i16]]) -> Vec<i32> {
    let speakers = u32::try_from(recordings.len()).unwrap();
    match mode {
        Mode::Elgamal => {
            let Keys { encryptor, decryptor, .. } = keys(curve, speakers);
            mix_with(mode, &encryptor, &decryptor, recordings)
        }
        Mode::ElgamalShared => {
            let (encryptor, decryptor) = shared_keys(curve, speakers);
            mix_with(mode, &encryptor, &decryptor, recordings)
        }
    }
}

/// Encrypts every recording, mixes the bytes in a room, and decrypts the sums.
fn mix_with<E: Encrypt, D: Decrypt>(
    mode: Mode,
    encryptor: &Arc<E>,
    decryptor: &Arc<D>,
    recordings: &[&[i16]],
) -> Vec<i32> {
    let mut rng = ChaCha20Rng::from_seed([7; 32]);
    let pace = Pace::Lockstep { members: u16::try_from(recordings.len()).unwrap() };
    let join = Join { mode, ..Join::new(pace, decryptor.parameters().curve()) };
    let floor = SecurityFloor::InsecurePaper;
    let mut room = Room::open(ROOM, &join, floor, Limits::default(), Duration::ZERO).unwrap();
    let welcomes: Vec<_> = recordings.iter().map(|_| room.join(&join, Duration::ZERO).unwrap()).collect();
    let speaker = |welcome| Speaker::new(Arc::clone(encryptor), welcome, PointEncoding::Compressed);
    let mut speakers: Vec<_> = welcomes.iter().map(speaker).collect();
    let mut listener = Listener::new(Arc::clone(decryptor), &welcomes[0]);
    let longest = recordings.iter().map(|recording| ticks(recording.len())).max().unwrap();
    let mut heard = Vec::new();
    for tick in 0..longest {
        for (speaker, (welcome, recording)) in speakers.iter_mut().zip(welcomes.iter().zip(recordings)) {
            let frame = frame(recording, tick);
            let packet = speaker.packet(u32::try_from(tick).unwrap(), &frame, &mut rng).unwrap();
            let (tick, ciphertexts) = room.uplink(welcome).decode(&packet).unwrap();
            room.packet(welcome.member, tick, ciphertexts);
        }
        let Some(Event::Closed(closed)) = room.poll(Duration::ZERO) else { panic!("tick {tick} does not close") };
        let mixed = listener.open(&closed.encode(PointEncoding::Compressed)).unwrap();
        assert_eq!(mixed.header.speakers.len(), recordings.len());
        heard.extend_from_slice(&mixed.samples);
    }
    heard
}

/// The plaintext sum, with silence up to the end of its last packet.
fn mix_plainly(recordings: &[&[i16]]) -> Vec<i32> {
    let mut sum = mix(recordings);
    sum.resize(ticks(sum.len()) * PACKET_SAMPLES, 0);
    sum
}

/// Something like a voice: loud, of both signs, different for each speaker.
fn recording(speaker: i32, length: i32) -> Vec<i16> {
    (0..length).map(|i| i16::try_from((i * i * 7 + speaker * 9973 + i * 131) % 65_536 - 32_768).unwrap()).collect()
}

#[test]
fn the_decrypted_mix_equals_the_plain_sum_for_speakers_of_different_lengths() {
    let recordings = [recording(1, 700), recording(2, 1), recording(3, 320), vec![0; 640]];
    let recordings: Vec<&[i16]> = recordings.iter().map(Vec::as_slice).collect();
    for mode in Mode::ALL {
        assert_eq!(mix_blindly(mode, Curve::Secp256k1, &recordings), mix_plainly(&recordings), "{mode}");
    }
}

#[test]
fn full_scale_and_silence_are_exact_on_every_curve() {
    let (loudest, most, silence) = ([i16::MIN; 320], [i16::MAX; 320], [0; 320]);
    for (mode, curve) in Mode::ALL.into_iter().flat_map(|mode| BuiltCurve::ALL.map(|curve| (mode, curve.into()))) {
        assert_eq!(mix_blindly(mode, curve, &[&loudest, &loudest]), [-65_536; 320], "{mode}, {curve}");
        assert_eq!(mix_blindly(mode, curve, &[&most, &silence, &most]), [65_534; 320], "{mode}, {curve}");
        assert_eq!(mix_blindly(mode, curve, &[&silence, &silence]), silence.map(i32::from), "{mode}, {curve}");
    }
}

#[test]
fn eight_and_sixty_four_speakers_are_mixed_exactly() {
    for (mode, count) in Mode::ALL.into_iter().flat_map(|mode| [(mode, 8), (mode, 64)]) {
        let voices: Vec<Vec<i16>> = (0..count).map(|speaker| recording(speaker, 320)).collect();
        let voices: Vec<&[i16]> = voices.iter().map(Vec::as_slice).collect();
        assert_eq!(mix_blindly(mode, Curve::Secp256k1, &voices), mix_plainly(&voices), "{mode}, {count}");
    }
}

#[test]
fn a_packet_has_two_points_a_sample_and_no_plain_sample_in_it() {
    let mut keys = keys(Curve::Secp256k1, 1);
    let voice = recording(5, 320);
    let frame = frame(&voice, 0);
    let mut speaker = Speaker::new(Arc::clone(&keys.encryptor), &welcome(0), PointEncoding::Compressed);
    let packet = speaker.packet(0, &frame, &mut keys.rng).unwrap();
    assert!(packet.len() >= 2 * 320 * 32);
    for samples in voice.windows(4) {
        for plain in [i16::to_le_bytes as fn(i16) -> [u8; 2], i16::to_be_bytes] {
            let bytes: Vec<u8> = samples.iter().flat_map(|&sample| plain(sample)).collect();
            assert!(!packet.windows(8).any(|window| window == bytes));
        }
    }
    let silent = speaker.packet(1, &[0; 320], &mut keys.rng).unwrap();
    assert_eq!(silent.len(), packet.len(), "silence looks like speech");
}

#[test]
fn a_speaker_never_sends_a_tick_twice_nor_goes_back() {
    let mut keys = keys(Curve::Secp256k1, 1);
    let late = Welcome { tick: 5, ..welcome(0) };
    let mut speaker = Speaker::new(Arc::clone(&keys.encryptor), &late, PointEncoding::Compressed);
    let mut speak = |tick| speaker.packet(tick, &[0; 320], &mut keys.rng).map(|packet| packet.len());
    let refused = |tick, next| Err(SpeakError::Tick { tick, next });
    assert_eq!(speak(4), refused(4, Some(5)));
    assert!(speak(5).is_ok());
    assert_eq!(speak(5), refused(5, Some(6)));
    assert!(speak(9).is_ok());
    assert_eq!(speak(6), refused(6, Some(10)));
    assert!(speak(u32::MAX).is_ok());
    assert_eq!(speak(u32::MAX), refused(u32::MAX, None));
    assert_eq!(speak(0), refused(0, None));
}

#[test]
fn a_speaker_refuses_other_lengths_and_samples_out_of_range_and_keeps_the_tick() {
    let mut keys = keys(Curve::Secp256k1, 1);
    let mut speaker = Speaker::new(Arc::clone(&keys.encryptor), &welcome(0), PointEncoding::Compressed);
    for found in [0, 319, 321] {
        let spoken = speaker.packet(0, &vec![0; found], &mut keys.rng);
        assert_eq!(spoken, Err(SpeakError::Samples { found }));
    }
    let mut samples = [32_768; 320];
    samples[17] = -32_769;
    assert!(matches!(
        speaker.packet(0, &samples, &mut keys.rng),
        Err(SpeakError::Encrypt(EncryptError::Range { index: 17 }))
    ));
    samples[17] = -32_768;
    assert!(speaker.packet(0, &samples, &mut keys.rng).is_ok());
}

#[test]
fn a_listener_refuses_another_room_a_rewound_tick_another_length_and_another_curve() {
    let keys = keys(Curve::Secp256k1, 1);
    let mut listener = Listener::new(Arc::clone(&keys.decryptor), &Welcome { tick: 3, ..welcome(0) });
    let sum = |room, tick, curve, samples| {
        let (speakers, late) = (MemberSet::default(), MemberSet::default());
        let header = SumHeader { room, tick, encoding: PointEncoding::Compressed, speakers, late };
        wire::encode_sum(&header, &Ciphertexts::zero(parameters(curve), samples))
    };
    let k1 = Curve::Secp256k1;
    let mut open = |bytes: &[u8]| listener.open(bytes).map(|mixed| mixed.samples.to_vec());
    assert_eq!(open(&sum(RoomId(*b"their rm"), 3, k1, 320)), Err(ListenError::Room));
    assert_eq!(open(&sum(ROOM, 2, k1, 320)), Err(ListenError::Tick { tick: 2, next: Some(3) }));
    assert_eq!(open(&sum(ROOM, 3, k1, 319)), Err(ListenError::Samples { found: 319 }));
    assert!(matches!(open(&sum(ROOM, 3, Curve::NistP256, 320)), Err(ListenError::Wire(_))));
    assert!(matches!(open(&sum(ROOM, 3, k1, 320)[1..]), Err(ListenError::Wire(_))));
    assert_eq!(open(&sum(ROOM, 3, k1, 320)), Ok(vec![0; 320]));
    assert_eq!(open(&sum(ROOM, 3, k1, 320)), Err(ListenError::Tick { tick: 3, next: Some(4) }));
    assert_eq!(open(&sum(ROOM, u32::MAX, k1, 320)), Ok(vec![0; 320]));
    assert_eq!(open(&sum(ROOM, u32::MAX, k1, 320)), Err(ListenError::Tick { tick: u32::MAX, next: None }));
}

#[test]
fn a_listener_with_another_key_hears_nothing_at_all() {
    let mut keys = keys(Curve::Secp256k1, 1);
    let packet = keys.encryptor.encrypt(&[100; 320], &mut keys.rng).unwrap();
    let (speakers, late) = (MemberSet::default(), MemberSet::default());
    let header = SumHeader { room: ROOM, tick: 0, encoding: PointEncoding::Compressed, speakers, late };
    let sum = wire::encode_sum(&header, &packet);
    let stranger = SecretKey::generate(parameters(Curve::Secp256k1), &mut keys.rng);
    let mut listener = Listener::new(Arc::new(Decryptor::new(&stranger, 32_768)), &welcome(0));
    assert!(matches!(listener.open(&sum), Err(ListenError::Decrypt(_))));
}

#[test]
fn an_uplink_refuses_whatever_is_not_its_members_packet() {
    let mut keys = keys(Curve::Secp256k1, 1);
    let ciphertexts = keys.encryptor.encrypt(&[1; 320], &mut keys.rng).unwrap();
    let uplink = Uplink::new(parameters(Curve::Secp256k1), Mode::Elgamal, &welcome(7), PACKET_SAMPLES);
    let encode =
        |room, member, encoding, ciphertexts: &Ciphertexts| wire::encode_packet(room, member, 4, encoding, ciphertexts);
    let code = |packet: &[u8]| uplink.decode(packet).map(|(tick, _)| tick).map_err(|fault| fault.code());
    let good = encode(ROOM, 7, PointEncoding::Uncompressed, &ciphertexts);
    assert_eq!(code(&good), Ok(4));
    assert_eq!(code(&encode(ROOM, 7, PointEncoding::Compressed, &ciphertexts)), Ok(4));
    assert_eq!(code(&encode(RoomId([0; 8]), 7, PointEncoding::Compressed, &ciphertexts)), Err(Code::Room));
    assert_eq!(code(&encode(ROOM, 8, PointEncoding::Compressed, &ciphertexts)), Err(Code::Member));
    let shorter = Ciphertexts::zero(parameters(Curve::Secp256k1), 319);
    assert_eq!(code(&encode(ROOM, 7, PointEncoding::Compressed, &shorter)), Err(Code::Packet));
    let other = Ciphertexts::zero(parameters(Curve::NistP256), 320);
    assert_eq!(code(&encode(ROOM, 7, PointEncoding::Compressed, &other)), Err(Code::Curve));
    for length in [0, 1, 19, 20, good.len() - 1] {
        assert_eq!(code(&good[..length]), Err(Code::Packet), "{length}");
    }
    assert_eq!(code(&[&good[..], &[0]].concat()), Err(Code::Packet));
    let damaged = |place: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[place] = byte;
        code(&bytes)
    };
    assert_eq!(damaged(0, 2), Err(Code::Version));
    assert_eq!(damaged(1, 4), Err(Code::Packet));
    assert_eq!(damaged(2, 200), Err(Code::Curve));
    assert_eq!(damaged(3, 9), Err(Code::Packet));
    let last = good.len() - 1;
    let off_curve = [damaged(last - 1, !good[last - 1]), damaged(last / 2, !good[last / 2])];
    assert_eq!(off_curve, [Err(Code::Point), Err(Code::Point)]);
}

#[test]
fn an_uplink_of_mode_elgamal_shared_refuses_every_piece_of_a_packet_and_every_other_object() {
    let (encryptor, _) = shared_keys(Curve::Secp256k1, 1);
    let mut rng = ChaCha20Rng::from_seed([6; 32]);
    let uplink = Uplink::new(parameters(Curve::Secp256k1), Mode::ElgamalShared, &welcome(7), PACKET_SAMPLES);
    let code = |packet: &[u8]| uplink.decode(packet).map(|(tick, _)| tick).map_err(|fault| fault.code());
    let mut speaker = Speaker::new(encryptor, &welcome(7), PointEncoding::Uncompressed);
    let good = speaker.packet(4, &[1; PACKET_SAMPLES], &mut rng).unwrap();
    assert_eq!((code(&good), good.len()), (Ok(4), 20 + 64 * 321));
    for length in 0..good.len() {
        assert_eq!(uplink.check(&good[..length]).map_err(|fault| fault.code()), Err(Code::Packet), "{length}");
    }
    assert_eq!(code(&[&good[..], &[0]].concat()), Err(Code::Packet));
    let damaged = |place: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[place] = byte;
        code(&bytes)
    };
    assert_eq!([damaged(0, 2), damaged(2, 200)], [Err(Code::Version), Err(Code::Curve)]);
    assert_eq!([damaged(1, 3), damaged(1, 6), damaged(3, 9), damaged(19, 63)], [Err(Code::Packet); 4]);
    assert_eq!([damaged(4, 0), damaged(13, 8)], [Err(Code::Room), Err(Code::Member)]);
    let last = good.len() - 1;
    assert_eq!([damaged(last - 1, !good[last - 1]), damaged(40, !good[40])], [Err(Code::Point); 2]);
}

#[test]
fn a_packet_in_another_mode_does_not_pass_an_uplink_nor_its_sum_a_listener() {
    let keys = keys(Curve::Secp256k1, 1);
    let parameters = parameters(Curve::Secp256k1);
    let (elgamal, shared) = (Ciphertexts::zero(parameters, 320), SharedCiphertexts::zero(parameters, 320));
    let encoding = PointEncoding::Compressed;
    let packets =
        [wire::encode_packet(ROOM, 0, 0, encoding, &elgamal), wire::encode_packet(ROOM, 0, 0, encoding, &shared)];
    for (i, mode) in Mode::ALL.into_iter().enumerate() {
        let uplink = Uplink::new(parameters, mode, &welcome(0), PACKET_SAMPLES);
        assert!(uplink.decode(&packets[i]).is_ok(), "{mode}");
        let refused = uplink.decode(&packets[1 - i]).map(|(tick, _)| tick);
        assert!(matches!(&refused, Err(Fault::Wire(_))), "{mode}: {refused:?}");
    }
    let (speakers, late) = (MemberSet::default(), MemberSet::default());
    let header = SumHeader { room: ROOM, tick: 0, encoding, speakers, late };
    let mut listener = Listener::new(keys.decryptor, &welcome(0));
    let refused = listener.open(&wire::encode_sum(&header, &shared)).map(|mixed| mixed.samples.to_vec());
    assert!(matches!(refused, Err(ListenError::Wire(_))), "{refused:?}");
    assert!(listener.open(&wire::encode_sum(&header, &elgamal)).is_ok());
}

#[test]
fn the_cheap_check_finds_all_but_the_points() {
    let uplink = Uplink::new(parameters(Curve::Secp256k1), Mode::Elgamal, &welcome(0), PACKET_SAMPLES);
    let nothing = Ciphertexts::zero(parameters(Curve::Secp256k1), 320);
    let mut packet = wire::encode_packet(ROOM, 0, 0, PointEncoding::Uncompressed, &nothing);
    let end = packet.len();
    packet[end - 40..].fill(0x55);
    assert!(uplink.check(&packet).is_ok());
    assert!(matches!(uplink.decode(&packet).map(|_| ()), Err(Fault::Wire(_))));
}
