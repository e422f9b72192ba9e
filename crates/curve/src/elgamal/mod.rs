//! Lifted ElGamal on a curve: public-key encryption of small integers that a party without the key
//! can add.
//!
//! Paper: Ueno et al., section 2.4 (`book/src/explanation/mathematics.md` gives it in full). With a
//! group of prime order `n`, generator `G`, secret `s` in `[1, n)` and public `sG`:
//!
//! ```text
//! Enc(m)            = (S, R) = (mG + r·sG, rG)     r uniform in [1, n), fresh for every message
//! (S, R) + (S', R') = (S + S', R + R')             encrypts m + m'
//! Dec(S, R)         = log_G(S - sR)                a small discrete logarithm
//! ```
//!
//! **Security.** The scheme is indistinguishable under chosen plaintext if the decisional
//! Diffie-Hellman problem is hard in the group. It is malleable by design: a party that relays a
//! ciphertext can add to it, double it, negate it or replace it, and this module does not detect
//! that. It is not secure under chosen ciphertexts: an attacker that learns which altered sums
//! decrypt also learns about the sums. `book/src/explanation/threats/call-recordings.md` explains
//! the consequences for a call.
//!
//! **Correctness.** A sum of ciphertexts decrypts if the sum of the messages, as integers, stays
//! within the bound given to [`Decryptor::new`].
//!
//! # Leakage
//! Encryption and the multiplication `sR` are constant time in `m`, `r` and `s`. The discrete
//! logarithm is not ([`DiscreteLog`]): decryption time depends on the decrypted sum.

mod keys;
mod message;
mod mode;
mod shared;
mod vartime;

pub use keys::{PublicKey, SecretKey};
pub use mode::{Mode, UnknownMode};
pub use shared::{EpochSecret, SharedCiphertexts, SharedDecryptor, SharedEncryptor, SharedKey, VartimeSharedEncryptor};
pub use vartime::VartimeEncryptor;

use crate::curve::fixed_base::multiply_bases;
use crate::curve::{Adder, DiscreteLog, FixedBase, Mismatch, Points, Scalar};
use crate::kernels::Scratch;
use crate::params::Parameters;
use message::MessageTable;
use rand_core::CryptoRng;
use std::borrow::Cow;
use std::sync::Arc;
use tobari_simd::LANES;
use zeroize::Zeroizing;

/// The largest absolute value of one message: a 16-bit sample, `+32768` included.
pub const SAMPLE_BOUND: i32 = 32_768;

/// The ciphertexts of a packet: one pair of points `(S, R)` for each message.
#[derive(Clone, PartialEq, Eq)]
pub struct Ciphertexts {
    parameters: Parameters,
    len: usize,
    /// `S_0 … S_(k-1)`, padded with the identity to a multiple of eight, then `R_0 … R_(k-1)`,
    /// padded alike. So each half has whole groups.
    points: Points,
}

impl Ciphertexts {
    /// The neutral element of addition: `len` pairs of the identity. It hides nothing.
    pub fn zero(parameters: Parameters, len: usize) -> Self {
        let points = Points::identity(parameters.built_curve(), 2 * len.next_multiple_of(LANES));
        Self { parameters, len, points }
    }

    /// From `S_0 … S_(k-1), R_0 … R_(k-1)`; `None` if the curve differs or the number of points is
    /// odd.
    pub(crate) fn from_points(parameters: Parameters, points: Points) -> Option<Self> {
        let len = points.len() / 2;
        let fits = points.curve() == parameters.built_curve() && points.len().is_multiple_of(2);
        fits.then(|| {
            if len.is_multiple_of(LANES) {
                return Self { parameters, len, points };
            }
            Self::from_halves(parameters, &points.pick(0..len), &points.pick(len..2 * len))
        })
    }

    /// From `S` and `R`, which have the same length.
    fn from_halves(parameters: Parameters, s: &Points, r: &Points) -> Self {
        let lines = s.lines().iter().chain(r.lines()).copied().collect();
        let points = Points::from_lines(parameters.built_curve(), 2 * s.len().next_multiple_of(LANES), lines);
        Self { parameters, len: s.len(), points }
    }

    /// `S_0 … S_(k-1), R_0 … R_(k-1)`.
    pub(crate) fn to_points(&self) -> Cow<'_, Points> {
        if self.len.is_multiple_of(LANES) {
            return Cow::Borrowed(&self.points);
        }
        let second = self.points.len() / 2 - self.len;
        Cow::Owned(self.points.pick((0..2 * self.len).map(|i| i + if i < self.len { 0 } else { second })))
    }

    /// `S`, then `R`.
    fn halves(&self) -> [Points; 2] {
        let lines = self.points.lines();
        [&lines[..lines.len() / 2], &lines[lines.len() / 2..]]
            .map(|lines| Points::from_lines(self.parameters.built_curve(), self.len, lines.to_vec()))
    }

    /// The parameters.
    pub fn parameters(&self) -> Parameters {
        self.parameters
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Are there no messages?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds message by message, without any key.
    ///
    /// # Errors
    /// [`Mismatch`] if curve or length differ; `self` is unchanged then.
    pub fn add_assign(&mut self, other: &Ciphertexts) -> Result<(), Mismatch> {
        self.points.add_assign(&other.points)
    }

    /// The same with memory that is reused for the next sum.
    ///
    /// # Errors
    /// As [`Ciphertexts::add_assign`].
    pub fn add_assign_with(&mut self, other: &Ciphertexts, adder: &mut Adder) -> Result<(), Mismatch> {
        self.points.add_assign_with(&other.points, adder)
    }
}

