//! What images tell of a model: how far its labels are apart, and how large its numbers are.
//!
//! **The margin** is the difference between the two largest logits that 19 of 20 images reach, in
//! the clear. The closest twentieth is left out: errors are foretold as six deviations of the worst
//! image, and what is measured is ten to forty times smaller, so that most of those labels come out
//! right as well. An error of less than half the margin in every logit changes none of the other
//! labels, so a model is run under encryption only where the foretold error is within that
//! ([`check`]). A model of one number has no labels; its margin is the range of that number.
//!
//! **The powers** are the largest mean squares of an image's numbers, before each stage. Errors of
//! weights are multiplied by these numbers; where none are known they count as large as they can
//! be.

pub use super::model::Calibration;
use super::model::Model;
use super::network::InputError;
use super::precision::StageReport;

/// Why a model is not run under encryption.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MarginError {
    /// Nobody said how far labels are apart.
    #[error(
        "the margin between this model's labels is not known, and encryption may change each logit by {error:.3}. Compile the model with images like those to come (--images), or state the smallest difference of logits that must be told apart (--margin)"
    )]
    Unknown {
        /// The foretold error of a logit.
        error: f64,
    },
    /// Labels would be wrong.
    #[error(
        "encryption may change each logit by {error:.3}, but labels are right only up to {most:.3}, half the margin between them. Compile the model with images like those to come (--images), or choose another set of parameters or another layout"
    )]
    Small {
        /// The foretold error of a logit.
        error: f64,
        /// Half the margin.
        most: f64,
    },
    /// Images that tell no margin, as too many of them have two best labels.
    #[error(
        "the two best labels of {ties} of {images} images are equal, so that these images tell no margin between labels. Compile the model with images that it tells apart (--images), or state the smallest difference of logits that must be told apart (--margin)"
    )]
    Ties {
        /// Images with two best labels.
        ties: usize,
        /// All images.
        images: usize,
    },
    /// Images that tell no range of a model's one number.
    #[error(
        "this model's one number is the same for all {images} images, so that they tell no margin. Compile the model with images that differ in it (--images), or state the smallest difference that must be told apart (--margin)"
    )]
    Alike {
        /// All images.
        images: usize,
    },
}

impl Calibration {
    /// Of these images, whose pixels are from 0 to 255; none where there are none, or their labels
    /// tie ([`check_images`]).
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

/// Whether images told the margin of a model that was made with them ([`Calibration::of_images`]);
/// there may be none.
///
/// # Errors
/// [`MarginError::Ties`] or [`MarginError::Alike`], where a margin has to be stated.
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

/// The foretold error of a logit.
pub fn logit_error(model: &Model, reports: &[StageReport]) -> f64 {
    reports.last().map_or(f64::INFINITY, |stage| stage.error) * 2f64.powi(model.logit_bits())
}

/// Whether labels survive the foretold errors.
///
/// # Errors
/// [`MarginError`].
pub fn check(model: &Model, reports: &[StageReport]) -> Result<(), MarginError> {
    let error = logit_error(model, reports);
    let Some(calibration) = model.calibration() else { return Err(MarginError::Unknown { error }) };
    let most = calibration.margin / 2.0;
    if error <= most { Ok(()) } else { Err(MarginError::Small { error, most }) }
}
