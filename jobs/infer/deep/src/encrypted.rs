//! A network's run on ciphertexts, and what both sides must know of it.
//!
//! **Scales are exact.** A map's result has the prime that divides next as its scale `Δ`: its
//! weights are encoded at `Δ q / Δ'`, `q` the prime that divides the products and `Δ'` the scale of
//! the argument. A square has `Δ²/q`, and the next map corrects it. With a power of two instead,
//! the difference between it and the primes would double at each level of a series: at `N = 2^16`
//! primes of 29 bits differ by a fifth, and after six levels nothing would be left of the numbers.
//!
//! # Leakage
//! The server sees ciphertexts and keys, no secret. Slots of an answer without logits hold partial
//! sums, which belong to the model: before an answer leaves, the server adds uniform numbers there,
//! as wide as the modulus has room for, in the way and with the limits of
//! [`tobari_infer::server`]. Steps, layouts, levels and times are public.

use crate::machine::{Circuit, Machine, Part, Place};
use crate::steps::Step;
use rand_core::CryptoRng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tobari_infer::compile::Card;
use tobari_infer::program::Input;
use tobari_lattice::ckks::{
    Ciphertext, EncodeError, Encoder, EvaluationKeys, Evaluator, LinearTransform, OperationError, Plaintext, Scale,
};
use tobari_lattice::params::LatticeParameters;
use tobari_lattice::refresh::{KeyPiece, Refresh, RefreshError, RefreshKeys};
use zeroize::Zeroizing;

/// The most bytes of encoded weights that stay in memory; weights beyond are encoded when they are
/// used.
const KEPT: usize = 1 << 31;
/// The largest number that hides a slot.
const WIDEST: f64 = (1u64 << 40) as f64;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An error of the encoder.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// An error of the core.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// A question of another form.
    #[error("expected {count} ciphertexts over {primes} data primes at the model's scale, found others")]
    Question {
        /// Ciphertexts.
        count: usize,
        /// Data primes.
        primes: usize,
    },
    /// An error of a refresh.
    #[error(transparent)]
    Refresh(#[from] RefreshError),
    /// A network that an enclave computes in part.
    #[error("an enclave computes a part of this network: serve it with --infer-enclave mixed-plain-reset")]
    Enclave,
    /// An enclave that refused, or sent other ciphertexts.
    #[error("the enclave gave no ciphertexts of visit {number}: {reason}")]
    Visit {
        /// The number of the visit.
        number: usize,
        /// The reason.
        reason: String,
    },
    /// A key is missing.
    #[error("expected a {name}, found none: make the keys for this model")]
    Key {
        /// The key.
        name: String,
    },
    /// The caller ended the run.
    #[error("the run was ended")]
    Ended,
}

/// A network ready to run: weights are encoded.
pub struct Network {
    circuit: Circuit,
    parameters: LatticeParameters,
    evaluator: Evaluator,
    encoder: Encoder,
    /// By tensor.
    scales: Vec<Scale>,
    transforms: BTreeMap<Place, LinearTransform>,
    offsets: BTreeMap<(usize, usize), Plaintext>,
    /// Keys with their highest levels.
    keys: BTreeMap<KeyPiece, usize>,
    refresh: Option<Refresh>,
    /// The foretold error of a logit.
    error: Option<f64>,
}

impl Network {
    /// Encodes the weights of a circuit for these parameters.
    ///
    /// # Errors
    /// [`RunError`] for parameters with too few primes, or of another kind.
    pub fn new(circuit: Circuit, parameters: &LatticeParameters) -> Result<Self, RunError> {
        let (evaluator, encoder) = (Evaluator::new(parameters)?.unbounded(), Encoder::new(parameters)?);
        let encoder = encoder.within(f64::INFINITY);
        let scales = scales(&circuit)?;
        let refresh =
            circuit.engine.refreshing().map(|kind| Refresh::new(parameters, kind.settings(parameters.degree())));
        let refresh = refresh.transpose()?;
        let mut network = Self {
            parameters: parameters.clone(),
            evaluator,
            encoder,
            scales,
            error: None,
            transforms: BTreeMap::new(),
            offsets: BTreeMap::new(),
            keys: pieces(&circuit, parameters, refresh.as_ref().map_or_else(BTreeMap::new, Refresh::pieces)),
            refresh,
            circuit,
        };
        network.prepare()?;
        Ok(network)
    }

