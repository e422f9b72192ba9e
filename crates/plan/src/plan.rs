//! Makes a plan from a program, a site and costs.

use crate::cost::{self, CostModel};
use crate::page::{self, Instruction, PageError, Room};
use crate::program::{Encoding, Kind, Op, Program, Shape, Value};
use crate::site::{Site, Unit};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The instructions of one site, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The program.
    pub program: Program,
    /// Its site.
    pub site: Site,
    /// Steps and moves.
    pub instructions: Vec<Instruction>,
    /// Inputs in memory from the start.
    pub resident: Vec<Value>,
    /// Whether the tier has all inputs.
    pub inputs_stored: bool,
    /// The encoding of each value in the tier.
    pub encodings: Vec<Encoding>,
    /// The expected costs.
    pub forecast: Forecast,
}

/// Expected costs of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forecast {
    /// Seconds from start to end.
    pub seconds: f64,
    /// The same with unlimited memory.
    pub unlimited: f64,
    /// The part of `seconds` in which the cores only wait for the tier.
    pub stalled: f64,
    /// Bytes from the tier.
    pub read: u64,
    /// Bytes to the tier.
    pub written: u64,
    /// The largest number of bytes of values in memory.
    pub peak: u64,
    /// Steps that run, repetitions included.
    pub steps: u64,
    /// Repetitions among them.
    pub again: u64,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A step does not fit the site's memory.
    #[error(transparent)]
    Page(#[from] PageError),
    /// The program has no output.
    #[error("expected a program with outputs, found one without")]
    NoOutput,
    /// The values do not fit memory, and the site has no tier.
    #[error("expected a tier of storage for {bytes} bytes of values, found none at site {site}")]
    NoTier {
        /// Bytes of all values.
        bytes: u64,
        /// The site.
        site: String,
    },
}

/// A plan among those to choose from.
struct Candidate {
    paging: page::Paging,
    encodings: Vec<Encoding>,
    forecast: Forecast,
}

/// Plans a program at a site: the cheapest among its own order and some orders that group steps
/// with the same large argument.
///
/// # Errors
/// [`PlanError`].
pub fn plan<C: CostModel + ?Sized>(program: Program, site: Site, costs: &C) -> Result<Plan, PlanError> {
    let mut orders = vec![own_order(&program)];
    if program.bytes()[0] > site.memory {
        orders.extend([8, 4, 2].map(|part| page::order(&program, site.memory / part)));
    }
    plan_in(&orders, program, site, costs)
}

/// Plans a program at a site, in the cheapest of some orders of its steps.
///
/// # Errors
/// [`PlanError`].
pub fn plan_in<C: CostModel + ?Sized>(
    orders: &[Vec<u32>],
    program: Program,
    site: Site,
    costs: &C,
) -> Result<Plan, PlanError> {
    if program.outputs().is_empty() {
        return Err(PlanError::NoOutput);
    }
    let (seconds, room) = (cost::of_steps(&program, costs), Room::new(site.memory));
    let fits = program.bytes()[0] <= room.capacity;
    let cores = match site.unit {
        Unit::Cores(cores) => f64::from(cores.max(1)),
        Unit::Accelerator => 1.0,
    };
    let (mut best, mut refused): (Option<Candidate>, Option<PageError>) = (None, None);
    let mut consider = |order: &[u32], price: f64| {
        let encodings = encodings(&program, costs, price);
        let better = |forecast: &Forecast, best: &Option<Candidate>| match best {
            None => true,
            Some(best) => forecast.seconds < best.forecast.seconds,
        };
        match page::page(&program, order, room, costs, &seconds, &encodings) {
            Ok(paging) => {
                let forecast = forecast(&program, &paging, &encodings, costs, &seconds, cores);
                let found = better(&forecast, &best);
                if found {
                    best = Some(Candidate { paging, encodings, forecast });
                }
                found
            }
            Err(error) => {
                refused = Some(error);
                false
            }
        }
    };
    // the order first, with a second of the tier worth one second of a core; then other prices
    let mut chosen = 0;
    for (i, order) in orders.iter().enumerate() {
        if consider(order, 1.0) {
            chosen = i;
        }
    }
    for price in if fits { &[][..] } else { &[0.0, 0.3] } {
        consider(&orders[chosen], *price);
    }
    match (best, refused) {
        (Some(Candidate { paging, encodings, forecast }), _) => {
            // an input that is also an output may have left memory
            let from_tier = |output: &Value| program.maker(*output).is_none() && !fits;
            let moves = paging.instructions.iter().any(|i| matches!(i, Instruction::Load(_) | Instruction::Store(_)))
                || program.outputs().iter().any(from_tier);
            if moves && !site.tier {
                return Err(PlanError::NoTier { bytes: program.bytes()[0], site: site.name });
            }
            let page::Paging { instructions, resident } = paging;
            Ok(Plan { program, site, instructions, resident, inputs_stored: moves, encodings, forecast })
        }
        (None, Some(error)) => Err(error.into()),
        (None, None) => Err(PlanError::NoOutput),
    }
}

