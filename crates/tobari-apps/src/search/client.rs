//! The half that has the key: asks, and reads answers.

use super::server::Block;
use rand_core::CryptoRng;
use tobari_core::bgv::{Decryptor, EncodeError, Encoder, Plaintext, SeededCiphertext};
use tobari_core::params::{self, LatticeParameters};
use tobari_core::ring::{Domain, Modulus, Seed};
use tobari_core::rlwe::SecretKey;

/// What a client learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It does not occur.
    Absent,
    /// It occurs, so often if that was asked.
    Present(Option<u64>),
}

/// Why a query is none, or an answer cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Numbers that are no query.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A key that is no number modulo `t`.
    #[error("expected a key below {most}, found {found}")]
    Key {
        /// `t`.
        most: u64,
        /// The key.
        found: u64,
    },
    /// An answer with two matches: no table gives that.
    #[error("malformed answer: expected at most one match, found {found}")]
    Matches {
        /// How many.
        found: usize,
    },
    /// An answer of other parameters.
    #[error("malformed answer: expected the parameters of the query, found others")]
    Parameters,
    /// More places than the panel has, or none.
    #[error("expected 1 to {most} places, found {found}")]
    Places {
        /// How many there may be.
        most: u32,
        /// How many were asked for.
        found: u32,
    },
}

/// Asks and reads with one secret key.
pub struct Asker<'a> {
    holder: Decryptor<'a>,
    encoder: Encoder,
    parameters: &'a LatticeParameters,
    t: Modulus,
}

impl<'a> Asker<'a> {
    /// With this key.
    ///
    /// # Errors
    /// [`ClientError`] for a key of another scheme.
    pub fn new(secret: &'a SecretKey) -> Result<Self, ClientError> {
        let parameters = secret.parameters();
        let params::Plaintext::Integers(t) = parameters.plaintext() else { return Err(ClientError::Parameters) };
        Ok(Self { holder: Decryptor::new(secret)?, encoder: Encoder::new(parameters)?, parameters, t })
    }

    /// A query for a key, the same number in every slot.
    ///
    /// # Errors
    /// [`ClientError::Key`].
    pub fn query(&self, key: u64, rng: &mut impl CryptoRng) -> Result<SeededCiphertext, ClientError> {
        if key >= self.t.value() {
            return Err(ClientError::Key { most: self.t.value(), found: key });
        }
        let constant = Plaintext::from_coefficients(self.parameters, &[key as i64])?;
        Ok(self.holder.encrypt(&constant, self.parameters.data_primes(), rng))
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// [`ClientError`] for one that no honest server gives.
    pub fn read(&self, answer: &[Block]) -> Result<Found, ClientError> {
        let (mut found, mut matches) = (Found::Absent, 0);
        for block in answer {
            let both = std::iter::once(&block.equal).chain(&block.count);
            if both.clone().any(|part| part.parameters() != self.parameters || part.needs_relinearization()) {
                return Err(ClientError::Parameters);
            }
            let equal = self.encoder.decode(&self.holder.decrypt(&block.equal));
            let counts = block.count.as_ref().map(|count| self.encoder.decode(&self.holder.decrypt(count)));
            for (slot, _) in equal.iter().enumerate().filter(|(_, value)| **value == 0) {
                matches += 1;
                found = Found::Present(counts.as_ref().map(|counts| self.t.reduce_signed(counts[slot])));
            }
        }
        if matches > 1 { Err(ClientError::Matches { found: matches }) } else { Ok(found) }
    }
}

/// Places of a query, among them the true one, and its index: `count` of the `all` places of a panel, ascending. They are a function of the
/// secret, the panel and the true place, so that asking again shows the same places again, and whoever compares two lists is left with all of them. The others are
/// uniform and may coincide, with each other or with the true one: then it has several indices, and the first is given.
///
/// # Errors
/// [`ClientError::Places`] for no place, or a true one that is not among all.
pub fn places(
    secret: &Seed,
    panel: &[u8; 32],
    (true_place, all): (u32, u32),
    count: u32,
) -> Result<(Vec<u32>, usize), ClientError> {
    let refused = ClientError::Places { most: all, found: count };
    let Some(modulus) = Modulus::new(u64::from(all).max(2)) else { return Err(refused) };
    if count == 0 || true_place >= all || count > all {
        return Err(refused);
    }
    // a tree of generators: one branch for each seven bytes of the panel's name, then one for the place
    let mut seed = Seed::from_bytes(secret.to_bytes());
    for part in panel.chunks(7) {
        let branch = part.iter().fold(0u64, |branch, byte| branch << 8 | u64::from(*byte));
        seed = seed.derive(branch);
    }
    let mut drawn = vec![0; count as usize - 1];
    seed.derive(u64::from(true_place)).stream(Domain::Uniform, 0).uniform(&modulus, &mut drawn);
    let mut places: Vec<u32> = drawn.into_iter().map(|place| (place as u32).min(all - 1)).collect();
    places.push(true_place);
    places.sort_unstable();
    let index = places.partition_point(|place| *place < true_place);
    Ok((places, index))
}
