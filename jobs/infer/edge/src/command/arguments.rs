//! The command line of those who have images, and of whoever has models.

use crate::serve::ModelSource;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::str::FromStr;
use tobari_command::reach::ReachArguments;
use tobari_enclave::{Digest, OutputPolicy};
use tobari_infer::client::Output;
use tobari_infer::guarded::Combination;
use tobari_infer::layout;
use tobari_infer::ready::SET;

/// What to do with images and models.
#[derive(Subcommand)]
pub enum InferVerb {
    /// Make a secret key file for one model of a server.
    Keygen(KeygenArguments),
    /// Draw a digit, as a PNG to try the rest with: no image of a data set.
    Draw(DrawArguments),
    /// Encrypt an image.
    Encrypt(EncryptArguments),
    /// Have an encrypted image classified, by a server or here. Sends the server the keys that it
    /// needs, once.
    Run(Box<RunArguments>),
    /// Open an answer.
    Decrypt(DecryptArguments),
    /// Have images classified by a server's enclave, whose evidence is verified before anything is
    /// sent. There is no key to make.
    Ask(Box<AskArguments>),
    /// Tell what a server's enclave is said to be, and the measurement that its evidence has to
    /// show. Nothing is sent.
    Enclave(EnclaveArguments),
    /// Make a model of an ONNX file.
    Compile(CompileArguments),
    /// Run a model slot by slot in the clear, and tell how precise it will be under encryption.
    Simulate(SimulateArguments),
}

/// How a model is run here.
#[derive(Args)]
pub(crate) struct LocalArguments {
    /// Where numbers stand in the slots; without it, the fastest layout that takes the model.
    #[arg(long, value_parser = layout::NAMES, value_name = "NAME")]
    pub(crate) layout: Option<String>,
    /// The set of parameters.
    #[arg(long, default_value = SET, value_name = "NAME")]
    pub(crate) set: String,
}

/// `tobari infer keygen`
#[derive(Args)]
pub struct KeygenArguments {
    /// The secret key file to write (mode 0600). The keys for the server follow from it.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
    /// With --server, the model by its name or the beginning of its digest, not needed where there
    /// is one; without, `digits` or a .tim file.
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) local: LocalArguments,
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// An image.
#[derive(Args)]
pub(crate) struct ImageArguments {
    /// A PNG of a digit, brought into the form of MNIST, or for a model of another size a PNG of
    /// that size, taken as it is; with --index, a file of images (idx, gzip or not). `-` is a PNG
    /// on standard input.
    #[arg(value_name = "IMAGE")]
    pub(crate) image: PathBuf,
    /// Which image of an idx file, from 0.
    #[arg(long, value_name = "N")]
    pub(crate) index: Option<usize>,
}

/// `tobari infer draw`
#[derive(Args)]
pub struct DrawArguments {
    /// The digit.
    #[arg(value_name = "DIGIT", value_parser = clap::value_parser!(u8).range(0..10))]
    pub(crate) digit: u8,
    /// The PNG to write, 28 x 28 grey pixels; `-` is standard output.
    #[arg(short, long, value_name = "PNG")]
    pub(crate) output: PathBuf,
    /// Whose hand, of six.
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u8).range(0..6))]
    pub(crate) style: u8,
}

/// `tobari infer encrypt`
#[derive(Args)]
pub struct EncryptArguments {
    #[command(flatten)]
    pub(crate) image: ImageArguments,
    /// The secret key file (`tobari infer keygen`).
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// The encrypted image to write; `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

/// `tobari infer run`
#[derive(Args)]
pub struct RunArguments {
    /// The encrypted image; `-` is standard input.
    #[arg(value_name = "IMAGE")]
    pub(crate) question: PathBuf,
    /// The answer to write, encrypted; `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
    /// The secret key file, to make the keys that the server needs where it does not have them yet.
    /// It does not leave this machine.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Without --server, the model: `digits` or a .tim file.
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) local: LocalArguments,
}

/// How much is told of an answer.
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
pub struct DecryptArguments {
    /// The answer; `-` is standard input.
    #[arg(value_name = "ANSWER")]
    pub(crate) answer: PathBuf,
    /// The secret key file.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// How much is told: label, top:N, rounded:BITS (logits, as multiples of 2^-BITS) or logits.
    /// Whoever is shown exact logits and sees the ciphertexts can compute the key: they are for the
    /// key's holder alone.
    #[arg(long, default_value = "label", value_name = "HOW")]
    pub(crate) output: OutputName,
    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A combination of process, enclave and encryption, by its name.
fn combination(name: &str) -> Result<Combination, String> {
    let names = || Combination::ALL.map(Combination::name).join(", ");
    Combination::from_name(name).ok_or_else(|| format!("expected one of {}", names()))
}

/// What `--infer-enclave` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnclaveWord {
    /// What the planner takes for the requirements.
    Auto,
    /// This one.
    Combination(Combination),
}

