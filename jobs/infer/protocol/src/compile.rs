//! A model prepared for encrypted runs: a layout, a level and a scale for every step.
//!
//! **Levels.** A stage takes ciphertexts over `p` data primes; its products are divided by the last
//! prime, its squares by the next. The last stage is not divided: it uses the first prime alone,
//! which is wide (50 bits), so that `K` stages take `2 K - 1` primes.
//!
//! **Scales** are exact. They are chosen by the bits of the primes that divide at each place; these
//! primes may differ in size. Inputs have the scale `S = 2^b`, `b` being the bits of the prime that
//! divides the products of their stage. Weights of a stage over `p` primes that is to give the
//! scale `R` are encoded at `R q_(p-1) / S`; after the square the scale is `T = R² / q_(p-2)`. Sums
//! and offsets then match without any correction. `R` is the power of two for which `T` is near the
//! size of the prime that divides next, so that the scale neither grows nor shrinks from stage to
//! stage.
//!
//! Before the last square, `R` makes the last stage start near `2^26`, or `2^24` with encrypted
//! weights. Its weights take `2^18`, or `2^20`. Six bits of the first prime are left: room for
//! logits, and for the numbers that mask other slots.
//!
//! **One at a time.** Where an enclave decrypts between the stages ([`Flow::Reset`]), every stage
//! starts again over the first prime alone, without a division. Its products have the same scales
//! as those of the last stage.

use super::layout::{Layout, LayoutError, Linear, Weights};
use super::model::{Model, Volume};
use super::program::{Counts, Input, Manner, Stage};
use std::borrow::Cow;
use std::collections::BTreeSet;
use tobari_lattice::ckks::Scale;
use tobari_lattice::params::{LatticeParameters, Plaintext};

use tobari_engine::{CkksEngine, CkksValue, EngineError};
use tobari_plan::program::{Program, ProgramError, Recorder, Shape, Value};
use tobari_plan::segment::{Form, Segment, Trust, Variant};
use tobari_plan::site::{KeyDomain, Owner, Secrecy};

/// Bits of the scale at which a last stage starts, about.
const LAST_BITS: u32 = 26;
/// The same with encrypted weights: their noise takes four bits.
const LAST_BITS_ENCRYPTED: u32 = 24;
/// Bits of the first prime left above the logits' scale.
const ROOM_BITS: u32 = 6;

/// The order of stages, and the resets between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flow {
    /// All stages under encryption, with the squares.
    Through,
    /// One stage at a time: in between, sums are decrypted, squared and encrypted again.
    Reset {
        /// Whether sums are folded under encryption, or on plaintext after decryption.
        fold: bool,
    },
    /// Each stage with its square, over enough primes to leave `1 + spare` for the results. In
    /// between, the values are decrypted and the same integers are encrypted again. A mask hides
    /// them from the site that decrypts. Before the last stage, which takes one prime, there is no
    /// reset.
    Masked {
        /// Primes beside the first one, which make masks wider.
        spare: u8,
    },
}

/// The choices for a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The order of stages.
    pub flow: Flow,
    /// Whether the weights are encrypted, too.
    pub encrypted: bool,
}

impl Options {
    /// Encrypted images and plaintext weights, from the first stage to the last.
    pub const PLAIN_WEIGHTS: Self = Self { flow: Flow::Through, encrypted: false };
    /// The same with encrypted weights.
    pub const ENCRYPTED_WEIGHTS: Self = Self { flow: Flow::Through, encrypted: true };
}

/// Scales of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scales {
    /// Scale of the inputs.
    pub input: Scale,
    /// Scale of the weights.
    pub weights: Scale,
    /// Scale of the products.
    pub products: Scale,
    /// Scale of the sums, divided or not, and of the offsets.
    pub sums: Scale,
    /// Scale of the results.
    pub results: Scale,
}

/// Errors of a compilation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// A layout that does not exist for the model.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Parameters with too few primes, of another scheme, or without a special prime.
    #[error(
        "expected parameters for approximate numbers with a special prime and at least {primes} data primes, found others"
    )]
    Parameters {
        /// Data primes that the model needs.
        primes: usize,
    },
    /// A stage whose scales leave the range of the parameters.
    #[error("stage {stage}: expected room for its scales, found none")]
    Scales {
        /// The stage's name.
        stage: String,
    },
    /// An error of the recorder.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// An error of the engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// A model with everything but keys and values.
