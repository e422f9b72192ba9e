//! Mode `elgamal-shared`: the messages of a packet share its randomness, and each has its own key.
//!
//! With independent secrets `s_1 … s_k` in `[1, n)` for the places of a packet,
//!
//! ```text
//! Enc(m_1 … m_k) = (C_1 … C_k, R) = (m_i G + r s_i G …, rG)     one r for the packet,
//!                                                               uniform in [1, n)
//! (C, R) + (C', R')               = (C_i + C'_i …, R + R')      encrypts m_i + m'_i
//! Dec(C, R)                       = log_G(C_i - s_i R) …        small discrete logarithms
//! ```
//!
//! which is `k + 1` points instead of `2k`. As all members hold the `s_i`, `C_i = (m_i + r s_i) G`
//! is a single multiple of the generator.
//!
//! **Theorem** (Kurosawa, PKC 2002; Bellare, Boldyreva, Staddon, PKC 2003: ElGamal is
//! *reproducible*). If the decisional Diffie-Hellman problem is hard in the group, the `C_i` and
//! `R` of a packet are indistinguishable under chosen plaintext, **on condition that** the keys of
//! the places are independent, and that `r` is fresh for every packet. With one key for two places
//! `C_i - C_j = (m_i - m_j) G`, and anybody who sees the packet can compute the difference. So the
//! interface does not allow two messages of a packet under one key, nor a given `r`. If the keys
//! are expanded from an [`EpochSecret`] and not drawn one by one, their independence rests on the
//! pseudorandomness of ChaCha20.
//!
//! The mode is malleable and not secure under chosen ciphertexts, like mode `elgamal` ([`super`]).
//! Moreover, one `R` serves all messages of a packet, so a packet is added as a whole or not at
//! all. Senders must hold the secret keys; senders that must not decrypt use mode `elgamal`.
//!
//! # Leakage
//! Encryption and the multiplications `s_i R` are constant time in the messages, `r` and the keys;
//! the discrete logarithms are not ([`DiscreteLog`]).

use super::{DecryptError, EncryptError, check_messages};
use crate::curve::{Adder, DiscreteLog, FixedBase, Mismatch, Points, Scalar, VartimeFixedBase, multiply_add};
use crate::params::Parameters;
use chacha20::ChaCha20Rng;
use rand_core::{CryptoRng, SeedableRng};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The secret that the members of a call share. The keys of all places are expanded from it. Zeroed
/// on drop; neither printed nor compared; exported by [`crate::wire::encode_epoch_secret`] only. It
/// must serve no other purpose.
///
/// ```
/// use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
/// use tobari_curve::{Curve, params::{Parameters, SecurityFloor}};
/// use tobari_curve::elgamal::{EpochSecret, SharedDecryptor, SharedEncryptor};
///
/// let mut rng = ChaCha20Rng::from_seed([8; 32]); // a program takes its randomness from the system
/// let secret = EpochSecret::generate(Parameters::new(Curve::Secp256k1, SecurityFloor::Standard)?, &mut rng);
/// let packet = SharedEncryptor::new(&secret.expand(2)).encrypt(&[1000, -5], &mut rng)?;
/// assert_eq!(*SharedDecryptor::new(&secret.expand(2), 32_768).vartime_decrypt(&packet)?, vec![1000, -5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Neither of these compiles:
///
/// ```compile_fail,E0277
/// fn shown(secret: &tobari_curve::elgamal::EpochSecret) -> String { format!("{secret:?}") }
/// ```
/// ```compile_fail,E0369
/// fn same(a: &tobari_curve::elgamal::EpochSecret, b: &tobari_curve::elgamal::EpochSecret) -> bool { a == b }
/// ```
#[derive(Clone)]
pub struct EpochSecret {
    parameters: Parameters,
    seed: Zeroizing<[u8; EpochSecret::BYTES]>,
}

impl EpochSecret {
    /// Bytes of the secret.
    pub const BYTES: usize = 32;

    /// A fresh secret.
    pub fn generate(parameters: Parameters, rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let mut seed = Zeroizing::new([0; Self::BYTES]);
        rng.fill_bytes(seed.as_mut());
        Self { parameters, seed }
    }

