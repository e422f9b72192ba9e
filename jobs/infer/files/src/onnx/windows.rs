//! Convolutions and pools over windows, of one dimension or two.

use super::call::Call;
use super::import::{Computed, Fault, Import, Value};
use super::steps::shortened;
use tobari_infer::Volume;
use tobari_infer::model::{MAX_NUMBERS, MAX_WEIGHTS};
use tobari_infer_deep::Op;

/// The positions of windows. One dimension is a row of columns.
struct Windows {
    kernel: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    /// Above, to the left, below, to the right, as far as windows reach.
    padding: [usize; 4],
    /// Below and to the right, as the file says. Windows may reach beyond.
    stated: [usize; 2],
    count: [usize; 2],
}

/// The rows and columns of a value with a batch and channels.
fn picture(x: &Computed) -> Result<Volume, Fault> {
    match x.dims[..] {
        [1, channels, width] => Ok(Volume { channels, height: 1, width }),
        [1, channels, height, width] => Ok(Volume { channels, height, width }),
        _ => Err(format!("a value of shape {:?}: expected a batch, channels, and one or two more dimensions", x.dims)),
    }
}

/// Two sizes of an attribute; of one dimension the first is 1.
fn pair(call: &Call<'_, '_>, name: &str, flat: bool) -> Result<Option<[usize; 2]>, Fault> {
    match (call.sizes(name)?.as_deref(), flat) {
        (None, _) => Ok(None),
        (Some([width]), true) => Ok(Some([1, *width])),
        (Some([height, width]), false) => Ok(Some([*height, *width])),
        (Some(other), _) => {
            Err(format!("an attribute {name} of {} sizes: expected one for each dimension", other.len()))
        }
    }
}

impl Windows {
    fn of(call: &Call<'_, '_>, input: Volume, flat: bool, kernel: [usize; 2]) -> Result<Self, Fault> {
        let stride = pair(call, "strides", flat)?.unwrap_or([1; 2]);
        let dilation = pair(call, "dilations", flat)?.unwrap_or([1; 2]);
        if [kernel, stride, dilation].iter().flatten().any(|size| *size == 0 || *size > MAX_NUMBERS) {
            return Err("a kernel, stride or dilation of 0".to_owned());
        }
        let size = [input.height, input.width];
        let reach = [0, 1].map(|axis| (kernel[axis] - 1) * dilation[axis] + 1);
        let mut padding = match (call.sizes("pads")?.as_deref(), flat) {
            (None, _) => [0; 4],
            (Some([left, right]), true) => [0, *left, 0, *right],
            (Some(&[top, left, bottom, right]), false) => [top, left, bottom, right],
            _ => return Err("pads of another count: expected two for each dimension".to_owned()),
        };
        let late = match call.text("auto_pad", "NOTSET")?.as_str() {
            "NOTSET" | "" => None,
            "VALID" => {
                padding = [0; 4];
                None
            }
            "SAME_UPPER" => Some(true),
            "SAME_LOWER" => Some(false),
            other => return Err(format!("the value {other:.16} of auto_pad")),
        };
        if let Some(late) = late {
            for axis in 0..2 {
                let all = (size[axis].div_ceil(stride[axis]) - 1) * stride[axis] + reach[axis];
                let total = all.saturating_sub(size[axis]);
                let (less, more) = (total / 2, total - total / 2);
                (padding[axis], padding[axis + 2]) = if late { (less, more) } else { (more, less) };
            }
        }
        let ceiling = call.int("ceil_mode", 0)? != 0;
        let (mut count, stated) = ([0; 2], [padding[2], padding[3]]);
        for axis in 0..2 {
            let all = size[axis] + padding[axis] + padding[axis + 2];
            let room = all
                .checked_sub(reach[axis])
                .ok_or_else(|| format!("a kernel of {} in an input of {all} with its padding", reach[axis]))?;
            count[axis] = room / stride[axis] + 1;
            // a further window must start within the input or the padding before it
            if ceiling && !room.is_multiple_of(stride[axis]) && count[axis] * stride[axis] < size[axis] + padding[axis]
            {
                count[axis] += 1;
                padding[axis + 2] = (count[axis] - 1) * stride[axis] + reach[axis] - size[axis] - padding[axis];
            }
        }
        Ok(Self { kernel, stride, dilation, padding, stated, count })
    }

    fn output(&self, channels: usize) -> Volume {
        Volume { channels, height: self.count[0], width: self.count[1] }
    }

    /// Whether a pool may have this padding: less than its window.
    fn is_slim(&self) -> bool {
        (0..2).all(|axis| self.padding[axis] < self.kernel[axis] && self.padding[axis + 2] < self.kernel[axis])
    }

    /// How many places of each window along an axis lie inside `-before..size + after`.
    fn inside(&self, axis: usize, size: usize, [before, after]: [usize; 2]) -> Vec<usize> {
        let place = |window: usize, tap: usize| window * self.stride[axis] + tap * self.dilation[axis];
        let (low, high) = (self.padding[axis] - before, self.padding[axis] + size + after);
        let counted = |window| (0..self.kernel[axis]).filter(|tap| (low..high).contains(&place(window, *tap))).count();
        (0..self.count[axis]).map(counted).collect()
    }
}

/// The dimensions of a result of windows.
fn dims_of(output: Volume, flat: bool) -> Vec<usize> {
    if flat { vec![1, output.channels, output.width] } else { vec![1, output.channels, output.height, output.width] }
}

