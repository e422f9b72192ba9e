#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tobari_call::live::fuzz_live_room(data));
