//! Vectors and matrices in the slots of a ciphertext.
//!
//! A matrix of `r` rows and `c` columns stands column by column. Both counts are filled up with
//! zeros to powers of two, `R` and `C`, and **the whole repeats through all slots**: entry `(i, j)`
//! stands in slot `i + R j` and at every multiple of the period `R C` behind it. A vector is a
//! single column or a single row, which is the same. So a rotation by `k < R C` is one of the
//! matrix itself, the sum of all entries, by rotations of 1, 2, 4 …, ends up in every slot, and a
//! single number is in all slots and fits every vector.
//!
//! **Slots of the padding are always 0**, or sums would be wrong: who adds a number adds it to the
//! entries alone.
//!
//! # Products with a matrix
//! Let `A` be encrypted, with `c` columns, and let `M` be plain, with `c` rows and `m` columns,
//! filled up to `C` and `K`. With `ρ_d` the rotation by `d` steps,
//!
//! ```text
//! A M = Σ_(d < D) m_d ρ_(R d)(A),      m_d[i + R j] = M[(j + d) mod C][j mod K],    D = min(C, K),
//! ```
//!
//! and if `K < C`, the `C / K` blocks of the result are added up by rotations of `R K`, `2 R K` …
//! (a square matrix: Halevi, Shoup, CRYPTO 2014; wide ones: Juvekar, Vaikuntanathan, Chandrakasan,
//! USENIX Security 2018).

use crate::errors::failed;
use pyo3::prelude::*;
use std::collections::BTreeMap;

/// Rows and columns; a vector has no columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    rows: usize,
    columns: Option<usize>,
}

/// A shape as Python gives it.
pub(crate) type Dimensions = Vec<usize>;

impl Shape {
    /// A single number, which is in all slots.
    pub(crate) const NUMBER: Self = Self { rows: 1, columns: None };

    /// A vector.
    pub(crate) fn vector(length: usize) -> Self {
        Self { rows: length, columns: None }
    }

    /// The shape of an array of at most two dimensions, with at least one number.
    ///
    /// # Errors
    /// `tobari.Error` for another array.
    pub(crate) fn new(dimensions: &[usize]) -> PyResult<Self> {
        let shape = match *dimensions {
            [] => Self::NUMBER,
            [length] => Self::vector(length),
            [rows, columns] => Self { rows, columns: Some(columns) },
            _ => return Err(failed(format!("expected a vector or a matrix, found an array of shape {dimensions:?}"))),
        };
        if shape.count() == 0 { Err(failed("expected at least one number, found none")) } else { Ok(shape) }
    }

    /// As Python shows it.
    pub(crate) fn dimensions(self) -> Dimensions {
        std::iter::once(self.rows).chain(self.columns).collect()
    }

    /// Numbers.
    pub(crate) fn count(self) -> usize {
        self.rows.saturating_mul(self.columns.unwrap_or(1))
    }

    /// Is it a vector?
    pub(crate) fn is_vector(self) -> bool {
        self.columns.is_none()
    }

    /// `R` and `C`.
    fn padded(self) -> [usize; 2] {
        [self.rows, self.columns.unwrap_or(1)].map(|length| length.checked_next_power_of_two().unwrap_or(usize::MAX))
    }

    /// `R C`.
    pub(crate) fn period(self) -> usize {
        let [rows, columns] = self.padded();
        rows.saturating_mul(columns)
    }

    /// Are there slots of padding?
    pub(crate) fn has_padding(self) -> bool {
        self.period() > self.count()
    }

    /// The shape of a result of both, slot by slot: their own, or that of the other if one is a
    /// number. Nothing is known if one is unknown.
    ///
    /// # Errors
    /// `tobari.Error` for different shapes.
    pub(crate) fn joined(a: Option<Self>, b: Option<Self>) -> PyResult<Option<Self>> {
        match (a, b) {
            (Some(a), Some(b)) if a != b && a != Self::NUMBER && b != Self::NUMBER => {
                let [a, b] = [a, b].map(Self::dimensions);
                Err(failed(format!("expected two equal shapes, or a single number, found {a:?} and {b:?}")))
            }
            (Some(Self::NUMBER), b) => Ok(b),
            (Some(a), Some(_)) => Ok(Some(a)),
            _ => Ok(None),
        }
    }

    /// This shape for slots of another one: all its numbers must be numbers of this shape, too, or
    /// they would stand in the padding, where sums count them.
    ///
    /// # Errors
    /// `tobari.Error` with both shapes.
    pub(crate) fn instead_of(self, old: Self, slots: usize) -> PyResult<Self> {
        let [new, of_old] = [self.spread(1, false, slots)?, old.spread(1, false, slots)?];
        if self.period() == old.period() && new.iter().zip(&of_old).all(|(new, old)| new >= old) {
            return Ok(self);
        }
        let [new, old] = [self, old].map(Self::dimensions);
        Err(failed(format!("expected a shape with all numbers of {old:?} at their slots, found {new:?}")))
    }

    /// Checks that the numbers fit.
    ///
    /// # Errors
    /// `tobari.Error` with both counts.
    pub(crate) fn check(self, slots: usize) -> PyResult<()> {
        if self.period() <= slots {
            return Ok(());
        }
        let shape = self.dimensions();
        let text = format!("expected a shape that fits {slots} slots when filled up to powers of two, found {shape:?}");
        Err(failed(text))
    }

