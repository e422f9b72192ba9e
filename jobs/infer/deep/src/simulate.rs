//! A run on numbers, slot by slot, with the errors that encryption would add.
//!
//! Every operation does to the slots what it does under encryption, and adds a nearly normal
//! error of the operation's deviation to each slot. So errors pass through the very network and the
//! very picture, and what comes out is what the encrypted run shows, up to chance. A run without
//! errors checks the layouts.
//!
//! | operation | deviation of an error in a slot |
//! |---|---|
//! | encryption | that of a fresh ciphertext |
//! | products with diagonals | a key switch times each weight, roundings of weights, giant steps |
//! | rescaling | its rounding, the second part times the secret |
//! | rotation, product | a key switch |
//! | visit of an enclave | that of a fresh ciphertext |
//! | refresh | as measured ([`Refreshing`](crate::settings::Refreshing)), and the sine |
//!
//! The deviations are those of [`Noise`].

use crate::approximate::series;
use crate::enclaved::{Enclaved, Numbers};
use crate::layout::Diagonals;
use crate::machine::{Circuit, Machine, Part, Place};
use std::collections::BTreeMap;
use tobari_infer::noise::Noise;
use tobari_lattice::ckks::Scale;

/// A ciphertext's slots, and its level.
#[derive(Clone, Debug)]
pub struct Slots {
    numbers: Vec<f64>,
    level: usize,
}

/// A machine on slots.
pub struct Simulator<'a> {
    circuit: &'a Circuit,
    noise: Option<Errors<'a>>,
    /// The part inside an enclave, and its numbers.
    inside: Option<(Enclaved, Numbers)>,
}

/// A number beyond its range, which an enclave refuses.
#[derive(Clone, Copy, Debug)]
pub struct OutOfRange;

struct Errors<'a> {
    source: &'a mut Noise,
    scale: Scale,
}

impl Errors<'_> {
    fn add(&mut self, numbers: &mut [f64], deviation: impl Fn(usize) -> f64) {
        self.source.add(numbers, deviation);
    }

    /// The rounding of a weight, relative to the scale of weights: the last prime.
    fn weight(&self, level: usize) -> f64 {
        self.source.encoded(&Scale::prime(level - 1), level)
    }

    fn switch(&self, level: usize) -> f64 {
        self.source.switched(&self.scale, level)
    }

    fn of_product(&self, level: usize, deviation: impl Fn(&Scale) -> f64) -> f64 {
        self.scale.product(&Scale::prime(level - 1)).map_or(f64::NAN, |scale| deviation(&scale))
    }

    /// A key switch at the scale of a product, in units of the tensor's scale.
    fn switch_of_product(&self, level: usize) -> f64 {
        self.of_product(level, |scale| self.source.switched(scale, level))
    }

    fn rescale(&self, level: usize) -> f64 {
        self.of_product(level, |scale| self.source.rescaled(scale, level))
    }

    fn fresh(&self, level: usize) -> f64 {
        self.source.fresh(&self.scale, level)
    }
}

/// The logits and the guard of a picture, given as tensor 0: without errors, or with errors from
/// this source for tensors of this scale.
pub fn simulate(circuit: &Circuit, picture: &[f64], noise: Option<(&mut Noise, &Scale)>) -> (Vec<f64>, f64) {
    let noise = noise.map(|(source, scale)| Errors { source, scale: scale.clone() });
    let mut simulator = Simulator { circuit, noise, inside: None };
    if circuit.steps.are_enclaved() {
        let enclaved = Enclaved::new(circuit.steps.clone(), &circuit.arrangement);
        let numbers = enclaved.begin(picture.to_vec());
        simulator.inside = Some((enclaved, numbers));
        let ran = circuit.run(&mut simulator, Vec::new(), |_| Ok(())).is_ok();
        return match simulator.inside.filter(|_| ran) {
            Some((enclaved, mut numbers)) => (enclaved.logits(&mut numbers).to_vec(), 0.0),
            None => refused(circuit),
        };
    }
    let level = circuit.level(0);
    let filled = circuit.layout(0).fill(picture, circuit.steps.input);
    let picture = filled.into_iter().map(|numbers| simulator.encrypt(numbers, level)).collect();
    let Ok(results) = circuit.run(&mut simulator, picture, |_| Ok(())) else { return refused(circuit) };
    let last = circuit.steps.steps.len();
    let slots: Vec<Vec<f64>> = results.into_iter().map(|slots| slots.numbers).collect();
    circuit.steps.logits(circuit.layout(last).read(&slots, circuit.steps.volume(last)))
}

