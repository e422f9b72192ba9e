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
//! An error has two parts. **Encoding** rounds numbers that the secret has no part in. All the rest
//! is **noise**, counted from the encoded numbers, and depends on the secret. A flooded release
//! must hide the noise alone ([`FloodBudget`](super::FloodBudget)). With two parts, `E = C + S`, a
//! product has the noise `(M_a + C_a) S_b + (M_b + C_b) S_a + S_a S_b`. Both parts together are the
//! error above.
//!
//! Errors add up as if all had the same sign, so an estimate is a few bits above the measured
//! error, and fails only with the chances above. It assumes independent rounding errors, as they
//! are for numbers that were not chosen by an attacker.
//!
//! # Estimates travel with ciphertexts
//! Every [`Ciphertext`](super::Ciphertext) carries its estimate, and each operation of the
//! [`Evaluator`](super::Evaluator) estimates its result first. It refuses a result that may not fit
//! ([`Estimator::fits`]), because a number beyond the modulus comes back as another number, without
//! any sign. An estimate starts from a **declared range**
//! ([`Encoder::within`](super::Encoder::within)), never from encrypted numbers: who sees which
//! operations were refused would learn about them. It does not travel in bytes: a sender could
//! forge it. The reader declares it ([`Ciphertext::declare`](super::Ciphertext::declare)).

use super::scale::{Magnitude, Scale};
use crate::params::LatticeParameters;
use zeroize::Zeroize;

