//! From a graph to steps, with ranges from pictures.
//!
//! Every value of the graph is an **affine expression** of tensors, `Σ_k M_k x_k + b`. Linear nodes
//! multiply and add expressions, and cost nothing: batch normalisation, sums of branches,
//! concatenations, paddings and the scales of activations all end in one matrix for each tensor. An
//! expression becomes a tensor by a map step where a node is not linear, or where its matrices
//! would grow too large.
//!
//! **Squares.** `a x² + b x + c = ± κ s² + c - b²/4a` with `s = √(|a|/κ) (x + b/2a)`: the number of
//! levels of a polynomial of degree two is one, and all the rest is in the maps on both sides.
//!
//! **Other activations** are series on the range of their numbers, and gates at kinks
//! ([`approximate`]). A maximum is `(a + b)/2 + |a - b|/2`; a window takes one
//! for each doubling of its rows and its columns.
//!
//! **An enclave.** With one, all expressions are of numbers that it knows. An argument of a node
//! becomes a map of the terms with matrices, which the process computes under encryption; the
//! enclave adds the other terms, and computes the node. Means of windows have no weights, so it
//! computes them, too, where it has their numbers.
//!
//! **Ranges.** The pictures run through the steps as they are made. A tensor is divided by the
//! largest number seen, times a headroom, so that it is at most 1. All that the pictures decided is
//! a list of numbers ([`Lowered::facts`]), from which the same steps are made again without them.

use crate::approximate::{self, Approximation, ApproximationError, Limits, series};
use crate::graph::{Activation, Graph, Node, Op};
use crate::matrix::{self, Matrix, Window};
use crate::steps::{Argument, Factor, Step, Steps};
use std::collections::BTreeMap;
use std::sync::Arc;
use tobari_infer::Volume;
use tobari_infer::client::GUARD;
use tobari_lattice::ckks::chebyshev_series;

/// The divisor of pixels in tensor 0: a power of two, as in [`tobari_infer::Model::numbers`].
const WHITE: f64 = 256.0;

/// Tensor 0 of a picture: pixels from 0 to 255 as numbers below 1.
pub fn numbers(pixels: &[u8]) -> Vec<f64> {
    pixels.iter().map(|pixel| f64::from(*pixel) / WHITE).collect()
}

/// The part of a slope below which a square term changes a polynomial's values no more than noise.
const TINY: f64 = 1.0 / 1024.0;

/// Squarings of a guard.
const POWERS: usize = 4;

/// The most entries of a product of two matrices.
const MOST_ENTRIES: usize = 1 << 25;

/// Choices of a conversion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LowerOptions {
    /// The factor by which numbers may exceed those of the pictures.
    pub headroom: f64,
    /// Activations are right to `2^-bits` of the largest number on both sides.
    pub bits: u32,
    /// Whether activations become polynomials of degree two that are nearest for the pictures,
    /// however near that is.
    pub quadratic: bool,
    /// Whether the guard also tells of numbers that squares and products take. Polynomials of
    /// degree two are right for any number, but a refresh is not.
    pub strict: bool,
    /// Whether an enclave computes all but maps, exactly: no approximations, and no guard.
    pub enclaved: bool,
}

/// Where ranges come from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// From pictures: pixels from 0 to 255.
    Pictures(&'a [&'a [u8]]),
    /// From [`Lowered::facts`] of the same graph and options.
    Facts(&'a [f64]),
}

/// The steps of a network, and what pictures decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Lowered {
    /// The steps.
    pub steps: Steps,
    /// Ranges and fitted coefficients in the order of the nodes.
    pub facts: Vec<f64>,
}

/// Why a network has no encrypted form.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LowerError {
    /// No pictures to take ranges from.
    #[error("expected pictures like those to come, from which ranges are taken, found none: give some (--images)")]
    Pictures,
    /// A picture of another size.
    #[error(transparent)]
    Picture(#[from] crate::graph::PictureError),
    /// Facts of another graph or other options.
    #[error("expected the ranges of this network, found others: compile the network again")]
    Facts,
    /// An activation that cannot be approximated.
    #[error("node {node}: {error}")]
    Approximation {
        /// The node's name.
        node: String,
        /// The reason.
        error: ApproximationError,
    },
    /// A node without an encrypted form.
    #[error("node {node}: {reason}")]
    Node {
        /// The node's name.
        node: String,
        /// The reason, and the remedy.
        reason: String,
    },
}

/// An affine expression of tensors.
#[derive(Clone, Debug)]
struct Expression {
    volume: Volume,
    terms: BTreeMap<usize, Factor>,
    bias: Vec<f64>,
}

impl Expression {
    fn of_tensor(volume: Volume, tensor: usize, factor: f64) -> Self {
        let terms = BTreeMap::from([(tensor, Factor::Scalar(factor))]);
        Self { volume, terms, bias: vec![0.0; volume.len()] }
    }

