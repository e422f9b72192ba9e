//! Inference at the edge of the network: the HTTP server, and the commands of `tobari infer`.
//!
//! [`serve`] has the routes and the server's state. An enclave is a process of the same program, so
//! a program that may start as one calls [`begin`] first.

#![forbid(unsafe_code)]

mod clear;
pub mod command;
pub mod demo;
mod network;
pub mod serve;

use std::process::ExitCode;

/// If another process of this executable started this one as an enclave, runs the enclave to its
/// end and returns the exit status. Call this before any thread is started.
pub fn begin() -> Option<ExitCode> {
    #[cfg(linux_64)]
    if tobari_host::enclave::is_inside(tobari_host::enclave::VERB) {
        let build = |configuration: &_, setup: &[u8], _: &mut dyn tobari_host::enclave::CryptoRng| {
            tobari_infer::guarded::Guarded::build_any(configuration, setup, clear::read)
        };
        return Some(tobari_host::enclave::run_inside(build));
    }
    None
}
