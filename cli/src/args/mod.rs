//! The command line, as clap reads it. Its text is what `tobari help` prints.

#[cfg(all(test, linux_64))]
mod documents;
#[cfg(all(test, linux_64))]
mod examples;

use crate::cmd::config::ConfigVerb;
use crate::cmd::demo::DemoArguments;
use crate::cmd::info::InfoArguments;
use crate::cmd::moved::MovedArguments;
use crate::cmd::plan::PlanJob;
use crate::cmd::serve::ServeArguments;
use clap::{Parser, Subcommand};
use tobari_call_edge::command::CallVerb;
use tobari_command::output::LogArguments;
use tobari_infer_edge::command::InferVerb;
use tobari_search_edge::command::SearchVerb;
use tobari_sense_edge::command::SenseVerb;

/// Useful work on data that the server cannot see.
#[derive(Parser)]
#[command(name = "tobari", version, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
    #[command(flatten)]
    pub(crate) log: LogArguments,
}

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Every finished job on built-in real inputs, done by a server without a key and checked
    /// against the plain answer.
    Demo(DemoArguments),
    /// The blind server: does the work, holds no key.
    Serve(Box<ServeArguments>),
    /// The file with the settings of the server.
    Config {
        /// What to do.
        #[command(subcommand)]
        verb: ConfigVerb,
    },
    /// What a stopped server keeps, sealed into a folder of its own.
    #[cfg(linux_64)]
    Backup(Box<tobari_seal_edge::SealArguments>),
    /// What a backup holds, put into a new folder for a server.
    #[cfg(linux_64)]
    Restore(tobari_seal_edge::UnsealArguments),
    /// Version, arithmetic in use, and each curve with its security.
    Info(InfoArguments),
    /// Now `tobari-bench`.
    #[command(hide = true)]
    Bench(MovedArguments),
    /// Now `tobari-bench report`.
    #[command(hide = true)]
    Report(MovedArguments),
    /// The plan of a job: what is done in which order, what lies in memory when, and why.
    Plan {
        /// Which job.
        #[command(subcommand)]
        job: PlanJob,
    },
    /// Voices mixed by a server that cannot hear them.
    Call {
        /// What to do.
        #[command(subcommand)]
        verb: CallVerb,
    },
    /// Questions to a table that its owner answers without seeing them.
    Search {
        /// What to do.
        #[command(subcommand)]
        verb: SearchVerb,
    },
    /// Images classified by a server that cannot see them.
    Infer {
        /// What to do.
        #[command(subcommand)]
        verb: InferVerb,
    },
    /// Statistics and alarms over devices' readings that the server cannot see.
    Sense {
        /// What to do.
        #[command(subcommand)]
        verb: SenseVerb,
    },
    /// Folders, files and streams sealed under a key, on all engines of this machine.
    #[cfg(linux_64)]
    Seal(Box<tobari_seal_edge::SealArguments>),
    /// What was sealed, opened.
    #[cfg(linux_64)]
    Unseal(tobari_seal_edge::UnsealArguments),
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
        // beside the server's own: how often a key may be used, and how much room clients'
        // evaluation keys have
        let others = ["tls_key", "key_uses", "infer_keys", "max_key_bytes"];
        assert!(names.iter().all(|name| !name.contains("key") || others.contains(&name.as_str())), "{names:?}");
        assert!(names.iter().all(|name| !name.contains("secret")), "{names:?}");
    }
}
