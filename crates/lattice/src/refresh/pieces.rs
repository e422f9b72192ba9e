//! Keys of a refresh in pieces: they take gigabytes, and nobody should need all of them at once to
//! send them, or to begin again after a break.

use super::{Refresh, RefreshError, RefreshKeys, RefreshSettings};
use crate::ckks::EvaluationKeys;
use crate::params::LatticeParameters;
use crate::rlwe::raise::{self, RaiseKeys};
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
        let mut key = EvaluationKeys::new(self.evaluator.parameters());
        key.add_piece(piece, secret, level, rng)?;
        Ok(wire::encode_ckks_raise_keys(&key).unwrap_or_else(|| wire::encode_ckks_evaluation_keys(&key)))
    }
}

impl EvaluationKeys {
    /// Adds one key for this level. Keys of the raise are for the top level always.
    ///
    /// # Errors
    /// [`RefreshError`] for a secret of other parameters or not that of the keys here, parameters
    /// without room for a raise, or a level that does not exist.
    pub fn add_piece(
        &mut self,
        piece: KeyPiece,
        secret: &SecretKey,
        level: usize,
        rng: &mut impl CryptoRng,
    ) -> Result<(), RefreshError> {
        match piece {
            KeyPiece::Raise => {
                self.check(secret, level)?;
                let narrow = raise::narrow(secret.parameters())?;
                self.set_raise(RaiseKeys::generate(secret, &narrow, secret.parameters().data_primes(), rng));
            }
            KeyPiece::Products => self.add_relinearization(secret, level, rng)?,
            KeyPiece::Conjugation => self.add_conjugation(secret, level, rng)?,
            KeyPiece::Rotation(step) => self.add_rotation(secret, step as i64, level, rng)?,
        }
        Ok(())
    }

    /// The level of the key for this purpose, if it is here.
    pub fn level_of(&self, piece: KeyPiece) -> Option<usize> {
        let inner = self.inner();
        let of = |element| inner.for_automorphism(element).map(|galois| galois.key.level());
        match piece {
            KeyPiece::Raise => self.raise().map(RaiseKeys::level),
            KeyPiece::Products => inner.for_products().map(EvaluationKey::level),
            KeyPiece::Conjugation => of(rlwe::conjugation(self.parameters().degree())),
            KeyPiece::Rotation(step) => of(rlwe::rotation(self.parameters().degree(), step as i64)),
        }
    }
}

impl RefreshKeys {
    /// The keys of a refresh from a set with all of them, and others.
    ///
    /// # Errors
    /// [`PieceError::Missing`], [`PieceError::Level`].
    pub fn of(refresh: &Refresh, evaluation: Arc<EvaluationKeys>) -> Result<Self, PieceError> {
        let needed = refresh.pieces();
        let missing = needed.keys().filter(|piece| evaluation.level_of(**piece).is_none()).count();
        if missing > 0 {
            return Err(PieceError::Missing { missing });
        }
        for (piece, expected) in needed {
            let found = evaluation.level_of(piece).unwrap_or(0);
            if found < expected {
                return Err(PieceError::Level { piece, expected, found });
            }
        }
        Ok(Self { settings: refresh.settings.clone(), evaluation })
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
        self.evaluation.set_raise(keys);
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
        match missing {
            0 => Ok(RefreshKeys { settings: self.settings, evaluation: Arc::new(self.evaluation) }),
            _ => Err(PieceError::Missing { missing }),
        }
    }
}
