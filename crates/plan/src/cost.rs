//! Costs of steps and moves, as measured on a machine.

use crate::program::{Encoding, Kind, Op, Program, Shape, Step};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Seconds for each part of a plan, on one core.
pub trait CostModel {
    /// Of one step.
    fn step(&self, op: Op, args: &[Shape], result: &Shape) -> f64;
    /// Of converting a value to bytes.
    fn export(&self, shape: &Shape, encoding: Encoding) -> f64;
    /// Of making a value from bytes.
    fn import(&self, shape: &Shape, encoding: Encoding) -> f64;
    /// Of a write to the tier.
    fn write(&self, bytes: u64) -> f64;
    /// Of a read from the tier.
    fn read(&self, bytes: u64) -> f64;
}

/// The speed of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TierSpeed {
    /// Bytes a second.
    pub read: f64,
    /// Bytes a second.
    pub write: f64,
    /// Seconds until the first byte.
    pub latency_s: f64,
}

/// A table of measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Seconds at rising levels, by operation, with `mul_plain` and `dot_encrypted` as names of
    /// their own. For [`Op::Add`] and [`Op::Dot`]: seconds for each addition and each product.
    pub steps: BTreeMap<String, Vec<(u16, f64)>>,
    /// Bytes in memory exported and imported per second as [`Encoding::Raw`], by kind.
    pub raw: BTreeMap<Kind, [f64; 2]>,
    /// The same as [`Encoding::Packed`].
    pub packed: BTreeMap<Kind, [f64; 2]>,
    /// Speed of the tier; `None` without a tier.
    pub tier: Option<TierSpeed>,
}

impl Costs {
    /// No measurements: every byte costs as much as if memory were the limit. For tests, and for
    /// plans that only have to be valid.
    pub fn unmeasured() -> Self {
        let tier = TierSpeed { read: 5e8, write: 5e8, latency_s: 1e-4 };
        Self { steps: BTreeMap::new(), raw: BTreeMap::new(), packed: BTreeMap::new(), tier: Some(tier) }
    }

    fn speed(&self, shape: &Shape, encoding: Encoding, way: usize) -> f64 {
        let (measured, unmeasured) = match encoding {
            Encoding::Raw => (&self.raw, 8e9),
            Encoding::Packed => (&self.packed, 2e9),
        };
        measured.get(&shape.kind).map_or(unmeasured, |speed| speed[way])
    }

    /// Interpolates between measured levels; constant below the lowest and above the highest.
    fn measured(&self, name: &str, level: u16) -> Option<f64> {
        let levels = self.steps.get(name)?;
        let above = levels.partition_point(|(at, _)| *at < level);
        let (last, next) = (levels.get(above.wrapping_sub(1)), levels.get(above));
        match (last, next) {
            (Some((low, a)), Some((high, b))) => {
                let part = f64::from(level - low) / f64::from(high - low);
                Some(a + (b - a) * part)
            }
            (Some((_, seconds)), None) | (None, Some((_, seconds))) => Some(*seconds),
            (None, None) => None,
        }
    }
}

impl CostModel for Costs {
    fn step(&self, op: Op, args: &[Shape], result: &Shape) -> f64 {
        let count = match op {
            Op::Add => args.len() - 1,
            Op::Dot => args.len() / 2,
            _ => 1,
        };
        let level = args.first().map_or(result.level, |arg| arg.level.max(result.level));
        let name = match op {
            Op::Mul if args.len() == 2 => "mul_plain",
            Op::Dot if args.len() % 2 == 1 => "dot_encrypted",
            _ => op.name(),
        };
        let once = self.measured(name, level).unwrap_or_else(|| {
            // everything read and written passes through memory once
            args.iter().chain([result]).map(|shape| shape.resident as f64).sum::<f64>() / 5e9
        });
        once * count as f64
    }

    fn export(&self, shape: &Shape, encoding: Encoding) -> f64 {
        shape.resident as f64 / self.speed(shape, encoding, 0)
    }

    fn import(&self, shape: &Shape, encoding: Encoding) -> f64 {
        shape.resident as f64 / self.speed(shape, encoding, 1)
    }

    fn write(&self, bytes: u64) -> f64 {
        self.tier.map_or(f64::INFINITY, |tier| tier.latency_s + bytes as f64 / tier.write)
    }

    fn read(&self, bytes: u64) -> f64 {
        self.tier.map_or(f64::INFINITY, |tier| tier.latency_s + bytes as f64 / tier.read)
    }
}

/// The seconds of each step.
pub(crate) fn of_steps(program: &Program, costs: &(impl CostModel + ?Sized)) -> Vec<f64> {
    let mut shapes = Vec::new();
    let seconds = (0..program.steps().len()).map(|step| {
        shapes.clear();
        shapes.extend(program.args(step).iter().map(|arg| *program.shape(*arg)));
        let Step { op, shape, .. } = &program.steps()[step];
        costs.step(*op, &shapes, shape)
    });
    seconds.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_between_measured_ones_cost_in_proportion() {
        let mut costs = Costs::unmeasured();
        costs.steps.insert("rotate".to_owned(), vec![(2, 1.0), (6, 3.0)]);
        let shape = |level| Shape { kind: Kind::Encrypted, level, resident: 5_000, packed: 0, raw: 0 };
        let at = |level| costs.step(Op::Rotate(1), &[shape(level)], &shape(level));
        assert_eq!([0, 2, 3, 4, 6, 9].map(at), [1.0, 1.0, 1.5, 2.0, 3.0, 3.0]);
        assert_eq!(costs.step(Op::Neg, &[shape(1)], &shape(1)), 2e-6);
        assert_eq!(costs.step(Op::Add, &[shape(1); 3], &shape(1)), 2.0 * 4.0 * 1e-6);
    }
}