/// The steps that an output depends on, in the order of the program.
pub fn own_order(program: &Program) -> Vec<u32> {
    let needed = program.needed();
    (0..program.steps().len() as u32).filter(|step| needed[*step as usize]).collect()
}

/// The cheapest encoding for each value, if a second of the tier costs `price` seconds of a core; 0
/// while the tier keeps up.
fn encodings<C: CostModel + ?Sized>(program: &Program, costs: &C, price: f64) -> Vec<Encoding> {
    let cost = |shape: &Shape, encoding: Encoding| {
        let bytes = shape.stored(encoding);
        let cores = costs.export(shape, encoding) + costs.import(shape, encoding);
        cores + price * (costs.write(bytes) + costs.read(bytes))
    };
    let choose = |shape: &Shape| match cost(shape, Encoding::Raw) <= cost(shape, Encoding::Packed) {
        true => Encoding::Raw,
        false => Encoding::Packed,
    };
    program.values().map(|value| choose(program.shape(value))).collect()
}

/// Follows a plan with two clocks, one for the cores and one for the tier. A load begins when the
/// cores have begun the instructions before it, and a step when its arguments are present.
fn forecast<C: CostModel + ?Sized>(
    program: &Program,
    paging: &page::Paging,
    encodings: &[Encoding],
    costs: &C,
    seconds: &[f64],
    cores: f64,
) -> Forecast {
    let mut found = Forecast::default();
    let mut there = vec![0f64; program.len()];
    let mut done = vec![false; program.steps().len()];
    let (mut computed, mut tier) = (0f64, 0f64);
    let mut used: u64 = paging.resident.iter().map(|value| program.shape(*value).resident).sum();
    found.peak = used;
    for instruction in &paging.instructions {
        match instruction {
            Instruction::Run(step) => {
                let step = *step as usize;
                let ready = program.args(step).iter().fold(computed, |ready, arg| ready.max(there[arg.index()]));
                found.stalled += ready - computed;
                computed = ready + seconds[step] / cores;
                let result = program.result(step);
                there[result.index()] = computed;
                used += program.shape(result).resident;
                found.steps += 1;
                found.again += u64::from(std::mem::replace(&mut done[step], true));
            }
            Instruction::Load(value) => {
                let (shape, encoding) = (program.shape(*value), encodings[value.index()]);
                tier = tier.max(computed) + costs.read(shape.stored(encoding));
                let import = costs.import(shape, encoding) / cores;
                computed += import;
                there[value.index()] = tier + import;
                used += shape.resident;
                found.read += shape.stored(encoding);
            }
            Instruction::Store(value) => {
                let (shape, encoding) = (program.shape(*value), encodings[value.index()]);
                computed += costs.export(shape, encoding) / cores;
                tier = tier.max(computed) + costs.write(shape.stored(encoding));
                found.written += shape.stored(encoding);
            }
            Instruction::Drop(value) => used -= program.shape(*value).resident,
        }
        found.peak = found.peak.max(used);
    }
    found.seconds = computed.max(tier);
    found.stalled += found.seconds - computed;
    found.unlimited = seconds.iter().zip(&done).filter(|(_, done)| **done).map(|(seconds, _)| seconds / cores).sum();
    found
}

/// Bytes as readable text.
pub fn bytes(count: u64) -> String {
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| count >= *unit) {
        Some((unit, name)) => format!("{:.2} {name}", count as f64 / *unit as f64),
        None => format!("{count} B"),
    }
}

impl Plan {
    /// Bytes of a value in the tier.
    pub fn stored(&self, value: Value) -> u64 {
        self.program.shape(value).stored(self.encodings[value.index()])
    }

    /// Bytes in the tier at the end, when it holds most: nothing is removed before.
    pub fn kept(&self) -> u64 {
        let inputs = self.program.values().take(if self.inputs_stored { self.program.inputs().len() } else { 0 });
        let made = self.instructions.iter().filter_map(|instruction| match instruction {
            Instruction::Store(value) => Some(*value),
            _ => None,
        });
        inputs.chain(made).map(|value| self.stored(value)).fold(0, u64::saturating_add)
    }

