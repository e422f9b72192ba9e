//! Runs programs in plaintext: the reference for encrypted runs, and the engine of a plain site.

use crate::engine::{Engine, Shapes};
use crate::program::{Encoding, Kind, Op, Shape};

/// The numbers of an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Arithmetic {
    /// Integers modulo `t`, each as the representative nearest to zero.
    Modulo(u64),
    /// Doubles.
    Real,
}

/// Vectors in plaintext: `rows` rows of `columns` slots. Rotations rotate each row.
#[derive(Clone, Copy, Debug)]
pub struct ClearEngine {
    /// The numbers.
    pub arithmetic: Arithmetic,
    /// Rows.
    pub rows: usize,
    /// Slots in a row.
    pub columns: usize,
}

/// A plaintext value.
#[derive(Clone, Debug, PartialEq)]
pub enum ClearValue {
    /// Modulo `t`.
    Integers(Vec<i64>),
    /// Real.
    Reals(Vec<f64>),
    /// Values that one step made together.
    Several(Vec<ClearValue>),
    /// Stands in the place of a key of an encrypted run.
    Key,
}

impl ClearValue {
    fn as_integers(&self, slots: usize) -> Option<&[i64]> {
        match self {
            ClearValue::Integers(values) if values.len() == slots => Some(values),
            _ => None,
        }
    }

    fn as_reals(&self, slots: usize) -> Option<&[f64]> {
        match self {
            ClearValue::Reals(values) if values.len() == slots => Some(values),
            _ => None,
        }
    }
}

/// Why this engine rejects a value or a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClearError {
    /// A key where a vector should be, another arithmetic's vector, or another length.
    #[error("expected {expected}, found something else")]
    Value {
        /// The expected value.
        expected: String,
    },
    /// Bytes that are no value.
    #[error("expected {expected} bytes, found {found}")]
    Bytes {
        /// Expected number.
        expected: usize,
        /// Number found.
        found: usize,
    },
    /// The operation takes no arguments of these kinds.
    #[error("{0}")]
    Step(String),
}

/// The operations on one slot.
trait Slot: Copy {
    fn constant(engine: &ClearEngine, c: i64) -> Self;
    fn sum(self, engine: &ClearEngine, other: Self) -> Self;
    fn product(self, engine: &ClearEngine, other: Self) -> Self;
    /// `1/c`; `None` if `c` has no inverse.
    fn reciprocal(engine: &ClearEngine, c: i64) -> Option<Self>;
}

impl Slot for f64 {
    fn constant(_: &ClearEngine, c: i64) -> Self {
        c as f64
    }

    fn sum(self, _: &ClearEngine, other: Self) -> Self {
        self + other
    }

    fn product(self, _: &ClearEngine, other: Self) -> Self {
        self * other
    }

    fn reciprocal(_: &ClearEngine, c: i64) -> Option<Self> {
        (c != 0).then(|| (c as f64).recip())
    }
}

impl Slot for i64 {
    fn constant(engine: &ClearEngine, c: i64) -> Self {
        engine.centred(i128::from(c))
    }

    fn sum(self, engine: &ClearEngine, other: Self) -> Self {
        engine.centred(i128::from(self) + i128::from(other))
    }

    fn product(self, engine: &ClearEngine, other: Self) -> Self {
        engine.centred(i128::from(self) * i128::from(other))
    }

    /// By Euclid's algorithm.
    fn reciprocal(engine: &ClearEngine, c: i64) -> Option<Self> {
        let Arithmetic::Modulo(t) = engine.arithmetic else { return None };
        let t = i128::from(t);
        let (mut r, mut next_r) = (t, i128::from(c).rem_euclid(t));
        let (mut v, mut next_v) = (0i128, 1i128);
        while next_r != 0 {
            let quotient = r / next_r;
            (r, next_r) = (next_r, r - quotient * next_r);
            (v, next_v) = (next_v, v - quotient * next_v);
        }
        (r == 1).then(|| engine.centred(v))
    }
}

impl ClearEngine {
    /// Slots of a value.
    pub fn slots(&self) -> usize {
        self.rows * self.columns
    }

    /// The number modulo `t` nearest to zero; reals stay as they are.
    fn centred(&self, x: i128) -> i64 {
        let Arithmetic::Modulo(t) = self.arithmetic else { return x as i64 };
        let t = i128::from(t);
        let residue = x.rem_euclid(t);
        (if residue > (t - 1) / 2 { residue - t } else { residue }) as i64
    }

