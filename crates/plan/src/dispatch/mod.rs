//! Assigns items to engines that could all do them: CPU workers, and modules that get items handed
//! over.
//!
//! The dispatcher is a state machine. [`Dispatcher::submit`] adds an item; each free worker asks
//! for work with [`Dispatcher::take`] and reports the outcome with [`Dispatcher::finish`] or
//! [`Dispatcher::fail`]. Times are arguments; the machine around it manages buffers, threads and
//! rings. Several workers may do the same item, on the same bytes and with the same result; it is
//! *published* exactly once, by the first worker to finish it.
//!
//! The question comes from a processor with a crypto module (IPSJ Journal 56(9), 2015). A queue
//! from which both pull is twice as fast as the CPU alone at 16 KB, and slower below 2 KB, because
//! handing over costs the CPU more than the computation. All costs are per item: `c` on the CPU,
//! `o(k)` for the CPU to hand over `k` at once, and `d` on the module. The highest throughput per
//! second is
//!
//! ```text
//! max x_c + x_d   subject to   x_c · c + x_d · o(k) ≤ CPU workers,   x_d · d ≤ 1
//! ```
//!
//! The solution: the module does nothing if `o(k) ≥ c`. Otherwise it does all it can, and the CPU
//! works in the time that is left: none, if handing over takes all of it. [`Policy::Best`] does
//! that with costs that it keeps measuring. It takes long items for the module and short ones for
//! the CPU, hands out smaller parts towards the end, and starts nothing that another worker would
//! finish sooner. In long runs it tries each kind alone now and then, for less than a hundredth of
//! the time, and prefers the measured winner to the model.
//!
//! | policy | assignment |
//! |---|---|
//! | `cpu`, `module` | one kind of worker does all |
//! | `round-robin` | items are dealt in turn on arrival |
//! | `weighted` | the same, in proportion to the speeds in the model |
//! | `queue` | one queue, the next free worker takes the next item: the policy of the paper |
//! | `polling` | the same, and the machine does not sleep while it waits |
//! | `best` | described above |
//!
//! Under every policy, other workers do the items of a worker that died or is late, if need be of a
//! kind that the policy leaves out.

mod best;
mod cost;
mod policy;
mod slots;
mod waiting;

pub use cost::{Cost, Model};
pub use policy::Policy;

use best::Arms;
use cost::{CLASSES, Drift};
use slots::{Slots, State};
use std::collections::VecDeque;
use waiting::{End, Most, Place, Waiting};

/// The largest number of workers.
pub const MAX_WORKERS: usize = 64;

/// A worker that is this late with its first batch counts as stalled: more than one turn of the
/// scheduler is no error of the model.
const STANDS_NS: u64 = 1_000_000;

/// The kind of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A thread that computes items itself.
    Cpu,
    /// A device that gets items handed over.
    Module,
}

/// Limits on memory, batches and patience.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of submitted items that some worker still holds or that wait. One larger item may be
    /// in flight alone.
    pub in_flight_bytes: u64,
    /// The most items that a CPU worker takes at once.
    pub cpu_items: u32,
    /// Items that a CPU worker computes side by side, if fewer take as long: [`Policy::Best`] gives
    /// it full groups of this size.
    pub cpu_lanes: u32,
    /// The most items that a module gets at once.
    pub module_items: u32,
    /// The most bytes that either takes at once, unless one item is larger.
    pub batch_bytes: u64,
    /// Batches that a module has at once: with two it does not wait for the next.
    pub module_batches: u32,
    /// A batch may end later than expected by these nanoseconds plus four times its expected time.
    /// After that, other workers do its items, too.
    pub patience_ns: u64,
    /// Further nanoseconds before a module is given up, so that the memory of its items is free
    /// again.
    pub give_up_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight_bytes: 8 << 20,
            cpu_items: 1024,
            cpu_lanes: 16,
            module_items: 64,
            batch_bytes: 256 << 10,
            module_batches: 2,
            patience_ns: 20_000_000,
            give_up_ns: 2_000_000_000,
        }
    }
}

/// A submitted item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle {
    slot: u32,
    generation: u32,
}

impl Handle {
    /// The slot: below the largest number of items ever in flight at once. It is reused after all
    /// workers have released the item.
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

/// Why an item was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// There is no room until an item is released.
    #[error("expected room for {found} bytes, found {room}")]
    Full {
        /// Bytes of the item.
        found: u32,
        /// Bytes that are free.
        room: u64,
    },
    /// No item is accepted after [`Dispatcher::close`].
    #[error("expected no item after the last one")]
    Closed,
}

