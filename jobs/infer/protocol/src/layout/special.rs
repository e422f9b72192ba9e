//! Two convolutions and a map of their result: im2col through both, by the client.
//!
//! With `Q` the final positions (`q`), `e` the taps of the second convolution in space and `c` its
//! channels, `t` the taps of the first, all in blocks whose sizes are powers of two:
//!
//! * `balanced`: ciphertext `i` has in slot `(b, e, q)` the pixel of tap `t = i n + b`, with `n`
//!   blocks per ciphertext. Block `b` computes channel `b mod C`: diagonals over blocks, then a
//!   fold over the remaining blocks.
//! * `wide`: ciphertext `i` has in slot `(g, c, e, q)` the pixel of tap `t = i n + g`, once for
//!   each channel: one product per ciphertext, and a fold over `g`.
//! * `compact`: the patch of pixels under a final position, once for each position. Channel `c` is
//!   computed at one of the offsets within the stride, or in another copy; diagonals are the taps.
//!
//! From there all layouts are alike: a period of slots with `(c, e, q)`, in `r` copies. Copy `h`
//! computes the `h`-th part of the second convolution's channels, `O/r` diagonals, and folds within
//! the copy. The last map has its classes in neighbouring slots, and folds over all other slots.

use super::build::{self, Spec, Target};
use super::{Layout, LayoutError, Linear, Slots, doublings, steps};
use crate::model::{Map, Model, Stage};

/// The sizes of such a model.
struct Geometry<'a> {
    stages: [&'a Stage; 3],
    /// Final rows and columns.
    rows: usize,
    columns: usize,
    /// The number of final positions, rounded up to a power of two.
    q: usize,
    kernels: [[usize; 2]; 2],
    strides: [[usize; 2]; 2],
    /// Taps in space of the second convolution.
    spots: usize,
    /// Taps of the first convolution, over all its channels.
    taps: usize,
    /// Channels after the first and after the second.
    channels: [usize; 2],
}

const EXPECTED: &str = "two convolutions without padding that stay inside their inputs, and a map of their outputs";

fn convolution(stage: &Stage) -> Option<([usize; 2], [usize; 2])> {
    let Map::Convolution { kernel, stride, padding: [0, 0], .. } = &stage.map else { return None };
    let inside = |axis: usize, input: usize, output: usize| (output - 1) * stride[axis] + kernel[axis] <= input;
    let fits = inside(0, stage.input.height, stage.output.height) && inside(1, stage.input.width, stage.output.width);
    fits.then_some((*kernel, *stride))
}

impl<'a> Geometry<'a> {
    fn of(layout: &'static str, model: &'a Model) -> Result<Self, LayoutError> {
        let unfit = LayoutError::Model { layout, expected: EXPECTED };
        let [first, second, third] = model.stages() else { return Err(unfit) };
        // the second must also take the results of the first in the same order
        let (Some(a), Some(b)) = (convolution(first), convolution(second)) else { return Err(unfit) };
        if second.input != first.output {
            return Err(unfit);
        }
        let (rows, columns) = (second.output.height, second.output.width);
        Ok(Self {
            stages: [first, second, third],
            rows,
            columns,
            q: (rows * columns).next_power_of_two(),
            kernels: [a.0, b.0],
            strides: [a.1, b.1],
            spots: b.0[0] * b.0[1],
            taps: first.input.channels * a.0[0] * a.0[1],
            channels: [first.output.channels, second.output.channels],
        })
    }

    /// Row and column of a final position.
    fn position(&self, q: usize) -> Option<[usize; 2]> {
        (q < self.rows * self.columns).then(|| [q / self.columns, q % self.columns])
    }

    /// Row and column after the first convolution.
    fn middle(&self, e: usize, q: usize) -> Option<[usize; 2]> {
        let ([r, s], stride) = (self.position(q)?, self.strides[1]);
        let tap = (e < self.spots).then(|| [e / self.kernels[1][1], e % self.kernels[1][1]])?;
        Some([stride[0] * r + tap[0], stride[1] * s + tap[1]])
    }

    /// The number of a result of the first convolution.
    fn inner(&self, c: usize, e: usize, q: usize) -> Option<u32> {
        let [y, x] = self.middle(e, q)?;
        (c < self.channels[0]).then(|| self.stages[0].output.index(c, y, x) as u32)
    }

    /// The number of a result of the second convolution.
    fn outer(&self, o: usize, q: usize) -> Option<u32> {
        let [r, s] = self.position(q)?;
        (o < self.channels[1]).then(|| self.stages[1].output.index(o, r, s) as u32)
    }

