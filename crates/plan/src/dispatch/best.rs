//! The policy that decides by costs.

use super::cost::class;
use super::waiting::{End, Place};
use super::{Cost, Dispatcher, Handle, Policy, Unit};

/// Handing over must cost the CPU less than this part of the computation: a smaller gain would
/// drown in unmeasured effects.
const WORTH: f64 = 0.9;
/// A module that could do less than this part of the work gets nothing.
const LEAST_SHARE: f64 = 0.02;
/// The same for CPU workers beside modules.
const LEAST_CPU_SHARE: f64 = 0.01;
/// Rates are measured over windows of this length.
const WINDOW_NS: u64 = 4_000_000;
/// After this many windows the dispatcher tries another arm, for one window after one that is not
/// counted: two of this many.
const WINDOWS: u32 = 250;
/// Another arm must be this much faster than both kinds together to be chosen.
const FASTER: f64 = 1.03;
/// A module that does not pay according to the model gets one item this often: the model may be
/// wrong.
const PROBE_NS: u64 = 250_000_000;
/// Where the model is in doubt, the test comes sooner. A module without a measurement of a length,
/// for which CPU workers would lose less than this factor, gets this part of the waiting items,
/// once. At worst the test costs half a percent of the whole, plus the fixed cost of a batch: at
/// most a tenth of a percent.
const DOUBT: f64 = 1.5;
const FIRST_PART: usize = 100;
const FIRST_BATCH: f64 = 1000.0;
/// The first batch of a CPU worker that has not done such items yet, when modules have: only the
/// modules' measurement includes the cost of cold memory by then.
const FIRST_OF_CPU: u32 = 32;
/// Part of a bad opinion of an idle module that is left after this much work of the CPU; each try
/// in vain halves the loss. A try may cost tens of microseconds, so the time for a thousand short
/// items must not allow several tries.
const REMEMBERED: f64 = 0.9;
const REMEMBERED_NS: f64 = 160_000.0;

/// The kinds of workers that may take items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Arm {
    /// Any worker, by costs.
    #[default]
    Both,
    Cpu,
    Module,
}

/// Compares, in long runs, the throughput of both kinds of engine together with each kind alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Arms {
    current: Arm,
    best: Arm,
    /// Work per nanosecond, in nanoseconds of the model's CPU: for both, for the CPU alone, for the
    /// modules alone.
    rates: [Option<f64>; 3],
    began_ns: u64,
    work_ns: f64,
    /// Batches from before the change of the arm are still running.
    settling: bool,
    /// A worker found nothing to take.
    starved: bool,
    windows: u32,
    last_tried: bool,
    probe_at_ns: u64,
}

impl Arms {
    fn leaves_out(&self, unit: Unit) -> bool {
        match unit {
            Unit::Cpu => self.current == Arm::Module,
            Unit::Module => self.current == Arm::Cpu,
        }
    }

    fn window_ends(&mut self, now: u64) {
        let rate = self.work_ns / (now - self.began_ns).max(1) as f64;
        if !self.settling && !self.starved {
            let known = &mut self.rates[self.current as usize];
            *known = Some(known.map_or(rate, |known| known + 0.3 * (rate - known)));
        }
        self.windows += 1;
        let before = self.current;
        if self.current != self.best && !self.settling {
            self.best = self.fastest();
            self.current = self.best;
        } else if self.windows >= WINDOWS {
            self.windows = 0;
            self.last_tried = !self.last_tried;
            let mut others = [Arm::Both, Arm::Cpu, Arm::Module].into_iter().filter(|arm| *arm != self.best);
            let other = if self.last_tried { others.next_back() } else { others.next() };
            self.current = other.unwrap_or_default();
        }
        self.settling = self.current != before;
        (self.began_ns, self.work_ns, self.starved) = (now, 0.0, false);
    }

    /// Both together, unless one kind alone was measured to be faster.
    fn fastest(&self) -> Arm {
        let Some(both) = self.rates[0] else { return Arm::Both };
        let [_, cpu, module] = self.rates.map(|rate| rate.unwrap_or(0.0));
        match cpu >= module {
            true if cpu > FASTER * both => Arm::Cpu,
            false if module > FASTER * both => Arm::Module,
            _ => Arm::Both,
        }
    }
}

/// Items of one length per nanosecond, in large numbers: for both kinds together, and for the CPU
/// workers without modules.
#[derive(Clone, Copy, Debug)]
struct Rates {
    cpu: f64,
    modules: f64,
    cpu_alone: f64,
}