    /// A secret from 32 uniform secret bytes, for instance from a key agreement.
    pub fn from_seed(parameters: Parameters, seed: Zeroizing<[u8; Self::BYTES]>) -> Self {
        Self { parameters, seed }
    }

    pub(crate) fn seed(&self) -> &[u8] {
        self.seed.as_ref()
    }

    /// `s_1 G`.
    pub(crate) fn first_point(&self) -> Points {
        Points::generator(self.parameters.built_curve()).multiply(0, &self.expand(1).scalars[0])
    }

    /// The parameters.
    pub fn parameters(&self) -> Parameters {
        self.parameters
    }

    /// The keys of `places` places: [`SharedKey::generate`] from the key stream of ChaCha20 under
    /// the secret, from its beginning, with a nonce of zero. More places do not change the keys of
    /// the first ones.
    pub fn expand(&self, places: usize) -> SharedKey {
        SharedKey::generate(self.parameters, places, &mut ChaCha20Rng::from_seed(*self.seed))
    }
}

/// The secrets `s_1 … s_k` of the places of a packet. Zeroed on drop; neither printed nor compared.
///
/// ```
/// use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
/// use tobari_curve::{Curve, params::{Parameters, SecurityFloor}};
/// use tobari_curve::elgamal::{SharedDecryptor, SharedEncryptor, SharedKey};
///
/// // from a secret of an epoch, which all members hold and which serves no other purpose
/// let mut expansion = ChaCha20Rng::from_seed([7; 32]);
/// let key = SharedKey::generate(Parameters::new(Curve::Secp256k1, SecurityFloor::Standard)?, 320, &mut expansion);
/// let mut rng = ChaCha20Rng::from_seed([8; 32]); // a program takes its randomness from the system
/// let encryptor = SharedEncryptor::new(&key);
/// let mut sum = encryptor.encrypt(&[1000, -5], &mut rng)?;
/// sum.add_assign(&encryptor.encrypt(&[234, -7], &mut rng)?)?; // anybody can add
/// assert_eq!(*SharedDecryptor::new(&key, 65_536).vartime_decrypt(&sum)?, vec![1234, -12]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SharedKey {
    parameters: Parameters,
    scalars: Vec<Scalar>,
}

impl SharedKey {
    /// Keys for packets of up to `places` messages. `rng` is a random generator, or the expansion
    /// of an epoch's secret by a pseudorandom function; the same expansion gives the same keys.
    pub fn generate(parameters: Parameters, places: usize, rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        Self { parameters, scalars: (0..places).map(|_| Scalar::random(parameters.built_curve(), rng)).collect() }
    }

    /// The parameters.
    pub fn parameters(&self) -> Parameters {
        self.parameters
    }

    /// Number of places.
    pub fn places(&self) -> usize {
        self.scalars.len()
    }
}

/// A packet: one point for each message, and `R`.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedCiphertexts {
    parameters: Parameters,
    /// `C_1 … C_k, R`.
    points: Points,
}

impl SharedCiphertexts {
    /// The neutral element of addition: `len` messages of zero with `r = 0`. It hides nothing.
    pub fn zero(parameters: Parameters, len: usize) -> Self {
        Self { parameters, points: Points::identity(parameters.built_curve(), len + 1) }
    }

    /// From `C_1 … C_k, R`; `None` if the curve differs or there is no point.
    pub(crate) fn from_points(parameters: Parameters, points: Points) -> Option<Self> {
        (points.curve() == parameters.built_curve() && !points.is_empty()).then_some(Self { parameters, points })
    }

    /// `C_1 … C_k, R`.
    pub(crate) fn points(&self) -> &Points {
        &self.points
    }

    /// The parameters.
    pub fn parameters(&self) -> Parameters {
        self.parameters
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.points.len() - 1
    }

    /// Are there no messages?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds message by message, without any key.
    ///
    /// # Errors
    /// [`Mismatch`] if curve or length differ; `self` is unchanged then.
    pub fn add_assign(&mut self, other: &SharedCiphertexts) -> Result<(), Mismatch> {
        self.points.add_assign(&other.points)
    }

    /// The same with memory that is reused for the next sum.
    ///
    /// # Errors
    /// As [`SharedCiphertexts::add_assign`].
    pub fn add_assign_with(&mut self, other: &SharedCiphertexts, adder: &mut Adder) -> Result<(), Mismatch> {
        self.points.add_assign_with(&other.points, adder)
    }
}

