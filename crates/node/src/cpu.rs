//! Arithmetic runs on the blocking pool, and at most one task for each core at once.

use std::{sync::Arc, thread};

use tokio::{sync::Semaphore, task};

/// The gate before the cores. Waiting tasks run in order, so that no connection starves another.
#[derive(Clone)]
pub struct Cpu {
    cores: Arc<Semaphore>,
    count: usize,
}

/// A gate as wide as the number of this machine's cores.
impl Default for Cpu {
    fn default() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self { cores: Arc::new(Semaphore::new(cores)), count: cores }
    }
}

impl Cpu {
    /// The number of cores.
    pub fn cores(&self) -> usize {
        self.count
    }

    /// Runs `work` on a thread of its own; none if it panicked.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let permit = Arc::clone(&self.cores).acquire_owned().await.ok()?;
        // The permit goes with the work: it is held to the end even if the caller goes away.
        task::spawn_blocking(move || {
            let result = work();
            drop(permit);
            result
        })
        .await
        .ok()
    }
}
