//! Sets the condition `linux_64`, which many files use.
//!
//! It holds on Linux on x86-64, AArch64 and 64-bit RISC-V. Enclaves and modules in separate
//! processes need the system calls of these platforms, and folders are sealed only there. Each
//! crate that needs the condition runs this file.

use std::env::var;

fn main() {
    println!("cargo::rerun-if-env-changed=CARGO_CFG_TARGET_ARCH"); // and when this file changes
    println!("cargo::rustc-check-cfg=cfg(linux_64)");
    let architectures = ["x86_64", "aarch64", "riscv64"];
    let is_known = var("CARGO_CFG_TARGET_ARCH").is_ok_and(|found| architectures.contains(&found.as_str()));
    if is_known && var("CARGO_CFG_TARGET_OS").is_ok_and(|found| found == "linux") {
        println!("cargo::rustc-cfg=linux_64");
    }
}
