//! What `tobari plan infer --costs measured` plans with: a short measurement of this machine.

use super::infer::{failed, open_idle, round_trip, session, tables_8_and_9};
use super::line::summary;
use crate::output::{self, Failure};
use std::time::Instant;
use tobari_apps::engine::CkksEngine;
use tobari_apps::infer::Model;
use tobari_apps::infer::digits::{STYLES, draw};
use tobari_apps::infer::guarded::{Combination, Route, Setup};
use tobari_apps::infer::measured::{MeasuredMoves, StageSeconds, layers};
use tobari_apps::infer::placement::Layer;
use tobari_core::params::NamedSet;

/// Images of each combination: the fastest counts.
const RUNS: usize = 5;
const SET: &str = "infer-f";

/// Layers of the built-in network and moves of a process enclave, measured now.
pub(crate) fn costs() -> Result<(Vec<Layer>, MeasuredMoves), Failure> {
    let model = Model::digits().map_err(failed)?;
    let fixed = model.fixed().map_err(failed)?;
    let set = NamedSet::from_name(SET).ok_or_else(|| Failure::Work(format!("expected the set {SET}, found none")))?;
    let parameters = set.parameters().map_err(failed)?;
    let mut seconds = plain(&model);
    let mut compiled = Vec::new();
    for combination in [Combination::ProcessUserData, Combination::ProcessBoth, Combination::MixedPlainReset] {
        output::say(format!("measuring {}", combination.name()));
        let setup = Setup { route: Route::new(combination), parameters: parameters.clone(), model: model.clone() };
        let measured = session(&setup, &fixed, RUNS)?;
        for (stage, of) in seconds.iter_mut().zip(model.stages()) {
            let least = measured.least(&of.name).unwrap_or(f64::INFINITY) / 1e3;
            match combination {
                Combination::ProcessUserData => stage.user_data = least,
                Combination::ProcessBoth => stage.both = least,
                _ => stage.reset = least,
            }
        }
        compiled.extend(setup.compile().map_err(failed)?);
    }
    let mut enclave = open_idle(&model, &parameters)?;
    let (call, megabyte) = (round_trip(&mut enclave, 0, RUNS).1 / 1e6, round_trip(&mut enclave, 1024, RUNS).1 / 1e6);
    let bytes = |level: u16| -> Result<f64, Failure> {
        let engine = CkksEngine::new(&parameters).map_err(failed)?;
        Ok(engine.ciphertext_shape(level).map_err(failed)?.packed as f64)
    };
    let [encode, encrypt, decrypt, decode] = tables_8_and_9(&parameters, RUNS)?.map(|times| summary(times).1 / 1e3);
    let moves = MeasuredMoves {
        call,
        byte: (megabyte - call).max(0.0) / f64::from(1 << 20),
        encrypt: (encode + encrypt) / bytes(1)?,
        decrypt: (decrypt + decode) / bytes(0)?,
        factor: 1.0,
    };
    let [through, both, reset] = &compiled[..] else {
        return Err(Failure::Work("expected three compiled forms, found others".to_owned()));
    };
    Ok((layers([through, both, reset], &seconds, &moves).map_err(failed)?, moves))
}

/// Seconds of the stages in doubles, the fastest of some.
fn plain(model: &Model) -> Vec<StageSeconds> {
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
        all.push(StageSeconds { plain: least, user_data: f64::INFINITY, both: f64::INFINITY, reset: f64::INFINITY });
    }
    all
}