/// Work for a free worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// The items that were handed out.
    Batch(Batch),
    /// Nothing now. Ask again after any event, and at the latest at this time.
    Wait {
        /// In nanoseconds, as `now`.
        until_ns: Option<u64>,
    },
    /// Nothing any more: all items are published.
    End,
}

/// A batch of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Batch(u64);

/// The times of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// From its start to its end. For a module: from the end of the handover, or of the batch
    /// before, to the arrival of the results.
    pub wall_ns: u64,
    /// Time that the worker's thread computed: for a module, handing over, fetching and checking.
    pub cpu_ns: u64,
    /// Elapsed time for that computation: longer if another program wanted the core.
    pub wanted_ns: u64,
}

/// The work of one worker so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Items that it was the first to finish.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Items that another worker had finished before.
    pub late_items: u64,
    /// Batches.
    pub batches: u64,
    /// Batches that were late.
    pub stalls: u64,
    /// Whether the worker gets no more work.
    pub dead: bool,
}

#[derive(Clone, Debug)]
struct Held {
    batch: Batch,
    items: Vec<Handle>,
    /// A typical length in the batch, and its expected time: by the model, and with drift.
    typical: u32,
    model_ns: f64,
    model_cpu_ns: f64,
    expected_end_ns: u64,
    deadline_ns: u64,
    late: bool,
}

impl Held {
    fn gives_up_at(&self, limits: &Limits) -> u64 {
        self.deadline_ns.saturating_add(limits.give_up_ns)
    }
}

#[derive(Clone, Debug)]
struct Worker {
    unit: Unit,
    held: VecDeque<Held>,
    dead: bool,
    done: Done,
    /// Of the time of the computation: for a module, the device's.
    drift: Drift,
    /// Of the time for handing over.
    handing_drift: Drift,
    /// Part of the time in which it computes: in the rest, another program has the core.
    available: f64,
    credit: f64,
    /// By class: how often in a row a try did not pay.
    doubts: [u8; CLASSES],
}

impl Worker {
    fn new(unit: Unit, available: f64) -> Self {
        Self {
            unit,
            held: VecDeque::new(),
            dead: false,
            done: Done::default(),
            drift: Drift::none(),
            handing_drift: Drift::none(),
            available: available.clamp(0.02, 1.0),
            credit: 0.0,
            doubts: [0; CLASSES],
        }
    }

    fn is_late(&self) -> bool {
        self.held.iter().any(|held| held.late)
    }

    /// When the worker will have finished its batches, as far as is known: a stalled worker is
    /// expected to stall for as long again.
    fn free_at(&self, now: u64) -> u64 {
        let late = self.held.front().map_or(0, |first| now.saturating_sub(first.expected_end_ns));
        let ends = self.held.iter().map(|held| held.expected_end_ns).max().unwrap_or(now).max(now);
        ends.saturating_add(if late > STANDS_NS { late } else { 0 })
    }
}

/// The state machine that assigns items to workers.
///
/// ```
/// use tobari_plan::dispatch::{Cost, Dispatcher, Limits, Model, Policy, Report, Take, Unit};
///
/// let model = Model::cpu_only(Cost::linear(100.0, 20.0, 0.1));
/// let mut dispatcher = Dispatcher::new(Policy::Best, &[Unit::Cpu], Limits::default(), model);
/// let item = dispatcher.submit(4096).expect("there is room");
/// dispatcher.close();
/// let mut items = Vec::new();
/// let Take::Batch(batch) = dispatcher.take(0, 0, &mut items) else { panic!("there is work") };
/// assert_eq!(items, [item]);
/// let mut published = Vec::new();
/// dispatcher.finish(0, batch, Report { wall_ns: 500, cpu_ns: 500, wanted_ns: 500 }, 500, &mut published);
/// assert_eq!(published, [item]);
/// assert_eq!(dispatcher.take(0, 500, &mut items), Take::End);
/// ```
#[derive(Clone, Debug)]
pub struct Dispatcher {
    policy: Policy,
    limits: Limits,
    model: Model,
    workers: Vec<Worker>,
    slots: Slots,
    waiting: Waiting,
    closed: bool,
    batches: u64,
    next_dealt: usize,
    arms: Arms,
    /// Part of a core that no other program takes.
    core_available: f64,
}

