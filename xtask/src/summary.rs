//! The table at the end of a run.

use std::time::Duration;

/// How one step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It ran and passed.
    Passed,
    /// It could not run here, and why; the run goes on.
    NotRun(String),
    /// It failed, and how; the run stops.
    Failed(String),
    /// A step before it failed.
    NotReached,
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) outcome: Outcome,
    pub(crate) elapsed: Duration,
}

/// The table: step, seconds, result.
pub(crate) fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max("total".len());
    let mut text = format!("{:width$}  {:>8}  result\n", "step", "seconds");
    for Row { name, outcome, elapsed } in rows {
        let result = match outcome {
            Outcome::Passed => "ok".to_owned(),
            Outcome::NotRun(why) => format!("NOT RUN ({why})"),
            Outcome::Failed(how) => format!("FAILED: {how}"),
            Outcome::NotReached => "not reached".to_owned(),
        };
        text.push_str(&format!("{name:width$}  {:>8.1}  {result}\n", elapsed.as_secs_f64()));
    }
    let total: Duration = rows.iter().map(|row| row.elapsed).sum();
    text.push_str(&format!("{:width$}  {:>8.1}\n", "total", total.as_secs_f64()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_every_step_its_seconds_and_its_result() {
        let row = |name, outcome, millis| Row { name, outcome, elapsed: Duration::from_millis(millis) };
        let rows = [
            row("fmt", Outcome::Passed, 1_250),
            row("deny", Outcome::NotRun("no tool".to_owned()), 0),
            row("clippy", Outcome::Failed("it said no".to_owned()), 2_000),
            row("docs", Outcome::NotReached, 0),
        ];
        let expected = "step     seconds  result\n\
                        fmt          1.2  ok\n\
                        deny         0.0  NOT RUN (no tool)\n\
                        clippy       2.0  FAILED: it said no\n\
                        docs         0.0  not reached\n\
                        total        3.2\n";
        assert_eq!(table(&rows), expected);
    }
}
