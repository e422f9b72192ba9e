//! A network as steps on tensors, each of which one or a few ciphertexts hold.
//!
//! ```text
//! map      y = Σ_k M_k x_k + b        one level
//! pool     y = sums of windows of x   no level: rotations and sums
//! square   y = x²                     one level
//! series   y = Σ_k c_k T_k(x + h)     as many levels as the degree has bits
//! product  y = x_1 x_2                one level
//! refresh  y = x                      back to the level after a refresh
//! sum      y = Σ x_k + Σ f_j x_j + b  no level for x_k, one for each x_j
//! inside   y = f(Σ x_k + b, …)        in an enclave, on plain numbers (crate::enclaved)
//! ```
//!
//! Tensor 0 is the picture, pixels over 256; tensor `k + 1` is the result of step `k`. **Stored
//! numbers are at most 1**, up to the headroom that the calibration left: every tensor is a value
//! of the network times a factor, and the factors are in the maps.

use crate::approximate::series;
use crate::forward;
use crate::graph::Op;
use crate::matrix::Matrix;
use std::collections::BTreeSet;
use std::sync::Arc;
use tobari_infer::Volume;

/// A factor of a tensor in a map.
#[derive(Clone, Debug, PartialEq)]
pub enum Factor {
    /// The same number for each entry.
    Scalar(f64),
    /// A matrix.
    Matrix(Arc<Matrix>),
}

/// An argument of a step inside an enclave, `Σ_k M_k x_k + b`.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// The shape of the sum.
    pub volume: Volume,
    /// Tensors and their factors.
    pub terms: Vec<(usize, Factor)>,
    /// One offset for each number.
    pub bias: Vec<f64>,
}

/// The computation of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// `Σ_k M_k x_k + b`
    Map {
        /// Tensors and their factors, each tensor once.
        terms: Vec<(usize, Factor)>,
        /// One offset for each number.
        bias: Vec<f64>,
    },
    /// Sums of windows next to each other, channel by channel.
    Pool {
        /// The tensor.
        input: usize,
        /// Rows and columns of a window, powers of two.
        window: [usize; 2],
    },
    /// `x²`
    Square {
        /// The tensor.
        input: usize,
    },
    /// `Σ_k c_k T_k(x + h)`, a sum of Chebyshev polynomials.
    Series {
        /// The tensor.
        input: usize,
        /// `h`; the numbers `x + h` are at most 1.
        shift: f64,
        /// By degree.
        coefficients: Vec<f64>,
    },
    /// `Σ x_k + Σ f_j x_j + b`, number by number.
    Sum {
        /// Tensors of one scale, the `x_k`; at least one.
        plain: Vec<usize>,
        /// The `x_j` and their factors.
        scaled: Vec<(usize, f64)>,
        /// `b`
        offset: f64,
    },
    /// `x_1 x_2`, number by number.
    Product {
        /// The tensors.
        inputs: [usize; 2],
    },
    /// `x`, at a high level again: a [refresh](tobari_lattice::refresh).
    Refresh {
        /// The tensor.
        input: usize,
        /// The level that a refresh begins with.
        least: usize,
    },
    /// A node of the graph, computed inside an enclave.
    Inside {
        /// The computation.
        op: Op,
        /// One for each input of the node.
        arguments: Vec<Argument>,
        /// The node's result is divided by this.
        range: f64,
    },
}

