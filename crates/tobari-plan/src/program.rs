//! Straight-line programs over vectors.
//!
//! A [`Program`] has inputs, steps and outputs. A step has one operation, arguments that exist before it, and one result that never changes:
//! static single assignment. There is no step that chooses, so what runs, in what order, and what is read and written depends on nothing that
//! is computed.
//!
//! A job is written once, as ordinary code over a [`Machine`]: recorded ([`Recorder`]) it is a program; on
//! [`Direct`](crate::engine::Direct) it runs at once.

mod results;

use crate::engine::{Machine, Shapes};
use crate::site::Secrecy;
use results::{after_polynomial, bilinear, key_fits, rotate_sum, transform};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A value of a program: its inputs are numbered first, then the results of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(pub(crate) u32);

impl Value {
    /// Its number.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

/// What a step does, slot by slot unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Op {
    /// `a + b + …` of two values or more.
    Add,
    /// `a - b`.
    Sub,
    /// `-a`.
    Neg,
    /// `a b`. Of two encrypted values with a relinearisation key as third argument; the result is a level lower, rescaled.
    Mul,
    /// `a_0 b_0 + a_1 b_1 + …` of `a_0, b_0, a_1, b_1, …`: one step, because a sum that is streamed through memory costs more than its
    /// products. The level stays. Every `b` is plain; or all are encrypted and a relinearisation key comes last, which is used once, for the sum.
    Dot,
    /// `c a` for an integer.
    Scale(i64),
    /// `a + c` for an integer.
    Offset(i64),
    /// Slot `i` of the result is slot `i + steps`; the second argument is the key for these steps, where the first is encrypted.
    Rotate(i64),
    /// The two rows change places; the second argument is the key for it, where the first is encrypted. Exact integers stand in two rows.
    Swap,
    /// What all rotations of one encrypted value have in common.
    Hoist,
    /// [`Op::Rotate`] of what was hoisted.
    RotateHoisted(i64),
    /// `Σ_g ρ_(g giant)( Σ_(i,b) w_(g,i,b) ρ_(b baby)(a_i) )`, `b < babies` and `g < giants`: a linear map by its diagonals, in one step, because what rotations and sums
    /// share is most of their cost. Arguments: the encrypted `a_i`; the plain `w`, by giant step, then `i`, then baby step; the keys of the baby steps but 0,
    /// and that of one giant step if there are several. The level stays.
    Transform {
        /// Slots of a baby step.
        baby: i64,
        /// How many baby steps.
        babies: u16,
        /// Slots of a giant step.
        giant: i64,
        /// How many giant steps.
        giants: u16,
    },
    /// `Σ_(i<n) c_i a^i`, the second argument having the `c_i` in its first slots: one step, because powers and sums share most of the work. A relinearisation key comes third; the result
    /// is `⌈log2 n⌉` levels lower.
    Polynomial(u16),
    /// `1/divisor Σ_(i,j) w_(i,j) a_i b_j` with `a_0 = b_0 = 1`, for several lists `w`: arguments are the encrypted `a_1, …`, the encrypted `b_1, …`, for each form a plain vector with the `w`, row
    /// by row, in its first slots, and a relinearisation key, which is used once for each. Results are a level lower, rescaled; more than one are [`Kind::Several`].
    Bilinear {
        /// How many `a`.
        left: u8,
        /// How many `b`.
        right: u8,
        /// How many forms.
        forms: u8,
        /// What sums are divided by: an integer that has an inverse.
        divisor: i64,
    },
    /// One of several.
    Part(u8),
    /// `Σ a + Σ_g ρ_(steps_g)(Σ h_g)`: arguments are the encrypted `a`, as many as there are, then what was hoisted for each of three rotations, `counts` of each, and a key for each that has any. One step,
    /// because the sum is switched to its level once.
    RotateSum {
        /// Of the three rotations.
        steps: [i64; 3],
        /// How many are rotated by each; the first ones have some.
        counts: [u8; 3],
    },
    /// The same value a level lower: divided by its last prime, and its scale with it, or switched.
    Rescale,
    /// The same value at a lower level, without a division.
    LowerTo(u16),
    /// The same value with noise of so many bits more than it has, drawn for this step: what leaves may not tell how it came about.
    Flood(u16),
}

