//! Encrypted plaintexts.

use super::{Estimate, Estimator, OperationError, Plaintext, Scale};
use crate::params::LatticeParameters;
use crate::ring::{Coeff, Eval, Poly};
use crate::rlwe::{self, KeyId, PublicKey, SecretKey};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

/// An encrypted message with its scale. Anybody can compute with it, with an
/// [`Evaluator`](super::Evaluator).
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_lattice::ckks::{Decryptor, Encoder, Scale};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::rlwe::{PublicKey, SecretKey};
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
/// let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, Plaintext::Approximate)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let public = PublicKey::generate(&secret, &mut rng);
/// let encoder = Encoder::new(&parameters)?.within(2.0);
/// let ciphertext = encoder.encode(&[1.5, -2.0], &Scale::power_of_two(30), 2)?.encrypt(&public, &mut rng)?;
/// assert_eq!((ciphertext.level(), ciphertext.scale()), (2, &Scale::power_of_two(30)));
/// let slots = Decryptor::new(&secret, &encoder)?.decrypt(&ciphertext)?;
/// assert!((slots[1] + 2.0).abs() < 1e-3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Ciphertext {
    inner: rlwe::Ciphertext,
    scale: Scale,
    estimate: Option<Estimate>,
}

impl Ciphertext {
    /// A ciphertext with its estimate; none if it comes from somebody else.
    pub(crate) fn new(inner: rlwe::Ciphertext, scale: Scale, estimate: Option<Estimate>) -> Self {
        Self { inner, scale, estimate }
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        self.inner.parameters()
    }

    /// Data primes left.
    pub fn level(&self) -> usize {
        self.inner.level()
    }

    /// The identity of the secret key, if it is known.
    pub fn key(&self) -> Option<KeyId> {
        self.inner.key()
    }

    /// The scale.
    pub fn scale(&self) -> &Scale {
        &self.scale
    }

    /// The bounds on its numbers and their errors; none for a ciphertext that was read from bytes,
    /// until they are declared.
    pub fn estimate(&self) -> Option<&Estimate> {
        self.estimate.as_ref()
    }

