//! Bounds on results, checked before any computation.
//!
//! **Linear.** With readings up to `m`, weights `w` and noise of CBD(3), of variance 3/2, a
//! coefficient of a sum is `Δ Σ w_d m_d + Σ w_d e_d` modulo `q`. Rounding finds `Σ w m` if
//!
//! ```text
//! Δ m (Σ_(w>0) w + Σ_(w<0) |w|) + 2 E < q      and      E < Δ/2,
//! ```
//!
//! where `E` is a bound on `|Σ w e|`. The certain bound is `3 Σ |w|`. Except with probability
//! `2 e^(-13²/2) < 2^-120`, `13 √(3/2 Σ w²)` is also a bound, since CBD(3) is the sum of six signs
//! of one half (Hoeffding). For 254 devices of full scale in U25, `Δ m Σ w = 33,162,240` and
//! `E < 254 < 256`; 255 devices would need `q + 511`.
//!
//! **Exact.** Sums of byte values, without noise: `Σ |w| g` must be below `q`.

use std::fmt;
use tobari_device::Profile;

/// Standard deviations of noise that rounding tolerates.
const DEVIATIONS: f64 = 13.0;
/// Variance of CBD(3).
const VARIANCE: f64 = 1.5;
/// The largest noise of one frame.
pub const MOST_NOISE: i64 = 3;

/// The numbers of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// `q`.
    pub modulus: i64,
    /// The number of polynomials of a secret.
    pub rank: usize,
    /// `Δ`.
    pub delta: i64,
}

impl Scheme {
    /// The numbers of a profile.
    ///
    /// ```
    /// use tobari_sense::Scheme;
    /// assert_eq!(Scheme::of::<tobari_device::U25>().modulus, 33_292_289);
    /// ```
    pub fn of<P: Profile>() -> Self {
        Self { modulus: i64::from(P::MODULUS), rank: P::RANK, delta: i64::from(P::DELTA) }
    }

    /// The range of a sum of frames with these weights, for readings up to `most`.
    ///
    /// # Errors
    /// [`Overflow`] if the sum would not be exact.
    pub fn linear(&self, weights: impl IntoIterator<Item = i64>, most: u8) -> Result<Range, Overflow> {
        let (mut below, mut above, mut squares) = (0i128, 0i128, 0f64);
        for weight in weights {
            let wide = i128::from(weight);
            if weight < 0 {
                below += wide;
            } else {
                above += wide;
            }
            squares += weight as f64 * weight as f64;
        }
        let (total, most) = (above - below, i128::from(most));
        let sure = total.saturating_mul(MOST_NOISE.into());
        let likely = (DEVIATIONS * (VARIANCE * squares).sqrt()).ceil();
        let noise = sure.min(if likely < 1e30 { likely as i128 } else { i128::MAX });
        let delta = i128::from(self.delta);
        if 2 * noise >= delta {
            return Err(Overflow::Noise { bound: noise, most: (delta - 1) / 2 });
        }
        let needed = delta * most * total + 2 * noise;
        if needed >= i128::from(self.modulus) {
            return Err(Overflow::Range { needed, modulus: self.modulus });
        }
        // both fit in 64 bits, as their product with Δ does
        Ok(Range { least: (below * most) as i64, most: (above * most) as i64, noise: noise as i64 })
    }

    /// The range of a sum of exact values up to `most` with these weights.
    ///
    /// # Errors
    /// [`Overflow::Range`].
    pub fn exact(&self, weights: impl IntoIterator<Item = i64>, most: u8) -> Result<Range, Overflow> {
        let (mut below, mut above) = (0i128, 0i128);
        weights
            .into_iter()
            .for_each(|weight| if weight < 0 { below += i128::from(weight) } else { above += i128::from(weight) });
        let needed = i128::from(most) * (above - below);
        if needed >= i128::from(self.modulus) {
            return Err(Overflow::Range { needed, modulus: self.modulus });
        }
        Ok(Range { least: (below * i128::from(most)) as i64, most: (above * i128::from(most)) as i64, noise: 0 })
    }
}

/// The possible values of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The smallest value.
    pub least: i64,
    /// The largest value.
    pub most: i64,
    /// The largest noise of the result.
    pub noise: i64,
}

