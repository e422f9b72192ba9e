#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tobari_infer_files::images::fuzz_images(data));