/// Why messages were not encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncryptError {
    /// A message beyond [`SAMPLE_BOUND`].
    #[error("message {index} is out of range: at most {SAMPLE_BOUND} in absolute value")]
    Range {
        /// Position in the batch.
        index: usize,
    },
    /// More messages than a key has places.
    #[error("expected at most {places} messages, one for each place of the key, found {found}")]
    Places {
        /// The places.
        places: usize,
        /// The messages given.
        found: usize,
    },
}

/// Rejects messages beyond [`SAMPLE_BOUND`].
fn check_messages(messages: &[i32]) -> Result<(), EncryptError> {
    let beyond = messages.iter().position(|m| m.unsigned_abs() > SAMPLE_BOUND as u32);
    beyond.map_or(Ok(()), |index| Err(EncryptError::Range { index }))
}

/// A ciphertext that does not decrypt. The error hides the reason. But the failure itself already
/// informs an attacker that altered the ciphertext.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("decryption failed: wrong key, altered ciphertext, or a sum beyond the bound")]
pub struct DecryptError;

/// The tables with which one public key encrypts (some 200 KB on a curve of 256 bits).
pub struct Encryptor {
    parameters: Parameters,
    generator: FixedBase,
    key: FixedBase,
    messages: MessageTable,
}

impl Encryptor {
    /// Builds the tables; a few milliseconds.
    pub fn new(key: &PublicKey) -> Self {
        let parameters = key.parameters();
        Self {
            parameters,
            generator: FixedBase::new(&Points::generator(parameters.built_curve()), 0),
            key: FixedBase::new(key.point(), 0),
            messages: MessageTable::new(parameters.built_curve()),
        }
    }

    /// The parameters.
    pub fn parameters(&self) -> Parameters {
        self.parameters
    }

    /// Encrypts each message with separate randomness.
    ///
    /// # Errors
    /// [`EncryptError`] for the first message beyond [`SAMPLE_BOUND`].
    ///
    /// # Leakage
    /// Constant time in the messages and the randomness; see [`FixedBase`] for the exceptional
    /// additions.
    pub fn encrypt(&self, messages: &[i32], rng: &mut (impl CryptoRng + ?Sized)) -> Result<Ciphertexts, EncryptError> {
        check_messages(messages)?;
        let curve = self.parameters.built_curve();
        let randomness: Vec<Scalar> = messages.iter().map(|_| Scalar::random(curve, rng)).collect();
        Ok(self.encrypt_with(messages, &randomness))
    }

    /// Encrypts with given randomness, which must never be used twice. For [`Encryptor::encrypt`]
    /// and known answers only.
    fn encrypt_with(&self, messages: &[i32], randomness: &[Scalar]) -> Ciphertexts {
        let [mut s, r] = multiply_bases([self.key.table(), self.generator.table()], randomness);
        self.messages.add_to(&mut s, messages);
        Ciphertexts::from_halves(self.parameters, &s, &r)
    }
}

/// A secret key with the table that finds sums up to a bound.
pub struct Decryptor {
    key: SecretKey,
    logarithms: Arc<DiscreteLog>,
}

impl Decryptor {
    /// A decryptor for sums of absolute value up to `bound`: the number of speakers times
    /// [`SAMPLE_BOUND`]. This takes tens of milliseconds.
    ///
    /// # Panics
    /// If `bound` exceeds [`DiscreteLog::MAX_BOUND`].
    pub fn new(key: &SecretKey, bound: u32) -> Self {
        Self { key: key.clone(), logarithms: DiscreteLog::cached(key.parameters().built_curve(), bound) }
    }

    /// The parameters.
    pub fn parameters(&self) -> Parameters {
        self.key.parameters()
    }

