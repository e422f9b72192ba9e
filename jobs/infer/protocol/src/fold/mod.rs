//! From a [`Network`] to a [`Model`]: every linear layer between two squares becomes one map.
//!
//! **Completing the square.** `a x² + b x + c = a (x + b/2a)² + (c - b²/4a)`. The shift `b/2a`
//! joins the offset of the map before. The rest is, number by number, `scale v + constant` of the
//! square `v`. It is linear and joins the map after: its weights take `scale`, its offset takes the
//! map's image of `constant`. With padding, results at the border see fewer of the constants than
//! others, so an offset has one number for each result.
//!
//! **Ranges.** Each channel is divided by a power of two, `u = (x + b/2a) 2^-k`, such that `|u| ≤
//! 1` for the images of [`Reach`]; `4^k` goes into `scale`. Pixels of a model are `p/256`: exact on
//! a binary grid, and below 1. The factor `256/255`, and any other map of a pixel, is part of the
//! network's normalisation, which is linear and is folded too. Logits are divided by one power of
//! two.
//!
//! **Grids.** Weights are rounded to multiples of `2^-weight_bits`, the finest grid on which the
//! largest weight of a stage, as an integer, still has `integer_bits` bits. Offsets are rounded to
//! multiples of `2^-bias_bits`. Rounding is to the nearest, ties to even.
//!
//! **Form.** A chain of linear layers stays one convolution if scales are constant on each channel,
//! and a convolution or mean after a convolution has no padding (kernels add up: `K = (K₂ - 1) s₁ +
//! K₁`, strides multiply). Anything else becomes a matrix, within [`MAX_WEIGHTS`].
//!
//! The model's owner folds once, on plaintext; folding branches on weights.

mod linear;

use super::calibration::Calibration;
use super::model::{MAX_NAME_BYTES, MAX_NUMBERS, MAX_WEIGHTS, Map, Model, ModelError, Stage, Volume};
use super::network::{Layer, LayerKind, Network, spread};
use linear::Linear;

/// The images for which `|u| ≤ 1` holds.
#[derive(Clone, Copy, Debug)]
pub enum Reach<'a> {
    /// These images: their largest numbers are multiplied by a headroom of at least 1 for unseen
    /// images.
    Seen {
        /// Pixels from 0 to 255.
        images: &'a [&'a [u8]],
        /// The factor for unseen images.
        headroom: f64,
    },
    /// Every image, by interval arithmetic over the weights. After the first square that bound is
    /// far above real values, and costs precision.
    Every,
}

/// Options of a folding.
#[derive(Clone, Copy, Debug)]
pub struct FoldOptions<'a> {
    /// The images for which the ranges hold.
    pub reach: Reach<'a>,
    /// Bits of a weight as an integer, without its sign: 4 to 30.
    pub integer_bits: u32,
    /// Bits after the point of an offset: 8 to 40.
    pub bias_bits: u32,
}

impl<'a> FoldOptions<'a> {
    /// Weights of 15 bits and a sign, offsets of 24 bits after the point.
    pub fn new(reach: Reach<'a>) -> Self {
        Self { reach, integer_bits: 15, bias_bits: 24 }
    }
}

/// Errors of a folding.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FoldError {
    /// An activation whose coefficient of `x²` is 0 for some numbers only.
    #[error("layer {layer}: expected a coefficient of x² that is nowhere 0 (or everywhere), found both")]
    NoSquare {
        /// The layer's name.
        layer: String,
    },
    /// Layers whose joined map has too many weights or takes too much work.
    #[error("layer {layer}: expected at most 2^24 weights after folding, found more")]
    TooLarge {
        /// The layer's name.
        layer: String,
    },
    /// Invalid bits or headroom.
    #[error(
        "expected 4 to 30 bits of a weight, 8 to 40 of an offset and a finite headroom of at least 1, found others"
    )]
    Options,
    /// No image, or one of another size.
    #[error("expected at least one image of {expected} numbers for the ranges, found another")]
    Images {
        /// Numbers of an image.
        expected: usize,
    },
    /// Numbers that grow too large.
    #[error("stage {stage}: expected numbers below 2^40, found larger ones")]
    Range {
        /// The stage's name.
        stage: String,
    },
    /// A result that is not a valid model.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// Folds a network into a model, calibrated by the images of its ranges ([`Calibration`]).
