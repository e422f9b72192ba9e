//! Results that leave the key holder.
//!
//! A party that sees a ciphertext and its full decryption also sees its error: `c_0 + c_1 s - m` is
//! known up to the rounding of doubles, and a few such linear equations give the secret `s` (Li,
//! Micciancio, EUROCRYPT 2021). Evaluated ciphertexts are no better than fresh ones. So there are
//! three kinds of release, and **the first one is only for the key holder**:
//!
//! | release | gives | safe for parties that may have seen the ciphertext? |
//! |---|---|---|
//! | [`Decryptor::decrypt`] | all slots | no |
//! | [`Decryptor::rounded`], [`Decryptor::label`], [`Decryptor::top`] | a few bits | no proof |
//! | [`Decryptor::flooded`] | all slots, less precise | yes, within the [`FloodBudget`] |
//!
//! The second kind limits the damage, but has **no proof**: each rounded number that is close to a
//! step still leaks a little of the error.
//!
//! # What flooding gives
//! The coefficients of a decrypted element are `m + e`, where `m` are those of the exact result of
//! the encoded numbers. Let `|e| ≤ 2^b` for all possible ciphertexts (a worst-case bound: attacks
//! on average estimates are known, Guo, Nabokov, Suvanto, Johansson, USENIX Security 2024), and let
//! `u` be uniform on `[-2^f, 2^f)`. Then `m + e + u` is within statistical distance `|e| / 2^(f+1)`
//! of `m + u`, which does not depend on `s`; over `N` coefficients and `k` results the distance is
//! at most
//!
//! ```text
//! k N 2^(b - f - 1)  ≤  2^-λ      for     f = b + λ - 1 + ⌈log2 N⌉ + ⌈log2 k⌉,
//! ```
//!
//! so an adversary who gets these `k` results of ciphertexts whose `m` it knows (IND-CPA-D) gains
//! at most `2^-λ` over one who gets `m + u`. The statement holds for all results under one key
//! **together**: a key has one budget, for all its uses. The slots become noisier by about
//! `√(N/3) 2^f / Δ`. Flooding does not protect the decryption of ciphertexts that an adversary
//! *made* (IND-CCA).
//!
//! A flood of a hundred bits needs more room than most sets have. The set `ckks-flood` of
//! [`NamedSet`](crate::params::NamedSet) gives a thousand results within `2^-40` together, right to
//! six bits.
//!
//! # Leakage
//! The number of words of coefficients, and whether one or two primes determine them.
//! [`Decryptor::rounded`], [`Decryptor::label`] and [`Decryptor::top`] have no branch and no
//! address that depends on a slot. Masks alone do not ensure that: the compiler turned them into
//! branches. So each choice goes through the crate `subtle`, whose barrier hides from the compiler
//! that a mask has only two values. A test compares the executed instructions for two secrets.

use super::encode::{coefficients_of, keep};
use super::precision::USABLE;
use super::scale::Magnitude;
use super::{Ciphertext, Complex, Encoder, Estimate, OperationError, Plaintext};
use crate::params::LatticeParameters;
use crate::ring::{Coeff, Domain, Poly, Seed};
use crate::rlwe::{KeyId, SecretKey};
use rand_core::CryptoRng;
use subtle::{ConditionallySelectable, ConstantTimeEq, ConstantTimeGreater};
use zeroize::Zeroizing;

/// Why a release failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// An object of other parameters.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// A decryption that is no message.
    #[error("{}", super::encode::NO_MESSAGE)]
    NoMessage,
    /// A slot that does not exist.
    #[error("expected slots below {most}, found {found}")]
    Slot {
        /// `N/2`.
        most: usize,
        /// The one asked for.
        found: usize,
    },
    /// More labels than classes, or no class.
    #[error("expected from 1 to {most} labels, found {found}")]
    Labels {
        /// The classes.
        most: usize,
        /// Labels asked for.
        found: usize,
    },
    /// More bits than a rounded number may have.
    #[error("expected at most {most} bits behind the point, found {found}")]
    Bits {
        /// The most.
        most: u32,
        /// The number given.
        found: u32,
    },
    /// The budget is spent: no more results under this key.
    #[error("expected a budget with a result left, found it spent")]
    Spent,
    /// Flooding wider than the sampler supports.
    #[error("expected at most {most} bits of flooding, found {found}")]
    Flooding {
        /// The most.
        most: u32,
        /// The bits that the budget needs.
        found: u32,
    },
    /// More noise than the budget was made for, so that its flood would not hide it.
    #[error(
        "expected noise of at most {most} bits, which the budget hides, found a bound of {found} bits: make a budget \
         for more noise"
    )]
    Noise {
        /// The bits that the budget hides.
        most: u32,
        /// Those of the ciphertext's bound.
        found: u32,
    },
    /// Flooding that leaves nothing of the numbers.
    #[error(
        "expected flooding below the numbers, which are at most {magnitude:.3}, found an error of up to {error:.1e}: \
         encrypt with a larger scale, or make a budget for fewer results"
    )]
    Drowned {
        /// The bound on the numbers.
        magnitude: f64,
        /// That on the error of a flooded result.
        error: f64,
    },
    /// Flooding that would overflow the modulus.
    #[error("expected a modulus of more than {least} bits to flood, found {found}")]
    NoRoom {
        /// The bits that the flooding needs.
        least: u32,
        /// Bits of the modulus.
        found: u32,
    },
}

