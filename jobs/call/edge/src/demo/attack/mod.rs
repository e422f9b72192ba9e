//! Calls in `tobari demo --attack`: runs attacks, and tells which were detected and which are not
//! detected yet.
//!
//! Packets that a server should reject go to a real server process. Attacks by a dishonest server
//! change the server's bytes here, and an honest listener receives the result. Attacks on live
//! rooms have their own table ([`live`]).

mod live;

use super::{clips, mix};
use crate::command::mixing;
use crate::connect::ConnectError;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tobari_call::PACKET_SAMPLES;
use tobari_call::client::{Listener, Speaker};
use tobari_call::messages::{Join, Pace, RoomName, Welcome};
use tobari_call::program::frame;
use tobari_client::ClientTls;
use tobari_command::blind_server::BlindProcess;
use tobari_command::demo::Attack;
use tobari_command::output::Failure;
use tobari_command::randomness;
use tobari_curve::elgamal::{Ciphertexts, Decryptor, Encryptor, Mode, SAMPLE_BOUND, SecretKey};
use tobari_curve::params::{Parameters, SecurityFloor};
use tobari_curve::wire::{self, MemberSet, RoomId, SumHeader};
use tobari_curve::{Curve, PointEncoding, Points, Scalar};
use tobari_host::process::{MemorySearch, process_memory_contains};

/// Bytes of a packet before its first point.
const PACKET_HEAD_BYTES: usize = 20;
/// Number of plaintext samples to search for.
const NEEDLE_SAMPLES: usize = 16;

/// Runs every attack on calls.
///
/// # Errors
/// [`Failure`] if a server cannot be started, or an attack cannot be run.
pub fn attacks() -> Result<Vec<Attack>, Failure> {
    let mut attacks = vec![search_memory(Mode::Elgamal)?, search_memory(Mode::ElgamalShared)?];
    attacks.extend(against_the_server()?);
    attacks.extend(by_a_dishonest_server()?);
    attacks.extend(live::attacks()?);
    Ok(attacks)
}

/// Reads the server process's whole memory in the middle of a call.
fn search_memory(mode: Mode) -> Result<Attack, Failure> {
    let (speakers, key) = (clips()?, super::fresh_key(mode)?);
    let server = BlindProcess::start(false)?;
    let mut needles = plain_needles(&speakers);
    needles.push(key.encode()[9..41].to_vec());
    let secrets = needles.len();
    let found: Arc<Mutex<Option<std::io::Result<MemorySearch>>>> = Arc::default();
    let (pid, result) = (server.pid(), found.clone());
    let halfway = Box::new(move |room: &RoomName| {
        // the server holds the name as long as the room is open: it shows that the search works
        needles.push(room.as_str().as_bytes().to_vec());
        let needles: Vec<&[u8]> = needles.iter().map(Vec::as_slice).collect();
        *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(process_memory_contains(pid, &needles));
    });
    mix(&server, key, speakers, Some(halfway))?;
    let search = found.lock().unwrap_or_else(PoisonError::into_inner).take();
    let search = search.ok_or_else(|| Failure::Work("the server's memory was not searched".into()))??;
    let leaks = search.found.iter().filter(|index| **index < secrets).count();
    let works = search.found.contains(&secrets);
    let attack = match mode {
        Mode::Elgamal => "look for plain samples and the key in the server's memory",
        Mode::ElgamalShared => "look for plain samples and the key in its memory in mode elgamal-shared",
    };
    let how = format!(
        "{secrets} secrets looked for in {} bytes, {leaks} found; a string that must be there was {}",
        search.searched_bytes,
        if works { "found" } else { "not found, so the search proves nothing" }
    );
    Ok(Attack::new(attack, "the server's operator", works && leaks == 0, false, how))
}

/// Sixteen samples from the loudest part of every frame, in their possible forms in memory: 16-bit
/// and 32-bit.
fn plain_needles(speakers: &[Arc<[i16]>]) -> Vec<Vec<u8>> {
    let mut needles = Vec::new();
    for speaker in speakers {
        for frame in speaker.chunks_exact(PACKET_SAMPLES) {
            let window = &frame[..NEEDLE_SAMPLES];
            let distinct: std::collections::BTreeSet<_> = window.iter().collect();
            if distinct.len() < NEEDLE_SAMPLES / 2 {
                continue; // near-silence occurs anywhere in memory
            }
            needles.push(window.iter().flat_map(|sample| sample.to_le_bytes()).collect());
            needles.push(window.iter().flat_map(|sample| i32::from(*sample).to_le_bytes()).collect());
        }
    }
    needles
}

