//! The command line, for clap. `tobari-bench help` prints its texts.

#[cfg(all(test, linux_64))]
#[path = "../../../cli/src/args/documents.rs"]
mod documents;

use crate::bench::arguments::BenchJob;
use crate::report::ReportArguments;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use tobari_command::output::LogArguments;

/// What the jobs of `tobari` cost on this machine.
#[derive(Parser)]
#[command(name = "tobari-bench", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    /// What to measure.
    #[command(subcommand)]
    pub(crate) verb: Verb,
    /// The program `tobari`, which serves and seals. [default: `tobari` in this program's folder,
    /// else on PATH]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) tobari: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) log: LogArguments,
}

/// What to measure.
#[derive(Subcommand)]
pub(crate) enum Verb {
    #[command(flatten)]
    Bench(Box<BenchJob>),
    /// Every job's paper benchmark on this machine, and one page that shows the papers, the peers
    /// on record and this machine.
    Report(ReportArguments),
}

#[cfg(test)]
mod tests {
    #[cfg(linux_64)]
    use super::documents::{commands, documents, own, shell_lines};
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    #[cfg(linux_64)]
    fn every_command_in_the_documents_is_one() {
        let (mut seen, mut wrong) = (0, Vec::new());
        for (name, text) in documents() {
            let lines = shell_lines(&text);
            let words = lines.iter().flat_map(|line| commands(line));
            for words in words.filter_map(|words| own("tobari-bench", &words)) {
                seen += 1;
                if let Err(error) = Arguments::command().try_get_matches_from(&words) {
                    wrong.push(format!("{name}: {}\n{error}", words.join(" ")));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(seen > 4, "{seen} commands were found");
    }

    #[test]
    fn every_benchmark_prints_json() {
        for job in Arguments::command().get_subcommands() {
            assert!(job.get_arguments().any(|argument| argument.get_long() == Some("json")), "{}", job.get_name());
        }
    }
}
