//! Operators on constants: their results are constants, too.

use super::call::Call;
use super::elementwise::activation;
use super::import::{Fault, Import, Value};
use super::model::Attribute;
use super::reduce::{axes_of, kept};
use super::tensor::{Tensor, broadcast, count, places, repeated, strides};
use std::rc::Rc;
use tobari_infer::model::MAX_WEIGHTS;

/// A limit on the numbers of a constant that a node makes.
fn sized(import: &mut Import, dims: &[usize]) -> Result<usize, Fault> {
    let wrong = || format!("a constant of shape {:?}: expected at most 2^24 numbers", dims.get(..8).unwrap_or(dims));
    let total = count(dims, MAX_WEIGHTS).ok_or_else(wrong)?;
    import.steps.take(total)?;
    Ok(total)
}

pub(super) fn fold(import: &mut Import, call: &Call<'_, '_>) -> Result<Value, Fault> {
    let made = match call.operator() {
        "Constant" => literal(call)?,
        "ConstantOfShape" => filled(import, call)?,
        "Range" => range(import, call)?,
        "Where" => chosen(import, call)?,
        "Cast" => cast(call)?,
        "CastLike" => {
            let (tensor, whole) = (call.needed(0)?, call.needed(1)?.whole);
            let number = |x: &f64| if whole { x.trunc() } else { *x };
            let numbers = tensor.numbers.iter().map(number).collect();
            Tensor { dims: tensor.dims.clone(), numbers, whole }
        }
        "DequantizeLinear" => dequantized(import, call)?,
        "Clip" => {
            let (low, high) = (call.number("min", 1)?, call.number("max", 2)?);
            let (low, high) = (low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY));
            one_by_one(import, call, |x| x.max(low).min(high))?
        }
        "ReduceSum" | "ReduceMean" | "ReduceMax" | "ReduceMin" | "ReduceProd" => reduced(import, call)?,
        "MatMul" | "Gemm" | "Conv" | "BatchNormalization" | "MaxPool" | "AveragePool" | "GlobalAveragePool"
        | "GlobalMaxPool" | "Softmax" | "LogSoftmax" | "ArgMax" | "TopK" => {
            return Err("on constants alone: expected a value that depends on the picture".to_owned());
        }
        "Sum" | "Mean" | "Max" | "Min" | "Add" | "Sub" | "Mul" | "Div" | "Mod" | "Pow" | "Equal" | "Greater"
        | "GreaterOrEqual" | "Less" | "LessOrEqual" | "And" | "Or" => several(import, call)?,
        name => {
            let function = function(call, name)?;
            one_by_one(import, call, function)?
        }
    };
    Ok(Value::Constant(Rc::new(made)))
}

/// The constant of a node.
fn literal(call: &Call<'_, '_>) -> Result<Tensor, Fault> {
    let read = |(name, attribute): (&&str, &Attribute)| match (*name, attribute) {
        ("value", Attribute::Tensor(tensor)) => Some(tensor.clone()),
        ("value_float", Attribute::Float(x)) => Some(Tensor::scalar((*x).into(), false)),
        ("value_int", Attribute::Integer(x)) => Some(Tensor::scalar(*x as f64, true)),
        ("value_floats", Attribute::Floats(all)) => {
            Some(Tensor::vector(all.iter().map(|x| (*x).into()).collect(), false))
        }
        ("value_ints", Attribute::Integers(all)) => Some(Tensor::vector(all.iter().map(|x| *x as f64).collect(), true)),
        _ => None,
    };
    call.node.attributes.iter().find_map(read).ok_or_else(|| "a constant of another kind than numbers".to_owned())
}

fn filled(import: &mut Import, call: &Call<'_, '_>) -> Result<Tensor, Fault> {
    let shape = call.needed(0)?.integers();
    let dims: Option<Vec<usize>> = shape.iter().map(|size| usize::try_from(*size).ok()).collect();
    let dims = dims.filter(|dims| dims.len() <= 64).ok_or("a negative size")?;
    let total = sized(import, &dims)?;
    let (number, whole) = match call.node.attributes.get("value") {
        None => (0.0, false),
        Some(Attribute::Tensor(Tensor { numbers, whole, .. })) if numbers.len() == 1 => (numbers[0], *whole),
        Some(_) => return Err("an attribute value other than one number".to_owned()),
    };
    Ok(Tensor { dims, numbers: vec![number; total], whole })
}

