//! The keys of a set, and how they wrap and unwrap the set's key.

use super::FileProblem;
#[cfg(feature = "age")]
use super::recipients::{Identities, Recipients};
use rand_core::CryptoRng;
use std::cell::RefCell;
use std::path::Path;
use tobari_seal::{CostLimits, KeyFile, PassphraseCost, SetKey, Stanza, Stanzas};
use zeroize::Zeroizing;

/// Key files and passphrases, and recipients and identities of age. Each one alone decrypts a set
/// that is sealed for all of them.
pub struct Keys {
    files: Vec<KeyFile>,
    passphrases: Vec<Zeroizing<Vec<u8>>>,
    #[cfg(feature = "age")]
    recipients: Option<Recipients>,
    #[cfg(feature = "age")]
    identities: Identities,
    cost: PassphraseCost,
    limits: CostLimits,
    /// The last result. All files of a set have the same stanzas, and deriving a key from a
    /// passphrase takes a second.
    known: RefCell<Option<(Stanzas, SetKey)>>,
}

impl Keys {
    /// Keys with the usual cost of passphrases.
    pub fn new(files: Vec<KeyFile>, passphrases: Vec<Zeroizing<Vec<u8>>>) -> Self {
        Self {
            files,
            passphrases,
            #[cfg(feature = "age")]
            recipients: None,
            #[cfg(feature = "age")]
            identities: Identities::default(),
            cost: PassphraseCost::USUAL,
            limits: CostLimits::USUAL,
            known: RefCell::new(None),
        }
    }

    /// Sets another cost of passphrases.
    pub fn with_cost(mut self, cost: PassphraseCost) -> Self {
        self.cost = cost;
        self
    }

    /// Adds recipients of age.
    #[cfg(feature = "age")]
    pub fn with_recipients(mut self, recipients: Recipients) -> Self {
        self.recipients = Some(recipients);
        self
    }

    /// Adds identities of age.
    #[cfg(feature = "age")]
    pub fn with_identities(mut self, identities: Identities) -> Self {
        self.identities = identities;
        self
    }

    /// Wraps the set's key for each key and recipient.
    ///
    /// # Errors
    /// [`FileProblem::Seal`] without keys or with too many, [`FileProblem::Age`] if a plugin fails
    /// or recipients must not be mixed.
    pub fn wrap(&self, set: &SetKey, rng: &mut dyn CryptoRng) -> Result<Stanzas, FileProblem> {
        let wrong = FileProblem::seal(Path::new("keys"));
        let mut stanzas = Vec::new();
        for file in &self.files {
            stanzas.push(Stanza::for_key_file(file, set, rng).map_err(wrong)?);
        }
        for passphrase in &self.passphrases {
            stanzas.push(Stanza::for_passphrase(passphrase, self.cost, set, rng).map_err(wrong)?);
        }
        #[cfg(feature = "age")]
        if let Some(recipients) = &self.recipients {
            stanzas.extend(recipients.wrap(set)?);
        }
        let stanzas = Stanzas::new(stanzas).map_err(wrong)?;
        *self.known.borrow_mut() = Some((stanzas.clone(), set.clone()));
        Ok(stanzas)
    }

    /// The set's key, if one of the keys unwraps a stanza.
    ///
    /// # Errors
    /// [`FileProblem::Seal`] for a passphrase whose cost is beyond the limits, if no key file
    /// unwraps the key; [`FileProblem::Age`] for a plugin that fails.
    pub fn unwrap(&self, stanzas: &Stanzas) -> Result<Option<SetKey>, FileProblem> {
        if let Some((known, key)) = &*self.known.borrow()
            && known == stanzas
        {
            return Ok(Some(key.clone()));
        }
        #[cfg_attr(not(feature = "age"), expect(unused_mut, reason = "only identities add to it"))]
        let mut key = self.unwrap_own(stanzas)?;
        #[cfg(feature = "age")]
        for stanza in stanzas.iter().filter(|stanza| stanza.age().is_some()) {
            if key.is_none() {
                key = self.identities.unwrap(stanza)?;
            }
        }
        *self.known.borrow_mut() = key.clone().map(|key| (stanzas.clone(), key));
        Ok(key)
    }

    /// The same with key files and passphrases only. Only a holder of one of them could have
    /// wrapped this key, so more files may be sealed under it. For a recipient of age anybody can
    /// wrap a key.
    ///
    /// # Errors
    /// As [`Keys::unwrap`].
    pub fn unwrap_own(&self, stanzas: &Stanzas) -> Result<Option<SetKey>, FileProblem> {
        let by_file = |stanza: &Stanza| self.files.iter().find_map(|file| stanza.open_with_key_file(file));
        let mut key = stanzas.iter().find_map(by_file);
        for stanza in stanzas.iter().filter(|stanza| stanza.takes_passphrase()) {
            for passphrase in &self.passphrases {
                if key.is_none() {
                    let opened = stanza.open_with_passphrase(passphrase, &self.limits);
                    key = opened.map_err(FileProblem::seal(Path::new("keys")))?;
                }
            }
        }
        Ok(key)
    }
}
