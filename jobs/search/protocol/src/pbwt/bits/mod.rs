//! The transform for patterns of any length: bits in CKKS, refreshed before every symbol.
//!
//! The interval `I` of [`super`] is a vector of bits. In BGV each symbol costs 71 bits of noise, so
//! that ten symbols fill the modulus. Approximate numbers need less: a refresh of bits squares
//! their errors ([`tobari_lattice::refresh`]), and the answer is as exact after a hundred sites as
//! after one. The ciphertext carries a bound on its error all the way, and a bound above 1/4 is an
//! error of the computation, not a wrong count.
//!
//! **Rows.** There are no two rows of slots here. With `D` places side by side, position `p` of row
//! `a` and place `d` is slot `(2p + a) D + d`. Both rows hold `I`; the client's symbol is 1 in the
//! row of its allele.
//!
//! **Maps as networks.** A place with allele `a` at position `p` moves back by a distance `δ`, the
//! number of places before it with the other allele (and for `a = 0` all ones' number more). Of two
//! places with the same allele, `i` before `j`, the distances differ by at most the places between
//! them:
//!
//! ```text
//! 0 ≤ δ_j - δ_i ≤ j - i - 1.
//! ```
//!
//! So the places can move digit by digit, the lowest digit first, and never meet: after the digits
//! below `R` they would meet if `j - i = (δ_j mod R) - (δ_i mod R)`. That number is `δ_j - δ_i` or
//! differs from it by a multiple of `R`. In the first case it is below `j - i`, and in the second
//! it is negative or at least `R`, which no difference of two digits is. Round the circle of `n`
//! positions the same holds if `n > M - 1 + R - 1`. Three layers of about `n^(1/3)` diagonals
//! replace one map of `M + 1`: 48 products with plaintexts instead of 2,185. The last layer also
//! writes both rows, which takes three times as many diagonals and no further level.
//!
//! | step of a site | level before | level after |
//! |---|---|---|
//! | refresh: bits at the scale `q_0` | 4 or more | 8 |
//! | product with the symbol: places with the wrong allele vanish | 8 | 7 |
//! | three layers | 7 | 4 |
//!
//! **The answer.** After the last product and a mask, a refresh and a cleaning
//! ([`Evaluator::clean_bits`]) leave errors of about `2^-58`, at a scale of `2^205`. The sum over
//! the slots of a place is the count. It stands in `2 D` coefficients alone, so that the client
//! takes averages of slots, and the server can flood all coefficients by almost the whole scale
//! ([`Layout::flood_bits`]).
//!
//! **Leakage.** As in [`super`]: the operations depend on sizes alone. The server sees the places,
//! the length of the pattern, and ciphertexts; a semi-honest client sees the count.
//!
//! [`Evaluator::clean_bits`]: tobari_lattice::ckks::Evaluator::clean_bits

pub mod client;
mod network;
pub mod server;

use super::{PbwtError, Size};
use tobari_lattice::ckks::{EvaluationKeys, LinearTransform, Scale};
use tobari_lattice::params::{LatticeParameters, Plaintext};
use tobari_lattice::refresh::{Refresh, RefreshError, RefreshSettings};

/// The parameter set.
pub const SET: &str = "pbwt-bits";

/// The scale of bits on their way: `2^33`.
const SCALE_BITS: u32 = 33;

/// The level of bits after a refresh.
pub(super) const REFRESHED: usize = 8;

/// The level of the first symbol: a map, and then a refresh.
pub(super) const FIRST: usize = 5;

/// Data primes of an answer.
pub(super) const ANSWER: usize = 2;

/// The arrangement of slots. It follows from sizes and parameters alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    size: Size,
    /// `N/2`.
    slots: usize,
    /// Positions of the circle that holds an order: a power of two.
    period: usize,
    /// `D`, a power of two.
    stride: usize,
}

impl Layout {
    /// The layout of a search under these parameters.
    ///
    /// # Errors
    /// [`PbwtError`] for sizes that do not fit.
    pub fn new(parameters: &LatticeParameters, size: Size) -> Result<Self, PbwtError> {
        if parameters.plaintext() != Plaintext::Approximate {
            return Err(PbwtError::Approximate);
        }
        let Size { haplotypes, places, length } = size;
        let slots = parameters.degree() / 2;
        if length == 0 {
            return Err(PbwtError::Length { most: usize::MAX, found: 0 });
        }
        // the smallest circle on which no two places meet
        let fits = |period: &usize| {
            let [low, middle, _] = digits(*period);
            haplotypes + (1 << (low + middle)) < period + 2
        };
        let period = (2..).map(|log| 1usize << log).take_while(|period| *period <= slots / 2).find(fits);
        let Some(period) = period.filter(|_| haplotypes > 0) else {
            let most = (0..slots / 2).rev().find(|haplotypes| {
                let [low, middle, _] = digits(slots / 2);
                haplotypes + (1 << (low + middle)) < slots / 2 + 2
            });
            return Err(PbwtError::Panel { most: most.unwrap_or(0), found: haplotypes });
        };
        let most = slots / 2 / period;
        if !(1..=most).contains(&places) {
            return Err(PbwtError::Places { most, found: places });
        }
        Ok(Self { size, slots, period, stride: places.next_power_of_two() })
    }

