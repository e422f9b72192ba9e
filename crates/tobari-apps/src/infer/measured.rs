//! Layers and moves for [`placement`](super::placement) from what was measured on a machine.
//!
//! A stage is a layer and its activation. On ciphertexts from the first stage to the last, and with encrypted weights, the two are done together and were measured together: the layer has the
//! seconds of both, the activation none. Reset stages are the maps alone, over one prime; their squares are done in plain numbers.
//! Stages between masked resets have their squares with them, and parameters of their own.
//!
//! An enclave's seconds are the process's, times a factor: 1 for an enclave that is a process, for it runs the same code.

use super::compile::{Compiled, Flow};
use super::guarded::Combination;
use super::placement::{ENCLAVE, Inference, Layer, Mode, Moves, PROCESS, Way};
use crate::engine::{CkksEngine, EngineError};
use tobari_plan::place::Data;
use tobari_plan::segment::Form;

/// Seconds of a stage in the process.
#[derive(Clone, Debug, PartialEq)]
pub struct StageSeconds {
    /// In plain numbers, without the activation.
    pub plain: f64,
    /// On ciphertexts, with the activation.
    pub user_data: f64,
    /// With encrypted weights too, with the activation.
    pub both: f64,
    /// The map alone, between resets.
    pub reset: f64,
    /// On ciphertexts with the activation, between resets under a mask.
    pub masked: f64,
}

/// Seconds of what is between the stages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredMoves {
    /// Of a message of no bytes.
    pub call: f64,
    /// Of a byte of a message.
    pub byte: f64,
    /// Of a client's message that is sealed, opened, and checked to come in its turn: the image in the clear, or what is told of it.
    pub sealed: f64,
    /// Of encoding and encryption, by byte of ciphertext.
    pub encrypt: f64,
    /// Of decryption and decoding, by byte of ciphertext.
    pub decrypt: f64,
    /// Of a mask, put on and taken off, by byte of ciphertext before the reset.
    pub mask: f64,
    /// By what an enclave's work is slower.
    pub factor: f64,
}

impl Moves for MeasuredMoves {
    fn transfer(&self, data: Data<'_>, _: bool) -> f64 {
        let sealed = if *data.form == Form::Plain { self.sealed } else { 0.0 };
        self.call + sealed + data.bytes as f64 * self.byte
    }

    fn encrypt(&self, to: Data<'_>, in_enclave: bool) -> f64 {
        to.bytes as f64 * self.encrypt * if in_enclave { self.factor } else { 1.0 }
    }

    fn decrypt(&self, from: Data<'_>, in_enclave: bool) -> f64 {
        from.bytes as f64 * self.decrypt * if in_enclave { self.factor } else { 1.0 }
    }

    fn mask(&self, from: Data<'_>, _: Data<'_>) -> f64 {
        from.bytes as f64 * self.mask
    }
}

/// Numbers between layers, eight bytes each.
fn plain_way(inputs: usize, outputs: usize, seconds: f64, factor: f64) -> Way {
    let bytes = [8 * inputs as u64, 8 * outputs as u64];
    Way {
        mode: Mode::Plain,
        takes: Form::Plain,
        gives: Form::Plain,
        bytes,
        seconds: [seconds, seconds * factor],
        checked: false,
    }
}

/// Ciphertexts of one point of a compiled model: their form, and bytes.
fn point(engine: &CkksEngine, name: &str, primes: usize, count: usize) -> Result<(Form, u64), EngineError> {
    let level = primes.saturating_sub(1) as u16;
    Ok((Form::Encrypted { level, layout: name.to_owned() }, engine.ciphertext_shape(level)?.packed * count as u64))
}

/// The layers of a model that was compiled through, with encrypted weights, between resets, and between resets under masks, with as many seconds as stages.
///
/// # Errors
/// [`EngineError`] for parameters of another scheme.
pub fn layers(
    [through, both, reset, masked]: [&Compiled; 4],
    seconds: &[StageSeconds],
    moves: &MeasuredMoves,
) -> Result<Vec<Layer>, EngineError> {
    let mut all = Vec::with_capacity(2 * seconds.len());
    for (number, seconds) in seconds.iter().enumerate().take(through.len()) {
        let inputs = if number == 0 { through.pixels() } else { through.outputs(number - 1) };
        let outputs = through.outputs(number);
        let mut ways = vec![plain_way(inputs, outputs, seconds.plain, moves.factor)];
        let mut after = vec![plain_way(outputs, outputs, 0.0, moves.factor)];
        let last = number + 1 == through.len();
        for (compiled, mode, taken) in [
            (through, Mode::UserData, seconds.user_data),
            (both, Mode::Both, seconds.both),
            (reset, Mode::UserData, seconds.reset),
            (masked, Mode::UserData, seconds.masked),
        ] {
            let engine = CkksEngine::new(compiled.parameters())?;
            let (stage, name) = (compiled.stage(number), compiled.layout().name());
            let named =
                |stage: usize, end: &str| format!("{name}, {mode}, {:?}: {stage} {end}", compiled.options().flow);
            let (takes, gives) = (stage.linear.takes.len(), stage.linear.outputs.len());
            let before = point(&engine, &named(number, "in"), stage.manner.primes, takes)?;
            let sums = point(&engine, &named(number, "sums"), stage.manner.sums(), gives)?;
            // what is between resets is done in the process: no route does it inside
            let factor = if compiled.options().flow == Flow::Through { moves.factor } else { f64::INFINITY };
            let way = |from: &(Form, u64), to: &(Form, u64), taken: f64| Way {
                mode,
                takes: from.0.clone(),
                gives: to.0.clone(),
                bytes: [from.1, to.1],
                seconds: [taken, if factor.is_finite() { taken * factor } else { factor }],
                checked: false,
            };
            ways.push(way(&before, &sums, taken));
            if stage.manner.square {
                let results = point(&engine, &named(number + 1, "in"), stage.manner.results(), gives)?;
                after.push(way(&sums, &results, 0.0));
            }
        }
        let name = through.stage(number).linear.name.clone();
        all.push(Layer { name: name.clone(), weights: true, ways });
        if !last {
            all.push(Layer { name: format!("{name}, squared"), weights: false, ways: after });
        }
    }
    Ok(all)
}

