//! Parameters of the lattice schemes.
//!
//! **Security.** To break a scheme, an attacker must distinguish samples `(a, a s + e)` over
//! `R_QP` from uniform ones, with `s` uniform on -1, 0, 1 and `e` of standard deviation 3.2. The
//! cost depends on `N` and on the bits of `Q P`, the modulus of the keys. The largest admitted
//! `log2 QP` by `N` are those of the *Security Guidelines for Implementing Homomorphic Encryption*
//! (Bossuat, Cammarota, Cheon, Chillotti, Curtis, Dai and others, ePrint 2024/463, table 5.2), for
//! ternary secrets against classical attacks; a test compares them with the published values. They
//! are lower than those of the 2018 standard (27/54/109/218/438/881) that most libraries enforce;
//! the two are never mixed here.
//!
//! Errors are rounded from a Gaussian of 3.2 ([`Stream::gaussian`](crate::ring::Stream::gaussian)).

mod sets;
mod sizes;

pub use sets::NamedSet;
pub(crate) use sizes::{DEGREES, split};
pub use sizes::{NeedsError, Sizes, SizesError};

use crate::ring::{MAX_DEGREE, MAX_PRIMES, Modulus, Ring, RingError, primes_below};
use std::fmt;
use std::sync::Arc;

/// Bits of security against classical attacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Security {
    /// 128 bits.
    Bits128,
    /// 192 bits.
    Bits192,
    /// 256 bits.
    Bits256,
}

impl Security {
    /// All, the weakest first.
    pub const ALL: [Security; 3] = [Security::Bits128, Security::Bits192, Security::Bits256];

    /// Number of bits.
    pub fn bits(self) -> u32 {
        match self {
            Security::Bits128 => 128,
            Security::Bits192 => 192,
            Security::Bits256 => 256,
        }
    }

    /// The most bits that `Q P` may have at this degree; none if the table has no entry.
    ///
    /// ```
    /// use tobari_lattice::params::Security;
    /// assert_eq!(Security::Bits128.max_log_qp(1 << 14), Some(430));
    /// assert_eq!(Security::Bits128.max_log_qp(1 << 9), None);
    /// ```
    pub fn max_log_qp(self, degree: usize) -> Option<u32> {
        let row = match self {
            Security::Bits128 => [26, 53, 106, 214, 430, 868, 1747, 3523],
            Security::Bits192 => [0, 36, 73, 147, 297, 597, 1199, 2411],
            Security::Bits256 => [0, 27, 56, 114, 230, 462, 929, 1866],
        };
        let place = degree.is_power_of_two().then(|| degree.trailing_zeros().checked_sub(10)).flatten()?;
        row.get(place as usize).copied().filter(|bits| *bits > 0)
    }
}

/// The most bits of a modulus at which the key to a secret of 32 nonzero coefficients was estimated
/// to have at least 128 bits of security: 152 at degree `2^15`, and 169 at `2^16`
/// (`bench/estimator/sparse.py`).
pub(crate) fn sparse_limit(degree: usize) -> Option<u32> {
    match degree {
        0x8000 => Some(84),
        0x1_0000 => Some(100),
        _ => None,
    }
}

/// Parameters of a lattice scheme: they exist only if they are valid and have at least 128 bits of
/// security.
///
/// Cloning is cheap. Objects can be combined if their parameters are equal: the same degree, primes
/// in the same order, digits, and kind of messages.
///
/// ```
/// use tobari_lattice::params::{LatticeParameters, Plaintext};
/// // CKKS at N = 2^14: 50 + 5·30 bits of data, two special primes of 50, digits of two primes
/// let parameters = LatticeParameters::of_sizes(1 << 14, &[50, 30, 30, 30, 30, 30], &[50, 50], 3, Plaintext::Approximate)?;
/// assert_eq!((parameters.log_qp(), parameters.security().map(|security| security.bits())), (300, Some(128)));
/// // at N = 2^13 these would be too many bits
/// assert!(LatticeParameters::of_sizes(1 << 13, &[50, 50, 50], &[50, 50], 3, Plaintext::Approximate).is_err());
/// # Ok::<(), tobari_lattice::params::LatticeError>(())
/// ```
#[derive(Clone)]
pub struct LatticeParameters(Arc<Inner>);

struct Inner {
    ring: Arc<Ring>,
    digits: usize,
    plaintext: Plaintext,
    security: Option<Security>,
    log_qp: u32,
}

/// The kind of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plaintext {
    /// Numbers, approximately (CKKS): the error is part of the message.
    Approximate,
    /// Integers modulo this number (BGV): the error is a multiple of it.
    Integers(Modulus),
}

