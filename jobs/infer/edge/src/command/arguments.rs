//! The arguments of `tobari infer`.

use crate::serve::ModelSource;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::str::FromStr;
use tobari_command::output::Failure;
use tobari_command::reach::ReachArguments;
use tobari_enclave::{Digest, OutputPolicy};
use tobari_infer::client::Output;
use tobari_infer::guarded::Combination;
use tobari_infer::layout;
use tobari_infer::ready::SET;
use tobari_infer_deep::settings::EngineKind;
use tobari_infer_files::images::Fit;

/// The commands of `tobari infer`.
#[derive(Subcommand)]
pub enum InferVerb {
    /// Make a secret key for one model.
    Keygen(KeygenArguments),
    /// Draw a digit as a PNG, to try the other commands.
    Draw(DrawArguments),
    /// Encrypt an image.
    Encrypt(EncryptArguments),
    /// Classify an encrypted image, on a server or on this machine.
    Run(Box<RunArguments>),
    /// Decrypt an answer.
    Decrypt(DecryptArguments),
    /// Classify images in a server's enclave, after verifying the enclave's evidence. No key
    /// needed.
    Ask(Box<AskArguments>),
    /// Describe a server's enclave, and the measurement that its evidence must show. Sends no data.
    Enclave(EnclaveArguments),
    /// Make a model from an ONNX file.
    Compile(CompileArguments),
    /// Run a model without encryption, and estimate its precision under encryption.
    Simulate(SimulateArguments),
}

/// Layout and parameters of a run on this machine.
#[derive(Args)]
pub(crate) struct LocalArguments {
    /// Arrange numbers in the slots by this layout. [default: the fastest that fits the model]
    #[arg(long, value_parser = layout::NAMES, value_name = "NAME")]
    pub(crate) layout: Option<String>,
    /// Use this parameter set. `tobari info` lists the sets. Networks of more than three maps have
    /// parameters of their own. [default: infer-f]
    #[arg(long, value_name = "NAME")]
    pub(crate) set: Option<String>,
}

impl LocalArguments {
    /// The name of the set.
    pub(crate) fn set(&self) -> &str {
        self.set.as_deref().unwrap_or(SET)
    }

    /// Whether a layout or a set was given.
    pub(crate) fn is_chosen(&self) -> bool {
        self.layout.is_some() || self.set.is_some()
    }

    /// Refuses a layout or a set for a network that has its own.
    pub(crate) fn refuse(&self) -> Result<(), Failure> {
        match self.is_chosen() {
            true => Err(Failure::Call(
                "this network has layouts and parameters of its own: leave --layout and --set out".to_owned(),
            )),
            false => Ok(()),
        }
    }
}

/// `tobari infer keygen`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari infer keygen -o local.key --model digits
    tobari infer keygen -o server.key --server http://127.0.0.1:7610")]
pub struct KeygenArguments {
    /// Write the secret key to this file (mode 0600). The server's keys are derived from the secret
    /// key.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Make the key for this model. With --server: the name, or the beginning of the digest; a
    /// server with one model needs neither. Without --server: `digits`, or a .tim file.
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) local: LocalArguments,
    /// Print one JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
}

/// An image.
#[derive(Args)]
pub(crate) struct ImageArguments {
    /// A PNG or JPEG of the model's size, unless --fit says otherwise. With --index: a file of
    /// images (idx, may be gzip). `-` is a picture on standard input.
    #[arg(value_name = "IMAGE")]
    pub(crate) image: PathBuf,
    /// Take the image with this number from an idx file, counted from 0.
    #[arg(long, value_name = "N")]
    pub(crate) index: Option<usize>,
    /// Give a picture the form of the model's images: exact refuses another size, stretch scales,
    /// crop cuts the centre out and scales that, digit makes a black background and centres the
    /// ink, as in MNIST. [default: digit for the built-in model, exact for others]
    #[arg(long, value_name = "HOW")]
    pub(crate) fit: Option<Fit>,
}

