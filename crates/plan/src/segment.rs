//! What the stages of a job may be.
//!
//! A stage can often be done in several ways: in the clear where that is allowed, under encryption
//! at some level, on masked numbers. Each way is a
//! [`Variant`]: a program, the form of what it takes and gives, and what it has to have in memory
//! besides.

use crate::program::Program;
use crate::site::{KeyDomain, Owner, Secrecy};
use std::fmt;

/// In what form a job's data is between two stages.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Form {
    /// In the clear.
    Plain,
    /// Encrypted, with so many multiplications left and its numbers in the slots as the layout of
    /// this name has them.
    Encrypted {
        /// Multiplications that are left.
        level: u16,
        /// Where which number is.
        layout: String,
    },
    /// With a mask that its owner can take off.
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
    /// Whether what is in this form can be taken as `other`: higher levels serve for lower ones.
    pub fn serves(&self, other: &Form) -> bool {
        match (self, other) {
            (Form::Encrypted { level, layout }, Form::Encrypted { level: least, layout: wanted }) => {
                level >= least && layout == wanted
            }
            _ => self == other,
        }
    }
}

/// One way to do a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// What people call it.
    pub name: String,
    /// The form of its input.
    pub takes: Form,
    /// The form of its output.
    pub gives: Form,
    /// Bytes of its input and of its output.
    pub bytes: [u64; 2],
    /// The steps.
    pub program: Program,
    /// What else is in memory, and who may know it: weights, tables.
    pub holds: Vec<(String, Secrecy)>,
    /// What its result is worth where nothing guards the site.
    pub trust: Trust,
}

/// What a way to do a stage needs of the site that does it, for its result to be right and for
/// secrets to stay secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Trust {
    /// A guarded site checks the result, so that a wrong one is found out.
    pub checked: bool,
    /// What it holds stays secret only from a site that does what it was told: an active one could
    /// have it decrypted.
    pub passive_only: bool,
}

/// A stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// What people call it.
    pub name: String,
    /// The ways to do it.
    pub variants: Vec<Variant>,
}

/// Stages one after another, and whose data runs through them.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The stages.
    pub segments: Vec<Segment>,
    /// Whose data it is.
    pub owner: Owner,
    /// Under which key it is encrypted.
    pub key: KeyDomain,
    /// In what form it comes, and how many bytes it has: one of these, whichever is cheaper in the
    /// end. Plain data comes through a channel that ends where the first stage is.
    pub inputs: Vec<(Form, u64)>,
    /// In what form the result is wanted: one of these. Where plain is one, what is encrypted may
    /// be released at a guarded site that has the key.
    pub outputs: Vec<Form>,
    /// Whether results are to be right whatever unguarded sites do.
    pub integrity: bool,
    /// Whether unguarded sites may do other than they were told.
    pub active: bool,
    /// Levels that a ciphertext needs to be reset under a mask, so that nobody sees it in the
    /// clear; none if that is not to be.
    pub masked_level: Option<u16>,
}

impl Job {
    /// Who may know the data in some form.
    pub fn secrecy(&self, form: &Form) -> Secrecy {
        match form {
            Form::Plain => Secrecy::Secret { owner: self.owner.clone() },
            Form::Encrypted { .. } => Secrecy::Encrypted { key: self.key.clone() },
            Form::Masked => Secrecy::Masked { by: self.owner.clone() },
        }
    }
}
