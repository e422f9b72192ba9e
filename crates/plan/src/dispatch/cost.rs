//! Costs of work: measured at the start, and corrected during the run.

/// Nanoseconds of a batch: a fixed part, and a part for each item that depends on its length.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// For each batch.
    pub batch_ns: f64,
    /// For one item among many in a batch: rising lengths in bytes, with nanoseconds. Linear
    /// between the points; the last segment continues beyond the last point.
    pub items: Vec<(u32, f64)>,
}

impl Cost {
    /// `batch_ns` for each batch, `item_ns` for each item, and `byte_ns` for each byte.
    pub fn linear(batch_ns: f64, item_ns: f64, byte_ns: f64) -> Self {
        Self { batch_ns, items: vec![(0, item_ns), (1 << 20, item_ns + byte_ns * f64::from(1 << 20))] }
    }

    /// Nanoseconds for an item of this length, at least a hundredth of one.
    pub fn item(&self, bytes: u32) -> f64 {
        let at = self.items.partition_point(|point| point.0 < bytes);
        let line = |a: (u32, f64), b: (u32, f64)| {
            let part = (f64::from(bytes) - f64::from(a.0)) / (f64::from(b.0) - f64::from(a.0));
            a.1 + (b.1 - a.1) * part
        };
        let ns = match (at, self.items.as_slice()) {
            (_, []) => 0.0,
            (_, [only]) => only.1,
            (0, [first, ..]) => first.1,
            (at, points) if at < points.len() => line(points[at - 1], points[at]),
            (_, [.., a, b]) => line(*a, *b),
        };
        ns.max(0.01)
    }
}

/// Knowledge about the engines before the first item: nanoseconds on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Of a CPU worker.
    pub cpu: Cost,
    /// Of a module, from the handover of the items to the end.
    pub device: Cost,
    /// Of the CPU, to hand items to a module and to fetch results, checks included.
    pub handing: Cost,
    /// Cores for CPU workers and the drivers of modules, together. Handing over takes time from CPU
    /// workers if there are no more cores than those need.
    pub cores: f64,
    /// Part of a module's time in which it computes on those cores itself: 0 for a device, 1 for
    /// one that a process on them emulates.
    pub device_takes: f64,
    /// Part of the cores' time that no other program took during the measurement, above 0 and up to
    /// 1.
    pub available: f64,
}

impl Model {
    /// A model of a machine without modules.
    pub fn cpu_only(cpu: Cost) -> Self {
        Self {
            cpu,
            device: Cost::linear(0.0, 0.0, 0.0),
            handing: Cost::linear(0.0, 0.0, 0.0),
            cores: f64::INFINITY,
            device_takes: 0.0,
            available: 1.0,
        }
    }
}

/// Lengths fall into classes, four for each power of two.
pub(super) const CLASSES: usize = 128;

/// The class of a length; it rises with the length.
pub(super) fn class(bytes: u32) -> usize {
    let exponent = bytes.max(4).ilog2();
    (4 * exponent + (bytes.max(4) >> (exponent - 2) & 3)) as usize
}

/// The class of the last length. Most items are as long as the one before, and with this guess
/// nothing waits for the length of the present one.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastClass {
    bytes: u32,
    class: usize,
}

impl LastClass {
    pub(super) fn new() -> Self {
        Self { bytes: 0, class: class(0) }
    }

    /// [`class`].
    pub(super) fn of(&mut self, bytes: u32) -> usize {
        if bytes != self.bytes {
            *self = Self { bytes, class: class(bytes) };
        }
        self.class
    }
}

/// Weight of a measurement in the estimate of its own class. It is larger at first: the model
/// counts as one measurement, and so does each following one, until the weight has fallen to this
/// value.
const OWN_WEIGHT: f64 = 0.25;
/// Weight in the estimates of all other classes, as part of the weight above.
const OTHERS_PART: f64 = 0.2;

/// The first measurement of a class raises the estimate at most by this factor: that batch met cold
/// memory and caches.
const FIRST_AT_MOST: f64 = 1.5;

/// How much slower than the model something runs, by class.
#[derive(Clone, Debug)]
pub(super) struct Drift {
    factors: [f64; CLASSES],
    /// Measurements, counted as far as they matter.
    seen: [u8; CLASSES],
}

impl Drift {
    pub(super) fn none() -> Self {
        Self { factors: [1.0; CLASSES], seen: [0; CLASSES] }
    }

    pub(super) fn factor(&self, bytes: u32) -> f64 {
        self.factors[class(bytes)]
    }

    /// Whether there is a measurement of this length.
    pub(super) fn was_measured(&self, bytes: u32) -> bool {
        self.seen[class(bytes)] > 0
    }

    /// Items of this length were not measured for long: an estimate that is worse than the model
    /// moves back to it by this weight.
    pub(super) fn forget(&mut self, bytes: u32, weight: f64) {
        let factor = &mut self.factors[class(bytes)];
        *factor -= weight * (*factor - 1.0).max(0.0);
    }

    /// A batch, mostly of items of this length, took `ratio` times the present estimate.
    pub(super) fn measured(&mut self, bytes: u32, ratio: f64) {
        // One wild measurement, as after a sleep of the machine, must not count in full.
        let own = class(bytes);
        let ratio = ratio.clamp(0.05, if self.seen[own] == 0 { FIRST_AT_MOST } else { 20.0 });
        let own_weight = OWN_WEIGHT.max(1.0 / (2.0 + f64::from(self.seen[own])));
        self.seen[own] = self.seen[own].saturating_add(1);
        for (at, factor) in self.factors.iter_mut().enumerate() {
            let weight = if at == own { own_weight } else { OTHERS_PART * own_weight };
            *factor = (*factor * (1.0 + weight * (ratio - 1.0))).clamp(1e-3, 1e6);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_rise_with_the_length() {
        let (mut last, mut of_last) = (0, LastClass::new());
        for bytes in (0..5000).chain((5000..u32::MAX - 1_000_000).step_by(999_983)) {
            let class = class(bytes);
            assert_eq!([of_last.of(bytes), of_last.of(bytes)], [class; 2], "{bytes}");
            assert!((last..CLASSES).contains(&class), "{bytes}");
            last = class;
        }
    }

    #[test]
    fn a_cost_is_straight_between_its_points_and_beyond() {
        let cost = Cost { batch_ns: 5.0, items: vec![(16, 10.0), (32, 20.0), (64, 80.0)] };
        for (bytes, ns) in [(0, 10.0), (16, 10.0), (24, 15.0), (32, 20.0), (48, 50.0), (64, 80.0), (128, 200.0)] {
            assert!((cost.item(bytes) - ns).abs() < 1e-9, "{bytes}");
        }
    }

    #[test]
    fn what_is_measured_again_and_again_is_believed() {
        let mut drift = Drift::none();
        for _ in 0..60 {
            let believed = drift.factor(1000);
            drift.measured(1000, 3.0 / believed);
        }
        assert!((drift.factor(1000) - 3.0).abs() < 0.01, "{}", drift.factor(1000));
        assert!((1.2..2.0).contains(&drift.factor(64)), "others follow slowly: {}", drift.factor(64));
    }
}
