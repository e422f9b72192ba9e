//! Plans a program within a memory limit, checks the plan and runs it, with a tier for values that
//! do not fit.

use crate::run::{self, Finished, Options, RunError};
use crate::storage::Trouble;
use crate::store::{self, Blocks, DiskStore, Store, StoreError};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use tobari_plan::check::{Requirements, Unsound};
use tobari_plan::cost::Costs;
use tobari_plan::engine::Engine;
use tobari_plan::plan::{PlanError, bytes, plan};
use tobari_plan::program::{Program, Value};
use tobari_plan::site::Site;

/// Limits of a job.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes for values and for moves to and from the tier; no limit if `None`. The temporary
    /// memory of each step is not included.
    pub memory: Option<u64>,
    /// Threads that compute; at least one.
    pub threads: usize,
    /// The folder of the tier. A file is made there only if values do not fit.
    pub tier: PathBuf,
}

/// Why a job failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError<E: std::error::Error + 'static> {
    /// The limit leaves nothing for values.
    #[error("expected a limit above {}, which moves take, found {}", bytes(*.least), bytes(*.found))]
    Limit {
        /// Bytes for moves.
        least: u64,
        /// The limit.
        found: u64,
    },
    /// No plan fits.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A forbidden plan: a fault of the planner.
    #[error(transparent)]
    Unsound(#[from] Unsound),
    /// The tier failed.
    #[error(transparent)]
    Tier(#[from] StoreError),
    /// The run failed.
    #[error(transparent)]
    Run(#[from] RunError<E>),
}

impl<E: std::error::Error + 'static> JobError<E> {
    /// The state of the tier's disk, if the disk is the reason.
    pub fn trouble(&self) -> Option<Trouble> {
        match self {
            Self::Tier(error) | Self::Run(RunError::Store(error)) => error.trouble(),
            _ => None,
        }
    }
}

/// Plans a program for a server that holds no key, checks the plan and runs it. Calls `input` as
/// [`run::run`] does.
///
/// # Errors
/// [`JobError`]; there are no outputs then.
pub fn within<E: Engine>(
    engine: E,
    program: Program,
    input: impl FnMut(Value) -> Result<E::Value, String>,
    limits: &Limits,
) -> Result<Finished<E::Value>, JobError<E::Error>> {
    let largest = program.values().map(|value| program.shape(value).raw).max().unwrap_or(0);
    let moves = 2 * (largest + 4096) + (32 << 20);
    let memory = match limits.memory {
        None => u64::MAX / 4,
        Some(found) => {
            let left = found.checked_sub(moves).filter(|left| *left > 0);
            left.ok_or(JobError::Limit { least: moves, found })?
        }
    };
    let site = Site::blind("this server", u16::try_from(limits.threads).unwrap_or(u16::MAX), memory);
    let checked = plan(program, site, &Costs::unmeasured())?.check(&Requirements::default())?;
    let mut store = match checked.plan().inputs_stored {
        true => Some(DiskStore::open(&store::Options::in_folder(&limits.tier))?),
        false => None,
    };
    let (blocks, cancel) = (Blocks::new(usize::try_from(moves).unwrap_or(usize::MAX)), AtomicBool::new(false));
    let options = Options { threads: limits.threads, blocks, observer: &|_| {}, cancel: &cancel };
    Ok(run::run(engine, &checked, input, store.as_mut().map(|store| store as &mut dyn Store), &options)?)
}
