//! The primes of a circuit, and the factors that follow from them.
//!
//! **The goal.** Let `f` be the factor of a round's input characters. The products of the round are
//! divided by the primes `q_A …`, in this order: pairs `A`, products of pairs `B`, forms `C`,
//! squares of sums `D`, squares of squares `E`, the last product of an exclusive or `F`. Modulo
//! `t`:
//!
//! ```text
//! value                          factor
//! products of two characters     f^2/q_A
//! products of three              f^3/(q_A q_B)
//! products of four               f^4/(q_A^2 q_B)      these three are f if q_A = q_B = f
//! forms y, and sums of forms     f_y = 64 f^2/q_C
//! squares Z of sums              f_Z = f_y^2/q_D
//! squares U of squares           f_U = f_Z^2/q_E
//! U - 112 Z                      f_U                  the phase of U minus the phase of Z,
//!                                                     if f_U = f_Z/112: q_E = 112 f_Z
//! result                         40320 f_U^2/q_F      must be the f of the next round:
//!                                                     q_F = 40320 f_U^2/f
//! ```
//!
//! Primes are 1 modulo `2^18`. A residue modulo `t` then leaves one number in `2^37.6`, and one in
//! fifteen of these is prime at 43 bits, so there are enough primes. `q_A` is the first prime above
//! 2^41 that has another of the same residue nearby; everything else is determined.
//!
//! The key holder makes each ciphertext with the factor that its place of use needs.

use std::collections::BTreeSet;
use tobari_lattice::params::{LatticeError, LatticeParameters, Plaintext};
use tobari_lattice::ring::{Modulus, is_prime, primes_below};

use super::cipher::ROUNDS;

/// The plaintext modulus.
pub const MODULUS: u64 = 786_433;
/// The ring degree `N`.
pub const DEGREE: usize = 1 << 17;
/// All primes are 1 modulo this.
const STEP: u64 = 1 << 18;
/// Products that results can still bear.
pub const PRODUCTS: usize = 3;
/// Digits of a key switch.
const DIGITS: usize = 3;
/// Special primes, of 50 bits.
const SPECIAL: usize = 18;

/// The characters of a round's input that are available without a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Characters {
    /// The eight bits of the byte.
    Bits,
    /// The bits, and two pairs in each nibble.
    Pairs,
    /// All fifteen characters of each nibble.
    Nibbles,
}

impl Characters {
    /// The masks of these characters.
    pub fn masks(self) -> Vec<u8> {
        use super::characters::mask;
        let numbers: &[usize] = match self {
            Characters::Bits => &[1, 2, 4, 8],
            Characters::Pairs => &[1, 2, 3, 4, 8, 12],
            Characters::Nibbles => &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        };
        (0..2).flat_map(|nibble| numbers.iter().map(move |number| mask(nibble, *number))).collect()
    }

    /// Levels that the remaining characters take.
    fn levels(self) -> usize {
        match self {
            Characters::Bits => 2,
            Characters::Pairs => 1,
            Characters::Nibbles => 0,
        }
    }
}

/// The characters with which each round begins.
pub const SCHEDULE: [Characters; ROUNDS] = {
    use Characters::{Bits, Nibbles, Pairs};
    [Nibbles, Bits, Bits, Bits, Bits, Bits, Pairs, Pairs, Pairs, Pairs]
};

/// The numbers of data primes of a round's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// Primes of the round's input.
    pub input: usize,
    /// Primes of the lowest characters of nibbles.
    pub characters: usize,
    /// Primes of the S-boxes' outputs, and of sums of these.
    pub forms: usize,
}

/// The primes, levels and factors of a circuit.
#[derive(Clone, Debug)]
pub struct Chain {
    schedule: [Characters; ROUNDS],
    levels: [Levels; ROUNDS],
    data: Vec<u64>,
    special: Vec<u64>,
    first: u64,
    rounds: [u64; ROUNDS],
}

/// The circuit needs a prime that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected primes for every product of the circuit, found none of {bits} bits")]
pub struct NoPrime {
    /// The size of the prime in bits.
    bits: u32,
}

impl Chain {
    /// The chain of the product, with [`SCHEDULE`].
    ///
    /// # Errors
    /// [`NoPrime`] for schedules with more rounds; it cannot occur for this schedule.
    pub fn new() -> Result<Self, NoPrime> {
        Self::of(SCHEDULE)
    }

    /// The chain of a schedule.
    ///
    /// # Errors
    /// [`NoPrime`].
    pub fn of(schedule: [Characters; ROUNDS]) -> Result<Self, NoPrime> {
        let mut levels = [Levels { input: 0, characters: 0, forms: 0 }; ROUNDS];
        // the last prime, the products that are left, and the product with the last round key
        let mut input = PRODUCTS + 2;
        for (round, characters) in schedule.iter().enumerate().rev() {
            let forms = if round == ROUNDS - 1 { input } else { input + 3 };
            input = forms + 1 + characters.levels();
            levels[round] = Levels { input, characters: forms + 1, forms };
        }
        Primes::new(input + 1)?.into_chain(schedule, levels)
    }

