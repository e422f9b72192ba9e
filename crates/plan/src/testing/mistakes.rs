//! Errors: of a planner, and in the description of a program or a site.

use super::Draw;
use crate::page::Instruction;
use crate::plan::Plan;
use crate::program::{Encoding, Input, Kind, Op, Program, ProgramError, Shape, Step, Value};
use crate::site::{Guard, KeyDomain, Owner, Secrecy, Site};

/// One of the two parties of labelled programs.
pub(super) fn owner(draw: &mut Draw<'_>) -> Owner {
    Owner(draw.of(&["ann", "bob"]).to_owned())
}

/// One of the two keys of labelled programs, mostly the same one.
pub(super) fn key(draw: &mut Draw<'_>) -> KeyDomain {
    KeyDomain(draw.of(&["home", "home", "home", "away"]).to_owned())
}

/// Who may know an input of any kind.
pub(super) fn secrecy(draw: &mut Draw<'_>) -> Secrecy {
    match draw.below(4) {
        0 => Secrecy::Public,
        1 => Secrecy::Encrypted { key: key(draw) },
        2 => Secrecy::Secret { owner: owner(draw) },
        _ => Secrecy::Masked { by: owner(draw) },
    }
}

/// An operation with extreme numbers.
pub(super) fn op(draw: &mut Draw<'_>) -> Op {
    let number = draw.of(&[0, 1, -1, 3, i64::MIN, i64::MAX]);
    let count = draw.of(&[0, 1, 2, 40, u16::MAX]);
    draw.of(&[
        Op::Add,
        Op::Sub,
        Op::Neg,
        Op::Mul,
        Op::Dot,
        Op::Scale(number),
        Op::Offset(number),
        Op::Rotate(number),
        Op::Hoist,
        Op::RotateHoisted(number),
        Op::Rescale,
        Op::LowerTo(count),
        Op::Flood(count),
    ])
}

/// A value of the program, most likely the latest; rarely one that does not exist.
fn value(plan: &Plan, draw: &mut Draw<'_>) -> Value {
    match draw.below(16) {
        0 => Value(draw.of(&[plan.program.len() as u32, u32::MAX])),
        _ => Value((draw.below(256) % plan.program.len()) as u32),
    }
}

fn instruction(plan: &Plan, draw: &mut Draw<'_>) -> Instruction {
    let value = value(plan, draw);
    match draw.below(4) {
        0 => Instruction::Run(plan.program.maker(value).unwrap_or(value.index()) as u32),
        1 => Instruction::Load(value),
        2 => Instruction::Store(value),
        _ => Instruction::Drop(value),
    }
}

/// Makes one error that a planner could make.
pub fn change(plan: &mut Plan, draw: &mut Draw<'_>) {
    let count = plan.instructions.len();
    if count == 0 {
        return plan.instructions.push(instruction(plan, draw));
    }
    let place = |draw: &mut Draw<'_>| (256 * draw.below(256) + draw.below(256)) % count;
    let (i, j) = (place(draw), place(draw));
    match draw.below(12) {
        0 => _ = plan.instructions.remove(i),
        1 => plan.instructions.swap(i, j),
        2 => plan.instructions.insert(i, plan.instructions[j]),
        3 => plan.instructions.insert(i, instruction(plan, draw)),
        4 => plan.instructions[i] = instruction(plan, draw),
        5 => {
            // the same instruction with another value
            let value = value(plan, draw);
            plan.instructions[i] = match plan.instructions[i] {
                Instruction::Run(_) => Instruction::Run(plan.program.maker(value).unwrap_or(value.index()) as u32),
                Instruction::Load(_) => Instruction::Load(value),
                Instruction::Store(_) => Instruction::Store(value),
                Instruction::Drop(_) => Instruction::Drop(value),
            };
        }
        6 if !plan.resident.is_empty() => _ = plan.resident.remove(draw.below(plan.resident.len())),
        7 => plan.resident.push(value(plan, draw)),
        8 => plan.site.memory -= plan.site.memory / 8,
        9 => plan.site.memory = draw.of(&[0, 1, plan.forecast.peak.saturating_sub(1), plan.forecast.peak, u64::MAX]),
        10 => match draw.below(8) {
            0 => _ = plan.encodings.pop(),
            1 => plan.encodings.push(Encoding::Raw),
            _ => plan.encodings.reverse(),
        },
        _ => plan.inputs_stored = !plan.inputs_stored,
    }
}

/// The parts of a program, to be combined differently.
struct Parts {
    inputs: Vec<Input>,
    steps: Vec<(Op, Vec<Value>, Shape)>,
    outputs: Vec<Value>,
}

impl Parts {
    fn of(program: &Program) -> Self {
        let step = |(number, step): (usize, &Step)| (step.op, program.args(number).to_vec(), step.shape);
        Self {
            inputs: program.inputs().to_vec(),
            steps: program.steps().iter().enumerate().map(step).collect(),
            outputs: program.outputs().to_vec(),
        }
    }

    fn together(self) -> Result<Program, ProgramError> {
        let mut program = Program::default();
        for input in self.inputs {
            program.add_input(input)?;
        }
        for (op, args, shape) in self.steps {
            program.add_step(op, &args, shape)?;
        }
        program.set_outputs(&self.outputs)?;
        Ok(program)
    }
}

/// Makes one error in the description of the program or the site.
pub fn disguise(plan: &mut Plan, draw: &mut Draw<'_>) {
    let mut parts = Parts::of(&plan.program);
    let any = value(plan, draw);
    let step = draw.below(256) % parts.steps.len().max(1);
    match (draw.below(4), parts.steps.get_mut(step)) {
        (0, _) | (2.., None) => misplace(&mut plan.site, draw),
        (1, _) => {
            let input = draw.below(parts.inputs.len());
            let input = &mut parts.inputs[input];
            if draw.below(2) == 0 {
                input.secrecy = secrecy(draw);
            } else {
                misjudge(&mut input.shape, draw);
            }
        }
        (2, Some((_, args, _))) => {
            let which = draw.below(args.len());
            args[which] = any;
        }
        (_, Some((what, _, shape))) => {
            if draw.below(2) == 0 {
                *what = op(draw);
            } else {
                misjudge(shape, draw);
            }
        }
    }
    // other modules reject parts that form no program
    if let Ok(program) = parts.together() {
        plan.program = program;
    }
}

fn misjudge(shape: &mut Shape, draw: &mut Draw<'_>) {
    let bytes = draw.of(&[0, 1, 1000, u64::MAX / 2, u64::MAX - 1, u64::MAX]);
    match draw.below(4) {
        0 => shape.kind = draw.of(&[Kind::Plain, Kind::Encrypted, Kind::Hoisted, Kind::Key]),
        1 => shape.level = draw.of(&[0, 1, 2, u16::MAX]),
        2 => shape.resident = bytes,
        _ => (shape.packed, shape.raw) = (bytes, bytes),
    }
}

fn misplace(site: &mut Site, draw: &mut Draw<'_>) {
    match draw.below(6) {
        0 => site.keys.push(key(draw)),
        1 => site.guard = draw.of(&[Guard::Process, Guard::SimulatedEnclave, Guard::Enclave]),
        2 => site.tier = !site.tier,
        3 => site.trusted_by = vec![owner(draw)],
        4 => site.tier_of = vec![owner(draw)],
        _ => site.tier_of.clear(),
    }
}
