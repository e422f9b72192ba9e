//! Operators on single numbers: sums, products, activations, and patterns of them.

use super::call::Call;
use super::import::{Computed, Fault, Import, Value};
use super::steps::{Polynomial, Work, shortened};
use super::tensor::{Tensor, broadcast, repeated};
use super::views;
use std::rc::Rc;
use tobari_infer_deep::{Activation, Op};

/// The most relative difference of numbers that single precision cannot tell apart.
const CLOSE: f64 = 1e-6;

pub(super) fn elementwise(import: &mut Import, call: &Call<'_, '_>) -> Result<Value, Fault> {
    match call.operator() {
        "Add" | "Sub" => {
            let sign = if call.operator() == "Sub" { -1.0 } else { 1.0 };
            added(import, call.required(0)?, &second(call)?, sign)
        }
        "Sum" | "Mean" => {
            let mut sum = call.required(0)?.clone();
            for at in 1..call.inputs.len() {
                sum = added(import, &sum, call.required(at)?, 1.0)?;
            }
            let factor = if call.operator() == "Mean" { 1.0 / call.inputs.len() as f64 } else { 1.0 };
            multiplied(import, &sum, &Value::Constant(Rc::new(Tensor::scalar(factor, false))))
        }
        "Mul" => multiplied(import, call.required(0)?, &second(call)?),
        "Div" => match second(call)? {
            Value::Constant(b) => {
                let numbers = b.numbers.iter().map(|x| 1.0 / x).collect();
                let b = Tensor { dims: b.dims.clone(), numbers, whole: false };
                multiplied(import, call.required(0)?, &Value::Constant(Rc::new(b)))
            }
            _ => Err("a division by a value that depends on the picture: batch normalisation, or a product with a constant, works"
                .to_owned()),
        },
        "Neg" => {
            let x = call.computed(0)?;
            Ok(Value::Computed(x.with(import.steps.scaled(&x.poly, -1.0)?)))
        }
        "Pow" => power(import, call),
        "Max" | "Min" => extreme(import, call),
        "PRelu" => slopes(import, call),
        "Erf" => {
            let x = call.computed(0)?;
            Ok(Value::Computed(x.with(import.steps.erf(&x.poly)?)))
        }
        _ => activated(import, call),
    }
}

/// The second operand. Early files say where its first dimension belongs.
fn second(call: &Call<'_, '_>) -> Result<Value, Fault> {
    let value = call.required(1)?;
    let rank = match call.required(0)? {
        Value::Constant(a) => a.dims.len(),
        Value::Computed(a) => a.dims.len(),
        _ => 0,
    };
    match value {
        Value::Constant(b) => {
            let dims = aligned(call, b, rank)?;
            if dims == b.dims {
                return Ok(value.clone());
            }
            Ok(Value::Constant(Rc::new(Tensor { dims, numbers: b.numbers.clone(), whole: b.whole })))
        }
        Value::Computed(b) if call.version < 7 && call.has("axis") && b.dims.len() != rank => {
            Err("an axis for a value that depends on the picture: expected values of the same rank".to_owned())
        }
        _ => Ok(value.clone()),
    }
}

/// The dimensions of a second operand, with 1 for those behind the last one of an early file.
pub(super) fn aligned(call: &Call<'_, '_>, b: &Tensor, rank: usize) -> Result<Vec<usize>, Fault> {
    let mut dims = b.dims.clone();
    if call.version < 7 && call.int("broadcast", 0)? != 0 && call.has("axis") {
        let axis = call.axis(0, rank)?;
        let missing = rank.checked_sub(axis + dims.len()).ok_or("an axis behind the last dimension")?;
        dims.extend(std::iter::repeat_n(1, missing));
    }
    Ok(dims)
}

/// The numbers of a constant beside a value, as coefficients of its base: one, one for each
/// channel, or one for each number. The constant's shape must fit into that of the value.
pub(super) fn constants(import: &mut Import, tensor: &Tensor, x: &Computed) -> Result<Vec<f64>, Fault> {
    if let Some(number) = tensor.uniform() {
        return Ok(vec![number]);
    }
    import.steps.take(x.len())?;
    let numbers = repeated(&tensor.dims, &x.dims).map(|at| tensor.numbers[at]).collect();
    Ok(shortened(numbers, import.steps.volume(x.poly.base)))
}

