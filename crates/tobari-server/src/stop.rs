//! The signal that the server is closing.

use tokio::sync::watch;

/// Gives the signal.
pub(crate) struct StopSender(watch::Sender<bool>);

/// Waits for the signal; every task has its own.
#[derive(Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

pub(crate) fn stop() -> (StopSender, Stop) {
    let (sender, receiver) = watch::channel(false);
    (StopSender(sender), Stop(receiver))
}

impl StopSender {
    pub(crate) fn send(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Until the signal is given, or can't be any more.
    pub(crate) async fn wait(&mut self) {
        let _ = self.0.wait_for(|stop| *stop).await;
    }

    pub(crate) fn is_given(&self) -> bool {
        *self.0.borrow()
    }
}
