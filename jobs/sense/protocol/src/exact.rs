//! Exact readings under encryption, functions of them, and sums of these: planned, run, and read.
//!
//! A frame's phase is transformed back. A polynomial removes its noise and applies a function of a
//! byte. Sums then go over batches and devices. The linear parts take three primes and the
//! polynomial eleven; a sum takes one more, and its result has two.
//!
//! Frames of 16 bits use the set `sense-exact`, which has no prime to spare, because a key holder
//! sends its keys: 36 MB. With the set `sense`, three levels are left to multiply the output.
//! Frames of 25 bits use `sense-wide`, of twice the degree and so with twice as many devices in a
//! batch. The recorder rejects other parameters.
//!
//! **Sums stay below `q`**, or the planner rejects them. Two squares of bytes can already exceed
//! 65,537. So [`Measure::SquareHigh`] and [`Measure::SquareLow`] are the two bytes of a square.
//! Each can be summed over up to 257 readings.

use super::bounds::{Range, Scheme};
use super::interpolation::{BYTES, ByteFunction, Points};
use super::layout::Layout;
use super::linear::{PlanError, described, fits};
use super::program::{Frames, Input, Maps, byte_function, fold, points, readings};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use tobari_device::READINGS;
use tobari_engine::{BgvEngine, EngineError};
use tobari_plan::engine::Machine;
use tobari_plan::program::{Op, Program, Recorder, Value};
use tobari_plan::site::Secrecy;

/// The parameter set for sums of frames of [`P1`](tobari_device::P1).
pub const SET: &str = "sense-exact";
/// The same with primes for three products of the output.
pub const PRODUCTS_SET: &str = "sense";
/// The parameter set for frames of [`U25`](tobari_device::U25). Rounding leaves noise in proportion
/// to `q`, so its primes have ten bits more, and 865 bits do not fit `N = 2^15` at 128 bits of
/// security.
pub const WIDE_SET: &str = "sense-wide";
/// Levels before the polynomial.
pub const LINEAR_LEVELS: u16 = 3;
/// Levels of the polynomial: its degree is 1,791.
pub const POLYNOMIAL_LEVELS: u16 = 11;

/// A function of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Measure {
    /// The reading itself.
    Reading,
    /// 1 if the reading is above this: for alarms, and counts of them.
    Above(u8),
    /// 1 if the reading is between the first and the second, inclusive: for histograms.
    Within(u8, u8),
    /// `⌊m²/256⌋`.
    SquareHigh,
    /// `m² mod 256`.
    SquareLow,
}

impl Measure {
    /// The function's value for each byte, from 0 to 255.
    pub fn table(self) -> [i64; BYTES] {
        std::array::from_fn(|m| match self {
            Measure::Reading => m as i64,
            Measure::Above(threshold) => i64::from(m > usize::from(threshold)),
            Measure::Within(least, most) => i64::from((usize::from(least)..=usize::from(most)).contains(&m)),
            Measure::SquareHigh => ((m * m) >> 8) as i64,
            Measure::SquareLow => ((m * m) & 255) as i64,
        })
    }

    /// The largest value.
    pub fn most(self) -> u8 {
        self.table().into_iter().max().map_or(0, |most| most as u8)
    }
}

/// One result: a sum of a measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The measure of the sum.
    pub measure: Measure,
    /// The batches, each once, with a weight for each block: 0 for a block without a frame.
    pub terms: Vec<(usize, Vec<i64>)>,
    /// Whether blocks stay apart.
    pub by_block: bool,
}

/// Sums that cannot overflow, and the polynomials that they need.
pub struct ExactPlan {
    scheme: Scheme,
    layout: Layout,
    points: Points,
    /// The cohort of each batch.
    batches: Vec<usize>,
    outputs: Vec<Output>,
    ranges: Vec<Vec<Range>>,
    /// The functions in the order of their numbers.
    functions: Vec<(Measure, ByteFunction)>,
}

