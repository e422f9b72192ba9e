//! The reference job of devices' frames, as clap reads it.

use clap::Args;
use tobari_reference::RunArguments;

/// `tobari plan sense`
#[derive(Args)]
pub(crate) struct SensePlan {
    #[command(flatten)]
    pub(crate) common: RunArguments,
    /// Blocks of 16 bytes of the batch, sixteen of each device. A batch has room for 1,024, and takes the same time for any number of them.
    #[arg(long, default_value_t = 16, value_name = "N")]
    pub(crate) blocks: usize,
    /// Carry it out as well.
    #[arg(long)]
    pub(crate) run: bool,
    /// Compare every round with AES, which takes the secret key, and tell what rounds take.
    #[arg(long, requires = "run", conflicts_with = "json")]
    pub(crate) rounds: bool,
    /// A degree that protects nothing: to see that it works.
    #[arg(long, hide = true, value_name = "N")]
    pub(crate) insecure_degree: Option<usize>,
}
