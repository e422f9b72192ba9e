//! A chain of linear layers as one map.

use super::super::model::{Map, Volume};
use super::super::network::{Layer, LayerKind, places, under};
use super::{FoldError, MAX_NUMBERS, MAX_WEIGHTS};

/// The most products for joining two matrices.
const MAX_WORK: u64 = 1 << 32;

/// `y = form x + offset`.
pub(super) struct Linear {
    pub(super) input: Volume,
    /// The shape of `y` in the map. Later layers may have reshaped it ([`Linear::reshape`]).
    pub(super) output: Volume,
    shape: Volume,
    form: Form,
    offset: Vec<f64>,
}

pub(super) enum Form {
    /// A scale for each number.
    Diagonal(Vec<f64>),
    /// As in [`Map::Convolution`].
    Convolution(Kernel),
    /// `w[o][i]`.
    Dense(Vec<f64>),
}

#[derive(Clone)]
pub(super) struct Kernel {
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    weights: Vec<f64>,
}

impl Linear {
    pub(super) fn diagonal(volume: Volume, scale: Vec<f64>, offset: Vec<f64>) -> Self {
        Self { input: volume, output: volume, shape: volume, form: Form::Diagonal(scale), offset }
    }

    pub(super) fn reshape(&mut self, shape: Volume) {
        self.shape = shape;
        // a vector keeps its former rows and columns, for layouts under encryption
        let vector = (shape.channels, shape.height) == (1, 1);
        if matches!(self.form, Form::Diagonal(_)) && !vector {
            (self.input, self.output) = (shape, shape);
        }
    }

    /// Applies a scale and a shift to each number.
    pub(super) fn scale(&mut self, layer: &Layer, scale: &[f64], shift: &[f64]) -> Result<(), FoldError> {
        self.offset.iter_mut().zip(scale).zip(shift).for_each(|((y, scale), shift)| *y = *y * scale + shift);
        let area = self.output.height * self.output.width;
        if matches!(self.form, Form::Convolution(_)) && !constant_by(area, scale) {
            self.form = Form::Dense(self.matrix(layer.name())?);
            (self.output, self.shape) = (self.shape, self.shape);
        }
        match &mut self.form {
            Form::Diagonal(all) => all.iter_mut().zip(scale).for_each(|(x, scale)| *x *= scale),
            Form::Dense(weights) => {
                let rows = weights.chunks_exact_mut(self.input.len());
                rows.zip(scale).for_each(|(row, scale)| row.iter_mut().for_each(|w| *w *= scale));
            }
            Form::Convolution(Kernel { weights, .. }) => {
                let taps = weights.len() / self.output.channels;
                let rows = weights.chunks_exact_mut(taps).zip(scale.iter().step_by(area));
                rows.for_each(|(row, scale)| row.iter_mut().for_each(|w| *w *= scale));
            }
        }
        Ok(())
    }

    /// Appends a convolution, mean or dense layer.
    pub(super) fn then(&mut self, layer: &Layer) -> Result<(), FoldError> {
        let offset = layer.forward(&self.offset);
        let too_large = || FoldError::TooLarge { layer: layer.name().to_owned() };
        self.form = match self.joined(layer) {
            Some(kernel) if kernel.weights.len() <= MAX_WEIGHTS => Form::Convolution(kernel),
            _ => {
                let (rows, columns) = (layer.output().len(), self.input.len());
                if rows.checked_mul(columns).is_none_or(|count| count > MAX_WEIGHTS) {
                    return Err(too_large());
                }
                let work = [rows, layer_row_length(layer), self.row_length()].map(|count| count as u64);
                if work.into_iter().fold(1, u64::saturating_mul) > MAX_WORK {
                    return Err(too_large());
                }
                let mut weights = vec![0.0; rows * columns];
                for (row, out) in weights.chunks_exact_mut(columns).enumerate() {
                    for (middle, outer) in layer_row(layer, row) {
                        self.each(middle, |at, w| out[at] += outer * w);
                    }
                }
                Form::Dense(weights)
            }
        };
        (self.output, self.shape, self.offset) = (layer.output(), layer.output(), offset);
        Ok(())
    }

