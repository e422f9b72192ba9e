//! Image classification by a server that cannot see the image.
//!
//! A network is converted into one form, a [`Model`]: linear maps with squares between them,
//!
//! ```text
//! u_k = W_k v_(k-1) + b_k,      v_k = u_k ⊙ u_k,      logits = u_K,      v_0 = the pixels,
//! ```
//!
//! Every polynomial activation of degree two is one square, with a shift before it and a scale
//! after it. Both belong to the neighbouring maps. Under encryption (CKKS) each map costs one level
//! and each square one.
//!
//! The paper (privacy-preserving inference with homomorphic encryption and isolated execution)
//! measures six ways to combine encryption and an enclave on one network. This crate computes the
//! same network and others of its family.
//!
//! | module | contents |
//! |---|---|
//! | [`model`] | maps and squares |
//! | [`layout`] | places of numbers in slots, and the diagonals of the maps |
//! | [`forecast`] | a run on plaintext, exact or with errors; the foretold error of a logit |
//! | [`noise`] | the errors that encryption adds to slots |
//! | [`program`] | a stage: simulated on plaintext slots, recorded, or under encryption |
//! | [`compile`] | levels, scales, programs, segments; a model's public facts ([`compile::Card`]) |
//! | [`ready`] | a model with the layout that suits it, checked |
//! | [`calibration`] | the margin between labels, and the check of errors against it |
//! | [`precision`] | errors and ranges, before anything runs |
//! | [`client`] | keys, images, answers |
//! | [`server`] | runs without a secret; weights, plaintext or encrypted; hidden parts of answers |
//! | [`messages`] | bytes of messages; [`card`] has those of a model's public facts |
//! | [`holder`] | files of keys, questions and answers |
//! | [`measured`] | layers and moves for a placement, from measured seconds |
//! | [`served`] | a placement as the combination that an enclave runs |
//! | [`batched`] | thousands of images at once, any form of model; a check of linear maps |
//! | [`guarded`] | the same with an enclave: its keys, its resets and its output |
//! | [`placement`] | the site and form of each layer, by the protection that its data needs |
//! | [`paper`] | the paper's costs and policy |
//!
//! # Leakage
//! The server sees ciphertexts, and weights unless they are encrypted. The client sees what it
//! decrypts: logits, of which it should show no more than a label ([`client`]), and partial sums
//! that the server masked ([`server`]). The layout, the number of stages and their run times are
//! public.

#![forbid(unsafe_code)]

pub mod batched;
pub mod bytes;
pub mod calibration;
pub mod card;
pub mod client;
pub mod compile;
pub mod digits;
pub mod fold;
pub mod forecast;
pub mod guarded;
pub mod holder;
pub mod layout;
pub mod measured;
pub mod messages;
pub mod model;
pub mod network;
pub mod noise;
pub mod paper;
pub mod placement;
pub mod plain;
pub mod precision;
pub mod program;
pub mod ready;
pub mod served;
pub mod server;
pub mod train;

pub use bytes::{ModelBytesError, fuzz_model};
pub use calibration::Calibration;
pub use guarded::{fuzz_offer, fuzz_setup};
pub use holder::fuzz_kept;
pub use messages::fuzz_messages;
pub use model::{Map, Model, ModelError, Stage, Volume};
pub use network::{InputError, Layer, LayerKind, Network, NetworkError, Normalisation};
pub use plain::{FixedError, FixedModel, StageRange, argmax};
