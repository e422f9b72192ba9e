//! Who may open a set.

use rand_core::CryptoRng;
use std::cell::RefCell;
use tobari_apps::seal::{CostLimits, KeyFile, PassphraseCost, SealError, SetKey, Stanza, Stanzas};
use zeroize::Zeroizing;

/// Key files and passphrases. Each of them opens what is sealed for all.
pub struct Keys {
    files: Vec<KeyFile>,
    passphrases: Vec<Zeroizing<Vec<u8>>>,
    cost: PassphraseCost,
    limits: CostLimits,
    /// The files of a set have the same stanzas, and a passphrase takes a second.
    known: RefCell<Option<(Stanzas, SetKey)>>,
}

impl Keys {
    /// These; passphrases of the usual cost.
    pub fn new(files: Vec<KeyFile>, passphrases: Vec<Zeroizing<Vec<u8>>>) -> Self {
        let (cost, limits) = (PassphraseCost::USUAL, CostLimits::USUAL);
        Self { files, passphrases, cost, limits, known: RefCell::new(None) }
    }

    /// Passphrases at another cost.
    pub fn with_cost(mut self, cost: PassphraseCost) -> Self {
        self.cost = cost;
        self
    }

    /// The set's key, wrapped for each.
    ///
    /// # Errors
    /// [`SealError`] if there are none or too many.
    pub fn wrap(&self, set: &SetKey, rng: &mut dyn CryptoRng) -> Result<Stanzas, SealError> {
        let mut stanzas = Vec::new();
        for file in &self.files {
            stanzas.push(Stanza::for_key_file(file, set, rng)?);
        }
        for passphrase in &self.passphrases {
            stanzas.push(Stanza::for_passphrase(passphrase, self.cost, set, rng)?);
        }
        let stanzas = Stanzas::new(stanzas)?;
        *self.known.borrow_mut() = Some((stanzas.clone(), set.clone()));
        Ok(stanzas)
    }

    /// The set's key, if one of these opens a stanza.
    ///
    /// # Errors
    /// [`SealError::Cost`] or [`SealError::Memory`] for a passphrase that asks for too much, if no key file opens it.
    pub fn unwrap(&self, stanzas: &Stanzas) -> Result<Option<SetKey>, SealError> {
        if let Some((known, key)) = &*self.known.borrow()
            && known == stanzas
        {
            return Ok(Some(key.clone()));
        }
        let by_file = |stanza: &Stanza| self.files.iter().find_map(|file| stanza.open_with_key_file(file));
        let mut key = stanzas.iter().find_map(by_file);
        for stanza in stanzas.iter().filter(|stanza| stanza.takes_passphrase()) {
            for passphrase in &self.passphrases {
                if key.is_none() {
                    key = stanza.open_with_passphrase(passphrase, &self.limits)?;
                }
            }
        }
        *self.known.borrow_mut() = key.clone().map(|key| (stanzas.clone(), key));
        Ok(key)
    }
}