    /// The map of a stage, and its offset.
    pub(super) fn into_map(self, name: &str) -> Result<(Map, Vec<f64>), FoldError> {
        let map = match self.form {
            Form::Convolution(Kernel { kernel, stride, padding, weights }) => {
                Map::Convolution { kernel, stride, padding, weights }
            }
            Form::Dense(weights) => Map::Dense { weights },
            Form::Diagonal(ref scale) => {
                let (channels, area) = (self.output.channels, self.output.height * self.output.width);
                if area > 1 && channels <= MAX_NUMBERS.isqrt() && constant_by(area, scale) {
                    let mut weights = vec![0.0; channels * channels];
                    (0..channels).for_each(|channel| weights[channel * (channels + 1)] = scale[channel * area]);
                    Map::Convolution { kernel: [1, 1], stride: [1, 1], padding: [0, 0], weights }
                } else {
                    Map::Dense { weights: self.matrix(name)? }
                }
            }
        };
        Ok((map, self.offset))
    }

    /// The joined map as one convolution, where possible.
    fn joined(&self, layer: &Layer) -> Option<Kernel> {
        let (outer, padding) = layer_kernel(layer)?;
        if self.output != layer.input() {
            return None;
        }
        let (outputs, middles) = (layer.output().channels, self.output.channels);
        let area = self.output.height * self.output.width;
        match &self.form {
            Form::Diagonal(scale) if constant_by(area, scale) => {
                let taps = outer.kernel[0] * outer.kernel[1];
                let mut joined = outer;
                for (at, w) in joined.weights.iter_mut().enumerate() {
                    *w *= scale[at / taps % middles * area];
                }
                Some(joined)
            }
            Form::Convolution(inner) if padding == [0; 4] => {
                let axis = |axis: usize| (outer.kernel[axis] - 1) * inner.stride[axis] + inner.kernel[axis];
                let (kernel, inputs) = ([axis(0), axis(1)], self.input.channels);
                let stride = [0, 1].map(|axis| outer.stride[axis] * inner.stride[axis]);
                let count = outputs.checked_mul(inputs)?.checked_mul(kernel[0])?.checked_mul(kernel[1])?;
                let work = outer.weights.len() as u64 * (inputs * inner.kernel[0] * inner.kernel[1]) as u64;
                if count > MAX_WEIGHTS || work > MAX_WORK {
                    return None;
                }
                let mut weights = vec![0.0; count];
                let volume = |channels, kernel: [usize; 2]| Volume { channels, height: kernel[0], width: kernel[1] };
                for o in 0..outputs {
                    for (tap, [m, a, b]) in places(volume(middles, outer.kernel)).enumerate() {
                        let w = outer.weights[o * middles * outer.kernel[0] * outer.kernel[1] + tap];
                        if w == 0.0 {
                            continue;
                        }
                        let row = &inner.weights[m * inputs * inner.kernel[0] * inner.kernel[1]..];
                        for ([i, c, d], x) in places(volume(inputs, inner.kernel)).zip(row) {
                            let place = [a * inner.stride[0] + c, b * inner.stride[1] + d];
                            weights[((o * inputs + i) * kernel[0] + place[0]) * kernel[1] + place[1]] += w * x;
                        }
                    }
                }
                Some(Kernel { kernel, stride, padding: inner.padding, weights })
            }
            _ => None,
        }
    }

    fn matrix(&self, name: &str) -> Result<Vec<f64>, FoldError> {
        let (rows, columns) = (self.output.len(), self.input.len());
        if rows.checked_mul(columns).is_none_or(|count| count > MAX_WEIGHTS) {
            return Err(FoldError::TooLarge { layer: name.to_owned() });
        }
        let mut weights = vec![0.0; rows * columns];
        for (row, out) in weights.chunks_exact_mut(columns).enumerate() {
            self.each(row, |at, w| out[at] += w);
        }
        Ok(weights)
    }

    /// The most weights of a row.
    fn row_length(&self) -> usize {
        match &self.form {
            Form::Diagonal(_) => 1,
            Form::Convolution(kernel) => kernel.weights.len() / self.output.channels,
            Form::Dense(_) => self.input.len(),
        }
    }

