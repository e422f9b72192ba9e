//! What a job shows of itself in `tobari demo`.

use serde::Serialize;

/// One line: how a job went.
#[derive(Serialize)]
pub(crate) struct Line {
    /// Which job.
    pub(crate) job: &'static str,
    /// Which way of it.
    pub(crate) mode: &'static str,
    /// Whether the result is that of the plain answer, as far as the job promises.
    pub(crate) right: bool,
    /// Whether it is that to the bit.
    pub(crate) exact: bool,
    /// Seconds of the whole job.
    pub(crate) seconds: f64,
    /// Bytes that the server was sent.
    pub(crate) server_saw_bytes: u64,
    /// Not a number, and null as JSON, where the paper gives none.
    pub(crate) paper_seconds: f64,
    /// What was done, for people.
    #[serde(skip)]
    pub(crate) what: String,
}
