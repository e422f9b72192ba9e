//! Training of small networks. A block has a convolution without padding, batch normalisation and a
//! quadratic; a dense layer comes last.
//!
//! **Computation.** The batch is the innermost index, and numbers have single precision. A step has
//! the forward pass, the gradient of
//!
//! ```text
//! the cross-entropy of softmax(logits) against labels smoothed by ε  +  λ/n Σ max(|x| - 4, 0)²
//! ```
//!
//! over the inputs `x` of the activations, by the chain rule written out for each layer (`layers`),
//! and an update of Adam with decoupled weight decay and a cosine schedule. The second term keeps
//! the squared numbers in a range (boundary loss, arXiv 2505.11589). The coefficients of the
//! activations start as the least-squares quadratic of ReLU under the standard normal distribution,
//! `(x² + 1)/√(8π) + x/2`; the norm of their gradient is clipped at 1.
//!
//! **Reproducible.** This module draws no randomness of its own and starts no thread. A gradient is
//! a function of parameters and images, and gradients are added in the given order. The same seed
//! gives the same weights on all machines whose `sin`, `cos`, `exp` and `ln` agree.

mod augment;
mod layers;

pub use augment::Augmentation;

use super::model::Volume;
use super::network::{LayerKind, Network, NetworkError, Normalisation};
use layers::{Shape, Statistics};
use rand_core::Rng;

/// Images for one gradient.
pub const BATCH: usize = 64;
/// Added to a variance before the square root.
const EPSILON: f32 = 1e-5;
/// The least-squares quadratic of ReLU for the standard normal distribution: `x²`, `x` and 1.
const RELU: [f32; 3] = [0.199_471, 0.5, 0.199_471];

/// A convolution without padding, followed by batch normalisation and a quadratic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Channels of the result.
    pub channels: usize,
    /// Rows and columns of the kernel.
    pub kernel: usize,
    /// Rows and columns from one result to the next.
    pub stride: usize,
}

/// The options of a training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recipe {
    /// The highest learning rate of the schedule.
    pub rate: f32,
    /// Steps until the highest rate.
    pub warmup: usize,
    /// Total number of steps; then the rate is 0.
    pub steps: usize,
    /// Weight decay, multiplied by the rate.
    pub decay: f32,
    /// The part of a label that is spread over all classes.
    pub smoothing: f32,
    /// Weight of the boundary loss for inputs of an activation beyond 4.
    pub boundary: f32,
}

/// Parameters, and the state of their training.
pub struct Trainer {
    shapes: Vec<Shape>,
    classes: usize,
    recipe: Recipe,
    mean: f32,
    deviation: f32,
    parameters: Vec<f32>,
    first: Vec<f32>,
    second: Vec<f32>,
    step: usize,
}

/// A gradient with the statistics of its batch.
#[derive(Clone, Debug)]
pub struct Gradient {
    values: Vec<f32>,
    /// Mean loss of the images.
    pub loss: f32,
    /// Images with the right label.
    pub correct: usize,
    statistics: Vec<Statistics>,
}

impl Trainer {
    /// New parameters from `rng`, for images whose pixels divided by 255 have this mean and
    /// deviation.
    ///
    /// # Errors
    /// [`NetworkError::Shape`] for blocks that do not fit.
    pub fn new(
        input: Volume,
        blocks: &[Block],
        classes: usize,
        (mean, deviation): (f32, f32),
        recipe: Recipe,
        rng: &mut impl Rng,
    ) -> Result<Self, NetworkError> {
        let (mut shapes, mut volume, mut start) = (Vec::new(), input, 0);
        for block in blocks {
            let fits = block.kernel > 0 && block.stride > 0 && volume.height.min(volume.width) >= block.kernel;
            if !fits || block.channels == 0 {
                let reason = "expected a kernel no larger than its input";
                return Err(NetworkError::Shape { layer: format!("conv{}", shapes.len() + 1), reason });
            }
            let shape = Shape::new(volume, block, start);
            (volume, start) = (shape.output, shape.end());
            shapes.push(shape);
        }
        let mut parameters = vec![0.0; start + classes * (volume.len() + 1)];
        let mut draw = |all: &mut [f32], inputs: usize| {
            let width = (6.0 / inputs as f32).sqrt();
            all.iter_mut().for_each(|x| *x = width * (2.0 * unit(rng) - 1.0));
        };
        for shape in &shapes {
            draw(&mut parameters[shape.weights()], shape.taps());
            parameters[shape.gain()].fill(1.0);
            for (power, value) in RELU.iter().enumerate() {
                parameters[shape.coefficient(power)].fill(*value);
            }
        }
        draw(&mut parameters[start..][..classes * volume.len()], 6 * volume.len());
        let zeros = vec![0.0; parameters.len()];
        Ok(Self { shapes, classes, recipe, mean, deviation, first: zeros.clone(), second: zeros, parameters, step: 0 })
    }

