//! Engines, which compute steps, and the machines that jobs are written for.

use crate::step::{Encoding, Op, Shape};
use std::sync::Arc;

/// The shapes of results, derived from the shapes of the arguments alone.
pub trait Shapes {
    /// The shape of the result.
    ///
    /// # Errors
    /// The reason why no such step exists, in words.
    fn shape(&self, op: Op, args: &[Shape]) -> Result<Shape, String>;
}

/// Computes steps: in plaintext, or under encryption.
///
/// **The same step gives the same value**, to the bit, at any time in a run, however often, and on
/// any thread. Randomised steps draw from a secret of the run and the number of the step. Fresh
/// noise for each repetition could be averaged away.
pub trait Engine: Shapes + Sync {
    /// The values that it computes with.
    type Value: Send + Sync;
    /// Why it failed.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Step number `step` of a program.
    ///
    /// # Errors
    /// The engine's own.
    fn step(&self, step: usize, op: Op, args: &[&Self::Value]) -> Result<Self::Value, Self::Error>;

    /// The same step, to the bit, for a caller that no longer needs the first argument: its memory
    /// may become the result's.
    ///
    /// # Errors
    /// As in [`Self::step`].
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

    /// The value as bytes: exactly as many as [`Shape::stored`] gives.
    ///
    /// # Errors
    /// The engine's own, also for a value that must not leave memory.
    fn export(
        &self,
        value: &Self::Value,
        shape: &Shape,
        encoding: Encoding,
        bytes: &mut [u8],
    ) -> Result<(), Self::Error>;

    /// The value with these bytes, to the bit.
    ///
    /// # Errors
    /// The engine's own, if the bytes are not such a value.
    fn import(&self, shape: &Shape, encoding: Encoding, bytes: &[u8]) -> Result<Self::Value, Self::Error>;
}

/// The interface that jobs are written against: steps are recorded, or run at once.
pub trait Machine {
    /// A value, or its number.
    type Value: Clone;
    /// Why a step failed.
    type Error;

    /// One step.
    ///
    /// # Errors
    /// The machine's own.
    fn step(&mut self, op: Op, args: &[&Self::Value]) -> Result<Self::Value, Self::Error>;

    /// `a + b`.
    ///
    /// # Errors
    /// As in [`Self::step`]; the same for all methods below.
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

    /// `a b`, with `b` in plaintext.
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

/// Runs each step at once, on one thread, with everything in memory: the reference for plans.
pub struct Direct<'a, E> {
    engine: &'a E,
    steps: usize,
}

impl<'a, E: Engine> Direct<'a, E> {
    /// A machine that numbers steps from 0.
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
