//! Parameters by the sizes of their primes, as text, and chosen by what a computation needs.
//!
//! A computation needs a degree, and data primes of certain sizes. The rest follows. A key switch
//! cuts the data primes into `d` digits and needs special primes whose product exceeds every digit,
//! or its error is larger than that of a rounding. Fewer digits make a key switch faster and keys
//! smaller: at `L` data primes and `k` special ones it takes `d (L + k)` transforms and as many
//! elements of a key, and `k` is about `L / d`. But all `L + k` primes count for security. So the
//! choice is the smallest degree at which some number of digits is secure, and there the fewest
//! digits.

use super::{LatticeError, LatticeParameters, NamedSet, Plaintext, Security};
use crate::ring::{MAX_BITS, MAX_PRIMES, Modulus};
use std::fmt;
use std::str::FromStr;

/// All that determines parameters: the two sides of a computation agree on it. Its text has the
/// scheme, `log2 N`, bits of the data primes, bits of the special primes, and the digits; of the
/// scheme BGV, the modulus, too.
///
/// ```
/// use tobari_lattice::params::Sizes;
/// let sizes: Sizes = "ckks:14:50,30,30,30:50,50:2".parse()?;
/// assert_eq!((sizes.degree, sizes.parameters()?.log_qp()), (1 << 14, 240));
/// assert_eq!(sizes.to_string(), "ckks:14:50,30,30,30:50,50:2");
/// let exact: Sizes = "bgv-65537:13:45,45:46:2".parse()?;
/// assert_eq!(exact.plaintext_modulus, Some(65_537));
/// assert!("ckks:14:50".parse::<Sizes>().is_err());
/// // what is not secure is no parameters
/// assert!("ckks:12:50,50:50:2".parse::<Sizes>()?.parameters().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// `N`.
    pub degree: usize,
    /// Bits of each data prime.
    pub data: Vec<u32>,
    /// Bits of each special prime.
    pub special: Vec<u32>,
    /// Digits of a key switch.
    pub digits: usize,
    /// The plaintext modulus; none for approximate numbers.
    pub plaintext_modulus: Option<u64>,
}

/// A text that is not one of sizes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected parameters such as ckks:14:50,30,30:50:2 or bgv-65537:14:50,50:50:2, found {found:?}")]
pub struct SizesError {
    /// The text.
    pub found: String,
}

/// Why no parameters serve a computation.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NeedsError {
    /// Too many products, too much precision, or both, for the largest ring.
    #[error(
        "expected a depth and a precision that fit the largest ring, found none that does: reduce the depth (now \
         {depth}), the precision, or the range"
    )]
    TooDeep {
        /// Products that follow each other.
        depth: usize,
    },
    /// More bits behind the point than primes and doubles give.
    #[error("expected a precision of at most {most} bits at depth {depth}, found {found}")]
    Precision {
        /// The most.
        most: u32,
        /// Products that follow each other.
        depth: usize,
        /// The bits asked for.
        found: u32,
    },
    /// A range that is no positive number, or is too large.
    #[error("expected a range above 0 and of at most 2^{most}, found {found}")]
    Range {
        /// `log2` of the largest range.
        most: u32,
        /// The range given.
        found: f64,
    },
    /// A vector that is too long.
    #[error("expected at most {most} slots, found {found}")]
    Slots {
        /// The most.
        most: usize,
        /// The slots asked for.
        found: usize,
    },
    /// A modulus without so many slots.
    #[error(
        "expected a prime below 2^50 that is 1 modulo {step}, so that there are {slots} slots, found {found}: leave \
         the modulus out, and give the range of the integers instead"
    )]
    Modulus {
        /// `2N`.
        step: u64,
        /// The slots asked for.
        slots: usize,
        /// The modulus given.
        found: u64,
    },
}

/// The degrees of choice.
pub(crate) const DEGREES: std::ops::RangeInclusive<u32> = 12..=16;

/// Bits by which special primes exceed a digit, where they can.
const SPARE: u32 = 6;

/// As few primes as possible, of about the same size, with at least this many bits together.
pub(crate) fn split(bits: u32) -> Vec<u32> {
    let count = bits.div_ceil(MAX_BITS).max(1);
    (0..count).map(|i| (bits + i) / count).rev().collect()
}

impl Sizes {
    /// The sizes with these data primes and the fewest digits that are secure at this degree; none
    /// if no number of digits is, or there are too few primes of a size.
    pub fn fit(degree: usize, data: Vec<u32>, plaintext_modulus: Option<u64>) -> Option<Self> {
        let most = Security::Bits128.max_log_qp(degree)?;
        if data.len() > MAX_PRIMES || !data.iter().all(|bits| (1..=MAX_BITS).contains(bits)) {
            return None;
        }
        let (count, sum) = (data.len(), data.iter().sum::<u32>());
        let special = |digits: usize, spare: u32| {
            let widest = data.chunks(count.div_ceil(digits)).map(|digit| digit.iter().sum::<u32>()).max().unwrap_or(0);
            let primes = widest.div_ceil(MAX_BITS);
            vec![(widest + spare).div_ceil(primes).min(MAX_BITS); primes as usize]
        };
        // other numbers of digits leave a digit without primes
        let digits = (1..=count).filter(|digits| count.div_ceil(count.div_ceil(*digits)) == *digits);
        let mut all = digits.flat_map(|digits| [SPARE, 0].map(|spare| (digits, special(digits, spare))));
        let fits = |special: &[u32]| sum + special.iter().sum::<u32>() <= most && count + special.len() <= MAX_PRIMES;
        let (digits, special) = all.find(|(_, special)| fits(special))?;
        let found = Self { degree, data, special, digits, plaintext_modulus };
        found.parameters().is_ok().then_some(found)
    }