    /// The pixel under tap `t` of the first convolution.
    fn pixel(&self, e: usize, q: usize, t: usize) -> Option<u32> {
        let ([y, x], [height, width]) = (self.middle(e, q)?, self.kernels[0]);
        let (channel, row, column) = (t / (height * width), t / width % height, t % width);
        let [sy, sx] = self.strides[0];
        (t < self.taps).then(|| self.stages[0].input.index(channel, sy * y + row, sx * x + column) as u32)
    }

    fn room(&self, stage: usize, slots: usize, found: usize) -> Result<(), LayoutError> {
        let fits = found <= slots;
        let refusal = || LayoutError::Slots { stage: self.stages[stage].name.clone(), most: slots, found };
        fits.then_some(()).ok_or_else(refusal)
    }
}

/// The number in each of `count` slots.
fn slots(count: usize, number: impl Fn(usize) -> Option<u32>) -> Slots {
    (0..count).map(number).collect()
}

pub(super) fn balanced(model: &Model, n: usize) -> Result<Layout, LayoutError> {
    let g = Geometry::of("balanced", model)?;
    let (spots, channels) = (g.spots.next_power_of_two(), g.channels[0].next_power_of_two());
    let block = spots * g.q;
    g.room(0, n, channels * block)?;
    let blocks = n / block;
    let place = |slot: usize| (slot / block, slot / g.q % spots, slot % g.q);
    let takes = (0..g.taps.div_ceil(blocks)).map(|i| {
        slots(n, |slot| {
            let (b, e, q) = place(slot);
            g.pixel(e, q, i * blocks + b)
        })
    });
    let after = slots(n, |slot| {
        let (b, e, q) = place(slot);
        g.inner(b % channels, e, q)
    });
    let first = build::linear(
        g.stages[0],
        Spec {
            takes: takes.collect(),
            targets: vec![Target { before: after.clone(), after }],
            steps: steps(channels, block),
            folds: doublings(channels * block, n).collect(),
        },
    )?;
    rest("balanced", &g, first, channels * spots)
}

pub(super) fn wide(model: &Model, n: usize) -> Result<Layout, LayoutError> {
    let g = Geometry::of("wide", model)?;
    let period = (g.channels[0] * g.spots).next_power_of_two();
    let block = period * g.q;
    g.room(0, n, block)?;
    let blocks = n / block;
    let place = |slot: usize| {
        let k = slot / g.q % period;
        (slot / block, k / g.spots, k % g.spots, slot % g.q)
    };
    let takes = (0..g.taps.div_ceil(blocks)).map(|i| {
        slots(n, |slot| {
            let (b, c, e, q) = place(slot);
            if c < g.channels[0] { g.pixel(e, q, i * blocks + b) } else { None }
        })
    });
    let after = slots(n, |slot| {
        let (_, c, e, q) = place(slot);
        g.inner(c, e, q)
    });
    let first = build::linear(
        g.stages[0],
        Spec {
            takes: takes.collect(),
            targets: vec![Target { before: after.clone(), after }],
            steps: vec![(0, 0)],
            folds: doublings(block, n).collect(),
        },
    )?;
    rest("wide", &g, first, period)
}

