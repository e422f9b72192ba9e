//! The paper's algorithm, as a reference job: the positional Burrows-Wheeler transform under
//! encryption.
//!
//! **Do not use this for searches.** [`super`] answers the same question thousands of times faster.
//! There the transform is an index of plain data on its owner's machine, and the only encrypted
//! computation is one comparison with the index. The statement about privacy is the same for
//! semi-honest parties. This job exists for comparison with the paper (A. Hiroe and M. Oguchi's,
//! after Ishimaki and others 2016), whose program evaluates the transform itself with
//! bootstrapping. It is also a job with more keys, plaintexts and ciphertexts than a small memory
//! holds.
//!
//! **Computation.** At site `k` of a window, the `M` haplotypes are in the order of their reversed
//! prefixes since the window's first site. The haplotypes that match the query so far are an
//! interval `[f, g)` of that order, at first all of it. With the query's next allele `a` the
//! interval becomes
//!
//! ```text
//! f' = rank_a(f),    g' = rank_a(g)          (for a = 1 behind all zeros)
//! ```
//!
//! The answer is `g - f` after the last site. The server has the ranks; alleles, `f` and `g` are
//! encrypted.
//!
//! **Maps.** An interval is the vector `I` that is 1 at its places and 0 elsewhere: the difference
//! of the unary `f` and `g`. Both maps are linear on `I`. A place with allele `a` moves to its rank
//! among the places with `a`; all other places vanish. So
//!
//! ```text
//! I' = (1 - b) P_0 I + b P_1 I,
//! ```
//!
//! This is a selection between two public linear maps by the encrypted allele `b`. The two rows of
//! a ciphertext's slots hold the two maps: both rows hold `I`, `P_0` maps the first row, and `P_1`
//! maps the second row. The client's ciphertext of a symbol has `1 - b` in its first row and `b` in
//! its second. So **one** product of ciphertexts selects; swapping the rows and adding brings the
//! sum back to both rows. Before the first symbol `I` is public, so it needs a mask and no map.
//! After the last symbol the program needs only the length of the interval: the number of its
//! places with the last allele. This takes a mask again, and a sum over the slots.
//!
//! **Diagonals.** A zero at place `i` moves by the ones before it. A one moves by the zeros before
//! it, and on behind all zeros. If positions in the new order are counted from its ones on (on a
//! circle of `n`, the power of two from `M` on), the distance is `Z + rank_1(i)` or `rank_0(i)`,
//! where `Z` is the number of all zeros. This is from 0 to `M` for every panel. So a map always has
//! `M + 1` diagonals, and neither the operations nor their time tell anything about the panel.
//! Diagonals are summed by baby steps, rotations of one hoisted ciphertext, and by giant steps in
//! Horner's order, which need one key. `C/n` places of the panel are searched side by side, in
//! interleaved slots: the paper's decoys for the start position. At a decoy place, both rows of the
//! symbols are 0, and so is the count.
//!
//! **Cost** for `M = 2,184`, `N = 2^15`: a symbol takes 2,185 products with plaintexts, 31 hoisted
//! and 69 other rotations, and one product of ciphertexts. Each plaintext is prepared from 130 kB
//! when it is used; a prepared one would be two megabytes, for one use. The noise of a symbol is
//! bounded by `29 + 11 + 30 + 1` bits ([`Layout::new`] has the sum), so ten symbols fit `Q` of 750
//! bits without bootstrapping.
//!
//! **Alternatives**, with the same ring:
//!
//! | encoding of the interval | rotations | plain products | keys | bits of noise | why not |
//! |---|---|---|---|---|---|
//! | this | 100 | `M + 1` | 34 | 71 | |
//! | [bits in CKKS](bits), refreshed | 27 | 80 | 60 | none is left | faster; for any length |
//! | `f` and `g` one-hot | 200 | `2 (M + 2)` | 34 | 71 | two maps, with no fewer diagonals |
//! | diagonals in copies of `I` | 55 | `(M + 1)/4` | 34 | 100 | at most seven symbols |
//! | a network of `log2 M` conditional shifts | 24 | 48 | 24 | 400 | its depth, without a refresh |
//! | only the nonzero diagonals | the column's runs | the same | `M` | 71 | reveals facts on the panel |
//! | `I` in the panel's own order | 0 | 1 | 0 | 61 | no transform is left |
//!
//! With copies of `I`, masks must separate the copies after each sum. This takes 30 bits, so seven
//! symbols fit at most. In the panel's own order, the maps cancel to a comparison with every
//! haplotype, which [`super`] does better.
//!
//! **Leakage.** A semi-honest server sees the places, the length of the pattern, and ciphertexts. A
//! semi-honest client sees the count at its place, and the number of haplotypes; the answer is
//! flooded ([`Layout::flood`]). A client that makes malformed ciphertexts learns more, and a server
//! may answer anything.

pub mod bits;
pub mod client;
pub mod maps;
pub mod program;