    /// Declares that this is a fresh encryption of numbers of at most `range` in absolute value.
    /// A ciphertext that was read from bytes takes part in no operation before, because nothing in
    /// it shows how large its numbers are. If they are larger after all, all results with it may be
    /// wrong without any sign, also those of other people's numbers.
    ///
    /// ```
    /// use tobari_lattice::ckks::{Encoder, Evaluator, OperationError, Scale};
    /// use tobari_lattice::{params::{LatticeParameters, Plaintext}, rlwe::SecretKey, wire};
    /// let mut rng = <chacha20::ChaCha20Rng as rand_core::SeedableRng>::from_seed([0; 32]);
    /// let approximate = Plaintext::Approximate;
    /// let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, approximate)?;
    /// let secret = SecretKey::generate(&parameters, &mut rng);
    /// let plaintext = Encoder::new(&parameters)?.encode(&[0.5], &Scale::power_of_two(30), 2)?;
    /// let sent = plaintext.encrypt_seeded(&secret, &mut rng)?;
    /// let bytes = wire::encode_ckks_seeded_ciphertext(&sent);
    /// let mut x = wire::decode_ckks_seeded_ciphertext(&bytes, &parameters)?.expand();
    /// let evaluator = Evaluator::new(&parameters)?;
    /// assert_eq!(evaluator.add(&x, &x).err(), Some(OperationError::NoEstimate));
    /// x.declare(1.0);
    /// assert!(evaluator.add(&x, &x).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn declare(&mut self, range: f64) {
        let estimator = Estimator::new(self.parameters());
        self.estimate = Some(estimator.encrypt(&estimator.encode(range, &self.scale, self.level())));
    }

    /// Declares the bounds of a ciphertext that is the result of a known computation; see
    /// [`Self::declare`].
    ///
    /// # Errors
    /// [`OperationError::Estimate`] for an estimate of another level or scale.
    pub fn declare_estimate(&mut self, estimate: &Estimate) -> Result<(), OperationError> {
        let scale = self.scale.to_f64(self.parameters()).unwrap_or(f64::NAN);
        // estimates multiply scales as doubles
        let same = estimate.level() == self.level() && (estimate.scale() / scale - 1.0).abs() < 1e-9;
        if !same {
            return Err(OperationError::Estimate { level: self.level(), scale: self.scale.clone() });
        }
        self.estimate = Some(estimate.at(scale, self.level()));
        Ok(())
    }

    /// Declares that the exact numbers are at most `range` in absolute value, where mathematics
    /// says so and the bounds do not: a map that stays within an interval, an average. The error
    /// keeps its bound. If they are larger after all, results may be wrong without any sign.
    ///
    /// # Errors
    /// [`OperationError::NoEstimate`] if nothing is known about the ciphertext.
    pub fn declare_magnitude(&mut self, range: f64) -> Result<(), OperationError> {
        let estimate = self.estimate.as_mut().ok_or(OperationError::NoEstimate)?;
        *estimate = estimate.within(if range >= 0.0 { range } else { f64::INFINITY });
        Ok(())
    }

    /// The bounds as bytes, for a store of one's own that keeps the ciphertext's bytes, too. Never
    /// accept them from somebody else.
    pub fn bounds_to_bytes(&self) -> [u8; Self::BOUNDS] {
        let bounds = self.estimate.map_or([f64::NAN; 5], |estimate| {
            let [magnitude, wide, encoding, noise] = estimate.bounds();
            [magnitude, wide, encoding, noise, estimate.flood()]
        });
        let mut bytes = [0; Self::BOUNDS];
        bytes.as_chunks_mut::<8>().0.iter_mut().zip(bounds).for_each(|(place, bound)| *place = bound.to_le_bytes());
        bytes
    }

    /// Sets the bounds to those of [`Self::bounds_to_bytes`].
    ///
    /// # Errors
    /// [`OperationError::Estimate`] for bytes that are no bounds.
    pub fn set_bounds(&mut self, bytes: &[u8; Self::BOUNDS]) -> Result<(), OperationError> {
        let mut bounds = bytes.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes));
        let bounds: [f64; 5] = std::array::from_fn(|_| bounds.next().unwrap_or(f64::NAN));
        if bounds.iter().all(|bound| *bound >= 0.0) {
            let scale = self.scale.to_f64(self.parameters()).unwrap_or(f64::NAN);
            let [magnitude, wide, encoding, noise, flood] = bounds;
            let estimate = Estimate::of_bounds([magnitude, wide, encoding, noise], scale, self.level());
            self.estimate = Some(estimate.with_flood(flood));
        } else if bounds.iter().all(|bound| bound.to_bits() == f64::NAN.to_bits()) {
            self.estimate = None;
        } else {
            return Err(OperationError::Estimate { level: self.level(), scale: self.scale.clone() });
        }
        Ok(())
    }

    /// Bytes of [`Self::bounds_to_bytes`].
    pub const BOUNDS: usize = 40;

    /// Is this a product whose third part has not been switched?
    pub fn needs_relinearization(&self) -> bool {
        self.inner.needs_relinearization()
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

    pub(crate) fn inner(&self) -> &rlwe::Ciphertext {
        &self.inner
    }

    pub(crate) fn inner_mut(&mut self) -> &mut rlwe::Ciphertext {
        &mut self.inner
    }

    pub(super) fn set_scale(&mut self, scale: Scale) {
        self.scale = scale;
    }

    pub(super) fn set_estimate(&mut self, estimate: Option<Estimate>) {
        self.estimate = estimate;
    }

    pub(super) fn into_inner(self) -> rlwe::Ciphertext {
        self.inner
    }

    /// Message and error, as values.
    pub(super) fn phase_values(&self, secret: &SecretKey) -> Result<Zeroizing<Poly<Eval>>, OperationError> {
        self.check(secret)?;
        Ok(secret.phase_values(&self.inner))
    }

    /// Message and error.
    pub(super) fn phase(&self, secret: &SecretKey) -> Result<Zeroizing<Poly<Coeff>>, OperationError> {
        self.check(secret)?;
        Ok(secret.phase(&self.inner))
    }

    /// Rejects a secret that this ciphertext is not under.
    fn check(&self, secret: &SecretKey) -> Result<(), OperationError> {
        if self.parameters() != secret.parameters() {
            return Err(OperationError::OtherParameters);
        }
        KeyId::joined([secret.id(), self.key()])?;
        Ok(())
    }
}