    /// The parameters.
    ///
    /// # Errors
    /// [`LatticeError`] for invalid numbers, less than 128 bits of security, or sizes that have too
    /// few primes.
    pub fn parameters(&self) -> Result<LatticeParameters, LatticeError> {
        let plaintext = match self.plaintext_modulus {
            None => Plaintext::Approximate,
            Some(t) => Plaintext::Integers(Modulus::new(t).ok_or(LatticeError::PlaintextModulus { found: t })?),
        };
        LatticeParameters::of_sizes(self.degree, &self.data, &self.special, self.digits, plaintext)
    }
}

impl From<NamedSet> for Sizes {
    fn from(set: NamedSet) -> Self {
        let (data, special) = (set.data.to_vec(), set.special.to_vec());
        Self { degree: set.degree, data, special, digits: set.digits, plaintext_modulus: set.plaintext_modulus }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |bits: &[u32]| bits.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        match self.plaintext_modulus {
            None => write!(f, "ckks")?,
            Some(t) => write!(f, "bgv-{t}")?,
        }
        let (log_degree, data, special) = (self.degree.ilog2(), list(&self.data), list(&self.special));
        write!(f, ":{log_degree}:{data}:{special}:{}", self.digits)
    }
}

impl FromStr for Sizes {
    type Err = SizesError;

    /// Reads the text of [`Display`](fmt::Display), and no other for the same sizes.
    fn from_str(text: &str) -> Result<Self, SizesError> {
        let list = |bits: &str| -> Option<Vec<u32>> {
            bits.split(',').filter(|bits| !bits.is_empty()).map(|bits| bits.parse().ok()).collect()
        };
        let read = || {
            let [scheme, log_degree, data, special, digits] = text.split(':').collect::<Vec<_>>().try_into().ok()?;
            let plaintext_modulus = match scheme {
                "ckks" => None,
                _ => Some(scheme.strip_prefix("bgv-")?.parse().ok()?),
            };
            let degree = 1usize.checked_shl(log_degree.parse().ok()?)?;
            let (data, special, digits) = (list(data)?, list(special)?, digits.parse().ok()?);
            Some(Self { degree, data, special, digits, plaintext_modulus })
        };
        let found = read().filter(|sizes| sizes.degree > 0 && sizes.to_string() == text);
        found.ok_or_else(|| SizesError { found: text.chars().take(80).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_sets_are_those_of_their_texts() {
        for set in NamedSet::ALL {
            let text = Sizes::from(set).to_string();
            let read: Sizes = text.parse().unwrap();
            assert_eq!(read, Sizes::from(set));
            assert!(read.parameters().unwrap() == set.parameters().unwrap(), "{text}");
        }
    }

    #[test]
    fn sizes_that_no_prime_has_fit_nothing() {
        for data in [vec![0], vec![0; 3], vec![40, 0], vec![u32::MAX; 3], vec![MAX_BITS + 1], vec![40; 1000]] {
            assert_eq!(Sizes::fit(1 << 14, data.clone(), None), None, "{data:?}");
        }
        assert!(Sizes::fit(1 << 14, vec![40; 3], None).is_some());
    }

    #[test]
    fn a_text_is_read_in_one_form_only_and_anything_else_is_an_error() {
        for text in [
            "",
            "ckks",
            ":::::",
            "ckks:14:50,30:50",
            "ckks:14:50,30:50:2:",
            "ckks:014:50,30:50:2",
            "ckks:14:50,,30:50:2",
            "ckks:14:50,30:50:+2",
            "ckks:14: 50,30:50:2",
            "ckks:64:50,30:50:2",
            "ckks:99999999999:50:50:2",
            "ckks:-1:50:50:2",
            "bgv:14:50,50:50:2",
            "bgv-:14:50:50:1",
            "bgv-99999999999999999999:14:50:50:1",
            "BGV-7:14:50:50:1",
            "tfhe:14:50:50:1",
        ] {
            assert_eq!(text.parse::<Sizes>(), Err(SizesError { found: text.to_owned() }), "{text}");
        }
        // well-formed, and no parameters
        for text in [
            "ckks:14::50:1",
            "ckks:14:50:50:2",
            "ckks:63:50:50:1",
            "ckks:14:51:50:1",
            "bgv-0:14:50:50:1",
            "ckks:14:500:50:1",
        ] {
            assert!(text.parse::<Sizes>().unwrap().parameters().is_err(), "{text}");
        }
        let long = "x".repeat(10_000).parse::<Sizes>().unwrap_err();
        assert!(long.to_string().len() < 200);
    }

    #[test]
    fn bits_are_split_evenly_and_the_fewest_secure_digits_are_taken() {
        assert_eq!(split(20), [20]);
        assert_eq!(split(50), [50]);
        assert_eq!(split(51), [26, 25]);
        assert_eq!(split(149), [50, 50, 49]);
        let fit = |log: u32, data: &[u32]| Sizes::fit(1 << log, data.to_vec(), None);
        assert_eq!(fit(14, &[50, 30, 30]).unwrap().to_string(), "ckks:14:50,30,30:39,39,39:1");
        assert_eq!(fit(13, &[50, 30, 30]).unwrap().to_string(), "ckks:13:50,30,30:43,43:2");
        assert_eq!(fit(12, &[36, 30]).unwrap().to_string(), "ckks:12:36,30:36:2", "without spare bits");
        assert_eq!(fit(12, &[50, 50]), None);
    }
}
