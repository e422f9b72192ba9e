//! Lanes: the registers of a processor as a few numbers side by side.
//!
//! | trait | a register is | used for |
//! |---|---|---|
//! | [`Simd`] | eight words of 64 bits, with products of 52 bits | fields and points of curves, residues |
//! | [`Fused`] | four doubles, each operation rounded once | residues, where AVX-512 is missing |
//! | [`Quads`] | four words of 32 bits, or two of 64 | residues and key streams in a browser |
//!
//! A value of such a type ([`Avx2`], [`Avx512`], `Wasm128`) proves that this machine has the
//! instructions, so a loop that takes one needs no further check. The emulations ([`Emulated`],
//! [`EmulatedFused`], [`EmulatedQuads`]) run everywhere: tests compare the loops on them with the
//! loops on words. The traits are sealed, because each implementation is a promise of this crate
//! about a processor.
//!
//! [`StreamKernels`] are the key streams of ChaCha20 on these lanes. [`choose_backend`] chooses the
//! instructions of a process. [`Lines`], [`Buffer`] and [`Wiped`] are memory in whole lines.
//!
//! Only the folder `kernels` holds `unsafe`.

#![deny(unsafe_code)]

mod choice;
mod kernels;

pub use choice::{Backend, BackendInUse, choose_backend, chosen};
#[cfg(target_feature = "simd128")]
pub use kernels::wasm128::Wasm128;
#[cfg(target_arch = "x86_64")]
pub use kernels::{avx2::Avx2, avx512::Avx512};
pub use kernels::{
    fused::{EmulatedFused, Fused},
    lanes::{Emulated, Simd, Task},
    lines::{Buffer, LANES, Line, Lines, Pool, Wiped},
    quads::{EmulatedQuads, Quads},
    streams::StreamKernels,
};