impl Step {
    /// The kind in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Map { .. } => "map",
            Self::Pool { .. } => "pool",
            Self::Square { .. } => "square",
            Self::Series { .. } => "series",
            Self::Product { .. } => "product",
            Self::Sum { .. } => "sum",
            Self::Refresh { .. } => "refresh",
            Self::Inside { .. } => "inside",
        }
    }

    /// The tensors that it takes.
    pub fn inputs(&self) -> Vec<usize> {
        match self {
            Self::Map { terms, .. } => terms.iter().map(|(tensor, _)| *tensor).collect(),
            Self::Pool { input, .. }
            | Self::Square { input }
            | Self::Series { input, .. }
            | Self::Refresh { input, .. } => vec![*input],
            Self::Product { inputs } => inputs.to_vec(),
            Self::Sum { plain, scaled, .. } => plain.iter().copied().chain(scaled.iter().map(|(x, _)| *x)).collect(),
            Self::Inside { arguments, .. } => {
                arguments.iter().flat_map(|argument| &argument.terms).map(|(tensor, _)| *tensor).collect()
            }
        }
    }

    /// The levels that it takes, for each input. A refresh takes none: it begins at a level of its
    /// own ([`Self::needs`]).
    pub fn depths(&self) -> Vec<usize> {
        let depth = match self {
            Self::Pool { .. } | Self::Refresh { .. } | Self::Inside { .. } => 0,
            Self::Map { .. } | Self::Square { .. } | Self::Product { .. } => 1,
            Self::Series { coefficients, .. } => series::levels(series::degree(coefficients)),
            Self::Sum { plain, scaled, .. } => {
                return [vec![0; plain.len()], vec![1; scaled.len()]].concat();
            }
        };
        vec![depth; self.inputs().len()]
    }

    /// The least levels of its inputs for a result at this level.
    pub fn needs(&self, level: usize) -> Vec<usize> {
        match self {
            Self::Refresh { least, .. } => vec![*least],
            Self::Inside { .. } => vec![1; self.inputs().len()],
            _ => self.depths().into_iter().map(|depth| level + depth).collect(),
        }
    }

    /// The same step with other numbers for its tensors.
    #[must_use]
    pub fn renumbered(&self, number: impl Fn(usize) -> usize) -> Self {
        let mut step = self.clone();
        match &mut step {
            Self::Map { terms, .. } => terms.iter_mut().for_each(|(tensor, _)| *tensor = number(*tensor)),
            Self::Pool { input, .. }
            | Self::Square { input }
            | Self::Series { input, .. }
            | Self::Refresh { input, .. } => *input = number(*input),
            Self::Product { inputs } => inputs.iter_mut().for_each(|tensor| *tensor = number(*tensor)),
            Self::Sum { plain, scaled, .. } => {
                plain.iter_mut().for_each(|tensor| *tensor = number(*tensor));
                scaled.iter_mut().for_each(|(tensor, _)| *tensor = number(*tensor));
            }
            Self::Inside { arguments, .. } => {
                let terms = arguments.iter_mut().flat_map(|argument| &mut argument.terms);
                terms.for_each(|(tensor, _)| *tensor = number(*tensor));
            }
        }
        step
    }

    /// The result for numbers without encryption.
    ///
    /// # Panics
    /// If there are fewer numbers than the step takes.
    pub fn apply(&self, inputs: &[&[f64]], volume: Volume, output: Volume) -> Vec<f64> {
        match self {
            Self::Map { terms, bias } => {
                let mut sum = bias.clone();
                for ((_, factor), x) in terms.iter().zip(inputs) {
                    factor.add_to(&mut sum, x);
                }
                sum
            }
            Self::Pool { window, .. } => {
                let mut sums = vec![0.0; output.len()];
                for channel in 0..output.channels {
                    for row in 0..output.height * window[0] {
                        for column in 0..output.width * window[1] {
                            let to = output.index(channel, row / window[0], column / window[1]);
                            sums[to] += inputs[0][volume.index(channel, row, column)];
                        }
                    }
                }
                sums
            }
            Self::Square { .. } => inputs[0].iter().map(|x| x * x).collect(),
            Self::Series { shift, coefficients, .. } => {
                inputs[0].iter().map(|x| series::value(coefficients, x + shift)).collect()
            }
            Self::Sum { plain, scaled, offset } => {
                let factors = plain.iter().map(|_| 1.0).chain(scaled.iter().map(|(_, factor)| *factor));
                let factors: Vec<f64> = factors.collect();
                let sum = |at: usize| factors.iter().zip(inputs).map(|(factor, x)| factor * x[at]).sum::<f64>();
                (0..output.len()).map(|at| sum(at) + offset).collect()
            }
            Self::Product { .. } => inputs[0].iter().zip(inputs[1]).map(|(a, b)| a * b).collect(),
            Self::Refresh { .. } => inputs[0].to_vec(),
            Self::Inside { op, arguments, range } => {
                let mut inputs = inputs.iter();
                let arguments = arguments.iter().map(|argument| (argument.value(inputs.by_ref()), argument.volume));
                let arguments: Vec<(Vec<f64>, Volume)> = arguments.collect();
                let arguments: Vec<(&[f64], Volume)> = arguments.iter().map(|(x, volume)| (&x[..], *volume)).collect();
                forward::node(op, &arguments, output).into_iter().map(|x| x / range).collect()
            }
        }
    }
}

impl Argument {
    /// The sum, for the numbers of its terms' tensors in order.
    pub fn value<'a>(&self, numbers: impl Iterator<Item = &'a &'a [f64]>) -> Vec<f64> {
        let mut sum = self.bias.clone();
        self.terms.iter().zip(numbers).for_each(|((_, factor), x)| factor.add_to(&mut sum, x));
        sum
    }
}

impl Factor {
    /// Adds the product with `x`.
    pub fn add_to(&self, sum: &mut [f64], x: &[f64]) {
        match self {
            Self::Scalar(factor) => sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += factor * x),
            Self::Matrix(matrix) => {
                for (row, sum) in sum.iter_mut().enumerate() {
                    *sum += matrix.row(row).map(|(place, weight)| weight * x[place]).sum::<f64>();
                }
            }
        }
    }
}

