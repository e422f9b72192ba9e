//! The reference job as one would write it without a plan: one thread calls the evaluator's
//! functions one after another. This is the baseline for the cost of plans and their runs.

use super::super::{Outcome, Work, generator};
use super::Matrix;
use std::time::Instant;
use tobari_command::output::Failure;
use tobari_engine::matrix::FLOOD_BITS;
use tobari_host::memory;
use tobari_host::run::Status;
use tobari_lattice::bgv::{
    Ciphertext, Decryptor, EncodeError, Encoder, EvaluateError, EvaluationKeys, Evaluator, PreparedPlaintext,
};
use tobari_lattice::rlwe::PublicKey;

/// The inputs of the job, as the evaluator takes them.
struct Inputs {
    vectors: Vec<Ciphertext>,
    diagonals: Vec<PreparedPlaintext>,
    rotations: Vec<EvaluationKeys>,
    relinearization: EvaluationKeys,
    public: PublicKey,
}

impl Matrix {
    /// Runs the job by hand, with everything in memory. The seconds cover only the computation.
    pub(super) fn run_by_hand(&self) -> Result<Outcome, Failure> {
        let (inputs, evaluator) = (self.inputs_by_hand()?, Evaluator::new(&self.parameters)?);
        let start = Instant::now();
        let output = compute(&evaluator, &inputs)?.ok_or_else(|| Failure::Work("nothing to compute".to_owned()))?;
        let seconds = start.elapsed().as_secs_f64();
        let peak = memory::resident().map(|[_, peak]| peak);
        let output = self.engine.ciphertext(output)?;
        let status = Status { seconds, ..Status::default() };
        // its flood is drawn in another way than a plan's, so a digest would not match
        let (right, tier) = (self.is_right(&[std::sync::Arc::new(output)])?, "none".to_owned());
        Ok(Outcome { status, peak, digest: None, right, tier, folders: Vec::new() })
    }

    fn inputs_by_hand(&self) -> Result<Inputs, Failure> {
        let data = self.parameters.data_primes();
        let (encoder, holder) = (Encoder::new(&self.parameters)?, Decryptor::new(&self.secret)?);
        let vector = |i| {
            let slots = encoder.encode(&self.numbers(0, i))?;
            Ok(slots.encrypt_seeded(holder.key(), data, &mut generator(4, i))?.expand())
        };
        let diagonal = |k| PreparedPlaintext::new(&self.parameters, &encoder.encode(&self.numbers(1, k))?, data);
        let rotation = |steps: usize| {
            EvaluationKeys::new(self.secret.parameters()).with_rotation(
                &self.secret,
                steps as i64,
                data,
                &mut generator(5, steps),
            )
        };
        Ok(Inputs {
            vectors: (0..self.size.vectors).map(vector).collect::<Result<_, EncodeError>>()?,
            diagonals: (0..self.size.diagonals).map(diagonal).collect::<Result<_, _>>()?,
            rotations: (1..self.size.diagonals).map(rotation).collect::<Result<_, _>>()?,
            relinearization: EvaluationKeys::new(self.secret.parameters()).with_relinearization(
                &self.secret,
                data,
                &mut generator(6, 0),
            )?,
            public: PublicKey::generate(&self.secret, &mut generator(2, 0)),
        })
    }
}

/// Computes the steps of [`tobari_engine::matrix::program`], with sums in place.
fn compute(evaluator: &Evaluator, inputs: &Inputs) -> Result<Option<Ciphertext>, EvaluateError> {
    let mut sum: Option<Ciphertext> = None;
    for x in &inputs.vectors {
        let mut y = evaluator.mul_prepared(x, &inputs.diagonals[0])?;
        for (steps, (diagonal, key)) in (1..).zip(inputs.diagonals[1..].iter().zip(&inputs.rotations)) {
            let turned = evaluator.rotate(x, steps, key)?;
            evaluator.add_assign(&mut y, &evaluator.mul_prepared(&turned, diagonal)?)?;
        }
        let y = evaluator.to_level(&y, y.level() - 1)?;
        let square = evaluator.mul_mod_switch(&y, &y, &inputs.relinearization)?;
        let mut value = evaluator.mul_mod_switch(&square, &y, &inputs.relinearization)?;
        let thrice = evaluator.to_level(&evaluator.mul_integer(&y, 3)?, value.level())?;
        evaluator.add_assign(&mut value, &thrice)?;
        match &mut sum {
            None => sum = Some(value),
            Some(sum) => evaluator.add_assign(sum, &value)?,
        }
    }
    let flood = |sum: Ciphertext| evaluator.flood(&sum, &inputs.public, FLOOD_BITS.into(), &mut generator(3, 1));
    sum.map(flood).transpose()
}