    /// `M e + b`; `None` if a matrix would be too large.
    fn mapped(&self, matrix: &Matrix, bias: &[f64], output: Volume) -> Option<Self> {
        let mut terms = BTreeMap::new();
        for (tensor, factor) in &self.terms {
            let product = match factor {
                Factor::Scalar(factor) => matrix.clone().scale_rows(|_| *factor),
                Factor::Matrix(own) => {
                    let most = 2 * matrix.entries().max(own.entries()).max(1 << 16);
                    matrix.times(own, most.min(MOST_ENTRIES))?
                }
            };
            terms.insert(*tensor, Factor::Matrix(Arc::new(product)));
        }
        let bias = matrix.apply(&self.bias).iter().zip(bias).map(|(a, b)| a + b).collect();
        Some(Self { volume: output, terms, bias })
    }

    /// The same, each number times a factor, plus a shift.
    fn scaled(mut self, factor: impl Fn(usize) -> f64, shift: impl Fn(usize) -> f64) -> Self {
        let first = factor(0);
        let even = (0..self.bias.len()).all(|at| factor(at) == first);
        let count = self.bias.len();
        for own in self.terms.values_mut() {
            *own = match own {
                Factor::Scalar(x) if even => Factor::Scalar(*x * first),
                Factor::Scalar(x) => {
                    let numbers: Vec<f64> = (0..count).map(|at| *x * factor(at)).collect();
                    Factor::Matrix(Arc::new(Matrix::diagonal(&numbers)))
                }
                Factor::Matrix(matrix) => Factor::Matrix(Arc::new(matrix.as_ref().clone().scale_rows(&factor))),
            };
        }
        self.bias.iter_mut().enumerate().for_each(|(at, bias)| *bias = *bias * factor(at) + shift(at));
        self
    }

    /// `e + f`
    fn plus(mut self, other: &Self) -> Self {
        let count = self.bias.len();
        for (tensor, factor) in &other.terms {
            let sum = match (self.terms.remove(tensor), factor) {
                (None, factor) => factor.clone(),
                (Some(Factor::Scalar(a)), Factor::Scalar(b)) => Factor::Scalar(a + b),
                (Some(Factor::Matrix(a)), Factor::Matrix(b)) => Factor::Matrix(Arc::new(a.plus(b))),
                (Some(Factor::Scalar(a)), Factor::Matrix(b)) => {
                    Factor::Matrix(Arc::new(b.plus(&Matrix::diagonal(&vec![a; count]))))
                }
                (Some(Factor::Matrix(a)), Factor::Scalar(b)) => {
                    Factor::Matrix(Arc::new(a.plus(&Matrix::diagonal(&vec![*b; count]))))
                }
            };
            self.terms.insert(*tensor, sum);
        }
        self.bias.iter_mut().zip(&other.bias).for_each(|(a, b)| *a += b);
        self
    }

    /// The tensor and the factor of an expression that is one tensor and nothing else.
    fn bare(&self) -> Option<(usize, f64)> {
        let mut terms = self.terms.iter();
        match (terms.next(), terms.next()) {
            (Some((tensor, Factor::Scalar(factor))), None) => Some((*tensor, *factor)),
            _ => None,
        }
    }

    /// Whether a matrix has more than one entry a row.
    fn is_heavy(&self) -> bool {
        let heavy = |factor: &Factor| match factor {
            Factor::Scalar(_) => false,
            Factor::Matrix(matrix) => matrix.entries() > matrix.rows(),
        };
        self.terms.values().any(heavy)
    }
}

/// The conversion in progress.
struct Lowering<'a> {
    graph: &'a Graph,
    options: LowerOptions,
    steps: Steps,
    /// For each picture, all tensors so far.
    pictures: Vec<Vec<Vec<f64>>>,
    facts: Vec<f64>,
    /// The facts that are given, and how many were taken.
    given: Option<(&'a [f64], usize)>,
    values: Vec<Expression>,
    uses: Vec<usize>,
    /// The tensors that series and gates take.
    ranged: Vec<usize>,
}

