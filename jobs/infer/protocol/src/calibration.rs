//! Calibration of a model by images: the margin between its labels, and the size of its numbers.
//!
//! **The margin** is the difference between the two largest logits that 19 of 20 images reach in an
//! unencrypted run. An error of less than half the margin in every logit changes none of these
//! labels. A model is therefore run under encryption only if the foretold error is within that
//! ([`check`]). Of the closest twentieth no label is promised: the client knows the foretold error
//! and tells both labels where they are closer than twice that. A model with one output has no
//! labels; its margin is the range of that output.
//!
//! **The powers** are the largest mean squares of an image's numbers, before each stage. Errors of
//! weights are multiplied by these numbers. Unknown powers count as the largest possible.

pub use super::model::Calibration;
use super::model::Model;
use super::network::InputError;
use super::precision::StageReport;

/// Reasons not to run a model under encryption.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MarginError {
    /// An unknown margin between labels.
    #[error(
        "the margin between this model's labels is not known, and encryption may change each logit by {error:.3}. Compile the model with images like those to come (--images), or state the smallest difference of logits that must be told apart (--margin)"
    )]
    Unknown {
        /// The predicted error of a logit.
        error: f64,
    },
    /// A margin too small for the predicted error: labels would be wrong.
    #[error(
        "encryption may change each logit by {error:.3}, but labels are right only up to {most:.3}, half the margin between them. Compile the model with images like those to come (--images), or choose another set of parameters or another layout"
    )]
    Small {
        /// The predicted error of a logit.
        error: f64,
        /// Half the margin.
        most: f64,
    },
    /// Images without a margin: too many of them have two best labels.
    #[error(
        "the two best labels of {ties} of {images} images are equal, so that these images tell no margin between labels. Compile the model with images that it tells apart (--images), or state the smallest difference of logits that must be told apart (--margin)"
    )]
    Ties {
        /// Images with two best labels.
        ties: usize,
        /// All images.
        images: usize,
    },
    /// Images without a range of a model's single output.
    #[error(
        "this model's one number is the same for all {images} images, so that they tell no margin. Compile the model with images that differ in it (--images), or state the smallest difference that must be told apart (--margin)"
    )]
    Alike {
        /// All images.
        images: usize,
    },
}

impl Calibration {
    /// Calibrates on these images, with pixels from 0 to 255. The result is `None` without images,
    /// or if their labels tie ([`check_images`]).
    ///
    /// # Errors
    /// [`InputError`] for an image of another size.
    pub fn of_images(model: &Model, images: &[&[u8]]) -> Result<Option<Self>, InputError> {
        let mut powers = vec![0f64; model.stages().len()];
        let (mut gaps, mut ends) = (Vec::with_capacity(images.len()), [f64::INFINITY, f64::NEG_INFINITY]);
        let unit = 2f64.powi(model.logit_bits());
        for image in images {
            let stages = model.stages_of(image)?;
            let mut squares: Vec<f64> = Model::numbers(image);
            for (power, u) in powers.iter_mut().zip(&stages) {
                *power = power.max(squares.iter().map(|v| v * v).sum::<f64>() / squares.len() as f64);
                squares = u.iter().map(|u| u * u).collect();
            }
            let mut logits = stages.last().cloned().unwrap_or_default();
            logits.sort_by(|a, b| b.total_cmp(a));
            match logits[..] {
                [first, second, ..] => gaps.push(unit * (first - second)),
                [only] => ends = [ends[0].min(unit * only), ends[1].max(unit * only)],
                [] => {}
            }
        }
        gaps.sort_by(f64::total_cmp);
        let margin = gaps.get(gaps.len() / 20).copied().unwrap_or(ends[1] - ends[0]);
        Ok((margin.is_finite() && margin > 0.0).then_some(Self { margin, powers }))
    }
}

/// Checks that images gave a margin to a model made with them ([`Calibration::of_images`]). An
/// empty list passes.
///
/// # Errors
/// [`MarginError::Ties`] or [`MarginError::Alike`], if the owner must state a margin.
pub fn check_images(model: &Model, images: &[&[u8]]) -> Result<(), MarginError> {
    if model.calibration().is_some() || images.is_empty() {
        return Ok(());
    }
    if model.classes() == 1 {
        return Err(MarginError::Alike { images: images.len() });
    }
    let ties = images.iter().filter(|image| model.forward(image).is_ok_and(tie)).count();
    if ties == 0 { Ok(()) } else { Err(MarginError::Ties { ties, images: images.len() }) }
}

/// Whether the two largest logits are equal.
fn tie(mut logits: Vec<f64>) -> bool {
    logits.sort_by(|a, b| b.total_cmp(a));
    matches!(logits[..], [first, second, ..] if first == second)
}

/// The bound on the error of a logit: six deviations in the worst case
/// ([`precision`](super::precision)).
pub fn error_bound(model: &Model, reports: &[StageReport]) -> f64 {
    reports.last().map_or(f64::INFINITY, |stage| stage.error) * 2f64.powi(model.logit_bits())
}

/// Checks that labels survive the foretold error of a logit ([`forecast`](super::forecast)).
///
/// # Errors
/// [`MarginError`].
pub fn check(model: &Model, error: f64) -> Result<(), MarginError> {
    let Some(calibration) = model.calibration() else { return Err(MarginError::Unknown { error }) };
    let most = calibration.margin / 2.0;
    if error <= most { Ok(()) } else { Err(MarginError::Small { error, most }) }
}
