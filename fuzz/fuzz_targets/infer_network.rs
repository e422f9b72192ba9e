#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tobari_infer_deep::file::fuzz_file(data));
