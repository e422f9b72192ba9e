//! Encoding and decoding of approximate numbers give the pinned bits of
//! `vectors/lattice/ckks-bits.txt`. `cargo xtask test` also computes them in a JavaScript engine.

#![forbid(unsafe_code)]
mod cases;

#[test]
fn every_residue_and_every_slot_has_its_pinned_bits() {
    let found: Vec<String> = (0..cases::count())
        .map(|case| {
            let ((log_degree, kind), [encoded, decoded]) = (cases::name(case), cases::digests(case).unwrap());
            format!("{log_degree} {kind} {encoded:016x} {decoded:016x}")
        })
        .collect();
    let pinned = include_str!("../../../../../vectors/lattice/ckks-bits.txt");
    let pinned: Vec<&str> = pinned.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(found, pinned, "found:\n{}", found.join("\n"));
}

#[test]
fn digests_of_two_cases_differ() {
    let mut all: Vec<u64> = (0..cases::count()).flat_map(|case| cases::digests(case).unwrap()).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2 * cases::count());
}
