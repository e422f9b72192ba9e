//! `tobari bench`: a job's numbers, one line each, in the shape that `bench/README.md` fixes.
//!
//! Everything is measured in rounds, one of each thing a round, so that a slower minute of a shared machine touches all of
//! them alike; a fixed loop of integer work, timed in each round too, shows how quiet the machine was.

use crate::args::{BenchArguments, BenchJob};
use crate::output::{self, Failure, Progress};
use crate::randomness;
use chacha20::ChaCha20Rng;
use chacha20::rand_core::Rng;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::process::{Command, ExitCode};
use std::time::Instant;
use tobari_apps::call::PACKET_SAMPLES;
use tobari_core::curve::Curve;
use tobari_core::elgamal::{Ciphertexts, Decryptor, Encryptor, SAMPLE_BOUND, SecretKey};
use tobari_core::params::{Parameters, SecurityFloor};
use tobari_host::files;

/// Times slower than its fastest at which the probe calls a run disturbed.
const DISTURBED: f64 = 1.15;
/// Widths of the discrete logarithm, in bits with the sign: one speaker, and 1,024.
const LOGARITHM_BITS: [u32; 2] = [16, 27];

/// One figure.
#[derive(Clone, Serialize, Deserialize)]
struct Line {
    job: String,
    what: String,
    engine: String,
    params: Params,
    backend: String,
    threads: u32,
    unit: String,
    median: f64,
    min: f64,
    max: f64,
    runs: usize,
    labels: Vec<String>,
}

/// What a figure is of.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Params {
    curve: String,
    mode: String,
    timing: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    bits: Option<u32>,
}

/// A thing to measure: one call is one packet.
struct Task {
    what: &'static str,
    params: Params,
    backend: &'static str,
    labels: Vec<&'static str>,
    work: Box<dyn FnMut()>,
    ns_per_sample: Vec<f64>,
}

