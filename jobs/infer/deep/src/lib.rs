//! Networks of any depth and shape on encrypted pictures.
//!
//! | module | contents |
//! |---|---|
//! | [`approximate`] | polynomials for activations on encrypted numbers |
//! | [`graph`] | a network as a graph of nodes |
//! | [`forward`] | the same without encryption |

#![forbid(unsafe_code)]

pub mod approximate;
pub mod arrange;
pub mod encrypted;
pub mod file;
pub mod forward;
pub mod graph;
pub mod layout;
pub mod lower;
pub mod machine;
pub mod matrix;
pub mod model;
pub mod place;
pub mod settings;
pub mod simulate;
pub mod steps;

pub use graph::{Activation, Graph, GraphError, Node, Op, PictureError};
pub use model::DeepModel;
