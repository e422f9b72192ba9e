//! Operators that choose numbers and arrange them: each dimension of the result has a list of
//! places in the input.

use super::call::Call;
use super::import::{Computed, Fault, Import, Value};
use super::shapes::{bounded, dressed};
use super::tensor::{Tensor, axis, count, strides};
use std::rc::Rc;
use tobari_infer::model::{MAX_NUMBERS, MAX_WEIGHTS};

/// The numbers of a result: at each index the number of the input at the sum of the lists' places,
/// or `fill` if one has none.
struct View {
    lists: Vec<Vec<Option<u32>>>,
    /// The dimensions; their product is that of the lists' lengths.
    dims: Vec<usize>,
    batch: Option<usize>,
    fill: f64,
}

/// The dimensions of an input and the place of its batch.
#[derive(Clone, Copy)]
struct Form<'v> {
    dims: &'v [usize],
    batch: Option<usize>,
    /// The most numbers of a result.
    limit: usize,
}

impl<'v> Form<'v> {
    fn of(value: &'v Value) -> Result<Self, Fault> {
        match value {
            Value::Constant(tensor) => Ok(Self { dims: &tensor.dims, batch: None, limit: MAX_WEIGHTS }),
            Value::Computed(x) => Ok(Self { dims: &x.dims, batch: x.batch, limit: MAX_NUMBERS }),
            _ => Err("an input without numbers".to_owned()),
        }
    }

    /// The view of one input along each dimension; `None` takes the dimension as it is.
    fn along(self, indices: Vec<Option<Vec<Option<u32>>>>) -> Result<View, Fault> {
        let dims: Vec<usize> =
            self.dims.iter().zip(&indices).map(|(dim, list)| list.as_ref().map_or(*dim, Vec::len)).collect();
        limited(&dims, self.limit)?;
        if let Some(batch) = self.batch
            && dims[batch] != 1
        {
            return Err("changes the count of pictures in a batch".to_owned());
        }
        let steps = strides(self.dims);
        let list = |(at, indices): (usize, Option<Vec<Option<u32>>>)| match indices {
            None => (0..self.dims[at]).map(|index| Some((index * steps[at]) as u32)).collect(),
            Some(list) => list.into_iter().map(|index| index.map(|index| index * steps[at] as u32)).collect(),
        };
        let lists = indices.into_iter().enumerate().map(list).collect();
        Ok(View { lists, dims, batch: self.batch, fill: 0.0 })
    }
}

/// Checks a shape before lists for it are made, and counts its numbers.
fn limited(dims: &[usize], limit: usize) -> Result<usize, Fault> {
    let wrong = || format!("a result of shape {:?}: expected at most {limit} numbers", dims.get(..8).unwrap_or(dims));
    let total = count(dims, limit).filter(|_| dims.len() <= 64).ok_or_else(wrong)?;
    // a shape without numbers may still have long dimensions
    if total > 0 || dims.iter().all(|dim| *dim <= 4096) { Ok(total) } else { Err(wrong()) }
}

/// A size or an index that a list may have.
fn small(size: i64) -> Result<usize, Fault> {
    let found = usize::try_from(size).ok().filter(|size| *size <= MAX_NUMBERS);
    found.ok_or_else(|| format!("a size of {size}: expected 0 to 2^20"))
}

fn seen(import: &mut Import, value: &Value, view: View) -> Result<Value, Fault> {
    let total = limited(&view.dims, Form::of(value)?.limit)?;
    import.steps.take(total)?;
    let mut places: Vec<Option<u32>> = vec![Some(0); total.min(1)];
    for list in view.lists.iter().filter(|_| total > 0) {
        let mut longer = Vec::with_capacity(places.len() * list.len());
        for place in &places {
            longer.extend(list.iter().map(|index| Some((*place)? + (*index)?)));
        }
        places = longer;
    }
    match value {
        Value::Constant(tensor) => {
            let number = |place: Option<u32>| place.map_or(view.fill, |place| tensor.numbers[place as usize]);
            let numbers = places.into_iter().map(number).collect();
            Ok(Value::Constant(Rc::new(Tensor { dims: view.dims, numbers, whole: tensor.whole })))
        }
        Value::Computed(x) => {
            bounded(&view.dims)?;
            if view.batch.is_none() && x.batch.is_some() && import.fixed.is_some_and(|size| size > 1) {
                return Err("puts the pictures of a batch into another dimension: export it for one picture".to_owned());
            }
            let made = Computed { dims: view.dims, batch: view.batch, poly: Rc::clone(&x.poly) };
            let filled: Vec<f64> = if view.fill == 0.0 {
                Vec::new()
            } else {
                places.iter().map(|place| if place.is_some() { 0.0 } else { view.fill }).collect()
            };
            let mut poly = import.steps.chosen(&x.poly, places, made.volume())?;
            if view.fill != 0.0 {
                poly = import.steps.shifted(&poly, &super::steps::shortened(filled, made.volume()))?;
            }
            Ok(Value::Computed(made.with(poly)))
        }
        _ => Err("an input without numbers".to_owned()),
    }
}

