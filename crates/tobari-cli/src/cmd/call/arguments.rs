//! The arguments of the verbs for live rooms.

use clap::{Args, ValueEnum};
use std::path::PathBuf;
use tobari_apps::call::live::{Keys, LiveMode, Sending};
use tobari_apps::call::messages::RoomName;
use tobari_server::Fingerprint;
use tobari_server::connect::ClientTls;

/// How samples of a live room are encrypted.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LiveModeName {
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
pub(crate) enum SendingName {
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
pub(crate) enum KeysName {
    /// The link's secret: whoever has the link has the keys, now and later.
    Link,
    /// The members agree on them (MLS, RFC 9420), anew whenever somebody comes or goes: who is gone or not yet there cannot hear.
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
pub(crate) struct LinkArguments {
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
pub(crate) struct JoinArguments {
    /// The link, as `tobari call link` wrote it. It is a secret: in the environment it is not in the list of processes.
    #[arg(env = "TOBARI_CALL_LINK", hide_env_values = true, value_name = "LINK")]
    pub(crate) link: String,
    /// What to say: a WAV file, or `-` for raw samples on standard input (16 bits, little-endian, 16 kHz, mono). Without it, only listen.
    #[arg(long = "in", value_name = "WAV|-")]
    pub(crate) input: Option<PathBuf>,
    /// Where what is heard goes: a WAV file, or `-` for raw samples on standard output.
    #[arg(long = "out", value_name = "WAV|-")]
    pub(crate) output: Option<PathBuf>,
    /// Keep the encrypted sums in a file, for whoever holds the link to open later. Such a file has no forward secrecy.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// What the others are told to call this member.
    #[arg(long, default_value = "", value_name = "NAME")]
    pub(crate) name: String,
    /// Leave after so many seconds. Without it: a second after the end of what there is to say, or when interrupted.
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
    /// Trust the server whose certificate has this SHA-256 fingerprint (as `tobari serve` prints it), and no other.
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
pub(crate) struct OpenArguments {
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