impl Rates {
    /// Nanoseconds per item for all CPU workers together, beside modules.
    fn cpu_ns(&self) -> f64 {
        1.0 / self.cpu.max(self.cpu_alone / 100.0)
    }

    /// The same without modules.
    fn cpu_alone_ns(&self) -> f64 {
        1.0 / self.cpu_alone
    }

    /// Nanoseconds per item for all modules together.
    fn module_ns(&self) -> f64 {
        1.0 / self.modules.max(1e-12)
    }

    fn share_of_modules(&self) -> f64 {
        let cpu = self.cpu.max(self.cpu_alone / 100.0);
        self.modules / (cpu + self.modules)
    }
}

/// The number of items, at least one, with `begin + n · mine = others - n · theirs`.
fn balanced(begin: f64, mine: f64, others: f64, theirs: f64) -> u32 {
    ((others - begin) / (mine + theirs)).clamp(1.0, 1e9) as u32
}

impl Dispatcher {
    pub(super) fn take_best(&mut self, worker: usize, now: u64, items: &mut Vec<Handle>) {
        if self.waiting.count() == 0 {
            self.take_again(worker, now, items);
            return;
        }
        match self.workers[worker].unit {
            Unit::Cpu => self.take_for_cpu(worker, now, items),
            Unit::Module => self.take_for_module(worker, now, items),
        }
    }

    /// Workers of a kind that can get work.
    fn useful(&self, unit: Unit) -> impl Iterator<Item = &super::Worker> {
        self.workers.iter().filter(move |worker| worker.unit == unit && !worker.dead && !worker.is_late())
    }

    /// Whether there are more threads than cores: CPU workers, drivers, and the modules' own
    /// computation.
    fn is_crowded(&self) -> bool {
        let threads = |worker: &super::Worker| match worker.unit {
            Unit::Cpu => 1.0,
            Unit::Module => 1.0 + self.model.device_takes,
        };
        let alive = self.workers.iter().filter(|worker| !worker.dead);
        alive.map(threads).sum::<f64>() > self.model.cores
    }

    /// Items per nanosecond of all CPU workers without modules, and nanoseconds of a core for each.
    fn cpu_alone(&self, bytes: u32) -> (f64, f64) {
        let (model, crowded) = (self.model.cpu.item(bytes), self.is_crowded());
        let (mut rate, mut count, mut cost) = (0.0, 0, 0.0);
        for worker in self.useful(Unit::Cpu) {
            let available = if crowded { self.core_available } else { worker.available };
            let own = model * worker.drift.factor(bytes);
            rate += available.max(0.02) / own;
            (count, cost) = (count + 1, cost + own);
        }
        let cost = if count == 0 { model } else { cost / f64::from(count) };
        (rate.min(self.cores() / cost), cost)
    }

    /// Cores that no other program takes.
    fn cores(&self) -> f64 {
        self.model.cores * self.core_available.max(0.02)
    }

    /// Items per nanosecond of a module that does nothing else, `k` at a time, and nanoseconds of
    /// the cores for each item.
    fn module_alone(&self, module: &super::Worker, bytes: u32, k: u32) -> (f64, f64) {
        let k = f64::from(k.max(1));
        let each = |cost: &Cost| cost.item(bytes) + cost.batch_ns / k;
        let device = each(&self.model.device) * module.drift.factor(bytes);
        let handing = each(&self.model.handing) * module.handing_drift.factor(bytes);
        let handed = handing / self.core_available.max(0.02);
        // With two batches, one is handed over while the module computes the other.
        let ns = if self.limits.module_batches > 1 { device.max(handed) } else { device + handed };
        (1.0 / ns.max(1e-3), handing + device * self.model.device_takes)
    }

    /// Items that CPU workers lose for each item that the module gains.
    fn loss(&self, module: &super::Worker, bytes: u32, k: u32) -> f64 {
        let ((alone, cost), (rate, load)) = (self.cpu_alone(bytes), self.module_alone(module, bytes, k));
        let left = ((self.cores() - rate * load) / cost).clamp(0.0, alone);
        (alone - left) / rate
    }

    /// Whether it pays to hand over such items, `k` at a time.
    fn module_pays(&self, module: &super::Worker, bytes: u32, k: u32) -> bool {
        self.useful(Unit::Cpu).next().is_none() || self.loss(module, bytes, k) < WORTH
    }

