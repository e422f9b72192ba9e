//! For tests of this crate and of others: random plaintext programs, a machine that follows plans,
//! errors of a planner, and the fuzz target of the check.

#![allow(clippy::unwrap_used, reason = "for tests")]

mod bench;
mod fuzz;
mod labelled;
mod mistakes;

pub use bench::{run, simulate};
pub use fuzz::{CheckResult, fuzz_check, judge};
pub use labelled::{Readers, Refusal, labelled, readers};
pub use mistakes::{change, disguise};

use crate::clear::{Arithmetic, ClearEngine, ClearValue};
use crate::cost::Costs;
use crate::engine::Engine;
use crate::plan::{Plan, plan};
use crate::program::{Input, Kind, Op, Program, Shape, Value};
use crate::site::{Secrecy, Site};
use std::collections::BTreeSet;

/// Vectors of four numbers.
pub const ENGINE: ClearEngine = ClearEngine { arithmetic: Arithmetic::Modulo(257), rows: 1, columns: 4 };

/// The source of the choices of tests.
pub enum Draw<'a> {
    /// A simple pseudorandom generator.
    Seed(u64),
    /// Bytes, for a fuzzer: one for each number, and zeros after the last.
    Bytes(&'a [u8]),
}

impl Draw<'_> {
    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        match self {
            Draw::Seed(state) => {
                *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                ((*state >> 33) as usize) % bound
            }
            Draw::Bytes(bytes) => {
                let Some((first, rest)) = bytes.split_first() else { return 0 };
                *bytes = rest;
                usize::from(*first) % bound
            }
        }
    }

    /// One element of a list.
    pub fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    /// Whether there are no bytes left.
    pub fn is_empty(&self) -> bool {
        matches!(self, Draw::Bytes([]))
    }
}

/// A plan with the least memory, from that of the site upwards, for which a plan exists.
pub fn squeezed(program: &Program, mut site: Site) -> Plan {
    loop {
        match plan(program.clone(), site.clone(), &Costs::unmeasured()) {
            Ok(plan) => return plan,
            Err(error) => assert!(site.memory < 100_000, "{error}"),
        }
        site.memory += site.memory / 4 + 10;
    }
}

/// A program with values of random sizes, and the values of its inputs.
pub fn program(seed: u64, inputs: usize, steps: usize) -> (Program, Vec<ClearValue>) {
    let (mut draw, mut program, mut values) = (Draw::Seed(seed), Program::default(), Vec::new());
    let shape = |draw: &mut Draw<'_>| {
        let resident = 1 + draw.below(100) as u64 * if draw.below(8) == 0 { 10 } else { 1 };
        Shape { kind: Kind::Plain, level: 0, resident, packed: 32, raw: 32 }
    };
    for i in 0..inputs {
        let input = Input { name: format!("input {i}"), shape: shape(&mut draw), secrecy: Secrecy::Public };
        program.add_input(input).unwrap();
        values.push(ENGINE.integers(&[(); 4].map(|()| draw.below(257) as i64)).unwrap());
    }
    for _ in 0..steps {
        let all: Vec<Value> = program.values().collect();
        let near = all.len().min(12);
        let arg = |draw: &mut Draw<'_>| match draw.below(3) {
            0 => all[draw.below(all.len())],
            _ => all[all.len() - 1 - draw.below(near)],
        };
        let (a, b, c, d) = (arg(&mut draw), arg(&mut draw), arg(&mut draw), arg(&mut draw));
        let (op, args) = match draw.below(6) {
            0 => (Op::Add, vec![a, b, c]),
            1 => (Op::Sub, vec![a, b]),
            2 => (Op::Mul, vec![a, b]),
            3 => (Op::Rotate(draw.below(5) as i64 - 2), vec![a]),
            4 => (Op::Dot, vec![a, b, c, d]),
            _ => (Op::Offset(3), vec![a]),
        };
        let shape = shape(&mut draw);
        program.add_step(op, &args, shape).unwrap();
    }
    let last = program.len() - 1;
    let outputs: BTreeSet<Value> =
        [last, last - draw.below(last.min(9)), draw.below(last)].map(|i| program.values().nth(i).unwrap()).into();
    program.set_outputs(&outputs.into_iter().collect::<Vec<_>>()).unwrap();
    (program, values)
}

/// The outputs, with everything in memory; `None` if a step has no plaintext result.
pub fn directly(program: &Program, inputs: &[ClearValue]) -> Option<Vec<ClearValue>> {
    let mut all = inputs.to_vec();
    for (step, what) in program.steps().iter().enumerate() {
        let args: Vec<&ClearValue> = program.args(step).iter().map(|arg| &all[arg.index()]).collect();
        let made = ENGINE.step(step, what.op, &args).ok()?;
        all.push(made);
    }
    Some(program.outputs().iter().map(|output| all[output.index()].clone()).collect())
}