/// Decrypts, for one of three purposes. A ciphertext with all digits of its decryption gives
/// equations for the secret, so [`Self::decrypt`] is only for the key holder. [`Self::rounded`],
/// [`Self::label`] and [`Self::top`] limit the damage without a proof. Results of [`Self::flooded`]
/// may be shown, as many as the [`FloodBudget`] allows.
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_lattice::ckks::{Decryptor, Encoder, Scale};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::rlwe::SecretKey;
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
/// let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, Plaintext::Approximate)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let encoder = Encoder::new(&parameters)?.within(8.0);
/// let plaintext = encoder.encode(&[1.5, 7.2501, -2.0], &Scale::power_of_two(30), 2)?;
/// let ciphertext = plaintext.encrypt_seeded(&secret, &mut rng)?.expand();
/// let decryptor = Decryptor::new(&secret, &encoder)?;
/// assert_eq!(decryptor.label(&ciphertext, &[0, 1, 2])?, 1);
/// assert_eq!(decryptor.rounded(&ciphertext, 2)?[..3], [1.5, 7.25, -2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Decryptor<'a> {
    secret: &'a SecretKey,
    encoder: &'a Encoder,
}

/// The most fractional bits of a rounded result.
const MOST_BITS: u32 = 52;

impl<'a> Decryptor<'a> {
    /// A decryptor with this secret.
    ///
    /// # Errors
    /// [`OperationError::OtherParameters`] if the encoder is for others.
    pub fn new(secret: &'a SecretKey, encoder: &'a Encoder) -> Result<Self, OperationError> {
        if secret.parameters() != encoder.parameters() {
            return Err(OperationError::OtherParameters);
        }
        Ok(Self { secret, encoder })
    }

    /// The real parts of all slots. **Never show them to anybody who may see ciphertexts.**
    ///
    /// # Errors
    /// [`ReleaseError`] for a ciphertext of other parameters, or of another key: one that does not
    /// decrypt to a message within its bounds.
    pub fn decrypt(&self, ciphertext: &Ciphertext) -> Result<Zeroizing<Vec<f64>>, ReleaseError> {
        Ok(Zeroizing::new(self.decrypt_complex(ciphertext)?.iter().map(|z| z.re).collect()))
    }

    /// The plaintext with its error, to decode later: decoding has the errors of
    /// [`Self::decrypt`]. As with that, **never show it**.
    ///
    /// # Errors
    /// [`ReleaseError`] for a ciphertext of other parameters.
    pub fn plaintext(&self, ciphertext: &Ciphertext) -> Result<Plaintext, ReleaseError> {
        let mut values = ciphertext.phase_values(self.secret)?;
        let empty = Poly::zero(values.ring(), values.ring().basis(1));
        let element = std::mem::replace(&mut *values, empty);
        Ok(Plaintext::of_decryption(self.secret.parameters(), element, ciphertext.scale(), self.most(ciphertext)))
    }

    /// The bound on the coefficients of a decryption: that of the ciphertext's estimate, and in any
    /// case [15/16](super::Estimator::fits) of half the modulus. A key of somebody else gives
    /// uniform coefficients, and all of them keep the bound with a chance of `(15/16)^N`.
    fn most(&self, ciphertext: &Ciphertext) -> f64 {
        // a modulus beyond all doubles bounds the finite ones
        let most = (USABLE * self.half(ciphertext)).min(f64::MAX);
        let declared = ciphertext.estimate().map_or(most, |estimate| estimate.largest() * estimate.scale());
        most.min(declared)
    }

    /// Half the modulus.
    fn half(&self, ciphertext: &Ciphertext) -> f64 {
        Magnitude::modulus(self.secret.parameters(), ciphertext.level()).quotient(Magnitude::of(2)).to_f64()
    }

    /// The coefficients of a phase, if all keep this bound.
    fn message(phase: &Poly<Coeff>, most: f64) -> Result<Zeroizing<Vec<f64>>, ReleaseError> {
        let coefficients = coefficients_of(phase);
        if keep(&coefficients, most) { Ok(coefficients) } else { Err(ReleaseError::NoMessage) }
    }

    /// All complex slots. As with [`Self::decrypt`], **never show them**.
    ///
    /// # Errors
    /// As [`Self::decrypt`].
    pub fn decrypt_complex(&self, ciphertext: &Ciphertext) -> Result<Zeroizing<Vec<Complex>>, ReleaseError> {
        let phase = ciphertext.phase(self.secret)?;
        let mut coefficients = Self::message(&phase, self.most(ciphertext))?;
        Ok(self.encoder.slots_of(&mut coefficients, ciphertext.scale()))
    }

