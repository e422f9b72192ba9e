//! A network's run on any machine: on numbers in slots, or on ciphertexts.
//!
//! [`Circuit::run`] is the only description of a run. [`simulate`](super::simulate) and
//! [`encrypted`](super::encrypted) do the same operations in the same order.

use crate::arrange::{Arrangement, Path};
use crate::layout::{Diagonals, Layout};
use crate::settings::Engine;
use crate::steps::{Step, Steps};
use std::collections::BTreeMap;
use tobari_lattice::ckks::LinearTransform;
use tobari_lattice::params::LatticeParameters;

/// The products of a map from one tensor to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Products {
    /// Weights, repeated with their period.
    pub diagonals: Diagonals,
    /// The steps of the rotations that repeat the input before the products.
    pub spreads: Vec<usize>,
    /// The steps of the rotations that add up partial sums, the largest first.
    pub folds: Vec<usize>,
}

/// One factor of a term of a map.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// A number.
    Scalar(f64),
    /// Diagonals.
    Products(Products),
}

/// The steps of a network with their places: everything but keys and ciphertexts.
#[derive(Clone, Debug, PartialEq)]
pub struct Circuit {
    /// The steps.
    pub steps: Steps,
    /// Layouts and levels.
    pub arrangement: Arrangement,
    /// For each step, the factors of its terms.
    pub parts: Vec<Vec<Part>>,
    /// What goes on between the steps.
    pub engine: Engine,
}

/// The place of diagonals or offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The step.
    pub step: usize,
    /// The term of a map.
    pub term: usize,
    /// The ciphertext of the input.
    pub from: usize,
    /// The ciphertext of the result.
    pub to: usize,
}

/// The operations of a run.
pub trait Machine {
    /// A ciphertext, or what stands for one.
    type Value: Clone;
    /// The machine's errors.
    type Error;

    /// The same numbers at a lower level.
    fn lower(&mut self, a: &Self::Value, level: usize) -> Result<Self::Value, Self::Error>;
    /// Products with the diagonals of a place, summed. The scale is such that a rescaling gives the
    /// scale of the step's tensor.
    fn transform(&mut self, a: &Self::Value, place: Place) -> Result<Self::Value, Self::Error>;
    /// A product with a number, at a scale such that a rescaling gives the scale of a tensor.
    fn times(&mut self, a: &Self::Value, factor: f64, tensor: usize) -> Result<Self::Value, Self::Error>;
    /// `a + b`, for one number in all slots.
    fn add_number(&mut self, a: Self::Value, number: f64) -> Result<Self::Value, Self::Error>;
    /// `a + b`
    fn add(&mut self, a: Self::Value, b: &Self::Value) -> Result<Self::Value, Self::Error>;
    /// A division of the scale by the last prime.
    fn rescale(&mut self, a: &Self::Value) -> Result<Self::Value, Self::Error>;
    /// A rotation.
    fn rotate(&mut self, a: &Self::Value, steps: usize) -> Result<Self::Value, Self::Error>;
    /// The sum with the offsets of a ciphertext of a map's result.
    fn offset(&mut self, a: Self::Value, step: usize, to: usize) -> Result<Self::Value, Self::Error>;
    /// `a b`, rescaled.
    fn multiply(&mut self, a: &Self::Value, b: &Self::Value) -> Result<Self::Value, Self::Error>;
    /// `Σ_k c_k T_k(a)`
    fn series(&mut self, a: &Self::Value, coefficients: &[f64]) -> Result<Self::Value, Self::Error>;
    /// `a` at the level after a refresh.
    fn refresh(&mut self, a: &Self::Value) -> Result<Self::Value, Self::Error>;
    /// A visit of the enclave, by its number among the [rounds](Steps::rounds): the ciphertexts of
    /// all tensors that the round returns, for those of all tensors that it sends.
    fn visit(&mut self, number: usize, sent: Vec<Self::Value>) -> Result<Vec<Self::Value>, Self::Error>;
}