/// A value beside a constant, both with the shape that they have together.
fn beside(import: &mut Import, x: &Computed, tensor: &Tensor) -> Result<(Computed, Vec<f64>), Fault> {
    if tensor.numbers.is_empty() {
        return Err("a constant without numbers".to_owned());
    }
    let dims = broadcast(&x.dims, &tensor.dims)?;
    super::shapes::bounded(&dims)?;
    let x = views::repeated(import, x, &dims)?;
    let numbers = constants(import, tensor, &x)?;
    Ok((x, numbers))
}

/// Two values, both with the shape that they have together.
fn both(import: &mut Import, a: &Computed, b: &Computed) -> Result<(Computed, Computed), Fault> {
    let dims = broadcast(&a.dims, &b.dims)?;
    super::shapes::bounded(&dims)?;
    Ok((views::repeated(import, a, &dims)?, views::repeated(import, b, &dims)?))
}

/// `a + sign b`
pub(super) fn added(import: &mut Import, a: &Value, b: &Value, sign: f64) -> Result<Value, Fault> {
    let poly = match (a, b) {
        (Value::Computed(a), Value::Computed(b)) => {
            let (a, b) = both(import, a, b)?;
            a.with(import.steps.sum(&a.poly, &b.poly, sign)?)
        }
        (Value::Computed(a), Value::Constant(b)) => {
            let (a, mut numbers) = beside(import, a, b)?;
            numbers.iter_mut().for_each(|x| *x *= sign);
            a.with(import.steps.shifted(&a.poly, &numbers)?)
        }
        (Value::Constant(a), Value::Computed(b)) => {
            let (b, numbers) = beside(import, b, a)?;
            let poly = import.steps.scaled(&b.poly, sign)?;
            b.with(import.steps.shifted(&poly, &numbers)?)
        }
        _ => return Err("on constants alone: compute it outside the network".to_owned()),
    };
    Ok(Value::Computed(poly))
}

fn multiplied(import: &mut Import, a: &Value, b: &Value) -> Result<Value, Fault> {
    match (a, b) {
        (Value::Computed(a), Value::Computed(b)) => {
            let (a, b) = both(import, a, b)?;
            let found = match pattern(import, &a.poly, &b.poly)? {
                Some(found) => Some(found),
                None => pattern(import, &b.poly, &a.poly)?,
            };
            let poly = match found {
                Some(found) => found,
                None => import.steps.product(&a.poly, &b.poly)?,
            };
            Ok(Value::Computed(a.with(poly)))
        }
        (Value::Computed(x), Value::Constant(by)) | (Value::Constant(by), Value::Computed(x)) => {
            let (x, numbers) = beside(import, x, by)?;
            let poly = match numbers[..] {
                [factor] => import.steps.scaled(&x.poly, factor)?,
                _ => import.steps.times(&x.poly, &numbers)?,
            };
            Ok(Value::Computed(x.with(poly)))
        }
        _ => Err("on constants alone: compute it outside the network".to_owned()),
    }
}

/// The number `f` with `x = f y`, for polynomials in one base.
fn ratio(x: &Polynomial, y: &Polynomial) -> Option<f64> {
    if x.base != y.base || x.coefficients.len() != y.coefficients.len() {
        return None;
    }
    let pairs = || {
        x.coefficients.iter().zip(&y.coefficients).flat_map(|(x, y)| {
            let count = x.len().max(y.len());
            let at = |all: &[f64], k: usize| all[if all.len() == 1 { 0 } else { k.min(all.len() - 1) }];
            (0..count).map(move |k| (at(x, k), at(y, k)))
        })
    };
    if x.coefficients.iter().zip(&y.coefficients).any(|(x, y)| x.len() != y.len() && x.len() != 1 && y.len() != 1) {
        return None;
    }
    let (largest, of) = pairs()
        .map(|(x, y)| (y, x))
        .fold((0.0, 0.0), |most: (f64, f64), pair| if pair.0.abs() > most.0.abs() { pair } else { most });
    let factor = of / largest;
    let fits = |(x, y): (f64, f64)| (x - factor * y).abs() <= CLOSE * (factor * largest).abs();
    (factor.is_finite() && factor != 0.0 && pairs().all(fits)).then_some(factor)
}

/// A number as the nearest simple one, if single precision cannot tell them apart.
fn rounded(factor: f64) -> f64 {
    [1.0, 0.5, 2.0, -1.0].into_iter().find(|simple| (factor - simple).abs() <= CLOSE).unwrap_or(factor)
}

