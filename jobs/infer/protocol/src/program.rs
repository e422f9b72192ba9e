//! A stage of a network on any machine: on plaintext, recorded, or under encryption.
//!
//! A stage takes the ciphertexts of [`Linear::takes`] and returns its outputs. Its steps are
//! products with weights by baby and giant steps, a division by the last prime, folds, offsets, and
//! a square. The stage's [`Manner`] selects the steps, so that an enclave can do the rest: decrypt
//! after the division, fold and square unencrypted, and encrypt again.
//!
//! Diagonals that form a grid are one step ([`Op::Transform`]), hoisted twice. Elsewhere, and with
//! encrypted weights, each rotation is a step. **Giant steps follow Horner's rule**: the sum is
//! rotated by the difference to the next giant step, so that one key serves all of them.
//!
//! Weights are plain or encrypted. With encrypted weights the products of a giant step are summed
//! in three parts and relinearised once.

use super::layout::{Giant, Grid, Linear, Term};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use tobari_plan::engine::Machine;
use tobari_plan::program::Op;

/// An input of a stage's program. A level is the number of data primes minus one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Input {
    /// A ciphertext of a stage's input.
    Value {
        /// The stage.
        stage: usize,
        /// The ciphertext's number.
        index: usize,
    },
    /// The weight of a term.
    Weight {
        /// The stage.
        stage: usize,
        /// The output ciphertext.
        output: usize,
        /// The giant step's number.
        giant: usize,
        /// The number of the term in it.
        term: usize,
    },
    /// A weight of 0, where a stage's grid has no diagonal.
    Zero {
        /// The stage.
        stage: usize,
    },
    /// The offset of an output.
    Offset {
        /// The stage.
        stage: usize,
        /// The output ciphertext.
        output: usize,
    },
    /// The key of a rotation.
    Rotation {
        /// The number of slots.
        steps: i64,
        /// The highest level of use.
        level: u16,
    },
    /// The key of products.
    Relinearization {
        /// The highest level of use.
        level: u16,
    },
    /// The key of conjugations.
    Conjugation {
        /// The highest level of use.
        level: u16,
    },
    /// The pair of keys that raises a ciphertext in a refresh.
    Raise {
        /// The highest level of use.
        level: u16,
    },
}

/// The steps that a stage's program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Manner {
    /// Data primes of the inputs.
    pub primes: usize,
    /// Whether the products are divided by the last of them.
    pub divide: bool,
    /// Whether the sums are folded and the offsets added.
    pub fold: bool,
    /// Whether the results are squared, and divided by another prime.
    pub square: bool,
    /// Whether weights and offsets are encrypted.
    pub encrypted: bool,
}

impl Manner {
    /// The level of the inputs.
    pub fn level(&self) -> u16 {
        self.primes.saturating_sub(1) as u16
    }

    /// Data primes of the sums.
    pub fn sums(&self) -> usize {
        self.primes - usize::from(self.divide)
    }

    /// Data primes of the results.
    pub fn results(&self) -> usize {
        self.sums() - usize::from(self.square)
    }
}

/// The parts of a stage's program.
pub struct Stage<'a> {
    /// The stage's number.
    pub number: usize,
    /// The map.
    pub linear: &'a Linear,
    /// The steps that the program does.
    pub manner: Manner,
}

type Fetch<'f, V, E> = &'f mut dyn FnMut(Input) -> Result<V, E>;

