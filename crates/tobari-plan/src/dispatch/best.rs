//! The policy by costs.

use super::waiting::{End, Place};
use super::{Cost, Dispatcher, Handle, Policy, Unit};

/// Handing over must cost the CPU less than this part of doing: a gain that is smaller would drown in what is not measured.
const WORTH: f64 = 0.9;
/// A module that could do less than this part is left alone.
const LEAST_SHARE: f64 = 0.02;
/// Rates are measured over windows of this length.
const WINDOW_NS: u64 = 4_000_000;
/// After so many windows another way is tried, for one window after one that is not counted: two in this many.
const WINDOWS: u32 = 250;
/// Another way must be so much faster than both together to be taken.
const FASTER: f64 = 1.03;
/// A module that does not pay by the model is handed one item so often: the model may be wrong.
const PROBE_NS: u64 = 250_000_000;

/// Who may take items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Arm {
    /// Whoever the costs say.
    #[default]
    Both,
    Cpu,
    Module,
}

/// Compares, in long runs, what both kinds of engine do together with what each does alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Arms {
    current: Arm,
    best: Arm,
    /// Work, in nanoseconds of the model's CPU, in a nanosecond: of both, of the CPU alone, of the modules alone.
    rates: [Option<f64>; 3],
    began_ns: u64,
    work_ns: f64,
    /// What was begun before the arm changed is still being done.
    settling: bool,
    /// Somebody had nothing to take.
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

    /// Both together, unless one alone was measured to be faster.
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

/// What a kind of worker needs for everything that waits, and who there is.
struct Rates {
    /// Nanoseconds of all CPU workers together for one item of this length.
    cpu_ns: f64,
    /// Of all modules together.
    device_ns: f64,
    /// Of a CPU worker, for handing over one of many.
    handing_ns: f64,
}

