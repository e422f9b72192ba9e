//! Sites of the steps, the bytes that an enclave is built from, and the script of its sessions.

use crate::calibration::{self, MarginError, error_bound};
use crate::card;
use crate::compile::{CompileError, Compiled, Flow, Options};
use crate::forecast::{self, ForecastError};
use crate::layout::Linear;
use crate::model::{Map, Model};
use crate::plain::FRACTION_BITS;
use crate::precision::{self, PrecisionError, Ranges};
use crate::program::Input;
use crate::ready::ORDER;
use crate::{FixedError, ModelBytesError, ModelError};
use tobari_enclave::configuration::{self, ConfigurationError};
use tobari_enclave::{Configuration, Digest, OutputPolicy, Party, Script, Size, Step};
use tobari_engine::{CkksEngine, EngineError};
use tobari_lattice::ckks;
use tobari_lattice::params::LatticeParameters;
use tobari_lattice::wire::{self, LatticeWireError};

/// Version of the bytes.
const VERSION: u8 = 1;
const MAX_NAME: usize = 32;
/// The most bytes of keys or weights in one message.
const PART: u64 = 32 << 20;
/// Bytes for an object's headers, beyond its shape's.
pub(super) const HEADER: u32 = 4096;
/// Masks need no more than one prime of this many bits beside the first.
const WIDE_BITS: u32 = 45;
/// All resets of a session together must be hidden up to a distance of two to minus this.
const LEAST_DISTANCE_BITS: f64 = 20.0;

/// The site and form of each step: see the head of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Combination {
    /// All in the process, on ciphertexts, with its weights.
    ProcessUserData,
    /// All in the process, on ciphertexts, with encrypted weights.
    ProcessBoth,
    /// All inside, in integers.
    EnclavePlain,
    /// All inside, on ciphertexts.
    EnclaveUserData,
    /// All inside, on ciphertexts, with encrypted weights.
    EnclaveBoth,
    /// Maps in the process, on ciphertexts; squares inside, on plaintext.
    MixedPlainReset,
    /// Maps and squares in the process, on ciphertexts; masked values are encrypted again inside.
    MixedMaskedReset,
}

impl Combination {
    /// All combinations.
    pub const ALL: [Self; 7] = [
        Self::ProcessUserData,
        Self::ProcessBoth,
        Self::EnclavePlain,
        Self::EnclaveUserData,
        Self::EnclaveBoth,
        Self::MixedPlainReset,
        Self::MixedMaskedReset,
    ];

    /// The combination's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ProcessUserData => "process-user-data",
            Self::ProcessBoth => "process-both",
            Self::EnclavePlain => "enclave-plain",
            Self::EnclaveUserData => "enclave-user-data",
            Self::EnclaveBoth => "enclave-both",
            Self::MixedPlainReset => "mixed-plain-reset",
            Self::MixedMaskedReset => "mixed-masked-reset",
        }
    }

    /// The combination of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// The default set of parameters: the fastest one, or, with masks, the one with room for wide
    /// masks.
    pub fn usual_set(self) -> &'static str {
        if self == Self::MixedMaskedReset { "infer-r" } else { crate::ready::SET }
    }

    /// Whether anything is encrypted.
    pub fn is_encrypted(self) -> bool {
        self != Self::EnclavePlain
    }

    /// Whether weights are encrypted, too.
    pub fn encrypts_weights(self) -> bool {
        matches!(self, Self::ProcessBoth | Self::EnclaveBoth)
    }

    /// Whether the process computes.
    pub fn uses_process(self) -> bool {
        !matches!(self, Self::EnclavePlain | Self::EnclaveUserData | Self::EnclaveBoth)
    }

    /// Whether ciphertexts are decrypted inside between stages.
    pub fn resets(self) -> bool {
        matches!(self, Self::MixedPlainReset | Self::MixedMaskedReset)
    }
}

/// The site of each step, and its form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The combination.
    pub combination: Combination,
    /// The name of the ciphertexts' layout; without meaning if nothing is encrypted.
    pub layout: String,
    /// Primes that make masks wider ([`Flow::Masked`]); 0 without masks.
    pub spare: u8,
}

