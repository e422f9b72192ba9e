//! The machine: file formats, files, processes and threads.
//!
//! Everything that opens a file or starts a process stands here, so that the cryptography and the jobs need none of
//! it. This crate knows nothing of keys or ciphertexts: it moves bytes, samples and processes, and runs plans on whatever engine it is given.
//!
//! | module | what it holds |
//! |---|---|
//! | [`wav`] | recordings in, recordings out; one rule of conversion to 16 kHz mono 16-bit |
//! | [`cache`] | measurements, kept for the next run |
//! | [`dispatch`] | chunks sealed and opened by all engines of this machine: threads, and modules beside them |
//! | `enclave` | an enclave in a process of its own, without hardware (Linux) |
//! | [`files`] | whole files, read within a limit and written whole or not at all |
//! | [`images`] | pictures of digits in: `idx` and PNG, brought into the form that a network was trained on |
//! | [`job`] | a program within a limit of memory: planned, checked, carried out |
//! | [`memory`] | an allocator for large objects: huge pages, and nothing kept that nobody uses |
//! | [`onnx`] | networks from ONNX files and back |
//! | `pipe` | how much a pipe to another program holds |
//! | [`process`] | this executable: its digest, and itself started again as a server; a search of a process's memory |
//! | [`run`] | a checked plan, carried out by threads and a tier |
//! | `seal` | folders, files and streams, sealed and opened (Linux) |
//! | [`sense`] | a device's counter, and the frames of devices that a server keeps, also as Parquet |
//! | [`storage`] | what is wrong with a disk that takes no bytes |
//! | [`store`] | a disk tier: objects that leave memory and come back |
//! | [`tsv`] | keys and counts from a table of text |
//! | [`threads`] | a parallel map that keeps order |
//! | [`variants`] | variants and alleles from VCF and BCF files |
#![deny(unsafe_code)] // the disk tier's memory and its ring allow it, and say why

pub mod cache;
pub mod data;
pub mod dispatch;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub mod enclave;
pub mod files;
pub mod images;
pub mod job;
pub mod memory;
pub mod onnx;
#[cfg(unix)]
pub mod pipe;
pub mod process;
pub mod run;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub mod seal;
pub mod sense;
pub mod storage;
pub mod store;
#[doc(hidden)]
pub mod testing;
pub mod threads;
pub mod tsv;
pub mod variants;
pub mod wav;
