//! The machine: files, processes, threads and tiers of memory.
//!
//! Everything that opens a file or starts a process stands here, so that the cryptography and the
//! jobs need none of it. This crate knows nothing of keys, ciphertexts or formats of files: it
//! moves bytes and processes, and runs plans on whatever engine it is given.
//!
//! | module | what it holds |
//! |---|---|
//! | [`cache`] | measurements, kept for the next run |
//! | `enclave` | an enclave in a process of its own, without hardware (Linux) |
//! | [`files`] | whole files, read within a limit and written whole or not at all |
//! | [`job`] | a program within a limit of memory: planned, checked, carried out |
//! | [`memory`] | an allocator for large objects: huge pages, and nothing kept that nobody uses |
//! | `pipe` | how much a pipe to another program holds |
//! | [`process`] | this executable: its digest, and itself started again as a server; a search of a process's memory |
//! | [`run`] | a checked plan, carried out by threads and a tier |
//! | [`storage`] | what is wrong with a disk that takes no bytes |
//! | [`store`] | a disk tier: objects that leave memory and come back |
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
