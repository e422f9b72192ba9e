//! The numbers of tests that passed, failed and did not run, from the output of cargo, pytest and
//! the tests themselves.

/// Sums over every test binary of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Tally {
    /// Reads one line of output; only libtest's `test result:` lines and pytest's last line count.
    pub(crate) fn read(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("test result: ") else { return self.read_pytest(line) };
        let mut number: Option<u64> = None;
        for word in rest.split(|character: char| character.is_whitespace() || character == ';') {
            match (word, number) {
                ("passed", Some(count)) => self.passed += count,
                ("failed", Some(count)) => self.failed += count,
                ("ignored", Some(count)) => self.ignored += count,
                _ => {}
            }
            number = word.parse().ok();
        }
    }

    /// Reads `40 passed, 2 skipped in 9.51s`, with or without signs of equality around it, and
    /// nothing else, so that no test's own text counts.
    fn read_pytest(&mut self, line: &str) {
        let Some((counts, time)) = line.trim_matches(['=', ' ']).split_once(" in ") else { return };
        let seconds = time.split(' ').next().and_then(|time| time.strip_suffix('s'));
        if seconds.is_none_or(|seconds| seconds.parse::<f64>().is_err()) {
            return;
        }
        let mut found = Self::default();
        for part in counts.split(", ") {
            let Some((Ok(count), word)) = part.split_once(' ').map(|(count, word)| (count.parse::<u64>(), word)) else {
                return;
            };
            match word {
                "passed" => found.passed += count,
                "failed" | "error" | "errors" => found.failed += count,
                "skipped" => found.ignored += count,
                "warning" | "warnings" | "deselected" => {}
                _ => return,
            }
        }
        self.passed += found.passed;
        self.failed += found.failed;
        self.ignored += found.ignored;
    }

    /// Counts a test program that ended without a report as one failure, unless there is already a
    /// failure.
    pub(crate) fn broke_off(&mut self) {
        self.failed = self.failed.max(1);
    }

    /// The line for build machines, `N passed, N failed, N skipped`.
    ///
    /// libtest counts a test without its data as passed. Each such test is in the log of tests not
    /// run, so it is subtracted from the passed tests and added to the skipped ones.
    pub(crate) fn line(&self, not_run: &[String]) -> String {
        let absent = u64::try_from(not_run.len()).unwrap_or(u64::MAX).min(self.passed);
        format!("{} passed, {} failed, {} skipped", self.passed - absent, self.failed, self.ignored + absent)
    }
}

/// The log of tests not run, one line for each test; two lines with the same name before the first
/// colon are one test.
pub(crate) fn not_run(log: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let name = |line: &str| line.split(": ").next().unwrap_or_default().to_owned();
    for line in log.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if !lines.iter().any(|earlier| name(earlier) == name(line)) {
            lines.push(line.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(text: &str) -> Tally {
        let mut tally = Tally::default();
        text.lines().for_each(|line| tally.read(line));
        tally
    }

    #[test]
    fn the_last_line_of_pytest_counts_and_nothing_like_it() {
        let text =
            "==== 40 passed, 2 skipped, 1 warning in 9.51s ====\n3 failed, 1 error, 4 passed in 75.02s (0:01:15)\n";
        assert_eq!(tally(text), Tally { passed: 44, failed: 4, ignored: 2 });
        let other = "5 passed\n1 passed in time\n2 apples in 3s\nnothing in 1.0s\n7 passed, in 1s\n";
        assert_eq!(tally(other), Tally::default());
    }

    const TWO: &str = "running 3 tests\n\
        test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
        test a ... ok\n\
        test result: FAILED. 40 passed; 3 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1.00s\n";

    #[test]
    fn results_are_summed_over_test_binaries() {
        assert_eq!(tally(TWO), Tally { passed: 42, failed: 3, ignored: 1 });
        assert_eq!(tally(TWO).line(&[]), "42 passed, 3 failed, 1 skipped");
    }

    #[test]
    fn colour_does_not_hide_a_result() {
        let line =
            "test result: \u{1b}[32mok\u{1b}(B\u{1b}[m. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(tally(line).passed, 5);
    }

    #[test]
    fn other_lines_count_nothing() {
        assert_eq!(tally("5 passed\n  test result: ok. 5 passed\nthe test result: ok. 5 passed"), Tally::default());
    }

    #[test]
    fn a_test_that_found_no_data_is_skipped_and_not_passed() {
        let absent =
            not_run("reads_panel: TOBARI_DATA is not set\n\nreads_panel: again\nreads_images: no file images.bin\n");
        assert_eq!(absent.len(), 2);
        assert_eq!(tally(TWO).line(&absent), "40 passed, 3 failed, 3 skipped");
    }

    #[test]
    fn a_run_that_broke_off_never_says_that_none_failed() {
        let mut nothing = Tally::default();
        nothing.broke_off();
        assert_eq!(nothing.line(&[]), "0 passed, 1 failed, 0 skipped");
        let mut some = tally(TWO);
        some.broke_off();
        assert_eq!(some.failed, 3);
    }
}
