//! Parameters for a circuit, by its depth.

use tobari_lattice::params::Sizes;

/// The scales that are tried, in bits, the finest first.
const SCALES: [u32; 9] = [45, 43, 41, 39, 37, 35, 33, 31, 29];
/// Bits of the first prime above the scale: room for logits and for the numbers that hide other
/// slots.
const ROOM: u32 = 10;

/// Sizes of parameters, and the bits of the scale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The sizes.
    pub sizes: Sizes,
    /// The scale of tensors is two to this.
    pub scale: u32,
}

impl Settings {
    /// All sizes of `primes` data primes that have 128 bits of security, with scales of at least
    /// `least` bits.
    pub fn all(primes: usize, least: u32) -> Vec<Self> {
        let of_degree = |log: u32| {
            SCALES.into_iter().filter(move |scale| *scale >= least).filter_map(move |scale| {
                let mut data = vec![(scale + ROOM).min(50)];
                data.extend(std::iter::repeat_n(scale, primes - 1));
                Some(Self { sizes: Sizes::fit(1 << log, data, None)?, scale })
            })
        };
        (12..=16).flat_map(of_degree).collect()
    }

    /// Bits of a slot.
    pub fn slot_bits(&self) -> usize {
        self.sizes.degree.trailing_zeros() as usize - 1
    }

    /// Products of a key switch at the top, for comparisons in one ring.
    pub fn work(&self) -> usize {
        self.sizes.digits * (self.sizes.data.len() + self.sizes.special.len())
    }
}
