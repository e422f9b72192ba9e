//! What a job shows of itself in `tobari demo`.

use serde::Serialize;

/// One line: how a job went.
#[derive(Serialize)]
pub struct Line {
    /// Which job.
    pub job: &'static str,
    /// Which way of it.
    pub mode: &'static str,
    /// Whether the result is that of the plain answer, as far as the job promises.
    pub right: bool,
    /// Whether it is that to the bit.
    pub exact: bool,
    /// Seconds of the whole job.
    pub seconds: f64,
    /// Bytes that the server was sent.
    pub server_saw_bytes: u64,
    /// Not a number, and null as JSON, where the paper gives none.
    pub paper_seconds: f64,
    /// What was done, for people.
    #[serde(skip)]
    pub what: String,
}
