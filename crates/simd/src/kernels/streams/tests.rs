//! Every backend against the portable one, and sums of streams against streams added one by one.

use super::super::quads::EmulatedQuads;
use super::*;

/// The vector loops on plain arrays.
static EMULATED: [StreamKernels; 3] = [
    StreamKernels { name: "emulated", keystream, sums: stream_sums::<8> },
    StreamKernels { name: "emulated doubles", keystream, sums: stream_sums::<3> },
    StreamKernels {
        name: "emulated quads",
        keystream: |key, nonce, first, out| quads::keystream(EmulatedQuads, key, nonce, first, out),
        sums: |keys, nonce, first, kept, out| quads::stream_sums(EmulatedQuads, keys, nonce, first, kept, out),
    },
];

fn others() -> impl Iterator<Item = &'static StreamKernels> {
    StreamKernels::available().filter(|kernels| kernels.name != "portable").chain(&EMULATED)
}

#[test]
fn sums_of_streams_of_every_backend_are_those_of_streams_added_one_by_one() {
    let keys: Vec<[u8; 32]> = (0..67u8).map(|i| std::array::from_fn(|j| i.wrapping_mul(37) ^ (j as u8) << 3)).collect();
    let every = || others().chain([&PORTABLE]);
    for (count, blocks) in
        [(0, 1), (1, 21), (2, 1), (3, 5), (9, 3), (10, 3), (15, 2), (16, 21), (17, 1), (31, 4), (67, 21)]
    {
        for (nonce, first) in [(0, 0), (1 << 32 | 77, 5), (u64::MAX, u64::from(u32::MAX) - 1)] {
            for kept in [u32::MAX, (1 << 20) - 1, 0] {
                let mut expected: Vec<u32> = (0..16 * blocks as u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
                let before = expected.clone();
                for key in &keys[..count] {
                    let mut words = vec![0; 8 * blocks];
                    keystream(key, nonce, first, &mut words);
                    let halves = words.iter().flat_map(|word| [*word as u32, (word >> 32) as u32]);
                    expected.iter_mut().zip(halves).for_each(|(sum, word)| *sum = sum.wrapping_add(word & kept));
                }
                for kernels in every() {
                    let mut out = before.clone();
                    (kernels.sums)(&keys[..count], nonce, first, kept, &mut out);
                    assert_eq!(out, expected, "{}: {count} keys, {blocks} blocks from {first}", kernels.name);
                }
            }
        }
    }
}

#[test]
fn streams_of_every_backend_are_the_portable_ones() {
    for other in others() {
        for blocks in [1, 2, 15, 16, 17, 40] {
            for first in [0, 5, u64::from(u32::MAX) - 3] {
                let run = |kernels: &StreamKernels| {
                    let mut out = vec![0; 8 * blocks];
                    (kernels.keystream)(&[7; 32], 0x0123_4567_89ab_cdef, first, &mut out);
                    out
                };
                assert_eq!(run(other), run(&PORTABLE), "{} {blocks} from {first}", other.name);
            }
        }
    }
}
