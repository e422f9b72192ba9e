#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tobari_seal_files::dispatch::fuzz_requests(data));
