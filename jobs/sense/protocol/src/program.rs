//! The computations on any machine: on plaintext, recorded, or under encryption.
//!
//! **The transform back.** With `ω = ψ²`, `j = j_1 + 16 j_2` and `k = 16 k_1 + k_2`, a block's
//! coefficient `k` is
//!
//! ```text
//! ψ^-k / 256 · Σ_(j_1) ω^(-16 j_1 k_1) · ω^(-j_1 k_2) Σ_(j_2) ω^(-16 j_2 k_2) x_j,
//! ```
//!
//! where the inner sum is over values 16 positions apart, and the outer one over neighbours. The
//! result of the inner sum is stored 16 positions further on, so that the neighbours of the outer
//! sum lie 1 to 31 positions ahead. Both maps are grids of diagonals: four giant steps of 4 times
//! 16 positions with four baby steps, and two of 16 positions with 16.
//!
//! **Two keys are enough**, of rotations by 16 positions and by one: every other rotation repeats
//! one of these. Giant steps rotate the sum so far (Horner's rule). A key of a rotation is 10 to 14
//! MB, and a fleet's key holder sends all of them. One key for each rotation, with baby steps that
//! share digits, takes ten such keys.

use super::bounds::Scheme;
use super::interpolation::{ByteFunction, Points};
use super::layout::{Layout, of_coefficient};
use tobari_device::READINGS;
use tobari_lattice::ring::Modulus;
use tobari_plan::engine::Machine;
use tobari_plan::program::Op;

/// Baby steps of both maps.
pub const BABIES: [usize; 2] = [4, 16];
/// Giant steps of both maps.
pub const GIANTS: [usize; 2] = [4, 2];
/// Positions of a baby step.
const UNITS: [usize; 2] = [16, 1];
/// A giant step of a map: the map whose baby step is repeated, and how often.
const GIANT_STEPS: [(usize, usize); 2] = [(0, 4), (0, 1)];
/// Baby steps that are in memory at once.
const TURNED: usize = 4;

/// An input of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// The transforms of the `i`-th polynomials of a cohort's secrets, encrypted.
    Secret {
        /// The cohort of devices.
        cohort: usize,
        /// The number of the polynomial.
        i: usize,
    },
    /// `a_i^` of a term: public.
    Uniform {
        /// The term.
        term: usize,
        /// The number of the polynomial.
        i: usize,
    },
    /// `b^` of a term: public.
    Body(usize),
    /// A diagonal of one of the two maps, turned back by its giant step.
    Diagonal {
        /// The map.
        map: usize,
        /// The giant step.
        giant: usize,
        /// The baby step.
        baby: usize,
    },
    /// The coefficients of a polynomial.
    Polynomial(usize),
    /// The factors of a sum's blocks, and zeros in undeclared slots.
    Mask {
        /// The output.
        output: usize,
        /// The term of the output.
        term: usize,
    },
    /// Ones in the declared slots of results that fold blocks together, and zeros elsewhere.
    Declared,
    /// The key of a rotation.
    Rotation {
        /// The rotation in slots.
        steps: i64,
        /// The highest level at which it works.
        level: u16,
    },
    /// The key that swaps the rows.
    Swap {
        /// The highest level at which it works.
        level: u16,
    },
    /// The relinearization key.
    Relinearization {
        /// The highest level at which it works.
        level: u16,
    },
}

/// The inputs that subtract the secrets.
#[derive(Clone, Debug)]
pub struct Frames<V> {
    /// Secrets by cohort, then by polynomial.
    pub secrets: Vec<Vec<V>>,
    /// The cohort of each term.
    pub cohorts: Vec<usize>,
    /// The uniform halves by term, then by polynomial.
    pub uniform: Vec<Vec<V>>,
    /// The bodies by term.
    pub bodies: Vec<V>,
}

impl<V> Frames<V> {
    /// Makes all of these inputs with `make`; `cohorts` has the cohort of each term.
    ///
    /// # Errors
    /// Errors of `make`.
    pub fn new<E>(rank: usize, cohorts: Vec<usize>, make: &mut impl FnMut(Input) -> Result<V, E>) -> Result<Self, E> {
        let count = cohorts.iter().max().map_or(0, |most| most + 1);
        let mut secrets = Vec::with_capacity(count);
        for cohort in 0..count {
            secrets.push((0..rank).map(|i| make(Input::Secret { cohort, i })).collect::<Result<_, _>>()?);
        }
        let (mut uniform, mut bodies) = (Vec::with_capacity(cohorts.len()), Vec::with_capacity(cohorts.len()));
        for term in 0..cohorts.len() {
            uniform.push((0..rank).map(|i| make(Input::Uniform { term, i })).collect::<Result<_, _>>()?);
            bodies.push(make(Input::Body(term))?);
        }
        Ok(Self { secrets, cohorts, uniform, bodies })
    }

