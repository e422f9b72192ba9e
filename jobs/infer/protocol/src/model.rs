//! Linear maps with squares between them: the common form of every network.

use serde::{Deserialize, Serialize};

/// A model's margin and powers, measured on images.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The margin between labels, in logits: finite, above 0.
    pub margin: f64,
    /// For the input of each stage, the largest mean square of an image's numbers. Empty if the
    /// owner stated the margin and there were no images.
    pub powers: Vec<f64>,
}

/// Channels, rows and columns; numbers are ordered by channel, then by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Volume {
    /// Channels.
    pub channels: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl Volume {
    /// One channel of one row: a vector.
    pub fn vector(length: usize) -> Self {
        Self { channels: 1, height: 1, width: length }
    }

    /// The count of numbers.
    pub fn len(&self) -> usize {
        self.channels * self.height * self.width
    }

    /// Whether there are no numbers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The position of the number of a channel, row and column.
    pub fn index(&self, channel: usize, row: usize, column: usize) -> usize {
        (channel * self.height + row) * self.width + column
    }
}

/// A linear map.
#[derive(Clone, Debug, PartialEq)]
pub enum Map {
    /// `y[o][r][c] = Σ w[o][i][a][b] x[i][stride r + a - padding][stride c + b - padding]`; numbers
    /// outside `x` are 0.
    Convolution {
        /// Rows and columns of the kernel.
        kernel: [usize; 2],
        /// Rows and columns from one result to the next.
        stride: [usize; 2],
        /// Rows above and columns to the left of the input that count as 0. Below and to the right,
        /// as many as the output needs.
        padding: [usize; 2],
        /// `w[o][i][a][b]`, the last index fastest.
        weights: Vec<f64>,
    },
    /// `y[o] = Σ w[o][i] x[i]` over all numbers of the input.
    Dense {
        /// `w[o][i]`, the last index fastest.
        weights: Vec<f64>,
    },
}

impl Map {
    /// The map's weights.
    pub fn weights(&self) -> &[f64] {
        match self {
            Self::Convolution { weights, .. } | Self::Dense { weights } => weights,
        }
    }

    pub(super) fn weights_mut(&mut self) -> &mut [f64] {
        match self {
            Self::Convolution { weights, .. } | Self::Dense { weights } => weights,
        }
    }

    /// The number of rows of weights: one per channel of a convolution's result, or one for each
    /// number of a dense map's result.
    pub(super) fn rows(&self, output: Volume) -> usize {
        match self {
            Self::Convolution { .. } => output.channels,
            Self::Dense { .. } => output.len(),
        }
    }
}

/// A linear map with its offset. Between two stages every number is squared.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// The stage's name.
    pub name: String,
    /// The shape of the input.
    pub input: Volume,
    /// The shape of the output.
    pub output: Volume,
    /// The map. Weights are multiples of `2^-weight_bits`.
    pub map: Map,
    /// One offset for each number of the output, multiples of `2^-bias_bits`.
    pub bias: Vec<f64>,
    /// Bits after the point of a weight.
    pub weight_bits: u32,
    /// Bits after the point of an offset.
    pub bias_bits: u32,
}

impl Stage {
    /// The non-zero entries of one row of the map's matrix: places in the input, and weights.
    pub fn row(&self, output: usize) -> Vec<(usize, f64)> {
        match &self.map {
            Map::Dense { weights } => {
                let inputs = self.input.len();
                weights[output * inputs..][..inputs].iter().copied().enumerate().filter(|(_, w)| *w != 0.0).collect()
            }
            Map::Convolution { kernel, stride, padding, weights } => {
                let column = output % self.output.width;
                let row = output / self.output.width % self.output.height;
                let channel = output / (self.output.width * self.output.height);
                let mut entries = Vec::with_capacity(self.input.channels * kernel[0] * kernel[1]);
                for i in 0..self.input.channels {
                    for a in 0..kernel[0] {
                        for b in 0..kernel[1] {
                            let weight = weights[((channel * self.input.channels + i) * kernel[0] + a) * kernel[1] + b];
                            let at = [stride[0] * row + a, stride[1] * column + b];
                            let inside = at[0] >= padding[0] && at[1] >= padding[1];
                            let at = [at[0].wrapping_sub(padding[0]), at[1].wrapping_sub(padding[1])];
                            if inside && at[0] < self.input.height && at[1] < self.input.width && weight != 0.0 {
                                entries.push((self.input.index(i, at[0], at[1]), weight));
                            }
                        }
                    }
                }
                entries
            }
        }
    }
}

/// A network in computable form: pixels in `[0, 1]`, and logits divided by a power of two.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    stages: Vec<Stage>,
    logit_bits: i32,
    calibration: Option<Calibration>,
}

