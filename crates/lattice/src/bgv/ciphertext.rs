//! Ciphertexts with their factor and a bound on their noise.

use crate::params::LatticeParameters;
use crate::rlwe::{self, KeyId, norms};

/// Units of a noise bound in a bit.
const BOUND_UNITS: f64 = 1024.0;

/// A ciphertext of a polynomial modulo `t`.
#[derive(Clone)]
pub struct Ciphertext {
    pub(super) inner: rlwe::Ciphertext,
    /// `κ`.
    pub(super) factor: u64,
    /// `log2` of a bound on the phase's canonical norm; infinite if nothing is known.
    pub(super) norm: f64,
    /// The bound in the bytes that this was read from, in units.
    claim: Option<u32>,
}

impl Ciphertext {
    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        self.inner.parameters()
    }

    /// A ciphertext with a factor that is prime to `t`, and a noise bound.
    pub(crate) fn new(inner: rlwe::Ciphertext, factor: u64, norm: f64) -> Self {
        Self { inner, factor, norm, claim: None }
    }

    /// A ciphertext from bytes: its bound is the sender's claim, so nothing is known.
    pub(crate) fn claimed(inner: rlwe::Ciphertext, factor: u64, claim: u32) -> Self {
        Self { inner, factor, norm: f64::INFINITY, claim: Some(claim) }
    }

    /// Sets the bound after a computation; a claim is about the bytes alone.
    pub(super) fn set_norm(&mut self, norm: f64) {
        (self.norm, self.claim) = (norm, None);
    }

    pub(crate) fn inner(&self) -> &rlwe::Ciphertext {
        &self.inner
    }

    /// The identity of the secret key, if it is known.
    pub fn key(&self) -> Option<KeyId> {
        self.inner.key()
    }

    /// `κ`.
    pub fn factor(&self) -> u64 {
        self.factor
    }

    /// Data primes left.
    pub fn level(&self) -> usize {
        self.inner.level()
    }

    /// Is this a product that has not been relinearised?
    pub fn needs_relinearization(&self) -> bool {
        self.inner.needs_relinearization()
    }

    /// `log2` of a bound on every coefficient of the phase. The bound fails with a chance of about
    /// `2^-36` for each operation. It is infinite for a ciphertext that was read from bytes, and
    /// for all results with it, until the reader declares one.
    pub fn noise_bound(&self) -> f64 {
        self.norm
    }

    /// The bound that the bytes of this ciphertext claim, rounded up to a 2^-10 of a bit. Of a
    /// ciphertext that was read from bytes it is as good as the sender.
    pub fn claimed_noise(&self) -> f64 {
        f64::from(self.bound_units()) / BOUND_UNITS
    }

    /// Declares the bound on the noise of a ciphertext that was read from bytes, as `log2`: that of
    /// the computation that the reader knows. [`Self::claimed_noise`] is right if its sender is
    /// honest. **If the noise is larger after all, a result may be wrong without any sign.** NaN
    /// and negative numbers declare that nothing is known.
    ///
    /// ```
    /// use rand_core::SeedableRng;
    /// use tobari_lattice::bgv::{DecryptError, Decryptor, Encoder, Evaluator};
    /// use tobari_lattice::params::{LatticeParameters, Plaintext};
    /// use tobari_lattice::{ring::Modulus, rlwe::SecretKey, wire};
    /// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program asks the system
    /// let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
    /// let parameters = LatticeParameters::of_sizes(1 << 13, &[45, 45], &[50], 2, t)?;
    /// let secret = SecretKey::generate(&parameters, &mut rng);
    /// let (encoder, holder) = (Encoder::new(&parameters)?, Decryptor::new(&secret)?);
    /// let x = encoder.encode(&[7])?.encrypt_seeded(&secret, 2, &mut rng)?.expand();
    /// let sum = Evaluator::new(&parameters)?.add(&x, &x)?;
    /// let mut read = wire::decode_ciphertext(&wire::encode_ciphertext(&sum)?, &parameters)?;
    /// assert_eq!(holder.decrypt(&read).err(), Some(DecryptError::NoBound));
    /// read.declare_noise(x.noise_bound() + 1.0); // a sum of two
    /// assert_eq!(encoder.decode(&holder.decrypt(&read)?)?[0], 14);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn declare_noise(&mut self, bits: f64) {
        (self.norm, self.claim) = (if bits >= 0.0 { bits } else { f64::INFINITY }, None);
    }

    /// Declares that this is a fresh encryption, under a public or a secret key: see
    /// [`Self::declare_noise`].
    pub fn declare_fresh(&mut self) {
        let parameters = self.inner.parameters();
        self.declare_noise(norms::sum([norms::public_error(parameters), norms::message(parameters)]));
    }

    /// The bound as encoded in bytes: in units of 2^-10, rounded up.
    pub(crate) fn bound_units(&self) -> u32 {
        let known = (BOUND_UNITS * self.norm).ceil().clamp(0.0, f64::from(u32::MAX)) as u32;
        self.claim.unwrap_or(known)
    }

    /// Can everybody read it, as `x - x` and `0 x`? Then no message carries it
    /// ([`LatticeWireError::Transparent`](crate::wire::LatticeWireError::Transparent)).
    pub fn is_transparent(&self) -> bool {
        self.inner.is_transparent()
    }

    /// Bytes in memory.
    pub fn memory(&self) -> usize {
        self.inner.memory()
    }

    /// Bits between the bound and `Q/4`. Decryption is right while the budget is positive, and an
    /// error otherwise. It is minus infinity where no bound is known.
    pub fn noise_budget(&self) -> f64 {
        let primes = &self.parameters().ring().data_primes()[..self.level()];
        primes.iter().map(|prime| (prime.modulus().value() as f64).log2()).sum::<f64>() - 2.0 - self.norm
    }
}

/// A fresh ciphertext made with the secret key: half of it is a seed.
#[derive(Clone)]
pub struct SeededCiphertext {
    pub(super) inner: rlwe::SeededCiphertext,
    pub(super) norm: f64,
}

impl SeededCiphertext {
    /// A fresh ciphertext, with the bound of one.
    pub(crate) fn new(inner: rlwe::SeededCiphertext) -> Self {
        let parameters = inner.parameters();
        let norm = norms::sum([norms::secret_error(parameters), norms::message(parameters)]);
        Self { inner, norm }
    }

    pub(crate) fn inner(&self) -> &rlwe::SeededCiphertext {
        &self.inner
    }

    /// Draws the second half from the seed.
    pub fn expand(&self) -> Ciphertext {
        Ciphertext::new(self.inner.expand(), 1, self.norm)
    }

    /// Data primes.
    pub fn level(&self) -> usize {
        self.inner.level()
    }
}