impl Stage<'_> {
    /// Runs the stage on the ciphertexts of its input.
    ///
    /// # Errors
    /// Those of the machine and of `fetch`.
    pub fn run<M: Machine, E: From<M::Error>>(
        &self,
        machine: &mut M,
        values: &[M::Value],
        fetch: Fetch<'_, M::Value, E>,
    ) -> Result<Vec<M::Value>, E> {
        let grid = self.grid();
        let turned = if grid.is_some() { BTreeMap::new() } else { self.turned(machine, values, fetch)? };
        let mut results = Vec::with_capacity(self.linear.outputs.len());
        for output in 0..self.linear.outputs.len() {
            let mut sum = match grid {
                Some(grid) => self.transform(machine, grid, values, fetch)?,
                None => self.sum(machine, output, &turned, fetch)?,
            };
            if self.manner.divide {
                sum = machine.step(Op::Rescale, &[&sum])?;
            }
            if self.manner.fold {
                let level = self.manner.sums().saturating_sub(1) as u16;
                for steps in &self.linear.folds {
                    let key = fetch(Input::Rotation { steps: *steps, level })?;
                    let other = machine.rotate(&sum, *steps, &key)?;
                    sum = machine.add(&sum, &other)?;
                }
                let offset = fetch(Input::Offset { stage: self.number, output })?;
                sum = machine.add(&sum, &offset)?;
            }
            if self.manner.square {
                let level = self.manner.sums().saturating_sub(1) as u16;
                let key = fetch(Input::Relinearization { level })?;
                sum = machine.mul(&sum, &sum, &key)?;
            }
            results.push(sum);
        }
        Ok(results)
    }

    /// The grid of the diagonals, if products are done in one step: weights are plaintext, and
    /// there is one output.
    pub fn grid(&self) -> Option<Grid> {
        if self.manner.encrypted { None } else { self.linear.grid() }
    }

    fn transform<M: Machine, E: From<M::Error>>(
        &self,
        machine: &mut M,
        grid: Grid,
        values: &[M::Value],
        fetch: Fetch<'_, M::Value, E>,
    ) -> Result<M::Value, E> {
        let (giants, level) = (&self.linear.outputs[0].giants, self.manner.level());
        let mut weights = Vec::new();
        for g in 0..grid.giants {
            let place = giants.iter().position(|giant| giant.steps == i64::from(g) * grid.giant);
            for input in 0..values.len() {
                for b in 0..grid.babies {
                    let is_it = |term: &Term| term.input == input && term.baby == i64::from(b) * grid.baby;
                    let found = place.and_then(|giant| Some((giant, giants[giant].terms.iter().position(is_it)?)));
                    weights.push(fetch(match found {
                        Some((giant, term)) => Input::Weight { stage: self.number, output: 0, giant, term },
                        None => Input::Zero { stage: self.number },
                    })?);
                }
            }
        }
        let babies = (1..grid.babies).map(|b| i64::from(b) * grid.baby);
        let steps = babies.chain((grid.giants > 1).then_some(grid.giant));
        let keys = steps.map(|steps| fetch(Input::Rotation { steps, level })).collect::<Result<Vec<_>, E>>()?;
        let args: Vec<&M::Value> = values.iter().chain(&weights).chain(&keys).collect();
        let Grid { baby, babies, giant, giants } = grid;
        Ok(machine.step(Op::Transform { baby, babies, giant, giants }, &args)?)
    }

    /// All baby steps of all inputs.
    fn turned<M: Machine, E: From<M::Error>>(
        &self,
        machine: &mut M,
        values: &[M::Value],
        fetch: Fetch<'_, M::Value, E>,
    ) -> Result<BTreeMap<(usize, i64), M::Value>, E> {
        let (level, mut turned) = (self.manner.level(), BTreeMap::new());
        for (input, babies) in self.linear.babies() {
            let Some(value) = values.get(input) else { continue };
            let moved: Vec<i64> = babies.iter().copied().filter(|steps| *steps != 0).collect();
            // Hoisting pays off from two rotations on.
            let hoisted = if moved.len() > 1 { Some(machine.step(Op::Hoist, &[value])?) } else { None };
            turned.insert((input, 0), value.clone());
            for steps in moved {
                let key = fetch(Input::Rotation { steps, level })?;
                let value = match &hoisted {
                    Some(hoisted) => machine.step(Op::RotateHoisted(steps), &[hoisted, &key])?,
                    None => machine.rotate(value, steps, &key)?,
                };
                turned.insert((input, steps), value);
            }
        }
        Ok(turned)
    }

    /// The sum over all giant steps of one output, from the farthest to the middle, on both sides.
    fn sum<M: Machine, E: From<M::Error>>(
        &self,
        machine: &mut M,
        output: usize,
        turned: &BTreeMap<(usize, i64), M::Value>,
        fetch: Fetch<'_, M::Value, E>,
    ) -> Result<M::Value, E> {
        let giants = &self.linear.outputs[output].giants;
        let mut middle: Option<M::Value> = None;
        let places = |wanted: fn(&i64) -> bool| -> Vec<usize> {
            (0..giants.len()).filter(|place| wanted(&giants[*place].steps)).collect()
        };
        let (low, mut high) = (places(|steps| *steps < 0), places(|steps| *steps > 0));
        high.reverse();
        for side in [low, high] {
            let mut sum: Option<(M::Value, i64)> = None;
            for place in side {
                let (giant, steps) = (&giants[place], giants[place].steps);
                let own = self.dot(machine, (output, place, giant), turned, fetch)?;
                sum = Some(match sum {
                    None => (own, steps),
                    Some((sum, at)) => (self.turn_and_add(machine, &sum, at - steps, &own, fetch)?, steps),
                });
            }
            let Some((sum, at)) = sum else { continue };
            middle = Some(match middle {
                Some(middle) => self.turn_and_add(machine, &sum, at, &middle, fetch)?,
                None => match giants.iter().position(|giant| giant.steps == 0) {
                    Some(place) => {
                        let own = self.dot(machine, (output, place, &giants[place]), turned, fetch)?;
                        self.turn_and_add(machine, &sum, at, &own, fetch)?
                    }
                    None => self.turn(machine, &sum, at, fetch)?,
                },
            });
        }
        match middle {
            Some(sum) => Ok(sum),
            // Every output has at least one giant step, here one of no slots.
            None => self.dot(machine, (output, 0, &giants[0]), turned, fetch),
        }
    }

    fn turn<M: Machine, E: From<M::Error>>(
        &self,
        machine: &mut M,
        value: &M::Value,
        steps: i64,
        fetch: Fetch<'_, M::Value, E>,
    ) -> Result<M::Value, E> {
        let key = fetch(Input::Rotation { steps, level: self.manner.level() })?;
        Ok(machine.rotate(value, steps, &key)?)
    }

    fn turn_and_add<M: Machine, E: From<M::Error>>(
        &self,
        machine: &mut M,
        value: &M::Value,
        steps: i64,
        other: &M::Value,
        fetch: Fetch<'_, M::Value, E>,
    ) -> Result<M::Value, E> {
        let turned = self.turn(machine, value, steps, fetch)?;
        Ok(machine.add(&turned, other)?)
    }

    /// The products of a giant step.
    fn dot<M: Machine, E: From<M::Error>>(
        &self,
        machine: &mut M,
        (output, place, giant): (usize, usize, &Giant),
        turned: &BTreeMap<(usize, i64), M::Value>,
        fetch: Fetch<'_, M::Value, E>,
    ) -> Result<M::Value, E> {
        let weight = |term: usize| Input::Weight { stage: self.number, output, giant: place, term };
        let weights = (0..giant.terms.len()).map(|term| fetch(weight(term))).collect::<Result<Vec<_>, E>>()?;
        let values = giant.terms.iter().map(|term| &turned[&(term.input, term.baby)]);
        let mut args: Vec<&M::Value> = values.zip(&weights).flat_map(|(value, weight)| [value, weight]).collect();
        let key = self.manner.encrypted.then(|| fetch(Input::Relinearization { level: self.manner.level() }));
        let key = key.transpose()?;
        args.extend(&key);
        Ok(machine.step(Op::Dot, &args)?)
    }

    /// The inputs in order of first use, and the operation counts.
    pub fn trace(&self) -> (Vec<Input>, Counts) {
        let (mut tracer, mut inputs, mut known) = (Tracer::default(), Vec::new(), BTreeSet::new());
        let mut fetch = |input| {
            if known.insert(input) {
                inputs.push(input);
            }
            Ok::<(), Infallible>(())
        };
        for index in 0..self.linear.takes.len() {
            let Ok(()) = fetch(Input::Value { stage: self.number, index });
        }
        let Ok(_) = self.run(&mut tracer, &vec![(); self.linear.takes.len()], &mut fetch);
        let mut counts = tracer.counts;
        if let Some(grid) = self.grid() {
            let (babies, giants) = (usize::from(grid.babies), usize::from(grid.giants));
            counts.hoisted += self.linear.takes.len() * (babies - 1);
            counts.rotations += giants - 1;
            counts.products += self.linear.outputs[0].giants.iter().map(|giant| giant.terms.len()).sum::<usize>();
        }
        (inputs, counts)
    }
}

