#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tobari_enclave::tdx::fuzz_quote(data));
