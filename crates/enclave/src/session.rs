//! Which step of which round is next: each once, in order, and nothing after the end.

use crate::configuration::{Configuration, Party, Script, Step};

/// Where in its script a session is.
///
/// Both ends keep one. A client's follows its own steps only and passes over those of the host,
/// which it does not see.
#[derive(Clone, Debug)]
pub struct Progress {
    script: Script,
    rounds: u64,
    /// Number of steps done, over all rounds; past the last one when the session has ended.
    done: u64,
    ended: bool,
}

/// A step, and its number over all rounds of the session, which no other step has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The step.
    pub step: Step,
    /// Its number: round times length of the script, plus its place there.
    pub number: u64,
}

/// The message was not the next of its script, or nothing is to come any more. The session has
/// ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the next message of the script, found another: the session has ended")]
pub struct OutOfOrder;

impl Progress {
    /// At the first step of the first round.
    pub fn new(configuration: &Configuration) -> Self {
        let rounds = u64::from(configuration.rounds);
        Self { script: configuration.script.clone(), rounds, done: 0, ended: false }
    }

    /// Takes the next step if it is this one.
    ///
    /// # Errors
    ///
    /// [`OutOfOrder`], and from then on always.
    pub fn take(&mut self, from: Party, kind: u8) -> Result<Due, OutOfOrder> {
        match self.next() {
            Some(due) if due.step.from == from && due.step.kind == kind => {
                self.done += 1;
                Ok(due)
            }
            _ => {
                self.ended = true;
                Err(OutOfOrder)
            }
        }
    }

    /// Passes over the host's steps, as a client does before its own.
    pub fn skip_host(&mut self) {
        while self.next().is_some_and(|due| due.step.from == Party::Host) {
            self.done += 1;
        }
    }

    /// The step that may come now; `None` after the last.
    pub fn next(&self) -> Option<Due> {
        let steps = self.script.steps();
        let length = steps.len() as u64;
        if self.ended || self.done >= self.rounds.saturating_mul(length) {
            return None;
        }
        let place = usize::try_from(self.done % length).ok()?;
        Some(Due { step: *steps.get(place)?, number: self.done })
    }

    /// Ends it: nothing comes any more.
    pub fn end(&mut self) {
        self.ended = true;
    }
}
