#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tobari_infer_files::onnx::fuzz_onnx(data));