/// Errors of a route that does not fit its model and parameters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// A layout or parameters that do not fit.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// An error of the engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The model has no integer form.
    #[error(transparent)]
    Fixed(#[from] FixedError),
    /// An error of the configuration.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// An output policy that reveals data that the combination hides.
    #[error("{combination}: expected {expected}, found a policy that tells more")]
    Output {
        /// The combination.
        combination: &'static str,
        /// The permitted output.
        expected: &'static str,
    },
    /// Parameters larger than the limit.
    #[error(transparent)]
    Parameters(#[from] LatticeWireError),
    /// Errors that would change labels.
    #[error(transparent)]
    Margin(#[from] MarginError),
    /// Numbers that do not fit.
    #[error(transparent)]
    Precision(#[from] PrecisionError),
    /// A program that cannot be simulated.
    #[error(transparent)]
    Forecast(#[from] ForecastError),
    /// A rounding so fine that rounded scores reveal the errors of decryption.
    #[error(
        "{combination}: scores rounded to {found} bits behind the point tell the errors of decryption, from which the key follows. Logits may be off by {error:.3}, so at most rounded:{most} hides them (0: none does); or tell label or top:N"
    )]
    Rounding {
        /// The combination.
        combination: &'static str,
        /// The bits requested.
        found: u8,
        /// The most bits that hide the errors.
        most: u8,
        /// The bound on the error of a logit.
        error: f64,
    },
    /// More resets than the masks hide.
    #[error("expected resets that are hidden up to 2^-{LEAST_DISTANCE_BITS} in a session, found 2^-{found:.1}")]
    MaskBudget {
        /// Minus the binary logarithm of the distance.
        found: f64,
    },
    /// Spare primes without masks.
    #[error("expected no spare primes but for masked resets, found some")]
    Spare,
    /// A network with more visits of the enclave than a script has.
    #[error(
        "expected a network of at most {most} visits of the enclave for a picture, found one of {found}: serve it with \
         --infer-enclave enclave-plain, which runs all of it inside"
    )]
    Visits {
        /// Visits.
        found: usize,
        /// The most.
        most: usize,
    },
    /// A network without a map for the process.
    #[error("expected a network with a linear map, found none: serve it with --infer-enclave enclave-plain")]
    NoMap,
    /// More steps or longer messages than a script allows.
    #[error("expected a model whose keys and ciphertexts fit a script, found a larger one")]
    TooLarge,
    /// A model of the same shape that is invalid.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl Route {
    /// This combination in the fastest layout; for models that do not fit it there is
    /// [`Setup::suited`]. Masks use one prime beside the first, or two if the second is narrow.
    pub fn new(combination: Combination, parameters: &LatticeParameters) -> Self {
        let wide = parameters.ring().data_primes().get(1).is_some_and(|prime| prime.modulus().bits() >= WIDE_BITS);
        let spare = match combination {
            Combination::MixedMaskedReset if wide => 1,
            Combination::MixedMaskedReset => 2,
            _ => 0,
        };
        Self { combination, layout: ORDER[0].to_owned(), spare }
    }

    /// The options of the compilation; `None` if nothing is encrypted.
    pub fn options(&self) -> Option<Options> {
        let flow = match self.combination {
            Combination::EnclavePlain => return None,
            Combination::MixedPlainReset => Flow::Reset { fold: false },
            Combination::MixedMaskedReset => Flow::Masked { spare: self.spare },
            _ => Flow::Through,
        };
        Some(Options { flow, encrypted: self.combination.encrypts_weights() })
    }

    /// Encodes the version, the combination's place in [`Combination::ALL`], the spare primes, the
    /// length of the layout's name, and the name.
    pub fn encode(&self) -> Vec<u8> {
        let place = Combination::ALL.iter().position(|one| *one == self.combination).unwrap_or(0);
        let name = &self.layout.as_bytes()[..self.layout.len().min(MAX_NAME)];
        let mut out = vec![VERSION, place as u8, self.spare, name.len() as u8];
        out.extend_from_slice(name);
        out
    }

    /// Decodes a route at the start of the bytes, and returns the rest too.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let [version, place, spare, length, rest @ ..] = bytes else { return None };
        let combination = *Combination::ALL.get(usize::from(*place))?;
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        let layout = std::str::from_utf8(name).ok()?.to_owned();
        let plain = name.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let good = *version == VERSION && name.len() <= MAX_NAME && plain;
        good.then_some((Self { combination, layout, spare: *spare }, rest))
    }

    /// The route's digest, the plan of a configuration.
    pub fn digest(&self) -> Digest {
        Digest::of("tobari infer route 1", &[&self.encode()])
    }

    /// Minus the binary logarithm of the statistical distance up to which all resets of so many
    /// images are hidden; infinite without masks.
    pub fn distance_bits(&self, compiled: &Compiled, model: &Model, images: u32) -> f64 {
        if self.combination != Combination::MixedMaskedReset || !compiled.needs_reset(0) {
            return f64::INFINITY;
        }
        let (parameters, worst) = (compiled.parameters(), Ranges::worst(model));
        let mut distance = 0.0;
        for number in (0..compiled.len()).filter(|number| compiled.needs_reset(*number)) {
            let stage = compiled.stage(number);
            let largest = if number == 0 { 1.0 } else { worst.0[number - 1].powi(2) };
            let sum = largest_slot(stage.linear, largest);
            let scale = compiled.scales(number).results.to_f64(parameters).unwrap_or(f64::INFINITY);
            let bits = ckks::Plaintext::mask_bits(parameters, stage.manner.results());
            let one = parameters.degree() as f64 * scale * sum * sum / 2f64.powi(bits as i32 + 1);
            distance += one * stage.linear.outputs.len() as f64;
        }
        -(distance * f64::from(images)).log2()
    }
}

