//! The client's half: keys, the symbols of a pattern, and the answer.

use super::program::Input;
use super::{Layout, PbwtError};
use rand_core::CryptoRng;
use tobari_lattice::bgv::{
    Ciphertext, DecryptError, Decryptor, EncodeError, Encoder, EvaluationKeys, SeededCiphertext,
};
use tobari_lattice::rlwe::SecretKey;
use zeroize::Zeroizing;

/// Why there is no query, or no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// A place that is not among those searched, or a pattern of another length.
    #[error(transparent)]
    Size(#[from] PbwtError),
    /// What the encoder says.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// An answer of other parameters.
    #[error("expected an answer under the key's parameters")]
    Parameters,
    /// An answer that does not decrypt.
    #[error("malformed answer: {0}")]
    Decrypt(#[from] DecryptError),
    /// More haplotypes than there are.
    #[error("expected a count up to {most}, found {found}")]
    Count {
        /// Haplotypes of the panel.
        most: usize,
        /// What the answer says.
        found: u64,
    },
}

/// Refuses a place that is not searched.
fn check(layout: &Layout, place: usize) -> Result<(), PbwtError> {
    let places = layout.size().places;
    if place < places { Ok(()) } else { Err(PbwtError::Places { most: places.saturating_sub(1), found: place }) }
}

/// The slots of an allele at one of the places that are searched, from 0 on; what comes of the
/// others is 0.
///
/// # Errors
/// [`PbwtError::Places`].
pub fn slots(layout: &Layout, place: usize, allele: bool) -> Result<Vec<i64>, PbwtError> {
    check(layout, place)?;
    let mut slots = vec![0; 2 * layout.columns()];
    for position in 0..layout.period() {
        let column = layout.stride() * position + place;
        // both are written, whatever the allele is
        slots[column] = i64::from(!allele);
        slots[layout.columns() + column] = i64::from(allele);
    }
    Ok(slots)
}

/// The ciphertext of the allele at a site of the pattern, from 0 on, at the level that it is used
/// at.
///
/// # Errors
/// [`ClientError`] for a place or a site that there is not.
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
    Ok(Decryptor::new(secret)?.encrypt(&plaintext, usize::from(layout.level(site)) + 1, rng))
}

/// The key of an input that is one; none for other inputs, or if the parameters have no such key.
pub fn key(layout: &Layout, secret: &SecretKey, input: Input, rng: &mut impl CryptoRng) -> Option<EvaluationKeys> {
    let (none, primes) = (EvaluationKeys::none(), layout.primes());
    match input {
        Input::Rotation { steps, level } => none.with_rotation(secret, steps, usize::from(level) + 1, rng).ok(),
        Input::Swap => none.with_swap(secret, primes, rng).ok(),
        Input::Relinearization => none.with_relinearization(secret, primes, rng).ok(),
        _ => None,
    }
}

/// How many haplotypes have the pattern at the place that was asked for.
///
/// # Errors
/// [`ClientError`] for an answer that is none.
pub fn count(layout: &Layout, secret: &SecretKey, place: usize, answer: &Ciphertext) -> Result<u64, ClientError> {
    check(layout, place)?;
    if answer.parameters() != secret.parameters() || answer.needs_relinearization() {
        return Err(ClientError::Parameters);
    }
    let t = secret.parameters().error_factor() as i64;
    let message = Decryptor::new(secret)?.decrypt(answer)?;
    let slots = Zeroizing::new(Encoder::new(secret.parameters())?.decode(&message));
    let (most, found) = (layout.size().haplotypes, slots[place].rem_euclid(t) as u64);
    if found <= most as u64 { Ok(found) } else { Err(ClientError::Count { most, found }) }
}