    /// Integers as a value.
    ///
    /// # Errors
    /// [`ClearError::Value`] if there are too many, or the engine computes with reals. Missing
    /// values are zeros.
    pub fn integers(&self, values: &[i64]) -> Result<ClearValue, ClearError> {
        self.fits(values.len(), self.arithmetic != Arithmetic::Real)?;
        let mut all: Vec<i64> = values.iter().map(|x| self.centred(i128::from(*x))).collect();
        all.resize(self.slots(), 0);
        Ok(ClearValue::Integers(all))
    }

    /// Reals as a value.
    ///
    /// # Errors
    /// As in [`Self::integers`].
    pub fn reals(&self, values: &[f64]) -> Result<ClearValue, ClearError> {
        self.fits(values.len(), self.arithmetic == Arithmetic::Real)?;
        let mut all = values.to_vec();
        all.resize(self.slots(), 0.0);
        Ok(ClearValue::Reals(all))
    }

    fn fits(&self, length: usize, arithmetic: bool) -> Result<(), ClearError> {
        let fits = arithmetic && length <= self.slots();
        fits.then_some(()).ok_or_else(|| self.expected())
    }

    fn expected(&self) -> ClearError {
        ClearError::Value { expected: format!("a vector of {} slots, {:?}", self.slots(), self.arithmetic) }
    }

    /// Every row rotated.
    fn turned<T: Slot>(&self, a: &[T], steps: i64) -> Vec<T> {
        let columns = self.columns as i64;
        let turn = steps.rem_euclid(columns);
        let source = |i: usize| ((i as i64 + turn) % columns) as usize;
        (0..a.len()).map(|i| a[i - i % self.columns + source(i)]).collect()
    }

    /// `Σ w_(i,j) a_i b_j` in one slot.
    fn bilinear<T: Slot>(&self, a: &[&[T]], b: &[&[T]], w: &[T], slot: usize) -> T {
        let at = |values: &[&[T]], i: usize| match i {
            0 => T::constant(self, 1),
            i => values[i - 1][slot],
        };
        let mut sum = T::constant(self, 0);
        for i in 0..=a.len() {
            let row = (0..=b.len())
                .fold(T::constant(self, 0), |row, j| row.sum(self, w[i * (b.len() + 1) + j].product(self, at(b, j))));
            sum = sum.sum(self, at(a, i).product(self, row));
        }
        sum
    }

    fn compute<T: Slot>(&self, op: Op, args: &[&[T]]) -> Result<Vec<T>, ClearError> {
        let zip = |a: &[T], b: &[T], work: &dyn Fn(T, T) -> T| -> Vec<T> {
            a.iter().zip(b).map(|(a, b)| work(*a, *b)).collect()
        };
        let (add, mul) = (|a: T, b: T| a.sum(self, b), |a: T, b: T| a.product(self, b));
        let minus = T::constant(self, -1);
        Ok(match (op, args) {
            (Op::Add, [a, rest @ ..]) => rest.iter().fold(a.to_vec(), |sum, b| zip(&sum, b, &add)),
            (Op::Sub, [a, b]) => zip(a, b, &|a, b| a.sum(self, minus.product(self, b))),
            (Op::Neg, [a]) => a.iter().map(|a| minus.product(self, *a)).collect(),
            (Op::Mul, [a, b]) => zip(a, b, &mul),
            (Op::Dot, [_, ..]) => {
                let mut products = args.chunks_exact(2).map(|pair| zip(pair[0], pair[1], &mul));
                let first = products.next().unwrap_or_default();
                products.fold(first, |sum, product| zip(&sum, &product, &add))
            }
            (Op::Scale(c), [a]) => a.iter().map(|a| a.product(self, T::constant(self, c))).collect(),
            (Op::Offset(c), [a]) => a.iter().map(|a| a.sum(self, T::constant(self, c))).collect(),
            (Op::Rotate(steps) | Op::RotateHoisted(steps), [a]) => self.turned(a, steps),
            (Op::Transform { baby, babies, giant, giants }, _) => {
                let diagonals = usize::from(babies) * usize::from(giants);
                let (inputs, weights) = args.split_at(args.len() / (1 + diagonals));
                if diagonals == 0 || inputs.is_empty() || weights.len() != inputs.len() * diagonals {
                    return Err(ClearError::Step(format!("expected {op} of vectors, found {}", args.len())));
                }
                let mut sum = vec![T::constant(self, 0); self.slots()];
                for (place, w) in weights.iter().enumerate() {
                    let (b, i) = (place % usize::from(babies), place / usize::from(babies) % inputs.len());
                    let g = (place / (usize::from(babies) * inputs.len())) as i64;
                    let product = zip(w, &self.turned(inputs[i], baby.wrapping_mul(b as i64)), &mul);
                    sum = zip(&sum, &self.turned(&product, giant.wrapping_mul(g)), &add);
                }
                sum
            }
            (Op::Polynomial(length), [a, c]) if usize::from(length) <= c.len() => {
                let value = |a: &T| {
                    let zero = T::constant(self, 0);
                    c[..length.into()].iter().rev().fold(zero, |sum, c| sum.product(self, *a).sum(self, *c))
                };
                a.iter().map(value).collect()
            }
            (Op::Bilinear { left, right, divisor, .. }, [values @ .., w])
                if values.len() == usize::from(left) + usize::from(right)
                    && w.len() >= (usize::from(left) + 1) * (usize::from(right) + 1) =>
            {
                let missing = || ClearError::Step(format!("expected a divisor with an inverse, found {divisor}"));
                let scale = T::reciprocal(self, divisor).ok_or_else(missing)?;
                let (a, b) = values.split_at(left.into());
                (0..self.slots()).map(|slot| self.bilinear(a, b, w, slot).product(self, scale)).collect()
            }
            (Op::RotateSum { steps, counts }, _) => {
                let hoisted = counts.iter().copied().map(usize::from).sum::<usize>();
                let plain = args.len().checked_sub(hoisted).ok_or_else(|| {
                    ClearError::Step(format!("expected {op} of vectors, found {} arguments", args.len()))
                })?;
                let (values, mut rest) = args.split_at(plain);
                let mut sum = vec![T::constant(self, 0); self.slots()];
                values.iter().for_each(|a| sum = zip(&sum, a, &add));
                for (steps, count) in steps.into_iter().zip(counts) {
                    let (turned, others) = rest.split_at(count.into());
                    turned.iter().for_each(|a| sum = zip(&sum, &self.turned(a, steps), &add));
                    rest = others;
                }
                sum
            }
            (Op::Swap, [a]) if self.rows == 2 => [&a[self.columns..], &a[..self.columns]].concat(),
            (Op::Hoist | Op::Rescale | Op::LowerTo(_) | Op::Flood(_), [a]) => a.to_vec(),
            _ => return Err(ClearError::Step(format!("expected {op} of vectors, found {} arguments", args.len()))),
        })
    }
}

