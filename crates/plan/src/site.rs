//! Sites, where steps run, and rules about who may know which value.

use std::fmt;

/// The key that something is encrypted under.
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
    /// The holders of the key; the bytes may be anywhere else.
    Encrypted {
        /// The key.
        key: KeyDomain,
    },
    /// The holder of the mask.
    Masked {
        /// The holder.
        by: Owner,
    },
    /// The owner, and sites that may hold the owner's secrets.
    Secret {
        /// The owner.
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

/// The protection between a site's memory and the rest of its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Guard {
    /// Nothing but the operating system.
    Process,
    /// A separate process that simulates an enclave: hardware enforces nothing.
    SimulatedEnclave,
    /// Hardware that attests itself with evidence.
    Enclave,
}

/// The processors of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Unit {
    /// Cores; equivalent ones pull steps from one queue.
    Cores(u16),
    /// An accelerator.
    Accelerator,
}

/// A place where steps run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// A name for people.
    pub name: String,
    /// Its processors.
    pub unit: Unit,
    /// Its protection.
    pub guard: Guard,
    /// Bytes for values.
    pub memory: u64,
    /// Whether there is a tier of storage behind its memory.
    pub tier: bool,
    /// Keys that are known there.
    pub keys: Vec<KeyDomain>,
    /// Parties whose secrets may be there.
    pub trusted_by: Vec<Owner>,
    /// The parties among them whose plaintext may also be in its tier: it is their disk.
    pub tier_of: Vec<Owner>,
}

impl Site {
    /// A blind server: it has no keys, and no party trusts it with secrets.
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
            // with the key, the ciphertext is as sensitive as the secret
            Secrecy::Encrypted { key } => !self.keys.contains(key) || self.guard != Guard::Process,
            Secrecy::Secret { owner } => self.trusted_by.contains(owner),
        }
    }

    /// Whether a value of this secrecy may be in the site's tier. Plain secrets may be only on a
    /// disk of their owner; masks must not be stored at all.
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
