//! Random programs with inputs of every kind, and the readers of each value. The readers are
//! derived from the inputs of the value, not by the rules of [`check`](crate::check).

use super::mistakes::{key, op, owner, secrecy};
use super::{Draw, ENGINE};
use crate::clear::ClearValue;
use crate::program::{Input, Kind, Op, Program, Shape, Value};
use crate::site::{Guard, KeyDomain, Owner, Secrecy, Site};
use std::collections::BTreeSet;

/// The keys and masks needed to read a value, and the parties about whom it reveals something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readers {
    /// Keys that hide the value.
    pub keys: BTreeSet<KeyDomain>,
    /// Parties whose plaintext any reader of the value can derive.
    pub owners: BTreeSet<Owner>,
    /// Masks on the value.
    pub masks: BTreeSet<Owner>,
    /// Parties whose plaintext the holder of the key may learn about from the noise.
    pub noise: BTreeSet<Owner>,
}

/// The reason why something must not be computed.
pub type Refusal = &'static str;

impl Readers {
    fn of(secrecy: &Secrecy) -> Self {
        let mut readers = Self::default();
        match secrecy {
            Secrecy::Public => {}
            Secrecy::Encrypted { key } => _ = readers.keys.insert(key.clone()),
            Secrecy::Masked { by } => _ = readers.masks.insert(by.clone()),
            Secrecy::Secret { owner } => _ = readers.owners.insert(owner.clone()),
        }
        readers
    }

    fn absorb(&mut self, other: &Self) {
        self.keys.extend(other.keys.iter().cloned());
        self.owners.extend(other.owners.iter().cloned());
        self.masks.extend(other.masks.iter().cloned());
        self.noise.extend(other.noise.iter().cloned());
    }

    /// The readers of a step's result.
    fn after(op: Op, args: &[&Self], keys: &[&Self]) -> Result<Self, Refusal> {
        let mut all = Self::default();
        args.iter().for_each(|arg| all.absorb(arg));
        let masked = args.iter().filter(|arg| !arg.masks.is_empty()).count();
        let alone = all.keys.is_empty() && all.owners.is_empty() && masked == 1;
        if masked > 0 && args.len() > 1 && !(alone && matches!(op, Op::Add | Op::Sub)) {
            return Err("a mask over more than a sum with what is public");
        }
        if all.keys.len() > 1 {
            return Err("two keys");
        }
        if !all.keys.is_empty() {
            // the key hides the secrets, but not from its holder
            let hidden = std::mem::take(&mut all.owners);
            all.noise.extend(hidden);
        }
        if all.owners.len() > 1 {
            return Err("plain data of two parties");
        }
        let readable = |readers: &Self| Self { noise: BTreeSet::new(), ..readers.clone() };
        if keys.iter().any(|key| readable(key) != readable(&all)) {
            return Err("another's key");
        }
        if matches!(op, Op::Flood(_)) {
            all.noise.clear();
        }
        Ok(all)
    }

    /// Why the value must not be in the memory of a site.
    pub fn not_at(&self, site: &Site) -> Option<Refusal> {
        let known = self.keys.iter().any(|key| site.keys.contains(key));
        if known && site.guard == Guard::Process {
            return Some("a ciphertext beside its key");
        }
        let told = self.owners.iter().any(|owner| !site.trusted_by.contains(owner));
        told.then_some("plaintext of an owner that does not trust the site")
    }

    /// Why the value must not be in the tier of a site.
    pub fn not_in_tier_of(&self, site: &Site) -> Option<Refusal> {
        if !site.tier {
            return Some("there is no tier");
        }
        if self.keys.iter().any(|key| site.keys.contains(key)) {
            return Some("a ciphertext on the disk of the holder of its key");
        }
        if !self.masks.is_empty() {
            return Some("a masked value on a disk");
        }
        let told = self.owners.iter().any(|owner| !site.tier_of.contains(owner));
        told.then_some("plain data on another's disk").or_else(|| self.not_at(site))
    }
}

