//! The loops on eight lanes, compiled for AVX-512 with IFMA.

#![allow(unsafe_code, reason = "calls of functions that need these instructions")]

use super::{Residues, RingKernels, Transform, ring_kernels};
use tobari_simd::Avx512;

static KERNELS: RingKernels = ring_kernels!(
    "avx512ifma",
    // SAFETY: `kernels` gives the table only to machines that have the instructions
    Transform(unsafe { Avx512::assume() }),
    // SAFETY: as above
    Residues(unsafe { Avx512::assume() }),
    "avx512f,avx512vl,avx512dq,avx512ifma"
);

/// The loops, if the machine has the instructions: the only way to them.
pub(super) fn kernels() -> Option<&'static RingKernels> {
    Avx512::detect().map(|_| &KERNELS)
}
