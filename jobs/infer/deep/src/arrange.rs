//! The search for the layouts of all tensors.
//!
//! Steps are placed one after another. A state is a choice of layouts so far, with its price; for
//! each step every state is continued by every candidate, and the cheapest states of different
//! layouts go on (a beam search). Prices are counted in products of a ciphertext with a diagonal at
//! one prime:
//!
//! | work | price |
//! |---|---|
//! | a diagonal | 1, and 1 for its memory |
//! | a baby step | 4 |
//! | a giant step | 24 |
//! | a rotation of a fold, a product of ciphertexts | 28 |
//! | a refresh | 50,000 over the primes it begins with |
//! | an encryption or a decryption by an enclave | 20 |
//!
//! and multiplied by the primes of the level. The ratios are those of the kernels.

use crate::approximate::series;
use crate::layout::{Bit, Layout, Move, Support, axis_bits};
use crate::matrix::Matrix;
use crate::steps::{Factor, Step, Steps};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tobari_infer::Volume;

/// States that go on.
const BEAM: usize = 8;
/// The most diagonals of a map.
const MOST_DIAGONALS: usize = 1 << 14;
/// The price of a refresh, at all primes together.
pub(crate) const REFRESH: f64 = 50_000.0;
/// The price of a ciphertext that an enclave encrypts.
const VISIT: f64 = 20.0;
/// The most ciphertexts of a tensor.
const MOST_CIPHERTEXTS: usize = 64;

/// The path of a term of a map.
#[derive(Clone, Debug, PartialEq)]
pub enum Path {
    /// A product with a number: the layouts of input and result are alike.
    Scalar(f64),
    /// Products with diagonals.
    Matrix(Arc<Matrix>, Move),
}

/// A choice of layouts and levels.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrangement {
    /// By tensor.
    pub layouts: Vec<Layout>,
    /// For each step, the paths of its terms; empty for other steps than maps.
    pub paths: Vec<Vec<Path>>,
    /// Data primes of each tensor.
    pub levels: Vec<usize>,
    /// The price, for comparisons.
    pub price: f64,
    /// The price of each step.
    pub prices: Vec<f64>,
}

/// Why there is no arrangement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "step {step}: no arrangement in {slots} slots has at most 2^14 diagonals and 64 ciphertexts: use smaller pictures or \
     fewer channels, or let an enclave compute all but maps (--engine enclave)"
)]
pub struct ArrangeError {
    /// The step's name.
    pub step: String,
    /// Slots of a ciphertext.
    pub slots: usize,
}

struct State {
    price: f64,
    prices: Vec<f64>,
    layouts: Vec<Layout>,
    paths: Vec<Vec<Path>>,
}

/// A step's term with its support.
struct Term {
    tensor: usize,
    scalar: Option<f64>,
    matrix: Arc<Matrix>,
    /// The number of the support in [`Prices`].
    support: usize,
}

/// The supports of all maps, and the prices of moves that were computed: networks repeat their
/// layers.
#[derive(Default)]
struct Prices {
    supports: Vec<Support>,
    known: BTreeMap<(usize, Move), Option<f64>>,
}

impl Prices {
    /// The number of a support.
    fn number(&mut self, support: Support) -> usize {
        if let Some(number) = self.supports.iter().position(|known| *known == support) {
            return number;
        }
        self.supports.push(support);
        self.supports.len() - 1
    }

    /// The price of a move at one prime; `None` for too many diagonals.
    fn price(&mut self, one: &Move, support: usize) -> Option<f64> {
        let supports = &self.supports;
        *self.known.entry((support, one.clone())).or_insert_with(|| price(one, &supports[support]))
    }
}