/// Errors of [`Model::new`] and [`Model::calibrated`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// No stage.
    #[error("expected a model of one stage or more, found none")]
    Empty,
    /// Too many stages.
    #[error("expected at most {MAX_STAGES} stages, found {0}")]
    Stages(usize),
    /// An exponent of the logits that is too large.
    #[error("expected logits divided by 2^-64 to 2^64, found 2^{0}")]
    LogitBits(i32),
    /// An invalid margin or invalid powers.
    #[error("expected a finite margin above 0, and no powers or one of at least 0 for each stage, found others")]
    Calibration,
    /// Stages whose file would be too long.
    #[error("expected a model of at most 2^28 bytes, found {0}: fewer weights, or weights of fewer bits, fit")]
    Bytes(u64),
    /// Too many outputs that share the offset of their channel.
    #[error(
        "expected at most {most} outputs that share the offset of their channel, found {found}: smaller outputs, or more weights, fit"
    )]
    Spread {
        /// [`MAX_SPREAD`], and a quarter of the numbers in the file.
        most: usize,
        /// The number found; the first output of each channel does not count.
        found: usize,
    },
    /// A name that is too long or has control characters.
    #[error("expected names of stages of at most {MAX_NAME_BYTES} bytes without control characters, found another")]
    Name,
    /// A stage whose input is not as large as the output of the stage before.
    #[error("stage {stage}: expected an input of {expected} numbers, found {found}")]
    Chain {
        /// The stage's name.
        stage: String,
        /// The output of the stage before.
        expected: usize,
        /// The input of the stage.
        found: usize,
    },
    /// A count of weights or offsets that does not match the stage's shape.
    #[error("stage {stage}: expected {expected} {what}, found {found}")]
    Count {
        /// The stage's name.
        stage: String,
        /// Weights or offsets.
        what: &'static str,
        /// The number expected.
        expected: usize,
        /// The number found.
        found: usize,
    },
    /// A number that is infinite, NaN, or not on the stage's grid.
    #[error("stage {stage}: expected multiples of 2^-{bits} as {what}, found another number")]
    Grid {
        /// The stage's name.
        stage: String,
        /// Weights or offsets.
        what: &'static str,
        /// Bits after the point.
        bits: u32,
    },
    /// A kernel or stride of 0, an output that its kernel never fills, or too many numbers.
    #[error("stage {stage}: {reason}")]
    Shape {
        /// The stage's name.
        stage: String,
        /// The reason.
        reason: &'static str,
    },
}

/// The most inputs or outputs of a stage. Larger stages are rejected before anything is allocated.
pub const MAX_NUMBERS: usize = 1 << 20;

/// The most weights of a layer or a stage.
pub const MAX_WEIGHTS: usize = 1 << 24;
/// The most offsets in memory beyond those in the file, which may hold one per channel. A quarter
/// of the count of numbers in the file is allowed on top. Four of the largest stages have as many,
/// and so have 64 stages of 64 channels of 32 x 32.
pub const MAX_SPREAD: usize = 1 << 22;
/// The most stages.
pub const MAX_STAGES: usize = 64;
/// The most bytes of a stage's name.
pub const MAX_NAME_BYTES: usize = 64;
/// The most bits after the point of a weight or an offset.
pub const MAX_BITS: u32 = 64;

impl Model {
    /// A model of these stages, checked against each other. Logits are the last stage's numbers
    /// times `2^logit_bits`.
    ///
    /// # Errors
    /// [`ModelError`].
    pub fn new(stages: Vec<Stage>, logit_bits: i32) -> Result<Self, ModelError> {
        if stages.is_empty() {
            return Err(ModelError::Empty);
        }
        if stages.len() > MAX_STAGES {
            return Err(ModelError::Stages(stages.len()));
        }
        if !(-64..=64).contains(&logit_bits) {
            return Err(ModelError::LogitBits(logit_bits));
        }
        for pair in stages.windows(2) {
            let (expected, found) = (pair[0].output.len(), pair[1].input.len());
            if expected != found {
                return Err(ModelError::Chain { stage: pair[1].name.clone(), expected, found });
            }
        }
        stages.iter().try_for_each(check)?;
        super::bytes::check_spread(&stages)?;
        let found = super::bytes::length(&stages);
        if found > super::bytes::MAX_MODEL_BYTES as u64 {
            return Err(ModelError::Bytes(found));
        }
        Ok(Self { stages, logit_bits, calibration: None })
    }

    /// Adds a calibration, measured on images or stated by the owner.
    ///
    /// # Errors
    /// [`ModelError::Calibration`].
    pub fn calibrated(mut self, calibration: Calibration) -> Result<Self, ModelError> {
        let Calibration { margin, powers } = &calibration;
        let counts = powers.is_empty() || powers.len() == self.stages.len();
        let good = |power: &f64| power.is_finite() && power.is_sign_positive();
        if !counts || !powers.iter().all(good) || !margin.is_finite() || *margin <= 0.0 {
            return Err(ModelError::Calibration);
        }
        self.calibration = Some(calibration);
        Ok(self)
    }

    /// The calibration, measured on images or stated by the owner, if there is one.
    pub fn calibration(&self) -> Option<&Calibration> {
        self.calibration.as_ref()
    }

    /// The stages.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// The shape of the pixels.
    pub fn input(&self) -> Volume {
        self.stages.first().map_or(Volume::vector(0), |stage| stage.input)
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.stages.last().map_or(0, |stage| stage.output.len())
    }

