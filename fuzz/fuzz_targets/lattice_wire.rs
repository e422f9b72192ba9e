#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tobari_lattice::fuzz::lattice_wire(data));
