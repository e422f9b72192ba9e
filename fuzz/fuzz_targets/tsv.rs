#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tobari_host::tsv::fuzz_keys(data));