/// The readers of each value of a program.
///
/// # Errors
/// The first forbidden computation.
pub fn readers(program: &Program) -> Result<Vec<Readers>, Refusal> {
    let mut all: Vec<Readers> = program.inputs().iter().map(|input| Readers::of(&input.secrecy)).collect();
    for (number, step) in program.steps().iter().enumerate() {
        let (keys, args): (Vec<Value>, Vec<Value>) =
            program.args(number).iter().partition(|arg| program.shape(**arg).kind == Kind::Key);
        let find = |values: Vec<Value>| -> Vec<&Readers> { values.iter().map(|value| &all[value.index()]).collect() };
        let made = Readers::after(step.op, &find(args), &find(keys))?;
        all.push(made);
    }
    Ok(all)
}

fn shape(kind: Kind, level: u16, draw: &mut Draw<'_>) -> Shape {
    Shape { kind, level, resident: 1 + draw.below(100) as u64, packed: 32, raw: 32 }
}

/// A program with inputs of all kinds and labels, most of whose steps are sound, and the values of
/// its inputs.
pub fn labelled(draw: &mut Draw<'_>) -> (Program, Vec<ClearValue>) {
    let (mut program, mut values) = (Program::default(), Vec::new());
    for number in 0..2 + draw.below(7) {
        // the first input is a vector, so that there is something to compute with
        let kind = draw.of(&[Kind::Encrypted, Kind::Plain, Kind::Key][..if number == 0 { 2 } else { 3 }]);
        let secrecy = match (kind, draw.below(8)) {
            (_, 7) => secrecy(draw),
            (Kind::Plain, 0..=3) => Secrecy::Public,
            (Kind::Plain, _) => Secrecy::Secret { owner: owner(draw) },
            _ => Secrecy::Encrypted { key: key(draw) },
        };
        let level = draw.of(&[3, 3, 3, 0]);
        let input = Input { name: format!("input {number}"), shape: shape(kind, level, draw), secrecy };
        program.add_input(input).unwrap();
        values.push(match kind {
            Kind::Key => ClearValue::Key,
            _ => ENGINE.integers(&[(); 4].map(|()| draw.below(256) as i64)).unwrap(),
        });
    }
    for _ in 0..draw.below(24) {
        step(&mut program, draw);
    }
    let mut outputs: Vec<Value> = program.values().collect();
    let kept = 1 + draw.below(3);
    while outputs.len() > kept {
        // the last output stays
        outputs.remove(draw.below(outputs.len() - 1));
    }
    program.set_outputs(&outputs).unwrap();
    (program, values)
}

/// Adds a step: the one that the bytes encode if it is sound, otherwise a sound one.
fn step(program: &mut Program, draw: &mut Draw<'_>) {
    let all: Vec<Value> = program.values().collect();
    let near = all.len().min(6);
    let pick = |draw: &mut Draw<'_>, kinds: &[Kind]| {
        let last = if draw.below(4) == 0 { &all[..] } else { &all[all.len() - near..] };
        let found: Vec<Value> = last.iter().copied().filter(|v| kinds.contains(&program.shape(*v).kind)).collect();
        if found.is_empty() { all[0] } else { draw.of(&found) }
    };
    let [a, b, c] = [(); 3].map(|()| pick(draw, &[Kind::Plain, Kind::Encrypted]));
    let hoisted = pick(draw, &[Kind::Hoisted]);
    let keys: Vec<Value> = all.iter().copied().filter(|v| program.shape(*v).kind == Kind::Key).collect();
    let (op, keyed) = (op(draw), !keys.is_empty() && draw.below(2) == 0);
    let mut args = match op {
        Op::Add if draw.below(2) == 0 => vec![a, b, c],
        Op::Add | Op::Sub | Op::Mul => vec![a, b],
        Op::Dot => vec![a, b, c, b],
        Op::RotateHoisted(_) => vec![hoisted],
        _ => vec![a],
    };
    if keyed && matches!(op, Op::Mul | Op::Rotate(_) | Op::Swap | Op::RotateHoisted(_)) {
        args.push(draw.of(&keys));
    }
    let shapes: Vec<Shape> = args.iter().map(|arg| *program.shape(*arg)).collect();
    let sound = op.result(&shapes).ok().and_then(|(kind, level)| {
        let mut next = program.clone();
        next.add_step(op, &args, shape(kind, level, draw)).ok()?;
        readers(&next).ok().map(|_| next)
    });
    *program = sound.unwrap_or_else(|| {
        let mut next = program.clone();
        let Shape { kind, level, .. } = *program.shape(a);
        next.add_step(Op::Neg, &[a], shape(kind, level, draw)).unwrap();
        next
    });
}
