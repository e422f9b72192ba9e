//! The client's part: keys, an image in slots, and the decrypted answer.
//!
//! # Leakage
//! An attacker who sees ciphertexts and exact decryptions of CKKS can solve for the key (Li,
//! Micciancio, EUROCRYPT 2021). The default output is therefore the **label**. Rounded logits limit
//! the damage. Exact logits are for the key holder alone, and **no security is claimed against an
//! attacker who sees results and ciphertexts** (no IND-CPA-D).
//!
//! **The guard.** Polynomials of activations are right within a range alone, and nothing in the
//! logits tells whether a number left it. So a model with such polynomials has one more number in
//! its answer: the sum of high powers of all numbers over their ranges, less than [`GUARD`] if all
//! were within. An answer with a larger one is withheld.
//!
//! A decryption under another key, or of something other than an answer, gives numbers far beyond
//! every logit. Such a result is withheld.

use super::compile::Card;
use super::program::Input;
use rand_core::CryptoRng;
use std::hint::black_box;
use tobari_lattice::ckks::{
    Ciphertext, Decryptor, EncodeError, Encoder, Estimator, EvaluationKeys, OperationError, ReleaseError,
    SeededCiphertext, integer_of,
};
use tobari_lattice::refresh::{KeyPiece, RefreshError};
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::SecretKey;
use zeroize::Zeroizing;

/// The part of a decrypted answer to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// The class with the largest logit.
    #[default]
    Label,
    /// So many classes, the likeliest first.
    Top(usize),
    /// Logits, rounded to multiples of two to minus this.
    Rounded(u32),
    /// Exact logits: for the key holder alone.
    Logits,
}

/// The part of an answer that is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerView {
    /// Classes, the likeliest first: one, the requested number, or all.
    pub labels: Vec<usize>,
    /// Logits by class, if requested.
    pub logits: Vec<f64>,
    /// The two best classes, if their logits differ by less than twice the foretold error, so that
    /// either may be the right label.
    pub close: Option<[usize; 2]>,
}