/// Layouts for these steps in ciphertexts of `1 << slot_bits` slots.
///
/// # Errors
/// [`ArrangeError`] for a step that is too large.
pub fn arrange(steps: &Steps, slot_bits: usize) -> Result<Arrangement, ArrangeError> {
    let (levels, last_use, groups) = (levels(steps), last_map(steps), groups(steps));
    let mut prices = Prices::default();
    let mut states: Vec<State> = inputs(steps.input, slot_bits)
        .into_iter()
        .map(|layout| State { price: 0.0, prices: Vec::new(), layouts: vec![layout], paths: Vec::new() })
        .collect();
    for (number, (name, step, output)) in steps.steps.iter().enumerate() {
        let level = step.needs(levels[number + 1]).into_iter().max().unwrap_or(0) as f64;
        // functions of more than one product grow fast outside their range, and a refresh is right
        // within its range alone
        let clean = steps.steps[number + 1..].iter().any(|(_, next, _)| {
            matches!(next, Step::Series { .. } | Step::Refresh { .. }) && next.inputs().contains(&(number + 1))
        });
        let terms = terms(steps, step, *output, &mut prices);
        let is_taken = last_use[number + 1] > number;
        // a tensor that will meet this one number by number
        let partner = (0..=number).find(|tensor| groups[*tensor] == groups[number + 1]);
        let mut next: Vec<State> = Vec::new();
        for state in &states {
            for (price, layout, paths) in continued(steps, (step, is_taken), *output, (&terms, &mut prices), state) {
                let meets = partner.is_none_or(|partner| alike(&state.layouts[partner], &layout).is_some());
                if !meets || clean && layout.has_garbage() {
                    continue;
                }
                let mut layouts = state.layouts.clone();
                layouts.push(layout);
                let mut all = state.paths.clone();
                all.push(paths);
                let mut prices = state.prices.clone();
                prices.push(price * level);
                next.push(State { price: state.price + price * level, prices, layouts, paths: all });
            }
        }
        states = best(next, &last_use, number + 1);
        if states.is_empty() {
            return Err(ArrangeError { step: name.clone(), slots: 1 << slot_bits });
        }
    }
    let state = states.swap_remove(0);
    let State { price, prices, layouts, paths } = state;
    Ok(Arrangement { layouts, paths, levels, price, prices })
}

/// Data primes of each tensor: one, and one for each level that follows.
fn levels(steps: &Steps) -> Vec<usize> {
    let mut levels = vec![1; steps.steps.len() + 1];
    for (number, (_, step, _)) in steps.steps.iter().enumerate().rev() {
        for (tensor, need) in step.inputs().into_iter().zip(step.needs(levels[number + 1])) {
            levels[tensor] = levels[tensor].max(need);
        }
    }
    levels
}

/// For each tensor the first one whose layout it must have, because all steps between them work
/// number by number.
fn groups(steps: &Steps) -> Vec<usize> {
    let mut groups: Vec<usize> = (0..=steps.steps.len()).collect();
    for (number, (_, step, _)) in steps.steps.iter().enumerate() {
        if matches!(step, Step::Map { .. } | Step::Pool { .. } | Step::Inside { .. }) {
            continue;
        }
        for tensor in step.inputs() {
            let (a, b) = (groups[tensor], groups[number + 1]);
            let (first, last) = (a.min(b), a.max(b));
            groups.iter_mut().filter(|group| **group == last).for_each(|group| *group = first);
        }
    }
    groups
}

/// The last step that takes each tensor.
pub(crate) fn last_use(steps: &Steps) -> Vec<usize> {
    let mut last = vec![0; steps.steps.len() + 1];
    for (number, (_, step, _)) in steps.steps.iter().enumerate() {
        step.inputs().into_iter().for_each(|tensor| last[tensor] = number);
    }
    last
}

/// The last step that takes each tensor in its layout: an enclave reads any layout, and then keeps
/// numbers.
fn last_map(steps: &Steps) -> Vec<usize> {
    let mut last = vec![0; steps.steps.len() + 1];
    for (number, (_, step, _)) in steps.steps.iter().enumerate() {
        if !matches!(step, Step::Inside { .. }) {
            step.inputs().into_iter().for_each(|tensor| last[tensor] = number);
        }
    }
    last
}

/// The cheapest states whose layouts of tensors in use differ.
fn best(mut states: Vec<State>, last_use: &[usize], next: usize) -> Vec<State> {
    states.sort_by(|a, b| a.price.total_cmp(&b.price));
    let mut known = BTreeSet::new();
    states.retain(|state| {
        if known.len() >= BEAM {
            return false;
        }
        let live = state.layouts.iter().enumerate();
        let live = live.filter(|(tensor, _)| last_use[*tensor] >= next || tensor + 1 == state.layouts.len());
        known.insert(live.map(|(_, layout)| layout.clone()).collect::<Vec<_>>())
    });
    states
}

