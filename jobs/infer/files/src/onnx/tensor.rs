//! Constants: their numbers, shapes, and how shapes combine.

use super::import::Fault;

/// A constant. All numbers are doubles, whatever their type in the file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor {
    pub(super) dims: Vec<usize>,
    pub(super) numbers: Vec<f64>,
    /// Whether the numbers are integers, as in shapes. Truth values are integers, too.
    pub(super) whole: bool,
}

impl Tensor {
    pub(super) fn scalar(number: f64, whole: bool) -> Self {
        Self { dims: Vec::new(), numbers: vec![number], whole }
    }

    pub(super) fn vector(numbers: Vec<f64>, whole: bool) -> Self {
        Self { dims: vec![numbers.len()], numbers, whole }
    }

    /// The numbers as integers; those beyond 64 bits become the nearest.
    pub(super) fn integers(&self) -> Vec<i64> {
        self.numbers.iter().map(|x| *x as i64).collect()
    }

    /// The number, if all numbers are equal.
    pub(super) fn uniform(&self) -> Option<f64> {
        let (first, rest) = self.numbers.split_first()?;
        rest.iter().all(|x| x == first).then_some(*first)
    }
}

/// The product of dimensions, if it is at most `limit`.
pub(super) fn count(dims: &[usize], limit: usize) -> Option<usize> {
    if dims.contains(&0) {
        return Some(0);
    }
    dims.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim)).filter(|count| *count <= limit)
}

/// The distance of neighbours along each dimension, in numbers.
pub(super) fn strides(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1usize; dims.len()];
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(dims[axis]);
    }
    strides
}

/// An axis, counted from the end if it is negative.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize, Fault> {
    let found = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    usize::try_from(found).ok().filter(|found| *found < rank).ok_or_else(|| format!("axis {axis} of {rank} dimensions"))
}

/// The common shape of two operands by ONNX's rules: dimensions are compared from the last one,
/// and those of 1 are repeated.
pub(super) fn broadcast(a: &[usize], b: &[usize]) -> Result<Vec<usize>, Fault> {
    let rank = a.len().max(b.len());
    let of = |dims: &[usize], at: usize| (at + dims.len()).checked_sub(rank).map_or(1, |at| dims[at]);
    let one = |at| match (of(a, at), of(b, at)) {
        (1, other) | (other, 1) => Ok(other),
        (x, y) if x == y => Ok(x),
        _ => Err(format!("operands of shapes {a:?} and {b:?}, which do not fit")),
    };
    (0..rank).map(one).collect()
}

/// For each number of a shape the place of its operand, whose shape fits by [`broadcast`].
pub(super) fn repeated(operand: &[usize], dims: &[usize]) -> impl Iterator<Item = usize> {
    let skip = dims.len() - operand.len();
    let own = strides(operand);
    let steps: Vec<usize> = (0..dims.len())
        .map(|at| at.checked_sub(skip).map_or(0, |at| if operand[at] == 1 { 0 } else { own[at] }))
        .collect();
    places(dims.to_vec(), steps, 0)
}

/// Walks over a shape in order and yields `start` plus the sum of the steps.
pub(super) fn places(dims: Vec<usize>, steps: Vec<usize>, start: usize) -> impl Iterator<Item = usize> {
    let total = dims.iter().product::<usize>();
    let (mut index, mut place) = (vec![0usize; dims.len()], start);
    (0..total).map(move |_| {
        let found = place;
        for axis in (0..dims.len()).rev() {
            index[axis] += 1;
            place += steps[axis];
            if index[axis] < dims[axis] {
                break;
            }
            place -= steps[axis] * dims[axis];
            index[axis] = 0;
        }
        found
    })
}
