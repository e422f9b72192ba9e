//! Operators on shapes: reshapes keep all numbers in their order, and `Shape` reads a shape.

use super::call::Call;
use super::import::{Computed, Fault, Import, Value};
use super::tensor::{Tensor, axis, count};
use std::rc::Rc;
use tobari_infer::model::MAX_NUMBERS;

fn dims_of(value: &Value) -> Result<&[usize], Fault> {
    match value {
        Value::Constant(tensor) => Ok(&tensor.dims),
        Value::Computed(x) => Ok(&x.dims),
        _ => Err("an input without a shape".to_owned()),
    }
}

pub(super) fn shape(call: &Call<'_, '_>) -> Result<Value, Fault> {
    let dims = dims_of(call.required(0)?)?;
    let rank = dims.len() as i64;
    let bound = |name, default| {
        let found = call.int(name, default)?;
        let found = if found < 0 { found.saturating_add(rank) } else { found };
        Ok::<usize, Fault>(found.clamp(0, rank) as usize)
    };
    let (start, end) = (bound("start", 0)?, bound("end", rank)?);
    let part = dims.get(start..end.max(start)).unwrap_or(&[]);
    Ok(Value::Constant(Rc::new(Tensor::vector(part.iter().map(|dim| *dim as f64).collect(), true))))
}

pub(super) fn size(call: &Call<'_, '_>) -> Result<Value, Fault> {
    let dims = dims_of(call.required(0)?)?;
    let size = dims.iter().map(|dim| *dim as f64).product();
    Ok(Value::Constant(Rc::new(Tensor::scalar(size, true))))
}

/// New dimensions, and the place of the batch in them.
struct Shape {
    dims: Vec<usize>,
    batch: Option<usize>,
}

pub(super) fn reshaped(import: &mut Import, call: &Call<'_, '_>) -> Result<Value, Fault> {
    let value = call.required(0)?;
    let (dims, batch) = (dims_of(value)?, if let Value::Computed(x) = value { x.batch } else { None });
    let shape = match call.operator() {
        "Reshape" => reshape(import, call, dims, batch)?,
        "Flatten" => flatten(call, dims, batch)?,
        "Squeeze" => squeeze(call, dims, batch, import.fixed == Some(1))?,
        _ => unsqueeze(call, dims, batch)?,
    };
    dressed(import, value, shape.dims, shape.batch)
}

/// The same numbers in other dimensions.
pub(super) fn dressed(
    import: &mut Import,
    value: &Value,
    dims: Vec<usize>,
    batch: Option<usize>,
) -> Result<Value, Fault> {
    match value {
        Value::Constant(tensor) => {
            import.steps.take(tensor.numbers.len())?;
            let numbers = tensor.numbers.clone();
            Ok(Value::Constant(Rc::new(Tensor { dims, numbers, whole: tensor.whole })))
        }
        Value::Computed(x) => {
            if batch.is_none() && x.batch.is_some() && import.fixed.is_some_and(|size| size > 1) {
                return Err("puts the pictures of a batch into another dimension: export it for one picture".to_owned());
            }
            Ok(Value::Computed(Computed { dims, batch, poly: Rc::clone(&x.poly) }))
        }
        _ => Err("an input without numbers".to_owned()),
    }
}