impl Shapes for ClearEngine {
    fn shape(&self, op: Op, args: &[Shape]) -> Result<Shape, String> {
        let (kind, level) = op.result(args)?;
        let count = match op {
            Op::Bilinear { forms, .. } => u64::from(forms),
            _ => 1,
        };
        let bytes = 8 * count * self.slots() as u64;
        Ok(Shape { kind, level, resident: bytes, packed: bytes, raw: bytes })
    }
}

impl Engine for ClearEngine {
    type Value = ClearValue;
    type Error = ClearError;

    fn step(&self, _: usize, op: Op, args: &[&ClearValue]) -> Result<ClearValue, ClearError> {
        match (op, args) {
            (Op::Bilinear { left, right, forms, .. }, _) if forms > 1 && args.len() > usize::from(forms) => {
                let args: Vec<&ClearValue> = args.iter().copied().filter(|arg| **arg != ClearValue::Key).collect();
                let (values, weights) = args.split_at(args.len().min(usize::from(left) + usize::from(right)));
                let form = |w: &&ClearValue| self.step(0, op.once(), &[values, &[*w]].concat());
                return Ok(ClearValue::Several(weights.iter().map(form).collect::<Result<_, _>>()?));
            }
            (Op::Part(which), [ClearValue::Several(all)]) => {
                return all.get(usize::from(which)).cloned().ok_or_else(|| self.expected());
            }
            _ => {}
        }
        let vectors = args.iter().copied().filter(|arg| **arg != ClearValue::Key);
        match self.arithmetic {
            Arithmetic::Modulo(_) => {
                let args: Option<Vec<&[i64]>> = vectors.map(|arg| arg.as_integers(self.slots())).collect();
                Ok(ClearValue::Integers(self.compute(op, &args.ok_or_else(|| self.expected())?)?))
            }
            Arithmetic::Real => {
                let args: Option<Vec<&[f64]>> = vectors.map(|arg| arg.as_reals(self.slots())).collect();
                Ok(ClearValue::Reals(self.compute(op, &args.ok_or_else(|| self.expected())?)?))
            }
        }
    }

