//! The stages of a job, and their variants.
//!
//! A stage can often run in several ways: in plaintext where that is allowed, under encryption at
//! some level, or on masked numbers. Each way is a [`Variant`]: a program, the forms of its input
//! and output, and the other data that it needs in memory.

use crate::program::Program;
use crate::site::{KeyDomain, Owner, Secrecy};
use std::fmt;

/// The form of a job's data between two stages.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Form {
    /// Plaintext.
    Plain,
    /// Encrypted, with a number of multiplications left and a named layout of the numbers in the
    /// slots.
    Encrypted {
        /// Remaining multiplications.
        level: u16,
        /// The name of the layout.
        layout: String,
    },
    /// With a mask that only its owner can remove.
    Masked,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Form::Plain => f.write_str("plain"),
            Form::Encrypted { level, layout } => write!(f, "encrypted ({layout}, level {level})"),
            Form::Masked => f.write_str("masked"),
        }
    }
}

impl Form {
    /// Whether data of this form can be used as `other`: higher levels serve for lower ones.
    pub fn serves(&self, other: &Form) -> bool {
        match (self, other) {
            (Form::Encrypted { level, layout }, Form::Encrypted { level: least, layout: wanted }) => {
                level >= least && layout == wanted
            }
            _ => self == other,
        }
    }
}

/// One way to run a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// A name for people.
    pub name: String,
    /// The form of its input.
    pub takes: Form,
    /// The form of its output.
    pub gives: Form,
    /// Bytes of its input and of its output.
    pub bytes: [u64; 2],
    /// The steps.
    pub program: Program,
    /// Other data in memory, and who may know it: weights, tables.
    pub holds: Vec<(String, Secrecy)>,
    /// The trust that the variant requires of a site.
    pub trust: Trust,
}

/// The trust that a variant needs in its site for right results and secrecy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Trust {
    /// A guarded site checks the result and detects a wrong one.
    pub checked: bool,
    /// The data stays secret only from a site that follows the protocol: an active one could have
    /// it decrypted.
    pub passive_only: bool,
}

/// A stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// A name for people.
    pub name: String,
    /// The ways to run it.
    pub variants: Vec<Variant>,
}

/// Stages one after another, and the owner of the data.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The stages.
    pub segments: Vec<Segment>,
    /// The owner of the data.
    pub owner: Owner,
    /// The key that the data is encrypted under.
    pub key: KeyDomain,
    /// Forms and bytes of the input; the planner takes the cheapest. Plaintext arrives through a
    /// channel that ends at the site of the first stage.
    pub inputs: Vec<(Form, u64)>,
    /// Accepted forms of the result. If plain is one of them, a guarded site with the key may
    /// release encrypted data.
    pub outputs: Vec<Form>,
    /// Whether results must be right even if unguarded sites misbehave.
    pub integrity: bool,
    /// Whether unguarded sites may deviate from the protocol.
    pub active: bool,
    /// Levels that a ciphertext needs for a reset under a mask, so that no site sees the plaintext;
    /// `None` if masked resets are not allowed.
    pub masked_level: Option<u16>,
}

impl Job {
    /// Who may know the data in a given form.
    pub fn secrecy(&self, form: &Form) -> Secrecy {
        match form {
            Form::Plain => Secrecy::Secret { owner: self.owner.clone() },
            Form::Encrypted { .. } => Secrecy::Encrypted { key: self.key.clone() },
            Form::Masked => Secrecy::Masked { by: self.owner.clone() },
        }
    }
}