/// A key with the table of the generator.
pub struct SharedEncryptor {
    key: SharedKey,
    generator: FixedBase,
}

impl SharedEncryptor {
    /// Builds the table; about a millisecond.
    pub fn new(key: &SharedKey) -> Self {
        Self { key: key.clone(), generator: FixedBase::new(&Points::generator(key.parameters.built_curve()), 0) }
    }

    /// The parameters.
    pub fn parameters(&self) -> Parameters {
        self.key.parameters
    }

    /// Encrypts a packet of messages, the first under the key of the first place, and so on.
    ///
    /// # Errors
    /// [`EncryptError`] for the first message beyond [`SAMPLE_BOUND`](super::SAMPLE_BOUND), and for
    /// more messages than places.
    ///
    /// # Leakage
    /// Constant time in the messages, the randomness and the keys; see [`FixedBase`] for the
    /// exceptional additions.
    pub fn encrypt(
        &self,
        messages: &[i32],
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<SharedCiphertexts, EncryptError> {
        let exponents = self.key.exponents(messages, rng)?;
        Ok(SharedCiphertexts { parameters: self.key.parameters, points: self.generator.multiply_all(&exponents) })
    }
}

impl SharedKey {
    /// `m_i + r s_i` for a fresh `r`, and `r`.
    fn exponents(&self, messages: &[i32], rng: &mut (impl CryptoRng + ?Sized)) -> Result<Vec<Scalar>, EncryptError> {
        if messages.len() > self.scalars.len() {
            return Err(EncryptError::Places { places: self.scalars.len(), found: messages.len() });
        }
        check_messages(messages)?;
        let randomness = Scalar::random(self.parameters.built_curve(), rng);
        let mut exponents = multiply_add(&randomness, &self.scalars[..messages.len()], messages);
        exponents.push(randomness);
        Ok(exponents)
    }
}

/// The same with a wide table that is read at secret-dependent addresses. Use it only to compare
/// with libraries that do the same.
pub struct VartimeSharedEncryptor {
    key: SharedKey,
    generator: VartimeFixedBase,
}

impl VartimeSharedEncryptor {
    /// Builds the table of windows of `width` bits, 2 to 16.
    pub fn new(key: &SharedKey, width: u32) -> Self {
        let generator = VartimeFixedBase::new(&Points::generator(key.parameters.built_curve()), 0, width);
        Self { key: key.clone(), generator }
    }

    /// As [`SharedEncryptor::encrypt`], in a time that depends on the messages, the randomness and
    /// the keys.
    ///
    /// # Errors
    /// As [`SharedEncryptor::encrypt`].
    pub fn vartime_encrypt(
        &self,
        messages: &[i32],
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<SharedCiphertexts, EncryptError> {
        let exponents = self.key.exponents(messages, rng)?;
        let points = self.generator.vartime_multiply_all(&exponents);
        Ok(SharedCiphertexts { parameters: self.key.parameters, points })
    }
}

/// A key with the table that finds sums up to a bound.
pub struct SharedDecryptor {
    key: SharedKey,
    logarithms: Arc<DiscreteLog>,
}

impl SharedDecryptor {
    /// A decryptor for sums of absolute value up to `bound`: the number of speakers times
    /// [`SAMPLE_BOUND`](super::SAMPLE_BOUND).
    ///
    /// # Panics
    /// If `bound` exceeds [`DiscreteLog::MAX_BOUND`].
    pub fn new(key: &SharedKey, bound: u32) -> Self {
        Self { key: key.clone(), logarithms: DiscreteLog::cached(key.parameters.built_curve(), bound) }
    }

    /// The parameters.
    pub fn parameters(&self) -> Parameters {
        self.key.parameters
    }

    /// Decrypts every message, without the list of packets in the sum; zeroed on drop.
    ///
    /// # Errors
    /// [`DecryptError`] if any message has no value within the bound, or there are more than
    /// places.
    ///
    /// # Leakage
    /// Constant time in the keys; the time of the last subtraction reveals which messages are zero,
    /// and the time of the discrete logarithms depends on the size of the messages.
    pub fn vartime_decrypt(&self, ciphertexts: &SharedCiphertexts) -> Result<Zeroizing<Vec<i32>>, DecryptError> {
        self.decrypt(ciphertexts, |r, keys| FixedBase::of_packet(r).multiply_all(keys))
    }