pub(super) fn convolution(import: &mut Import, call: &Call<'_, '_>) -> Result<Value, Fault> {
    let x = call.computed(0)?.clone();
    let input = picture(&x)?;
    let flat = x.dims.len() == 3;
    let weights = call.needed(1)?;
    let (outputs, taken, kernel) = match (&weights.dims[..], flat) {
        ([outputs, taken, columns], true) => (*outputs, *taken, [1, *columns]),
        ([outputs, taken, rows, columns], false) => (*outputs, *taken, [*rows, *columns]),
        _ => return Err(format!("weights of shape {:?} for a value of shape {:?}", weights.dims, x.dims)),
    };
    let groups = usize::try_from(call.int("group", 1)?).ok().filter(|groups| *groups > 0);
    let groups = groups.ok_or("an attribute group below 1")?;
    let fits = taken.checked_mul(groups) == Some(input.channels) && outputs.is_multiple_of(groups) && outputs > 0;
    if !fits || pair(call, "kernel_shape", flat)?.is_some_and(|shape| shape != kernel) {
        return Err(format!("weights of shape {:?} for {} channels in {groups} groups", weights.dims, input.channels));
    }
    let Windows { kernel, stride, dilation, padding, count, .. } = Windows::of(call, input, flat, kernel)?;
    let bias = match call.constant(2)? {
        None => vec![0.0; outputs],
        Some(bias) if bias.numbers.len() == outputs => bias.numbers.clone(),
        Some(bias) => return Err(format!("offsets of shape {:?} for {outputs} channels", bias.dims)),
    };
    if weights.numbers.len() > MAX_WEIGHTS {
        return Err("more than 2^24 weights".to_owned());
    }
    import.steps.take(weights.numbers.len())?;
    let value = import.steps.result(&x.poly)?;
    let value = import.steps.shaped(value, input)?;
    let weights = weights.numbers.clone();
    let output = Volume { channels: outputs, height: count[0], width: count[1] };
    super::shapes::bounded(&dims_of(output, flat))?;
    let op = Op::Convolution { channels: outputs, kernel, stride, dilation, padding, groups, weights, bias };
    let value = import.steps.add(op, &[value], output)?;
    Ok(Value::Computed(Computed { dims: dims_of(output, flat), batch: Some(0), poly: import.steps.identity(value) }))
}

/// The windows of a pool and its input as rows and columns.
fn pool(import: &mut Import, call: &Call<'_, '_>) -> Result<(Windows, Volume, usize, bool), Fault> {
    let x = call.computed(0)?.clone();
    let input = picture(&x)?;
    let flat = x.dims.len() == 3;
    let kernel = pair(call, "kernel_shape", flat)?.ok_or("no kernel_shape")?;
    let windows = Windows::of(call, input, flat, kernel)?;
    super::shapes::bounded(&dims_of(windows.output(input.channels), flat))?;
    let value = import.steps.result(&x.poly)?;
    let value = import.steps.shaped(value, input)?;
    Ok((windows, input, value, flat))
}

pub(super) fn maximum(import: &mut Import, call: &Call<'_, '_>) -> Result<Value, Fault> {
    if call.node.outputs.iter().skip(1).any(|name| !name.is_empty()) {
        return Err("places of the largest numbers as an output: leave that output out".to_owned());
    }
    let (windows, input, value, flat) = pool(import, call)?;
    if !windows.is_slim() {
        return Err("a padding as large as its window".to_owned());
    }
    let output = windows.output(input.channels);
    let Windows { kernel, stride, dilation, padding, .. } = windows;
    let value = import.steps.add(Op::MaximumPool { kernel, stride, dilation, padding }, &[value], output)?;
    Ok(Value::Computed(Computed { dims: dims_of(output, flat), batch: Some(0), poly: import.steps.identity(value) }))
}

pub(super) fn average(import: &mut Import, call: &Call<'_, '_>) -> Result<Value, Fault> {
    let (windows, input, value, flat) = pool(import, call)?;
    let count_padding = call.int("count_include_pad", 0)? != 0;
    let output = windows.output(input.channels);
    let Windows { kernel, stride, dilation, padding, stated, .. } = windows;
    let reaches_beyond = padding[2..] != stated;
    let made = |poly| Value::Computed(Computed { dims: dims_of(output, flat), batch: Some(0), poly });
    if dilation == [1; 2] && windows.is_slim() && !(reaches_beyond && count_padding) {
        let op = Op::AveragePool { kernel, stride, padding, count_padding };
        let value = import.steps.add(op, &[value], output)?;
        return Ok(made(import.steps.identity(value)));
    }
    // sums of windows, each over its own count
    let counted = |axis: usize, size| {
        let reach = if count_padding { [padding[axis], stated[axis]] } else { [0; 2] };
        windows.inside(axis, size, reach)
    };
    if kernel[0].saturating_mul(kernel[1]) > MAX_NUMBERS {
        return Err("a window of more than 2^20 numbers".to_owned());
    }
    let taps = kernel[0] * kernel[1];
    import.steps.take(taps.saturating_mul(input.channels))?;
    import.steps.take(output.len().saturating_add(windows.count[0].saturating_mul(kernel[0])))?;
    import.steps.take(windows.count[1].saturating_mul(kernel[1]))?;
    let (rows, columns) = (counted(0, input.height), counted(1, input.width));
    let one: Vec<f64> = rows.iter().flat_map(|a| columns.iter().map(move |b| 1.0 / (a * b) as f64)).collect();
    let scale = shortened(one.repeat(input.channels), output);
    let (weights, bias) = (vec![1.0; taps * input.channels], vec![0.0; input.channels]);
    let (channels, groups) = (input.channels, input.channels);
    let op = Op::Convolution { channels, kernel, stride, dilation, padding, groups, weights, bias };
    let value = import.steps.add(op, &[value], output)?;
    let poly = import.steps.identity(value);
    Ok(made(import.steps.times(&poly, &scale)?))
}
