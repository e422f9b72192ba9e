//! Sums of frames: planned, run, and read.
//!
//! An **output** is a sum of **terms**. A term is a batch, with at most one frame of each block's
//! device and a weight for each block. Weights are multiplied into `a_i` and `b`, which are public,
//! so they cost nothing under encryption. Groups are weights of 0 and 1; windows are sums that
//! share terms. An output is one sum over all its devices, or one for each block.

use super::bounds::{Overflow, Range, Scheme};
use super::layout::Layout;
use super::program::{Frames, Input, fold};
use tobari_engine::{BgvEngine, EngineError};
use tobari_lattice::params::Plaintext;
use tobari_plan::engine::Machine;
use tobari_plan::program::{Op, Program, ProgramError, Recorder, Value};
use tobari_plan::site::{KeyDomain, Secrecy};

/// The parameter set for linear sums of [`U25`](tobari_device::U25).
pub const SET: &str = "sense-linear";
/// The parameter set for linear sums of [`U28`](tobari_device::U28).
pub const WIDE_SET: &str = "sense-sums";

/// Frames of one batch, each with a weight.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term {
    /// The cohort whose secrets are subtracted.
    pub cohort: usize,
    /// The number of the batch.
    pub batch: usize,
    /// The weights by block; 0 for a block that has no frame there, or is not in the group.
    pub weights: Vec<i64>,
}

/// One result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The numbers of its terms, each once.
    pub terms: Vec<usize>,
    /// Whether blocks stay apart.
    pub by_block: bool,
}

/// Sums that cannot overflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinearPlan {
    scheme: Scheme,
    layout: Layout,
    terms: Vec<Term>,
    outputs: Vec<Output>,
    /// The ranges by output, and by block if blocks stay apart.
    ranges: Vec<Vec<Range>>,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The result could overflow. It is rejected before a frame is converted.
    #[error(transparent)]
    Overflow(#[from] Overflow),
    /// Numbers that do not fit together.
    #[error("expected {expected}, found {found}")]
    Shape {
        /// The expected thing.
        expected: &'static str,
        /// The number found.
        found: usize,
    },
    /// Parameters with too few levels for a conversion and a sum.
    #[error("expected parameters with {least} levels for exact readings, found {found}: no such frames are converted")]
    Levels {
        /// The number of levels needed.
        least: u16,
        /// The number of levels found.
        found: u16,
    },
    /// The parameters' plaintext modulus differs from the frames'.
    #[error("expected parameters whose plaintext modulus is that of the frames, {expected}, found others")]
    Modulus {
        /// The frames' modulus.
        expected: i64,
    },
    /// The recorder failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl LinearPlan {
    /// Plans the outputs for readings up to `most`.
    ///
    /// # Errors
    /// [`PlanError::Overflow`] for a result that might not be exact. [`PlanError::Shape`] for terms
    /// without a weight for each block, and outputs without terms or with a term that does not
    /// exist.
    pub fn new(
        scheme: Scheme,
        layout: Layout,
        terms: Vec<Term>,
        outputs: Vec<Output>,
        most: u8,
    ) -> Result<Self, PlanError> {
        if let Some(term) = terms.iter().find(|term| term.weights.len() != layout.blocks()) {
            return Err(PlanError::Shape { expected: "a weight for each block", found: term.weights.len() });
        }
        if outputs.is_empty() {
            return Err(PlanError::Shape { expected: "an output", found: 0 });
        }
        let ranges = outputs.iter().map(|output| {
            let mut used = output.terms.clone();
            used.sort_unstable();
            used.dedup();
            if used.is_empty() || used.len() != output.terms.len() || used.iter().any(|term| *term >= terms.len()) {
                return Err(PlanError::Shape {
                    expected: "terms that there are, each once",
                    found: output.terms.len(),
                });
            }
            let of = |block: usize| used.iter().map(|term| terms[*term].weights[block]).collect::<Vec<i64>>();
            let blocks = 0..layout.blocks();
            if output.by_block {
                return blocks.map(|block| Ok(scheme.linear(of(block), most)?)).collect();
            }
            Ok(vec![scheme.linear(blocks.flat_map(of), most)?])
        });
        let ranges = ranges.collect::<Result<_, _>>()?;
        Ok(Self { scheme, layout, terms, outputs, ranges })
    }

    /// The numbers of the profile.
    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// The layout of blocks.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The terms.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The outputs.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The range of an output: one range, or one for each block.
    pub fn ranges(&self, output: usize) -> &[Range] {
        &self.ranges[output]
    }

    fn folds(&self) -> bool {
        self.outputs.iter().any(|output| !output.by_block)
    }
}