pub(super) fn view(import: &mut Import, call: &Call<'_, '_>) -> Result<Value, Fault> {
    let value = call.required(0)?;
    let form = Form::of(value)?;
    let view = match call.operator() {
        "Transpose" => {
            let order = match call.ints("perm")? {
                None => (0..form.dims.len()).rev().collect(),
                Some(order) => order.iter().map(|at| axis(*at, form.dims.len())).collect::<Result<Vec<_>, _>>()?,
            };
            ordered(form, &order)?
        }
        "Slice" => slice(call, form, import.fixed)?,
        "Gather" => gather(call, form)?,
        "Pad" => pad(call, form)?,
        "Expand" => expand(call, form)?,
        "Tile" => tile(call, form)?,
        _ => resize(call, form)?,
    };
    seen(import, value, view)
}

/// The dimensions in another order.
fn ordered(form: Form<'_>, order: &[usize]) -> Result<View, Fault> {
    let mut all = order.to_vec();
    all.sort_unstable();
    if all != (0..form.dims.len()).collect::<Vec<_>>() {
        return Err(format!("an order {order:?} of {} dimensions", form.dims.len()));
    }
    let View { mut lists, dims, batch, fill } = form.along(vec![None; form.dims.len()])?;
    let batch = batch.and_then(|batch| order.iter().position(|at| *at == batch));
    let lists = order.iter().map(|at| std::mem::take(&mut lists[*at])).collect();
    Ok(View { lists, dims: order.iter().map(|at| dims[*at]).collect(), batch, fill })
}

/// A value with its dimensions in another order.
pub(super) fn transposed(import: &mut Import, x: &Computed, order: &[usize]) -> Result<Computed, Fault> {
    let value = Value::Computed(x.clone());
    let view = ordered(Form::of(&value)?, order)?;
    match seen(import, &value, view)? {
        Value::Computed(x) => Ok(x),
        _ => Err("an input without numbers".to_owned()),
    }
}

fn slice(call: &Call<'_, '_>, form: Form<'_>, pictures: Option<usize>) -> Result<View, Fault> {
    let starts = call.list("starts", 1)?.ok_or("no starts")?;
    let ends = call.list("ends", 2)?.ok_or("no ends")?;
    let axes = call.list("axes", 3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = call.constant(4)?.map_or_else(|| vec![1; starts.len()], |steps| steps.integers());
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        return Err("starts, ends, axes and steps of different counts".to_owned());
    }
    let mut indices = vec![None; form.dims.len()];
    for at in 0..starts.len() {
        let own = axis(axes[at], form.dims.len())?;
        let (size, step) = (form.dims[own] as i64, steps[at]);
        if let (true, Some(pictures @ 2..)) = (form.batch == Some(own), pictures)
            && (step != 1 || starts[at] != 0 || ends[at] < pictures as i64)
        {
            return Err("takes some pictures of a batch: export it for one picture".to_owned());
        }
        let bound = |x: i64, low, high| (if x < 0 { x.saturating_add(size) } else { x }).clamp(low, high);
        let list: Vec<Option<u32>> = match step {
            0 => return Err("a step of 0".to_owned()),
            1.. => {
                let (start, end) = (bound(starts[at], 0, size), bound(ends[at], 0, size));
                (start..end).step_by(usize::try_from(step).unwrap_or(usize::MAX)).map(|at| Some(at as u32)).collect()
            }
            _ => {
                let (start, end) = (bound(starts[at], -1, size - 1), bound(ends[at], -1, size - 1));
                let back = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
                (end + 1..=start).rev().step_by(back).map(|at| Some(at as u32)).collect()
            }
        };
        indices[own] = Some(list);
    }
    form.along(indices)
}

