//! The order of a session's steps: each step of each round once, in order, and nothing after the
//! end.

use crate::configuration::{Configuration, Party, Script, Step};

/// The position of a session in its script.
///
/// Both ends keep one. A client's follows only its own steps and skips those of the host, because
/// the client does not see them.
#[derive(Clone, Debug)]
pub struct Progress {
    script: Script,
    rounds: u64,
    /// The number of steps done, over all rounds.
    done: u64,
    ended: bool,
}

/// A step, with its number over all rounds of the session; no other step has the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The step.
    pub step: Step,
    /// The step's number: round times length of the script, plus the step's place in the script.
    pub number: u64,
}

/// The message is not the next one of the script, or the script is over. The session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the next message of the script, found another: the session has ended")]
pub struct OutOfOrder;

impl Progress {
    /// The position at the first step of the first round.
    pub fn new(configuration: &Configuration) -> Self {
        let rounds = u64::from(configuration.rounds);
        Self { script: configuration.script.clone(), rounds, done: 0, ended: false }
    }

    /// Takes the next step if it has this sender and kind.
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

    /// Skips the host's steps, as a client does before its own step.
    pub fn skip_host(&mut self) {
        while self.next().is_some_and(|due| due.step.from == Party::Host) {
            self.done += 1;
        }
    }

    /// The next step; `None` after the last.
    pub fn next(&self) -> Option<Due> {
        let steps = self.script.steps();
        let length = steps.len() as u64;
        if self.ended || self.done >= self.rounds.saturating_mul(length) {
            return None;
        }
        let place = usize::try_from(self.done % length).ok()?;
        Some(Due { step: *steps.get(place)?, number: self.done })
    }

    /// Ends the session: no further step is allowed.
    pub fn end(&mut self) {
        self.ended = true;
    }
}
