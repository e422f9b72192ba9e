//! From maps of slots to weights.

use super::{Giant, LayoutError, Linear, Output, Slots, Term, Weights};
use crate::model::{Map, Stage};
use std::collections::BTreeMap;

/// The most slots of a map's weights: 2 GiB of doubles.
const MOST_WEIGHTS: usize = 1 << 28;

/// One result of a map.
pub(super) struct Target {
    /// The number of the output to which each slot contributes before the folds.
    pub(super) before: Slots,
    /// The number in each slot after the folds.
    pub(super) after: Slots,
}

/// The specification of a map.
pub(super) struct Spec {
    pub(super) takes: Vec<Slots>,
    pub(super) targets: Vec<Target>,
    /// Giant and baby steps of all diagonals.
    pub(super) steps: Vec<(i64, i64)>,
    pub(super) folds: Vec<i64>,
}

/// The same map with ones for weights: its structure, whatever the weights are.
fn structure(stage: &Stage) -> Stage {
    let map = match &stage.map {
        Map::Dense { weights } => Map::Dense { weights: vec![1.0; weights.len()] },
        Map::Convolution { kernel, stride, padding, weights } => {
            Map::Convolution { kernel: *kernel, stride: *stride, padding: *padding, weights: vec![1.0; weights.len()] }
        }
    };
    Stage { map, ..stage.clone() }
}

/// Slots, grouped by their number.
fn by_number(slots: &Slots, numbers: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new(); numbers];
    for (slot, number) in slots.iter().enumerate() {
        if let Some(place) = number.and_then(|number| all.get_mut(number as usize)) {
            place.push(slot);
        }
    }
    all
}

/// The slot that a rotation by `steps` reads.
fn ahead(slot: usize, steps: i64, slots: usize) -> usize {
    (slot as i64 + steps).rem_euclid(slots as i64) as usize
}

/// Weights by giant step, input and baby step.
type Diagonals = BTreeMap<(i64, usize, i64), Vec<f64>>;

/// The map of a stage.
///
/// # Errors
/// [`LayoutError`] for too many weights, and for slots that do not add up.
pub(super) fn linear(stage: &Stage, spec: Spec) -> Result<Linear, LayoutError> {
    let slots = spec.takes.first().map_or(0, Vec::len);
    let most = spec.takes.len() * spec.steps.len() * spec.targets.len();
    let found = most.saturating_mul(slots);
    // an upper bound: empty diagonals are not made
    if found > 4 * MOST_WEIGHTS {
        return Err(LayoutError::Large { stage: stage.name.clone(), most: 4 * MOST_WEIGHTS, found });
    }
    let ones = structure(stage);
    let mut outputs = Vec::with_capacity(spec.targets.len());
    let mut made = 0;
    for target in &spec.targets {
        let diagonals = diagonals(stage, &ones, &spec, target, slots);
        if diagonals.is_empty() {
            return Err(LayoutError::Arrangement { stage: stage.name.clone(), slot: 0 });
        }
        made += diagonals.len() * slots;
        if made > MOST_WEIGHTS {
            return Err(LayoutError::Large { stage: stage.name.clone(), most: MOST_WEIGHTS, found: made });
        }
        prove(&ones, &spec, target, slots)?;
        let mut giants: BTreeMap<i64, Vec<Term>> = BTreeMap::new();
        for ((giant, input, baby), weights) in diagonals {
            giants.entry(giant).or_default().push(Term { input, baby, weights: Weights::Slots(weights) });
        }
        let giants = giants.into_iter().map(|(steps, terms)| Giant { steps, terms }).collect();
        outputs.push(Output { giants, offset: offset(stage, &target.after), gives: target.after.clone() });
    }
    Ok(Linear { name: stage.name.clone(), takes: spec.takes, outputs, folds: spec.folds })
}

/// The offsets of a stage, in the slots of its numbers.
pub(super) fn offset(stage: &Stage, gives: &Slots) -> Vec<f64> {
    gives.iter().map(|number| number.map_or(0.0, |number| stage.bias[number as usize])).collect()
}

fn diagonals(stage: &Stage, ones: &Stage, spec: &Spec, target: &Target, slots: usize) -> Diagonals {
    let mut diagonals = Diagonals::new();
    let (mut weights, mut present) = (vec![0.0; stage.input.len()], vec![false; stage.input.len()]);
    for (number, places) in by_number(&target.before, stage.output.len()).iter().enumerate() {
        if places.is_empty() {
            continue;
        }
        let (row, all) = (stage.row(number), ones.row(number));
        all.iter().for_each(|(input, _)| present[*input] = true);
        row.iter().for_each(|(input, weight)| weights[*input] = *weight);
        for (giant, baby) in &spec.steps {
            for (i, takes) in spec.takes.iter().enumerate() {
                for slot in places {
                    let Some(input) = takes[ahead(*slot, giant + baby, slots)] else { continue };
                    if present[input as usize] {
                        let diagonal = diagonals.entry((*giant, i, *baby)).or_insert_with(|| vec![0.0; slots]);
                        diagonal[ahead(*slot, *giant, slots)] = weights[input as usize];
                    }
                }
            }
        }
        all.iter().for_each(|(input, _)| {
            present[*input] = false;
            weights[*input] = 0.0;
        });
    }
    diagonals
}

/// Sums of all subsets.
fn subsets(folds: &[i64]) -> Vec<i64> {
    folds.iter().fold(vec![0], |sums, fold| sums.iter().copied().chain(sums.iter().map(|sum| sum + fold)).collect())
}

/// Proves that every slot with a number gets each of its products once, and nothing else.
fn prove(ones: &Stage, spec: &Spec, target: &Target, slots: usize) -> Result<(), LayoutError> {
    let offsets = subsets(&spec.folds);
    let other = |number: u32| ones.row(number as usize).iter().map(|(input, _)| *input as u32).collect::<Vec<_>>();
    let mut count = vec![0u32; ones.input.len()];
    for (number, places) in by_number(&target.after, ones.output.len()).iter().enumerate() {
        let row = if places.is_empty() { Vec::new() } else { other(number as u32) };
        for slot in places {
            let wrong = || LayoutError::Arrangement { stage: ones.name.clone(), slot: *slot };
            for before in offsets.iter().map(|offset| ahead(*slot, *offset, slots)) {
                let mine = match target.before[before] {
                    None => continue,
                    Some(found) => found as usize == number,
                };
                // slots that contribute to another number must add nothing here
                let rows = if mine { Vec::new() } else { other(target.before[before].unwrap_or(0)) };
                for (giant, baby) in &spec.steps {
                    for takes in &spec.takes {
                        let Some(input) = takes[ahead(before, giant + baby, slots)] else { continue };
                        if mine {
                            count[input as usize] += 1;
                        } else if rows.contains(&input) {
                            return Err(wrong());
                        }
                    }
                }
            }
            // inputs outside the row have weight 0, however often they occur
            let good = row.iter().all(|input| count[*input as usize] == 1);
            count.fill(0);
            if !good {
                return Err(wrong());
            }
        }
    }
    Ok(())
}
