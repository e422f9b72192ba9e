//! The pinned cases of encoding and decoding, for `bits.mjs`.

#[path = "../../../crates/lattice/tests/all/ckks_bits/cases.rs"]
mod cases;

/// How many cases there are.
#[unsafe(no_mangle)]
pub extern "C" fn bits_count() -> u32 {
    cases::count() as u32
}

/// The digest of an encoding of case number `case` (`which` 0) or of its decoding (`which` 1); 0 if
/// something was refused.
#[unsafe(no_mangle)]
pub extern "C" fn bits(case: u32, which: u32) -> u64 {
    cases::digests(case as usize).map_or(0, |digests| digests[(which & 1) as usize])
}
