//! A run on plaintext with the errors that encryption would add, and the foretold error of a
//! logit.
//!
//! The programs of a compiled model's stages run on pairs of vectors: the numbers of the slots, and
//! their errors. Every operation does to the numbers what it does under encryption, passes the
//! errors on, and adds its own ([`Noise`]). Weights have the very rounding of their encoding. So
//! errors meet the weights of the model, in every slot, and what comes out is what an encrypted run
//! shows, up to chance.
//!
//! # The foretold error
//! is five deviations of the logit with the largest one, over [`RUNS`] runs of random images. The
//! numbers before each stage are scaled to the mean square that calibration images had at most
//! ([`Calibration`](super::calibration::Calibration)): an error before a square is multiplied by
//! the number, and an error of a weight by its input. Without such images the numbers count as the
//! largest possible. It is rounded up to three bits, so that a card has one value on all machines.
//!
//! This is a measurement on the model, and no bound for every image: [`report`] has the bound.
//!
//! [`report`]: super::precision::report

use super::compile::{Compiled, Flow};
use super::model::Model;
use super::noise::Noise;
use super::program::Input;
use std::collections::BTreeMap;
use std::sync::Arc;
use tobari_lattice::ckks::{Encoder, Scale};
use tobari_plan::engine::Machine;
use tobari_plan::program::Op;

/// Runs of a forecast.
pub const RUNS: u64 = 8;
/// Deviations of a foretold error.
const DEVIATIONS: f64 = 5.0;

/// A program that is not one of a compiled model's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected steps of a compiled model, found {0}")]
pub struct ForecastError(String);

/// The logits of an image, its pixels from 0 to 1, with errors of encryption from this seed.
///
/// # Errors
/// [`ForecastError`] for an invalid program.
pub fn noisy(compiled: &Compiled, image: &[f64], seed: u64) -> Result<Vec<f64>, ForecastError> {
    let logits = runs(compiled, &[image.to_vec()], &mut Noise::new(compiled.parameters(), seed), |_| None)?;
    Ok(logits.into_iter().flatten().map(|(logit, error)| logit + error).collect())
}

/// The logits of an image, its pixels from 0 to 1, in the layout and without errors: a difference
/// from the plain model is rounding or a fault of the layout.
///
/// # Errors
/// [`ForecastError`] for an invalid program.
pub fn exact(compiled: &Compiled, image: &[f64]) -> Result<Vec<f64>, ForecastError> {
    let logits = runs(compiled, &[image.to_vec()], &mut Noise::new(compiled.parameters(), 0), |_| None)?;
    Ok(logits.into_iter().flatten().map(|(logit, _)| logit).collect())
}

/// The foretold error of a logit, whatever the flow.
///
/// # Errors
/// [`ForecastError`] for another model's compilation.
pub fn logit_error(compiled: &Compiled, model: &Model) -> Result<f64, ForecastError> {
    let power = |stage: usize| model.calibration().and_then(|known| known.powers.get(stage).copied()).unwrap_or(1.0);
    let mut noise = Noise::new(compiled.parameters(), 0);
    // pixels are not negative, so that sums of many grow, in unused slots too
    let size = (3.0 * power(0)).sqrt();
    let mut image = || -> Vec<f64> { (0..compiled.pixels()).map(|_| size * noise.uniform()).collect() };
    let images: Vec<Vec<f64>> = (0..RUNS).map(|_| image()).collect();
    let logits = runs(compiled, &images, &mut noise, |stage| Some(power(stage)))?;
    let mut squares = vec![0.0; compiled.layout().logits().len()];
    for logits in &logits {
        squares.iter_mut().zip(logits).for_each(|(sum, (_, error))| *sum += error * error);
    }
    let largest = squares.iter().fold(0.0, |most: f64, sum| if *sum <= most { most } else { *sum });
    Ok(rounded_up(DEVIATIONS * (largest / RUNS as f64).sqrt()))
}

/// The next number of three bits.
fn rounded_up(error: f64) -> f64 {
    if !(error.is_normal() && error > 0.0) {
        return if error == 0.0 { 0.0 } else { f64::INFINITY };
    }
    let unit = f64::from_bits(error.to_bits() & (0x7ff << 52)) / 4.0;
    (error / unit).ceil() * unit
}

/// Numbers of slots with their errors.
#[derive(Clone, Debug)]
struct Slots {
    numbers: Vec<f64>,
    errors: Vec<f64>,
    scale: Scale,
    primes: usize,
}

/// A value of a program.
#[derive(Clone, Debug)]
enum Value {
    Slots(Arc<Slots>),
    /// A weight or an offset.
    Constant(Arc<Constant>),
    Key,
}