    /// The real parts of all slots as multiples of `2^-bits`, half to even. Use as few bits as the
    /// purpose allows.
    ///
    /// # Errors
    /// As [`Self::decrypt`], and for more than 52 bits.
    pub fn rounded(&self, ciphertext: &Ciphertext, bits: u32) -> Result<Zeroizing<Vec<f64>>, ReleaseError> {
        if bits > MOST_BITS {
            return Err(ReleaseError::Bits { most: MOST_BITS, found: bits });
        }
        let unit = (1u64 << bits) as f64;
        let mut slots = self.decrypt(ciphertext)?;
        for slot in slots.iter_mut() {
            // the unit is a power of two: both products are exact
            *slot = integer_of(*slot * unit) * (1.0 / unit);
        }
        Ok(slots)
    }

    /// The slot with the largest real part: its place in `slots`, the first one of equals.
    ///
    /// # Errors
    /// As [`Self::decrypt`], and for no slots, or slots that do not exist.
    pub fn label(&self, ciphertext: &Ciphertext, slots: &[usize]) -> Result<usize, ReleaseError> {
        Ok(self.top(ciphertext, slots, 1)?[0])
    }

    /// The places of the `count` largest, the largest first.
    ///
    /// # Errors
    /// As [`Self::label`], and if there are fewer slots.
    pub fn top(&self, ciphertext: &Ciphertext, slots: &[usize], count: usize) -> Result<Vec<usize>, ReleaseError> {
        if !(1..=slots.len()).contains(&count) {
            return Err(ReleaseError::Labels { most: slots.len(), found: count });
        }
        let most = self.encoder.slots();
        if let Some(found) = slots.iter().find(|slot| **slot >= most) {
            return Err(ReleaseError::Slot { most, found: *found });
        }
        let all = self.decrypt(ciphertext)?;
        let mut keys: Zeroizing<Vec<u64>> = Zeroizing::new(slots.iter().map(|slot| ordered(all[*slot])).collect());
        Ok((0..count).map(|_| take_largest(&mut keys)).collect())
    }

    /// The real parts of all slots with a flood that hides the noise, if the budget has a result
    /// left. Their error is at most [`FloodBudget::error`].
    ///
    /// # Errors
    /// As [`Self::flooded_complex`].
    pub fn flooded(
        &self,
        ciphertext: &Ciphertext,
        budget: &mut FloodBudget,
        rng: &mut impl CryptoRng,
    ) -> Result<Zeroizing<Vec<f64>>, ReleaseError> {
        let slots = self.flooded_complex(ciphertext, budget, rng)?;
        Ok(Zeroizing::new(slots.iter().map(|z| z.re).collect()))
    }

    /// All complex slots, as [`Self::flooded`] gives their real parts.
    ///
    /// # Errors
    /// [`ReleaseError`] for a ciphertext or a budget of another key, a ciphertext without bounds or
    /// with more noise than the budget hides, a flood as large as the numbers, a spent budget, a
    /// level whose modulus is below `2^(f+2)`, or a coefficient that leaves no room for the flood:
    /// half of the modulus is for the flood, the other half for scaled messages. After an error
    /// nothing is spent.
    pub fn flooded_complex(
        &self,
        ciphertext: &Ciphertext,
        budget: &mut FloodBudget,
        rng: &mut impl CryptoRng,
    ) -> Result<Zeroizing<Vec<Complex>>, ReleaseError> {
        let parameters = self.encoder.parameters();
        if *parameters != budget.parameters || parameters != ciphertext.parameters() {
            return Err(OperationError::OtherParameters.into());
        }
        KeyId::joined([self.secret.id(), budget.key]).map_err(OperationError::from)?;
        let (error, estimate) = (budget.error(ciphertext)?, budget.admitted(ciphertext)?);
        let magnitude = estimate.magnitude();
        // NaN bounds nothing
        if magnitude.is_nan() || error >= magnitude {
            return Err(ReleaseError::Drowned { magnitude, error });
        }
        let least = budget.flood_bits() + 2;
        let moduli = &parameters.ring().data_primes()[..ciphertext.level()];
        let found = moduli.iter().map(|table| table.modulus().bits() - 1).sum();
        if found < least {
            return Err(ReleaseError::NoRoom { least, found });
        }
        let mut phase = ciphertext.phase(self.secret)?;
        // with the flood, too, a coefficient must stay below half the modulus
        let room = self.half(ciphertext) - 2f64.powi(budget.flood_bits() as i32);
        Self::message(&phase, self.most(ciphertext).min(room))?;
        budget.left = budget.left.checked_sub(1).ok_or(ReleaseError::Spent)?;
        let mut stream = Seed::random(rng).stream(Domain::Flood, 0);
        let flood = Poly::uniform_integers(phase.ring(), phase.basis(), budget.flood_bits(), &mut stream);
        phase.add_assign(&Zeroizing::new(flood));
        Ok(self.encoder.slots_of(&mut coefficients_of(&phase), ciphertext.scale()))
    }
}

