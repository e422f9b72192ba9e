//! The arguments of the verbs for calls.

use crate::command::call_key::refused_curve;
use crate::command::options::FloorArguments;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use tobari_call::live::{Keys, LiveMode, Sending};
use tobari_call::messages::RoomName;
use tobari_client::ClientTls;
use tobari_client::Fingerprint;
use tobari_command::output::Failure;
use tobari_curve::elgamal::Mode;
use tobari_curve::params::Parameters;
use tobari_curve::{Curve, PointEncoding};

/// The commands of `tobari call`.
#[derive(Subcommand)]
pub enum CallVerb {
    /// Make a key for `tobari call mix`.
    Keygen(KeygenArguments),
    /// Mix recordings on a server that cannot hear them. Each recording is one speaker.
    Mix(MixArguments),
    /// Make the link of a live room. A link has the address, the settings and the secret.
    Link(LinkArguments),
    /// Join a live room to speak, listen or record.
    Join(Box<JoinArguments>),
    /// Decrypt a recording of a live room. The room's link is the key.
    Open(OpenArguments),
}

/// `tobari call keygen`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari call keygen -o call.key
    tobari call keygen -o shared.key --mode elgamal-shared")]
pub struct KeygenArguments {
    /// Write the secret key to this file. Mode elgamal also writes the public key, to the same name
    /// with `.pub` added.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Encrypt samples in this mode.
    #[arg(long, value_enum, default_value_t = ModeName::Elgamal)]
    pub(crate) mode: ModeName,
    #[command(flatten)]
    pub(crate) curve: CurveArguments,
    /// Print one JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari call mix`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari call mix alice.wav bob.wav -o mix.wav
    tobari call mix alice.wav bob.wav -o sum.wav --exact --key call.key")]
pub struct MixArguments {
    /// WAV recordings, one for each speaker: PCM of 8, 16, 24 or 32 bits or float, mono or stereo,
    /// at any usual rate. The command converts each recording to 16 kHz, mono, 16 bits.
    #[arg(required = true, value_name = "WAV")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Write the mix to this file: 16 kHz, mono, 16 bits. Louder sums are limited to 16 bits.
    #[arg(short, long, value_name = "WAV")]
    pub(crate) output: PathBuf,
    /// Write the exact sum, as samples of 32 bits.
    #[arg(long)]
    pub(crate) exact: bool,
    /// Use this server, such as https://host:7610. Without the option, the command starts a server
    /// process on this machine.
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    /// Encrypt samples in this mode. [default: the mode of the key file, else elgamal]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeName>,
    /// Use this secret key file. Without the option, the command makes a key and discards the key
    /// at its end.
    #[arg(long, value_name = "FILE", conflicts_with = "curve")]
    pub(crate) key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) curve: CurveArguments,
    /// Send points of the curve in this form. Compressed points have half the bytes and take more
    /// work. [default: compressed to a server, uncompressed on this machine]
    #[arg(long, value_enum)]
    pub(crate) points: Option<PointsForm>,
    /// Print one JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How samples are encrypted.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModeName {
    /// Lifted ElGamal, one ciphertext for each sample, as in the paper.
    Elgamal,
    /// Lifted ElGamal with one randomness for each packet: half the bytes and less work. All
    /// members hold one secret, and every member can decrypt the packets of another.
    ElgamalShared,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Elgamal => Mode::Elgamal,
            ModeName::ElgamalShared => Mode::ElgamalShared,
        }
    }
}

/// The form of points in messages.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum PointsForm {
    /// One coordinate and one bit.
    Compressed,
    /// Both coordinates.
    Uncompressed,
}

impl From<PointsForm> for PointEncoding {
    fn from(form: PointsForm) -> Self {
        match form {
            PointsForm::Compressed => PointEncoding::Compressed,
            PointsForm::Uncompressed => PointEncoding::Uncompressed,
        }
    }
}

/// The certificate of the server.
#[derive(Args)]
pub(crate) struct TrustArguments {
    /// Trust only the server whose certificate has this SHA-256 fingerprint. `tobari serve` prints
    /// the fingerprint.
    #[arg(long, requires = "server", conflicts_with = "tls_ca", value_name = "HEX")]
    pub(crate) tls_fingerprint: Option<Fingerprint>,
    /// Trust only servers whose certificates are signed by an authority in this PEM file.
    #[arg(long, requires = "server", value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
}

/// The curve.
#[derive(Args)]
pub(crate) struct CurveArguments {
    /// Use this elliptic curve. `tobari info` lists the curves.
    #[arg(long, default_value = "secp256k1", value_parser = |name: &str| Curve::from_name(name), value_name = "NAME")]
    pub(crate) curve: Curve,
    #[command(flatten)]
    pub(crate) floor: FloorArguments,
}

impl CurveArguments {
    /// The parameters, if the curve is strong enough for the flags given.
    pub(crate) fn parameters(&self) -> Result<Parameters, Failure> {
        Parameters::new(self.curve, self.floor.floor()?).map_err(refused_curve)
    }
}

/// How samples of a live room are encrypted.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LiveModeName {
    /// Masks from a key that the members share: 0.43 Mbit/s in each direction.
    Mask,
    /// Lifted ElGamal on secp256k1 with shared randomness: 4.2 Mbit/s in each direction.
    ElgamalShared,
    /// Lifted ElGamal on secp256k1 with two points for each sample, as in the paper: 8.3 Mbit/s in
    /// each direction.
    Elgamal,
}