#[derive(Debug)]
struct Constant {
    numbers: Vec<f64>,
    /// What rounding does to the numbers, where it is computed.
    rounding: Option<Vec<f64>>,
    /// The deviation of its encoding or encryption; of the encryption alone where rounding is
    /// computed.
    deviation: f64,
    scale: Scale,
}

/// Logits of images with their errors. `power` has the mean square of the numbers before a stage,
/// if they are scaled to it.
fn runs(
    compiled: &Compiled,
    images: &[Vec<f64>],
    noise: &mut Noise,
    power: impl Fn(usize) -> Option<f64>,
) -> Result<Vec<Vec<(f64, f64)>>, ForecastError> {
    let stages = compiled.layout().stages();
    let encoder = Encoder::new(compiled.parameters()).map_err(|error| ForecastError(error.to_string()))?;
    let encoder = encoder.within(f64::INFINITY);
    let mut all: Vec<Vec<Slots>> = vec![Vec::new(); images.len()];
    for number in 0..compiled.len() {
        let (stage, scales) = (compiled.stage(number), compiled.scales(number));
        let primes = stage.manner.primes;
        let (inputs, _) = stage.trace();
        let made = |input| Some((input, Value::Constant(Arc::new(constant(compiled, &encoder, noise, input)?))));
        // each weight is encoded once for all images
        let constants: BTreeMap<Input, Value> = inputs.into_iter().filter_map(made).collect();
        let mut fetch = |input: Input| Ok(constants.get(&input).cloned().unwrap_or(Value::Key));
        for (values, image) in all.iter_mut().zip(images) {
            let slots = |numbers: Vec<f64>| {
                let errors = vec![0.0; numbers.len()];
                Slots { numbers, errors, scale: scales.input.clone(), primes }
            };
            match number.checked_sub(1) {
                None => *values = stages[0].place(image).into_iter().map(slots).collect(),
                Some(before) => {
                    if let Flow::Reset { fold } = compiled.options().flow {
                        *values = squares(compiled, before, values, fold);
                    }
                    if let Some(power) = power(number) {
                        resize(values, power, &stages[number].takes);
                    }
                }
            }
            if number == 0 || compiled.needs_reset(number - 1) {
                let deviation = noise.fresh(&scales.input, primes);
                values.iter_mut().for_each(|slots| noise.add(&mut slots.errors, |_| deviation));
            }
            for slots in values.iter_mut() {
                (slots.scale, slots.primes) = (scales.input.clone(), primes);
            }
            let taken: Vec<Value> = std::mem::take(values).into_iter().map(Value::from).collect();
            let results = stage.run(&mut Simulator { noise }, &taken, &mut fetch)?;
            *values = results.iter().map(|value| value.slots().cloned()).collect::<Result<_, _>>()?;
        }
    }
    let unit = 2f64.powi(compiled.logit_bits());
    let logits = |values: &Vec<Slots>| {
        let logit = |(output, slot): &(usize, usize)| match values.get(*output) {
            Some(slots) => (slots.numbers[*slot] * unit, slots.errors[*slot] * unit),
            None => (f64::NAN, f64::NAN),
        };
        compiled.layout().logits().iter().map(logit).collect()
    };
    Ok(all.iter().map(logits).collect())
}

/// A weight or an offset; `None` for other inputs. The rounding of a weight is computed: it is the
/// same for all images, and a polynomial of a few weights has so small coefficients that its
/// rounding is not random. Coefficients below a half become 0.
fn constant(compiled: &Compiled, encoder: &Encoder, noise: &Noise, input: Input) -> Option<Constant> {
    let ((scale, primes), numbers) = (compiled.place(input)?, compiled.slots(input)?.into_owned());
    let deviation =
        if compiled.options().encrypted { noise.fresh(scale, primes) } else { noise.encoded(scale, primes) };
    let mut constant = Constant { rounding: None, numbers, deviation, scale: scale.clone() };
    if !matches!(input, Input::Weight { .. }) {
        return Some(constant);
    }
    let encoded = encoder.encode(&constant.numbers, scale, primes);
    if let Ok(found) = encoded.and_then(|encoded| encoder.decode(&encoded)) {
        let off = found.iter().zip(&constant.numbers).map(|(found, number)| found - number);
        constant.rounding = Some(off.collect());
        if !compiled.options().encrypted {
            constant.deviation = 0.0;
        }
    }
    Some(constant)
}

