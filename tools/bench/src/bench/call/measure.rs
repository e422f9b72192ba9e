//! Our figures of one curve: one call of a task is one packet.

use super::super::peer;
use super::super::rounds::{self, Job};
use super::figures::{Line, Params};
use crate::bench::call::CallBench;
use chacha20::ChaCha20Rng;
use chacha20::rand_core::Rng;
use std::hint::black_box;
use std::rc::Rc;
use tobari_call::PACKET_SAMPLES;
use tobari_command::output::Failure;
use tobari_command::randomness;
use tobari_curve::elgamal::{
    Ciphertexts, Decryptor, EncryptError, Encryptor, Mode, SAMPLE_BOUND, SecretKey, SharedCiphertexts, SharedDecryptor,
    SharedEncryptor, SharedKey, VartimeEncryptor, VartimeSharedEncryptor,
};
use tobari_curve::params::{Parameters, SecurityFloor};
use tobari_curve::wire::{self, Payload, RoomId};
use tobari_curve::{Adder, Curve, Mismatch, PointEncoding};

/// Widths of the discrete logarithm, in bits with the sign: one speaker, and 1,024.
const LOGARITHM_BITS: [u32; 2] = [16, 27];
/// Widths of the windows of the variable-time tables, in bits.
const WIDTH: u32 = 11;
const SHARED_WIDTH: u32 = 12;

type Task = rounds::Task<Params>;

/// All tasks of one curve in rounds, and the peers': our lines, then theirs, and the disturbance of
/// the machine.
pub(super) fn curve(curve: Curve, arguments: &CallBench) -> Result<(Vec<Line>, f64), Failure> {
    let (tasks, common) = (tasks(curve, &arguments.curve_modes())?, &arguments.common);
    let backend = Parameters::new(curve, SecurityFloor::InsecurePaper)?.built_curve().backend();
    let job = Job { name: "call", backend, unit: "ns/sample", batch_ns: 0.0 };
    rounds::measure(job, tasks, common.runs, &common.peers, |program| peer::ask(program, curve.name(), &[]))
}

fn tasks(curve: Curve, modes: &[Mode]) -> Result<Vec<Task>, Failure> {
    let wanted = |mode| modes.is_empty() || modes.contains(&mode);
    let mut tasks = Vec::new();
    if wanted(Mode::Elgamal) {
        tasks.extend(elgamal(curve)?);
    }
    if wanted(Mode::ElgamalShared) {
        tasks.extend(shared(curve)?);
    }
    Ok(tasks)
}

/// The server's work on a packet of uncompressed points before the addition: it checks and converts
/// every point.
fn reading<P: Payload + 'static>(packet: &P, parameters: Parameters) -> impl FnMut() + use<P> {
    let bytes = wire::encode_packet(RoomId([0; 8]), 0, 0, PointEncoding::Uncompressed, packet);
    move || _ = black_box(wire::decode_packet::<P>(black_box(&bytes), parameters))
}

fn elgamal(curve: Curve) -> Result<Vec<Task>, Failure> {
    let parameters = Parameters::new(curve, SecurityFloor::InsecurePaper)?;
    let mut rng = randomness::generator()?;
    let key = SecretKey::generate(parameters, &mut rng);
    let (encryptor, messages) = (Encryptor::new(&key.public_key()), messages(&mut rng));
    let mut tasks = Bench { curve, mode: "elgamal", tasks: Vec::new() };
    let (mut sum, other) = (encryptor.encrypt(&messages, &mut rng)?, encryptor.encrypt(&messages, &mut rng)?);
    let mut packets = Vec::new();
    for bits in LOGARITHM_BITS {
        let encrypt = |messages: &[i32], rng: &mut ChaCha20Rng| encryptor.encrypt(messages, rng);
        packets.push((bits, full_range(bound(bits), &mut rng, encrypt, Ciphertexts::add_assign)?.1));
    }
    let (spoken, mut random) = (messages.clone(), randomness::generator()?);
    tasks.add("encrypt", "constant", None, move || _ = black_box(encryptor.encrypt(black_box(&spoken), &mut random)));
    let wide = VartimeEncryptor::new(&key.public_key(), WIDTH);
    let work = move || _ = black_box(wide.vartime_encrypt(black_box(&messages), &mut rng));
    tasks.add("encrypt", "variable", None, work);
    tasks.add("read", "variable", None, reading(&other, parameters));
    let mut adder = Adder::default();
    tasks.add("add", "variable", None, move || _ = black_box(sum.add_assign_with(black_box(&other), &mut adder)));
    for (bits, packet) in packets {
        let decryptor = Decryptor::new(&key, bound(bits));
        let work = move || _ = black_box(decryptor.vartime_decrypt(black_box(&packet)));
        tasks.add("decrypt", "constant", Some(bits), work);
    }
    Ok(tasks.tasks)
}

