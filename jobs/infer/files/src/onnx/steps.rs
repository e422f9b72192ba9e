//! The graph under construction: steps, and polynomials in their results.
//!
//! A value of the file is a [`Polynomial`] in the result of a step. Sums and products with
//! constants only change its coefficients. An operator that needs the numbers themselves calls
//! [`Steps::result`], which adds one step for the whole polynomial.
//!
//! Steps that the result does not need disappear at the end, for example the two halves of an
//! activation that was recognised as a whole.

use super::import::Fault;
use super::tensor;
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use tobari_infer::model::{MAX_NUMBERS, MAX_WEIGHTS};
use tobari_infer::{Normalisation, Volume};
use tobari_infer_deep::graph::MAX_NODES;
use tobari_infer_deep::{Activation, Graph, GraphError, Op};

/// The highest degree of a polynomial that is the product of two others. Higher ones lose digits.
const MAX_PRODUCT_DEGREE: usize = 16;

/// The computation of a step.
#[derive(Debug)]
pub(super) enum Work {
    Op(Op),
    /// The error function, which is supported only as a part of a Gaussian error linear unit.
    Erf,
}

#[derive(Debug)]
pub(super) struct Step {
    /// The node of the file that made it.
    pub(super) maker: usize,
    pub(super) work: Work,
    pub(super) inputs: Vec<usize>,
    pub(super) output: Volume,
    /// Differs between steps, even if one takes the place of another.
    stamp: u64,
}

/// `Σ c_k x^k` in the value `x` of the steps. Each `c_k` is one number, one for each channel of
/// `x`, or one for each number.
#[derive(Debug)]
pub(super) struct Polynomial {
    /// The value: 0 for the picture, `k + 1` for the result of step `k`.
    pub(super) base: usize,
    pub(super) coefficients: Vec<Vec<f64>>,
    /// The node of the file that made it.
    maker: usize,
    /// The value of the polynomial itself and the stamp of its step, if there is one.
    result: Cell<Option<(usize, u64)>>,
}

impl Polynomial {
    pub(super) fn degree(&self) -> usize {
        let zero = |numbers: &Vec<f64>| numbers.iter().all(|x| *x == 0.0);
        self.coefficients.iter().rposition(|numbers| !zero(numbers)).unwrap_or(0)
    }

    /// The factor, if the polynomial is one number times its base.
    pub(super) fn factor(&self) -> Option<f64> {
        match &self.coefficients[..] {
            [constant, linear] if constant.iter().all(|x| *x == 0.0) => match linear[..] {
                [factor] => Some(factor),
                _ => None,
            },
            _ => None,
        }
    }
}

pub(super) struct Steps {
    input: Volume,
    pub(super) all: Vec<Step>,
    /// The arguments of activations, by the value of the activation.
    pub(super) arguments: HashMap<usize, Rc<Polynomial>>,
    reshaped: HashMap<(usize, Volume), usize>,
    /// The count of numbers that may still be made: coefficients, weights and places.
    room: usize,
    /// The node of the file at work.
    pub(super) maker: usize,
    stamps: u64,
}

impl Steps {
    pub(super) fn new(input: Volume, room: usize) -> Self {
        let (arguments, reshaped) = (HashMap::new(), HashMap::new());
        Self { input, all: Vec::new(), arguments, reshaped, room, maker: 0, stamps: 0 }
    }

    /// Counts numbers before they are made.
    pub(super) fn take(&mut self, count: usize) -> Result<(), Fault> {
        let short = "more numbers than a file of this size may lead to: expected a smaller picture or fewer nodes";
        self.room = self.room.checked_sub(count).ok_or(short)?;
        Ok(())
    }

    pub(super) fn volume(&self, value: usize) -> Volume {
        value.checked_sub(1).map_or(self.input, |step| self.all[step].output)
    }

    /// The computation of a value.
    pub(super) fn op(&self, value: usize) -> Option<&Op> {
        match &self.all.get(value.checked_sub(1)?)?.work {
            Work::Op(op) => Some(op),
            Work::Erf => None,
        }
    }

