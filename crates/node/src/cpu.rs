//! Arithmetic runs on the blocking pool, and at most one task for each core at once.

use std::{sync::Arc, thread};

use super::turns::Turn;
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

    /// The same for work in a client's turn. The work holds the turn to its end: else a client that
    /// goes away again and again has more work done at once than its share, and more memory used
    /// than the limit of the turns.
    pub async fn run_in<T: Send + 'static>(
        &self,
        turn: &Arc<Turn>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let turn = Arc::clone(turn);
        let held = move || {
            let result = work();
            drop(turn);
            result
        };
        self.run(held).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clients::Origin, share::Share, turns::Turns};
    use std::{sync::mpsc, time::Duration};
    use tokio::time::timeout;

    #[tokio::test]
    async fn a_client_that_goes_away_keeps_its_turn_until_its_work_is_done() {
        let (cpu, turns) = (Cpu::default(), Turns::new(1, Share::new(50)));
        let (client, other) = (Origin::Token("client".into()), Origin::Token("other".into()));
        let patience = Duration::from_millis(100);
        for _ in 0..5 {
            let ((begun, begins), (end, ended)) = (mpsc::channel(), mpsc::channel::<()>());
            let work = {
                let (cpu, turns, client) = (cpu.clone(), turns.clone(), client.clone());
                tokio::spawn(async move {
                    let turn = Arc::new(turns.take(&client).await.ok()?);
                    let work = move || begun.send(()).is_ok() && ended.recv().is_ok();
                    cpu.run_in(&turn, work).await
                })
            };
            task::spawn_blocking(move || begins.recv().unwrap()).await.unwrap();
            work.abort();
            assert!(timeout(patience, turns.wait(&other)).await.is_err(), "the work still runs");
            // nor does the client itself get another
            assert!(timeout(patience, turns.wait(&client)).await.is_err(), "the work still runs");
            end.send(()).unwrap();
            assert!(timeout(10 * patience, turns.wait(&other)).await.unwrap().is_some());
        }
    }
}