    /// Decrypts every message; zeroed on drop.
    ///
    /// # Errors
    /// [`DecryptError`] if any message has no value within the bound.
    ///
    /// # Leakage
    /// Constant time in the key. The time of the last subtraction reveals which messages are zero,
    /// and the time of the discrete logarithms depends on the size of the messages.
    pub fn vartime_decrypt(&self, ciphertexts: &Ciphertexts) -> Result<Zeroizing<Vec<i32>>, DecryptError> {
        if ciphertexts.parameters != self.parameters() {
            return Err(DecryptError);
        }
        let [s, r] = ciphertexts.halves();
        let mut message_points = r.multiply_all(self.key.scalar());
        message_points.negate_assign();
        message_points.add(&s, &mut Scratch::default());
        self.logarithms.vartime_solve(&message_points).map_err(|_| DecryptError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::BuiltCurve;
    use crate::curve::known_answers::{point, records, scalar};
    use crate::params::SecurityFloor;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

    fn parameters(curve: BuiltCurve) -> Parameters {
        Parameters::new(curve, SecurityFloor::InsecurePaper).unwrap()
    }

    #[test]
    fn ciphertexts_match_openssl() {
        for curve in BuiltCurve::ALL {
            for fields in records(curve, "elgamal") {
                let key = SecretKey::from_scalar(parameters(curve), scalar(curve, &fields[0])).unwrap();
                let m: i32 = fields[2].parse().unwrap();
                let expected = [point(curve, &fields[3]), point(curve, &fields[4])];
                let mut points = expected[0].clone();
                points.append(&expected[1]);
                let ciphertext = Ciphertexts::from_points(key.parameters(), points).unwrap();
                if m.abs() <= SAMPLE_BOUND {
                    let encryptor = Encryptor::new(&key.public_key());
                    let ours = encryptor.encrypt_with(&[m], &[scalar(curve, &fields[1])]);
                    assert!(ours == ciphertext, "{curve}: {fields:?}");
                }
                let decryptor = Decryptor::new(&key, 1 << 25);
                assert_eq!(*decryptor.vartime_decrypt(&ciphertext).unwrap(), vec![m], "{curve}: {fields:?}");
            }
        }
    }

    #[test]
    fn sums_of_full_scale_and_silence_decrypt_exactly_on_every_curve() {
        let mut rng = ChaCha20Rng::from_seed([7; 32]);
        for curve in BuiltCurve::ALL {
            let key = SecretKey::generate(parameters(curve), &mut rng);
            let encryptor = Encryptor::new(&key.public_key());
            let messages = [32_768, -32_768, 32_767, 0, 0, -1, 12_345, -777];
            let mut sum = Ciphertexts::zero(key.parameters(), messages.len());
            for _ in 0..64 {
                sum.add_assign(&encryptor.encrypt(&messages, &mut rng).unwrap()).unwrap();
            }
            let decrypted = Decryptor::new(&key, 64 * SAMPLE_BOUND as u32).vartime_decrypt(&sum).unwrap();
            assert_eq!(*decrypted, messages.map(|m| 64 * m), "{curve}");
        }
    }

    #[test]
    fn equal_messages_give_different_ciphertexts() {
        let mut rng = ChaCha20Rng::from_seed([8; 32]);
        let key = SecretKey::generate(parameters(BuiltCurve::Secp256k1), &mut rng);
        let silence = Encryptor::new(&key.public_key()).encrypt(&[0; 16], &mut rng).unwrap();
        let mut seen = std::collections::HashSet::new();
        for i in 0..silence.to_points().len() {
            assert!(seen.insert(silence.to_points().repeat(i, 1).to_sec1()), "a point came twice");
        }
    }

    #[test]
    fn messages_beyond_16_bits_are_refused_by_place_not_by_value() {
        let mut rng = ChaCha20Rng::from_seed([9; 32]);
        let key = SecretKey::generate(parameters(BuiltCurve::Secp256k1), &mut rng);
        let encryptor = Encryptor::new(&key.public_key());
        for bad in [32_769, -32_769, i32::MAX, i32::MIN] {
            let error = encryptor.encrypt(&[0, bad], &mut rng).err().unwrap();
            assert_eq!(error, EncryptError::Range { index: 1 });
            assert!(!error.to_string().contains(&bad.to_string()));
        }
    }

    #[test]
    fn a_wrong_key_and_a_sum_beyond_the_bound_fail_alike() {
        let mut rng = ChaCha20Rng::from_seed([10; 32]);
        let [key, other] = [(); 2].map(|()| SecretKey::generate(parameters(BuiltCurve::NistP256), &mut rng));
        let ciphertexts = Encryptor::new(&key.public_key()).encrypt(&[1000], &mut rng).unwrap();
        assert_eq!(Decryptor::new(&other, 32_768).vartime_decrypt(&ciphertexts).err(), Some(DecryptError));
        assert_eq!(Decryptor::new(&key, 999).vartime_decrypt(&ciphertexts).err(), Some(DecryptError));
        let weaker = SecretKey::generate(parameters(BuiltCurve::NistP224), &mut rng);
        assert_eq!(Decryptor::new(&weaker, 32_768).vartime_decrypt(&ciphertexts).err(), Some(DecryptError));
    }

    #[test]
    fn no_messages_are_no_trouble() {
        let mut rng = ChaCha20Rng::from_seed([11; 32]);
        let key = SecretKey::generate(parameters(BuiltCurve::Secp256k1), &mut rng);
        let none = Encryptor::new(&key.public_key()).encrypt(&[], &mut rng).unwrap();
        assert!(none.is_empty());
        assert_eq!(*Decryptor::new(&key, 1).vartime_decrypt(&none).unwrap(), Vec::<i32>::new());
    }
}
