//! A network of the paper's shape with random weights, networks of other shapes, and their
//! plaintext results.

#![allow(dead_code, reason = "not every test uses all of it")]

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use tobari_infer::{Calibration, Map, Model, Stage, Volume};

pub(crate) fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// Uniform in `[-1, 1)`.
fn unit(rng: &mut ChaCha20Rng) -> f64 {
    f64::from(rng.next_u32()) / f64::from(1u32 << 31) - 1.0
}

/// Multiples of `2^-16` below `size` in absolute value.
fn grid(count: usize, size: f64, rng: &mut ChaCha20Rng) -> Vec<f64> {
    (0..count).map(|_| (unit(rng) * size * 65_536.0).round() / 65_536.0).collect()
}

fn stage(name: &str, input: Volume, output: Volume, map: Map, rng: &mut ChaCha20Rng) -> Stage {
    let bias = grid(output.len(), 0.25, rng);
    Stage { name: name.to_owned(), input, output, map, bias, weight_bits: 16, bias_bits: 16 }
}

pub(crate) fn convolution(
    name: &str,
    input: Volume,
    channels: usize,
    kernel: usize,
    stride: usize,
    rng: &mut ChaCha20Rng,
) -> Stage {
    let [height, width] = [input.height, input.width].map(|size| (size - kernel) / stride + 1);
    let taps = input.channels * kernel * kernel;
    let weights = grid(channels * taps, 1.2 / (taps as f64).sqrt(), rng);
    let map = Map::Convolution { kernel: [kernel; 2], stride: [stride; 2], padding: [0; 2], weights };
    stage(name, input, Volume { channels, height, width }, map, rng)
}

pub(crate) fn dense(name: &str, input: Volume, outputs: usize, rng: &mut ChaCha20Rng) -> Stage {
    let weights = grid(input.len() * outputs, 2.0 / (input.len() as f64).sqrt(), rng);
    stage(name, input, Volume::vector(outputs), Map::Dense { weights }, rng)
}

/// Sets a margin beyond every error, for tests that do not look at labels.
fn wide(model: Model) -> Model {
    model.calibrated(Calibration { margin: 1e3, powers: Vec::new() }).unwrap()
}

/// The paper's network.
pub(crate) fn digits(seed: u64) -> Model {
    let rng = &mut rng(seed);
    let first = convolution("conv1", Volume { channels: 1, height: 28, width: 28 }, 5, 5, 2, rng);
    let second = convolution("conv2", first.output, 50, 5, 2, rng);
    let third = dense("fc", second.output, 10, rng);
    wide(Model::new(vec![first, second, third], 3).unwrap())
}

/// A small network of the same family: 9x9, 3 channels, 5 channels, 6 classes.
pub(crate) fn small(seed: u64) -> Model {
    let rng = &mut rng(seed);
    let first = convolution("conv1", Volume { channels: 1, height: 9, width: 9 }, 3, 3, 2, rng);
    let second = convolution("conv2", first.output, 5, 2, 2, rng);
    let third = dense("fc", second.output, 6, rng);
    wide(Model::new(vec![first, second, third], 0).unwrap())
}

pub(crate) fn image(model: &Model, seed: u64) -> Vec<f64> {
    let rng = &mut rng(seed);
    (0..model.input().len())
        .map(|_| if rng.next_u32().is_multiple_of(4) { (unit(rng) + 1.0) / 2.0 } else { 0.0 })
        .collect()
}

/// The numbers of every stage before the squares.
pub(crate) fn plain(model: &Model, image: &[f64]) -> Vec<Vec<f64>> {
    let mut values = image.to_vec();
    let mut all = Vec::new();
    for stage in model.stages() {
        let sum = |o: usize| stage.bias[o] + stage.row(o).iter().map(|(i, w)| w * values[*i]).sum::<f64>();
        let sums: Vec<f64> = (0..stage.output.len()).map(sum).collect();
        values = sums.iter().map(|u| u * u).collect();
        all.push(sums);
    }
    all
}

pub(crate) fn logits(model: &Model, image: &[f64]) -> Vec<f64> {
    plain(model, image).pop().unwrap().iter().map(|u| u * 2f64.powi(model.logit_bits())).collect()
}

pub(crate) fn label(logits: &[f64]) -> usize {
    (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap()
}

pub(crate) fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}