/// Counts of a stage's operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rotations that share digits (hoisted).
    pub hoisted: usize,
    /// Other rotations.
    pub rotations: usize,
    /// Products with weights.
    pub products: usize,
    /// Relinearisations of sums of products with encrypted weights.
    pub relinearizations: usize,
    /// Squares.
    pub squares: usize,
}

impl Counts {
    /// The sum of two counts.
    pub fn plus(self, other: Self) -> Self {
        Self {
            hoisted: self.hoisted + other.hoisted,
            rotations: self.rotations + other.rotations,
            products: self.products + other.products,
            relinearizations: self.relinearizations + other.relinearizations,
            squares: self.squares + other.squares,
        }
    }
}

/// A machine that counts.
#[derive(Default)]
struct Tracer {
    counts: Counts,
}

impl Machine for Tracer {
    type Value = ();
    type Error = Infallible;

    fn step(&mut self, op: Op, args: &[&()]) -> Result<(), Infallible> {
        match op {
            Op::RotateHoisted(_) => self.counts.hoisted += 1,
            Op::Rotate(_) => self.counts.rotations += 1,
            Op::Mul => self.counts.squares += 1,
            Op::Dot => {
                self.counts.products += args.len() / 2;
                self.counts.relinearizations += args.len() % 2;
            }
            _ => {}
        }
        Ok(())
    }
}