impl Dispatcher {
    /// An empty dispatcher. Workers have the numbers of their places in `units`; those beyond
    /// [`MAX_WORKERS`] get nothing.
    pub fn new(policy: Policy, units: &[Unit], limits: Limits, model: Model) -> Self {
        let workers: Vec<_> = units.iter().take(MAX_WORKERS).map(|unit| Worker::new(*unit, model.available)).collect();
        Self {
            policy,
            limits,
            slots: Slots::default(),
            waiting: Waiting::new(workers.len()),
            workers,
            closed: false,
            batches: 0,
            next_dealt: 0,
            arms: Arms::default(),
            core_available: model.available.clamp(0.02, 1.0),
            model,
        }
    }

    /// Bytes that can be accepted now.
    pub fn room(&self) -> u64 {
        self.limits.in_flight_bytes.saturating_sub(self.slots.bytes)
    }

    /// Bytes of all items that wait or that some worker still holds.
    pub fn in_flight_bytes(&self) -> u64 {
        self.slots.bytes
    }

    /// Items without a result.
    pub fn open_items(&self) -> usize {
        self.slots.open
    }

    /// The work of one worker so far.
    pub fn done(&self, worker: usize) -> Done {
        self.workers.get(worker).map_or_else(Done::default, |worker| Done { dead: worker.dead, ..worker.done })
    }

    /// Accepts an item.
    ///
    /// # Errors
    /// [`SubmitError`].
    pub fn submit(&mut self, bytes: u32) -> Result<Handle, SubmitError> {
        if self.closed {
            return Err(SubmitError::Closed);
        }
        let room = self.room();
        if u64::from(bytes) > room && self.slots.bytes > 0 {
            return Err(SubmitError::Full { found: bytes, room });
        }
        let handle = self.slots.insert(bytes);
        let place = self.place(bytes);
        self.waiting.push(place, handle, bytes);
        Ok(handle)
    }

    /// Declares that no item will follow. Returns whether that was known already.
    pub fn close(&mut self) -> bool {
        std::mem::replace(&mut self.closed, true)
    }

    /// Where an item waits.
    fn place(&mut self, bytes: u32) -> Place {
        match self.policy {
            Policy::Best => Place::ByLength,
            Policy::Cpu | Policy::Module | Policy::Queue | Policy::Polling => Place::InOrder,
            Policy::RoundRobin => {
                let count = self.workers.len().max(1);
                let turn = (0..count).map(|step| (self.next_dealt + step) % count);
                let worker = turn.into_iter().find(|worker| self.is_alive(*worker)).unwrap_or(0);
                self.next_dealt = worker + 1;
                Place::Dealt(worker)
            }
            Policy::Weighted => Place::Dealt(self.next_by_weight(bytes)),
        }
    }

    fn is_alive(&self, worker: usize) -> bool {
        self.workers.get(worker).is_some_and(|worker| !worker.dead)
    }

    /// Each worker earns credit by its speed; the one with most credit takes the item and pays for
    /// all.
    fn next_by_weight(&mut self, bytes: u32) -> usize {
        let per_batch = f64::from(self.limits.module_items.max(1));
        let (cpu, module) =
            (self.model.cpu.item(bytes), self.model.device.item(bytes) + self.model.device.batch_ns / per_batch);
        let (mut best, mut all) = (0, 0.0);
        for (at, worker) in self.workers.iter_mut().enumerate().filter(|(_, worker)| !worker.dead) {
            let speed = 1.0 / if worker.unit == Unit::Cpu { cpu } else { module };
            worker.credit += speed;
            all += speed;
            best = at;
        }
        for (at, worker) in self.workers.iter().enumerate().filter(|(_, worker)| !worker.dead) {
            if worker.credit > self.workers[best].credit {
                best = at;
            }
        }
        if let Some(worker) = self.workers.get_mut(best) {
            worker.credit -= all;
        }
        best
    }

    /// Work for this worker; the items go into `items`, which is emptied first.
    pub fn take(&mut self, worker: usize, now_ns: u64, items: &mut Vec<Handle>) -> Take {
        items.clear();
        if self.closed && self.slots.open == 0 {
            return Take::End;
        }
        let wait = Take::Wait { until_ns: self.ask_again_at(now_ns) };
        let Some(asking) = self.workers.get(worker) else { return wait };
        let most = if asking.unit == Unit::Cpu { 1 } else { self.limits.module_batches.max(1) as usize };
        if asking.dead || asking.is_late() || asking.held.len() >= most {
            return wait;
        }
        match self.policy {
            Policy::Best => self.take_best(worker, now_ns, items),
            _ => self.take_plain(worker, items),
        }
        if items.is_empty() { wait } else { Take::Batch(self.hold(worker, now_ns, items)) }
    }

