//! The part of a network that an enclave computes: all but maps.
//!
//! The process computes maps under encryption, and the enclave the nodes between them, on plain
//! numbers and exactly ([`Engine::Enclave`](crate::settings::Engine)). A run is a list of visits
//! ([`Steps::rounds`]):
//!
//! ```text
//! inside    numbers of the process's tensors are read from the slots,
//!           nodes are computed in doubles, by the code of crate::forward,
//!           results that the next maps take are placed in slots, and encrypted
//! outside   maps, one level each
//! ```
//!
//! So every map begins with a fresh ciphertext of two primes, **however deep the network is**, and
//! the layout of each map's input is free: the enclave writes numbers where the map wants them.
//! Sums of branches are added up inside, from numbers that are there already.
//!
//! # Errors
//! Those of encryption and of one map, for each map. Activations are exact. A number beyond its
//! range by less than 2^8 does no harm. A larger one is refused ([`Enclaved::visit`]): the first
//! prime has room for 2^9.
//!
//! # Time
//! No branch and no address depends on a number, except that a run ends if any number is out of
//! range. Numbers are wiped.

use crate::arrange::Arrangement;
use crate::forward;
use crate::layout::Layout;
use crate::settings::ROOM;
use crate::steps::{Factor, Round, Step, Steps};
use tobari_infer::Volume;
use zeroize::Zeroizing;

/// The largest number of a tensor, in units of its range.
const MOST: f64 = (1u32 << (ROOM - 2)) as f64;

/// The steps inside, with layouts and without the weights of maps.
pub struct Enclaved {
    steps: Steps,
    layouts: Vec<Layout>,
    rounds: Vec<Round>,
}

/// The numbers of one picture, wiped when dropped.
pub struct Numbers {
    tensors: Vec<Zeroizing<Vec<f64>>>,
}

impl Enclaved {
    /// The part inside of these steps in this arrangement.
    pub fn new(mut steps: Steps, arrangement: &Arrangement) -> Self {
        for (_, step, _) in &mut steps.steps {
            if let Step::Map { terms, bias } = step {
                terms.iter_mut().for_each(|(_, factor)| *factor = Factor::Scalar(0.0));
                *bias = Vec::new();
            }
        }
        let rounds = steps.rounds();
        Self { steps, layouts: arrangement.layouts.clone(), rounds }
    }

    /// The visits.
    pub fn rounds(&self) -> &[Round] {
        &self.rounds
    }

    /// The number of ciphertexts of these tensors.
    pub fn ciphertexts(&self, tensors: &[usize]) -> usize {
        tensors.iter().map(|tensor| self.layouts[*tensor].ciphertexts()).sum()
    }

    /// The state for a picture, given as tensor 0.
    pub fn begin(&self, picture: Vec<f64>) -> Numbers {
        let mut tensors: Vec<_> = self.steps.steps.iter().map(|_| Zeroizing::new(Vec::new())).collect();
        tensors.insert(0, Zeroizing::new(picture));
        Numbers { tensors }
    }

    /// A visit: the slots of all ciphertexts that it returns, for those of all that it takes.
    /// `None` for another number of ciphertexts, and if any number is beyond its range by a factor
    /// of 2^8.
    pub fn visit(&self, numbers: &mut Numbers, number: usize, slots: &[Vec<f64>]) -> Option<Zeroizing<Vec<Vec<f64>>>> {
        let round = self.rounds.get(number)?;
        let mut rest = slots;
        let mut within = true;
        for tensor in &round.sent {
            let (layout, volume) = (&self.layouts[*tensor], self.steps.volume(*tensor));
            let (own, after) = rest.split_at_checked(layout.ciphertexts())?;
            if own.iter().any(|slots| slots.len() != layout.slots()) {
                return None;
            }
            rest = after;
            let read = layout.read(own, volume);
            within = read.iter().fold(within, |all, x| all & (x.abs() <= MOST));
            numbers.tensors[*tensor] = Zeroizing::new(read);
        }
        if !rest.is_empty() || !within {
            return None;
        }
        for step in &round.inside {
            let (_, one, output) = &self.steps.steps[*step];
            let result = apply(one, &numbers.tensors, *output)?;
            within = result.iter().fold(within, |all, x| all & (x.abs() <= MOST));
            numbers.tensors[step + 1] = result;
        }
        if !within {
            return None;
        }
        let mut all = Zeroizing::new(Vec::with_capacity(self.ciphertexts(&round.returned)));
        for tensor in &round.returned {
            all.extend(self.layouts[*tensor].fill(&numbers.tensors[*tensor], self.steps.volume(*tensor)));
        }
        Some(all)
    }

    /// The logits, after the last visit.
    pub fn logits(&self, numbers: &mut Numbers) -> Zeroizing<Vec<f64>> {
        let last = numbers.tensors.pop().unwrap_or_default();
        Zeroizing::new(last.iter().map(|x| x * self.steps.unit).collect())
    }
}

/// The result of a step inside. `None` before the tensors that it takes are there.
fn apply(step: &Step, tensors: &[Zeroizing<Vec<f64>>], output: Volume) -> Option<Zeroizing<Vec<f64>>> {
    let Step::Inside { op, arguments, range } = step else { return None };
    let mut values = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let numbers: Vec<&[f64]> = argument.terms.iter().map(|(tensor, _)| &tensors[*tensor][..]).collect();
        if numbers.iter().any(|numbers| numbers.is_empty()) {
            return None;
        }
        values.push((Zeroizing::new(argument.value(numbers.iter())), argument.volume));
    }
    let inputs: Vec<(&[f64], Volume)> = values.iter().map(|(x, volume)| (&x[..], *volume)).collect();
    let mut result = Zeroizing::new(forward::node(op, &inputs, output));
    result.iter_mut().for_each(|x| *x /= range);
    Some(result)
}