/// An encrypted message of which one half is a seed. The holder of the secret makes it.
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_lattice::ckks::{Encoder, Scale};
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// use tobari_lattice::rlwe::SecretKey;
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
/// let parameters = LatticeParameters::of_sizes(1 << 12, &[36, 35], &[35], 2, Plaintext::Approximate)?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let encoder = Encoder::new(&parameters)?.within(2.0);
/// let plaintext = encoder.encode(&[1.5], &Scale::power_of_two(30), 2)?;
/// let ciphertext = plaintext.encrypt_seeded(&secret, &mut rng)?.expand();
/// assert_eq!(ciphertext.level(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SeededCiphertext {
    inner: rlwe::SeededCiphertext,
    scale: Scale,
    estimate: Option<Estimate>,
}

impl SeededCiphertext {
    /// A ciphertext with its estimate; none if it comes from somebody else.
    pub(crate) fn new(inner: rlwe::SeededCiphertext, scale: Scale, estimate: Option<Estimate>) -> Self {
        Self { inner, scale, estimate }
    }

    pub(crate) fn inner(&self) -> &rlwe::SeededCiphertext {
        &self.inner
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        self.inner.parameters()
    }

    /// Data primes.
    pub fn level(&self) -> usize {
        self.inner.level()
    }

    /// The scale.
    pub fn scale(&self) -> &Scale {
        &self.scale
    }

    /// Draws the second half from the seed.
    pub fn expand(&self) -> Ciphertext {
        Ciphertext { inner: self.inner.expand(), scale: self.scale.clone(), estimate: self.estimate }
    }
}

impl Plaintext {
    /// Encrypts under a public key. The error is `e_0 + e_1 s + u e`, about `√(4N/3)` times that of
    /// [`Self::encrypt_seeded`] in every coefficient.
    ///
    /// # Errors
    /// [`OperationError`] for a key of other parameters, or numbers beyond the declared range
    /// ([`Encoder::within`](super::Encoder::within)).
    pub fn encrypt(&self, key: &PublicKey, rng: &mut impl CryptoRng) -> Result<Ciphertext, OperationError> {
        if self.parameters() != key.parameters() {
            return Err(OperationError::OtherParameters);
        }
        let estimate = Estimator::new(self.parameters()).encrypt(self.declared()?);
        let mut inner = key.encrypt_zero(self.level(), rng);
        inner.add_phase(&self.data_element());
        Ok(Ciphertext { inner, scale: self.scale().clone(), estimate: Some(estimate) })
    }

