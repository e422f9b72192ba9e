#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tobari_core::fuzz::live_wire(data));
