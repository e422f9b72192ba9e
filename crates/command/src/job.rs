//! What the command line knows of a job: verbs of its own, and options of `tobari serve`.
//!
//! The binary joins jobs by these traits and knows nothing else of them. A job is added by a line
//! for its verbs, and by one for its options of the server.
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

/// What a job does at the command line: the verbs of `tobari JOB`.
pub trait Verbs: Subcommand {
    /// Does what the verb says.
    ///
    /// # Errors
    /// [`Failure`] if the call is wrong, or the work cannot be done.
    fn run(&self) -> Result<ExitCode, Failure>;
}

/// What a job adds to `tobari serve`: its options, and what the server offers by them.
pub trait ServerJob: Args {
    /// The page of the job, which a server shows even where it does not serve the job.
    const PAGE: Option<Page>;

    /// Whether the options ask for the job.
    fn is_wanted(&self) -> bool;

    /// Options for made-up data, where they do not ask for the job (`--try`). What has to lie in
    /// files lies in `folder`, which is there as long as the server.
    ///
    /// # Errors
    /// [`Failure`] if a file cannot be written.
    fn make_up(&mut self, folder: &Path) -> Result<(), Failure>;

    /// What the server offers; nothing where the options do not ask for the job.
    ///
    /// # Errors
    /// [`Failure`] if options contradict each other, or a file that they name cannot be used.
    fn offer(&self, shared: &SharedOptions) -> Result<Option<Box<dyn Offer>>, Failure>;

    /// Whether [`Self::offer`] could fail by the options alone. It starts nothing and measures
    /// nothing.
    ///
    /// # Errors
    /// [`Failure`], as [`Self::offer`] gives it.
    fn check(&self, shared: &SharedOptions) -> Result<(), Failure> {
        self.offer(shared).map(|_| ())
    }

    /// The files without which the server could not start.
    fn files(&self) -> Vec<&Path> {
        Vec::new()
    }
}

/// Options of `tobari serve` that several jobs go by.
#[derive(Clone, Debug, Default)]
pub struct SharedOptions {
    /// A file of who may ask, with the hash of everybody's token.
    pub tokens: Option<PathBuf>,
    /// Whether anybody may ask who reaches the address.
    pub open: bool,
    /// A folder for what clients leave with the server: public keys, and what they have used.
    pub data: Option<PathBuf>,
    /// How long a client's keys have their place after they were used, if that is said.
    pub idle: Option<Duration>,
}
