//! Paging: which values are in memory at which time.
//!
//! The program is known from end to end, and so is the next use of each value. Replacement can
//! therefore be Belady's (IBM Systems Journal 5, 1966): the value needed last leaves first. Values
//! differ in size and in the cost of their return. Among the values needed last, the one leaves
//! that frees most bytes for the seconds of its return. A value never changes, so it is written at
//! most once, right after it was made. A value that is not needed again is dropped and never
//! written; nor is a value that is cheaper to compute again from inputs than to write and read.
//!
//! Reads start early: the replacement plans with less memory than there is, by a window, and reads
//! move forward by as many bytes as the window has (Kumar, Culler, Popa, OSDI 2021, call it
//! backdating).
//!
//! The order of steps matters, too: [`order`] groups steps that use the same large value, a key or
//! a row of a matrix.
//!
//! Cost: `O((n + u) log n)` for `n` values and `u` uses.

use crate::cost::CostModel;
use crate::program::{Encoding, Program, Value};
use std::collections::{BTreeMap, BTreeSet};

/// One action of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Instruction {
    /// A step, for the first time or again.
    Run(u32),
    /// Copies a value from the tier into memory.
    Load(Value),
    /// Copies a value in memory to the tier.
    Store(Value),
    /// Removes a value from memory.
    Drop(Value),
}

/// Bytes for values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes in all.
    pub capacity: u64,
    /// The part of them for reads ahead of their use.
    pub window: u64,
}

impl Room {
    /// A quarter of `capacity`, at most 256 MiB, is for reading ahead.
    pub fn new(capacity: u64) -> Self {
        Self { capacity, window: (capacity / 4).min(256 << 20) }
    }
}

/// A step that does not fit into memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// The step alone needs more memory than there is.
    #[error("step {step} needs {needed} bytes for its arguments and its result, and there are {capacity}")]
    TooSmall {
        /// The step.
        step: usize,
        /// Bytes that it needs.
        needed: u64,
        /// Bytes for values, without the window for reading ahead.
        capacity: u64,
    },
}

/// Instructions, and the inputs in memory from the start. All inputs have copies in the tier unless
/// all are in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paging {
    /// The instructions, in order.
    pub instructions: Vec<Instruction>,
    /// Inputs in memory from the start.
    pub resident: Vec<Value>,
}

/// An order in which steps that share their largest argument, the anchor, are adjacent, and results
/// are used up as soon as possible.
///
/// First come steps that free at least as many bytes as they make, and steps that make the last
/// missing argument of a step. Then come steps with the same anchor as the last step, if their
/// other inputs were used before; while results fit `live` bytes, others, too. So a few vectors are
/// opened, as many as fit, and pass through all keys together before the next few are opened.
pub fn order(program: &Program, live: u64) -> Vec<u32> {
    let mut all = Ordering::new(program);
    let mut order = Vec::new();
    while let Some(step) = all.next(live) {
        all.run(step);
        order.push(step);
    }
    order
}

/// Steps that can run next, by their anchors.
#[derive(Default)]
struct Ready {
    /// By anchor, the steps whose other inputs were used before.
    by_anchor: BTreeMap<Option<Value>, BTreeSet<u32>>,
    /// All ready steps.
    all: BTreeSet<u32>,
}

impl Ready {
    fn insert(&mut self, anchor: Option<Value>, step: u32) {
        self.by_anchor.entry(anchor).or_default().insert(step);
        self.all.insert(step);
    }

    fn remove(&mut self, anchor: Option<Value>, step: u32) {
        self.all.remove(&step);
        if let Some(queue) = self.by_anchor.get_mut(&anchor) {
            queue.remove(&step);
        }
    }

    fn first(&self, anchor: Option<Value>) -> Option<u32> {
        self.by_anchor.get(&anchor)?.first().copied()
    }
}

/// The state while an order is built.
struct Ordering<'a> {
    program: &'a Program,
    anchors: Vec<Option<Value>>,
    /// The steps that use a value.
    users: Vec<Vec<u32>>,
    /// The number of users that have not run.
    left: Vec<u32>,
    /// For each step, the number of arguments without a value, and of unused inputs besides its
    /// anchor.
    missing: Vec<u32>,
    closed: Vec<u32>,
    opened: Vec<bool>,
    done: Vec<bool>,
    open: Ready,
    shut: Ready,
    /// Steps that free as much as they make, or make the last missing argument of a step whose
    /// other arguments wait.
    urgent: BTreeSet<u32>,
    /// Bytes of results that are still needed.
    bytes: u64,
    anchor: Option<Value>,
}

