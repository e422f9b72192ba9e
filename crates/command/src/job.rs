//! The command line's interface to a job: the job's verbs, and its options of `tobari serve`.
//!
//! The binary uses jobs only through these traits. One line adds a job's verbs, another its options
//! of the server.
//!
//! ```
//! use std::path::Path;
//! use std::process::ExitCode;
//! use clap::{Args, Parser, Subcommand};
//! use tobari_command::job::{ServerJob, SharedOptions, Verbs};
//! use tobari_command::output::{self, Failure};
//! use tobari_node::{Offer, Page};
//!
//! /// `tobari greet VERB`
//! #[derive(Subcommand)]
//! enum GreetVerb {
//!     /// Say good day.
//!     Day,
//! }
//!
//! impl Verbs for GreetVerb {
//!     fn run(&self) -> Result<ExitCode, Failure> {
//!         output::result("good day");
//!         Ok(ExitCode::SUCCESS)
//!     }
//! }
//!
//! /// Options of the server.
//! #[derive(Args)]
//! struct ServeGreetings {
//!     /// Whom to greet.
//!     #[arg(long = "greet", value_name = "NAME")]
//!     names: Vec<String>,
//! }
//!
//! impl ServerJob for ServeGreetings {
//!     const PAGE: Option<Page> = None;
//!
//!     fn is_wanted(&self) -> bool {
//!         !self.names.is_empty()
//!     }
//!
//!     fn make_up(&mut self, _: &Path) -> Result<(), Failure> {
//!         self.names.push("everybody".to_owned());
//!         Ok(())
//!     }
//!
//!     fn offer(&self, _: &SharedOptions) -> Result<Option<Box<dyn Offer>>, Failure> {
//!         Ok(None) // a job that is served offers itself here
//!     }
//! }
//!
//! #[derive(Parser)]
//! struct Line {
//!     #[command(subcommand)]
//!     verb: GreetVerb,
//!     #[command(flatten)]
//!     serve: ServeGreetings,
//! }
//!
//! let line = Line::parse_from(["toy", "--greet", "you", "day"]);
//! assert!(line.serve.is_wanted() && line.verb.run().is_ok());
//! ```

use crate::output::Failure;
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tobari_node::{Offer, Page};

/// The verbs of `tobari JOB`.
pub trait Verbs: Subcommand {
    /// Runs the verb.
    ///
    /// # Errors
    /// [`Failure`] if the arguments are wrong, or the work fails.
    fn run(&self) -> Result<ExitCode, Failure>;
}

/// A job's part of `tobari serve`: its options, and the resulting offer.
pub trait ServerJob: Args {
    /// The page of the job. A server shows it even if it does not serve the job.
    const PAGE: Option<Page>;

    /// Do the options ask for the job?
    fn is_wanted(&self) -> bool;

    /// Sets options for made-up data if they do not ask for the job (`--try`). Necessary files go
    /// to `folder`, which exists as long as the server.
    ///
    /// # Errors
    /// [`Failure`] if a file cannot be written.
    fn make_up(&mut self, folder: &Path) -> Result<(), Failure>;

    /// The server's offer; none if the options do not ask for the job.
    ///
    /// # Errors
    /// [`Failure`] if options contradict each other, or a file that they name cannot be used.
    fn offer(&self, shared: &SharedOptions) -> Result<Option<Box<dyn Offer>>, Failure>;

    /// Checks if [`Self::offer`] would fail because of the options. It starts nothing and measures
    /// nothing.
    ///
    /// # Errors
    /// [`Failure`], as from [`Self::offer`].
    fn check(&self, shared: &SharedOptions) -> Result<(), Failure> {
        self.offer(shared).map(|_| ())
    }

    /// The files that the server needs to start.
    fn files(&self) -> Vec<&Path> {
        Vec::new()
    }
}

/// Options of `tobari serve` that several jobs use.
#[derive(Clone, Debug, Default)]
pub struct SharedOptions {
    /// A file of the permitted clients, with the hash of each client's token.
    pub tokens: Option<PathBuf>,
    /// May every client that reaches the address ask?
    pub open: bool,
    /// A folder for the clients' data on the server: public keys, and their usage.
    pub data: Option<PathBuf>,
    /// How long a client's keys are kept after their last use, if set.
    pub idle: Option<Duration>,
}
