//! The reference job of plans: encrypted vectors times a matrix, and a polynomial of the products.
//!
//! For vectors `x_v` and a matrix that is given by `D` of its diagonals `d_k` (Halevi, Shoup,
//! CRYPTO 2014), it computes
//!
//! ```text
//! y_v = Σ_k d_k ⊙ rot_k(x_v),      z = Σ_v y_v^3 + 3 y_v,
//! ```
//!
//! slot by slot modulo `t`. The server has the diagonals and public keys; the vectors and `z` are
//! encrypted for the client, and `z` is flooded, so that it tells nothing of the diagonals but
//! itself. Every diagonal needs a rotation key of its own, some forty megabytes: a working set of
//! gigabytes that any larger job has, too. It is written down vector by vector, as one would; which
//! order is kind to memory is the planner's affair.
//!
//! Who sees what: the server the number of vectors and of diagonals; the client `z`.

use crate::{BgvEngine, EngineError};
use tobari_plan::engine::Machine;
use tobari_plan::program::{Op, Program, ProgramError, Recorder, Value};
use tobari_plan::site::{KeyDomain, Owner, Secrecy};

/// Bits by which `z` is flooded: the statistical distance of what two matrices with the same result
/// give is below 2^-40 a slot.
pub const FLOOD_BITS: u16 = 40;

/// How large a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Vectors.
    pub vectors: usize,
    /// Diagonals; one less is the number of rotation keys.
    pub diagonals: usize,
}

/// What a job takes.
#[derive(Clone, Debug)]
pub struct Inputs<V> {
    /// `x_v`.
    pub vectors: Vec<V>,
    /// `d_k`.
    pub diagonals: Vec<V>,
    /// The keys of `rot_k`, from `k = 1` on.
    pub rotations: Vec<V>,
    /// The key of products.
    pub relinearization: V,
}

/// The job, on any machine.
///
/// # Errors
/// The machine's.
pub fn program<M: Machine>(machine: &mut M, inputs: &Inputs<M::Value>) -> Result<Option<M::Value>, M::Error> {
    let mut sum: Option<M::Value> = None;
    for x in &inputs.vectors {
        let mut diagonals = inputs.diagonals.iter();
        let Some(first) = diagonals.next() else { return Ok(None) };
        let mut y = machine.mul_plain(x, first)?;
        for (steps, (diagonal, key)) in (1..).zip(diagonals.zip(&inputs.rotations)) {
            let turned = machine.rotate(x, steps, key)?;
            let product = machine.mul_plain(&turned, diagonal)?;
            y = machine.add(&y, &product)?;
        }
        let y = machine.step(Op::Rescale, &[&y])?;
        let square = machine.mul(&y, &y, &inputs.relinearization)?;
        let cube = machine.mul(&square, &y, &inputs.relinearization)?;
        let thrice = machine.step(Op::Scale(3), &[&y])?;
        let value = machine.add(&cube, &thrice)?;
        sum = Some(match sum {
            None => value,
            Some(sum) => machine.add(&sum, &value)?,
        });
    }
    match sum {
        Some(sum) => machine.step(Op::Flood(FLOOD_BITS), &[&sum]).map(Some),
        None => Ok(None),
    }
}

/// Why there is no program of a size.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MatrixError {
    /// Nothing to compute.
    #[error("expected at least one vector and one diagonal, found {vectors} and {diagonals}")]
    Empty {
        /// Vectors.
        vectors: usize,
        /// Diagonals.
        diagonals: usize,
    },
    /// What the recorder says.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// What the engine says.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The client: whose vectors they are.
pub fn client() -> KeyDomain {
    KeyDomain("client".to_owned())
}

/// The server: whose diagonals they are.
pub fn server() -> Owner {
    Owner("server".to_owned())
}

/// The program of a job of some size, and its inputs by name.
///
/// # Errors
/// [`MatrixError`].
pub fn record(engine: &BgvEngine, size: Size) -> Result<(Program, Inputs<Value>), MatrixError> {
    let Size { vectors, diagonals } = size;
    let level = engine.top_level();
    let mut recorder = Recorder::new(engine);
    let encrypted = || Secrecy::Encrypted { key: client() };
    let mut named = |name: &str, range: std::ops::Range<usize>, shape, secrecy: &dyn Fn() -> Secrecy| {
        range.map(|i| recorder.input(format!("{name} {i}"), shape, secrecy())).collect::<Result<Vec<_>, _>>()
    };
    let secret = || Secrecy::Secret { owner: server() };
    let inputs = Inputs {
        vectors: named("vector", 0..vectors, engine.ciphertext_shape(level)?, &encrypted)?,
        diagonals: named("diagonal", 0..diagonals, engine.plaintext_shape(level)?, &secret)?,
        rotations: named("rotation key", 1..diagonals, engine.rotation_key_shape(level)?, &encrypted)?,
        relinearization: recorder.input(
            "relinearization key",
            engine.relinearization_key_shape(level)?,
            encrypted(),
        )?,
    };
    let output = program(&mut recorder, &inputs)?.ok_or(MatrixError::Empty { vectors, diagonals })?;
    Ok((recorder.finish(&[output])?, inputs))
}

/// The size whose inputs and sums have about `bytes` bytes in memory.
///
/// # Errors
/// [`MatrixError::Engine`].
pub fn size(engine: &BgvEngine, bytes: u64) -> Result<Size, MatrixError> {
    let (level, vectors) = (engine.top_level(), 24);
    let of_vectors = 2 * vectors as u64 * engine.ciphertext_shape(level)?.resident;
    let each = engine.plaintext_shape(level)?.resident + engine.rotation_key_shape(level)?.resident;
    Ok(Size { vectors, diagonals: (bytes.saturating_sub(of_vectors) / each).max(2) as usize })
}
