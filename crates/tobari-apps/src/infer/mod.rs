//! An image classified by a server that cannot see it.
//!
//! A network is brought into one form, a [`Model`]: linear maps with squares between them,
//!
//! ```text
//! u_k = W_k v_(k-1) + b_k,      v_k = u_k ⊙ u_k,      logits = u_K,      v_0 = the pixels,
//! ```
//!
//! for every polynomial activation of degree two is one square, a shift before it and a scale after it, and both belong to the neighbouring maps. Under encryption (CKKS)
//! each map costs one level and each square one.
//!
//! The paper (privacy-preserving inference with homomorphic encryption and isolated execution) measures six ways to combine encryption and an enclave
//! on one network; the room computes the same network and others of its family.

pub mod batched;
pub mod model;
pub mod paper;
pub mod placement;

pub use model::{Map, Model, ModelError, Stage, Volume};