impl<'a> Ordering<'a> {
    fn new(program: &'a Program) -> Self {
        let (steps, needed) = (program.steps().len(), program.needed());
        let anchor = |step: usize| {
            let by_size = |arg: &&Value| (program.shape(**arg).resident, std::cmp::Reverse(**arg));
            program.args(step).iter().max_by_key(by_size).copied()
        };
        let mut all = Self {
            program,
            anchors: (0..steps).map(anchor).collect(),
            users: vec![Vec::new(); program.len()],
            left: vec![0; program.len()],
            missing: vec![0; steps],
            closed: vec![0; steps],
            opened: vec![false; program.len()],
            done: needed.iter().map(|needed| !needed).collect(),
            open: Ready::default(),
            shut: Ready::default(),
            urgent: BTreeSet::new(),
            bytes: 0,
            anchor: None,
        };
        for step in (0..steps).filter(|step| needed[*step]) {
            for arg in unique(program.args(step)) {
                all.users[arg.index()].push(step as u32);
                all.left[arg.index()] += 1;
                match program.maker(arg) {
                    Some(_) => all.missing[step] += 1,
                    None => all.closed[step] += u32::from(Some(arg) != all.anchors[step]),
                }
            }
        }
        program.outputs().iter().for_each(|output| all.left[output.index()] += 1);
        for step in (0..steps).filter(|step| needed[*step] && all.missing[*step] == 0).collect::<Vec<_>>() {
            all.enter(step as u32);
        }
        all
    }

    /// Whether a step frees at least as many bytes as it makes.
    fn shrinks(&self, step: u32) -> bool {
        let freed = |arg: Value| {
            let last = self.program.maker(arg).is_some() && self.left[arg.index()] == 1;
            if last { self.program.shape(arg).resident } else { 0 }
        };
        let freed: u64 = unique(self.program.args(step as usize)).map(freed).sum();
        freed >= self.program.shape(self.program.result(step as usize)).resident
    }

    fn enter(&mut self, step: u32) {
        let queue = if self.closed[step as usize] == 0 { &mut self.open } else { &mut self.shut };
        queue.insert(self.anchors[step as usize], step);
        if self.shrinks(step) || self.completes(step) {
            self.urgent.insert(step);
        }
    }

    /// Whether some step waits only for this one.
    fn completes(&self, step: u32) -> bool {
        let waits = |user: &u32| {
            let user = *user as usize;
            let made = |arg: &Value| self.program.maker(*arg).is_some_and(|maker| self.done[maker]);
            self.missing[user] == 1 && self.program.args(user).iter().any(made)
        };
        self.users[self.program.result(step as usize).index()].iter().any(waits)
    }

    fn next(&mut self, live: u64) -> Option<u32> {
        let room = self.bytes < live;
        let first = self.urgent.first().copied().or_else(|| self.open.first(self.anchor));
        let first = first.or_else(|| self.shut.first(self.anchor).filter(|_| room));
        first.or_else(|| self.open.all.first().copied()).or_else(|| self.shut.all.first().copied())
    }

    fn run(&mut self, step: u32) {
        let anchor = self.anchors[step as usize];
        self.open.remove(anchor, step);
        self.shut.remove(anchor, step);
        if !self.urgent.remove(&step) {
            self.anchor = anchor;
        }
        self.done[step as usize] = true;
        let result = self.program.result(step as usize);
        self.bytes += self.program.shape(result).resident;
        for arg in unique(self.program.args(step as usize)) {
            self.left[arg.index()] -= 1;
            let made = self.program.maker(arg).is_some();
            if made && self.left[arg.index()] == 0 {
                self.bytes -= self.program.shape(arg).resident;
            }
            if made && self.left[arg.index()] == 1 {
                self.last_user(arg);
            }
            if !made && !std::mem::replace(&mut self.opened[arg.index()], true) {
                self.open(arg);
            }
        }
        for user in std::mem::take(&mut self.users[result.index()]) {
            self.missing[user as usize] -= 1;
            match self.missing[user as usize] {
                0 => self.enter(user),
                1 => self.hurry(user),
                _ => {}
            }
            self.users[result.index()].push(user);
        }
    }

