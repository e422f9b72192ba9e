//! Vector instructions, and the memory that they read: the only folder of this crate with `unsafe`.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
pub(crate) mod fused;
pub(crate) mod lanes;
pub(crate) mod lines;
pub(crate) mod quads;
pub(crate) mod streams;
#[cfg(target_feature = "simd128")]
pub(crate) mod wasm128;

/// Seals the traits: only types of this crate may be lanes.
pub(crate) mod sealed {
    /// Implemented here alone.
    pub trait Sealed {}
}
