//! Steps of programs under encryption.

#![allow(clippy::unwrap_used, reason = "a test")]

mod forms;
mod values;