impl Op {
    /// A name for tables of costs.
    pub fn name(self) -> &'static str {
        match self {
            Op::Add => "add",
            Op::Sub => "sub",
            Op::Neg => "neg",
            Op::Mul => "mul",
            Op::Dot => "dot",
            Op::Scale(_) => "scale",
            Op::Offset(_) => "offset",
            Op::Rotate(_) => "rotate",
            Op::Swap => "swap",
            Op::Hoist => "hoist",
            Op::RotateHoisted(_) => "rotate_hoisted",
            Op::Transform { .. } => "transform",
            Op::Polynomial(_) => "polynomial",
            Op::Bilinear { .. } => "bilinear",
            Op::Part(_) => "part",
            Op::RotateSum { .. } => "rotate_sum",
            Op::Rescale => "rescale",
            Op::LowerTo(_) => "lower_to",
            Op::Flood(_) => "flood",
        }
    }

    /// The same with one form in place of several.
    pub(crate) fn once(self) -> Self {
        match self {
            Op::Bilinear { left, right, divisor, .. } => Op::Bilinear { left, right, forms: 1, divisor },
            other => other,
        }
    }

    /// Whether it draws randomness: done twice within a run it must draw the same.
    pub fn is_randomised(self) -> bool {
        matches!(self, Op::Flood(_))
    }

    /// What kind of value it makes of these, and at which level: the same under every engine. Plain arguments are to serve the level of the result.
    /// Scales of approximate numbers are no part of shapes: engines compare them.
    ///
    /// # Errors
    /// Why it makes none.
    pub fn result(self, args: &[Shape]) -> Result<(Kind, u16), String> {
        use Kind::{Encrypted, Hoisted, Key, Plain, Several};
        let kinds: Vec<Kind> = args.iter().map(|arg| arg.kind).collect();
        let vectors = |args: &[Shape]| {
            let encrypted = || args.iter().filter(|arg| arg.kind == Encrypted);
            let all = args.iter().all(|arg| matches!(arg.kind, Plain | Encrypted));
            let level = encrypted().map(|arg| arg.level).min();
            let plain = args.iter().map(|arg| arg.level).min().unwrap_or(0);
            all.then_some(level.map_or((Plain, plain), |level| (Encrypted, level)))
        };
        let made = match (self, &kinds[..]) {
            (Op::Add | Op::Sub, _)
            | (Op::Neg | Op::Scale(_) | Op::Offset(_), [_])
            | (Op::Mul, [Encrypted | Plain, Plain]) => vectors(args),
            (Op::Mul, [Encrypted, Encrypted, Key]) => {
                let level = args[0].level.min(args[1].level);
                if level == 0 {
                    return Err("expected a level for a product, found none left".to_owned());
                }
                key_fits(&args[2], level)?;
                Some((Encrypted, level - 1))
            }
            (Op::Dot, [pairs @ .., Key])
                if pairs.len() >= 2 && pairs.len() % 2 == 0 && pairs.iter().all(|kind| *kind == Encrypted) =>
            {
                let (key, pairs) = args.split_last().ok_or("expected a key")?;
                let level = pairs.iter().map(|arg| arg.level).min().unwrap_or(0);
                key_fits(key, level)?;
                Some((Encrypted, level))
            }
            (Op::Dot, _) if kinds.chunks(2).all(|pair| pair[0] != Hoisted && pair[1..] == [Plain]) => vectors(args),
            (Op::Transform { babies, giants, .. }, _) => transform(args, babies.into(), giants.into())?,
            (Op::Rotate(_) | Op::Swap, [Plain]) => Some((Plain, args[0].level)),
            (Op::Rotate(_) | Op::Swap, [Encrypted, Key]) | (Op::RotateHoisted(_), [Hoisted, Key]) => {
                key_fits(&args[1], args[0].level)?;
                Some((Encrypted, args[0].level))
            }
            (Op::Polynomial(length), [Encrypted, Plain, Key]) => Some((Encrypted, after_polynomial(args, length)?)),
            (Op::Bilinear { left, right, forms, .. }, _) => bilinear(args, [left, right, forms].map(usize::from))?,
            (Op::RotateSum { counts, .. }, _) => rotate_sum(args, counts)?,
            (Op::Hoist, [Encrypted]) => Some((Hoisted, args[0].level)),
            (Op::Rescale, [Encrypted]) if args[0].level > 0 => Some((Encrypted, args[0].level - 1)),
            (Op::LowerTo(level), [Encrypted]) if level <= args[0].level => Some((Encrypted, level)),
            (Op::Flood(_), [Encrypted]) | (Op::Part(_), [Several]) => Some((Encrypted, args[0].level)),
            _ => None,
        };
        if let Some((_, level)) = made
            && let Some(low) = args.iter().find(|arg| arg.kind == Plain && arg.level < level)
        {
            return Err(format!("expected plain arguments of {self} for level {level}, found one up to {}", low.level));
        }
        made.ok_or_else(|| {
            let args: Vec<String> = args.iter().map(|arg| format!("{:?} at level {}", arg.kind, arg.level)).collect();
            format!("expected arguments that {self} takes, found {}", args.join(", "))
        })
    }

    /// How many arguments it takes, at least and at most.
    pub(crate) fn arity(self) -> (usize, usize) {
        match self {
            Op::Add | Op::Dot | Op::Transform { .. } | Op::RotateSum { .. } => (2, usize::MAX),
            Op::Sub | Op::RotateHoisted(_) => (2, 2),
            Op::Mul => (2, 3),
            Op::Polynomial(_) => (3, 3),
            Op::Bilinear { .. } => (3, usize::MAX),
            Op::Rotate(_) | Op::Swap => (1, 2),
            Op::Part(_)
            | Op::Neg
            | Op::Scale(_)
            | Op::Offset(_)
            | Op::Hoist
            | Op::Rescale
            | Op::LowerTo(_)
            | Op::Flood(_) => (1, 1),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Scale(c) | Op::Offset(c) => write!(f, "{} {c}", self.name()),
            Op::Rotate(steps) | Op::RotateHoisted(steps) => write!(f, "{} {steps}", self.name()),
            Op::Transform { baby, babies, giant, giants } => {
                write!(f, "{} {babies} by {baby}, {giants} by {giant}", self.name())
            }
            Op::Part(which) => write!(f, "{} {which}", self.name()),
            Op::Bilinear { left, right, forms, divisor } => {
                write!(f, "{} {left} by {right}, {forms} times, over {divisor}", self.name())
            }
            Op::RotateSum { steps, counts } => write!(f, "{} {counts:?} by {steps:?}", self.name()),
            Op::LowerTo(level) => write!(f, "{} {level}", self.name()),
            Op::Polynomial(length) => write!(f, "{} of {length}", self.name()),
            Op::Flood(bits) => write!(f, "{} {bits}", self.name()),
            _ => f.write_str(self.name()),
        }
    }
}