fn gather(call: &Call<'_, '_>, form: Form<'_>) -> Result<View, Fault> {
    let own = call.axis(0, form.dims.len())?;
    let indices = call.needed(1)?;
    let (size, steps) = (form.dims[own] as i64, strides(form.dims));
    let index = |at: &i64| {
        let found = if *at < 0 { at.saturating_add(size) } else { *at };
        usize::try_from(found).ok().filter(|_| found < size).map(|found| Some((found * steps[own]) as u32))
    };
    let list: Option<Vec<Option<u32>>> = indices.integers().iter().map(index).collect();
    let list = list.ok_or_else(|| format!("an index beyond {size}"))?;
    let mut dims = form.dims.to_vec();
    dims.splice(own..=own, indices.dims.iter().copied());
    limited(&dims, form.limit)?;
    // a batch along which a picture is chosen disappears
    let batch = form
        .batch
        .filter(|batch| *batch != own)
        .map(|batch| if batch > own { batch + indices.dims.len() - 1 } else { batch });
    let View { mut lists, .. } = Form { batch: None, ..form }.along(vec![None; form.dims.len()])?;
    lists[own] = list;
    Ok(View { lists, dims, batch, fill: 0.0 })
}

fn pad(call: &Call<'_, '_>, form: Form<'_>) -> Result<View, Fault> {
    let rank = form.dims.len();
    let pads = match call.ints("paddings")? {
        Some(pads) => pads.to_vec(),
        None => call.list("pads", 1)?.ok_or("no pads")?,
    };
    let axes = match call.constant(3)? {
        Some(axes) => axes.integers().into_iter().map(|at| axis(at, rank)).collect::<Result<_, _>>()?,
        None => (0..rank).collect::<Vec<_>>(),
    };
    if pads.len() != 2 * axes.len() {
        return Err(format!("{} pads for {} dimensions", pads.len(), axes.len()));
    }
    let mode = call.text("mode", "constant")?;
    let mut indices = vec![None; rank];
    for (at, own) in axes.iter().enumerate() {
        let (before, after) = (pads[at], pads[at + axes.len()]);
        if (before, after) == (0, 0) {
            continue;
        }
        let size = form.dims[*own] as i64;
        let limit = MAX_NUMBERS as i64;
        if !(-limit..=limit).contains(&before) || !(-limit..=limit).contains(&after) || size == 0 {
            return Err(format!("a padding of {before} and {after}"));
        }
        let index = |at: i64| {
            let inside = (0..size).contains(&at);
            Ok(match mode.as_str() {
                _ if inside => Some(at as u32),
                "constant" => None,
                "edge" => Some(at.clamp(0, size - 1) as u32),
                "wrap" => Some(at.rem_euclid(size) as u32),
                "reflect" if size > 1 => {
                    let place = at.rem_euclid(2 * size - 2);
                    Some(place.min(2 * size - 2 - place) as u32)
                }
                _ => return Err(format!("the mode {mode} for a size of {size}")),
            })
        };
        indices[*own] = Some((-before..size + after).map(index).collect::<Result<_, _>>()?);
    }
    let mut view = form.along(indices)?;
    view.fill = call.number("value", 2)?.unwrap_or(0.0);
    Ok(view)
}

fn expand(call: &Call<'_, '_>, form: Form<'_>) -> Result<View, Fault> {
    let shape = call.needed(1)?.integers().into_iter().map(small).collect::<Result<Vec<_>, _>>()?;
    grown(form, &super::tensor::broadcast(form.dims, &shape)?)
}

/// A value repeated to a shape, by the rules of broadcasts.
fn grown(form: Form<'_>, dims: &[usize]) -> Result<View, Fault> {
    limited(dims, form.limit)?;
    let skip = dims.len() - form.dims.len();
    if let Some(batch) = form.batch
        && dims[batch + skip] != 1
    {
        return Err("changes the count of pictures in a batch".to_owned());
    }
    let steps = strides(form.dims);
    let list = |at: usize| {
        let own = at.checked_sub(skip);
        let step = own.map_or(0, |own| if form.dims[own] == 1 { 0 } else { steps[own] });
        (0..dims[at]).map(|index| Some((index * step) as u32)).collect()
    };
    // a dimension of 1 in front is a batch again
    let batch = form.batch.map(|batch| batch + skip);
    Ok(View { lists: (0..dims.len()).map(list).collect(), dims: dims.to_vec(), batch, fill: 0.0 })
}

