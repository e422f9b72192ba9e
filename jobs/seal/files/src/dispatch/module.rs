//! The trait of a module. A new module is a file beside `emulated` with an implementation of
//! [`Module`], and a line in [`super`].

use std::time::Duration;
use tobari_seal::{Chunk, Rooms};

/// Why a module failed. Other engines take over its chunks.
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
    /// Its answer does not follow the protocol.
    #[error("expected an answer of the module's protocol, found something else")]
    Malformed,
    /// Its answer differs from the CPU's result.
    #[error("the module's answer does not decrypt to the data that it was given")]
    Wrong,
}

/// An engine beside the CPU threads.
///
/// It belongs to one thread, its driver, which hands over chunks and waits for answers.
pub trait Module: Send {
    /// Its name in reports.
    fn name(&self) -> &str;

    /// The label of every number to which it contributed, such as `emulated-module`.
    fn label(&self) -> &str;

    /// Cores of this machine that it computes on, without its driver's core: none, unless the
    /// module is emulated.
    fn cores(&self) -> usize {
        0
    }

    /// Whether it can process chunks like this one.
    fn takes(&self, chunk: &Chunk) -> bool;

    /// Processes chunks: makes rooms for them and fills the answers. [`Rooms::complete`] then
    /// completes the results.
    ///
    /// # Errors
    /// [`ModuleError`]; the module gets no more chunks then.
    fn seal(&mut self, chunks: &[&Chunk]) -> Result<Rooms, ModuleError>;

    /// The module, if it accepts a batch while it works on another.
    fn pipelined(&mut self) -> Option<&mut dyn Pipelined> {
        None
    }
}

/// A module that accepts a batch while it works on another.
pub trait Pipelined {
    /// Whether these chunks can be handed over before the results of all others were fetched.
    fn fits(&self, chunks: &[&Chunk]) -> bool;

    /// Hands chunks over without waiting. The caller must neither change nor move the chunks until
    /// [`Pipelined::end`] returns. Returns the CPU nanoseconds spent to wake a sleeping module, if
    /// the module will not sleep before the next batch: this time does not count as cost of the
    /// batch.
    ///
    /// # Errors
    /// As [`Module::seal`].
    fn begin(&mut self, chunks: &[&Chunk]) -> Result<u64, ModuleError>;

    /// Whether [`Pipelined::end`] would return without waiting, after waiting here for at most
    /// `within`.
    fn is_done(&self, within: Duration) -> bool;

    /// Waits for the oldest batch.
    ///
    /// # Errors
    /// As [`Module::seal`].
    fn end(&mut self) -> Result<Answers, ModuleError>;
}

/// A module's answers to a batch.
pub struct Answers {
    /// The filled rooms, as from [`Module::seal`].
    pub rooms: Rooms,
    /// The module's own measurement of its work on the batch in nanoseconds, if it has a clock.
    pub device_ns: Option<u64>,
}