    /// The plan as readable text: the site and the values, the steps, the moves with their reasons,
    /// and changes that would avoid them.
    pub fn explain<C: CostModel + ?Sized>(&self, costs: &C) -> String {
        let mut text = String::new();
        let _ = self.write(&mut text, costs);
        text
    }

    fn write<C: CostModel + ?Sized>(&self, text: &mut String, costs: &C) -> std::fmt::Result {
        let (program, f) = (&self.program, &self.forecast);
        let [all, _] = program.bytes();
        let site = &self.site;
        let cores = match site.unit {
            Unit::Cores(1) => "one core".to_owned(),
            Unit::Cores(cores) => format!("{cores} cores"),
            Unit::Accelerator => "an accelerator".to_owned(),
        };
        writeln!(
            text,
            "site {}: {cores}, {} for values{}",
            site.name,
            bytes(site.memory),
            if site.tier { ", a tier behind it" } else { "" }
        )?;
        let mut kinds: BTreeMap<(bool, Kind), (u64, u64, u64)> = BTreeMap::new();
        for value in program.values() {
            let (shape, kind) = (program.shape(value), (program.maker(value).is_some(), program.shape(value).kind));
            let sum = kinds.entry(kind).or_default();
            *sum = (sum.0 + 1, sum.1 + shape.resident, sum.2 + self.stored(value));
        }
        for ((made, kind), (count, resident, stored)) in kinds {
            let made = if made { "made" } else { "inputs" };
            let kind = format!("{kind:?}").to_lowercase();
            writeln!(
                text,
                "  {made:<6} {count:>8} {kind:<9}  {:>11} in memory, {:>11} in the tier",
                bytes(resident),
                bytes(stored)
            )?;
        }
        let mut ops: BTreeMap<&str, (u64, f64)> = BTreeMap::new();
        let seconds = cost::of_steps(program, costs);
        for (step, seconds) in program.steps().iter().zip(&seconds) {
            let sum = ops.entry(Op::name(step.op)).or_default();
            *sum = (sum.0 + 1, sum.1 + seconds);
        }
        writeln!(text, "steps, on one core:")?;
        for (name, (count, seconds)) in ops {
            writeln!(text, "  {name:<14} {count:>8}  {seconds:>9.3} s")?;
        }
        let extra = if f.unlimited > 0.0 { f.seconds / f.unlimited } else { 1.0 };
        writeln!(
            text,
            "forecast: {:.2} s, {extra:.3} of {:.2} s with all of {} in memory",
            f.seconds,
            f.unlimited,
            bytes(all)
        )?;
        writeln!(
            text,
            "  {} in memory at most; {} read and {} written; {:.2} s of waiting for the tier; {} steps done again",
            bytes(f.peak),
            bytes(f.read),
            bytes(f.written),
            f.stalled,
            f.again
        )?;
        self.write_why(text, costs)
    }

    /// The values that move most, and changes that would avoid it.
    fn write_why<C: CostModel + ?Sized>(&self, text: &mut String, costs: &C) -> std::fmt::Result {
        let (program, f) = (&self.program, &self.forecast);
        let mut loads = vec![0u64; program.len()];
        for instruction in &self.instructions {
            if let Instruction::Load(value) = instruction {
                loads[value.index()] += 1;
            }
        }
        let mut most: Vec<Value> = program.values().filter(|value| loads[value.index()] > 0).collect();
        most.sort_by_key(|value| std::cmp::Reverse(loads[value.index()] * self.stored(*value)));
        for value in most.iter().take(5) {
            let times = loads[value.index()];
            let name = match program.maker(*value) {
                None => format!("input {}", program.inputs()[value.index()].name),
                Some(step) => format!("{value}, made by {}", program.steps()[step].op),
            };
            writeln!(
                text,
                "  {name}: read {times} times, {} each in {:.1} ms",
                bytes(self.stored(*value)),
                1e3 * costs.read(self.stored(*value))
            )?;
        }
        let why = if self.instructions.iter().all(|i| !matches!(i, Instruction::Load(_))) {
            "everything fits: nothing moves"
        } else if f.stalled > 0.02 * f.seconds {
            "the tier is the limit: a faster one, or more memory, would help"
        } else {
            "the tier keeps up: a faster one would change nothing"
        };
        writeln!(text, "{why}")
    }
}