impl Circuit {
    /// The circuit of these steps in this arrangement.
    pub fn new(steps: Steps, arrangement: Arrangement, engine: Engine) -> Self {
        let parts = (0..steps.steps.len()).map(|step| {
            let Step::Map { terms, .. } = &steps.steps[step].1 else { return Vec::new() };
            let output = steps.steps[step].2;
            let part = |(path, (tensor, _)): (&Path, &(usize, _))| match path {
                Path::Scalar(factor) => Part::Scalar(*factor),
                Path::Matrix(matrix, one) => Part::Products(Products {
                    diagonals: one.diagonals(matrix, steps.volume(*tensor), output),
                    spreads: one.spread_steps(),
                    folds: one.fold_steps(),
                }),
            };
            arrangement.paths[step].iter().zip(terms).map(part).collect()
        });
        let parts = parts.collect();
        Self { steps, arrangement, parts, engine }
    }

    /// The layout of a tensor.
    pub fn layout(&self, tensor: usize) -> &Layout {
        &self.arrangement.layouts[tensor]
    }

    /// Data primes of a tensor.
    pub fn level(&self, tensor: usize) -> usize {
        self.arrangement.levels[tensor]
    }

    /// Data primes of the tensor with the most.
    pub fn most_primes(&self) -> usize {
        self.arrangement.levels.iter().copied().max().unwrap_or(0)
    }

    /// Data primes of the arguments of a step; of a sum those of its scaled tensors, if it has
    /// some.
    pub fn argument_level(&self, step: usize) -> usize {
        self.steps.steps[step].1.needs(self.level(step + 1)).into_iter().max().unwrap_or(0)
    }

    /// The offsets of a map's result, slot by slot, for each of its ciphertexts.
    pub fn offsets(&self, step: usize) -> Vec<Vec<f64>> {
        match &self.steps.steps[step] {
            (_, Step::Map { bias, .. }, output) => self.layout(step + 1).fill(bias, *output),
            _ => Vec::new(),
        }
    }

    /// The rotations of spreads, folds and pools, each with the highest level of use.
    pub fn rotations(&self) -> BTreeMap<usize, usize> {
        let mut all: BTreeMap<usize, usize> = BTreeMap::new();
        let mut take = |steps: &[usize], level: usize| {
            for rotation in steps {
                let highest = all.entry(*rotation).or_default();
                *highest = (*highest).max(level);
            }
        };
        for (step, parts) in self.parts.iter().enumerate() {
            for part in parts {
                if let Part::Products(products) = part {
                    take(&products.spreads, self.argument_level(step));
                    take(&products.folds, self.level(step + 1));
                }
            }
            if let Step::Pool { input, window } = &self.steps.steps[step].1 {
                take(&self.layout(*input).pooled(*window).1, self.level(step + 1));
            }
        }
        all
    }

    /// The levels of all keys that a run takes under these parameters, those of rotations first.
    pub fn key_levels(&self, parameters: &LatticeParameters) -> Vec<usize> {
        let folds = self.rotations().into_iter().map(|(steps, level)| (steps as i64, level));
        let mut all: BTreeMap<i64, usize> = folds.collect();
        for (step, parts) in self.parts.iter().enumerate() {
            for part in parts {
                let Part::Products(products) = part else { continue };
                for diagonals in products.diagonals.values() {
                    let steps = diagonals.keys().map(|steps| *steps as i64);
                    for rotation in LinearTransform::rotations_of(parameters, steps) {
                        let highest = all.entry(rotation).or_default();
                        *highest = (*highest).max(self.argument_level(step));
                    }
                }
            }
        }
        all.into_values().chain(self.product_level()).collect()
    }

    /// The highest level of a product of ciphertexts.
    pub fn product_level(&self) -> Option<usize> {
        let steps = self.steps.steps.iter().enumerate();
        let products = steps.filter(|(_, (_, step, _))| {
            matches!(step, Step::Square { .. } | Step::Series { .. } | Step::Product { .. })
        });
        products.map(|(step, _)| self.argument_level(step)).max()
    }