    /// Calls `f` with each input position and weight of a row.
    fn each(&self, row: usize, mut f: impl FnMut(usize, f64)) {
        match &self.form {
            Form::Diagonal(scale) => f(row, scale[row]),
            Form::Dense(weights) => {
                let row = &weights[row * self.input.len()..][..self.input.len()];
                row.iter().enumerate().for_each(|(at, w)| f(at, *w));
            }
            Form::Convolution(Kernel { kernel, stride, padding, weights }) => {
                let (area, width) = (self.output.height * self.output.width, self.output.width);
                let (channel, result) = (row / area, [row % area / width, row % width]);
                let volume = Volume { channels: self.input.channels, height: kernel[0], width: kernel[1] };
                for ([i, a, b], w) in places(volume).zip(&weights[channel * volume.len()..]) {
                    let padding = [padding[0], padding[1], 0, 0];
                    if let Some([y, x]) = under(self.input, *stride, padding, result, [a, b]) {
                        f(self.input.index(i, y, x), *w);
                    }
                }
            }
        }
    }
}

/// Whether each run of `area` numbers is constant.
fn constant_by(area: usize, numbers: &[f64]) -> bool {
    numbers.chunks(area).all(|run| run.iter().all(|x| *x == run[0]))
}

/// The kernel of a layer that is a convolution, and its padding on all sides.
fn layer_kernel(layer: &Layer) -> Option<(Kernel, [usize; 4])> {
    match layer.kind() {
        LayerKind::Convolution { kernel, stride, padding, weights, .. } => {
            let (kernel, stride, sides) = (*kernel, *stride, [padding[0], padding[1]]);
            Some((Kernel { kernel, stride, padding: sides, weights: weights.clone() }, *padding))
        }
        LayerKind::AveragePool { kernel, stride, padding, count_padding } => {
            let (channels, taps) = (layer.input().channels, kernel[0] * kernel[1]);
            let count = channels.checked_mul(channels)?.checked_mul(taps)?;
            if count > MAX_WEIGHTS || !(*count_padding || *padding == [0; 4]) {
                return None;
            }
            let mut weights = vec![0.0; count];
            for channel in 0..channels {
                weights[channel * (channels + 1) * taps..][..taps].fill(1.0 / taps as f64);
            }
            let (kernel, stride, sides) = (*kernel, *stride, [padding[0], padding[1]]);
            Some((Kernel { kernel, stride, padding: sides, weights }, *padding))
        }
        _ => None,
    }
}

/// The most weights of a row.
fn layer_row_length(layer: &Layer) -> usize {
    match layer.kind() {
        LayerKind::Dense { .. } => layer.input().len(),
        LayerKind::Convolution { kernel, .. } => layer.input().channels * kernel[0] * kernel[1],
        LayerKind::AveragePool { kernel, .. } => kernel[0] * kernel[1],
        _ => 1,
    }
}

/// Weights of a row of a convolution, mean or dense layer, with their input positions.
fn layer_row(layer: &Layer, row: usize) -> Vec<(usize, f64)> {
    let (input, output) = (layer.input(), layer.output());
    let (area, width) = (output.height * output.width, output.width);
    let (channel, result) = (row / area, [row % area / width, row % width]);
    match layer.kind() {
        LayerKind::Dense { weights, .. } => {
            weights[row * input.len()..][..input.len()].iter().copied().enumerate().collect()
        }
        LayerKind::Convolution { kernel, stride, padding, weights, .. } => {
            let volume = Volume { channels: input.channels, height: kernel[0], width: kernel[1] };
            let place = |[i, a, b]: [usize; 3]| {
                under(input, *stride, *padding, result, [a, b]).map(|[y, x]| input.index(i, y, x))
            };
            let row = &weights[channel * volume.len()..][..volume.len()];
            places(volume).zip(row).filter_map(|(at, w)| place(at).map(|at| (at, *w))).collect()
        }
        LayerKind::AveragePool { kernel, stride, padding, count_padding } => {
            let window = places(Volume { channels: 1, height: kernel[0], width: kernel[1] });
            let inside: Vec<[usize; 2]> =
                window.filter_map(|[_, a, b]| under(input, *stride, *padding, result, [a, b])).collect();
            let count = if *count_padding { kernel[0] * kernel[1] } else { inside.len() };
            inside.into_iter().map(|[y, x]| (input.index(channel, y, x), 1.0 / count as f64)).collect()
        }
        _ => Vec::new(),
    }
}