pub(super) fn enclave_word(name: &str) -> Result<EnclaveWord, String> {
    match name {
        "auto" => Ok(EnclaveWord::Auto),
        _ => combination(name).map(EnclaveWord::Combination).map_err(|expected| format!("{expected}, or auto")),
    }
}

/// Whose measurements a server places by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServeCosts {
    /// Of this machine, now.
    Measured,
    /// Of the project's machine, as recorded.
    Recorded,
}

/// Which enclave is taken for the right one.
#[derive(Args)]
pub(crate) struct TrustedArguments {
    /// The model by its name or the beginning of its digest, not needed where there is one. A whole
    /// digest says which model it must be.
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// SHA-256 of a `tobari` file that may run in the enclave (`tobari info` prints it, as
    /// `sha256sum` does); may be given again. Without it, that of this very file.
    #[arg(long = "executable", value_name = "SHA256")]
    pub(crate) executables: Vec<Digest>,
    /// What must be done where: enclave-plain, enclave-user-data, enclave-both, process-user-data,
    /// process-both, mixed-plain-reset or mixed-masked-reset. Without it, anything is taken, and
    /// said.
    #[arg(long, value_parser = combination, value_name = "NAME")]
    pub(crate) combination: Option<Combination>,
    /// The most that may be told of an image: label, top:K, rounded:BITS or scores.
    #[arg(long, default_value = "label", value_name = "HOW")]
    pub(crate) tells: OutputPolicy,
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari infer ask`
#[derive(Args)]
pub struct AskArguments {
    /// PNGs of digits, brought into the form of MNIST; with --index, a file of images (idx, gzip or
    /// not). `-` is a PNG on standard input.
    #[arg(required = true, value_name = "IMAGE")]
    pub(crate) images: Vec<PathBuf>,
    /// Which images of one idx file, from 0, with commas between.
    #[arg(long, value_delimiter = ',', value_name = "N")]
    pub(crate) index: Vec<usize>,
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
    #[command(flatten)]
    pub(crate) trusted: TrustedArguments,
    /// Take simulated evidence, which no hardware stands behind: anybody can make it, and whoever
    /// runs the server can read the images.
    #[arg(long)]
    pub(crate) accept_simulated: bool,
}

/// `tobari infer enclave`
#[derive(Args)]
pub struct EnclaveArguments {
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
    #[command(flatten)]
    pub(crate) trusted: TrustedArguments,
}

/// A margin between labels.
fn margin(text: &str) -> Result<f64, String> {
    let margin = text.parse().ok().filter(|margin: &f64| margin.is_finite() && *margin > 0.0);
    margin.ok_or_else(|| "expected a number above 0".to_owned())
}

/// `tobari infer compile`
#[derive(Args)]
pub struct CompileArguments {
    /// A network of convolutions, batch normalisation, polynomials of degree two, means and dense
    /// layers.
    #[arg(value_name = "ONNX")]
    pub(crate) input: PathBuf,
    /// The model to write.
    #[arg(short, long, value_name = "TIM")]
    pub(crate) output: PathBuf,
    /// The network takes (p/255 - mean)/deviation for a pixel p: the mean, or one for each channel
    /// with commas between.
    #[arg(long, value_delimiter = ',', default_value = "0", value_name = "NUMBER")]
    pub(crate) mean: Vec<f64>,
    /// The deviation.
    #[arg(long, value_delimiter = ',', default_value = "1", value_name = "NUMBER")]
    pub(crate) deviation: Vec<f64>,
    /// Images (idx) whose numbers tell the ranges; without them, ranges hold for every image, which
    /// costs precision.
    #[arg(long, value_name = "IDX")]
    pub(crate) images: Option<PathBuf>,
    /// The smallest difference between the two largest logits that must be told apart. Without it,
    /// the images tell: 19 of 20 have this margin. A model is refused whose logits encryption may
    /// change by more than half of it.
    #[arg(long, value_name = "LOGITS", value_parser = margin)]
    pub(crate) margin: Option<f64>,
    #[command(flatten)]
    pub(crate) local: LocalArguments,
    /// How much larger numbers may become than those of the images.
    #[arg(long, default_value_t = 1.25, requires = "images", value_name = "FACTOR")]
    pub(crate) headroom: f64,
    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari infer simulate`
#[derive(Args)]
pub struct SimulateArguments {
    #[command(flatten)]
    pub(crate) image: ImageArguments,
    /// The model: `digits` or a .tim file.
    #[arg(long, default_value = "digits", value_name = "MODEL")]
    pub(crate) model: ModelSource,
    #[command(flatten)]
    pub(crate) local: LocalArguments,
    /// Refuse a model whose sums may be off by more than this.
    #[arg(long, default_value_t = f64::INFINITY, hide_default_value = true, value_name = "ERROR")]
    pub(crate) tolerance: f64,
    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}
