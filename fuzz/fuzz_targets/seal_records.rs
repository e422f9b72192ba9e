#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tobari_seal::fuzz_seal_records(data));