/// What an enclave encrypts again after a stage: the squares of the sums, placed for the next one.
fn squares(compiled: &Compiled, stage: usize, values: &[Slots], folded: bool) -> Vec<Slots> {
    let linear = compiled.stage(stage).linear;
    let read = |vectors: Vec<Vec<f64>>| linear.read(&vectors, compiled.outputs(stage));
    let (mut numbers, mut errors): (Vec<Vec<f64>>, Vec<Vec<f64>>) =
        values.iter().map(|slots| (slots.numbers.clone(), slots.errors.clone())).unzip();
    if !folded {
        linear.fold(&mut numbers);
        for errors in &mut errors {
            for steps in &linear.folds {
                let turned = turned(errors, *steps);
                errors.iter_mut().zip(turned).for_each(|(error, other)| *error += other);
            }
        }
    }
    let (numbers, errors) = (read(numbers), read(errors));
    let of_squares: Vec<f64> = numbers.iter().zip(&errors).map(|(x, e)| 2.0 * x * e + e * e).collect();
    let numbers: Vec<f64> = numbers.iter().map(|x| x * x).collect();
    let next = compiled.layout().stages()[stage + 1].place(&numbers);
    let errors = compiled.layout().stages()[stage + 1].place(&of_squares);
    let (scale, primes) = values.first().map_or((Scale::power_of_two(0), 1), |s| (s.scale.clone(), s.primes));
    let slots = |(numbers, errors)| Slots { numbers, errors, scale: scale.clone(), primes };
    next.into_iter().zip(errors).map(slots).collect()
}

/// Scales squares to this mean square of the model's numbers. Errors of a square grow as its root.
fn resize(values: &mut [Slots], power: f64, takes: &[super::layout::Slots]) {
    let of_model = |(slots, takes): (&Slots, &super::layout::Slots)| -> Vec<f64> {
        let used = slots.numbers.iter().zip(takes).filter(|(_, number)| number.is_some());
        used.map(|(x, _)| x * x).collect()
    };
    let all: Vec<f64> = values.iter().zip(takes).flat_map(of_model).collect();
    let found = all.iter().sum::<f64>() / all.len().max(1) as f64;
    let factor = if found > 0.0 { (power / found).sqrt() } else { 1.0 };
    for slots in values {
        slots.numbers.iter_mut().for_each(|x| *x *= factor);
        slots.errors.iter_mut().for_each(|e| *e *= factor.sqrt());
    }
}

fn turned(numbers: &[f64], steps: i64) -> Vec<f64> {
    let mut turned = numbers.to_vec();
    turned.rotate_left(steps.rem_euclid(numbers.len().max(1) as i64) as usize);
    turned
}

impl Value {
    fn slots(&self) -> Result<&Slots, ForecastError> {
        match self {
            Self::Slots(slots) => Ok(slots),
            _ => Err(ForecastError("a constant".to_owned())),
        }
    }

    fn constant(&self) -> Result<&Constant, ForecastError> {
        match self {
            Self::Constant(constant) => Ok(constant),
            _ => Err(ForecastError("no constant".to_owned())),
        }
    }
}

impl From<Slots> for Value {
    fn from(slots: Slots) -> Self {
        Self::Slots(Arc::new(slots))
    }
}

/// A machine on numbers and their errors.
struct Simulator<'a> {
    noise: &'a mut Noise,
}