fn range(import: &mut Import, call: &Call<'_, '_>) -> Result<Tensor, Fault> {
    let of = |at| call.number("", at)?.ok_or_else(|| format!("no input {at}"));
    let (start, limit, step) = (of(0)?, of(1)?, of(2)?);
    let total = ((limit - start) / step).ceil().max(0.0);
    if total.is_nan() || total > MAX_WEIGHTS as f64 {
        return Err(format!("a range from {start} to {limit} by {step}"));
    }
    let total = sized(import, &[total as usize])?;
    Ok(Tensor::vector((0..total).map(|at| start + at as f64 * step).collect(), call.needed(0)?.whole))
}

fn chosen(import: &mut Import, call: &Call<'_, '_>) -> Result<Tensor, Fault> {
    let [which, yes, no] = [call.needed(0)?, call.needed(1)?, call.needed(2)?];
    let dims = broadcast(&broadcast(&which.dims, &yes.dims)?, &no.dims)?;
    sized(import, &dims)?;
    let [a, b, c] = [which, yes, no].map(|tensor| repeated(&tensor.dims, &dims));
    let pick = |((at, yes_at), no_at): ((usize, usize), usize)| {
        if which.numbers[at] != 0.0 { yes.numbers[yes_at] } else { no.numbers[no_at] }
    };
    let numbers = a.zip(b).zip(c).map(pick).collect();
    Ok(Tensor { dims, numbers, whole: yes.whole })
}

fn cast(call: &Call<'_, '_>) -> Result<Tensor, Fault> {
    let tensor = call.needed(0)?;
    let convert: (fn(f64) -> f64, bool) = match call.int("to", 1) {
        Ok(1 | 10 | 11 | 16) | Err(_) => (|x| x, false),
        Ok(9) => (|x| f64::from(x != 0.0), true),
        Ok(2..=7 | 12 | 13) => (f64::trunc, true),
        _ => return Err("a cast to something but numbers".to_owned()),
    };
    let numbers = tensor.numbers.iter().map(|x| convert.0(*x)).collect();
    Ok(Tensor { dims: tensor.dims.clone(), numbers, whole: convert.1 })
}

/// `(x - zero) scale`, with one of each or one for each index of an axis.
fn dequantized(import: &mut Import, call: &Call<'_, '_>) -> Result<Tensor, Fault> {
    let (x, scale) = (call.needed(0)?, call.needed(1)?);
    let zero = call.constant(2)?;
    sized(import, &x.dims)?;
    let (size, step) = match scale.numbers.len() {
        1 => (1, 1),
        found => {
            let own = call.axis(1, x.dims.len())?;
            if found != x.dims[own] || scale.dims.len() > 1 {
                return Err("scales of blocks: expected one, or one for each index of the axis".to_owned());
            }
            (found, strides(&x.dims)[own].max(1))
        }
    };
    if zero.is_some_and(|zero| zero.numbers.len() != scale.numbers.len()) {
        return Err("zero points of another count than scales".to_owned());
    }
    let number = |(at, x): (usize, &f64)| {
        let own = at / step % size;
        (x - zero.map_or(0.0, |zero| zero.numbers[own])) * scale.numbers[own]
    };
    let numbers = x.numbers.iter().enumerate().map(number).collect();
    Ok(Tensor { dims: x.dims.clone(), numbers, whole: false })
}

fn one_by_one(import: &mut Import, call: &Call<'_, '_>, f: impl Fn(f64) -> f64) -> Result<Tensor, Fault> {
    let tensor = call.needed(0)?;
    sized(import, &tensor.dims)?;
    let numbers = tensor.numbers.iter().map(|x| f(*x)).collect();
    Ok(Tensor { dims: tensor.dims.clone(), numbers, whole: tensor.whole })
}

