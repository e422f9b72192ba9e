//! A plan on its way: a state machine that is asked what to do and told what was done.
//!
//! **In order, and all at once.** Instructions are admitted in the plan's order, each when there is
//! memory for what it brings; whatever was admitted and has its arguments is done in any order, by
//! any number of equivalent units that pull from one queue, while moves to and from the tier go on.
//! The plan is sound in order, so the next instruction always gets its memory once those before it
//! are done: there is no way to get stuck, and at no moment is more in memory than the site has.
//!
//! Times are handed in; nothing here reads a clock.

use crate::check::CheckedPlan;
use crate::page::Instruction;
use crate::program::Value;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Number of an instruction in a plan.
pub type Index = u32;

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The instruction: what [`Runner::finished`] is told.
    pub index: Index,
    /// What it says.
    pub instruction: Instruction,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Steps that are done.
    pub steps: u64,
    /// All steps.
    pub of: u64,
    /// Bytes from the tier.
    pub read: u64,
    /// Bytes to the tier.
    pub written: u64,
    /// Bytes of values in memory now.
    pub memory: u64,
    /// Bytes of values in memory at most.
    pub peak: u64,
    /// Part of the instructions that is done, from 0 to 1.
    pub part: f64,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Runner<'a> {
    plan: &'a CheckedPlan,
    /// For each instruction, how many others must be done before it.
    missing: Vec<u32>,
    /// For each instruction, those that wait for it.
    waiting: Vec<Vec<Index>>,
    admitted: usize,
    compute: BinaryHeap<Reverse<Index>>,
    loads: VecDeque<Index>,
    stores: VecDeque<Index>,
    done: usize,
    progress: Progress,
    cancelled: bool,
    running: usize,
    dropped: Vec<Value>,
}

impl<'a> Runner<'a> {
    /// Nothing done yet. Gives inputs that leave memory at once, too.
    pub fn new(plan: &'a CheckedPlan) -> (Self, Vec<Value>) {
        let (missing, waiting) = dependencies(plan);
        let inner = plan.plan();
        let memory = inner.resident.iter().map(|value| inner.program.shape(*value).resident).sum();
        let of = inner.instructions.iter().filter(|i| matches!(i, Instruction::Run(_))).count() as u64;
        let progress = Progress { of, memory, peak: memory, ..Progress::default() };
        let mut runner = Self {
            plan,
            missing,
            waiting,
            admitted: 0,
            compute: BinaryHeap::new(),
            loads: VecDeque::new(),
            stores: VecDeque::new(),
            done: 0,
            progress,
            cancelled: false,
            running: 0,
            dropped: Vec::new(),
        };
        runner.admit();
        let dropped = std::mem::take(&mut runner.dropped);
        (runner, dropped)
    }

    fn instruction(&self, index: Index) -> Instruction {
        self.plan.plan().instructions[index as usize]
    }

    fn bytes(&self, value: Value) -> u64 {
        self.plan.plan().program.shape(value).resident
    }

    /// What an instruction brings into memory.
    fn brings(&self, instruction: Instruction) -> u64 {
        match instruction {
            Instruction::Run(step) => self.bytes(self.plan.plan().program.result(step as usize)),
            Instruction::Load(value) => self.bytes(value),
            Instruction::Store(_) | Instruction::Drop(_) => 0,
        }
    }

    fn admit(&mut self) {
        let capacity = self.plan.plan().site.memory;
        while self.admitted < self.missing.len() {
            let index = self.admitted as Index;
            let brings = self.brings(self.instruction(index));
            if brings > capacity - self.progress.memory {
                return;
            }
            self.progress.memory += brings;
            self.progress.peak = self.progress.peak.max(self.progress.memory);
            self.admitted += 1;
            if self.missing[index as usize] == 0 {
                self.ready(index);
            }
        }
    }

    /// An admitted instruction with nothing missing.
    fn ready(&mut self, index: Index) {
        match self.instruction(index) {
            Instruction::Run(_) => self.compute.push(Reverse(index)),
            Instruction::Load(_) => self.loads.push_back(index),
            Instruction::Store(_) => self.stores.push_back(index),
            Instruction::Drop(_) => self.complete(index),
        }
    }

    fn complete(&mut self, index: Index) {
        self.done += 1;
        if let Instruction::Drop(value) = self.instruction(index) {
            self.progress.memory -= self.bytes(value);
            self.dropped.push(value);
        }
        for next in std::mem::take(&mut self.waiting[index as usize]) {
            self.missing[next as usize] -= 1;
            if self.missing[next as usize] == 0 && (next as usize) < self.admitted {
                self.ready(next);
            }
        }
    }

    fn start(&mut self, index: Index) -> Work {
        self.running += 1;
        Work { index, instruction: self.instruction(index) }
    }

