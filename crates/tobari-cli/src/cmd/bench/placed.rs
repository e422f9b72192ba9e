//! What `tobari plan infer --costs measured` plans with: a short measurement of this machine.

use super::infer::{failed, open_idle, parameters, round_trip, session};
use crate::output::{self, Failure};
use std::time::Instant;
use tobari_apps::engine::CkksEngine;
use tobari_apps::infer::compile::Compiled;
use tobari_apps::infer::digits::{STYLES, draw};
use tobari_apps::infer::guarded::{Combination, Route, Setup};
use tobari_apps::infer::measured::{MeasuredMoves, StageSeconds, layers};
use tobari_apps::infer::placement::Layer;
use tobari_apps::infer::{FixedModel, Model};
use tobari_core::params::LatticeParameters;

/// Images of each combination: the fastest counts.
const RUNS: usize = 5;
pub(super) const SET: &str = "infer-f";
/// The set of resets under masks.
pub(super) const MASKED_SET: &str = "infer-r";

/// What was measured.
pub(crate) struct Costs {
    /// The layers, with all ways to do them.
    pub(crate) layers: Vec<Layer>,
    /// What moves cost.
    pub(crate) moves: MeasuredMoves,
    /// The level that masks take.
    pub(crate) masked_level: u16,
}

/// Layers of the built-in network and moves of a process enclave, measured now.
pub(crate) fn costs() -> Result<Costs, Failure> {
    Measured::now()?.costs()
}

/// A measurement, or the fastest of several.
pub(super) struct Measured {
    seconds: Vec<StageSeconds>,
    /// But for a sealed message, which is told by the images in the clear.
    moves: MeasuredMoves,
    /// Seconds of an image that the enclave classifies in the clear.
    clear: f64,
    /// Weights in the clear, encrypted, with resets, with resets under masks.
    compiled: [Compiled; 4],
}

impl Measured {
    pub(super) fn now() -> Result<Self, Failure> {
        let model = Model::digits().map_err(failed)?;
        let fixed = model.fixed().map_err(failed)?;
        let (ring, masked_ring) = (parameters(SET)?, parameters(MASKED_SET)?);
        let (mut seconds, mut compiled, mut mask) = (plain(&model, &fixed)?, Vec::new(), f64::INFINITY);
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
                // as a ciphertext goes: encoded, encrypted, packed, through the ring, unpacked; and back
                [input, result] = ["input", "result"].map(|step| measured.least(step).unwrap_or(f64::INFINITY) / 1e3);
            }
            compiled.extend(setup.compile().map_err(failed)?);
        }
        output::say(format!("measuring {}", Combination::EnclavePlain.name()));
        let route = Route::new(Combination::EnclavePlain, &ring);
        let clear = session(&Setup { route, parameters: ring.clone(), model: model.clone() }, &fixed, 4 * RUNS)?;
        let others = || Failure::Work("expected four compiled forms, found others".to_owned());
        let compiled: [Compiled; 4] = compiled.try_into().map_err(|_| others())?;
        let [_, _, reset, masked] = &compiled;
        let moves = MeasuredMoves {
            encrypt: input / bytes_of(reset, 0, true)?,
            decrypt: result / bytes_of(reset, reset.len().saturating_sub(1), false)?,
            mask: mask / masked_bytes(masked)?,
            ..moves(&model, &ring)?
        };
        Ok(Self { seconds, moves, clear: clear.fastest() / 1e3, compiled })
    }

    /// Of each figure the better of two: a neighbour of this machine slows some of them.
    pub(super) fn or_faster(mut self, other: &Self) -> Self {
        for (ours, theirs) in self.seconds.iter_mut().zip(&other.seconds) {
            *ours = StageSeconds {
                plain: ours.plain.min(theirs.plain),
                user_data: ours.user_data.min(theirs.user_data),
                both: ours.both.min(theirs.both),
                reset: ours.reset.min(theirs.reset),
                masked: ours.masked.min(theirs.masked),
            };
        }
        let (ours, theirs) = (self.moves, other.moves);
        self.moves = MeasuredMoves {
            call: ours.call.min(theirs.call),
            byte: ours.byte.min(theirs.byte),
            encrypt: ours.encrypt.min(theirs.encrypt),
            decrypt: ours.decrypt.min(theirs.decrypt),
            mask: ours.mask.min(theirs.mask),
            ..ours
        };
        self.clear = self.clear.min(other.clear);
        self
    }

    pub(super) fn costs(&self) -> Result<Costs, Failure> {
        let computed: f64 = self.seconds.iter().map(|stage| stage.plain).sum();
        // one in and one out
        let moves = MeasuredMoves { sealed: (self.clear - computed).max(0.0) / 2.0, ..self.moves };
        let [through, both, reset, masked] = &self.compiled;
        let layers = layers([through, both, reset, masked], &self.seconds, &moves).map_err(failed)?;
        Ok(Costs { layers, moves, masked_level: masked.stage(0).manner.results().saturating_sub(1) as u16 })
    }
}

/// Bytes of the ciphertexts that a stage takes, or gives.
fn bytes_of(compiled: &Compiled, stage: usize, takes: bool) -> Result<f64, Failure> {
    let engine = CkksEngine::new(compiled.parameters()).map_err(failed)?;
    let stage = compiled.stage(stage);
    let (primes, count) = match takes {
        true => (stage.manner.primes, stage.linear.takes.len()),
        false => (stage.manner.results(), stage.linear.outputs.len()),
    };
    let each = engine.ciphertext_shape(primes.saturating_sub(1) as u16).map_err(failed)?.packed;
    Ok((each * count as u64).max(1) as f64)
}

/// Bytes of all ciphertexts of an image that get a mask.
fn masked_bytes(masked: &Compiled) -> Result<f64, Failure> {
    let mut stages = (0..masked.len()).filter(|stage| masked.needs_reset(*stage));
    stages.try_fold(0.0, |sum, stage| Ok(sum + bytes_of(masked, stage, false)?))
}

/// Moves into the enclave; what is done to ciphertexts is left out.
fn moves(model: &Model, parameters: &LatticeParameters) -> Result<MeasuredMoves, Failure> {
    let mut enclave = open_idle(model, parameters)?;
    let (call, megabyte) = (round_trip(&mut enclave, 0, RUNS).1 / 1e6, round_trip(&mut enclave, 1024, RUNS).1 / 1e6);
    let byte = (megabyte - call).max(0.0) / f64::from(1 << 20);
    let unknown = f64::INFINITY;
    Ok(MeasuredMoves { call, byte, sealed: unknown, encrypt: unknown, decrypt: unknown, mask: unknown, factor: 1.0 })
}

/// Seconds of the stages in integers, the fastest of some: of the whole network, shared out as the stages take it in doubles.
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