    /// A step now lacks only one argument: the step that makes it becomes urgent.
    fn hurry(&mut self, step: u32) {
        let makers = self.program.args(step as usize).iter().filter_map(|arg| self.program.maker(*arg));
        let maker = makers.into_iter().find(|maker| !self.done[*maker]);
        if let Some(maker) = maker.filter(|maker| self.missing[*maker] == 0) {
            self.urgent.insert(maker as u32);
        }
    }

    /// The only remaining user of a value may now free enough to be urgent.
    fn last_user(&mut self, value: Value) {
        let user = self.users[value.index()].iter().copied().find(|user| !self.done[*user as usize]);
        if let Some(user) = user.filter(|user| self.missing[*user as usize] == 0)
            && self.shrinks(user)
        {
            self.urgent.insert(user);
        }
    }

    /// Marks the first use of an input.
    fn open(&mut self, value: Value) {
        for user in self.users[value.index()].clone() {
            let anchor = self.anchors[user as usize];
            if Some(value) != anchor {
                self.closed[user as usize] -= 1;
                let ready = self.missing[user as usize] == 0 && !self.done[user as usize];
                if ready && self.closed[user as usize] == 0 {
                    self.shut.remove(anchor, user);
                    self.open.insert(anchor, user);
                }
            }
        }
    }
}

fn unique(args: &[Value]) -> impl Iterator<Item = Value> {
    args.iter().enumerate().filter(|(i, arg)| !args[..*i].contains(arg)).map(|(_, arg)| *arg)
}

/// The uses of each value, as positions in an order.
struct Uses {
    starts: Vec<u32>,
    positions: Vec<u32>,
    /// For each value, the number of past uses.
    past: Vec<u32>,
}

/// A position that is never reached.
const NEVER: u32 = u32::MAX;

impl Uses {
    fn new(program: &Program, order: &[u32]) -> Self {
        let mut starts = vec![0u32; program.len() + 1];
        let each = |work: &mut dyn FnMut(usize, u32)| {
            for (position, step) in order.iter().enumerate() {
                unique(program.args(*step as usize)).for_each(|arg| work(arg.index(), position as u32));
            }
            program.outputs().iter().for_each(|output| work(output.index(), order.len() as u32));
        };
        each(&mut |value, _| starts[value + 1] += 1);
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let (mut places, mut positions) = (starts.clone(), vec![0; starts[program.len()] as usize]);
        each(&mut |value, position| {
            positions[places[value] as usize] = position;
            places[value] += 1;
        });
        Self { starts, positions, past: vec![0; program.len()] }
    }

    /// The next use from `position` on.
    fn next(&mut self, value: Value, position: u32) -> u32 {
        let all = &self.positions[self.starts[value.index()] as usize..self.starts[value.index() + 1] as usize];
        let past = &mut self.past[value.index()];
        while (*past as usize) < all.len() && all[*past as usize] < position {
            *past += 1;
        }
        all.get(*past as usize).copied().unwrap_or(NEVER)
    }
}

/// The state of replacement while it follows an order.
struct Pager<'a, C: ?Sized> {
    program: &'a Program,
    costs: &'a C,
    seconds: &'a [f64],
    encodings: &'a [Encoding],
    capacity: u64,
    uses: Uses,
    /// Values in memory, by their next use.
    resident: BTreeSet<(u32, Value)>,
    next: Vec<u32>,
    used: u64,
    /// The value has a copy in the tier, or will get one right after it was made.
    stored: Vec<bool>,
    /// The value is computed again when it is needed.
    again: Vec<bool>,
    is_output: Vec<bool>,
    /// Where in `out` the value was made.
    made: Vec<u32>,
    pinned: Vec<Value>,
    out: Vec<Instruction>,
    to_store: Vec<Value>,
}

/// The number of compared values among those needed last.
const CANDIDATES: usize = 16;

