//! An enclave for each served model, for clients that verify it and have no keys of their own.
//!
//! ```text
//! ENCLAVE = /infer/v1/models/{digest}/enclave
//!
//!   GET    ENCLAVE                        the server's description of the enclave
//!                                         (tobari_infer::guarded::Offer)
//!   POST   ENCLAVE/report                 a nonce (32 bytes); makes a session, and returns its
//!                                         evidence
//!   POST   ENCLAVE/sessions               the session's number (16 bytes) and the encapsulated key
//!                                         of its channel (32); returns 201 once its keys exist
//!   POST   ENCLAVE/sessions/{id}/images   the frame of an image; returns the frame of the reply
//!   POST   ENCLAVE/sessions/{id}/answers  the frame of a request for the output; returns the frame
//!                                         of the output
//!   DELETE ENCLAVE/sessions/{id}          ends the session; returns 204
//! ```
//!
//! **The enclave is simulated**: a process of this machine (`tobari_host::enclave`), whose data the
//! server's operator can read. The evidence says so, and so does the server when it starts.
//!
//! **Sessions.** After verifying evidence, a client opens its channel and exchanges frames, which
//! the server forwards and cannot read. A session ends when its images are used up, at its client's
//! request, at the first message that is out of order or does not decrypt (409), or after a time
//! without messages. That time is shorter for a session that was never opened, so that clients that
//! only fetch evidence do not block others. The configuration limits the number of sessions;
//! further ones are rejected (503, `sessions`) and the others continue. A session is identified
//! only by its number, which is not secret to the server or to an observer of the connection. With
//! the number, an attacker can end the session, and nothing more.
//!
//! **An enclave that ends** (killed, or too slow to answer) loses its sessions. The next message of
//! each session is rejected with the reason (503 for the first one to notice it, 410 for the
//! others). The next client that asks for evidence starts a new enclave. If that fails, the client
//! gets the reason (503, `enclave`), and the server tries again after a pause.
//!
//! **Scheduling.** The enclave handles the requests of all sessions one after another. The process
//! computes in between, in parallel, on the blocking pool like everything here. If all stages run
//! inside, only one message at a time leaves the queue, so that waiting messages use no core.

mod handle;
mod house;
mod process;

use super::Infer;
use axum::{
    Router,
    routing::{delete, get, post},
};
use std::{ffi::OsString, sync::Arc, time::Duration};
use tobari_enclave::OutputPolicy;
use tobari_infer::guarded::Combination;
use tobari_node::stop::Stop;

pub(super) use house::EnclaveHost;

/// Options of a model's enclave.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EnclaveOptions {
    /// The site and form of each step.
    pub combination: Combination,
    /// The parameter set; [`Combination::usual_set`] if there is none.
    pub set: Option<String>,
    /// The most sessions at once, at least 1.
    pub sessions: u16,
    /// The most images of a session, at least 1.
    pub images: u32,
    /// The output policy.
    pub tells: OutputPolicy,
    /// A program and its arguments that start this executable as an enclave
    /// (`tobari_host::enclave::Options::launcher`); empty for a process of this machine.
    pub launcher: Vec<OsString>,
    /// The time without a message after which a session ends.
    pub idle: Duration,
    /// The time after a session's evidence in which it must be opened.
    pub opening: Duration,
}

impl EnclaveOptions {
    /// This combination with the usual limits; the output is only the label.
    pub fn new(combination: Combination) -> Self {
        Self {
            combination,
            set: None,
            sessions: 8,
            images: 100,
            tells: OutputPolicy::Label,
            launcher: Vec::new(),
            idle: Duration::from_secs(120),
            opening: Duration::from_secs(20),
        }
    }
}

/// A server's description of an enclave at its start.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct EnclaveTold {
    /// The model's name.
    pub model: String,
    /// The type of the evidence.
    pub evidence: &'static str,
    /// The combination's name.
    pub combination: &'static str,
    /// The set of parameters.
    pub set: String,
    /// The layout of ciphertexts.
    pub layout: String,
    /// The output policy.
    pub tells: String,
    /// The most sessions at once.
    pub sessions: u16,
    /// The most images of a session.
    pub images: u32,
    /// Bytes of a session's keys, and of weights under them, in the server's memory.
    pub session_bytes: u64,
    /// SHA-256 of the executable, in hexadecimal digits.
    pub executable: String,
    /// The measurement: executable and configuration.
    pub measurement: String,
    /// The number of the enclave's process.
    pub process: u32,
    /// Protections that are not fully active.
    pub lacking: Vec<String>,
}

impl EnclaveTold {
    /// The description as a line of text.
    pub(crate) fn line(&self) -> String {
        let Self { model, combination, set, sessions, images, tells, measurement, .. } = self;
        let mebibytes = self.session_bytes.div_ceil(1 << 20);
        format!(
            "enclave of {model} (SIMULATED): {combination}, {set}, tells {tells}; {sessions} sessions of {images} images, {mebibytes} MiB each; measurement {measurement}"
        )
    }
}

/// The routes of enclaves.
pub(super) fn routes() -> Router<Infer> {
    Router::new()
        .route("/infer/v1/models/{digest}/enclave", get(handle::offer))
        .route("/infer/v1/models/{digest}/enclave/report", post(handle::report))
        .route("/infer/v1/models/{digest}/enclave/sessions", post(handle::open))
        .route("/infer/v1/models/{digest}/enclave/sessions/{id}", delete(handle::close))
        .route("/infer/v1/models/{digest}/enclave/sessions/{id}/images", post(handle::image))
        .route("/infer/v1/models/{digest}/enclave/sessions/{id}/answers", post(handle::ask))
}

/// The time between two checks for idle sessions.
const LOOK: Duration = Duration::from_secs(1);

/// Ends idle sessions until the server stops.
pub(super) async fn keep_up(houses: Vec<Arc<EnclaveHost>>, mut stopped: Stop) {
    loop {
        tokio::select! {
            () = stopped.wait() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        for house in &houses {
            let house = Arc::clone(house);
            if tokio::task::spawn_blocking(move || house.sweep()).await.is_err() {
                tracing::error!("looking at the sessions of an enclave failed");
            }
        }
    }
}
