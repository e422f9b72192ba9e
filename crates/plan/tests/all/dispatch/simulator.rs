//! Engines with given costs, on cores with given loads, and the dispatcher between them.
//!
//! A module's driver needs the CPU to hand over. If it shares a core with a CPU worker it has
//! priority, like a thread that was just woken. The device works on one batch after another.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{HashMap, VecDeque};
use tobari_plan::dispatch::{Batch, Cost, Dispatcher, Handle, Limits, Model, Policy, Report, Take, Unit};

/// A fault of the module, with its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// From then on it takes this many times as long.
    Slows(f64, f64),
    /// From then on it does nothing, without a report.
    Stalls(f64),
    /// It pauses for this long, and then continues.
    Sleeps(f64, f64),
    /// It dies, and this is noticed.
    Dies(f64),
    /// From then on other programs take this part of the CPU.
    Load(f64, f64),
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) cpus: usize,
    pub(crate) modules: usize,
    /// The real costs.
    pub(crate) truth: Model,
    /// The costs that the dispatcher gets as its model.
    pub(crate) told: Model,
    /// The part of the CPU that other programs take from the start.
    pub(crate) load: f64,
    pub(crate) faults: Vec<Fault>,
    pub(crate) limits: Limits,
}

#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// The time when the last item was published.
    pub(crate) ns: f64,
    /// The number of times that each item was published.
    pub(crate) published: Vec<u32>,
    pub(crate) most_in_flight: u64,
    pub(crate) by_module: u64,
    pub(crate) stalls: u64,
}

struct Work {
    batch: Batch,
    left: f64,
    all: f64,
    began: f64,
}

#[derive(Default)]
struct Module {
    handing: Option<Work>,
    /// Batches handed over, each with its time on the CPU and on the device.
    queue: VecDeque<(Work, f64)>,
}

pub(crate) struct Simulation<'a> {
    world: &'a World,
    dispatcher: Dispatcher,
    sizes: &'a [u32],
    submitted: usize,
    item_of: HashMap<Handle, usize>,
    cpus: Vec<Option<Work>>,
    modules: Vec<Module>,
    now: f64,
    outcome: Outcome,
    /// The time for handing over each batch.
    wanted: HashMap<Batch, f64>,
}

/// Runs all items.
pub(crate) fn run(world: &World, policy: Policy, sizes: &[u32]) -> Outcome {
    let units: Vec<Unit> =
        std::iter::repeat_n(Unit::Cpu, world.cpus).chain(std::iter::repeat_n(Unit::Module, world.modules)).collect();
    let outcome = Outcome { ns: 0.0, published: vec![0; sizes.len()], most_in_flight: 0, by_module: 0, stalls: 0 };
    let mut simulation = Simulation {
        world,
        dispatcher: Dispatcher::new(policy, &units, world.limits, world.told.clone()),
        sizes,
        submitted: 0,
        item_of: HashMap::new(),
        cpus: (0..world.cpus).map(|_| None).collect(),
        modules: (0..world.modules).map(|_| Module::default()).collect(),
        now: 0.0,
        outcome,
        wanted: HashMap::new(),
    };
    simulation.go();
    let done: Vec<_> = (0..units.len()).map(|worker| simulation.dispatcher.done(worker)).collect();
    simulation.outcome.by_module = done[world.cpus..].iter().map(|done| done.items).sum();
    simulation.outcome.stalls = done.iter().map(|done| done.stalls).sum();
    simulation.outcome
}

