//! Encrypted vectors times a matrix: the job of `tobari plan memory` and `tobari-bench memory`.

mod by_hand;

use super::{Examples, Outcome, SET, Work, calibrate, generator};
use std::sync::Arc;
use tobari_command::output::Failure;
use tobari_engine::matrix::{self, Inputs, Size};
use tobari_engine::{BgvEngine, BgvValue};
use tobari_lattice::bgv::{Decryptor, Encoder, EvaluationKeys};
use tobari_lattice::params::{LatticeParameters, NamedSet};
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use tobari_plan::clear::{Arithmetic, ClearEngine, ClearValue};
use tobari_plan::cost::Costs;
use tobari_plan::engine::Direct;
use tobari_plan::plan::bytes;
use tobari_plan::program::{Program, Value};

/// The job with its engine, keys and inputs.
pub struct Matrix {
    engine: BgvEngine,
    size: Size,
    parameters: LatticeParameters,
    secret: SecretKey,
    sources: Vec<Source>,
    program: Program,
}

/// The source of an input.
#[derive(Clone, Copy)]
enum Source {
    Vector(usize),
    Diagonal(usize),
    Rotation(i64),
    Relinearization,
}

impl Matrix {
    /// A job with a working set of about `bytes` bytes.
    pub fn new(bytes: u64) -> Result<Self, Failure> {
        let set = NamedSet::from_name(SET).ok_or_else(|| Failure::Work(format!("there is no set {SET}")))?;
        let parameters = set.parameters()?;
        let secret = SecretKey::from_seed(&parameters, Seed::random(&mut generator(1, 0)));
        let public = PublicKey::generate(&secret, &mut generator(2, 0));
        let engine = BgvEngine::new(&parameters, Some(public), &mut generator(3, 0))?;
        let size = matrix::size(&engine, bytes)?;
        let (program, inputs) = matrix::record(&engine, size)?;
        let sources = sources(&program, &inputs);
        Ok(Self { engine, size, parameters, secret, sources, program })
    }

    fn of(&self, source: Source) -> Result<BgvValue, String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        let data = usize::from(self.engine.top_level()) + 1;
        match source {
            Source::Vector(i) => {
                let (encoder, holder) = (
                    Encoder::new(&self.parameters).map_err(|error| text(&error))?,
                    Decryptor::new(&self.secret).map_err(|error| text(&error))?,
                );
                let slots = encoder.encode(&self.numbers(0, i)).map_err(|error| text(&error))?;
                let vector =
                    slots.encrypt_seeded(holder.key(), data, &mut generator(4, i)).map_err(|error| text(&error))?;
                self.engine.ciphertext(vector.expand()).map_err(|error| text(&error))
            }
            Source::Diagonal(k) => {
                self.engine.integers(&self.numbers(1, k), self.engine.top_level()).map_err(|error| text(&error))
            }
            Source::Rotation(steps) => {
                let rng = &mut generator(5, steps as usize);
                let key = EvaluationKeys::new(self.secret.parameters()).with_rotation(&self.secret, steps, data, rng);
                let key = key.map_err(|error| text(&error))?;
                self.engine.key(key).map_err(|error| text(&error))
            }
            Source::Relinearization => {
                let key = EvaluationKeys::new(self.secret.parameters()).with_relinearization(
                    &self.secret,
                    data,
                    &mut generator(6, 0),
                );
                let key = key.map_err(|error| text(&error))?;
                self.engine.key(key).map_err(|error| text(&error))
            }
        }
    }

    /// Arbitrary fixed numbers for vector or diagonal `number`.
    fn numbers(&self, what: u64, number: usize) -> Vec<i64> {
        let slots = self.parameters.degree() as u64;
        let number = |i: u64| {
            (i * 7919 + (number as u64) * 104_729 + what * 15_485_863).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48
        };
        (0..slots).map(|i| number(i) as i64 - (1 << 15)).collect()
    }
}

impl Work for Matrix {
    fn job(&self) -> &'static str {
        "memory"
    }

    fn set(&self) -> &'static str {
        SET
    }

    fn title(&self) -> String {
        let (Size { vectors, diagonals }, inputs) = (self.size, bytes(self.program.bytes()[1]));
        format!("{vectors} encrypted vectors times a matrix of {diagonals} diagonals: {inputs} of inputs")
    }

    fn sizes(&self) -> serde_json::Value {
        serde_json::json!({ "vectors": self.size.vectors, "diagonals": self.size.diagonals })
    }

    fn engine(&self) -> &BgvEngine {
        &self.engine
    }

    fn program(&self) -> &Program {
        &self.program
    }

    fn input(&self, value: Value) -> Result<BgvValue, String> {
        self.of(self.sources[value.index()])
    }

    fn measure(&self) -> Result<Costs, Failure> {
        let of = |source| self.of(source).map_err(Failure::Work);
        let [vector, plain] = [of(Source::Vector(0))?, of(Source::Diagonal(0))?];
        let [rotation, product] = [of(Source::Rotation(1))?, of(Source::Relinearization)?];
        calibrate::measure(&self.engine, &Examples { vector, plain, steps: 1, rotation, product })
    }

    fn is_right(&self, outputs: &[Arc<BgvValue>]) -> Result<bool, Failure> {
        let found = outputs
            .first()
            .and_then(|output| output.as_ciphertext())
            .ok_or_else(|| Failure::Work("the output is no ciphertext".to_owned()))?;
        let found = Encoder::new(&self.parameters)?.decode(&Decryptor::new(&self.secret)?.decrypt(found)?)?;
        let clear =
            ClearEngine { arithmetic: Arithmetic::Modulo(65_537), rows: 2, columns: self.parameters.degree() / 2 };
        let vectors = |what: u64, count: usize| -> Result<Vec<_>, Failure> {
            (0..count).map(|i| Ok(clear.integers(&self.numbers(what, i))?.into())).collect()
        };
        let key = || Arc::new(ClearValue::Key);
        let inputs = Inputs {
            vectors: vectors(0, self.size.vectors)?,
            diagonals: vectors(1, self.size.diagonals)?,
            rotations: (1..self.size.diagonals).map(|_| key()).collect(),
            relinearization: key(),
        };
        let expected = matrix::program(&mut Direct::new(&clear), &inputs)?;
        Ok(expected.is_some_and(|expected| *expected == ClearValue::Integers(found)))
    }

    fn by_hand(&self) -> Result<Outcome, Failure> {
        self.run_by_hand()
    }
}

fn sources(program: &Program, inputs: &Inputs<Value>) -> Vec<Source> {
    let mut all = vec![Source::Relinearization; program.inputs().len()];
    inputs.vectors.iter().enumerate().for_each(|(i, value)| all[value.index()] = Source::Vector(i));
    inputs.diagonals.iter().enumerate().for_each(|(i, value)| all[value.index()] = Source::Diagonal(i));
    (1..).zip(&inputs.rotations).for_each(|(steps, value)| all[value.index()] = Source::Rotation(steps));
    all
}
