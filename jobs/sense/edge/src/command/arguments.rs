//! The arguments of `tobari sense`, for key holders and for devices.

use super::times::{TimeOfReadings, parse_time, parse_zone};
use crate::serve::{MqttBroker, MqttVersion};
use chrono::FixedOffset;
use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;
use tobari_command::address::parse_address;
use tobari_command::reach::ReachArguments;

/// The commands of `tobari sense`.
#[derive(Subcommand)]
pub enum SenseVerb {
    /// Key holder: make a new fleet and its key.
    Keygen(KeygenArguments),
    /// Key holder: add devices to a fleet, replace their keys, or revoke them.
    Provision(ProvisionArguments),
    /// Key holder: delete the frames of devices from the server.
    Forget(ForgetArguments),
    /// Device: agree on a secret with the key holder (ML-KEM), or use a token.
    Enrol(EnrolArguments),
    /// Device: encrypt readings, and send them or write them to a file.
    Encrypt(Box<EncryptArguments>),
    /// Device: send the frames that no server has confirmed yet.
    Send(Box<SendArguments>),
    /// Key holder: register, list or remove questions.
    Query(QueryArguments),
    /// Key holder: fetch results from the server, decrypt each once, and publish them to analysts.
    Keyholder(Box<KeyholderArguments>),
    /// Write stored frames or released figures as a Parquet file.
    #[cfg(feature = "parquet")]
    Export(ExportArguments),
}

/// `tobari sense keygen`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari sense keygen --schema schema.toml -o holder
    tobari sense keygen --schema schema.toml -o other --json")]