impl From<LiveModeName> for LiveMode {
    fn from(name: LiveModeName) -> Self {
        match name {
            LiveModeName::Mask => Self::Mask,
            LiveModeName::ElgamalShared => Self::ElgamalShared,
            LiveModeName::Elgamal => Self::Elgamal,
        }
    }
}

/// When speakers of a live room send.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SendingName {
    /// Every 20 ms: the server cannot tell who is speaking.
    Constant,
    /// Only during speech: fewer bytes, but the server learns who is speaking and when.
    Spurts,
}

impl From<SendingName> for Sending {
    fn from(name: SendingName) -> Self {
        match name {
            SendingName::Constant => Self::Constant,
            SendingName::Spurts => Self::Spurts,
        }
    }
}

/// The source of a live room's keys.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeysName {
    /// The link: every holder of the link can decrypt, now and later.
    Link,
    /// MLS (RFC 9420): the members agree on new keys whenever a member joins or leaves. Removed
    /// members cannot decrypt later audio. New members cannot decrypt earlier audio.
    Mls,
}

impl From<KeysName> for Keys {
    fn from(name: KeysName) -> Self {
        match name {
            KeysName::Link => Self::Link,
            KeysName::Mls => Self::Group,
        }
    }
}

/// `tobari call link`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari call link http://127.0.0.1:7610
    tobari call link http://127.0.0.1:7610 --keys mls --host --lobby")]
pub struct LinkArguments {
    /// The server, such as https://host:7610.
    #[arg(value_name = "URL")]
    pub(crate) server: String,
    /// Give the room this name. [default: a random name]
    #[arg(long, value_name = "NAME")]
    pub(crate) room: Option<RoomName>,
    /// Encrypt samples in this mode.
    #[arg(long, value_enum, default_value_t = LiveModeName::Mask)]
    pub(crate) mode: LiveModeName,
    /// Let speakers send at these times.
    #[arg(long, value_enum, default_value_t = SendingName::Constant)]
    pub(crate) sending: SendingName,
    /// Take the keys from this source.
    #[arg(long, value_enum, default_value_t = KeysName::Link)]
    pub(crate) keys: KeysName,
    /// Allow this many speakers at once. Fewer speakers make shorter packets.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..=4096), value_name = "N")]
    pub(crate) speakers: u16,
    /// Also print a host's link. A host can mute and remove members, and let listeners speak.
    #[arg(long)]
    pub(crate) host: bool,
    /// Let new members wait until the host admits them.
    #[arg(long)]
    pub(crate) lobby: bool,
    /// Print one JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari call join`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari call join LINK --in alice.wav --out heard.wav
    tobari call join LINK --in alice.wav --record call.rec")]
pub struct JoinArguments {
    /// The link, as `tobari call link` printed it. A link is a secret. The environment variable
    /// keeps the link out of the list of processes.
    #[arg(env = "TOBARI_CALL_LINK", hide_env_values = true, value_name = "LINK")]
    pub(crate) link: String,
    /// Speak from this WAV file, or from raw samples on standard input (`-`: 16 bits,
    /// little-endian, 16 kHz, mono). Without the option, the command only listens.
    #[arg(long = "in", value_name = "WAV|-")]
    pub(crate) input: Option<PathBuf>,
    /// Write the sound of the room to this WAV file, or as raw samples to standard output (`-`).
    #[arg(long = "out", value_name = "WAV|-")]
    pub(crate) output: Option<PathBuf>,
    /// Record the encrypted sums in this file. Every holder of the link can decrypt the file later:
    /// a recording has no forward secrecy.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Show this name to the other members.
    #[arg(long, default_value = "", value_name = "NAME")]
    pub(crate) name: String,
    /// Leave after this many seconds. [default: one second after the end of the input]
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<u32>,
    /// Send the input unchanged, without noise gate and gain.
    #[arg(long)]
    pub(crate) unlevelled: bool,
    /// Admit every waiting member, and let every listener speak who asks (needs the host's link).
    #[arg(long)]
    pub(crate) admit_all: bool,
    /// Ask the host for permission to speak. `--in` begins after the permission.
    #[arg(long, requires = "input")]
    pub(crate) raise_hand: bool,
    /// Trust only the server whose certificate has this SHA-256 fingerprint. `tobari serve` prints
    /// the fingerprint.
    #[arg(long, conflicts_with = "tls_ca", value_name = "HEX")]
    pub(crate) tls_fingerprint: Option<Fingerprint>,
    /// Trust only servers whose certificates are signed by an authority in this PEM file.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Print each event as one JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

impl JoinArguments {
    pub(super) fn tls(&self) -> ClientTls {
        match (self.tls_fingerprint, &self.tls_ca) {
            (Some(fingerprint), _) => ClientTls::Pinned(fingerprint),
            (None, Some(file)) => ClientTls::CaFile(file.clone()),
            (None, None) => ClientTls::System,
        }
    }
}

/// `tobari call open`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari call open call.rec --link LINK -o call.wav
    tobari call open call.rec --link LINK -o again.wav --json")]
pub struct OpenArguments {
    /// The recording that `tobari call join --record` wrote.
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// Decrypt with this link of the room.
    #[arg(long, env = "TOBARI_CALL_LINK", hide_env_values = true, value_name = "LINK")]
    pub(crate) link: String,
    /// Write this WAV file: 16 kHz, mono, 16 bits.
    #[arg(short, long, value_name = "WAV")]
    pub(crate) output: PathBuf,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}
