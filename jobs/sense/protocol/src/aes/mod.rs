//! Design 2: the device encrypts with AES-128 in counter mode, and the server takes AES off under
//! BGV.
//!
//! A device pays what AES costs and sends its readings, a nonce and a tag. The key holder encrypts
//! the devices' round keys for the server, so that a device downloads nothing. The server evaluates
//! AES on the counters, which are public, and is left with ciphertexts of the readings that bear
//! three more products. Every device of a batch has a key of its own, because round keys are
//! vectors of slots.
//!
//! # Arithmetic
//! Integers modulo `t` = 786,433, the smallest prime that is 1 modulo `2^18`, at `N = 2^17`. A bit
//! `b` stands as `(-1)^b`, a byte `x` as its **characters** `χ_u(x) = (-1)^(u·x)`: an exclusive or
//! is a product.
//!
//! * **S-box**: a character of `S(x)` is a sum over all characters of `x`,
//!   `χ_v(S(x)) = 2^-8 Σ_u W_v(u) χ_u(x)` with the Walsh coefficients `W`, multiples of 4 up to 32
//!   in absolute value. Split by two nibbles, `u = (a, b)`, it is a bilinear form of the fifteen
//!   characters of either: eight forms, each relinearised once.
//! * **ShiftRows and MixColumns** are three rotations in a layout that holds every column several
//!   times ([`layout`]), without a mask. All sums of rotations of one output are switched together.
//! * **Exclusive or** of six or eight terms: with `s` the sum of eight `±1`, `Z = s^2` and
//!   `U = Z^2`, their product is `(U (U - 112 Z + 3584) - 32768 Z + 40320)/8!`, three products
//!   where seven would be needed. Six terms are eight with two ones.
//! * **Monomials**: which characters of a round's input are computed as sums of `±1` is a choice,
//!   [`chain::Characters`]. The eight bits take twelve products and ten more, on two levels, for
//!   the thirty characters of nibbles; twelve characters take eighteen products on one level. More
//!   characters cost products, fewer levels make every earlier product cheaper; so late rounds have
//!   more. The first round has all thirty, since they are characters of its key times those of
//!   counters, which are public.
//!
//! The number of levels decides, since a switch of keys over `l` primes in `d` digits with `k`
//! special ones takes `(d + 2)(l + k)` transforms. It is 57 here, six or five a round, where a
//! level for every exclusive or of two would take hundreds.
//!
//! # Factors
//! Sums are of equal factors `κ` only if nothing has to be multiplied to make them equal, and a
//! ciphertext that goes down without a product would have to be divided for its factor to change.
//! Here **nothing is ever divided but products**: everything else loses its last rows, which costs
//! nothing, because its noise is no more than a division would leave. What makes that possible is
//! the choice of primes by their residues modulo `t` ([`chain`]).
//!
//! # Noise
//! In canonical norms, which are bounds and no estimates, rounding leaves `2^39.7`. A product takes
//! a prime of 41 bits, squares of sums and forms of the S-box 50. The 57 primes have 2,560 bits,
//! eighteen special ones 900; 3,523 bits are allowed at 128 bits of security.
//!
//! # Cost
//! About 630 switches of keys and ninety-six forms, over 56 primes to five. At the top a ciphertext
//! takes 117 MB, and a key 470 MB. Every round has keys that are cut to its level; a plan keeps in
//! memory what is needed next.
//!
//! # Sums
//! Sums of bytes over blocks and devices ([`sums`]) are exact below `t`, 3,084 bytes of full scale;
//! a larger one is refused when it is planned.
//!
//! # Who sees what
//! The server: counters, device numbers, encrypted bytes, as any receiver of such frames. The key
//! holder, who could decrypt anything: results. Tags are under the same root as the keys, so that
//! **the server cannot tell a forged frame**; whoever needs that has the other profiles. A test may
//! ask for what every round begins with ([`Circuit::with_probes`](program::Circuit::with_probes)),
//! and needs the secret key to read it.

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
