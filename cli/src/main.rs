//! The program `tobari`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

/// An allocator for ciphertexts and keys, which are large and short-lived.
#[global_allocator]
static MEMORY: tobari_host::memory::Large = tobari_host::memory::Large::new();

fn main() -> ExitCode {
    tobari_cli::run()
}
