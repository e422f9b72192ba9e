//! The judge of plans.
//!
//! The planner may be wrong, so this module does not trust it. It follows a plan instruction by
//! instruction and derives on its own: the values in memory, the values in the tier, their bytes,
//! and who may know each value. A [`CheckedPlan`] exists only if all of this is sound, and only a
//! checked plan runs. The check covers the plan, not the machine that runs it: it does not stop a
//! malicious host.
//!
//! # Who may know
//! Labels follow from the inputs' labels and from the operations, never from claims of the plan:
//!
//! | label | with | gives |
//! |---|---|---|
//! | public | public | public |
//! | encrypted for `k` | public, or for `k` | encrypted for `k` |
//! | encrypted for `k` | a secret of `o` | encrypted for `k`; tells of `o` until flooded |
//! | a secret of `o` | public, or of `o` | a secret of `o` |
//! | masked by `o` | public, in sums and differences | masked by `o` |
//!
//! No other pair has a result: two keys, two owners of plaintext, a mask with a secret.

use crate::page::Instruction;
use crate::plan::Plan;
use crate::program::{Kind, Op, Program, Value};
use crate::site::{KeyDomain, Owner, Secrecy};
use std::collections::BTreeSet;

/// Rules that a plan must satisfy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// Parties: the noise of outputs must not reveal their secrets.
    pub protect: BTreeSet<Owner>,
}

/// Who may know a value, and whose secrets its noise reveals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Who may know it.
    pub secrecy: Secrecy,
    /// Parties: from the noise, the holder of the key may learn about their secrets beyond the
    /// result.
    pub noise_of: BTreeSet<Owner>,
}

/// Why a plan is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsound {
    /// There is no such step, or no such value.
    #[error("instruction {at}: there is no {what}")]
    Unknown {
        /// Its place in the plan.
        at: usize,
        /// The missing step or value.
        what: String,
    },
    /// A value is used, stored or dropped while it is not in memory.
    #[error("instruction {at}: {value} is not in memory")]
    NotResident {
        /// Its place in the plan.
        at: usize,
        /// The value.
        value: Value,
    },
    /// A value is made or loaded although it is already in memory.
    #[error("instruction {at}: {value} is in memory already")]
    Resident {
        /// Its place in the plan.
        at: usize,
        /// The value.
        value: Value,
    },
    /// A value is loaded although the tier does not have it.
    #[error("instruction {at}: {value} is not in the tier")]
    NotStored {
        /// Its place in the plan.
        at: usize,
        /// The value.
        value: Value,
    },
    /// A value is written to the tier a second time.
    #[error("instruction {at}: {value} is in the tier already")]
    Stored {
        /// Its place in the plan.
        at: usize,
        /// The value.
        value: Value,
    },
    /// More memory than the site has.
    #[error("instruction {at}: {used} bytes in memory, and there are {capacity}")]
    Memory {
        /// Its place in the plan.
        at: usize,
        /// Bytes of values.
        used: u64,
        /// Bytes that the site has.
        capacity: u64,
    },
    /// At the end, an output is neither in memory nor in the tier.
    #[error("output {value} is nowhere at the end")]
    Lost {
        /// The output.
        value: Value,
    },
    /// The number of encodings differs from the number of values.
    #[error("expected {expected} encodings, found {found}")]
    Encodings {
        /// Values.
        expected: usize,
        /// Encodings.
        found: usize,
    },
    /// A value in the list of initially resident values is not an input, or is listed twice.
    #[error("{value} cannot be in memory from the start")]
    NoInput {
        /// The value.
        value: Value,
    },
    /// The site may not have the value in memory.
    #[error("site {site} may not hold {value}, {secrecy}")]
    MayNotHold {
        /// The site.
        site: String,
        /// The value.
        value: Value,
        /// Who may know it.
        secrecy: Secrecy,
    },
    /// The site may not write the value to its tier.
    #[error("the tier of site {site} may not hold {value}, {secrecy}")]
    MayNotStore {
        /// The site.
        site: String,
        /// The value.
        value: Value,
        /// Who may know it.
        secrecy: Secrecy,
    },
    /// Arguments that must not be combined.
    #[error("step {step}: {op} of {first} and {second}")]
    Mixed {
        /// The step.
        step: usize,
        /// Its operation.
        op: Op,
        /// Who may know one argument.
        first: Secrecy,
        /// Who may know another.
        second: Secrecy,
    },
    /// A key that does not belong to the value.
    #[error("step {step}: a key that is {found} for a value that is {value}")]
    WrongKey {
        /// The step.
        step: usize,
        /// Who may know the value.
        value: Secrecy,
        /// Whose key it is.
        found: Secrecy,
    },
    /// The noise of an output reveals a protected secret.
    #[error("output {value} tells of the secrets of {owner} by its noise: it must be flooded")]
    Unflooded {
        /// The output.
        value: Value,
        /// Whose secrets.
        owner: String,
    },
    /// No step makes such a result from such arguments.
    #[error("step {step}: {reason}")]
    Step {
        /// The step.
        step: usize,
        /// Why not.
        reason: String,
    },
}