/// `tobari infer draw`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari infer draw 3 -o three.png
    tobari infer draw 7 -o seven.png --style 2")]
pub struct DrawArguments {
    /// The digit to draw.
    #[arg(value_name = "DIGIT", value_parser = clap::value_parser!(u8).range(0..10))]
    pub(crate) digit: u8,
    /// Write this PNG: 28 x 28 grey pixels. `-` is standard output.
    #[arg(short, long, value_name = "PNG")]
    pub(crate) output: PathBuf,
    /// Draw in this handwriting, one of six.
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u8).range(0..6))]
    pub(crate) style: u8,
}

/// `tobari infer encrypt`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari infer encrypt three.png --key local.key -o three.local
    tobari infer encrypt three.png --key server.key -o three.image")]
pub struct EncryptArguments {
    #[command(flatten)]
    pub(crate) image: ImageArguments,
    /// Use this secret key file (`tobari infer keygen`).
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// Write the encrypted image to this file. `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

/// `tobari infer run`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari infer run three.local -o local.answer --key local.key --model digits
    tobari infer run three.image -o server.answer --key server.key --server http://127.0.0.1:7610")]
pub struct RunArguments {
    /// The encrypted image. `-` is standard input.
    #[arg(value_name = "IMAGE")]
    pub(crate) question: PathBuf,
    /// Write the encrypted answer to this file. `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Derive the server's keys from this secret key file, and send them if the server lacks them.
    /// The secret key stays on this machine.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Run this model on this machine, without --server: `digits`, or a .tim file.
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) local: LocalArguments,
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
}

/// The part of an answer to print.
#[derive(Clone, Copy)]
pub(crate) struct OutputName(pub(crate) Output);

impl FromStr for OutputName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "expected label, top:N, rounded:BITS or logits".to_owned();
        Ok(Self(match (text, text.split_once(':')) {
            ("label", _) => Output::Label,
            ("logits", _) => Output::Logits,
            (_, Some(("top", count))) => Output::Top(count.parse().map_err(|_| wrong())?),
            (_, Some(("rounded", bits))) => Output::Rounded(bits.parse().map_err(|_| wrong())?),
            _ => return Err(wrong()),
        }))
    }
}

/// `tobari infer decrypt`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari infer decrypt local.answer --key local.key
    tobari infer decrypt server.answer --key server.key --output top:3")]
pub struct DecryptArguments {
    /// The encrypted answer. `-` is standard input.
    #[arg(value_name = "ANSWER")]
    pub(crate) answer: PathBuf,
    /// Use this secret key file.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// Print this part of the answer: label, top:N, rounded:BITS (logits as multiples of 2^-BITS)
    /// or logits. Keep exact logits secret: together with the ciphertext, exact logits reveal the
    /// key.
    #[arg(long, default_value = "label", value_name = "HOW")]
    pub(crate) output: OutputName,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A combination of process, enclave and encryption, by its name.
fn combination(name: &str) -> Result<Combination, String> {
    let names = || Combination::ALL.map(Combination::name).join(", ");
    Combination::from_name(name).ok_or_else(|| format!("expected one of {}", names()))
}

/// The value of `--infer-enclave`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnclaveWord {
    /// The planner's choice for the requirements.
    Auto,
    /// A named combination.
    Combination(Combination),
}

pub(super) fn enclave_word(name: &str) -> Result<EnclaveWord, String> {
    match name {
        "auto" => Ok(EnclaveWord::Auto),
        _ => combination(name).map(EnclaveWord::Combination).map_err(|expected| format!("{expected}, or auto")),
    }
}

/// The measurements by which a server chooses a combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServeCosts {
    /// Measure this machine now.
    Measured,
    /// Use the project's records.
    Recorded,
}

