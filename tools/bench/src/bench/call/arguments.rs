//! The command line of `tobari-bench call`, for clap.

use crate::bench::measuring::Measuring;
use crate::weak_curves;
use clap::{Args, ValueEnum};
use tobari_call::live::LiveMode;
use tobari_call_edge::command::KeysName;
use tobari_command::output::Failure;
use tobari_curve::elgamal::Mode;
use tobari_curve::{BuiltCurve, Curve};

/// `tobari-bench call`
#[derive(Args)]
pub(crate) struct CallBench {
    /// Only these curves, separated by commas. Without it all that this build has: nine with the
    /// feature `paper`, else five.
    #[arg(long = "curve", value_parser = |name: &str| Curve::from_name(name), value_delimiter = ',', value_name = "NAME")]
    pub(crate) curves: Vec<Curve>,
    /// Only these modes, separated by commas; all three without it.
    #[arg(long = "mode", value_enum, value_delimiter = ',', value_name = "MODE")]
    pub(crate) modes: Vec<MeasuredMode>,
    /// The paper's tables 4 to 6, its figures 5 and 6 and its real-time criteria too, ours beside
    /// its values.
    #[arg(long, requires = "output", conflicts_with = "live")]
    pub(crate) paper: bool,
    /// A live room instead: members over real sockets and a server in a process of its own. What
    /// the server computes, what is late, how long a word takes from mouth to ear on this machine.
    #[arg(long)]
    pub(crate) live: bool,
    /// Keys that members agree on instead: what it costs to come into a call of `--group` members,
    /// and to be taken out. With `--live` how long that takes over sockets.
    #[arg(long, conflicts_with_all = ["paper", "curves", "modes", "members", "speakers", "keys", "seconds", "chaos", "restart_every", "capacity", "sizes", "server_cores"])]
    pub(crate) mls: bool,
    /// Members of the call of `--mls`, who comes included.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(4..=4096), requires = "mls", value_name = "N")]
    pub(crate) group: u16,
    #[command(flatten)]
    pub(crate) load: LiveLoad,
    #[command(flatten)]
    pub(crate) common: Measuring,
}

/// The load of `--live`.
#[derive(Args)]
pub(crate) struct LiveLoad {
    /// Members of the room.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(3..=4096), requires = "live", value_name = "N")]
    pub(crate) members: u16,
    /// How many of them speak; all but two without it, who listen.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4094), requires = "live", value_name = "M")]
    pub(crate) speakers: Option<u16>,
    /// What keys come from. Where members agree on them (`mls`), each that comes is a commit that
    /// all others follow.
    #[arg(long, value_enum, default_value_t = KeysName::Link, requires = "live", conflicts_with = "chaos")]
    pub(crate) keys: KeysName,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600), requires = "live", value_name = "S")]
    pub(crate) seconds: u32,
    /// Instead of figures: for so many minutes members come, go, lose packets and connections;
    /// every sum is compared with what was said, and the server's memory must stay flat.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_080), requires = "live", value_name = "MINUTES")]
    pub(crate) chaos: Option<u32>,
    /// Every so many seconds of `--chaos` the server is killed, and another started in its place.
    #[arg(long, value_parser = clap::value_parser!(u32).range(10..=86_400), requires = "chaos", value_name = "SECONDS")]
    pub(crate) restart_every: Option<u32>,
    /// Instead of one room: rooms of growing size, with the server kept on some cores and the
    /// members on the others. How late, how much computing and how many Mbit/s a member, as a
    /// table.
    #[arg(long, requires = "live", conflicts_with_all = ["chaos", "members", "speakers"])]
    pub(crate) capacity: bool,
    /// Members of those rooms, separated by commas; without it 64,256,1024 in mode mask (16,64,256
    /// where they agree on keys), 8,16,32 in elgamal-shared and 4,8,16 in elgamal.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(3..=4096), requires = "capacity", value_name = "N")]
    pub(crate) sizes: Vec<u16>,
    /// How many cores the server is kept on; the members have the others.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..), requires = "capacity", value_name = "K")]
    pub(crate) server_cores: u16,
}

impl LiveLoad {
    /// The sizes of rooms for `--capacity` in a mode.
    pub(crate) fn sizes(&self, mode: LiveMode) -> Vec<u16> {
        if !self.sizes.is_empty() {
            return self.sizes.clone();
        }
        match mode {
            LiveMode::Mask if self.keys == KeysName::Mls => vec![16, 64, 256],
            LiveMode::Mask => vec![64, 256, 1024],
            LiveMode::ElgamalShared => vec![8, 16, 32],
            LiveMode::Elgamal => vec![4, 8, 16],
        }
    }
}

/// A mode of a call that has figures.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MeasuredMode {
    /// Two points a sample.
    Elgamal,
    /// One point a sample.
    ElgamalShared,
    /// Masks, which have no curve: one packet, and sums of 1 to 1,024 senders.
    Mask,
}

impl CallBench {
    fn wants(&self, mode: MeasuredMode) -> bool {
        self.modes.is_empty() || self.modes.contains(&mode)
    }

    /// The modes of live rooms to measure, the cheapest first. The default is `mask`, and for the
    /// capacity all modes.
    pub(crate) fn live_modes(&self) -> Vec<LiveMode> {
        if self.modes.is_empty() {
            return if self.load.capacity { LiveMode::ALL.to_vec() } else { vec![LiveMode::Mask] };
        }
        let modes = [
            (MeasuredMode::Mask, LiveMode::Mask),
            (MeasuredMode::ElgamalShared, LiveMode::ElgamalShared),
            (MeasuredMode::Elgamal, LiveMode::Elgamal),
        ];
        modes.into_iter().filter(|(mode, _)| self.wants(*mode)).map(|(_, live)| live).collect()
    }

    /// The modes on curves to measure.
    pub(crate) fn curve_modes(&self) -> Vec<Mode> {
        let modes = [(MeasuredMode::Elgamal, Mode::Elgamal), (MeasuredMode::ElgamalShared, Mode::ElgamalShared)];
        modes.into_iter().filter(|(mode, _)| self.wants(*mode)).map(|(_, name)| name).collect()
    }

    /// Whether a mode on curves is measured.
    pub(crate) fn measures_curves(&self) -> bool {
        !self.curve_modes().is_empty()
    }

    /// Whether mode `mask` is measured: not if curves are named and no mode is.
    pub(crate) fn measures_masks(&self) -> bool {
        self.wants(MeasuredMode::Mask) && (self.curves.is_empty() || !self.modes.is_empty())
    }

    /// The curves, if this build has all of them: without `--curve` the paper's tables have nine.
    pub(crate) fn measured_curves(&self) -> Result<Vec<Curve>, Failure> {
        if self.curves.is_empty() {
            if self.paper {
                weak_curves::need("--paper without --curve")?;
            }
            return Ok(BuiltCurve::ALL.map(Curve::from).to_vec());
        }
        self.curves.iter().try_for_each(|curve| weak_curves::admit(*curve))?;
        Ok(self.curves.clone())
    }
}