/// The largest value that a slot of a stage's sums can have, unused slots included, for inputs up
/// to `largest`.
fn largest_slot(linear: &Linear, largest: f64) -> f64 {
    let mut slots: Vec<Vec<f64>> = Vec::with_capacity(linear.outputs.len());
    let mut plain = linear.clone();
    for (output, plain) in linear.outputs.iter().zip(&mut plain.outputs) {
        let mut sums = vec![0.0; output.offset.len()];
        for giant in &output.giants {
            let steps = giant.steps.rem_euclid(sums.len() as i64) as usize;
            for (slot, sum) in sums.iter_mut().enumerate() {
                let from = (slot + steps) % output.offset.len();
                *sum += giant.terms.iter().map(|term| term.weights.at(from).abs()).sum::<f64>() * largest;
            }
        }
        plain.offset.iter_mut().for_each(|offset| *offset = offset.abs());
        slots.push(sums);
    }
    plain.fold(&mut slots);
    slots.iter().flatten().fold(0.0, |most, sum| sum.max(most))
}

/// The input from which an enclave is built.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The site and form of each step.
    pub route: Route,
    /// The parameters of the encryption, present even if nothing is encrypted.
    pub parameters: LatticeParameters,
    /// The model.
    pub model: Model,
}

/// Errors of a setup's bytes.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// An invalid route, or lengths that do not fit.
    #[error("expected a route, parameters and a model, found other bytes")]
    Malformed,
    /// Invalid parameters.
    #[error(transparent)]
    Parameters(#[from] LatticeWireError),
    /// An invalid model.
    #[error(transparent)]
    Model(#[from] ModelBytesError),
}

/// Kinds of messages; parts of keys are numbered from [`PARTS`], resets from [`RESETS`].
pub(super) const IMAGE: u8 = 1;
pub(super) const INPUT: u8 = 2;
pub(super) const RESULT: u8 = 3;
pub(super) const ASK: u8 = 4;
pub(super) const PARTS: u8 = 16;
pub(super) const RESETS: u8 = 192;

impl Setup {
    /// Encodes the route, the length of the parameters (4), the parameters, and the model.
    pub fn encode(&self) -> Vec<u8> {
        close(&self.route, &self.parameters, &self.model.encode())
    }

    /// Decodes the bytes of [`Self::encode`], and no others.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, SetupError> {
        let (route, parameters, model) = open(bytes)?;
        Ok(Self { route, parameters, model: Model::decode(model)? })
    }

    /// Returns the setup unchanged if its layout takes the model or nothing is encrypted. Otherwise
    /// it takes the first layout of [`ORDER`] that fits, if there is one.
    #[must_use]
    pub fn suited(self) -> Self {
        let with =
            |layout: &str| Self { route: Route { layout: layout.to_owned(), ..self.route.clone() }, ..self.clone() };
        if self.compile().is_ok() {
            return self;
        }
        ORDER.into_iter().map(with).find(|setup| setup.compile().is_ok()).unwrap_or(self)
    }

    /// The stages on ciphertexts; `None` if nothing is encrypted.
    ///
    /// # Errors
    /// [`RouteError`] for a layout or parameters that do not fit.
    pub fn compile(&self) -> Result<Option<Compiled>, RouteError> {
        if self.route.spare > 0 && self.route.combination != Combination::MixedMaskedReset {
            return Err(RouteError::Spare);
        }
        let Some(options) = self.route.options() else { return Ok(None) };
        Ok(Some(Compiled::new(&self.model, &self.route.layout, &self.parameters, options)?))
    }

    /// The same with a model of the same shape but no weights. With encrypted weights, a process
    /// knows only this.
    ///
    /// # Errors
    /// [`RouteError::Model`] if the copies of offsets exceed the limit: here all offsets are equal,
    /// so a file has one per channel.
    pub fn shape(&self) -> Result<Self, RouteError> {
        let mut stages = self.model.stages().to_vec();
        for stage in &mut stages {
            match &mut stage.map {
                Map::Dense { weights } | Map::Convolution { weights, .. } => weights.fill(0.0),
            }
            stage.bias.fill(0.0);
        }
        Ok(Self { model: Model::new(stages, self.model.logit_bits())?, ..self.clone() })
    }

    /// The permissions of an enclave of this setup: it returns `output` for at most `images` images
    /// a session, in at most `sessions` sessions at once.
    ///
    /// # Errors
    /// [`RouteError`]: a policy that reveals data that the combination hides, errors that would
    /// change labels, more resets than the masks hide, or a model or parameters that do not fit.
    pub fn configuration(&self, output: OutputPolicy, sessions: u16, images: u32) -> Result<Configuration, RouteError> {
        card::check_bounds(&wire::encode_parameters(&self.parameters))?; // like the enclave
        let compiled = self.compile()?;
        let combination = self.route.combination;
        let refused = |expected| Err(RouteError::Output { combination: combination.name(), expected });
        match output {
            OutputPolicy::Top(count) if usize::from(count) > self.model.classes() => {
                return refused("at most as many labels as there are classes");
            }
            OutputPolicy::Rounded(bits) if rounding(&self.model, bits).is_none() => {
                return refused("scores rounded to bits that they have");
            }
            OutputPolicy::Label | OutputPolicy::Top(_) => {}
            _ if combination == Combination::ProcessBoth => return refused("labels, as the host may hand in a weight"),
            OutputPolicy::Scores if combination.is_encrypted() => {
                return refused("labels or rounded scores, as exact ones of ciphertexts tell the key");
            }
            _ => {}
        }
        if let Some(compiled) = &compiled {
            let report = precision::report(compiled, &self.model, &Ranges::all(&self.model, 1.0), f64::INFINITY)?;
            calibration::check(&self.model, forecast::logit_error(compiled, &self.model)?)?;
            let error = error_bound(&self.model, &report);
            let most = hiding_bits(error);
            if let OutputPolicy::Rounded(found) = output
                && found > most
            {
                return Err(RouteError::Rounding { combination: combination.name(), found, most, error });
            }
            let found = self.route.distance_bits(compiled, &self.model, images);
            if found < LEAST_DISTANCE_BITS {
                return Err(RouteError::MaskBudget { found });
            }
        }
        let setup = self.encode();
        let configuration = Configuration {
            model: Digest::new(self.model.digest()),
            plan: self.route.digest(),
            parameters: parameters_digest(&self.parameters),
            setup: Digest::of_bytes(&setup),
            output,
            max_sessions: sessions,
            rounds: images,
            script: self.script(compiled.as_ref(), output)?,
        };
        configuration.check()?;
        Ok(configuration)
    }

    /// The messages of a round.
    fn script(&self, compiled: Option<&Compiled>, output: OutputPolicy) -> Result<Script, RouteError> {
        let (pixels, classes) = (self.model.input().len(), self.model.classes());
        let Some(compiled) = compiled.filter(|_| self.route.combination.uses_process()) else {
            return inside_alone(pixels, classes, output);
        };
        let client = |kind, request, reply| Step { from: Party::Client, kind, request, reply };
        let image = Size::Fixed(u32::try_from(pixels).map_err(|_| RouteError::TooLarge)?);
        let told = Size::Fixed(told_bytes(output, classes) as u32);
        let engine = CkksEngine::new(compiled.parameters())?.unbounded();
        let mut steps = Vec::new();
        let host = |kind, request, reply| Step { from: Party::Host, kind, request, reply };
        let nothing = Size::Fixed(0);
        for (number, part) in parts(compiled, &engine)?.iter().enumerate() {
            let kind =
                u8::try_from(number).ok().and_then(|number| number.checked_add(PARTS)).filter(|kind| *kind < RESETS);
            steps.push(host(kind.ok_or(RouteError::TooLarge)?, nothing, Size::UpTo(part.bytes)));
        }
        let bytes = |primes: usize, count: usize| -> Result<Size, RouteError> {
            let each = engine.ciphertext_shape(primes.saturating_sub(1) as u16)?.packed;
            let all = u32::try_from(each * count as u64).map_err(|_| RouteError::TooLarge)?;
            Ok(Size::UpTo(all.saturating_add(HEADER * (count as u32 + 1)).min(configuration::MAX_MESSAGE_BYTES)))
        };
        let takes = |number: usize| {
            let stage = compiled.stage(number);
            bytes(stage.manner.primes, stage.linear.takes.len())
        };
        let gives = |number: usize| {
            let stage = compiled.stage(number);
            bytes(stage.manner.results(), stage.linear.outputs.len())
        };
        steps.push(client(IMAGE, image, nothing));
        steps.push(host(INPUT, nothing, takes(0)?));
        let last = compiled.len() - 1;
        for number in 0..last {
            if compiled.needs_reset(number) {
                let kind = u8::try_from(number).ok().and_then(|number| number.checked_add(RESETS));
                steps.push(host(kind.ok_or(RouteError::TooLarge)?, gives(number)?, takes(number + 1)?));
            }
        }
        steps.push(host(RESULT, gives(last)?, nothing));
        steps.push(client(ASK, nothing, told));
        Ok(Script::new(steps)?)
    }
}

