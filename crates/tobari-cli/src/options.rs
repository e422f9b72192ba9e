//! Options of several commands.

use clap::Args;
use tobari_core::params::SecurityFloor;

/// Which security is enough.
#[derive(Args)]
pub(crate) struct FloorArguments {
    /// Admit curves below 112 bits of security too: to repeat the paper's measurements, never for a secret.
    #[arg(long)]
    pub(crate) insecure_paper: bool,
}

impl FloorArguments {
    /// The floor that the flags ask for.
    pub(crate) fn floor(&self) -> SecurityFloor {
        if self.insecure_paper { SecurityFloor::InsecurePaper } else { SecurityFloor::Standard }
    }
}
