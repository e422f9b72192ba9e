//! Refreshes.
//!
//! The keys of one engine fill most of a machine, so every round is a process of its own, ours too.
//! It makes keys, refreshes once to warm up and then three times, and checks every number.

use super::figures::{Line, Params, Refreshed, sentence};
use crate::bench::arguments::LatticeBench;
use crate::bench::line::summary;
use crate::bench::peer;
use std::process::ExitCode;
use std::time::Instant;
use tobari_command::output::{self, Failure, Progress};
use tobari_command::randomness;
use tobari_lattice::RingKernels;
use tobari_lattice::ckks::{Complex, Decryptor, Encoder, Scale};
use tobari_lattice::params::NamedSet;
use tobari_lattice::refresh::{Refresh, RefreshSettings};
use tobari_lattice::rlwe::SecretKey;

/// Refreshes of a round.
const RUNS: usize = 3;
/// Rounds, if nothing else is asked for.
const MOST_ROUNDS: usize = 3;

/// Measures and prints.
pub(super) fn run(arguments: &LatticeBench) -> Result<ExitCode, Failure> {
    if arguments.alone {
        for log in &arguments.log_slots {
            for line in [one("bootstrap", *log)?, one("bootstrap_20", *log)?] {
                output::json(&line)?;
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let common = &arguments.common;
    let rounds = common.runs.min(MOST_ROUNDS);
    let ours = std::env::current_exe()?;
    let ours = ours.to_string_lossy();
    let mut lines = Vec::new();
    let progress = Progress::new("rounds", (rounds * arguments.log_slots.len()) as u64);
    for (i, log) in arguments.log_slots.iter().enumerate() {
        let (set, log) = (format!("R{log}"), log.to_string());
        let mut all: Vec<Vec<Vec<Line>>> = vec![Vec::new(); common.peers.len() + 1];
        for round in 0..rounds {
            let own = peer::ask(&ours, "lattice", &["--refresh", "--alone", "--log-slots", &log])?;
            all[0].push(own);
            for (peer, rounds) in common.peers.iter().zip(&mut all[1..]) {
                rounds.push(peer::ask(peer, &set, &[])?);
            }
            progress.show((i * rounds + round) as u64 + 1);
        }
        for rounds in &mut all {
            worst_bits(rounds);
            lines.extend(peer::join(rounds));
        }
    }
    for line in &lines {
        if common.json {
            output::json(line)?;
        } else {
            output::result(sentence(line));
        }
    }
    super::report(common, &lines)?;
    Ok(ExitCode::SUCCESS)
}

/// Gives all figures of one thing the fewest bits of any, so that they join.
fn worst_bits(rounds: &mut [Vec<Line>]) {
    let bits = |line: &Line| line.params.refresh.as_ref().map_or(f64::INFINITY, |refresh| refresh.bits);
    let of = |what: &str, rounds: &[Vec<Line>]| {
        rounds.iter().flatten().filter(|line| line.what == what).map(bits).fold(f64::INFINITY, f64::min)
    };
    let known: Vec<(String, f64)> =
        rounds.iter().flatten().map(|line| (line.what.clone(), of(&line.what, rounds))).collect();
    for line in rounds.iter_mut().flatten() {
        let worst = known.iter().find(|(what, _)| *what == line.what).map(|(_, bits)| *bits);
        if let (Some(refresh), Some(worst)) = (&mut line.params.refresh, worst) {
            refresh.bits = worst;
        }
    }
}

/// A round of ours.
fn one(what: &str, log: u32) -> Result<Line, Failure> {
    let precise = what == "bootstrap_20";
    let Some(named) = NamedSet::from_name(if precise { "refresh-precise" } else { "refresh" }) else {
        unreachable!("a set of the core")
    };
    let parameters = named.parameters()?;
    let mut rng = randomness::generator()?;
    let slots = 1 << log;
    let settings = RefreshSettings::complex(slots);
    let settings = if precise { settings.precise() } else { settings };
    let least = settings.least_level();
    let refresh = Refresh::new(&parameters, settings)?;
    let secret = SecretKey::generate(&parameters, &mut rng);
    let keys = refresh.keys(&secret, &mut rng)?;
    let encoder = Encoder::new(&parameters)?;
    let scale = Scale::power_of_two(if precise { 42 } else { 40 });
    let numbers: Vec<Complex> =
        (0..slots).map(|j| Complex { re: (j as f64 * 0.7).sin(), im: (j as f64 * 1.3).cos() }).collect();
    let (mut times, mut worst) = (Vec::new(), 0f64);
    for run in 0..=RUNS {
        let plaintext = encoder.encode_complex(&numbers, &scale, least)?;
        let x = plaintext.encrypt_seeded(&secret, &mut rng)?.expand();
        let started = Instant::now();
        let y = refresh.refresh(&x, &keys)?;
        if run > 0 {
            times.push(started.elapsed().as_nanos() as f64);
        }
        let found = Decryptor::new(&secret, &encoder)?.decrypt_complex(&y)?;
        for (found, number) in found.iter().zip(&numbers) {
            worst = worst.max((found.re - number.re).abs()).max((found.im - number.im).abs());
        }
        if !y.estimate().is_some_and(|estimate| worst <= estimate.error()) {
            return Err(Failure::Work(format!(
                "a refresh of {slots} slots has an error of {worst:e}, above its bound"
            )));
        }
    }
    let (median, min, max) = summary(times);
    let refreshed =
        Refreshed { slots, bits: -worst.log2(), levels: refresh.level() - least, key_bytes: keys.memory() as u64 };
    Ok(Line {
        job: "lattice".to_owned(),
        what: what.to_owned(),
        engine: "tobari".to_owned(),
        params: Params {
            set: format!("R{log}"),
            scheme: "ckks".to_owned(),
            n: parameters.degree(),
            level: parameters.data_primes(),
            dnum: parameters.digits(),
            log_qp: parameters.log_qp(),
            refresh: Some(refreshed),
        },
        backend: RingKernels::best().name.to_owned(),
        threads: 1,
        unit: "ns".to_owned(),
        median,
        min,
        max,
        runs: RUNS,
        labels: Vec::new(),
    })
}