/// A setup's bytes, for a model of these bytes.
pub(super) fn close(route: &Route, parameters: &LatticeParameters, model: &[u8]) -> Vec<u8> {
    let mut out = route.encode();
    let parameters = wire::encode_parameters(parameters);
    out.extend((parameters.len() as u32).to_be_bytes());
    out.extend(parameters);
    out.extend_from_slice(model);
    out
}

/// The parts of a setup's bytes; those of the model are last.
pub(super) fn open(bytes: &[u8]) -> Result<(Route, LatticeParameters, &[u8]), SetupError> {
    let (route, rest) = Route::decode(bytes).ok_or(SetupError::Malformed)?;
    let (length, rest) = rest.split_first_chunk::<4>().ok_or(SetupError::Malformed)?;
    let cut = rest.split_at_checked(u32::from_be_bytes(*length) as usize);
    let (parameters, model) = cut.ok_or(SetupError::Malformed)?;
    card::check_bounds(parameters)?;
    Ok((route, wire::decode_parameters(parameters)?, model))
}

/// The script of a round in which all stages run inside: an image, and the answer to it.
pub(super) fn inside_alone(pixels: usize, classes: usize, output: OutputPolicy) -> Result<Script, RouteError> {
    let fixed = |bytes: usize| u32::try_from(bytes).map(Size::Fixed).map_err(|_| RouteError::TooLarge);
    let (request, reply) = (fixed(pixels)?, fixed(told_bytes(output, classes))?);
    Ok(Script::new(vec![Step { from: Party::Client, kind: IMAGE, request, reply }])?)
}