    pub(super) fn push(&mut self, work: Work, inputs: Vec<usize>, output: Volume) -> Result<usize, Fault> {
        let count = tensor::count(&[output.channels, output.height, output.width], MAX_NUMBERS);
        if count.is_none_or(|count| count == 0) {
            return Err("a result without numbers, or of more than 2^20".to_owned());
        }
        if self.all.len() >= 4 * MAX_NODES {
            return Err(format!("more than {MAX_NODES} nodes after the conversion"));
        }
        if let Work::Op(op) = &work {
            let (weights, finite) = numbers_of(op);
            if weights > MAX_WEIGHTS {
                return Err("more than 2^24 weights".to_owned());
            }
            if !finite {
                return Err("a constant that is infinite or no number".to_owned());
            }
        }
        self.stamps += 1;
        self.all.push(Step { maker: self.maker, work, inputs, output, stamp: self.stamps });
        Ok(self.all.len())
    }

    /// Removes the steps after the first ones. No value that is still used may depend on them.
    pub(super) fn forget(&mut self, count: usize) {
        if self.all.len() == count {
            return;
        }
        self.all.truncate(count);
        self.arguments.retain(|value, _| *value <= count);
        self.reshaped.retain(|_, value| *value <= count);
    }

    pub(super) fn add(&mut self, op: Op, inputs: &[usize], output: Volume) -> Result<usize, Fault> {
        self.push(Work::Op(op), inputs.to_vec(), output)
    }

    pub(super) fn identity(&self, base: usize) -> Rc<Polynomial> {
        self.polynomial(base, vec![vec![0.0], vec![1.0]])
    }

    /// A polynomial without coefficients of 0 at its end.
    pub(super) fn polynomial(&self, base: usize, coefficients: Vec<Vec<f64>>) -> Rc<Polynomial> {
        let mut made = Polynomial { base, coefficients, maker: self.maker, result: Cell::new(None) };
        made.coefficients.truncate(made.degree().max(1) + 1);
        if made.coefficients.len() == 1 {
            made.coefficients.push(vec![0.0]);
        }
        let one = |numbers: &[f64], number| numbers.iter().all(|x| *x == number);
        if let [constant, linear] = &made.coefficients[..]
            && one(constant, 0.0)
            && one(linear, 1.0)
        {
            made.result = Cell::new(Some((base, self.stamp(base))));
            made.coefficients = vec![vec![0.0], vec![1.0]];
        }
        Rc::new(made)
    }

    fn stamp(&self, value: usize) -> u64 {
        value.checked_sub(1).map_or(0, |step| self.all[step].stamp)
    }

    /// The value of a polynomial, if a step computes it.
    fn known(&self, x: &Polynomial) -> Option<usize> {
        let (value, stamp) = x.result.get()?;
        (value <= self.all.len() && self.stamp(value) == stamp).then_some(value)
    }

    /// The value of a polynomial: its base if they are equal, and otherwise a step, added once.
    pub(super) fn result(&mut self, x: &Polynomial) -> Result<usize, Fault> {
        if let Some(value) = self.known(x) {
            return Ok(value);
        }
        let volume = self.volume(x.base);
        let count = x.coefficients.iter().map(Vec::len).max().unwrap_or(1);
        self.take(count.saturating_mul(x.coefficients.len()))?;
        let mut coefficients: Vec<Vec<f64>> =
            x.coefficients.iter().map(|numbers| spread(numbers, count, volume)).collect();
        let op = match &mut coefficients[..] {
            [shift, scale] => Op::Affine { scale: std::mem::take(scale), shift: std::mem::take(shift) },
            _ => Op::Polynomial { coefficients },
        };
        let maker = std::mem::replace(&mut self.maker, x.maker);
        let value = self.add(op, &[x.base], volume);
        self.maker = maker;
        let value = value?;
        x.result.set(Some((value, self.stamp(value))));
        Ok(value)
    }

    /// A value with the same numbers in another shape.
    pub(super) fn shaped(&mut self, value: usize, output: Volume) -> Result<usize, Fault> {
        // a shape of a shape is the shape alone
        let value = match value.checked_sub(1).map(|step| &self.all[step]) {
            Some(Step { work: Work::Op(Op::Reshape { .. }), inputs, .. }) if self.volume(value) != output => inputs[0],
            _ => value,
        };
        if self.volume(value) == output {
            return Ok(value);
        }
        if let Some(found) = self.reshaped.get(&(value, output)) {
            return Ok(*found);
        }
        let found = self.add(Op::Reshape { output }, &[value], output)?;
        self.reshaped.insert((value, output), found);
        Ok(found)
    }

