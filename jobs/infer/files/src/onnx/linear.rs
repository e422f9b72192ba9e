//! Matrices and batch normalisation.

use super::call::Call;
use super::elementwise::{added, constants};
use super::import::{Computed, Fault, Import, Value};
use super::tensor::{Tensor, broadcast};
use super::views::{redressed, transposed};
use std::rc::Rc;
use tobari_infer::Volume;
use tobari_infer::model::MAX_WEIGHTS;
use tobari_infer_deep::Op;

/// A matrix with a row for each number of the result.
struct Matrix {
    outputs: usize,
    inputs: usize,
    weights: Vec<f64>,
}

impl Matrix {
    /// The matrix of a constant: its rows, or its columns.
    fn of(tensor: &Tensor, by_rows: bool, factor: f64) -> Result<Self, Fault> {
        let [ones @ .., first, second] = &tensor.dims[..] else {
            return Err(format!("weights of shape {:?}: expected two dimensions", tensor.dims));
        };
        if ones.iter().any(|dim| *dim != 1) || tensor.numbers.len() > MAX_WEIGHTS {
            return Err(format!("weights of shape {:?}: expected one matrix of at most 2^24 numbers", tensor.dims));
        }
        let (outputs, inputs) = if by_rows { (*first, *second) } else { (*second, *first) };
        let at = |row: usize, column: usize| {
            factor * tensor.numbers[if by_rows { row * inputs + column } else { column * outputs + row }]
        };
        let weights = (0..outputs).flat_map(|row| (0..inputs).map(move |column| (row, column)));
        let weights = weights.map(|(row, column)| at(row, column)).collect();
        Ok(Self { outputs, inputs, weights })
    }
}

/// The matrix applied along an axis.
fn along(import: &mut Import, x: &Computed, axis: usize, matrix: Matrix, bias: Vec<f64>) -> Result<Computed, Fault> {
    let Matrix { outputs, inputs, weights } = matrix;
    let size = x.dims[axis];
    if inputs != size || outputs == 0 {
        return Err(format!("weights of {outputs} x {inputs} for {size} numbers of a value of shape {:?}", x.dims));
    }
    import.steps.take(weights.len())?;
    let others = x.len() / size;
    let mut dims = x.dims.clone();
    dims[axis] = outputs;
    if others == 1 {
        let (value, weights) = folded(import, x, outputs, weights)?;
        let value = import.steps.add(Op::Dense { outputs, weights, bias }, &[value], Volume::vector(outputs))?;
        return Ok(Computed { dims, batch: x.batch, poly: import.steps.identity(value) });
    }
    // a convolution of one number, with the axis as channels
    let rank = x.dims.len();
    let order: Vec<usize> = std::iter::once(axis).chain((0..rank).filter(|at| *at != axis)).collect();
    let turned = transposed(import, x, &order)?;
    let value = import.steps.result(&turned.poly)?;
    let value = import.steps.shaped(value, Volume { channels: size, height: 1, width: others })?;
    let (kernel, stride, dilation, padding) = ([1; 2], [1; 2], [1; 2], [0; 4]);
    let op = Op::Convolution { channels: outputs, kernel, stride, dilation, padding, groups: 1, weights, bias };
    let value = import.steps.add(op, &[value], Volume { channels: outputs, height: 1, width: others })?;
    let back: Vec<usize> = (0..rank)
        .map(|at| {
            if at < axis {
                at + 1
            } else if at == axis {
                0
            } else {
                at
            }
        })
        .collect();
    let turned = Computed {
        dims: order.iter().map(|at| dims[*at]).collect(),
        batch: turned.batch,
        poly: import.steps.identity(value),
    };
    transposed(import, &turned, &back)
}

/// The input of a dense layer and its weights, where a choice of numbers before it is folded into
/// the weights.
fn folded(import: &mut Import, x: &Computed, outputs: usize, weights: Vec<f64>) -> Result<(usize, Vec<f64>), Fault> {
    let value = import.steps.result(&x.poly)?;
    let Some((Some(places), input)) = import.steps.choice(value) else { return Ok((value, weights)) };
    let (places, inputs) = (places.clone(), import.steps.volume(input).len());
    if outputs.saturating_mul(inputs) > MAX_WEIGHTS || inputs > 2 * places.len() {
        return Ok((value, weights));
    }
    import.steps.take(outputs * inputs)?;
    let mut turned = vec![0.0; outputs * inputs];
    for (row, old) in turned.chunks_exact_mut(inputs).zip(weights.chunks_exact(places.len())) {
        for (place, weight) in places.iter().zip(old) {
            if let Some(place) = place {
                row[*place as usize] += weight;
            }
        }
    }
    Ok((input, turned))
}

