//! Parameters for a computation with approximate numbers, by its depth and precision.
//!
//! Let `Δ = 2^s` be the scale, and all numbers at most 1. An encryption under a public key has an
//! error of at most `E_0 / Δ`, and a product with its rescaling makes `E` into `2 E + E_r`, in the
//! notation of [`Estimator`](super::Estimator). So `d` products that follow each other leave
//!
//! ```text
//! (2^d (E_0 + E_r) - E_r) / Δ  ≤  2^-p      for     s = p + ⌈log2(2^d (E_0 + E_r))⌉.
//! ```
//!
//! There are `d` primes of `s` bits, one for each product, and at least one. What remains holds
//! numbers of at most `r` with their error: `s + ⌈log2 r⌉ + 2` bits, in two primes if one is too
//! small.

use super::precision::chain;
use crate::params::{DEGREES, NeedsError, Sizes, split};
use crate::ring::{MAX_BITS, MAX_PRIMES};

/// What a computation with approximate numbers needs.
///
/// ```
/// use tobari_lattice::ckks::Needs;
/// let needs = Needs { depth: 3, precision: 16, ..Needs::default() };
/// let sizes = needs.sizes()?;
/// assert_eq!(sizes.to_string(), "ckks:13:42,40,40,40:48:4");
/// assert_eq!(sizes.parameters()?.security().map(|security| security.bits()), Some(128));
/// assert!(Needs { precision: 40, ..needs }.sizes().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Needs {
    /// Products that follow each other, those with plain numbers included.
    pub depth: usize,
    /// Right bits behind the point of results, for numbers of at most 1 in absolute value. Numbers
    /// that are larger by some factor have errors that are larger by this factor.
    pub precision: u32,
    /// The largest absolute value of a number, results included.
    pub range: f64,
    /// Numbers of a ciphertext.
    pub slots: usize,
}

/// One product of numbers of at most 1, with sixteen bits.
impl Default for Needs {
    fn default() -> Self {
        Self { depth: 1, precision: 16, range: 1.0, slots: 1 }
    }
}

/// `log2` of the largest range.
const MOST_RANGE: u32 = 60;

impl Needs {
    /// Sizes of the smallest degree that serves. The scale is a power of two with the bits of the
    /// last prime.
    ///
    /// # Errors
    /// [`NeedsError`] if no ring is large enough, or the primes or doubles are too small for the
    /// precision.
    pub fn sizes(&self) -> Result<Sizes, NeedsError> {
        let Self { depth, precision, range, slots } = *self;
        if !(range > 0.0 && range <= 2f64.powi(MOST_RANGE as i32)) {
            return Err(NeedsError::Range { most: MOST_RANGE, found: range });
        }
        let longest = 1 << (DEGREES.end() - 1);
        if slots > longest {
            return Err(NeedsError::Slots { most: longest, found: slots });
        }
        self.find().ok_or_else(|| {
            let fewer = (0..precision.min(MAX_BITS)).rev();
            match fewer.into_iter().find(|fewer| (Self { precision: *fewer, ..*self }).find().is_some()) {
                Some(most) => NeedsError::Precision { most, depth, found: precision },
                None => NeedsError::TooDeep { depth },
            }
        })
    }

    /// The first ring that is precise and large enough.
    fn find(&self) -> Option<Sizes> {
        let base = |scale: u32| split(scale + self.range.log2().ceil().max(0.0) as u32 + 2);
        DEGREES.map(|log| 1usize << log).filter(|degree| degree / 2 >= self.slots).find_map(|degree| {
            // a few bits more, where there are too few primes of a size
            (least_scale(degree, self.depth, self.precision)?..=MAX_BITS).find_map(|scale| {
                let mut data = base(scale);
                data.extend(std::iter::repeat_n(scale, self.depth.clamp(1, MAX_PRIMES)));
                Sizes::fit(degree, data, None)
            })
        })
    }
}

/// `s`, if there are primes of so many bits.
fn least_scale(degree: usize, depth: usize, precision: u32) -> Option<u32> {
    let (scaled, doubles) = chain(degree, depth);
    let room = 0.5f64.powi(precision.min(1_000) as i32) - doubles;
    let scale = (scaled / room).log2().ceil();
    (room > 0.0 && scale <= f64::from(MAX_BITS)).then_some(scale as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ckks::{Estimator, Scale};

    #[test]
    fn the_bound_of_a_chain_of_products_is_the_precision_or_less() {
        let mut found = 0;
        for (depth, precision) in
            (0..=12).flat_map(|depth| (4..=28).step_by(6).map(move |precision| (depth, precision)))
        {
            for (range, slots) in [(1.0, 1), (0.01, 4096), (1_000.0, 1), (1e9, 20_000)] {
                let needs = Needs { depth, precision, range, slots };
                let sizes = match needs.sizes() {
                    Ok(sizes) => sizes,
                    Err(NeedsError::Precision { most, .. }) => {
                        assert!(most < precision && (Needs { precision: most, ..needs }).sizes().is_ok(), "{needs:?}");
                        continue;
                    }
                    Err(error) => panic!("{needs:?}: {error}"),
                };
                found += 1;
                let parameters = sizes.parameters().unwrap();
                assert!(parameters.degree() / 2 >= slots && parameters.security().is_some(), "{needs:?}");
                let (estimator, top) = (Estimator::new(&parameters), parameters.data_primes());
                let scale = Scale::power_of_two(*sizes.data.last().unwrap());
                let mut x = estimator.encrypt(&estimator.encode(1.0, &scale, top));
                for _ in 0..depth {
                    x = estimator.rescale(&estimator.mul(&x, &x));
                }
                // key switches and the square of an error are not counted: they are far below
                assert!(x.error() <= 1.05 * 0.5f64.powi(precision as i32), "{needs:?}: {}", x.error());
                let last = estimator.encrypt(&estimator.encode(range.max(1.0), &scale, top - depth.max(1)));
                assert!(estimator.fits(&last), "{needs:?}: {sizes}");
            }
        }
        assert!(found > 150, "{found}");
    }

    #[test]
    fn needs_that_nothing_serves_are_errors_with_what_would() {
        let of = |change: fn(&mut Needs)| {
            let mut needs = Needs::default();
            change(&mut needs);
            needs.sizes().map(|sizes| sizes.to_string()).unwrap_err().to_string()
        };
        assert!(of(|needs| needs.depth = 90).contains("reduce the depth (now 90)"));
        assert!(of(|needs| needs.depth = usize::MAX).contains("depth"));
        assert!(of(|needs| needs.precision = 60).contains("at most 2"));
        assert!(of(|needs| needs.precision = u32::MAX).contains("precision of at most"));
        assert!(of(|needs| needs.slots = 32_769).contains("at most 32768 slots, found 32769"));
        for range in [0.0, -1.0, f64::NAN, f64::INFINITY, 2e18] {
            let error = Needs { range, ..Needs::default() }.sizes().unwrap_err();
            assert!(matches!(error, NeedsError::Range { most: 60, .. }), "{range}: {error}");
        }
    }
}