/// The steps of a network.
///
/// # Errors
/// [`LowerError`].
pub fn lower(graph: &Graph, source: Source<'_>, options: LowerOptions) -> Result<Lowered, LowerError> {
    let (pictures, given): (&[&[u8]], _) = match source {
        Source::Pictures([]) => return Err(LowerError::Pictures),
        Source::Pictures(pictures) => (pictures, None),
        Source::Facts(facts) => (&[], Some((facts, 0))),
    };
    let mut first = Vec::with_capacity(pictures.len());
    for picture in pictures {
        graph.normalise(picture)?;
        first.push(vec![numbers(picture)]);
    }
    let mut uses = vec![0; graph.nodes().len() + 1];
    graph.nodes().iter().flat_map(Node::inputs).for_each(|value| uses[*value] += 1);
    let (input, normalisation) = (graph.input(), graph.normalisation());
    let area = input.height * input.width;
    let scale = |at: usize| WHITE * normalisation.scale[at / area];
    let picture = Expression::of_tensor(input, 0, 1.0).scaled(scale, |at| normalisation.offset[at / area]);
    let steps = Steps { input, steps: Vec::new(), unit: 1.0, guarded: false, ranged: Vec::new() };
    let values = vec![picture];
    let facts = Vec::new();
    let mut lowering =
        Lowering { graph, options, steps, pictures: first, facts, given, values, uses, ranged: Vec::new() };
    for node in graph.nodes() {
        let value = lowering.node(node.name(), node.op(), node.inputs(), node.output())?;
        lowering.values.push(value);
    }
    lowering.finish()
}

