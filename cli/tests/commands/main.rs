//! The commands, as users type them.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests, which say what they did not run")]

mod command;
#[cfg(target_os = "linux")]
#[path = "../enclave_world/mod.rs"]
mod enclave_world;
#[cfg(linux_64)]
mod help;
mod infer;
#[cfg(target_os = "linux")]
mod infer_enclave;
mod infer_pictures;
#[cfg(linux_64)]
mod operate;
mod search;
mod search_beacon;
mod search_cells;
mod search_files;
mod search_hidden;
mod search_labels;
mod search_phase;
mod search_serve;
mod sense;
mod sense_aes;
mod sense_brokers;
mod sense_crash;
mod sense_once;
mod sense_renewal;
mod sense_times;
#[path = "../support/mod.rs"]
mod support;
#[cfg(linux_64)]
mod tutorials;