    /// A step for a unit that has nothing to do; the earliest in the plan.
    pub fn next_step(&mut self) -> Option<Work> {
        if self.cancelled {
            return None;
        }
        let Reverse(index) = self.compute.pop()?;
        Some(self.start(index))
    }

    /// Whether nothing but a step that was started still has use for a value: the plan drops it
    /// next, and all other users are done.
    pub fn is_last_user(&self, work: Work, value: Value) -> bool {
        self.waiting[work.index as usize]
            .iter()
            .any(|next| self.missing[*next as usize] == 1 && self.instruction(*next) == Instruction::Drop(value))
    }

    /// A value that can be read now, in the plan's order.
    pub fn next_load(&mut self) -> Option<Work> {
        if self.cancelled {
            return None;
        }
        let index = self.loads.pop_front()?;
        Some(self.start(index))
    }

    /// A load that was not begun after all: the next one, again.
    pub fn put_back_load(&mut self, work: Work) {
        self.running = self.running.saturating_sub(1);
        self.loads.push_front(work.index);
    }

    /// A value that can be written now, in the plan's order.
    pub fn next_store(&mut self) -> Option<Work> {
        if self.cancelled {
            return None;
        }
        let index = self.stores.pop_front()?;
        Some(self.start(index))
    }

    /// Something that was started is done. Gives the values that leave memory by it: whoever has
    /// them lets them go before asking for more.
    pub fn finished(&mut self, work: Work) -> Vec<Value> {
        debug_assert!(self.running > 0 && self.missing[work.index as usize] == 0);
        self.running = self.running.saturating_sub(1);
        let plan = self.plan.plan();
        match work.instruction {
            Instruction::Run(_) => self.progress.steps += 1,
            Instruction::Load(value) => self.progress.read = self.progress.read.saturating_add(plan.stored(value)),
            Instruction::Store(value) => {
                self.progress.written = self.progress.written.saturating_add(plan.stored(value));
            }
            Instruction::Drop(_) => {}
        }
        self.complete(work.index);
        self.admit();
        std::mem::take(&mut self.dropped)
    }

    /// Nothing more is started.
    pub fn cancel(&mut self) {
        self.cancelled = true;
    }

    /// Whether everything is done.
    pub fn is_done(&self) -> bool {
        self.done == self.missing.len()
    }

    /// Whether nothing is done and nothing can be: cancelled, with nothing under way.
    pub fn is_stopped(&self) -> bool {
        self.cancelled && self.running == 0
    }

    /// Whether something was started that is not finished.
    pub fn is_busy(&self) -> bool {
        self.running > 0
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let all = self.missing.len().max(1) as f64;
        Progress { part: self.done as f64 / all, ..self.progress }
    }
}

/// What each instruction waits for: a step for its arguments, a load for the copy and for the
/// value's place, a store for the value, a drop for all that uses the value.
fn dependencies(plan: &CheckedPlan) -> (Vec<u32>, Vec<Vec<Index>>) {
    let inner = plan.plan();
    let (program, count) = (&inner.program, inner.instructions.len());
    let (mut missing, mut waiting) = (vec![0u32; count], vec![Vec::new(); count]);
    // of each value: what brought it, what used it since, what stored it, what dropped it last
    let mut brought: Vec<Option<Index>> = vec![None; program.len()];
    let mut users: Vec<Vec<Index>> = vec![Vec::new(); program.len()];
    let mut copied: Vec<Option<Index>> = vec![None; program.len()];
    let mut dropped: Vec<Option<Index>> = vec![None; program.len()];
    let mut wait = |index: Index, on: Option<Index>| {
        if let Some(on) = on {
            missing[index as usize] += 1;
            waiting[on as usize].push(index);
        }
    };
    for (index, instruction) in inner.instructions.iter().enumerate() {
        let index = index as Index;
        match instruction {
            Instruction::Run(step) => {
                let args = program.args(*step as usize);
                for (_, arg) in args.iter().enumerate().filter(|(i, arg)| !args[..*i].contains(arg)) {
                    wait(index, brought[arg.index()]);
                    users[arg.index()].push(index);
                }
                let result = program.result(*step as usize);
                wait(index, dropped[result.index()]);
                brought[result.index()] = Some(index);
                users[result.index()].clear();
            }
            Instruction::Load(value) => {
                wait(index, copied[value.index()]);
                wait(index, dropped[value.index()]);
                brought[value.index()] = Some(index);
                users[value.index()].clear();
            }
            Instruction::Store(value) => {
                wait(index, brought[value.index()]);
                copied[value.index()] = Some(index);
                users[value.index()].push(index);
            }
            Instruction::Drop(value) => {
                let users = std::mem::take(&mut users[value.index()]);
                if users.is_empty() {
                    wait(index, brought[value.index()]);
                }
                users.into_iter().for_each(|user| wait(index, Some(user)));
                dropped[value.index()] = Some(index);
            }
        }
    }
    (missing, waiting)
}
