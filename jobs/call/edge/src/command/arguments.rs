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

/// What to do in a call.
#[derive(Subcommand)]
pub enum CallVerb {
    /// Make a key: a secret key file, and in mode elgamal the public one beside it.
    Keygen(KeygenArguments),
    /// Mix recordings: each is one speaker; the server adds them up under encryption.
    Mix(MixArguments),
    /// Make the link of a live room: address, settings and secret.
    Link(LinkArguments),
    /// Join a live room by its link: speak, listen, record.
    Join(Box<JoinArguments>),
    /// Open a recording of a live room with its link.
    Open(OpenArguments),
}

/// `tobari call keygen`
#[derive(Args)]
pub struct KeygenArguments {
    /// The secret key file to write; in mode elgamal the public key goes to the same name with
    /// `.pub` added.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// How samples are to be encrypted.
    #[arg(long, value_enum, default_value_t = ModeName::Elgamal)]
    pub(crate) mode: ModeName,
    #[command(flatten)]
    pub(crate) curve: CurveArguments,
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari call mix`
#[derive(Args)]
pub struct MixArguments {
    /// WAV recordings, each one speaker: PCM of 8, 16, 24 or 32 bits or float, mono or stereo, any
    /// usual rate. They are brought to 16 kHz mono 16-bit; such a file passes unchanged.
    #[arg(required = true, value_name = "WAV")]
    pub(crate) inputs: Vec<PathBuf>,
    /// The mix, 16 kHz mono 16-bit; sums beyond 16 bits are limited, not wrapped.
    #[arg(short, long, value_name = "WAV")]
    pub(crate) output: PathBuf,
    /// Write the exact sum instead, as 32-bit samples.
    #[arg(long)]
    pub(crate) exact: bool,
    /// The blind server, e.g. https://host:7610; without it one is started as a separate process on
    /// this machine.
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    /// How samples are encrypted. Default: in the mode of the key file, or elgamal without one.
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeName>,
    /// The secret key file to use; without it a fresh key is made and forgotten.
    #[arg(long, value_name = "FILE", conflicts_with = "curve")]
    pub(crate) key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) curve: CurveArguments,
    /// How points travel: compressed is half the bytes and more work. Default: compressed to a
    /// server, uncompressed on this machine.
    #[arg(long, value_enum)]
    pub(crate) points: Option<PointsForm>,
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How samples are encrypted.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModeName {
    /// Lifted ElGamal, one ciphertext a sample, as in the paper.
    Elgamal,
    /// The randomness of a packet shared by its samples: half the bytes and less work. All members
    /// hold one secret, and any of them can decrypt what another one sends.
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

/// How points travel.
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

/// Whom to trust to be the server.
#[derive(Args)]
pub(crate) struct TrustArguments {
    /// Trust the server whose certificate has this SHA-256 fingerprint (as `tobari serve` prints
    /// it), and no other.
    #[arg(long, requires = "server", conflicts_with = "tls_ca", value_name = "HEX")]
    pub(crate) tls_fingerprint: Option<Fingerprint>,
    /// Trust servers vouched for by the certificates in this PEM file, and no others.
    #[arg(long, requires = "server", value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
}

/// Which curve.
#[derive(Args)]
pub(crate) struct CurveArguments {
    /// The elliptic curve; `tobari info` lists them.
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
    /// Masks from a key that the members share: 0.43 Mbit/s each way.
    Mask,
    /// Lifted ElGamal on secp256k1 with shared randomness: 4.2 Mbit/s each way.
    ElgamalShared,
    /// Lifted ElGamal on secp256k1, two points a sample, as in the paper: 8.3 Mbit/s each way.
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
    /// Every 20 ms, so that nobody can tell who speaks.
    Constant,
    /// Only while they speak: fewer bytes, and the server learns who speaks and when.
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

/// What the keys of a live room come from.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeysName {
    /// The link's secret: whoever has the link has the keys, now and later.
    Link,
    /// The members agree on them (MLS, RFC 9420), anew whenever somebody comes or goes: who is gone
    /// or not yet there cannot hear.
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
pub struct LinkArguments {
    /// The server, e.g. https://host:7610.
    #[arg(value_name = "URL")]
    pub(crate) server: String,
    /// The room's name; without it a random one.
    #[arg(long, value_name = "NAME")]
    pub(crate) room: Option<RoomName>,
    /// How samples are encrypted.
    #[arg(long, value_enum, default_value_t = LiveModeName::Mask)]
    pub(crate) mode: LiveModeName,
    /// When speakers send.
    #[arg(long, value_enum, default_value_t = SendingName::Constant)]
    pub(crate) sending: SendingName,
    /// What keys come from.
    #[arg(long, value_enum, default_value_t = KeysName::Link)]
    pub(crate) keys: KeysName,
    /// How many may speak at once; fewer make shorter packets.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u16).range(1..=4096), value_name = "N")]
    pub(crate) speakers: u16,
    /// Make a host, who has a link of its own and can mute, put out, and let listeners speak.
    #[arg(long)]
    pub(crate) host: bool,
    /// Whoever comes waits until the host lets it in.
    #[arg(long)]
    pub(crate) lobby: bool,
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tobari call join`
#[derive(Args)]
pub struct JoinArguments {
    /// The link, as `tobari call link` wrote it. It is a secret: in the environment it is not in
    /// the list of processes.
    #[arg(env = "TOBARI_CALL_LINK", hide_env_values = true, value_name = "LINK")]
    pub(crate) link: String,
    /// What to say: a WAV file, or `-` for raw samples on standard input (16 bits, little-endian,
    /// 16 kHz, mono). Without it, only listen.
    #[arg(long = "in", value_name = "WAV|-")]
    pub(crate) input: Option<PathBuf>,
    /// Where what is heard goes: a WAV file, or `-` for raw samples on standard output.
    #[arg(long = "out", value_name = "WAV|-")]
    pub(crate) output: Option<PathBuf>,
    /// Keep the encrypted sums in a file, for whoever holds the link to open later. Such a file has
    /// no forward secrecy.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// What the others are told to call this member.
    #[arg(long, default_value = "", value_name = "NAME")]
    pub(crate) name: String,
    /// Leave after so many seconds. Without it: a second after the end of what there is to say, or
    /// when interrupted.
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<u32>,
    /// Send the input as it is: no gate against noise, no gain.
    #[arg(long)]
    pub(crate) unlevelled: bool,
    /// With the host's link: let in whoever waits, and let speak whoever wants to.
    #[arg(long)]
    pub(crate) admit_all: bool,
    /// Ask to speak, where one came to listen: `--in` begins when it is granted.
    #[arg(long, requires = "input")]
    pub(crate) raise_hand: bool,
    /// Trust the server whose certificate has this SHA-256 fingerprint (as `tobari serve` prints
    /// it), and no other.
    #[arg(long, conflicts_with = "tls_ca", value_name = "HEX")]
    pub(crate) tls_fingerprint: Option<Fingerprint>,
    /// Trust servers vouched for by the certificates in this PEM file, and no others.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// What happens as one JSON object a line on standard output.
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
pub struct OpenArguments {
    /// The recording, as `tobari call join --record` wrote it.
    #[arg(value_name = "RECORDING")]
    pub(crate) recording: PathBuf,
    /// The link of the call.
    #[arg(long, env = "TOBARI_CALL_LINK", hide_env_values = true, value_name = "LINK")]
    pub(crate) link: String,
    /// The WAV file to write: 16 kHz, mono, 16 bits.
    #[arg(short, long, value_name = "WAV")]
    pub(crate) output: PathBuf,
    /// One JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}
