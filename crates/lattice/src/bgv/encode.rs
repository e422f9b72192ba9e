//! Messages: polynomials modulo `t`, and slots.

use super::ciphertext::{Ciphertext, SeededCiphertext};
use crate::kernels::RingKernels;
use crate::params::{LatticeParameters, Plaintext as Scheme};
use crate::ring::{Coeff, Eval, Modulus, Ntt, Poly, reverse};
use crate::rlwe::{PublicKey, SecretKey, norms};
use rand_core::CryptoRng;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// A polynomial modulo `t`, by centred coefficients; wiped on drop, because it may be a secret.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Plaintext {
    coefficients: Vec<i64>,
    /// `t`.
    modulus: u64,
}

/// Why values are not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// More values than there is room for.
    #[error("expected at most {most} values, found {found}")]
    Length {
        /// Room.
        most: usize,
        /// Values given.
        found: usize,
    },
    /// The plaintext modulus has no slots.
    #[error("expected a prime plaintext modulus that is 1 modulo {step}, found {t}")]
    NoSlots {
        /// The modulus.
        t: u64,
        /// `2N`.
        step: u64,
    },
    /// The plaintext modulus has no half of 1.
    #[error("expected an odd plaintext modulus to expand ciphertexts, found {t}")]
    Even {
        /// The modulus.
        t: u64,
    },
    /// Parameters of another scheme.
    #[error("expected parameters with a plaintext modulus, found approximate numbers")]
    Approximate,
    /// A level that does not exist.
    #[error("expected a level from 1 to {most}, found {found}")]
    Level {
        /// Data primes.
        most: usize,
        /// The level given.
        found: usize,
    },
    /// A plaintext or an encoder of another degree or modulus.
    #[error("expected degree {degree} and plaintext modulus {t}, found other parameters: encode for these")]
    OtherParameters {
        /// `N`.
        degree: usize,
        /// `t`.
        t: u64,
    },
}

impl Plaintext {
    /// The polynomial of these coefficients, each reduced modulo `t`. Missing ones are zero.
    ///
    /// # Errors
    /// [`EncodeError`] for more than `N` of them, or parameters of another scheme.
    pub fn from_coefficients(parameters: &LatticeParameters, coefficients: &[i64]) -> Result<Self, EncodeError> {
        let t = modulus(parameters)?;
        let degree = parameters.degree();
        if coefficients.len() > degree {
            return Err(EncodeError::Length { most: degree, found: coefficients.len() });
        }
        let mut all: Vec<i64> = coefficients.iter().map(|value| t.centred(t.reduce_signed(*value))).collect();
        all.resize(degree, 0);
        Ok(Self::from_centred(&t, all))
    }

    /// Coefficients that are centred residues, one for each power of `X`.
    pub(crate) fn from_centred(t: &Modulus, coefficients: Vec<i64>) -> Self {
        Self { coefficients, modulus: t.value() }
    }

    /// The coefficients, centred: from `-t/2` to `t/2`.
    pub fn coefficients(&self) -> &[i64] {
        &self.coefficients
    }

    /// The sum of the coefficients' absolute values, an upper bound on the canonical norm.
    pub(crate) fn norm(&self) -> f64 {
        self.coefficients.iter().map(|value| value.unsigned_abs() as f64).sum()
    }

    /// Checks that it is a plaintext of these parameters.
    fn check(&self, parameters: &LatticeParameters) -> Result<(), EncodeError> {
        let (degree, t) = (parameters.degree(), parameters.error_factor());
        let ours = self.coefficients.len() == degree && self.modulus == t;
        if ours { Ok(()) } else { Err(EncodeError::OtherParameters { degree, t }) }
    }

