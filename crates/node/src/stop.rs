//! The signal that the server is closing.

use std::time::Duration;
use tokio::{sync::watch, time::Instant};

/// Gives the signal.
pub(crate) struct StopSender(watch::Sender<Option<Instant>>);

/// Waits for the signal; every task has its own copy.
#[derive(Clone)]
pub struct Stop(watch::Receiver<Option<Instant>>);

pub(crate) fn stop() -> (StopSender, Stop) {
    let (sender, receiver) = watch::channel(None);
    (StopSender(sender), Stop(receiver))
}

impl StopSender {
    /// Gives the signal; jobs continue for `drain`.
    pub(crate) fn send(&self, drain: Duration) {
        let now = Instant::now();
        self.0.send_replace(Some(now.checked_add(drain).unwrap_or(now)));
    }
}

impl Stop {
    /// Waits until the signal is given, or its sender is gone.
    pub async fn wait(&mut self) {
        let _ = self.0.wait_for(Option::is_some).await;
    }

    /// Whether the signal was given.
    pub fn is_given(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// After the signal: whole seconds until the server ends, at least one.
    pub fn seconds_left(&self) -> Option<u64> {
        let end = *self.0.borrow();
        end.map(|end| end.saturating_duration_since(Instant::now()).as_millis().div_ceil(1000))
            .map(|seconds| u64::try_from(seconds).unwrap_or(u64::MAX).max(1))
    }
}
