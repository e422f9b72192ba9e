//! Runs a plan: a state machine that hands out work and receives reports of finished work.
//!
//! **In order, and in parallel.** Instructions are admitted in the plan's order, each when there is
//! memory for its result. Admitted instructions with all their arguments run in any order, on any
//! number of equivalent units that pull from one queue, while moves to and from the tier go on. The
//! plan is sound in order, so the next instruction always gets its memory once those before it are
//! done. So a run cannot deadlock, and never has more in memory than the site has.
//!
//! Times are arguments; nothing here reads a clock.

use crate::check::CheckedPlan;
use crate::page::Instruction;
use crate::program::Value;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The number of an instruction in a plan.
pub type Index = u32;

/// One instruction to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The number of the instruction, for [`Runner::finished`].
    pub index: Index,
    /// The instruction.
    pub instruction: Instruction,
}

/// Progress of a run.
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
    /// The largest number of bytes of values in memory so far.
    pub peak: u64,
    /// The finished part of the instructions, from 0 to 1.
    pub part: f64,
}

/// A run of a plan.
#[derive(Clone, Debug)]
pub struct Runner<'a> {
    plan: &'a CheckedPlan,
    /// For each instruction, how many others must end before it.
    missing: Vec<u32>,
    /// For each instruction, the instructions that wait for it.
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
    /// A new run, and the inputs that leave memory at once.
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

    /// The bytes that an instruction adds to memory.
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

    /// Queues an admitted instruction with nothing missing.
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

    /// A step for an idle unit; the earliest in the plan.
    pub fn next_step(&mut self) -> Option<Work> {
        if self.cancelled {
            return None;
        }
        let Reverse(index) = self.compute.pop()?;
        Some(self.start(index))
    }

    /// Whether only a started step still needs a value: the plan drops the value next, and all its
    /// other users are done.
    pub fn is_last_user(&self, work: Work, value: Value) -> bool {
        self.waiting[work.index as usize]
            .iter()
            .any(|next| self.missing[*next as usize] == 1 && self.instruction(*next) == Instruction::Drop(value))
    }

    /// The next value that can be read now, in the plan's order.
    pub fn next_load(&mut self) -> Option<Work> {
        if self.cancelled {
            return None;
        }
        let index = self.loads.pop_front()?;
        Some(self.start(index))
    }

    /// Returns a load that was not begun; it will be the next one again.
    pub fn put_back_load(&mut self, work: Work) {
        self.running = self.running.saturating_sub(1);
        self.loads.push_front(work.index);
    }

    /// The next value that can be written now, in the plan's order.
    pub fn next_store(&mut self) -> Option<Work> {
        if self.cancelled {
            return None;
        }
        let index = self.stores.pop_front()?;
        Some(self.start(index))
    }

    /// Ends a started instruction. Returns the values that leave memory; the caller frees them
    /// before it asks for more work.
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

    /// Starts nothing more.
    pub fn cancel(&mut self) {
        self.cancelled = true;
    }

    /// Whether everything is done.
    pub fn is_done(&self) -> bool {
        self.done == self.missing.len()
    }

    /// Whether the run was cancelled and no started work is left.
    pub fn is_stopped(&self) -> bool {
        self.cancelled && self.running == 0
    }

    /// Whether started work is unfinished.
    pub fn is_busy(&self) -> bool {
        self.running > 0
    }

    /// Progress of the run.
    pub fn progress(&self) -> Progress {
        let all = self.missing.len().max(1) as f64;
        Progress { part: self.done as f64 / all, ..self.progress }
    }
}

/// The dependencies of each instruction: a step waits for its arguments, a load for the copy and
/// for the drop of the value, a store for the value, a drop for all users of the value.
fn dependencies(plan: &CheckedPlan) -> (Vec<u32>, Vec<Vec<Index>>) {
    let inner = plan.plan();
    let (program, count) = (&inner.program, inner.instructions.len());
    let (mut missing, mut waiting) = (vec![0u32; count], vec![Vec::new(); count]);
    // for each value: the instruction that made or loaded it, its users since, its store, its last
    // drop
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
