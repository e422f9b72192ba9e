//! A pool of threads and modules: every chunk gives one right result, whatever happens to a module.
//!
//! The emulated module is a process of this executable. So this file has its own `main` instead of
//! libtest's, with the same output.

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
