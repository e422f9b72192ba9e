//! An enclave for each model that is served, for clients who verify it and have no keys of their
//! own.
//!
//! ```text
//!   GET    /infer/v1/models/{digest}/enclave                        what it is said to be (tobari_infer::guarded::Offer)
//!   POST   /infer/v1/models/{digest}/enclave/report                 a nonce (32 bytes); the body is evidence of a session that was made for it
//!   POST   /infer/v1/models/{digest}/enclave/sessions               the session's number (16) and the encapsulated key of its channel (32): 201 once its keys are there
//!   POST   /infer/v1/models/{digest}/enclave/sessions/{id}/images   the frame of an image; the body is the frame that goes back
//!   POST   /infer/v1/models/{digest}/enclave/sessions/{id}/answers  the frame that asks for what may be told; the body is the frame that tells it
//!   DELETE /infer/v1/models/{digest}/enclave/sessions/{id}          ends it: 204
//! ```
//!
//! **The enclave is simulated**: a process of this machine (`tobari_host::enclave`), which whoever
//! runs the server can read. Evidence says so, and so does the server when it starts.
//!
//! **Sessions.** A client that has seen evidence opens its channel; then frames go in and out,
//! which the server carries and cannot read. A session ends when its images are used up, when its
//! client says so, at the first message that is out of order or does not open (409), and when
//! nothing came for a while: sooner where it was never opened, so that those who ask for evidence
//! and go away do not keep others out. There are no more of them than the configuration says;
//! further ones are refused (503, `sessions`) and the others go on. A session's number is all that
//! is asked of who uses it: it is not secret to the server and whoever sees the connection, and who
//! has it can end the session, and no more.
//!
//! **An enclave that ends** (killed, or too slow to answer) takes its sessions with it: each of
//! their next messages is refused with how it ended (503 for the one that found it, 410 for the
//! others). The next client that asks for evidence has a new one started; where that fails, it is
//! told why (503, `enclave`), and starting is tried again after a pause.
//!
//! **Who runs what.** Requests of all sessions go one after another through the enclave, and what
//! the process computes between them runs beside: on the blocking pool, as everything here. Where
//! all is computed inside, one message at a time is let in from the queue, so that the others take
//! no core while they wait.

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

/// How a model's enclave is run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EnclaveOptions {
    /// What is done where.
    pub combination: Combination,
    /// The set of parameters; without it [`Combination::usual_set`].
    pub set: Option<String>,
    /// Sessions at once, at least 1.
    pub sessions: u16,
    /// Images a session, at least 1.
    pub images: u32,
    /// What is told of an image.
    pub tells: OutputPolicy,
    /// A program and its arguments that start this executable as an enclave
    /// (`tobari_host::enclave::Options::launcher`); none for a process of this machine.
    pub launcher: Vec<OsString>,
    /// Time between two messages of a session, after which it ends.
    pub idle: Duration,
    /// Time between a session's evidence and its opening.
    pub opening: Duration,
}

impl EnclaveOptions {
    /// In this combination with the usual limits; labels alone are told.
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

/// What a server says of an enclave when it starts.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct EnclaveTold {
    /// The model's name.
    pub model: String,
    /// The type of its evidence.
    pub evidence: &'static str,
    /// What is done where.
    pub combination: &'static str,
    /// The set of parameters.
    pub set: String,
    /// The layout of ciphertexts.
    pub layout: String,
    /// What is told.
    pub tells: String,
    /// Sessions at once.
    pub sessions: u16,
    /// Images a session.
    pub images: u32,
    /// Bytes of a session's keys, and of weights under them, in the server's memory.
    pub session_bytes: u64,
    /// SHA-256 of the executable, in hexadecimal digits.
    pub executable: String,
    /// The measurement: executable and configuration.
    pub measurement: String,
    /// The number of its process.
    pub process: u32,
    /// Measures that are not wholly in force.
    pub lacking: Vec<String>,
}

impl EnclaveTold {
    /// For people.
    pub(crate) fn line(&self) -> String {
        let Self { model, combination, set, sessions, images, tells, measurement, .. } = self;
        let mebibytes = self.session_bytes.div_ceil(1 << 20);
        format!(
            "enclave of {model} (SIMULATED): {combination}, {set}, tells {tells}; {sessions} sessions of {images} images, {mebibytes} MiB each; measurement {measurement}"
        )
    }
}

/// Its routes.
pub(super) fn routes() -> Router<Infer> {
    Router::new()
        .route("/infer/v1/models/{digest}/enclave", get(handle::offer))
        .route("/infer/v1/models/{digest}/enclave/report", post(handle::report))
        .route("/infer/v1/models/{digest}/enclave/sessions", post(handle::open))
        .route("/infer/v1/models/{digest}/enclave/sessions/{id}", delete(handle::close))
        .route("/infer/v1/models/{digest}/enclave/sessions/{id}/images", post(handle::image))
        .route("/infer/v1/models/{digest}/enclave/sessions/{id}/answers", post(handle::ask))
}

/// Time between two looks at sessions that nobody uses.
const LOOK: Duration = Duration::from_secs(1);

/// Ends sessions that nobody uses, until the server stops.
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