impl Lowering<'_> {
    fn node(&mut self, name: &str, op: &Op, inputs: &[usize], output: Volume) -> Result<Expression, LowerError> {
        for value in inputs {
            if self.uses[*value] > 1 && self.values[*value].is_heavy() {
                self.keep(name, *value)?;
            }
        }
        let input = inputs[0];
        if self.options.enclaved && self.is_inside(op, inputs) {
            return self.inside(name, op, inputs, output);
        }
        match op {
            Op::Sum { factors } => {
                let mut sum: Option<Expression> = None;
                for (value, factor) in inputs.iter().zip(factors) {
                    let part = self.values[*value].clone().scaled(|_| *factor, |_| 0.0);
                    sum = Some(sum.map_or(part.clone(), |sum| sum.plus(&part)));
                }
                sum.ok_or_else(|| fault(name, "expected an input, found none"))
            }
            Op::Concatenate => self.concatenate(name, inputs, output),
            Op::Reshape { output } => Ok(Expression { volume: *output, ..self.values[input].clone() }),
            Op::AveragePool { kernel, stride, padding, .. }
                if kernel == stride && *padding == [0; 4] && kernel.iter().all(|size| size.is_power_of_two()) =>
            {
                match self.values[input].bare() {
                    Some((tensor, factor)) if self.steps.volume(tensor) == self.values[input].volume => {
                        let bias = matrix::of_op(op, self.values[input].volume, output)
                            .map(|(matrix, _)| matrix.apply(&self.values[input].bias));
                        let pooled = self.push(name, Step::Pool { input: tensor, window: *kernel }, output);
                        let factor = factor / (kernel[0] * kernel[1]) as f64;
                        let mut value = Expression::of_tensor(output, pooled, factor);
                        value.bias = bias.unwrap_or_else(|| vec![0.0; output.len()]);
                        Ok(value)
                    }
                    _ => self.linear(name, op, input, output),
                }
            }
            Op::Polynomial { coefficients } => self.polynomial(name, coefficients, input),
            Op::Product => self.product(name, inputs),
            Op::Activation(activation) => self.activation(name, *activation, self.values[input].clone()),
            Op::MaximumPool { .. } => self.maximum(name, op, input, output),
            _ => self.linear(name, op, input, output),
        }
    }

    /// Whether the enclave computes this node.
    fn is_inside(&self, op: &Op, inputs: &[usize]) -> bool {
        match op {
            Op::Activation(_) | Op::MaximumPool { .. } | Op::Product => true,
            Op::Polynomial { coefficients } => coefficients.iter().skip(2).flatten().any(|c| *c != 0.0),
            Op::AveragePool { .. } => !self.values[inputs[0]].is_heavy(),
            _ => false,
        }
    }

    /// A node inside the enclave.
    fn inside(&mut self, name: &str, op: &Op, inputs: &[usize], output: Volume) -> Result<Expression, LowerError> {
        let mut arguments = Vec::with_capacity(inputs.len());
        for value in inputs {
            let own = self.values[*value].clone();
            arguments.push(self.argument(name, own)?);
        }
        let step = |range: f64| Step::Inside { op: op.clone(), arguments: arguments.clone(), range };
        let [low, high] = self.interval_of(|lowering| {
            let all = lowering.pictures.iter().flat_map(|tensors| lowering.applied(&step(1.0), tensors, output));
            all.fold(EMPTY, ends)
        })?;
        let range = low.abs().max(high.abs());
        let tensor = self.push(name, step(range), output);
        Ok(Expression::of_tensor(output, tensor, range))
    }

    /// A sum that the enclave can add up: its terms with matrices become a tensor, which the
    /// process computes.
    fn argument(&mut self, name: &str, own: Expression) -> Result<Argument, LowerError> {
        let Expression { volume, terms, mut bias } = own;
        let is_light = |factor: &Factor| match factor {
            Factor::Scalar(_) => true,
            Factor::Matrix(matrix) => matrix.entries() <= matrix.rows(),
        };
        let (mut light, heavy): (BTreeMap<usize, Factor>, BTreeMap<usize, Factor>) =
            terms.into_iter().partition(|(_, factor)| is_light(factor));
        if !heavy.is_empty() {
            let count = bias.len();
            let map = Expression { volume, terms: heavy, bias: std::mem::replace(&mut bias, vec![0.0; count]) };
            let (tensor, range) = self.tensor(name, map)?;
            light.insert(tensor, Factor::Scalar(range));
        }
        Ok(Argument { volume, terms: light.into_iter().collect(), bias })
    }

    /// Replaces a value's expression by a tensor of its own.
    fn keep(&mut self, name: &str, value: usize) -> Result<(), LowerError> {
        if self.options.enclaved {
            let volume = self.values[value].volume;
            self.values[value] = self.inside(name, &Op::Sum { factors: vec![1.0] }, &[value], volume)?;
            return Ok(());
        }
        let expression = self.values[value].clone();
        let (tensor, range) = self.tensor(name, expression.clone())?;
        self.values[value] = Expression::of_tensor(expression.volume, tensor, range);
        Ok(())
    }

    fn linear(&mut self, name: &str, op: &Op, input: usize, output: Volume) -> Result<Expression, LowerError> {
        let volume = self.values[input].volume;
        let (matrix, bias) =
            matrix::of_op(op, volume, output).ok_or_else(|| fault(name, "expected a linear node, found another"))?;
        if let Some(value) = self.values[input].mapped(&matrix, &bias, output) {
            return Ok(value);
        }
        self.keep(name, input)?;
        let value = self.values[input].mapped(&matrix, &bias, output);
        value.ok_or_else(|| fault(name, "expected a map of at most 2^25 weights, found more: use a smaller network"))
    }

    fn concatenate(&mut self, name: &str, inputs: &[usize], output: Volume) -> Result<Expression, LowerError> {
        let mut sum = Expression { volume: output, terms: BTreeMap::new(), bias: vec![0.0; output.len()] };
        let mut start = 0;
        for value in inputs {
            let part = &self.values[*value];
            let count = part.volume.len();
            let rows = (0..output.len()).map(|at| match at.checked_sub(start) {
                Some(at) if at < count => vec![(at as u32, 1.0)],
                _ => Vec::new(),
            });
            let place = Matrix::new(count, rows);
            let part = part.mapped(&place, &vec![0.0; output.len()], output);
            sum = sum.plus(&part.ok_or_else(|| fault(name, "expected smaller inputs of a concatenation"))?);
            start += count;
        }
        Ok(sum)
    }

    fn polynomial(&mut self, name: &str, coefficients: &[Vec<f64>], input: usize) -> Result<Expression, LowerError> {
        let volume = self.values[input].volume;
        let area = volume.height * volume.width;
        let of = |degree: usize, at: usize| match coefficients.get(degree).map(Vec::as_slice) {
            None => 0.0,
            Some([one]) => *one,
            Some(all) if all.len() == volume.len() => all[at],
            Some(all) => all[at / area],
        };
        let is_zero = |degree: usize| coefficients.get(degree).is_none_or(|all| all.iter().all(|c| *c == 0.0));
        let degree = (0..coefficients.len()).rev().find(|degree| !is_zero(*degree)).unwrap_or(0);
        match degree {
            0 | 1 => Ok(self.values[input].clone().scaled(|at| of(1, at), |at| of(0, at))),
            2 => self.quadratic(name, &self.values[input].clone(), of),
            _ if coefficients.iter().all(|all| all.len() == 1) => {
                let plain: Vec<f64> = coefficients[..=degree].iter().map(|all| all[0]).collect();
                let horner = move |x: f64| plain.iter().rev().fold(0.0, |sum, c| sum * x + c);
                self.function(name, input, degree, horner)
            }
            _ => Err(fault(
                name,
                "expected a polynomial of degree 3 or more with the same coefficients for all channels, found others: \
                 use one polynomial for the layer, a degree of 2, or an enclave (--engine enclave)",
            )),
        }
    }

    /// `a x² + b x + c` by one square.
    fn quadratic(
        &mut self,
        name: &str,
        own: &Expression,
        of: impl Fn(usize, usize) -> f64,
    ) -> Result<Expression, LowerError> {
        // A square term that is tiny on the range would make s the square of a number far from 0,
        // and multiply its noise. There the polynomial is replaced by its tangent.
        let [low, high] = self.interval(own)?;
        let (middle, half) = ((low + high) / 2.0, (high - low) / 2.0);
        let slope = |at: usize| of(1, at) + 2.0 * of(2, at) * middle;
        let is_line = |at: usize| of(2, at).abs() * half <= TINY * slope(at).abs();
        let of = |degree: usize, at: usize| match (degree, is_line(at)) {
            (0, true) => of(0, at) - of(2, at) * middle * middle,
            (1, true) => slope(at),
            (2, true) => 0.0,
            _ => of(degree, at),
        };
        let shift = |at: usize| if of(2, at) == 0.0 { 0.0 } else { of(1, at) / (2.0 * of(2, at)) };
        let root = |at: usize| of(2, at).abs().sqrt();
        // √|a| (x + b/2a), which is 0 where a is
        let inner = own.clone().scaled(root, |at| root(at) * shift(at));
        let volume = own.volume;
        let (tensor, range) = self.tensor(name, inner)?;
        if self.options.strict {
            self.ranged.push(tensor);
        }
        let square = self.push(name, Step::Square { input: tensor }, volume);
        let sign = |at: usize| of(2, at).signum() * range * range * f64::from(u8::from(of(2, at) != 0.0));
        let constant = |at: usize| of(0, at) - of(2, at) * shift(at) * shift(at);
        let value = Expression::of_tensor(volume, square, 1.0).scaled(sign, constant);
        let straight = |at: usize| if of(2, at) == 0.0 { of(1, at) } else { 0.0 };
        Ok(match (0..volume.len()).any(|at| straight(at) != 0.0) {
            true => value.plus(&own.clone().scaled(straight, |_| 0.0)),
            false => value,
        })
    }

    /// A function of each number as a series over the range of the pictures.
    fn function(
        &mut self,
        name: &str,
        input: usize,
        degree: usize,
        f: impl Fn(f64) -> f64,
    ) -> Result<Expression, LowerError> {
        let own = self.values[input].clone();
        let (tensor, range) = self.tensor(name, own.clone())?;
        self.ranged.push(tensor);
        let coefficients = chebyshev_series(|t| f(t * range), degree);
        Ok(self.series(name, tensor, own.volume, 0.0, coefficients))
    }

    /// A series of a tensor, divided by its largest value on [-1, 1].
    fn series(&mut self, name: &str, input: usize, volume: Volume, shift: f64, mut series: Vec<f64>) -> Expression {
        let grid = (0..=1000).map(|k| series::value(&series, f64::from(k) / 500.0 - 1.0).abs());
        let largest = grid.fold(f64::MIN_POSITIVE, f64::max);
        series.truncate(series::degree(&series) + 1);
        series.iter_mut().for_each(|c| *c /= largest);
        let result = self.push(name, Step::Series { input, shift, coefficients: series }, volume);
        Expression::of_tensor(volume, result, largest)
    }

    fn activation(&mut self, name: &str, f: Activation, own: Expression) -> Result<Expression, LowerError> {
        let wrong = |error| LowerError::Approximation { node: name.to_owned(), error };
        if self.options.quadratic {
            let coefficients = self.known(3, |lowering| {
                let all: Vec<f64> = lowering.seen(&own).flatten().collect();
                let step = all.len().div_ceil(1 << 20).max(1);
                let samples: Vec<f64> = all.into_iter().step_by(step).collect();
                let mut powers = approximate::quadratic(f, &samples).map_err(wrong)?.powers();
                powers.resize(3, 0.0);
                Ok(powers)
            })?;
            if coefficients[2] == 0.0 {
                return Ok(own.scaled(|_| coefficients[1], |_| coefficients[0]));
            }
            return self.quadratic(name, &own, |degree, _| coefficients[degree]);
        }
        let [low, high] = self.interval(&own)?;
        let tolerance = low.abs().max(high.abs()) * 0.5f64.powi(self.options.bits as i32);
        let found = approximate::approximate(f, low, high, tolerance, &Limits::default()).map_err(wrong)?;
        Ok(self.approximated(name, own, &found))
    }

    /// The steps of an approximation.
    fn approximated(&mut self, name: &str, own: Expression, found: &Approximation) -> Expression {
        let (volume, base) = (own.volume, found.base());
        let (center, radius) = (found.center(), found.radius());
        let straight = |at: usize| base.get(at).copied().unwrap_or(0.0);
        if found.gates().is_empty() && series::degree(base) < 2 {
            let slope = straight(1) / radius;
            return own.scaled(|_| slope, |_| straight(0) - slope * center);
        }
        let tensor = self.map(name, own.scaled(|_| 1.0, |_| -center), radius);
        self.ranged.push(tensor);
        if found.gates().is_empty() {
            return self.series(name, tensor, volume, 0.0, base.to_vec());
        }
        let size = (0..=1000).map(|k| found.value(center + radius * (f64::from(k) / 500.0 - 1.0)).abs());
        let size = size.fold(f64::MIN_POSITIVE, f64::max);
        // a base that is a multiple of the factor joins the sign
        if let [gate] = found.gates()
            && let Some(ratio) = ratio(base, gate.factor())
        {
            let sign = self.sign(name, tensor, volume, (-gate.shift(), gate.sign().stages()), ratio);
            let factor = self.line(name, tensor, volume, gate.factor(), size);
            let product = self.push(name, Step::Product { inputs: [factor, sign] }, volume);
            return Expression::of_tensor(volume, product, size);
        }
        let mut plain = Vec::new();
        for gate in found.gates() {
            let sign = self.sign(name, tensor, volume, (-gate.shift(), gate.sign().stages()), 0.0);
            let factor = match series::degree(gate.factor()) {
                0 | 1 => self.line(name, tensor, volume, gate.factor(), size),
                _ => {
                    let coefficients = gate.factor().iter().map(|c| c / size).collect();
                    self.push(name, Step::Series { input: tensor, shift: 0.0, coefficients }, volume)
                }
            };
            plain.push(self.push(name, Step::Product { inputs: [factor, sign] }, volume));
        }
        let (mut scaled, offset) = (Vec::new(), straight(0) / size);
        if series::degree(base) > 1 {
            let mut rest: Vec<f64> = base.iter().map(|c| c / size).collect();
            rest[0] = 0.0;
            let rest = self.push(name, Step::Series { input: tensor, shift: 0.0, coefficients: rest }, volume);
            scaled.push((rest, 1.0));
        } else if straight(1) != 0.0 {
            scaled.push((tensor, straight(1) / size));
        }
        let sum = self.push(name, Step::Sum { plain, scaled, offset }, volume);
        Expression::of_tensor(volume, sum, size)
    }

    /// The composition of a gate, plus a number.
    fn sign(
        &mut self,
        name: &str,
        tensor: usize,
        volume: Volume,
        (shift, stages): (f64, &[Vec<f64>]),
        number: f64,
    ) -> usize {
        let mut input = tensor;
        for (place, stage) in stages.iter().enumerate() {
            let mut coefficients = stage[..=series::degree(stage)].to_vec();
            if place + 1 == stages.len() {
                coefficients[0] += number;
            }
            let shift = if place == 0 { shift } else { 0.0 };
            input = self.push(name, Step::Series { input, shift, coefficients }, volume);
        }
        input
    }

    /// `(c_0 + c_1 t)/size` as a tensor.
    fn line(&mut self, name: &str, tensor: usize, volume: Volume, factor: &[f64], size: f64) -> usize {
        let of = |at: usize| factor.get(at).copied().unwrap_or(0.0) / size;
        let line = Expression::of_tensor(volume, tensor, of(1)).scaled(|_| 1.0, |_| of(0));
        self.map(name, line, 1.0)
    }

    /// The largest numbers of windows: first along columns, then along rows.
    fn maximum(&mut self, name: &str, op: &Op, input: usize, output: Volume) -> Result<Expression, LowerError> {
        let Op::MaximumPool { kernel, stride, dilation, padding } = op else {
            return Err(fault(name, "expected a maximum pool"));
        };
        let own = self.values[input].clone();
        let middle = Volume { width: output.width, ..own.volume };
        let along = |axis: usize, size: usize| {
            let one = |x: [usize; 2]| if axis == 0 { [x[0], 1] } else { [1, x[1]] };
            let pads = |at: usize| if axis == at % 2 { padding[at] } else { 0 };
            let window = Window {
                kernel: one(*kernel),
                stride: one(*stride),
                dilation: one(*dilation),
                padding: [pads(0), pads(1), pads(2), pads(3)],
            };
            (window, size)
        };
        let columns = self.maximum_along(name, &own, along(1, kernel[1]), middle)?;
        self.maximum_along(name, &columns, along(0, kernel[0]), output)
    }

    fn maximum_along(
        &mut self,
        name: &str,
        own: &Expression,
        (window, size): (Window, usize),
        output: Volume,
    ) -> Result<Expression, LowerError> {
        let large = || fault(name, "expected smaller windows of a maximum pool: use an average pool");
        // one expression for each place of the window; outside the input, the nearest place inside
        let mut parts = Vec::with_capacity(size);
        for tap in 0..size {
            let row = |[channel, row, column]: [usize; 3]| {
                let inside: Vec<_> = window.places(own.volume, [row, column]).collect();
                let nearest = inside.iter().min_by_key(|(at, _)| at.abs_diff(tap));
                nearest.map(|(_, [y, x])| (own.volume.index(channel, *y, *x) as u32, 1.0)).into_iter().collect()
            };
            let matrix = Matrix::new(own.volume.len(), matrix::places(output).map(row));
            parts.push(own.mapped(&matrix, &vec![0.0; output.len()], output).ok_or_else(large)?);
        }
        while parts.len() > 1 {
            let mut rest = Vec::with_capacity(parts.len().div_ceil(2));
            for pair in parts.chunks(2) {
                rest.push(match pair {
                    [a, b] => {
                        let half = |x: &Expression, factor: f64| x.clone().scaled(|_| factor, |_| 0.0);
                        let difference = half(a, 0.5).plus(&half(b, -0.5));
                        let size = self.activation(name, Activation::Absolute, difference)?;
                        half(a, 0.5).plus(&half(b, 0.5)).plus(&size)
                    }
                    [a] => a.clone(),
                    _ => continue,
                });
            }
            parts = rest;
        }
        parts.pop().ok_or_else(large)
    }

    fn product(&mut self, name: &str, inputs: &[usize]) -> Result<Expression, LowerError> {
        let [a, b] = inputs else { return Err(fault(name, "expected two inputs")) };
        let volume = self.values[*a].volume;
        if self.values[*b].volume != volume {
            return Err(fault(name, "expected inputs of one shape, found others"));
        }
        let ((a, of_a), (b, of_b)) =
            (self.tensor(name, self.values[*a].clone())?, self.tensor(name, self.values[*b].clone())?);
        if self.options.strict {
            self.ranged.extend([a, b]);
        }
        let product = self.push(name, Step::Product { inputs: [a, b] }, volume);
        Ok(Expression::of_tensor(volume, product, of_a * of_b))
    }

    /// A tensor of an expression, divided by its range; and the range.
    fn tensor(&mut self, name: &str, expression: Expression) -> Result<(usize, f64), LowerError> {
        let [low, high] = self.interval(&expression)?;
        let range = low.abs().max(high.abs());
        Ok((self.map(name, expression, range), range))
    }

    /// The numbers of an expression, for each picture.
    fn seen<'a>(&'a self, expression: &'a Expression) -> impl Iterator<Item = Vec<f64>> + 'a {
        self.pictures.iter().map(|tensors| {
            let mut sum = expression.bias.clone();
            expression.terms.iter().for_each(|(tensor, factor)| factor.add_to(&mut sum, &tensors[*tensor]));
            sum
        })
    }

    /// The least and the largest number for the pictures, with headroom around their middle.
    fn interval(&mut self, expression: &Expression) -> Result<[f64; 2], LowerError> {
        self.interval_of(|lowering| lowering.seen(expression).flatten().fold(EMPTY, ends))
    }

    /// The same, of the least and the largest number that `seen` computes.
    fn interval_of(&mut self, seen: impl FnOnce(&Self) -> [f64; 2]) -> Result<[f64; 2], LowerError> {
        let found = self.known(2, |lowering| {
            let [low, high] = seen(lowering);
            let (middle, half) = ((low + high) / 2.0, (high - low) / 2.0 * lowering.options.headroom);
            // a single number has an interval, too
            let half = if half > 0.0 { half } else { middle.abs().max(1.0) * 0.01 };
            Ok(vec![middle - half, middle + half])
        })?;
        Ok([found[0], found[1]])
    }

    /// Numbers that are taken from the given facts, or computed from the pictures.
    fn known(
        &mut self,
        count: usize,
        compute: impl FnOnce(&Self) -> Result<Vec<f64>, LowerError>,
    ) -> Result<Vec<f64>, LowerError> {
        let found = match &mut self.given {
            Some((facts, taken)) => {
                let found = facts.get(*taken..*taken + count).ok_or(LowerError::Facts)?;
                *taken += count;
                found.to_vec()
            }
            None => compute(self)?,
        };
        if !found.iter().all(|x| x.is_finite()) {
            return Err(LowerError::Facts);
        }
        self.facts.extend_from_slice(&found);
        Ok(found)
    }

    /// A tensor of an expression, divided by `range`.
    fn map(&mut self, name: &str, expression: Expression, range: f64) -> usize {
        let volume = expression.volume;
        let scaled = expression.scaled(|_| 1.0 / range, |_| 0.0);
        let step = Step::Map { terms: scaled.terms.into_iter().collect(), bias: scaled.bias };
        self.push(name, step, volume)
    }

    /// The result of a step for a picture's tensors.
    fn applied(&self, step: &Step, tensors: &[Vec<f64>], output: Volume) -> Vec<f64> {
        let inputs = step.inputs();
        let volume = inputs.first().map_or(output, |tensor| self.steps.volume(*tensor));
        let numbers: Vec<&[f64]> = inputs.iter().map(|tensor| &tensors[*tensor][..]).collect();
        step.apply(&numbers, volume, output)
    }

    /// Adds a step, and computes its tensor for all pictures.
    fn push(&mut self, name: &str, step: Step, output: Volume) -> usize {
        let results: Vec<Vec<f64>> = self.pictures.iter().map(|tensors| self.applied(&step, tensors, output)).collect();
        self.pictures.iter_mut().zip(results).for_each(|(tensors, result)| tensors.push(result));
        self.steps.steps.push((name.to_owned(), step, output));
        self.steps.steps.len()
    }

    fn finish(mut self) -> Result<Lowered, LowerError> {
        let last = self.values.pop().ok_or(LowerError::Pictures)?;
        let name = self.graph.nodes().last().map_or("picture", |node| node.name());
        let [low, high] = self.interval(&last)?;
        // a power of two, as cards have it
        let unit = 2f64.powi(low.abs().max(high.abs()).log2().ceil() as i32);
        if self.options.enclaved {
            let volume = last.volume;
            let argument = self.argument(name, last)?;
            let step = Step::Inside { op: Op::Sum { factors: vec![1.0] }, arguments: vec![argument], range: unit };
            self.push(name, step, volume);
            return self.lowered(unit);
        }
        let last = last.scaled(|_| 1.0 / unit, |_| 0.0);
        let all = match self.guard()? {
            Some(guard) => {
                let output = Volume::vector(last.bias.len() + 1);
                let place = |part: &Expression, start: usize| {
                    let count = part.bias.len();
                    let row = |at: usize| match at.checked_sub(start) {
                        Some(at) if at < count => vec![(at as u32, 1.0)],
                        _ => Vec::new(),
                    };
                    let matrix = Matrix::new(count, (0..output.len()).map(row));
                    part.mapped(&matrix, &vec![0.0; output.len()], output)
                };
                let parts = place(&last, 0).zip(place(&guard, output.len() - 1));
                let (logits, guard) = parts.ok_or_else(|| fault(name, "expected fewer logits"))?;
                self.steps.guarded = true;
                logits.plus(&guard)
            }
            None => last,
        };
        self.map(name, all, 1.0);
        self.lowered(unit)
    }

    fn lowered(mut self, unit: f64) -> Result<Lowered, LowerError> {
        self.steps.unit = unit;
        match self.given {
            Some((facts, taken)) if taken != facts.len() => Err(LowerError::Facts),
            _ => Ok(Lowered { steps: self.steps, facts: self.facts }),
        }
    }

    /// The sum of the 16th powers of all numbers that series and gates take: each of these numbers
    /// is at most 1 within its range, and about a half for the pictures. Weighted so that the
    /// pictures' largest sum is a quarter of [`GUARD`] at most, and that one number at the end of
    /// its range reaches `GUARD` where this leaves room.
    fn guard(&mut self) -> Result<Option<Expression>, LowerError> {
        let ranged = std::mem::take(&mut self.ranged);
        self.steps.ranged.clone_from(&ranged);
        let mut guard: Option<Expression> = None;
        for tensor in &ranged {
            let (mut power, volume) = (*tensor, self.steps.volume(*tensor));
            for _ in 0..POWERS {
                power = self.push("guard", Step::Square { input: power }, volume);
            }
            let found = self.known(1, |lowering| {
                let sums = lowering.pictures.iter().map(|tensors| tensors[power].iter().sum::<f64>());
                Ok(vec![sums.fold(0.0, f64::max)])
            })?;
            let most = 0.25 / ranged.len() as f64;
            let weight = GUARD * if found[0] > most { most / found[0] } else { 1.0 };
            let ones = Matrix::new(volume.len(), [(0..volume.len()).map(|at| (at as u32, weight)).collect()]);
            let sum = Expression::of_tensor(volume, power, 1.0).mapped(&ones, &[0.0], Volume::vector(1));
            let sum = sum.ok_or_else(|| fault("guard", "expected smaller layers"))?;
            guard = Some(match guard {
                Some(guard) => guard.plus(&sum),
                None => sum,
            });
        }
        Ok(guard)
    }
}

/// The interval of no number.
const EMPTY: [f64; 2] = [f64::INFINITY, f64::NEG_INFINITY];

/// An interval with another number in it.
fn ends([low, high]: [f64; 2], x: f64) -> [f64; 2] {
    [x.min(low), x.max(high)]
}

/// `a / b` if `a` is a multiple of `b`, and both have a degree of at most 1.
fn ratio(a: &[f64], b: &[f64]) -> Option<f64> {
    if series::degree(a).max(series::degree(b)) > 1 {
        return None;
    }
    let of = |series: &[f64], at: usize| series.get(at).copied().unwrap_or(0.0);
    let at = usize::from(of(b, 1) != 0.0);
    let ratio = of(a, at) / of(b, at);
    let near = |at: usize| (of(a, at) - ratio * of(b, at)).abs() <= 1e-12 * (of(a, at).abs() + of(b, at).abs());
    (ratio.is_finite() && near(0) && near(1)).then_some(ratio)
}

fn fault(node: &str, reason: impl Into<String>) -> LowerError {
    LowerError::Node { node: node.to_owned(), reason: reason.into() }
}
