//! Options of several commands.

use crate::command::call_key::need_weak_curves;
use clap::Args;
use tobari_command::output::Failure;
use tobari_curve::params::SecurityFloor;

/// Which security is enough.
#[derive(Args)]
pub(crate) struct FloorArguments {
    /// Allow curves below 112 bits of security, to repeat the paper's measurements. Never use such
    /// a curve for a secret. The build needs the feature `paper`.
    #[arg(long)]
    pub(crate) insecure_paper: bool,
}

impl FloorArguments {
    /// The floor that the flags ask for, if this build has the curves that it admits.
    pub(crate) fn floor(&self) -> Result<SecurityFloor, Failure> {
        if !self.insecure_paper {
            return Ok(SecurityFloor::Standard);
        }
        need_weak_curves("--insecure-paper")?;
        Ok(SecurityFloor::InsecurePaper)
    }
}