impl ExactPlan {
    /// Plans the outputs for batches of these cohorts.
    ///
    /// # Errors
    /// [`PlanError::Overflow`] for a sum that could overflow. [`PlanError::Shape`] for a scheme
    /// without valid points, no outputs, a wrong number of weights, or batches that do not exist.
    pub fn new(scheme: Scheme, layout: Layout, batches: Vec<usize>, outputs: Vec<Output>) -> Result<Self, PlanError> {
        let shape = |expected, found| PlanError::Shape { expected, found };
        if outputs.is_empty() {
            return Err(shape("an output", 0));
        }
        let mut ranges = Vec::with_capacity(outputs.len());
        for output in &outputs {
            let mut used: Vec<usize> = output.terms.iter().map(|term| term.0).collect();
            used.sort_unstable();
            used.dedup();
            if used.is_empty() || used.len() != output.terms.len() || used.last() >= Some(&batches.len()) {
                return Err(shape("batches that there are, each once", output.terms.len()));
            }
            if let Some((_, weights)) = output.terms.iter().find(|term| term.1.len() != layout.blocks()) {
                return Err(shape("a weight for each block", weights.len()));
            }
            let of = |block: usize| output.terms.iter().map(move |term| term.1[block]);
            let (blocks, most) = (0..layout.blocks(), output.measure.most());
            ranges.push(if output.by_block {
                blocks.map(|block| scheme.exact(of(block), most)).collect::<Result<_, _>>()?
            } else {
                vec![scheme.exact(blocks.flat_map(of), most)?]
            });
        }
        let points = Points::new(&scheme).ok_or(shape("a profile with valid points", 0))?;
        let mut functions: BTreeMap<Measure, ByteFunction> = BTreeMap::new();
        for output in &outputs {
            functions.entry(output.measure).or_insert_with(|| points.function(&output.measure.table()));
        }
        Ok(Self { scheme, layout, points, batches, outputs, ranges, functions: functions.into_iter().collect() })
    }

    /// The numbers of the profile.
    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// The layout of blocks.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The number of batches.
    pub fn batches(&self) -> usize {
        self.batches.len()
    }

    /// The outputs.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The range of an output: one range, or one for each block.
    pub fn ranges(&self, output: usize) -> &[Range] {
        &self.ranges[output]
    }

    /// The polynomials.
    pub fn functions(&self) -> &[(Measure, ByteFunction)] {
        &self.functions
    }

    /// The slots of an input that is a mask or coefficients; `None` for other inputs.
    pub fn slots(&self, input: Input) -> Option<Vec<i64>> {
        match input {
            Input::Polynomial(which) => Some(self.functions[which].1.coefficients.clone()),
            Input::Mask { output, term } => {
                let weights = &self.outputs[output].terms[term].1;
                Some(readings(&self.layout, |block, _| weights[block]))
            }
            Input::Declared => Some(readings(&self.layout, |block, _| i64::from(block == 0))),
            _ => None,
        }
    }

    fn folds(&self) -> bool {
        self.outputs.iter().any(|output| !output.by_block)
    }
}

/// The inputs of a program.
#[derive(Clone, Debug)]
pub struct Inputs<V> {
    frames: Frames<V>,
    maps: Maps<V>,
    polynomials: Vec<V>,
    /// The masks by output and term.
    masks: Vec<Vec<V>>,
    declared: Option<V>,
    folds: Vec<V>,
    swap: Option<V>,
    relinearization: V,
}

impl<V> Inputs<V> {
    /// Makes all inputs of a plan with `make`, for fresh ciphertexts at this level.
    ///
    /// # Errors
    /// Errors of `make`.
    ///
    /// # Panics
    /// If there are fewer levels than a conversion and a sum need.
    pub fn new<E>(plan: &ExactPlan, top: u16, mut make: impl FnMut(Input) -> Result<V, E>) -> Result<Self, E> {
        assert!(top > LINEAR_LEVELS + POLYNOMIAL_LEVELS, "levels for a conversion and a sum");
        let make = &mut make;
        let frames = Frames::new(plan.scheme.rank, plan.batches.clone(), make)?;
        let maps = Maps::new(&plan.layout, top - 1, make)?;
        let polynomials = (0..plan.functions.len()).map(|which| make(Input::Polynomial(which)));
        let polynomials = polynomials.collect::<Result<_, _>>()?;
        let mut masks = Vec::with_capacity(plan.outputs.len());
        for (output, Output { terms, .. }) in plan.outputs.iter().enumerate() {
            masks.push((0..terms.len()).map(|term| make(Input::Mask { output, term })).collect::<Result<_, _>>()?);
        }
        let (mut declared, mut swap, mut folds) = (None, None, Vec::new());
        let level = top - LINEAR_LEVELS - POLYNOMIAL_LEVELS - 1;
        if plan.folds() {
            declared = Some(make(Input::Declared)?);
            swap = Some(make(Input::Swap { level })?);
            folds = plan
                .layout
                .folds()
                .map(|(steps, _)| make(Input::Rotation { steps, level }))
                .collect::<Result<_, _>>()?;
        }
        let relinearization = make(Input::Relinearization { level: top - LINEAR_LEVELS })?;
        Ok(Self { frames, maps, polynomials, masks, declared, folds, swap, relinearization })
    }

    /// The valid points of a batch, ready for polynomials.
    ///
    /// # Errors
    /// Errors of the machine.
    pub fn points<M: Machine<Value = V>>(&self, machine: &mut M, plan: &ExactPlan, batch: usize) -> Result<V, M::Error>
    where
        V: Clone,
    {
        let phase = self.frames.phase(machine, batch)?;
        points(machine, &plan.layout, &self.maps, &plan.points, &phase)
    }

