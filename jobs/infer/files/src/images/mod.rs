//! Reads pictures of digits, in the form that a network was trained on.
//!
//! [`read_idx_images`] reads the files of MNIST. [`read_digit`] reads one PNG and converts it to
//! MNIST's form: 28 x 28 grey pixels, 0 the background, the ink fitted into 20 x 20 with its centre
//! of mass in the middle. [`Note`]s record the changes to a picture. A file of another kind, a
//! truncated or too large file, and a blank picture are rejected.

mod digit;
mod idx;

pub use digit::{Digit, MAX_PIXELS, MAX_PNG_BYTES, Note, Picture, SIDE, decode_digit, decode_png, read_digit};
pub use idx::{
    IdxImages, MAX_IDX_BYTES, decode_idx_images, decode_idx_labels, read_idx_images, read_idx_labels, read_idx_tests,
};

use tobari_host::files::FileError;

/// Errors of reading pictures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The bytes are not such a file.
    #[error("{name}: {what}")]
    Malformed {
        /// The file, as the caller named it.
        name: String,
        /// The bytes expected and found.
        what: String,
    },
    /// The picture is larger than the limit.
    #[error("{name}: expected at most {MAX_PIXELS} pixels, found {width} x {height}")]
    TooLarge {
        /// The file, as the caller named it.
        name: String,
        /// Columns.
        width: u32,
        /// Rows.
        height: u32,
    },
    /// The picture is blank.
    #[error("{name}: expected a digit, found a blank picture")]
    Blank {
        /// The file, as the caller named it.
        name: String,
    },
}

/// Fuzzing: any bytes are images, labels or a digit with ink, or give an error.
#[doc(hidden)]
pub fn fuzz_images(data: &[u8]) {
    if let Ok(images) = decode_idx_images("bytes", data) {
        assert_eq!(images.len() * images.height * images.width, images.pixels.len());
        assert!(!images.is_empty());
    }
    if let Ok(labels) = decode_idx_labels("bytes", data) {
        assert!(labels.len() as u64 <= MAX_IDX_BYTES);
    }
    if let Ok(digit) = decode_digit("bytes", data) {
        assert!(digit.pixels.iter().any(|pixel| *pixel > 0));
    }
}
