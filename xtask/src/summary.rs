//! The steps of a run, and the table at its end.

use std::time::{Duration, Instant};

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The step passed.
    Passed,
    /// The step could not run here, with the reason; the run continues.
    NotRun(String),
    /// The step failed, with the reason; the run stops.
    Failed(String),
    /// An earlier step failed.
    NotReached,
}

/// The outcome of a step that can only pass or fail.
pub(crate) fn outcome(result: Result<(), String>) -> Outcome {
    result.map_or_else(Outcome::Failed, |()| Outcome::Passed)
}

/// The steps of a run so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

/// One line of the table.
#[derive(Debug)]
struct Row {
    name: &'static str,
    outcome: Outcome,
    elapsed: Duration,
}

impl Report {
    /// Runs a step and prints its outcome. After a failure no further step runs.
    pub(crate) fn step(&mut self, name: &'static str, run: impl FnOnce() -> Outcome) {
        self.rows.push(if self.failed() {
            Row { name, outcome: Outcome::NotReached, elapsed: Duration::ZERO }
        } else {
            timed(name, run)
        });
    }

    /// Whether a step failed.
    pub(crate) fn failed(&self) -> bool {
        self.rows.iter().any(|row| matches!(row.outcome, Outcome::Failed(_)))
    }

    /// The table: step, seconds, result.
    pub(crate) fn table(&self) -> String {
        table(&self.rows)
    }
}

fn timed(name: &'static str, run: impl FnOnce() -> Outcome) -> Row {
    println!("\n== {name}");
    let start = Instant::now();
    let outcome = run();
    let elapsed = start.elapsed();
    let seconds = elapsed.as_secs_f64();
    match &outcome {
        Outcome::Passed | Outcome::NotReached => println!("== {name}: ok, {seconds:.1} s"),
        Outcome::NotRun(why) => println!("== {name}: NOT RUN ({why})"),
        Outcome::Failed(how) => eprintln!("== {name}: FAILED after {seconds:.1} s: {how}"),
    }
    Row { name, outcome, elapsed }
}

fn table(rows: &[Row]) -> String {
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

    #[test]
    fn no_step_runs_after_one_that_failed() {
        let mut report = Report::default();
        report.step("fmt", || Outcome::Passed);
        report.step("deny", || Outcome::NotRun("no tool".to_owned()));
        assert!(!report.failed());
        report.step("clippy", || outcome(Err("it said no".to_owned())));
        report.step("docs", || panic!("it ran"));
        let outcomes: Vec<_> = report.rows.iter().map(|row| row.outcome.clone()).collect();
        assert!(report.failed());
        assert_eq!(outcomes[2..], [Outcome::Failed("it said no".to_owned()), Outcome::NotReached]);
    }
}
