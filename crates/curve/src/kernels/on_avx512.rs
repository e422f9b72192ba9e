//! The loops over points, compiled for AVX-512.

#![allow(unsafe_code, reason = "calls of functions that need these instructions")]

use super::batch52::Batch52;
use super::{CurveConstants, CurveKernels, Scratch};
use std::marker::PhantomData;
use tobari_simd::Avx512;
use tobari_simd::Line;

/// The loops of this backend for curve `C`.
pub(crate) struct Avx512Kernels<C, const L: usize, const N: usize>(PhantomData<C>);

/// A kernel: the loop of the same name, compiled for these instructions.
macro_rules! kernel {
    ($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?) => {{
        fn kernel<C: CurveConstants<L>, const L: usize, const N: usize>($($argument: $type),*) $(-> $result)? {
            #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512ifma")]
            fn run<C: CurveConstants<L>, const L: usize, const N: usize>($($argument: $type),*) $(-> $result)? {
                // SAFETY: this function runs only where its features are
                let proof = unsafe { Avx512::assume() };
                Batch52::<Avx512, C, L, N>::new(proof).$name($($argument),*)
            }
            // SAFETY: `Avx512Kernels::detect` gives this function only to machines that have the
            // instructions
            unsafe { run::<C, L, N>($($argument),*) }
        }
        kernel::<C, L, N>
    }};
}

impl<C: CurveConstants<L>, const L: usize, const N: usize> Avx512Kernels<C, L, N> {
    const KERNELS: CurveKernels = CurveKernels {
        backend: "avx512ifma",
        limbs: N,
        window: 6,
        packet_window: 7,
        add_assign: kernel!(add_assign(a: &mut [Line], b: &[Line], scratch: &mut Scratch)),
        double_assign: kernel!(double_assign(a: &mut [Line], scratch: &mut Scratch)),
        negate_masked: kernel!(negate_masked(a: &mut [Line], mask: &[Line])),
        canonicalise: kernel!(canonicalise(a: &mut [Line])),
        pack: kernel!(pack(a: &[Line], out: &mut [Line])),
        select: kernel!(select(table: &[Line], index: &[Line], negate: &[Line], out: &mut [Line])),
        arrange: |_| {},
        vartime_select: kernel!(vartime_select(table: &[Line], index: &[Line], negate: &[Line], out: &mut [Line])),
        multiply: kernel!(multiply(
            multiples: &[Line],
            windows: &[u8],
            terms: usize,
            out: &mut [Line],
            scratch: &mut Scratch
        )),
        fingerprints: kernel!(fingerprints(points: &[Line], out: &mut [Line])),
        vartime_pair_x: kernel!(vartime_pair_x(
            points: &[Line],
            steps: &[Line],
            out: &mut [Line],
            scratch: &mut Scratch
        ) -> bool),
        import: kernel!(import(integers: &[u64], points: &mut [Line]) -> Result<(), usize>),
        export: kernel!(export(points: &[Line], out: &mut [u64])),
        decompress: kernel!(decompress(integers: &mut [u64], points: &mut [Line]) -> Result<(), usize>),
    };

    /// The loops, if the machine has the instructions. This is the only access, so they run on no
    /// other machine.
    pub(crate) fn detect() -> Option<&'static CurveKernels> {
        Avx512::detect().map(|_| &Self::KERNELS)
    }
}