/// A number whose order as an integer is that of the double, never 0.
fn ordered(x: f64) -> u64 {
    let bits = x.to_bits();
    let negative = (bits as i64 >> 63) as u64;
    (bits ^ (negative | 1 << 63)).max(1)
}

/// The nearest integer to a decrypted number, half to even, with its sign: `f64::round_ties_even`
/// without a branch on the number. The standard function may call the system's library, whose time
/// may depend on the number.
///
/// # Example
///
/// ```
/// use tobari_lattice::ckks::integer_of;
/// assert_eq!([0.5, 1.5, -1.7, 2.25].map(integer_of), [0.0, 2.0, -2.0, 2.0]);
/// ```
pub fn integer_of(x: f64) -> f64 {
    /// From here on every double is an integer.
    const INTEGERS: f64 = (1u64 << 52) as f64;
    let sign = x.to_bits() & 1 << 63;
    let magnitude = x.to_bits() ^ sign;
    // a sum of this size has no fractional bits: the addition rounds, half to even
    let mut rounded = (f64::from_bits(magnitude) + INTEGERS - INTEGERS).to_bits();
    rounded.conditional_assign(&magnitude, magnitude.ct_gt(&INTEGERS.to_bits()));
    f64::from_bits(rounded | sign)
}

/// The place of the largest number, the first one of equals. Sets that number to 0.
fn take_largest(keys: &mut [u64]) -> usize {
    let (mut largest, mut place) = (0, 0);
    for (i, key) in (0u64..).zip(keys.iter()) {
        let larger = key.ct_gt(&largest);
        largest.conditional_assign(key, larger);
        place.conditional_assign(&i, larger);
    }
    for (i, key) in (0u64..).zip(keys.iter_mut()) {
        key.conditional_assign(&0, i.ct_eq(&place));
    }
    place as usize
}

/// The most bits of flooding.
const MOST_FLOOD: u32 = 120;

/// The number of flooded results that a key may give, and the width of the noise. Make one budget
/// for each key; it serves this key alone, and cannot be copied.
///
/// For `k` results of `N` coefficients with noise of at most `2^b`, a flood on `[-2^f, 2^f)` with
/// `f = b + λ - 1 + ⌈log2 N⌉ + ⌈log2 k⌉` makes all results together independent of the secret,
/// up to a statistical distance of `k N 2^(b - f - 1) ≤ 2^-λ`. `b` must bound the worst possible
/// ciphertext, not the usual one: a ciphertext whose [estimate](super::Estimate) says more is
/// refused.
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_lattice::ckks::FloodBudget;
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::rlwe::SecretKey;
/// let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, Plaintext::Approximate)?;
/// // a program takes its randomness from the system
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]);
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// // noise of at most 2^10, and 100 results, together within 2^-40 of harmless
/// // take a flood of 10 + 40 - 1 + 12 + 7 bits
/// let budget = FloodBudget::new(&secret, 10, 40, 100)?;
/// assert_eq!((budget.flood_bits(), budget.left()), (68, 100));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail
/// fn twice(budget: tobari_lattice::ckks::FloodBudget) -> [tobari_lattice::ckks::FloodBudget; 2] { [budget.clone(), budget] }
/// ```
pub struct FloodBudget {
    parameters: LatticeParameters,
    key: Option<KeyId>,
    noise_bits: u32,
    flood_bits: u32,
    security_bits: u32,
    left: u32,
}

impl FloodBudget {
    /// A budget of this key for `results` results, within a statistical distance of
    /// `2^-security_bits` together, of ciphertexts with noise of at most `2^noise_bits` in each
    /// coefficient: [`Estimate::noise_bits`](super::Estimate::noise_bits) of the noisiest one.
    ///
    /// # Errors
    /// [`ReleaseError::Flooding`] if the flood needs more than 120 bits.
    pub fn new(secret: &SecretKey, noise_bits: u32, security_bits: u32, results: u32) -> Result<Self, ReleaseError> {
        let parameters = secret.parameters();
        let log_degree = parameters.degree().ilog2();
        let log_results = u64::from(results).next_power_of_two().ilog2();
        let bits = noise_bits.saturating_add(security_bits).saturating_add(log_degree + log_results).saturating_sub(1);
        if bits > MOST_FLOOD {
            return Err(ReleaseError::Flooding { most: MOST_FLOOD, found: bits });
        }
        let (parameters, key) = (parameters.clone(), secret.id());
        Ok(Self { parameters, key, noise_bits, flood_bits: bits, security_bits, left: results })
    }