    /// Numbers of one image.
    pub fn inputs(&self) -> usize {
        self.shapes.first().map_or(0, |shape| shape.input.len())
    }

    /// The number of parameters.
    pub fn parameters(&self) -> usize {
        self.parameters.len()
    }

    /// The gradient for [`BATCH`] images: pixels from 0 to 255, image after image, and one label
    /// for each.
    ///
    /// # Errors
    /// [`super::network::InputError`] for a wrong number of pixels or labels.
    pub fn gradient(&self, pixels: &[f32], labels: &[u8]) -> Result<Gradient, super::network::InputError> {
        let (expected, found) = (BATCH * self.inputs(), pixels.len());
        if expected != found || labels.len() != BATCH {
            return Err(super::network::InputError { expected, found });
        }
        let mut input = vec![0.0; expected];
        for (image, pixels) in pixels.chunks_exact(self.inputs()).enumerate() {
            for (at, pixel) in pixels.iter().enumerate() {
                input[at * BATCH + image] = (pixel / 255.0 - self.mean) / self.deviation;
            }
        }
        Ok(self.backward(&input, labels))
    }

    fn backward(&self, input: &[f32], labels: &[u8]) -> Gradient {
        let parameters = &self.parameters;
        let mut values = vec![0.0; parameters.len()];
        let mut kept: Vec<layers::ForwardValues> = Vec::with_capacity(self.shapes.len());
        for shape in &self.shapes {
            let x = kept.last().map_or(input, |kept| &kept.result);
            let next = layers::forward(shape, parameters, x);
            kept.push(next);
        }
        let start = self.shapes.last().map_or(0, Shape::end);
        let last = kept.last().map_or(input, |kept| &kept.result);
        let logits = layers::dense(&parameters[start..], self.classes, last);
        let (loss, correct, slope) = layers::cross_entropy(&logits, labels, self.classes, self.recipe.smoothing);
        let mut slope = layers::dense_backward(&parameters[start..], last, &slope, &mut values[start..]);
        for (at, shape) in self.shapes.iter().enumerate().rev() {
            let x = if at == 0 { input } else { &kept[at - 1].result };
            let inner = at > 0;
            slope = layers::backward(shape, parameters, x, &kept[at], slope, self.recipe.boundary, inner, &mut values);
        }
        Gradient { values, loss, correct, statistics: kept.into_iter().map(|kept| kept.statistics).collect() }
    }

    /// A step along the mean of gradients.
    pub fn step(&mut self, gradients: &[Gradient]) {
        let mut mean = vec![0.0; self.parameters.len()];
        for gradient in gradients {
            mean.iter_mut().zip(&gradient.values).for_each(|(sum, x)| *sum += x / gradients.len() as f32);
        }
        for shape in &self.shapes {
            let coefficients = shape.coefficient(0).start..shape.coefficient(2).end;
            let norm = mean[coefficients.clone()].iter().map(|x| x * x).sum::<f32>().sqrt();
            if norm > 1.0 {
                mean[coefficients].iter_mut().for_each(|x| *x /= norm);
            }
        }
        let Recipe { rate, warmup, steps, decay, .. } = self.recipe;
        self.step += 1;
        let progress = (self.step.saturating_sub(warmup) as f32 / steps.saturating_sub(warmup).max(1) as f32).min(1.0);
        let warm = (self.step as f32 / warmup.max(1) as f32).min(1.0);
        let rate = rate * warm * 0.5 * (1.0 + (std::f32::consts::PI * progress).cos());
        let (beta1, beta2) = (0.9f32, 0.999f32);
        let correction = [beta1, beta2].map(|beta| 1.0 - beta.powi(self.step.min(100_000) as i32));
        for (at, slope) in mean.iter().enumerate() {
            self.first[at] = beta1 * self.first[at] + (1.0 - beta1) * slope;
            self.second[at] = beta2 * self.second[at] + (1.0 - beta2) * slope * slope;
            let step = self.first[at] / correction[0] / ((self.second[at] / correction[1]).sqrt() + 1e-8);
            self.parameters[at] -= rate * step;
        }
        let start = self.shapes.last().map_or(0, Shape::end);
        let dense = start..self.parameters.len() - self.classes;
        for range in self.shapes.iter().map(Shape::weights).chain([dense]) {
            self.parameters[range].iter_mut().for_each(|x| *x -= rate * decay * *x);
        }
    }