/// Why numbers are not valid parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LatticeError {
    /// They do not define a ring.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// Less than 128 bits of security.
    #[error("expected at most {most} bits of modulus for 128 bits of security at degree {degree}, found {found}")]
    Insecure {
        /// The degree.
        degree: usize,
        /// The most bits by the table, or 0 if it has no entry.
        most: u32,
        /// Bits of `Q P`.
        found: u32,
    },
    /// A number of digits that is not possible.
    #[error("expected from 1 to {most} digits, found {found}")]
    Digits {
        /// Data primes.
        most: usize,
        /// The number given.
        found: usize,
    },
    /// A plaintext modulus that shares a factor with a prime, or is not below the first one.
    #[error("expected a plaintext modulus below 2^50, prime to every prime, found {found}")]
    PlaintextModulus {
        /// The modulus given.
        found: u64,
    },
    /// A ring that is too small for the sparse secret of a refresh.
    #[error("expected a degree of at least {least} for a refresh, found {found}")]
    Sparse {
        /// The least degree.
        least: usize,
        /// The degree given.
        found: usize,
    },
    /// No special prime, although the server needs keys.
    #[error("expected parameters with a special prime, found none")]
    NoSpecialPrime,
    /// Too few primes of this size.
    #[error("expected sizes for which there are primes that are 1 modulo {step}, found {bits} bits")]
    Size {
        /// Bits.
        bits: u32,
        /// `2N`.
        step: u64,
    },
}

impl LatticeParameters {
    /// Parameters of these primes. A key switches `digits` groups of data primes; all groups have
    /// the same number of primes, except perhaps the last. With fewer digits, keys are smaller and
    /// faster, but need more special primes.
    ///
    /// # Errors
    /// [`LatticeError`] for invalid numbers, or less than 128 bits of security.
    pub fn new(
        degree: usize,
        data: &[u64],
        special: &[u64],
        digits: usize,
        plaintext: Plaintext,
    ) -> Result<Self, LatticeError> {
        // before tables are allocated: the numbers may come from an attacker
        let most = Security::Bits128.max_log_qp(degree).unwrap_or(0);
        let found = product_bits(data.iter().chain(special));
        if found > most {
            return Err(LatticeError::Insecure { degree, most, found });
        }
        Self::insecure_for_tests(degree, data, special, digits, plaintext)
    }

    /// The same for primes of these sizes in bits: for each, the largest unused prime below
    /// `2^bits` that is 1 modulo `2N`.
    ///
    /// # Errors
    /// As [`Self::new`], and for sizes that have too few primes.
    pub fn of_sizes(
        degree: usize,
        data: &[u32],
        special: &[u32],
        digits: usize,
        plaintext: Plaintext,
    ) -> Result<Self, LatticeError> {
        let [data, special] = Self::primes_of_sizes(degree, data, special, plaintext)?;
        Self::new(degree, &data, &special, digits, plaintext)
    }

    /// [`Self::new`] without the check of security.
    ///
    /// # Errors
    /// [`LatticeError`] for invalid numbers.
    pub fn insecure_for_tests(
        degree: usize,
        data: &[u64],
        special: &[u64],
        digits: usize,
        plaintext: Plaintext,
    ) -> Result<Self, LatticeError> {
        let ring = Ring::new(degree, data, special)?;
        if !(1..=data.len()).contains(&digits) {
            return Err(LatticeError::Digits { most: data.len(), found: digits });
        }
        if let Plaintext::Integers(t) = plaintext
            && data.iter().chain(special).any(|q| t.value().is_multiple_of(*q))
        {
            return Err(LatticeError::PlaintextModulus { found: t.value() });
        }
        let log_qp = product_bits(data.iter().chain(special));
        let strong = |security: &Security| security.max_log_qp(degree).is_some_and(|most| log_qp <= most);
        let security = Security::ALL.into_iter().rev().find(strong);
        Ok(Self(Arc::new(Inner { ring, digits, plaintext, security, log_qp })))
    }

    /// [`Self::of_sizes`] without the check of security.
    ///
    /// # Errors
    /// As [`Self::insecure_for_tests`], and for sizes that have too few primes.
    pub fn insecure_of_sizes(
        degree: usize,
        data: &[u32],
        special: &[u32],
        digits: usize,
        plaintext: Plaintext,
    ) -> Result<Self, LatticeError> {
        let [data, special] = Self::primes_of_sizes(degree, data, special, plaintext)?;
        Self::insecure_for_tests(degree, &data, &special, digits, plaintext)
    }

