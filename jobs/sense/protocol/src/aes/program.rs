//! The circuit on any machine: on plaintext, recorded, or under encryption.

use super::chain::{Chain, Characters, MODULUS, PRODUCTS};
use super::characters::{FORM_DIVISOR, doubled, form, mask, split};
use super::cipher::ROUNDS;
use super::layout::Layout;
use crate::linear::{PlanError, key_holder};
use std::collections::BTreeMap;
use tobari_engine::{BgvEngine, EngineError};
use tobari_plan::engine::Machine;
use tobari_plan::program::{Op, Program, Recorder, Value};
use tobari_plan::site::Secrecy;

/// Weights of the exclusive or of eight terms, `8! Π = U (U - 112 Z + 3584) - 32768 Z + 40320`, by
/// `1, U` and `1, U, Z`.
const PARITY: [i64; 6] = [40_320, 0, -32_768, 3_584, 1, -112];
/// `8!`.
const PARITY_DIVISOR: i64 = 40_320;
/// Terms of an exclusive or.
const TERMS: usize = 8;

/// An input of a program. A mask names a character; a round ends with its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Input {
    /// The characters of the first round keys, encrypted.
    First {
        /// The character.
        mask: u8,
    },
    /// The characters of the counters.
    Counter {
        /// The character.
        mask: u8,
    },
    /// The characters of the keys of a middle round, and the ones that fill up eight terms,
    /// encrypted.
    Round {
        /// The round, from 1 to 9.
        round: usize,
        /// The character.
        mask: u8,
    },
    /// The bits of the last round keys, encrypted.
    Last {
        /// The bit.
        bit: u8,
    },
    /// The bits of the devices' ciphertexts, and zeros where nothing is declared.
    Text {
        /// The bit.
        bit: u8,
    },
    /// The mean of all bytes in declared slots, and zeros elsewhere.
    Mean,
    /// Weights of a character of the S-box.
    Form {
        /// The character.
        mask: u8,
    },
    /// Weights of a product.
    Product,
    /// Weights of an exclusive or.
    Parity,
    /// Weights of bytes by their bits.
    Recomposition,
    /// The key of a rotation, at this level and below.
    Rotation {
        /// The rotation in slots.
        steps: i64,
        /// Multiplications that are left.
        level: u16,
    },
    /// The key of products, at this level and below.
    Relinearization {
        /// Multiplications that are left.
        level: u16,
    },
}

/// AES-128 on all blocks of a batch.
#[derive(Clone, Debug)]
pub struct Circuit {
    chain: Chain,
    layout: Layout,
    probes: bool,
}

/// The inputs of a circuit.
pub struct Inputs<V>(BTreeMap<Input, V>);

/// The outputs of a circuit.
#[derive(Clone, Debug)]
pub struct Outputs<V> {
    /// The bytes that devices encrypted, where they are declared.
    pub bytes: V,
    /// The state at the start of every round, `255 - 2 x` for a byte `x`, if requested.
    pub probes: Vec<V>,
}

/// Characters by their masks.
type State<V> = BTreeMap<u8, V>;

impl Circuit {
    /// A circuit over this chain, in this layout.
    pub fn new(chain: Chain, layout: Layout) -> Self {
        Self { chain, layout, probes: false }
    }

    /// Adds the state at the start of every round to the outputs, for tests that have the secret
    /// key.
    #[must_use]
    pub fn with_probes(self) -> Self {
        Self { probes: true, ..self }
    }

    /// Primes, levels and factors.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The slots of each byte.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The characters with which a round begins. After the last round these are the bits.
    fn masks(&self, round: usize) -> Vec<u8> {
        self.chain.schedule().get(round - 1).copied().unwrap_or(Characters::Bits).masks()
    }

    /// The keys of products and rotations of a round.
    fn keys(&self, round: usize) -> (Input, [Input; 3]) {
        let levels = self.chain.levels(round);
        let rotation = |steps| Input::Rotation { steps, level: levels.forms as u16 - 1 };
        (Input::Relinearization { level: levels.input as u16 - 1 }, self.layout.steps(round).map(rotation))
    }