    /// Runs all steps; `progress` hears the number of each step before it begins. The result are
    /// the ciphertexts of the last tensor. With an enclave, `picture` is empty, as is the result:
    /// the picture comes from the enclave, and the logits stay there.
    ///
    /// # Errors
    /// Those of the machine and of `progress`.
    pub fn run<M: Machine>(
        &self,
        machine: &mut M,
        picture: Vec<M::Value>,
        mut progress: impl FnMut(usize) -> Result<(), M::Error>,
    ) -> Result<Vec<M::Value>, M::Error> {
        if self.steps.are_enclaved() {
            return self.visit(machine, progress);
        }
        let mut last_use = vec![0; self.steps.steps.len() + 1];
        for (step, (_, one, _)) in self.steps.steps.iter().enumerate() {
            one.inputs().into_iter().for_each(|tensor| last_use[tensor] = step);
        }
        let mut tensors: Vec<Vec<M::Value>> = vec![picture];
        for step in 0..self.steps.steps.len() {
            progress(step)?;
            let result = self.step(machine, step, &tensors)?;
            tensors.push(result);
            // what no later step takes need not stay in memory
            for tensor in self.steps.steps[step].1.inputs() {
                if last_use[tensor] == step {
                    tensors[tensor].clear();
                }
            }
        }
        Ok(tensors.pop().unwrap_or_default())
    }

    /// Runs all maps, with visits of the enclave between them.
    fn visit<M: Machine>(
        &self,
        machine: &mut M,
        mut progress: impl FnMut(usize) -> Result<(), M::Error>,
    ) -> Result<Vec<M::Value>, M::Error> {
        let mut tensors: Vec<Vec<M::Value>> = vec![Vec::new(); self.steps.steps.len() + 1];
        for (number, round) in self.steps.rounds().iter().enumerate() {
            let mut sent = Vec::new();
            for step in &round.maps {
                progress(*step)?;
                sent.extend(self.step(machine, *step, &tensors)?);
            }
            let mut returned = machine.visit(number, sent)?.into_iter();
            for tensor in &round.returned {
                tensors[*tensor] = returned.by_ref().take(self.layout(*tensor).ciphertexts()).collect();
            }
        }
        Ok(Vec::new())
    }

    fn step<M: Machine>(
        &self,
        machine: &mut M,
        step: usize,
        tensors: &[Vec<M::Value>],
    ) -> Result<Vec<M::Value>, M::Error> {
        let level = self.argument_level(step);
        let mut lowered = |tensor: usize| -> Result<Vec<M::Value>, M::Error> {
            tensors[tensor].iter().map(|value| machine.lower(value, level)).collect()
        };
        match &self.steps.steps[step].1 {
            Step::Map { terms, .. } => {
                let inputs = terms.iter().map(|(tensor, _)| lowered(*tensor)).collect::<Result<Vec<_>, _>>()?;
                self.map(machine, step, &inputs)
            }
            Step::Pool { input, window } => {
                let folds = self.layout(*input).pooled(*window).1;
                lowered(*input)?.into_iter().map(|value| fold(machine, value, &folds)).collect()
            }
            Step::Square { input } => lowered(*input)?.iter().map(|value| machine.multiply(value, value)).collect(),
            Step::Refresh { input, .. } => {
                let (own, values) = (self.level(step + 1), lowered(*input)?);
                let one = |value: M::Value| {
                    let refreshed = machine.refresh(&value)?;
                    machine.lower(&refreshed, own)
                };
                values.into_iter().map(one).collect()
            }
            Step::Series { input, shift, coefficients } => {
                let values = lowered(*input)?;
                let one = |value: M::Value| {
                    let value = if *shift == 0.0 { value } else { machine.add_number(value, *shift)? };
                    machine.series(&value, coefficients)
                };
                values.into_iter().map(one).collect()
            }
            Step::Inside { .. } => Ok(Vec::new()),
            Step::Sum { plain, scaled, offset } => self.sum(machine, step, tensors, (plain, scaled, *offset)),
            Step::Product { inputs: [a, b] } => {
                let (a, b) = (lowered(*a)?, lowered(*b)?);
                a.iter().zip(&b).map(|(a, b)| machine.multiply(a, b)).collect()
            }
        }
    }

