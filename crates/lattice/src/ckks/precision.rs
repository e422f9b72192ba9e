//! The precision of results: measured, and estimated in advance.
//!
//! # What an estimate counts
//! Let `B(σ) = 6 σ √N`. A polynomial with independent coefficients of deviation `σ` has slots that
//! are almost complex Gaussians of variance `N σ²`, so that one of the `N/2` exceeds `B(σ)` with a
//! chance of about `N/2 · exp(-36) < N 2^-52`. A product of polynomials is bounded by the product
//! of the bounds. So, in the slots and times the scale, with `σ_e = 3.22` for errors,
//! `σ_s = √(2/3)` for the secret and `σ_r = √(1/12)` for rounding errors:
//!
//! | from | error |
//! |---|---|
//! | encoding | `B(σ_r)`, and `60 ε √N log2(N)` of the slots, `ε = 2^-53`, for doubles |
//! | encryption under the secret | `B(σ_e)` |
//! | encryption under a public key | `B(σ_e) (1 + 2 B(σ_s))` |
//! | a rescaling | `B(σ_r) (1 + B(σ_s))` |
//! | a key switch at level `l` | `Σ_d B(Q_d σ_r) B(σ_e) / P + B(σ_r) (1 + B(σ_s))`, over the digits that level `l` has |
//!
//! and of a product of `a` and `b`, bounded by `M_a` and `M_b` with errors `E_a` and `E_b`,
//! `M_a E_b + M_b E_a + E_a E_b`.
//!
//! Errors add up as if all had the same sign, so an estimate is a few bits above the measured
//! error, and fails only with the chances above. It assumes independent rounding errors, as they
//! are for numbers that were not chosen by an attacker.

use super::scale::{Magnitude, Scale};
use crate::params::LatticeParameters;

/// The deviation of errors, rounded up.
const ERROR: f64 = 3.22;
/// `2^-53`.
const EPSILON: f64 = 1.0 / (1u64 << 53) as f64;

/// The estimate for a ciphertext's slots.
///
/// ```
/// use tobari_lattice::ckks::{Estimator, Scale};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// let parameters = LatticeParameters::of_sizes(1 << 13, &[50, 40, 40], &[50], 3, Plaintext::Approximate)?;
/// let estimator = Estimator::new(&parameters);
/// let x = estimator.encrypt(&estimator.encode(1.0, &Scale::power_of_two(40), 3));
/// let square = estimator.rescale(&estimator.mul(&x, &x));
/// assert!(square.error() > x.error() && square.error() < 1e-3);
/// # Ok::<(), tobari_lattice::params::LatticeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    magnitude: f64,
    error: f64,
    scale: f64,
    level: usize,
}

impl Estimate {
    /// A bound on the slots' absolute values.
    pub fn magnitude(&self) -> f64 {
        self.magnitude
    }

    /// A bound on the slots' errors.
    pub fn error(&self) -> f64 {
        self.error
    }

    /// The least `b ≥ 1` such that every coefficient's error is below `2^b`: coefficients are
    /// averages of slots times roots of unity. A flooded release must hide this error
    /// ([`FloodBudget`](super::FloodBudget)). The largest number if there is no bound.
    pub fn coefficient_error_bits(&self) -> u32 {
        let error = self.error * self.scale;
        if !error.is_finite() {
            return u32::MAX;
        }
        // the exponent of a double is ⌊log2⌋
        (error.max(1.0).to_bits() >> 52) as u32 - 1022
    }
}

/// Estimates magnitudes and errors, operation by operation, with the method names of the
/// [`Evaluator`](super::Evaluator); see the example of [`Estimate`].
///
/// ```
/// use tobari_lattice::ckks::{Estimator, Scale};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, Plaintext::Approximate)?;
/// let estimator = Estimator::new(&parameters);
/// let plaintext = estimator.encode(1.0, &Scale::power_of_two(30), 2);
/// assert!(estimator.encrypt_seeded(&plaintext).error() < estimator.encrypt(&plaintext).error());
/// # Ok::<(), tobari_lattice::params::LatticeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Estimator {
    parameters: LatticeParameters,
    /// `√N`.
    root: f64,
}

