//! The search for the places of refreshes.
//!
//! A network that takes more levels than a ring has goes on after a
//! [refresh](tobari_lattice::refresh), which costs as much as all other work of several layers. So
//! there should be few, on tensors of few ciphertexts, and the expensive maps should run at low
//! levels, shortly before a refresh.
//!
//! **The search** goes from the last step to the first. A state has the level that each tensor
//! needs for the steps after it, and the price of these steps. Where a tensor is made, every state
//! goes on without a refresh of it, and with one: then the step before need only give the least
//! level that a refresh begins with. A state whose needs and price are at least those of another is
//! dropped, and the cheapest go on (a beam search). Prices are those of
//! [`arrange`](crate::arrange), roughly: layouts are not known yet.
//!
//! **Which tensors.** A refresh is right only for numbers that are small beside the first prime:
//! up to 8 as promised, and from 256 on its sine gives a small number for a large one. So the
//! search computes the largest number that each tensor may hold if the guard says nothing. The
//! guard tells of numbers beyond 1 in the arguments of series, squares and products
//! ([`strict`](crate::lower::LowerOptions::strict)). The first tensor of a picture that leaves its
//! range is computed from tensors that did not, so its numbers are at most the sum of the weights
//! of a row. Where this is at most 64, a refresh keeps it beyond its range, and the guard withholds
//! the answer. Tensors that sums and products of two tensors take are not refreshed, because both
//! must have one scale.

use crate::approximate::series;
use crate::arrange::{REFRESH, last_use};
use crate::layout::axis_bits;
use crate::steps::{Factor, Step, Steps};
use std::collections::BTreeSet;

/// States that go on.
const BEAM: usize = 128;
/// The most steps of a network with refreshes.
const MOST_STEPS: usize = 1 << 12;
/// The largest number that a refresh may meet.
const LARGEST: f64 = 64.0;
/// Work of a map, beside that of a key switch in [`arrange`](crate::arrange).
const MAP: f64 = 600.0;
/// Work of a key switch.
const SWITCH: f64 = 28.0;

/// The levels of a ring with refreshes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// Data primes after a refresh: no tensor has more.
    pub most: usize,
    /// Data primes before a refresh.
    pub least: usize,
}

#[derive(Clone)]
struct State {
    price: f64,
    /// By tensor.
    needs: Vec<u8>,
    /// Tensors with a refresh.
    refreshed: Vec<usize>,
}

/// The steps with refreshes, in ciphertexts of `1 << slot_bits` slots; `None` if no place of
/// refreshes is enough, because something between two of them takes too many levels, or if there
/// are more than 2^12 steps.
pub fn place(steps: &Steps, levels: Levels, slot_bits: usize) -> Option<Steps> {
    let count = steps.steps.len();
    if count > MOST_STEPS {
        return None;
    }
    let last_use = last_use(steps);
    let ciphertexts =
        |tensor: usize| 1usize << axis_bits(steps.volume(tensor)).iter().sum::<usize>().saturating_sub(slot_bits);
    let allowed = allowed(steps);
    let mut states = vec![State { price: 0.0, needs: vec![1; count + 1], refreshed: Vec::new() }];
    for (number, (_, step, _)) in steps.steps.iter().enumerate().rev() {
        let tensor = number + 1;
        let mut next = Vec::with_capacity(2 * states.len());
        for state in states {
            if allowed[tensor] {
                let mut refreshed = state.clone();
                refreshed.price += REFRESH * ciphertexts(tensor) as f64;
                refreshed.needs[tensor] = levels.least as u8;
                refreshed.refreshed.push(tensor);
                next.extend(before(refreshed, step, tensor, levels, ciphertexts(tensor)));
            }
            next.extend(before(state, step, tensor, levels, ciphertexts(tensor)));
        }
        // tensors that are made before, and that this step or a later one takes
        let live: Vec<usize> = (0..tensor).filter(|tensor| last_use[*tensor] >= number).collect();
        states = best(next, &live);
    }
    let state = states.into_iter().min_by(|a, b| a.price.total_cmp(&b.price))?;
    Some(with_refreshes(steps, &state.refreshed.into_iter().collect(), levels.least))
}