/// Layouts of a picture, which the client places as it likes.
fn inputs(volume: Volume, slot_bits: usize) -> Vec<Layout> {
    let [channel, row, column] = axis_bits(volume);
    let index = |axis: u8, bits: std::ops::Range<usize>| bits.map(move |bit| Bit::Index { axis, bit: bit as u8 });
    let mut found = BTreeSet::new();
    for phases in 0..=2usize {
        let (of_row, of_column) = (phases.min(row), phases.min(column));
        let plane: Vec<Bit> = index(2, of_column..column).chain(index(1, of_row..row)).collect();
        let apart: Vec<Bit> = index(2, 0..of_column).chain(index(1, 0..of_row)).collect();
        let channels: Vec<Bit> = index(0, 0..channel).collect();
        let copies = vec![Bit::Copy; slot_bits.saturating_sub(channel + row + column)];
        for order in [
            [&plane, &apart, &channels, &copies],
            [&plane, &channels, &copies, &apart],
            [&plane, &copies, &channels, &apart],
            [&plane, &apart, &copies, &channels],
            [&plane, &copies, &apart, &channels],
            [&copies, &plane, &channels, &apart],
        ] {
            let bits: Vec<Bit> = order.into_iter().flatten().copied().collect();
            found.insert(Layout::new(slot_bits, bits));
        }
    }
    // repeated numbers take no further ciphertext
    found.into_iter().filter(|layout| layout.bits()[slot_bits..].iter().all(|bit| *bit != Bit::Copy)).collect()
}

/// The terms of a map.
fn terms(steps: &Steps, step: &Step, output: Volume, prices: &mut Prices) -> Vec<Term> {
    let Step::Map { terms, .. } = step else { return Vec::new() };
    let mut term = |(tensor, factor): &(usize, Factor)| {
        let input = steps.volume(*tensor);
        let (scalar, matrix) = match factor {
            Factor::Scalar(factor) => {
                let diagonal = Matrix::diagonal(&vec![*factor; output.len()]);
                ((input == output).then_some(*factor), Arc::new(diagonal))
            }
            Factor::Matrix(matrix) => (None, matrix.clone()),
        };
        let support = prices.number(Support::new(&matrix, input, output));
        Term { tensor: *tensor, scalar, matrix, support }
    };
    terms.iter().map(&mut term).collect()
}

/// The ways to continue a state by a step: price at one prime, layout, paths.
fn continued(
    steps: &Steps,
    (step, is_taken): (&Step, bool),
    output: Volume,
    (terms, prices): (&[Term], &mut Prices),
    state: &State,
) -> Vec<(f64, Layout, Vec<Path>)> {
    let count = |tensor: usize| state.layouts[tensor].ciphertexts() as f64;
    match step {
        Step::Map { .. } => mapped(steps, output, terms, prices, state),
        Step::Pool { input, window } => {
            let layout = &state.layouts[*input];
            let (pooled, folds) = layout.pooled(*window);
            if folds.iter().any(|step| *step >= layout.slots()) {
                return Vec::new();
            }
            vec![(28.0 * folds.len() as f64 * count(*input), pooled, Vec::new())]
        }
        Step::Square { input } => vec![(28.0 * count(*input), state.layouts[*input].clone(), Vec::new())],
        Step::Refresh { input, least } => {
            let price = REFRESH / *least as f64;
            vec![(price * count(*input), state.layouts[*input].clone(), Vec::new())]
        }
        Step::Series { input, coefficients, .. } => {
            let products = series::products(coefficients) as f64;
            vec![(28.0 * products * count(*input), state.layouts[*input].clone(), Vec::new())]
        }
        Step::Sum { .. } => {
            let inputs = step.inputs();
            let first = state.layouts[inputs[0]].clone();
            let both = inputs[1..].iter().try_fold(first, |both, tensor| alike(&both, &state.layouts[*tensor]));
            both.map(|layout| (2.0 * layout.ciphertexts() as f64, layout, Vec::new())).into_iter().collect()
        }
        Step::Product { inputs: [a, b] } => match alike(&state.layouts[*a], &state.layouts[*b]) {
            Some(layout) => vec![(28.0 * count(*a), layout, Vec::new())],
            None => Vec::new(),
        },
        Step::Inside { .. } => {
            let slot_bits = state.layouts[0].slots().trailing_zeros() as usize;
            let mut all = inputs(output, slot_bits);
            // numbers that stay inside have no place; any will do
            all.truncate(if is_taken { all.len() } else { 1 });
            let price = |layout: &Layout| if is_taken { VISIT * layout.ciphertexts() as f64 } else { 0.0 };
            all.into_iter().map(|layout| (price(&layout), layout, Vec::new())).collect()
        }
    }
}

/// The layout of a sum or a product of two tensors with their numbers in the same places.
fn alike(a: &Layout, b: &Layout) -> Option<Layout> {
    let is_index = |bit: &Bit| matches!(bit, Bit::Index { .. });
    if a.bits().len() != b.bits().len() {
        return None;
    }
    let both = a.bits().iter().zip(b.bits());
    if both.clone().any(|(a, b)| a != b && (is_index(a) || is_index(b))) {
        return None;
    }
    let bits = both.map(|(a, b)| match (a, b) {
        (a, b) if a == b => *a,
        _ => Bit::Garbage,
    });
    Some(Layout::new(a.slots().trailing_zeros() as usize, bits.collect()))
}