impl Simulator<'_> {
    fn rotated(&mut self, a: &Slots, steps: i64) -> Slots {
        let (numbers, mut errors) = (turned(&a.numbers, steps), turned(&a.errors, steps));
        let deviation = self.noise.switched(&a.scale, a.primes);
        self.noise.add(&mut errors, |_| deviation);
        Slots { numbers, errors, scale: a.scale.clone(), primes: a.primes }
    }

    /// `Σ x w`, with the errors of the weights.
    fn dot(&mut self, pairs: &[(&Slots, &Constant)]) -> Result<Slots, ForecastError> {
        let [(first, weight), ..] = pairs else { return Err(ForecastError("an empty sum".to_owned())) };
        let (n, scale) = (first.numbers.len(), first.scale.product(&weight.scale));
        let scale = scale.ok_or_else(|| ForecastError("scales without a product".to_owned()))?;
        let (mut numbers, mut errors, mut powers) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        for (x, w) in pairs {
            for at in 0..n {
                numbers[at] += x.numbers[at] * w.numbers[at];
                errors[at] += x.errors[at] * w.numbers[at];
                powers[at] += (x.numbers[at] * w.deviation).powi(2);
            }
            if let Some(rounding) = &w.rounding {
                errors.iter_mut().zip(rounding).zip(&x.numbers).for_each(|((error, w), x)| *error += w * x);
            }
        }
        self.noise.add(&mut errors, |at| powers[at].sqrt());
        Ok(Slots { numbers, errors, scale, primes: first.primes })
    }

    fn add_switch(&mut self, a: &mut Slots) {
        let deviation = self.noise.switched(&a.scale, a.primes);
        self.noise.add(&mut a.errors, |_| deviation);
    }

    fn rescaled(&mut self, mut a: Slots) -> Result<Slots, ForecastError> {
        let deviation = self.noise.rescaled(&a.scale, a.primes);
        self.noise.add(&mut a.errors, |_| deviation);
        a.primes -= 1;
        let scale = a.scale.quotient(&Scale::prime(a.primes));
        a.scale = scale.ok_or_else(|| ForecastError("a scale without a quotient".to_owned()))?;
        Ok(a)
    }

    fn transform(&mut self, op: &Op, args: &[&Value]) -> Result<Slots, ForecastError> {
        let Op::Transform { baby, babies, giant, giants } = *op else { return Err(ForecastError(op.to_string())) };
        let inputs = args.iter().take_while(|value| matches!(value, Value::Slots(_))).count();
        let (inputs, weights) = args.split_at(inputs);
        let mut moved = Vec::new();
        for input in inputs {
            for b in 0..i64::from(babies) {
                moved.push(match b {
                    0 => input.slots()?.clone(),
                    b => self.rotated(input.slots()?, baby.wrapping_mul(b)),
                });
            }
        }
        let mut sum: Option<Slots> = None;
        for row in weights.chunks(moved.len()).take(giants.into()).collect::<Vec<_>>().into_iter().rev() {
            let row = row.iter().map(|weight| weight.constant()).collect::<Result<Vec<_>, _>>()?;
            let pairs: Vec<(&Slots, &Constant)> = moved.iter().zip(row).collect();
            let part = self.dot(&pairs)?;
            sum = Some(match sum {
                None => part,
                Some(sum) => added(&self.rotated(&sum, giant), &part),
            });
        }
        sum.ok_or_else(|| ForecastError("an empty transform".to_owned()))
    }
}

fn added(a: &Slots, b: &Slots) -> Slots {
    let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a + b).collect();
    Slots { numbers: sum(&a.numbers, &b.numbers), errors: sum(&a.errors, &b.errors), ..a.clone() }
}

impl Machine for Simulator<'_> {
    type Value = Value;
    type Error = ForecastError;

    fn step(&mut self, op: Op, args: &[&Value]) -> Result<Value, ForecastError> {
        match (&op, args) {
            (Op::Hoist, [a]) => Ok((*a).clone()),
            (Op::Rotate(steps) | Op::RotateHoisted(steps), [a, _]) => Ok(self.rotated(a.slots()?, *steps).into()),
            (Op::Rescale, [a]) => Ok(self.rescaled(a.slots()?.clone())?.into()),
            (Op::Add, [a, Value::Constant(b)]) => {
                let mut sum = a.slots()?.clone();
                sum.numbers.iter_mut().zip(&b.numbers).for_each(|(a, b)| *a += b);
                self.noise.add(&mut sum.errors, |_| b.deviation);
                Ok(sum.into())
            }
            (Op::Add, [a, b]) => Ok(added(a.slots()?, b.slots()?).into()),
            (Op::Mul, [a, b, _]) => {
                let (a, b) = (a.slots()?, b.slots()?);
                let scale = a.scale.product(&b.scale);
                let scale = scale.ok_or_else(|| ForecastError("scales without a product".to_owned()))?;
                let of = |at: usize| (a.numbers[at], a.errors[at], b.numbers[at], b.errors[at]);
                let errors = (0..a.numbers.len()).map(of).map(|(x, e, y, f)| x * f + y * e + e * f).collect();
                let numbers = (0..a.numbers.len()).map(of).map(|(x, _, y, _)| x * y).collect();
                let mut product = Slots { numbers, errors, scale, primes: a.primes };
                self.add_switch(&mut product);
                Ok(self.rescaled(product)?.into())
            }
            (Op::Dot, args) => {
                let pair = |pair: &[&Value]| match *pair {
                    [Value::Slots(x), Value::Constant(w)] => Ok((Arc::clone(x), Arc::clone(w))),
                    _ => Err(ForecastError(op.to_string())),
                };
                let (pairs, key) = args.as_chunks::<2>();
                let pairs = pairs.iter().map(|two| pair(two)).collect::<Result<Vec<_>, _>>()?;
                let pairs: Vec<(&Slots, &Constant)> = pairs.iter().map(|(x, w)| (&**x, &**w)).collect();
                let mut sum = self.dot(&pairs)?;
                if !key.is_empty() {
                    self.add_switch(&mut sum);
                }
                Ok(sum.into())
            }
            (Op::Transform { .. }, args) => Ok(self.transform(&op, args)?.into()),
            _ => Err(ForecastError(op.to_string())),
        }
    }
}
