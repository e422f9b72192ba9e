//! Converts nodes that are layers by themselves, from their attributes and constants.

use super::graph::{Attribute, Node, Tensor};
use super::import::{Fault, Value};
use super::polynomial::{Polynomial, product, sum};
use std::rc::Rc;
use tobari_infer::LayerKind;
use tobari_infer::model::{MAX_NUMBERS, MAX_WEIGHTS};

/// A layer, and the dimensions of its result without the batch.
type Made = Result<(LayerKind, Vec<usize>), Fault>;

fn integer(node: &Node<'_>, name: &str, default: i64) -> Result<i64, Fault> {
    match node.attributes.get(name) {
        None => Ok(default),
        Some(Attribute::Integer(integer)) => Ok(*integer),
        Some(_) => Err(format!("an attribute {name} that is no integer")),
    }
}

fn float(node: &Node<'_>, name: &str, default: f32) -> Result<f64, Fault> {
    match node.attributes.get(name) {
        None => Ok(default.into()),
        Some(Attribute::Float(x)) => Ok((*x).into()),
        Some(_) => Err(format!("an attribute {name} that is no number")),
    }
}

/// The sizes in an attribute, of which there must be `N`.
fn sizes<const N: usize>(node: &Node<'_>, name: &str, default: [usize; N]) -> Result<[usize; N], Fault> {
    let wrong = || format!("an attribute {name} other than {N} sizes");
    match node.attributes.get(name) {
        None => Ok(default),
        Some(Attribute::Integers(all)) if all.len() == N => {
            let mut found = [0; N];
            for (found, size) in found.iter_mut().zip(all) {
                *found = usize::try_from(*size).ok().filter(|size| *size <= MAX_NUMBERS).ok_or_else(wrong)?;
            }
            Ok(found)
        }
        Some(_) => Err(wrong()),
    }
}

/// The positions of windows.
struct Windows {
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 4],
    count: [usize; 2],
}

fn windows(node: &Node<'_>, rows: usize, columns: usize, kernel: [usize; 2]) -> Result<Windows, Fault> {
    let stride = sizes(node, "strides", [1, 1])?;
    let mut padding: [usize; 4] = sizes(node, "pads", [0; 4])?;
    if sizes(node, "dilations", [1, 1])? != [1, 1] {
        return Err("dilations".to_owned());
    }
    let input = [rows, columns];
    if kernel.contains(&0) || stride.contains(&0) {
        return Err("a kernel or stride of 0".to_owned());
    }
    let auto = node.attributes.get("auto_pad");
    let late = match auto {
        None => None,
        Some(Attribute::Text(text)) => match text.as_str() {
            "NOTSET" => None,
            "VALID" => {
                padding = [0; 4];
                None
            }
            "SAME_UPPER" => Some(true),
            "SAME_LOWER" => Some(false),
            _ => return Err("an attribute auto_pad of another value".to_owned()),
        },
        Some(_) => return Err("an attribute auto_pad of another kind".to_owned()),
    };
    if let Some(late) = late {
        for axis in 0..2 {
            let total =
                ((input[axis].div_ceil(stride[axis]) - 1) * stride[axis] + kernel[axis]).saturating_sub(input[axis]);
            let (less, more) = (total / 2, total - total / 2);
            (padding[axis], padding[axis + 2]) = if late { (less, more) } else { (more, less) };
        }
    }
    let mut count = [0; 2];
    for axis in 0..2 {
        let room = (input[axis] + padding[axis] + padding[axis + 2]).checked_sub(kernel[axis]);
        count[axis] = room.ok_or("a kernel larger than its input")? / stride[axis] + 1;
    }
    Ok(Windows { kernel, stride, padding, count })
}