    /// The relinearization key.
    pub fn relinearization(&self) -> &V {
        &self.relinearization
    }

    /// A measure of the plan on such points, with three levels left.
    ///
    /// # Errors
    /// Errors of the machine.
    ///
    /// # Panics
    /// If there is no such function.
    pub fn measure<M: Machine<Value = V>>(
        &self,
        machine: &mut M,
        plan: &ExactPlan,
        which: usize,
        points: &V,
    ) -> Result<V, M::Error>
    where
        V: Clone,
    {
        byte_function(machine, points, (&plan.functions[which].1, &self.polynomials[which]), &self.relinearization)
    }
}

/// All outputs of a plan.
///
/// # Errors
/// Errors of the machine.
pub fn program<M: Machine>(
    machine: &mut M,
    plan: &ExactPlan,
    inputs: &Inputs<M::Value>,
) -> Result<Vec<M::Value>, M::Error> {
    let points = (0..plan.batches()).map(|batch| inputs.points(machine, plan, batch)).collect::<Result<Vec<_>, _>>()?;
    // each measure of a batch is computed once for all its sums
    let mut values: BTreeMap<(usize, usize), M::Value> = BTreeMap::new();
    let mut results = Vec::with_capacity(plan.outputs.len());
    for (output, masks) in plan.outputs.iter().zip(&inputs.masks) {
        let which = plan.functions.iter().position(|function| function.0 == output.measure).unwrap_or(0);
        for (batch, _) in &output.terms {
            if let Entry::Vacant(room) = values.entry((which, *batch)) {
                room.insert(inputs.measure(machine, plan, which, &points[*batch])?);
            }
        }
        let pairs: Vec<&M::Value> =
            output.terms.iter().zip(masks).flat_map(|(term, mask)| [&values[&(which, term.0)], mask]).collect();
        let sum = machine.step(Op::Dot, &pairs)?;
        let sum = machine.step(Op::Rescale, &[&sum])?;
        results.push(match (&inputs.swap, &inputs.declared) {
            (Some(swap), Some(declared)) if !output.by_block => {
                let folded = fold(machine, &plan.layout, &sum, &inputs.folds, swap)?;
                machine.mul_plain(&folded, declared)?
            }
            _ => sum,
        });
    }
    Ok(results)
}

/// The program of a plan, and its inputs in the order of their numbers. Diagonals are prepared
/// values, because every batch needs them.
///
/// # Errors
/// [`PlanError`].
pub fn record(engine: &BgvEngine, plan: &ExactPlan) -> Result<(Program, Vec<Input>), PlanError> {
    let (mut recorder, mut all) = (Recorder::new(engine), Vec::new());
    let top = engine.top_level();
    fits(engine, &plan.scheme)?;
    if top <= LINEAR_LEVELS + POLYNOMIAL_LEVELS {
        return Err(PlanError::Levels { least: LINEAR_LEVELS + POLYNOMIAL_LEVELS + 1, found: top });
    }
    let inputs: Inputs<Value> = Inputs::new(plan, top, |input| {
        all.push(input);
        let level = level_of(top, input);
        let (name, shape, secrecy) = match described(engine, input)? {
            Some(described) => described,
            None if matches!(input, Input::Diagonal { .. }) => {
                (format!("{input:?}"), engine.plaintext_shape(level)?, Secrecy::Public)
            }
            None => (format!("{input:?}"), engine.compact_shape(level)?, Secrecy::Public),
        };
        Ok::<_, PlanError>(recorder.input(name, shape, secrecy)?)
    })?;
    let outputs = program(&mut recorder, plan, &inputs)?;
    Ok((recorder.finish(&outputs)?, all))
}

/// The level of a plain input.
fn level_of(top: u16, input: Input) -> u16 {
    let after = top - LINEAR_LEVELS - POLYNOMIAL_LEVELS;
    match input {
        Input::Diagonal { map, .. } => top - 1 - map as u16,
        Input::Polynomial(_) | Input::Mask { .. } => after,
        Input::Declared => after - 1,
        _ => top,
    }
}

/// Encodes a plain input as a value: frames and masks are prepared at each use, diagonals once.
///
/// # Errors
/// [`EngineError`].
pub fn plain(engine: &BgvEngine, input: Input, slots: &[i64]) -> Result<tobari_engine::BgvValue, EngineError> {
    let level = level_of(engine.top_level(), input);
    match input {
        Input::Diagonal { .. } => engine.integers(slots, level),
        _ => engine.compact(slots, level),
    }
}

/// The coefficients of a block, from the slots of a result that keeps blocks apart.
pub fn of_block(layout: &Layout, slots: &[i64], block: usize) -> [i64; READINGS] {
    std::array::from_fn(|k| slots[layout.slot(block, super::layout::of_coefficient(k))])
}