    /// Items per nanosecond of the modules that pay, and the cores that they need.
    fn modules(&self, bytes: u32) -> (f64, f64) {
        let k = self.batch_items(self.limits.module_items, bytes);
        let (mut rate, mut load) = (0.0, 0.0);
        for module in self.useful(Unit::Module).filter(|module| self.module_pays(module, bytes, k)) {
            let (alone, each) = self.module_alone(module, bytes, k);
            (rate, load) = (rate + alone, load + alone * each);
        }
        let part = (self.cores() / load.max(1e-12)).min(1.0);
        (rate * part, load * part)
    }

    /// The highest throughput: modules that pay take all they can of the longest items, and CPU
    /// workers use the time that is left.
    fn rates(&self, bytes: u32) -> Rates {
        let held = self.useful(Unit::Module).filter_map(|module| module.held.back()).map(|held| held.typical);
        let longest = self.waiting.longest().into_iter().chain(held).max().unwrap_or(bytes);
        let ((cpu_alone, cost), (modules, mut load)) = (self.cpu_alone(bytes), self.modules(bytes));
        if class(longest) != class(bytes) {
            load = self.modules(longest).1;
        }
        let cpu = ((self.cores() - load) / cost).clamp(0.0, cpu_alone);
        Rates { cpu, modules, cpu_alone }
    }

    /// Items of a full batch.
    fn batch_items(&self, most: u32, bytes: u32) -> u32 {
        (self.limits.batch_bytes / u64::from(bytes.max(1))).clamp(1, u64::from(most.max(1))) as u32
    }

    /// Whether modules leave CPU workers enough time to be useful.
    fn cpu_pays(&self, bytes: u32) -> bool {
        let rates = self.rates(bytes);
        rates.cpu > LEAST_CPU_SHARE * (rates.cpu + rates.modules)
    }

    /// Nanoseconds for one kind to do all waiting items; for CPU workers, beside modules or alone.
    fn all_waiting(&self, unit: Unit, beside_modules: bool) -> f64 {
        let each = |bytes| match (unit, beside_modules) {
            (Unit::Cpu, true) => self.rates(bytes).cpu_ns(),
            (Unit::Cpu, false) => self.rates(bytes).cpu_alone_ns(),
            (Unit::Module, _) => self.rates(bytes).module_ns(),
        };
        self.waiting.classes().map(|(bytes, count)| f64::from(count) * each(bytes)).sum()
    }

    /// Nanoseconds until the first worker of this kind is free.
    fn free_in(&self, unit: Unit, now: u64) -> f64 {
        self.useful(unit).map(|worker| worker.free_at(now) - now).min().unwrap_or(0) as f64
    }

    fn take_for_module(&mut self, worker: usize, now: u64, items: &mut Vec<Handle>) {
        let count = self.module_count(worker, now);
        if count > 0 {
            self.arms.probe_at_ns = now + PROBE_NS;
            self.fill(worker, Place::ByLength, End::Large, count, items);
        }
    }

    /// The number of the longest items that a module would take now.
    fn module_count(&mut self, worker: usize, now: u64) -> u32 {
        let Some(bytes) = self.waiting.peek(End::Large, &self.slots) else { return 0 };
        let full = self.batch_items(self.limits.module_items, bytes);
        if !self.module_pays(&self.workers[worker], bytes, full) {
            let first = self.first_part(worker, bytes, full);
            return first.unwrap_or_else(|| u32::from(now >= self.arms.probe_at_ns.max(PROBE_NS)));
        }
        let cpu_is_there = self.useful(Unit::Cpu).next().is_some();
        if self.arms.leaves_out(Unit::Module) && cpu_is_there {
            return 0;
        }
        if !cpu_is_there || !self.cpu_pays(bytes) || self.arms.leaves_out(Unit::Cpu) {
            return full;
        }
        let rates = self.rates(bytes);
        let share = rates.share_of_modules();
        if share < LEAST_SHARE {
            return 0;
        }
        let mut count = self.guided(share, self.least_for_module(bytes)).min(full);
        if self.closed {
            count = self.module_count_at_the_end(worker, now, bytes, count);
        }
        if count > 0 && self.module_pays(&self.workers[worker], bytes, count) { count } else { 0 }
    }

    /// After a measurement of a module: counts how often in a row it did not pay for such items.
    pub(super) fn judge_module(&mut self, worker: usize, bytes: u32, count: u32) {
        let pays = self.module_pays(&self.workers[worker], bytes, count);
        let doubts = &mut self.workers[worker].doubts[class(bytes)];
        *doubts = if pays { 0 } else { doubts.saturating_add(1) };
    }

