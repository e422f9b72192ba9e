//! Places where steps run, and who may know what.

use std::fmt;

/// Whose key something is encrypted under.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyDomain(pub String);

/// A party.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(pub String);

/// Who may know a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Secrecy {
    /// Everybody.
    Public,
    /// Whoever has the key; the bytes may lie anywhere else.
    Encrypted {
        /// The key.
        key: KeyDomain,
    },
    /// Whoever has the mask.
    Masked {
        /// Who has it.
        by: Owner,
    },
    /// Its owner, and sites that may hold the owner's secrets.
    Secret {
        /// Whose it is.
        owner: Owner,
    },
}

impl fmt::Display for Secrecy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Secrecy::Public => f.write_str("public"),
            Secrecy::Encrypted { key } => write!(f, "encrypted for {}", key.0),
            Secrecy::Masked { by } => write!(f, "masked by {}", by.0),
            Secrecy::Secret { owner } => write!(f, "a secret of {}", owner.0),
        }
    }
}

/// What stands between a site's memory and the rest of its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Guard {
    /// Nothing but the operating system.
    Process,
    /// A process of its own that stands for an enclave: nothing that hardware enforces.
    SimulatedEnclave,
    /// Hardware with evidence.
    Enclave,
}

/// What computes at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Unit {
    /// Cores; equivalent ones pull steps from one queue.
    Cores(u16),
    /// An accelerator.
    Accelerator,
}

/// Where steps run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// What people call it.
    pub name: String,
    /// What computes there.
    pub unit: Unit,
    /// What guards it.
    pub guard: Guard,
    /// Bytes for values.
    pub memory: u64,
    /// Whether there is a tier of storage behind its memory.
    pub tier: bool,
    /// Keys that are known there.
    pub keys: Vec<KeyDomain>,
    /// Parties whose secrets may be there.
    pub trusted_by: Vec<Owner>,
    /// Those of them whose plain data may lie in its tier as well: it is their disk.
    pub tier_of: Vec<Owner>,
}

impl Site {
    /// A blind server: no keys, and nobody's secrets.
    pub fn blind(name: impl Into<String>, cores: u16, memory: u64) -> Self {
        Self {
            name: name.into(),
            unit: Unit::Cores(cores),
            guard: Guard::Process,
            memory,
            tier: true,
            keys: Vec::new(),
            trusted_by: Vec::new(),
            tier_of: Vec::new(),
        }
    }

    /// Whether a value of this secrecy may be in the site's memory.
    pub fn may_hold(&self, secrecy: &Secrecy) -> bool {
        match secrecy {
            Secrecy::Public | Secrecy::Masked { .. } => true,
            // with the key it would be as good as the secret itself
            Secrecy::Encrypted { key } => !self.keys.contains(key) || self.guard != Guard::Process,
            Secrecy::Secret { owner } => self.trusted_by.contains(owner),
        }
    }

    /// Whether it may be in the site's tier: secrets are on a disk there, which must be their
    /// owner's, and masks are for one moment.
    pub fn may_store(&self, secrecy: &Secrecy) -> bool {
        self.tier
            && match secrecy {
                Secrecy::Public => true,
                Secrecy::Encrypted { key } => !self.keys.contains(key),
                Secrecy::Masked { .. } => false,
                Secrecy::Secret { owner } => self.may_hold(secrecy) && self.tier_of.contains(owner),
            }
    }
}