/// What kind of thing a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Kind {
    /// A vector in the clear.
    Plain,
    /// An encrypted vector.
    Encrypted,
    /// What [`Op::Hoist`] makes.
    Hoisted,
    /// Encrypted vectors that one step made together.
    Several,
    /// A key that a server computes with, public.
    Key,
}

/// What is known of a value before there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// What it is.
    pub kind: Kind,
    /// Multiplications that are left, where it is encrypted; those that it is fit for, where it is a key or plain.
    pub level: u16,
    /// Bytes in memory.
    pub resident: u64,
    /// Bytes in the tier, [`Encoding::Packed`].
    pub packed: u64,
    /// Bytes in the tier, [`Encoding::Raw`].
    pub raw: u64,
}

impl Shape {
    /// Bytes in the tier.
    pub fn stored(&self, encoding: Encoding) -> u64 {
        match encoding {
            Encoding::Packed => self.packed,
            Encoding::Raw => self.raw,
        }
    }
}

/// How a value's bytes stand in the tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// As few as there can be: packed bits, seeds for what is random, small integers for what they are expanded to. Cores have to work for it.
    Packed,
    /// As in memory: cores copy.
    Raw,
}

/// An input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// What people call it.
    pub name: String,
    /// What it is.
    pub shape: Shape,
    /// Who may know it.
    pub secrecy: Secrecy,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it does.
    pub op: Op,
    /// Where its arguments stand in the program's list of them.
    first: u32,
    count: u32,
    /// What comes out.
    pub shape: Shape,
}