fn shared(curve: Curve) -> Result<Vec<Task>, Failure> {
    let parameters = Parameters::new(curve, SecurityFloor::InsecurePaper)?;
    let mut rng = randomness::generator()?;
    let key = SharedKey::generate(parameters, PACKET_SAMPLES, &mut rng);
    let (encryptor, messages) = (SharedEncryptor::new(&key), messages(&mut rng));
    let mut tasks = Bench { curve, mode: "elgamal-shared", tasks: Vec::new() };
    let (mut sum, other) = (encryptor.encrypt(&messages, &mut rng)?, encryptor.encrypt(&messages, &mut rng)?);
    let mut packets = Vec::new();
    for bits in LOGARITHM_BITS {
        let encrypt = |messages: &[i32], rng: &mut ChaCha20Rng| encryptor.encrypt(messages, rng);
        packets.push((bits, full_range(bound(bits), &mut rng, encrypt, SharedCiphertexts::add_assign)?.1));
    }
    let (spoken, mut random) = (messages.clone(), randomness::generator()?);
    tasks.add("encrypt", "constant", None, move || _ = black_box(encryptor.encrypt(black_box(&spoken), &mut random)));
    let wide = VartimeSharedEncryptor::new(&key, SHARED_WIDTH);
    let work = move || _ = black_box(wide.vartime_encrypt(black_box(&messages), &mut rng));
    tasks.add("encrypt", "variable", None, work);
    tasks.add("read", "variable", None, reading(&other, parameters));
    let mut adder = Adder::default();
    tasks.add("add", "variable", None, move || _ = black_box(sum.add_assign_with(black_box(&other), &mut adder)));
    for (bits, packet) in packets {
        let shared = Rc::new((SharedDecryptor::new(&key, bound(bits)), packet));
        let open = shared.clone();
        let work = move || _ = black_box(shared.0.vartime_decrypt(black_box(&shared.1)));
        tasks.add("decrypt", "constant", Some(bits), work);
        let work = move || _ = black_box(open.0.vartime_decrypt_with_open_keys(black_box(&open.1)));
        tasks.add("decrypt", "variable", Some(bits), work);
    }
    Ok(tasks.tasks)
}

/// The tasks of a mode on a curve.
struct Bench {
    curve: Curve,
    mode: &'static str,
    tasks: Vec<Task>,
}

impl Bench {
    fn add(&mut self, what: &'static str, timing: &str, bits: Option<u32>, work: impl FnMut() + 'static) {
        let (curve, mode) = (self.curve.name().to_owned(), self.mode.to_owned());
        self.tasks.push(Task {
            what,
            params: Params { curve, mode, timing: timing.to_owned(), bits, inputs: None },
            labels: if bits.is_some() { vec!["variable-time-logarithm"] } else { Vec::new() },
            work: Box::new(work),
            parts: PACKET_SAMPLES as f64,
        });
    }
}