#[derive(Clone, Debug)]
pub struct Compiled {
    parameters: LatticeParameters,
    layout: Layout,
    options: Options,
    stages: Vec<(Manner, Scales)>,
    input: Volume,
    /// The number of outputs of each stage.
    outputs: Vec<usize>,
    logit_bits: i32,
    error: Option<f64>,
}

/// The public facts of a compiled model: nothing of its weights but the foretold error.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// The parameters.
    pub parameters: LatticeParameters,
    /// The shape of an image.
    pub shape: Volume,
    /// The numbers' slots, by ciphertext.
    pub places: Vec<Vec<Option<u32>>>,
    /// Data primes of a question, and its scale.
    pub sent: (usize, Scale),
    /// Keys that the server needs, in the order of sending.
    pub keys: Vec<Input>,
    /// For each class: its ciphertext in the answer, and its slot.
    pub logits: Vec<(usize, usize)>,
    /// The foretold error of a logit, if the model states it: labels that are closer than twice
    /// this may be exchanged.
    pub error: Option<f64>,
    /// The ciphertext and the slot of the guard, if the model has one: a number that is small if
    /// every number of the run was within its range ([`client`](super::client)).
    pub guard: Option<(usize, usize)>,
    /// Data primes of the answer, and its scale.
    pub answer: (usize, Scale),
    /// The binary exponent of the logits: they are the decrypted numbers times two to this.
    pub logit_bits: i32,
}

impl Card {
    /// Numbers of an image.
    pub fn pixels(&self) -> usize {
        self.shape.len()
    }

    /// The number of ciphertexts of an answer.
    pub fn answers(&self) -> usize {
        self.logits.iter().chain(&self.guard).map(|(output, _)| output + 1).max().unwrap_or(0)
    }
}

impl Compiled {
    /// Compiles a model in the layout of this name.
    ///
    /// # Errors
    /// [`CompileError`] for a layout that does not fit, or parameters that do not suffice.
    pub fn new(
        model: &Model,
        layout: &str,
        parameters: &LatticeParameters,
        options: Options,
    ) -> Result<Self, CompileError> {
        let count = model.stages().len();
        let needed = match options.flow {
            Flow::Through => 2 * count - 1,
            Flow::Reset { .. } => 1,
            Flow::Masked { spare } => {
                if count > 1 {
                    3 + usize::from(spare)
                } else {
                    1
                }
            }
        };
        let suits = parameters.plaintext() == Plaintext::Approximate
            && !parameters.ring().special_primes().is_empty()
            && parameters.data_primes() >= needed;
        if !suits {
            return Err(CompileError::Parameters { primes: needed });
        }
        let layout = Layout::new(layout, model, parameters.degree() / 2)?;
        let mut stages: Vec<(Manner, Scales)> = Vec::with_capacity(count);
        for (number, stage) in model.stages().iter().enumerate() {
            let last = number + 1 == count;
            let primes = if options.flow == Flow::Through { needed.saturating_sub(2 * number) } else { needed };
            let manner = manner(options, primes, last);
            let input = match (options.flow, stages.last()) {
                (Flow::Through | Flow::Masked { .. }, Some((_, scales))) => scales.results.clone(),
                _ if manner.divide => Scale::power_of_two(prime_bits(parameters, manner.primes - 1)),
                _ => Scale::power_of_two(last_bits(options)),
            };
            let next = match options.flow {
                _ if number + 2 == count => last_bits(options),
                // the prime that divides the products of the next stage
                Flow::Through => prime_bits(parameters, manner.primes.saturating_sub(3)),
                // the results of squares have few primes, and need room there
                Flow::Reset { .. } | Flow::Masked { .. } => {
                    let room: u32 = (0..manner.results()).map(|prime| prime_bits(parameters, prime)).sum();
                    prime_bits(parameters, needed - 1).min(room.saturating_sub(2 * ROOM_BITS))
                }
            };
            let scales = scales(parameters, &manner, input, next);
            let refusal = || CompileError::Scales { stage: stage.name.clone() };
            stages.push((manner, scales.ok_or_else(refusal)?));
        }
        let outputs = model.stages().iter().map(|stage| stage.output.len()).collect();
        let (input, logit_bits) = (model.input(), model.logit_bits());
        Ok(Self { parameters: parameters.clone(), layout, options, stages, input, outputs, logit_bits, error: None })
    }

    /// The same with a foretold error of a logit ([`forecast`](super::forecast)), for its card.
    #[must_use]
    pub fn with_error(self, error: f64) -> Self {
        Self { error: Some(error), ..self }
    }