fn reshape(import: &Import, call: &Call<'_, '_>, dims: &[usize], batch: Option<usize>) -> Result<Shape, Fault> {
    let mut shape = call.list("shape", 1)?.ok_or("no shape")?;
    let keep_zero = call.int("allowzero", 0)? != 0;
    let wrong = || format!("a shape of {:?} for numbers of shape {dims:?}", shape.get(..8).unwrap_or(&shape));
    if shape.len() > 64 {
        return Err(wrong());
    }
    let total = count(dims, usize::MAX).ok_or_else(wrong)?;
    // the graph has one picture, where the file has the batch's size
    if let (Some(size @ 2..), Some(0), Some(first)) = (import.fixed, batch, shape.first())
        && *first == size as i64
    {
        let rest: Option<Vec<usize>> = shape[1..].iter().map(|size| usize::try_from(*size).ok()).collect();
        if rest.is_none_or(|rest| count(&rest, usize::MAX) == Some(total)) || shape[1..].contains(&0) {
            shape[0] = 1;
        }
    }
    let wrong = || format!("a shape of {:?} for numbers of shape {dims:?}", shape.get(..8).unwrap_or(&shape));
    let (mut found, mut open) = (Vec::with_capacity(shape.len()), None);
    for (at, size) in shape.iter().enumerate() {
        found.push(match *size {
            -1 if open.is_none() => {
                open = Some(at);
                1
            }
            0 if !keep_zero => *dims.get(at).ok_or_else(wrong)?,
            size => usize::try_from(size).map_err(|_| wrong())?,
        });
    }
    let known = count(&found, usize::MAX).ok_or_else(wrong)?;
    match open {
        Some(open) if known > 0 && total.is_multiple_of(known) => found[open] = total / known,
        None if known == total => {}
        _ => return Err(wrong()),
    }
    let batch = batch_of(&found);
    Ok(Shape { dims: found, batch })
}

/// The first dimension is the batch if it is 1.
fn batch_of(dims: &[usize]) -> Option<usize> {
    (dims.first() == Some(&1)).then_some(0)
}

fn flatten(call: &Call<'_, '_>, dims: &[usize], batch: Option<usize>) -> Result<Shape, Fault> {
    let rank = dims.len();
    let at = call.int("axis", 1)?;
    let at = if at == rank as i64 { rank } else { axis(at, rank)? };
    let sizes = [&dims[..at], &dims[at..]].map(|part| part.iter().product());
    let batch = batch.and_then(|_| batch_of(&sizes));
    Ok(Shape { dims: sizes.to_vec(), batch })
}

fn squeeze(call: &Call<'_, '_>, dims: &[usize], batch: Option<usize>, single: bool) -> Result<Shape, Fault> {
    let rank = dims.len();
    let axes: Vec<usize> = match call.list("axes", 1)? {
        Some(axes) => axes.into_iter().map(|at| axis(at, rank)).collect::<Result<_, _>>()?,
        // a batch of an unknown size stays
        None => (0..rank).filter(|at| dims[*at] == 1 && (single || batch != Some(*at))).collect(),
    };
    if let Some(wrong) = axes.iter().find(|at| dims[**at] != 1) {
        return Err(format!("axis {wrong} of shape {dims:?}, which is not 1"));
    }
    let kept: Vec<usize> = (0..rank).filter(|at| !axes.contains(at)).collect();
    let batch = batch.and_then(|batch| kept.iter().position(|at| *at == batch));
    Ok(Shape { dims: kept.into_iter().map(|at| dims[at]).collect(), batch })
}

fn unsqueeze(call: &Call<'_, '_>, dims: &[usize], batch: Option<usize>) -> Result<Shape, Fault> {
    let axes = call.list("axes", 1)?.ok_or("no axes")?;
    let rank = dims.len() + axes.len();
    if rank > 64 {
        return Err(format!("{rank} dimensions"));
    }
    let axes: Vec<usize> = axes.into_iter().map(|at| axis(at, rank)).collect::<Result<_, _>>()?;
    let mut old = dims.iter().enumerate();
    let (mut made, mut place) = (Vec::with_capacity(rank), None);
    for at in 0..rank {
        if axes.contains(&at) {
            made.push(1);
            continue;
        }
        let (from, dim) = old.next().ok_or("axes that are equal")?;
        if batch == Some(from) {
            place = Some(at);
        }
        made.push(*dim);
    }
    if old.next().is_some() {
        return Err("axes that are equal".to_owned());
    }
    Ok(Shape { dims: made, batch: place })
}

/// Checks that a value may have these dimensions.
pub(super) fn bounded(dims: &[usize]) -> Result<usize, Fault> {
    let total = count(dims, MAX_NUMBERS).filter(|total| *total > 0);
    total
        .filter(|_| dims.len() <= 64)
        .ok_or_else(|| format!("a result of shape {:?}: expected 1 to 2^20 numbers", dims.get(..8).unwrap_or(dims)))
}
