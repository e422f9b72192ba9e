//! Sessions with an enclave, and the evidence of processors.

#![allow(clippy::unwrap_used, reason = "a test")]

mod sessions;
#[cfg(feature = "snp")]
mod snp;
#[cfg(feature = "tdx")]
mod tdx;
