//! The loops on doubles, compiled for AVX2, FMA and BMI2.

#![allow(unsafe_code, reason = "calls of functions that need these instructions")]

use super::{DoubleTransform, Doubles, RingKernels, ring_kernels};
use tobari_simd::Avx2;

static KERNELS: RingKernels = ring_kernels!(
    "avx2",
    // SAFETY: `kernels` gives the table only to machines that have the instructions
    DoubleTransform(unsafe { Avx2::assume() }),
    // SAFETY: as above
    Doubles(unsafe { Avx2::assume() }),
    "avx2,fma,bmi2"
);

/// The loops, if the machine has the instructions: the only way to them.
pub(super) fn kernels() -> Option<&'static RingKernels> {
    Avx2::detect().map(|_| &KERNELS)
}
