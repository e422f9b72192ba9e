//! Networks of any depth and shape on encrypted pictures.
//!
//! | module | contents |
//! |---|---|
//! | [`graph`] | a network as a graph of nodes |
//! | [`forward`] | the same without encryption |
//! | [`model`], [`mod@file`] | a compiled network, and its bytes |
//! | [`lower`] | from a graph to [`steps`], with ranges from pictures |
//! | [`approximate`] | polynomials for activations on encrypted numbers |
//! | [`matrix`], [`layout`], [`arrange`] | maps, places of numbers in slots, and the search for them |
//! | [`settings`], [`place`] | parameters, and the places of refreshes |
//! | [`machine`], [`simulate`], [`encrypted`] | a run: on any machine, on slots, on ciphertexts |
//! | [`cost`] | time, memory and bytes of a compiled network |
//! | [`enclaved`], [`mixed`] | all but maps inside an enclave |

#![forbid(unsafe_code)]

pub mod approximate;
pub mod arrange;
pub mod cost;
pub mod enclaved;
pub mod encrypted;
pub mod file;
pub mod forward;
pub mod graph;
pub mod layout;
pub mod lower;
pub mod machine;
pub mod matrix;
pub mod mixed;
pub mod model;
pub mod place;
pub mod settings;
pub mod simulate;
pub mod steps;

pub use graph::{Activation, Graph, GraphError, Node, Op, PictureError};
pub use model::DeepModel;