    /// After a batch of the CPU: the opinion of idle modules ages. Their first batches may have
    /// been slow because memory was cold or the machine was busy. So they are tried again, more
    /// rarely after each failure.
    pub(super) fn forget_modules(&mut self, bytes: u32, count: usize) {
        let lost = 1.0 - REMEMBERED.powf(count as f64 * self.model.cpu.item(bytes) / REMEMBERED_NS);
        let idle = |worker: &&mut super::Worker| worker.unit == Unit::Module && worker.held.is_empty() && !worker.dead;
        for module in self.workers.iter_mut().filter(idle) {
            let weight = lost / f64::from(1u32 << module.doubts[class(bytes)].min(16));
            module.drift.forget(bytes, weight);
            module.handing_drift.forget(bytes, weight);
        }
    }

    /// The number of items that a module gets as a test of the model.
    fn first_part(&self, worker: usize, bytes: u32, full: u32) -> Option<u32> {
        let module = &self.workers[worker];
        let part = (self.waiting.count() / FIRST_PART) as u32;
        let unknown =
            !module.drift.was_measured(bytes) && module.held.is_empty() && !self.arms.leaves_out(Unit::Module);
        let worth_it = || FIRST_BATCH * self.model.handing.batch_ns < self.all_waiting(Unit::Cpu, false);
        (unknown && part > 0 && self.loss(module, bytes, full) < DOUBT && worth_it()).then_some(part.min(full))
    }

    /// At most `most` items: as many as end when the CPU workers finish the rest; none if those
    /// would finish everything sooner.
    fn module_count_at_the_end(&self, worker: usize, now: u64, bytes: u32, most: u32) -> u32 {
        let rates = self.rates(bytes);
        let (start, free) = ((self.workers[worker].free_at(now) - now) as f64, self.free_in(Unit::Cpu, now));
        // An idle device waits while its batch is handed over. A device that waits for its driver
        // does so always, and its rate includes this.
        let idle = self.workers[worker].held.is_empty() && self.limits.module_batches > 1;
        let handing = self.model.handing.item(bytes) * self.workers[worker].handing_drift.factor(bytes);
        let mine = rates.module_ns() + if idle { handing } else { 0.0 };
        let begin = start + self.model.device.batch_ns + if idle { self.model.handing.batch_ns } else { 0.0 };
        let count = most.min(balanced(begin, mine, free + self.all_waiting(Unit::Cpu, true), rates.cpu_ns()));
        let ends = begin + f64::from(count) * mine;
        if ends > free + self.all_waiting(Unit::Cpu, false) { 0 } else { count }
    }

    /// Whether modules are busy, or would take some of the waiting items: then a CPU worker may
    /// leave the items to them.
    fn modules_will(&mut self, now: u64) -> bool {
        (0..self.workers.len()).any(|at| {
            let worker = &self.workers[at];
            let useful = worker.unit == Unit::Module && !worker.dead && !worker.is_late();
            useful && (!worker.held.is_empty() || self.module_count(at, now) > 0)
        })
    }

    fn take_for_cpu(&mut self, worker: usize, now: u64, items: &mut Vec<Handle>) {
        let Some(bytes) = self.waiting.peek(End::Small, &self.slots) else { return };
        let modules = self.modules_will(now);
        if modules && (self.arms.leaves_out(Unit::Cpu) || !self.cpu_pays(bytes)) {
            return;
        }
        let rates = self.rates(bytes);
        let share = if modules { 1.0 - rates.share_of_modules() } else { 1.0 };
        let cpus = self.useful(Unit::Cpu).count().max(1) as f64;
        let full = self.groups_within(self.batch_items(self.limits.cpu_items, bytes));
        // The rounding only fills a group, whose other lanes would be idle.
        let part = self.guided(share / cpus, self.least_for_cpu(bytes)).next_multiple_of(self.lanes());
        let mut count = part.min(full);
        let known = |worker: &super::Worker| worker.drift.was_measured(bytes);
        if !known(&self.workers[worker]) && self.useful(Unit::Module).any(known) {
            count = count.min(FIRST_OF_CPU.max(self.lanes()));
        }
        if self.closed && modules && rates.modules > 0.0 {
            // As many as end when the modules finish the rest; none if they would finish everything
            // sooner.
            let (all, free) = (self.all_waiting(Unit::Module, true), self.free_in(Unit::Module, now));
            let (item, free) = (rates.cpu_ns() * cpus, free + self.model.device.batch_ns);
            if self.model.cpu.batch_ns + item > free + all {
                return;
            }
            let ends = balanced(self.model.cpu.batch_ns, item, free + all, rates.module_ns());
            count = count.min(self.groups_within(ends));
        }
        self.fill(worker, Place::ByLength, End::Small, count, items);
    }

