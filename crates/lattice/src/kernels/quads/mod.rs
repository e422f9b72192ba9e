//! Transforms modulo primes below 2^30 on four lanes of 32 bits, for machines with no product of
//! larger integers.
//!
//! # Products
//! With Shoup's quotient for the radix 2^32, `w' = ⌊w 2^32 / q⌋`, which is `⌊w 2^52 / q⌋` shifted,
//! `y w - ⌊y w' / 2^32⌋ q` lies in `[0, 2q)` for every `y < 2^32`, so 32 bits of the two low
//! products are enough: one high product and two low ones for four numbers.
//!
//! # Ranges
//! Forwards a butterfly makes `X + T` and `X - T + 2q` with `T < 2q`. For `q < 2^26` nothing is
//! reduced: seventeen stages reach at most `35 q < 2^32`. For larger primes `X` is first reduced
//! from `4q < 2^32` to `2q`. Backwards `X + Y` is reduced to `2q`, and `X - Y + 2q < 4q`.
//!
//! # Leakage
//! Constant time.

mod transform;

pub(crate) use transform::{QuadRoots, QuadTransform};
