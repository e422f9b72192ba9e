//! Pictures of digits in, in the form that a network was trained on.
//!
//! [`read_idx_images`] reads the files in which MNIST comes; [`read_digit`] reads one PNG and
//! brings it into MNIST's form: 28 x 28 grey pixels, 0 the background, the ink fitted into 20 x 20
//! with its centre of mass in the middle. What was done to a picture is told by its [`Note`]s. A
//! file that is none, is cut off, is too large or is blank is refused.

mod digit;
mod idx;

pub use digit::{Digit, MAX_PIXELS, MAX_PNG_BYTES, Note, Picture, SIDE, decode_digit, decode_png, read_digit};
pub use idx::{
    IdxImages, MAX_IDX_BYTES, decode_idx_images, decode_idx_labels, read_idx_images, read_idx_labels, read_idx_tests,
};

use tobari_host::files::FileError;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The file could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// Bytes that are no such file.
    #[error("{name}: {what}")]
    Malformed {
        /// The file, as the caller named it.
        name: String,
        /// What was expected and found.
        what: String,
    },
    /// Larger than is read.
    #[error("{name}: expected at most {MAX_PIXELS} pixels, found {width} x {height}")]
    TooLarge {
        /// The file, as the caller named it.
        name: String,
        /// Columns.
        width: u32,
        /// Rows.
        height: u32,
    },
    /// Nothing to be seen.
    #[error("{name}: expected a digit, found a blank picture")]
    Blank {
        /// The file, as the caller named it.
        name: String,
    },
}

/// Whatever the bytes are, they are images, labels or a digit with ink, or an error.
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