/// No logits, and a guard that says so.
fn refused(circuit: &Circuit) -> (Vec<f64>, f64) {
    let classes = circuit.steps.steps.last().map_or(0, |(_, _, output)| output.len());
    (vec![f64::NAN; classes], f64::INFINITY)
}

impl Simulator<'_> {
    fn encrypt(&mut self, mut numbers: Vec<f64>, level: usize) -> Slots {
        if let Some(noise) = &mut self.noise {
            let deviation = noise.fresh(level);
            noise.add(&mut numbers, |_| deviation);
        }
        Slots { numbers, level }
    }

    fn diagonals(&self, place: Place) -> Option<&Diagonals> {
        match &self.circuit.parts[place.step][place.term] {
            Part::Products(products) => Some(&products.diagonals),
            Part::Scalar(_) => None,
        }
    }
}

impl Machine for Simulator<'_> {
    type Value = Slots;
    type Error = OutOfRange;

    fn lower(&mut self, a: &Slots, level: usize) -> Result<Slots, OutOfRange> {
        Ok(Slots { level, ..a.clone() })
    }

    fn transform(&mut self, a: &Slots, place: Place) -> Result<Slots, OutOfRange> {
        let (n, level) = (a.numbers.len(), a.level);
        let mut sums = vec![0.0; n];
        let mut squares = vec![0.0; if self.noise.is_some() { n } else { 0 }];
        let (mut count, mut giants) = (0usize, 0.0);
        if let Some(weights) = self.diagonals(place).and_then(|all| all.get(&(place.from, place.to))) {
            count = weights.len();
            giants = (count as f64).sqrt();
            for (step, weights) in weights {
                for start in (0..n).step_by(weights.len()) {
                    for (at, weight) in weights.iter().enumerate() {
                        sums[start + at] += weight * a.numbers[(start + at + step) & (n - 1)];
                    }
                }
                if !squares.is_empty() {
                    let period = weights.len();
                    squares.iter_mut().enumerate().for_each(|(at, sum)| *sum += weights[at % period].powi(2));
                }
            }
        }
        if let Some(noise) = &mut self.noise {
            let power = a.numbers.iter().map(|x| x * x).sum::<f64>() / n as f64;
            let turned = noise.switch(level).powi(2);
            let rest = count as f64 * power * noise.weight(level).powi(2)
                + (giants + 1.0) * noise.switch_of_product(level).powi(2);
            noise.add(&mut sums, |at| (squares[at] * turned + rest).sqrt());
        }
        Ok(Slots { numbers: sums, level })
    }

    fn times(&mut self, a: &Slots, factor: f64, _: usize) -> Result<Slots, OutOfRange> {
        Ok(Slots { numbers: a.numbers.iter().map(|x| x * factor).collect(), level: a.level })
    }

    fn add_number(&mut self, mut a: Slots, number: f64) -> Result<Slots, OutOfRange> {
        a.numbers.iter_mut().for_each(|x| *x += number);
        Ok(a)
    }

    fn add(&mut self, mut a: Slots, b: &Slots) -> Result<Slots, OutOfRange> {
        a.numbers.iter_mut().zip(&b.numbers).for_each(|(a, b)| *a += b);
        Ok(a)
    }

    fn rescale(&mut self, a: &Slots) -> Result<Slots, OutOfRange> {
        let mut numbers = a.numbers.clone();
        if let Some(noise) = &mut self.noise {
            let deviation = noise.rescale(a.level);
            noise.add(&mut numbers, |_| deviation);
        }
        Ok(Slots { numbers, level: a.level - 1 })
    }

    fn rotate(&mut self, a: &Slots, steps: usize) -> Result<Slots, OutOfRange> {
        let mut numbers = a.numbers.clone();
        numbers.rotate_left(steps % a.numbers.len());
        if let Some(noise) = &mut self.noise {
            let deviation = noise.switch(a.level);
            noise.add(&mut numbers, |_| deviation);
        }
        Ok(Slots { numbers, level: a.level })
    }

    fn offset(&mut self, mut a: Slots, step: usize, to: usize) -> Result<Slots, OutOfRange> {
        let offsets = self.circuit.offsets(step);
        a.numbers.iter_mut().zip(&offsets[to]).for_each(|(a, b)| *a += b);
        Ok(a)
    }

    fn multiply(&mut self, a: &Slots, b: &Slots) -> Result<Slots, OutOfRange> {
        let mut numbers: Vec<f64> = a.numbers.iter().zip(&b.numbers).map(|(a, b)| a * b).collect();
        if let Some(noise) = &mut self.noise {
            let deviation = f64::hypot(noise.switch_of_product(a.level), noise.rescale(a.level));
            noise.add(&mut numbers, |_| deviation);
        }
        Ok(Slots { numbers, level: a.level - 1 })
    }

    fn refresh(&mut self, a: &Slots) -> Result<Slots, OutOfRange> {
        let mut numbers = a.numbers.clone();
        if let (Some(noise), Some(refreshing)) = (&mut self.noise, self.circuit.engine.refreshing()) {
            numbers.iter_mut().for_each(|x| *x = refreshing.value(*x));
            let deviation = refreshing.deviation(2 * numbers.len());
            noise.add(&mut numbers, |_| deviation);
        }
        Ok(Slots { numbers, level: usize::MAX })
    }

    fn visit(&mut self, number: usize, sent: Vec<Slots>) -> Result<Vec<Slots>, OutOfRange> {
        let (enclaved, numbers) = self.inside.as_mut().ok_or(OutOfRange)?;
        let sent: Vec<Vec<f64>> = sent.into_iter().map(|slots| slots.numbers).collect();
        let mut returned = enclaved.visit(numbers, number, &sent).ok_or(OutOfRange)?;
        let level = self.circuit.most_primes();
        Ok(std::mem::take(&mut *returned).into_iter().map(|numbers| self.encrypt(numbers, level)).collect())
    }

    fn series(&mut self, a: &Slots, coefficients: &[f64]) -> Result<Slots, OutOfRange> {
        let depth = series::levels(series::degree(coefficients));
        let numbers = match &mut self.noise {
            None => a.numbers.iter().map(|x| series::value(coefficients, *x)).collect(),
            Some(noise) => {
                let deviation = f64::hypot(noise.switch_of_product(a.level), noise.rescale(a.level));
                let known = BTreeMap::from([(1, a.numbers.clone())]);
                Chebyshev { noise, deviation, known }.evaluate(&coefficients[..=series::degree(coefficients)])
            }
        };
        Ok(Slots { numbers, level: a.level - depth })
    }
}

