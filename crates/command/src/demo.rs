//! A job's part of `tobari demo`.

use serde::Serialize;

/// One line: the result of a job.
#[derive(Serialize)]
pub struct Line {
    /// The job.
    pub job: &'static str,
    /// The mode of the job.
    pub mode: &'static str,
    /// Does the result equal the plaintext result, to the precision that the job promises?
    pub right: bool,
    /// Does it equal the plaintext result to the bit?
    pub exact: bool,
    /// Seconds of the whole job.
    pub seconds: f64,
    /// Bytes sent to the server.
    pub server_saw_bytes: u64,
    /// The paper's time; NaN, and null in JSON, if the paper gives none.
    pub paper_seconds: f64,
    /// A description of the work, for people.
    #[serde(skip)]
    pub what: String,
}