/// Packets that a dishonest member, or a network attacker, could send to an honest server.
fn against_the_server() -> Result<Vec<Attack>, Failure> {
    let server = BlindProcess::start(false)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let point_bytes = 2 * Curve::Secp256k1.coordinate_bytes();
    let mut flip = |packets: &mut Vec<Vec<u8>>| packets[0][PACKET_HEAD_BYTES + 5] ^= 4;
    let mut off_curve = |packets: &mut Vec<Vec<u8>>| {
        packets[0][PACKET_HEAD_BYTES..PACKET_HEAD_BYTES + point_bytes].fill(0);
        packets[0][PACKET_HEAD_BYTES + point_bytes - 1] = 1; // (0, 1)
    };
    let mut truncated = |packets: &mut Vec<Vec<u8>>| packets[0].truncate(1000);
    let mut other_room = |packets: &mut Vec<Vec<u8>>| packets[0][4] ^= 1;
    let mut other_member = |packets: &mut Vec<Vec<u8>>| packets[0][13] ^= 1;
    let mut other_curve = |packets: &mut Vec<Vec<u8>>| packets[0][2] = Curve::NistP256.wire_id();
    let mut other_mode = |packets: &mut Vec<Vec<u8>>| packets[0][1] = wire::Kind::SharedPacket as u8;
    let mut version = |packets: &mut Vec<Vec<u8>>| packets[0][0] = 9;
    let mut twice = |packets: &mut Vec<Vec<u8>>| packets.push(packets[0].clone());
    type Tamper<'a> = &'a mut dyn FnMut(&mut Vec<Vec<u8>>);
    let attempts: [(&'static str, &'static str, Tamper<'_>); 9] = [
        ("flip one bit of a packet", "somebody on the network", &mut flip),
        ("send a point that is not on the curve", "a member", &mut off_curve),
        ("cut a packet short", "a member", &mut truncated),
        ("send a packet made for another room", "a member", &mut other_room),
        ("send in another member's name", "a member", &mut other_member),
        ("send a packet on another curve", "a member", &mut other_curve),
        ("send a packet of another mode", "a member", &mut other_mode),
        ("send a packet of another version", "a member", &mut version),
        ("send one packet twice, to be heard twice", "a member", &mut twice),
    ];
    let mut attacks = Vec::new();
    for (number, (attack, by, tamper)) in attempts.into_iter().enumerate() {
        let outcome = runtime.block_on(provoke(server.url(), &format!("attack-{number}"), tamper))?;
        let caught = outcome.is_some();
        let how = outcome.map_or("the server accepted it".into(), |reason| format!("the server rejects it: {reason}"));
        attacks.push(Attack::new(attack, by, caught, false, how));
    }
    Ok(attacks)
}

/// A key of mode `elgamal`.
fn fresh_key() -> Result<SecretKey, Failure> {
    let parameters = Parameters::new(Curve::Secp256k1, SecurityFloor::Standard)?;
    Ok(SecretKey::generate(parameters, &mut randomness::generator()?))
}

/// Joins a room, sends one tampered packet, and waits for the server's answer: the reason for the
/// removal, if the server removed the member.
async fn provoke(
    server: &str,
    room: &str,
    tamper: &mut dyn FnMut(&mut Vec<Vec<u8>>),
) -> Result<Option<String>, Failure> {
    let key = fresh_key()?;
    let mut join = Join::new(Pace::Lockstep { members: 1 }, key.parameters().curve());
    join.listen = false;
    let room: RoomName = room.parse()?;
    let mut connection = crate::connect::connect(server, &room, &join, &ClientTls::System).await?;
    let encryptor = Arc::new(Encryptor::new(&key.public_key()));
    let mut speaker = Speaker::new(encryptor, connection.welcome(), PointEncoding::Uncompressed);
    let packet = speaker.packet(connection.welcome().tick, &[1; PACKET_SAMPLES], &mut randomness::generator()?)?;
    let mut packets = vec![packet];
    tamper(&mut packets);
    let expected_ticks = packets.len();
    for packet in packets {
        // if the server has closed the connection, its reason is read below
        let _ = connection.send_packet(packet).await;
    }
    for _ in 0..expected_ticks {
        match connection.receive().await {
            Ok(_) => {}
            Err(ConnectError::Removed { code, reason }) => return Ok(Some(format!("{code}: {reason}"))),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// Two speakers' packets of one tick, as a server holds them, and the listener to their sum.
struct Tick {
    key: SecretKey,
    welcome: Welcome,
    packets: [Ciphertexts; 2],
    plain: Vec<i32>,
}

impl Tick {
    fn new() -> Result<Self, Failure> {
        let (key, speakers) = (fresh_key()?, clips()?);
        let encryptor = Encryptor::new(&key.public_key());
        let mut rng = randomness::generator()?;
        // from the middle of the clips, where both speak
        let at = |speaker: &[i16]| frame(speaker, 60);
        let (a, b) = (at(&speakers[0]), at(&speakers[1]));
        let packets = [encryptor.encrypt(&a, &mut rng)?, encryptor.encrypt(&b, &mut rng)?];
        let plain = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        let welcome = Welcome { room: RoomId(*b"an-eight"), member: 2, tick: 0, window: 32 };
        Ok(Self { key, welcome, packets, plain })
    }

    /// The sum that a server would send: the sum of `parts`, with the members in `claimed` in its
    /// header.
    fn sum(&self, parts: &[&Ciphertexts], claimed: &[u16]) -> Result<Vec<u8>, Failure> {
        let mut sum = Ciphertexts::zero(self.key.parameters(), PACKET_SAMPLES);
        for part in parts {
            sum.add_assign(part)?;
        }
        let mut speakers = MemberSet::default();
        for member in claimed {
            speakers.insert(*member);
        }
        let (room, encoding) = (self.welcome.room, PointEncoding::Compressed);
        Ok(wire::encode_sum(&SumHeader { room, tick: 0, encoding, speakers, late: MemberSet::default() }, &sum))
    }

    /// The result at an honest listener: an error, or whether the samples are correct.
    fn hear(&self, decryptor: &Arc<Decryptor>, sum: &[u8]) -> Result<bool, String> {
        let mixed = Listener::new(decryptor.clone(), &self.welcome).open(sum).map_err(|error| error.to_string())?;
        mixing::check_speakers(&BTreeMap::from([(0, 1), (1, 1)]), &mixed.header)
            .map_err(|failure| failure.to_string())?;
        Ok(*mixed.samples == self.plain)
    }
}

/// Changes of a sum by a dishonest server.
fn by_a_dishonest_server() -> Result<Vec<Attack>, Failure> {
    let tick = Tick::new()?;
    let [a, b] = &tick.packets;
    let decryptor = Arc::new(Decryptor::new(&tick.key, 4 * SAMPLE_BOUND as u32));
    if tick.hear(&decryptor, &tick.sum(&[a, b], &[0, 1])?) != Ok(true) {
        return Err(Failure::Work("an honest sum did not decrypt to the right sum".into()));
    }
    let shift = constant(1000, &tick)?;
    let attempts = [
        ("omit a speaker, and take the speaker off the list", tick.sum(&[a], &[0])?, false),
        ("omit a speaker, and list the speaker all the same", tick.sum(&[a], &[0, 1])?, true),
        ("add a speaker twice", tick.sum(&[a, b, a], &[0, 1])?, true),
        ("add 1000 to every sample", tick.sum(&[a, b, &shift], &[0, 1])?, true),
    ];
    let mut attacks = vec![flip_bits_of_a_sum(&tick, &decryptor)?];
    for (attack, sum, known_limit) in attempts {
        let (caught, how) = match tick.hear(&decryptor, &sum) {
            Err(reason) => (true, format!("the listener rejects it: {reason}")),
            Ok(false) => (false, "the listener hears a wrong sum, without an alarm".into()),
            Ok(true) => return Err(Failure::Work(format!("the attack changed nothing: {attack}"))),
        };
        attacks.push(Attack::new(attack, "a dishonest server", caught, known_limit, how));
    }
    Ok(attacks)
}

/// An encryption of `m` in every place, made without a key: `(mG, O)`.
fn constant(m: u64, tick: &Tick) -> Result<Ciphertexts, Failure> {
    let curve = tick.key.parameters().built_curve();
    let point = Points::generator(curve).multiply(0, &Scalar::from_u64(curve, m));
    let nothing = Ciphertexts::zero(tick.key.parameters(), PACKET_SAMPLES);
    let mut bytes = wire::encode_packet(tick.welcome.room, 0, 0, PointEncoding::Uncompressed, &nothing);
    let mut point_bytes = Vec::new();
    point.encode(PointEncoding::Uncompressed, &mut point_bytes);
    for place in bytes[PACKET_HEAD_BYTES..].chunks_exact_mut(point_bytes.len()).take(PACKET_SAMPLES) {
        place.copy_from_slice(&point_bytes);
    }
    Ok(wire::decode_packet(&bytes, tick.key.parameters())?.1)
}

/// Blind changes of a sum: hit the points anywhere.
fn flip_bits_of_a_sum(tick: &Tick, decryptor: &Arc<Decryptor>) -> Result<Attack, Failure> {
    const FLIPS: usize = 24;
    let sum = tick.sum(&[&tick.packets[0], &tick.packets[1]], &[0, 1])?;
    let points = sum.len() - PointEncoding::Compressed.encoded_len(tick.key.parameters().curve(), 2 * PACKET_SAMPLES);
    let mut unnoticed = 0;
    for flip in 0..FLIPS {
        let mut changed = sum.clone();
        let place = points + flip * (sum.len() - points - 1) / (FLIPS - 1);
        changed[place] ^= 1 << (flip % 8);
        unnoticed += usize::from(tick.hear(decryptor, &changed).is_ok());
    }
    let how = format!("{} of {FLIPS} changes do not decrypt", FLIPS - unnoticed);
    let attack = "flip random bits of a sum";
    Ok(Attack::new(attack, "a dishonest server", unnoticed == 0, false, how))
}
