#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tobari_call::live::cascade::fuzz_cascade_messages(data));
