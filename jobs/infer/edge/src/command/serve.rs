//! The options that inference adds to `tobari serve`.

use super::arguments::{EnclaveWord, ServeCosts, enclave_word};
use super::placement::Placed;
use super::planned::InferRequirements;
use crate::serve::{EnclaveOptions, InferOffer, InferOptions, ModelSource, PAGE};
use clap::Args;
use std::path::Path;
use tobari_command::job::{ServerJob, SharedOptions};
use tobari_command::output::Failure;
use tobari_command::size::parse_bytes;
use tobari_enclave::OutputPolicy;
use tobari_infer::guarded::Combination;
use tobari_infer::layout;
use tobari_node::{Offer, Page, StartupNotes};

/// Models to serve.
#[derive(Args)]
#[command(next_help_heading = "Inference")]
pub struct ServeInferArguments {
    /// Serve this model: `digits` (built in), or a .tim file (`tobari infer compile`). NAME= before
    /// either sets a name. Repeat the option for each model.
    #[arg(long = "infer", value_name = "MODEL")]
    pub(crate) models: Vec<ModelSource>,
    /// Arrange numbers in the slots by this layout. `wide` is the fastest, `balanced` sends fewer
    /// bytes. [default: the fastest that fits the model]
    #[arg(long, requires = "models", value_parser = layout::NAMES, value_name = "NAME")]
    pub(crate) infer_layout: Option<String>,
    /// Use this parameter set. [default: infer-f; infer-r for mixed-masked-reset]
    #[arg(long, requires = "models", value_name = "NAME")]
    pub(crate) infer_set: Option<String>,
    /// Keep at most this many bytes of clients' keys in memory. The server rejects further keys.
    /// [default: 2GiB]
    #[arg(long, requires = "models", value_parser = parse_bytes, value_name = "BYTES")]
    pub(crate) infer_keys: Option<u64>,
    /// Keep at most this many bytes of clients' keys of models with refreshes, in files in the data
    /// folder. [default: 64GiB]
    #[arg(long, requires = "models", value_parser = parse_bytes, value_name = "BYTES")]
    pub(crate) infer_key_files: Option<u64>,
    /// Accept at most this many images at once. Other clients are told to try again later.
    #[arg(long, requires = "models", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_images: Option<u32>,
    /// Start a SIMULATED enclave for each model (`tobari infer ask`): a process of this machine,
    /// which the operator can read. The combination is enclave-plain, enclave-user-data,
    /// enclave-both, process-user-data, process-both, mixed-plain-reset or mixed-masked-reset.
    /// Networks of more than three maps run in enclave-plain, and in mixed-plain-reset if they were
    /// compiled with --engine enclave. `auto` takes the fastest that the options --protect,
    /// --side-channels, --active-host and --plain-in-enclave allow.
    #[arg(long, requires = "models", value_parser = enclave_word, value_name = "COMBINATION")]
    pub(crate) infer_enclave: Option<EnclaveWord>,
    #[command(flatten)]
    pub(crate) requirements: InferRequirements,
    /// Choose by these measurements, with --infer-enclave auto: `measured` on this machine, in some
    /// seconds, or `recorded` on the project's. [default: measured]
    #[arg(long, requires = "infer_enclave", value_name = "WHOSE")]
    pub(crate) enclave_costs: Option<ServeCosts>,
    /// Allow at most this many sessions of an enclave at once. [default: 8]
    #[arg(long, requires = "infer_enclave", value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) enclave_sessions: Option<u16>,
    /// Allow at most this many images in a session. [default: 100]
    #[arg(long, requires = "infer_enclave", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) enclave_images: Option<u32>,
    /// Start the enclave through this command (arguments separated by spaces), such as a library
    /// operating system: see deploy/gramine. The command must start this executable with the
    /// argument enclave-inside-over-pipes, and pass standard input and output on. The evidence
    /// stays simulated.
    #[arg(long, requires = "infer_enclave", value_name = "COMMAND")]
    pub(crate) enclave_launcher: Option<String>,
    /// Let an enclave reveal this of an image: label, top:K, rounded:BITS, or scores (only
    /// enclave-plain). [default: label]
    #[arg(long, requires = "infer_enclave", value_name = "HOW")]
    pub(crate) tells: Option<OutputPolicy>,
}

