//! The reference job of plans: encrypted vectors times a matrix, and a polynomial of the products.
//!
//! For vectors `x_v` and a matrix given by `D` of its diagonals `d_k` (Halevi, Shoup, CRYPTO 2014),
//! the job computes
//!
//! ```text
//! y_v = Σ_k d_k ⊙ rot_k(x_v),      z = Σ_v y_v^3 + 3 y_v,
//! ```
//!
//! slot by slot modulo `t`. The server has the diagonals and public keys. The vectors and `z` are
//! encrypted for the client. `z` is flooded, so that its noise shows less of the diagonals (see
//! [`FLOOD_BITS`]). Every diagonal needs a rotation key of its own, some forty megabytes, so the
//! working set has gigabytes, as in any larger job. The program goes vector by vector, as one would
//! write it; the planner finds an order that needs less memory.
//!
//! The server sees the number of vectors and of diagonals; the client sees `z`.

use crate::{BgvEngine, EngineError};
use tobari_plan::engine::Machine;
use tobari_plan::program::{Op, Program, ProgramError, Recorder, Value};
use tobari_plan::site::{KeyDomain, Owner, Secrecy};

/// The width of the flood of `z`: `t` times an integer of `[-2^40, 2^40)` in each coefficient.
/// [`Evaluator::flood`](tobari_lattice::bgv::Evaluator::flood) bounds the statistical distance by
/// the norm of the sum's phase, which grows with the number of vectors. So this job claims no fixed
/// distance.
pub const FLOOD_BITS: u16 = 40;

/// The size of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Vectors.
    pub vectors: usize,
    /// Diagonals. There is one rotation key fewer.
    pub diagonals: usize,
}

/// The inputs of a job.
#[derive(Clone, Debug)]
pub struct Inputs<V> {
    /// The vectors `x_v`.
    pub vectors: Vec<V>,
    /// The diagonals `d_k`.
    pub diagonals: Vec<V>,
    /// The keys of `rot_k`, from `k = 1` on.
    pub rotations: Vec<V>,
    /// The key of products.
    pub relinearization: V,
}

/// Runs the job on any machine. Returns nothing without vectors or diagonals.
///
/// # Errors
/// The machine's errors.
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
    /// The job has no vector or no diagonal.
    #[error("expected at least one vector and one diagonal, found {vectors} and {diagonals}")]
    Empty {
        /// Vectors.
        vectors: usize,
        /// Diagonals.
        diagonals: usize,
    },
    /// An error of the recorder.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// An error of the engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The client, the owner of the vectors.
pub fn client() -> KeyDomain {
    KeyDomain("client".to_owned())
}

/// The server, the owner of the diagonals.
pub fn server() -> Owner {
    Owner("server".to_owned())
}

/// Records the program of a job, and names its inputs.
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

/// The size for which inputs and sums take about `bytes` bytes in memory.
///
/// # Errors
/// [`MatrixError::Engine`].
pub fn size(engine: &BgvEngine, bytes: u64) -> Result<Size, MatrixError> {
    let (level, vectors) = (engine.top_level(), 24);
    let of_vectors = 2 * vectors as u64 * engine.ciphertext_shape(level)?.resident;
    let each = engine.plaintext_shape(level)?.resident + engine.rotation_key_shape(level)?.resident;
    Ok(Size { vectors, diagonals: (bytes.saturating_sub(of_vectors) / each).max(2) as usize })
}
