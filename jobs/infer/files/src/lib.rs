//! Files for inference: pictures from `idx` and PNG files, networks from and to ONNX.

#![forbid(unsafe_code)]

pub mod images;
pub mod onnx;
