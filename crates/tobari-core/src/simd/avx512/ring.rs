//! The loops over residues.

use super::super::ring::{Combination, NttTable, Permutation, Residues, RingKernels, RowPair, Term, Transform};
use super::Avx512;
use crate::ring::{Factor, Modulus};

/// A kernel: a loop of the shared rooms, compiled for these instructions.
macro_rules! kernel {
    ($room:ident.$name:ident($($argument:ident: $type:ty),*)) => {{
        fn kernel($($argument: $type),*) {
            #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512ifma")]
            fn run($($argument: $type),*) {
                $room(Avx512(())).$name($($argument),*)
            }
            // SAFETY: `ring_kernels` gives this function only to machines that have the instructions
            unsafe { run($($argument),*) }
        }
        kernel
    }};
}

static KERNELS: RingKernels = RingKernels {
    name: "avx512ifma",
    ntt_forward: kernel!(Transform.forward(q: &Modulus, table: &NttTable, values: &mut [u64])),
    ntt_inverse: kernel!(Transform.inverse(q: &Modulus, table: &NttTable, values: &mut [u64])),
    add_assign: kernel!(Residues.add_assign(q: &Modulus, a: &mut [u64], b: &[u64])),
    sub_assign: kernel!(Residues.sub_assign(q: &Modulus, a: &mut [u64], b: &[u64])),
    neg_assign: kernel!(Residues.neg_assign(q: &Modulus, a: &mut [u64])),
    mul_assign: kernel!(Residues.mul_assign(q: &Modulus, a: &mut [u64], b: &[u64])),
    mul_add_assign: kernel!(Residues.mul_add_assign(q: &Modulus, sum: &mut [u64], a: &[u64], b: &[u64])),
    inner_product: kernel!(Residues.inner_product(q: &Modulus, out: &mut [u64], pairs: &[RowPair<'_>])),
    key_product: kernel!(Residues.key_product(
        q: &Modulus, out: [&mut [u64]; 2], digits: &[&[u64]], key: &[u64], count: usize
    )),
    scale_assign: kernel!(Residues.scale_assign(q: &Modulus, a: &mut [u64], w: Factor)),
    scale_add_assign: kernel!(Residues.scale_add_assign(q: &Modulus, sum: &mut [u64], a: &[u64], w: Factor)),
    sub_scale_assign: kernel!(Residues.sub_scale_assign(q: &Modulus, b: &mut [u64], a: &[u64], w: Factor)),
    tensor: kernel!(Residues.tensor(q: &Modulus, out: [&mut [u64]; 3], a: [&[u64]; 2], b: [&[u64]; 2])),
    terms_assign: kernel!(Residues.terms_assign(terms: &[Term], rows: &mut [&mut [u64]], quotients: &mut [u64])),
    combine: kernel!(Residues.combine(combination: &Combination, rows: &[&[u64]], out: &mut [u64])),
    permute: kernel!(Residues.permute(permutation: &Permutation, from: &[u64], to: &mut [u64])),
};

/// The loops, if the machine has the instructions: the only way to them, so that they run on no other.
pub(in crate::simd) fn ring_kernels() -> Option<&'static RingKernels> {
    Avx512::detect().map(|_| &KERNELS)
}