/// A program that is no program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// More than 2^32 values.
    #[error("expected at most 2^32 values and arguments, found more")]
    TooLong,
    /// An argument that does not exist before the step.
    #[error("step {step}: expected arguments from before it, found {value}")]
    NotYet {
        /// The step.
        step: usize,
        /// The argument.
        value: Value,
    },
    /// Too few arguments, or too many.
    #[error("step {step}: expected {expected} arguments for {op}, found {found}")]
    Arguments {
        /// The step.
        step: usize,
        /// What it does.
        op: Op,
        /// How many there should be.
        expected: String,
        /// How many there are.
        found: usize,
    },
    /// No output, or one that does not exist.
    #[error("expected outputs among the values, found {found}")]
    Outputs {
        /// What there was.
        found: String,
    },
    /// What an engine says about shapes.
    #[error("step {step}: {reason}")]
    Shape {
        /// The step.
        step: usize,
        /// Why there is no such result.
        reason: String,
    },
}

/// A straight line of steps.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Program {
    inputs: Vec<Input>,
    steps: Vec<Step>,
    args: Vec<Value>,
    outputs: Vec<Value>,
}

impl Program {
    /// The inputs: values `0..`.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The steps, in the order in which they were written.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The outputs.
    pub fn outputs(&self) -> &[Value] {
        &self.outputs
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.inputs.len() + self.steps.len()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = Value> {
        (0..self.len() as u32).map(Value)
    }

    /// The result of a step.
    pub fn result(&self, step: usize) -> Value {
        Value((self.inputs.len() + step) as u32)
    }

    /// The step that makes a value; none for an input.
    pub fn maker(&self, value: Value) -> Option<usize> {
        value.index().checked_sub(self.inputs.len())
    }

    /// The arguments of a step.
    pub fn args(&self, step: usize) -> &[Value] {
        let step = &self.steps[step];
        &self.args[step.first as usize..][..step.count as usize]
    }

    /// What is known of a value.
    pub fn shape(&self, value: Value) -> &Shape {
        match self.maker(value) {
            None => &self.inputs[value.index()].shape,
            Some(step) => &self.steps[step].shape,
        }
    }

    /// Bytes of all inputs and of whatever steps make, and of the inputs alone.
    pub fn bytes(&self) -> [u64; 2] {
        let inputs = self.inputs.iter().map(|input| input.shape.resident).sum::<u64>();
        [inputs + self.steps.iter().map(|step| step.shape.resident).sum::<u64>(), inputs]
    }

    /// A new input.
    ///
    /// # Errors
    /// [`ProgramError::TooLong`]; [`ProgramError::NotYet`] after the first step.
    pub fn add_input(&mut self, input: Input) -> Result<Value, ProgramError> {
        let value = Value(self.len().try_into().map_err(|_| ProgramError::TooLong)?);
        if !self.steps.is_empty() {
            return Err(ProgramError::NotYet { step: self.steps.len(), value });
        }
        self.inputs.push(input);
        Ok(value)
    }

    /// A new step, with what it makes.
    ///
    /// # Errors
    /// [`ProgramError`] of a step.
    pub fn add_step(&mut self, op: Op, args: &[Value], shape: Shape) -> Result<Value, ProgramError> {
        let (step, value) = (self.steps.len(), Value(self.len().try_into().map_err(|_| ProgramError::TooLong)?));
        let (least, most) = op.arity();
        let pairs = match args {
            [.., last] if *last < value && self.shape(*last).kind == Kind::Key => args.len() - 1,
            _ => args.len(),
        };
        if args.len() < least || args.len() > most || (op == Op::Dot && (pairs < 2 || pairs % 2 == 1)) {
            let expected = if most == usize::MAX { format!("{least} or more") } else { format!("{least} to {most}") };
            return Err(ProgramError::Arguments { step, op, expected, found: args.len() });
        }
        if let Some(value) = args.iter().find(|arg| **arg >= value) {
            return Err(ProgramError::NotYet { step, value: *value });
        }
        let first = self.args.len().try_into().map_err(|_| ProgramError::TooLong)?;
        self.args.extend_from_slice(args);
        self.steps.push(Step { op, first, count: args.len() as u32, shape });
        Ok(value)
    }

    /// What the program is for.
    ///
    /// # Errors
    /// [`ProgramError::Outputs`] if there is none, or one that does not exist or stands there twice.
    pub fn set_outputs(&mut self, outputs: &[Value]) -> Result<(), ProgramError> {
        let mut sorted = outputs.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let found = match (sorted.last(), outputs.len() == sorted.len()) {
            (None, _) => "none".to_owned(),
            (Some(value), _) if value.index() >= self.len() => value.to_string(),
            (_, false) => "one of them twice".to_owned(),
            _ => {
                self.outputs = outputs.to_vec();
                return Ok(());
            }
        };
        Err(ProgramError::Outputs { found })
    }

    /// For each step whether an output depends on it.
    pub fn needed(&self) -> Vec<bool> {
        let mut needed = vec![false; self.steps.len()];
        for output in &self.outputs {
            self.maker(*output).into_iter().for_each(|step| needed[step] = true);
        }
        for step in (0..self.steps.len()).rev() {
            if needed[step] {
                for arg in self.args(step) {
                    self.maker(*arg).into_iter().for_each(|step| needed[step] = true);
                }
            }
        }
        needed
    }
}

/// A machine that writes down what it is told to do.
pub struct Recorder<'a, S: ?Sized> {
    shapes: &'a S,
    program: Program,
}

