//! `tobari sense`: devices seal readings, a server computes with them blindly, a key holder opens what may be released.

mod arguments;
mod devices;
mod encrypt;
#[cfg(feature = "parquet")]
mod export;
mod folder;
mod keyholder;
mod opener;
mod planned;
mod publish;
mod questions;
mod remote;

pub(crate) use arguments::{SenseVerb, ServeSenseArguments};
pub use folder::KeyFolder;
pub(crate) use folder::login;
pub(crate) use planned::SensePlan;
pub use publish::publish;
pub use remote::CloudConnection;

use std::process::ExitCode;
use tobari_command::output::Failure;

/// Does it.
pub(crate) fn run(verb: &SenseVerb) -> Result<ExitCode, Failure> {
    match verb {
        SenseVerb::Keygen(arguments) => devices::keygen(arguments)?,
        SenseVerb::Provision(arguments) => devices::provision(arguments)?,
        SenseVerb::Forget(arguments) => devices::forget(arguments)?,
        SenseVerb::Enrol(arguments) => devices::enrol(arguments)?,
        SenseVerb::Encrypt(arguments) => encrypt::run(arguments)?,
        SenseVerb::Query(arguments) => questions::run(arguments)?,
        #[cfg(feature = "parquet")]
        SenseVerb::Export(arguments) => export::run(arguments)?,
        SenseVerb::Keyholder(arguments) => return keyholder::run(arguments),
    }
    Ok(ExitCode::SUCCESS)
}