    fn sum<M: Machine>(
        &self,
        machine: &mut M,
        step: usize,
        tensors: &[Vec<M::Value>],
        (plain, scaled, offset): (&[usize], &[(usize, f64)], f64),
    ) -> Result<Vec<M::Value>, M::Error> {
        let level = self.level(step + 1);
        let mut results = Vec::with_capacity(self.layout(step + 1).ciphertexts());
        let [anchor, others @ ..] = plain else { return Ok(results) };
        for (to, first) in tensors[*anchor].iter().enumerate() {
            let mut sum = machine.lower(first, level)?;
            for tensor in others {
                let other = machine.lower(&tensors[*tensor][to], level)?;
                sum = machine.add(sum, &other)?;
            }
            for (tensor, factor) in scaled {
                let other = machine.lower(&tensors[*tensor][to], level + 1)?;
                let other = machine.times(&other, *factor, step + 1)?;
                let other = machine.rescale(&other)?;
                sum = machine.add(sum, &other)?;
            }
            results.push(if offset == 0.0 { sum } else { machine.add_number(sum, offset)? });
        }
        Ok(results)
    }

    fn map<M: Machine>(
        &self,
        machine: &mut M,
        step: usize,
        inputs: &[Vec<M::Value>],
    ) -> Result<Vec<M::Value>, M::Error> {
        let count = self.layout(step + 1).ciphertexts();
        let mut results = Vec::with_capacity(count);
        let mut spread = Vec::with_capacity(inputs.len());
        for (part, values) in self.parts[step].iter().zip(inputs) {
            let steps = match part {
                Part::Products(products) => &products.spreads[..],
                Part::Scalar(_) => &[],
            };
            let values = values.iter().map(|value| fold(machine, value.clone(), steps));
            spread.push(values.collect::<Result<Vec<_>, _>>()?);
        }
        let inputs = &spread;
        for to in 0..count {
            // terms with the same folds are added up before they are rescaled
            let mut sums: BTreeMap<&[usize], M::Value> = BTreeMap::new();
            for (term, (part, values)) in self.parts[step].iter().zip(inputs).enumerate() {
                let (folds, products): (&[usize], Vec<M::Value>) = match part {
                    Part::Scalar(factor) => (&[], vec![machine.times(&values[to], *factor, step + 1)?]),
                    Part::Products(products) => {
                        let froms = products.diagonals.keys().filter(|pair| pair.1 == to).map(|pair| pair.0);
                        let one = |from: usize| machine.transform(&values[from], Place { step, term, from, to });
                        (&products.folds, froms.map(one).collect::<Result<_, _>>()?)
                    }
                };
                for product in products {
                    let sum = match sums.remove(folds) {
                        Some(sum) => machine.add(sum, &product)?,
                        None => product,
                    };
                    sums.insert(folds, sum);
                }
            }
            let mut total: Option<M::Value> = None;
            for (folds, sum) in sums {
                let sum = machine.rescale(&sum)?;
                let sum = fold(machine, sum, folds)?;
                total = Some(match total {
                    Some(total) => machine.add(total, &sum)?,
                    None => sum,
                });
            }
            let total = match total {
                Some(total) => total,
                // no number of this ciphertext depends on any input
                None => {
                    let zero = machine.times(&inputs[0][0], 0.0, step + 1)?;
                    machine.rescale(&zero)?
                }
            };
            results.push(machine.offset(total, step, to)?);
        }
        Ok(results)
    }
}

fn fold<M: Machine>(machine: &mut M, mut value: M::Value, steps: &[usize]) -> Result<M::Value, M::Error> {
    for step in steps {
        let turned = machine.rotate(&value, *step)?;
        value = machine.add(value, &turned)?;
    }
    Ok(value)
}
