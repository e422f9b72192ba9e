//! The computation, for any machine: plaintext, recorder or encryption.

use super::{ANSWER_PRIMES, Layout, PbwtError};
use tobari_engine::{BgvEngine, EngineError};
use tobari_plan::engine::Machine;
use tobari_plan::program::{Op, Program, ProgramError, Recorder, Value};
use tobari_plan::site::{KeyDomain, Owner, Secrecy};

/// An input of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// The client's allele at a site: `1 - b` in the first row and `b` in the second, at the
    /// client's place; 0 at other places.
    Symbol(usize),
    /// The places of haplotypes after the first site, by their allele there.
    First,
    /// A diagonal of both maps of a site, rotated back by its giant step.
    Map {
        /// The site, from 1 on.
        site: usize,
        /// The number of positions that it moves back.
        diagonal: usize,
    },
    /// The haplotypes with each allele at the last site.
    Last,
    /// The key of a rotation.
    Rotation {
        /// The number of slots.
        steps: i64,
        /// The highest level of its use.
        level: u16,
    },
    /// The key that swaps the rows.
    Swap,
    /// The key of products.
    Relinearization,
}

/// The inputs of a program.
#[derive(Clone, Debug)]
pub struct Inputs<V> {
    symbols: Vec<V>,
    /// None for a single site.
    first: Option<V>,
    /// By site without the first and the last, then by diagonal.
    maps: Vec<Vec<V>>,
    last: V,
    /// Keys of the baby steps, from one position on; then the giant step's key.
    babies: Vec<V>,
    giant: Option<V>,
    /// Keys of the sum, by 1, 2, 4, … positions.
    sums: Vec<V>,
    swap: V,
    relinearization: Option<V>,
}

impl<V> Inputs<V> {
    /// Makes all inputs of a layout, one after another.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn new<E>(layout: &Layout, mut make: impl FnMut(Input) -> Result<V, E>) -> Result<Self, E> {
        let (length, stride) = (layout.size().length, layout.stride() as i64);
        let has_maps = length > 2;
        let rotation = |positions: usize, level| Input::Rotation { steps: positions as i64 * stride, level };
        let symbols = (0..length).map(|site| make(Input::Symbol(site))).collect::<Result<_, _>>()?;
        let first = (length > 1).then(|| make(Input::First)).transpose()?;
        let map = |site| (0..layout.diagonals()).map(|diagonal| make(Input::Map { site, diagonal })).collect();
        let maps = (1..length.max(2) - 1).map(map).collect::<Result<_, _>>()?;
        let last = make(Input::Last)?;
        let babies = if has_maps { layout.babies() } else { 1 };
        let top = layout.level(0);
        let babies = (1..babies).map(|baby| make(rotation(baby, top))).collect::<Result<_, _>>()?;
        let giant = has_maps.then(|| make(rotation(layout.babies(), top))).transpose()?;
        let sums = (0..layout.period().ilog2()).map(|log| make(rotation(1 << log, layout.last_level())));
        let sums = sums.collect::<Result<_, _>>()?;
        let swap = make(Input::Swap)?;
        let relinearization = (length > 1).then(|| make(Input::Relinearization)).transpose()?;
        Ok(Self { symbols, first, maps, last, babies, giant, sums, swap, relinearization })
    }
}

/// Counts the haplotypes that have the query's alleles, in every slot of a place.
///
/// # Errors
/// The machine's errors.
pub fn program<M: Machine>(machine: &mut M, layout: &Layout, inputs: &Inputs<M::Value>) -> Result<M::Value, M::Error> {
    let fold = |machine: &mut M, both: &M::Value| {
        let swapped = machine.step(Op::Swap, &[both, &inputs.swap])?;
        machine.add(both, &swapped)
    };
    let mut symbols = inputs.symbols.iter();
    let selected = match (&inputs.first, &inputs.relinearization, symbols.next(), symbols.next_back()) {
        (Some(first), Some(key), Some(symbol), Some(last)) => {
            let both = machine.mul_plain(symbol, first)?;
            let mut interval = fold(machine, &both)?;
            for (map, symbol) in inputs.maps.iter().zip(symbols) {
                let both = mapped(machine, layout, inputs, &interval, map)?;
                let both = machine.mul(&both, symbol, key)?;
                interval = fold(machine, &both)?;
            }
            let both = machine.mul_plain(&interval, &inputs.last)?;
            machine.mul(&both, last, key)?
        }
        // one site: the interval is all haplotypes
        _ => machine.mul_plain(&inputs.symbols[0], &inputs.last)?,
    };
    let mut sum = fold(machine, &selected)?;
    for (log, key) in inputs.sums.iter().enumerate() {
        let turned = machine.rotate(&sum, (layout.stride() << log) as i64, key)?;
        sum = machine.add(&sum, &turned)?;
    }
    if layout.last_level() as usize >= ANSWER_PRIMES {
        sum = machine.step(Op::LowerTo(ANSWER_PRIMES as u16 - 1), &[&sum])?;
    }
    machine.step(Op::Flood(layout.flood()), &[&sum])
}

