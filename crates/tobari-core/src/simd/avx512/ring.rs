//! The loops over residues.

use super::super::ring::{Residues, RingKernels, Transform, ring_kernels};
use super::Avx512;
use super::keystream::{keystream, stream_sums};

static KERNELS: RingKernels = ring_kernels!(
    "avx512ifma",
    Transform(Avx512(())),
    Residues(Avx512(())),
    |key, nonce, first, out| keystream(Avx512(()), key, nonce, first, out),
    |keys, nonce, first, kept, out| stream_sums(Avx512(()), keys, nonce, first, kept, out),
    "avx512f,avx512vl,avx512dq,avx512ifma"
);

/// The loops, if the machine has the instructions: the only way to them, so that they run on no other.
pub(in crate::simd) fn ring_kernels() -> Option<&'static RingKernels> {
    Avx512::detect().map(|_| &KERNELS)
}
