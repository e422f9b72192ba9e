//! The stop signals of commands that run until they are stopped.

use tokio::io::AsyncReadExt;

/// Returns at an interrupt or termination signal, or, if requested, at the end of standard input.
pub async fn stop_signal(until_stdin_closes: bool) {
    tokio::select! {
        () = interrupted() => {}
        () = end_of_stdin(), if until_stdin_closes => {}
    }
}

async fn interrupted() {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut terminate) = signal(SignalKind::terminate()) else { return interrupt.await };
        tokio::select! {
            () = interrupt => {}
            _ = terminate.recv() => {}
        }
    }
    #[cfg(not(unix))]
    interrupt.await;
}

async fn end_of_stdin() {
    let (mut stdin, mut sink) = (tokio::io::stdin(), [0; 256]);
    while stdin.read(&mut sink).await.is_ok_and(|count| count > 0) {}
}
