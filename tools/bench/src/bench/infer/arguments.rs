//! The command line of `tobari-bench infer`, for clap.

use crate::bench::measuring::parse_runs;
use clap::Args;
use std::path::PathBuf;
use tobari_infer_files::images::Fit;

/// `tobari-bench infer`
#[derive(Args)]
pub(crate) struct InferBench {
    /// The paper's tables 6 to 14, ours beside its values where it measures; without it, an image
    /// under its user's key in every layout.
    #[arg(long)]
    pub(crate) paper: bool,
    /// Thousands of images at once, with plaintext weights, checked, and encrypted: 4,096 in
    /// infer-f, which takes 8 GB of memory and some minutes; 8,192 in infer-s, which takes twice
    /// that.
    #[arg(long)]
    pub(crate) batched: bool,
    /// For every set of requirements, what the planner takes by costs measured here, and runs of
    /// all that they allow.
    #[arg(long)]
    pub(crate) plans: bool,
    /// Accuracy over MNIST's test images: a folder with its four files, as they are or by gzip.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) mnist: Option<PathBuf>,
    /// How many of them under encryption, too.
    #[arg(long, value_name = "COUNT", default_value_t = 100, requires = "mnist")]
    pub(crate) encrypted: usize,
    /// The parameter set: infer-s is the paper's ring, infer-f the fast one. [default: infer-s for
    /// --paper, infer-f for --batched]
    #[arg(long, value_parser = ["infer-s", "infer-f"])]
    pub(crate) set: Option<String>,
    /// The paper's layout too, one ciphertext a channel, as a baseline: it takes long, and needs
    /// infer-s.
    #[arg(long)]
    pub(crate) paper_layout: bool,
    /// Measure this network on pictures under a client's key: a .tim file of a network of any
    /// depth, as `tobari infer compile` writes it.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["paper", "batched", "plans", "mnist", "set", "paper_layout"]
    )]
    pub(crate) network: Option<PathBuf>,
    /// Pictures for --network: a PNG or JPEG file, a folder of them, a .npy or idx file. Of many,
    /// the command takes an evenly spread sample. [default: random pictures, always the same;
    /// a network may withhold its answers to them]
    #[arg(long, value_name = "PATH", requires = "network")]
    pub(crate) images: Option<PathBuf>,
    /// Give pictures of another size the network's size: exact rejects them, stretch scales them,
    /// crop cuts their centres out and scales those.
    #[arg(long, default_value_t = Fit::Exact, value_name = "HOW", requires = "images")]
    pub(crate) fit: Fit,
    /// Images of each combination, after one that warms up. [default: 20; 5 with --network]
    #[arg(long, value_parser = parse_runs)]
    pub(crate) runs: Option<usize>,
    /// Write the tables as CSV into this folder too, and as SVG those of the paper that have times
    /// of ours.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

impl InferBench {
    /// Images of each combination, after one that warms up.
    pub(crate) fn runs(&self) -> usize {
        self.runs.unwrap_or(if self.network.is_some() { 5 } else { 20 })
    }
}
