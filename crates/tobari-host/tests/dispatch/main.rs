//! A pool of threads and modules: every chunk comes back once and right, whatever becomes of a module.
//!
//! The emulated module is this executable again, so this file has a `main` of its own in place of libtest's, and prints what that would.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
#[path = "../harness/mod.rs"]
mod harness;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod known;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod linux;

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))))]
fn main() {
    println!("NOT RUN: dispatch: there is no emulated module on this system");
    println!("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}
