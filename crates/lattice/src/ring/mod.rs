//! The ring `R_Q = Z_Q[X]/(X^N + 1)`, `N` a power of two, in residues.
//!
//! `Q` is a product of distinct primes below 2^50, each 1 modulo `2N`. By the Chinese remainder
//! theorem an element of `R_Q` is one row of `N` residues for each prime, and additions, products
//! and transforms work on rows, one at a time ([`ntt`](Ntt)). Only operations that depend on the
//! size of `Q` need several rows at once: [`Conversion`], [`Division`].
//!
//! | object | is |
//! |---|---|
//! | [`Modulus`] | arithmetic modulo one number |
//! | [`Ntt`] | coefficients to values and back, modulo one prime |
//! | [`Ring`] | `N` and a chain of **data** primes and **special** primes, with their tables |
//! | [`Basis`] | some of a ring's primes: the first data primes, and all special ones or none |
//! | [`Poly`] | an element over a basis; its form, [`Coeff`] or [`Eval`], is its type |
//! | [`Conversion`] | conversion from some primes to others |
//! | [`Division`] | division by some primes, with rounding |
//! | [`Reconstruction`] | coefficients as integers |
//! | [`WeightMatrix`] | small integers, by which many elements are summed at once |
//! | [`Seed`], [`Stream`] | the source of random elements |
//!
//! Ciphertexts lose the data primes one by one. Only keys have the special primes.
//!
//! Products work on values; rounding, lifting and decoding work on coefficients. Types state the
//! required form, so that no transform is forgotten or repeated.

mod conversion;
mod division;
mod forms;
mod ntt;
mod poly;
mod prime;
mod reconstruction;
mod sample;
mod weighted;

pub use conversion::Conversion;
pub use division::{Division, Rounding};
pub(crate) use division::{GROUP, combine_blocks};
pub(crate) use forms::FormWeights;
pub use ntt::Ntt;
pub(crate) use ntt::reverse;
pub use poly::{Automorphism, Basis, Coeff, Eval, Form, Poly};
pub use prime::{is_prime, primes_below};
pub use reconstruction::{Reconstruction, Signed};
pub use sample::{Domain, SEED_BYTES, Seed, Stream};
pub use weighted::ProductSums;

pub use crate::kernels::{Factor, MAX_BITS, MAX_INPUTS, Modulus, WeightMatrix};
use std::sync::Arc;
use tobari_simd::{Buffer, Pool};

/// The largest degree.
pub const MAX_DEGREE: usize = 1 << 17;
/// The most primes of a ring.
pub const MAX_PRIMES: usize = 96;
/// The smallest degree.
pub const MIN_DEGREE: usize = 1 << 3;

/// `N`, and the primes with their tables.
///
/// ```
/// use tobari_lattice::ring::{Ring, primes_below};
/// let primes: Vec<u64> = primes_below(50, 1 << 12).take(3).collect();
/// let ring = Ring::new(1 << 11, &primes[..2], &primes[2..])?;
/// assert_eq!((ring.degree(), ring.data_primes().len(), ring.special_primes().len()), (2048, 2, 1));
/// # Ok::<(), tobari_lattice::ring::RingError>(())
/// ```
#[derive(Debug)]
pub struct Ring {
    degree: usize,
    data: usize,
    /// Data primes, then special ones.
    rows: Vec<Ntt>,
    /// Memory of dropped elements, for reuse.
    pool: Arc<Pool>,
}

/// Why numbers do not define a ring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// The degree is not a power of two in the range.
    #[error("expected a degree that is a power of two from {MIN_DEGREE} to {MAX_DEGREE}, found {degree}")]
    Degree {
        /// The degree given.
        degree: usize,
    },
    /// No data prime, or too many primes.
    #[error("expected from 1 to {MAX_PRIMES} primes, at least one for data, found {found}")]
    Primes {
        /// Primes given, or 0 if there was no data prime.
        found: usize,
    },
    /// A modulus that is not a suitable prime.
    #[error("expected a prime below 2^{MAX_BITS} that is 1 modulo {step}, found {value}")]
    Prime {
        /// The modulus given.
        value: u64,
        /// `2N`.
        step: u64,
    },
    /// A prime given twice.
    #[error("expected distinct primes, found {value} twice")]
    Repeated {
        /// The prime.
        value: u64,
    },
}