    /// The slots of these numbers, given row by row.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(crate) fn fill<T: Copy + Default>(self, numbers: &[T], slots: usize) -> PyResult<Vec<T>> {
        self.check(slots)?;
        let mut all = vec![T::default(); self.period()];
        for (slot, number) in self.places().zip(numbers) {
            all[slot] = *number;
        }
        // a whole number of times: both are powers of two
        Ok(all.repeat(slots / self.period()))
    }

    /// The numbers in these slots, row by row.
    pub(crate) fn read<T: Copy>(self, slots: &[T]) -> Vec<T> {
        self.places().map(|slot| slots[slot]).collect()
    }

    /// The same number in all slots but those of the padding, or the other way round.
    pub(crate) fn spread<T: Copy + Default>(self, number: T, padding: bool, slots: usize) -> PyResult<Vec<T>> {
        let entry = self.fill(&vec![true; self.count()], slots)?;
        Ok(entry.into_iter().map(|entry| if entry == padding { T::default() } else { number }).collect())
    }

    /// The slots of the entries, row by row.
    fn places(self) -> impl Iterator<Item = usize> {
        let [stride, _] = self.padded();
        let columns = self.columns.unwrap_or(1);
        (0..self.rows).flat_map(move |row| (0..columns).map(move |column| row + stride * column))
    }
}

/// A product with a plain matrix, by diagonals.
pub(crate) struct Product {
    /// `R`, `C`, `K`.
    padded: [usize; 3],
    /// `r`, `c`, `m`.
    counts: [usize; 3],
    /// The shape of the result.
    pub(crate) result: Shape,
}

impl Product {
    /// The product of an encrypted shape with a plain one.
    ///
    /// # Errors
    /// `tobari.Error` if the inner dimensions differ, or there are too few slots.
    pub(crate) fn new(a: Shape, m: Shape, slots: usize) -> PyResult<Self> {
        // a vector on the left is a row
        let [rows, columns] = a.columns.map_or([1, a.rows], |columns| [a.rows, columns]);
        if columns != m.rows {
            let [a, m] = [a, m].map(Shape::dimensions);
            let text =
                format!("expected as many rows of the matrix as columns before it, found shapes {a:?} and {m:?}");
            return Err(failed(text));
        }
        let result = match (a.columns, m.columns) {
            (None, None) => Shape::NUMBER,
            (None, Some(length)) => Shape::vector(length),
            (Some(_), None) => Shape::vector(rows),
            (Some(_), columns) => Shape { rows, columns },
        };
        let counts = [rows, columns, m.columns.unwrap_or(1)];
        let padded = counts.map(|count| count.checked_next_power_of_two().unwrap_or(usize::MAX));
        let largest = padded[0].saturating_mul(padded[1].max(padded[2]));
        if largest > slots {
            let [a, m] = [a, m].map(Shape::dimensions);
            return Err(failed(format!("expected a product within {slots} slots, found shapes {a:?} and {m:?}")));
        }
        Ok(Self { padded, counts, result })
    }

    /// The product of these dimensions: rows and columns of a vector's matrix, or the three
    /// dimensions of a product of matrices.
    ///
    /// # Errors
    /// As [`Self::new`], and for other numbers of dimensions.
    pub(crate) fn of(dimensions: &[usize], slots: usize) -> PyResult<Self> {
        let text = "expected (n, m) for a vector times a matrix, or (r, c, m) for two matrices";
        match *dimensions {
            [n, m] => Self::new(Shape::new(&[n])?, Shape::new(&[n, m])?, slots),
            [r, c, m] => Self::new(Shape::new(&[r, c])?, Shape::new(&[c, m])?, slots),
            _ => Err(failed(format!("{text}, found {dimensions:?}"))),
        }
    }

    /// The dimensions that [`Self::of`] takes.
    pub(crate) fn dimensions(&self) -> String {
        let [r, c, m] = self.counts;
        if r == 1 { format!("({c}, {m})") } else { format!("({r}, {c}, {m})") }
    }

    /// The steps of all diagonals.
    pub(crate) fn steps(&self) -> impl Iterator<Item = i64> {
        let [stride, columns, width] = self.padded;
        (0..columns.min(width)).map(move |d| (d * stride) as i64)
    }

    /// The rotations that add up the blocks of the result.
    pub(crate) fn folds(&self) -> impl Iterator<Item = i64> {
        let [stride, columns, width] = self.padded;
        let least = width.min(columns);
        (least.ilog2()..columns.ilog2()).map(move |log| (stride << log) as i64)
    }

    /// The diagonals of a matrix given row by row, by steps, through all slots.
    pub(crate) fn diagonals<T: Copy + Default>(&self, matrix: &[T], slots: usize) -> BTreeMap<i64, Vec<T>> {
        let ([stride, padded, width], [rows, columns, m]) = (self.padded, self.counts);
        let period = stride * padded.max(width);
        let diagonal = |d: usize| {
            let mut one = vec![T::default(); period];
            for j in 0..padded.max(width) {
                let (row, column) = ((j + d) % padded, j % width);
                if row < columns && column < m {
                    one[j * stride..][..rows].fill(matrix[row * m + column]);
                }
            }
            one.repeat(slots / period)
        };
        self.steps().map(|step| (step, diagonal(step as usize / stride))).collect()
    }
}

/// The steps by which rotations add up this many slots.
pub(crate) fn doublings(count: usize) -> impl Iterator<Item = i64> {
    (0..count.next_power_of_two().ilog2()).map(|log| 1 << log)
}