    /// The characters with which each round begins.
    pub fn schedule(&self) -> &[Characters; ROUNDS] {
        &self.schedule
    }

    /// The levels of a round, counted from 1.
    ///
    /// # Panics
    /// If there is no such round.
    pub fn levels(&self, round: usize) -> Levels {
        self.levels[round - 1]
    }

    /// The number of data primes.
    pub fn data_primes(&self) -> usize {
        self.data.len()
    }

    /// The factor of the encrypted first round key.
    pub fn first_factor(&self) -> u64 {
        self.first
    }

    /// The factor of the encrypted key at the end of a round.
    ///
    /// # Panics
    /// If there is no such round.
    pub fn round_factor(&self, round: usize) -> u64 {
        self.rounds[round - 1]
    }

    /// The number of special primes.
    pub fn special_primes(&self) -> usize {
        self.special.len()
    }

    /// Digits of a key switch.
    pub fn digits(&self) -> usize {
        DIGITS
    }

    /// The least `b` with `Q P < 2^b`, without making the parameters, which have tables of hundreds
    /// of megabytes.
    pub fn log_qp(&self) -> u32 {
        self.data.iter().chain(&self.special).map(|prime| (*prime as f64).log2()).sum::<f64>().ceil() as u32
    }

    /// The lattice parameters, at `N = 2^17`.
    ///
    /// # Errors
    /// [`LatticeError`] for a chain with too many bits; it cannot occur for the chain of the
    /// product.
    pub fn parameters(&self) -> Result<LatticeParameters, LatticeError> {
        LatticeParameters::new(DEGREE, &self.data, &self.special, DIGITS, plaintext()?)
    }

    /// The same primes at a degree that protects nothing: **for tests of the circuit alone**.
    ///
    /// # Errors
    /// [`LatticeError`] for an invalid degree.
    pub fn insecure_test_parameters(&self, degree: usize) -> Result<LatticeParameters, LatticeError> {
        LatticeParameters::insecure_for_tests(degree, &self.data, &self.special, DIGITS, plaintext()?)
    }
}

fn plaintext() -> Result<Plaintext, LatticeError> {
    let t = Modulus::new(MODULUS).ok_or(LatticeError::PlaintextModulus { found: MODULUS })?;
    Ok(Plaintext::Integers(t))
}

/// Primes while the chain is built.
struct Primes {
    t: Modulus,
    taken: BTreeSet<u64>,
    data: Vec<u64>,
}

impl Primes {
    fn new(count: usize) -> Result<Self, NoPrime> {
        let t = Modulus::new(MODULUS).ok_or(NoPrime { bits: 20 })?;
        Ok(Self { t, taken: BTreeSet::from([MODULUS]), data: vec![0; count] })
    }

    fn into_chain(mut self, schedule: [Characters; ROUNDS], levels: [Levels; ROUNDS]) -> Result<Chain, NoPrime> {
        let top = self.data.len();
        let first = self.put(top, Self::below(33))?;
        let mut inputs = Vec::with_capacity(ROUNDS);
        for (characters, levels) in schedule.iter().zip(&levels) {
            inputs.push(self.monomials(*characters, levels.input)?);
        }
        let mut rounds = [1; ROUNDS];
        for round in 0..ROUNDS {
            let at = levels[round].forms;
            let form = self.put(at + 1, Self::below(50))?;
            let factor = self.over(&[64, inputs[round], inputs[round]], form);
            if round == ROUNDS - 1 {
                // the last key is divided by the prime of this form before its use
                rounds[round] = self.residue(form);
                break;
            }
            rounds[round] = factor;
            let square = self.put(at, Self::below(50))?;
            let square = self.over(&[factor, factor], square);
            let fourth = self.put(at - 1, self.of_class(self.t.mul(112, square), 42))?;
            let fourth = self.over(&[square, square], fourth);
            let wanted = self.over(&[40_320, fourth, fourth], inputs[round + 1]);
            self.put(at - 2, self.of_class(wanted, 43))?;
        }
        self.put(PRODUCTS + 2, Self::below(48))?;
        for level in 2..PRODUCTS + 2 {
            self.put(level, Self::below(43))?;
        }
        self.put(1, Self::below(46))?;
        let mut special = Vec::with_capacity(SPECIAL);
        for _ in 0..SPECIAL {
            special.push(self.next(&mut Self::below(50))?);
        }
        let first = self.t.mul(self.residue(first), inputs[0]);
        Ok(Chain { schedule, levels, data: self.data, special, first, rounds })
    }