/// The ways of a map.
fn mapped(
    steps: &Steps,
    output: Volume,
    terms: &[Term],
    prices: &mut Prices,
    state: &State,
) -> Vec<(f64, Layout, Vec<Path>)> {
    let mut found = Vec::new();
    // the term with the most entries chooses, the others follow
    let Some(main) = (0..terms.len()).max_by_key(|term| terms[*term].matrix.entries()) else {
        return found;
    };
    let from = &state.layouts[terms[main].tensor];
    let mut moves = Move::candidates(from, &prices.supports[terms[main].support], output, MOST_CIPHERTEXTS);
    for (tensor, layout) in state.layouts.iter().enumerate() {
        if steps.volume(tensor) == output {
            moves.extend(Move::toward(from, layout));
        }
    }
    for one in moves {
        let layout = one.layout();
        let Some(price) = prices.price(&one, terms[main].support) else { continue };
        let (mut price, mut all, mut sum) = (price, Vec::new(), Some(layout.clone()));
        for (number, term) in terms.iter().enumerate() {
            if number == main {
                all.push(Path::Matrix(term.matrix.clone(), one.clone()));
                continue;
            }
            let own = &state.layouts[term.tensor];
            // leftovers that pass through sums from layer to layer would grow with every square
            if let (Some(factor), Some(both), false) = (term.scalar, alike(&layout, own), own.has_garbage()) {
                sum = sum.and_then(|sum| alike(&sum, &both));
                all.push(Path::Scalar(factor));
                price += 2.0 * layout.ciphertexts() as f64;
                continue;
            }
            let ways = Move::toward(own, &layout);
            let way = ways.into_iter().filter_map(|way| Some((prices.price(&way, term.support)?, way)));
            let Some((extra, way)) = way.min_by(|a, b| a.0.total_cmp(&b.0)) else {
                sum = None;
                break;
            };
            sum = sum.and_then(|sum| alike(&sum, &way.layout()));
            price += extra;
            all.push(Path::Matrix(term.matrix.clone(), way));
        }
        if let Some(sum) = sum {
            found.push((price, sum, all));
        }
    }
    // a map of one number for each entry may stay where it is
    if let [term] = terms
        && let Some(factor) = term.scalar
        && !state.layouts[term.tensor].has_garbage()
    {
        let layout = state.layouts[term.tensor].clone();
        found.push((2.0 * layout.ciphertexts() as f64, layout, vec![Path::Scalar(factor)]));
    }
    found
}

/// The price of a move at one prime; `None` for too many diagonals.
fn price(one: &Move, support: &Support) -> Option<f64> {
    let steps = one.steps(support, MOST_DIAGONALS)?;
    let folds = one.fold_steps().len() as f64 * one.layout().ciphertexts() as f64;
    let spreads = one.spread_steps().len() as f64 * one.from.ciphertexts() as f64;
    let mut price = 28.0 * (folds + spreads);
    let mut by_input: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for ((from, _), steps) in &steps {
        let (babies, giants) = schedule(steps, one.from.slots());
        price += 2.0 * steps.len() as f64 + 24.0 * giants as f64;
        by_input.entry(*from).or_default().extend(babies);
    }
    let turned: usize = by_input.values().map(|babies| babies.iter().filter(|step| **step != 0).count()).sum();
    Some(price + 4.0 * turned as f64 + 12.0 * by_input.len() as f64)
}

/// The baby steps and the number of giant steps of these rotations.
fn schedule(steps: &[usize], slots: usize) -> (BTreeSet<usize>, usize) {
    let mut best: Option<(usize, usize)> = None;
    let mut scratch = Vec::with_capacity(steps.len());
    let mut count = |f: &dyn Fn(usize) -> usize| {
        scratch.clear();
        scratch.extend(steps.iter().map(|step| f(*step)).filter(|step| *step != 0));
        scratch.sort_unstable();
        scratch.dedup();
        scratch.len()
    };
    for log in 0..=slots.trailing_zeros() {
        let stride = 1 << log;
        let (babies, giants) = (count(&|step| step % stride), count(&|step| step - step % stride));
        let work = babies + 3 * giants;
        if best.is_none_or(|(least, _)| work < least) {
            best = Some((work, stride));
        }
    }
    let stride = best.map_or(1, |(_, stride)| stride);
    let babies: BTreeSet<usize> = steps.iter().map(|step| step % stride).collect();
    let giants = count(&|step| step - step % stride);
    (babies, giants)
}