impl ServeInferArguments {
    /// Whether the planner chooses the combination.
    pub(crate) fn is_placed(&self) -> Result<bool, Failure> {
        let wrong = |text: &str| Err(Failure::Call(text.to_owned()));
        if self.infer_enclave == Some(EnclaveWord::Auto) {
            return match self.infer_set.is_some() || self.infer_layout.is_some() {
                true => wrong("--infer-enclave auto chooses set and layout: remove --infer-set and --infer-layout"),
                false => Ok(true),
            };
        }
        match self.requirements != InferRequirements::default() || self.enclave_costs.is_some() {
            true => wrong(
                "--protect, --side-channels, --active-host, --plain-in-enclave and --enclave-costs need --infer-enclave auto",
            ),
            false => Ok(false),
        }
    }

    /// The options of the service; `None` without a model. The choice for `auto` is not computed
    /// here.
    fn options(&self, shared: &SharedOptions) -> Option<InferOptions> {
        if self.models.is_empty() {
            return None;
        }
        let mut options = InferOptions::new(self.models.clone());
        options.layout.clone_from(&self.infer_layout);
        options.set = self.infer_set.clone().unwrap_or(options.set);
        (options.tokens, options.open, options.data) = (shared.tokens.clone(), shared.open, shared.data.clone());
        options.idle = shared.idle.unwrap_or(options.idle);
        options.key_bytes = self.infer_keys.unwrap_or(options.key_bytes);
        options.key_file_bytes = self.infer_key_files.unwrap_or(options.key_file_bytes);
        options.queue = self.max_images.map_or(options.queue, |images| images as usize);
        options.enclave = match self.infer_enclave {
            Some(EnclaveWord::Combination(combination)) => Some(self.enclave(combination)),
            Some(EnclaveWord::Auto) | None => None,
        };
        Some(options)
    }

    /// An enclave in this combination, with the given options.
    fn enclave(&self, combination: Combination) -> EnclaveOptions {
        let mut enclave = EnclaveOptions::new(combination);
        enclave.set.clone_from(&self.infer_set);
        enclave.sessions = self.enclave_sessions.unwrap_or(enclave.sessions);
        enclave.images = self.enclave_images.unwrap_or(enclave.images);
        enclave.tells = self.tells.unwrap_or(enclave.tells);
        let words = self.enclave_launcher.iter().flat_map(|line| line.split_whitespace());
        enclave.launcher = words.map(Into::into).collect();
        enclave
    }
}

impl ServerJob for ServeInferArguments {
    const PAGE: Option<Page> = Some(PAGE);

    fn is_wanted(&self) -> bool {
        !self.models.is_empty()
    }

    fn make_up(&mut self, _: &Path) -> Result<(), Failure> {
        if self.models.is_empty() {
            self.models.push(ModelSource { name: "digits".to_owned(), path: None });
        }
        Ok(())
    }

    fn offer(&self, shared: &SharedOptions) -> Result<Option<Box<dyn Offer>>, Failure> {
        let placed = Placed::of(self)?;
        let Some(mut options) = self.options(shared) else { return Ok(None) };
        let mut told = StartupNotes::default();
        if let Some(placed) = placed {
            options.enclave = Some(self.enclave(placed.combination));
            told.members.push(("placement", placed.json()));
            told.lines = placed.lines();
        }
        Ok(Some(Box::new(InferOffer { options, told })))
    }

    /// The check measures no costs.
    fn check(&self, _: &SharedOptions) -> Result<(), Failure> {
        self.is_placed().map(|_| ())
    }

    fn files(&self) -> Vec<&Path> {
        self.models.iter().filter_map(|model| model.path.as_deref()).collect()
    }
}