    /// Computes `b^ - Σ a_i^ s_i^` of a term.
    ///
    /// # Errors
    /// Errors of the machine.
    ///
    /// # Panics
    /// If there is no such term.
    pub fn phase<M: Machine<Value = V>>(&self, machine: &mut M, term: usize) -> Result<V, M::Error>
    where
        V: Clone,
    {
        let pairs: Vec<&V> =
            self.secrets[self.cohorts[term]].iter().zip(&self.uniform[term]).flat_map(|(s, a)| [s, a]).collect();
        let product = machine.step(Op::Dot, &pairs)?;
        machine.sub(&self.bodies[term], &product)
    }
}

/// The inputs of the transform back.
#[derive(Clone, Debug)]
pub struct Maps<V> {
    /// The diagonals by map, giant step and baby step.
    pub diagonals: [Vec<Vec<V>>; 2],
    /// The rotation keys of baby steps by map.
    pub units: [V; 2],
}

impl<V> Maps<V> {
    /// Makes all of these inputs with `make`. The first map works at this level, the second at the
    /// next lower one.
    ///
    /// # Errors
    /// Errors of `make`.
    pub fn new<E>(layout: &Layout, level: u16, make: &mut impl FnMut(Input) -> Result<V, E>) -> Result<Self, E> {
        let mut diagonals = |map: usize| -> Result<Vec<Vec<V>>, E> {
            let row = |giant| (0..BABIES[map]).map(|baby| make(Input::Diagonal { map, giant, baby })).collect();
            (0..GIANTS[map]).map(row).collect()
        };
        let diagonals = [diagonals(0)?, diagonals(1)?];
        let mut unit = |map: usize| {
            let level = level - map as u16;
            make(Input::Rotation { steps: layout.turn(UNITS[map]), level })
        };
        Ok(Self { diagonals, units: [unit(0)?, unit(1)?] })
    }

    /// Applies one map, at the level of `x`.
    ///
    /// # Errors
    /// Errors of the machine.
    pub fn apply<M: Machine<Value = V>>(
        &self,
        machine: &mut M,
        layout: &Layout,
        map: usize,
        x: &V,
    ) -> Result<V, M::Error>
    where
        V: Clone,
    {
        let turn =
            |machine: &mut M, value: &V, map: usize| machine.rotate(value, layout.turn(UNITS[map]), &self.units[map]);
        let mut parts: Vec<Option<V>> = vec![None; GIANTS[map]];
        let mut last: Option<V> = None;
        for first in (0..BABIES[map]).step_by(TURNED) {
            let mut turned = Vec::with_capacity(TURNED);
            for _ in 0..TURNED.min(BABIES[map] - first) {
                let next = match &last {
                    Some(last) => turn(machine, last, map)?,
                    None => x.clone(),
                };
                last = Some(next.clone());
                turned.push(next);
            }
            for (part, diagonals) in parts.iter_mut().zip(&self.diagonals[map]) {
                let pairs: Vec<&V> = turned.iter().zip(&diagonals[first..]).flat_map(|(a, d)| [a, d]).collect();
                let own = machine.step(Op::Dot, &pairs)?;
                *part = Some(match part.take() {
                    Some(part) => machine.add(&part, &own)?,
                    None => own,
                });
            }
        }
        let (of, times) = GIANT_STEPS[map];
        let mut sum: Option<V> = None;
        for part in parts.into_iter().flatten().rev() {
            sum = Some(match sum {
                Some(mut sum) => {
                    for _ in 0..times {
                        sum = turn(machine, &sum, of)?;
                    }
                    machine.add(&sum, &part)?
                }
                None => part,
            });
        }
        // the loop runs for two giant steps or more, so there is a sum
        Ok(sum.unwrap_or_else(|| x.clone()))
    }
}

/// The numbers of the transform back.
pub struct Transform {
    q: Modulus,
    /// `ψ^-i`.
    powers: Vec<u64>,
    inverse: u64,
}

