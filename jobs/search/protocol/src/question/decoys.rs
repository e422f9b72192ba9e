//! The one place that decoys hide, and the refusal of a second.
//!
//! A list of places hides the true one as long as the server sees one list. Two lists show it: of
//! neighbouring windows, one pair of places is `length` apart; of two tables, or of one table
//! before and after it grew, little else is on both lists. So a client shows one list, as often as
//! it likes, or says its places in public. Only lists that one process shows are compared: the
//! places that another process showed with the same secret, at another time, are not known here.

use super::QuestionError;
use std::sync::{Mutex, PoisonError};
use tobari_lattice::ring::Seed;

/// A secret that places are a function of, and what was shown with it. Not printed, wiped on drop.
pub struct Decoys {
    secret: Seed,
    shown: Mutex<Shown>,
}

/// The places that a server saw.
enum Shown {
    /// None yet.
    Nothing,
    /// Places in public.
    Public,
    /// A place among others.
    Hidden(Vec<u32>),
}

impl Decoys {
    /// With this secret, before any question.
    pub fn new(secret: Seed) -> Self {
        Self { secret, shown: Mutex::new(Shown::Nothing) }
    }

    pub(super) fn secret(&self) -> &Seed {
        &self.secret
    }

    /// Notes the places of a question.
    ///
    /// # Errors
    /// [`QuestionError::Decoys`] for several places after others, and for others after several.
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
