#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tobari_enclave::snp::fuzz_report(data));
