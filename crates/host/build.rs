//! The one name of a condition that many files need: `linux_64`.
//!
//! It holds on Linux on x86-64, AArch64 and RISC-V of 64 bits: where there are enclaves and modules
//! in processes of their own, which need its system calls, and where folders are sealed. Each crate
//! that asks for it runs this file.

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
