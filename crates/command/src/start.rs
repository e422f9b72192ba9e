//! The first thing of all that a program does.

use crate::output;
use std::process::ExitCode;

/// What makes this process something else than a command, if another of the same executable started
/// it as that: an enclave, a module. Its exit status comes back when that life is over.
pub type OtherLife = fn() -> Option<ExitCode>;

/// To be called before any thread is started and any file is opened. Where this process is one of
/// the others, that is all of its life, and its exit status comes back. A crash leaves no file of
/// this process's memory, as far as the system lets it say so.
pub fn begin(program: &str, others: &[OtherLife]) -> Option<ExitCode> {
    if let Some(ended) = others.iter().find_map(|other| other()) {
        return Some(ended);
    }
    #[cfg(target_os = "linux")]
    if let Err(error) = tobari_host::process::leave_no_core_file() {
        output::say(format!("{program}: a crash may leave a file of this process's memory: {error}"));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = program;
    None
}
