//! The client, who has the key: encrypts queries and reads answers.

use super::program::{Key, Layout};
use super::server::Block;
use rand_core::CryptoRng;
use tobari_lattice::bgv::{Ciphertext, DecryptError, Decryptor, EncodeError, Encoder, Plaintext, SeededCiphertext};
use tobari_lattice::params::{self, LatticeParameters};
use tobari_lattice::ring::Modulus;
use tobari_lattice::rlwe::SecretKey;
use zeroize::Zeroizing;

/// The result of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchResult {
    /// The pattern does not occur.
    Absent,
    /// The pattern occurs, with its count if the query asked for the count.
    Present(Option<u64>),
    /// This many sites of the pattern occur, from the first on, with the count if the query asked
    /// for it.
    Longest(usize, Option<u64>),
}

/// Why a query is not possible, or an answer cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The numbers cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The key is not a number modulo `t`.
    #[error("expected a key below {most}, found {found}")]
    Key {
        /// `t`.
        most: u64,
        /// The key.
        found: u64,
    },
    /// Two matches for one number, or a match without a match of the shorter prefixes. No table
    /// gives such an answer.
    #[error("malformed answer: expected at most one match, and one of everything shorter")]
    Matches,
    /// More or fewer numbers than the layout has groups.
    #[error("expected {expected} numbers of a query, found {found}")]
    Groups {
        /// Groups.
        expected: usize,
        /// Numbers.
        found: usize,
    },
    /// The answer has other parameters.
    #[error("malformed answer: expected the parameters of the query, found others")]
    Parameters,
    /// The answer does not decrypt: it was damaged, or does not answer a query under this key. The
    /// server must not learn this.
    #[error("malformed answer: {0}")]
    Decrypt(#[from] DecryptError),
}

/// Encrypts queries and reads answers with one secret key.
pub struct Asker<'a> {
    holder: Decryptor<'a>,
    encoder: Encoder,
    parameters: &'a LatticeParameters,
    t: Modulus,
}

impl<'a> Asker<'a> {
    /// Takes the secret key.
    ///
    /// # Errors
    /// [`ClientError`] for a key of another scheme.
    pub fn new(secret: &'a SecretKey) -> Result<Self, ClientError> {
        let parameters = secret.parameters();
        let params::Plaintext::Integers(t) = parameters.plaintext() else { return Err(ClientError::Parameters) };
        Ok(Self { holder: Decryptor::new(secret)?, encoder: Encoder::new(parameters)?, parameters, t })
    }

    /// The key's parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        self.parameters
    }

    /// A query for numbers, one for each group of a layout: ciphertexts by limb, and by block where
    /// there are several groups. Every slot has the number of its group.
    ///
    /// # Errors
    /// [`ClientError::Key`], [`ClientError::Groups`].
    pub fn query(
        &self,
        numbers: &[Key],
        (layout, limbs): (&Layout, usize),
        rng: &mut impl CryptoRng,
    ) -> Result<Vec<SeededCiphertext>, ClientError> {
        let most = self.t.value();
        if let Some(found) = numbers.iter().flatten().copied().find(|limb| *limb >= most) {
            return Err(ClientError::Key { most, found });
        }
        if numbers.len() != layout.groups() {
            return Err(ClientError::Groups { expected: layout.groups(), found: numbers.len() });
        }
        let blocks = if layout.by_block() { layout.blocks() } else { 1 };
        let all = (0..blocks).flat_map(|block| (0..limbs).map(move |limb| (block, limb)));
        let mut one = |(block, limb): (usize, usize)| {
            let plain = if layout.by_block() {
                let slots = block * layout.slots()..(block + 1) * layout.slots();
                let values: Zeroizing<Vec<i64>> =
                    Zeroizing::new(slots.map(|slot| numbers[layout.group_of(slot)][limb] as i64).collect());
                self.encoder.encode(&values)?
            } else {
                Plaintext::from_coefficients(self.parameters, &[numbers[0][limb] as i64])?
            };
            Ok(plain.encrypt_seeded(self.holder.key(), self.parameters.data_primes(), rng)?)
        };
        all.map(&mut one).collect()
    }

    /// Reads an answer to a query of this layout.
    ///
    /// # Errors
    /// [`ClientError`] for an answer that no honest server gives.
    pub fn read(&self, answer: &[Block], (layout, limbs): (&Layout, usize)) -> Result<MatchResult, ClientError> {
        let wrong = |part: &Ciphertext| part.parameters() != self.parameters || part.needs_relinearization();
        let shaped = |block: &Block| block.equal.len() == limbs && !block.equal.iter().chain(&block.count).any(wrong);
        if answer.len() != layout.blocks() || !answer.iter().all(shaped) {
            return Err(ClientError::Parameters);
        }
        let mut matches: Vec<Option<Option<u64>>> = vec![None; layout.groups()];
        for (block, answer) in answer.iter().enumerate() {
            let open =
                |part: &Ciphertext| Ok::<_, ClientError>(self.encoder.decode(&self.holder.decrypt_measured(part)?)?);
            let equal = answer.equal.iter().map(open).collect::<Result<Vec<_>, _>>()?;
            let counts = answer.count.as_ref().map(open).transpose()?;
            for slot in (0..layout.slots()).filter(|slot| equal.iter().all(|limb| limb[*slot] == 0)) {
                let group = &mut matches[layout.group_of(block * layout.slots() + slot)];
                if group.is_some() {
                    return Err(ClientError::Matches);
                }
                *group = Some(counts.as_ref().map(|counts| self.t.reduce_signed(counts[slot])));
            }
        }
        let sites = matches.iter().take_while(|found| found.is_some()).count();
        if matches[sites..].iter().any(Option::is_some) {
            return Err(ClientError::Matches);
        }
        Ok(match (sites.checked_sub(1).and_then(|last| matches[last]), layout.by_block()) {
            (None, _) => MatchResult::Absent,
            (Some(count), false) => MatchResult::Present(count),
            (Some(count), true) => MatchResult::Longest(sites, count),
        })
    }
}
