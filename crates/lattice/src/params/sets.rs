//! Sets of lattice parameters by name.

use super::{LatticeError, LatticeParameters, Plaintext};
use crate::ring::Modulus;

/// A named set of parameters, with its purpose.
///
/// ```
/// use tobari_lattice::params::NamedSet;
/// let set = NamedSet::from_name("ckks-a").unwrap();
/// assert_eq!((set.degree, set.parameters()?.log_qp()), (1 << 14, 300));
/// # Ok::<(), tobari_lattice::params::LatticeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedSet {
    /// The name.
    pub name: &'static str,
    /// The purpose.
    pub purpose: &'static str,
    /// `N`.
    pub degree: usize,
    /// Bits of each data prime.
    pub data: &'static [u32],
    /// Bits of each special prime.
    pub special: &'static [u32],
    /// Digits of a key switch.
    pub digits: usize,
    /// The plaintext modulus; none for approximate numbers.
    pub plaintext_modulus: Option<u64>,
}

impl NamedSet {
    /// All that jobs and benchmarks use.
    pub const ALL: [NamedSet; 19] = [
        NamedSet {
            name: "ckks-a",
            purpose: "benchmark set A: CKKS, scale 2^30, five levels",
            degree: 1 << 14,
            data: &[50, 30, 30, 30, 30, 30],
            special: &[50, 50],
            digits: 3,
            plaintext_modulus: None,
        },
        NamedSet {
            name: "ckks-b",
            purpose: "benchmark set B: CKKS, scale 2^49, twelve levels",
            degree: 1 << 15,
            data: &[50, 49, 49, 49, 49, 49, 49, 49, 49, 49, 49, 49, 49],
            special: &[50, 50, 50],
            digits: 5,
            plaintext_modulus: None,
        },
        NamedSet {
            name: "bgv-c",
            purpose: "benchmark set C: BGV modulo 65,537",
            degree: 1 << 14,
            data: &[50, 50, 50, 50, 50, 50],
            special: &[50, 50],
            digits: 3,
            plaintext_modulus: Some(65_537),
        },
        NamedSet {
            name: "infer-s",
            purpose: "an image in the paper's layout: CKKS, scale 2^30",
            degree: 1 << 14,
            data: &[50, 30, 30, 30, 30, 30],
            special: &[50],
            digits: 6,
            plaintext_modulus: None,
        },
        NamedSet {
            name: "infer-f",
            purpose: "an image, fast: CKKS, scale 2^26",
            degree: 1 << 13,
            data: &[50, 26, 26, 26, 26],
            special: &[50],
            digits: 5,
            plaintext_modulus: None,
        },
        NamedSet {
            name: "infer-r",
            purpose: "an image, levels reset under masks of 97 bits: CKKS, scale 2^26",
            degree: 1 << 13,
            data: &[50, 50, 26, 26],
            special: &[50],
            digits: 4,
            plaintext_modulus: None,
        },
        NamedSet {
            name: "search",
            purpose: "a query of one ciphertext: BGV modulo 65,537, no evaluation keys",
            degree: 1 << 12,
            data: &[50, 50],
            special: &[],
            digits: 2,
            plaintext_modulus: Some(65_537),
        },
        NamedSet {
            name: "ckks-flood",
            purpose: "results that others may see: CKKS flooded, scale 2^100, two primes a product",
            degree: 1 << 15,
            data: &[50; 12],
            special: &[50, 50, 50],
            digits: 4,
            plaintext_modulus: None,
        },
        NamedSet {
            name: "bgv-b",
            purpose: "the reference job of plans: BGV modulo 65,537, large objects",
            degree: 1 << 15,
            data: &[50, 49, 49, 49, 49, 49, 49, 49, 49, 49, 49, 49, 49],
            special: &[50, 50, 50],
            digits: 5,
            plaintext_modulus: Some(65_537),
        },
        NamedSet {
            name: "search-17",
            purpose: "a query of ten sites at 100 places: BGV modulo 114,689",
            degree: 1 << 12,
            data: &[50, 50],
            special: &[],
            digits: 2,
            plaintext_modulus: Some(114_689),
        },
        NamedSet {
            name: "search-23",
            purpose: "a query of 16 sites at 100 places: BGV modulo 8,404,993",
            degree: 1 << 13,
            data: &[42, 42, 41],
            special: &[],
            digits: 3,
            plaintext_modulus: Some(8_404_993),
        },
        NamedSet {
            name: "search-40",
            purpose: "a query of 40 sites: BGV modulo a prime above 2^40",
            degree: 1 << 13,
            data: &[50, 38, 38, 37],
            special: &[],
            digits: 4,
            plaintext_modulus: Some(1_099_511_922_689),
        },
        NamedSet {
            name: "search-hidden",
            purpose: "a query whose place is hidden: BGV modulo 1,032,193",
            degree: 1 << 13,
            data: &[50, 50, 50],
            special: &[50],
            digits: 3,
            plaintext_modulus: Some(1_032_193),
        },
        NamedSet {
            name: "pbwt",
            purpose: "the positional Burrows-Wheeler transform under encryption, up to ten sites: BGV modulo 65,537",
            degree: 1 << 15,
            data: &[50; 15],
            special: &[50, 50],
            digits: 8,
            plaintext_modulus: Some(65_537),
        },
        NamedSet {
            name: "sense-linear",
            purpose: "sums of devices' frames: BGV modulo 33,292,289",
            degree: 1 << 13,
            data: &[50, 50],
            special: &[50],
            digits: 2,
            plaintext_modulus: Some(33_292_289),
        },
        NamedSet {
            name: "sense-sums",
            purpose: "sums of devices' frames of 28 bits: BGV modulo 268,042,241",
            degree: 1 << 13,
            data: &[50, 50],
            special: &[50],
            digits: 2,
            plaintext_modulus: Some(268_042_241),
        },
        NamedSet {
            name: "sense",
            purpose: "devices' readings, exact, and three products of them: BGV modulo 65,537",
            degree: 1 << 15,
            // primes for products; for the polynomial, with more bits for its weights; for the
            // linear parts
            data: &[38, 37, 37, 37, 37, 37, 37, 44, 50, 37, 37, 37, 37, 37, 37, 36, 35, 27],
            special: &[43, 43, 43, 43],
            digits: 5,
            plaintext_modulus: Some(65_537),
        },
        NamedSet {
            name: "sense-exact",
            purpose: "devices' readings, exact, and sums of them: BGV modulo 65,537",
            degree: 1 << 15,
            // as above, with primes for a sum alone, and fewer digits, so that keys are smaller
            data: &[38, 37, 37, 37, 37, 37, 44, 50, 37, 37, 37, 37, 37, 37, 36, 35, 27],
            special: &[42, 42, 42, 42, 42],
            digits: 4,
            plaintext_modulus: Some(65_537),
        },
        NamedSet {
            name: "sense-wide",
            purpose: "devices' readings in frames of 25 bits, exact, and three products: BGV modulo 33,292,289",
            degree: 1 << 16,
            // as above: rounding leaves 2^44, and six primes absorb the weights of 24 bits
            data: &[48, 47, 47, 47, 50, 50, 50, 50, 50, 50, 47, 47, 47, 47, 47, 47, 47, 47],
            special: &[50, 50, 50, 50],
            digits: 5,
            plaintext_modulus: Some(33_292_289),
        },
    ];