    /// The policies that ignore costs.
    fn take_plain(&mut self, worker: usize, items: &mut Vec<Handle>) {
        let unit = self.workers[worker].unit;
        let place = match self.policy {
            Policy::Cpu if unit == Unit::Module && self.any_useful(Unit::Cpu) => return,
            Policy::Module if unit == Unit::Cpu && self.any_useful(Unit::Module) => return,
            Policy::RoundRobin | Policy::Weighted => Place::Dealt(worker),
            _ => Place::InOrder,
        };
        let most = if unit == Unit::Cpu { self.limits.cpu_items } else { self.limits.module_items };
        self.fill(worker, place, End::Small, most, items);
    }

    /// Whether a worker of this kind is neither dead nor late.
    fn any_useful(&self, unit: Unit) -> bool {
        self.workers.iter().any(|worker| worker.unit == unit && !worker.dead && !worker.is_late())
    }

    /// Takes up to `most` items, and up to the bytes of a batch.
    fn fill(&mut self, worker: usize, place: Place, end: End, most: u32, items: &mut Vec<Handle>) {
        let most = Most { items: most.max(1) as usize, bytes: self.limits.batch_bytes };
        self.waiting.take(place, end, most, &mut self.slots, |slot| slot.holders |= 1 << worker, items);
    }

    /// Records the worker's new batch and its expected end.
    fn hold(&mut self, worker: usize, now: u64, items: &[Handle]) -> Batch {
        let bytes =
            items.iter().filter_map(|handle| self.slots.get(*handle)).map(|slot| u64::from(slot.bytes)).sum::<u64>();
        let typical = (bytes / items.len().max(1) as u64) as u32;
        let (work, handing) = match self.workers[worker].unit {
            Unit::Cpu => (&self.model.cpu, None),
            Unit::Module => (&self.model.device, Some(&self.model.handing)),
        };
        // As if all items had one length: a cost is nearly linear over the lengths of one batch.
        let sum = |cost: &Cost| cost.batch_ns + items.len() as f64 * cost.item(typical);
        let (model_ns, model_cpu_ns) = (sum(work), handing.map_or_else(|| sum(work), sum));
        let state = &mut self.workers[worker];
        let available = if state.unit == Unit::Cpu { state.available.max(0.02) } else { 1.0 };
        let mut expected = model_ns * state.drift.factor(typical) / available;
        if state.unit == Unit::Module {
            expected += model_cpu_ns * state.handing_drift.factor(typical);
        }
        let (batch, expected_end_ns) = (Batch(self.batches), state.free_at(now) + expected as u64);
        self.batches += 1;
        let patience = self.limits.patience_ns + 4 * expected as u64;
        let deadline_ns = expected_end_ns.saturating_add(patience);
        let items = items.to_vec();
        state.held.push_back(Held {
            batch,
            items,
            typical,
            model_ns,
            model_cpu_ns,
            expected_end_ns,
            deadline_ns,
            late: false,
        });
        batch
    }

    /// Ends a batch of a worker. Adds to `published` exactly the items whose results are to be
    /// used.
    pub fn finish(&mut self, worker: usize, batch: Batch, report: Report, now_ns: u64, published: &mut Vec<Handle>) {
        let Some(state) = self.workers.get_mut(worker) else { return };
        let Some(at) = state.held.iter().position(|held| held.batch == batch) else { return };
        let Some(held) = state.held.remove(at) else { return };
        state.done.batches += 1;
        state.learn(&held, report);
        let is_module = state.unit == Unit::Module;
        if is_module || !self.workers.iter().any(|worker| worker.unit == Unit::Module && !worker.held.is_empty()) {
            let (seen, long) = (report.cpu_ns as f64 / report.wanted_ns.max(1) as f64, report.wanted_ns as f64 / 2e5);
            self.core_available += long.min(0.25) * (seen.clamp(0.02, 1.0) - self.core_available);
        }
        let before = published.len();
        let done = &mut self.workers[worker].done;
        for handle in &held.items {
            let Some(finished) = self.slots.finish(*handle, worker) else { continue };
            if finished.first {
                done.items += 1;
                done.bytes += u64::from(finished.bytes);
                published.push(*handle);
            } else {
                done.late_items += 1;
            }
            if finished.waited {
                self.waiting.forget(finished.bytes);
            }
        }
        match self.workers[worker].unit {
            Unit::Cpu => self.forget_modules(held.typical, held.items.len()),
            Unit::Module => self.judge_module(worker, held.typical, held.items.len() as u32),
        }
        self.watch(held.typical, published.len() - before, now_ns);
    }