    /// Encrypts under the secret: half the bytes, and the least error.
    ///
    /// # Errors
    /// As [`Self::encrypt`].
    pub fn encrypt_seeded(
        &self,
        key: &SecretKey,
        rng: &mut impl CryptoRng,
    ) -> Result<SeededCiphertext, OperationError> {
        if self.parameters() != key.parameters() {
            return Err(OperationError::OtherParameters);
        }
        let estimate = Estimator::new(self.parameters()).encrypt_seeded(self.declared()?);
        let mut inner = key.encrypt_zero(self.level(), rng);
        inner.add_phase(&self.data_element());
        Ok(SeededCiphertext { inner, scale: self.scale().clone(), estimate: Some(estimate) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Bench;
    use super::*;
    use crate::ckks::{EncodeError, Evaluator};
    use crate::wire;

    const X: [f64; 3] = [0.5, -1.0, 0.25];
    const SMALL: f64 = 1.0 / (1u64 << 24) as f64;

    fn assert_overflow(found: Result<Ciphertext, OperationError>) {
        assert!(matches!(found.map(drop), Err(OperationError::Overflow { level: 3, .. })));
    }

    #[test]
    fn a_bound_is_what_the_reader_declares_and_no_byte_of_a_ciphertext_changes_it() {
        let mut s = Bench::new(&[50, 40, 40]);
        let x = s.encrypt(&X, 40, 3);
        let bytes = wire::encode_ckks_ciphertext(&x).unwrap();
        let mut read = wire::decode_ckks_ciphertext(&bytes, s.evaluator.parameters()).unwrap();
        // a changed byte anywhere in the head, or at the end, is refused or gives no bound either
        let places = (0..300.min(bytes.len())).chain(bytes.len() - 50..bytes.len());
        let mut decoded = 0;
        for (place, bit) in places.flat_map(|place| (0..8).map(move |bit| (place, bit))) {
            let mut changed = bytes.clone();
            changed[place] ^= 1 << bit;
            let Ok(found) = wire::decode_ckks_ciphertext(&changed, s.evaluator.parameters()) else { continue };
            assert_eq!(found.estimate(), None, "byte {place}");
            assert_eq!(s.evaluator.add(&found, &found).err(), Some(OperationError::NoEstimate));
            decoded += 1;
        }
        assert!(decoded > 100, "{decoded}");
        let none = Some(OperationError::NoEstimate);
        assert_eq!(s.evaluator.mul(&read, &x, &s.keys).err(), none);
        assert_eq!(s.evaluator.mul_integer(&read, 2).err(), none);
        assert_eq!(s.evaluator.rotate(&read, 1, &s.keys).err(), none);
        assert_eq!(s.evaluator.rescale(&read).err(), none);
        assert_eq!(s.evaluator.to_level(&read, 1).err(), none);
        assert_eq!(s.evaluator.mul_constant(&read, 0.5).err(), none);
        assert_eq!(s.evaluator.polynomial(&read, &[0.0, 1.0], &s.keys).err(), none);
        assert!(s.error(&s.evaluator.neg(&read).unwrap(), &X.map(|x| -x)) < SMALL);
        read.declare(1.0);
        assert!(s.error(&s.evaluator.mul(&read, &x, &s.keys).unwrap(), &X.map(|x| x * x)) < SMALL);
        // a larger range refuses sooner, and a declared computation must be of this level and scale
        read.declare(1e30);
        assert_overflow(s.evaluator.mul_integer(&read, 1));
        let estimator = Estimator::new(s.evaluator.parameters());
        for (scale, level) in [(40, 2), (39, 3)] {
            let other = estimator.encode(1.0, &Scale::power_of_two(scale), level);
            let refused = read.declare_estimate(&other);
            assert_eq!(refused, Err(OperationError::Estimate { level: 3, scale: Scale::power_of_two(40) }));
        }
        // numbers beyond the range are not encrypted, and infinity declares nothing
        let found = s.encoder.encode(&[1.01], &Scale::power_of_two(40), 3).unwrap();
        let refused = found.encrypt_seeded(&s.secret, &mut s.rng).map(drop);
        assert_eq!(refused, Err(OperationError::Encode(EncodeError::Range { range: 1.0 })));
        for range in [f64::NAN, -2.0, 1.0] {
            let encoder = s.encoder.within(range);
            let refused = encoder.encrypt_seeded(&[1.01], &Scale::power_of_two(40), 3, &s.secret, &mut s.rng).map(drop);
            assert!(matches!(refused, Err(EncodeError::Range { .. })), "{range}");
        }
        let free = s.encoder.within(f64::INFINITY).encode(&[1.01; 32], &Scale::power_of_two(40), 3).unwrap();
        let free = free.encrypt_seeded(&s.secret, &mut s.rng).unwrap().expand();
        assert_overflow(s.evaluator.add(&free, &free));
        let unbounded = Evaluator::new(s.evaluator.parameters()).unwrap().unbounded();
        let sum = unbounded.add(&free, &free).unwrap();
        assert_eq!(sum.estimate(), None, "what was computed without bounds has none");
        assert!(s.error(&sum, &[2.02; 32]) < SMALL);
    }

    /// Somebody sees which operations are refused, over a long history, for secrets as different as
    /// the declared range allows. All give the same bounds and the same refusals, bit for bit.
    #[test]
    fn refusals_and_bounds_tell_nothing_about_encrypted_numbers() {
        let mut s = Bench::new(&[50, 40, 40, 40]);
        let (scale, encoder) = (Scale::power_of_two(40), s.encoder.within(2.0));
        let secrets: [Vec<f64>; 3] = [vec![0.0; 32], vec![2.0; 32], (0..32).map(|j| f64::from(j) / 1e6).collect()];
        let mut fresh: Vec<[Ciphertext; 3]> = Vec::new();
        for secret in &secrets {
            let plaintext = encoder.encode(secret, &scale, 4).unwrap();
            let seeded = plaintext.encrypt_seeded(&s.secret, &mut s.rng).unwrap().expand();
            fresh.push([
                plaintext.encrypt(&s.public, &mut s.rng).unwrap(),
                encoder.encrypt_seeded(secret, &scale, 4, &s.secret, &mut s.rng).unwrap().expand(),
                encoder.encode(secret, &scale, 2).unwrap().lift(4).unwrap().encrypt(&s.public, &mut s.rng).unwrap(),
            ]);
            assert_eq!(seeded.estimate(), fresh[fresh.len() - 1][1].estimate());
        }
        type Step = fn(&Bench, &Ciphertext) -> Result<Ciphertext, OperationError>;
        let steps: [Step; 10] = [
            |s, x| s.evaluator.add(x, x),
            |s, x| s.evaluator.mul_rescale(x, x, &s.keys),
            |s, x| s.evaluator.mul_integer(x, 100),
            |s, x| s.evaluator.rotate(x, 1, &s.keys),
            |s, x| s.evaluator.add_constant(x, 7.0),
            |s, x| s.evaluator.rescale(&s.evaluator.mul_constant(x, 3.0)?),
            |s, x| s.evaluator.polynomial(x, &[1.0, 2.0, 0.5], &s.keys),
            |s, x| s.evaluator.to_level(x, x.level() - 1),
            |s, x| s.evaluator.sum_slots(x, 2, &s.keys),
            |s, x| s.evaluator.sub(x, &s.evaluator.conjugate(x, &s.keys)?),
        ];
        let (mut kept, mut refused) = (0, 0);
        for kind in 0..3 {
            for history in 0..200usize {
                let mut all: Vec<Ciphertext> = fresh.iter().map(|of| of[kind].clone()).collect();
                for turn in 0..6 {
                    let step = steps[(history * 7 + turn * (history / 10 + 3)) % steps.len()];
                    let found: Vec<_> = all.iter().map(|x| step(&s, x)).collect();
                    let told = |one: &Result<Ciphertext, OperationError>| match one {
                        Ok(one) => Ok(one.bounds_to_bytes()),
                        Err(error) => Err(error.to_string()),
                    };
                    assert!(found.iter().all(|one| told(one) == told(&found[0])), "history {history}, turn {turn}");
                    if found[0].is_err() {
                        refused += 1;
                        break;
                    }
                    kept += 1;
                    all = found.into_iter().flatten().collect();
                }
            }
        }
        assert!(kept > 500 && refused > 200, "{kept} {refused}");
    }
}