impl<'a, S: Shapes + ?Sized> Recorder<'a, S> {
    /// Nothing written yet; `shapes` says what steps make.
    pub fn new(shapes: &'a S) -> Self {
        Self { shapes, program: Program::default() }
    }

    /// An input.
    ///
    /// # Errors
    /// As [`Program::add_input`].
    pub fn input(&mut self, name: impl Into<String>, shape: Shape, secrecy: Secrecy) -> Result<Value, ProgramError> {
        self.program.add_input(Input { name: name.into(), shape, secrecy })
    }

    /// The program.
    ///
    /// # Errors
    /// As [`Program::set_outputs`].
    pub fn finish(mut self, outputs: &[Value]) -> Result<Program, ProgramError> {
        self.program.set_outputs(outputs)?;
        Ok(self.program)
    }
}

impl<S: Shapes + ?Sized> Machine for Recorder<'_, S> {
    type Value = Value;
    type Error = ProgramError;

    fn step(&mut self, op: Op, args: &[&Value]) -> Result<Value, ProgramError> {
        let step = self.program.steps.len();
        let args: Vec<Value> = args.iter().copied().copied().collect();
        if let Some(value) = args.iter().find(|arg| arg.index() >= self.program.len()) {
            return Err(ProgramError::NotYet { step, value: *value });
        }
        let shapes: Vec<Shape> = args.iter().map(|arg| *self.program.shape(*arg)).collect();
        let shape = self.shapes.shape(op, &shapes).map_err(|reason| ProgramError::Shape { step, reason })?;
        self.program.add_step(op, &args, shape)
    }
}