pub(super) fn convolution(node: &Node<'_>, dims: &[usize], weights: &Tensor, bias: Option<&Tensor>) -> Made {
    let ([inputs, height, width], [outputs, taken, rows, columns]) = (dims, &weights.dims[..]) else {
        return Err(format!("a convolution of {dims:?} by {:?} (expected two axes)", weights.dims));
    };
    let groups = usize::try_from(integer(node, "group", 1)?).ok().filter(|groups| *groups > 0);
    let groups = groups.ok_or("an attribute group below 1")?;
    let fits = taken.checked_mul(groups) == Some(*inputs) && outputs.is_multiple_of(groups) && *outputs > 0;
    if !fits || sizes(node, "kernel_shape", [*rows, *columns])? != [*rows, *columns] {
        return Err(format!("weights of shape {:?} for {inputs} channels in {groups} groups", weights.dims));
    }
    let windows = windows(node, *height, *width, [*rows, *columns])?;
    let taps = rows * columns;
    let count = outputs.checked_mul(*inputs).and_then(|count| count.checked_mul(taps));
    let count = count.filter(|count| *count <= MAX_WEIGHTS).ok_or("more than 2^24 weights")?;
    let spread = if groups == 1 {
        weights.numbers.clone()
    } else {
        // a group sees only its own channels
        let mut spread = vec![0.0; count];
        for (output, row) in weights.numbers.chunks_exact(taken * taps).enumerate() {
            let first = output / (outputs / groups) * taken;
            spread[(output * inputs + first) * taps..][..row.len()].copy_from_slice(row);
        }
        spread
    };
    let bias = match bias {
        None => vec![0.0; *outputs],
        Some(bias) if bias.dims == [*outputs] => bias.numbers.clone(),
        Some(bias) => return Err(format!("offsets of shape {:?} for {outputs} channels", bias.dims)),
    };
    let Windows { kernel, stride, padding, count } = windows;
    let kind = LayerKind::Convolution { channels: *outputs, kernel, stride, padding, weights: spread, bias };
    Ok((kind, vec![*outputs, count[0], count[1]]))
}

pub(super) fn pool(node: &Node<'_>, dims: &[usize]) -> Made {
    let [channels, height, width] = dims else { return Err(format!("means of {dims:?} (expected two axes)")) };
    let kernel: [usize; 2] = sizes(node, "kernel_shape", [0, 0])?;
    if integer(node, "ceil_mode", 0)? != 0 {
        return Err("ceil_mode".to_owned());
    }
    let count_padding = integer(node, "count_include_pad", 0)? != 0;
    let Windows { kernel, stride, padding, count } = windows(node, *height, *width, kernel)?;
    let kind = LayerKind::AveragePool { kernel, stride, padding, count_padding };
    Ok((kind, vec![*channels, count[0], count[1]]))
}

pub(super) fn gemm(node: &Node<'_>, dims: &[usize], weights: &Tensor, bias: Option<&Tensor>) -> Made {
    if integer(node, "transA", 0)? != 0 {
        return Err("transA".to_owned());
    }
    let factors = [float(node, "alpha", 1.0)?, float(node, "beta", 1.0)?];
    dense(dims, weights, bias, factors, integer(node, "transB", 0)? != 0)
}

/// `alpha x W + beta bias`, with `W[i][o]`, or `W[o][i]` if transposed.
pub(super) fn dense(
    dims: &[usize],
    weights: &Tensor,
    bias: Option<&Tensor>,
    [alpha, beta]: [f64; 2],
    transposed: bool,
) -> Made {
    let ([inputs], [first, second]) = (dims, &weights.dims[..]) else {
        return Err(format!("a product of numbers of shape {dims:?} and weights of shape {:?}", weights.dims));
    };
    let (taken, outputs) = if transposed { (*second, *first) } else { (*first, *second) };
    if taken != *inputs || outputs == 0 || weights.numbers.len() > MAX_WEIGHTS {
        return Err(format!("weights of shape {:?} for {inputs} numbers", weights.dims));
    }
    let at = |output: usize, input: usize| {
        weights.numbers[if transposed { output * inputs + input } else { input * outputs + output }]
    };
    let rows = (0..outputs).flat_map(|output| (0..*inputs).map(move |input| (output, input)));
    let weights = rows.map(|(output, input)| alpha * at(output, input)).collect();
    let bias = match bias {
        None => vec![0.0; outputs],
        Some(bias) if bias.numbers.len() == 1 && bias.dims.len() <= 2 => vec![beta * bias.numbers[0]; outputs],
        Some(bias) if bias.dims == [outputs] || bias.dims == [1, outputs] => {
            bias.numbers.iter().map(|x| beta * x).collect()
        }
        Some(bias) => return Err(format!("offsets of shape {:?} for {outputs} numbers", bias.dims)),
    };
    Ok((LayerKind::Dense { outputs, weights, bias }, vec![outputs]))
}

