//! The `idx` files of MNIST, plain or compressed by gzip.
//!
//! A file has the bytes `0, 0, 8` (numbers of one byte), the number of axes, the length of each
//! axis with its highest byte first, and the numbers, the last axis fastest. Images have three
//! axes, labels one (LeCun, Cortes and Burges, *The MNIST database*). The lengths must match the
//! file to the byte. They are read first, so that memory is allocated once. Decompressed, a file
//! may have ten times its bytes, and `2^16` more.

use super::ImageError;
use flate2::read::MultiGzDecoder;
use std::io::Read;
use std::path::Path;
use tobari_host::files::{name_of, read_bounded};

/// The most bytes of a file after decompression.
pub const MAX_IDX_BYTES: u64 = 1 << 28;
/// The most decompressed bytes for each byte of the file: MNIST has five.
const MOST_TIMES: u64 = 10;
/// Further bytes that any file may have.
const FREE_BYTES: u64 = 1 << 16;

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
    /// The images, one after another.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.pixels.chunks_exact(self.height * self.width)
    }

    /// The number of images.
    pub fn len(&self) -> usize {
        self.pixels.len() / (self.height * self.width)
    }

    /// Whether there are no images.
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

/// Reads MNIST's test images and their labels: `t10k-images-idx3-ubyte` and
/// `t10k-labels-idx1-ubyte` in a folder, plain or with the suffix `.gz`.
///
/// # Errors
/// [`ImageError`], also if the numbers of images and labels differ.
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

/// Decodes images from a file's bytes.
///
/// # Errors
/// [`ImageError`], with the given name.
pub fn decode_idx_images(name: &str, bytes: &[u8]) -> Result<IdxImages, ImageError> {
    let ([count, height, width], pixels) = numbers(name, bytes)?;
    if count == 0 || height == 0 || width == 0 {
        let what = format!("expected images of at least one pixel, found {count} of {height} x {width}");
        return Err(ImageError::Malformed { name: name.to_owned(), what });
    }
    Ok(IdxImages { height, width, pixels })
}

/// Decodes labels from a file's bytes.
///
/// # Errors
/// [`ImageError`], with the given name.
pub fn decode_idx_labels(name: &str, bytes: &[u8]) -> Result<Vec<u8>, ImageError> {
    let ([_], labels) = numbers(name, bytes)?;
    Ok(labels)
}

/// The lengths of the axes, and the numbers, whose count matches the lengths.
fn numbers<const AXES: usize>(name: &str, bytes: &[u8]) -> Result<([usize; AXES], Vec<u8>), ImageError> {
    let malformed = |what: String| ImageError::Malformed { name: name.to_owned(), what };
    let head_bytes = 4 + 4 * AXES;
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        let (axes, expected) = lengths(name, bytes)?;
        let numbers = &bytes[head_bytes..];
        if numbers.len() != expected {
            let found = numbers.len();
            return Err(malformed(format!("expected {expected} numbers after the lengths, found {found}")));
        }
        return Ok((axes, numbers.to_vec()));
    }
    let cut = |error: std::io::Error| malformed(format!("expected a whole gzip file, found {error}"));
    let mut file = MultiGzDecoder::new(bytes);
    let mut head = Vec::with_capacity(head_bytes);
    file.by_ref().take(head_bytes as u64).read_to_end(&mut head).map_err(cut)?;
    let (axes, expected) = lengths(name, &head)?;
    let (most, found) = (most_bytes(bytes.len()), head_bytes as u64 + expected as u64);
    if found > most {
        return Err(malformed(format!(
            "expected at most {most} bytes when decompressed, found {found}: decompress the file first (`gunzip`)"
        )));
    }
    // one more number, to detect a longer file
    let mut numbers = Vec::with_capacity(expected + 1);
    file.take(expected as u64 + 1).read_to_end(&mut numbers).map_err(cut)?;
    if numbers.len() != expected {
        let found = if numbers.len() > expected { "more".to_owned() } else { numbers.len().to_string() };
        return Err(malformed(format!("expected {expected} numbers after the lengths, found {found}")));
    }
    Ok((axes, numbers))
}

/// The most decompressed bytes of a file of this many bytes.
fn most_bytes(file_bytes: usize) -> u64 {
    (MOST_TIMES * file_bytes as u64 + FREE_BYTES).min(MAX_IDX_BYTES)
}

/// The lengths of the axes, from the beginning of a file, and the count of the numbers after them.
fn lengths<const AXES: usize>(name: &str, bytes: &[u8]) -> Result<([usize; AXES], usize), ImageError> {
    let malformed = |what: String| ImageError::Malformed { name: name.to_owned(), what };
    let magic = [0, 0, 8, AXES as u8];
    let Some((found, rest)) = bytes.split_first_chunk::<4>() else {
        return Err(malformed(format!("expected an idx file, found {} bytes", bytes.len())));
    };
    if *found != magic {
        return Err(malformed(format!("expected the first bytes {magic:02x?}, found {found:02x?}")));
    }
    let Some(lengths) = rest.get(..4 * AXES) else {
        return Err(malformed(format!("expected {AXES} lengths, found the file's end")));
    };
    let mut axes = [0; AXES];
    for (axis, length) in axes.iter_mut().zip(lengths.as_chunks::<4>().0) {
        *axis = u32::from_be_bytes(*length) as usize;
    }
    let count = axes.iter().try_fold(1usize, |product, axis| product.checked_mul(*axis));
    match count.filter(|count| *count as u64 <= MAX_IDX_BYTES) {
        Some(count) => Ok((axes, count)),
        None => Err(malformed(format!("expected at most {MAX_IDX_BYTES} numbers, found lengths {axes:?}"))),
    }
}
