//! The program `tobari`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

/// Ciphertexts and keys are large, and come and go.
#[global_allocator]
static MEMORY: tobari_host::memory::Large = tobari_host::memory::Large::new();

fn main() -> ExitCode {
    tobari_cli::run()
}
