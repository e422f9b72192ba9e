//! Key streams of ChaCha20 (RFC 8439's block function, with a 64-bit nonce and a 64-bit counter),
//! on as many lanes as the processor has.
//!
//! A backend is a table of two loops ([`StreamKernels`]). One writes a stream. The other adds the
//! streams of many keys, word by word: a member of a call subtracts such a sum from the masked
//! samples of a room. The portable loops define what all others must return.
//!
//! # Leakage
//! Constant time.

#[cfg(target_arch = "x86_64")]
mod on_avx2;
#[cfg(target_arch = "x86_64")]
mod on_avx512;
#[cfg(any(target_feature = "simd128", test))]
mod quads;
mod sums;
#[cfg(test)]
mod tests;

use crate::choice::{Backend, chosen};
use chacha20::{
    ChaCha20Rng,
    rand_core::{Rng, SeedableRng},
};
use std::sync::OnceLock;
use sums::{StreamSums, stream_sums};
use zeroize::Zeroizing;

/// One backend's loops over key streams.
pub struct StreamKernels {
    /// The backend, as `tobari info` prints it.
    pub name: &'static str,
    /// Words of whole blocks of a ChaCha20 stream: `keystream(key, nonce, first block, out)`.
    pub keystream: fn(&[u8; 32], u64, u64, &mut [u64]),
    /// The sum of the streams of many keys, in words of 32 bits. `sums(keys, nonce, first block,
    /// kept bits, out)` adds to `out`, modulo 2^32, the kept bits of each word. `out` must be whole
    /// blocks.
    pub sums: StreamSums,
}

static PORTABLE: StreamKernels = StreamKernels { name: "portable", keystream, sums: stream_sums::<4> };

#[cfg(target_feature = "simd128")]
static ON_WASM128: StreamKernels = StreamKernels {
    name: "wasm128",
    keystream: |key, nonce, first, out| quads::keystream(super::wasm128::Wasm128, key, nonce, first, out),
    sums: |keys, nonce, first, kept, out| {
        quads::stream_sums(super::wasm128::Wasm128, keys, nonce, first, kept, out);
    },
};

impl StreamKernels {
    /// The loops in use: the fastest that this machine has, unless
    /// [`choose_backend`](crate::choose_backend) said otherwise.
    pub fn best() -> &'static StreamKernels {
        static BEST: OnceLock<&StreamKernels> = OnceLock::new();
        BEST.get_or_init(|| match chosen() {
            Backend::Fastest => Self::available().last().unwrap_or(&PORTABLE),
            Backend::Avx2 => Self::available().find(|kernels| kernels.name == "avx2").unwrap_or(&PORTABLE),
            Backend::Portable => &PORTABLE,
        })
    }

    /// All loops that this machine can run, the fastest last.
    pub fn available() -> impl Iterator<Item = &'static StreamKernels> {
        #[cfg(target_arch = "x86_64")]
        let others = [on_avx2::kernels(), on_avx512::kernels()];
        #[cfg(target_feature = "simd128")]
        let others = [Some(&ON_WASM128)];
        #[cfg(not(any(target_arch = "x86_64", target_feature = "simd128")))]
        let others = [None; 0];
        std::iter::once(&PORTABLE).chain(others.into_iter().flatten())
    }
}

/// The words of a ChaCha20 stream.
fn keystream(key: &[u8; 32], nonce: u64, first: u64, out: &mut [u64]) {
    let mut rng = ChaCha20Rng::from_seed(*key);
    rng.set_stream(nonce);
    rng.set_word_pos(u128::from(first) * 16);
    let mut bytes = Zeroizing::new([0; 512]);
    for out in out.chunks_mut(64) {
        let bytes = &mut bytes[..8 * out.len()];
        rng.fill_bytes(bytes);
        out.iter_mut().zip(bytes.as_chunks().0).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
    }
}