impl Range {
    /// The sum that a coefficient of a linear result represents; `None` if the sum is out of range
    /// or its noise is too large, so the coefficient is not such a result.
    pub fn round(&self, scheme: &Scheme, coefficient: i64) -> Option<i64> {
        let lowest = scheme.delta * self.least - self.noise;
        let shifted = (coefficient - lowest).rem_euclid(scheme.modulus) + lowest;
        let rounded = (shifted + scheme.delta / 2).div_euclid(scheme.delta);
        let good =
            (shifted - scheme.delta * rounded).abs() <= self.noise && (self.least..=self.most).contains(&rounded);
        good.then_some(rounded)
    }

    /// The number that an exact residue represents; `None` if it is out of range.
    pub fn place(&self, scheme: &Scheme, residue: i64) -> Option<i64> {
        let value = (residue - self.least).rem_euclid(scheme.modulus) + self.least;
        (value <= self.most).then_some(value)
    }
}

/// A query whose result would overflow, or whose noise would be too large. It is rejected before a
/// frame is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Overflow {
    /// The sum could overflow.
    #[error(
        "a sum of this question could overflow: with all devices at full scale it takes {needed}, and the limit is \
         {modulus}. Ask about fewer devices or frames, divide the devices (group-by), or split the sum (part)"
    )]
    Range {
        /// The modulus that the sum would need.
        needed: i128,
        /// `q`.
        modulus: i64,
    },
    /// The noise is too large for rounding.
    #[error(
        "noise could make a sum of this question wrong: the noise of so many frames reaches {bound}, and the limit is \
         {most}. Ask about fewer devices or frames, divide the devices (group-by), or split the sum (part)"
    )]
    Noise {
        /// The bound on the noise of the sum.
        bound: i128,
        /// The largest noise that rounding tolerates, below half of `Δ`.
        most: i128,
    },
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "q = {}, rank {}, Δ = {}", self.modulus, self.rank, self.delta)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use tobari_device::{P1, U25};

    fn ones(devices: usize) -> impl Iterator<Item = i64> {
        std::iter::repeat_n(1, devices)
    }

    #[test]
    fn two_hundred_and_fifty_four_devices_of_full_scale_fit_and_one_more_does_not() {
        let u25 = Scheme::of::<U25>();
        let range = u25.linear(ones(254), 255).unwrap();
        assert_eq!((range.least, range.most), (0, 254 * 255));
        assert!(range.noise < 256);
        let refused = u25.linear(ones(255), 255).unwrap_err();
        assert!(matches!(refused, Overflow::Range { needed, modulus: 33_292_289 } if needed >= 33_292_289 + 511));
        // a smaller step has room for one more device
        let finer = Scheme { delta: 511, ..u25 };
        assert_eq!(finer.linear(ones(255), 255).unwrap().most, 255 * 255);
        // with smaller readings the noise decides
        assert!(matches!(u25.linear(ones(300), 100).unwrap_err(), Overflow::Noise { most: 255, .. }));
        assert!(Scheme::of::<P1>().linear(ones(2), 255).is_err() && Scheme::of::<P1>().linear(ones(1), 254).is_ok());
    }

    #[test]
    fn weights_count_by_their_size_and_never_overflow() {
        let u25 = Scheme::of::<U25>();
        assert_eq!(u25.linear([3, -2], 255).unwrap(), Range { least: -510, most: 765, noise: 15 });
        for weights in [vec![i64::MAX; 300], vec![i64::MIN; 300], vec![i64::MAX, i64::MIN]] {
            assert!(u25.linear(weights.clone(), 255).is_err() && u25.exact(weights, 255).is_err());
        }
        assert_eq!(u25.linear([], 255).unwrap().round(&u25, 0), Some(0));
    }

    #[test]
    fn rounding_is_right_at_the_ends_of_a_range_and_refuses_what_is_beyond() {
        let u25 = Scheme::of::<U25>();
        let range = u25.linear([10, -10], 255).unwrap();
        for sum in [range.least, -1, 0, 1, range.most] {
            for noise in [-range.noise, 0, range.noise] {
                let coefficient = (u25.delta * sum + noise).rem_euclid(u25.modulus);
                assert_eq!(range.round(&u25, coefficient), Some(sum));
            }
            let noisy = u25.delta * sum + range.noise + 1;
            assert!(range.noise + 1 > u25.delta / 2 || range.round(&u25, noisy).is_none());
        }
        assert_eq!(range.round(&u25, u25.delta * (range.most + 1)), None);
        let range = u25.exact(ones(511), 255).unwrap();
        assert_eq!((range.place(&u25, 7), range.place(&u25, range.most + 1)), (Some(7), None));
    }
}