    /// The trained network. Its batch normalisation has the mean statistics of gradients taken with
    /// the present parameters.
    ///
    /// # Errors
    /// [`NetworkError`] if training diverged.
    pub fn network(&self, gradients: &[Gradient]) -> Result<Network, NetworkError> {
        let Some(input) = self.shapes.first().map(|shape| shape.input) else { return Err(NetworkError::Layers(0)) };
        let doubles = |numbers: &[f32]| numbers.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
        let mut layers = Vec::new();
        for (at, shape) in self.shapes.iter().enumerate() {
            let statistics: Vec<_> = gradients.iter().map(|gradient| &gradient.statistics[at]).collect();
            let statistics = Statistics::mean(&statistics);
            let channels = shape.output.channels;
            let gain = doubles(&self.parameters[shape.gain()]);
            let scale: Vec<f64> =
                gain.iter().zip(&statistics.variance).map(|(gain, v)| gain / f64::from(v + EPSILON).sqrt()).collect();
            let shift = doubles(&self.parameters[shape.shift()]);
            let shift = (0..channels).map(|c| shift[c] - scale[c] * f64::from(statistics.mean[c])).collect();
            let (kernel, stride) = ([shape.kernel; 2], [shape.stride; 2]);
            let (weights, bias) = (doubles(&self.parameters[shape.weights()]), vec![0.0; channels]);
            let convolution = LayerKind::Convolution { channels, kernel, stride, padding: [0; 4], weights, bias };
            let [square, linear, constant] = [0, 1, 2].map(|power| doubles(&self.parameters[shape.coefficient(power)]));
            layers.push((format!("conv{}", at + 1), convolution));
            layers.push((format!("norm{}", at + 1), LayerKind::Affine { scale, shift }));
            layers.push((format!("act{}", at + 1), LayerKind::Quadratic { square, linear, constant }));
        }
        let start = self.shapes.last().map_or(0, Shape::end);
        let (weights, bias) = self.parameters[start..].split_at(self.parameters.len() - start - self.classes);
        layers.push((
            "fc".to_owned(),
            LayerKind::Dense { outputs: self.classes, weights: doubles(weights), bias: doubles(bias) },
        ));
        let normalisation = Normalisation::standard(input.channels, self.mean.into(), self.deviation.into());
        Network::new(input, normalisation, layers)
    }
}

