//! The client's half: keys, the symbols of a pattern, and the answer.

use super::program::Input;
use super::{Layout, PbwtError};
use rand_core::CryptoRng;
use tobari_lattice::bgv::{
    Ciphertext, DecryptError, Decryptor, EncodeError, Encoder, EvaluationKeys, SeededCiphertext,
};
use tobari_lattice::rlwe::SecretKey;
use zeroize::Zeroizing;

/// Why a query or an answer is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The place is not searched, or the pattern has another length.
    #[error(transparent)]
    Size(#[from] PbwtError),
    /// The encoder failed.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The answer has other parameters.
    #[error("expected an answer under the key's parameters")]
    Parameters,
    /// An answer that does not decrypt.
    #[error("malformed answer: {0}")]
    Decrypt(#[from] DecryptError),
    /// The count is larger than the number of haplotypes.
    #[error("expected a count up to {most}, found {found}")]
    Count {
        /// Haplotypes of the panel.
        most: usize,
        /// The count in the answer.
        found: u64,
    },
}

/// Checks that a place is searched.
fn check(layout: &Layout, place: usize) -> Result<(), PbwtError> {
    let places = layout.size().places;
    if place < places { Ok(()) } else { Err(PbwtError::Places { most: places.saturating_sub(1), found: place }) }
}

/// The slots of an allele at one of the searched places, counted from 0. The slots of all other
/// places are 0.
///
/// # Errors
/// [`PbwtError::Places`].
pub fn slots(layout: &Layout, place: usize, allele: bool) -> Result<Vec<i64>, PbwtError> {
    check(layout, place)?;
    let mut slots = vec![0; 2 * layout.columns()];
    for position in 0..layout.period() {
        let column = layout.stride() * position + place;
        // both slots are written, for either allele
        slots[column] = i64::from(!allele);
        slots[layout.columns() + column] = i64::from(allele);
    }
    Ok(slots)
}

/// The ciphertext of the allele at a site of the pattern, counted from 0, at the level of its use.
///
/// # Errors
/// [`ClientError`] for a place or a site that does not exist.
pub fn symbol(
    layout: &Layout,
    secret: &SecretKey,
    place: usize,
    site: usize,
    allele: bool,
    rng: &mut impl CryptoRng,
) -> Result<SeededCiphertext, ClientError> {
    let length = layout.size().length;
    if site >= length {
        return Err(PbwtError::Length { most: length, found: site + 1 }.into());
    }
    let slots = Zeroizing::new(slots(layout, place, allele)?);
    let plaintext = Encoder::new(secret.parameters())?.encode(&slots)?;
    Ok(plaintext.encrypt_seeded(secret, usize::from(layout.level(site)) + 1, rng)?)
}

/// The key of an input; none for inputs that are not keys, or if the parameters have no such key.
pub fn key(layout: &Layout, secret: &SecretKey, input: Input, rng: &mut impl CryptoRng) -> Option<EvaluationKeys> {
    let (none, primes) = (EvaluationKeys::new(secret.parameters()), layout.primes());
    match input {
        Input::Rotation { steps, level } => none.with_rotation(secret, steps, usize::from(level) + 1, rng).ok(),
        Input::Swap => none.with_swap(secret, primes, rng).ok(),
        Input::Relinearization => none.with_relinearization(secret, primes, rng).ok(),
        _ => None,
    }
}

/// The number of haplotypes with the pattern at the client's place.
///
/// # Errors
/// [`ClientError`] for a malformed answer.
pub fn count(layout: &Layout, secret: &SecretKey, place: usize, answer: &Ciphertext) -> Result<u64, ClientError> {
    check(layout, place)?;
    if answer.parameters() != secret.parameters() || answer.needs_relinearization() {
        return Err(ClientError::Parameters);
    }
    let t = secret.parameters().error_factor() as i64;
    // the server floods its answer, and sends none whose bound passes a quarter of the modulus
    let message = Decryptor::new(secret)?.decrypt_measured(answer)?;
    let slots = Zeroizing::new(Encoder::new(secret.parameters())?.decode(&message)?);
    let (most, found) = (layout.size().haplotypes, slots[place].rem_euclid(t) as u64);
    if found <= most as u64 { Ok(found) } else { Err(ClientError::Count { most, found }) }
}