    /// The binary exponent of the logits: they are the last stage's numbers times two to this.
    pub fn logit_bits(&self) -> i32 {
        self.logit_bits
    }
}

fn check(stage: &Stage) -> Result<(), ModelError> {
    let shape = |reason| ModelError::Shape { stage: stage.name.clone(), reason };
    if stage.name.len() > MAX_NAME_BYTES || stage.name.chars().any(char::is_control) {
        return Err(ModelError::Name);
    }
    let sizes = [stage.input, stage.output].map(|volume| {
        volume.channels.checked_mul(volume.height).and_then(|n| n.checked_mul(volume.width)).unwrap_or(usize::MAX)
    });
    if sizes.iter().any(|n| *n == 0 || *n > MAX_NUMBERS) {
        return Err(shape("expected 1 to 2^20 numbers in and out"));
    }
    if stage.weight_bits.max(stage.bias_bits) > MAX_BITS {
        return Err(shape("expected at most 64 bits after the point"));
    }
    let (weights, expected) = match &stage.map {
        Map::Dense { weights } => (weights, sizes[0].checked_mul(sizes[1])),
        Map::Convolution { kernel, stride, padding, weights } => {
            let input = [stage.input.height, stage.input.width];
            let output = [stage.output.height, stage.output.width];
            for axis in 0..2 {
                if kernel[axis] == 0 || stride[axis] == 0 || kernel[axis] > MAX_NUMBERS || stride[axis] > MAX_NUMBERS {
                    return Err(shape("expected a kernel and a stride of at least 1"));
                }
                // the last kernel must still reach into the input
                if padding[axis] >= kernel[axis] || (output[axis] - 1) * stride[axis] >= input[axis] + padding[axis] {
                    return Err(shape("expected every result to have a number of the input under its kernel"));
                }
            }
            let taps = kernel[0].checked_mul(kernel[1]).and_then(|n| n.checked_mul(stage.input.channels));
            if taps.is_none_or(|n| n > MAX_NUMBERS) {
                return Err(shape("expected at most 2^20 numbers under a kernel"));
            }
            (weights, taps.and_then(|n| n.checked_mul(stage.output.channels)))
        }
    };
    if expected.is_some_and(|count| count > MAX_WEIGHTS) {
        return Err(shape("expected at most 2^24 weights"));
    }
    let count = |what, expected, found| ModelError::Count { stage: stage.name.clone(), what, expected, found };
    if expected != Some(weights.len()) {
        return Err(count("weights", expected.unwrap_or(usize::MAX), weights.len()));
    }
    if stage.bias.len() != sizes[1] {
        return Err(count("offsets", sizes[1], stage.bias.len()));
    }
    for (what, numbers, bits) in [("weights", weights, stage.weight_bits), ("offsets", &stage.bias, stage.bias_bits)] {
        let on_grid = |x: &f64| {
            let scaled = x * 2f64.powi(bits as i32);
            scaled.fract() == 0.0 && scaled.abs() < 2f64.powi(52)
        };
        if !numbers.iter().all(on_grid) {
            return Err(ModelError::Grid { stage: stage.name.clone(), what, bits });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(input: Volume, output: Volume, map: Map) -> Stage {
        let bias = vec![0.0; output.len()];
        Stage { name: "s".to_owned(), input, output, map, bias, weight_bits: 4, bias_bits: 4 }
    }

    #[test]
    fn a_convolutions_rows_have_what_lies_under_the_kernel() {
        let (input, output) =
            (Volume { channels: 1, height: 3, width: 3 }, Volume { channels: 1, height: 2, width: 2 });
        let weights = vec![1.0, 2.0, 3.0, 4.0];
        let map = Map::Convolution { kernel: [2, 2], stride: [2, 2], padding: [0, 1], weights };
        let stage = stage(input, output, map);
        assert_eq!(stage.row(0), [(0, 2.0), (3, 4.0)]);
        assert_eq!(stage.row(1), [(1, 1.0), (2, 2.0), (4, 3.0), (5, 4.0)]);
        assert_eq!(stage.row(2), [(6, 2.0)]);
        assert!(Model::new(vec![stage], 0).is_ok());
    }

    #[test]
    fn stages_that_are_no_model_are_refused() {
        let (two, one) = (Volume::vector(2), Volume::vector(1));
        let good = stage(two, one, Map::Dense { weights: vec![0.5, -0.0625] });
        assert!(Model::new(vec![good.clone()], 0).is_ok());
        assert_eq!(Model::new(vec![], 0), Err(ModelError::Empty));
        assert!(matches!(Model::new(vec![good.clone(), good.clone()], 0), Err(ModelError::Chain { .. })));
        for weights in [vec![0.5], vec![0.5, f64::NAN], vec![0.5, f64::INFINITY], vec![0.5, 0.01], vec![0.5, 1e300]] {
            let bad = Stage { map: Map::Dense { weights }, ..good.clone() };
            assert!(Model::new(vec![bad], 0).is_err());
        }
        let bad = Stage { output: Volume { channels: usize::MAX, height: 2, width: 1 }, ..good };
        assert!(matches!(Model::new(vec![bad], 0), Err(ModelError::Shape { .. })));
    }
}
