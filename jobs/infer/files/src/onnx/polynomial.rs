//! Polynomials of degree two in the last layer's result, and elementwise operators on them.

use super::graph::Tensor;
use super::import::{Fault, Value};
use std::rc::Rc;
use tobari_infer::Volume;

/// `square x² + linear x + constant` in the result `x` of the layers so far.
#[derive(Debug)]
pub(super) struct Polynomial {
    /// The number of layers so far.
    pub(super) layers: usize,
    /// The dimensions of `x`, without the batch.
    pub(super) dims: Vec<usize>,
    /// Constant, linear, square: each one number, one for each channel, or one for each number.
    pub(super) coefficients: [Vec<f64>; 3],
}

impl Polynomial {
    pub(super) fn identity(layers: usize, dims: Vec<usize>) -> Self {
        Self { layers, dims, coefficients: [vec![0.0], vec![1.0], vec![0.0]] }
    }

    pub(super) fn volume(&self) -> Volume {
        volume(&self.dims)
    }

    /// The number of coefficients.
    pub(super) fn size(&self) -> usize {
        self.coefficients.iter().map(Vec::len).sum()
    }

    fn degree(&self) -> usize {
        (1..3).rev().find(|power| self.coefficients[*power].iter().any(|x| *x != 0.0)).unwrap_or(0)
    }

    fn with(&self, coefficients: [Vec<f64>; 3]) -> Value {
        Value::Polynomial(Rc::new(Self { layers: self.layers, dims: self.dims.clone(), coefficients }))
    }
}

/// The shape that a network gives to dimensions without the batch.
pub(super) fn volume(dims: &[usize]) -> Volume {
    match dims {
        [channels, height, width] => Volume { channels: *channels, height: *height, width: *width },
        [height, width] => Volume { channels: 1, height: *height, width: *width },
        _ => Volume::vector(dims.iter().product()),
    }
}

pub(super) fn scaled(x: &Polynomial, factor: f64) -> Value {
    x.with([0, 1, 2].map(|power| x.coefficients[power].iter().map(|x| x * factor).collect()))
}

/// `a + sign b`.
pub(super) fn sum(a: &Value, b: &Value, sign: f64) -> Result<Value, Fault> {
    let add = |x: f64, y: f64| x + sign * y;
    match (a, b) {
        (Value::Polynomial(a), Value::Polynomial(b)) => {
            same(a, b)?;
            let volume = a.volume();
            Ok(a.with([0, 1, 2].map(|power| join(&a.coefficients[power], &b.coefficients[power], volume, add))))
        }
        (Value::Polynomial(a), Value::Constant(b)) => {
            let [constant, linear, square] = &a.coefficients;
            let constant = join(constant, &broadcast(b, &a.dims)?, a.volume(), add);
            Ok(a.with([constant, linear.clone(), square.clone()]))
        }
        (Value::Constant(a), Value::Polynomial(b)) => {
            let [constant, linear, square] = &b.coefficients;
            let constant = join(&broadcast(a, &b.dims)?, constant, b.volume(), add);
            let [linear, square] = [linear, square].map(|all| all.iter().map(|x| sign * x).collect());
            Ok(b.with([constant, linear, square]))
        }
        _ => Err("constants alone".to_owned()),
    }
}

pub(super) fn product(a: &Value, b: &Value) -> Result<Value, Fault> {
    match (a, b) {
        (Value::Polynomial(a), Value::Polynomial(b)) => {
            same(a, b)?;
            if a.degree() + b.degree() > 2 {
                return Err("a polynomial of a higher degree than two".to_owned());
            }
            let volume = a.volume();
            let times = |i: usize, j: usize| join(&a.coefficients[i], &b.coefficients[j], volume, |x, y| x * y);
            let add = |x: &[f64], y: &[f64]| join(x, y, volume, |x, y| x + y);
            let square = add(&add(&times(0, 2), &times(2, 0)), &times(1, 1));
            Ok(a.with([times(0, 0), add(&times(0, 1), &times(1, 0)), square]))
        }
        (Value::Polynomial(x), Value::Constant(by)) | (Value::Constant(by), Value::Polynomial(x)) => {
            let by = broadcast(by, &x.dims)?;
            let times = |power: usize| join(&x.coefficients[power], &by, x.volume(), |x, y| x * y);
            Ok(x.with([0, 1, 2].map(times)))
        }
        _ => Err("constants alone".to_owned()),
    }
}

fn same(a: &Polynomial, b: &Polynomial) -> Result<(), Fault> {
    if a.layers != b.layers || a.dims != b.dims {
        return Err("a branch: values of different layers or shapes".to_owned());
    }
    Ok(())
}

/// Combines coefficients number by number, with the fewest numbers that both allow.
fn join(a: &[f64], b: &[f64], volume: Volume, f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    if a.len() == 1 || b.len() == 1 || a.len() == b.len() {
        let at = |all: &[f64], place: usize| if all.len() == 1 { all[0] } else { all[place] };
        return (0..a.len().max(b.len())).map(|place| f(at(a, place), at(b, place))).collect();
    }
    let area = volume.height * volume.width;
    let at = |all: &[f64], place: usize| if all.len() == volume.len() { all[place] } else { all[place / area] };
    (0..volume.len()).map(|place| f(at(a, place), at(b, place))).collect()
}

/// A constant as numbers of a shape, by ONNX's (numpy's) rules: dimensions are compared from the
/// last one, and those of 1 are repeated.
fn broadcast(tensor: &Tensor, dims: &[usize]) -> Result<Vec<f64>, Fault> {
    if tensor.numbers.len() == 1 && tensor.dims.len() <= dims.len() + 1 {
        return Ok(tensor.numbers.clone());
    }
    let wrong = || format!("a constant of shape {:?} beside numbers of shape {dims:?}", tensor.dims);
    // the batch
    let inner = match tensor.dims.split_first() {
        Some((1, inner)) if tensor.dims.len() == dims.len() + 1 => inner,
        _ => &tensor.dims[..],
    };
    if inner.len() > dims.len() || tensor.numbers.is_empty() {
        return Err(wrong());
    }
    let aligned: Vec<usize> = std::iter::repeat_n(1, dims.len() - inner.len()).chain(inner.iter().copied()).collect();
    if aligned.iter().zip(dims).any(|(found, dim)| *found != 1 && found != dim) {
        return Err(wrong());
    }
    if let ([channels, 1, 1], [_, _, _]) = (&aligned[..], dims)
        && *channels == tensor.numbers.len()
    {
        return Ok(tensor.numbers.clone());
    }
    let number = |mut at: usize| {
        let (mut place, mut stride) = (0, 1);
        for (found, dim) in aligned.iter().zip(dims).rev() {
            place += if *found == 1 { 0 } else { at % dim * stride };
            (at, stride) = (at / dim, stride * found);
        }
        tensor.numbers[place]
    };
    Ok((0..dims.iter().product()).map(number).collect())
}