    /// An activation of a polynomial.
    pub(super) fn activation(&mut self, x: &Rc<Polynomial>, activation: Activation) -> Result<Rc<Polynomial>, Fault> {
        let argument = self.result(x)?;
        let value = self.add(Op::Activation(activation), &[argument], self.volume(argument))?;
        self.arguments.insert(value, Rc::clone(x));
        Ok(self.identity(value))
    }

    pub(super) fn erf(&mut self, x: &Rc<Polynomial>) -> Result<Rc<Polynomial>, Fault> {
        // the step has the base as its input, and its argument is only kept
        let value = self.push(Work::Erf, vec![x.base], self.volume(x.base))?;
        self.arguments.insert(value, Rc::clone(x));
        Ok(self.identity(value))
    }

    /// `factor x`
    pub(super) fn scaled(&mut self, x: &Rc<Polynomial>, factor: f64) -> Result<Rc<Polynomial>, Fault> {
        if factor == 1.0 {
            return Ok(Rc::clone(x));
        }
        self.mapped(x, |_, c| c * factor)
    }

    fn mapped(&mut self, x: &Rc<Polynomial>, f: impl Fn(usize, f64) -> f64) -> Result<Rc<Polynomial>, Fault> {
        self.take(x.coefficients.iter().map(Vec::len).sum())?;
        let map = |(power, numbers): (usize, &Vec<f64>)| numbers.iter().map(|c| f(power, *c)).collect();
        Ok(self.polynomial(x.base, x.coefficients.iter().enumerate().map(map).collect()))
    }

    /// `x` plus constants: one, one for each channel, or one for each number.
    pub(super) fn shifted(&mut self, x: &Rc<Polynomial>, by: &[f64]) -> Result<Rc<Polynomial>, Fault> {
        let volume = self.volume(x.base);
        self.take(volume.len().min(by.len().max(x.coefficients[0].len()) * volume.channels))?;
        let mut coefficients = x.coefficients.clone();
        coefficients[0] = join(&coefficients[0], by, volume, |a, b| a + b);
        Ok(self.polynomial(x.base, coefficients))
    }

    /// `x` times constants: one, one for each channel, or one for each number.
    pub(super) fn times(&mut self, x: &Rc<Polynomial>, by: &[f64]) -> Result<Rc<Polynomial>, Fault> {
        let volume = self.volume(x.base);
        let longest = x.coefficients.iter().map(Vec::len).max().unwrap_or(1).max(by.len());
        self.take(longest.saturating_mul(x.coefficients.len()))?;
        let coefficients = x.coefficients.iter().map(|numbers| join(numbers, by, volume, |a, b| a * b)).collect();
        Ok(self.polynomial(x.base, coefficients))
    }

    /// `a + sign b` of two values with the same numbers in order.
    pub(super) fn sum(&mut self, a: &Rc<Polynomial>, b: &Rc<Polynomial>, sign: f64) -> Result<Rc<Polynomial>, Fault> {
        if a.base != b.base {
            let (first, factor) = self.factored(a)?;
            let (second, other) = self.factored(b)?;
            let volume = self.volume(first);
            let second = self.shaped(second, volume)?;
            if first == second {
                return Ok(self.polynomial(first, vec![vec![0.0], vec![factor + sign * other]]));
            }
            let value = self.add(Op::Sum { factors: vec![factor, sign * other] }, &[first, second], volume)?;
            return Ok(self.identity(value));
        }
        let volume = self.volume(a.base);
        let powers = a.coefficients.len().max(b.coefficients.len());
        self.take_for(a, b, powers)?;
        let zero = vec![0.0];
        let of = |x: &Polynomial, power: usize| x.coefficients.get(power).unwrap_or(&zero).clone();
        let one = |power| join(&of(a, power), &of(b, power), volume, |a, b| a + sign * b);
        Ok(self.polynomial(a.base, (0..powers).map(one).collect()))
    }

