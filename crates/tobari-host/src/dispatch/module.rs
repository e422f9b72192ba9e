//! What a module is. A new one is a file beside `emulated`: an implementation of [`Module`], and its line in [`super`].

use tobari_apps::seal::Chunk;

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

    /// Cores of this machine that it computes on itself, beside its driver's: none, unless it is emulated.
    fn cores(&self) -> usize {
        0
    }

    /// Whether it does chunks like this one.
    fn takes(&self, chunk: &Chunk) -> bool;

    /// Seals chunks: of each, what [`Chunk::from_module`] completes, in their order.
    ///
    /// # Errors
    /// [`ModuleError`]; it is not asked again then.
    fn seal(&mut self, chunks: &[&Chunk]) -> Result<Vec<Vec<u8>>, ModuleError>;
}