pub(super) fn product(import: &mut Import, call: &Call<'_, '_>) -> Result<Value, Fault> {
    match (call.required(0)?, call.required(1)?) {
        (Value::Computed(x), Value::Constant(w)) => {
            let rank = x.dims.len();
            if rank == 0 {
                return Err("a value without dimensions".to_owned());
            }
            // a vector gives one number, whose dimension disappears
            let vector = w.dims.len() == 1;
            let matrix = if vector { row(w) } else { Matrix::of(w, false, 1.0)? };
            let zero = vec![0.0; matrix.outputs];
            let mut made = along(import, x, rank - 1, matrix, zero)?;
            let dims = match w.dims.len() {
                1 => made.dims[..rank - 1].to_vec(),
                found if found > rank => [&vec![1; found - rank][..], &made.dims].concat(),
                _ => std::mem::take(&mut made.dims),
            };
            let skip = dims.len().saturating_sub(rank);
            let batch = x.batch.map(|batch| batch + skip).filter(|batch| *batch < dims.len());
            redressed(import, &made, dims, batch).map(Value::Computed)
        }
        (Value::Constant(w), Value::Computed(x)) => {
            let rank = x.dims.len();
            if rank < 2 || w.dims.len() > rank {
                return Err(format!("weights of shape {:?} before a value of shape {:?}", w.dims, x.dims));
            }
            if w.dims.len() == 1 {
                let made = along(import, x, rank - 2, row(w), vec![0.0])?;
                let mut dims = made.dims.clone();
                dims.remove(rank - 2);
                let batch =
                    x.batch.filter(|batch| *batch != rank - 2).map(|at| if at > rank - 2 { at - 1 } else { at });
                return redressed(import, &made, dims, batch).map(Value::Computed);
            }
            if x.batch == Some(rank - 2) {
                return Err("mixes the pictures of a batch".to_owned());
            }
            let matrix = Matrix::of(w, true, 1.0)?;
            let zero = vec![0.0; matrix.outputs];
            along(import, x, rank - 2, matrix, zero).map(Value::Computed)
        }
        _ => Err("a product of two values that depend on the picture: expected a constant matrix".to_owned()),
    }
}

/// A vector as a matrix of one row.
fn row(w: &Tensor) -> Matrix {
    Matrix { outputs: 1, inputs: w.numbers.len(), weights: w.numbers.clone() }
}

pub(super) fn gemm(import: &mut Import, call: &Call<'_, '_>) -> Result<Value, Fault> {
    let turned = [call.int("transA", 0)? != 0, call.int("transB", 0)? != 0];
    let (alpha, beta) = (call.float("alpha", 1.0)?, call.float("beta", 1.0)?);
    let (x, w, side) = match (call.required(0)?, call.required(1)?) {
        (Value::Computed(x), Value::Constant(w)) => (x, w, 0),
        (Value::Constant(w), Value::Computed(x)) => (x, w, 1),
        _ => return Err("a product of two values that depend on the picture: expected a constant matrix".to_owned()),
    };
    let [_, _] = x.dims[..] else {
        return Err(format!("a value of shape {:?}: expected two dimensions; Flatten works", x.dims));
    };
    let x = if turned[side] { transposed(import, x, &[1, 0])? } else { x.clone() };
    if side == 1 && x.batch == Some(0) {
        return Err("mixes the pictures of a batch".to_owned());
    }
    let (axis, by_rows) = if side == 0 { (1, turned[1]) } else { (0, !turned[0]) };
    let matrix = Matrix::of(w, by_rows, alpha)?;
    let outputs = matrix.outputs;
    let mut bias = vec![0.0; outputs];
    let mut rest = call.value(2);
    if let (Some(Value::Constant(c)), 1) = (rest, x.dims[1 - axis]) {
        let dims = if axis == 1 { [1, outputs] } else { [outputs, 1] };
        if broadcast(&c.dims, &dims)? == dims {
            bias = super::tensor::repeated(&c.dims, &dims).map(|at| beta * c.numbers[at]).collect();
            rest = None;
        }
    }
    let made = along(import, &x, axis, matrix, bias)?;
    match rest {
        None => Ok(Value::Computed(made)),
        Some(Value::Constant(c)) => {
            let numbers = c.numbers.iter().map(|x| beta * x).collect();
            let c = Value::Constant(Rc::new(Tensor { dims: c.dims.clone(), numbers, whole: false }));
            added(import, &Value::Computed(made), &c, 1.0)
        }
        Some(Value::Computed(c)) => {
            let c = c.with(import.steps.scaled(&c.poly, beta)?);
            added(import, &Value::Computed(made), &Value::Computed(c), 1.0)
        }
        Some(_) => Err("an offset of another kind".to_owned()),
    }
}

/// Batch normalisation with fixed statistics: a scale and a shift.
pub(super) fn normalised(import: &mut Import, call: &Call<'_, '_>) -> Result<Value, Fault> {
    let spatial = call.version >= 9 || call.int("spatial", 1)? != 0;
    if call.int("training_mode", 0)? != 0 || call.node.outputs.iter().skip(1).any(|name| !name.is_empty()) {
        return Err("training_mode, or statistics as outputs: export the network for inference".to_owned());
    }
    let x = call.computed(0)?.clone();
    let parts = [call.needed(1)?, call.needed(2)?, call.needed(3)?, call.needed(4)?];
    let channels = x.dims.get(1).copied().unwrap_or(0);
    if !spatial || parts.iter().any(|part| part.numbers.len() != channels || part.dims.len() != 1) {
        return Err(format!("statistics of other shapes than [{channels}] for a value of shape {:?}", x.dims));
    }
    let epsilon = call.float("epsilon", 1e-5)?;
    let [gain, shift, mean, variance] = parts.map(|part| &part.numbers);
    let scale: Vec<f64> = gain.iter().zip(variance).map(|(gain, v)| gain / (v + epsilon).sqrt()).collect();
    let shift: Vec<f64> = (0..channels).map(|c| shift[c] - scale[c] * mean[c]).collect();
    let mut dims = vec![1; x.dims.len() - 1];
    dims[0] = channels;
    let tensor = |numbers| Tensor { dims: dims.clone(), numbers, whole: false };
    let scale = constants(import, &tensor(scale), &x)?;
    let shift = constants(import, &tensor(shift), &x)?;
    let poly = import.steps.times(&x.poly, &scale)?;
    Ok(Value::Computed(x.with(import.steps.shifted(&poly, &shift)?)))
}