    /// Encrypts under a public key: a fresh ciphertext over the first `level` data primes.
    ///
    /// ```
    /// use rand_core::SeedableRng;
    /// use tobari_lattice::bgv::{Decryptor, Encoder};
    /// use tobari_lattice::params::{LatticeParameters, Plaintext};
    /// use tobari_lattice::ring::Modulus;
    /// use tobari_lattice::rlwe::{PublicKey, SecretKey};
    /// // a program takes its randomness from the system
    /// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]);
    /// let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
    /// let parameters = LatticeParameters::of_sizes(1 << 13, &[45, 45], &[50], 2, t)?;
    /// let secret = SecretKey::generate(&parameters, &mut rng);
    /// let public = PublicKey::generate(&secret, &mut rng);
    /// let encoder = Encoder::new(&parameters)?;
    /// let ciphertext = encoder.encode(&[7, -7])?.encrypt(&public, 2, &mut rng)?;
    /// let found = Decryptor::new(&secret)?.decrypt(&ciphertext)?;
    /// assert_eq!(encoder.decode(&found)?[..3], [7, -7, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`EncodeError`] for a level that does not exist, or a key of other parameters.
    pub fn encrypt(&self, key: &PublicKey, level: usize, rng: &mut impl CryptoRng) -> Result<Ciphertext, EncodeError> {
        let parameters = key.parameters();
        let message = Zeroizing::new(self.to_element(parameters, 1, level, &modulus(parameters)?)?);
        let mut inner = key.encrypt_zero(level, rng);
        inner.add_phase(&message);
        let norm = norms::sum([norms::public_error(parameters), norms::message(parameters)]);
        Ok(Ciphertext::new(inner, 1, norm))
    }

    /// Encrypts under the secret: a fresh ciphertext over the first `level` data primes, of which
    /// one half is a seed.
    ///
    /// # Errors
    /// [`EncodeError`] for a level that does not exist, or a key of other parameters.
    pub fn encrypt_seeded(
        &self,
        key: &SecretKey,
        level: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<SeededCiphertext, EncodeError> {
        let t = modulus(key.parameters())?;
        let message = Zeroizing::new(self.to_element(key.parameters(), 1, level, &t)?);
        let mut inner = key.encrypt_zero(level, rng);
        inner.add_phase(&message);
        Ok(SeededCiphertext::new(inner))
    }

    /// `factor` times the polynomial modulo `t`, as an element over the first `level` data primes.
    ///
    /// # Errors
    /// [`EncodeError`] for a level that does not exist, or a plaintext of other parameters.
    pub(crate) fn to_element(
        &self,
        parameters: &LatticeParameters,
        factor: u64,
        level: usize,
        t: &Modulus,
    ) -> Result<Poly<Eval>, EncodeError> {
        let (ring, most) = (parameters.ring(), parameters.data_primes());
        self.check(parameters)?;
        if !(1..=most).contains(&level) {
            return Err(EncodeError::Level { most, found: level });
        }
        if factor == 1 {
            return Ok(Poly::<Coeff>::from_integers(ring, ring.basis(level), &self.coefficients).forward());
        }
        let factor = t.factor(factor);
        let mut residues = Zeroizing::new(vec![0; self.coefficients.len()]);
        (RingKernels::best().of_integers)(t, &self.coefficients, &mut residues);
        (RingKernels::best().scale_assign)(t, &mut residues, factor);
        let scaled = Zeroizing::new(centred(t, &residues));
        Ok(Poly::<Coeff>::from_integers(ring, ring.basis(level), &scaled).forward())
    }
}

/// A plaintext as an element over the primes of a level, so that products with it need no
/// transform. It is not secret.
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_lattice::bgv::{Decryptor, Encoder, Evaluator, PreparedPlaintext};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::ring::Modulus;
/// use tobari_lattice::rlwe::SecretKey;
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
/// let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
/// let parameters = LatticeParameters::of_sizes(1 << 13, &[45, 45], &[50], 2, t)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let (encoder, holder) = (Encoder::new(&parameters)?, Decryptor::new(&secret)?);
/// let x = encoder.encode(&[1, 2, 3])?.encrypt_seeded(&secret, 2, &mut rng)?.expand();
/// let weights = PreparedPlaintext::new(&parameters, &encoder.encode(&[10, 20, 30])?, 2)?;
/// let product = Evaluator::new(&parameters)?.mul_prepared(&x, &weights)?;
/// assert_eq!(encoder.decode(&holder.decrypt(&product)?)?[..3], [10, 40, 90]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PreparedPlaintext {
    pub(super) parameters: LatticeParameters,
    pub(super) element: Poly<Eval>,
    /// Logarithm of its norm.
    pub(super) norm: f64,
}

