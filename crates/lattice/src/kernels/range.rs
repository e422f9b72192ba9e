//! Butterflies, and the reductions that keep their numbers in range.
//!
//! A forward butterfly makes `X + T` and `X - T + 2q` from `X` and `T = Y w < 2q`. The reduction of
//! `X` depends on the prime ([`Range`]):
//!
//! * `q < 2^46` ([`Narrow`]): none. From `q`, seventeen stages reach at most `35 q < 2^52`; two
//!   multiply-adds and a subtraction reduce the result. Six operations a butterfly.
//! * `q < 2^49` ([`Middle`]): in the first and the third stage of a pass `X` is reduced from
//!   `8q < 2^52` to `4q`, which adds `2q`; the second makes `8q` of `6q`. Eight operations.
//! * `q < 2^50` ([`Wide`]): `X` is reduced from `4q < 2^52` to `2q`. Nine operations.
//!
//! Backwards `X + Y` and `(X - Y + m q) w < 2q`:
//!
//! * [`Narrow`], for `2N q < 2^52`: no reduction. Sums double with every stage, and `m` with them;
//! * [`Wide`]: `X + Y` is reduced to `2q`, and `m = 2`.

use super::vector::{Lanes, Multiplier};
use tobari_simd::Simd;

/// Butterflies for primes of some size.
pub(super) trait Range<S: Simd>: Copy {
    /// `X + Y w` and `X - Y w`, in stage `stage` of a pass.
    fn split(self, lanes: Lanes<S>, stage: u32, x: S::V, y: S::V, w: Multiplier<S::V>) -> [S::V; 2];
    /// Makes the results of the forward stages canonical.
    fn canonical(self, lanes: Lanes<S>, x: S::V) -> S::V;
    /// `X + Y` and `(X - Y) w`, where `offset` is `m q`.
    fn join(self, lanes: Lanes<S>, x: S::V, y: S::V, offset: S::V, w: Multiplier<S::V>) -> [S::V; 2];
    /// `m q` of the next stage.
    fn next(self, offset: u64) -> u64;
}

/// Primes up to 2^50.
#[derive(Clone, Copy)]
pub(super) struct Wide;

impl<S: Simd> Range<S> for Wide {
    #[inline(always)]
    fn split(self, lanes: Lanes<S>, _: u32, x: S::V, y: S::V, w: Multiplier<S::V>) -> [S::V; 2] {
        let s = lanes.simd;
        let x = lanes.once(x, lanes.twice);
        let t = lanes.clean(lanes.product(lanes.zero, y, w));
        [s.add(x, t), s.sub(s.add(x, lanes.twice), t)]
    }

    #[inline(always)]
    fn canonical(self, lanes: Lanes<S>, x: S::V) -> S::V {
        lanes.once(lanes.once(x, lanes.twice), lanes.q)
    }

    #[inline(always)]
    fn join(self, lanes: Lanes<S>, x: S::V, y: S::V, offset: S::V, w: Multiplier<S::V>) -> [S::V; 2] {
        let s = lanes.simd;
        let difference = s.sub(s.add(x, offset), y);
        [lanes.once(s.add(x, y), lanes.twice), lanes.clean(lanes.product(lanes.zero, difference, w))]
    }

    #[inline(always)]
    fn next(self, offset: u64) -> u64 {
        offset
    }
}

/// Primes below 2^49: `X` is reduced in every other stage.
#[derive(Clone, Copy)]
pub(super) struct Middle;

impl<S: Simd> Range<S> for Middle {
    #[inline(always)]
    fn split(self, lanes: Lanes<S>, stage: u32, x: S::V, y: S::V, w: Multiplier<S::V>) -> [S::V; 2] {
        let s = lanes.simd;
        let x = if stage.is_multiple_of(2) { lanes.once(lanes.clean(x), s.add(lanes.twice, lanes.twice)) } else { x };
        let sum = lanes.product(x, y, w);
        [sum, s.sub(s.add(s.add(x, x), lanes.twice), sum)]
    }

    #[inline(always)]
    fn canonical(self, lanes: Lanes<S>, x: S::V) -> S::V {
        let x = lanes.once(lanes.clean(x), lanes.simd.add(lanes.twice, lanes.twice));
        lanes.once(lanes.once(x, lanes.twice), lanes.q)
    }

    #[inline(always)]
    fn join(self, lanes: Lanes<S>, x: S::V, y: S::V, offset: S::V, w: Multiplier<S::V>) -> [S::V; 2] {
        Wide.join(lanes, x, y, offset, w)
    }

    #[inline(always)]
    fn next(self, offset: u64) -> u64 {
        offset
    }
}

/// Primes small enough for stages without reductions; `⌊2^52 / q⌋` in all lanes.
#[derive(Clone, Copy)]
pub(super) struct Narrow<V>(pub(super) V);

impl<S: Simd> Range<S> for Narrow<S::V> {
    #[inline(always)]
    fn split(self, lanes: Lanes<S>, _: u32, x: S::V, y: S::V, w: Multiplier<S::V>) -> [S::V; 2] {
        let s = lanes.simd;
        let sum = lanes.product(x, y, w);
        [sum, s.sub(s.add(s.add(x, x), lanes.twice), sum)]
    }

    #[inline(always)]
    fn canonical(self, lanes: Lanes<S>, x: S::V) -> S::V {
        let quotient = lanes.simd.multiply_add_high(lanes.zero, x, self.0);
        lanes.once(lanes.clean(lanes.simd.multiply_add_low(x, quotient, lanes.negated)), lanes.q)
    }

    #[inline(always)]
    fn join(self, lanes: Lanes<S>, x: S::V, y: S::V, offset: S::V, w: Multiplier<S::V>) -> [S::V; 2] {
        let s = lanes.simd;
        [s.add(x, y), lanes.product(lanes.zero, s.sub(s.add(x, offset), y), w)]
    }

    #[inline(always)]
    fn next(self, offset: u64) -> u64 {
        2 * offset
    }
}