/// Batch normalisation with fixed statistics: a scale and a shift.
pub(super) fn normalised(node: &Node<'_>, x: &Rc<Polynomial>, parts: [&Tensor; 4]) -> Result<Value, Fault> {
    if integer(node, "training_mode", 0)? != 0 {
        return Err("training_mode".to_owned());
    }
    if node.outputs.iter().skip(1).any(|name| !name.is_empty()) {
        return Err("statistics as outputs".to_owned());
    }
    let channels = x.dims.first().copied().unwrap_or(0);
    if parts.iter().any(|part| part.dims != [channels]) || !matches!(x.dims.len(), 1 | 3) {
        return Err(format!("statistics of other shapes than [{channels}]"));
    }
    let epsilon = float(node, "epsilon", 1e-5)?;
    let [gain, shift, mean, variance] = parts.map(|part| &part.numbers);
    let scale: Vec<f64> = gain.iter().zip(variance).map(|(gain, v)| gain / (v + epsilon).sqrt()).collect();
    let shift = (0..channels).map(|c| shift[c] - scale[c] * mean[c]).collect();
    let dims = if x.dims.len() == 3 { vec![channels, 1, 1] } else { vec![channels] };
    let tensor = |numbers| Value::Constant(Rc::new(Tensor { dims: dims.clone(), numbers, whole: false }));
    let scaled = product(&Value::Polynomial(Rc::clone(x)), &tensor(scale))?;
    sum(&scaled, &tensor(shift), 1.0)
}

/// The constant of a node.
pub(super) fn constant(node: &Node<'_>) -> Result<Value, Fault> {
    let vector = |numbers: Vec<f64>, whole| Tensor { dims: vec![numbers.len()], numbers, whole };
    let one = |number: f64, whole| Tensor { dims: Vec::new(), numbers: vec![number], whole };
    let read = |(name, attribute): (&&str, &Attribute)| match (*name, attribute) {
        ("value", Attribute::Tensor(tensor)) => Some(tensor.clone()),
        ("value_float", Attribute::Float(x)) => Some(one((*x).into(), false)),
        ("value_int", Attribute::Integer(x)) => Some(one(*x as f64, true)),
        ("value_floats", Attribute::Floats(all)) => Some(vector(all.iter().map(|x| (*x).into()).collect(), false)),
        ("value_ints", Attribute::Integers(all)) => Some(vector(all.iter().map(|x| *x as f64).collect(), true)),
        _ => None,
    };
    let tensor = node.attributes.iter().find_map(read).ok_or("a constant of another kind")?;
    Ok(Value::Constant(Rc::new(tensor)))
}

/// The dimensions after `Reshape`: 0 keeps a dimension, one -1 takes the rest, and the first is the
/// batch.
pub(super) fn reshaped(dims: &[usize], batch: Option<usize>, shape: &Tensor) -> Result<Vec<usize>, Fault> {
    let wrong = || format!("a shape of {:?} for a batch of {dims:?}", shape.numbers.get(..8).unwrap_or(&shape.numbers));
    let (Some((first, rest)), true) = (shape.numbers.split_first(), shape.whole && shape.dims.len() == 1) else {
        return Err(wrong());
    };
    if rest.is_empty() || rest.len() > 3 {
        return Err(wrong());
    }
    let count: usize = dims.iter().product();
    let (mut found, mut open) = (Vec::with_capacity(rest.len()), None);
    for (at, size) in rest.iter().enumerate() {
        match *size {
            -1.0 if open.is_none() => {
                open = Some(at);
                found.push(1);
            }
            0.0 => found.push(*dims.get(at).ok_or_else(wrong)?),
            size if (1.0..=MAX_NUMBERS as f64).contains(&size) => found.push(size as usize),
            _ => return Err(wrong()),
        }
    }
    let product = found.iter().try_fold(1usize, |product, size| product.checked_mul(*size)).ok_or_else(wrong)?;
    if let Some(open) = open {
        if !count.is_multiple_of(product) {
            return Err(wrong());
        }
        found[open] = count / product;
    } else if product != count {
        return Err(wrong());
    }
    // the batch stays: unchanged, as its number, or as the rest
    let kept = *first == 0.0 || batch.is_some_and(|batch| *first == batch as f64) || (*first == -1.0 && open.is_none());
    if kept { Ok(found) } else { Err(wrong()) }
}
