//! Files of inference: pictures from `idx` and PNG, networks from ONNX and back.

#![forbid(unsafe_code)]

pub mod images;
pub mod onnx;
