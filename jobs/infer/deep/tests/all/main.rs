//! Networks of any depth: layouts, precision, files, on plaintext and under encryption.

#![allow(clippy::unwrap_used, reason = "a test")]

mod circuits;
mod depths;
mod enclaved;
mod encrypted;
mod models;
mod world;
