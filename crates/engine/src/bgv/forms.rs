//! Bilinear forms and sums of rotations.

use super::{BgvEngine, BgvValue, Inner, into_ciphertext, unexpected};
use crate::EngineError;
use tobari_lattice::bgv::{Ciphertext, Forms, Turn};
use tobari_plan::clear::ClearValue;
use tobari_plan::program::{Kind, Op, Shape};

impl BgvEngine {
    /// Runs [`Op::Bilinear`] on `left` ciphertexts and `right` others. Each list of weights gives
    /// one form.
    pub(super) fn bilinear(
        &self,
        op: Op,
        args: &[&Inner],
        [left, right]: [usize; 2],
        divisor: i64,
    ) -> Result<Vec<Ciphertext>, EngineError> {
        let (values, rest) = args.split_at_checked(left + right).ok_or_else(|| unexpected(op))?;
        let [weights @ .., Inner::Key(keys)] = rest else { return Err(unexpected(op)) };
        let values = values.iter().map(|value| ciphertext(op, value)).collect::<Result<Vec<_>, _>>()?;
        let list = |weights: &&Inner| {
            let ClearValue::Integers(mut slots) = self.slots(op, weights)? else { return Err(unexpected(op)) };
            slots.truncate((left + 1) * (right + 1));
            let rows = slots.chunks_exact(right + 1);
            let product = rows.len() == left + 1 && rows.skip(1).any(|row| row.iter().any(|weight| *weight != 0));
            let none = || EngineError::Step(format!("expected weights of products for {op}, found none"));
            product.then_some(slots).ok_or_else(none)
        };
        let weights = weights.iter().map(list).collect::<Result<Vec<_>, _>>()?;
        let (left, right) = values.split_at(left);
        Ok(self.tables.evaluator.bilinear_forms(&Forms { left, right, weights: &weights, divisor }, keys)?)
    }

    /// Runs a step that makes several ciphertexts.
    pub(super) fn several(&self, op: Op, args: &[&BgvValue]) -> Result<BgvValue, EngineError> {
        let Op::Bilinear { left, right, divisor, .. } = op else { return Err(unexpected(op)) };
        let args: Vec<&Inner> = args.iter().map(|arg| &arg.0).collect();
        self.together(self.bilinear(op, &args, [left, right].map(usize::from), divisor)?)
    }

    /// Ciphertexts of one step as one value, each with the noise bound that its bytes hold.
    pub(super) fn together(&self, all: Vec<Ciphertext>) -> Result<BgvValue, EngineError> {
        let each = all.into_iter().map(|one| into_ciphertext(self.ciphertext(one)?));
        Ok(BgvValue(Inner::Several(each.collect::<Result<_, _>>()?)))
    }

    /// The shape of so many ciphertexts.
    pub(super) fn several_shape(&self, level: u16, count: u64) -> Result<Shape, EngineError> {
        let one = self.ciphertext_shape(level)?;
        let [resident, packed, raw] = [one.resident, one.packed, one.raw].map(|bytes| count * bytes);
        Ok(Shape { kind: Kind::Several, level, resident, packed, raw })
    }

    /// Runs [`Op::RotateSum`].
    pub(super) fn rotate_sum(
        &self,
        op: Op,
        args: &[&Inner],
        (steps, counts): ([i64; 3], [u8; 3]),
    ) -> Result<Ciphertext, EngineError> {
        let turns = counts.iter().take_while(|count| **count > 0).count();
        let hoisted = counts.iter().copied().map(usize::from).sum::<usize>();
        let plain = args.len().checked_sub(hoisted + turns).ok_or_else(|| unexpected(op))?;
        let (terms, rest) = args.split_at(plain);
        let (mut rest, keys) = rest.split_at(hoisted);
        let terms = terms.iter().map(|value| ciphertext(op, value)).collect::<Result<Vec<_>, _>>()?;
        let mut all = Vec::with_capacity(turns);
        for ((steps, count), key) in steps.into_iter().zip(counts).zip(keys) {
            let (inputs, others) = rest.split_at(count.into());
            let inputs = inputs.iter().map(|input| match input {
                Inner::Hoisted(input) => Ok(input),
                _ => Err(unexpected(op)),
            });
            let Inner::Key(keys) = key else { return Err(unexpected(op)) };
            all.push(Turn { steps, inputs: inputs.collect::<Result<_, _>>()?, keys });
            rest = others;
        }
        Ok(self.tables.evaluator.rotated_sum(&terms, &all)?)
    }
}

fn ciphertext<'a>(op: Op, value: &&'a Inner) -> Result<&'a Ciphertext, EngineError> {
    match value {
        Inner::Ciphertext(ciphertext) => Ok(ciphertext),
        _ => Err(unexpected(op)),
    }
}
