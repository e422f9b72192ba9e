//! A run on plaintext, slot by slot: the programs of a compiled model's stages on doubles, with the
//! same rotations, products and sums as an encrypted run.
//!
//! The result is that of the layout without noise: a difference from the plain model is rounding or
//! a fault of the layout.

use super::compile::Compiled;
use super::program::Input;
use std::sync::Arc;
use tobari_plan::clear::{Arithmetic, ClearEngine, ClearError, ClearValue};
use tobari_plan::engine::Direct;

/// The logits of an image: its pixels, from 0 to 1, row by row, as many as the model has.
///
/// # Errors
/// [`ClearError`] for an invalid program.
pub fn simulate(compiled: &Compiled, image: &[f64]) -> Result<Vec<f64>, ClearError> {
    let (layout, arithmetic) = (compiled.layout(), Arithmetic::Real);
    let engine = ClearEngine { arithmetic, rows: 1, columns: layout.slots() };
    let placed = layout.stages().first().map(|stage| stage.place(image)).unwrap_or_default();
    let mut values = placed.iter().map(|slots| Ok(Arc::new(engine.reals(slots)?))).collect::<Result<Vec<_>, _>>()?;
    for stage in compiled.stages() {
        let mut fetch = |input: Input| -> Result<Arc<ClearValue>, ClearError> {
            let slots = compiled.slots(input);
            Ok(Arc::new(slots.map_or(Ok(ClearValue::Key), |slots| engine.reals(&slots))?))
        };
        values = stage.run(&mut Direct::new(&engine), &values, &mut fetch)?;
    }
    let unit = 2f64.powi(compiled.logit_bits());
    let logit = |(output, slot): &(usize, usize)| match values.get(*output).map(AsRef::as_ref) {
        Some(ClearValue::Reals(slots)) => slots.get(*slot).map_or(f64::NAN, |logit| logit * unit),
        _ => f64::NAN,
    };
    Ok(layout.logits().iter().map(logit).collect())
}