impl Ring {
    /// The ring of degree `degree` over these primes.
    ///
    /// # Errors
    /// [`RingError`] for an invalid degree or invalid primes.
    pub fn new(degree: usize, data: &[u64], special: &[u64]) -> Result<Arc<Self>, RingError> {
        if !degree.is_power_of_two() || !(MIN_DEGREE..=MAX_DEGREE).contains(&degree) {
            return Err(RingError::Degree { degree });
        }
        let all: Vec<u64> = data.iter().chain(special).copied().collect();
        if data.is_empty() || all.len() > MAX_PRIMES {
            return Err(RingError::Primes { found: if data.is_empty() { 0 } else { all.len() } });
        }
        if let Some(i) = (1..all.len()).find(|&i| all[..i].contains(&all[i])) {
            return Err(RingError::Repeated { value: all[i] });
        }
        let table = |&value: &u64| {
            let prime = Modulus::new(value).filter(|_| is_prime(value));
            prime.and_then(|q| Ntt::new(q, degree)).ok_or(RingError::Prime { value, step: 2 * degree as u64 })
        };
        let mut rows = Vec::with_capacity(all.len());
        for value in &all {
            rows.push(table(value)?);
        }
        Ok(Arc::new(Self { degree, data: data.len(), rows, pool: Arc::default() }))
    }

    /// `N`.
    pub fn degree(&self) -> usize {
        self.degree
    }

    /// Is it the ring of the same degree and primes? The tables may stand twice in memory.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let primes = |ring: &Self| ring.rows.iter().map(|row| row.modulus().value()).collect::<Vec<_>>();
        std::ptr::eq(self, other)
            || self.degree == other.degree && self.data == other.data && primes(self) == primes(other)
    }

    /// The tables of the data primes.
    pub fn data_primes(&self) -> &[Ntt] {
        &self.rows[..self.data]
    }

    /// The tables of the special primes.
    pub fn special_primes(&self) -> &[Ntt] {
        &self.rows[self.data..]
    }

    /// The first `data` data primes.
    ///
    /// # Panics
    /// Unless `data` is from 1 to the number of data primes.
    pub fn basis(&self, data: usize) -> Basis {
        assert!((1..=self.data).contains(&data), "from 1 to {} data primes, not {data}", self.data);
        Basis { data, special: 0 }
    }

    /// The first `data` data primes and all special ones.
    ///
    /// # Panics
    /// As [`Self::basis`].
    pub fn key_basis(&self, data: usize) -> Basis {
        Basis { special: self.rows.len() - self.data, ..self.basis(data) }
    }

    /// The tables of a basis, row by row.
    pub(crate) fn tables(&self, basis: Basis) -> impl Iterator<Item = &Ntt> {
        self.rows[..basis.data].iter().chain(&self.rows[self.data..][..basis.special])
    }

    /// All words in the pool.
    #[cfg(test)]
    pub(crate) fn kept_words(&self) -> Vec<u64> {
        self.pool.kept()
    }

    /// `rows` rows of any content.
    pub(crate) fn scratch(&self, rows: usize) -> Buffer {
        Buffer::any(&self.pool, rows * self.degree)
    }

    /// The table of row `row` of a basis.
    pub(crate) fn table(&self, basis: Basis, row: usize) -> &Ntt {
        &self.rows[self.place(basis, row)]
    }

    /// The place of row `row` of a basis among all rows of the ring.
    pub(crate) fn place(&self, basis: Basis, row: usize) -> usize {
        if row < basis.data { row } else { self.data + row - basis.data }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_ring_is_refused_with_its_reason() {
        let primes: Vec<u64> = primes_below(50, 1 << 12).take(3).collect();
        let of = |degree, data: &[u64], special: &[u64]| Ring::new(degree, data, special).map(|_| ()).unwrap_err();
        for degree in [0, 1, 4, 1000, 1 << 18] {
            assert_eq!(of(degree, &primes, &[]), RingError::Degree { degree });
        }
        assert_eq!(of(1 << 11, &[], &primes), RingError::Primes { found: 0 });
        assert_eq!(of(1 << 11, &primes, &[97; 94]), RingError::Primes { found: 97 });
        assert_eq!(of(1 << 11, &primes, &primes[2..]), RingError::Repeated { value: primes[2] });
        // composite; no residue 1; too large
        for value in [4097 * 4097, 65_539, (1 << 50) + 0x1_0001] {
            assert_eq!(of(1 << 11, &[value], &[]), RingError::Prime { value, step: 1 << 12 });
        }
        assert!(of(1 << 17, &[65_537], &[]).to_string().contains("1 modulo 262144, found 65537"));
    }
}