/// Instructions for a program in an order, with `seconds` for each step and an encoding for each
/// value.
///
/// # Errors
/// [`PageError`] if a step does not fit.
pub fn page<C: CostModel + ?Sized>(
    program: &Program,
    order: &[u32],
    room: Room,
    costs: &C,
    seconds: &[f64],
    encodings: &[Encoding],
) -> Result<Paging, PageError> {
    let everything = program.bytes()[0];
    let room = if everything <= room.capacity { Room { window: 0, ..room } } else { room };
    let inputs = program.inputs().len();
    let mut stored = vec![false; program.len()];
    stored[..inputs].fill(everything > room.capacity);
    let mut is_output = vec![false; program.len()];
    program.outputs().iter().for_each(|output| is_output[output.index()] = true);
    let mut pager = Pager {
        program,
        costs,
        seconds,
        encodings,
        capacity: room.capacity - room.window,
        uses: Uses::new(program, order),
        resident: BTreeSet::new(),
        next: vec![NEVER; program.len()],
        used: 0,
        stored,
        again: vec![false; program.len()],
        is_output,
        made: vec![NEVER; program.len()],
        pinned: Vec::new(),
        out: Vec::new(),
        to_store: Vec::new(),
    };
    let resident = pager.begin();
    for (position, step) in order.iter().enumerate() {
        pager.step(*step, position as u32)?;
    }
    let paging = Paging { instructions: pager.finish(), resident };
    Ok(Paging { instructions: ahead(program, &paging.instructions, room.window), ..paging })
}

impl<C: CostModel + ?Sized> Pager<'_, C> {
    fn bytes(&self, value: Value) -> u64 {
        self.program.shape(value).resident
    }

    /// Loads as many inputs as fit, those needed first.
    fn begin(&mut self) -> Vec<Value> {
        let mut inputs: Vec<(u32, Value)> = Vec::new();
        for value in self.program.values().take(self.program.inputs().len()) {
            inputs.push((self.uses.next(value, 0), value));
        }
        inputs.sort_unstable();
        let mut resident = Vec::new();
        for (next, value) in inputs.into_iter().filter(|(next, _)| *next != NEVER) {
            if self.used + self.bytes(value) > self.capacity {
                break;
            }
            self.enter(value, next);
            resident.push(value);
        }
        resident
    }

    fn enter(&mut self, value: Value, next: u32) {
        self.used += self.bytes(value);
        self.next[value.index()] = next;
        self.resident.insert((next, value));
    }

    fn leave(&mut self, value: Value) {
        self.used -= self.bytes(value);
        self.resident.remove(&(self.next[value.index()], value));
        self.out.push(Instruction::Drop(value));
    }

    fn is_resident(&self, value: Value) -> bool {
        self.resident.contains(&(self.next[value.index()], value))
    }

    /// Makes room for `bytes`, for step `step` at `position`.
    fn make_room(&mut self, bytes: u64, step: u32, position: u32) -> Result<(), PageError> {
        while self.used + bytes > self.capacity {
            let Some(value) = self.victim(position) else {
                let needed = self.used + bytes;
                return Err(PageError::TooSmall { step: step as usize, needed, capacity: self.capacity });
            };
            if !self.stored[value.index()] && !self.again[value.index()] {
                if self.is_cheap(value) {
                    self.again[value.index()] = true;
                } else {
                    self.stored[value.index()] = true;
                    self.to_store.push(value);
                }
            }
            self.leave(value);
        }
        Ok(())
    }

    /// Among the values needed last, the one that frees most bytes times steps for the seconds of
    /// its return.
    fn victim(&self, position: u32) -> Option<Value> {
        let free = self.resident.iter().rev().filter(|(_, value)| !self.pinned.contains(value)).take(CANDIDATES);
        let score = |next: u32, value: Value| {
            let shape = self.program.shape(value);
            let encoding = self.encodings[value.index()];
            let mut seconds = self.costs.read(shape.stored(encoding)) + self.costs.import(shape, encoding);
            if !self.stored[value.index()] && !self.again[value.index()] {
                seconds += self.costs.write(shape.stored(encoding)) + self.costs.export(shape, encoding);
            }
            f64::from(next - position) * shape.resident as f64 / seconds
        };
        free.map(|(next, value)| (score(*next, *value), *value))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, value)| value)
    }

    /// Whether computing a value from inputs takes less time than writing and reading it.
    fn is_cheap(&self, value: Value) -> bool {
        let Some(step) = self.program.maker(value) else { return false };
        if self.is_output[value.index()] {
            return false; // an output must exist at the end
        }
        let shape = self.program.shape(value);
        let bytes = shape.stored(self.encodings[value.index()]);
        let moved = self.costs.write(bytes) + self.costs.read(bytes);
        self.seconds[step] < moved && self.program.args(step).iter().all(|arg| self.program.maker(*arg).is_none())
    }

    /// Brings a value into memory.
    fn need(&mut self, value: Value, step: u32, position: u32) -> Result<(), PageError> {
        if !self.is_resident(value) {
            let next = self.uses.next(value, position);
            if self.again[value.index()] {
                return self.compute_again(value, next, step, position);
            }
            self.make_room(self.bytes(value), step, position)?;
            self.out.push(Instruction::Load(value));
            self.enter(value, next);
        }
        Ok(())
    }

    fn compute_again(&mut self, value: Value, next: u32, step: u32, position: u32) -> Result<(), PageError> {
        let Some(maker) = self.program.maker(value) else { return Ok(()) };
        let pins = self.pinned.len();
        for arg in unique(self.program.args(maker)) {
            self.pinned.push(arg);
            self.need(arg, step, position)?;
        }
        self.make_room(self.bytes(value), step, position)?;
        self.out.push(Instruction::Run(maker as u32));
        self.enter(value, next);
        self.pinned.truncate(pins);
        for arg in unique(self.program.args(maker)) {
            self.drop_if_dead(arg, position);
        }
        Ok(())
    }

    fn drop_if_dead(&mut self, value: Value, position: u32) {
        if self.is_resident(value) && !self.pinned.contains(&value) && self.uses.next(value, position) == NEVER {
            self.leave(value);
        }
    }

    fn step(&mut self, step: u32, position: u32) -> Result<(), PageError> {
        let args: Vec<Value> = unique(self.program.args(step as usize)).collect();
        self.pinned.clear();
        // arguments in memory stay there while the others are loaded
        self.pinned.extend(&args);
        for arg in &args {
            self.need(*arg, step, position)?;
        }
        let result = self.program.result(step as usize);
        self.make_room(self.bytes(result), step, position)?;
        self.made[result.index()] = self.out.len() as u32;
        self.out.push(Instruction::Run(step));
        self.pinned.clear();
        let next = self.uses.next(result, position + 1);
        self.enter(result, next);
        for value in args.into_iter().chain([result]) {
            let (old, new) = (self.next[value.index()], self.uses.next(value, position + 1));
            if new == NEVER {
                self.leave(value);
            } else if old != new {
                self.resident.remove(&(old, value));
                self.next[value.index()] = new;
                self.resident.insert((new, value));
            }
        }
        Ok(())
    }

    /// The instructions; each value that is stored is written right after it was made.
    fn finish(mut self) -> Vec<Instruction> {
        self.to_store.sort_unstable_by_key(|value| self.made[value.index()]);
        let (mut all, mut stores) =
            (Vec::with_capacity(self.out.len() + self.to_store.len()), self.to_store.iter().peekable());
        for (i, instruction) in self.out.iter().enumerate() {
            all.push(*instruction);
            while let Some(value) = stores.next_if(|value| self.made[value.index()] == i as u32) {
                all.push(Instruction::Store(*value));
            }
        }
        all
    }
}