/// Errors of questions and answers.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// An image of another size.
    #[error("expected an image of {expected} numbers, found {found}")]
    Pixels {
        /// The number expected.
        expected: usize,
        /// The number found.
        found: usize,
    },
    /// A pixel outside 0 to 1.
    #[error("expected pixels from 0 to 1, found another number")]
    Range,
    /// A secret of other parameters.
    #[error("expected a secret of the model's parameters, found one of others")]
    Parameters,
    /// Ciphertexts that are not an answer of this model.
    #[error("expected {count} ciphertexts over {primes} data primes as an answer, found others")]
    Answer {
        /// The number of ciphertexts.
        count: usize,
        /// Data primes.
        primes: usize,
    },
    /// Noise instead of logits: another key, or not an answer.
    #[error("expected logits below {most}, found noise")]
    Noise {
        /// The bound on logits, before they are multiplied by the model's power of two.
        most: f64,
    },
    /// Logits, or numbers before them, outside the range of the model.
    #[error(
        "the image has numbers outside the range of this model, and its label may be wrong: use an image like those of \
         the calibration, or compile the model with more images"
    )]
    Outside,
    /// More labels than classes, or none.
    #[error("expected from 1 to {most} labels, found {found}")]
    Labels {
        /// Classes.
        most: usize,
        /// The number of labels requested.
        found: usize,
    },
    /// More bits than logits have.
    #[error(
        "expected at most {most} bits behind the point, found {found}: finer scores tell the errors of decryption, as exact ones do"
    )]
    Bits {
        /// The most that are coarser than the errors of a fresh encryption.
        most: u32,
        /// The number of bits requested.
        found: u32,
    },
    /// Rounded logits where the errors exceed half a step even with 0 bits.
    #[error(
        "expected label or top:N, as errors of decryption may be more than 0.5 here and show in rounded scores, found rounded:{found}"
    )]
    NoBits {
        /// The number of bits requested.
        found: u32,
    },
    /// An error of the encoder.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// An error of the core.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// Parameters without room for a refresh.
    #[error(transparent)]
    Refresh(#[from] RefreshError),
    /// An error of the decryptor.
    #[error(transparent)]
    Release(#[from] ReleaseError),
}

/// The largest logit before it is multiplied by the model's power of two. Models are made for
/// numbers of at most 1. A number beyond twice that is of an image unlike the calibration's, for
/// which polynomials of activations give numbers without meaning.
const OUTSIDE: f64 = 2.0;
/// The two best classes, if their logits differ by less than twice the foretold error, so that
/// errors of encryption may exchange them. `None` for logits of which one is not a number or
/// infinite: they have no order.
pub fn close(logits: &[f64], error: f64) -> Option<[usize; 2]> {
    if logits.len() < 2 || !logits.iter().fold(true, |all, logit| all & logit.is_finite()) {
        return None;
    }
    let best = order(logits, 2);
    (logits[best[0]] - logits[best[1]] < 2.0 * error).then_some([best[0], best[1]])
}

/// Whether a client refuses logits because one is outside the range of its model, which multiplies
/// them by two to `logit_bits`.
pub fn is_outside(logits: &[f64], logit_bits: i32) -> bool {
    let most = OUTSIDE * 2f64.powi(logit_bits);
    !logits.iter().fold(true, |all, logit| all & (logit.abs() <= most))
}

/// The guard of an answer whose numbers all were within their ranges is below this.
pub const GUARD: f64 = 1.0 / 64.0;

/// Holds the key of a model's questions and answers.
pub struct Client {
    card: Card,
    secret: SecretKey,
    encoder: Encoder,
}

impl Client {
    /// Generates a new key.
    ///
    /// # Errors
    /// [`ClientError::Encode`] for parameters of another scheme.
    pub fn new(card: Card, rng: &mut impl CryptoRng) -> Result<Self, ClientError> {
        let secret = SecretKey::from_seed(&card.parameters, Seed::random(rng));
        Self::with_secret(card, secret)
    }

    /// Uses an existing key. Messages of this job have no identity of a key, because a server knows
    /// the keys of each question, and a message has one length for all keys.
    ///
    /// # Errors
    /// [`ClientError`] for a key of other parameters, or another scheme's.
    pub fn with_secret(card: Card, secret: SecretKey) -> Result<Self, ClientError> {
        if *secret.parameters() != card.parameters {
            return Err(ClientError::Parameters);
        }
        let secret = match secret.id() {
            Some(_) => SecretKey::from_seed(&card.parameters, secret.to_seed().clone()),
            None => secret,
        };
        let encoder = Encoder::new(&card.parameters)?;
        Ok(Self { card, secret, encoder })
    }

    /// The public facts of the model.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// The secret key, to encrypt weights under it.
    pub fn secret(&self) -> &SecretKey {
        &self.secret
    }

    /// All keys that the server needs, each as an object of its own.
    ///
    /// # Errors
    /// [`ClientError::Operation`].
    pub fn keys(&self, rng: &mut impl CryptoRng) -> Result<Vec<(Input, EvaluationKeys)>, ClientError> {
        let mut all = Vec::with_capacity(self.card.keys.len());
        self.each_key(rng, |input, key| {
            all.push((input, key));
            true
        })?;
        Ok(all)
    }

    /// As [`Self::keys`], one after another: `take` gets each of them, and returns whether to go
    /// on.
    ///
    /// # Errors
    /// As [`Self::keys`].
    pub fn each_key(
        &self,
        rng: &mut impl CryptoRng,
        mut take: impl FnMut(Input, EvaluationKeys) -> bool,
    ) -> Result<(), ClientError> {
        for input in &self.card.keys {
            let mut key = EvaluationKeys::new(&self.card.parameters);
            match *input {
                Input::Rotation { steps, level } => {
                    key.add_rotation(&self.secret, steps, usize::from(level) + 1, rng)?;
                }
                Input::Relinearization { level } => {
                    key.add_relinearization(&self.secret, usize::from(level) + 1, rng)?;
                }
                Input::Conjugation { level } => key.add_conjugation(&self.secret, usize::from(level) + 1, rng)?,
                Input::Raise { level } => {
                    key.add_piece(KeyPiece::Raise, &self.secret, usize::from(level) + 1, rng)?;
                }
                _ => continue,
            }
            if !take(*input, key) {
                break;
            }
        }
        Ok(())
    }

    /// Encrypts an image: its pixels, from 0 to 1, row by row.
    ///
    /// # Errors
    /// [`ClientError`] for an image of another size, or a pixel outside 0 to 1.
    pub fn encrypt(&self, image: &[f64], rng: &mut impl CryptoRng) -> Result<Vec<SeededCiphertext>, ClientError> {
        let expected = self.card.pixels();
        if image.len() != expected {
            return Err(ClientError::Pixels { expected, found: image.len() });
        }
        if !image.iter().fold(true, |all, pixel| all & (0.0..=1.0).contains(pixel)) {
            return Err(ClientError::Range);
        }
        let (primes, scale) = &self.card.sent;
        let one = |places: &Vec<Option<u32>>| {
            let slot = |pixel: &Option<u32>| pixel.map_or(0.0, |pixel| image[pixel as usize]);
            let slots: Zeroizing<Vec<f64>> = Zeroizing::new(places.iter().map(slot).collect());
            Ok(self.encoder.encrypt_seeded(&slots, scale, *primes, &self.secret, rng)?)
        };
        self.card.places.iter().map(one).collect()
    }

    /// Decrypts an answer and returns the requested part.
    ///
    /// # Errors
    /// [`ClientError`] for another model's answer, or an answer under another key.
    pub fn decrypt(&self, answer: &[Ciphertext], output: Output) -> Result<AnswerView, ClientError> {
        let logits = self.logits(answer)?;
        let classes = logits.len();
        // whether two labels are close is shown, as the label is
        let close = self.card.error.and_then(|error| close(&logits, error));
        let view = |labels, logits| AnswerView { labels, logits, close };
        match output {
            Output::Label => Ok(view(order(&logits, 1), Vec::new())),
            Output::Top(count) if (1..=classes).contains(&count) => Ok(view(order(&logits, count), Vec::new())),
            Output::Top(found) => Err(ClientError::Labels { most: classes, found }),
            Output::Rounded(found) if self.most_bits().is_none_or(|most| found > most) => {
                Err(self.most_bits().map_or(ClientError::NoBits { found }, |most| ClientError::Bits { most, found }))
            }
            Output::Rounded(bits) => {
                let unit = (1u64 << bits) as f64;
                // exact: the unit is a power of two
                let rounded = logits.iter().map(|logit| integer_of(logit * unit) * (1.0 / unit)).collect();
                Ok(view(order(&logits, classes), rounded))
            }
            Output::Logits => Ok(view(order(&logits, classes), logits.to_vec())),
        }
    }

    fn logits(&self, answer: &[Ciphertext]) -> Result<Zeroizing<Vec<f64>>, ClientError> {
        let ((primes, scale), count) = (&self.card.answer, self.card.answers());
        let fits = |part: &Ciphertext| {
            *part.parameters() == self.card.parameters && part.level() == *primes && part.scale() == scale
        };
        if answer.len() != count || !answer.iter().all(fits) {
            return Err(ClientError::Answer { count, primes: *primes });
        }
        let decryptor = Decryptor::new(&self.secret, &self.encoder)?;
        let most = self.most();
        let slots = answer.iter().map(|part| {
            decryptor.decrypt(part).map_err(|error| match error {
                ReleaseError::NoMessage => ClientError::Noise { most },
                error => error.into(),
            })
        });
        let slots = slots.collect::<Result<Vec<_>, ClientError>>()?;
        let mut logits = Zeroizing::new(Vec::with_capacity(self.card.logits.len()));
        logits.extend(self.card.logits.iter().map(|(output, slot)| slots[*output][*slot]));
        if !logits.iter().fold(true, |all, logit| all & (logit.abs() < most)) {
            return Err(ClientError::Noise { most });
        }
        let guard = self.card.guard.map_or(0.0, |(output, slot)| slots[output][slot]);
        if !(logits.iter().fold(true, |all, logit| all & (logit.abs() <= OUTSIDE)) & (guard.abs() < GUARD)) {
            return Err(ClientError::Outside);
        }
        let unit = 2f64.powi(self.card.logit_bits);
        logits.iter_mut().for_each(|logit| *logit *= unit);
        Ok(logits)
    }

    /// The most bits of a rounded logit: a step is at least twice the error of a fresh encryption,
    /// measured in logits. `None` if even steps of 1 are too fine. Errors of the computation are
    /// larger, and are not counted: a rounding finer than twice the foretold error tells some of
    /// them.
    fn most_bits(&self) -> Option<u32> {
        let ((primes, scale), estimator) = (&self.card.sent, Estimator::new(&self.card.parameters));
        let fresh = estimator.encrypt_seeded(&estimator.encode(1.0, scale, *primes)).error();
        let error = fresh * 2f64.powi(self.card.logit_bits);
        (0..=52).rev().find(|bits| 2f64.powi(-*bits) >= 2.0 * error).map(|bits| bits as u32)
    }

    /// Half of the range of the modulus: in some slots noise is far beyond it.
    fn most(&self) -> f64 {
        let (primes, scale) = &self.card.answer;
        let tables = &self.card.parameters.ring().data_primes()[..*primes];
        let modulus: f64 = tables.iter().map(|prime| prime.modulus().value() as f64).product();
        modulus / (4.0 * scale.to_f64(&self.card.parameters).unwrap_or(f64::INFINITY))
    }
}

/// The places of the largest numbers, the largest first, and of equal ones the first place first.
/// Every pair is compared, and no branch depends on the numbers.
fn order(numbers: &[f64], count: usize) -> Vec<usize> {
    // hides from the compiler that the value is 0 or 1, so that it makes no branch of it
    let bit = |condition: bool| black_box(usize::from(condition));
    let rank = |i: usize| {
        let before = |j: usize| bit(numbers[j] > numbers[i]) | (bit(numbers[j] == numbers[i]) & usize::from(j < i));
        (0..numbers.len()).map(before).sum::<usize>()
    };
    let ranks: Vec<usize> = (0..numbers.len()).map(rank).collect();
    let at = |place: usize| ranks.iter().enumerate().map(|(i, rank)| i * bit(*rank == place)).sum();
    (0..count).map(at).collect()
}