/// A number from 0 to 1.
fn unit(rng: &mut impl Rng) -> f32 {
    (rng.next_u32() >> 8) as f32 / (1 << 24) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

    const INPUT: Volume = Volume { channels: 1, height: 8, width: 8 };
    const BLOCKS: [Block; 2] =
        [Block { channels: 2, kernel: 3, stride: 1 }, Block { channels: 3, kernel: 3, stride: 2 }];

    fn trainer(boundary: f32) -> Trainer {
        let mut rng = ChaCha20Rng::from_seed([7; 32]);
        let recipe = Recipe { rate: 0.01, warmup: 5, steps: 60, decay: 1e-4, smoothing: 0.1, boundary };
        Trainer::new(INPUT, &BLOCKS, 3, (0.3, 0.4), recipe, &mut rng).unwrap()
    }

    /// Images of three kinds: a bright upper half, a bright left half, a bright middle, with noise.
    fn images(seed: u8) -> (Vec<f32>, Vec<u8>) {
        let mut rng = ChaCha20Rng::from_seed([seed; 32]);
        let labels: Vec<u8> = (0..BATCH).map(|_| (rng.next_u32() % 3) as u8).collect();
        let bright = |label: u8, at: usize| match label {
            0 => at / 8 < 4,
            1 => at % 8 < 4,
            _ => (2..6).contains(&(at / 8)) && (2..6).contains(&(at % 8)),
        };
        let pixels =
            labels.iter().flat_map(|label| (0..64).map(move |at| if bright(*label, at) { 150.0 } else { 0.0 }));
        (pixels.map(|pixel| pixel + 100.0 * unit(&mut rng)).collect(), labels)
    }

    #[test]
    fn a_gradient_is_the_slope_of_the_loss() {
        let (pixels, labels) = images(1);
        let mut trainer = trainer(0.0);
        let gradient = trainer.gradient(&pixels, &labels).unwrap();
        let largest = gradient.values.iter().fold(0f32, |most, x| most.max(x.abs()));
        let mut worst = 0f32;
        for at in 0..trainer.parameters.len() {
            let kept = trainer.parameters[at];
            let width = 4e-3;
            let [above, below] = [width, -width].map(|step| {
                trainer.parameters[at] = kept + step;
                trainer.gradient(&pixels, &labels).unwrap().loss
            });
            trainer.parameters[at] = kept;
            worst = worst.max(((above - below) / (2.0 * width) - gradient.values[at]).abs());
        }
        assert!(worst < 0.004 * largest, "{worst} of {largest}");
    }

    #[test]
    fn training_learns_and_the_network_computes_the_same() {
        let mut trainer = trainer(0.01);
        let first = trainer.gradient(&images(1).0, &images(1).1).unwrap().loss;
        for step in 0..60 {
            let gradients = [2 * step + 10, 2 * step + 11].map(|seed| {
                let (pixels, labels) = images(seed);
                trainer.gradient(&pixels, &labels).unwrap()
            });
            trainer.step(&gradients);
        }
        let (pixels, labels) = images(1);
        let last = trainer.gradient(&pixels, &labels).unwrap();
        assert!(last.loss < 0.6 * first && last.correct > 60, "{first} {} {}", last.loss, last.correct);
        let network = trainer.network(std::slice::from_ref(&last)).unwrap();
        let right = pixels.chunks(64).zip(&labels).filter(|(pixels, label)| {
            let pixels: Vec<u8> = pixels.iter().map(|pixel| *pixel as u8).collect();
            let logits = network.forward(&pixels).unwrap();
            (0..3).all(|class| logits[class] <= logits[usize::from(**label)])
        });
        assert_eq!(right.count(), last.correct);
    }

    #[test]
    fn the_boundary_presses_what_is_beyond_it() {
        let (pixels, labels) = images(1);
        let [without, with] = [0.0, 1.0].map(|boundary| {
            let mut trainer = trainer(boundary);
            let shift = trainer.shapes[1].shift();
            trainer.parameters[shift].fill(6.0);
            trainer.gradient(&pixels, &labels).unwrap()
        });
        let shape = trainer(0.0).shapes[1];
        for (without, with) in without.values[shape.shift()].iter().zip(&with.values[shape.shift()]) {
            assert!(with - without > 1.0, "{without} {with}");
        }
    }

    #[test]
    fn blocks_that_do_not_fit_and_batches_of_another_size_are_refused() {
        let mut rng = ChaCha20Rng::from_seed([7; 32]);
        let recipe = trainer(0.0).recipe;
        let block = Block { channels: 1, kernel: 9, stride: 1 };
        assert!(Trainer::new(INPUT, &[block], 3, (0.0, 1.0), recipe, &mut rng).is_err());
        assert!(trainer(0.0).gradient(&[0.0; 64], &[0; BATCH]).is_err());
    }

    #[test]
    fn an_image_that_is_not_changed_stays() {
        let none = Augmentation { shift: 0.0, turn: 0.0, scale: 0.0, shear: 0.0 };
        let pixels: Vec<u8> = (0..64).map(|at| at * 3).collect();
        let mut out = vec![0.0; 64];
        none.apply(&pixels, 8, &mut out, &mut ChaCha20Rng::from_seed([1; 32]));
        assert!(pixels.iter().zip(&out).all(|(pixel, out)| (f32::from(*pixel) - out).abs() < 1e-3));
        let some = Augmentation { shift: 2.0, ..none };
        some.apply(&pixels, 8, &mut out, &mut ChaCha20Rng::from_seed([1; 32]));
        assert!(pixels.iter().zip(&out).any(|(pixel, out)| (f32::from(*pixel) - out).abs() > 5.0));
    }
}
