//! The simulated enclave as a process: its restrictions, the end of a session when it dies, and
//! its secrecy.
//!
//! The enclave is a second process of this executable. So this file has its own `main` instead of
//! libtest's, with the same output.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

#[cfg(linux_64)]
mod linux;

#[cfg(linux_64)]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(not(linux_64))]
fn main() {
    println!("NOT RUN: enclave: there is no enclave in a process of its own on this system");
    println!("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}