    fn primes_of_sizes(
        degree: usize,
        data: &[u32],
        special: &[u32],
        plaintext: Plaintext,
    ) -> Result<[Vec<u64>; 2], LatticeError> {
        // before primes are searched: the numbers may come from an attacker
        if !degree.is_power_of_two() || degree > MAX_DEGREE {
            return Err(RingError::Degree { degree }.into());
        }
        if data.len() + special.len() > MAX_PRIMES {
            return Err(RingError::Primes { found: data.len() + special.len() }.into());
        }
        let step = 2 * degree as u64;
        let mut taken = match plaintext {
            Plaintext::Approximate => Vec::new(),
            Plaintext::Integers(t) => vec![t.value()],
        };
        let mut take = |bits: &u32| {
            let bits_of = |q: &u64| u64::BITS - q.leading_zeros();
            let prime = primes_below(*bits, step).take_while(|q| bits_of(q) == *bits).find(|q| !taken.contains(q));
            prime.inspect(|q| taken.push(*q)).ok_or(LatticeError::Size { bits: *bits, step })
        };
        let data = data.iter().map(&mut take).collect::<Result<_, _>>()?;
        Ok([data, special.iter().map(take).collect::<Result<_, _>>()?])
    }

    /// The ring.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.0.ring
    }

    /// `N`.
    pub fn degree(&self) -> usize {
        self.0.ring.degree()
    }

    /// Number of data primes, the highest level.
    pub fn data_primes(&self) -> usize {
        self.0.ring.data_primes().len()
    }

    /// Number of digits into which a key switch cuts an element with all data primes.
    pub fn digits(&self) -> usize {
        self.0.digits
    }

    /// Number of data primes of a digit.
    pub fn digit_size(&self) -> usize {
        self.data_primes().div_ceil(self.0.digits)
    }

    /// The kind of messages.
    pub fn plaintext(&self) -> Plaintext {
        self.0.plaintext
    }

    /// The factor of every error: `t`, or 1.
    pub fn error_factor(&self) -> u64 {
        match self.0.plaintext {
            Plaintext::Approximate => 1,
            Plaintext::Integers(t) => t.value(),
        }
    }

    /// The least `b` with `Q P < 2^b`.
    pub fn log_qp(&self) -> u32 {
        self.0.log_qp
    }

    /// The strongest level whose row allows these parameters; none for toys.
    pub fn security(&self) -> Option<Security> {
        self.0.security
    }
}

/// Equality of the numbers; of two clones in constant time.
impl PartialEq for LatticeParameters {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (&*self.0, &*other.0);
        Arc::ptr_eq(&self.0, &other.0) || a.digits == b.digits && a.plaintext == b.plaintext && a.ring.is(&b.ring)
    }
}

impl Eq for LatticeParameters {}

impl fmt::Debug for LatticeParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (degree, bits) = (self.degree(), self.0.log_qp);
        write!(f, "N = {degree}, {bits} bits in {} + {} primes", self.data_primes(), self.0.ring.special_primes().len())
    }
}