    /// The foretold error of a logit, if it is known.
    pub fn error(&self) -> Option<f64> {
        self.error
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        &self.parameters
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The options of the compilation.
    pub fn options(&self) -> Options {
        self.options
    }

    /// The number of stages.
    pub fn len(&self) -> usize {
        self.stages.len()
    }

    /// Whether there are no stages.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Numbers of an image.
    pub fn pixels(&self) -> usize {
        self.input.len()
    }

    /// The number of outputs of a stage.
    pub fn outputs(&self, stage: usize) -> usize {
        self.outputs[stage]
    }

    /// The binary exponent of the logits: they are the last stage's numbers times two to this.
    pub fn logit_bits(&self) -> i32 {
        self.logit_bits
    }

    /// The scales of a stage.
    pub fn scales(&self, stage: usize) -> &Scales {
        &self.stages[stage].1
    }

    /// A stage.
    pub fn stage(&self, number: usize) -> Stage<'_> {
        Stage { number, linear: &self.layout.stages()[number], manner: self.stages[number].0 }
    }

    /// All stages.
    pub fn stages(&self) -> impl Iterator<Item = Stage<'_>> {
        (0..self.len()).map(|number| self.stage(number))
    }

    /// Whether the results of a stage must be encrypted again before the next stage. Under masks
    /// this is so only if the next stage takes more primes.
    pub fn needs_reset(&self, stage: usize) -> bool {
        let Some((next, _)) = self.stages.get(stage + 1) else { return false };
        match self.options.flow {
            Flow::Through => false,
            Flow::Reset { .. } => true,
            Flow::Masked { .. } => self.stages[stage].0.results() < next.primes,
        }
    }

    /// Operation counts by stage.
    pub fn counts(&self) -> Vec<Counts> {
        self.stages().map(|stage| stage.trace().1).collect()
    }

    /// The keys that a run takes, each at its level of use: a key for few primes is small and loads
    /// fast.
    pub fn keys(&self) -> Vec<Input> {
        let all: BTreeSet<Input> = self.stages().flat_map(|stage| stage.trace().0).collect();
        let is_key = |input: &Input| matches!(input, Input::Rotation { .. } | Input::Relinearization { .. });
        all.into_iter().filter(is_key).collect()
    }

    /// The weights and offsets that a run takes.
    pub fn constants(&self) -> Vec<Input> {
        let all: BTreeSet<Input> = self.stages().flat_map(|stage| stage.trace().0).collect();
        let is_constant =
            |input: &Input| matches!(input, Input::Weight { .. } | Input::Zero { .. } | Input::Offset { .. });
        all.into_iter().filter(is_constant).collect()
    }

    /// The public facts. They are the same for all models of the same shape, whatever the weights,
    /// but for the foretold error, which has three bits.
    pub fn card(&self) -> Card {
        let ((first, scales), (last, results)) = match &self.stages[..] {
            [first, .., last] => ((first.0, &first.1), (last.0, &last.1)),
            [only] => ((only.0, &only.1), (only.0, &only.1)),
            [] => unreachable!("a model has a stage"),
        };
        Card {
            parameters: self.parameters.clone(),
            shape: self.input,
            places: self.layout.stages()[0].takes.clone(),
            sent: (first.primes, scales.input.clone()),
            keys: self.keys(),
            logits: self.layout.logits().to_vec(),
            error: self.error,
            guard: None,
            answer: (last.results(), results.results.clone()),
            logit_bits: self.logit_bits,
        }
    }

    /// The numbers of a weight or an offset, slot by slot; `None` for other inputs.
    pub fn slots(&self, input: Input) -> Option<Cow<'_, [f64]>> {
        match input {
            Input::Weight { stage, output, giant, term } => {
                match &self.linear(stage).outputs[output].giants[giant].terms[term].weights {
                    Weights::Slots(slots) => Some(Cow::Borrowed(slots)),
                    Weights::Constant(value) => Some(Cow::Owned(vec![*value; self.layout.slots()])),
                }
            }
            Input::Zero { .. } => Some(Cow::Owned(vec![0.0; self.layout.slots()])),
            Input::Offset { stage, output } => Some(Cow::Borrowed(&self.linear(stage).outputs[output].offset)),
            _ => None,
        }
    }

    fn linear(&self, stage: usize) -> &Linear {
        &self.layout.stages()[stage]
    }

    /// Scale and data primes of a value, a weight or an offset; `None` for keys.
    pub fn place(&self, input: Input) -> Option<(&Scale, usize)> {
        let of = |stage: usize| &self.stages[stage];
        match input {
            Input::Value { stage, .. } => Some((&of(stage).1.input, of(stage).0.primes)),
            Input::Weight { stage, .. } | Input::Zero { stage } => Some((&of(stage).1.weights, of(stage).0.primes)),
            Input::Offset { stage, .. } => Some((&of(stage).1.sums, of(stage).0.sums())),
            _ => None,
        }
    }

    /// A weight or an offset, encoded.
    ///
    /// # Errors
    /// [`EngineError`] for another input, or numbers that do not fit.
    pub fn encode(&self, engine: &CkksEngine, input: Input) -> Result<CkksValue, EngineError> {
        let other = EngineError::Value { expected: "a weight or an offset".to_owned() };
        let Some((scale, primes)) = self.place(input) else { return Err(other) };
        let level = primes.saturating_sub(1) as u16;
        if let Input::Weight { stage, output, giant, term } = input
            && let Weights::Constant(value) = &self.linear(stage).outputs[output].giants[giant].terms[term].weights
        {
            return engine.constant(*value, scale, level);
        }
        let slots = self.slots(input).ok_or(other)?;
        if self.is_diagonal(input) {
            engine.diagonal(&slots, scale, level)
        } else {
            engine.numbers(&slots, scale, level)
        }
    }

    /// Whether the input is a weight of products that are done in one step.
    fn is_diagonal(&self, input: Input) -> bool {
        match input {
            Input::Weight { stage, .. } | Input::Zero { stage } => self.stage(stage).grid().is_some(),
            _ => false,
        }
    }

    /// The shape of an input.
    ///
    /// # Errors
    /// [`EngineError`] for an engine of other parameters.
    pub fn shape(&self, engine: &CkksEngine, input: Input) -> Result<Shape, EngineError> {
        let level = self.place(input).map_or(0, |(_, primes)| primes.saturating_sub(1) as u16);
        match input {
            Input::Value { .. } => engine.ciphertext_shape(level),
            Input::Weight { .. } | Input::Zero { .. } | Input::Offset { .. } if self.options.encrypted => {
                engine.ciphertext_shape(level)
            }
            Input::Weight { .. } | Input::Zero { .. } if self.is_diagonal(input) => engine.diagonal_shape(level),
            Input::Weight { .. } | Input::Zero { .. } | Input::Offset { .. } => engine.plaintext_shape(level),
            Input::Rotation { level, .. } => engine.rotation_key_shape(level),
            // maps with squares take no refresh: a pair of keys of this level, as for products
            Input::Relinearization { level } | Input::Conjugation { level } | Input::Raise { level } => {
                engine.relinearization_key_shape(level)
            }
        }
    }

    /// A stage as a program, and its inputs in order of their numbers.
    ///
    /// # Errors
    /// [`CompileError`] of the recorder or the engine.
    pub fn record(&self, engine: &CkksEngine, stage: usize) -> Result<(Program, Vec<Input>), CompileError> {
        let stage = self.stage(stage);
        let (inputs, _) = stage.trace();
        let mut recorder = Recorder::new(engine);
        let mut values: Vec<(Input, Value)> = Vec::with_capacity(inputs.len());
        for input in &inputs {
            let secrecy = match input {
                Input::Weight { .. } | Input::Zero { .. } | Input::Offset { .. } if !self.options.encrypted => {
                    Secrecy::Secret { owner: server() }
                }
                _ => Secrecy::Encrypted { key: client() },
            };
            let shape = self.shape(engine, *input)?;
            values.push((*input, recorder.input(name(*input), shape, secrecy)?));
        }
        values.sort_unstable_by_key(|(input, _)| *input);
        let find = |input: Input| values.binary_search_by_key(&input, |(input, _)| *input).map(|at| values[at].1);
        let missing = |input: Input| {
            CompileError::Engine(EngineError::Value { expected: format!("{} among the inputs", name(input)) })
        };
        let mut fetch = |input| find(input).map_err(|_| missing(input));
        let taken = (0..stage.linear.takes.len()).map(|index| fetch(Input::Value { stage: stage.number, index }));
        let taken = taken.collect::<Result<Vec<_>, _>>()?;
        let outputs = stage.run(&mut recorder, &taken, &mut fetch)?;
        Ok((recorder.finish(&outputs)?, inputs))
    }

    /// The stages as segments, each with this way to run it. Callers may add other ways of the same
    /// stage.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub fn segments(&self, engine: &CkksEngine) -> Result<Vec<Segment>, CompileError> {
        let segment = |number: usize| {
            let (stage, (program, _)) = (self.stage(number), self.record(engine, number)?);
            let form = |primes: usize, end: &str| Form::Encrypted {
                level: primes.saturating_sub(1) as u16,
                layout: format!("{} {number} {end}", self.layout.name()),
            };
            let bytes = |primes: usize, count: usize| -> Result<u64, CompileError> {
                Ok(engine.ciphertext_shape(primes.saturating_sub(1) as u16)?.packed * count as u64)
            };
            // the results of a stage are the inputs of the next one, in a run from the first to the
            // last
            let next = match self.options.flow {
                Flow::Through => format!("{} {} in", self.layout.name(), number + 1),
                Flow::Reset { .. } | Flow::Masked { .. } => format!("{} {number} out", self.layout.name()),
            };
            let results = stage.manner.results();
            let variant = Variant {
                name: format!(
                    "{}{}",
                    self.layout.name(),
                    if self.options.encrypted { ", weights encrypted" } else { "" }
                ),
                takes: form(stage.manner.primes, "in"),
                gives: Form::Encrypted { level: results.saturating_sub(1) as u16, layout: next },
                bytes: [
                    bytes(stage.manner.primes, stage.linear.takes.len())?,
                    bytes(results, stage.linear.outputs.len())?,
                ],
                program,
                holds: Vec::new(),
                trust: Trust { checked: false, passive_only: self.options.encrypted },
            };
            Ok(Segment { name: stage.linear.name.clone(), variants: vec![variant] })
        };
        (0..self.len()).map(segment).collect()
    }
}