impl Estimator {
    /// An estimator for these parameters.
    pub fn new(parameters: &LatticeParameters) -> Self {
        Self { parameters: parameters.clone(), root: (parameters.degree() as f64).sqrt() }
    }

    /// `B(σ)`.
    fn bound(&self, deviation: f64) -> f64 {
        6.0 * deviation * self.root
    }

    /// `B(σ_s)`.
    fn secret(&self) -> f64 {
        self.bound((2.0f64 / 3.0).sqrt())
    }

    /// `B(σ_r)`.
    fn rounding(&self) -> f64 {
        self.bound((1.0f64 / 12.0).sqrt())
    }

    fn plus(&self, a: &Estimate, error: f64) -> Estimate {
        Estimate { error: a.error + error / a.scale, ..*a }
    }

    /// A plaintext with slots of at most this absolute value.
    pub fn encode(&self, magnitude: f64, scale: &Scale, level: usize) -> Estimate {
        let scale = scale.to_f64(&self.parameters).unwrap_or(f64::NAN);
        let log = f64::from(self.parameters.degree().trailing_zeros());
        let error = self.rounding() / scale + 60.0 * EPSILON * self.root * log * magnitude;
        Estimate { magnitude, error, scale, level }
    }

    /// A plaintext whose exact value is the encoded one, so that the rounding of encoding is not an
    /// error. Flooding is counted from this message ([`FloodBudget`](super::FloodBudget)), because
    /// the receiver of a result may know it.
    pub fn encoded(&self, magnitude: f64, scale: &Scale, level: usize) -> Estimate {
        Estimate { error: 0.0, ..self.encode(magnitude, scale, level) }
    }

    /// Encrypted under a public key.
    pub fn encrypt(&self, a: &Estimate) -> Estimate {
        self.plus(a, self.bound(ERROR) * (1.0 + 2.0 * self.secret()))
    }

    /// Encrypted under the secret.
    pub fn encrypt_seeded(&self, a: &Estimate) -> Estimate {
        self.plus(a, self.bound(ERROR))
    }

    /// A sum or a difference.
    pub fn add(&self, a: &Estimate, b: &Estimate) -> Estimate {
        Estimate { magnitude: a.magnitude + b.magnitude, error: a.error + b.error, ..*a }
    }

    /// A product with a plaintext, or one in three parts.
    pub fn tensor(&self, a: &Estimate, b: &Estimate) -> Estimate {
        Estimate {
            magnitude: a.magnitude * b.magnitude,
            error: a.magnitude * b.error + b.magnitude * a.error + a.error * b.error,
            scale: a.scale * b.scale,
            level: a.level,
        }
    }

    /// A product in two parts.
    pub fn mul(&self, a: &Estimate, b: &Estimate) -> Estimate {
        self.switch(&self.tensor(a, b))
    }

    /// A relinearised, rotated or conjugated ciphertext.
    pub fn switch(&self, a: &Estimate) -> Estimate {
        let primes = |tables: &[crate::ring::Ntt]| -> f64 {
            tables.iter().map(|table| table.modulus().value() as f64).product()
        };
        let ring = self.parameters.ring();
        let special = primes(ring.special_primes());
        let digits = ring.data_primes()[..a.level].chunks(self.parameters.digit_size());
        let digits: f64 = digits.map(|digit| primes(digit) / special).sum();
        let switched = digits * self.rounding() * self.bound(ERROR);
        self.plus(a, switched + self.rounding() * (1.0 + self.secret()))
    }

    /// Does every coefficient, with its error, stay below half the modulus of the level? If not,
    /// numbers may overflow, and no bound holds.
    pub fn fits(&self, a: &Estimate) -> bool {
        let modulus = Magnitude::modulus(&self.parameters, a.level).to_f64();
        (a.magnitude + a.error) * a.scale < 0.5 * modulus
    }

    /// A rescaled ciphertext.
    ///
    /// # Panics
    /// If only one prime is left.
    pub fn rescale(&self, a: &Estimate) -> Estimate {
        assert!(a.level >= 2, "the last prime stays");
        let prime = self.parameters.ring().data_primes()[a.level - 1].modulus().value();
        let divided = Estimate { scale: a.scale / prime as f64, level: a.level - 1, ..*a };
        self.plus(&divided, self.rounding() * (1.0 + self.secret()))
    }
}