/// A plan that passed the check.
#[derive(Clone, Debug)]
pub struct CheckedPlan(Plan);

impl CheckedPlan {
    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.0
    }
}

impl Plan {
    /// Returns the plan, if it is sound.
    ///
    /// # Errors
    /// The first [`Unsound`] that is found.
    pub fn check(self, requirements: &Requirements) -> Result<CheckedPlan, Unsound> {
        let labels = labels(&self.program)?;
        follow(&self, &labels)?;
        for output in self.program.outputs() {
            if let Some(owner) = labels[output.index()].noise_of.intersection(&requirements.protect).next() {
                return Err(Unsound::Unflooded { value: *output, owner: owner.0.clone() });
            }
        }
        Ok(CheckedPlan(self))
    }
}

/// The label of each value.
///
/// # Errors
/// [`Unsound`] for a step.
pub fn labels(program: &Program) -> Result<Vec<Label>, Unsound> {
    let label = |secrecy: &Secrecy| Label { secrecy: secrecy.clone(), noise_of: BTreeSet::new() };
    let mut all: Vec<Label> = program.inputs().iter().map(|input| label(&input.secrecy)).collect();
    for step in 0..program.steps().len() {
        let (op, args) = (program.steps()[step].op, program.args(step));
        let shapes: Vec<_> = args.iter().map(|arg| *program.shape(*arg)).collect();
        let made = op.result(&shapes).map_err(|reason| Unsound::Step { step, reason })?;
        let shape = &program.steps()[step].shape;
        if made != (shape.kind, shape.level) {
            let reason = format!("expected {made:?}, found {:?} at level {}", shape.kind, shape.level);
            return Err(Unsound::Step { step, reason });
        }
        let is_key = |arg: &Value| program.shape(*arg).kind == Kind::Key;
        let mut values = args.iter().filter(|arg| !is_key(arg)).map(|arg| &all[arg.index()]);
        let Some(first) = values.next() else {
            return Err(Unsound::Step { step, reason: "no argument but keys".to_owned() });
        };
        let mut result = first.clone();
        for value in values {
            result = join(step, op, &result, value)?;
        }
        for key in args.iter().filter(|arg| is_key(arg)).map(|arg| &all[arg.index()].secrecy) {
            if *key != result.secrecy {
                return Err(Unsound::WrongKey { step, value: result.secrecy, found: key.clone() });
            }
        }
        if matches!(op, Op::Flood(_)) {
            result.noise_of.clear();
        }
        all.push(result);
    }
    Ok(all)
}

fn join(step: usize, op: Op, a: &Label, b: &Label) -> Result<Label, Unsound> {
    use Secrecy::{Encrypted, Masked, Public, Secret};
    let mut noise_of: BTreeSet<Owner> = a.noise_of.union(&b.noise_of).cloned().collect();
    let encrypted = |key: &KeyDomain| Encrypted { key: key.clone() };
    let linear = matches!(op, Op::Add | Op::Sub);
    let secrecy = match (&a.secrecy, &b.secrecy) {
        (Public, other) | (other, Public) if linear || !matches!(other, Masked { .. }) => other.clone(),
        (Encrypted { key }, Encrypted { key: other }) if key == other => encrypted(key),
        (Encrypted { key }, Secret { owner }) | (Secret { owner }, Encrypted { key }) => {
            noise_of.insert(owner.clone());
            encrypted(key)
        }
        (Secret { owner }, Secret { owner: other }) if owner == other => a.secrecy.clone(),
        (first, second) => {
            return Err(Unsound::Mixed { step, op, first: first.clone(), second: second.clone() });
        }
    };
    Ok(Label { secrecy, noise_of })
}

