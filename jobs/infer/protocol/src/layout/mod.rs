//! Where the numbers of a network stand in the slots, and which rotations and products its maps
//! take.
//!
//! A linear map of ciphertexts is, for each of its results, a sum over diagonals (Halevi, Shoup,
//! CRYPTO 2014): with `ρ_d(x)[s] = x[s + d]`,
//!
//! ```text
//! y = Σ_g ρ_g( Σ_(i,b) w_(g,i,b) ⊙ ρ_b(x_i) ),      z = Σ_(F ⊆ folds) ρ_(Σ F)(y),
//! ```
//!
//! `b` the baby steps, which share the digits of `x_i` (hoisting), `g` the giant steps. A slot of
//! `y` has the partial sum of one number of the output, and the folds add the slots that have the
//! others. **All of it follows from three maps of slots** ([`Slots`]): which number of the input
//! stands in which slot, to which number of the output each slot of `y` contributes, and which
//! slots of `z` have which number in the end. `build` makes the weights from them and proves slot
//! by slot that every product of the map's matrix is counted exactly once; what is no such
//! arrangement is refused.
//!
//! Which diagonals there are depends on the shape of the model only, never on its weights.
//!
//! | layout | for | input ciphertexts of the paper's network |
//! |---|---|---|
//! | `compact` | two convolutions without padding, then any map | 1 (8192 slots) |
//! | `balanced` | the same | 2 (8192 slots), 4 (4096) |
//! | `wide` | the same | 7 (8192 slots), 13 (4096) |
//! | `paper` | the same: one ciphertext for each channel, a baseline | 1 |
//! | `dense` | every model whose maps fit the slots | 1 |
//!
//! In `compact`, `balanced` and `wide` the client puts a pixel where each final position, each tap
//! of the second convolution and each tap of the first needs it (im2col through both), so that
//! neither convolution moves anything in space.

mod build;
mod dense;
mod paper;
mod special;

use super::model::Model;
use std::collections::{BTreeMap, BTreeSet};
use zeroize::Zeroizing;

/// Which number stands in each slot; none where there is nothing of use.
pub type Slots = Vec<Option<u32>>;

/// What slots are multiplied by.
#[derive(Clone, Debug, PartialEq)]
pub enum Weights {
    /// Slot by slot.
    Slots(Vec<f64>),
    /// The same in all of them.
    Constant(f64),
}

impl Weights {
    /// In a slot.
    pub fn at(&self, slot: usize) -> f64 {
        match self {
            Weights::Slots(slots) => slots[slot],
            Weights::Constant(value) => *value,
        }
    }

    /// The largest absolute value.
    pub fn largest(&self) -> f64 {
        match self {
            Weights::Slots(slots) => slots.iter().fold(0.0, |most, w| w.abs().max(most)),
            Weights::Constant(value) => value.abs(),
        }
    }
}

/// A product: `w ⊙ ρ_b(x_i)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// `i`.
    pub input: usize,
    /// `b`.
    pub baby: i64,
    /// `w`, turned back by the giant step.
    pub weights: Weights,
}

/// Products that are turned together.
#[derive(Clone, Debug, PartialEq)]
pub struct Giant {
    /// `g`.
    pub steps: i64,
    /// The products.
    pub terms: Vec<Term>,
}

/// One ciphertext of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// By giant step, ascending; one at least.
    pub giants: Vec<Giant>,
    /// What is added at the end.
    pub offset: Vec<f64>,
    /// Where the numbers of the output stand.
    pub gives: Slots,
}

/// A map of ciphertexts.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// The stage's name.
    pub name: String,
    /// Where the numbers of the input stand, by ciphertext.
    pub takes: Vec<Slots>,
    /// The results.
    pub outputs: Vec<Output>,
    /// `z = Σ ρ_(Σ F)(y)` over all subsets `F`, the same for all results.
    pub folds: Vec<i64>,
}

/// Diagonals `g giant + b baby`, `b < babies` and `g < giants`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Slots of a baby step.
    pub baby: i64,
    /// How many.
    pub babies: u16,
    /// Slots of a giant step.
    pub giant: i64,
    /// How many.
    pub giants: u16,
}

/// Multiples of one step from 0 on: the step, and how many.
fn multiples(steps: &BTreeSet<i64>) -> Option<(i64, u16)> {
    let step = steps.iter().copied().nth(1).unwrap_or(0);
    let good = steps.iter().enumerate().all(|(i, found)| *found == i as i64 * step);
    Some((step, u16::try_from(steps.len()).ok()?)).filter(|_| good)
}

impl Linear {
    /// The grid of the diagonals of a map with one output; none if they form no grid, or nothing
    /// turns.
    pub fn grid(&self) -> Option<Grid> {
        let [output] = &self.outputs[..] else { return None };
        let (baby, babies) = multiples(&self.babies().into_values().flatten().collect())?;
        let (giant, giants) = multiples(&output.giants.iter().map(|giant| giant.steps).collect())?;
        // constants are encoded without a transform, as no diagonals are
        let terms = output.giants.iter().flat_map(|giant| &giant.terms);
        let slots = terms.map(|term| &term.weights).all(|weights| matches!(weights, Weights::Slots(_)));
        (slots && (babies > 1 || giants > 1)).then_some(Grid { baby, babies, giant, giants })
    }

    /// By input ciphertext the baby steps that it is turned by, 0 among them where the ciphertext
    /// itself is used.
    pub fn babies(&self) -> BTreeMap<usize, BTreeSet<i64>> {
        let mut babies: BTreeMap<usize, BTreeSet<i64>> = BTreeMap::new();
        for term in self.outputs.iter().flat_map(|output| &output.giants).flat_map(|giant| &giant.terms) {
            babies.entry(term.input).or_default().insert(term.baby);
        }
        babies
    }