/// Measures and prints.
pub(crate) fn run(arguments: &BenchArguments) -> Result<ExitCode, Failure> {
    let BenchJob::Call = arguments.job;
    let curves = if arguments.curves.is_empty() { Curve::ALL.to_vec() } else { arguments.curves.clone() };
    let (mut lines, mut quiet) = (Vec::new(), Vec::new());
    let progress = Progress::new("measured curves", curves.len() as u64);
    for (done, curve) in curves.iter().enumerate() {
        let (ours, theirs, probe) = measure(*curve, arguments)?;
        quiet.push(probe);
        for line in ours.into_iter().chain(theirs) {
            if arguments.json {
                output::json(&line)?;
            } else {
                print(&line);
            }
            lines.push(line);
        }
        progress.show(done as u64 + 1);
    }
    let worst = quiet.into_iter().fold(1.0, f64::max);
    output::say(format!("probe: the median round was {worst:.2} times its fastest (1.00: a quiet machine)"));
    if let Some(folder) = &arguments.output {
        std::fs::create_dir_all(folder)?;
        files::write_atomically(&folder.join("call.csv"), csv(&lines).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// All tasks of one curve in rounds, and the peer's: our lines, the peer's, and how disturbed the machine was.
fn measure(curve: Curve, arguments: &BenchArguments) -> Result<(Vec<Line>, Vec<Line>, f64), Failure> {
    let mut tasks = tasks(curve)?;
    let (mut probes, mut peer_rounds) = (Vec::new(), Vec::new());
    for round in 0..=arguments.runs {
        let probe = probe();
        for task in &mut tasks {
            let started = Instant::now();
            (task.work)();
            let ns = started.elapsed().as_nanos() as f64 / PACKET_SAMPLES as f64;
            if round > 0 {
                task.ns_per_sample.push(ns); // round 0 warms up
            }
        }
        if round > 0 {
            probes.push(probe);
        }
        if let Some(peer) = &arguments.peer
            && round > 0
            && round % (arguments.runs / 5).max(1) == 0
        {
            peer_rounds.push(ask_peer(peer, curve)?);
        }
    }
    probes.sort_by(f64::total_cmp);
    let disturbance = probes[probes.len() / 2] / probes[0];
    let mut ours: Vec<Line> = tasks.into_iter().map(Task::line).collect();
    let mut theirs = join_rounds(&peer_rounds);
    if disturbance > DISTURBED {
        ours.iter_mut().chain(&mut theirs).for_each(|line| line.labels.push("disturbed".to_owned()));
    }
    Ok((ours, theirs, disturbance))
}

fn tasks(curve: Curve) -> Result<Vec<Task>, Failure> {
    let parameters = Parameters::new(curve, SecurityFloor::InsecurePaper)?;
    let mut rng = randomness::generator()?;
    let key = SecretKey::generate(parameters, &mut rng);
    let encryptor = Encryptor::new(&key.public_key());
    let messages: Vec<i32> = (0..PACKET_SAMPLES).map(|_| (rng.next_u32() as u16 as i16).into()).collect();
    let packet = encryptor.encrypt(&messages, &mut rng)?;
    let params = |timing: &str, bits| Params {
        curve: curve.name().to_owned(),
        mode: "elgamal".to_owned(),
        timing: timing.to_owned(),
        bits,
    };
    let task = |what, params, labels, work| Task {
        what,
        params,
        backend: curve.backend(),
        labels,
        work,
        ns_per_sample: Vec::new(),
    };
    let mut tasks = Vec::new();
    for bits in LOGARITHM_BITS {
        let bound = 1 << (bits.max(17) - 2); // 27 bits: 1,024 speakers at 32768; 16 bits: one
        let decryptor = Decryptor::new(&key, bound.max(SAMPLE_BOUND as u32));
        let (_, sum) = full_range(&encryptor, bound, &mut rng)?;
        let work = Box::new(move || _ = black_box(decryptor.vartime_decrypt(black_box(&sum))));
        tasks.push(task("decrypt", params("constant", Some(bits)), vec!["variable-time-logarithm"], work));
    }
    let (mut sum, other) = (packet.clone(), packet);
    let work = Box::new(move || _ = black_box(sum.add_assign(black_box(&other))));
    tasks.push(task("add", params("variable", None), Vec::new(), work));
    let work = Box::new(move || _ = black_box(encryptor.encrypt(black_box(&messages), &mut rng)));
    tasks.push(task("encrypt", params("constant", None), Vec::new(), work));
    tasks.reverse();
    Ok(tasks)
}

/// Sums spread evenly over the whole range up to `bound`, and their packet: the high digits, doubled, and the low ones.
fn full_range(encryptor: &Encryptor, bound: u32, rng: &mut ChaCha20Rng) -> Result<(Vec<i32>, Ciphertexts), Failure> {
    let sums: Vec<i32> = (0..PACKET_SAMPLES).map(|_| within(bound, rng)).collect();
    let doublings = (bound / SAMPLE_BOUND as u32).next_power_of_two().ilog2();
    let high: Vec<i32> = sums.iter().map(|sum| sum >> doublings).collect();
    let low: Vec<i32> = sums.iter().zip(&high).map(|(sum, high)| sum - (high << doublings)).collect();
    let mut packet = encryptor.encrypt(&high, rng)?;
    for _ in 0..doublings {
        packet.add_assign(&packet.clone())?;
    }
    packet.add_assign(&encryptor.encrypt(&low, rng)?)?;
    Ok((sums, packet))
}

/// A number from −`bound` to `bound`.
fn within(bound: u32, rng: &mut ChaCha20Rng) -> i32 {
    let span = 2 * u64::from(bound) + 1;
    ((u64::from(rng.next_u32()) * span) >> 32) as i32 - bound as i32
}

/// A fixed amount of integer work, in nanoseconds.
fn probe() -> f64 {
    let started = Instant::now();
    let mut state = black_box(1u64);
    for _ in 0..200_000 {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
    }
    black_box(state);
    started.elapsed().as_nanos() as f64
}

impl Task {
    fn line(self) -> Line {
        let (median, min, max) = summary(self.ns_per_sample.clone());
        Line {
            job: "call".to_owned(),
            what: self.what.to_owned(),
            engine: "tobari".to_owned(),
            params: self.params,
            backend: self.backend.to_owned(),
            threads: 1,
            unit: "ns/sample".to_owned(),
            median,
            min,
            max,
            runs: self.ns_per_sample.len(),
            labels: self.labels.into_iter().map(str::to_owned).collect(),
        }
    }
}

/// Median, minimum and maximum.
fn summary(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

/// One round of another program on the same task: it is given the curve's name, and prints lines of this shape.
fn ask_peer(peer: &str, curve: Curve) -> Result<Vec<Line>, Failure> {
    let done = Command::new(peer).arg(curve.name()).output();
    let done = done.map_err(|error| Failure::Work(format!("{peer}: {error}")))?;
    if !done.status.success() {
        return Err(Failure::Work(format!("{peer} {curve}: {}", done.status)));
    }
    let text = String::from_utf8_lossy(&done.stdout);
    let lines = text.lines().map(serde_json::from_str).collect::<Result<Vec<Line>, _>>();
    lines.map_err(|error| Failure::Work(format!("{peer} {curve}: {error}")))
}

/// The medians of a peer's rounds, as one line a thing.
fn join_rounds(rounds: &[Vec<Line>]) -> Vec<Line> {
    let Some(first) = rounds.first().cloned() else { return Vec::new() };
    let same = |a: &Line, b: &Line| a.what == b.what && a.params == b.params && a.engine == b.engine;
    let joined = first.into_iter().map(|line| {
        let all = rounds.iter().flatten().filter(|other| same(other, &line)).map(|other| other.median);
        let all: Vec<f64> = all.collect();
        let runs = all.len();
        let (median, min, max) = summary(all);
        Line { median, min, max, runs, ..line }
    });
    joined.collect()
}

fn print(line: &Line) {
    let bits = line.params.bits.map(|bits| format!(" ({bits} bits)")).unwrap_or_default();
    output::result(format!(
        "{:<10} {:<8} {:<18} {:>10.1} {} (min {:.1}, max {:.1}, {} runs) {}",
        line.params.curve,
        line.engine,
        format!("{}{bits}", line.what),
        line.median,
        line.unit,
        line.min,
        line.max,
        line.runs,
        line.labels.join(" ")
    ));
}

fn csv(lines: &[Line]) -> String {
    let mut text =
        "job,what,engine,curve,mode,timing,bits,backend,threads,unit,median,min,max,runs,labels\n".to_owned();
    for line in lines {
        let bits = line.params.bits.map(|bits| bits.to_string()).unwrap_or_default();
        let fields = [
            &line.job,
            &line.what,
            &line.engine,
            &line.params.curve,
            &line.params.mode,
            &line.params.timing,
            &bits,
            &line.backend,
            &line.threads.to_string(),
            &line.unit,
            &format!("{:.1}", line.median),
            &format!("{:.1}", line.min),
            &format!("{:.1}", line.max),
            &line.runs.to_string(),
            &line.labels.join(" "),
        ];
        text.push_str(&fields.map(String::as_str).join(","));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_of_the_middle_and_the_ends_are_kept() {
        assert_eq!(summary(vec![3.0, 1.0, 2.0, 9.0, 4.0]), (3.0, 1.0, 9.0));
    }

    #[test]
    fn the_wide_sums_decrypt_within_their_bound() {
        let mut rng = randomness::generator().unwrap();
        let parameters = Parameters::new(Curve::Secp256k1, SecurityFloor::Standard).unwrap();
        let key = SecretKey::generate(parameters, &mut rng);
        let encryptor = Encryptor::new(&key.public_key());
        for bound in [1 << 15, 1 << 25] {
            let (sums, packet) = full_range(&encryptor, bound, &mut rng).unwrap();
            assert_eq!(Decryptor::new(&key, bound).vartime_decrypt(&packet).unwrap().to_vec(), sums, "up to {bound}");
        }
    }
}