/// A product `x f(x)` that is one activation: with a sigmoid, an error function, or a ramp.
fn pattern(import: &mut Import, x: &Rc<Polynomial>, y: &Rc<Polynomial>) -> Result<Option<Rc<Polynomial>>, Fault> {
    // y = low + factor f(argument)
    let [low, factor] = match &y.coefficients[..] {
        [low, factor] => match (&low[..], &factor[..]) {
            ([low], [factor]) => [*low, *factor],
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    let Some(argument) = import.steps.arguments.get(&y.base).cloned() else { return Ok(None) };
    let ramp = |slope: f64, offset: f64, import: &mut Import| {
        // 6 (slope x + offset) - 3 is the argument of the activation
        let scaled = import.steps.scaled(&argument, 6.0 * slope)?;
        import.steps.shifted(&scaled, &[6.0 * offset - 3.0])
    };
    let (activation, argument, factor) = match import.steps.all.get(y.base.wrapping_sub(1)).map(|step| &step.work) {
        Some(Work::Erf) if (low - factor).abs() <= CLOSE * factor.abs() => {
            (Activation::Gelu, import.steps.scaled(&argument, std::f64::consts::SQRT_2)?, 2.0 * factor)
        }
        Some(Work::Op(Op::Activation(Activation::Sigmoid))) if low == 0.0 => (Activation::Silu, argument, factor),
        Some(Work::Op(Op::Activation(Activation::HardSigmoid { slope, offset }))) if low == 0.0 => {
            let (slope, offset) = (*slope, *offset);
            (Activation::HardSwish, ramp(slope, offset, import)?, factor)
        }
        Some(Work::Op(Op::Activation(Activation::Clip { low: least, high })))
            if low == -factor * least && high.is_finite() && least.is_finite() && high > least =>
        {
            let (least, width) = (*least, high - least);
            (Activation::HardSwish, ramp(1.0 / width, -least / width, import)?, factor * width)
        }
        _ => return Ok(None),
    };
    let Some(times) = ratio(x, &argument) else { return Ok(None) };
    // x itself is often there already, and differs from the argument by its rounding alone
    let times = rounded(times);
    let argument = import.steps.scaled(x, 1.0 / times)?;
    let made = import.steps.activation(&argument, activation)?;
    import.steps.scaled(&made, times * factor).map(Some)
}

/// A comparison of a value with one number.
pub(super) fn above(call: &Call<'_, '_>) -> Result<Value, Fault> {
    let greater = matches!(call.operator(), "Greater" | "GreaterOrEqual");
    let (x, bound) =
        if greater { (call.required(0)?, call.required(1)?) } else { (call.required(1)?, call.required(0)?) };
    match (x, bound) {
        (Value::Computed(x), Value::Constant(bound)) if bound.dims.len() <= x.dims.len() => {
            let bound = bound.uniform().ok_or("several bounds: expected one")?;
            Ok(Value::Above(x.clone(), bound))
        }
        _ => Err("a comparison other than of a value above one number".to_owned()),
    }
}

/// A choice between two values by a comparison: one that is a rectifier or a softplus.
pub(super) fn choice(import: &mut Import, call: &Call<'_, '_>) -> Result<Value, Fault> {
    let wrong = "a choice between values: expected x above 0 and multiples of x, or a large x instead of its softplus";
    let Value::Above(x, bound) = call.required(0)?.clone() else { return Err(wrong.to_owned()) };
    let multiple = |value: &Value| match value {
        Value::Computed(a) if a.dims == x.dims => ratio(&a.poly, &x.poly).map(rounded),
        Value::Constant(c) if c.uniform() == Some(0.0) && c.dims.len() <= x.dims.len() => Some(0.0),
        _ => None,
    };
    let above = multiple(call.required(1)?).ok_or(wrong)?;
    if bound == 0.0
        && let Some(below) = multiple(call.required(2)?)
    {
        if above == 0.0 {
            // below min(x, 0)
            let turned = import.steps.scaled(&x.poly, -1.0)?;
            let poly = import.steps.activation(&turned, Activation::Relu)?;
            return Ok(Value::Computed(x.with(import.steps.scaled(&poly, -below)?)));
        }
        let slope = below / above;
        let activation = if slope == 0.0 { Activation::Relu } else { Activation::LeakyRelu { slope } };
        let poly = import.steps.activation(&x.poly, activation)?;
        return Ok(Value::Computed(x.with(import.steps.scaled(&poly, above)?)));
    }
    // log(1 + e^x) - x is below 10^-6 from 14 on
    match call.required(2)? {
        Value::Computed(soft) if above == 1.0 && bound >= 14.0 && soft.poly.factor() == Some(1.0) => {
            let same = import.steps.arguments.get(&soft.poly.base).and_then(|argument| ratio(argument, &x.poly));
            let is = import.steps.op(soft.poly.base) == Some(&Op::Activation(Activation::Softplus));
            if is && same.map(rounded) == Some(1.0) { Ok(Value::Computed(soft.clone())) } else { Err(wrong.to_owned()) }
        }
        _ => Err(wrong.to_owned()),
    }
}

fn power(import: &mut Import, call: &Call<'_, '_>) -> Result<Value, Fault> {
    let x = call.computed(0)?.clone();
    let exponent = call.needed(1)?.uniform().ok_or("several exponents: expected one")?;
    if !(1.0..=64.0).contains(&exponent) || exponent.fract() != 0.0 {
        return Err(format!("the exponent {exponent}: expected an integer from 1 to 64"));
    }
    let (dims, mut rest, mut square) = (x.clone(), exponent as u32, Rc::clone(&x.poly));
    let mut found: Option<Rc<Polynomial>> = None;
    loop {
        if rest & 1 == 1 {
            found = Some(match found {
                None => Rc::clone(&square),
                Some(found) => import.steps.product(&found, &square)?,
            });
        }
        rest >>= 1;
        match found {
            Some(found) if rest == 0 => return Ok(Value::Computed(dims.with(found))),
            _ => square = import.steps.product(&square, &square)?,
        }
    }
}

/// `Max` and `Min` of values and constants.
fn extreme(import: &mut Import, call: &Call<'_, '_>) -> Result<Value, Fault> {
    let sign = if call.operator() == "Max" { 1.0 } else { -1.0 };
    let mut found = call.required(0)?.clone();
    for at in 1..call.inputs.len() {
        found = match (&found, call.required(at)?) {
            (Value::Constant(a), Value::Constant(b)) => {
                let dims = broadcast(&a.dims, &b.dims)?;
                super::shapes::bounded(&dims)?;
                import.steps.take(dims.iter().product())?;
                let pick = |(x, y): (usize, usize)| {
                    let (x, y) = (a.numbers[x], b.numbers[y]);
                    if sign > 0.0 { x.max(y) } else { x.min(y) }
                };
                let numbers = repeated(&a.dims, &dims).zip(repeated(&b.dims, &dims)).map(pick).collect();
                Value::Constant(Rc::new(Tensor { dims, numbers, whole: false }))
            }
            (Value::Computed(a), Value::Computed(b)) => {
                // max(a, b) = (a + b + |a - b|)/2
                let (a, b) = both(import, a, b)?;
                let apart = import.steps.sum(&a.poly, &b.poly, -1.0)?;
                let apart = import.steps.activation(&apart, Activation::Absolute)?;
                let apart = import.steps.scaled(&apart, 0.5 * sign)?;
                let half = import.steps.scaled(&a.poly, 0.5)?;
                let other = import.steps.scaled(&b.poly, 0.5)?;
                let mean = import.steps.sum(&half, &other, 1.0)?;
                Value::Computed(a.with(import.steps.sum(&mean, &apart, 1.0)?))
            }
            (Value::Computed(x), Value::Constant(c)) | (Value::Constant(c), Value::Computed(x)) => {
                // max(x, c) = relu(x - c) + c,  min(x, c) = c - relu(c - x)
                let (x, numbers) = beside(import, x, c)?;
                let negated: Vec<f64> = numbers.iter().map(|x| -x).collect();
                let over = import.steps.shifted(&x.poly, &negated)?;
                let over = import.steps.scaled(&over, sign)?;
                let over = import.steps.activation(&over, Activation::Relu)?;
                let over = import.steps.scaled(&over, sign)?;
                Value::Computed(x.with(import.steps.shifted(&over, &numbers)?))
            }
            _ => return Err("inputs of another kind".to_owned()),
        };
    }
    Ok(found)
}

/// `PRelu`: slopes below 0, one for all or several.
fn slopes(import: &mut Import, call: &Call<'_, '_>) -> Result<Value, Fault> {
    let x = call.computed(0)?.clone();
    let slope = call.needed(1)?;
    if let Some(slope) = slope.uniform() {
        let poly = import.steps.activation(&x.poly, Activation::LeakyRelu { slope })?;
        return Ok(Value::Computed(x.with(poly)));
    }
    // early files have one for each channel, without dimensions for rows and columns
    let mut slope = Tensor::clone(slope);
    if call.version < 7 && slope.dims.len() == 1 && x.dims.len() > 2 {
        slope.dims.extend(std::iter::repeat_n(1, x.dims.len() - 2));
    }
    let (x, mut numbers) = beside(import, &x, &slope)?;
    numbers.iter_mut().for_each(|x| *x = -*x);
    let negative = import.steps.scaled(&x.poly, -1.0)?;
    let above = import.steps.activation(&x.poly, Activation::Relu)?;
    let below = import.steps.activation(&negative, Activation::Relu)?;
    let below = import.steps.times(&below, &numbers)?;
    Ok(Value::Computed(x.with(import.steps.sum(&above, &below, 1.0)?)))
}

/// The function of an operator that is one activation.
pub(super) fn activation(call: &Call<'_, '_>) -> Result<Option<Activation>, Fault> {
    Ok(Some(match call.operator() {
        "Relu" => Activation::Relu,
        "LeakyRelu" => Activation::LeakyRelu { slope: call.float("alpha", 0.01)? },
        "Elu" => Activation::Elu { alpha: call.float("alpha", 1.0)? },
        "Abs" => Activation::Absolute,
        "Sigmoid" => Activation::Sigmoid,
        "Tanh" => Activation::Tanh,
        "Softplus" => Activation::Softplus,
        "HardSigmoid" => Activation::HardSigmoid { slope: call.float("alpha", 0.2)?, offset: call.float("beta", 0.5)? },
        "HardSwish" => Activation::HardSwish,
        "Gelu" if call.text("approximate", "none")? == "none" => Activation::Gelu,
        _ => return Ok(None),
    }))
}

fn activated(import: &mut Import, call: &Call<'_, '_>) -> Result<Value, Fault> {
    let x = call.computed(0)?.clone();
    let steps = &mut import.steps;
    let poly = match (activation(call)?, call.operator()) {
        (Some(activation), _) => steps.activation(&x.poly, activation)?,
        (None, "Clip") => {
            let (low, high) = (call.number("min", 1)?, call.number("max", 2)?);
            // the least and the largest single-precision numbers mean no bound
            let bound = |x: Option<f64>, none: f64| x.filter(|x| x.abs() < 3e38).unwrap_or(none);
            let (low, high) = (bound(low, f64::NEG_INFINITY), bound(high, f64::INFINITY));
            match (low, high) {
                (f64::NEG_INFINITY, f64::INFINITY) => Rc::clone(&x.poly),
                (0.0, f64::INFINITY) => steps.activation(&x.poly, Activation::Relu)?,
                _ if low <= high => steps.activation(&x.poly, Activation::Clip { low, high })?,
                _ => return Err(format!("bounds {low} and {high}: expected the lower one first")),
            }
        }
        (None, "Gelu") => {
            // x (1 + tanh(√(2/π) (x + 0.044715 x³)))/2
            let square = steps.product(&x.poly, &x.poly)?;
            let cube = steps.product(&square, &x.poly)?;
            let cube = steps.scaled(&cube, 0.044_715)?;
            let inner = steps.sum(&x.poly, &cube, 1.0)?;
            let inner = steps.scaled(&inner, (2.0 / std::f64::consts::PI).sqrt())?;
            let tanh = steps.activation(&inner, Activation::Tanh)?;
            let tanh = steps.shifted(&tanh, &[1.0])?;
            let product = steps.product(&tanh, &x.poly)?;
            steps.scaled(&product, 0.5)?
        }
        (None, "Selu") => {
            let (alpha, gamma) = (call.float("alpha", 1.673_263_2)?, call.float("gamma", 1.050_701)?);
            let elu = steps.activation(&x.poly, Activation::Elu { alpha })?;
            steps.scaled(&elu, gamma)?
        }
        (None, "Celu") => {
            let alpha = call.float("alpha", 1.0)?;
            let inner = steps.scaled(&x.poly, 1.0 / alpha)?;
            let elu = steps.activation(&inner, Activation::Elu { alpha: 1.0 })?;
            steps.scaled(&elu, alpha)?
        }
        (None, "Swish") => {
            let alpha = call.float("alpha", 1.0)?;
            let inner = steps.scaled(&x.poly, alpha)?;
            let silu = steps.activation(&inner, Activation::Silu)?;
            steps.scaled(&silu, 1.0 / alpha)?
        }
        (None, "Mish") => {
            let soft = steps.activation(&x.poly, Activation::Softplus)?;
            let tanh = steps.activation(&soft, Activation::Tanh)?;
            steps.product(&x.poly, &tanh)?
        }
        _ => return Err("inputs of other kinds or another number than this operator has".to_owned()),
    };
    Ok(Value::Computed(x.with(poly)))
}