use tobari_lattice::params::{LatticeParameters, Plaintext};
use tobari_lattice::rlwe::flood_distance;

/// The parameter set for panels and lengths in practice.
pub const SET: &str = "pbwt";

/// An answer is within the statistical distance `2^-36` of one that depends on the count alone,
/// over all coefficients together ([`flood_distance`]). This uses the bounds on noise, which are
/// about ten bits a symbol above the measured noise.
pub const FLOOD_MARGIN: f64 = 36.0;

/// The longest pattern for 2,184 haplotypes; [`bits`] has no limit.
pub const LONGEST: usize = 10;

/// Data primes of an answer.
const ANSWER_PRIMES: usize = 2;

/// The size of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Haplotypes of the panel.
    pub haplotypes: usize,
    /// Places that are searched, including decoys.
    pub places: usize,
    /// Sites of a pattern.
    pub length: usize,
}

/// Why a search is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PbwtError {
    /// The parameters are not of exact integers.
    #[error("expected parameters of exact integers")]
    Scheme,
    /// The parameters are not of approximate numbers, or have other primes than a refresh needs.
    #[error("expected parameters of approximate numbers")]
    Approximate,
    /// No haplotype, or more than there are positions.
    #[error("expected 1 to {most} haplotypes, found {found}")]
    Panel {
        /// The most haplotypes.
        most: usize,
        /// The number found.
        found: usize,
    },
    /// No haplotype, or more than there are slots.
    #[error("expected 1 to {slots} haplotypes, fewer than {t}, found {found}")]
    Haplotypes {
        /// Slots of a row.
        slots: usize,
        /// The plaintext modulus.
        t: u64,
        /// The number found.
        found: usize,
    },
    /// No place, or more than fit side by side.
    #[error("expected 1 to {most} places, found {found}")]
    Places {
        /// The most places.
        most: usize,
        /// The number found.
        found: usize,
    },
    /// A pattern without a site, or one whose noise the modulus has no room for.
    #[error("expected a pattern of 1 to {most} sites, found {found}")]
    Length {
        /// The longest possible pattern.
        most: usize,
        /// The length found.
        found: usize,
    },
    /// A window with other sizes than the layout.
    #[error("expected {expected} {what}, found {found}")]
    Window {
        /// The unit of the numbers.
        what: &'static str,
        /// The expected number.
        expected: usize,
        /// The number found.
        found: usize,
    },
}

/// The arrangement of slots, and the levels. It follows from sizes and parameters alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    size: Size,
    /// Slots of a row.
    columns: usize,
    /// Positions of a circle: slot `stride s + p` is position `s` of place `p`.
    period: usize,
    babies: usize,
    primes: usize,
    flood: u16,
}

impl Layout {
    /// The layout of a search under these parameters. It begins with the fewest data primes whose
    /// bits hold the noise. With `F` for the noise of a fresh symbol, `E` for the norm of a
    /// plaintext, `D` for the number of diagonals, and `n` positions, the logarithm of the noise is
    /// at most
    ///
    /// ```text
    /// (F + E + 1) + (L - 2) (F + E + log2 D + 1) + (F + E + 1) + log2 n
    /// ```
    ///
    /// and a flood that hides the noise has to fit above.
    ///
    /// # Errors
    /// [`PbwtError`] for sizes that do not fit.
    pub fn new(parameters: &LatticeParameters, size: Size) -> Result<Self, PbwtError> {
        let Plaintext::Integers(t) = parameters.plaintext() else { return Err(PbwtError::Scheme) };
        let (columns, t) = (parameters.degree() / 2, t.value());
        let Size { haplotypes, places, length } = size;
        if haplotypes == 0 || haplotypes > columns || haplotypes as u64 >= t {
            return Err(PbwtError::Haplotypes { slots: columns, t, found: haplotypes });
        }
        let period = haplotypes.next_power_of_two().max(2);
        let most = columns / period;
        if !(1..=most).contains(&places) {
            return Err(PbwtError::Places { most, found: places });
        }
        let babies = 1 << ((haplotypes + 1).ilog2() / 2);
        let mut layout = Self { size, columns, period, babies, primes: 0, flood: 0 };
        let sizes = Bits::new(parameters);
        let longest = (1..).take_while(|length| layout.primes_for(&sizes, *length).is_some()).last().unwrap_or(0);
        layout.primes = layout
            .primes_for(&sizes, length)
            .filter(|_| length > 0)
            .ok_or(PbwtError::Length { most: longest, found: length })?;
        layout.flood = sizes.flood() as u16;
        Ok(layout)
    }

