//! The arguments of `tobari bench call`.

use super::{Measuring, ModeName};
use clap::{Args, ValueEnum};
use tobari_core::curve::Curve;

/// `tobari bench call`
#[derive(Args)]
pub(crate) struct CallBench {
    /// Only these curves, separated by commas; all nine without it.
    #[arg(long = "curve", value_parser = |name: &str| Curve::from_name(name), value_delimiter = ',', value_name = "NAME")]
    pub(crate) curves: Vec<Curve>,
    /// Only these modes, separated by commas; all three without it.
    #[arg(long = "mode", value_enum, value_delimiter = ',', value_name = "MODE")]
    pub(crate) modes: Vec<MeasuredMode>,
    /// The paper's tables 4 to 6, its figures 5 and 6 and its real-time criteria too, ours beside its values.
    #[arg(long, requires = "output")]
    pub(crate) paper: bool,
    #[command(flatten)]
    pub(crate) common: Measuring,
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

    /// The modes on curves that are measured.
    pub(crate) fn curve_modes(&self) -> Vec<ModeName> {
        let modes =
            [(MeasuredMode::Elgamal, ModeName::Elgamal), (MeasuredMode::ElgamalShared, ModeName::ElgamalShared)];
        modes.into_iter().filter(|(mode, _)| self.wants(*mode)).map(|(_, name)| name).collect()
    }

    /// Is a mode measured that has a curve?
    pub(crate) fn measures_curves(&self) -> bool {
        !self.curve_modes().is_empty()
    }

    /// Is mode `mask` measured? Not where curves are named and no mode is.
    pub(crate) fn measures_masks(&self) -> bool {
        self.wants(MeasuredMode::Mask) && (self.curves.is_empty() || !self.modes.is_empty())
    }

    /// The curves.
    pub(crate) fn measured_curves(&self) -> Vec<Curve> {
        if self.curves.is_empty() { Curve::ALL.to_vec() } else { self.curves.clone() }
    }
}
