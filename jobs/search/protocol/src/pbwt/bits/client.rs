//! The client's half: keys, the symbols of a pattern, and the answer.

use super::server::Keys;
use super::{Layout, PbwtError};
use rand_core::CryptoRng;
use tobari_lattice::ckks::{
    Ciphertext, Decryptor, EncodeError, Encoder, EvaluationKeys, OperationError, ReleaseError, SeededCiphertext,
};
use tobari_lattice::refresh::{Refresh, RefreshError};
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use zeroize::Zeroizing;

/// Why a query or an answer is impossible.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The place is not searched, or the pattern has another length.
    #[error(transparent)]
    Size(#[from] PbwtError),
    /// The encoder failed.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// Keys or ciphertexts that cannot be made.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// Keys of the refresh that cannot be made.
    #[error(transparent)]
    Refresh(#[from] RefreshError),
    /// An answer that does not decrypt.
    #[error("malformed answer: {0}")]
    Decrypt(#[from] ReleaseError),
    /// The answer is no count of this panel.
    #[error("expected a count from 0 to {most}, found {found}")]
    Count {
        /// Haplotypes of the panel.
        most: usize,
        /// The number in the answer.
        found: f64,
    },
}

/// The keys for a server.
///
/// # Errors
/// [`ClientError`] for a secret of other parameters.
pub fn keys(
    layout: &Layout,
    refresh: &Refresh,
    secret: &SecretKey,
    rng: &mut impl CryptoRng,
) -> Result<Keys, ClientError> {
    let mut maps = EvaluationKeys::new(secret.parameters());
    for (step, level) in layout.rotations(secret.parameters()) {
        maps.add_rotation(secret, step, level, rng)?;
    }
    Ok(Keys { refresh: refresh.keys(secret, rng)?, maps, public: PublicKey::generate(secret, rng) })
}

/// The ciphertext of the allele at a site of the pattern, counted from 0, for one of the searched
/// places.
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
    let (places, length) = (layout.size().places, layout.size().length);
    if place >= places {
        return Err(PbwtError::Places { most: places.saturating_sub(1), found: place }.into());
    }
    if site >= length {
        return Err(PbwtError::Length { most: length, found: site + 1 }.into());
    }
    let encoder = Encoder::new(secret.parameters())?;
    let mut slots = Zeroizing::new(vec![0.0; encoder.slots()]);
    for (position, pair) in slots.chunks_exact_mut(2 * layout.stride()).enumerate() {
        debug_assert!(position < encoder.slots(), "the order repeats through all slots");
        // both rows are written, for either allele
        pair[place] = f64::from(u8::from(!allele));
        pair[layout.stride() + place] = f64::from(u8::from(allele));
    }
    let scale = Layout::symbol_scale(site).ok_or(PbwtError::Approximate)?;
    let plaintext = encoder.encode(&slots, &scale, Layout::symbol_level(site))?;
    Ok(plaintext.encrypt_seeded(secret, rng)?)
}

/// The number of haplotypes with the pattern at the client's place.
///
/// # Errors
/// [`ClientError`] for an answer that is none.
pub fn count(layout: &Layout, secret: &SecretKey, place: usize, answer: &Ciphertext) -> Result<u64, ClientError> {
    let places = layout.size().places;
    if place >= places {
        return Err(PbwtError::Places { most: places.saturating_sub(1), found: place }.into());
    }
    let encoder = Encoder::new(secret.parameters())?;
    let slots = Decryptor::new(secret, &encoder)?.decrypt(answer)?;
    // the flood of all other coefficients cancels out
    let own = slots.iter().skip(place).step_by(layout.stride());
    let average = own.sum::<f64>() / (slots.len() / layout.stride()) as f64;
    let (most, found) = (layout.size().haplotypes, average.round());
    // a flood leaves an eighth, and roundings less than that
    let is_count = (average - found).abs() <= 0.25 && (0.0..=most as f64).contains(&found);
    if is_count { Ok(found as u64) } else { Err(ClientError::Count { most, found: average }) }
}
