//! For tests, of this crate and of others: random programs in the clear.

#![allow(clippy::unwrap_used, reason = "for tests")]

use crate::clear::{Arithmetic, ClearEngine, ClearValue};
use crate::engine::{Direct, Machine};
use crate::program::{Input, Kind, Op, Program, Shape, Value};
use crate::site::Secrecy;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Vectors of four numbers.
pub const ENGINE: ClearEngine = ClearEngine { arithmetic: Arithmetic::Modulo(257), rows: 1, columns: 4 };

/// Numbers from a generator that is not worth a name.
pub struct Draw(pub u64);

impl Draw {
    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        ((self.0 >> 33) as usize) % bound
    }
}

/// A program with values of random sizes, and the values of its inputs.
pub fn program(seed: u64, inputs: usize, steps: usize) -> (Program, Vec<ClearValue>) {
    let (mut draw, mut program, mut values) = (Draw(seed), Program::default(), Vec::new());
    let shape = |draw: &mut Draw| {
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
        let arg = |draw: &mut Draw| match draw.below(3) {
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

/// The outputs, with everything in memory.
pub fn directly(program: &Program, inputs: &[ClearValue]) -> Vec<ClearValue> {
    let mut machine = Direct::new(&ENGINE);
    let mut all: Vec<Arc<ClearValue>> = inputs.iter().cloned().map(Arc::new).collect();
    for (step, what) in program.steps().iter().enumerate() {
        let args: Vec<&Arc<ClearValue>> = program.args(step).iter().map(|arg| &all[arg.index()]).collect();
        let value = machine.step(what.op, &args).unwrap();
        all.push(value);
    }
    program.outputs().iter().map(|output| (*all[output.index()]).clone()).collect()
}