/// A value repeated to the shape of another operand.
pub(super) fn repeated(import: &mut Import, x: &Computed, dims: &[usize]) -> Result<Computed, Fault> {
    if x.dims == dims {
        return Ok(x.clone());
    }
    if x.dims.iter().product::<usize>() == dims.iter().product::<usize>() {
        let batch = x.batch.map(|batch| batch + dims.len() - x.dims.len());
        return Ok(Computed { dims: dims.to_vec(), batch, poly: Rc::clone(&x.poly) });
    }
    let value = Value::Computed(x.clone());
    let view = grown(Form::of(&value)?, dims)?;
    match seen(import, &value, view)? {
        Value::Computed(x) => Ok(x),
        _ => Err("an input without numbers".to_owned()),
    }
}

fn tile(call: &Call<'_, '_>, form: Form<'_>) -> Result<View, Fault> {
    let times = call.needed(1)?.integers().into_iter().map(small).collect::<Result<Vec<_>, _>>()?;
    if times.len() != form.dims.len() {
        return Err(format!("{} repetitions of {} dimensions", times.len(), form.dims.len()));
    }
    let dims: Vec<usize> = form.dims.iter().zip(&times).map(|(dim, times)| dim.saturating_mul(*times)).collect();
    limited(&dims, form.limit)?;
    let list = |(total, dim): (&usize, &usize)| Some((0..*total).map(|at| Some((at % dim) as u32)).collect());
    form.along(dims.iter().zip(form.dims).map(list).collect())
}

/// `Upsample` and `Resize` to the nearest number.
fn resize(call: &Call<'_, '_>, form: Form<'_>) -> Result<View, Fault> {
    let mode = call.text("mode", "nearest")?;
    if mode != "nearest" {
        return Err(format!("the mode {mode}: expected nearest"));
    }
    // the place of the scales, and that of the sizes
    let newer = call.operator() == "Resize" && call.version >= 11;
    let scales = match call.floats("scales")? {
        Some(scales) => Some(scales.iter().map(|scale| f64::from(*scale)).collect()),
        None => call.constant(if newer { 2 } else { 1 })?.map(|scales| scales.numbers.clone()),
    };
    let (way, rounding) = if newer {
        (call.text("coordinate_transformation_mode", "half_pixel")?, call.text("nearest_mode", "round_prefer_floor")?)
    } else {
        ("asymmetric".to_owned(), "floor".to_owned())
    };
    let scales = scales.filter(|scales: &Vec<f64>| !scales.is_empty());
    let sizes = call.constant(3)?.map(|sizes| sizes.integers());
    let rank = form.dims.len();
    let axes = match call.ints("axes")? {
        Some(axes) => axes.iter().map(|at| axis(*at, rank)).collect::<Result<_, _>>()?,
        None => (0..rank).collect::<Vec<_>>(),
    };
    if sizes.is_some() && call.text("keep_aspect_ratio_policy", "stretch")? != "stretch" {
        return Err("keep_aspect_ratio_policy: expected sizes of each dimension".to_owned());
    }
    let mut indices = vec![None; rank];
    for (place, own) in axes.iter().enumerate() {
        let size = form.dims[*own];
        if size == 0 {
            return Err("a dimension of 0".to_owned());
        }
        let (scale, total) = match (&scales, &sizes) {
            (Some(scales), _) => {
                let scale = *scales.get(place).ok_or("too few scales")?;
                if !(scale > 0.0 && scale <= MAX_NUMBERS as f64) {
                    return Err(format!("a scale of {scale}"));
                }
                (scale, (size as f64 * scale).floor() as i64)
            }
            (None, Some(sizes)) => {
                let total = *sizes.get(place).ok_or("too few sizes")?;
                (total as f64 / size as f64, total)
            }
            (None, None) => return Err("neither scales nor sizes".to_owned()),
        };
        if total != size as i64 {
            let total = small(total)?;
            let index = (0..total).map(|at| nearest(&way, &rounding, at, scale, [size, total]).map(Some));
            indices[*own] = Some(index.collect::<Result<_, _>>()?);
        }
    }
    form.along(indices)
}