    /// The same with a table of `R` that is read at key-dependent addresses. Use it only to compare
    /// with libraries that do the same.
    ///
    /// # Errors
    /// As [`SharedDecryptor::vartime_decrypt`].
    pub fn vartime_decrypt_with_open_keys(
        &self,
        ciphertexts: &SharedCiphertexts,
    ) -> Result<Zeroizing<Vec<i32>>, DecryptError> {
        self.decrypt(ciphertexts, |r, keys| VartimeFixedBase::new(r, 0, 7).vartime_multiply_all(keys))
    }

    fn decrypt(
        &self,
        ciphertexts: &SharedCiphertexts,
        multiply: impl Fn(&Points, &[Scalar]) -> Points,
    ) -> Result<Zeroizing<Vec<i32>>, DecryptError> {
        let len = ciphertexts.len();
        if ciphertexts.parameters != self.parameters() || len > self.key.places() {
            return Err(DecryptError);
        }
        let mut message_points = multiply(&ciphertexts.points.pick(len..len + 1), &self.key.scalars[..len]);
        message_points.negate_assign();
        message_points.add(&ciphertexts.points.pick(0..len), &mut Default::default());
        self.logarithms.vartime_solve(&message_points).map_err(|_| DecryptError)
    }
}

#[cfg(test)]
mod tests {
    use super::super::SAMPLE_BOUND;
    use super::*;
    use crate::curve::BuiltCurve;
    use crate::params::SecurityFloor;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

    fn key(curve: BuiltCurve, places: usize, seed: u8) -> SharedKey {
        let parameters = Parameters::new(curve, SecurityFloor::InsecurePaper).unwrap();
        SharedKey::generate(parameters, places, &mut ChaCha20Rng::from_seed([seed; 32]))
    }

    #[test]
    fn sums_decrypt_exactly_on_every_curve_whatever_the_timing() {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        for curve in BuiltCurve::ALL {
            let key = key(curve, 12, 2);
            let messages = [32_768, -32_768, 32_767, 0, 0, -1, 12_345, -777, 5, 6, 7];
            let mut sum = SharedCiphertexts::zero(key.parameters(), messages.len());
            let (encryptor, vartime) = (SharedEncryptor::new(&key), VartimeSharedEncryptor::new(&key, 9));
            let mut adder = Adder::default();
            for i in 0..64 {
                let packet = if i % 2 == 0 {
                    encryptor.encrypt(&messages, &mut rng).unwrap()
                } else {
                    vartime.vartime_encrypt(&messages, &mut rng).unwrap()
                };
                sum.add_assign_with(&packet, &mut adder).unwrap();
            }
            let decryptor = SharedDecryptor::new(&key, 64 * SAMPLE_BOUND as u32);
            assert_eq!(*decryptor.vartime_decrypt(&sum).unwrap(), messages.map(|m| 64 * m), "{curve}");
            assert_eq!(*decryptor.vartime_decrypt_with_open_keys(&sum).unwrap(), messages.map(|m| 64 * m), "{curve}");
        }
    }

    #[test]
    fn the_keys_of_an_epoch_differ_from_place_to_place_and_do_not_depend_on_their_number() {
        for curve in BuiltCurve::ALL {
            let parameters = Parameters::new(curve, SecurityFloor::InsecurePaper).unwrap();
            let secret = EpochSecret::from_seed(parameters, Zeroizing::new([9; 32]));
            let bytes = |key: &SharedKey| -> Vec<_> { key.scalars.iter().map(|s| s.to_be_bytes().to_vec()).collect() };
            let (long, short) = (bytes(&secret.expand(320)), bytes(&secret.expand(7)));
            assert!(long[..7] == short, "{curve}");
            assert_eq!(long.iter().collect::<std::collections::HashSet<_>>().len(), 320, "{curve}");
            let other = EpochSecret::from_seed(parameters, Zeroizing::new([8; 32]));
            assert!(bytes(&other.expand(7)).iter().all(|key| !long.contains(key)), "{curve}");
        }
    }