/// The inputs of a program of sums.
#[derive(Clone, Debug)]
pub struct Inputs<V> {
    frames: Frames<V>,
    folds: Vec<V>,
    swap: Option<V>,
}

impl<V> Inputs<V> {
    /// Makes all inputs of a plan with `make`, at the level of fresh ciphertexts.
    ///
    /// # Errors
    /// Errors of `make`.
    pub fn new<E>(plan: &LinearPlan, level: u16, mut make: impl FnMut(Input) -> Result<V, E>) -> Result<Self, E> {
        let frames = Frames::new(plan.scheme.rank, plan.terms.iter().map(|term| term.cohort).collect(), &mut make)?;
        let (mut folds, mut swap) = (Vec::new(), None);
        if plan.folds() {
            swap = Some(make(Input::Swap { level })?);
            folds = plan
                .layout
                .folds()
                .map(|(steps, _)| make(Input::Rotation { steps, level }))
                .collect::<Result<_, _>>()?;
        }
        Ok(Self { frames, folds, swap })
    }
}

/// All outputs of a plan.
///
/// # Errors
/// Errors of the machine.
pub fn program<M: Machine>(
    machine: &mut M,
    plan: &LinearPlan,
    inputs: &Inputs<M::Value>,
) -> Result<Vec<M::Value>, M::Error> {
    let phases = (0..plan.terms.len()).map(|term| inputs.frames.phase(machine, term)).collect::<Result<Vec<_>, _>>()?;
    let mut results = Vec::with_capacity(plan.outputs.len());
    for output in &plan.outputs {
        let terms: Vec<&M::Value> = output.terms.iter().map(|term| &phases[*term]).collect();
        let sum = match terms[..] {
            // a value that belongs to this output only
            [one] => machine.step(Op::Offset(0), &[one])?,
            _ => machine.step(Op::Add, &terms)?,
        };
        results.push(match &inputs.swap {
            Some(swap) if !output.by_block => fold(machine, &plan.layout, &sum, &inputs.folds, swap)?,
            _ => sum,
        });
    }
    Ok(results)
}

/// The domain of the key that encrypts the secrets.
pub fn key_holder() -> KeyDomain {
    KeyDomain("key holder".to_owned())
}

/// Checks that an engine's plaintext modulus is that of frames.
pub(crate) fn fits(engine: &BgvEngine, scheme: &Scheme) -> Result<(), PlanError> {
    match engine.evaluator().parameters().plaintext() {
        Plaintext::Integers(t) if i64::try_from(t.value()) == Ok(scheme.modulus) => Ok(()),
        _ => Err(PlanError::Modulus { expected: scheme.modulus }),
    }
}

/// The shape and the secrecy of an input that is a frame, a secret or a key; `None` for others.
pub(crate) fn described(
    engine: &BgvEngine,
    input: Input,
) -> Result<Option<(String, tobari_plan::program::Shape, Secrecy)>, EngineError> {
    let (encrypted, top) = (Secrecy::Encrypted { key: key_holder() }, engine.top_level());
    Ok(Some(match input {
        Input::Secret { cohort, i } => {
            (format!("secrets of cohort {cohort}, polynomial {i}"), engine.ciphertext_shape(top)?, encrypted)
        }
        Input::Uniform { term, i } => {
            (format!("uniform half {i} of term {term}"), engine.compact_shape(top)?, Secrecy::Public)
        }
        Input::Body(term) => (format!("body of term {term}"), engine.compact_shape(top)?, Secrecy::Public),
        Input::Rotation { steps, level } => {
            (format!("rotation key {steps}"), engine.rotation_key_shape(level)?, encrypted)
        }
        Input::Swap { level } => ("key of the rows".to_owned(), engine.rotation_key_shape(level)?, encrypted),
        Input::Relinearization { level } => {
            ("relinearization key".to_owned(), engine.relinearization_key_shape(level)?, encrypted)
        }
        _ => return Ok(None),
    }))
}

/// The program of a plan, and its inputs in the order of their numbers.
///
/// # Errors
/// [`PlanError`].
pub fn record(engine: &BgvEngine, plan: &LinearPlan) -> Result<(Program, Vec<Input>), PlanError> {
    fits(engine, &plan.scheme)?;
    let (mut recorder, mut all) = (Recorder::new(engine), Vec::new());
    let inputs: Inputs<Value> = Inputs::new(plan, engine.top_level(), |input| {
        all.push(input);
        let (name, shape, secrecy) =
            described(engine, input)?.ok_or(EngineError::Parameters { expected: "an input of a linear plan" })?;
        Ok::<_, PlanError>(recorder.input(name, shape, secrecy)?)
    })?;
    let outputs = program(&mut recorder, plan, &inputs)?;
    Ok((recorder.finish(&outputs)?, all))
}