/// The place in the input for a place in the result.
fn nearest(way: &str, rounding: &str, at: usize, scale: f64, [size, total]: [usize; 2]) -> Result<u32, Fault> {
    let at = at as f64;
    let half = (at + 0.5) / scale - 0.5;
    let place = match way {
        "asymmetric" => at / scale,
        "half_pixel" => half,
        "pytorch_half_pixel" => {
            if total > 1 {
                half
            } else {
                0.0
            }
        }
        "half_pixel_symmetric" => {
            let adjustment = total as f64 / (scale * size as f64);
            size as f64 / 2.0 * (1.0 - adjustment) + half
        }
        "align_corners" => {
            if total > 1 {
                at * (size as f64 - 1.0) / (total as f64 - 1.0)
            } else {
                0.0
            }
        }
        _ => return Err(format!("the coordinates {way}: expected half_pixel, asymmetric or align_corners")),
    };
    let found = match rounding {
        "round_prefer_floor" => (place - 0.5).ceil(),
        "round_prefer_ceil" => (place + 0.5).floor(),
        "floor" => place.floor(),
        "ceil" => place.ceil(),
        _ => return Err(format!("the rounding {rounding}")),
    };
    Ok(found.clamp(0.0, size as f64 - 1.0) as u32)
}

/// `DepthToSpace` and `SpaceToDepth`: blocks of rows and columns as channels, or back.
pub(super) fn blocks(import: &mut Import, call: &Call<'_, '_>) -> Result<Value, Fault> {
    let value = call.required(0)?;
    let form = Form::of(value)?;
    let block = small(call.int("blocksize", 0)?)?;
    let [batch, channels, height, width] = *form.dims else {
        return Err(format!("a value of shape {:?}: expected rows and columns", form.dims));
    };
    let deep = call.operator() == "DepthToSpace";
    let fits = if deep {
        block > 0 && channels.is_multiple_of(block * block)
    } else {
        block > 0 && height.is_multiple_of(block) && width.is_multiple_of(block)
    };
    if !fits {
        return Err(format!("blocks of {block} for a value of shape {:?}", form.dims));
    }
    let (split, order, dims): (Vec<usize>, _, _) = if deep {
        let inner = channels / (block * block);
        let (split, order) = match call.text("mode", "DCR")?.as_str() {
            "DCR" => (vec![batch, block, block, inner, height, width], [0, 3, 4, 1, 5, 2]),
            "CRD" => (vec![batch, inner, block, block, height, width], [0, 1, 4, 2, 5, 3]),
            other => return Err(format!("the mode {other:.16}")),
        };
        (split, order, vec![batch, inner, height * block, width * block])
    } else {
        let split = vec![batch, channels, height / block, block, width / block, block];
        (split, [0, 3, 5, 1, 2, 4], vec![batch, channels * block * block, height / block, width / block])
    };
    let form = Form { dims: &split, ..form };
    let View { lists, batch, .. } = ordered(form, &order)?;
    seen(import, value, View { lists, dims, batch, fill: 0.0 })
}

pub(super) fn split(import: &mut Import, call: &Call<'_, '_>) -> Result<Vec<Value>, Fault> {
    let value = call.required(0)?;
    let form = Form::of(value)?;
    let own = call.axis(0, form.dims.len())?;
    let (size, parts) = (form.dims[own], call.node.outputs.len().max(1));
    let sizes = match call.list("split", 1)? {
        Some(sizes) => sizes.into_iter().map(small).collect::<Result<Vec<_>, _>>()?,
        None => {
            let each = size.div_ceil(parts);
            (0..parts).map(|at| each.min(size.saturating_sub(at * each))).collect()
        }
    };
    if sizes.len() != parts || sizes.iter().sum::<usize>() != size {
        return Err(format!("parts of {sizes:?} for {parts} outputs of {size} in all"));
    }
    let mut start = 0;
    let mut all = Vec::with_capacity(parts);
    for size in sizes {
        let mut indices = vec![None; form.dims.len()];
        indices[own] = Some((start..start + size).map(|at| Some(at as u32)).collect());
        start += size;
        let view = form.along(indices)?;
        all.push(seen(import, value, view)?);
    }
    Ok(all)
}

