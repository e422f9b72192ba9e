//! The verbs.

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub(crate) mod backup;
pub(crate) mod call;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod infer;
pub(crate) mod info;
pub(crate) mod moved;
pub(crate) mod placement;
pub(crate) mod plan;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub(crate) mod seal;
pub(crate) mod search;
pub(crate) mod sense;
pub(crate) mod serve;
