//! One ciphertext for each channel: the paper's computation, as a baseline.
//!
//! Numbers keep the places of the pixels, so the numbers that a stride skips stay in between as
//! garbage. A convolution rotates every channel by all taps and multiplies by one number each. The
//! last map multiplies each channel by the weights of each class and adds up the positions: one
//! ciphertext for each class.

use super::build::{self, Spec, Target};
use super::{Giant, Layout, LayoutError, Linear, Output, Slots, Term, Weights, doublings};
use crate::model::{Map, Model, Stage, Volume};

const EXPECTED: &str = "convolutions without padding, then a map of rows and columns whose numbers are powers of two";

/// The places of one channel's numbers.
#[derive(Clone, Copy)]
struct Grid {
    /// Slots from one row to the next, and from one column.
    pitch: [usize; 2],
}

impl Grid {
    fn slots(self, n: usize, volume: Volume, channel: usize) -> Slots {
        let mut slots = vec![None; n];
        for row in 0..volume.height {
            for column in 0..volume.width {
                slots[row * self.pitch[0] + column * self.pitch[1]] = Some(volume.index(channel, row, column) as u32);
            }
        }
        slots
    }
}

pub(super) fn layout(model: &Model, n: usize) -> Result<Layout, LayoutError> {
    let unfit = || LayoutError::Model { layout: "paper", expected: EXPECTED };
    let (last, convolutions) = model.stages().split_last().ok_or_else(unfit)?;
    let image = model.input();
    if image.height * image.width > n {
        let (stage, found) = (model.stages()[0].name.clone(), image.height * image.width);
        return Err(LayoutError::Slots { stage, most: n, found });
    }
    let mut grid = Grid { pitch: [image.width, 1] };
    let mut volume = image;
    let mut stages = Vec::new();
    for stage in convolutions {
        if stage.input != volume {
            return Err(unfit());
        }
        let (linear, next) = convolution(stage, n, grid).ok_or_else(unfit)?;
        stages.push(linear);
        (grid, volume) = (next, stage.output);
    }
    let powers = volume.height.is_power_of_two() && volume.width.is_power_of_two();
    if last.input.len() != volume.len() || !powers {
        return Err(unfit());
    }
    stages.push(classes(last, n, grid, volume)?);
    Layout::of("paper", n, stages, model.classes())
}

fn convolution(stage: &Stage, n: usize, grid: Grid) -> Option<(Linear, Grid)> {
    let Map::Convolution { kernel, stride, padding: [0, 0], weights } = &stage.map else { return None };
    let inside = |axis: usize, input: usize, output: usize| (output - 1) * stride[axis] + kernel[axis] <= input;
    if !inside(0, stage.input.height, stage.output.height) || !inside(1, stage.input.width, stage.output.width) {
        return None;
    }
    let next = Grid { pitch: [grid.pitch[0] * stride[0], grid.pitch[1] * stride[1]] };
    let taps = kernel[0] * kernel[1];
    let output = |channel: usize| {
        let term = |i: usize| {
            let (input, tap) = (i / taps, i % taps);
            let steps = tap / kernel[1] * grid.pitch[0] + tap % kernel[1] * grid.pitch[1];
            let weight = weights[channel * stage.input.channels * taps + i];
            Term { input, baby: steps as i64, weights: Weights::Constant(weight) }
        };
        let terms = (0..stage.input.channels * taps).map(term).collect();
        let gives = next.slots(n, stage.output, channel);
        Output { giants: vec![Giant { steps: 0, terms }], offset: build::offset(stage, &gives), gives }
    };
    let linear = Linear {
        name: stage.name.clone(),
        takes: (0..stage.input.channels).map(|channel| grid.slots(n, stage.input, channel)).collect(),
        outputs: (0..stage.output.channels).map(output).collect(),
        folds: Vec::new(),
    };
    Some((linear, next))
}

fn classes(stage: &Stage, n: usize, grid: Grid, volume: Volume) -> Result<Linear, LayoutError> {
    let takes: Vec<Slots> = (0..volume.channels).map(|channel| grid.slots(n, volume, channel)).collect();
    let used: Vec<bool> = takes[0].iter().map(Option::is_some).collect();
    let target = |class: usize| {
        let before = used.iter().map(|used| used.then_some(class as u32)).collect();
        let after = (0..n).map(|slot| (slot == 0).then_some(class as u32)).collect();
        Target { before, after }
    };
    let [row, column] = grid.pitch;
    let folds = doublings(column, column * volume.width).chain(doublings(row, row * volume.height)).collect();
    let targets = (0..stage.output.len()).map(target).collect();
    build::linear(stage, Spec { takes, targets, steps: vec![(0, 0)], folds })
}
