//! `tobari sense`: devices encrypt readings, a server computes with them without the key, and a key
//! holder decrypts the results that may be released.

mod arguments;
mod device_list;
mod devices;
mod encrypt;
#[cfg(feature = "parquet")]
mod export;
mod folder;
mod keyholder;
mod opener;
mod publish;
mod questions;
mod readings;
mod remote;
mod sending;
mod serve;
mod times;

pub use arguments::SenseVerb;
pub use folder::KeyFolder;
pub use publish::publish;
pub use remote::CloudConnection;
pub(crate) use remote::WindowAnswer;
pub use serve::ServeSenseArguments;

use std::process::ExitCode;
use tobari_command::job::Verbs;
use tobari_command::output::Failure;

impl Verbs for SenseVerb {
    fn run(&self) -> Result<ExitCode, Failure> {
        match self {
            Self::Keygen(arguments) => devices::keygen(arguments)?,
            Self::Provision(arguments) => devices::provision(arguments)?,
            Self::Forget(arguments) => devices::forget(arguments)?,
            Self::Enrol(arguments) => devices::enrol(arguments)?,
            Self::Encrypt(arguments) => encrypt::run(arguments)?,
            Self::Send(arguments) => sending::run(arguments)?,
            Self::Query(arguments) => questions::run(arguments)?,
            #[cfg(feature = "parquet")]
            Self::Export(arguments) => export::run(arguments)?,
            Self::Keyholder(arguments) => return keyholder::run(arguments),
        }
        Ok(ExitCode::SUCCESS)
    }
}
