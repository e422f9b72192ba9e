//! The command line as clap reads it. `tobari help` prints these texts.

#[cfg(all(test, linux_64))]
mod documents;
#[cfg(all(test, linux_64))]
mod examples;
#[cfg(all(test, linux_64, feature = "acme", feature = "age", feature = "cascade", feature = "parquet"))]
mod reference;

use crate::cmd::config::ConfigVerb;
use crate::cmd::demo::DemoArguments;
use crate::cmd::healthcheck::HealthcheckArguments;
use crate::cmd::info::InfoArguments;
use crate::cmd::moved::MovedArguments;
use crate::cmd::plan::PlanJob;
use crate::cmd::serve::ServeArguments;
use crate::cmd::shell::{CompletionsArguments, ManArguments};
use clap::{Parser, Subcommand};
use tobari_call_edge::command::CallVerb;
use tobari_command::output::{LOG_HELP, LogArguments};
use tobari_infer_edge::command::InferVerb;
use tobari_search_edge::command::SearchVerb;
use tobari_sense_edge::command::SenseVerb;

/// Compute on data that the server cannot read.
///
/// A server without keys mixes calls, searches tables, classifies images and adds up sensor
/// readings. Folders are encrypted on this machine.
#[derive(Parser)]
#[command(name = "tobari", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = LOG_HELP)]
pub(crate) struct Arguments {
    /// The command.
    #[command(subcommand)]
    pub(crate) verb: Verb,
    #[command(flatten)]
    pub(crate) log: LogArguments,
}

/// The commands, in the order of the help: the five jobs, the server, and what is about this
/// machine.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Hold a call, or mix recordings, on a server that cannot hear the voices.
    Call {
        /// The command.
        #[command(subcommand)]
        verb: CallVerb,
    },
    /// Search a table (a genome panel, or any keys) without showing its server the question.
    Search {
        /// The command.
        #[command(subcommand)]
        verb: SearchVerb,
    },
    /// Classify images on a server that sees neither image nor label.
    Infer {
        /// The command.
        #[command(subcommand)]
        verb: InferVerb,
    },
    /// Compute statistics and alarms over sensor readings that the server cannot see.
    Sense {
        /// The command.
        #[command(subcommand)]
        verb: SenseVerb,
    },
    /// Encrypt a folder, a file or a stream.
    #[cfg(linux_64)]
    Seal(Box<tobari_seal_edge::SealArguments>),
    /// Decrypt a sealed folder, file or stream.
    #[cfg(linux_64)]
    Unseal(tobari_seal_edge::UnsealArguments),
    /// Run the server. The server holds no key.
    #[command(after_help = "\
Examples:
    tobari serve --try
    tobari serve --addr 0.0.0.0:7610 --tls-self-signed")]
    Serve(Box<ServeArguments>),
    /// Check the server's settings file.
    Config {
        /// The command.
        #[command(subcommand)]
        verb: ConfigVerb,
    },
    /// Check that a server answers: status 0 if it does, 1 if not.
    ///
    /// Without --server, the command asks http://127.0.0.1:7610.
    Healthcheck(HealthcheckArguments),
    /// Encrypt the data folder of a stopped server into a backup.
    #[cfg(linux_64)]
    #[command(after_help = "\
Examples:
    tobari backup data -o set --new-key backup.key
    tobari backup data -o set-2 --key-file backup.key")]
    Backup(Box<tobari_seal_edge::SealArguments>),
    /// Restore a backup into a new data folder.
    #[cfg(linux_64)]
    #[command(after_help = "\
Examples:
    tobari restore set -o data-again --key-file backup.key
    tobari restore set-2 -o data-again-2 --key-file backup.key")]
    Restore(tobari_seal_edge::UnsealArguments),
    /// Run every job on built-in data, and check each result against the plain one.
    Demo(DemoArguments),
    /// Show the plan of a job: the steps, their order, where each runs, and why.
    Plan {
        /// The job.
        #[command(subcommand)]
        job: PlanJob,
    },
    /// Print the version, the arithmetic in use, and the security of every parameter set.
    Info(InfoArguments),
    /// Write completions for a shell to standard output.
    Completions(CompletionsArguments),
    /// Write manual pages into a folder.
    Man(ManArguments),
    /// Now `tobari-bench`.
    #[command(hide = true)]
    Bench(MovedArguments),
    /// Now `tobari-bench report`.
    #[command(hide = true)]
    Report(MovedArguments),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_server_has_no_flag_for_a_key_of_a_call() {
        let command = Arguments::command();
        let serve = command.find_subcommand("serve").unwrap();
        let names: Vec<_> = serve.get_arguments().map(|argument| argument.get_id().as_str().to_owned()).collect();
        assert!(names.contains(&"tls_key".to_owned()), "the listing works");
        // allowed: the server's own TLS keys, for clients and at a broker, the number of uses of a
        // key, and the memory and files for clients' evaluation keys
        let others = ["tls_key", "sense_mqtt_key", "key_uses", "infer_keys", "infer_key_files", "max_key_bytes"];
        assert!(names.iter().all(|name| !name.contains("key") || others.contains(&name.as_str())), "{names:?}");
        assert!(names.iter().all(|name| !name.contains("secret")), "{names:?}");
    }
}
