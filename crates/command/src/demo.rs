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

/// An attack of `tobari demo --attack`, and its end.
#[derive(Serialize)]
pub struct Attack {
    /// The attack.
    pub attack: String,
    /// The attacker.
    pub by: &'static str,
    /// Was the attack detected, or did it fail?
    pub caught: bool,
    /// The present state. An attack that should be detected and is not is a fault. An attack that
    /// is known to stay undetected is a limit, named in book/src/explanation/threats.
    pub known_limit: bool,
    /// What happened.
    pub how: String,
    /// For attacks on live rooms: the mode, the detecting party, and the time in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<&'static str>,
    /// The detecting party.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caught_by: Option<&'static str>,
    /// The time until then, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
}

impl Attack {
    /// An attack without a mode, a detecting party or a time.
    pub fn new(attack: &str, by: &'static str, caught: bool, known_limit: bool, how: String) -> Self {
        let (mode, caught_by, within_ms) = (None, None, None);
        Self { attack: attack.to_owned(), by, caught, known_limit, how, mode, caught_by, within_ms }
    }

    /// Whether the attack ended as the threat model says.
    pub fn is_as_documented(&self) -> bool {
        self.caught != self.known_limit
    }

    /// For people.
    pub fn sentence(&self) -> String {
        let verdict = match (self.caught, self.known_limit) {
            (true, _) => "caught",
            (false, true) => "NOT CAUGHT YET",
            (false, false) => "NOT CAUGHT, A FAULT",
        };
        let mode = self.mode.map_or(String::new(), |mode| format!(", mode {mode}"));
        let noticed = match (self.caught_by, self.within_ms) {
            (Some(by), Some(0)) => format!("{by}, at once: "),
            (Some(by), Some(within)) => format!("{by}, within {within} ms: "),
            _ => String::new(),
        };
        format!("{verdict:<15} {} (by {}{mode}): {noticed}{}", self.attack, self.by, self.how)
    }
}