    /// The worker has died or gives wrong answers: it gets no more work, and others do its items.
    pub fn fail(&mut self, worker: usize) {
        let Some(state) = self.workers.get_mut(worker) else { return };
        state.dead = true;
        for held in std::mem::take(&mut state.held) {
            for handle in held.items {
                self.slots.release(handle, worker);
                self.again(handle);
            }
        }
        for (handle, bytes) in self.waiting.take_dealt(worker, &mut self.slots) {
            let place = self.place(bytes);
            self.slots.set_waiting(handle, true);
            self.waiting.push(place, handle, bytes);
        }
    }

    /// Finds late batches and lets others do their items, too; gives up modules that are much too
    /// late. Returns whether there were any.
    pub fn tick(&mut self, now_ns: u64) -> bool {
        let mut late = Vec::new();
        let mut lost = Vec::new();
        for (at, worker) in self.workers.iter_mut().enumerate().filter(|(_, worker)| !worker.dead) {
            for held in worker.held.iter_mut().filter(|held| held.deadline_ns <= now_ns) {
                if !held.late {
                    held.late = true;
                    worker.done.stalls += 1;
                    late.extend_from_slice(&held.items);
                }
                if worker.unit == Unit::Module && held.gives_up_at(&self.limits) <= now_ns {
                    lost.push(at);
                }
            }
        }
        late.iter().for_each(|handle| self.again(*handle));
        lost.iter().for_each(|worker| self.fail(*worker));
        !late.is_empty() || !lost.is_empty()
    }

    /// Puts the item back into the queue, unless it waits already or has a result.
    fn again(&mut self, handle: Handle) {
        let open = |slot: &&slots::Slot| slot.state == State::Open && !slot.waiting;
        let Some(bytes) = self.slots.get(handle).filter(open).map(|slot| slot.bytes) else { return };
        let place = match self.place(bytes) {
            // Not to the worker that is late with it.
            Place::Dealt(_) => Place::Dealt(self.next_useful()),
            place => place,
        };
        self.slots.set_waiting(handle, true);
        self.waiting.push(place, handle, bytes);
    }

    fn next_useful(&self) -> usize {
        let useful = |worker: &Worker| !worker.dead && !worker.is_late();
        let alive = self.workers.iter().position(|worker| !worker.dead);
        self.workers.iter().position(useful).or(alive).unwrap_or(0)
    }

    /// The next time at which a batch becomes late, or at which the best choice may change only
    /// because time has passed.
    fn ask_again_at(&self, now: u64) -> Option<u64> {
        let held = self.workers.iter().filter(|worker| !worker.dead).flat_map(|worker| &worker.held);
        let deadline = |held: &Held| if held.late { held.gives_up_at(&self.limits) } else { held.deadline_ns };
        let late = held.map(deadline).filter(|at| *at > now).min();
        let soon = (self.policy == Policy::Best && self.slots.open > 0).then_some(now + 1_000_000);
        late.into_iter().chain(soon).min()
    }
}

impl Worker {
    /// Updates the estimates from a measurement.
    fn learn(&mut self, held: &Held, report: Report) {
        let (wall, cpu) = (report.wall_ns.max(1) as f64, report.cpu_ns as f64);
        match self.unit {
            Unit::Cpu => {
                self.drift.measured(held.typical, cpu.max(1.0) / (held.model_ns * self.drift.factor(held.typical)));
                // A short batch says little about other programs that want the core.
                let (wanted, weight) = (report.wanted_ns.max(1) as f64, (wall / 2e6).min(0.25));
                self.available += weight * ((cpu / wanted).clamp(0.0, 1.0) - self.available);
            }
            Unit::Module => {
                let handing = held.model_cpu_ns * self.handing_drift.factor(held.typical);
                self.handing_drift.measured(held.typical, cpu.max(1.0) / handing);
                self.drift.measured(held.typical, wall / (held.model_ns * self.drift.factor(held.typical)));
            }
        }
    }
}
