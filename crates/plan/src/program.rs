//! Straight-line programs over vectors.
//!
//! A [`Program`] has inputs, steps and outputs. A step has one operation, arguments that exist
//! before it, and one result that never changes: static single assignment. No step branches, so the
//! steps, their order, and all reads and writes are independent of the computed values.
//!
//! A job is written once, as ordinary code over a [`Machine`]. [`Recorder`] turns it into a
//! program; [`Direct`](crate::engine::Direct) runs it at once.

use crate::engine::{Machine, Shapes};
use crate::site::Secrecy;
pub use crate::step::{Encoding, Kind, Op, Shape};
use std::fmt;

/// A value of a program: inputs have the first numbers, then the results of the steps.
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

/// An input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// A name for people.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
    /// Who may know it.
    pub secrecy: Secrecy,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its operation.
    pub op: Op,
    /// The place of its arguments in the program's list of arguments.
    first: u32,
    count: u32,
    /// The shape of the result.
    pub shape: Shape,
}

/// Why a program is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// There are more than 2^32 values.
    #[error("expected at most 2^32 values and arguments, found more")]
    TooLong,
    /// An argument does not exist before the step.
    #[error("step {step}: expected arguments from before it, found {value}")]
    NotYet {
        /// The step.
        step: usize,
        /// The argument.
        value: Value,
    },
    /// There are too few arguments, or too many.
    #[error("step {step}: expected {expected} arguments for {op}, found {found}")]
    Arguments {
        /// The step.
        step: usize,
        /// Its operation.
        op: Op,
        /// Expected number.
        expected: String,
        /// Number found.
        found: usize,
    },
    /// There is no output, or one does not exist.
    #[error("expected outputs among the values, found {found}")]
    Outputs {
        /// Description of the outputs found.
        found: String,
    },
    /// The engine has no result for these shapes.
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

    /// The steps, in order of recording.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The outputs.
    pub fn outputs(&self) -> &[Value] {
        &self.outputs
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.inputs.len() + self.steps.len()
    }

    /// Whether the program has no values.
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

    /// The shape of a value.
    pub fn shape(&self, value: Value) -> &Shape {
        match self.maker(value) {
            None => &self.inputs[value.index()].shape,
            Some(step) => &self.steps[step].shape,
        }
    }

    /// Bytes of all inputs and results, and of the inputs alone.
    pub fn bytes(&self) -> [u64; 2] {
        let inputs = self.inputs.iter().map(|input| input.shape.resident).sum::<u64>();
        [inputs + self.steps.iter().map(|step| step.shape.resident).sum::<u64>(), inputs]
    }

    /// Adds an input.
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

    /// Adds a step with the shape of its result.
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

    /// Sets the outputs.
    ///
    /// # Errors
    /// [`ProgramError::Outputs`] if the list is empty, contains an unknown value, or contains a
    /// value twice.
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

    /// For each step, whether an output depends on it.
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

/// A machine that records steps.
pub struct Recorder<'a, S: ?Sized> {
    shapes: &'a S,
    program: Program,
}

impl<'a, S: Shapes + ?Sized> Recorder<'a, S> {
    /// An empty recorder; `shapes` gives the shapes of results.
    pub fn new(shapes: &'a S) -> Self {
        Self { shapes, program: Program::default() }
    }

    /// Records an input.
    ///
    /// # Errors
    /// As in [`Program::add_input`].
    pub fn input(&mut self, name: impl Into<String>, shape: Shape, secrecy: Secrecy) -> Result<Value, ProgramError> {
        self.program.add_input(Input { name: name.into(), shape, secrecy })
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// As in [`Program::set_outputs`].
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
