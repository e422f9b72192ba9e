//! The client's half, with the key: it makes queries, and reads answers.

use super::program::{Layout, LayoutError};
use super::server::{Form, Page, Registration};
use crate::client::MatchResult;
use rand_core::CryptoRng;
use tobari_lattice::bgv::{DecryptError, Decryptor, EncodeError, Encoder, EvaluationKeys, KeyError, SeededCiphertext};
use tobari_lattice::params::{self, LatticeParameters};
use tobari_lattice::ring::Modulus;
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use zeroize::Zeroizing;

/// Why a query cannot be made, or an answer cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The numbers cannot be encoded as a query.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The key is beyond the table's last key.
    #[error(transparent)]
    Key(#[from] LayoutError),
    /// The answer has two matches. An honest answer has that only by a false match.
    #[error("malformed answer: expected at most one match, found {found}")]
    Matches {
        /// The number of matches.
        found: usize,
    },
    /// The answer has another layout or other parameters.
    #[error("malformed answer: expected the layout and the parameters of the query, found others")]
    Layout,
    /// The parameters do not support a server's keys.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The answer does not decrypt. It was damaged, or answers no query under this key. The server
    /// must not learn of this error.
    #[error("malformed answer: {0}")]
    Decrypt(#[from] DecryptError),
}

/// Makes queries and reads answers with one secret key.
pub struct Asker<'a> {
    holder: Decryptor<'a>,
    encoder: Encoder,
    secret: &'a SecretKey,
    t: Modulus,
}

impl<'a> Asker<'a> {
    /// An asker with this key.
    ///
    /// # Errors
    /// [`ClientError`] for a key of another scheme.
    pub fn new(secret: &'a SecretKey) -> Result<Self, ClientError> {
        let params::Plaintext::Integers(t) = secret.parameters().plaintext() else { return Err(ClientError::Layout) };
        Ok(Self { holder: Decryptor::new(secret)?, encoder: Encoder::new(secret.parameters())?, secret, t })
    }

    /// The parameters of the key.
    pub fn parameters(&self) -> &LatticeParameters {
        self.secret.parameters()
    }

    /// The plaintext modulus.
    pub fn modulus(&self) -> &Modulus {
        &self.t
    }

    /// The keys that the server needs once, for all queries of up to `2^depth` blocks and limbs.
    ///
    /// # Errors
    /// [`ClientError::Keys`] for parameters without a special prime.
    pub fn registration(&self, depth: usize, rng: &mut impl CryptoRng) -> Result<Registration, ClientError> {
        let public = PublicKey::generate(self.secret, rng);
        Ok(Registration {
            public,
            keys: EvaluationKeys::new(self.secret.parameters()).with_expansion(self.secret, depth, rng)?,
        })
    }

    /// A query for a key: one ciphertext. Its coefficients are the limbs, and a one at the block.
    ///
    /// # Errors
    /// [`ClientError::Key`] for a number beyond the last key.
    pub fn query(&self, form: &Form, key: u128, rng: &mut impl CryptoRng) -> Result<SeededCiphertext, ClientError> {
        let layout = form.layout();
        let (block, rest) = layout.divide(&self.t, key)?;
        let mut values = Zeroizing::new(vec![0; layout.limbs() + layout.blocks()]);
        values.iter_mut().zip(layout.limbs_of(&self.t, rest)).for_each(|(value, limb)| *value = limb as i64);
        values[layout.limbs() + block] = 1;
        let message = form.expansion().pack(&values)?;
        Ok(message.encrypt_seeded(self.holder.key(), self.parameters().data_primes(), rng)?)
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// [`ClientError`] for an answer that no honest server gives.
    pub fn read(&self, layout: &Layout, answer: &[Page]) -> Result<MatchResult, ClientError> {
        let counts = |page: &Page| page.counts.is_empty() || page.counts.len() == layout.digits();
        if answer.len() != layout.pages()
            || answer.iter().any(|page| page.equal.len() != layout.limbs() || !counts(page))
        {
            return Err(ClientError::Layout);
        }
        let parts = answer.iter().flat_map(|page| page.equal.iter().chain(&page.counts));
        if parts.clone().any(|part| part.parameters() != self.parameters() || part.needs_relinearization()) {
            return Err(ClientError::Layout);
        }
        let (mut found, mut matches) = (MatchResult::Absent, 0);
        for page in answer {
            let mut equal = vec![true; self.encoder.slots()];
            for part in &page.equal {
                let values = self.encoder.decode(&self.holder.decrypt_measured(part)?)?;
                equal.iter_mut().zip(&values).for_each(|(equal, value)| *equal &= *value == 0);
            }
            let opened = |count| Ok::<_, ClientError>(self.encoder.decode(&self.holder.decrypt_measured(count)?)?);
            let counts = page.counts.iter().map(opened).collect::<Result<Vec<_>, _>>()?;
            for (slot, _) in equal.iter().enumerate().filter(|(_, equal)| **equal) {
                matches += 1;
                let digits = counts.iter().rev().map(|digit| self.t.reduce_signed(digit[slot]));
                let count = digits.reduce(|count, digit| count.wrapping_mul(self.t.value()).wrapping_add(digit));
                found = MatchResult::Present(count);
            }
        }
        if matches > 1 { Err(ClientError::Matches { found: matches }) } else { Ok(found) }
    }
}
