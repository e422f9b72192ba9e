//! Places of a network's numbers in the slots, and the rotations and products of its maps.
//!
//! A linear map of ciphertexts is, for each of its results, a sum over diagonals (Halevi, Shoup,
//! CRYPTO 2014): with `ρ_d(x)[s] = x[s + d]`,
//!
//! ```text
//! y = Σ_g ρ_g( Σ_(i,b) w_(g,i,b) ⊙ ρ_b(x_i) ),      z = Σ_(F ⊆ folds) ρ_(Σ F)(y),
//! ```
//!
//! `b` are the baby steps, which share the digits of `x_i` (hoisting), `g` the giant steps. A slot
//! of `y` has a partial sum of one number of the output; the folds add the slots with the other
//! partial sums. **Everything follows from three maps of slots** ([`Slots`]): the input number in
//! each slot, the output number to which each slot of `y` contributes, and the final number in each
//! slot of `z`. `build` makes the weights from these maps. It proves slot by slot that every
//! product of the map's matrix is counted exactly once, and rejects any other arrangement.
//!
//! The set of diagonals depends only on the shape of the model, never on its weights.
//!
//! | layout | for | input ciphertexts of the paper's network |
//! |---|---|---|
//! | `compact` | two convolutions without padding, then any map | 1 (8192 slots) |
//! | `balanced` | the same | 2 (8192 slots), 4 (4096) |
//! | `wide` | the same | 7 (8192 slots), 13 (4096) |
//! | `paper` | the same: one ciphertext for each channel, a baseline | 1 |
//! | `dense` | every model whose maps fit the slots | 1 |
//!
//! In `compact`, `balanced` and `wide` the client places a pixel for each final position, each tap
//! of the second convolution and each tap of the first (im2col through both), so that neither
//! convolution moves anything in space.

mod build;
mod dense;
mod paper;
mod special;

use super::model::Model;
use std::collections::{BTreeMap, BTreeSet};
use zeroize::Zeroizing;

/// The number in each slot; `None` in unused slots.
pub type Slots = Vec<Option<u32>>;

/// The weights of a product.
#[derive(Clone, Debug, PartialEq)]
pub enum Weights {
    /// One for each slot.
    Slots(Vec<f64>),
    /// The same in all slots.
    Constant(f64),
}

impl Weights {
    /// The weight of a slot.
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
    /// `w`, rotated back by the giant step.
    pub weights: Weights,
}

/// Products that are rotated together.
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
    /// By giant step, ascending; at least one.
    pub giants: Vec<Giant>,
    /// The offset, added at the end.
    pub offset: Vec<f64>,
    /// The places of the output's numbers.
    pub gives: Slots,
}

/// A map of ciphertexts.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// The stage's name.
    pub name: String,
    /// The places of the input's numbers, by ciphertext.
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
    /// The number of baby steps.
    pub babies: u16,
    /// Slots of a giant step.
    pub giant: i64,
    /// The number of giant steps.
    pub giants: u16,
}

/// For multiples of one step from 0 on: the step, and their number.
fn multiples(steps: &BTreeSet<i64>) -> Option<(i64, u16)> {
    let step = steps.iter().copied().nth(1).unwrap_or(0);
    let good = steps.iter().enumerate().all(|(i, found)| *found == i as i64 * step);
    Some((step, u16::try_from(steps.len()).ok()?)).filter(|_| good)
}

impl Linear {
    /// The grid of the diagonals of a map with one output; `None` if they form no grid or need no
    /// rotation.
    pub fn grid(&self) -> Option<Grid> {
        let [output] = &self.outputs[..] else { return None };
        let (baby, babies) = multiples(&self.babies().into_values().flatten().collect())?;
        let (giant, giants) = multiples(&output.giants.iter().map(|giant| giant.steps).collect())?;
        // constants are encoded without a transform, unlike diagonals
        let terms = output.giants.iter().flat_map(|giant| &giant.terms);
        let slots = terms.map(|term| &term.weights).all(|weights| matches!(weights, Weights::Slots(_)));
        (slots && (babies > 1 || giants > 1)).then_some(Grid { baby, babies, giant, giants })
    }

