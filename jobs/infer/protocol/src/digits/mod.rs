//! The paper's network, trained on handwritten digits.
//!
//! `digits.tim` holds the weights; `cargo run --release -p tobari-infer-files --example
//! train_digits -- FOLDER digits.tim` made them from the 60,000 training images of MNIST.

mod draw;

pub use draw::{STYLES, Style, draw};

use super::bytes::ModelBytesError;
use super::model::Model;

/// Rows and columns of an image.
const SIDE: usize = 28;
static BYTES: &[u8] = include_bytes!("digits.tim");

impl Model {
    /// The paper's network (table 4), trained on MNIST: 28 x 28 grey pixels (0 is the background)
    /// to ten digits.
    ///
    /// # Errors
    /// None, unless the program's own copy of the file is damaged.
    pub fn digits() -> Result<Self, ModelBytesError> {
        Self::decode(BYTES)
    }
}