    /// The primes of a round's monomials, and the factor that its input must have.
    fn monomials(&mut self, characters: Characters, input: usize) -> Result<u64, NoPrime> {
        if characters == Characters::Nibbles {
            return Ok(1);
        }
        let mut first = self.of_class_one();
        let factor = loop {
            let prime = self.next(&mut first)?;
            let like =
                (1..4).map(|i| prime + i * STEP * MODULUS).find(|like| is_prime(*like) && !self.taken.contains(like));
            let Some(like) = like else { continue };
            self.data[input - 1] = prime;
            if characters == Characters::Bits {
                self.taken.insert(like);
                self.data[input - 2] = like;
            }
            break self.residue(prime);
        };
        Ok(factor)
    }

    /// Takes the first free prime of these as the last prime of ciphertexts at a level.
    fn put(&mut self, level: usize, mut from: Box<dyn Iterator<Item = u64>>) -> Result<u64, NoPrime> {
        let prime = self.next(&mut from)?;
        self.data[level - 1] = prime;
        Ok(prime)
    }

    fn next(&mut self, from: &mut impl Iterator<Item = u64>) -> Result<u64, NoPrime> {
        let prime = from.find(|prime| !self.taken.contains(prime)).ok_or(NoPrime { bits: 50 })?;
        self.taken.insert(prime);
        Ok(prime)
    }

    /// The largest primes of this bit length, descending.
    fn below(bits: u32) -> Box<dyn Iterator<Item = u64>> {
        Box::new(primes_below(bits, STEP))
    }

    /// Primes from 2^41 up.
    fn of_class_one(&self) -> Box<dyn Iterator<Item = u64>> {
        Box::new(((1u64 << 41) / STEP..(1 << 42) / STEP).map(|z| z * STEP + 1).filter(|prime| is_prime(*prime)))
    }

    /// Primes of this residue modulo `t`, from `2^bits` up.
    fn of_class(&self, residue: u64, bits: u32) -> Box<dyn Iterator<Item = u64>> {
        // 1 + STEP z, z = (residue - 1)/STEP modulo t
        let t = self.t;
        let inverse = t.inverse(STEP % MODULUS).unwrap_or_else(|| unreachable!("t is odd"));
        let start = t.mul(t.sub(residue, 1), inverse);
        let turns = (1u64 << bits) / (STEP * MODULUS)..(1 << 50) / (STEP * MODULUS);
        let number = turns.map(move |turn| 1 + STEP * (start + turn * MODULUS));
        Box::new(number.filter(|number| *number < 1 << 50 && is_prime(*number)))
    }

    fn residue(&self, prime: u64) -> u64 {
        self.t.reduce(prime)
    }

    /// A product modulo `t`, divided by a divisor.
    fn over(&self, factors: &[u64], divisor: u64) -> u64 {
        let inverse = self.t.inverse(self.residue(divisor)).unwrap_or_else(|| unreachable!("primes are units"));
        factors.iter().fold(inverse, |product, factor| self.t.mul(product, *factor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tobari_lattice::params::Security;

    #[test]
    fn the_chain_of_the_product_has_128_bits_of_security_and_digits_that_special_primes_outweigh() {
        let chain = Chain::new().unwrap();
        let parameters = chain.parameters().unwrap();
        assert_eq!(parameters.security().map(Security::bits), Some(128));
        assert!(parameters.log_qp() <= 3_523, "{} bits", parameters.log_qp());
        assert_eq!((chain.log_qp(), chain.digits()), (parameters.log_qp(), parameters.digits()));
        let bits = |primes: &[u64]| primes.iter().map(|prime| (*prime as f64).log2()).sum::<f64>();
        let widest = chain.data.chunks(parameters.digit_size()).map(bits).fold(0.0, f64::max);
        // a rotation then adds no more noise than rounding
        assert!(bits(&chain.special) - widest > 8.0, "{widest} bits of {}", bits(&chain.special));
        assert!(chain.data.iter().all(|prime| *prime > MODULUS));
    }

    #[test]
    fn levels_follow_each_other_down_to_the_products_that_are_left() {
        for schedule in [SCHEDULE, [Characters::Bits; ROUNDS], [Characters::Pairs; ROUNDS]] {
            let chain = Chain::of(schedule).unwrap();
            assert_eq!(chain.data_primes(), chain.levels(1).input + 1);
            for round in 1..ROUNDS {
                assert_eq!(chain.levels(round).forms - 3, chain.levels(round + 1).input);
            }
            assert_eq!(chain.levels(ROUNDS).forms, PRODUCTS + 2);
            let mut all = [&chain.data[..], &chain.special].concat();
            all.sort_unstable();
            assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "distinct");
        }
    }
}