    /// The same with a foretold error of a logit, which its card states.
    #[must_use]
    pub fn with_error(self, error: f64) -> Self {
        Self { error: Some(error), ..self }
    }

    fn prepare(&mut self) -> Result<(), RunError> {
        let mut places = Vec::new();
        for (step, parts) in self.circuit.parts.iter().enumerate() {
            for (term, part) in parts.iter().enumerate() {
                let Part::Products(products) = part else { continue };
                let pairs = products.diagonals.keys();
                places.extend(pairs.map(|(from, to)| Place { step, term, from: *from, to: *to }));
            }
            for (to, offsets) in self.circuit.offsets(step).into_iter().enumerate() {
                let (scale, level) = (&self.scales[step + 1], self.circuit.level(step + 1));
                self.offsets.insert((step, to), self.encoder.encode(&offsets, scale, level)?);
            }
        }
        if are_kept(&self.circuit, &self.parameters) {
            for place in places {
                let transform = self.weights(place)?;
                self.transforms.insert(place, transform);
            }
        }
        Ok(())
    }

    /// Encodes the weights of a place.
    fn weights(&self, place: Place) -> Result<LinearTransform, RunError> {
        let Place { step, term, from, to } = place;
        let (Step::Map { terms, .. }, Some(Part::Products(products))) =
            (&self.circuit.steps.steps[step].1, self.circuit.parts[step].get(term))
        else {
            return Err(OperationError::Empty.into());
        };
        let (level, slots) = (self.circuit.argument_level(step), self.encoder.slots());
        let scale = weight_scale(&self.scales[step + 1], &self.scales[terms[term].0], level)?;
        let diagonals = products.diagonals.get(&(from, to)).ok_or(OperationError::Empty)?;
        let whole = |weights: &Vec<f64>| weights.iter().copied().cycle().take(slots).collect();
        let all: BTreeMap<i64, Vec<f64>> =
            diagonals.iter().map(|(steps, weights)| (*steps as i64, whole(weights))).collect();
        Ok(LinearTransform::new(&self.encoder, &all, &scale, level)?)
    }

    /// The circuit.
    pub fn circuit(&self) -> &Circuit {
        &self.circuit
    }

    /// The parameters.
    pub fn parameters(&self) -> &LatticeParameters {
        &self.parameters
    }

    /// The public facts: what a client needs for keys, questions and answers.
    pub fn card(&self) -> Card {
        card_of(&self.circuit, &self.parameters, &self.scales, self.keys(), self.error)
    }

    /// A client's keys, each an object of its own and in any order, as one object.
    ///
    /// # Errors
    /// [`RunError::Key`] names the first key that is missing or of another level, and
    /// [`RunError::Operation`] is for keys of other parameters.
    pub fn keyring(&self, keys: Vec<(Input, EvaluationKeys)>) -> Result<NetworkKeys, RunError> {
        let mut given: BTreeMap<Input, EvaluationKeys> = keys.into_iter().collect();
        let mut ring = EvaluationKeys::new(&self.parameters);
        for (piece, level) in &self.keys {
            let input = input_of(*piece, *level);
            let key = given.remove(&input).filter(|key| key.level_of(*piece) == Some(*level));
            ring.merge(key.ok_or_else(|| RunError::Key { name: tobari_infer::compile::name(input) })?)?;
        }
        let evaluation = Arc::new(ring);
        let refresh = self.refresh.as_ref().map(|refresh| RefreshKeys::of(refresh, Arc::clone(&evaluation)));
        let refresh = refresh.transpose().map_err(|error| RunError::Key { name: error.to_string() })?;
        Ok(NetworkKeys { evaluation, refresh })
    }

