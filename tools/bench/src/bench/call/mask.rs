//! Our figures of mode `mask`: the encryption of a packet with its tag, its addition to a sum, and
//! the decryption and check of sums of 1 to 1,024 senders.

use super::super::rounds::{self, Job};
use super::super::table::Table;
use super::figures::{Line, Params};
use crate::bench::call::CallBench;
use chacha20::rand_core::Rng;
use std::hint::black_box;
use tobari_call::PACKET_SAMPLES;
use tobari_call::live::PACKET_WORDS;
use tobari_call::mask::{EpochKey, Form, MaskReceiver, MaskSender, Masked, SessionKey, Width};
use tobari_command::output::Failure;
use tobari_command::randomness;
use tobari_lattice::RingKernels;
use zeroize::Zeroizing;

/// Shorter work is repeated for about this time.
const BATCH_NS: f64 = 1e6;
/// Senders in the largest measured room.
const MOST: usize = 1024;

type Task = rounds::Task<Params>;

/// All figures, in rounds, and the disturbance of the machine.
pub(super) fn measure(arguments: &CallBench) -> Result<(Vec<Line>, f64), Failure> {
    let job = Job { name: "call", backend: RingKernels::best().name, unit: "ns/sample", batch_ns: BATCH_NS };
    rounds::measure(job, tasks()?, arguments.common.runs, &[], |_| Ok(Vec::new()))
}

fn key(rng: &mut impl Rng) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    rng.fill_bytes(key.as_mut());
    key
}

fn task(what: &'static str, width: Width, inputs: usize, work: impl FnMut() + 'static) -> Task {
    let (curve, mode, timing) = ("none".to_owned(), "mask".to_owned(), "constant".to_owned());
    let params = Params { curve, mode, timing, bits: Some(width.bits()), inputs: Some(inputs) };
    Task { what, params, labels: Vec::new(), work: Box::new(work), parts: PACKET_SAMPLES as f64 }
}

fn tasks() -> Result<Vec<Task>, Failure> {
    let mut rng = randomness::generator()?;
    let impossible = || Failure::Work("no width for so many senders".to_owned());
    let epoch_key = key(&mut rng);
    let epoch = || EpochKey::from_bytes(&epoch_key);
    let sessions: Vec<SessionKey> = (0..MOST).map(|_| SessionKey::from_bytes(&key(&mut rng), &key(&mut rng))).collect();
    let samples: Vec<i16> = (0..PACKET_WORDS).map(|_| rng.next_u32() as i16).collect();
    let width = Width::for_senders(MOST).ok_or_else(impossible)?;
    let mut tasks = Vec::new();
    let (mut sender, mut tick, spoken) = (MaskSender::new(epoch(), sessions[0].clone(), width, 0), 0, samples.clone());
    tasks.push(task("encrypt", width, 1, move || {
        tick += 1;
        _ = black_box(sender.encrypt(tick, black_box(&spoken)));
    }));
    let (packet, _) = MaskSender::new(epoch(), sessions[1].clone(), width, 0).encrypt(0, &samples)?;
    let mut bytes = Vec::new();
    packet.encode(Form::Packed, &mut bytes);
    tasks.push(task("read", width, 1, move || {
        _ = black_box(Masked::decode(Form::Packed, width, PACKET_WORDS, black_box(&bytes)));
    }));
    let mut sum = packet.clone();
    tasks.push(task("add", width, 2, move || _ = black_box(sum.add_assign(black_box(&packet)))));
    for inputs in (0..=MOST.ilog2()).map(|bits| 1usize << bits) {
        let width = Width::for_senders(inputs).ok_or_else(impossible)?;
        let mut receiver = MaskReceiver::new(epoch(), width, PACKET_WORDS, 0);
        let members: Vec<u16> = (0..inputs as u16).collect();
        members.iter().zip(&sessions).for_each(|(member, session)| receiver.insert(*member, session.clone()));
        let (sum, tag) = MaskSender::new(epoch(), sessions[0].clone(), width, 0).encrypt(0, &samples)?;
        let mut tick = 0;
        // the tag is compared last, so a sum of another tick takes the same time as the right one;
        // each tick is decrypted only once
        tasks.push(task("decrypt", width, inputs, move || {
            tick += 1;
            _ = black_box(receiver.open(tick, black_box(&members), black_box(&sum), &tag));
        }));
    }
    Ok(tasks)
}

/// The table for people, and for `mask.csv`.
pub(super) fn table(lines: &[Line]) -> Table {
    let columns = [
        "what",
        "senders",
        "bits",
        "backend",
        "ns a sample",
        "min",
        "max",
        "us a packet",
        "% of 20 ms",
        "runs",
        "labels",
    ];
    let mut table = Table::new("Mode mask", &columns);
    for line in lines {
        let packet_us = line.median * PACKET_SAMPLES as f64 / 1000.0;
        table.push(vec![
            line.what.clone(),
            line.params.inputs.map(|inputs| inputs.to_string()).unwrap_or_default(),
            line.params.bits.map(|bits| bits.to_string()).unwrap_or_default(),
            line.backend.clone(),
            format!("{:.2}", line.median),
            format!("{:.2}", line.min),
            format!("{:.2}", line.max),
            format!("{packet_us:.2}"),
            format!("{:.3}", packet_us / 200.0),
            line.runs.to_string(),
            line.labels.join(" "),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_senders_up_to_1024_is_measured_at_its_width() {
        let mut found = Vec::new();
        for mut task in tasks().unwrap() {
            (task.work)();
            (task.work)();
            if task.what == "decrypt" {
                found.push((task.params.inputs.unwrap(), task.params.bits.unwrap()));
            }
        }
        let expected: Vec<(usize, u32)> = (0..=10).map(|bits| (1 << bits, 16 + bits)).collect();
        assert_eq!(found, expected);
    }
}
