//! The first step of every program.

use crate::output;
use std::process::ExitCode;

/// Runs this process in another role than a command, such as an enclave or a module, if a process
/// of the same executable started it for that role. Returns the exit status at its end.
pub type OtherLife = fn() -> Option<ExitCode>;

/// Call it before any thread starts and any file is opened. If this process has one of the other
/// roles, it runs that role and returns its exit status. It also disables core dumps, as far as the
/// system allows.
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