    /// All inputs, in the order of their use.
    pub fn inputs(&self) -> Vec<Input> {
        let mut all = vec![Input::Product, Input::Parity, Input::Recomposition, Input::Mean];
        for mask in self.masks(1) {
            all.extend([Input::First { mask }, Input::Counter { mask }]);
        }
        for round in 1..=ROUNDS {
            let (relinearization, rotations) = self.keys(round);
            all.push(relinearization);
            let next = self.masks(round + 1);
            all.extend(next.iter().map(|mask| Input::Form { mask: *mask }));
            if round < ROUNDS {
                all.extend(rotations);
                all.extend(next.iter().map(|mask| Input::Round { round, mask: *mask }));
            }
        }
        all.extend((0..8).flat_map(|bit| [Input::Last { bit }, Input::Text { bit }]));
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|input| seen.insert(*input));
        all
    }

    /// The first slots of an input of weights; `None` for other inputs.
    pub fn weights(input: Input) -> Option<Vec<i64>> {
        Some(match input {
            Input::Form { mask } => form(mask),
            Input::Product => vec![0, 0, 0, 1],
            Input::Parity => PARITY.to_vec(),
            // bytes are 255/2 - Σ 2^bit χ/2
            Input::Recomposition => {
                (0..81).map(|place| if place > 0 && place % 10 == 0 { -1 << (place / 10 - 1) } else { 0 }).collect()
            }
            _ => return None,
        })
    }

    /// The number of ones added to a key's character: with fewer than eight terms, ones take the
    /// missing places.
    pub(super) fn ones(&self, round: usize, mask: u8) -> i64 {
        (TERMS - 4 - 2 * parts(mask, &self.masks(round + 1)).len()) as i64
    }

    /// Data primes of a ciphertext input, or of the ciphertexts that a plain input meets; `None`
    /// for weights and keys.
    pub fn primes(&self, input: Input) -> Option<usize> {
        let last = self.chain.levels(ROUNDS);
        match input {
            Input::First { .. } | Input::Counter { .. } => Some(self.chain.data_primes()),
            Input::Round { round, .. } => Some(self.chain.levels(round).forms),
            Input::Last { .. } | Input::Text { .. } => Some(last.characters),
            Input::Mean => Some(PRODUCTS + 1),
            _ => None,
        }
    }

    /// The factor with which a ciphertext must be made; `None` for other inputs.
    pub fn factor(&self, input: Input) -> Option<u64> {
        match input {
            Input::First { .. } => Some(self.chain.first_factor()),
            Input::Round { round, .. } => Some(self.chain.round_factor(round)),
            Input::Last { .. } => Some(self.chain.round_factor(ROUNDS)),
            _ => None,
        }
    }
}

/// A character of twice a byte, as the sum of available characters.
fn parts(mask: u8, masks: &[u8]) -> Vec<u8> {
    split(doubled(mask), masks).unwrap_or_else(|| unreachable!("every choice of characters has them: tested"))
}

impl<V> Inputs<V> {
    /// Makes all inputs of a circuit with `make`.
    ///
    /// # Errors
    /// Errors of `make`.
    pub fn new<E>(circuit: &Circuit, mut make: impl FnMut(Input) -> Result<V, E>) -> Result<Self, E> {
        let all = circuit.inputs().into_iter().map(|input| Ok((input, make(input)?)));
        Ok(Self(all.collect::<Result<_, E>>()?))
    }

    fn of(&self, input: Input) -> &V {
        &self.0[&input]
    }
}

