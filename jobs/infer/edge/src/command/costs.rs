//! The costs of `tobari plan infer --costs measured`: a short measurement of this machine.

use super::timed::{failed, least, open_idle, parameters, round_trips, session};
use std::time::Instant;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tobari_infer::digits::{STYLES, draw};
use tobari_infer::guarded::{Combination, Route, Setup};
use tobari_infer::measured::{Costs, Forms, StageSeconds, Steps, forms};
use tobari_infer::{FixedModel, Model};
use tobari_lattice::ckks::{Encoder, Scale};
use tobari_lattice::params::LatticeParameters;
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::SecretKey;
use tobari_lattice::wire;

/// Images for each combination: the fastest counts.
const RUNS: usize = 5;
/// The parameter set of the measurement.
pub const SET: &str = "infer-f";
/// The parameter set for masked resets.
pub const MASKED_SET: &str = "infer-r";

/// Layers of the built-in network and moves of a process enclave, measured now. An enclave's work
/// counts as `factor` times its measured time.
pub fn costs(factor: f64) -> Result<Costs, Failure> {
    Measured::now()?.costs(factor)
}

/// A measurement, or the fastest of several.
pub struct Measured {
    seconds: Vec<StageSeconds>,
    steps: Steps,
    forms: Forms,
}

impl Measured {
    /// Measures for some seconds.
    pub fn now() -> Result<Self, Failure> {
        let model = Model::digits().map_err(failed)?;
        let fixed = model.fixed().map_err(failed)?;
        let (ring, masked_ring) = (parameters(SET)?, parameters(MASKED_SET)?);
        let (mut seconds, mut mask) = (plain(&model, &fixed)?, f64::INFINITY);
        let (mut input, mut result) = (f64::INFINITY, f64::INFINITY);
        for (combination, parameters) in [
            (Combination::ProcessUserData, &ring),
            (Combination::ProcessBoth, &ring),
            (Combination::MixedPlainReset, &ring),
            (Combination::MixedMaskedReset, &masked_ring),
        ] {
            output::say(format!("measuring {}", combination.name()));
            let route = Route::new(combination, parameters);
            let setup = Setup { route, parameters: parameters.clone(), model: model.clone() };
            let measured = session(&setup, &fixed, RUNS)?;
            for (stage, of) in seconds.iter_mut().zip(model.stages()) {
                let least = measured.least(&of.name).unwrap_or(f64::INFINITY) / 1e3;
                match combination {
                    Combination::ProcessUserData => stage.user_data = least,
                    Combination::ProcessBoth => stage.both = least,
                    Combination::MixedPlainReset => stage.reset = least,
                    _ => stage.masked = least,
                }
            }
            mask = measured.least("mask").map_or(mask, |ms| ms / 1e3);
            if combination == Combination::MixedPlainReset {
                // the way of a ciphertext: encoded, encrypted, packed, sent through the ring,
                // unpacked; and back
                [input, result] = ["input", "result"].map(|step| measured.least(step).unwrap_or(f64::INFINITY) / 1e3);
            }
        }
        output::say(format!("measuring {}", Combination::EnclavePlain.name()));
        let route = Route::new(Combination::EnclavePlain, &ring);
        let clear = session(&Setup { route, parameters: ring.clone(), model: model.clone() }, &fixed, 4 * RUNS)?;
        let [call, byte] = messages(&model, &ring)?;
        let written = written(&ring)?;
        let steps = Steps { call, byte, written, clear: clear.fastest() / 1e3, input, result, mask };
        Ok(Self { seconds, steps, forms: forms(&model, &ring, &masked_ring).map_err(failed)? })
    }

    /// The better of two for each number: other load on this machine slows some of them.
    pub fn or_faster(mut self, other: &Self) -> Self {
        for (ours, theirs) in self.seconds.iter_mut().zip(&other.seconds) {
            *ours = StageSeconds {
                plain: ours.plain.min(theirs.plain),
                user_data: ours.user_data.min(theirs.user_data),
                both: ours.both.min(theirs.both),
                reset: ours.reset.min(theirs.reset),
                masked: ours.masked.min(theirs.masked),
            };
        }
        let (ours, theirs) = (self.steps, other.steps);
        self.steps = Steps {
            call: ours.call.min(theirs.call),
            byte: ours.byte.min(theirs.byte),
            written: ours.written.min(theirs.written),
            clear: ours.clear.min(theirs.clear),
            input: ours.input.min(theirs.input),
            result: ours.result.min(theirs.result),
            mask: ours.mask.min(theirs.mask),
        };
        self
    }

    /// The costs if an enclave's work takes `factor` times its measured time.
    pub fn costs(&self, factor: f64) -> Result<Costs, Failure> {
        Costs::new(&self.forms, &self.seconds, &self.steps, factor).map_err(failed)
    }
}

/// Seconds of an empty message into the enclave, and of each byte.
fn messages(model: &Model, parameters: &LatticeParameters) -> Result<[f64; 2], Failure> {
    let mut enclave = open_idle(model, parameters)?;
    let mut seconds = |kib| least(&round_trips(&mut enclave, kib, RUNS)) / 1e6;
    let (call, megabyte) = (seconds(0), seconds(1024));
    Ok([call, (megabyte - call).max(0.0) / f64::from(1 << 20)])
}

/// Seconds for each byte of a ciphertext that is written and read again, the fastest of several.
pub fn written(parameters: &LatticeParameters) -> Result<f64, Failure> {
    let mut rng = randomness::generator()?;
    let secret = SecretKey::from_seed(parameters, Seed::random(&mut rng));
    let encoder = Encoder::new(parameters).map_err(failed)?;
    let level = parameters.data_primes();
    let one = encoder.encrypt_seeded(&[1.0], &Scale::power_of_two(26), level, &secret, &mut rng).map_err(failed)?;
    let mut least = f64::INFINITY;
    for _ in 0..4 * RUNS {
        let began = Instant::now();
        let bytes = wire::encode_ckks_seeded_ciphertext(&one);
        std::hint::black_box(wire::decode_ckks_seeded_ciphertext(&bytes, parameters).map_err(failed)?);
        least = least.min(began.elapsed().as_secs_f64() / bytes.len() as f64);
    }
    Ok(least)
}

/// Seconds of the stages in integers, the fastest of several: those of the whole network, divided
/// in proportion to the stages' times in doubles.
fn plain(model: &Model, fixed: &FixedModel) -> Result<Vec<StageSeconds>, Failure> {
    let mut numbers = Model::numbers(&draw(3, &STYLES[0]));
    let mut all = Vec::new();
    for stage in model.stages() {
        let mut least = f64::INFINITY;
        let mut sums = Vec::new();
        for _ in 0..4 * RUNS {
            let began = Instant::now();
            sums = stage.apply(&numbers);
            least = least.min(began.elapsed().as_secs_f64());
        }
        numbers = sums.iter().map(|u| u * u).collect();
        all.push(StageSeconds {
            plain: least,
            user_data: f64::INFINITY,
            both: f64::INFINITY,
            reset: f64::INFINITY,
            masked: f64::INFINITY,
        });
    }
    let pixels = draw(3, &STYLES[0]);
    let mut least = f64::INFINITY;
    for _ in 0..4 * RUNS {
        let began = Instant::now();
        std::hint::black_box(fixed.classify(&pixels).map_err(failed)?);
        least = least.min(began.elapsed().as_secs_f64());
    }
    let doubles: f64 = all.iter().map(|stage| stage.plain).sum();
    all.iter_mut().for_each(|stage| stage.plain *= least / doubles);
    Ok(all)
}
