//! The machine: files, processes, threads and tiers of memory.
//!
//! This crate opens files and starts processes, so that the cryptography does not have to. It knows
//! nothing of keys, ciphertexts or file formats: it moves bytes, starts processes, and runs plans
//! on an engine of the caller.
//!
//! | module | what it holds |
//! |---|---|
//! | [`cache`] | measurements, kept for the next run |
//! | `enclave` | an enclave in a separate process, without hardware (Linux) |
//! | [`files`] | whole files, read within a limit and written whole or not at all |
//! | [`job`] | a program within a memory limit: planned, checked and run |
//! | [`memory`] | an allocator for large objects, with huge pages; unused memory goes back |
//! | `pipe` | the capacity of a pipe to another program |
//! | [`process`] | this executable: its digest, a server process; a search of memory |
//! | [`run`] | a checked plan, run by threads and a tier |
//! | [`storage`] | the state of a disk that rejects writes |
//! | [`store`] | a disk tier: objects written to disk and read back |
//! | [`threads`] | a parallel map that keeps order |
#![deny(unsafe_code)] // the disk tier's memory and its ring allow it, and say why

pub mod cache;
pub mod data;
#[cfg(linux_64)]
pub mod enclave;
pub mod files;
pub mod job;
pub mod memory;
#[cfg(unix)]
pub mod pipe;
pub mod process;
pub mod run;
pub mod storage;
pub mod store;
#[doc(hidden)]
pub mod testing;
pub mod threads;