/// A series with the errors of its products. Later products amplify an error, up to the
/// square of the degree.
struct Chebyshev<'a, 'b> {
    noise: &'a mut Errors<'b>,
    deviation: f64,
    /// `T_k` by `k`.
    known: BTreeMap<usize, Vec<f64>>,
}

/// Sums of `T_k` below this degree take no product of ciphertexts.
const BABY: usize = 8;

impl Chebyshev<'_, '_> {
    /// `T_k`, by `T_(a+b) = 2 T_a T_b - T_(a-b)`.
    fn element(&mut self, k: usize) -> Vec<f64> {
        if let Some(known) = self.known.get(&k) {
            return known.clone();
        }
        let left = k.next_power_of_two() / 2;
        let (a, b) = (self.element(left), self.element(k - left));
        let mut product: Vec<f64> = a.iter().zip(&b).map(|(a, b)| 2.0 * a * b).collect();
        match 2 * left - k {
            0 => product.iter_mut().for_each(|x| *x -= 1.0),
            term => {
                let term = self.element(term);
                product.iter_mut().zip(term).for_each(|(x, term)| *x -= term);
            }
        }
        let deviation = self.deviation;
        self.noise.add(&mut product, |_| deviation);
        self.known.insert(k, product.clone());
        product
    }

    /// `p = p_1 T_h + p_0`, down to sums of small degree.
    fn evaluate(&mut self, p: &[f64]) -> Vec<f64> {
        let count = self.known[&1].len();
        let degree = series::degree(p);
        let mut sum;
        if degree < BABY {
            sum = vec![p[0]; count];
            for k in (1..=degree).filter(|k| p[*k] != 0.0) {
                let element = self.element(k);
                sum.iter_mut().zip(element).for_each(|(sum, t)| *sum += p[k] * t);
            }
            if degree == 0 {
                return sum;
            }
        } else {
            let half = (degree + 1).next_power_of_two() / 2;
            let (low, high) = p[..=degree].split_at(half);
            let (mut low, mut high) = (low.to_vec(), high.to_vec());
            for (k, c) in high.iter_mut().enumerate().skip(1) {
                low[half - k] -= *c;
                *c *= 2.0;
            }
            let (high, factor) = (self.evaluate(&high), self.element(half));
            sum = self.evaluate(&low);
            for ((sum, high), factor) in sum.iter_mut().zip(high).zip(factor) {
                *sum += high * factor;
            }
        }
        let deviation = self.deviation;
        self.noise.add(&mut sum, |_| deviation);
        sum
    }
}
