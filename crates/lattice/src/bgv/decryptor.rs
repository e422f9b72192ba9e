//! Decryption.
//!
//! # Which ciphertexts are rejected
//! A message is right as long as the phase is below half the modulus `Q`. Above that, decryption
//! would give wrong slots without notice. So [`Decryptor::decrypt`] returns [`DecryptError::Noise`]
//! if the bound on the noise, or any coefficient of the phase itself, exceeds **a quarter** of `Q`.
//! The phase of a ciphertext with too much noise, or under another key, is uniform modulo `Q`: all
//! `N` coefficients lie within a quarter with a chance of `2^-N`.
//!
//! **A crafted phase stays undetected.** The maker of a ciphertext can give it any message with a
//! small error, and any bound. So can anybody who changes one. No homomorphic scheme can detect
//! this.
//!
//! # The error is for the owner of the key
//! The server that evaluated must not learn whether a ciphertext decrypts. It could add noise until
//! decryption fails, and each failure leaks information about the error, and so about the key. So a
//! program that decrypts sends the same messages at the same time in both cases, and reports the
//! error to its own user only.
//!
//! # Leakage
//! Constant time: the message is computed in both cases, and no branch depends on a coefficient.
//! Only the caller sees whether there was an error.

use super::ciphertext::Ciphertext;
use super::encode::{EncodeError, Plaintext, centred, modulus};
use crate::kernels::RingKernels;
use crate::ring::{Conversion, Modulus};
use crate::rlwe::{KeyId, OtherKey, SecretKey};
use zeroize::Zeroizing;

/// Why a ciphertext was not decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecryptError {
    /// The noise may be too large for a right result. The error says no more, because the size of
    /// the noise leaks information about the key.
    #[error(
        "expected noise below a quarter of the modulus, found more: the ciphertext is under another key, or too \
         much was computed with it; compute less, or encrypt at a higher level"
    )]
    Noise,
    /// A ciphertext from bytes, whose noise nobody has declared.
    #[error(
        "nothing is known about the noise of a ciphertext that was read from bytes: declare the bound of the \
         computation that you know, or the sender's claim if you trust it"
    )]
    NoBound,
    /// A ciphertext of other parameters.
    #[error("expected a ciphertext of the key's parameters, found one of others: decrypt it with its own key")]
    Parameters,
    /// A ciphertext under another key.
    #[error(transparent)]
    OtherKey(#[from] OtherKey),
}

/// Decrypts.
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_lattice::bgv::{DecryptError, Decryptor, Encoder, Evaluator};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::ring::Modulus;
/// use tobari_lattice::rlwe::SecretKey;
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
/// let t = Plaintext::Integers(Modulus::new(65_537).unwrap());
/// let parameters = LatticeParameters::of_sizes(1 << 13, &[45, 45], &[50], 2, t)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let (encoder, holder) = (Encoder::new(&parameters)?, Decryptor::new(&secret)?);
/// let x = encoder.encode(&[7, -7])?.encrypt_seeded(&secret, 2, &mut rng)?.expand();
/// assert_eq!(encoder.decode(&holder.decrypt(&x)?)?[..3], [7, -7, 0]);
///
/// // at level 1 there is no room for a product
/// let evaluator = Evaluator::new(&parameters)?;
/// let low = evaluator.to_level(&x, 1)?;
/// let product = evaluator.tensor(&low, &low)?;
/// assert_eq!(holder.decrypt(&product).err(), Some(DecryptError::Noise));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Decryptor<'a> {
    key: &'a SecretKey,
    t: Modulus,
    /// By level.
    conversions: Vec<Conversion>,
}

impl<'a> Decryptor<'a> {
    /// A decryptor with this key.
    ///
    /// # Errors
    /// [`EncodeError::Approximate`] for a key of another scheme.
    pub fn new(key: &'a SecretKey) -> Result<Self, EncodeError> {
        let t = modulus(key.parameters())?;
        let primes: Vec<Modulus> = key.parameters().ring().data_primes().iter().map(|prime| *prime.modulus()).collect();
        let conversions = (1..=primes.len()).map(|level| Conversion::new(&primes[..level], &[t])).collect();
        Ok(Self { key, t, conversions })
    }