    /// What the numbers of the input look like in the slots: what a client encrypts, and an enclave
    /// that encrypts anew.
    ///
    /// # Panics
    /// If there are fewer numbers than the map takes.
    pub fn place(&self, numbers: &[f64]) -> Vec<Vec<f64>> {
        let slot = |number: &Option<u32>| number.map_or(0.0, |number| numbers[number as usize]);
        self.takes.iter().map(|slots| slots.iter().map(slot).collect()).collect()
    }

    /// Folds slots in the clear, and adds the offsets: what is left to whoever decrypts the sums.
    pub fn fold(&self, slots: &mut [Vec<f64>]) {
        for (output, slots) in self.outputs.iter().zip(slots) {
            for steps in &self.folds {
                // whoever folds in the clear folds what is secret
                let mut turned = Zeroizing::new(slots.clone());
                turned.rotate_left(steps.rem_euclid(slots.len() as i64) as usize);
                slots.iter_mut().zip(turned.iter()).for_each(|(slot, other)| *slot += other);
            }
            slots.iter_mut().zip(&output.offset).for_each(|(slot, offset)| *slot += offset);
        }
    }

    /// The numbers of the output from the slots of its ciphertexts, each from the first slot that
    /// has it; `length` of them.
    pub fn read(&self, slots: &[Vec<f64>], length: usize) -> Vec<f64> {
        let mut numbers = vec![0.0; length];
        for (output, slots) in self.outputs.iter().zip(slots) {
            for (number, value) in output.gives.iter().zip(slots).rev() {
                if let Some(place) = number.and_then(|number| numbers.get_mut(number as usize)) {
                    *place = *value;
                }
            }
        }
        numbers
    }
}

/// A model in slots.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    name: String,
    slots: usize,
    stages: Vec<Linear>,
    /// By class: which ciphertext of the result, and which slot.
    logits: Vec<(usize, usize)>,
}

/// Why a model has no such layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// No such name.
    #[error("expected one of the layouts {names}, found {found}", names = NAMES.join(", "))]
    Name {
        /// The name given.
        found: String,
    },
    /// A model of another shape.
    #[error("layout {layout}: expected {expected}")]
    Model {
        /// The layout.
        layout: &'static str,
        /// What the model should be.
        expected: &'static str,
    },
    /// Too few slots.
    #[error("stage {stage}: expected at most {most} numbers in so many slots, found {found}")]
    Slots {
        /// The stage.
        stage: String,
        /// Slots of a ciphertext.
        most: usize,
        /// What the stage needs.
        found: usize,
    },
    /// More weights than are prepared.
    #[error("stage {stage}: expected at most {most} slots of weights, found {found}")]
    Large {
        /// The stage.
        stage: String,
        /// The most.
        most: usize,
        /// What the stage needs.
        found: usize,
    },
    /// Slots that do not add up to the map: no fault of the model's.
    #[error("stage {stage}: expected every product once in slot {slot}, found another arrangement")]
    Arrangement {
        /// The stage.
        stage: String,
        /// The slot.
        slot: usize,
    },
}

/// The names of all layouts.
pub const NAMES: [&str; 5] = ["compact", "balanced", "wide", "paper", "dense"];

impl Layout {
    /// The layout of this name for a model, in ciphertexts of so many slots, a power of two.
    ///
    /// # Errors
    /// [`LayoutError`]: no such layout, or the model has another shape or does not fit.
    pub fn new(name: &str, model: &Model, slots: usize) -> Result<Self, LayoutError> {
        match name {
            "compact" => special::compact(model, slots),
            "balanced" => special::balanced(model, slots),
            "wide" => special::wide(model, slots),
            "paper" => paper::layout(model, slots),
            "dense" => dense::layout(model, slots),
            found => Err(LayoutError::Name { found: found.to_owned() }),
        }
    }

    fn of(name: &'static str, slots: usize, stages: Vec<Linear>, classes: usize) -> Result<Self, LayoutError> {
        let last =
            stages.last().ok_or(LayoutError::Model { layout: name, expected: "a model of one stage or more" })?;
        let place = |class: usize| {
            let found = |output: &Output| output.gives.iter().position(|number| *number == Some(class as u32));
            last.outputs.iter().enumerate().find_map(|(i, output)| Some((i, found(output)?)))
        };
        let logits = (0..classes).map(place).collect::<Option<_>>();
        let logits = logits.ok_or(LayoutError::Model { layout: name, expected: "a slot for every class" })?;
        Ok(Self { name: name.to_owned(), slots, stages, logits })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Slots of a ciphertext.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The maps, one for each stage of the model.
    pub fn stages(&self) -> &[Linear] {
        &self.stages
    }

    /// By class: which ciphertext of the result has its logit, and in which slot.
    pub fn logits(&self) -> &[(usize, usize)] {
        &self.logits
    }

    /// The result without what is no logit.
    pub fn is_logit(&self, output: usize, slot: usize) -> bool {
        self.logits.contains(&(output, slot))
    }
}

/// Steps `unit d` for `d < count`, a power of two, as giant and baby steps: as many of either, or
/// twice as many of the latter.
fn steps(count: usize, unit: usize) -> Vec<(i64, i64)> {
    let babies = 1 << count.ilog2().div_ceil(2);
    (0..count).map(|d| ((d - d % babies) * unit, d % babies * unit)).map(|(g, b)| (g as i64, b as i64)).collect()
}

/// `from, 2 from, …` below `to`, powers of two.
fn doublings(from: usize, to: usize) -> impl Iterator<Item = i64> {
    std::iter::successors(Some(from), |step| Some(2 * step)).take_while(move |step| *step < to).map(|step| step as i64)
}