/// The state while a plan is followed.
struct State<'a> {
    plan: &'a Plan,
    labels: &'a [Label],
    resident: Vec<bool>,
    stored: Vec<bool>,
    used: u64,
}

fn follow(plan: &Plan, labels: &[Label]) -> Result<(), Unsound> {
    let program = &plan.program;
    if plan.encodings.len() != program.len() {
        return Err(Unsound::Encodings { expected: program.len(), found: plan.encodings.len() });
    }
    let mut stored = vec![false; program.len()];
    stored[..program.inputs().len()].fill(plan.inputs_stored);
    let mut state = State { plan, labels, resident: vec![false; program.len()], stored, used: 0 };
    for value in program.values().take(if plan.inputs_stored { program.inputs().len() } else { 0 }) {
        state.may_store(value)?;
    }
    for value in &plan.resident {
        if value.index() >= program.inputs().len() || state.resident[value.index()] {
            return Err(Unsound::NoInput { value: *value });
        }
        state.enter(0, *value)?;
    }
    for (at, instruction) in plan.instructions.iter().enumerate() {
        state.follow(at, *instruction)?;
    }
    match program.outputs().iter().find(|output| !state.resident[output.index()] && !state.stored[output.index()]) {
        Some(value) => Err(Unsound::Lost { value: *value }),
        None => Ok(()),
    }
}

impl State<'_> {
    fn follow(&mut self, at: usize, instruction: Instruction) -> Result<(), Unsound> {
        let program = &self.plan.program;
        match instruction {
            Instruction::Run(step) => {
                let step = step as usize;
                if step >= program.steps().len() {
                    return Err(Unsound::Unknown { at, what: format!("step {step}") });
                }
                program.args(step).iter().try_for_each(|arg| self.is_there(at, *arg))?;
                self.enter(at, program.result(step))
            }
            Instruction::Load(value) => {
                self.exists(at, value)?;
                if !self.stored[value.index()] {
                    return Err(Unsound::NotStored { at, value });
                }
                self.enter(at, value)
            }
            Instruction::Store(value) => {
                self.exists(at, value)?;
                self.is_there(at, value)?;
                if self.stored[value.index()] {
                    return Err(Unsound::Stored { at, value });
                }
                self.may_store(value)?;
                self.stored[value.index()] = true;
                Ok(())
            }
            Instruction::Drop(value) => {
                self.exists(at, value)?;
                self.is_there(at, value)?;
                self.resident[value.index()] = false;
                self.used -= program.shape(value).resident;
                Ok(())
            }
        }
    }

    fn exists(&self, at: usize, value: Value) -> Result<(), Unsound> {
        let exists = value.index() < self.resident.len();
        exists.then_some(()).ok_or_else(|| Unsound::Unknown { at, what: value.to_string() })
    }

    fn is_there(&self, at: usize, value: Value) -> Result<(), Unsound> {
        if self.resident[value.index()] { Ok(()) } else { Err(Unsound::NotResident { at, value }) }
    }

    fn enter(&mut self, at: usize, value: Value) -> Result<(), Unsound> {
        let (site, secrecy) = (&self.plan.site, &self.labels[value.index()].secrecy);
        if self.resident[value.index()] {
            return Err(Unsound::Resident { at, value });
        }
        if !site.may_hold(secrecy) {
            return Err(Unsound::MayNotHold { site: site.name.clone(), value, secrecy: secrecy.clone() });
        }
        self.resident[value.index()] = true;
        let bytes = self.plan.program.shape(value).resident;
        // no saturation: a later drop subtracts the same bytes
        match self.used.checked_add(bytes).filter(|used| *used <= site.memory) {
            Some(used) => self.used = used,
            None => {
                let used = self.used.saturating_add(bytes);
                return Err(Unsound::Memory { at, used, capacity: site.memory });
            }
        }
        Ok(())
    }

    fn may_store(&self, value: Value) -> Result<(), Unsound> {
        let (site, secrecy) = (&self.plan.site, &self.labels[value.index()].secrecy);
        if site.may_store(secrecy) {
            return Ok(());
        }
        Err(Unsound::MayNotStore { site: site.name.clone(), value, secrecy: secrecy.clone() })
    }
}
