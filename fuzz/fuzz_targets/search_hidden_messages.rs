#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tobari_search::hidden::fuzz_hidden_messages(data));
