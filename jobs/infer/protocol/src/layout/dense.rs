//! Any model: every stage is a matrix, computed by its diagonals.
//!
//! For a map of `a` numbers to `b`, as powers of two `A` and `B`, in `n` slots:
//!
//! 1. The first stage: the client sends the numbers with period `P = max(A, B)`, copy `h` rotated
//!    by `h D` steps. Each copy computes `D = min(A, B)/r` of the diagonals; folds cover the rest.
//!    The result stands in all slots, with period `B`.
//! 2. From numbers with period `A` in all slots: copy `h` of the `n/A` computes the `h`-th part of
//!    the outputs, `D = B A/n` diagonals, and folds within the copy. The result stands at the
//!    beginning of each copy.
//! 3. From numbers in any places, each in one slot: `D = B` diagonals, and folds over all slots.
//!    The result stands in all slots, with period `B`.
//!
//! Stages alternate: 1, 2, 3, 2, 3 …

use super::build::{self, Spec, Target};
use super::{Layout, LayoutError, Linear, Slots, doublings, steps};
use crate::model::{Model, Stage};

pub(super) fn layout(model: &Model, n: usize) -> Result<Layout, LayoutError> {
    let mut stages: Vec<Linear> = Vec::with_capacity(model.stages().len());
    for (number, stage) in model.stages().iter().enumerate() {
        let [inputs, outputs] = [stage.input.len(), stage.output.len()].map(usize::next_power_of_two);
        if inputs.max(outputs) > n {
            let found = stage.input.len().max(stage.output.len());
            return Err(LayoutError::Slots { stage: stage.name.clone(), most: n, found });
        }
        let spec = match (number, stages.last().map(|stage| stage.outputs[0].gives.clone())) {
            (0, _) | (_, None) => first(stage, n, inputs, outputs),
            (number, Some(takes)) if number % 2 == 1 => periodic(stage, takes, inputs, outputs),
            (_, Some(takes)) => anywhere(stage, takes, outputs),
        };
        stages.push(build::linear(stage, spec)?);
    }
    Layout::of("dense", n, stages, model.classes())
}

fn slots(n: usize, count: usize, number: impl Fn(usize) -> usize) -> Slots {
    (0..n).map(|slot| Some(number(slot)).filter(|number| *number < count).map(|number| number as u32)).collect()
}

fn first(stage: &Stage, n: usize, inputs: usize, outputs: usize) -> Spec {
    let (period, diagonals) = (inputs.max(outputs), inputs.min(outputs));
    let copies = (n / period).min(diagonals);
    let each = diagonals / copies;
    let turned = |slot: usize| (slot % period + slot / period % copies * each) % inputs;
    let after = slots(n, stage.output.len(), |slot| slot % outputs);
    Spec {
        takes: vec![slots(n, stage.input.len(), turned)],
        targets: vec![Target { before: after.clone(), after }],
        steps: steps(each, 1),
        folds: doublings(outputs, inputs).chain(doublings(period, period * copies)).collect(),
    }
}

fn periodic(stage: &Stage, takes: Slots, inputs: usize, outputs: usize) -> Spec {
    let n = takes.len();
    let each = (outputs / (n / inputs)).max(1);
    let number = |slot: usize| slot / inputs * each + slot % each;
    let before = slots(n, stage.output.len(), number);
    let whole = |(slot, number): (usize, &Option<u32>)| number.filter(|_| slot % inputs < each);
    let after = before.iter().enumerate().map(whole).collect();
    let folds = doublings(each, inputs).collect();
    Spec { takes: vec![takes], targets: vec![Target { before, after }], steps: steps(each, 1), folds }
}

fn anywhere(stage: &Stage, takes: Slots, outputs: usize) -> Spec {
    let n = takes.len();
    let after = slots(n, stage.output.len(), |slot| slot % outputs);
    let folds = doublings(outputs, n).collect();
    let targets = vec![Target { before: after.clone(), after }];
    Spec { takes: vec![takes], targets, steps: steps(outputs, 1), folds }
}