    fn export(&self, value: &ClearValue, shape: &Shape, _: Encoding, bytes: &mut [u8]) -> Result<(), ClearError> {
        let words: Vec<u64> = match value {
            ClearValue::Several(all) => {
                let part = Shape { kind: Kind::Encrypted, raw: 8 * self.slots() as u64, ..*shape };
                let parts = bytes.chunks_exact_mut(8 * self.slots());
                if all.len() != parts.len() {
                    return Err(ClearError::Bytes { expected: 8 * self.slots() * all.len(), found: bytes.len() });
                }
                return all
                    .iter()
                    .zip(parts)
                    .try_for_each(|(one, bytes)| self.export(one, &part, Encoding::Raw, bytes));
            }
            ClearValue::Integers(values) => values.iter().map(|x| *x as u64).collect(),
            ClearValue::Reals(values) => values.iter().map(|x| x.to_bits()).collect(),
            ClearValue::Key => vec![0; shape.packed as usize / 8],
        };
        if bytes.len() != 8 * words.len() {
            return Err(ClearError::Bytes { expected: 8 * words.len(), found: bytes.len() });
        }
        for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        Ok(())
    }

    fn import(&self, shape: &Shape, _: Encoding, bytes: &[u8]) -> Result<ClearValue, ClearError> {
        if shape.kind == Kind::Key {
            return Ok(ClearValue::Key);
        }
        if shape.kind == Kind::Several && bytes.len().is_multiple_of(8 * self.slots()) {
            let part = Shape { kind: Kind::Encrypted, ..*shape };
            let parts = bytes.chunks_exact(8 * self.slots()).map(|bytes| self.import(&part, Encoding::Raw, bytes));
            return Ok(ClearValue::Several(parts.collect::<Result<_, _>>()?));
        }
        if bytes.len() != 8 * self.slots() {
            return Err(ClearError::Bytes { expected: 8 * self.slots(), found: bytes.len() });
        }
        let words = bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        Ok(match self.arithmetic {
            Arithmetic::Modulo(_) => ClearValue::Integers(words.map(|word| word as i64).collect()),
            Arithmetic::Real => ClearValue::Reals(words.map(f64::from_bits).collect()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: ClearEngine = ClearEngine { arithmetic: Arithmetic::Modulo(17), rows: 2, columns: 4 };

    #[test]
    fn rows_turn_each_for_itself() {
        let a = SMALL.integers(&[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let turned = SMALL.step(0, Op::Rotate(1), &[&a, &ClearValue::Key]).unwrap();
        assert_eq!(turned, SMALL.integers(&[2, 3, 4, 1, 6, 7, 8, 5]).unwrap());
        let back = SMALL.step(0, Op::Rotate(-5), &[&turned]).unwrap();
        assert_eq!(back, a);
        let swapped = SMALL.step(0, Op::Swap, &[&a, &ClearValue::Key]).unwrap();
        assert_eq!(swapped, SMALL.integers(&[5, 6, 7, 8, 1, 2, 3, 4]).unwrap());
        let one_row = ClearEngine { rows: 1, columns: 8, ..SMALL };
        assert!(one_row.step(0, Op::Swap, &[&a]).is_err(), "there is nothing to swap");
        let farthest = SMALL.step(0, Op::Rotate(i64::MAX), &[&turned]).unwrap();
        assert_eq!(farthest, a);
    }

    #[test]
    fn numbers_are_the_nearest_to_zero() {
        let a = SMALL.integers(&[8, 9, -8, -9]).unwrap();
        assert_eq!(a, ClearValue::Integers(vec![8, -8, -8, 8, 0, 0, 0, 0]));
        let product = SMALL.step(0, Op::Mul, &[&a, &a]).unwrap();
        assert_eq!(product, SMALL.integers(&[64, 64, 64, 64]).unwrap());
        let dot = SMALL.step(0, Op::Dot, &[&a, &a, &a, &a]).unwrap();
        assert_eq!(dot, SMALL.integers(&[128, 128, 128, 128]).unwrap());
    }

    #[test]
    fn what_is_no_vector_of_the_engine_is_refused() {
        let real = ClearEngine { arithmetic: Arithmetic::Real, rows: 1, columns: 8 };
        let a = real.reals(&[1.5]).unwrap();
        assert!(SMALL.step(0, Op::Neg, &[&a]).is_err());
        assert!(SMALL.integers(&[0; 9]).is_err() && SMALL.reals(&[0.0]).is_err());
        assert!(real.step(0, Op::Add, &[]).is_err());
        let shape = Shape { kind: Kind::Plain, level: 0, resident: 64, packed: 64, raw: 64 };
        let mut bytes = [0; 64];
        real.export(&a, &shape, Encoding::Raw, &mut bytes).unwrap();
        assert_eq!(real.import(&shape, Encoding::Raw, &bytes).unwrap(), a);
        assert!(
            real.import(&shape, Encoding::Raw, &bytes[1..]).is_err()
                && real.export(&a, &shape, Encoding::Raw, &mut bytes[1..]).is_err()
        );
    }
}