    /// Bytes of a client's keys in memory.
    pub fn keyring_memory(&self) -> u64 {
        let levels = self.keys.values();
        levels.map(|level| EvaluationKeys::memory_of_key(&self.parameters, *level) as u64).sum()
    }

    /// Computes the ciphertexts of the logits from those of a picture, with all other slots hidden.
    /// `progress` hears the number of each step before it begins, and ends the run by returning
    /// `false`.
    ///
    /// # Errors
    /// [`RunError`] for ciphertexts that do not fit the model, a missing key, or an end by the
    /// caller.
    pub fn run(
        &self,
        picture: Vec<Ciphertext>,
        keys: &NetworkKeys,
        rng: &mut impl CryptoRng,
        mut progress: impl FnMut(usize) -> bool,
    ) -> Result<Vec<Ciphertext>, RunError> {
        let (count, primes) = (self.circuit.layout(0).ciphertexts(), self.circuit.level(0));
        let fits = |one: &Ciphertext| {
            *one.parameters() == self.parameters
                && one.level() == primes
                && *one.scale() == self.scales[0]
                && !one.needs_relinearization()
        };
        if picture.len() != count || !picture.iter().all(fits) {
            return Err(RunError::Question { count, primes });
        }
        if self.circuit.steps.are_enclaved() {
            return Err(RunError::Enclave);
        }
        let mut machine = Runner { network: self, keys, enclave: None };
        let ended = |step| if progress(step) { Ok(()) } else { Err(RunError::Ended) };
        let results = self.circuit.run(&mut machine, picture, ended)?;
        results.into_iter().enumerate().map(|(to, result)| self.hide(to, &result, rng)).collect()
    }

    /// The places of the ciphertexts that a visit of the enclave takes, and returns: primes and
    /// scale of each.
    pub fn visits(&self) -> Visits {
        visits_of(&self.circuit, &self.scales)
    }

    /// The keys that a client, or an enclave, must make.
    pub fn keys(&self) -> Vec<Input> {
        inputs_of(&self.keys)
    }

    /// Runs the maps of a network that an enclave computes in part. `visit` gets the number of a
    /// visit and the ciphertexts for it, and returns those of the enclave.
    ///
    /// # Errors
    /// [`RunError`] for ciphertexts that do not fit, a missing key, or an error of `visit`.
    pub fn run_enclaved(
        &self,
        keys: &NetworkKeys,
        visit: &mut dyn FnMut(usize, Vec<Ciphertext>) -> Result<Vec<Ciphertext>, RunError>,
    ) -> Result<(), RunError> {
        let visits = self.visits();
        let mut checked = |number: usize, sent: Vec<Ciphertext>| {
            let returned = visit(number, sent)?;
            let fits = |(one, (level, scale)): (&Ciphertext, &(usize, Scale))| {
                *one.parameters() == self.parameters && one.level() == *level && one.scale() == scale
            };
            let places = visits.get(number).map_or(&[][..], |[_, places]| &places[..]);
            if returned.len() != places.len() || !returned.iter().zip(places).all(fits) {
                let reason = format!("expected {} at the model's scale, found others", places.len());
                return Err(RunError::Visit { number, reason });
            }
            Ok(returned)
        };
        let mut machine = Runner { network: self, keys, enclave: Some(&mut checked) };
        self.circuit.run(&mut machine, Vec::new(), |_| Ok(()))?;
        Ok(())
    }

