//! Design 2: the device encrypts with AES-128 in counter mode, and the server removes AES under
//! BGV.
//!
//! A device pays the cost of AES and sends its readings, a nonce and a tag. The key holder encrypts
//! the devices' round keys for the server, so a device downloads nothing. The server evaluates AES
//! on the counters, which are public. The result is ciphertexts of the readings that bear three
//! more products. Every device of a batch has its own key, because round keys are vectors of slots.
//!
//! # Arithmetic
//! Integers modulo `t` = 786,433, the smallest prime that is 1 modulo `2^18`, at `N = 2^17`. A bit
//! `b` is represented as `(-1)^b` and a byte `x` by its **characters** `χ_u(x) = (-1)^(u·x)`, so an
//! exclusive or is a product.
//!
//! * **S-box**: a character of `S(x)` is a sum over all characters of `x`,
//!   `χ_v(S(x)) = 2^-8 Σ_u W_v(u) χ_u(x)`. The Walsh coefficients `W` are multiples of 4 up to 32
//!   in absolute value. Split into two nibbles, `u = (a, b)`, the sum is a bilinear form of the
//!   fifteen characters of each: eight forms, each relinearised once.
//! * **ShiftRows and MixColumns** are three rotations, without a mask, in a layout that holds every
//!   column several times ([`layout`]). All sums of rotations of one output are switched together.
//! * **Exclusive or** of six or eight terms: with `s` the sum of eight `±1`, `Z = s^2` and
//!   `U = Z^2`, the product of the eight is `(U (U - 112 Z + 3584) - 32768 Z + 40320)/8!`. This
//!   takes three products instead of seven. Six terms are eight terms of which two are one.
//! * **Monomials**: [`chain::Characters`] chooses which characters of a round's input are computed
//!   as sums of `±1`. The eight bits take twelve products and ten more, on two levels, to give the
//!   thirty characters of nibbles; twelve characters take eighteen products on one level. More
//!   characters cost products, but fewer levels make every earlier product cheaper, so late rounds
//!   have more characters. The first round has all thirty: they are characters of its key times
//!   those of the counters, which are public.
//!
//! The number of levels decides the cost: a key switch over `l` primes in `d` digits with `k`
//! special primes takes `(d + 2)(l + k)` transforms. There are 57 levels here, six or five a round.
//! One level for every exclusive or of two terms would take hundreds.
//!
//! # Factors
//! Sums need equal factors `κ`. Usually a multiplication makes them equal, and a ciphertext that
//! goes down a level without a product must be divided to change its factor. Here **only products
//! are ever divided**. Everything else loses its last rows, which costs nothing: its noise is no
//! larger than the noise after a division. The choice of primes by their residues modulo `t` makes
//! this possible ([`chain`]).
//!
//! # Noise
//! In canonical norms, which are bounds and not estimates, rounding leaves `2^39.7`. A product
//! takes a prime of 41 bits; squares of sums and forms of the S-box take 50. The 57 primes have
//! 2,560 bits and the eighteen special ones 900; 3,523 bits are allowed at 128 bits of security.
//!
//! # Cost
//! About 630 key switches and ninety-six forms, over 56 primes down to five. At the top level a
//! ciphertext takes 117 MB and a key 470 MB. Every round has keys that are cut to its level; a plan
//! keeps the next values in memory.
//!
//! # Sums
//! Sums of bytes over blocks and devices ([`sums`]) are exact below `t`, or 3,084 bytes of full
//! scale. The planner rejects a larger sum.
//!
//! # Who sees what
//! The server sees counters, device numbers and encrypted bytes, as any receiver of such frames
//! does. The key holder could decrypt everything, and gets results. Tags depend on the same root as
//! the keys, so **the server cannot detect a forged frame**; use the other profiles if you need
//! that. A test may request the state at the start of every round
//! ([`Circuit::with_probes`](program::Circuit::with_probes)), and needs the secret key to read it.

pub mod batch;
pub mod chain;
mod characters;
pub mod cipher;
pub mod layout;
pub mod program;
pub mod sums;

pub use batch::{Batch, Block, KeyTable};
pub use chain::{Chain, Characters};
pub use layout::Layout;
pub use program::{Circuit, Input};
pub use sums::SumPlan;