pub(super) fn compact(model: &Model, n: usize) -> Result<Layout, LayoutError> {
    let g = Geometry::of("compact", model)?;
    let unfit =
        LayoutError::Model { layout: "compact", expected: "one channel of pixels, and no more channels than copies" };
    let ([height, width], [sy, sx]) = (g.kernels[0], g.strides[0]);
    // the patch of pixels under a final position
    let span = |axis: usize| g.strides[0][axis] * (g.kernels[1][axis] - 1) + g.kernels[0][axis];
    let [rows, columns] = [span(0), span(1)].map(usize::next_power_of_two);
    let patch = rows * columns * g.q;
    g.room(0, n, patch)?;
    let copies = n / patch;
    if g.stages[0].input.channels != 1 || g.channels[0] > copies * sy * sx {
        return Err(unfit);
    }
    // copy, row and column of a slot
    let place = |slot: usize| (slot / patch, slot / (columns * g.q) % rows, slot / g.q % columns, slot % g.q);
    let takes = slots(n, |slot| {
        let ((_, y, x, q), [ty, tx]) = (place(slot), [0, 1].map(|axis| g.strides[0][axis] * g.strides[1][axis]));
        let [r, s] = g.position(q)?;
        (y < span(0) && x < span(1)).then(|| g.stages[0].input.index(0, ty * r + y, tx * s + x) as u32)
    });
    let after = slots(n, |slot| {
        let (copy, y, x, q) = place(slot);
        let channel = (y % sy * copies + copy) * sx + x % sx;
        let spot = [y / sy, x / sx];
        let inside = spot[0] < g.kernels[1][0] && spot[1] < g.kernels[1][1];
        if inside { g.inner(channel, spot[0] * g.kernels[1][1] + spot[1], q) } else { None }
    });
    let tap = |d: usize, stride: usize, unit: usize| (d as i64 + 1 - stride as i64) * unit as i64;
    let rows = (0..height + sy - 1).map(|d| tap(d, sy, columns * g.q));
    let all = rows.flat_map(|row| (0..width + sx - 1).map(move |d| (row, d)));
    let first = build::linear(
        g.stages[0],
        Spec {
            takes: vec![takes],
            targets: vec![Target { before: after.clone(), after }],
            steps: all.map(|(row, d)| (row, tap(d, sx, g.q))).collect(),
            folds: Vec::new(),
        },
    )?;
    rest("compact", &g, first, n / g.q)
}

/// The second convolution and the last map, from a period of `period` blocks of final positions.
fn rest(name: &'static str, g: &Geometry<'_>, first: Linear, period: usize) -> Result<Layout, LayoutError> {
    let takes = first.outputs[0].gives.clone();
    let n = takes.len();
    let copies = n / (period * g.q);
    let outputs = g.channels[1].next_power_of_two();
    let part = (outputs / copies).max(1);
    g.room(1, period, part)?;
    let channel = |slot: usize| slot / g.q % part + part * (slot / (period * g.q));
    let before = slots(n, |slot| g.outer(channel(slot), slot % g.q));
    // with several copies, only the first part of each has complete sums
    let whole = |slot: usize| copies == 1 || slot / g.q % period < part;
    let after = slots(n, |slot| before[slot].filter(|_| whole(slot)));
    let second = build::linear(
        g.stages[1],
        Spec {
            takes: vec![takes],
            targets: vec![Target { before, after: after.clone() }],
            steps: steps(part, g.q),
            folds: doublings(part * g.q, period * g.q).collect(),
        },
    )?;
    let third = if copies == 1 { blocks(g, after, outputs * g.q) } else { windows(g, after, part * g.q, period * g.q) };
    let classes = g.stages[2].output.len();
    Layout::of(name, n, vec![first, second, third?], classes)
}

/// The last map, from numbers in all slots with this period: each copy computes some classes.
fn blocks(g: &Geometry<'_>, takes: Slots, period: usize) -> Result<Linear, LayoutError> {
    let (n, stage) = (takes.len(), g.stages[2]);
    let classes = stage.output.len().next_power_of_two();
    g.room(2, period, classes)?;
    let copies = (n / period).min(classes);
    let each = classes / copies;
    let class = |slot: usize| slot / period % copies + copies * (slot % each);
    let known = |slot: usize| Some(class(slot)).filter(|class| *class < stage.output.len()).map(|class| class as u32);
    let spec = Spec {
        takes: vec![takes],
        targets: vec![Target {
            before: slots(n, known),
            after: slots(n, |slot| known(slot).filter(|_| slot / period < copies && slot % period < each)),
        }],
        steps: steps(each, 1),
        folds: doublings(each, period).collect(),
    };
    build::linear(stage, spec)
}

/// The last map, from numbers at the beginning of each period: sums over all of them, before the
/// first slot.
fn windows(g: &Geometry<'_>, takes: Slots, window: usize, period: usize) -> Result<Linear, LayoutError> {
    let (n, stage) = (takes.len(), g.stages[2]);
    let classes = stage.output.len().next_power_of_two();
    g.room(2, window, classes)?;
    let known =
        |slot: usize| Some(slot % classes).filter(|class| *class < stage.output.len()).map(|class| class as u32);
    let spec = Spec {
        takes: vec![takes],
        targets: vec![Target {
            before: slots(n, known),
            after: slots(n, |slot| known(slot).filter(|_| slot >= n - classes)),
        }],
        steps: steps(classes, 1),
        // a number may have its product up to `classes - 1` slots before it: one fold more than the
        // window has
        folds: doublings(classes, 2 * window).chain(doublings(period, n)).collect(),
    };
    build::linear(stage, spec)
}