    #[test]
    fn a_packet_is_its_definition_computed_point_by_point() {
        for curve in BuiltCurve::ALL {
            let mut rng = ChaCha20Rng::from_seed([3; 32]);
            let key = key(curve, 3, 4);
            let packet = SharedEncryptor::new(&key).encrypt(&[100, -3, 0], &mut rng).unwrap();
            let randomness = Scalar::random(curve, &mut ChaCha20Rng::from_seed([3; 32]));
            let generator = Points::generator(curve);
            assert!(packet.points.repeat(3, 1) == generator.multiply(0, &randomness), "{curve}: R");
            for (i, message) in [100, -3, 0].into_iter().enumerate() {
                let mut expected = generator.multiply(0, &key.scalars[i]).multiply(0, &randomness);
                expected.add_assign(&super::super::message::lifted(curve, message)).unwrap();
                assert!(packet.points.repeat(i, 1) == expected, "{curve}: C {i}");
            }
        }
    }

    /// The condition of the theorem: the difference can be computed from a packet whose places
    /// share a key, but not from a real packet.
    #[test]
    fn a_key_shared_by_two_places_would_give_their_difference_away() {
        let mut rng = ChaCha20Rng::from_seed([5; 32]);
        let honest = key(BuiltCurve::Secp256k1, 2, 6);
        let broken = SharedKey { scalars: vec![honest.scalars[0].clone(); 2], ..honest.clone() };
        let table = DiscreteLog::new(BuiltCurve::Secp256k1, 70_000);
        for (key, leaks) in [(broken, true), (honest, false)] {
            let packet = SharedEncryptor::new(&key).encrypt(&[20_000, -7], &mut rng).unwrap();
            let mut difference = packet.points.repeat(1, 1);
            difference.negate_assign();
            difference.add_assign(&packet.points.repeat(0, 1)).unwrap();
            let read = table.vartime_solve(&difference);
            assert_eq!(read.is_ok_and(|found| found[0] == 20_007), leaks);
        }
    }

    #[test]
    fn every_packet_has_randomness_of_its_own() {
        let mut rng = ChaCha20Rng::from_seed([7; 32]);
        let key = key(BuiltCurve::Secp256k1, 16, 8);
        let encryptor = SharedEncryptor::new(&key);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..8 {
            let silence = encryptor.encrypt(&[0; 16], &mut rng).unwrap();
            for i in 0..17 {
                assert!(seen.insert(silence.points.repeat(i, 1).to_sec1()), "a point came twice");
            }
        }
    }

    #[test]
    fn wrong_keys_wide_sums_and_loud_messages_are_refused() {
        let mut rng = ChaCha20Rng::from_seed([9; 32]);
        let (right, wrong) = (key(BuiltCurve::NistP256, 4, 1), key(BuiltCurve::NistP256, 4, 2));
        let packet = SharedEncryptor::new(&right).encrypt(&[1000, 1], &mut rng).unwrap();
        assert_eq!(*SharedDecryptor::new(&right, 1000).vartime_decrypt(&packet).unwrap(), vec![1000, 1]);
        assert_eq!(SharedDecryptor::new(&wrong, 1000).vartime_decrypt(&packet).err(), Some(DecryptError));
        assert_eq!(SharedDecryptor::new(&right, 999).vartime_decrypt(&packet).err(), Some(DecryptError));
        let short = SharedKey { scalars: right.scalars[..1].to_vec(), ..right.clone() };
        assert_eq!(SharedDecryptor::new(&short, 1000).vartime_decrypt(&packet).err(), Some(DecryptError));
        let error = SharedEncryptor::new(&right).encrypt(&[0, -32_769], &mut rng).err();
        assert_eq!(error, Some(EncryptError::Range { index: 1 }));
        let refused = EncryptError::Places { places: 4, found: 5 };
        assert_eq!(SharedEncryptor::new(&right).encrypt(&[0; 5], &mut rng).err(), Some(refused));
        assert_eq!(VartimeSharedEncryptor::new(&right, 2).vartime_encrypt(&[0; 5], &mut rng).err(), Some(refused));
        let nothing = SharedCiphertexts::zero(right.parameters(), 2);
        assert_eq!(*SharedDecryptor::new(&right, 10).vartime_decrypt(&nothing).unwrap(), vec![0, 0]);
    }
}
