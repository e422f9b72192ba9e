//! The one place that decoys hide, and the rejection of a second one.
//!
//! A list of places hides the true place as long as the server sees one list. Two lists show the
//! true place: lists of neighbouring windows have one pair of places at a distance of `length`, and
//! lists of two tables, or of one table before and after it grew, have little else in common. So a
//! client shows one list, as often as it likes, or sends its places without decoys. This module
//! compares only the lists of one process. It does not know the places that another process showed
//! with the same secret.

use super::QuestionError;
use std::sync::{Mutex, PoisonError};
use tobari_lattice::ring::Seed;

/// The secret of the decoys, and the places shown with it. It is never printed, and wiped on drop.
pub struct Decoys {
    secret: Seed,
    shown: Mutex<Shown>,
}

/// The places that a server saw.
enum Shown {
    /// No place yet.
    Nothing,
    /// Places without decoys.
    Public,
    /// A place among decoys.
    Hidden(Vec<u32>),
}

impl Decoys {
    /// Takes the secret, before any question.
    pub fn new(secret: Seed) -> Self {
        Self { secret, shown: Mutex::new(Shown::Nothing) }
    }

    pub(super) fn secret(&self) -> &Seed {
        &self.secret
    }

    /// Records the places of a question.
    ///
    /// # Errors
    /// [`QuestionError::Decoys`] for a list after other places, and for other places after a list.
    pub(super) fn show(&self, places: &[u32]) -> Result<(), QuestionError> {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let public = places.len() == 1;
        match &*shown {
            Shown::Nothing if public => *shown = Shown::Public,
            Shown::Nothing => *shown = Shown::Hidden(places.to_vec()),
            Shown::Public if public => {}
            Shown::Hidden(list) if list == places => {}
            _ => return Err(QuestionError::Decoys),
        }
        Ok(())
    }
}