pub struct KeygenArguments {
    /// Read the schema from this file: profile, samples in a frame, channels, products.
    #[arg(long, value_name = "TOML")]
    pub(crate) schema: PathBuf,
    /// Make this folder. Secret files in the folder have mode 0600.
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: PathBuf,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari sense provision`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari sense provision holder attic cellar -o devices
    tobari sense provision holder --devices devices.csv --token --json
    tobari sense provision holder --list")]
pub struct ProvisionArguments {
    /// The key holder's folder (`tobari sense keygen`).
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// The names of devices. --list takes none.
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Take the names from this table (CSV). Its first line names the columns: name, and perhaps
    /// tenant. Other columns are ignored.
    #[arg(long, value_name = "FILE", conflicts_with = "names")]
    pub(crate) devices: Option<PathBuf>,
    /// Assign the devices to this tenant, for statistics by tenant.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub(crate) tenant: String,
    /// Write a device file NAME.device, and its counter, for each device into this folder. A device
    /// file is a secret of its device.
    #[arg(short, long, value_name = "DIR", conflicts_with_all = ["token", "request"])]
    pub(crate) output: Option<PathBuf>,
    /// Print a token for each device instead, one line for a QR code.
    #[arg(long, conflicts_with = "request")]
    pub(crate) token: bool,
    /// Add the device that made this request (`tobari sense enrol`).
    #[arg(long, value_name = "FILE")]
    pub(crate) request: Option<PathBuf>,
    /// Accept the request only if it has this fingerprint. The device shows its fingerprint.
    #[arg(long, requires = "request", value_name = "HEX")]
    pub(crate) fingerprint: Option<String>,
    /// Replace the keys of these devices. The server rejects new frames under old keys. Earlier
    /// frames still count.
    #[arg(long, conflicts_with = "revoke")]
    pub(crate) rotate: bool,
    /// Revoke these devices. The server rejects new frames. Earlier frames no longer count.
    #[arg(long, conflicts_with_all = ["token", "request", "output"])]
    pub(crate) revoke: bool,
    /// List the devices.
    #[arg(long, conflicts_with_all = ["names", "devices", "rotate", "revoke"])]
    pub(crate) list: bool,
    /// Print one JSON object for each device on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari sense forget`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari sense forget holder attic --server http://127.0.0.1:7610
    tobari sense forget holder cellar --server http://127.0.0.1:7610 --json")]
pub struct ForgetArguments {
    /// The key holder's folder.
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// The names of devices. The server deletes frames under all keys that a device had.
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Print one JSON object for each device on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
}

/// `tobari sense enrol`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari sense enrol --fleet holder/fleet.json --number 7 -o hall.device --request hall.request
    tobari sense enrol --fleet holder/fleet.json --number 8 -o porch.device --request porch.request --json")]
pub struct EnrolArguments {
    /// Read the fleet's card from this file: fleet.json of the key holder's folder.
    #[arg(long, value_name = "FILE")]
    pub(crate) fleet: PathBuf,
    /// Send under this number, below 2^24. No other device may have the number.
    #[arg(long, required_unless_present = "token", conflicts_with = "token", value_name = "N")]
    pub(crate) number: Option<u32>,
    /// Use the token in this file (`tobari sense provision --token`), instead of an agreement. `-`
    /// is standard input.
    #[arg(long, conflicts_with = "request", value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
    /// Write the device's file here. The counter goes to the same name with `.counter` added.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Write the request to this file, for `tobari sense provision --request`.
    #[arg(long, required_unless_present = "token", value_name = "FILE")]
    pub(crate) request: Option<PathBuf>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari sense encrypt`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari sense encrypt readings.csv --device devices/attic.device --fleet holder/fleet.json -o frames
    tobari sense encrypt readings.csv --device devices/attic.device --fleet holder/fleet.json --server http://127.0.0.1:7610")]
pub struct EncryptArguments {
    /// The readings: a table with a column for each channel, or JSON objects, one a line. A first
    /// line with the channels' names may set the order; other columns are left out. A file is read
    /// and checked as a whole before the first frame is sent. `-` is standard input.
    #[arg(default_value = "-", value_name = "FILE")]
    pub(crate) readings: PathBuf,
    /// Write frames to this file, one after another. `-` is standard output. --server and --mqtt
    /// need no file.
    #[arg(short, long, value_name = "FILE", required_unless_present_any = ["server", "mqtt"])]
    pub(crate) output: Option<PathBuf>,
    /// Send readings from a pipe at the latest after this many seconds, also in a frame that is not
    /// full.
    #[arg(long, default_value_t = 10, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) flush_every: u32,
    /// Encrypt a file again, as new readings. Without this option, a file that is unchanged since
    /// an earlier run is not encrypted twice.
    #[arg(long)]
    pub(crate) again: bool,
    #[command(flatten)]
    pub(crate) form: FormArguments,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sender: SenderArguments,
}

/// The form of readings.
#[derive(Args, Clone)]
pub(crate) struct FormArguments {
    /// Columns are separated by this character, or by `tab`. [default: a semicolon or a tabulator
    /// if the first line has one, a comma otherwise]
    #[arg(long, value_name = "CHARACTER", value_parser = parse_separator)]
    pub(crate) separator: Option<u8>,
    /// Numbers have a decimal comma, such as 21,5.
    #[arg(long)]
    pub(crate) decimal_comma: bool,
    /// Leave out rows in which a reading is this word, such as `unavailable`, and tell how many.
    /// The option may be repeated; '' stands for no word.
    #[arg(long, value_name = "WORD")]
    pub(crate) missing: Vec<String>,
    /// Take the times of readings from this column of a table or name of JSON objects: RFC 3339, or
    /// seconds or milliseconds since 1970. `now` encrypts all readings as of now, and leaves such a
    /// column out. For fleets of profiles u28 and p17.
    #[arg(long, value_name = "COLUMN", value_parser = parse_time)]
    pub(crate) time: Option<TimeOfReadings>,
    /// The time zone of times that have none, such as +09:00.
    #[arg(long, value_name = "ZONE", value_parser = parse_zone, requires = "time", allow_hyphen_values = true)]
    pub(crate) zone: Option<FixedOffset>,
}

/// A character that separates columns.
fn parse_separator(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" => Ok(b'\t'),
        [sign] if sign.is_ascii_punctuation() && !b"\"+-._".contains(sign) => Ok(*sign),
        _ => Err("expected a sign such as ; or |, or the word tab".to_owned()),
    }
}

/// `tobari sense send`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari sense send --device devices/attic.device --fleet holder/fleet.json --server http://127.0.0.1:7610
    tobari sense send --device devices/attic.device --fleet holder/fleet.json --mqtt mqtt://127.0.0.1:1883 --json")]
pub struct SendArguments {
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) sender: SenderArguments,
}

/// A device, and where its frames go.
#[derive(Args)]
pub(crate) struct SenderArguments {
    /// Use this device file (`tobari sense provision`). Frames that no server has confirmed wait
    /// beside it, in the folder with `.outbox` added to its name.
    #[arg(long, value_name = "FILE")]
    pub(crate) device: PathBuf,
    /// Read the fleet's card from this file: fleet.json of the key holder's folder.
    #[arg(long, value_name = "FILE")]
    pub(crate) fleet: PathBuf,
    /// Publish frames at this MQTT broker, such as mqtts://host:8883. A connection of
    /// mqtt://host:1883 is not encrypted; the frames are. --tls-ca and --tls-fingerprint say which
    /// certificates to trust.
    #[arg(long, conflicts_with = "server", value_name = "URL")]
    pub(crate) mqtt: Option<MqttBroker>,
    /// Use this version of MQTT, 5 or 3.1.1. A broker of 3.1.1 does not say whether a server has
    /// subscribed, or why it rejects frames. [default: 5]
    #[arg(long, requires = "mqtt", value_name = "VERSION")]
    pub(crate) mqtt_version: Option<MqttVersion>,
    /// Show the broker this certificate (PEM).
    #[arg(long, requires_all = ["mqtt", "mqtt_key"], value_name = "FILE")]
    pub(crate) mqtt_cert: Option<PathBuf>,
    /// The private key of that certificate (PEM).
    #[arg(long, requires = "mqtt_cert", value_name = "FILE")]
    pub(crate) mqtt_key: Option<PathBuf>,
    /// Log in at the broker with this file's content, NAME:PASSWORD.
    #[arg(long, requires = "mqtt", value_name = "FILE")]
    pub(crate) mqtt_login: Option<PathBuf>,
    /// Send this many frames in one request or message.
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) batch: u32,
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
}

/// `tobari sense query`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari sense query holder question.toml
    tobari sense query holder question.toml --check --json")]
pub struct QueryArguments {
    /// The key holder's folder.
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Register the question of this file. The command rejects questions whose sums could overflow
    /// with every device at full scale.
    #[arg(value_name = "TOML")]
    pub(crate) question: Option<PathBuf>,
    /// Check the question without registering it.
    #[arg(long, requires = "question")]
    pub(crate) check: bool,
    /// Remove the question with this name.
    #[arg(long, conflicts_with = "question", value_name = "NAME")]
    pub(crate) remove: Option<String>,
    /// Print one JSON object for each question on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari sense keyholder`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari sense keyholder holder --server http://127.0.0.1:7610 --once
    tobari sense keyholder holder --server http://127.0.0.1:7610 --addr localhost:0")]
pub struct KeyholderArguments {
    /// The key holder's folder.
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Publish figures for analysts at this address: /releases and /metrics.
    #[arg(long, default_value = "127.0.0.1:7620", value_parser = parse_address, value_name = "HOST:PORT")]
    pub(crate) addr: SocketAddr,
    /// Answer only analysts with a token from this file. Each line has a name and the hash of a
    /// token (`tobari search token`). Without the option, only this machine may read.
    #[arg(long, value_name = "FILE")]
    pub(crate) analysts: Option<PathBuf>,
    /// Ask the server for results every so many seconds.
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) every: u32,
    /// Ask once, release the results, and exit. Analysts are not served.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print one JSON object for each release on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Stop when standard input ends: for a key holder started by another program.
    #[arg(long, hide = true)]
    pub(crate) until_stdin_closes: bool,
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
}

/// `tobari sense export`
#[cfg(feature = "parquet")]
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari sense export --figures holder -o figures.parquet
    tobari sense export --frames fleets -o frames.parquet")]
pub struct ExportArguments {
    #[command(flatten)]
    pub(crate) what: ExportSource,
    /// Export the frames of this fleet. A folder with one fleet needs no name.
    #[arg(long, requires = "frames", value_name = "FLEET")]
    pub(crate) fleet: Option<String>,
    /// Export only frames stored and windows begun at or after this time, in milliseconds since
    /// 1970.
    #[arg(long, default_value_t = 0, value_name = "MS", hide_default_value = true)]
    pub(crate) from_ms: u64,
    /// Export only what is before this time, in milliseconds since 1970.
    #[arg(long, default_value_t = u64::MAX, value_name = "MS", hide_default_value = true)]
    pub(crate) to_ms: u64,
    /// Write this file.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The source of an export.
#[cfg(feature = "parquet")]
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct ExportSource {
    /// Export the encrypted frames of this folder (`tobari serve --sense`). Stop the server first.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) frames: Option<PathBuf>,
    /// Export the figures released from this key holder's folder.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) figures: Option<PathBuf>,
    /// Export an analyst's figures: the answer of /releases or /releases/QUESTION in this file. `-`
    /// is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) releases: Option<PathBuf>,
}