    /// Those for [refreshes](crate::refresh).
    pub const REFRESH: [NamedSet; 3] = [
        NamedSet {
            name: "refresh",
            purpose: "refreshes of 15 bits: CKKS, scale 2^40, 18 levels between two refreshes",
            degree: 1 << 16,
            // the ciphertext's last prime; slots to coefficients and data; the sine, and
            // coefficients to slots
            data: &[
                50, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 50, 50, 50, 50,
                50, 50, 50, 50, 50, 50, 50,
            ],
            special: &[50, 50, 50, 50, 50, 50],
            digits: 6,
            plaintext_modulus: None,
        },
        NamedSet {
            name: "refresh-precise",
            purpose: "refreshes of 19 bits: CKKS, scale 2^42, 14 levels between two refreshes",
            degree: 1 << 16,
            // as above
            data: &[
                50, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 50, 50, 50, 50, 50, 50, 50, 50,
                50, 50, 50, 50, 50,
            ],
            special: &[50, 50, 50, 50, 50, 50],
            digits: 6,
            plaintext_modulus: None,
        },
        NamedSet {
            name: "pbwt-bits",
            purpose: "the positional Burrows-Wheeler transform under encryption, refreshed: bits in CKKS, scale 2^33",
            degree: 1 << 15,
            // the ciphertext's last prime; slots to coefficients and a site's maps; its product;
            // the cosine, and coefficients to slots
            data: &[41, 33, 33, 33, 33, 33, 33, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41, 41],
            special: &[42, 42, 42],
            digits: 7,
            plaintext_modulus: None,
        },
    ];

    /// The set with this name.
    pub fn from_name(name: &str) -> Option<NamedSet> {
        Self::ALL.into_iter().chain(Self::REFRESH).find(|set| set.name == name)
    }

    /// The parameters of this set.
    ///
    /// # Errors
    /// None for the sets here; [`LatticeError`] for invalid numbers.
    pub fn parameters(&self) -> Result<LatticeParameters, LatticeError> {
        let plaintext = match self.plaintext_modulus {
            None => Plaintext::Approximate,
            Some(t) => Plaintext::Integers(Modulus::new(t).ok_or(LatticeError::PlaintextModulus { found: t })?),
        };
        LatticeParameters::of_sizes(self.degree, self.data, self.special, self.digits, plaintext)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_set_exists_and_has_128_bits() {
        for set in NamedSet::ALL.into_iter().chain(NamedSet::REFRESH) {
            let parameters = set.parameters().unwrap();
            assert!(parameters.security().is_some(), "{}", set.name);
            assert_eq!(NamedSet::from_name(set.name), Some(set));
            // a digit is no larger than the divisor, so that a key switch adds little noise
            let widest = set.data.chunks(parameters.digit_size()).map(|digit| digit.iter().sum::<u32>()).max();
            assert!(set.special.is_empty() || widest.unwrap() <= set.special.iter().sum(), "{}", set.name);
        }
        assert_eq!(NamedSet::from_name("ckks"), None);
    }
}