/// Computes AES's key stream on the counters and removes it from the ciphertexts.
///
/// # Errors
/// Errors of the machine.
pub fn program<M: Machine>(
    machine: &mut M,
    circuit: &Circuit,
    inputs: &Inputs<M::Value>,
) -> Result<Outputs<M::Value>, M::Error> {
    let (mut state, mut probes) = (State::new(), Vec::new());
    for mask in circuit.masks(1) {
        let [key, counter] = [Input::First { mask }, Input::Counter { mask }].map(|input| inputs.of(input));
        let both = machine.mul_plain(key, counter)?;
        state.insert(mask, machine.step(Op::Rescale, &[&both])?);
    }
    for round in 1..=ROUNDS {
        if circuit.probes {
            probes.push(probe(machine, &state)?);
        }
        let substituted = substitute(machine, circuit, inputs, round, &state)?;
        if round < ROUNDS {
            state = mix(machine, circuit, inputs, round, &substituted)?;
        } else {
            state = substituted;
        }
    }
    let mut both: Vec<M::Value> = (0..8).filter_map(|bit| state.remove(&(1 << bit))).collect();
    for bit in 0..8 {
        let masked = machine.mul_plain(inputs.of(Input::Last { bit }), inputs.of(Input::Text { bit }))?;
        both.push(machine.step(Op::Rescale, &[&masked])?);
    }
    let key = inputs.of(circuit.keys(ROUNDS).0);
    let args: Vec<&M::Value> = both.iter().chain([inputs.of(Input::Recomposition), key]).collect();
    let sum = machine.step(Op::Bilinear { left: 8, right: 8, forms: 1, divisor: 2 }, &args)?;
    Ok(Outputs { bytes: machine.add(&sum, inputs.of(Input::Mean))?, probes })
}

/// The characters of the S-boxes' outputs with which the next round begins.
fn substitute<M: Machine>(
    machine: &mut M,
    circuit: &Circuit,
    inputs: &Inputs<M::Value>,
    round: usize,
    state: &State<M::Value>,
) -> Result<State<M::Value>, M::Error> {
    let key = inputs.of(circuit.keys(round).0);
    let mut both = Vec::with_capacity(30);
    for which in 0..2 {
        both.extend(nibble(machine, inputs, which, state, key)?);
    }
    // one step, so that all forms read every character once
    let masks = circuit.masks(round + 1);
    let op = Op::Bilinear { left: 15, right: 15, forms: masks.len() as u8, divisor: FORM_DIVISOR };
    let weights = masks.iter().map(|mask| inputs.of(Input::Form { mask: *mask }));
    let args: Vec<&M::Value> = both.iter().chain(weights).chain([key]).collect();
    let all = machine.step(op, &args)?;
    drop(both);
    let part = |(which, mask): (u8, u8)| Ok((mask, machine.step(Op::Part(which), &[&all])?));
    (0..).zip(masks).map(part).collect()
}

/// The fifteen characters of a nibble: the available ones, and products.
fn nibble<M: Machine>(
    machine: &mut M,
    inputs: &Inputs<M::Value>,
    which: usize,
    state: &State<M::Value>,
    key: &M::Value,
) -> Result<Vec<M::Value>, M::Error> {
    let mut all: BTreeMap<usize, M::Value> = BTreeMap::new();
    for number in 1usize..16 {
        if let Some(value) = state.get(&mask(which, number)) {
            all.insert(number, value.clone());
        }
    }
    for ones in 2..=4 {
        for number in (1usize..16).filter(|number| number.count_ones() == ones) {
            if all.contains_key(&number) {
                continue;
            }
            // of two pairs if available, or of the lowest bit and the others
            let (low, high) = (number & 3, number & 12);
            let lowest = number & number.wrapping_neg();
            let pairs = low > 0 && state.contains_key(&mask(which, 3)) || ones == 4;
            let (a, b) = if pairs { (low, high) } else { (lowest, number ^ lowest) };
            let (a, b) = (&all[&a], &all[&b]);
            let product = if ones == 3 && !pairs {
                // the factors have different levels: nothing is divided
                let op = Op::Bilinear { left: 1, right: 1, forms: 1, divisor: 1 };
                machine.step(op, &[a, b, inputs.of(Input::Product), key])?
            } else {
                machine.mul(a, b, key)?
            };
            all.insert(number, product);
        }
    }
    Ok(all.into_values().collect())
}