/// The state before a step, if its tensors have few enough levels.
fn before(mut state: State, step: &Step, tensor: usize, levels: Levels, ciphertexts: usize) -> Option<State> {
    let level = usize::from(state.needs[tensor]);
    for (input, need) in step.inputs().into_iter().zip(step.needs(level)) {
        if need > levels.most {
            return None;
        }
        let known = &mut state.needs[input];
        *known = (*known).max(need as u8);
    }
    let work = match step {
        Step::Map { terms, .. } => {
            MAP * terms.iter().filter(|(_, factor)| matches!(factor, Factor::Matrix(_))).count() as f64
        }
        Step::Series { coefficients, .. } => SWITCH * series::products(coefficients) as f64,
        Step::Pool { .. } => 4.0 * SWITCH,
        Step::Square { .. } | Step::Product { .. } => SWITCH,
        Step::Sum { .. } | Step::Refresh { .. } | Step::Inside { .. } => 2.0,
    };
    let level = step.needs(level).into_iter().max().unwrap_or(1);
    state.price += work * (level * ciphertexts) as f64;
    Some(state)
}

/// The states that no other one surpasses, the cheapest first, by the needs of these tensors.
fn best(mut states: Vec<State>, live: &[usize]) -> Vec<State> {
    states.sort_by(|a, b| a.price.total_cmp(&b.price));
    let mut kept: Vec<State> = Vec::new();
    for state in states {
        let worse = |other: &State| live.iter().all(|tensor| other.needs[*tensor] <= state.needs[*tensor]);
        if kept.len() < BEAM && !kept.iter().any(worse) {
            kept.push(state);
        }
    }
    kept
}

/// For each tensor whether it may be refreshed.
fn allowed(steps: &Steps) -> Vec<bool> {
    let mut allowed = vec![false];
    let bounds = bounds(steps);
    allowed.extend(steps.steps.iter().zip(&bounds[1..]).map(|((_, step, _), bound)| {
        let kind = matches!(step, Step::Map { .. } | Step::Series { .. } | Step::Product { .. } | Step::Sum { .. });
        kind && *bound <= LARGEST
    }));
    for (_, step, _) in &steps.steps {
        if matches!(step, Step::Sum { .. } | Step::Product { .. }) {
            step.inputs().into_iter().for_each(|tensor| allowed[tensor] = false);
        }
    }
    if let Some(last) = allowed.last_mut() {
        *last = false;
    }
    allowed
}

/// For each tensor the largest number that it may hold while the guard says nothing: of its step,
/// for arguments of at most 1 where the guard tells of larger ones, and of their own bounds
/// elsewhere.
fn bounds(steps: &Steps) -> Vec<f64> {
    let ranged: BTreeSet<usize> = steps.ranged.iter().copied().collect();
    let mut bounds = vec![1.0];
    for (_, step, _) in &steps.steps {
        let of = |tensor: usize| if ranged.contains(&tensor) { 1.0 } else { bounds[tensor] };
        bounds.push(match step {
            Step::Map { terms, bias } => {
                let mut largest: Vec<f64> = bias.iter().map(|x| x.abs()).collect();
                for (tensor, factor) in terms {
                    let most = of(*tensor);
                    for (row, sum) in largest.iter_mut().enumerate() {
                        *sum += most
                            * match factor {
                                Factor::Scalar(factor) => factor.abs(),
                                Factor::Matrix(matrix) => matrix.row(row).map(|(_, weight)| weight.abs()).sum::<f64>(),
                            };
                    }
                }
                largest.into_iter().fold(0.0, f64::max)
            }
            Step::Pool { input, window } => of(*input) * (window[0] * window[1]) as f64,
            Step::Square { input } => of(*input).powi(2),
            // normalised on its range, which the guard keeps, or the enclave
            Step::Series { .. } | Step::Inside { .. } => 1.0,
            Step::Product { inputs: [a, b] } => of(*a) * of(*b),
            Step::Sum { plain, scaled, offset } => {
                let scaled = scaled.iter().map(|(tensor, factor)| of(*tensor) * factor.abs());
                plain.iter().map(|tensor| of(*tensor)).chain(scaled).sum::<f64>() + offset.abs()
            }
            Step::Refresh { input, .. } => of(*input),
        });
    }
    bounds
}

/// The steps with refreshes of these tensors, which all later steps take instead.
fn with_refreshes(steps: &Steps, refreshed: &BTreeSet<usize>, least: usize) -> Steps {
    let mut number = vec![0];
    let mut all = Vec::with_capacity(steps.steps.len() + refreshed.len());
    for (at, (name, step, volume)) in steps.steps.iter().enumerate() {
        all.push((name.clone(), step.renumbered(|tensor| number[tensor]), *volume));
        if refreshed.contains(&(at + 1)) {
            all.push((name.clone(), Step::Refresh { input: all.len(), least }, *volume));
        }
        number.push(all.len());
    }
    let ranged = steps.ranged.iter().map(|tensor| number[*tensor]).collect();
    Steps { steps: all, ranged, ..steps.clone() }
}
