//! Exact readings under encryption, functions of them, and sums of those: planned, run, and read.
//!
//! A frame's phase is transformed back, a polynomial removes its noise and applies a function of a
//! byte, and sums go over batches and devices. Three primes go to the linear parts and eleven to
//! the polynomial; a sum that folds blocks takes one more. Whoever wants to multiply what comes out
//! has three levels.
//!
//! Frames of 16 bits take the set `sense`, of 25 bits `sense-wide`, of twice the degree and so
//! twice as many devices in a batch. Other parameters are refused when a program is written down.
//!
//! **Sums stay below `q`**, or are refused when they are planned. A square of a byte is above
//! 65,537 with a second one, so that [`Measure::SquareHigh`] and [`Measure::SquareLow`] are its two
//! bytes: sums of up to 257 each.

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

/// The set that frames of [`P1`](tobari_device::P1) are converted with.
pub const SET: &str = "sense";
/// The set that frames of [`U25`](tobari_device::U25) are converted with. Rounding leaves noise in
/// proportion to `q`, so that its primes have ten bits more, and 865 bits do not fit `N = 2^15` at
/// 128 bits of security.
pub const WIDE_SET: &str = "sense-wide";
/// Levels before the polynomial.
pub const LINEAR_LEVELS: u16 = 3;
/// Levels of the polynomial: its degree is 1,791.
pub const POLYNOMIAL_LEVELS: u16 = 11;

/// What is taken of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Measure {
    /// Itself.
    Reading,
    /// 1 if it is above this: for alarms, and counts of them.
    Above(u8),
    /// 1 if it is from the first to the second: for histograms.
    Within(u8, u8),
    /// `⌊m²/256⌋`.
    SquareHigh,
    /// `m² mod 256`.
    SquareLow,
}

impl Measure {
    /// Its value for each byte, from 0 to 255.
    pub fn table(self) -> [i64; BYTES] {
        std::array::from_fn(|m| match self {
            Measure::Reading => m as i64,
            Measure::Above(threshold) => i64::from(m > usize::from(threshold)),
            Measure::Within(least, most) => i64::from((usize::from(least)..=usize::from(most)).contains(&m)),
            Measure::SquareHigh => ((m * m) >> 8) as i64,
            Measure::SquareLow => ((m * m) & 255) as i64,
        })
    }

    /// The largest of those.
    pub fn most(self) -> u8 {
        self.table().into_iter().max().map_or(0, |most| most as u8)
    }
}

/// One result: a sum of a measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Of what.
    pub measure: Measure,
    /// Batches, each once, with a weight for each block: 0 for a block without a frame.
    pub terms: Vec<(usize, Vec<i64>)>,
    /// Whether blocks stay apart.
    pub by_block: bool,
}

/// Sums that fit, and the polynomials that they take.
pub struct ExactPlan {
    scheme: Scheme,
    layout: Layout,
    points: Points,
    /// The cohort of each batch.
    batches: Vec<usize>,
    outputs: Vec<Output>,
    ranges: Vec<Vec<Range>>,
    /// In the order of their numbers.
    functions: Vec<(Measure, ByteFunction)>,
}

impl ExactPlan {
    /// For batches of these cohorts.
    ///
    /// # Errors
    /// [`PlanError::Overflow`] for a sum that would wrap; [`PlanError::Shape`] for a scheme without
    /// valid points, no outputs, weights that are not one a block, or batches that there are not.
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

    /// Where blocks stand.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How many batches there are.
    pub fn batches(&self) -> usize {
        self.batches.len()
    }

    /// The outputs.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// What an output can be: one range, or one for each block.
    pub fn ranges(&self, output: usize) -> &[Range] {
        &self.ranges[output]
    }

    /// The polynomials.
    pub fn functions(&self) -> &[(Measure, ByteFunction)] {
        &self.functions
    }

    /// The slots of an input that is a mask or coefficients; none for others.
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

/// What a program takes.
#[derive(Clone, Debug)]
pub struct Inputs<V> {
    frames: Frames<V>,
    maps: Maps<V>,
    polynomials: Vec<V>,
    /// By output and term.
    masks: Vec<Vec<V>>,
    declared: Option<V>,
    folds: Vec<V>,
    swap: Option<V>,
    relinearization: V,
}

impl<V> Inputs<V> {
    /// All inputs of a plan, with fresh ciphertexts at this level, by whoever has them.
    ///
    /// # Errors
    /// Whatever `make` says.
    ///
    /// # Panics
    /// If there are fewer levels than a conversion and a sum take.
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
            folds =
                plan.layout.folds().map(|steps| make(Input::Rotation { steps, level })).collect::<Result<_, _>>()?;
        }
        let relinearization = make(Input::Relinearization { level: top - LINEAR_LEVELS })?;
        Ok(Self { frames, maps, polynomials, masks, declared, folds, swap, relinearization })
    }

    /// A batch as valid points, ready for polynomials.
    ///
    /// # Errors
    /// The machine's.
    pub fn points<M: Machine<Value = V>>(&self, machine: &mut M, plan: &ExactPlan, batch: usize) -> Result<V, M::Error>
    where
        V: Clone,
    {
        let phase = self.frames.phase(machine, batch)?;
        points(machine, &plan.layout, &self.maps, &plan.points, &phase)
    }

    /// The key of products.
    pub fn relinearization(&self) -> &V {
        &self.relinearization
    }

    /// One of the plan's measures of such points, with three levels left.
    ///
    /// # Errors
    /// The machine's.
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
/// The machine's.
pub fn program<M: Machine>(
    machine: &mut M,
    plan: &ExactPlan,
    inputs: &Inputs<M::Value>,
) -> Result<Vec<M::Value>, M::Error> {
    let points = (0..plan.batches()).map(|batch| inputs.points(machine, plan, batch)).collect::<Result<Vec<_>, _>>()?;
    // a measure of a batch is computed once, whatever sums it is in
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

/// The program of a plan, and what its inputs are, by their numbers. Diagonals are prepared values:
/// every batch takes them.
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

/// The level that a plain input is for.
fn level_of(top: u16, input: Input) -> u16 {
    let after = top - LINEAR_LEVELS - POLYNOMIAL_LEVELS;
    match input {
        Input::Diagonal { map, .. } => top - 1 - map as u16,
        Input::Polynomial(_) | Input::Mask { .. } => after,
        Input::Declared => after - 1,
        _ => top,
    }
}

/// A plain input as a value: frames and masks are prepared when they are used, diagonals once.
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