/// The owner of the key of images and results.
pub fn client() -> KeyDomain {
    KeyDomain("client".to_owned())
}

/// The owner of the weights.
pub fn server() -> Owner {
    Owner("server".to_owned())
}

/// A readable name of an input.
pub fn name(input: Input) -> String {
    match input {
        Input::Value { stage, index } => format!("input {index} of stage {stage}"),
        Input::Weight { stage, output, giant, term } => {
            format!("weight {term} of giant step {giant}, output {output} of stage {stage}")
        }
        Input::Zero { stage } => format!("weight 0 of stage {stage}"),
        Input::Offset { stage, output } => format!("offset {output} of stage {stage}"),
        Input::Rotation { steps, level } => format!("rotation key {steps} at level {level}"),
        Input::Relinearization { level } => format!("relinearization key at level {level}"),
        Input::Conjugation { level } => format!("conjugation key at level {level}"),
        Input::Raise { level } => format!("pair of keys of a refresh at level {level}"),
    }
}

/// Bits of a data prime.
fn prime_bits(parameters: &LatticeParameters, prime: usize) -> u32 {
    parameters.ring().data_primes().get(prime).map_or(0, |prime| prime.modulus().bits())
}

fn manner(options: Options, primes: usize, last: bool) -> Manner {
    let encrypted = options.encrypted;
    match options.flow {
        Flow::Through => Manner { primes, divide: !last, fold: true, square: !last, encrypted },
        Flow::Masked { .. } if last => Manner { primes: 1, divide: false, fold: true, square: false, encrypted },
        Flow::Masked { .. } => Manner { primes, divide: true, fold: true, square: true, encrypted },
        Flow::Reset { fold } => Manner { primes: 1, divide: false, fold, square: false, encrypted },
    }
}

fn last_bits(options: Options) -> u32 {
    if options.encrypted { LAST_BITS_ENCRYPTED } else { LAST_BITS }
}

/// The scales of a stage whose square should have a scale of about `next` bits.
fn scales(parameters: &LatticeParameters, manner: &Manner, input: Scale, next: u32) -> Option<Scales> {
    if !manner.divide {
        // over the first prime alone
        let start = input.to_f64(parameters)?.log2().round() as u32;
        let weights = Scale::power_of_two(prime_bits(parameters, 0).checked_sub(ROOM_BITS + start)?);
        let products = input.product(&weights)?;
        return Some(Scales { input, weights, sums: products.clone(), results: products.clone(), products });
    }
    // the square of the sums, divided by this prime, has the next stage's scale
    let divisor = manner.sums() - 1;
    let sums = Scale::power_of_two((prime_bits(parameters, divisor) + next) / 2);
    let products = sums.product(&Scale::prime(manner.primes - 1))?;
    let weights = products.quotient(&input)?;
    let results = match manner.square {
        true => sums.product(&sums)?.quotient(&Scale::prime(divisor))?,
        false => sums.clone(),
    };
    Some(Scales { input, weights, products, sums, results })
}