    /// Adds uniform numbers to all slots without logits.
    fn hide(&self, to: usize, value: &Ciphertext, rng: &mut impl CryptoRng) -> Result<Ciphertext, RunError> {
        let primes = &self.parameters.ring().data_primes()[..value.level()];
        let modulus: f64 = primes.iter().map(|prime| prime.modulus().value() as f64).product();
        let scale = value.scale().to_f64(&self.parameters).unwrap_or(f64::INFINITY);
        let width = (modulus * (3.0 * self.parameters.degree() as f64).sqrt() / (48.0 * scale)).min(WIDEST);
        let unit = |rng: &mut dyn CryptoRng| (rng.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
        let slots = (0..self.encoder.slots()).map(|_| width * unit(&mut *rng));
        let mut slots: Zeroizing<Vec<f64>> = Zeroizing::new(slots.collect());
        let last = self.circuit.steps.steps.len();
        let layout = self.circuit.layout(last);
        for place in layout.places(self.circuit.steps.volume(last)) {
            if place / layout.slots() == to {
                slots[place % layout.slots()] = 0.0;
            }
        }
        let mask = self.encoder.encode(&slots, value.scale(), value.level())?;
        Ok(self.evaluator.add_plain(value, &mask)?)
    }
}

/// A client's keys for a network.
#[derive(Clone)]
pub struct NetworkKeys {
    evaluation: Arc<EvaluationKeys>,
    refresh: Option<RefreshKeys>,
}

/// A key as a card names it.
fn input_of(piece: KeyPiece, level: usize) -> Input {
    let level = level as u16 - 1;
    match piece {
        KeyPiece::Raise => Input::Raise { level },
        KeyPiece::Products => Input::Relinearization { level },
        KeyPiece::Conjugation => Input::Conjugation { level },
        KeyPiece::Rotation(steps) => Input::Rotation { steps: steps as i64, level },
    }
}

/// The primes and the scale of each ciphertext that a visit takes, and returns.
type Visits = Vec<[Vec<(usize, Scale)>; 2]>;

fn visits_of(circuit: &Circuit, scales: &[Scale]) -> Visits {
    let of = |tensors: &[usize]| {
        let one = |tensor: &usize| {
            let place = (circuit.level(*tensor), scales[*tensor].clone());
            std::iter::repeat_n(place, circuit.layout(*tensor).ciphertexts())
        };
        tensors.iter().flat_map(one).collect()
    };
    circuit.steps.rounds().iter().map(|round| [of(&round.sent), of(&round.returned)]).collect()
}

/// [`Network::visits`] of a circuit, without the network.
pub(crate) fn visits(circuit: &Circuit) -> Result<Visits, RunError> {
    Ok(visits_of(circuit, &scales(circuit)?))
}

/// [`Network::keys`] of a circuit without refreshes, without the network.
pub(crate) fn keys(circuit: &Circuit, parameters: &LatticeParameters) -> Vec<Input> {
    inputs_of(&pieces(circuit, parameters, BTreeMap::new()))
}

/// The same of any circuit.
pub(crate) fn all_keys(circuit: &Circuit, parameters: &LatticeParameters) -> Result<Vec<Input>, RunError> {
    let refresh = circuit.engine.refreshing().map(|kind| Refresh::new(parameters, kind.settings(parameters.degree())));
    let known = refresh.transpose()?.as_ref().map_or_else(BTreeMap::new, Refresh::pieces);
    Ok(inputs_of(&pieces(circuit, parameters, known)))
}

/// Data primes of a key.
pub(crate) fn level_of(input: Input) -> usize {
    match input {
        Input::Rotation { level, .. }
        | Input::Relinearization { level }
        | Input::Conjugation { level }
        | Input::Raise { level } => usize::from(level) + 1,
        _ => 0,
    }
}

/// Whether encoded weights stay in memory.
pub(crate) fn are_kept(circuit: &Circuit, parameters: &LatticeParameters) -> bool {
    let of_step = |(step, parts): (usize, &Vec<Part>)| -> usize {
        let count = parts.iter().map(|part| match part {
            Part::Products(products) => products.diagonals.values().map(BTreeMap::len).sum(),
            Part::Scalar(_) => 0,
        });
        count.sum::<usize>() * circuit.argument_level(step) * parameters.degree() * 8
    };
    circuit.parts.iter().enumerate().map(of_step).sum::<usize>() <= KEPT
}

/// [`Network::card`] of a circuit, without the network.
pub(crate) fn card(circuit: &Circuit, parameters: &LatticeParameters, error: f64) -> Result<Card, RunError> {
    Ok(card_of(circuit, parameters, &scales(circuit)?, all_keys(circuit, parameters)?, Some(error)))
}

fn card_of(
    circuit: &Circuit,
    parameters: &LatticeParameters,
    scales: &[Scale],
    keys: Vec<Input>,
    error: Option<f64>,
) -> Card {
    let last = circuit.steps.steps.len();
    let input = circuit.steps.input;
    let numbers: Vec<f64> = (1..=input.len()).map(|number| number as f64).collect();
    let place = |slots: Vec<f64>| slots.into_iter().map(|x| (x > 0.0).then(|| x as u32 - 1)).collect();
    let places = circuit.layout(0).fill(&numbers, input).into_iter().map(place).collect();
    let slots = circuit.layout(last).slots();
    let mut logits = circuit.layout(last).places(circuit.steps.volume(last));
    let guard = if circuit.steps.guarded { logits.pop() } else { None };
    Card {
        parameters: parameters.clone(),
        shape: input,
        places,
        sent: (circuit.level(0), scales[0].clone()),
        keys,
        logits: logits.into_iter().map(|place| (place / slots, place % slots)).collect(),
        error,
        guard: guard.map(|place| (place / slots, place % slots)),
        answer: (circuit.level(last), scales[last].clone()),
        logit_bits: circuit.steps.unit.log2() as i32,
    }
}

/// Keys with their highest levels, of which some are known.
fn pieces(
    circuit: &Circuit,
    parameters: &LatticeParameters,
    mut known: BTreeMap<KeyPiece, usize>,
) -> BTreeMap<KeyPiece, usize> {
    let mut need = |piece: KeyPiece, level: usize| {
        let highest = known.entry(piece).or_default();
        *highest = (*highest).max(level);
    };
    for (steps, level) in circuit.rotations() {
        need(KeyPiece::Rotation(steps), level);
    }
    for (step, parts) in circuit.parts.iter().enumerate() {
        for part in parts {
            let Part::Products(products) = part else { continue };
            for diagonals in products.diagonals.values() {
                let steps = diagonals.keys().map(|steps| *steps as i64);
                for steps in LinearTransform::rotations_of(parameters, steps) {
                    need(KeyPiece::Rotation(steps as usize), circuit.argument_level(step));
                }
            }
        }
    }
    if let Some(level) = circuit.product_level() {
        need(KeyPiece::Products, level);
    }
    known
}

fn inputs_of(keys: &BTreeMap<KeyPiece, usize>) -> Vec<Input> {
    let keys: BTreeSet<Input> = keys.iter().map(|(piece, level)| input_of(*piece, *level)).collect();
    keys.into_iter().collect()
}

/// The scale of each tensor.
fn scales(circuit: &Circuit) -> Result<Vec<Scale>, OperationError> {
    // the first prime is larger than the scales
    let own = |tensor: usize| Scale::prime((circuit.level(tensor) - 1).max(1));
    let mut scales = vec![own(0)];
    for (number, (_, step, _)) in circuit.steps.steps.iter().enumerate() {
        let level = circuit.argument_level(number);
        let product = |a: &Scale, b: &Scale| {
            let product = a.product(b).and_then(|product| product.quotient(&Scale::prime(level - 1)));
            product.ok_or(OperationError::NoRoom { level })
        };
        scales.push(match step {
            Step::Map { .. } | Step::Inside { .. } => own(number + 1),
            Step::Pool { input, .. } | Step::Series { input, .. } | Step::Refresh { input, .. } => {
                scales[*input].clone()
            }
            Step::Sum { plain, .. } => scales[plain[0]].clone(),
            Step::Square { input } => product(&scales[*input], &scales[*input])?,
            Step::Product { inputs: [a, b] } => product(&scales[*a], &scales[*b])?,
        });
    }
    Ok(scales)
}

/// The scale of weights over `level` primes that take numbers from one scale to another.
fn weight_scale(to: &Scale, from: &Scale, level: usize) -> Result<Scale, OperationError> {
    let scale = to.product(&Scale::prime(level - 1)).and_then(|scale| scale.quotient(from));
    scale.ok_or(OperationError::NoRoom { level })
}

/// The machine of ciphertexts.
struct Runner<'a> {
    network: &'a Network,
    keys: &'a NetworkKeys,
    enclave: Option<&'a mut Visit<'a>>,
}

