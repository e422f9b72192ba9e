//! Reads pictures, in the form that a network was trained on.
//!
//! - [`decode_picture`] decodes PNG and JPEG files. [`planes`] converts a picture to the channels
//!   and the size of a model.
//! - [`read_pictures`] reads many pictures: files, folders, and arrays in `.npy` and idx files.
//! - [`read_idx_images`] reads the files of MNIST. [`read_digit`] converts one picture to MNIST's
//!   form: 28 x 28 grey pixels, 0 the background, the ink fitted into 20 x 20 with its centre of
//!   mass in the middle. [`Note`]s record the changes to a picture.
//!
//! A file of another kind, a truncated or too large file, and a blank digit are rejected.

mod array;
mod digit;
mod idx;
mod jpeg;
mod kind;
mod npy;
mod picture;
mod pictures;
mod scale;

pub use digit::{Digit, Note, SIDE, decode_digit, read_digit};
pub use idx::{
    IdxImages, MAX_IDX_BYTES, decode_idx_images, decode_idx_labels, read_idx_images, read_idx_labels, read_idx_tests,
};
pub use picture::{MAX_PICTURE_BYTES, MAX_PIXELS, MAX_PNG_BYTES, Picture, decode_picture, decode_png, read_picture};
pub use pictures::{NamedPicture, Pictures, Wanted, read_pictures};
pub use scale::{Fit, planes};

use tobari_host::files::FileError;
use tobari_infer::Volume;

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
    #[error("{name}: expected at most {most} pixels, found {width} x {height}")]
    TooLarge {
        /// The file, as the caller named it.
        name: String,
        /// Columns.
        width: u32,
        /// Rows.
        height: u32,
        /// The limit.
        most: u64,
    },
    /// Several pictures cannot be used.
    #[error("at least {} pictures cannot be used:\n{}", bad.len(), bad.join("\n"))]
    Several {
        /// The first errors.
        bad: Vec<String>,
    },
    /// The picture is blank.
    #[error("{name}: expected a digit, found a blank picture")]
    Blank {
        /// The file, as the caller named it.
        name: String,
    },
}

/// Fuzzing: any bytes are images, labels, a digit with ink, a picture or an array, or give an
/// error.
#[doc(hidden)]
pub fn fuzz_images(data: &[u8]) {
    if let Ok(images) = decode_idx_images("bytes", data) {
        assert_eq!(images.len() * images.channels * images.height * images.width, images.pixels.len());
        assert!(!images.is_empty());
    }
    if let Ok(labels) = decode_idx_labels("bytes", data) {
        assert!(labels.len() as u64 <= MAX_IDX_BYTES);
    }
    if let Ok(digit) = decode_digit("bytes", data) {
        assert!(digit.pixels.iter().any(|pixel| *pixel > 0));
    }
    fuzz_pictures(data);
}

/// Fuzzing: any bytes are a picture or an array of pictures, which become a model's shape, or give
/// an error.
#[doc(hidden)]
pub fn fuzz_pictures(data: &[u8]) {
    let volumes = [[1, 5, 4], [3, 2, 3], [1, 1, 6]].map(|[channels, height, width]| Volume { channels, height, width });
    if let Ok(picture) = decode_picture("bytes", data) {
        assert_eq!(picture.width * picture.height, picture.pixels.len());
        let picture = picture.on_white();
        for volume in volumes {
            for fit in [Fit::Stretch, Fit::CropCentre] {
                assert!(planes("bytes", &picture, volume, fit).is_ok_and(|pixels| pixels.len() == volume.len()));
            }
        }
    }
    let arrays = [npy::decode_npy("bytes", data), idx::decode_idx_array("bytes", data)];
    for array in arrays.into_iter().flatten() {
        for volume in volumes {
            for fit in [Fit::Exact, Fit::Stretch, Fit::CropCentre] {
                if let Ok(reading) = array::Reading::of("bytes", &array.shape, volume, fit) {
                    let pixels = array.picture("bytes", &reading, reading.count - 1, volume, fit);
                    assert!(pixels.is_ok_and(|pixels| pixels.len() == volume.len()));
                }
            }
        }
    }
}
