#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tobari_device::fuzz_frames(data));