fn messages(rng: &mut ChaCha20Rng) -> Vec<i32> {
    (0..PACKET_SAMPLES).map(|_| (rng.next_u32() as u16 as i16).into()).collect()
}

/// The largest sum for a width in bits: 27 for 1,024 speakers at 32768, 16 for one speaker.
fn bound(bits: u32) -> u32 {
    (1 << (bits.max(17) - 2)).max(SAMPLE_BOUND as u32)
}

/// Sums spread evenly over the whole range up to `bound`, and their packet: the high digits,
/// doubled, and the low ones.
fn full_range<P: Clone>(
    bound: u32,
    rng: &mut ChaCha20Rng,
    encrypt: impl Fn(&[i32], &mut ChaCha20Rng) -> Result<P, EncryptError>,
    add_assign: impl Fn(&mut P, &P) -> Result<(), Mismatch>,
) -> Result<(Vec<i32>, P), Failure> {
    let sums: Vec<i32> = (0..PACKET_SAMPLES).map(|_| within(bound, rng)).collect();
    let doublings = (bound / SAMPLE_BOUND as u32).next_power_of_two().ilog2();
    let high: Vec<i32> = sums.iter().map(|sum| sum >> doublings).collect();
    let low: Vec<i32> = sums.iter().zip(&high).map(|(sum, high)| sum - (high << doublings)).collect();
    let mut packet = encrypt(&high, rng)?;
    for _ in 0..doublings {
        let same = packet.clone();
        add_assign(&mut packet, &same)?;
    }
    add_assign(&mut packet, &encrypt(&low, rng)?)?;
    Ok((sums, packet))
}

/// A number from −`bound` to `bound`.
fn within(bound: u32, rng: &mut ChaCha20Rng) -> i32 {
    let span = 2 * u64::from(bound) + 1;
    ((u64::from(rng.next_u32()) * span) >> 32) as i32 - bound as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wide_sums_decrypt_within_their_bound_in_both_modes() {
        let mut rng = randomness::generator().unwrap();
        let parameters = Parameters::new(Curve::Secp256k1, SecurityFloor::Standard).unwrap();
        let key = SecretKey::generate(parameters, &mut rng);
        let encryptor = Encryptor::new(&key.public_key());
        let shared_key = SharedKey::generate(parameters, PACKET_SAMPLES, &mut rng);
        let shared = SharedEncryptor::new(&shared_key);
        for (bits, bound) in LOGARITHM_BITS.map(|bits| (bits, bound(bits))) {
            assert_eq!(bound, 1 << if bits == 16 { 15 } else { 25 });
            let encrypt = |messages: &[i32], rng: &mut ChaCha20Rng| encryptor.encrypt(messages, rng);
            let (sums, packet) = full_range(bound, &mut rng, encrypt, Ciphertexts::add_assign).unwrap();
            assert_eq!(*Decryptor::new(&key, bound).vartime_decrypt(&packet).unwrap(), sums, "up to {bound}");
            let encrypt = |messages: &[i32], rng: &mut ChaCha20Rng| shared.encrypt(messages, rng);
            let (sums, packet) = full_range(bound, &mut rng, encrypt, SharedCiphertexts::add_assign).unwrap();
            let found = SharedDecryptor::new(&shared_key, bound).vartime_decrypt(&packet).unwrap();
            assert_eq!(*found, sums, "up to {bound}, shared");
        }
    }

    #[test]
    #[cfg(feature = "paper")]
    fn a_mode_that_was_not_asked_for_is_not_measured() {
        for (modes, names) in [
            (vec![Mode::ElgamalShared], vec!["elgamal-shared"]),
            (vec![Mode::Elgamal], vec!["elgamal"]),
            (vec![], vec!["elgamal", "elgamal-shared"]),
        ] {
            let mut found: Vec<_> =
                tasks(Curve::Secp160k1, &modes).unwrap().into_iter().map(|task| task.params.mode).collect();
            found.dedup();
            assert_eq!(found, names);
        }
    }
}