    fn take_for(&mut self, a: &Polynomial, b: &Polynomial, powers: usize) -> Result<(), Fault> {
        let longest = a.coefficients.iter().chain(&b.coefficients).map(Vec::len).max().unwrap_or(1);
        self.take(longest.saturating_mul(powers))
    }

    /// A value and the factor that it still needs.
    pub(super) fn factored(&mut self, x: &Polynomial) -> Result<(usize, f64), Fault> {
        match x.factor() {
            Some(factor) if self.known(x).is_none() => Ok((x.base, factor)),
            _ => Ok((self.result(x)?, 1.0)),
        }
    }

    /// The product of two values with the same numbers in order.
    pub(super) fn product(&mut self, a: &Rc<Polynomial>, b: &Rc<Polynomial>) -> Result<Rc<Polynomial>, Fault> {
        let degree = a.degree() + b.degree();
        if a.base == b.base && degree <= MAX_PRODUCT_DEGREE {
            let volume = self.volume(a.base);
            self.take_for(a, b, (a.degree() + 1) * (b.degree() + 1))?;
            let mut coefficients = vec![vec![0.0]; degree + 1];
            for (i, x) in a.coefficients.iter().take(a.degree() + 1).enumerate() {
                for (j, y) in b.coefficients.iter().take(b.degree() + 1).enumerate() {
                    let term = join(x, y, volume, |x, y| x * y);
                    coefficients[i + j] = join(&coefficients[i + j], &term, volume, |x, y| x + y);
                }
            }
            return Ok(self.polynomial(a.base, coefficients));
        }
        let ((first, factor), (second, other)) = (self.factored(a)?, self.factored(b)?);
        let volume = self.volume(first);
        let second = self.shaped(second, volume)?;
        if first == second {
            return Ok(self.polynomial(first, vec![vec![0.0], vec![0.0], vec![factor * other]]));
        }
        let value = self.add(Op::Product, &[first, second], volume)?;
        Ok(self.polynomial(value, vec![vec![0.0], vec![factor * other]]))
    }

    /// A choice of the numbers of `x`, in an order. `None` becomes 0.
    ///
    /// Polynomials stay polynomials in the choice of their base, so that a choice of a choice is
    /// one step, and one that undoes the other is none.
    pub(super) fn chosen(
        &mut self,
        x: &Rc<Polynomial>,
        mut places: Vec<Option<u32>>,
        output: Volume,
    ) -> Result<Rc<Polynomial>, Fault> {
        if places.is_empty() || places.len() != output.len() {
            return Err("a result without numbers".to_owned());
        }
        let complete = places.iter().all(Option::is_some);
        let mut base = x.base;
        let mut coefficients: Option<Vec<Vec<f64>>> = None;
        if complete && self.known(x).is_none_or(|value| value == x.base) {
            let volume = self.volume(base);
            self.take(x.coefficients.iter().map(|numbers| if numbers.len() == 1 { 1 } else { places.len() }).sum())?;
            let choose = |numbers: &Vec<f64>| {
                if numbers.len() == 1 {
                    return numbers.clone();
                }
                let area = if numbers.len() == volume.len() { 1 } else { volume.height * volume.width };
                let found = places.iter().flatten().map(|place| numbers[*place as usize / area]).collect();
                shortened(found, output)
            };
            coefficients = Some(x.coefficients.iter().map(choose).collect());
        } else {
            base = self.result(x)?;
        }
        while let Some((earlier, input)) = self.choice(base) {
            if let Some(earlier) = earlier {
                places = places.into_iter().map(|place| place.and_then(|place| earlier[place as usize])).collect();
            }
            base = input;
        }
        let unchanged = places.len() == self.volume(base).len()
            && places.iter().enumerate().all(|(at, place)| *place == Some(at as u32));
        let coefficients: Vec<Vec<f64>> = coefficients.unwrap_or_else(|| vec![vec![0.0], vec![1.0]]);
        if unchanged && base == x.base {
            return Ok(Rc::clone(x));
        }
        let value = if !unchanged {
            self.add(Op::Gather { output, places }, &[base], output)?
        } else if coefficients.iter().all(|numbers| numbers.len() == 1) {
            base
        } else {
            self.shaped(base, output)?
        };
        Ok(self.polynomial(value, coefficients))
    }

