//! Keys of a refresh in pieces: they take gigabytes, and nobody should need all of them at once to
//! send them, or to begin again after a break.

use super::{Refresh, RefreshError, RefreshKeys, RefreshSettings};
use crate::ckks::EvaluationKeys;
use crate::params::LatticeParameters;
use crate::rlwe::raise::RaiseKeys;
use crate::rlwe::{self, EvaluationKey, KeyId, OtherKey, SecretKey};
use crate::wire::{self, LatticeWireError};
use rand_core::CryptoRng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One key of a refresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyPiece {
    /// Both keys of the raise. They belong together: only who makes them knows the sparse secret.
    Raise,
    /// The key for products.
    Products,
    /// The key for conjugates.
    Conjugation,
    /// The key for a rotation by this many slots, from 1 to `N/2 - 1`.
    Rotation(usize),
}

/// Why a piece was rejected, or keys are not complete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PieceError {
    /// Bytes that are no key of these parameters.
    #[error(transparent)]
    Wire(#[from] LatticeWireError),
    /// A key of another secret than the pieces before it.
    #[error(transparent)]
    OtherKey(#[from] OtherKey),
    /// A key that the refresh does not use.
    #[error("expected one key of this refresh, found {found}")]
    Unknown {
        /// What was found.
        found: String,
    },
    /// A key for fewer primes than the refresh needs.
    #[error("expected {piece:?} for level {expected}, found level {found}")]
    Level {
        /// The piece.
        piece: KeyPiece,
        /// The level that the refresh needs.
        expected: usize,
        /// The level of the key.
        found: usize,
    },
    /// Pieces are missing.
    #[error("expected all keys of the refresh, found {missing} missing")]
    Missing {
        /// The number of missing pieces.
        missing: usize,
    },
}

impl Refresh {
    /// The keys that a refresh needs, each with its level.
    pub fn pieces(&self) -> BTreeMap<KeyPiece, usize> {
        let (after, slots) = (self.level_of_products(), self.evaluator.parameters().degree() / 2);
        let rotations = self.rotations().into_iter();
        let rotations = rotations.map(|(step, level)| (step.rem_euclid(slots as i64) as usize, level));
        let mut found = BTreeMap::from([
            (KeyPiece::Raise, self.evaluator.parameters().data_primes()),
            (KeyPiece::Products, after),
            (KeyPiece::Conjugation, after + 1),
        ]);
        for (step, level) in rotations {
            let known = found.entry(KeyPiece::Rotation(step)).or_insert(level);
            *known = level.max(*known);
        }
        found
    }

    /// Makes one piece, in bytes: who sends the pieces one by one needs the memory of the largest.
    ///
    /// ```
    /// use rand_core::SeedableRng;
    /// use tobari_lattice::params::{LatticeParameters, Plaintext};
    /// use tobari_lattice::refresh::{Refresh, RefreshKeysInPieces, RefreshSettings};
    /// use tobari_lattice::rlwe::SecretKey;
    /// # let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]);
    /// # let (data, kind) = ([vec![50], vec![40; 5], vec![50; 11]].concat(), Plaintext::Approximate);
    /// # let parameters = LatticeParameters::insecure_of_sizes(64, &data, &[50; 4], 5, kind)?;
    /// # let secret = SecretKey::generate(&parameters, &mut rng);
    /// let refresh = Refresh::new(&parameters, RefreshSettings::real(16))?;
    /// let mut received = RefreshKeysInPieces::new(&refresh);
    /// for piece in received.missing() {
    ///     received.add(&refresh.piece(piece, &secret, &mut rng)?)?;
    /// }
    /// let keys = received.finish()?;
    /// # assert!(keys.memory() > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RefreshError`] for a secret of other parameters, or a piece that the refresh does not use.
    pub fn piece(
        &self,
        piece: KeyPiece,
        secret: &SecretKey,
        rng: &mut impl CryptoRng,
    ) -> Result<Vec<u8>, RefreshError> {
        let level = *self.pieces().get(&piece).ok_or(RefreshError::Keys)?;
        let none = EvaluationKeys::new(self.evaluator.parameters());
        let key = match piece {
            KeyPiece::Raise => return Ok(wire::encode_raise_keys(&self.raise_keys(secret, rng)?)),
            KeyPiece::Products => none.with_relinearization(secret, level, rng)?,
            KeyPiece::Conjugation => none.with_conjugation(secret, level, rng)?,
            KeyPiece::Rotation(step) => none.with_rotation(secret, step as i64, level, rng)?,
        };
        Ok(wire::encode_ckks_evaluation_keys(&key))
    }
}

/// What the only key of a set is for.
fn only_piece(keys: &EvaluationKeys) -> Option<KeyPiece> {
    keys.only()?;
    if keys.inner().for_products().is_some() {
        return Some(KeyPiece::Products);
    }
    if keys.inner().for_automorphism(rlwe::conjugation(keys.parameters().degree())).is_some() {
        return Some(KeyPiece::Conjugation);
    }
    keys.rotations().next().map(|(step, _)| KeyPiece::Rotation(step))
}

/// Keys that arrive piece by piece, in any order.
pub struct RefreshKeysInPieces {
    parameters: LatticeParameters,
    settings: RefreshSettings,
    needed: BTreeMap<KeyPiece, usize>,
    found: BTreeSet<KeyPiece>,
    raise: Option<RaiseKeys>,
    evaluation: EvaluationKeys,
    id: Option<KeyId>,
}

impl RefreshKeysInPieces {
    /// No piece yet.
    pub fn new(refresh: &Refresh) -> Self {
        let parameters = refresh.evaluator.parameters();
        Self {
            parameters: parameters.clone(),
            settings: refresh.settings.clone(),
            needed: refresh.pieces(),
            found: BTreeSet::new(),
            raise: None,
            evaluation: EvaluationKeys::new(parameters),
            id: None,
        }
    }

    /// The pieces that are missing: what a sender goes on with after a break.
    pub fn missing(&self) -> Vec<KeyPiece> {
        self.needed.keys().filter(|piece| !self.found.contains(piece)).copied().collect()
    }

    /// Adds a piece. One that is there already is replaced.
    ///
    /// # Errors
    /// [`PieceError`] for bytes that are no such piece, or of another secret; all earlier pieces
    /// stay.
    pub fn add(&mut self, bytes: &[u8]) -> Result<KeyPiece, PieceError> {
        let raise = bytes.get(1) == Some(&(wire::LatticeKind::RaiseKeys as u8));
        let piece = if raise { self.add_raise(bytes)? } else { self.add_key(bytes)? };
        self.found.insert(piece);
        Ok(piece)
    }

    fn add_raise(&mut self, bytes: &[u8]) -> Result<KeyPiece, PieceError> {
        let keys = wire::decode_raise_keys(bytes, &self.parameters)?;
        self.id = KeyId::joined([self.id, keys.id()])?;
        self.raise = Some(keys);
        Ok(KeyPiece::Raise)
    }

    fn add_key(&mut self, bytes: &[u8]) -> Result<KeyPiece, PieceError> {
        let key = wire::decode_ckks_evaluation_keys(bytes, &self.parameters)?;
        let (Some(piece), Some(level)) = (only_piece(&key), key.only().map(EvaluationKey::level)) else {
            return Err(PieceError::Unknown { found: "none, or several".to_owned() });
        };
        let Some(expected) = self.needed.get(&piece).copied() else {
            return Err(PieceError::Unknown { found: format!("{piece:?}") });
        };
        if level < expected {
            return Err(PieceError::Level { piece, expected, found: level });
        }
        self.id = KeyId::joined([self.id, key.id()])?;
        self.evaluation.join(key);
        Ok(piece)
    }

    /// The keys.
    ///
    /// # Errors
    /// [`PieceError::Missing`].
    pub fn finish(self) -> Result<RefreshKeys, PieceError> {
        let missing = self.missing().len();
        match self.raise {
            Some(raise) if missing == 0 => {
                Ok(RefreshKeys { settings: self.settings, raise, evaluation: Arc::new(self.evaluation) })
            }
            _ => Err(PieceError::Missing { missing }),
        }
    }
}