/// `P_0` of the first row and `P_1` of the second: `Σ_i turn(Σ_j d_(g i + j) ⊙ turn(I, j), g i)`.
/// The last giant step is first.
fn mapped<M: Machine>(
    machine: &mut M,
    layout: &Layout,
    inputs: &Inputs<M::Value>,
    interval: &M::Value,
    map: &[M::Value],
) -> Result<M::Value, M::Error> {
    let stride = layout.stride() as i64;
    let mut turned = vec![interval.clone()];
    if !inputs.babies.is_empty() {
        let hoisted = machine.step(Op::Hoist, &[interval])?;
        for (baby, key) in (1..).zip(&inputs.babies) {
            turned.push(machine.step(Op::RotateHoisted(baby * stride), &[&hoisted, key])?);
        }
    }
    let mut sum: Option<M::Value> = None;
    for diagonals in map.chunks(layout.babies()).rev() {
        let pairs: Vec<&M::Value> = turned.iter().zip(diagonals).flat_map(|(a, d)| [a, d]).collect();
        let part = machine.step(Op::Dot, &pairs)?;
        sum = Some(match (sum, &inputs.giant) {
            (Some(sum), Some(key)) => {
                let sum = machine.rotate(&sum, layout.babies() as i64 * stride, key)?;
                machine.add(&sum, &part)?
            }
            _ => part,
        });
    }
    // a map has at least one diagonal
    Ok(sum.unwrap_or_else(|| interval.clone()))
}

/// The client, whose key encrypts the symbols.
pub fn client() -> KeyDomain {
    KeyDomain("client".to_owned())
}

/// The server, which owns the panel.
pub fn server() -> Owner {
    Owner("server".to_owned())
}

/// Why a program cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Sizes that do not fit.
    #[error(transparent)]
    Size(#[from] PbwtError),
    /// The recorder failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The program of a layout, with its inputs by their numbers.
///
/// # Errors
/// [`RecordError`].
pub fn record(engine: &BgvEngine, layout: &Layout) -> Result<(Program, Vec<Input>), RecordError> {
    let (mut recorder, mut all) = (Recorder::new(engine), Vec::new());
    let inputs: Inputs<Value> = Inputs::new(layout, |input| {
        all.push(input);
        let encrypted = Secrecy::Encrypted { key: client() };
        let secret = Secrecy::Secret { owner: server() };
        let top = layout.level(0);
        let (name, shape, secrecy) = match input {
            Input::Symbol(site) => (format!("symbol {site}"), engine.ciphertext_shape(layout.level(site))?, encrypted),
            Input::First => ("places after the first site".to_owned(), engine.compact_shape(top)?, secret),
            Input::Map { site, diagonal } => {
                (format!("diagonal {diagonal} of site {site}"), engine.compact_shape(layout.level(site))?, secret)
            }
            Input::Last => {
                let site = layout.size().length - 1;
                ("alleles at the last site".to_owned(), engine.compact_shape(layout.level(site))?, secret)
            }
            Input::Rotation { steps, level } => {
                (format!("rotation key {steps} at level {level}"), engine.rotation_key_shape(level)?, encrypted)
            }
            Input::Swap => ("key of the rows".to_owned(), engine.rotation_key_shape(top)?, encrypted),
            Input::Relinearization => {
                ("relinearization key".to_owned(), engine.relinearization_key_shape(top)?, encrypted)
            }
        };
        Ok::<_, RecordError>(recorder.input(name, shape, secrecy)?)
    })?;
    let output = program(&mut recorder, layout, &inputs)?;
    Ok((recorder.finish(&[output])?, all))
}