/// The deviation of errors, rounded up.
const ERROR: f64 = 3.22;
/// `2^-53`.
const EPSILON: f64 = 1.0 / (1u64 << 53) as f64;
/// The part of half the modulus that messages and errors may use. A key of somebody else gives
/// uniform coefficients, and so do numbers that wrapped around many times. All `N` of them are
/// below this part with a chance of `(15/16)^N`: `2^-95` for `N = 2^10`, the smallest secure ring.
pub(super) const USABLE: f64 = 15.0 / 16.0;

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
#[derive(Clone, Copy, Debug, PartialEq, Zeroize)]
pub struct Estimate {
    magnitude: f64,
    /// A bound on coefficients, over the scale, which come on top of those of the slots:
    /// coefficients of [masks](super::Plaintext::mask) are uniform, and their slots `N` times as
    /// large.
    wide: f64,
    /// A bound on the slots' errors that encoding made.
    encoding: f64,
    /// A bound on all other errors of the slots.
    noise: f64,
    /// A bound on the slots' errors by floods. Their coefficients are in `wide`.
    flood: f64,
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
        self.encoding + self.noise + self.flood
    }

    /// A bound on the slots' errors, counted from the encoded numbers instead of the exact ones,
    /// and without [floods](super::Evaluator::flood), which tell nothing.
    pub fn noise(&self) -> f64 {
        self.noise
    }

    /// The level.
    pub fn level(&self) -> usize {
        self.level
    }

    /// The scale, rounded.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Magnitude, the bound on other coefficients, and both parts of the error.
    pub(crate) fn bounds(&self) -> [f64; 4] {
        [self.magnitude, self.wide, self.encoding, self.noise]
    }

    /// The estimate of these.
    pub(crate) fn of_bounds([magnitude, wide, encoding, noise]: [f64; 4], scale: f64, level: usize) -> Self {
        Self { magnitude, wide, encoding, noise, flood: 0.0, scale, level }
    }

    /// A bound on the slots' errors by floods.
    pub(super) fn flood(&self) -> f64 {
        self.flood
    }

    /// The same with this bound on the slots' errors by floods.
    pub(super) fn with_flood(self, flood: f64) -> Self {
        Self { flood, ..self }
    }

    /// A bound on the coefficients of message and error, over the scale: a coefficient is an
    /// average of slots.
    pub(super) fn largest(&self) -> f64 {
        self.magnitude + self.wide + self.encoding + self.noise
    }

    /// The same at another level and scale.
    pub(super) fn at(&self, scale: f64, level: usize) -> Self {
        Self { scale, level, ..*self }
    }

    /// The same if the exact numbers are known to be smaller.
    pub(super) fn within(&self, magnitude: f64) -> Self {
        Self { magnitude: self.magnitude.min(magnitude), ..*self }
    }

    /// The negative and all that has the same bounds, times a factor.
    pub(super) fn times(&self, factor: f64) -> Self {
        let [magnitude, wide, encoding, noise] = self.bounds().map(|bound| bound * factor.abs());
        Self { magnitude, wide, encoding, noise, flood: self.flood * factor.abs(), ..*self }
    }

    /// The least `b ≥ 1` such that every coefficient's [noise](Self::noise) is below `2^b`:
    /// coefficients are averages of slots times roots of unity. A flooded release must hide it
    /// ([`FloodBudget`](super::FloodBudget)). The largest number if there is no bound.
    pub fn noise_bits(&self) -> u32 {
        let noise = self.noise * self.scale;
        if !noise.is_finite() {
            return u32::MAX;
        }
        // the exponent of a double is ⌊log2⌋
        (noise.max(1.0).to_bits() >> 52) as u32 - 1022
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

    /// `60 ε √N log2(N)`: the error of doubles in encoding and decoding, over the largest slot.
    fn doubles(&self) -> f64 {
        60.0 * EPSILON * self.root * f64::from(self.parameters.degree().trailing_zeros())
    }

    fn plus(&self, a: &Estimate, noise: f64) -> Estimate {
        Estimate { noise: a.noise + noise / a.scale, ..*a }
    }

    /// A plaintext with slots of at most this absolute value. A number that bounds nothing, below 0
    /// or NaN, counts as infinity.
    pub fn encode(&self, magnitude: f64, scale: &Scale, level: usize) -> Estimate {
        let magnitude = if magnitude >= 0.0 { magnitude } else { f64::INFINITY };
        let scale = scale.to_f64(&self.parameters).unwrap_or(f64::NAN);
        let encoding = self.rounding() / scale + self.doubles() * magnitude;
        Estimate { magnitude, wide: 0.0, encoding, noise: 0.0, flood: 0.0, scale, level }
    }

    /// The same number in all slots: one coefficient, which is rounded.
    pub(super) fn constant(&self, value: f64, scale: &Scale, level: usize) -> Estimate {
        let scale = scale.to_f64(&self.parameters).unwrap_or(f64::NAN);
        let encoding = 0.5 / scale + self.doubles() * value.abs();
        Estimate { magnitude: value.abs(), wide: 0.0, encoding, noise: 0.0, flood: 0.0, scale, level }
    }

    /// An element with coefficients of at most this absolute value, and no more known about it.
    pub(super) fn coefficients(&self, most: f64, scale: &Scale, level: usize) -> Estimate {
        let scale = scale.to_f64(&self.parameters).unwrap_or(f64::NAN);
        Estimate { magnitude: 0.0, wide: most / scale, encoding: 0.0, noise: 0.0, flood: 0.0, scale, level }
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
        Estimate {
            magnitude: a.magnitude + b.magnitude,
            wide: a.wide + b.wide,
            encoding: a.encoding + b.encoding,
            noise: a.noise + b.noise,
            flood: a.flood + b.flood,
            ..*a
        }
    }

    /// A product with a plaintext, or one in three parts.
    pub fn tensor(&self, a: &Estimate, b: &Estimate) -> Estimate {
        // slots are sums of all N coefficients
        let slots = |a: &Estimate| a.magnitude + self.root * self.root * a.wide;
        let (of_a, of_b) = (slots(a), slots(b));
        // without a flood, also of numbers that nothing bounds
        let times = |slots: f64, flood: f64| if flood == 0.0 { 0.0 } else { slots * flood };
        Estimate {
            magnitude: of_a * of_b,
            wide: 0.0,
            encoding: of_a * b.encoding + of_b * a.encoding + a.encoding * b.encoding,
            // a flooded number counts its flood as a part of the number, too
            noise: (of_a + a.encoding) * b.noise
                + (of_b + b.encoding) * a.noise
                + a.noise * b.noise
                + times(of_a, b.flood)
                + times(of_b, a.flood),
            flood: 0.0,
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
        let data = &ring.data_primes()[..a.level.min(self.parameters.data_primes())];
        let digits = data.chunks(self.parameters.digit_size());
        let digits: f64 = digits.map(|digit| primes(digit) / special).sum();
        let switched = digits * self.rounding() * self.bound(ERROR);
        self.plus(a, switched + self.rounding() * (1.0 + self.secret()))
    }

    /// Does every coefficient, with its error, stay below 15/16 of half the modulus of the level?
    /// If not, numbers may overflow, and no bound holds.
    pub fn fits(&self, a: &Estimate) -> bool {
        a.largest() <= self.most(a)
    }

    /// The largest number that fits at the scale and the level of this one.
    pub(super) fn most(&self, a: &Estimate) -> f64 {
        let level = a.level.min(self.parameters.data_primes());
        let half = Magnitude::modulus(&self.parameters, level).quotient(Magnitude::of(2));
        match Magnitude::of_f64(a.scale) {
            Some(scale) => USABLE * half.quotient(scale).to_f64(),
            None => 0.0,
        }
    }

    /// A rescaled ciphertext. Where the level has no prime to divide by, its error is infinite.
    pub fn rescale(&self, a: &Estimate) -> Estimate {
        self.rescale_parts(a, 2)
    }

    /// A rescaled ciphertext of this many parts: each is rounded, and the last one counts times a
    /// power of the secret.
    pub(super) fn rescale_parts(&self, a: &Estimate, parts: usize) -> Estimate {
        let last = a.level.checked_sub(1).filter(|last| *last > 0);
        let Some(prime) = last.and_then(|last| self.parameters.ring().data_primes().get(last)) else {
            return Estimate { noise: f64::INFINITY, ..*a };
        };
        let prime = prime.modulus().value();
        let divided = Estimate { scale: a.scale / prime as f64, level: a.level - 1, ..*a };
        let powers: f64 = (0..parts as i32).map(|power| self.secret().powi(power)).sum();
        self.plus(&divided, self.rounding() * powers)
    }
}

/// The error of numbers of at most 1 after an encryption under a public key and `depth` products
/// with rescalings that follow each other: `(e, d)` stands for `e` over the scale, plus `d` for
/// doubles. Key switches are not counted: at the scale of a product their error is far below.
pub(super) fn chain(degree: usize, depth: usize) -> (f64, f64) {
    let root = (degree as f64).sqrt();
    let bound = |deviation: f64| 6.0 * deviation * root;
    let (secret, rounding) = (bound((2.0f64 / 3.0).sqrt()), bound((1.0f64 / 12.0).sqrt()));
    let fresh = rounding + bound(ERROR) * (1.0 + 2.0 * secret);
    let rescaling = rounding * (1.0 + secret);
    let growth = 2f64.powi(depth.min(1_000) as i32);
    let doubles = 60.0 * EPSILON * root * f64::from(degree.ilog2());
    (growth * (fresh + rescaling) - rescaling, growth * doubles)
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
    /// Compares slots with the expected ones. Errors are infinite if no slot is expected, if a slot
    /// is NaN, and where a number is expected and none was found.
    pub fn of(found: &[f64], expected: &[f64]) -> Self {
        let found = found.iter().copied().chain(std::iter::repeat(f64::NAN));
        let error = |(a, b): (f64, &f64)| if a.is_nan() { f64::INFINITY } else { (a - b).abs() };
        let mut errors: Vec<f64> = found.zip(expected).map(error).collect();
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
    use crate::ckks::{Ciphertext, Decryptor, EncodeError, OperationError, ReleaseError};
    use proptest::prelude::*;

    #[test]
    fn reports_count_every_slot() {
        let precision = Precision::of(&[0.0, f64::NAN, 1.0], &[0.0, 0.0]);
        assert_eq!((precision.max(), precision.least_bits()), (f64::INFINITY, f64::NEG_INFINITY));
        assert_eq!(Precision::of(&[], &[]).max(), f64::INFINITY);
        let missing = Precision::of(&[1.0, 2.0], &[1.0, 2.0, 3.0]);
        assert_eq!((missing.max(), missing.median()), (f64::INFINITY, 0.0));
        assert_eq!(Precision::of(&[1.0], &[1.0]).least_bits(), f64::INFINITY);
    }

    #[test]
    fn noise_bits_bound_the_coefficients_noise() {
        let bits = |noise| {
            Estimate { magnitude: 1.0, wide: 0.0, encoding: 9.0, noise, flood: 0.0, scale: 4.0, level: 1 }.noise_bits()
        };
        assert_eq!([0.0, 0.1, 0.25, 0.49, 0.5, 255.9, 256.0].map(bits), [1, 1, 1, 1, 2, 10, 11]);
        assert_eq!([f64::NAN, f64::INFINITY].map(bits), [u32::MAX; 2]);
        assert!(crate::ckks::FloodBudget::new(&Bench::new(&[50, 40]).secret, u32::MAX, 40, 1).is_err());
        // of a real ciphertext
        let mut bench = Bench::new(&[50, 40]);
        let estimator = Estimator::new(bench.evaluator.parameters());
        let a = bench.encrypt(&[], 30, 1);
        let estimate = estimator.encrypt(&estimator.encode(0.0, &Scale::power_of_two(30), 1));
        assert!(bench.secret.noise(a.inner()).log2() <= f64::from(estimate.noise_bits()));
    }

    /// The exact element of the encoded numbers goes through the same operations as the ciphertext.
    #[test]
    fn noise_is_counted_from_the_encoded_numbers() {
        let mut bench = Bench::new(&[50, 40, 40, 40]);
        let numbers: Vec<f64> = (0..32).map(|j| (f64::from(j) / 5.0).cos()).collect();
        let scale = Scale::power_of_two(40);
        let plaintext = bench.encoder.encode(&numbers, &scale, 4).unwrap();
        let x = bench.encrypt(&numbers, 40, 4);
        let evaluator = &bench.evaluator;
        let mut histories = vec![(x, plaintext.element().clone())];
        for turn in 0..2 {
            for (a, exact) in histories.clone() {
                let (mut sum, mut square, mut product) = (exact.clone(), exact.clone(), exact.clone());
                sum.add_assign(&exact);
                square.mul_assign(&exact);
                histories.push((evaluator.add(&a, &a).unwrap(), sum));
                if turn == 0 {
                    histories.push((evaluator.mul(&a, &a, &bench.keys).unwrap(), square));
                    product.mul_assign(plaintext.element());
                    histories.push((evaluator.mul_plain(&a, &plaintext).unwrap(), product));
                }
                let mut multiple = exact;
                multiple.scale_assign(-77);
                histories.push((evaluator.mul_integer(&a, -77).unwrap(), multiple));
            }
        }
        for (one, exact) in &histories {
            let (mut phase, mut message) = (one.phase(&bench.secret).unwrap(), exact.clone().inverse());
            message.neg_assign();
            phase.add_assign(&message);
            let (coefficients, bound) = (crate::ckks::encode::coefficients_of(&phase), one.estimate().unwrap());
            let most = coefficients.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            assert!(most <= bound.noise() * bound.scale(), "{most} {bound:?}");
            assert!(most * 2f64.powi(10) > bound.noise() * bound.scale(), "{most} {bound:?}");
        }
        assert_eq!(histories.len(), 15);
    }

    /// Doubles a number until it overflows. The estimate predicts this, and not much too early: the
    /// evaluator refuses the sum that comes back as another number.
    #[test]
    fn numbers_fit_until_they_wrap_around() {
        let mut bench = Bench::new(&[50, 40]);
        let estimator = Estimator::new(bench.evaluator.parameters());
        let scale = Scale::power_of_two(40);
        let mut a = bench.encrypt(&[1.01; 32], 40, 1);
        let mut estimate = estimator.encrypt(&estimator.encode(1.01, &scale, 1));
        let mut expected = 1.01;
        // 1.01 · 2^40 · 2^9 is a little more than half of the prime, which is below 2^50
        for doublings in 0..9 {
            assert!(estimator.fits(&estimate), "{doublings}");
            assert_eq!(a.estimate(), Some(&estimate));
            assert!(bench.error(&a, &[expected; 32]) <= estimate.error(), "{doublings}");
            let sum = bench.evaluator.add(&a, &a);
            assert_eq!(sum.is_ok(), doublings < 8, "{doublings}");
            if let Err(error) = sum {
                assert!(matches!(error, OperationError::Overflow { level: 1, .. }), "{error}");
            }
            // the sum without a check, which nobody else can make
            let sum = Ciphertext::new(a.inner().sum(a.inner()), scale.clone(), None);
            (estimate, expected) = (estimator.add(&estimate, &estimate), 2.0 * expected);
            a = Ciphertext::new(sum.into_inner(), scale.clone(), estimator.fits(&estimate).then_some(estimate));
        }
        assert!(!estimator.fits(&estimate));
        let decryptor = Decryptor::new(&bench.secret, &bench.encoder).unwrap();
        assert_eq!(decryptor.decrypt(&a).map(drop), Err(ReleaseError::NoMessage));
        a = Ciphertext::new(a.inner().sum(a.inner()), scale, None);
        assert!(bench.error(&a, &[2.0 * expected; 32]) > 1_000.0, "another number, without any sign");
    }

    /// A ciphertext, its expected slots, and its estimate.
    #[derive(Clone)]
    struct Value {
        ciphertext: Ciphertext,
        slots: Vec<f64>,
        estimate: Estimate,
    }

    fn start(bench: &mut Bench, estimator: &Estimator, numbers: &[f64], range: f64, seeded: bool) -> Value {
        let scale = Scale::power_of_two(40);
        let estimate = estimator.encode(range, &scale, 4);
        let plaintext = bench.encoder.within(range).encode(numbers, &scale, 4).unwrap();
        let (ciphertext, estimate) = if seeded {
            let ciphertext = plaintext.encrypt_seeded(&bench.secret, &mut bench.rng).unwrap().expand();
            (ciphertext, estimator.encrypt_seeded(&estimate))
        } else {
            (plaintext.encrypt(&bench.public, &mut bench.rng).unwrap(), estimator.encrypt(&estimate))
        };
        Value { ciphertext, slots: numbers.to_vec(), estimate }
    }

    fn step(bench: &Bench, estimator: &Estimator, value: &Value, operation: u8) -> Result<Value, OperationError> {
        let Value { ciphertext: c, slots, estimate: e } = value;
        let (evaluator, keys) = (&bench.evaluator, &bench.keys);
        let (ciphertext, slots, estimate): (_, Vec<f64>, _) = match operation {
            0 => (evaluator.add(c, c)?, slots.iter().map(|x| 2.0 * x).collect(), estimator.add(e, e)),
            1 => {
                let mut moved = slots.clone();
                moved.rotate_left(3);
                (evaluator.rotate(c, 3, keys)?, moved, estimator.switch(e))
            }
            2 | 4 if c.level() > 1 => {
                let product = match operation {
                    2 => evaluator.rescale(&evaluator.mul(c, c, keys)?),
                    _ => evaluator.mul_rescale(c, c, keys),
                };
                let squares = slots.iter().map(|x| x * x).collect();
                (product?, squares, estimator.rescale(&estimator.mul(e, e)))
            }
            3 if c.level() > 1 => {
                let numbers: Vec<f64> = (0..32).map(|j| f64::from(j * 11 % 17) / 8.5 - 1.0).collect();
                let scale = Scale::prime(c.level() - 1);
                let plaintext = bench.encoder.encode(&numbers, &scale, c.level()).unwrap();
                let product = evaluator.rescale(&evaluator.mul_plain(c, &plaintext)?)?;
                let products = slots.iter().zip(&numbers).map(|(x, y)| x * y).collect();
                let estimate = estimator.tensor(e, &estimator.encode(1.0, &scale, c.level()));
                (product, products, estimator.rescale(&estimate))
            }
            _ => {
                let Some((ciphertext, slots)) = further(bench, c, slots, operation)? else { return Ok(value.clone()) };
                // the bounds that it carries, which the numbers must keep
                let estimate = *ciphertext.estimate().unwrap();
                (ciphertext, slots, estimate)
            }
        };
        Ok(Value { ciphertext, slots, estimate })
    }

    /// The other operations; none if no level is left.
    fn further(
        bench: &Bench,
        c: &Ciphertext,
        slots: &[f64],
        operation: u8,
    ) -> Result<Option<(Ciphertext, Vec<f64>)>, OperationError> {
        let (evaluator, keys, low) = (&bench.evaluator, &bench.keys, c.level() == 1);
        let map = |of: &dyn Fn(f64) -> f64| slots.iter().map(|x| of(*x)).collect::<Vec<f64>>();
        let turned = |steps: usize| {
            let mut turned = slots.to_vec();
            turned.rotate_left(steps);
            turned
        };
        Ok(Some(match operation {
            5 => (evaluator.mul_integer(c, -3)?, map(&|x| -3.0 * x)),
            6 => (evaluator.add_constant(c, 2.5)?, map(&|x| x + 2.5)),
            7 => (evaluator.conjugate(c, keys)?, slots.to_vec()),
            8 => {
                let sum = evaluator.sum_slots(c, 2, keys)?;
                (sum, slots.iter().zip(turned(1)).map(|(a, b)| a + b).collect())
            }
            9 => {
                let difference = evaluator.sub(c, &evaluator.rotate(c, 16, keys)?)?;
                (difference, slots.iter().zip(turned(16)).map(|(a, b)| a - b).collect())
            }
            10 => {
                let p = bench.encoder.encode(&turned(5), c.scale(), c.level())?;
                (evaluator.add_plain(c, &p)?, slots.iter().zip(turned(5)).map(|(a, b)| a + b).collect())
            }
            11 => {
                let matrix = crate::ring::WeightMatrix::new(2, &[300, -700]).unwrap();
                let sums = evaluator.weighted_sums(&matrix, 9, &[c, &evaluator.neg(c)?])?;
                (sums.into_iter().next().unwrap(), map(&|x| 1_000.0 / 512.0 * x))
            }
            _ if low => return Ok(None),
            12 => (evaluator.rescale(&evaluator.mul_constant(c, -0.7)?)?, map(&|x| -0.7 * x)),
            13 => (evaluator.to_level(c, c.level() - 1)?, slots.to_vec()),
            14 => (evaluator.set_scale(c, &Scale::power_of_two(38))?, slots.to_vec()),
            15 => (evaluator.polynomial(c, &[0.5, -0.25], keys)?, map(&|x| 0.5 - 0.25 * x)),
            16 => {
                let square = evaluator.mul_rescale(c, c, keys)?;
                let (a, b) = evaluator.align(c, &square)?;
                (evaluator.add(&a, &b)?, map(&|x| x + x * x))
            }
            _ => return Ok(None),
        }))
    }

    proptest! {
        #![proptest_config(crate::rlwe::tests::cases(50))]
        #[test]
        fn no_circuit_is_less_precise_than_foretold(
            numbers in prop::collection::vec(-1.0..1.0f64, 32),
            operations in prop::collection::vec(0u8..17, 1..9),
            log_range in -4i32..12,
            seeded: bool,
        ) {
            let range = 2f64.powi(log_range);
            let numbers: Vec<f64> = numbers.iter().map(|x| x * range).collect();
            let mut bench = Bench::new(&[50, 40, 40, 40]);
            let estimator = Estimator::new(bench.evaluator.parameters());
            let mut value = start(&mut bench, &estimator, &numbers, range, seeded);
            for operation in operations.iter().copied() {
                value = match step(&bench, &estimator, &value, operation) {
                    Ok(value) => value,
                    Err(OperationError::Overflow { magnitude, error, most, .. }) => {
                        prop_assert!(magnitude + error > most);
                        break;
                    }
                    // scales that do not fit, and numbers that are no plaintext of this level
                    Err(
                        OperationError::NoRoom { .. }
                        | OperationError::Rounding { .. }
                        | OperationError::Encode(EncodeError::TooLarge { .. } | EncodeError::Scale { .. }),
                    ) => break,
                    Err(error) => return Err(TestCaseError::fail(error.to_string())),
                };
                prop_assert!(estimator.fits(&value.estimate));
                let carried = value.ciphertext.estimate().unwrap();
                prop_assert_eq!(carried.level(), value.ciphertext.level());
                for (a, b) in [
                    (carried.magnitude(), value.estimate.magnitude()),
                    (carried.error(), value.estimate.error()),
                    (carried.scale(), value.estimate.scale()),
                ] {
                    prop_assert!((a - b).abs() <= 0.1 * b, "{} {}", a, b);
                }
                let error = bench.error(&value.ciphertext, &value.slots);
                prop_assert!(error <= value.estimate.error(), "{error:e} > {:e}", value.estimate.error());
                // and not by a wide margin
                if range <= 1.0 && operations.iter().all(|operation| *operation < 5) {
                    prop_assert!(value.estimate.error() < 2f64.powi(16) * error);
                }
                let most = value.estimate.magnitude() * (1.0 + 1e-12);
                prop_assert!(value.slots.iter().all(|x| x.abs() <= most));
            }
        }
    }
}