/// The enclave that a client accepts.
#[derive(Args)]
pub(crate) struct TrustedArguments {
    /// Ask this model: the name, or the beginning of the digest. A server with one model needs
    /// neither. A whole digest pins the model.
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Accept an enclave that runs the `tobari` file with this SHA-256 (`tobari info` prints the
    /// hash). Repeat the option for further files. [default: the file of this command]
    #[arg(long = "executable", value_name = "SHA256")]
    pub(crate) executables: Vec<Digest>,
    /// Accept only this combination: enclave-plain, enclave-user-data, enclave-both,
    /// process-user-data, process-both, mixed-plain-reset or mixed-masked-reset. Without the
    /// option, the command accepts every combination and prints its name.
    #[arg(long, value_parser = combination, value_name = "NAME")]
    pub(crate) combination: Option<Combination>,
    /// Accept only an enclave that reveals at most this of an image: label, top:K, rounded:BITS or
    /// scores.
    #[arg(long, default_value = "label", value_name = "HOW")]
    pub(crate) tells: OutputPolicy,
    /// Print one JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari infer ask`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari infer ask three.png --server http://127.0.0.1:7610 --accept-simulated
    tobari infer ask three.png seven.png --server http://127.0.0.1:7610 --accept-simulated --json")]
pub struct AskArguments {
    /// PNGs or JPEGs of the model's size, unless --fit says otherwise. With --index: a file of
    /// images (idx, may be gzip). `-` is a picture on standard input.
    #[arg(required = true, value_name = "IMAGE")]
    pub(crate) images: Vec<PathBuf>,
    /// Take the images with these numbers from one idx file, counted from 0. Separate by commas.
    #[arg(long, value_delimiter = ',', value_name = "N")]
    pub(crate) index: Vec<usize>,
    /// Give pictures the form of the model's images: exact refuses another size, stretch scales,
    /// crop cuts the centre out and scales that, digit makes a black background and centres the
    /// ink, as in MNIST. [default: digit for the built-in model, exact for others]
    #[arg(long, value_name = "HOW")]
    pub(crate) fit: Option<Fit>,
    #[command(flatten)]
    pub(crate) trusted: TrustedArguments,
    /// Accept simulated evidence. No hardware supports such evidence: the server's operator can
    /// read the images, and without TLS, so can everybody between client and server.
    #[arg(long)]
    pub(crate) accept_simulated: bool,
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
}

/// `tobari infer enclave`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari infer enclave --server http://127.0.0.1:7610
    tobari infer enclave --server http://127.0.0.1:7610 --json")]
pub struct EnclaveArguments {
    #[command(flatten)]
    pub(crate) trusted: TrustedArguments,
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
}

/// A factor of at least 1.
fn headroom(text: &str) -> Result<f64, String> {
    let headroom = text.parse().ok().filter(|headroom: &f64| (1.0..=1024.0).contains(headroom));
    headroom.ok_or_else(|| "expected a number from 1 to 1024".to_owned())
}

/// A margin between labels.
pub(super) fn margin(text: &str) -> Result<f64, String> {
    let margin = text.parse().ok().filter(|margin: &f64| margin.is_finite() && *margin > 0.0);
    margin.ok_or_else(|| "expected a number above 0".to_owned())
}

/// The replacement of activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Approximate {
    /// Polynomials of degree two.
    Quadratic,
}

/// `tobari infer compile`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari infer compile net.onnx -o net.tim --images images.idx
    tobari infer compile net.onnx -o wide.tim --images images.idx --headroom 2
    tobari infer compile net.onnx -o mnist.tim --mean 0.1307 --deviation 0.3081 --images images.idx")]
pub struct CompileArguments {
    /// The ONNX file. Chains of at most three maps with polynomials of degree two between them run
    /// fastest, and in every combination of an enclave. Other networks may have branches, any
    /// depth, and activations that are no polynomials.
    #[arg(value_name = "ONNX")]
    pub(crate) input: PathBuf,
    /// Write the model to this file.
    #[arg(short, long, value_name = "TIM")]
    pub(crate) output: PathBuf,
    /// Give the network (p/255 - MEAN)/DEVIATION for a pixel p. Give one mean, or one for each
    /// channel, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "0", value_name = "NUMBER")]
    pub(crate) mean: Vec<f64>,
    /// The deviation, in the same form as --mean.
    #[arg(long, value_delimiter = ',', default_value = "1", value_name = "NUMBER")]
    pub(crate) deviation: Vec<f64>,
    /// Calibrate ranges with these images: folders of PNG or JPEG files, single ones, .npy or idx
    /// files. Without images, ranges hold for every possible image, which costs precision; networks
    /// of more than three maps need images.
    #[arg(long, num_args = 1.., value_name = "PATH")]
    pub(crate) images: Vec<PathBuf>,
    /// Give pictures the form of the network's images: exact refuses another size, stretch scales,
    /// crop cuts the centre out and scales that, digit makes a black background and centres the
    /// ink, as in MNIST.
    #[arg(long, default_value_t = Fit::Exact, value_name = "HOW")]
    pub(crate) fit: Fit,
    /// Replace each activation by the polynomial of degree two that is nearest on the images,
    /// however near that is. It takes one level; a network that was trained with its activations
    /// usually loses precision.
    #[arg(long, value_name = "HOW")]
    pub(crate) approximate: Option<Approximate>,
    /// Run the network this way: levels under encryption alone; refreshes of ciphertexts, seconds
    /// each; or maps under encryption with all else in an enclave, exactly, at any depth (`tobari
    /// serve --infer-enclave mixed-plain-reset`). [default: levels, and refreshes where levels do
    /// not suffice]
    #[arg(long, value_parser = engine, value_name = "HOW", conflicts_with = "approximate")]
    pub(crate) engine: Option<EngineKind>,
    /// Keep labels right down to this difference of the two largest logits. The command rejects a
    /// model if encryption may change logits by more than half of the margin. [default: the margin
    /// that 19 of 20 calibration images have]
    #[arg(long, value_name = "LOGITS", value_parser = margin)]
    pub(crate) margin: Option<f64>,
    #[command(flatten)]
    pub(crate) local: LocalArguments,
    /// Allow values to exceed the ranges of the calibration images by this factor. [default: 1.25,
    /// or 2 for networks whose activations are no polynomials of degree two]
    #[arg(long, requires = "images", value_name = "FACTOR", value_parser = headroom)]
    pub(crate) headroom: Option<f64>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A name of an engine.
pub(super) fn engine(name: &str) -> Result<EngineKind, String> {
    name.parse()
}

/// `tobari infer simulate`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari infer simulate three.png
    tobari infer simulate three.png --model digits --json")]
pub struct SimulateArguments {
    /// Pictures: PNG or JPEG files, folders of them, .npy or idx files. With --index: one idx file.
    /// `-` is a picture on standard input.
    #[arg(required = true, value_name = "PICTURE")]
    pub(crate) images: Vec<PathBuf>,
    /// Take the image with this number from an idx file, counted from 0.
    #[arg(long, value_name = "N")]
    pub(crate) index: Option<usize>,
    /// Give pictures the form of the model's images: exact refuses another size, stretch scales,
    /// crop cuts the centre out and scales that, digit makes a black background and centres the
    /// ink, as in MNIST. [default: digit for the built-in model, exact for others]
    #[arg(long, value_name = "HOW")]
    pub(crate) fit: Option<Fit>,
    /// Run this model: `digits`, or a .tim file.
    #[arg(long, default_value = "digits", value_name = "MODEL")]
    pub(crate) model: ModelSource,
    #[command(flatten)]
    pub(crate) local: LocalArguments,
    /// Reject a model whose sums, or whose logits for a network of any depth, may have a larger
    /// error.
    #[arg(long, default_value_t = f64::INFINITY, hide_default_value = true, value_name = "ERROR")]
    pub(crate) tolerance: f64,
    /// Print one JSON object a picture on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}