/// The steps of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    /// The shape of tensor 0.
    pub input: Volume,
    /// Each step, its name, and the shape of its result.
    pub steps: Vec<(String, Step, Volume)>,
    /// The logits are the last tensor's numbers times this.
    pub unit: f64,
    /// Whether the last number of the last tensor is the guard, and no logit.
    pub guarded: bool,
    /// The tensors of which the guard tells whether a number exceeds 1.
    pub ranged: Vec<usize>,
}

/// What the process does between two visits of the enclave, and a visit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Maps of the process before the visit.
    pub maps: Vec<usize>,
    /// The tensors that it passes in: the maps' results.
    pub sent: Vec<usize>,
    /// Steps inside.
    pub inside: Vec<usize>,
    /// The tensors that come out, encrypted.
    pub returned: Vec<usize>,
}

impl Steps {
    /// Whether some steps run inside an enclave. Then all others are maps.
    pub fn are_enclaved(&self) -> bool {
        self.steps.iter().any(|(_, step, _)| matches!(step, Step::Inside { .. }))
    }

    /// The rounds of steps of which some run inside an enclave: as many maps as possible, then as
    /// many steps inside as possible, and so on. The first round has no map, because the picture is
    /// inside.
    pub fn rounds(&self) -> Vec<Round> {
        let is_map = |step: usize| matches!(self.steps[step].1, Step::Map { .. });
        let taken: BTreeSet<usize> =
            (0..self.steps.len()).filter(|step| is_map(*step)).flat_map(|step| self.steps[step].1.inputs()).collect();
        let (mut left, mut rounds): (Vec<usize>, _) = ((0..self.steps.len()).collect(), Vec::new());
        let (mut inside, mut outside) = (BTreeSet::from([0]), BTreeSet::new());
        while !left.is_empty() {
            let before = left.len();
            let has =
                |known: &BTreeSet<usize>, step: usize| self.steps[step].1.inputs().iter().all(|x| known.contains(x));
            let mut round = Round::default();
            round.maps.extend(left.iter().copied().filter(|step| is_map(*step) && has(&outside, *step)));
            left.retain(|step| !round.maps.contains(step));
            round.sent.extend(round.maps.iter().map(|step| step + 1));
            inside.extend(round.sent.iter().copied());
            // steps stand behind those that they take
            for step in std::mem::take(&mut left) {
                if !is_map(step) && has(&inside, step) {
                    inside.insert(step + 1);
                    round.inside.push(step);
                } else {
                    left.push(step);
                }
            }
            let first = rounds.is_empty().then_some(0);
            let found = first.into_iter().chain(round.inside.iter().map(|step| step + 1));
            round.returned.extend(found.filter(|tensor| taken.contains(tensor)));
            outside.extend(round.returned.iter().copied());
            rounds.push(round);
            // a first round may have no step; a later one without any would go on for ever
            if rounds.len() > 1 && left.len() == before {
                break;
            }
        }
        rounds
    }

    /// The shape of a tensor.
    ///
    /// # Panics
    /// If there is no such tensor.
    pub fn volume(&self, tensor: usize) -> Volume {
        match tensor.checked_sub(1) {
            None => self.input,
            Some(step) => self.steps[step].2,
        }
    }

    /// All tensors for a picture, without encryption and without errors.
    pub fn tensors(&self, picture: &[f64]) -> Vec<Vec<f64>> {
        let mut tensors = vec![picture.to_vec()];
        for (_, step, output) in &self.steps {
            let inputs = step.inputs();
            let volume = self.volume(inputs[0]);
            let numbers: Vec<&[f64]> = inputs.iter().map(|tensor| &tensors[*tensor][..]).collect();
            let result = step.apply(&numbers, volume, *output);
            tensors.push(result);
        }
        tensors
    }

    /// Splits the last tensor's numbers into logits, and the guard, which is 0 without one.
    pub fn logits(&self, mut numbers: Vec<f64>) -> (Vec<f64>, f64) {
        let guard = if self.guarded { numbers.pop().unwrap_or(0.0) } else { 0.0 };
        numbers.iter_mut().for_each(|number| *number *= self.unit);
        (numbers, guard)
    }

    /// The levels that the whole takes, without refreshes.
    pub fn depth(&self) -> usize {
        let mut depths: Vec<usize> = vec![0];
        for (_, step, _) in &self.steps {
            let ends = step.inputs().into_iter().zip(step.depths()).map(|(tensor, depth)| depths[tensor] + depth);
            depths.push(ends.max().unwrap_or(0));
        }
        depths.last().copied().unwrap_or(0)
    }
}
