//! The command line of devices, key holders, and whoever serves their frames.

use crate::serve::MqttBroker;
use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;
use tobari_command::reach::ReachArguments;

/// What to do with devices and their readings.
#[derive(Subcommand)]
pub enum SenseVerb {
    /// Key holder: make a folder with the key of a new fleet.
    Keygen(KeygenArguments),
    /// Key holder: take devices in, give them new keys, and leave them out.
    Provision(ProvisionArguments),
    /// Key holder: have a server remove what it stored of devices.
    Forget(ForgetArguments),
    /// Device: agree with a key holder on a secret (ML-KEM), or take a token up.
    Enrol(EnrolArguments),
    /// Device: seal readings, into a file or for a server.
    Encrypt(Box<EncryptArguments>),
    /// Key holder: register a question, list questions, or take one back.
    Query(QueryArguments),
    /// Key holder: have a server compute what is registered, open each result once, and show
    /// analysts what may be released.
    Keyholder(Box<KeyholderArguments>),
    /// Write frames that a server stored, or figures that were released, as a Parquet file.
    #[cfg(feature = "parquet")]
    Export(ExportArguments),
}

/// `tobari sense keygen`
#[derive(Args)]
pub struct KeygenArguments {
    /// What readings mean (TOML): profile, samples of a frame, channels, products.
    #[arg(long, value_name = "TOML")]
    pub(crate) schema: PathBuf,
    /// The folder to make. All that is secret in it has mode 0600.
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: PathBuf,
    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari sense provision`
#[derive(Args)]
pub struct ProvisionArguments {
    /// The key holder's folder (`tobari sense keygen`).
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Names of devices; none with --list.
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Whose devices they are.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub(crate) tenant: String,
    /// Where the devices' files go, NAME.device and its counter: each is a secret of its device.
    #[arg(short, long, value_name = "DIR", conflicts_with_all = ["token", "request"])]
    pub(crate) output: Option<PathBuf>,
    /// Print each device's token instead, one line of capital letters and digits that a QR code
    /// holds.
    #[arg(long, conflicts_with = "request")]
    pub(crate) token: bool,
    /// Take in the one device whose request this is (`tobari sense enrol`).
    #[arg(long, value_name = "FILE")]
    pub(crate) request: Option<PathBuf>,
    /// Only a request with this fingerprint, which the device shows.
    #[arg(long, requires = "request", value_name = "HEX")]
    pub(crate) fingerprint: Option<String>,
    /// Give devices of these names new keys: nothing more is taken under the old ones, and what
    /// came counts.
    #[arg(long, conflicts_with = "revoke")]
    pub(crate) rotate: bool,
    /// Leave devices out: nothing more is taken of them, and what came counts no more.
    #[arg(long, conflicts_with_all = ["token", "request", "output"])]
    pub(crate) revoke: bool,
    /// List the devices.
    #[arg(long, conflicts_with_all = ["names", "rotate", "revoke"])]
    pub(crate) list: bool,
    /// JSON on standard output, one object a device.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari sense forget`
#[derive(Args)]
pub struct ForgetArguments {
    /// The key holder's folder.
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Names of devices: frames under all keys that they had are removed.
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
    /// One JSON object a device on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari sense enrol`
#[derive(Args)]
pub struct EnrolArguments {
    /// The fleet's card: fleet.json of the key holder's folder.
    #[arg(long, value_name = "FILE")]
    pub(crate) fleet: PathBuf,
    /// The number under which the device will send: below 2^24, and its own.
    #[arg(long, required_unless_present = "token", conflicts_with = "token", value_name = "N")]
    pub(crate) number: Option<u32>,
    /// A token that the key holder printed (`tobari sense provision --token`), instead of an
    /// agreement; `-` is standard input.
    #[arg(long, conflicts_with = "request", value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
    /// The device's file to write; its counter goes to the same name with `.counter` added.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// The request to write, for `tobari sense provision --request`.
    #[arg(long, required_unless_present = "token", value_name = "FILE")]
    pub(crate) request: Option<PathBuf>,
    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari sense encrypt`
#[derive(Args)]
pub struct EncryptArguments {
    /// Readings: lines of numbers, one for each channel, with commas between; a first line of
    /// channels' names may say in which order. `-` is standard input.
    #[arg(default_value = "-", value_name = "CSV")]
    pub(crate) readings: PathBuf,
    /// The device's file.
    #[arg(long, value_name = "FILE")]
    pub(crate) device: PathBuf,
    /// The fleet's card: fleet.json of the key holder's folder.
    #[arg(long, value_name = "FILE")]
    pub(crate) fleet: PathBuf,
    /// Where frames go, one after another; `-` is standard output. With --server or --mqtt not
    /// needed.
    #[arg(short, long, value_name = "FILE", required_unless_present_any = ["server", "mqtt"])]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
    /// Publish frames at this broker (MQTT 5), as mqtt://host:1883. The connection is not
    /// encrypted.
    #[arg(long, conflicts_with = "server", value_name = "URL")]
    pub(crate) mqtt: Option<MqttBroker>,
    /// A file with a user's name and a password for the broker, with a colon between.
    #[arg(long, requires = "mqtt", value_name = "FILE")]
    pub(crate) mqtt_login: Option<PathBuf>,
    /// Frames that are sent at once, or published in one message.
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2048))]
    pub(crate) batch: u32,
    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari sense query`
#[derive(Args)]
pub struct QueryArguments {
    /// The key holder's folder.
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// A question to register (TOML). Refused if a sum might overflow with all devices at full
    /// scale.
    #[arg(value_name = "TOML")]
    pub(crate) question: Option<PathBuf>,
    /// Only check it.
    #[arg(long, requires = "question")]
    pub(crate) check: bool,
    /// Take the question of this name back.
    #[arg(long, conflicts_with = "question", value_name = "NAME")]
    pub(crate) remove: Option<String>,
    /// JSON on standard output, one object a question.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari sense keyholder`
#[derive(Args)]
pub struct KeyholderArguments {
    /// The key holder's folder.
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
    /// Where analysts find figures: /releases and /metrics.
    #[arg(long, default_value = "127.0.0.1:7620")]
    pub(crate) addr: SocketAddr,
    /// Which analysts may look, a line for each with a name and the hash of a token
    /// (`tobari search token`). Without it, whoever is on this machine.
    #[arg(long, value_name = "FILE")]
    pub(crate) analysts: Option<PathBuf>,
    /// Seconds between looks at the server.
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) every: u32,
    /// Look once, release what there is, and end; analysts are not served.
    #[arg(long)]
    pub(crate) once: bool,
    /// One JSON object a release on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Stop when standard input ends: for a key holder started by another program.
    #[arg(long, hide = true)]
    pub(crate) until_stdin_closes: bool,
}

/// `tobari sense export`
#[cfg(feature = "parquet")]
#[derive(Args)]
pub struct ExportArguments {
    #[command(flatten)]
    pub(crate) what: ExportSource,
    /// Which fleet's frames; not needed where the folder has one fleet.
    #[arg(long, requires = "frames", value_name = "FLEET")]
    pub(crate) fleet: Option<String>,
    /// Only from this time on, in milliseconds since 1970: frames stored then, and windows that
    /// began then.
    #[arg(long, default_value_t = 0, value_name = "MS", hide_default_value = true)]
    pub(crate) from_ms: u64,
    /// Only before this time.
    #[arg(long, default_value_t = u64::MAX, value_name = "MS", hide_default_value = true)]
    pub(crate) to_ms: u64,
    /// The file to write.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is exported.
#[cfg(feature = "parquet")]
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct ExportSource {
    /// Frames, as they came, of this folder of `tobari serve --sense`, whose server is stopped
    /// meanwhile.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) frames: Option<PathBuf>,
    /// Figures that were released from this key holder's folder.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) figures: Option<PathBuf>,
    /// Figures as an analyst was given them: what /releases or /releases/QUESTION answered; `-` is
    /// standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) releases: Option<PathBuf>,
}