impl Simulation<'_> {
    fn go(&mut self) {
        for _ in 0..40_000_000_u64 {
            self.submit();
            let wake = self.ask();
            if self.submitted == self.sizes.len() && self.dispatcher.open_items() == 0 {
                return;
            }
            self.advance(wake.map(|ns| ns as f64));
        }
        panic!("no end: {:?} open at {}", self.dispatcher.open_items(), self.now);
    }

    fn submit(&mut self) {
        while let Some(bytes) = self.sizes.get(self.submitted) {
            let Ok(handle) = self.dispatcher.submit(*bytes) else { break };
            self.item_of.insert(handle, self.submitted);
            self.submitted += 1;
        }
        if self.submitted == self.sizes.len() {
            self.dispatcher.close();
        }
        self.outcome.most_in_flight = self.outcome.most_in_flight.max(self.dispatcher.in_flight_bytes());
    }

    /// Asks for work for all idle workers; returns the time to ask again.
    fn ask(&mut self) -> Option<u64> {
        let (mut items, mut wake) = (Vec::new(), None);
        let mut some = true;
        while some {
            some = false;
            for worker in 0..self.world.cpus + self.world.modules {
                let module = worker.checked_sub(self.world.cpus);
                let busy = module.map_or_else(|| self.cpus[worker].is_some(), |at| self.modules[at].handing.is_some());
                if busy {
                    continue;
                }
                match self.dispatcher.take(worker, self.now as u64, &mut items) {
                    Take::Batch(batch) => {
                        some = true;
                        self.begin(worker, batch, &items);
                    }
                    Take::Wait { until_ns } => wake = [wake, until_ns].into_iter().flatten().min(),
                    Take::End => {}
                }
            }
        }
        wake
    }

    fn begin(&mut self, worker: usize, batch: Batch, items: &[Handle]) {
        let bytes: Vec<u32> = items.iter().map(|handle| self.sizes[self.item_of[handle]]).collect();
        let of = |cost: &Cost| cost.batch_ns + bytes.iter().map(|bytes| cost.item(*bytes)).sum::<f64>();
        let work = |all: f64| Work { batch, left: all, all, began: self.now };
        match worker.checked_sub(self.world.cpus) {
            None => self.cpus[worker] = Some(work(of(&self.world.truth.cpu))),
            Some(module) => {
                let device = of(&self.world.truth.device);
                self.modules[module].handing = Some(work(of(&self.world.truth.handing)));
                let cpu = of(&self.world.truth.handing);
                self.modules[module].queue.push_back((Work { batch, left: device, all: cpu, began: f64::NAN }, device));
            }
        }
    }

    /// The part of a core that is available now.
    fn speed(&self) -> f64 {
        let load = self.world.faults.iter().fold(self.world.load, |load, fault| match fault {
            Fault::Load(at, part) if *at <= self.now => *part,
            _ => load,
        });
        1.0 - load
    }

    fn device_speed(&self) -> f64 {
        self.world.faults.iter().fold(1.0, |speed, fault| match *fault {
            Fault::Slows(at, times) if at <= self.now => speed / times,
            Fault::Stalls(at) | Fault::Dies(at) if at <= self.now => 0.0,
            Fault::Sleeps(at, long) if at <= self.now && self.now < at + long => 0.0,
            _ => speed,
        })
    }

    /// The present rates of all: CPU workers, drivers, devices. Drivers have priority; the others
    /// share the rest, each at most one core.
    fn rates(&self) -> (f64, f64, f64) {
        let (speed, takes) = (self.speed(), self.world.truth.device_takes);
        let all = self.world.truth.cores * speed;
        let drivers = self.modules.iter().filter(|module| module.handing.is_some()).count() as f64;
        let driver = speed.min(all / drivers.max(1.0));
        let devices = self.modules.iter().filter(|module| self.at_device(module).is_some()).count() as f64;
        let others = self.cpus.iter().flatten().count() as f64 + takes * devices;
        let other = speed.min((all - drivers * driver).max(0.0) / others.max(1.0));
        (other, driver, self.device_speed() * (1.0 - takes + takes * other))
    }

    /// Continues to the next event, or to `wake`.
    fn advance(&mut self, wake: Option<f64>) {
        let (cpu, driver, device) = self.rates();
        let mut step = f64::INFINITY;
        let mut until = |left: f64, rate: f64| {
            if rate > 0.0 {
                step = step.min(left / rate);
            }
        };
        self.cpus.iter().flatten().for_each(|work| until(work.left, cpu));
        for module in &self.modules {
            module.handing.iter().for_each(|work| until(work.left, driver));
            if let Some((work, _)) = self.at_device(module) {
                until(work.left, device);
            }
        }
        for at in self.world.faults.iter().flat_map(Fault::times).chain(wake).filter(|at| *at > self.now) {
            step = step.min(at - self.now);
        }
        assert!(step.is_finite(), "nothing will ever happen: {} open", self.dispatcher.open_items());
        let step = step.max(1e-3);
        self.now += step;
        for work in self.cpus.iter_mut().flatten() {
            work.left -= step * cpu;
        }
        for at in 0..self.modules.len() {
            let at_device = self.at_device(&self.modules[at]).is_some();
            let module = &mut self.modules[at];
            module.handing.iter_mut().for_each(|work| work.left -= step * driver);
            if let (true, Some((work, _))) = (at_device, module.queue.front_mut()) {
                if work.began.is_nan() {
                    work.began = self.now - step;
                }
                work.left -= step * device;
            }
        }
        self.end();
    }

    /// The batch on the device: the first one that has been handed over.
    fn at_device<'a>(&self, module: &'a Module) -> Option<&'a (Work, f64)> {
        let first = module.queue.front()?;
        let handing = module.handing.as_ref().is_some_and(|handing| handing.batch == first.0.batch);
        (!handing).then_some(first)
    }

    /// Reports finished work to the dispatcher.
    fn end(&mut self) {
        let (now, mut published) = (self.now as u64, Vec::new());
        for worker in 0..self.cpus.len() {
            if let Some(work) = self.cpus[worker].take_if(|work| work.left <= 1e-6) {
                let wall_ns = (self.now - work.began) as u64;
                let report = Report { wall_ns, cpu_ns: work.all as u64, wanted_ns: wall_ns };
                self.dispatcher.finish(worker, work.batch, report, now, &mut published);
            }
        }
        for at in 0..self.modules.len() {
            if let Some(work) = self.modules[at].handing.take_if(|work| work.left <= 1e-6) {
                self.wanted.insert(work.batch, self.now - work.began);
            }
            let done = self.at_device(&self.modules[at]).is_some_and(|(work, _)| work.left <= 1e-6);
            if let (true, Some((work, _))) = (done, self.modules[at].queue.pop_front_if(|_| done)) {
                let (wall_ns, wanted_ns) = ((self.now - work.began) as u64, self.wanted[&work.batch] as u64);
                let report = Report { wall_ns, cpu_ns: work.all as u64, wanted_ns };
                self.dispatcher.finish(self.world.cpus + at, work.batch, report, now, &mut published);
            }
            if self.world.faults.iter().any(|fault| matches!(fault, Fault::Dies(at) if *at <= self.now)) {
                self.dispatcher.fail(self.world.cpus + at);
                self.modules[at] = Module::default();
            }
        }
        self.dispatcher.tick(now);
        for handle in published {
            self.outcome.published[self.item_of[&handle]] += 1;
            self.outcome.ns = self.now;
        }
    }
}

impl Fault {
    fn times(&self) -> Vec<f64> {
        match *self {
            Self::Sleeps(at, long) => vec![at, at + long],
            Self::Slows(at, _) | Self::Stalls(at) | Self::Dies(at) | Self::Load(at, _) => vec![at],
        }
    }
}
