//! An image classified by a server that cannot see it.
//!
//! A network is brought into one form, a [`Model`]: linear maps with squares between them,
//!
//! ```text
//! u_k = W_k v_(k-1) + b_k,      v_k = u_k ⊙ u_k,      logits = u_K,      v_0 = the pixels,
//! ```
//!
//! for every polynomial activation of degree two is one square, a shift before it and a scale after
//! it, and both belong to the neighbouring maps. Under encryption (CKKS) each map costs one level
//! and each square one.
//!
//! The paper (privacy-preserving inference with homomorphic encryption and isolated execution)
//! measures six ways to combine encryption and an enclave on one network; the room computes the
//! same network and others of its family.
//!
//! | room | has |
//! |---|---|
//! | [`model`] | maps and squares |
//! | [`layout`] | where numbers stand in slots, and the diagonals of the maps |
//! | [`simulate`] | a run in the clear, slot by slot |
//! | [`program`] | a stage on any machine: in the clear, which simulates it slot by slot, recorded, or under encryption |
//! | [`compile`] | levels and scales; the stages as programs and segments; what a client may know ([`compile::Card`]) |
//! | [`ready`] | a model with the layout that suits it, checked |
//! | [`calibration`] | the margin between labels, which errors must stay within |
//! | [`precision`] | errors and ranges, before anything runs |
//! | [`client`] | keys, images, answers |
//! | [`server`] | runs without a secret; weights in the clear or encrypted; what it hides of an answer |
//! | [`messages`] | bytes; of what clients may know of a model in [`card`] |
//! | [`holder`] | the key holder's file, and those of questions and answers |
//! | [`measured`] | layers and moves for it from measured seconds |
//! | [`served`] | a placement as the combination that an enclave runs |
//! | [`batched`] | thousands of images at once, with a plain model or an encrypted one, and a check of its linear maps |
//! | [`guarded`] | the same with an enclave: keys that are born there, resets, and what leaves |
//! | [`placement`] | which layer is done where, and in which form, by what has to be protected |
//! | [`paper`] | the paper's costs and policy |
//!
//! # Who sees what
//! The server sees ciphertexts, and weights unless they are encrypted. The client sees what it
//! decrypts: logits, of which it should show no more than a label ([`client`]), and hidden partial
//! sums ([`server`]). Which layout, how many stages and how long they take is public.

#![forbid(unsafe_code)]

pub mod batched;
pub mod bytes;
pub mod calibration;
pub mod card;
pub mod client;
pub mod compile;
pub mod digits;
pub mod fold;
pub mod guarded;
pub mod holder;
pub mod layout;
pub mod measured;
pub mod messages;
pub mod model;
pub mod network;
pub mod paper;
pub mod placement;
pub mod plain;
pub mod precision;
pub mod program;
pub mod ready;
pub mod served;
pub mod server;
pub mod simulate;
pub mod train;

pub use bytes::{ModelBytesError, fuzz_model};
pub use calibration::Calibration;
pub use guarded::{fuzz_offer, fuzz_setup};
pub use holder::fuzz_kept;
pub use messages::fuzz_messages;
pub use model::{Map, Model, ModelError, Stage, Volume};
pub use network::{InputError, Layer, LayerKind, Network, NetworkError, Normalisation};
pub use plain::{FixedError, FixedModel, StageRange, argmax};
