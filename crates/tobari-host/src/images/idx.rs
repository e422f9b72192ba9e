//! The `idx` files in which MNIST comes, as they are or compressed by gzip.
//!
//! A file is the bytes `0, 0, 8` (numbers of one byte), the number of axes, the length of each axis with its highest byte first, and the numbers, the last axis fastest. Images have
//! three axes, labels one (LeCun, Cortes and Burges, *The MNIST database*). The lengths must be those of the file, to the byte.

use super::ImageError;
use crate::files::{name_of, read_bounded};
use flate2::read::MultiGzDecoder;
use std::io::Read;
use std::path::Path;

/// Bytes of a file at most, once it is decompressed.
pub const MAX_IDX_BYTES: u64 = 1 << 28;

/// Grey images of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdxImages {
    /// Rows of each.
    pub height: usize,
    /// Columns of each.
    pub width: usize,
    /// Image after image, row after row; 0 is the background.
    pub pixels: Vec<u8>,
}

impl IdxImages {
    /// Image after image.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.pixels.chunks_exact(self.height * self.width)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.pixels.len() / (self.height * self.width)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pixels.is_empty()
    }
}

/// Reads images.
///
/// # Errors
/// [`ImageError`].
pub fn read_idx_images(path: &Path) -> Result<IdxImages, ImageError> {
    decode_idx_images(&name_of(path), &read_bounded(path, MAX_IDX_BYTES)?)
}

/// Reads labels.
///
/// # Errors
/// [`ImageError`].
pub fn read_idx_labels(path: &Path) -> Result<Vec<u8>, ImageError> {
    decode_idx_labels(&name_of(path), &read_bounded(path, MAX_IDX_BYTES)?)
}

/// MNIST's test images and their labels: `t10k-images-idx3-ubyte` and `t10k-labels-idx1-ubyte` in a folder, as they are or with `.gz` behind.
///
/// # Errors
/// [`ImageError`], also if there are not as many labels as images.
pub fn read_idx_tests(folder: &Path) -> Result<(IdxImages, Vec<u8>), ImageError> {
    let find = |name: &str| {
        let plain = folder.join(name);
        if plain.exists() { plain } else { folder.join(format!("{name}.gz")) }
    };
    let images = read_idx_images(&find("t10k-images-idx3-ubyte"))?;
    let path = find("t10k-labels-idx1-ubyte");
    let labels = read_idx_labels(&path)?;
    if labels.len() != images.len() {
        let what = format!("expected {} labels, one an image, found {}", images.len(), labels.len());
        return Err(ImageError::Malformed { name: name_of(&path), what });
    }
    Ok((images, labels))
}

/// Images of a file's bytes.
///
/// # Errors
/// [`ImageError`], with the name that is given.
pub fn decode_idx_images(name: &str, bytes: &[u8]) -> Result<IdxImages, ImageError> {
    let bytes = decompressed(name, bytes)?;
    let ([count, height, width], pixels) = numbers(name, &bytes)?;
    if count == 0 || height == 0 || width == 0 {
        let what = format!("expected images of at least one pixel, found {count} of {height} x {width}");
        return Err(ImageError::Malformed { name: name.to_owned(), what });
    }
    Ok(IdxImages { height, width, pixels: pixels.to_vec() })
}

/// Labels of a file's bytes.
///
/// # Errors
/// [`ImageError`], with the name that is given.
pub fn decode_idx_labels(name: &str, bytes: &[u8]) -> Result<Vec<u8>, ImageError> {
    let bytes = decompressed(name, bytes)?;
    let ([_], labels) = numbers(name, &bytes)?;
    Ok(labels.to_vec())
}

fn decompressed<'a>(name: &str, bytes: &'a [u8]) -> Result<std::borrow::Cow<'a, [u8]>, ImageError> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes.into());
    }
    let mut all = Vec::new();
    let done = MultiGzDecoder::new(bytes).take(MAX_IDX_BYTES + 1).read_to_end(&mut all);
    let malformed = |what: String| ImageError::Malformed { name: name.to_owned(), what };
    done.map_err(|error| malformed(format!("expected a whole gzip file, found {error}")))?;
    if all.len() as u64 > MAX_IDX_BYTES {
        return Err(malformed(format!("expected at most {MAX_IDX_BYTES} bytes when decompressed, found more")));
    }
    Ok(all.into())
}

/// The lengths of the axes, and the numbers, which are as many as the lengths say.
fn numbers<'a, const AXES: usize>(name: &str, bytes: &'a [u8]) -> Result<([usize; AXES], &'a [u8]), ImageError> {
    let malformed = |what: String| ImageError::Malformed { name: name.to_owned(), what };
    let magic = [0, 0, 8, AXES as u8];
    let Some((found, rest)) = bytes.split_first_chunk::<4>() else {
        return Err(malformed(format!("expected an idx file, found {} bytes", bytes.len())));
    };
    if *found != magic {
        return Err(malformed(format!("expected the first bytes {magic:02x?}, found {found:02x?}")));
    }
    let Some((lengths, numbers)) = rest.split_at_checked(4 * AXES) else {
        return Err(malformed(format!("expected {AXES} lengths, found the file's end")));
    };
    let mut axes = [0; AXES];
    for (axis, length) in axes.iter_mut().zip(lengths.as_chunks::<4>().0) {
        *axis = u32::from_be_bytes(*length) as usize;
    }
    let expected = axes.iter().try_fold(1usize, |product, axis| product.checked_mul(*axis));
    if expected != Some(numbers.len()) {
        let expected = expected.map_or("too many".to_owned(), |expected| expected.to_string());
        return Err(malformed(format!("expected {expected} numbers after the lengths, found {}", numbers.len())));
    }
    Ok((axes, numbers))
}