///
/// # Errors
/// [`FoldError`].
pub fn fold(network: &Network, options: &FoldOptions<'_>) -> Result<Model, FoldError> {
    let mut folding = Folding::begin(network, options)?;
    for layer in network.layers() {
        match layer.kind() {
            LayerKind::Quadratic { square, linear, constant } => {
                let [a, b, c] = [square, linear, constant].map(|numbers| spread(numbers, layer.output()));
                match a.iter().filter(|a| **a == 0.0).count() {
                    0 => folding.square(layer, &a, &b, &c)?,
                    zeros if zeros == a.len() => folding.linear.scale(layer, &b, &c)?,
                    _ => return Err(FoldError::NoSquare { layer: layer.name().to_owned() }),
                }
            }
            LayerKind::Affine { scale, shift } => {
                let [scale, shift] = [scale, shift].map(|numbers| spread(numbers, layer.output()));
                folding.linear.scale(layer, &scale, &shift)?;
            }
            LayerKind::Reshape { output } => folding.linear.reshape(*output),
            _ => {
                folding.name.get_or_insert_with(|| name_of(layer));
                folding.linear.then(layer)?;
            }
        }
    }
    folding.finish()
}

struct Folding<'a> {
    options: FoldOptions<'a>,
    stages: Vec<Stage>,
    /// The linear map after the last square.
    linear: Linear,
    name: Option<String>,
    seen: StageInput,
}

/// The values that enter the next stage.
enum StageInput {
    /// Numbers of each image.
    Images(Vec<Vec<f64>>),
    /// The smallest and largest value of each number.
    Intervals(Vec<[f64; 2]>),
}

impl<'a> Folding<'a> {
    fn begin(network: &Network, options: &FoldOptions<'a>) -> Result<Self, FoldError> {
        let (input, normalisation) = (network.input(), network.normalisation());
        let seen = match options.reach {
            Reach::Every => StageInput::Intervals(vec![[0.0, 255.0 / 256.0]; input.len()]),
            Reach::Seen { images, headroom } => {
                if images.is_empty() || images.iter().any(|image| image.len() != input.len()) {
                    return Err(FoldError::Images { expected: input.len() });
                }
                if !(1.0..=1e6).contains(&headroom) {
                    return Err(FoldError::Options);
                }
                StageInput::Images(images.iter().map(|image| Model::numbers(image)).collect())
            }
        };
        if !(4..=30).contains(&options.integer_bits) || !(8..=40).contains(&options.bias_bits) {
            return Err(FoldError::Options);
        }
        let scale: Vec<f64> = normalisation.scale.iter().map(|scale| 256.0 * scale).collect();
        let linear = Linear::diagonal(input, spread(&scale, input), spread(&normalisation.offset, input));
        Ok(Self { options: *options, stages: Vec::new(), linear, name: None, seen })
    }