    /// The baby steps of each input ciphertext; 0 stands for the ciphertext itself.
    pub fn babies(&self) -> BTreeMap<usize, BTreeSet<i64>> {
        let mut babies: BTreeMap<usize, BTreeSet<i64>> = BTreeMap::new();
        for term in self.outputs.iter().flat_map(|output| &output.giants).flat_map(|giant| &giant.terms) {
            babies.entry(term.input).or_default().insert(term.baby);
        }
        babies
    }

    /// Places the numbers of the input in the slots, for a client that encrypts or an enclave that
    /// encrypts again.
    ///
    /// # Panics
    /// If there are fewer numbers than the map's input.
    pub fn place(&self, numbers: &[f64]) -> Vec<Vec<f64>> {
        let slot = |number: &Option<u32>| number.map_or(0.0, |number| numbers[number as usize]);
        self.takes.iter().map(|slots| slots.iter().map(slot).collect()).collect()
    }

    /// Folds decrypted slots and adds the offsets, in place of the folds under encryption.
    pub fn fold(&self, slots: &mut [Vec<f64>]) {
        for (output, slots) in self.outputs.iter().zip(slots) {
            for steps in &self.folds {
                // decrypted slots are secret
                let mut turned = Zeroizing::new(slots.clone());
                turned.rotate_left(steps.rem_euclid(slots.len() as i64) as usize);
                slots.iter_mut().zip(turned.iter()).for_each(|(slot, other)| *slot += other);
            }
            slots.iter_mut().zip(&output.offset).for_each(|(slot, offset)| *slot += offset);
        }
    }

    /// Reads `length` numbers of the output from the slots of its ciphertexts, each from its first
    /// slot.
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
    /// For each class: its ciphertext in the result, and its slot.
    logits: Vec<(usize, usize)>,
}

/// Errors of a layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// An unknown name.
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
        /// The requirement for the model.
        expected: &'static str,
    },
    /// Too few slots.
    #[error("stage {stage}: expected at most {most} numbers in so many slots, found {found}")]
    Slots {
        /// The stage.
        stage: String,
        /// Slots of a ciphertext.
        most: usize,
        /// The slots needed.
        found: usize,
    },
    /// More weights than the limit.
    #[error("stage {stage}: expected at most {most} slots of weights, found {found}")]
    Large {
        /// The stage.
        stage: String,
        /// The most.
        most: usize,
        /// The slots of weights needed.
        found: usize,
    },
    /// Slots that do not add up to the map: a fault of the layout, not of the model.
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
    /// The layout of this name for a model, in ciphertexts of `slots` slots, a power of two.
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

    /// The layout's name.
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

    /// For each class: the ciphertext of the result with its logit, and the slot.
    pub fn logits(&self) -> &[(usize, usize)] {
        &self.logits
    }

    /// Whether this slot of the result holds a logit.
    pub fn is_logit(&self, output: usize, slot: usize) -> bool {
        self.logits.contains(&(output, slot))
    }
}

/// Splits the steps `unit d` for `d < count`, a power of two, into giant and baby steps: equally
/// many, or twice as many baby steps.
fn steps(count: usize, unit: usize) -> Vec<(i64, i64)> {
    let babies = 1 << count.ilog2().div_ceil(2);
    (0..count).map(|d| ((d - d % babies) * unit, d % babies * unit)).map(|(g, b)| (g as i64, b as i64)).collect()
}

/// `from, 2 from, …` below `to`, powers of two.
fn doublings(from: usize, to: usize) -> impl Iterator<Item = i64> {
    std::iter::successors(Some(from), |step| Some(2 * step)).take_while(move |step| *step < to).map(|step| step as i64)
}