impl PreparedPlaintext {
    /// Prepares a plaintext for ciphertexts of `level` and below.
    ///
    /// # Errors
    /// [`EncodeError`] for a level that does not exist, or a plaintext of other parameters.
    pub fn new(parameters: &LatticeParameters, plaintext: &Plaintext, level: usize) -> Result<Self, EncodeError> {
        let element = plaintext.to_element(parameters, 1, level, &modulus(parameters)?)?;
        Ok(Self { parameters: parameters.clone(), element, norm: plaintext.norm().max(1.0).log2() })
    }

    /// The highest level of its ciphertexts.
    pub fn level(&self) -> usize {
        self.element.basis().data()
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        &self.parameters
    }

    /// The original plaintext; none if `t` is not below the first prime, because only the
    /// coefficients' residues are kept.
    pub fn to_plaintext(&self) -> Option<Plaintext> {
        let ring = self.parameters.ring();
        let first = self.element.restrict(ring.basis(1)).inverse();
        let q = ring.data_primes()[0].modulus();
        let t = modulus(&self.parameters).ok().filter(|t| t.value() < q.value())?;
        Some(Plaintext::from_centred(&t, centred(q, first.row(0))))
    }

    /// Bytes in memory.
    pub fn memory(&self) -> usize {
        self.element.memory()
    }
}

/// Residues as numbers of least absolute value.
pub(crate) fn centred(t: &Modulus, residues: &[u64]) -> Vec<i64> {
    let mut out = vec![0; residues.len()];
    (RingKernels::best().centred)(t, residues, &mut out);
    out
}

/// `t`.
pub(crate) fn modulus(parameters: &LatticeParameters) -> Result<Modulus, EncodeError> {
    match parameters.plaintext() {
        Scheme::Integers(t) => Ok(t),
        Scheme::Approximate => Err(EncodeError::Approximate),
    }
}

/// Slots to polynomials and back.
///
/// ```
/// use tobari_lattice::bgv::Encoder;
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::ring::Modulus;
/// let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
/// let parameters = LatticeParameters::of_sizes(1 << 13, &[45, 45], &[50], 2, t)?;
/// let encoder = Encoder::new(&parameters)?;
/// let plaintext = encoder.encode(&[1, -2, 3])?;
/// assert_eq!(encoder.decode(&plaintext)?[..4], [1, -2, 3, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Encoder {
    t: Modulus,
    ntt: Ntt,
    /// The place of each slot in the transform's order.
    places: Vec<u32>,
}

impl Encoder {
    /// An encoder for a plaintext modulus that has slots.
    ///
    /// # Errors
    /// [`EncodeError`] for one that has none.
    pub fn new(parameters: &LatticeParameters) -> Result<Self, EncodeError> {
        let t = modulus(parameters)?;
        let degree = parameters.degree();
        let none = EncodeError::NoSlots { t: t.value(), step: 2 * degree as u64 };
        let ntt = if crate::ring::is_prime(t.value()) { Ntt::new(t, degree) } else { None };
        let place = |exponent: usize| reverse((exponent - 1) / 2, degree) as u32;
        let mut places = vec![0; degree];
        let mut power = 1;
        for slot in 0..degree / 2 {
            places[slot] = place(power);
            places[degree / 2 + slot] = place(2 * degree - power);
            power = power * 5 % (2 * degree);
        }
        Ok(Self { t, ntt: ntt.ok_or(none)?, places })
    }

    /// `N`.
    pub fn slots(&self) -> usize {
        self.places.len()
    }

    /// The plaintext modulus.
    pub(crate) fn modulus(&self) -> &Modulus {
        &self.t
    }