/// ShiftRows, MixColumns and the round key: gives the characters with which the next round begins.
fn mix<M: Machine>(
    machine: &mut M,
    circuit: &Circuit,
    inputs: &Inputs<M::Value>,
    round: usize,
    bytes: &State<M::Value>,
) -> Result<State<M::Value>, M::Error> {
    let (relinearization, rotations) = circuit.keys(round);
    let (key, rotations) = (inputs.of(relinearization), rotations.map(|rotation| inputs.of(rotation)));
    let (steps, masks) = (circuit.layout.steps(round), circuit.masks(round + 1));
    let (mut hoisted, mut state) = (State::new(), State::new());
    for mask in &masks {
        // of 2 a + 3 b + c + d: twice a and b, then b, c and d
        let parts = parts(*mask, &masks);
        for part in parts.iter().chain([mask]) {
            if !hoisted.contains_key(part) {
                hoisted.insert(*part, machine.step(Op::Hoist, &[&bytes[part]])?);
            }
        }
        let turned = &hoisted[mask];
        let mut args: Vec<&M::Value> = parts.iter().map(|part| &bytes[part]).collect();
        args.push(inputs.of(Input::Round { round, mask: *mask }));
        args.extend(parts.iter().map(|part| &hoisted[part]));
        args.extend([turned, turned, turned]);
        args.extend(rotations);
        let counts = [parts.len() as u8 + 1, 1, 1];
        let sum = machine.step(Op::RotateSum { steps, counts }, &args)?;
        let square = machine.mul(&sum, &sum, key)?;
        let fourth = machine.mul(&square, &square, key)?;
        let op = Op::Bilinear { left: 1, right: 2, forms: 1, divisor: PARITY_DIVISOR };
        let value = machine.step(op, &[&fourth, &fourth, &square, inputs.of(Input::Parity), key])?;
        state.insert(*mask, value);
    }
    Ok(state)
}

/// `Σ 2^bit χ_bit`.
fn probe<M: Machine>(machine: &mut M, state: &State<M::Value>) -> Result<M::Value, M::Error> {
    let mut terms = Vec::with_capacity(8);
    for bit in 0..8 {
        terms.push(machine.step(Op::Scale(1 << bit), &[&state[&(1 << bit)]])?);
    }
    machine.step(Op::Add, &terms.iter().collect::<Vec<_>>())
}

/// The program of a circuit, and its inputs in the order of their numbers.
///
/// # Errors
/// [`PlanError`].
pub fn record(engine: &BgvEngine, circuit: &Circuit) -> Result<(Program, Vec<Input>), PlanError> {
    let (mut recorder, mut all) = (Recorder::new(engine), Vec::new());
    let encrypted = || Secrecy::Encrypted { key: key_holder() };
    let inputs: Inputs<Value> = Inputs::new(circuit, |input| {
        all.push(input);
        let level = circuit.primes(input).map_or(engine.top_level(), |primes| primes as u16 - 1);
        let (shape, secrecy) = match input {
            Input::Rotation { level, .. } => (engine.rotation_key_shape(level)?, encrypted()),
            Input::Relinearization { level } => (engine.relinearization_key_shape(level)?, encrypted()),
            _ if circuit.factor(input).is_some() => (engine.ciphertext_shape(level)?, encrypted()),
            _ => (engine.compact_shape(level)?, Secrecy::Public),
        };
        Ok::<_, PlanError>(recorder.input(format!("{input:?}"), shape, secrecy)?)
    })?;
    let Outputs { bytes, probes } = program(&mut recorder, circuit, &inputs)?;
    let outputs: Vec<Value> = std::iter::once(bytes).chain(probes).collect();
    Ok((recorder.finish(&outputs)?, all))
}

/// Encodes a plain input as a value.
///
/// # Errors
/// [`EngineError`].
pub fn plain(
    engine: &BgvEngine,
    circuit: &Circuit,
    input: Input,
    slots: &[i64],
) -> Result<tobari_engine::BgvValue, EngineError> {
    let level = circuit.primes(input).map_or(engine.top_level(), |primes| primes as u16 - 1);
    engine.compact(slots, level)
}

/// The value of [`Input::Mean`] in declared slots: 255/2 modulo `t`.
pub(super) const MEAN: i64 = (255 + MODULUS as i64) / 2;