    /// The size of the search.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Positions of the circle that holds an order.
    pub fn period(&self) -> usize {
        self.period
    }

    /// Slots from one position of a row to that of the other row.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The slots of the ciphertexts; they repeat through all others.
    pub fn own_slots(&self) -> usize {
        2 * self.period * self.stride
    }

    /// The slot of a position, a row and a place.
    fn slot(&self, position: usize, allele: bool, place: usize) -> usize {
        (2 * position + usize::from(allele)) * self.stride + place
    }

    /// The refresh of a search.
    ///
    /// # Errors
    /// [`RefreshError`] for parameters without room for it.
    pub fn refresh(&self, parameters: &LatticeParameters) -> Result<Refresh, RefreshError> {
        Refresh::new(parameters, RefreshSettings::bits(self.own_slots(), SCALE_BITS))
    }

    /// The scale of a symbol, by its site: that of the first, and one that becomes `2^33` by a
    /// product with refreshed bits and a rescaling.
    fn symbol_scale(site: usize) -> Option<Scale> {
        let scale = Scale::power_of_two(SCALE_BITS);
        if site == 0 {
            return Some(scale);
        }
        scale.product(&Scale::prime(REFRESHED - 1))?.quotient(&Scale::prime(0))
    }

    /// The level of a symbol, by its site.
    fn symbol_level(site: usize) -> usize {
        if site == 0 { FIRST } else { REFRESHED }
    }

    /// The steps of the diagonals of each layer of a map, with the layer's level.
    fn layers(&self) -> [(Vec<i64>, usize); 3] {
        let bits = digits(self.period);
        let (unit, both) = (2 * self.stride as i64, self.stride as i64);
        let shifts = [0, bits[0], bits[0] + bits[1]];
        [0, 1, 2].map(|layer| {
            let steps = (0..1i64 << bits[layer]).map(|digit| (digit << shifts[layer]) * unit);
            let steps = match layer {
                2 => steps.flat_map(|step| [step - both, step, step + both]).collect(),
                _ => steps.collect(),
            };
            (steps, REFRESHED - 1 - layer)
        })
    }

    /// The steps of the rotations beside those of the refresh, each with its level.
    pub fn rotations(&self, parameters: &LatticeParameters) -> Vec<(i64, usize)> {
        let both = self.stride as i64;
        let first = (vec![-both, 0, both], FIRST);
        let maps = self.layers().into_iter().chain([first]).flat_map(|(steps, level)| {
            LinearTransform::rotations_of(parameters, steps).into_iter().map(move |step| (step, level))
        });
        let sums = (0..(2 * self.period).ilog2()).map(|log| (both << log, REFRESHED - 1));
        let mut all: std::collections::BTreeMap<i64, usize> = std::collections::BTreeMap::new();
        for (step, level) in maps.chain(sums) {
            let known = all.entry(step.rem_euclid(self.slots as i64)).or_insert(level);
            *known = level.max(*known);
        }
        all.into_iter().filter(|(step, _)| *step != 0).collect()
    }

    /// Bytes in memory of the keys beside those of the refresh, before they exist.
    pub fn keys_memory(&self, parameters: &LatticeParameters) -> usize {
        let of = |(_, level): &(i64, usize)| EvaluationKeys::memory_of_key(parameters, *level);
        self.rotations(parameters).iter().map(of).sum()
    }

    /// Bits of an answer's flood at this scale: the average of a place's slots, which is the count,
    /// has `2 D` of the flood's coefficients, and stays within 1/8 of it.
    pub fn flood_bits(&self, scale: f64) -> u32 {
        let bits = (scale / (16.0 * self.stride as f64)).log2();
        if bits >= 1.0 { bits as u32 } else { 0 }
    }
}

/// Bits of the three digits of a distance, the lowest first.
fn digits(period: usize) -> [u32; 3] {
    let bits = period.trailing_zeros();
    [bits.div_ceil(3), (bits + 1) / 3, bits / 3]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tobari_lattice::params::NamedSet;

    #[test]
    fn the_papers_panel_takes_the_slots_and_keys_that_the_table_says() {
        let parameters = NamedSet::from_name(SET).unwrap().parameters().unwrap();
        let layout = Layout::new(&parameters, Size { haplotypes: 2_184, places: 1, length: 1_000 }).unwrap();
        assert_eq!((layout.period(), layout.own_slots(), digits(4_096)), (4_096, 8_192, [4; 3]));
        assert_eq!(layout.layers().map(|(steps, level)| (steps.len(), level)), [(16, 7), (16, 6), (48, 5)]);
        assert_eq!(layout.rotations(&parameters).len(), 32);
        let mut most = Size { haplotypes: 2_184, places: 2, length: 1 };
        assert_eq!(Layout::new(&parameters, most).unwrap().own_slots(), 16_384);
        most.places = 3;
        assert_eq!(Layout::new(&parameters, most), Err(PbwtError::Places { most: 2, found: 3 }));
        assert_eq!(Layout::flood_bits(&layout, 2f64.powi(205)), 201);
        assert_eq!(Layout::flood_bits(&layout, 4.0), 0);
    }
}