/// Whether a way of doing a layer at a site is the one that a combination has; all in plain numbers in the process where there is none.
pub fn belongs(combination: Option<Combination>, layer: &Layer, way: &Way, site: usize) -> bool {
    let flow = |wanted: &str| {
        let named = |form: &Form| matches!(form, Form::Encrypted { layout, .. } if layout.contains(wanted));
        named(&way.takes) && named(&way.gives)
    };
    let through = |mode: Mode, at: usize| way.mode == mode && site == at && flow("Through");
    match combination {
        None => way.mode == Mode::Plain && site == PROCESS,
        Some(Combination::ProcessUserData) => through(Mode::UserData, PROCESS),
        Some(Combination::ProcessBoth) => through(Mode::Both, PROCESS),
        Some(Combination::EnclaveUserData) => through(Mode::UserData, ENCLAVE),
        Some(Combination::EnclaveBoth) => through(Mode::Both, ENCLAVE),
        Some(Combination::MixedPlainReset) if layer.weights => {
            way.mode == Mode::UserData && site == PROCESS && flow("Reset")
        }
        // all of the first, and the squares of the second
        Some(Combination::EnclavePlain | Combination::MixedPlainReset) => way.mode == Mode::Plain && site == ENCLAVE,
        Some(Combination::MixedMaskedReset) => way.mode == Mode::UserData && site == PROCESS && flow("Masked"),
    }
}

/// The network to be placed: a user sends plain numbers to an enclave, or ciphertexts in any form that the first layer takes. Masks take ciphertexts of `masked_level`.
pub fn inference<'a>(layers: &'a [Layer], moves: &'a MeasuredMoves, masked_level: u16) -> Inference<'a> {
    let inputs = layers.first().into_iter().flat_map(|layer| &layer.ways).map(|way| (way.takes.clone(), way.bytes[0]));
    Inference { layers, inputs: inputs.collect(), masked_level: Some(masked_level), moves }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::infer::Model;
    use crate::infer::compile::Options;
    use crate::infer::placement::{Protect, Reset};
    use tobari_core::params::NamedSet;
    use tobari_plan::place::Conversion;

    #[test]
    fn the_cheapest_plan_follows_the_measured_seconds() {
        let model = Model::digits().unwrap();
        let compiled = |set, layout, flow, encrypted| {
            let parameters = NamedSet::from_name(set).unwrap().parameters().unwrap();
            Compiled::new(&model, layout, &parameters, Options { flow, encrypted }).unwrap()
        };
        let forms = [
            compiled("infer-f", "balanced", Flow::Through, false),
            compiled("infer-f", "balanced", Flow::Through, true),
            compiled("infer-f", "wide", Flow::Reset { fold: false }, false),
            compiled("infer-r", "wide", Flow::Masked { spare: 1 }, false),
        ];
        let forms = forms.each_ref();
        let protect =
            Protect { user_data: true, enclave: true, key_in_enclave: true, side_channels: true, ..Protect::default() };
        let stage = |user_data, reset| StageSeconds {
            plain: 1e-4,
            user_data,
            both: 3.0 * user_data,
            reset,
            masked: 0.5 * user_data,
        };
        let moves = MeasuredMoves {
            call: 1e-6,
            byte: 1e-10,
            sealed: 1e-5,
            encrypt: 1e-9,
            decrypt: 1e-9,
            mask: 1e-9,
            factor: 1.0,
        };
        let through = vec![stage(0.01, 0.02); 3];
        let rows = layers(forms, &through, &moves).unwrap();
        assert_eq!(rows.len(), 5);
        let best = inference(&rows, &moves, 1).place(&protect).unwrap();
        assert!((0.03..0.04).contains(&best.seconds), "through, and released at the end: {}", best.seconds);
        let masked = Protect { reset: Reset::Masked, ..protect };
        let best = inference(&rows, &moves, 1).place(&masked).unwrap();
        let resets = best.choices.iter().filter_map(|choice| choice.conversion);
        let resets: Vec<_> = resets.filter(|(conversion, _)| *conversion == Conversion::MaskedReset).collect();
        assert_eq!(resets, [(Conversion::MaskedReset, ENCLAVE)], "the last stage takes what the second gives");
        assert!((0.015..0.03).contains(&best.seconds), "{}", best.seconds);
        // activations in the clear may save two thirds, but then all in the clear inside is cheaper still
        let free = Protect { side_channels: false, reset: Reset::Plain, ..protect };
        let best = inference(&rows, &moves, 1).place(&free).unwrap();
        assert!(best.choices.iter().all(|choice| choice.site == ENCLAVE) && best.seconds < 1e-3);
        let dear = vec![StageSeconds { plain: 1.0, ..stage(0.1, 0.01) }; 3];
        let rows = layers(forms, &dear, &moves).unwrap();
        let best = inference(&rows, &moves, 1).place(&free).unwrap();
        let sites: Vec<usize> = best.choices.iter().map(|choice| choice.site).collect();
        assert_eq!((sites[0], sites[1]), (PROCESS, ENCLAVE), "maps outside, squares inside");
        assert!(best.seconds < 0.1);
    }
}
