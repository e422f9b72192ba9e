//! The machine: file formats, files, processes and threads.
//!
//! Everything that opens a file or starts a process stands here, so that the cryptography and the jobs need none of
//! it. This crate knows nothing of keys or ciphertexts: it moves bytes, samples and processes.
//!
//! | module | what it holds |
//! |---|---|
//! | [`wav`] | recordings in, recordings out; one rule of conversion to 16 kHz mono 16-bit |
//! | [`files`] | whole files, read within a limit and written whole or not at all |
//! | [`process`] | this executable started again as a server, and a search of a process's memory |
//! | [`threads`] | a parallel map that keeps order |
#![forbid(unsafe_code)]

pub mod files;
pub mod process;
pub mod threads;
pub mod wav;
