#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tobari_call_group::fuzz_group_messages(data));