/// Bits of a product.
fn product_bits<'a>(factors: impl Iterator<Item = &'a u64>) -> u32 {
    let mut words = vec![1u64];
    for factor in factors {
        let mut carry = 0;
        for word in &mut words {
            let product = u128::from(*word) * u128::from(*factor) + carry;
            (*word, carry) = (product as u64, product >> 64);
        }
        words.push(carry as u64);
        while words.last() == Some(&0) {
            words.pop();
        }
    }
    words.len() as u32 * 64 - words.last().map_or(0, |word| word.leading_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_above_the_table_are_refused_and_toys_say_that_they_are() {
        let of = |degree, data: &[u32], special: &[u32]| {
            LatticeParameters::of_sizes(degree, data, special, 1, Plaintext::Approximate)
        };
        assert!(of(1 << 12, &[36, 35], &[35]).is_ok());
        let refused = of(1 << 12, &[36, 36], &[35]).unwrap_err();
        assert_eq!(refused, LatticeError::Insecure { degree: 1 << 12, most: 106, found: 107 });
        assert!(refused.to_string().contains("at most 106 bits") && refused.to_string().contains("found 107"));
        assert_eq!(of(64, &[20], &[]).unwrap_err(), LatticeError::Insecure { degree: 64, most: 0, found: 20 });
        let toy = LatticeParameters::insecure_of_sizes(64, &[20], &[], 1, Plaintext::Approximate).unwrap();
        assert_eq!(toy.security(), None);
    }

    #[test]
    fn the_level_is_the_strongest_that_holds() {
        let level = |bits: &[u32]| {
            LatticeParameters::of_sizes(1 << 13, bits, &[], 1, Plaintext::Approximate).unwrap().security()
        };
        assert_eq!(level(&[50, 50, 14 + 30]), Some(Security::Bits192)); // 144 bits
        assert_eq!(level(&[50, 49]), Some(Security::Bits256));
        assert_eq!(level(&[50, 50, 50, 50]), Some(Security::Bits128));
        for security in Security::ALL {
            let row: Vec<u32> = (10..=17).filter_map(|log| security.max_log_qp(1 << log)).collect();
            assert!(row.windows(2).all(|pair| pair[1] > 2 * pair[0] - 2 && pair[1] < 2 * pair[0] + 40), "{row:?}");
        }
    }

    #[test]
    fn the_table_is_that_of_the_guidelines() {
        let path = format!("{}/../../vectors/lattice/security.txt", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let line = |line: &str| -> [u32; 3] {
            let numbers: Vec<u32> = line.split(' ').map(|number| number.parse().unwrap()).collect();
            numbers.try_into().unwrap()
        };
        let published: Vec<[u32; 3]> = text.lines().filter(|line| !line.starts_with('#')).map(line).collect();
        assert_eq!(published.len(), 22);
        for (log_degree, security) in (0..40).flat_map(|log| Security::ALL.map(|security| (log, security))) {
            let of = |[log, bits, _]: &&[u32; 3]| *log == log_degree && *bits == security.bits();
            let expected = published.iter().find(of).map(|[.., bits]| *bits);
            assert_eq!(security.max_log_qp(1 << log_degree), expected, "2^{log_degree}, {security:?}");
            assert_eq!(security.max_log_qp((1 << log_degree) + 1), None, "no power of two");
        }
    }

    #[test]
    fn moduli_and_digits_that_do_not_fit_are_refused() {
        let t = Modulus::new(65_537).unwrap();
        let of = |data: &[u64], digits| {
            LatticeParameters::insecure_for_tests(64, data, &[], digits, Plaintext::Integers(t)).unwrap_err()
        };
        assert_eq!(of(&[65_537], 1), LatticeError::PlaintextModulus { found: 65_537 });
        for digits in [0, 2] {
            assert_eq!(of(&[786_433], digits), LatticeError::Digits { most: 1, found: digits });
        }
        let sizes = LatticeParameters::of_sizes(1 << 14, &[15], &[], 1, Plaintext::Approximate).unwrap_err();
        assert_eq!(sizes, LatticeError::Size { bits: 15, step: 1 << 15 });
    }

    #[test]
    fn parameters_are_equal_if_all_their_numbers_are() {
        let integers = |t| Plaintext::Integers(Modulus::new(t).unwrap());
        let of = |degree, data: &[u64], special: &[u64], digits, plaintext| {
            LatticeParameters::insecure_for_tests(degree, data, special, digits, plaintext).unwrap()
        };
        let q: Vec<u64> = primes_below(40, 256).take(4).collect();
        let one = || of(64, &q[..3], &q[3..], 2, integers(257));
        assert!(one() == one() && one().clone() == one());
        for (kind, other) in [
            ("degree", of(128, &q[..3], &q[3..], 2, integers(257))),
            ("one prime less", of(64, &q[..2], &q[3..], 2, integers(257))),
            ("another prime", of(64, &[q[0], q[1], 786_433], &q[3..], 2, integers(257))),
            ("another special prime", of(64, &q[..3], &[786_433], 2, integers(257))),
            ("a data prime as a special one", of(64, &q[..2], &q[2..], 2, integers(257))),
            ("order", of(64, &[q[1], q[0], q[2]], &q[3..], 2, integers(257))),
            ("digits", of(64, &q[..3], &q[3..], 3, integers(257))),
            ("modulus", of(64, &q[..3], &q[3..], 2, integers(263))),
            ("kind of messages", of(64, &q[..3], &q[3..], 2, Plaintext::Approximate)),
        ] {
            assert!(one() != other && other != one(), "{kind}");
        }
    }

    #[test]
    fn bits_of_products_are_counted_exactly() {
        assert_eq!(product_bits([].iter()), 1);
        assert_eq!(product_bits([1 << 32, 1 << 32].iter()), 65);
        assert_eq!(product_bits([u64::MAX, 1, u64::MAX].iter()), 128);
        assert_eq!(product_bits([(1 << 50) - 27; 70].iter()), 3500);
    }
}