    /// The key.
    pub fn key(&self) -> &'a SecretKey {
        self.key
    }

    /// Rejects a ciphertext of other parameters or another key; both stand in it for everybody.
    fn check(&self, ciphertext: &Ciphertext) -> Result<(), DecryptError> {
        if ciphertext.parameters() != self.key.parameters() {
            return Err(DecryptError::Parameters);
        }
        KeyId::joined([self.key.id(), ciphertext.key()])?;
        Ok(())
    }

    /// `log2` of the largest coefficient of the phase, in absolute value;
    /// [`Ciphertext::noise_bound`] bounds it. It leaks information about the key, so keep it with
    /// the key's owner.
    ///
    /// # Errors
    /// [`DecryptError::Parameters`] or [`DecryptError::OtherKey`] for a ciphertext of others.
    pub fn noise(&self, ciphertext: &Ciphertext) -> Result<f64, DecryptError> {
        self.check(ciphertext)?;
        Ok(self.key.noise(&ciphertext.inner).log2())
    }

    /// The message, of `N` coefficients modulo `t`.
    ///
    /// The maker of the ciphertext must not learn whether or when this is an error: see the
    /// security section of [`crate::bgv`].
    ///
    /// # Errors
    /// [`DecryptError::Noise`] if the bound on the noise or the phase itself exceeds a quarter of
    /// the modulus, [`DecryptError::NoBound`] for a ciphertext from bytes without a declared bound
    /// ([`Ciphertext::declare_noise`]), [`DecryptError::Parameters`] or
    /// [`DecryptError::OtherKey`] for a ciphertext of others.
    pub fn decrypt(&self, ciphertext: &Ciphertext) -> Result<Plaintext, DecryptError> {
        let message = self.decrypt_measured(ciphertext);
        // everything is computed by now, in either case
        if ciphertext.noise_bound() == f64::INFINITY {
            message.and(Err(DecryptError::NoBound))
        } else if ciphertext.noise_budget() > 0.0 {
            message
        } else {
            message.and(Err(DecryptError::Noise))
        }
    }

    /// As [`Self::decrypt`], but checks the phase alone. It is for results of a server that checks
    /// the bound itself and sends no result above it, such as flooded ones:
    /// [`Evaluator::flood`](super::Evaluator::flood) returns an error for each ciphertext whose
    /// bound exceeds its modulus. It also reads results whose bound is far above their noise, such
    /// as a flooded result that was switched to few primes.
    ///
    /// **Use it only for such results.** An honest computation that exceeded the modulus can have a
    /// small phase again and another message: for instance, a ciphertext doubled 40 times under a
    /// prime near `2^40`.
    ///
    /// # Errors
    /// [`DecryptError::Noise`] if the phase exceeds a quarter of the modulus,
    /// [`DecryptError::Parameters`] or [`DecryptError::OtherKey`] for a ciphertext of others.
    pub fn decrypt_measured(&self, ciphertext: &Ciphertext) -> Result<Plaintext, DecryptError> {
        self.check(ciphertext)?;
        let phase = self.key.phase(&ciphertext.inner);
        let rows: Vec<&[u64]> = (0..ciphertext.level()).map(|row| phase.row(row)).collect();
        let conversion = &self.conversions[ciphertext.level() - 1];
        let mut residues = Zeroizing::new(vec![0; phase.ring().degree()]);
        conversion.apply(&rows, &mut [&mut residues[..]]);
        let inverse = self.t.inverse(ciphertext.factor).unwrap_or_else(|| unreachable!("factors are units"));
        (RingKernels::best().scale_assign)(&self.t, &mut residues, self.t.factor(inverse));
        let message = Plaintext::from_centred(&self.t, centred(&self.t, &residues));
        // everything is computed by now, in either case
        let small = conversion.are_below_quarter(&rows);
        if small { Ok(message) } else { Err(DecryptError::Noise) }
    }
}
