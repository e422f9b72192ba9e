//! Models and images from files.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod images;
mod onnx;
mod onnx_build;
mod onnx_graph;
mod pictures;
mod pictures_recorded;
