//! A machine for tests: memory, a tier, and work that ends in any order.

use super::{Draw, ENGINE};
use crate::check::CheckedPlan;
use crate::clear::ClearValue;
use crate::engine::Engine;
use crate::page::Instruction;
use crate::plan::Plan;
use crate::program::{Program, Value};
use crate::run::{Runner, Work};
use std::collections::{BTreeMap, BTreeSet};

/// The state while a plan is followed, with the values themselves.
pub struct Bench<'a> {
    program: &'a Program,
    pub(super) memory: BTreeMap<Value, ClearValue>,
    pub(super) tier: BTreeMap<Value, ClearValue>,
}

impl<'a> Bench<'a> {
    fn new(plan: &'a Plan, inputs: &[ClearValue]) -> Self {
        let program = &plan.program;
        let all = || program.values().zip(inputs).map(|(value, input)| (value, input.clone()));
        let memory = all().filter(|(value, _)| plan.resident.contains(value)).collect();
        Self { program, memory, tier: all().filter(|_| plan.inputs_stored).collect() }
    }

    /// Whether the instruction is possible.
    fn can(&self, instruction: Instruction) -> bool {
        match instruction {
            Instruction::Run(step) => {
                let step = step as usize;
                let there = |args: &[Value]| args.iter().all(|arg| self.memory.contains_key(arg));
                step < self.program.steps().len()
                    && there(self.program.args(step))
                    && !self.memory.contains_key(&self.program.result(step))
            }
            Instruction::Load(value) => self.tier.contains_key(&value) && !self.memory.contains_key(&value),
            Instruction::Store(value) => self.memory.contains_key(&value) && !self.tier.contains_key(&value),
            Instruction::Drop(value) => self.memory.contains_key(&value),
        }
    }

    fn run(&mut self, instruction: Instruction) {
        match instruction {
            Instruction::Run(step) => {
                let step = step as usize;
                let args: Vec<&ClearValue> = self.program.args(step).iter().map(|arg| &self.memory[arg]).collect();
                let value = ENGINE.step(step, self.program.steps()[step].op, &args).unwrap();
                assert!(self.memory.insert(self.program.result(step), value).is_none());
            }
            Instruction::Load(value) => assert!(self.memory.insert(value, self.tier[&value].clone()).is_none()),
            Instruction::Store(value) => assert!(self.tier.insert(value, self.memory[&value].clone()).is_none()),
            Instruction::Drop(value) => assert!(self.memory.remove(&value).is_some()),
        }
    }

    /// Bytes of the values in memory.
    fn used(&self) -> u128 {
        self.memory.keys().map(|value| u128::from(self.program.shape(*value).resident)).sum()
    }

    /// The outputs; `None` if one is missing.
    fn outputs(&self) -> Option<Vec<ClearValue>> {
        let find = |output: &Value| self.memory.get(output).or_else(|| self.tier.get(output)).cloned();
        self.program.outputs().iter().map(find).collect()
    }
}

/// Runs a plan with `units` units and moves that end in random order. Returns the outputs, and the
/// largest number of bytes in memory.
///
/// # Panics
/// If the run is stuck, does something impossible, or has more in memory than the site.
pub fn run(checked: &CheckedPlan, inputs: &[ClearValue], units: usize, draw: &mut Draw<'_>) -> (Vec<ClearValue>, u64) {
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
        assert!(bench.used() <= u128::from(runner.progress().memory) && bench.used() <= u128::from(plan.site.memory));
    }
    (bench.outputs().unwrap(), runner.progress().peak)
}

/// Follows a plan with the values themselves, and calls `watch` with the state before the first
/// instruction and after each. `None` if the plan does something impossible, has too much in
/// memory, or loses an output.
pub fn simulate(plan: &Plan, inputs: &[ClearValue], mut watch: impl FnMut(&Bench<'_>)) -> Option<Vec<ClearValue>> {
    let resident: BTreeSet<Value> = plan.resident.iter().copied().collect();
    let inputs_only = resident.iter().all(|value| value.index() < plan.program.inputs().len());
    if !inputs_only || resident.len() != plan.resident.len() || plan.encodings.len() != plan.program.len() {
        return None;
    }
    let mut bench = Bench::new(plan, inputs);
    let fits = |bench: &Bench<'_>| (bench.used() <= u128::from(plan.site.memory)).then_some(());
    fits(&bench)?;
    watch(&bench);
    for instruction in &plan.instructions {
        bench.can(*instruction).then(|| bench.run(*instruction))?;
        fits(&bench)?;
        watch(&bench);
    }
    bench.outputs()
}