/// The errors of a result over all slots.
///
/// ```
/// use tobari_lattice::ckks::Precision;
/// let precision = Precision::of(&[1.0, 2.25, 3.5], &[1.0, 2.0, 3.0]);
/// assert_eq!((precision.max(), precision.median()), (0.5, 0.25));
/// assert_eq!((precision.least_bits(), precision.median_bits()), (1.0, 2.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    max: f64,
    median: f64,
}

impl Precision {
    /// Compares slots with the expected ones. Errors are infinite if no slot is expected, or if a
    /// slot is NaN.
    ///
    /// # Panics
    /// If more numbers are expected than found.
    pub fn of(found: &[f64], expected: &[f64]) -> Self {
        assert!(found.len() >= expected.len(), "a slot for each expected number");
        let error = |(a, b): (&f64, &f64)| if a.is_nan() { f64::INFINITY } else { (a - b).abs() };
        let mut errors: Vec<f64> = found.iter().zip(expected).map(error).collect();
        errors.sort_by(f64::total_cmp);
        let at = |place: usize| errors.get(place).copied().unwrap_or(f64::INFINITY);
        Self { max: at(errors.len().wrapping_sub(1)), median: at(errors.len() / 2) }
    }

    /// The largest error.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// The median error.
    pub fn median(&self) -> f64 {
        self.median
    }

    /// Correct fractional bits in every slot: `-log2` of the largest error.
    pub fn least_bits(&self) -> f64 {
        -self.max.log2()
    }

