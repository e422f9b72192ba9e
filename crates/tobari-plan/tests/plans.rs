//! Random programs, planned, checked and run; and plans that are wrong.

#![allow(clippy::unwrap_used, reason = "a test")]

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tobari_plan::check::{CheckedPlan, Requirements};
use tobari_plan::clear::{Arithmetic, ClearEngine, ClearValue};
use tobari_plan::cost::Costs;
use tobari_plan::engine::{Direct, Engine, Machine};
use tobari_plan::page::Instruction;
use tobari_plan::plan::{Plan, plan};
use tobari_plan::program::{Input, Kind, Op, Program, Shape, Value};
use tobari_plan::run::{Runner, Work};
use tobari_plan::site::{Secrecy, Site};

const ENGINE: ClearEngine = ClearEngine { arithmetic: Arithmetic::Modulo(257), rows: 1, columns: 4 };

/// Numbers from a generator that is not worth a name.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        ((self.0 >> 33) as usize) % bound
    }
}

/// A program with values of random sizes, and the values of its inputs.
fn program(seed: u64, inputs: usize, steps: usize) -> (Program, Vec<ClearValue>) {
    let (mut draw, mut program, mut values) = (Draw(seed), Program::default(), Vec::new());
    let shape = |draw: &mut Draw| {
        let resident = 1 + draw.below(100) as u64 * if draw.below(8) == 0 { 10 } else { 1 };
        Shape { kind: Kind::Plain, level: 0, resident, stored: 32 }
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
fn directly(program: &Program, inputs: &[ClearValue]) -> Vec<ClearValue> {
    let mut machine = Direct::new(&ENGINE);
    let mut all: Vec<Arc<ClearValue>> = inputs.iter().cloned().map(Arc::new).collect();
    for (step, what) in program.steps().iter().enumerate() {
        let args: Vec<&Arc<ClearValue>> = program.args(step).iter().map(|arg| &all[arg.index()]).collect();
        let value = machine.step(what.op, &args).unwrap();
        all.push(value);
    }
    program.outputs().iter().map(|output| (*all[output.index()]).clone()).collect()
}

/// A machine for tests: memory, a tier, and work that ends in whatever order.
struct Bench<'a> {
    program: &'a Program,
    memory: BTreeMap<Value, ClearValue>,
    tier: BTreeMap<Value, Vec<u8>>,
}

impl<'a> Bench<'a> {
    fn new(plan: &'a Plan, inputs: &[ClearValue]) -> Self {
        let program = &plan.program;
        let mut bench = Self { program, memory: BTreeMap::new(), tier: BTreeMap::new() };
        for (value, input) in program.values().zip(inputs) {
            if plan.resident.contains(&value) {
                bench.memory.insert(value, input.clone());
            }
            if plan.inputs_stored {
                bench.store(value, input);
            }
        }
        bench
    }

    fn store(&mut self, value: Value, what: &ClearValue) {
        let mut bytes = vec![0; 32];
        ENGINE.export(what, self.program.shape(value), &mut bytes).unwrap();
        self.tier.insert(value, bytes);
    }

    fn run(&mut self, instruction: Instruction) {
        match instruction {
            Instruction::Run(step) => {
                let args: Vec<&ClearValue> =
                    self.program.args(step as usize).iter().map(|arg| &self.memory[arg]).collect();
                let value = ENGINE.step(step as usize, self.program.steps()[step as usize].op, &args).unwrap();
                assert!(self.memory.insert(self.program.result(step as usize), value).is_none());
            }
            Instruction::Load(value) => {
                let found = ENGINE.import(self.program.shape(value), &self.tier[&value]).unwrap();
                assert!(self.memory.insert(value, found).is_none());
            }
            Instruction::Store(value) => {
                let what = self.memory[&value].clone();
                self.store(value, &what);
            }
            Instruction::Drop(value) => assert!(self.memory.remove(&value).is_some()),
            _ => unreachable!(),
        }
    }

    fn outputs(&self) -> Vec<ClearValue> {
        let stored = |value: &Value| ENGINE.import(self.program.shape(*value), &self.tier[value]).unwrap();
        self.program
            .outputs()
            .iter()
            .map(|output| self.memory.get(output).cloned().unwrap_or_else(|| stored(output)))
            .collect()
    }
}

/// Runs a plan with `units` units and moves that end in random order.
fn run(checked: &CheckedPlan, inputs: &[ClearValue], units: usize, draw: &mut Draw) -> (Vec<ClearValue>, u64) {
    let plan = checked.plan();
    let (mut bench, (mut runner, dropped)) = (Bench::new(plan, inputs), Runner::new(checked));
    dropped.into_iter().for_each(|value| bench.run(Instruction::Drop(value)));
    let mut under_way: Vec<Work> = Vec::new();
    while !runner.is_done() {
        let steps = under_way.iter().filter(|work| matches!(work.instruction, Instruction::Run(_))).count();
        for _ in steps..units {
            under_way.extend(runner.next_step());
        }
        while let Some(work) = runner.next_load().or_else(|| runner.next_store()) {
            under_way.push(work);
        }
        assert!(!under_way.is_empty(), "a plan gets stuck");
        let work = under_way.swap_remove(draw.below(under_way.len()));
        bench.run(work.instruction);
        for value in runner.finished(work) {
            bench.run(Instruction::Drop(value));
        }
        let used: u64 = bench.memory.keys().map(|value| plan.program.shape(*value).resident).sum();
        assert!(used <= runner.progress().memory && used <= plan.site.memory);
    }
    (bench.outputs(), runner.progress().peak)
}

fn site(memory: u64) -> Site {
    Site::blind("test", 1, memory)
}

/// A plan with the least memory from `memory` on that there is a plan for.
fn squeezed(program: &Program, mut memory: u64) -> Plan {
    loop {
        match plan(program.clone(), site(memory), &Costs::unmeasured()) {
            Ok(plan) => return plan,
            Err(error) => assert!(memory < 100_000, "{error}"),
        }
        memory += memory / 4 + 10;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn limited_runs_in_any_order_give_what_unlimited_ones_give(
        seed: u64, inputs in 1usize..20, steps in 1usize..120, memory in 100u64..4000, units in 1usize..5,
    ) {
        let (program, values) = program(seed, inputs, steps);
        let expected = directly(&program, &values);
        let plan = squeezed(&program, memory);
        let (limit, forecast) = (plan.site.memory, plan.forecast);
        let checked = plan.check(&Requirements::default()).unwrap();
        let (found, peak) = run(&checked, &values, units, &mut Draw(seed ^ 77));
        prop_assert_eq!(found, expected);
        prop_assert!(peak <= limit && forecast.peak <= limit);
    }

    #[test]
    fn whatever_is_done_to_a_plan_the_check_agrees_with_a_simulator(
        seed: u64, inputs in 1usize..10, steps in 1usize..40, memory in 100u64..2000, changes in 1usize..4,
    ) {
        let (program, values) = program(seed, inputs, steps);
        let expected = directly(&program, &values);
        let (mut draw, mut plan) = (Draw(seed ^ 99), squeezed(&program, memory));
        for _ in 0..changes {
            change(&mut plan, &mut draw);
        }
        let sound = simulate(&plan, &values).is_some_and(|outputs| outputs == expected);
        let checked = plan.check(&Requirements::default());
        prop_assert_eq!(checked.is_ok(), sound, "{:?}", checked.err());
        if let Ok(checked) = checked {
            prop_assert_eq!(run(&checked, &values, 2, &mut draw).0, expected);
        }
    }
}

/// One mistake that a planner could make.
fn change(plan: &mut Plan, draw: &mut Draw) {
    let count = plan.instructions.len();
    let value = plan.program.values().nth(draw.below(plan.program.len())).unwrap();
    let (i, j) = (draw.below(count), draw.below(count));
    let other = match draw.below(4) {
        0 => Instruction::Run(draw.below(plan.program.steps().len()) as u32),
        1 => Instruction::Load(value),
        2 => Instruction::Store(value),
        _ => Instruction::Drop(value),
    };
    match draw.below(8) {
        0 if count > 1 => _ = plan.instructions.remove(i),
        1 => plan.instructions.swap(i, j),
        2 => plan.instructions.insert(i, plan.instructions[j]),
        3 => plan.instructions.insert(i, other),
        4 => plan.instructions[i] = other,
        5 if !plan.resident.is_empty() => _ = plan.resident.remove(draw.below(plan.resident.len())),
        6 => plan.site.memory -= plan.site.memory / 8,
        _ => plan.inputs_stored = !plan.inputs_stored,
    }
}

/// Follows a plan with the values themselves; none if it does something impossible.
fn simulate(plan: &Plan, inputs: &[ClearValue]) -> Option<Vec<ClearValue>> {
    let program = &plan.program;
    let mut bench = Bench::new(plan, inputs);
    let size = |memory: &BTreeMap<Value, ClearValue>| memory.keys().map(|v| program.shape(*v).resident).sum::<u64>();
    let mut most = size(&bench.memory);
    for instruction in &plan.instructions {
        let possible = match instruction {
            Instruction::Run(step) => {
                let there = program.args(*step as usize).iter().all(|arg| bench.memory.contains_key(arg));
                there && !bench.memory.contains_key(&program.result(*step as usize))
            }
            Instruction::Load(value) => bench.tier.contains_key(value) && !bench.memory.contains_key(value),
            Instruction::Store(value) => bench.memory.contains_key(value) && !bench.tier.contains_key(value),
            Instruction::Drop(value) => bench.memory.contains_key(value),
            _ => false,
        };
        if !possible {
            return None;
        }
        bench.run(*instruction);
        most = most.max(size(&bench.memory));
    }
    let there = |output: &Value| bench.memory.contains_key(output) || bench.tier.contains_key(output);
    (most <= plan.site.memory && program.outputs().iter().all(there)).then(|| bench.outputs())
}

#[test]
fn what_fits_does_not_move() {
    let (program, _) = program(5, 10, 50);
    let all = program.bytes()[0];
    let plan = plan(program, site(all), &Costs::unmeasured()).unwrap();
    assert_eq!((plan.forecast.read, plan.forecast.written, plan.forecast.again), (0, 0, 0));
    assert!(!plan.inputs_stored && plan.forecast.seconds == plan.forecast.unlimited);
}

#[test]
fn what_cannot_fit_is_refused_by_its_step() {
    let (program, _) = program(6, 10, 50);
    let error = plan(program.clone(), site(1), &Costs::unmeasured()).unwrap_err();
    assert!(error.to_string().contains("bytes for its arguments and its result, and there are 1"), "{error}");
    let mut nowhere = site(4_000);
    nowhere.tier = false;
    let error = plan(program, nowhere, &Costs::unmeasured()).unwrap_err();
    assert!(error.to_string().contains("tier"), "{error}");
}

#[test]
fn steps_with_one_key_are_done_one_after_another() {
    // 8 keys that are 10 times as large as what they are used for, used in turn by 32 chains
    let shape = |kind, resident| Shape { kind, level: 0, resident, stored: resident };
    let mut program = Program::default();
    let input = |program: &mut Program, kind, resident| {
        let input = Input { name: String::new(), shape: shape(kind, resident), secrecy: Secrecy::Public };
        program.add_input(input).unwrap()
    };
    let keys: Vec<Value> = (0..8).map(|_| input(&mut program, Kind::Plain, 1000)).collect();
    let vectors: Vec<Value> = (0..32).map(|_| input(&mut program, Kind::Plain, 100)).collect();
    let mut outputs = Vec::new();
    for vector in vectors {
        for key in &keys {
            outputs.push(program.add_step(Op::Mul, &[vector, *key], shape(Kind::Plain, 1)).unwrap());
        }
    }
    program.set_outputs(&outputs).unwrap();
    let plan = plan(program, site(6_000), &Costs::unmeasured()).unwrap();
    // 11,200 bytes of inputs, each once and little more
    assert!(plan.forecast.read < 12_000, "{:?}", plan.forecast);
    plan.check(&Requirements::default()).unwrap();
}