/// The inputs one after another along a dimension.
pub(super) fn concatenated(import: &mut Import, call: &Call<'_, '_>) -> Result<Value, Fault> {
    let values: Vec<&Value> = call.inputs.iter().flatten().collect();
    let first = Form::of(values.first().ok_or("no inputs")?)?.dims.to_vec();
    let own = call.axis(if call.version < 4 { 1 } else { i64::MAX }, first.len())?;
    let mut dims = first.clone();
    dims[own] = 0;
    let mut batch = None;
    for value in &values {
        let form = Form::of(value)?;
        let same = form.dims.len() == first.len() && (0..first.len()).all(|at| at == own || form.dims[at] == first[at]);
        if !same {
            return Err(format!("inputs of shapes {first:?} and {:?}", form.dims));
        }
        dims[own] = dims[own].saturating_add(form.dims[own]);
        batch = batch.or(form.batch);
    }
    if batch == Some(own) && values.len() > 1 {
        return Err("puts several pictures into one batch".to_owned());
    }
    let total = limited(&dims, MAX_NUMBERS)?;
    import.steps.take(total)?;
    let mut constant = vec![0.0; total];
    // for each number of the result its place in the computed inputs, one after another
    let mut places: Vec<Option<u32>> = vec![None; total];
    let inner: usize = dims[own + 1..].iter().product();
    let outer: usize = dims[..own].iter().product();
    let (mut start, mut behind, mut parts) = (0, 0, Vec::new());
    for value in values {
        let form = Form::of(value)?;
        let run = form.dims[own] * inner;
        for row in 0..outer {
            let at = row * dims[own] * inner + start;
            match value {
                Value::Constant(tensor) => constant[at..at + run].copy_from_slice(&tensor.numbers[row * run..][..run]),
                _ => (0..run).for_each(|k| places[at + k] = Some((behind + row * run + k) as u32)),
            }
        }
        start += run;
        if let Value::Computed(x) = value {
            behind += outer * run;
            parts.push(x.clone());
        }
    }
    if parts.is_empty() {
        let whole = call.inputs.iter().flatten().all(|value| matches!(value, Value::Constant(c) if c.whole));
        return Ok(Value::Constant(Rc::new(Tensor { dims, numbers: constant, whole })));
    }
    bounded(&dims)?;
    let joined = joined(import, &parts, &places, &dims, batch)?;
    if constant.iter().all(|x| *x == 0.0) {
        return Ok(Value::Computed(joined));
    }
    let poly = import.steps.shifted(&joined.poly, &super::steps::shortened(constant, joined.volume()))?;
    Ok(Value::Computed(joined.with(poly)))
}

/// Values one after another as channels, then in the order of the result.
fn joined(
    import: &mut Import,
    parts: &[Computed],
    places: &[Option<u32>],
    dims: &[usize],
    batch: Option<usize>,
) -> Result<Computed, Fault> {
    let volume = super::import::volume(dims, batch);
    let total: usize = parts.iter().map(Computed::len).sum();
    let area = volume.height * volume.width;
    let ordered = total == places.len() && places.iter().enumerate().all(|(at, place)| *place == Some(at as u32));
    let whole = ordered && parts.iter().all(|part| part.len().is_multiple_of(area));
    let shape = |count: usize| match whole {
        true => tobari_infer::Volume { channels: count / area, ..volume },
        false => tobari_infer::Volume { channels: count, height: 1, width: 1 },
    };
    let mut inputs = Vec::with_capacity(parts.len());
    for part in parts {
        let value = import.steps.result(&part.poly)?;
        inputs.push(import.steps.shaped(value, shape(part.len()))?);
    }
    let value = match inputs[..] {
        [one] => one,
        _ => import.steps.add(tobari_infer_deep::Op::Concatenate, &inputs, shape(total))?,
    };
    let poly = import.steps.identity(value);
    let poly = import.steps.chosen(&poly, places.to_vec(), volume)?;
    Ok(Computed { dims: dims.to_vec(), batch, poly })
}

/// A value of the same numbers in other dimensions.
pub(super) fn redressed(
    import: &mut Import,
    x: &Computed,
    dims: Vec<usize>,
    batch: Option<usize>,
) -> Result<Computed, Fault> {
    match dressed(import, &Value::Computed(x.clone()), dims, batch)? {
        Value::Computed(x) => Ok(x),
        _ => Err("an input without numbers".to_owned()),
    }
}