/// Moves loads forward while the bytes read ahead fit `window`, but not to before the value has its
/// copy or has left memory.
fn ahead(program: &Program, instructions: &[Instruction], window: u64) -> Vec<Instruction> {
    let mut ready = vec![0u32; program.len()];
    let mut loads: Vec<(u32, Value, u32)> = Vec::new();
    for (i, instruction) in instructions.iter().enumerate() {
        match instruction {
            Instruction::Load(value) => loads.push((i as u32, *value, ready[value.index()])),
            Instruction::Store(value) | Instruction::Drop(value) => ready[value.index()] = i as u32 + 1,
            Instruction::Run(_) => {}
        }
    }
    let (mut all, mut early, mut hoisted, mut next) =
        (Vec::with_capacity(instructions.len()), vec![false; loads.len()], 0, 0);
    let mut place = 0;
    for (i, instruction) in instructions.iter().enumerate() {
        while let Some((at, value, from)) = loads.get(next) {
            let bytes = program.shape(*value).resident;
            if (*at as usize) < i {
                next += 1;
            } else if *from as usize <= i && hoisted + bytes <= window && (*at as usize) > i {
                all.push(Instruction::Load(*value));
                (early[next], hoisted, next) = (true, hoisted + bytes, next + 1);
            } else {
                break;
            }
        }
        match instruction {
            Instruction::Load(value) => {
                if early[place] {
                    hoisted -= program.shape(*value).resident;
                } else {
                    all.push(*instruction);
                }
                place += 1;
            }
            other => all.push(*other),
        }
    }
    all
}