    /// Ends a stage with the square of an activation `a x² + b x + c`.
    fn square(&mut self, layer: &Layer, a: &[f64], b: &[f64], c: &[f64]) -> Result<(), FoldError> {
        let name = self.name.take().unwrap_or_else(|| name_of(layer));
        let shift: Vec<f64> = (0..a.len()).map(|at| b[at] / (2.0 * a[at])).collect();
        let mut linear = std::mem::replace(&mut self.linear, Linear::diagonal(Volume::vector(1), vec![], vec![]));
        linear.scale(layer, &vec![1.0; a.len()], &shift)?;
        let (input, output) = (linear.input, linear.output);
        let (map, offset) = linear.into_map(&name)?;
        let mut stage = Stage { name, input, output, map, bias: offset, weight_bits: 0, bias_bits: 0 };
        let largest = self.largest(&stage)?;
        let by_channel = matches!(stage.map, Map::Convolution { .. });
        let exponents = exponents(&largest, output, by_channel);
        divide(&mut stage, &exponents);
        self.end(stage)?;
        let scale = (0..a.len()).map(|at| a[at] * 4f64.powi(exponents[at])).collect();
        let constant = (0..a.len()).map(|at| c[at] - b[at] * b[at] / (4.0 * a[at])).collect();
        // the next layer sees the shape that the network states
        self.linear = Linear::diagonal(output, scale, constant);
        self.linear.reshape(layer.output());
        match &mut self.seen {
            StageInput::Images(images) => images.iter_mut().flatten().for_each(|u| *u *= *u),
            StageInput::Intervals(all) => all.iter_mut().for_each(|[low, high]| {
                let (least, most) = (low.abs().min(high.abs()), low.abs().max(high.abs()));
                let least = if *low < 0.0 && *high > 0.0 { 0.0 } else { least };
                (*low, *high) = (least * least, most * most);
            }),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Model, FoldError> {
        let name = self.name.take().unwrap_or_else(|| "scale".to_owned());
        let linear = std::mem::replace(&mut self.linear, Linear::diagonal(Volume::vector(1), vec![], vec![]));
        let (input, output) = (linear.input, linear.output);
        let (map, bias) = linear.into_map(&name)?;
        let mut stage = Stage { name, input, output, map, bias, weight_bits: 0, bias_bits: 0 };
        let largest = self.largest(&stage)?.into_iter().fold(0.0, f64::max);
        let exponent = exponents(&[largest], Volume::vector(1), false)[0];
        divide(&mut stage, &vec![exponent; output.len()]);
        self.end(stage)?;
        let model = Model::new(self.stages, exponent)?;
        let Reach::Seen { images, .. } = self.options.reach else { return Ok(model) };
        // images of another size were rejected at the beginning
        let calibration = Calibration::of_images(&model, images).ok().flatten();
        Ok(match calibration {
            Some(calibration) => model.calibrated(calibration)?,
            None => model,
        })
    }

    /// The largest absolute value of each result, with headroom.
    fn largest(&self, stage: &Stage) -> Result<Vec<f64>, FoldError> {
        let mut largest = vec![0f64; stage.output.len()];
        let headroom = if let Reach::Seen { headroom, .. } = self.options.reach { headroom } else { 1.0 };
        match &self.seen {
            StageInput::Images(images) => {
                for image in images {
                    largest.iter_mut().zip(stage.apply(image)).for_each(|(most, u)| *most = most.max(u.abs()));
                }
            }
            StageInput::Intervals(all) => {
                for (at, most) in largest.iter_mut().enumerate() {
                    let [low, high] = interval(stage, at, all);
                    *most = low.abs().max(high.abs());
                }
            }
        }
        largest.iter_mut().for_each(|most| *most *= headroom);
        // the comparison also fails for NaN
        if largest.iter().all(|most| *most < 2f64.powi(40)) {
            Ok(largest)
        } else {
            Err(FoldError::Range { stage: stage.name.clone() })
        }
    }

    /// Rounds a stage to its grids and appends it.
    fn end(&mut self, mut stage: Stage) -> Result<(), FoldError> {
        let weights = stage.map.weights_mut();
        let most = weights.iter().fold(0f64, |most, w| most.max(w.abs()));
        // 2^bits most ≤ 2^integer_bits - 1, and no finer than 2^-40
        let limit = 2f64.powi(self.options.integer_bits as i32) - 1.0;
        let bits = (0..=40).rev().find(|bits| (most * 2f64.powi(*bits)).round_ties_even() <= limit);
        let Some(bits) = bits else { return Err(FoldError::Range { stage: stage.name }) };
        let round = |bits: i32| move |x: &mut f64| *x = (*x * 2f64.powi(bits)).round_ties_even() * 2f64.powi(-bits);
        weights.iter_mut().for_each(round(bits));
        stage.bias.iter_mut().for_each(round(self.options.bias_bits as i32));
        (stage.weight_bits, stage.bias_bits) = (bits as u32, self.options.bias_bits);
        match &mut self.seen {
            StageInput::Images(images) => images.iter_mut().for_each(|image| *image = stage.apply(image)),
            StageInput::Intervals(all) => *all = (0..stage.output.len()).map(|at| interval(&stage, at, all)).collect(),
        }
        self.stages.push(stage);
        Ok(())
    }
}

/// A layer's name, made valid for a stage.
fn name_of(layer: &Layer) -> String {
    let mut name: String = layer.name().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    while name.len() > MAX_NAME_BYTES {
        name.pop();
    }
    name
}

/// The range of a stage's result.
pub(super) fn interval(stage: &Stage, output: usize, inputs: &[[f64; 2]]) -> [f64; 2] {
    let add = |[low, high]: [f64; 2], (at, w): (usize, f64)| {
        let ends = inputs[at].map(|end| end * w);
        [low + ends[0].min(ends[1]), high + ends[0].max(ends[1])]
    };
    stage.row(output).into_iter().fold([stage.bias[output]; 2], add)
}

/// For each result the `k` of its `2^-k`. Results of a channel share one `k` if the map must stay a
/// convolution.
fn exponents(largest: &[f64], volume: Volume, by_channel: bool) -> Vec<i32> {
    let exponent = |most: f64| {
        let k = (-12..41).find(|k| most <= 2f64.powi(*k));
        if most == 0.0 { 0 } else { k.unwrap_or(41) }
    };
    if !by_channel {
        return largest.iter().map(|most| exponent(*most)).collect();
    }
    let area = volume.height * volume.width;
    let channel = |all: &[f64]| exponent(all.iter().copied().fold(0.0, f64::max));
    largest.chunks_exact(area).flat_map(|all| std::iter::repeat_n(channel(all), area)).collect()
}

/// Divides each result by a power of two.
fn divide(stage: &mut Stage, exponents: &[i32]) {
    let rows = stage.map.weights().len() / stage.map.rows(stage.output);
    let area = stage.output.len() / stage.map.rows(stage.output);
    for (row, weights) in stage.map.weights_mut().chunks_exact_mut(rows).enumerate() {
        weights.iter_mut().for_each(|w| *w *= 2f64.powi(-exponents[row * area]));
    }
    stage.bias.iter_mut().zip(exponents).for_each(|(bias, k)| *bias *= 2f64.powi(-k));
}