    /// The places of a choice, and its input; no places for another shape.
    pub(super) fn choice(&self, value: usize) -> Option<(Option<&Vec<Option<u32>>>, usize)> {
        let input = || self.all[value - 1].inputs[0];
        match self.op(value)? {
            Op::Gather { places, .. } => Some((Some(places), input())),
            Op::Reshape { .. } => Some((None, input())),
            _ => None,
        }
    }

    /// The graph of the steps that a value needs, and the file's node for each of its nodes.
    ///
    /// # Errors
    /// The node that does not fit, with the reason.
    pub(super) fn graph(
        self,
        value: usize,
        normalisation: Normalisation,
        name: impl Fn(usize) -> String,
    ) -> Result<Graph, GraphError> {
        let mut needed = vec![false; self.all.len() + 1];
        needed[value] = true;
        for at in (1..=value).rev().filter(|at| *at > 0) {
            if needed[at] {
                self.all[at - 1].inputs.iter().for_each(|input| needed[*input] = true);
            }
        }
        let mut graph = Graph::new(self.input, normalisation)?;
        let mut numbers = vec![0; self.all.len() + 1];
        for (at, step) in self.all.into_iter().enumerate().filter(|(at, _)| needed[at + 1]) {
            let name = name(step.maker);
            let Work::Op(op) = step.work else {
                let reason = "the error function by itself: expected x (1 + Erf(x/√2))/2, or Gelu".to_owned();
                return Err(GraphError::Node { node: name, reason });
            };
            let inputs: Vec<usize> = step.inputs.iter().map(|input| numbers[*input]).collect();
            numbers[at + 1] = graph.add(&name, op, &inputs)?;
        }
        Ok(graph)
    }
}

/// The count of a step's own numbers, and whether all are finite.
fn numbers_of(op: &Op) -> (usize, bool) {
    let finite = |numbers: &[f64]| numbers.iter().all(|x| x.is_finite());
    match op {
        Op::Convolution { weights, bias, .. } | Op::Dense { weights, bias, .. } => {
            (weights.len(), finite(weights) && finite(bias))
        }
        Op::Affine { scale, shift } => (0, finite(scale) && finite(shift)),
        Op::Polynomial { coefficients } => (0, coefficients.iter().all(|numbers| finite(numbers))),
        Op::Sum { factors } => (0, finite(factors)),
        _ => (0, true),
    }
}

/// Combines coefficients number by number, with the fewest numbers that both allow.
fn join(a: &[f64], b: &[f64], volume: Volume, f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    if a.len() == 1 || b.len() == 1 || a.len() == b.len() {
        let at = |all: &[f64], place: usize| if all.len() == 1 { all[0] } else { all[place] };
        return (0..a.len().max(b.len())).map(|place| f(at(a, place), at(b, place))).collect();
    }
    let area = volume.height * volume.width;
    let at = |all: &[f64], place: usize| if all.len() == volume.len() { all[place] } else { all[place / area] };
    (0..volume.len()).map(|place| f(at(a, place), at(b, place))).collect()
}

/// Repeats numbers up to a count: one, one for each channel, or one for each number.
fn spread(numbers: &[f64], count: usize, volume: Volume) -> Vec<f64> {
    if numbers.len() == count {
        return numbers.to_vec();
    }
    let area = if numbers.len() == 1 { usize::MAX } else { volume.height * volume.width };
    (0..count).map(|at| numbers[at / area]).collect()
}

/// The fewest numbers that say the same: one, one for each channel, or one for each number.
pub(super) fn shortened(mut numbers: Vec<f64>, volume: Volume) -> Vec<f64> {
    if numbers.len() != volume.len() {
        return numbers;
    }
    let area = volume.height * volume.width;
    if numbers.chunks_exact(area).all(|channel| channel.iter().all(|x| *x == channel[0])) {
        numbers = numbers.into_iter().step_by(area).collect();
    }
    if numbers.len() > 1 && numbers.iter().all(|x| *x == numbers[0]) {
        numbers.truncate(1);
    }
    numbers
}