/// Keys and encrypted weights of one message.
pub(super) struct Part {
    /// Keys first, then weights and offsets.
    pub inputs: Vec<Input>,
    /// The most bytes of the message.
    pub bytes: u32,
}

/// The keys and encrypted weights that a process needs in a session, in messages.
pub(super) fn parts(compiled: &Compiled, engine: &CkksEngine) -> Result<Vec<Part>, EngineError> {
    let constants = if compiled.options().encrypted { compiled.constants() } else { Vec::new() };
    // twice the size of a seeded object, because the shape is that of the expanded one
    let sized = |input| Ok((input, compiled.shape(engine, input)?.packed));
    Ok(in_parts(compiled.keys().into_iter().chain(constants).map(sized).collect::<Result<Vec<_>, EngineError>>()?))
}

/// The keys that the process of a network needs, in messages.
pub(super) fn parts_of_network(parameters: &LatticeParameters, keys: &[Input]) -> Vec<Part> {
    let bytes = |input: &Input| match input {
        Input::Rotation { level, .. } | Input::Relinearization { level } => {
            ckks::EvaluationKeys::memory_of_key(parameters, usize::from(*level) + 1) as u64
        }
        _ => u64::from(u32::MAX), // the script refuses it
    };
    in_parts(keys.iter().map(|input| (*input, bytes(input))).collect())
}

