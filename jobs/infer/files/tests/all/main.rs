//! Models and images from files.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod images;
mod onnx;
