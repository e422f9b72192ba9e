//! Inference at the edge of the network: what a server answers, and the commands of `tobari infer`.
//!
//! [`serve`] has the routes and what the server holds. An enclave is this program again:
//! [`begin`] is the first thing that a program does which may be one.

#![forbid(unsafe_code)]

pub mod command;
pub mod demo;
pub mod serve;

use std::process::ExitCode;

/// Where this process is an enclave that another of the same executable started, that is all of its
/// life, and its exit status comes back. To be called before any thread is started.
pub fn begin() -> Option<ExitCode> {
    #[cfg(linux_64)]
    if tobari_host::enclave::is_inside(tobari_host::enclave::VERB) {
        let build = |configuration: &_, setup: &[u8], _: &mut dyn tobari_host::enclave::CryptoRng| {
            tobari_infer::guarded::Guarded::build(configuration, setup)
        };
        return Some(tobari_host::enclave::run_inside(build));
    }
    None
}
