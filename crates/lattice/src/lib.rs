//! Homomorphic encryption over lattices: exact integers ([`bgv`]) and approximate numbers
//! ([`ckks`]).
//!
//! A client encrypts, a server without the secret key computes, and the client decrypts:
//!
//! ```
//! use rand_core::SeedableRng;
//! use tobari_lattice::bgv::{Decryptor, Encoder, EvaluationKeys, Evaluator};
//! use tobari_lattice::params::NamedSet;
//! use tobari_lattice::rlwe::SecretKey;
//!
//! // randomness of the operating system
//! let mut seed = [0; 32];
//! getrandom::fill(&mut seed)?;
//! let mut rng = chacha20::ChaCha20Rng::from_seed(seed);
//!
//! // the client: products of products, at 128 bits of security
//! let parameters = NamedSet::from_name("bgv-c").ok_or("no such set")?.parameters()?;
//! let secret = SecretKey::generate(&parameters, &mut rng);
//! let keys = EvaluationKeys::new(&parameters).with_relinearization(&secret, 3, &mut rng)?;
//! let (encoder, holder) = (Encoder::new(&parameters)?, Decryptor::new(&secret)?);
//! let prices = encoder.encode(&[120, 80, 45])?.encrypt_seeded(&secret, 3, &mut rng)?.expand();
//! let counts = encoder.encode(&[3, 0, 7])?.encrypt_seeded(&secret, 3, &mut rng)?.expand();
//!
//! // the server: ciphertexts and evaluation keys, which are public
//! let amounts = Evaluator::new(&parameters)?.mul(&prices, &counts, &keys)?;
//!
//! // the client
//! assert_eq!(encoder.decode(&holder.decrypt(&amounts)?)?[..3], [360, 0, 315]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In the folder `examples`, `1_encrypt.rs` to `7_refresh.rs` are lessons. `variance.rs`,
//! `matrix.rs`, `regression.rs`, `intersection.rs`, `polynomial.rs` and `nearest.rs` are small
//! programs, with bytes between client and server.
//!
//! Modules, each built on those after it: [`wire`], [`refresh`] → [`bgv`], [`ckks`] → [`rlwe`] →
//! [`params`] → [`ring`] → the loops of `kernels`, which [`RingKernels`] collects in a table. Each
//! module head is a chapter, and [`ring`] is the first.
//!
//! The crate has no I/O, clock or thread, and no global state except the choice of a backend.
//! Randomness is an argument. Only the folder `kernels` contains `unsafe`.

#![deny(unsafe_code)]

pub mod bgv;
pub mod ckks;
#[doc(hidden)]
pub mod fuzz;
mod kernels;
pub mod params;
pub mod refresh;
pub mod ring;
pub mod rlwe;
pub mod wire;

pub use kernels::RingKernels;

/// The front page of the package, whose example is tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct FrontPage;