    /// Data primes at the start, for a pattern of so many sites.
    fn primes_for(&self, bits: &Bits, length: usize) -> Option<usize> {
        let masked = bits.fresh + bits.plain + 1.0;
        let mapped = masked + (self.diagonals() as f64).log2();
        let masks = length.min(2) as f64;
        let noise = masks * masked + length.saturating_sub(2) as f64 * mapped + (self.period as f64).log2();
        // a product of ciphertexts takes a prime, and the flood has to hide all noise that is left
        let room = noise + bits.answer + flood_distance(FLOOD_MARGIN - bits.t, bits.flood() as u32);
        let fits = |primes: &usize| bits.primes[..*primes].iter().sum::<f64>() >= room;
        (ANSWER_PRIMES + length.saturating_sub(1)..=bits.primes.len()).find(fits)
    }

    /// The size of the search.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Slots of a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Positions of the circle that holds an order.
    pub fn period(&self) -> usize {
        self.period
    }

    /// Slots from one position to the next: so many places fit side by side.
    pub fn stride(&self) -> usize {
        self.columns / self.period
    }

    /// Diagonals of each map: the largest move of a place, plus one.
    pub fn diagonals(&self) -> usize {
        self.size.haplotypes + 1
    }

    /// Diagonals of a giant step.
    pub fn babies(&self) -> usize {
        self.babies
    }

    /// Data primes of the first symbol, and of keys.
    pub fn primes(&self) -> usize {
        self.primes
    }

    /// The level, counted in products that are left, of the symbol of a site, and of that site's
    /// maps and masks.
    pub fn level(&self, site: usize) -> u16 {
        (self.primes - 1 - site.saturating_sub(1)) as u16
    }

    /// The level of the last product's result.
    pub fn last_level(&self) -> u16 {
        (self.primes - self.size.length) as u16
    }

    /// Bits of an answer's flood: all the room in an answer's primes.
    pub fn flood(&self) -> u16 {
        self.flood
    }
}

/// Logarithms that decide whether parameters are large enough.
struct Bits {
    primes: Vec<f64>,
    /// Bits of an answer's primes.
    answer: f64,
    t: f64,
    /// The phase of a fresh ciphertext: any message, and an error with the secret key.
    fresh: f64,
    /// A plaintext whose coefficients look random: `N t/4`, and a little.
    plain: f64,
}

impl Bits {
    fn new(parameters: &LatticeParameters) -> Self {
        let log2 = |x: u64| (x as f64).log2();
        let primes: Vec<f64> =
            parameters.ring().data_primes().iter().map(|prime| log2(prime.modulus().value())).collect();
        let (n, t) = (log2(parameters.degree() as u64), log2(parameters.error_factor()));
        // N errors with a deviation of 3.2: six deviations in every root
        let error = t + (6.0 * 3.2f64).log2() + n / 2.0;
        let fresh = ((n + t - 1.0).exp2() + error.exp2()).log2();
        let answer = primes.iter().take(ANSWER_PRIMES).sum();
        Self { primes, answer, t, fresh, plain: n + t - 2.0 + 0.2 }
    }

    /// The most bits that leave the phase of an answer below half its modulus.
    fn flood(&self) -> f64 {
        (self.answer - self.t - 3.0).floor().max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tobari_lattice::params::NamedSet;

    #[test]
    fn ten_symbols_fit_the_set_and_eleven_do_not() {
        let parameters = NamedSet::from_name(SET).unwrap().parameters().unwrap();
        let of = |haplotypes, length| Layout::new(&parameters, Size { haplotypes, places: 1, length });
        for haplotypes in [1, 2_184] {
            let primes: Vec<usize> = (1..=10).map(|length| of(haplotypes, length).unwrap().primes()).collect();
            assert!(primes.is_sorted() && primes[9] <= 15, "{primes:?}");
        }
        let longer = of(2_184, LONGEST + 1).unwrap_err();
        assert_eq!(longer, PbwtError::Length { most: LONGEST, found: 11 });
        // each doubling of the panel takes one more bit for every map
        assert_eq!(of(4_096, 10).unwrap_err(), PbwtError::Length { most: 9, found: 10 });
        assert_eq!(of(2_184, 0).unwrap_err(), PbwtError::Length { most: 10, found: 0 });
        assert_eq!(of(5_008, 9).unwrap().period(), 8_192);
        let layout = of(2_184, 5).unwrap();
        assert_eq!((layout.period(), layout.stride(), layout.diagonals(), layout.babies()), (4_096, 4, 2_185, 32));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let parameters = NamedSet::from_name(SET).unwrap().parameters().unwrap();
        let of = |haplotypes, places| Layout::new(&parameters, Size { haplotypes, places, length: 2 }).unwrap_err();
        assert!(
            matches!(of(0, 1), PbwtError::Haplotypes { .. }) && matches!(of(16_385, 1), PbwtError::Haplotypes { .. })
        );
        assert_eq!([of(2_184, 0), of(2_184, 5)], [0, 5].map(|found| PbwtError::Places { most: 4, found }));
        let other = NamedSet::from_name("ckks-a").unwrap().parameters().unwrap();
        let size = Size { haplotypes: 1, places: 1, length: 1 };
        assert_eq!(Layout::new(&other, size).unwrap_err(), PbwtError::Scheme);
    }
}