    /// The bounds of a ciphertext whose noise the flood hides.
    fn admitted<'a>(&self, ciphertext: &'a Ciphertext) -> Result<&'a Estimate, ReleaseError> {
        let estimate = ciphertext.estimate().ok_or(OperationError::NoEstimate)?;
        let (most, found) = (self.noise_bits, estimate.noise_bits());
        if found <= most { Ok(estimate) } else { Err(ReleaseError::Noise { most, found }) }
    }

    /// A bound on the error of each slot if this ciphertext is released: that of its estimate, and
    /// `6 √(N/3) 2^f` over the scale for the flood. A result exceeds it with a chance below
    /// `N 2^-52`.
    ///
    /// # Errors
    /// [`ReleaseError`] for a ciphertext of other parameters, one without bounds, or one with more
    /// noise than the budget hides.
    pub fn error(&self, ciphertext: &Ciphertext) -> Result<f64, ReleaseError> {
        if self.parameters != *ciphertext.parameters() {
            return Err(OperationError::OtherParameters.into());
        }
        let estimate = self.admitted(ciphertext)?;
        let flood = 6.0 * (self.parameters.degree() as f64 / 3.0).sqrt() * 2f64.powi(self.flood_bits as i32);
        Ok(estimate.error() + flood / estimate.scale())
    }

    /// `b`: the noise of each coefficient is at most `2^b`.
    pub fn noise_bits(&self) -> u32 {
        self.noise_bits
    }

    /// Subtracts results that were given before, for instance by an earlier run of the program.
    pub fn spend(&mut self, results: u32) {
        self.left = self.left.saturating_sub(results);
    }

    /// Results left.
    pub fn left(&self) -> u32 {
        self.left
    }

    /// `f`: the flood is uniform on `[-2^f, 2^f)`.
    pub fn flood_bits(&self) -> u32 {
        self.flood_bits
    }

    /// `λ`: all results together are independent of the secret up to a distance of `2^-λ`.
    pub fn security_bits(&self) -> u32 {
        self.security_bits
    }
}

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::super::tests::Bench;
    use super::*;
    use crate::ring::Reconstruction;

    #[test]
    fn the_order_of_doubles_is_kept() {
        let numbers = [f64::NEG_INFINITY, -1e300, -2.0, -1.0, -1e-300, 0.0, 1e-300, 0.5, 1.0, f64::INFINITY];
        assert!(numbers.map(ordered).windows(2).all(|pair| 0 < pair[0] && pair[0] < pair[1]));
    }

    #[test]
    fn fault_34_numbers_are_rounded_half_to_even() {
        let of_steps = (-40..40).flat_map(|step| [0.0, 1e-9, -1e-9].map(|near| f64::from(step) / 4.0 + near));
        let (half, large) = (2f64.powi(51), 2f64.powi(52));
        let others = [-0.0, 1e-300, half - 0.5, half + 0.5, half + 1.5, large - 0.5, large + 1.0, 1e300, f64::INFINITY];
        for x in of_steps.chain(others).flat_map(|x| [x, -x]) {
            assert_eq!(integer_of(x).to_bits(), x.round_ties_even().to_bits(), "{x}");
        }
        assert!(integer_of(f64::NAN).is_nan());
    }

    #[test]
    fn labels_are_the_largest_slots_in_their_order() {
        let mut bench = Bench::new(&[50, 40]);
        let numbers: Vec<f64> = (0..32).map(|j| f64::from(j * 13 % 32) - 16.0).collect();
        let ciphertext = bench.encrypt(&numbers, 30, 2);
        let decryptor = Decryptor::new(&bench.secret, &bench.encoder).unwrap();
        let slots: Vec<usize> = (3..23).collect();
        let mut expected: Vec<usize> = (0..slots.len()).collect();
        expected.sort_by(|a, b| numbers[slots[*b]].total_cmp(&numbers[slots[*a]]));
        assert_eq!(decryptor.top(&ciphertext, &slots, 20).unwrap(), expected);
        assert_eq!(decryptor.label(&ciphertext, &slots).unwrap(), expected[0]);
        let errors = [
            decryptor.top(&ciphertext, &slots, 21).unwrap_err(),
            decryptor.label(&ciphertext, &[]).unwrap_err(),
            decryptor.label(&ciphertext, &[1, 32]).unwrap_err(),
            decryptor.rounded(&ciphertext, 53).unwrap_err(),
        ];
        let expected = [
            ReleaseError::Labels { most: 20, found: 21 },
            ReleaseError::Labels { most: 0, found: 1 },
            ReleaseError::Slot { most: 32, found: 32 },
            ReleaseError::Bits { most: 52, found: 53 },
        ];
        assert_eq!(errors, expected);
    }

    #[test]
    fn rounded_results_have_no_more_bits_than_asked_for() {
        let mut bench = Bench::new(&[50, 40]);
        let numbers: Vec<f64> = (0..32).map(|j| f64::from(j) / 7.0 - 2.0).collect();
        let ciphertext = bench.encrypt(&numbers, 30, 2);
        let decryptor = Decryptor::new(&bench.secret, &bench.encoder).unwrap();
        let rounded = decryptor.rounded(&ciphertext, 3).unwrap();
        for (found, expected) in rounded.iter().zip(&numbers) {
            assert!((found * 8.0).fract() == 0.0 && (found - expected).abs() <= 1.0 / 16.0 + 1e-4);
        }
    }

    /// Computes a secret's coefficients from shown slots and the ciphertexts. Real parts of slots
    /// are those of `p(X) + p(1/X)`, for `p = c_0 + c_1 s`. Each ciphertext gives half as many
    /// equations, linear in `s`, as `s` has coefficients.
    fn solve(encoder: &Encoder, shown: &[(&Ciphertext, &[f64])]) -> Option<Vec<i64>> {
        let q = encoder.parameters().ring().data_primes()[0].modulus();
        let degree = encoder.parameters().degree();
        let mirrored = |row: &[u64], k: usize| q.sub(row[k], if k == 0 { q.sub(0, row[0]) } else { row[degree - k] });
        let mut rows: Vec<Vec<u64>> = Vec::new();
        for (ciphertext, slots) in shown {
            let [c0, c1] = [0, 1].map(|part| ciphertext.inner().parts()[part].clone().inverse().row(0).to_vec());
            let twice = Scale::power_of_two(31); // twice the scale, for sums of two coefficients
            let sums = encoder.encode(slots, &twice, 1).unwrap().element().clone().inverse().row(0).to_vec();
            for (k, sum) in sums.iter().enumerate().take(degree / 2) {
                // column j: the contribution of s_j to coefficient k and its mirror image
                let column = |j: usize| {
                    let turned: Vec<u64> =
                        (0..degree).map(|i| if i >= j { c1[i - j] } else { q.sub(0, c1[degree + i - j]) }).collect();
                    mirrored(&turned, k)
                };
                rows.push((0..degree).map(column).chain([q.sub(*sum, mirrored(&c0, k))]).collect());
            }
        }
        for column in 0..degree {
            let pivot = (column..rows.len()).find(|row| rows[*row][column] != 0)?;
            rows.swap(column, pivot);
            let inverse = q.inverse(rows[column][column])?;
            let of: Vec<u64> = rows[column].iter().map(|value| q.mul(*value, inverse)).collect();
            rows[column].clone_from(&of);
            for (_, row) in rows.iter_mut().enumerate().filter(|(place, _)| *place != column) {
                let times = row[column];
                row.iter_mut().zip(&of).for_each(|(value, other)| *value = q.sub(*value, q.mul(times, *other)));
            }
        }
        Some(rows[..degree].iter().map(|row| q.centred(row[degree])).collect())
    }

    /// Li and Micciancio's attack, the reason to show slots only to the key's holder.
    #[test]
    fn exact_slots_give_the_secret_away_and_labels_and_rounded_ones_do_not_by_the_same_equations() {
        let mut bench = Bench::new(&[50, 40]);
        let numbers = [1.0, -1.0].map(|sign| (0..32).map(|j| sign * f64::from(j) / 16.0).collect::<Vec<f64>>());
        let ciphertexts = [0, 1].map(|which| bench.encrypt(&numbers[which], 30, 1));
        let decryptor = Decryptor::new(&bench.secret, &bench.encoder).unwrap();
        let secret: Vec<i64> = {
            let (values, q) = (bench.secret.values(), bench.encoder.parameters().ring().data_primes()[0].modulus());
            values.clone().inverse().row(0).iter().map(|value| q.centred(*value)).collect()
        };
        let solved = |slots: [&[f64]; 2]| {
            solve(&bench.encoder, &[(&ciphertexts[0], slots[0]), (&ciphertexts[1], slots[1])]).unwrap()
        };
        let exact = ciphertexts.each_ref().map(|one| decryptor.decrypt(one).unwrap());
        assert_eq!(solved(exact.each_ref().map(|slots| slots.as_slice())), secret, "two results, and the key is known");
        // a label, with the message known: everything except the error
        assert_eq!(decryptor.label(&ciphertexts[0], &[3, 30, 7]).unwrap(), 1);
        let known = solved(numbers.each_ref().map(Vec::as_slice));
        let rounded = ciphertexts.each_ref().map(|one| decryptor.rounded(one, 8).unwrap());
        let rounded = solved(rounded.each_ref().map(|slots| slots.as_slice()));
        for found in [known, rounded] {
            assert!(found.iter().filter(|value| value.abs() > 1 << 20).count() > 32, "no secret: it is ternary");
        }
    }

    #[test]
    fn a_thousand_flooded_results_of_the_named_set_are_right_to_six_bits() {
        use super::super::{EvaluationKeys, Evaluator};
        use crate::params::NamedSet;
        use crate::rlwe::tests::rng;
        let parameters = NamedSet::from_name("ckks-flood").unwrap().parameters().unwrap();
        let (level, scale) = (6, Scale::power_of_two(100));
        let secret = SecretKey::generate(&parameters, &mut rng(1));
        let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
        let mut keys = EvaluationKeys::new(&parameters);
        keys.add_relinearization(&secret, level, &mut rng(2)).unwrap();
        let slots: Vec<f64> = (0..encoder.slots()).map(|j| (j as f64 / 7.0).sin()).collect();
        let fresh =
            encoder.encode(&slots, &scale, level).unwrap().encrypt_seeded(&secret, &mut rng(3)).unwrap().expand();
        let square = evaluator.rescale(&evaluator.mul_rescale(&fresh, &fresh, &keys).unwrap()).unwrap();
        let mut budget = FloodBudget::new(&secret, square.estimate().unwrap().noise_bits(), 40, 1000).unwrap();
        let bound = budget.error(&square).unwrap();
        assert!(bound < 2f64.powi(-6), "{bound:e} with {} bits of flooding", budget.flood_bits());
        let decryptor = Decryptor::new(&secret, &encoder).unwrap();
        let found = decryptor.flooded(&square, &mut budget, &mut rng(4)).unwrap();
        let error = found.iter().zip(&slots).map(|(y, x)| (y - x * x).abs()).fold(0.0, f64::max);
        assert!(error < bound, "{error:e}");
        assert_eq!(budget.left(), 999);
    }

    #[test]
    fn flooding_is_uniform_on_its_range_and_nothing_else() {
        let bench = Bench::new(&[50, 40, 40, 40]);
        let ring = bench.evaluator.parameters().ring();
        for bits in [0, 5, 31, 32, 33, 60, 64, 90, 120] {
            let mut values = Vec::new();
            for index in 0..40 {
                let mut stream = Seed::from_bytes([index; 32]).stream(Domain::Flood, 0);
                let element = Poly::uniform_integers(ring, ring.basis(4), bits, &mut stream);
                Reconstruction::new(ring, element.basis()).for_each(&element, |_, value| {
                    values.push(super::super::integer::to_f64(value.negative, value.words));
                });
            }
            let (unit, count) = (2f64.powi(bits as i32), values.len() as f64);
            assert!(values.iter().all(|x| -unit <= *x && *x <= unit));
            let mean = values.iter().sum::<f64>() / count / unit;
            let variance = values.iter().map(|x| x * x).sum::<f64>() / count / (unit * unit);
            let step = 1.0 / unit;
            assert!((mean + step / 2.0).abs() < 0.06, "{bits}: {mean}");
            assert!((variance - (1.0 / 3.0 + step * step / 6.0)).abs() < 0.04, "{bits}: {variance}");
        }
    }

    #[test]
    fn a_budget_floods_as_wide_as_it_says_and_ends() {
        let mut bench = Bench::new(&[50, 40, 40]);
        let numbers = [1.0, -2.0, 3.0];
        let ciphertext = bench.encrypt(&numbers, 80, 3);
        let decryptor = Decryptor::new(&bench.secret, &bench.encoder).unwrap();
        let mut budget = FloodBudget::new(&bench.secret, 14, 40, 3).unwrap();
        assert_eq!((budget.noise_bits(), budget.flood_bits()), (14, 14 + 39 + 6 + 2));
        let bound = budget.error(&ciphertext).unwrap();
        assert!(bound < 2f64.powi(-14), "{bound:e}");
        budget.spend(1);
        let results = [(); 2].map(|()| decryptor.flooded(&ciphertext, &mut budget, &mut bench.rng).unwrap());
        assert_ne!(results[0], results[1]);
        for result in results {
            let worst = result.iter().zip(numbers).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            // √(N/3) 2^(61 - 80), and six times that
            assert!(worst < bound && worst > 2f64.powi(-21), "{worst:e}");
        }
        assert_eq!(decryptor.flooded(&ciphertext, &mut budget, &mut bench.rng), Err(ReleaseError::Spent));
        assert_eq!((budget.left(), budget.security_bits()), (0, 40));
    }

    /// A budget for the noise of a square serves the square, and nothing that is noisier.
    #[test]
    fn noise_beyond_the_budget_is_refused() {
        let mut bench = Bench::new(&[50, 40, 40, 40]);
        let numbers: Vec<f64> = (0..32).map(|j| f64::from(j) / 16.0 - 1.0).collect();
        let x = bench.encrypt(&numbers, 40, 4);
        let decryptor = Decryptor::new(&bench.secret, &bench.encoder).unwrap();
        let (evaluator, keys) = (&bench.evaluator, &bench.keys);
        let square = evaluator.rescale(&evaluator.mul(&x, &x, keys).unwrap()).unwrap();
        let rotated = evaluator.rotate(&square, 1, keys).unwrap();
        let results = [&x, &square, &rotated, &evaluator.mul_integer(&square, 1_000).unwrap()];
        let bits = results.map(|one| one.estimate().unwrap().noise_bits());
        assert!(bits.windows(2).all(|pair| pair[0] <= pair[1]) && bits[3] >= bits[1] + 9, "{bits:?}");
        let mut budget = FloodBudget::new(&bench.secret, bits[1], 10, 9).unwrap();
        for (one, found) in results.into_iter().zip(bits) {
            let released = decryptor.flooded(one, &mut budget, &mut bench.rng).map(drop);
            let most = budget.noise_bits();
            assert_eq!(released, if found <= most { Ok(()) } else { Err(ReleaseError::Noise { most, found }) });
        }
    }

    /// An adversary gets all results of a budget for one ciphertext whose message it knows, and
    /// averages them: does what is left know the noise? It does if the flood is no wider than the
    /// noise.
    #[test]
    fn the_average_of_all_results_of_a_budget_tells_nothing_about_the_noise() {
        let mut bench = Bench::new(&[50, 40, 40]);
        let (scale, count) = (Scale::power_of_two(60), 256);
        let numbers: Vec<f64> = (0..32).map(|j| (f64::from(j) / 3.0).sin()).collect();
        let message = bench.encoder.encode(&numbers, &scale, 3).unwrap();
        let known = bench.encoder.decode(&message).unwrap();
        let x = message.encrypt(&bench.public, &mut bench.rng).unwrap();
        let decryptor = Decryptor::new(&bench.secret, &bench.encoder).unwrap();
        let less = |slots: &[f64]| -> Vec<f64> { slots.iter().zip(known.iter()).map(|(y, m)| y - m).collect() };
        let noise = less(&decryptor.decrypt(&x).unwrap());
        // the correlation of an average with the noise, in deviations of what chance gives
        let told = |results: &[Vec<f64>]| {
            let average: Vec<f64> =
                (0..32).map(|j| results.iter().map(|one| one[j]).sum::<f64>() / f64::from(count)).collect();
            let product: f64 = average.iter().zip(&noise).map(|(a, e)| a * e).sum();
            let size = |all: &[f64]| all.iter().map(|x| x * x).sum::<f64>().sqrt();
            product / (size(&average) * size(&noise)) * 32f64.sqrt()
        };
        let bits = x.estimate().unwrap().noise_bits();
        let mut budget = FloodBudget::new(&bench.secret, bits, 10, count).unwrap();
        let results: Vec<Vec<f64>> =
            (0..count).map(|_| less(&decryptor.flooded(&x, &mut budget, &mut bench.rng).unwrap())).collect();
        assert!(told(&results).abs() < 4.5, "{}", told(&results));
        assert_eq!(decryptor.flooded(&x, &mut budget, &mut bench.rng).map(drop), Err(ReleaseError::Spent));
        // the same adversary and a flood of the noise's size, which no budget makes; the bound is
        // about 2^5 above the noise
        let phase = x.phase(&bench.secret).unwrap();
        let narrow: Vec<Vec<f64>> = (0..count)
            .map(|index| {
                let mut stream = Seed::from_bytes([9; 32]).stream(Domain::Flood, index.into());
                let mut flooded = Poly::clone(&phase);
                flooded.add_assign(&Poly::uniform_integers(phase.ring(), phase.basis(), bits - 5, &mut stream));
                less(
                    &bench
                        .encoder
                        .slots_of(&mut coefficients_of(&flooded), &scale)
                        .iter()
                        .map(|z| z.re)
                        .collect::<Vec<_>>(),
                )
            })
            .collect();
        assert!(told(&narrow) > 4.5, "{}", told(&narrow));
    }

    #[test]
    fn flooding_without_room_is_refused_and_costs_nothing() {
        let mut bench = Bench::new(&[50, 40, 40]);
        let ciphertext = bench.encrypt(&[1.0], 30, 1);
        let decryptor = Decryptor::new(&bench.secret, &bench.encoder).unwrap();
        let mut budget = FloodBudget::new(&bench.secret, 14, 40, 3).unwrap();
        let mut flooded = |x: &Ciphertext| (decryptor.flooded(x, &mut budget, &mut bench.rng).map(drop), budget.left());
        // a flood of 61 bits over a scale of 30
        assert!(matches!(flooded(&ciphertext), (Err(ReleaseError::Drowned { error: 1e10.., .. }), 3)));
        let mut declared = ciphertext.clone();
        declared.declare(1e11);
        assert_eq!(flooded(&declared), (Err(ReleaseError::NoRoom { least: 63, found: 49 }), 3));
        // bytes say nothing about the noise
        let bytes = crate::wire::encode_ckks_ciphertext(&ciphertext).unwrap();
        let read = crate::wire::decode_ckks_ciphertext(&bytes, ciphertext.parameters()).unwrap();
        assert_eq!(flooded(&read), (Err(OperationError::NoEstimate.into()), 3));
        let wide = FloodBudget::new(&bench.secret, 60, 60, 1000).map(|_| ());
        assert_eq!(wide, Err(ReleaseError::Flooding { most: 120, found: 135 }));
    }
}