/// A function of one number.
fn function(call: &Call<'_, '_>, name: &str) -> Result<Box<dyn Fn(f64) -> f64>, Fault> {
    let plain: fn(f64) -> f64 = match name {
        "Neg" => |x| -x,
        "Abs" => f64::abs,
        "Sqrt" => f64::sqrt,
        "Exp" => f64::exp,
        "Log" => f64::ln,
        "Floor" => f64::floor,
        "Ceil" => f64::ceil,
        "Round" => f64::round_ties_even,
        "Reciprocal" => |x| 1.0 / x,
        "Sign" => |x| if x == 0.0 { 0.0 } else { x.signum() },
        "Not" => |x| f64::from(x == 0.0),
        _ => {
            let activation =
                activation(call)?.ok_or("on constants alone: expected a value that depends on the picture")?;
            return Ok(Box::new(move |x| activation.value(x)));
        }
    };
    Ok(Box::new(plain))
}

/// A function of two numbers or more, from the first to the last.
fn several(import: &mut Import, call: &Call<'_, '_>) -> Result<Tensor, Fault> {
    let name = call.operator();
    sized(import, &call.needed(0)?.dims.clone())?;
    let mut found = Tensor::clone(call.needed(0)?);
    for at in 1..call.inputs.len() {
        let other = call.needed(at)?;
        let truth = matches!(name, "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" | "And" | "Or");
        let whole = truth || found.whole;
        let exact = found.whole && other.whole;
        let aligned = super::elementwise::aligned(call, other, found.dims.len())?;
        let dims = broadcast(&found.dims, &aligned)?;
        sized(import, &dims)?;
        let f = |a: f64, b: f64| match name {
            "Sum" | "Mean" | "Add" => a + b,
            "Sub" => a - b,
            "Mul" => a * b,
            "Div" if exact => (a / b).trunc(),
            "Div" => a / b,
            "Mod" if exact => a - b * (a / b).floor(),
            "Mod" => a % b,
            "Pow" => a.powf(b),
            "Max" => a.max(b),
            "Min" => a.min(b),
            "Equal" => f64::from(a == b),
            "Greater" => f64::from(a > b),
            "GreaterOrEqual" => f64::from(a >= b),
            "Less" => f64::from(a < b),
            "LessOrEqual" => f64::from(a <= b),
            "And" => f64::from(a != 0.0 && b != 0.0),
            _ => f64::from(a != 0.0 || b != 0.0),
        };
        let (a, b) = (repeated(&found.dims, &dims), repeated(&aligned, &dims));
        let numbers = a.zip(b).map(|(a, b)| f(found.numbers[a], other.numbers[b])).collect();
        found = Tensor { dims, numbers, whole };
    }
    if name == "Mean" {
        let count = call.inputs.len() as f64;
        found.numbers.iter_mut().for_each(|x| *x /= count);
    }
    Ok(found)
}

fn reduced(import: &mut Import, call: &Call<'_, '_>) -> Result<Tensor, Fault> {
    let tensor = call.needed(0)?;
    sized(import, &tensor.dims)?;
    let Some(axes) = axes_of(call, tensor.dims.len())? else { return Ok(Tensor::clone(tensor)) };
    let stays = |at: &usize| !axes.contains(at);
    let outer: Vec<usize> = (0..tensor.dims.len()).filter(stays).collect();
    let own = strides(&tensor.dims);
    let pick = |axes: &[usize], from: &[usize]| axes.iter().map(|at| from[*at]).collect::<Vec<usize>>();
    let dims = pick(&outer, &tensor.dims);
    let total = sized(import, &dims)?;
    let size: usize = axes.iter().map(|at| tensor.dims[*at]).product();
    if total.saturating_mul(size) != tensor.numbers.len() || size == 0 {
        return Err("a reduction without numbers".to_owned());
    }
    let one = |start| {
        let all = places(pick(&axes, &tensor.dims), pick(&axes, &own), start).map(|at| tensor.numbers[at]);
        match call.operator() {
            "ReduceMax" => all.fold(f64::NEG_INFINITY, f64::max),
            "ReduceMin" => all.fold(f64::INFINITY, f64::min),
            "ReduceProd" => all.product(),
            "ReduceMean" => all.sum::<f64>() / size as f64,
            _ => all.sum(),
        }
    };
    let numbers = places(dims, pick(&outer, &own), 0).map(one).collect();
    Ok(Tensor { dims: kept(call, &tensor.dims, &axes)?, numbers, whole: tensor.whole })
}
