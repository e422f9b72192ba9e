//! Peers: other programs on the same task. A peer gets the name of a curve or of a parameter set,
//! and perhaps a further word. It prints lines in our format, or nothing if it does not support the
//! task.

use super::line::{Line, summary};
use serde::de::DeserializeOwned;
use std::process::Command;
use tobari_command::output::Failure;

/// Whether peers run after this round: about five times in all rounds.
pub(super) fn has_its_turn(round: usize, runs: usize) -> bool {
    round > 0 && round.is_multiple_of((runs / 5).max(1))
}

/// Runs one round of a peer.
pub(super) fn ask<P: DeserializeOwned>(peer: &str, name: &str, more: &[&str]) -> Result<Vec<Line<P>>, Failure> {
    let done = Command::new(peer).arg(name).args(more).output();
    let done = done.map_err(|error| Failure::Work(format!("{peer}: {error}")))?;
    if !done.status.success() {
        return Err(Failure::Work(format!("{peer} {name}: {}", done.status)));
    }
    let text = String::from_utf8_lossy(&done.stdout);
    let lines = text.lines().map(serde_json::from_str).collect::<Result<Vec<Line<P>>, _>>();
    lines.map_err(|error| Failure::Work(format!("{peer} {name}: {error}")))
}

/// The medians of a peer's rounds, one line for each task.
pub(super) fn join<P: Clone + PartialEq>(rounds: &[Vec<Line<P>>]) -> Vec<Line<P>> {
    let Some(first) = rounds.first().cloned() else { return Vec::new() };
    let same = |a: &Line<P>, b: &Line<P>| a.what == b.what && a.params == b.params && a.engine == b.engine;
    let joined = first.into_iter().map(|line| {
        let all: Vec<f64> =
            rounds.iter().flatten().filter(|other| same(other, &line)).map(|other| other.median).collect();
        let runs = all.len();
        let (median, min, max) = summary(all);
        Line { median, min, max, runs, ..line }
    });
    joined.collect()
}

#[cfg(test)]
mod tests {
    use super::super::call::figures::example;
    use super::*;

    #[test]
    fn rounds_join_to_one_line_a_thing_and_an_empty_round_to_none() {
        let of = ["mcl", "secp256k1", "elgamal", "variable"];
        let round = |encrypt, add| vec![example(of, "encrypt", None, encrypt), example(of, "add", None, add)];
        let joined = join(&[round(3.0, 30.0), round(1.0, 20.0), round(2.0, 10.0)]);
        let medians: Vec<_> = joined.iter().map(|line| (line.what.as_str(), line.median, line.runs)).collect();
        assert_eq!(medians, [("encrypt", 2.0, 3), ("add", 20.0, 3)]);
        assert!(join::<()>(&[]).is_empty() && join::<()>(&[Vec::new(), Vec::new()]).is_empty());
    }
}
