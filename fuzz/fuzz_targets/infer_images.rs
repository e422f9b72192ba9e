#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tobari_host::images::fuzz_images(data));