    /// The polynomial with these values in its slots, the first row first. Missing values are zero.
    ///
    /// # Errors
    /// [`EncodeError::Length`] for more than `N` of them.
    pub fn encode(&self, values: &[i64]) -> Result<Plaintext, EncodeError> {
        if values.len() > self.slots() {
            return Err(EncodeError::Length { most: self.slots(), found: values.len() });
        }
        let mut residues = Zeroizing::new(vec![0; self.slots()]);
        let mut reduced = Zeroizing::new(vec![0; values.len()]);
        // this reveals whether all values are of the usual size
        if values.iter().fold(true, |all, value| all & (value.unsigned_abs() < 1 << 51))
            && values.len().is_multiple_of(8)
        {
            (RingKernels::best().of_integers)(&self.t, values, &mut reduced);
        } else {
            reduced.iter_mut().zip(values).for_each(|(reduced, value)| *reduced = self.t.reduce_signed(*value));
        }
        for (value, place) in reduced.iter().zip(&self.places) {
            residues[*place as usize] = *value;
        }
        self.ntt.inverse(&mut residues);
        Ok(Plaintext::from_centred(&self.t, centred(&self.t, &residues)))
    }

    /// The values of all slots, centred.
    ///
    /// # Errors
    /// [`EncodeError::OtherParameters`] for a plaintext of another degree or modulus.
    pub fn decode(&self, plaintext: &Plaintext) -> Result<Vec<i64>, EncodeError> {
        if plaintext.coefficients.len() != self.slots() || plaintext.modulus != self.t.value() {
            return Err(EncodeError::OtherParameters { degree: self.slots(), t: self.t.value() });
        }
        let mut residues = Zeroizing::new(vec![0; self.slots()]);
        (RingKernels::best().of_integers)(&self.t, &plaintext.coefficients, &mut residues);
        self.ntt.forward(&mut residues);
        let values = Zeroizing::new(centred(&self.t, &residues));
        Ok(self.places.iter().map(|place| values[*place as usize]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rlwe::tests::toy;
    use proptest::prelude::*;

    #[test]
    fn slots_are_values_at_the_powers_of_five_and_their_opposites() {
        let parameters = toy(Some(257));
        let (encoder, t) = (Encoder::new(&parameters).unwrap(), Modulus::new(257).unwrap());
        let mut x = vec![0; 64];
        x[1] = 1;
        // the slots of X are the roots themselves
        let roots = encoder.decode(&Plaintext::from_coefficients(&parameters, &x).unwrap()).unwrap();
        let root = |slot: usize| t.reduce_signed(roots[slot]);
        for slot in 0..31 {
            assert_eq!(root(slot + 1), t.pow(root(slot), 5));
            assert_eq!(t.mul(root(slot), root(32 + slot)), 1);
        }
        assert_eq!((t.pow(root(0), 64), t.pow(root(0), 128)), (256, 1));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let parameters = toy(Some(257));
        let encoder = Encoder::new(&parameters).unwrap();
        let long = EncodeError::Length { most: 64, found: 65 };
        assert_eq!(encoder.encode(&[0; 65]).map(|_| ()).unwrap_err(), long);
        assert_eq!(Plaintext::from_coefficients(&parameters, &[0; 65]).map(|_| ()).unwrap_err(), long);
        for t in [256, 251, 129 * 257] {
            let refused = Encoder::new(&toy(Some(t))).map(|_| ()).unwrap_err();
            assert_eq!(refused, EncodeError::NoSlots { t, step: 128 });
        }
        assert_eq!(Encoder::new(&toy(None)).map(|_| ()).unwrap_err(), EncodeError::Approximate);
    }

    proptest! {
        #[test]
        fn slots_come_back(values in prop::collection::vec(any::<i64>(), 0..=64)) {
            let encoder = Encoder::new(&toy(Some(257))).unwrap();
            let decoded = encoder.decode(&encoder.encode(&values).unwrap()).unwrap();
            for (slot, found) in decoded.iter().enumerate() {
                prop_assert_eq!(found.rem_euclid(257), values.get(slot).map_or(0, |value| value.rem_euclid(257)));
                prop_assert!(found.abs() <= 128);
            }
        }
    }
}