/// For how many items `begin + n · mine = others - n · theirs`: at least one.
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

    /// Workers of a kind that can be given something.
    fn useful(&self, unit: Unit) -> impl Iterator<Item = &super::Worker> {
        self.workers.iter().filter(move |worker| worker.unit == unit && !worker.dead && !worker.is_late())
    }

    /// What one CPU worker takes for one item, as the clock counts: alone, or beside modules that are at work.
    fn cpu_item(&self, bytes: u32, beside_modules: bool) -> f64 {
        let shared = self.model.handing_takes_from_cpu;
        let available = |worker: &super::Worker| if shared { self.core_available } else { worker.available };
        let cost = |worker: &super::Worker| worker.drift.factor(bytes) / available(worker).max(0.02);
        let (sum, count) =
            self.useful(Unit::Cpu).fold((0.0, 0), |(sum, count), worker| (sum + cost(worker), count + 1));
        let alone = self.model.cpu.item(bytes) * if count == 0 { 1.0 } else { sum / f64::from(count) };
        if shared && beside_modules { alone / self.left_by_modules().max(0.01) } else { alone }
    }

    /// Part of the CPU workers' time that handing over leaves while modules do all they can of the longest items.
    fn left_by_modules(&self) -> f64 {
        let held = self.useful(Unit::Module).filter_map(|worker| worker.held.back()).map(|held| held.typical);
        let Some(bytes) = self.waiting.classes().last().map(|class| class.0).into_iter().chain(held).max() else {
            return 1.0;
        };
        let (device, handing) = self.module_rates(bytes);
        if !self.any_module_pays(bytes) {
            return 1.0;
        }
        let cores = self.useful(Unit::Cpu).count().max(1) as f64 * self.core_available.max(0.02);
        (1.0 - handing / (cores * f64::max(device, handing / cores))).max(0.0)
    }

    fn any_module_pays(&self, bytes: u32) -> bool {
        let pays = |at: usize| {
            let worker = &self.workers[at];
            let useful = worker.unit == Unit::Module && !worker.dead && !worker.is_late();
            useful && self.module_pays(at, bytes, self.batch_items(self.limits.module_items, bytes))
        };
        (0..self.workers.len()).any(pays)
    }

    /// Nanoseconds for an item: of all modules, and of the CPU to hand it over, one of many.
    fn module_rates(&self, bytes: u32) -> (f64, f64) {
        let per_batch = f64::from(self.batch_items(self.limits.module_items, bytes));
        let (mut speed, mut handing) = (0.0, f64::INFINITY);
        for module in self.useful(Unit::Module) {
            let device = self.model.device.item(bytes) + self.model.device.batch_ns / per_batch;
            let cost = self.model.handing.item(bytes) + self.model.handing.batch_ns / per_batch;
            let (device, cost) = (device * module.drift.factor(bytes), cost * module.handing_drift.factor(bytes));
            // A driver with a core of its own does one batch after another, too.
            speed += 1.0 / if self.model.handing_takes_from_cpu { device } else { device.max(cost) };
            handing = handing.min(cost);
        }
        (1.0 / speed, handing)
    }

    /// Items of a full batch.
    fn batch_items(&self, most: u32, bytes: u32) -> u32 {
        (self.limits.batch_bytes / u64::from(bytes.max(1))).clamp(1, u64::from(most.max(1))) as u32
    }

    /// Both kinds at work together.
    fn rates(&self, bytes: u32) -> Rates {
        let cpus = self.useful(Unit::Cpu).count().max(1) as f64;
        let (device, handing_ns) = self.module_rates(bytes);
        let cores = cpus * self.core_available.max(0.02);
        let device_ns = if self.model.handing_takes_from_cpu { f64::max(device, handing_ns / cores) } else { device };
        let beside_modules = self.useful(Unit::Module).next().is_some();
        Rates { cpu_ns: self.cpu_item(bytes, beside_modules) / cpus, device_ns, handing_ns }
    }

    /// Whether handing such items over gains anything; `k` at a time.
    fn module_pays(&self, worker: usize, bytes: u32, k: u32) -> bool {
        if self.useful(Unit::Cpu).next().is_none() {
            return true;
        }
        if !self.model.handing_takes_from_cpu {
            return true;
        }
        let handing = self.model.handing.item(bytes) + self.model.handing.batch_ns / f64::from(k.max(1));
        // Both are CPU time, so that somebody else on the core slows both.
        let own = self.model.cpu.item(bytes)
            * self.useful(Unit::Cpu).map(|cpu| cpu.drift.factor(bytes)).fold(f64::INFINITY, f64::min);
        handing * self.workers[worker].handing_drift.factor(bytes) < WORTH * own
    }

    /// Whether handing over leaves CPU workers some time that is worth taking.
    fn cpu_pays(&self, bytes: u32) -> bool {
        !self.model.handing_takes_from_cpu || !self.any_module_pays(bytes) || self.left_by_modules() > LEAST_SHARE
    }

    /// Nanoseconds in which one kind would do everything that waits; for CPU workers, beside modules or alone.
    fn all_waiting(&self, unit: Unit, beside_modules: bool) -> f64 {
        self.waiting
            .classes()
            .map(|(bytes, count)| {
                let alone = match unit {
                    Unit::Cpu => self.cpu_item(bytes, beside_modules) / self.useful(Unit::Cpu).count().max(1) as f64,
                    Unit::Module => self.rates(bytes).device_ns,
                };
                f64::from(count) * alone
            })
            .sum()
    }

    /// When the first worker of this kind is free, from now on.
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

    /// How many of the longest items a module would take now.
    fn module_count(&mut self, worker: usize, now: u64) -> u32 {
        let Some((_, bytes)) = self.waiting.peek(Place::ByLength, End::Large, &self.slots) else { return 0 };
        let full = self.batch_items(self.limits.module_items, bytes);
        if !self.module_pays(worker, bytes, full) {
            return u32::from(now >= self.arms.probe_at_ns.max(PROBE_NS));
        }
        let cpu_is_there = self.useful(Unit::Cpu).next().is_some();
        if self.arms.leaves_out(Unit::Module) && cpu_is_there {
            return 0;
        }
        if !cpu_is_there || !self.cpu_pays(bytes) || self.arms.leaves_out(Unit::Cpu) {
            return full;
        }
        let rates = self.rates(bytes);
        let share = rates.cpu_ns / (rates.cpu_ns + rates.device_ns);
        if share < LEAST_SHARE {
            return 0;
        }
        let mut count = self.guided(share, &self.model.device, bytes).min(full);
        if self.closed {
            // As many as end when the CPU workers end with the rest; none if they would have done everything sooner.
            let (start, free) = ((self.workers[worker].free_at(now) - now) as f64, self.free_in(Unit::Cpu, now));
            // A device that has nothing to do waits while its batch is handed over.
            let idle = self.workers[worker].held.is_empty();
            let mine = rates.device_ns + if idle { rates.handing_ns } else { 0.0 };
            let begin = start + self.model.device.batch_ns + if idle { self.model.handing.batch_ns } else { 0.0 };
            let ends = |count: u32| begin + f64::from(count) * mine;
            let beside = self.all_waiting(Unit::Cpu, true);
            count = count.min(balanced(begin, mine, free + beside, rates.cpu_ns));
            if ends(count) > free + self.all_waiting(Unit::Cpu, false) {
                return 0;
            }
        }
        if self.module_pays(worker, bytes, count) { count } else { 0 }
    }

    /// Whether modules are at work, or would take some of what waits: then a CPU worker may leave it to them.
    fn modules_will(&mut self, now: u64) -> bool {
        (0..self.workers.len()).any(|at| {
            let worker = &self.workers[at];
            let useful = worker.unit == Unit::Module && !worker.dead && !worker.is_late();
            useful && (!worker.held.is_empty() || self.module_count(at, now) > 0)
        })
    }

    fn take_for_cpu(&mut self, worker: usize, now: u64, items: &mut Vec<Handle>) {
        let Some((_, bytes)) = self.waiting.peek(Place::ByLength, End::Small, &self.slots) else { return };
        let modules = self.modules_will(now);
        if modules && (self.arms.leaves_out(Unit::Cpu) || !self.cpu_pays(bytes)) {
            return;
        }
        let rates = self.rates(bytes);
        let share = if modules { rates.device_ns / (rates.cpu_ns + rates.device_ns) } else { 1.0 };
        let cpus = self.useful(Unit::Cpu).count().max(1);
        let part = self.guided(share / cpus as f64, &self.model.cpu, bytes);
        let mut count = part.min(self.batch_items(self.limits.cpu_items, bytes));
        if self.closed && modules {
            // As many as end when the modules end with the rest; none if they would have done everything sooner.
            let (all, free) = (self.all_waiting(Unit::Module, true), self.free_in(Unit::Module, now));
            let (item, free) = (self.cpu_item(bytes, true), free + self.model.device.batch_ns);
            let ends = |count: u32| self.model.cpu.batch_ns + f64::from(count) * item;
            if ends(1) > free + all {
                return;
            }
            count = count.min(balanced(self.model.cpu.batch_ns, item, free + all, rates.device_ns));
        }
        self.fill(worker, Place::ByLength, End::Small, count, items);
    }

    /// Half of this worker's share of what waits, so that parts get smaller towards the end; but not so small that a batch's own cost
    /// counts, and all of a share that is small.
    fn guided(&self, share: f64, cost: &Cost, bytes: u32) -> u32 {
        let all = self.waiting.count() as f64 * share.min(1.0);
        let half = if share >= 1.0 { all } else { all / 2.0 };
        let least = 10.0 * cost.batch_ns / cost.item(bytes);
        (half.max(least.min(all)).ceil() as u32).max(1)
    }

    /// Nothing waits: takes what another has and this worker would have done much sooner, once.
    fn take_again(&mut self, worker: usize, now: u64, items: &mut Vec<Handle>) {
        if !self.closed || !self.workers[worker].held.is_empty() {
            return;
        }
        let unit = self.workers[worker].unit;
        let slowest = self.workers.iter().enumerate().filter(|(at, other)| *at != worker && !other.dead);
        let Some(held) = slowest.filter_map(|(_, other)| other.held.back()).max_by_key(|held| held.expected_end_ns)
        else {
            return;
        };
        let open: Vec<Handle> = held.items.iter().copied().filter(|handle| self.is_alone(*handle)).collect();
        let rates = self.rates(held.typical);
        let mine = match unit {
            Unit::Cpu => self.model.cpu.batch_ns + open.len() as f64 * self.cpu_item(held.typical, false),
            Unit::Module if !self.module_pays(worker, held.typical, open.len() as u32) => return,
            Unit::Module => {
                let begin = self.model.device.batch_ns + self.model.handing.batch_ns;
                begin + open.len() as f64 * (rates.device_ns + rates.handing_ns)
            }
        };
        // By its end if that is still to come; what is behind it is as late again.
        let left = (held.expected_end_ns as f64 - now as f64).abs();
        let late = held.expected_end_ns < now;
        if 2.0 * mine < left || late && mine < left {
            for handle in open {
                self.slots.hold(handle, worker);
                items.push(handle);
            }
        }
    }

    /// Whether one worker has the item, and no result is there.
    fn is_alone(&self, handle: Handle) -> bool {
        let alone = |slot: &super::slots::Slot| slot.state == super::State::Open && slot.holders.count_ones() == 1;
        self.slots.get(handle).is_some_and(alone)
    }

    /// Takes what was published into the window: so many items of about this length.
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
