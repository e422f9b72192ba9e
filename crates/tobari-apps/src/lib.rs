//! The blind jobs of Tobari, as state machines: no socket, no file, no clock, no thread.
//!
//! Each job is a room of the same four files: `mod.rs` (what is computed, who sees what), `program.rs` (the computation
//! in the clear), `client.rs` (the half that holds keys) and `server.rs` (the half that never does).

#![forbid(unsafe_code)]

pub mod call;
pub mod infer;
pub mod seal;
pub mod search;
pub mod sense;

pub use tobari_engine as engine;
pub use tobari_engine::matrix;
