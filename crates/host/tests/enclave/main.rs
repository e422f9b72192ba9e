//! The simulated enclave as a process: what it may not do, what becomes of a session when it dies,
//! and that nothing leaks.
//!
//! The enclave is this executable again, so this file has a `main` of its own in place of
//! libtest's, and prints what that would.

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