impl Transform {
    /// The numbers for the root of the frames; `None` for a modulus without such a root.
    pub fn new(scheme: &Scheme, root: u32) -> Option<Self> {
        let q = Modulus::new(u64::try_from(scheme.modulus).ok()?)?;
        let inverse_root = q.inverse(root.into())?;
        let powers: Vec<u64> = (0..2 * READINGS as u64).map(|i| q.pow(inverse_root, i)).collect();
        let right = q.mul(powers[READINGS - 1], inverse_root) == q.value() - 1;
        Some(Self { inverse: q.inverse(READINGS as u64)?, powers, q }).filter(|_| right)
    }

    /// `ψ^-exponent`.
    fn power(&self, exponent: usize) -> u64 {
        self.powers[exponent % (2 * READINGS)]
    }

    /// The factor of a map at a position, for the value this many steps ahead.
    fn number(&self, map: usize, position: usize, step: usize) -> u64 {
        let (a, b) = (position / 16, position % 16);
        if map == 0 {
            // position (a, b) holds k_2 = a - 1 and j_1 = b; `step` positions of 16 ahead is j_2
            let (k2, j2) = ((a + 15) % 16, (a + step) % 16);
            return self.power(2 * b * k2 + 32 * j2 * k2);
        }
        // position (a, b) holds k_2 = a and k_1 = b; `step` ahead is j_1 = b + step - 16 of the
        // same k_2
        match (b + step).checked_sub(16) {
            Some(j1) if j1 < 16 => self.q.mul(self.inverse, self.power(16 * b + a + 32 * j1 * b)),
            _ => 0,
        }
    }

    /// The slots of [`Input::Diagonal`].
    pub fn diagonal(&self, layout: &Layout, map: usize, giant: usize, baby: usize) -> Vec<i64> {
        let mut slots = vec![0; layout.slots()];
        let (step, back) = (giant * BABIES[map] + baby, giant * BABIES[map] * UNITS[map]);
        for position in 0..READINGS {
            let number = self.q.centred(self.number(map, position, step));
            // the diagonal is turned back by the giant step
            let at = (position + back) % READINGS;
            (0..layout.blocks()).for_each(|block| slots[layout.slot(block, at)] = number);
        }
        slots
    }
}

/// Adds all blocks together. In the contiguous arrangement every block has the sum, in the strided
/// one the first block of each row.
///
/// # Errors
/// Errors of the machine.
pub fn fold<M: Machine>(
    machine: &mut M,
    layout: &Layout,
    x: &M::Value,
    rotations: &[M::Value],
    swap: &M::Value,
) -> Result<M::Value, M::Error> {
    let swapped = machine.step(Op::Swap, &[x, swap])?;
    let mut sum = machine.add(x, &swapped)?;
    for ((steps, count), key) in layout.folds().zip(rotations) {
        // x + turn(x + turn(x + …)), of `count` values
        let one = sum;
        sum = one.clone();
        for _ in 1..count {
            let turned = machine.rotate(&sum, steps, key)?;
            sum = machine.add(&turned, &one)?;
        }
    }
    Ok(sum)
}

/// Applies a function of a byte to every slot; slots must be centred valid points.
///
/// # Errors
/// Errors of the machine.
pub fn byte_function<M: Machine>(
    machine: &mut M,
    y: &M::Value,
    function: (&ByteFunction, &M::Value),
    relinearization: &M::Value,
) -> Result<M::Value, M::Error> {
    let (function, coefficients) = function;
    let length = function.coefficients.len() as u16;
    let value = machine.step(Op::Polynomial(length), &[y, coefficients, relinearization])?;
    machine.step(Op::Offset(function.constant), &[&value])
}

/// Transforms a phase back and centres it, three levels lower: the input of [`byte_function`].
///
/// # Errors
/// Errors of the machine.
pub fn points<M: Machine>(
    machine: &mut M,
    layout: &Layout,
    maps: &Maps<M::Value>,
    valid: &Points,
    phase: &M::Value,
) -> Result<M::Value, M::Error> {
    let mut x = machine.step(Op::Rescale, &[phase])?;
    for map in 0..2 {
        let mapped = maps.apply(machine, layout, map, &x)?;
        x = machine.step(Op::Rescale, &[&mapped])?;
    }
    machine.step(Op::Offset(-valid.centre()), &[&x])
}

/// Slots with a value for each coefficient of each block, in their order after the transform back.
pub fn readings(layout: &Layout, value: impl Fn(usize, usize) -> i64) -> Vec<i64> {
    let mut slots = vec![0; layout.slots()];
    for block in 0..layout.blocks() {
        (0..READINGS).for_each(|k| slots[layout.slot(block, of_coefficient(k))] = value(block, k));
    }
    slots
}
