#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tobari_search_files::variants::fuzz_variants(data));
