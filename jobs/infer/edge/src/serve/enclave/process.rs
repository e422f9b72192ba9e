//! The process of an enclave, on systems that support it.

use std::ffi::OsString;
use tobari_enclave::{Configuration, Digest, Enclave, EnclaveError};

/// A started enclave.
pub(super) struct Started {
    pub(super) enclave: Box<dyn Enclave + Send>,
    /// SHA-256 of its executable.
    pub(super) executable: Digest,
    /// The number of its process.
    pub(super) process: u32,
}

/// Starts this executable as an enclave, through a launcher if there is one.
#[cfg(linux_64)]
pub(super) fn start(
    configuration: &Configuration,
    setup: &[u8],
    launcher: &[OsString],
) -> Result<Started, EnclaveError> {
    use tobari_host::enclave::{Options, ProcessEnclave, VERB};
    let options = match launcher {
        [] => Options::new(VERB),
        launcher => Options::launched(VERB, launcher.to_vec()),
    };
    let enclave = ProcessEnclave::start(configuration, setup, &options)?;
    let (executable, process) = (*enclave.executable(), enclave.process());
    Ok(Started { enclave: Box::new(enclave), executable, process })
}

/// This system has no process enclaves.
#[cfg(not(linux_64))]
pub(super) fn start(_: &Configuration, _: &[u8], _: &[OsString]) -> Result<Started, EnclaveError> {
    let text = "expected Linux on x86-64, AArch64 or RISC-V, found another system";
    Err(EnclaveError::Start(text.to_owned()))
}
