//! A pool of threads and modules: every chunk comes back once and right, whatever becomes of a
//! module.
//!
//! The emulated module is this executable again, so this file has a `main` of its own in place of
//! libtest's, and prints what that would.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

#[cfg(linux_64)]
mod known;
#[cfg(linux_64)]
mod linux;

#[cfg(linux_64)]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(not(linux_64))]
fn main() {
    println!("NOT RUN: dispatch: there is no emulated module on this system");
    println!("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}
