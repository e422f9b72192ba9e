#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tobari_infer::fuzz_offer(data));