/// A visit of an enclave.
type Visit<'a> = dyn FnMut(usize, Vec<Ciphertext>) -> Result<Vec<Ciphertext>, RunError> + 'a;

impl Machine for Runner<'_> {
    type Value = Ciphertext;
    type Error = RunError;

    fn lower(&mut self, a: &Ciphertext, level: usize) -> Result<Ciphertext, RunError> {
        if a.level() == level { Ok(a.clone()) } else { Ok(self.network.evaluator.to_level(a, level)?) }
    }

    fn transform(&mut self, a: &Ciphertext, place: Place) -> Result<Ciphertext, RunError> {
        let (evaluator, keys) = (&self.network.evaluator, &self.keys.evaluation);
        match self.network.transforms.get(&place) {
            Some(transform) => Ok(evaluator.transform(a, transform, keys)?),
            None => Ok(evaluator.transform(a, &self.network.weights(place)?, keys)?),
        }
    }

    fn times(&mut self, a: &Ciphertext, factor: f64, tensor: usize) -> Result<Ciphertext, RunError> {
        let scale = weight_scale(&self.network.scales[tensor], a.scale(), a.level())?;
        let constant = self.network.encoder.encode_constant(factor, &scale, a.level())?;
        Ok(self.network.evaluator.mul_plain(a, &constant)?)
    }

    fn add_number(&mut self, a: Ciphertext, number: f64) -> Result<Ciphertext, RunError> {
        Ok(self.network.evaluator.add_constant(&a, number)?)
    }

    fn add(&mut self, mut a: Ciphertext, b: &Ciphertext) -> Result<Ciphertext, RunError> {
        self.network.evaluator.add_assign(&mut a, b)?;
        Ok(a)
    }

    fn rescale(&mut self, a: &Ciphertext) -> Result<Ciphertext, RunError> {
        Ok(self.network.evaluator.rescale(a)?)
    }

    fn rotate(&mut self, a: &Ciphertext, steps: usize) -> Result<Ciphertext, RunError> {
        Ok(self.network.evaluator.rotate(a, steps as i64, &self.keys.evaluation)?)
    }

    fn offset(&mut self, a: Ciphertext, step: usize, to: usize) -> Result<Ciphertext, RunError> {
        let offset = self.network.offsets.get(&(step, to)).ok_or(OperationError::Empty)?;
        Ok(self.network.evaluator.add_plain(&a, offset)?)
    }

    fn multiply(&mut self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext, RunError> {
        Ok(self.network.evaluator.mul_rescale(a, b, &self.keys.evaluation)?)
    }

    fn series(&mut self, a: &Ciphertext, coefficients: &[f64]) -> Result<Ciphertext, RunError> {
        Ok(self.network.evaluator.chebyshev(a, coefficients, &self.keys.evaluation)?)
    }

    fn visit(&mut self, number: usize, sent: Vec<Ciphertext>) -> Result<Vec<Ciphertext>, RunError> {
        match &mut self.enclave {
            Some(visit) => visit(number, sent),
            None => Err(RunError::Enclave),
        }
    }

    fn refresh(&mut self, a: &Ciphertext) -> Result<Ciphertext, RunError> {
        let missing = || RunError::Key { name: "key of a refresh".to_owned() };
        let (refresh, keys) = self.network.refresh.as_ref().zip(self.keys.refresh.as_ref()).ok_or_else(missing)?;
        Ok(refresh.refresh_unbounded(a, keys)?)
    }
}