    /// Correct fractional bits in half of the slots.
    pub fn median_bits(&self) -> f64 {
        -self.median.log2()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Bench;
    use super::*;
    use crate::ckks::Ciphertext;
    use proptest::prelude::*;

    #[test]
    fn reports_count_every_slot() {
        let precision = Precision::of(&[0.0, f64::NAN, 1.0], &[0.0, 0.0]);
        assert_eq!((precision.max(), precision.least_bits()), (f64::INFINITY, f64::NEG_INFINITY));
        assert_eq!(Precision::of(&[], &[]).max(), f64::INFINITY);
        assert_eq!(Precision::of(&[1.0], &[1.0]).least_bits(), f64::INFINITY);
    }

    #[test]
    fn error_bits_bound_the_coefficients() {
        let bits = |error| Estimate { magnitude: 1.0, error, scale: 4.0, level: 1 }.coefficient_error_bits();
        assert_eq!([0.0, 0.1, 0.25, 0.49, 0.5, 255.9, 256.0].map(bits), [1, 1, 1, 1, 2, 10, 11]);
        assert_eq!([f64::NAN, f64::INFINITY].map(bits), [u32::MAX; 2]);
        let parameters = Bench::new(&[50, 40]).evaluator.parameters().clone();
        assert!(crate::ckks::FloodBudget::new(&parameters, u32::MAX, 40, 1).is_err());
        // of a real ciphertext
        let mut bench = Bench::new(&[50, 40]);
        let estimator = Estimator::new(bench.evaluator.parameters());
        let a = bench.encrypt(&[], 30, 1);
        let estimate = estimator.encrypt(&estimator.encode(0.0, &Scale::power_of_two(30), 1));
        assert!(bench.secret.noise(a.inner()).log2() <= f64::from(estimate.coefficient_error_bits()));
    }

    /// Doubles a number until it overflows. The estimate predicts this, and not much too early.
    #[test]
    fn numbers_fit_until_they_wrap_around() {
        let mut bench = Bench::new(&[50, 40]);
        let estimator = Estimator::new(bench.evaluator.parameters());
        let scale = Scale::power_of_two(40);
        let mut a = bench.encrypt(&[1.01; 32], 40, 1);
        let mut estimate = estimator.encrypt(&estimator.encode(1.01, &scale, 1));
        let mut expected = 1.01;
        // 1.01 · 2^40 · 2^9 is a little more than half of the prime, which is below 2^50
        for doublings in 0..10 {
            assert_eq!(estimator.fits(&estimate), doublings < 9, "{doublings}");
            assert_eq!(bench.error(&a, &[expected; 32]) <= estimate.error(), doublings < 9, "{doublings}");
            (a, estimate) = (bench.evaluator.add(&a, &a).unwrap(), estimator.add(&estimate, &estimate));
            expected *= 2.0;
        }
    }

    /// A ciphertext, its expected slots, and its estimate.
    #[derive(Clone)]
    struct Value {
        ciphertext: Ciphertext,
        slots: Vec<f64>,
        estimate: Estimate,
    }

    fn start(bench: &mut Bench, estimator: &Estimator, numbers: &[f64], seeded: bool) -> Value {
        let scale = Scale::power_of_two(40);
        let estimate = estimator.encode(1.0, &scale, 4);
        let plaintext = bench.encoder.encode(numbers, &scale, 4).unwrap();
        let (ciphertext, estimate) = if seeded {
            let ciphertext = plaintext.encrypt_seeded(&bench.secret, &mut bench.rng).unwrap().expand();
            (ciphertext, estimator.encrypt_seeded(&estimate))
        } else {
            (plaintext.encrypt(&bench.public, &mut bench.rng).unwrap(), estimator.encrypt(&estimate))
        };
        Value { ciphertext, slots: numbers.to_vec(), estimate }
    }

    fn step(bench: &Bench, estimator: &Estimator, value: &Value, operation: u8) -> Value {
        let Value { ciphertext: c, slots, estimate: e } = value;
        let (evaluator, keys) = (&bench.evaluator, &bench.keys);
        let (ciphertext, slots, estimate): (_, Vec<f64>, _) = match operation {
            0 => (evaluator.add(c, c).unwrap(), slots.iter().map(|x| 2.0 * x).collect(), estimator.add(e, e)),
            1 => {
                let mut moved = slots.clone();
                moved.rotate_left(3);
                (evaluator.rotate(c, 3, keys).unwrap(), moved, estimator.switch(e))
            }
            2 | 4 if c.level() > 1 => {
                let product = match operation {
                    2 => evaluator.rescale(&evaluator.mul(c, c, keys).unwrap()),
                    _ => evaluator.mul_rescale(c, c, keys),
                };
                let squares = slots.iter().map(|x| x * x).collect();
                (product.unwrap(), squares, estimator.rescale(&estimator.mul(e, e)))
            }
            3 if c.level() > 1 => {
                let numbers: Vec<f64> = (0..32).map(|j| f64::from(j * 11 % 17) / 8.5 - 1.0).collect();
                let scale = Scale::prime(c.level() - 1);
                let plaintext = bench.encoder.encode(&numbers, &scale, c.level()).unwrap();
                let product = evaluator.rescale(&evaluator.mul_plain(c, &plaintext).unwrap()).unwrap();
                let products = slots.iter().zip(&numbers).map(|(x, y)| x * y).collect();
                let estimate = estimator.tensor(e, &estimator.encode(1.0, &scale, c.level()));
                (product, products, estimator.rescale(&estimate))
            }
            _ => return value.clone(),
        };
        Value { ciphertext, slots, estimate }
    }

    proptest! {
        #![proptest_config(crate::rlwe::tests::cases(50))]
        #[test]
        fn no_circuit_is_less_precise_than_foretold(
            numbers in prop::collection::vec(-1.0..1.0f64, 32),
            operations in prop::collection::vec(0u8..5, 1..9),
            seeded: bool,
        ) {
            let mut bench = Bench::new(&[50, 40, 40, 40]);
            let estimator = Estimator::new(bench.evaluator.parameters());
            let mut value = start(&mut bench, &estimator, &numbers, seeded);
            for operation in operations {
                value = step(&bench, &estimator, &value, operation);
                if !estimator.fits(&value.estimate) {
                    break;
                }
                let error = bench.error(&value.ciphertext, &value.slots);
                prop_assert!(error <= value.estimate.error(), "{error:e} > {:e}", value.estimate.error());
                // and not by a wide margin
                prop_assert!(value.estimate.error() < 2f64.powi(16) * error);
                prop_assert!(value.slots.iter().all(|x| x.abs() <= value.estimate.magnitude()));
            }
        }
    }
}
