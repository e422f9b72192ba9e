//! Random programs, planned, checked and run; and plans that are wrong.

#![allow(clippy::unwrap_used, reason = "a test")]

use proptest::prelude::*;
use std::collections::BTreeMap;
use tobari_plan::check::{CheckedPlan, Requirements};
use tobari_plan::clear::ClearValue;
use tobari_plan::cost::Costs;
use tobari_plan::engine::Engine;
use tobari_plan::page::Instruction;
use tobari_plan::plan::{Plan, plan};
use tobari_plan::program::{Encoding, Input, Kind, Op, Program, Shape, Value};
use tobari_plan::run::{Runner, Work};
use tobari_plan::site::{Secrecy, Site};
use tobari_plan::testing::{Draw, ENGINE, directly, program};

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
        ENGINE.export(what, self.program.shape(value), Encoding::Raw, &mut bytes).unwrap();
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
                let found = ENGINE.import(self.program.shape(value), Encoding::Raw, &self.tier[&value]).unwrap();
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
        let stored =
            |value: &Value| ENGINE.import(self.program.shape(*value), Encoding::Raw, &self.tier[value]).unwrap();
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
    let shape = |kind, resident| Shape { kind, level: 0, resident, packed: resident, raw: resident };
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