/// Objects of these sizes in messages.
fn in_parts(inputs: Vec<(Input, u64)>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut bytes = u64::MAX;
    for (input, size) in inputs {
        let each = size + u64::from(HEADER);
        if bytes.saturating_add(each) > PART {
            parts.push(Part { inputs: Vec::new(), bytes: HEADER });
            bytes = 0;
        }
        bytes += each;
        if let Some(part) = parts.last_mut() {
            part.inputs.push(input);
            part.bytes = u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(HEADER);
        }
    }
    parts
}

/// The digest of the parameters in a configuration.
pub(super) fn parameters_digest(parameters: &LatticeParameters) -> Digest {
    Digest::of("tobari infer parameters 1", &[&wire::encode_parameters(parameters)])
}

/// The number of bits to round away from a last stage's integers, to leave so many bits after the
/// point of the logits. `None` for more than 62, or if 17 or more bits would have to be invented.
pub(super) fn rounding(model: &Model, bits: u8) -> Option<i32> {
    let shift = FRACTION_BITS as i32 - model.logit_bits() - i32::from(bits);
    (-16..=62).contains(&shift).then_some(shift)
}

/// The most bits after the point whose steps are at least twice the predicted error. A rounded
/// score then equals that of the unencrypted network, or is the next to it if that one is close to
/// the middle of two steps. Apart from these cases the rounded scores follow from the image and the
/// model, so the errors of decryption, which are linear in the key, stay inside. This limits damage
/// and proves nothing.
pub(super) fn hiding_bits(error: f64) -> u8 {
    (0..=64).rev().find(|bits| 2f64.powi(-i32::from(*bits)) >= 2.0 * error).unwrap_or(0)
}

/// The bytes of an answer: two for each label and one that says whether the first one is in doubt,
/// or eight for each score.
pub(super) fn told_bytes(output: OutputPolicy, classes: usize) -> usize {
    match output {
        OutputPolicy::Label => 3,
        OutputPolicy::Top(count) => 2 * usize::from(count) + 1,
        OutputPolicy::Rounded(_) | OutputPolicy::Scores => 8 * classes,
    }
}

/// Fuzzing: bytes that decode as a setup, or split as a list, must encode to the same bytes.
#[doc(hidden)]
pub fn fuzz_setup(data: &[u8]) {
    let count = data.first_chunk().map(|count| u32::from_be_bytes(*count) as usize);
    if let Some(parts) = count.and_then(|count| super::wire::split(data, count)) {
        assert_eq!(super::wire::join(&parts.into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>()), data);
    }
    if let Ok(setup) = Setup::decode(data) {
        assert_eq!(setup.encode(), data);
    }
}
