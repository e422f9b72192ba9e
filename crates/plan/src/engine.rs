//! What computes steps, and what jobs are written for.

use crate::step::{Encoding, Op, Shape};
use std::sync::Arc;

/// What steps make, told from the shapes of their arguments alone.
pub trait Shapes {
    /// The shape of the result.
    ///
    /// # Errors
    /// Why there is no such step, in words.
    fn shape(&self, op: Op, args: &[Shape]) -> Result<Shape, String>;
}

/// What computes steps: in the clear, or under encryption.
///
/// **The same step gives the same value**, to the bit, whenever and however often it is done within
/// a run, on whichever thread: randomised steps draw from a secret of the run and the number of the
/// step. Noise that was drawn anew each time could be averaged away.
pub trait Engine: Shapes + Sync {
    /// What it computes with.
    type Value: Send + Sync;
    /// Why it could not.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Step number `step` of a program.
    ///
    /// # Errors
    /// The engine's own.
    fn step(&self, step: usize, op: Op, args: &[&Self::Value]) -> Result<Self::Value, Self::Error>;

    /// The same step, to the bit, for whoever has no more use for the first argument: its memory
    /// may become the result's.
    ///
    /// # Errors
    /// As [`Self::step`].
    fn step_owned(
        &self,
        step: usize,
        op: Op,
        first: Self::Value,
        rest: &[&Self::Value],
    ) -> Result<Self::Value, Self::Error> {
        let args: Vec<&Self::Value> = std::iter::once(&first).chain(rest.iter().copied()).collect();
        self.step(step, op, &args)
    }

    /// The value as bytes: exactly as many as [`Shape::stored`] says of it.
    ///
    /// # Errors
    /// The engine's own; that a value may not leave memory is one.
    fn export(
        &self,
        value: &Self::Value,
        shape: &Shape,
        encoding: Encoding,
        bytes: &mut [u8],
    ) -> Result<(), Self::Error>;

    /// The value of such bytes, to the bit.
    ///
    /// # Errors
    /// The engine's own, if they are no such value.
    fn import(&self, shape: &Shape, encoding: Encoding, bytes: &[u8]) -> Result<Self::Value, Self::Error>;
}

/// What a job is written for: steps that are recorded, or done at once.
pub trait Machine {
    /// A value, or its name.
    type Value: Clone;
    /// Why a step could not be.
    type Error;

    /// One step.
    ///
    /// # Errors
    /// The machine's own.
    fn step(&mut self, op: Op, args: &[&Self::Value]) -> Result<Self::Value, Self::Error>;

    /// `a + b`.
    ///
    /// # Errors
    /// As [`Self::step`], and so all below.
    fn add(&mut self, a: &Self::Value, b: &Self::Value) -> Result<Self::Value, Self::Error> {
        self.step(Op::Add, &[a, b])
    }

    /// `a - b`.
    ///
    /// # Errors
    /// As above.
    fn sub(&mut self, a: &Self::Value, b: &Self::Value) -> Result<Self::Value, Self::Error> {
        self.step(Op::Sub, &[a, b])
    }

    /// `a b`, `b` in the clear.
    ///
    /// # Errors
    /// As above.
    fn mul_plain(&mut self, a: &Self::Value, b: &Self::Value) -> Result<Self::Value, Self::Error> {
        self.step(Op::Mul, &[a, b])
    }

    /// `a b`, both encrypted.
    ///
    /// # Errors
    /// As above.
    fn mul(&mut self, a: &Self::Value, b: &Self::Value, key: &Self::Value) -> Result<Self::Value, Self::Error> {
        self.step(Op::Mul, &[a, b, key])
    }

    /// Slot `i` of the result is slot `i + steps`.
    ///
    /// # Errors
    /// As above.
    fn rotate(&mut self, a: &Self::Value, steps: i64, key: &Self::Value) -> Result<Self::Value, Self::Error> {
        self.step(Op::Rotate(steps), &[a, key])
    }
}

/// A machine that does each step at once, on one thread, with everything in memory: what a plan is
/// compared with.
pub struct Direct<'a, E> {
    engine: &'a E,
    steps: usize,
}

impl<'a, E: Engine> Direct<'a, E> {
    /// Steps are numbered from 0.
    pub fn new(engine: &'a E) -> Self {
        Self { engine, steps: 0 }
    }
}

impl<E: Engine> Machine for Direct<'_, E> {
    type Value = Arc<E::Value>;
    type Error = E::Error;

    fn step(&mut self, op: Op, args: &[&Arc<E::Value>]) -> Result<Arc<E::Value>, E::Error> {
        let args: Vec<&E::Value> = args.iter().map(|arg| &***arg).collect();
        let value = self.engine.step(self.steps, op, &args)?;
        self.steps += 1;
        Ok(Arc::new(value))
    }
}
