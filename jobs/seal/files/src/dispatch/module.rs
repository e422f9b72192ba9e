//! What a module is. A new one is a file beside `emulated`: an implementation of [`Module`], and
//! its line in [`super`].

use std::time::Duration;
use tobari_seal::{Chunk, Rooms};

/// Why a module is of no use any more. What it had is done elsewhere.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleError {
    /// It could not be started.
    #[error("expected a module, found: {0}")]
    Start(String),
    /// It has ended.
    #[error("expected the module to answer, found that it has ended: {0}")]
    Gone(String),
    /// It does not answer.
    #[error("expected an answer of the module within {0} ms, found none")]
    TimedOut(u128),
    /// It answered what is no answer.
    #[error("expected an answer of the module's protocol, found something else")]
    Malformed,
    /// Its answer is not what the CPU gets.
    #[error("expected an answer that opens to what was handed over, found a wrong one")]
    Wrong,
}

/// An engine that chunks are handed to.
///
/// It belongs to one thread, its driver, which hands over and waits.
pub trait Module: Send {
    /// Its name in reports.
    fn name(&self) -> &str;

    /// What must stand beside every number that it is part of, as `emulated-module`.
    fn label(&self) -> &str;

    /// Cores of this machine that it computes on itself, beside its driver's: none, unless it is
    /// emulated.
    fn cores(&self) -> usize {
        0
    }

    /// Whether it does chunks like this one.
    fn takes(&self, chunk: &Chunk) -> bool;

    /// Does chunks: fills their answers in rooms that it makes for them, which [`Rooms::complete`]
    /// then completes.
    ///
    /// # Errors
    /// [`ModuleError`]; it is not asked again then.
    fn seal(&mut self, chunks: &[&Chunk]) -> Result<Rooms, ModuleError>;

    /// The module, if it can have a batch while it does another.
    fn pipelined(&mut self) -> Option<&mut dyn Pipelined> {
        None
    }
}

/// A module that is handed a batch while it does another.
pub trait Pipelined {
    /// Whether these can be handed over before the results of all others were fetched.
    fn fits(&self, chunks: &[&Chunk]) -> bool;

    /// Hands chunks over, and does not wait for them. They stay as they are, and where they are,
    /// until [`Pipelined::end`] has answered. Answers how many nanoseconds of the CPU went into
    /// waking a module that slept, if it will not sleep before the next batch: that is no part of
    /// what a batch costs.
    ///
    /// # Errors
    /// As [`Module::seal`].
    fn begin(&mut self, chunks: &[&Chunk]) -> Result<u64, ModuleError>;

    /// Whether [`Pipelined::end`] would not have to wait, now or after at most so long.
    fn is_done(&self, within: Duration) -> bool;

    /// Waits for the batch that was handed over first.
    ///
    /// # Errors
    /// As [`Module::seal`].
    fn end(&mut self) -> Result<Answers, ModuleError>;
}

/// What a module has done.
pub struct Answers {
    /// As [`Module::seal`] has them.
    pub rooms: Rooms,
    /// How long it worked on them by its own clock, in nanoseconds, if it has one.
    pub device_ns: Option<u64>,
}
