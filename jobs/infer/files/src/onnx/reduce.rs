//! Means, sums and largest numbers over whole dimensions.

use super::call::Call;
use super::import::{Computed, Fault, Import, Value};
use super::tensor::axis;
use super::views::{redressed, transposed};
use std::rc::Rc;
use tobari_infer::Volume;
use tobari_infer_deep::{Activation, Op};

/// The axes of a reduction in order; none if the node leaves its input as it is.
pub(super) fn axes_of(call: &Call<'_, '_>, rank: usize) -> Result<Option<Vec<usize>>, Fault> {
    let axes = call.list("axes", 1)?.filter(|axes| !axes.is_empty());
    let mut axes: Vec<usize> = match axes {
        Some(axes) => axes.into_iter().map(|at| axis(at, rank)).collect::<Result<_, _>>()?,
        None if call.int("noop_with_empty_axes", 0)? != 0 => return Ok(None),
        None => (0..rank).collect(),
    };
    axes.sort_unstable();
    axes.dedup();
    Ok(Some(axes))
}

/// The dimensions after a reduction: those of the axes become 1, or disappear.
pub(super) fn kept(call: &Call<'_, '_>, dims: &[usize], axes: &[usize]) -> Result<Vec<usize>, Fault> {
    let keep = call.int("keepdims", 1)? != 0;
    let one = |at: usize| if axes.contains(&at) { keep.then_some(1) } else { Some(dims[at]) };
    Ok((0..dims.len()).filter_map(one).collect())
}

pub(super) fn reduced(import: &mut Import, call: &Call<'_, '_>) -> Result<Value, Fault> {
    let x = call.computed(0)?.clone();
    let rank = x.dims.len();
    let Some(axes) = axes_of(call, rank)? else { return Ok(Value::Computed(x)) };
    if let Some(batch) = x.batch
        && axes.contains(&batch)
    {
        return Err("over the batch: expected axes of one picture".to_owned());
    }
    let dims = kept(call, &x.dims, &axes)?;
    let keep = dims.len() == rank;
    let batch = x.batch.map(|batch| if keep { batch } else { batch - axes.iter().filter(|at| **at < batch).count() });
    let (outer, count) = over(&x, &axes);
    let kind = call.operator();
    let poly = match kind {
        "ReduceL1" => import.steps.activation(&x.poly, Activation::Absolute)?,
        "ReduceSumSquare" => import.steps.product(&x.poly, &x.poly)?,
        _ => Rc::clone(&x.poly),
    };
    let made = whole(import, &x.with(poly), &axes, outer, kind)?;
    let poly = if matches!(kind, "ReduceSum" | "ReduceL1" | "ReduceSumSquare") {
        import.steps.scaled(&made.poly, count as f64)?
    } else {
        made.poly
    };
    Ok(Value::Computed(Computed { dims, batch, poly }))
}

/// The axes that stay, and the count of numbers over the others.
fn over(x: &Computed, axes: &[usize]) -> (Vec<usize>, usize) {
    let outer = (0..x.dims.len()).filter(|at| !axes.contains(at)).collect();
    (outer, axes.iter().map(|at| x.dims[*at]).product())
}

/// One number for each index of the outer axes: a pool over all the others.
fn whole(import: &mut Import, x: &Computed, axes: &[usize], outer: Vec<usize>, kind: &str) -> Result<Computed, Fault> {
    let channels: usize = outer.iter().map(|at| x.dims[*at]).product();
    let sizes: Vec<usize> = axes.iter().map(|at| x.dims[*at]).collect();
    let mut order = outer;
    order.extend(axes);
    let x = transposed(import, x, &order)?;
    // rows and columns stay if there are two
    let [height, width] = match sizes[..] {
        [] => [1, 1],
        [ref rows @ .., width] => [rows.iter().product(), width],
    };
    let volume = Volume { channels, height, width };
    let largest = match kind {
        "ReduceMax" | "GlobalMaxPool" => Some(1.0),
        "ReduceMin" => Some(-1.0),
        _ => None,
    };
    let argument = import.steps.scaled(&x.poly, largest.unwrap_or(1.0))?;
    let value = import.steps.result(&argument)?;
    let value = import.steps.shaped(value, volume)?;
    if (height, width) == (1, 1) {
        return Ok(x);
    }
    let (kernel, padding) = ([height, width], [0; 4]);
    let op = match largest {
        Some(_) => Op::MaximumPool { kernel, stride: kernel, dilation: [1; 2], padding },
        None => Op::AveragePool { kernel, stride: kernel, padding, count_padding: true },
    };
    let value = import.steps.add(op, &[value], Volume { channels, height: 1, width: 1 })?;
    let poly = import.steps.identity(value);
    let poly = import.steps.scaled(&poly, largest.unwrap_or(1.0))?;
    Ok(Computed { dims: vec![channels], batch: None, poly })
}

/// Pools over all rows and columns.
pub(super) fn global(import: &mut Import, call: &Call<'_, '_>) -> Result<Value, Fault> {
    let x = call.computed(0)?.clone();
    let rank = x.dims.len();
    if rank < 3 || x.dims[0] != 1 {
        return Err(format!("a value of shape {:?}: expected a batch, channels, and rows or columns", x.dims));
    }
    let axes: Vec<usize> = (2..rank).collect();
    let made = whole(import, &x, &axes, vec![0, 1], call.operator())?;
    let mut dims = vec![1; rank];
    dims[1] = x.dims[1];
    Ok(Value::Computed(redressed(import, &made, dims, Some(0))?))
}
