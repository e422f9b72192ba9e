//! Layers and moves for [`placement`](super::placement), from measurements of a machine.
//!
//! A stage is a layer and its activation. On ciphertexts from the first stage to the last, and with
//! encrypted weights, both run and were measured together: the layer has the seconds of both, the
//! activation none. Reset stages are the maps alone, over one prime; their squares run on plain
//! numbers. Stages between masked resets include their squares and have separate parameters.
//!
//! An enclave's seconds are those of the process times a factor. The factor is 1 for an enclave
//! that is a process, because it runs the same code.

use super::Model;
use super::compile::{Compiled, Flow};
use super::guarded::{Combination, Route, RouteError, Setup};
use super::placement::{ENCLAVE, Inference, Layer, Mode, Moves, PROCESS, Way};
use tobari_engine::{CkksEngine, EngineError};
use tobari_lattice::params::LatticeParameters;
use tobari_plan::place::Data;
use tobari_plan::segment::Form;

/// The part of a ciphertext's bytes that leaves the enclave: the ciphertext is fresh there, and a
/// seed replaces its second half.
const OUT: f64 = 0.5;

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

/// Seconds of the steps between the stages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredMoves {
    /// For an empty message.
    pub call: f64,
    /// For each byte of a message.
    pub byte: f64,
    /// For each byte of a ciphertext that one side writes and the other reads.
    pub written: f64,
    /// To seal, open and check the order of a client's messages: the plaintext image, and the
    /// output.
    pub sealed: f64,
    /// For encoding and encryption, by byte of ciphertext.
    pub encrypt: f64,
    /// For decryption and decoding, by byte of ciphertext.
    pub decrypt: f64,
    /// To add and remove a mask, by byte of ciphertext before the reset.
    pub mask: f64,
    /// The factor by which an enclave's work is slower.
    pub factor: f64,
}

/// Seconds of a session's steps; the moves follow from them ([`Costs::new`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    /// For an empty message.
    pub call: f64,
    /// For each byte of a message.
    pub byte: f64,
    /// For each byte of a ciphertext that is written and read again.
    pub written: f64,
    /// For an image that the enclave classifies in plain numbers, from the client's pixels to the
    /// label.
    pub clear: f64,
    /// For an image that is encrypted inside, sent out and read, for stages between resets.
    pub input: f64,
    /// For such a result, read and decrypted inside.
    pub result: f64,
    /// For adding and removing all masks of an image.
    pub mask: f64,
}

/// The built-in network's stages on a machine without AVX-512: medians of
/// `bench/record/amd-zen3-2-cores/2026-11-24-infer/infer-f` (`layers.csv`; plain numbers from
/// `table6.csv`, divided among the stages by products).
pub const RECORDED: [StageSeconds; 3] = [
    StageSeconds { plain: 8e-6, user_data: 4.074e-3, both: 6.369e-3, reset: 0.135e-3, masked: 3.021e-3 },
    StageSeconds { plain: 47e-6, user_data: 7.768e-3, both: 13.362e-3, reset: 2.093e-3, masked: 11.742e-3 },
    StageSeconds { plain: 4e-6, user_data: 3.236e-3, both: 4.718e-3, reset: 1.292e-3, masked: 3.299e-3 },
];
/// The steps beside these stages. A byte is from the mebibyte of `table7.csv`, bytes written and
/// read from the mebibyte of `operations.csv`, an empty message from ADR 0018.
pub const RECORDED_STEPS: Steps = Steps {
    call: 1e-6,
    byte: 1.87e-10,
    written: 5.4e-10,
    clear: 0.142e-3,
    input: 4.538e-3,
    result: 0.612e-3,
    mask: 1.015e-3,
};

/// A network in its four forms on ciphertexts: with plaintext weights, with encrypted weights,
/// between resets, and between masked resets.
pub type Forms = [Compiled; 4];

/// A network's forms. The last one has separate parameters.
///
/// # Errors
/// [`RouteError`] for a network or parameters that do not fit the layouts.
pub fn forms(model: &Model, ring: &LatticeParameters, masked: &LatticeParameters) -> Result<Forms, RouteError> {
    let of = |combination: Combination, parameters: &LatticeParameters| -> Result<Compiled, RouteError> {
        let route = Route::new(combination, parameters);
        let setup = Setup { route, parameters: parameters.clone(), model: model.clone() };
        // all four are encrypted
        setup.compile()?.ok_or(RouteError::TooLarge)
    };
    Ok([
        of(Combination::ProcessUserData, ring)?,
        of(Combination::ProcessBoth, ring)?,
        of(Combination::MixedPlainReset, ring)?,
        of(Combination::MixedMaskedReset, masked)?,
    ])
}

/// The costs for placing a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// The layers, with all ways to run them.
    pub layers: Vec<Layer>,
    /// The costs of moves.
    pub moves: MeasuredMoves,
    /// The level that masks need.
    pub masked_level: u16,
}

