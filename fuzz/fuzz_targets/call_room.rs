#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tobari_call::fuzz_room(data));