    /// Items that a CPU worker computes side by side.
    fn lanes(&self) -> u32 {
        self.limits.cpu_lanes.max(1)
    }

    /// The number of items in full groups; all items if they are fewer than one group.
    fn groups_within(&self, items: u32) -> u32 {
        if items < self.lanes() { items } else { items - items % self.lanes() }
    }

    /// Half of this worker's share of the waiting items, so that parts get smaller towards the end.
    /// A part is large enough to hide the fixed cost of a batch, and a small share is taken whole.
    fn guided(&self, share: f64, least: f64) -> u32 {
        let all = self.waiting.count() as f64 * share.min(1.0);
        let half = if share >= 1.0 { all } else { all / 2.0 };
        (half.max(least.min(all)).ceil() as u32).max(1)
    }

    /// The least number of items at which the fixed cost of a CPU worker's batch does not count.
    fn least_for_cpu(&self, bytes: u32) -> f64 {
        10.0 * self.model.cpu.batch_ns / self.model.cpu.item(bytes)
    }

    /// The same for a module, which must not have to wait for the handover of the next batch
    /// either.
    fn least_for_module(&self, bytes: u32) -> f64 {
        let (device, handing) =
            (self.model.device.batch_ns, self.model.handing.batch_ns / self.core_available.max(0.02));
        let own = if self.limits.module_batches > 1 {
            f64::max(10.0 * device, 2.0 * handing)
        } else {
            10.0 * (device + handing)
        };
        own / self.model.device.item(bytes)
    }

    /// Nothing waits: repeats, once, a batch of another worker if this one would finish much
    /// sooner.
    fn take_again(&mut self, worker: usize, now: u64, items: &mut Vec<Handle>) {
        if !self.closed || !self.workers[worker].held.is_empty() {
            return;
        }
        let unit = self.workers[worker].unit;
        let others = self.workers.iter().enumerate().filter(|(at, other)| *at != worker && !other.dead);
        // The last batch with items that nobody has repeated yet.
        let open = |held: &&super::Held| held.items.iter().any(|handle| self.is_alone(*handle));
        let batches = others.flat_map(|(_, other)| &other.held).filter(open);
        let Some(held) = batches.max_by_key(|held| held.expected_end_ns) else { return };
        let open: Vec<Handle> = held.items.iter().copied().filter(|handle| self.is_alone(*handle)).collect();
        let (rates, count) = (self.rates(held.typical), open.len() as f64);
        let cpus = self.useful(Unit::Cpu).count().max(1) as f64;
        let mine = match unit {
            Unit::Cpu => self.model.cpu.batch_ns + count * rates.cpu_alone_ns() * cpus,
            Unit::Module if !self.module_pays(&self.workers[worker], held.typical, open.len() as u32) => return,
            Unit::Module => {
                let begin = self.model.device.batch_ns + self.model.handing.batch_ns;
                begin + count * (rates.module_ns() + self.model.handing.item(held.typical))
            }
        };
        // Time until its expected end; a batch that is late is expected to be late by as much
        // again.
        let left = (held.expected_end_ns as f64 - now as f64).abs();
        let late = held.expected_end_ns < now;
        if 2.0 * mine < left || late && mine < left {
            for handle in open {
                self.slots.hold(handle, worker);
                items.push(handle);
            }
        }
    }

    /// Whether exactly one worker has the item, and there is no result.
    fn is_alone(&self, handle: Handle) -> bool {
        let alone = |slot: &super::slots::Slot| slot.state == super::State::Open && slot.holders.count_ones() == 1;
        self.slots.get(handle).is_some_and(alone)
    }

    /// Counts published items in the window: this many of about this length.
    pub(super) fn watch(&mut self, bytes: u32, count: usize, now: u64) {
        if self.policy != Policy::Best || !self.workers.iter().any(|worker| worker.unit == Unit::Module) {
            return;
        }
        self.arms.work_ns += count as f64 * self.model.cpu.item(bytes);
        self.arms.starved |= self.waiting.count() == 0;
        if now.saturating_sub(self.arms.began_ns) >= WINDOW_NS {
            self.arms.window_ends(now);
        }
    }
}