impl Costs {
    /// Costs from seconds of stages and steps; `factor` is an enclave's time divided by a
    /// process's.
    ///
    /// # Errors
    /// [`EngineError`] for forms of another scheme.
    pub fn new(forms: &Forms, seconds: &[StageSeconds], steps: &Steps, factor: f64) -> Result<Self, EngineError> {
        let [through, both, reset, masked] = forms;
        let computed: f64 = seconds.iter().map(|stage| stage.plain).sum();
        let last = reset.len().saturating_sub(1);
        let mut resets = (0..masked.len()).filter(|stage| masked.needs_reset(*stage));
        // per byte, for a step that was measured together with its message
        let without_message =
            |seconds: f64, bytes: f64, share: f64| (seconds / bytes - share * (steps.byte + steps.written)).max(0.0);
        let masks = resets.try_fold(0.0, |sum, stage| Ok::<f64, EngineError>(sum + bytes(masked, stage, false)?))?;
        let moves = MeasuredMoves {
            call: steps.call,
            byte: steps.byte,
            written: steps.written,
            sealed: (steps.clear - computed).max(0.0),
            encrypt: without_message(steps.input, bytes(reset, 0, true)?, OUT),
            decrypt: without_message(steps.result, bytes(reset, last, false)?, 1.0),
            mask: steps.mask / masks.max(1.0),
            factor,
        };
        let layers = layers([through, both, reset, masked], seconds, &moves)?;
        Ok(Self { layers, moves, masked_level: masked.stage(0).manner.results().saturating_sub(1) as u16 })
    }

    /// The network to place.
    pub fn inference(&self) -> Inference<'_> {
        inference(&self.layers, &self.moves, self.masked_level)
    }
}

/// Bytes of the ciphertexts that a stage takes or gives.
fn bytes(compiled: &Compiled, stage: usize, takes: bool) -> Result<f64, EngineError> {
    let engine = CkksEngine::new(compiled.parameters())?.unbounded();
    let stage = compiled.stage(stage);
    let (primes, count) = match takes {
        true => (stage.manner.primes, stage.linear.takes.len()),
        false => (stage.manner.results(), stage.linear.outputs.len()),
    };
    let each = engine.ciphertext_shape(primes.saturating_sub(1) as u16)?.packed;
    Ok((each * count as u64).max(1) as f64)
}

impl Moves for MeasuredMoves {
    fn enter(&self, data: Data<'_>, into_enclave: bool) -> f64 {
        if *data.form == Form::Plain {
            return 0.0;
        }
        // clients send their image sealed; it is encrypted inside and then either leaves the
        // enclave, or stays there and saves the transfer in
        let moved = if into_enclave { -self.transfer(data, true) } else { self.transfer(data, false) };
        self.sealed + self.encrypt(data, true) + moved
    }

    fn transfer(&self, data: Data<'_>, into_enclave: bool) -> f64 {
        let share = if into_enclave { 1.0 } else { OUT };
        match data.form {
            Form::Plain => self.call + self.sealed + data.bytes as f64 * self.byte,
            _ => self.call + share * data.bytes as f64 * (self.byte + self.written),
        }
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

/// Plain numbers between layers, eight bytes each.
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

/// Form and bytes of the ciphertexts at one point of a compiled model.
fn point(engine: &CkksEngine, name: &str, primes: usize, count: usize) -> Result<(Form, u64), EngineError> {
    let level = primes.saturating_sub(1) as u16;
    Ok((Form::Encrypted { level, layout: name.to_owned() }, engine.ciphertext_shape(level)?.packed * count as u64))
}

/// The layers of a model in its four forms ([`Forms`]), with seconds for each stage.
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
            let engine = CkksEngine::new(compiled.parameters())?.unbounded();
            let (stage, name) = (compiled.stage(number), compiled.layout().name());
            let named =
                |stage: usize, end: &str| format!("{name}, {mode}, {:?}: {stage} {end}", compiled.options().flow);
            let (takes, gives) = (stage.linear.takes.len(), stage.linear.outputs.len());
            let before = point(&engine, &named(number, "in"), stage.manner.primes, takes)?;
            let sums = point(&engine, &named(number, "sums"), stage.manner.sums(), gives)?;
            // stages between resets run in the process: no route runs them inside
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

/// Whether a combination runs a layer in this way at this site; `None` stands for plain numbers in
/// the process.
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
        // all layers of the first combination, and the squares of the second
        Some(Combination::EnclavePlain | Combination::MixedPlainReset) => way.mode == Mode::Plain && site == ENCLAVE,
        Some(Combination::MixedMaskedReset) => way.mode == Mode::UserData && site == PROCESS && flow("Masked"),
    }
}

/// The network to place: a user sends plain numbers to an enclave, or ciphertexts in any form that
/// the first layer takes. Masked resets take ciphertexts of `masked_level`.
pub fn inference<'a>(layers: &'a [Layer], moves: &'a MeasuredMoves, masked_level: u16) -> Inference<'a> {
    let inputs = layers.first().into_iter().flat_map(|layer| &layer.ways).map(|way| (way.takes.clone(), way.bytes[0]));
    Inference { layers, inputs: inputs.collect(), masked_level: Some(masked_level), moves }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::Model;
    use crate::compile::Options;
    use crate::placement::{Inside, Protect};
    use tobari_lattice::params::NamedSet;
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
            written: 1e-10,
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
        let masked = Protect { plain_in_enclave: Some(Inside::Masked), ..protect };
        let best = inference(&rows, &moves, 1).place(&masked).unwrap();
        let resets = best.choices.iter().filter_map(|choice| choice.conversion);
        let resets: Vec<_> = resets.filter(|(conversion, _)| *conversion == Conversion::MaskedReset).collect();
        assert_eq!(resets, [(Conversion::MaskedReset, ENCLAVE)], "the last stage takes what the second gives");
        assert!((0.015..0.03).contains(&best.seconds), "{}", best.seconds);
        // plaintext activations may save two thirds, but then plaintext for all layers inside is
        // cheaper still
        let free = Protect { side_channels: false, plain_in_enclave: Some(Inside::Yes), ..protect };
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
