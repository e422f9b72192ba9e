//! The `idx` files of MNIST, plain or compressed by gzip.
//!
//! A file has the bytes `0, 0, 8` (numbers of one byte), the number of axes, the length of each
//! axis with its highest byte first, and the numbers, the last axis fastest. Grey images have three
//! axes, labels one (LeCun, Cortes and Burges, *The MNIST database*). A fourth axis is for
//! channels, before the rows or after the columns. The lengths must match the file to the byte.
//! They are read first, so that memory is allocated once. Decompressed, a file may have ten times
//! its bytes, and `2^16` more.

use super::ImageError;
use super::array::{Array, Reading};
use super::kind::Kind;
use flate2::read::MultiGzDecoder;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::Path;
use tobari_host::files::{name_of, read_bounded};
use zeroize::Zeroizing;

/// The most bytes of a file after decompression.
pub const MAX_IDX_BYTES: u64 = 1 << 28;
/// The most decompressed bytes for each byte of the file: MNIST has five.
const MOST_TIMES: u64 = 10;
/// Further bytes that any file may have.
const FREE_BYTES: u64 = 1 << 16;

/// The most axes.
const MAX_AXES: usize = 4;
/// The axes of arrays of images.
const IMAGE_AXES: RangeInclusive<usize> = 2..=MAX_AXES;
/// The most bytes before the numbers.
const MAX_HEAD_BYTES: usize = head_bytes(MAX_AXES);

/// Images of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdxImages {
    /// Channels of each: 1 in a file of three axes, otherwise 1 or 3.
    pub channels: usize,
    /// Rows of each.
    pub height: usize,
    /// Columns of each.
    pub width: usize,
    /// Image after image, channel after channel, row after row; 0 is the background.
    pub pixels: Vec<u8>,
}

impl IdxImages {
    /// The images, one after another.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.pixels.chunks_exact(self.channels * self.height * self.width)
    }

    /// The number of images.
    pub fn len(&self) -> usize {
        self.pixels.len() / (self.channels * self.height * self.width)
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

/// Decodes images from a file's bytes. In a file of four axes, the second or the last one must have
/// the length 1 or 3, and only one of the two: these are the channels.
///
/// # Errors
/// [`ImageError`], with the given name.
pub fn decode_idx_images(name: &str, bytes: &[u8]) -> Result<IdxImages, ImageError> {
    let malformed = |what: String| ImageError::Malformed { name: name.to_owned(), what };
    let Array { shape, mut numbers } = array(name, bytes, 3..=4)?;
    if shape.contains(&0) {
        return Err(malformed(format!("expected images of at least one pixel, found {}", lengths_text(&shape))));
    }
    let pixels = std::mem::take(&mut *numbers);
    match shape[..] {
        [_, height, width] => Ok(IdxImages { channels: 1, height, width, pixels }),
        [count, a, b, c] => match (matches!(a, 1 | 3), matches!(c, 1 | 3)) {
            (true, false) => Ok(IdxImages { channels: a, height: b, width: c, pixels }),
            (false, true) => {
                let interleaved = Zeroizing::new(pixels);
                let reading = Reading::interleaved(count, [c, a, b]);
                let images = (0..count).filter_map(|index| reading.planes(&interleaved, index));
                let pixels = images.flat_map(|image| image.to_vec()).collect();
                Ok(IdxImages { channels: c, height: a, width: b, pixels })
            }
            _ => Err(malformed(format!(
                "expected one or three channels in the second axis or in the last, but not in both, found {}",
                lengths_text(&shape)
            ))),
        },
        _ => Err(malformed(format!("expected three or four axes, found {}", lengths_text(&shape)))),
    }
}

/// Decodes labels from a file's bytes.
///
/// # Errors
/// [`ImageError`], with the given name.
pub fn decode_idx_labels(name: &str, bytes: &[u8]) -> Result<Vec<u8>, ImageError> {
    Ok(std::mem::take(&mut *array(name, bytes, 1..=1)?.numbers))
}

/// Decodes an array of images.
///
/// # Errors
/// [`ImageError`], with the given name.
pub(super) fn decode_idx_array(name: &str, bytes: &[u8]) -> Result<Array, ImageError> {
    array(name, bytes, IMAGE_AXES)
}

/// The lengths of the axes of a file of images, from its beginning, plain or compressed.
///
/// # Errors
/// [`ImageError`], with the given name.
pub(super) fn idx_shape(name: &str, mut file: impl Read) -> Result<Vec<usize>, ImageError> {
    let cut = |error: std::io::Error| cut(name, &error);
    let mut first = Vec::with_capacity(2);
    file.by_ref().take(2).read_to_end(&mut first).map_err(cut)?;
    let whole = first.chain(file);
    let mut begin = Vec::with_capacity(MAX_HEAD_BYTES);
    match Kind::of(&first) {
        Kind::Gzip => MultiGzDecoder::new(whole).take(MAX_HEAD_BYTES as u64).read_to_end(&mut begin),
        _ => whole.take(MAX_HEAD_BYTES as u64).read_to_end(&mut begin),
    }
    .map_err(cut)?;
    Ok(lengths(name, &begin, &IMAGE_AXES)?.0)
}

/// The error of a gzip file that ends early or is damaged.
fn cut(name: &str, error: &std::io::Error) -> ImageError {
    ImageError::Malformed { name: name.to_owned(), what: format!("expected a whole gzip file, found {error}") }
}

/// The array of a file, with as many numbers as its lengths say.
fn array(name: &str, bytes: &[u8], axes: RangeInclusive<usize>) -> Result<Array, ImageError> {
    let malformed = |what: String| ImageError::Malformed { name: name.to_owned(), what };
    if Kind::of(bytes) != Kind::Gzip {
        let (shape, expected) = lengths(name, bytes, &axes)?;
        let numbers = &bytes[head_bytes(shape.len())..];
        if numbers.len() != expected {
            let found = numbers.len();
            return Err(malformed(format!("expected {expected} numbers after the lengths, found {found}")));
        }
        return Ok(Array { shape, numbers: Zeroizing::new(numbers.to_vec()) });
    }
    let cut = |error: std::io::Error| cut(name, &error);
    let mut file = MultiGzDecoder::new(bytes);
    let mut head = Vec::with_capacity(MAX_HEAD_BYTES);
    file.by_ref().take(4).read_to_end(&mut head).map_err(cut)?;
    let rest = head.get(3).map_or(0, |axes| head_bytes(usize::from(*axes).min(MAX_AXES)) - 4);
    file.by_ref().take(rest as u64).read_to_end(&mut head).map_err(cut)?;
    let (shape, expected) = lengths(name, &head, &axes)?;
    let (most, found) = (most_bytes(bytes.len()), head.len() as u64 + expected as u64);
    if found > most {
        return Err(malformed(format!(
            "expected at most {most} bytes when decompressed, found {found}: decompress the file first (`gunzip`)"
        )));
    }
    // one more number, to detect a longer file
    let mut numbers = Zeroizing::new(Vec::with_capacity(expected + 1));
    file.take(expected as u64 + 1).read_to_end(&mut numbers).map_err(cut)?;
    if numbers.len() != expected {
        let found = if numbers.len() > expected { "more".to_owned() } else { numbers.len().to_string() };
        return Err(malformed(format!("expected {expected} numbers after the lengths, found {found}")));
    }
    Ok(Array { shape, numbers })
}

/// The most decompressed bytes of a file of this many bytes.
fn most_bytes(file_bytes: usize) -> u64 {
    (MOST_TIMES * file_bytes as u64 + FREE_BYTES).min(MAX_IDX_BYTES)
}

/// The bytes before the numbers.
const fn head_bytes(axes: usize) -> usize {
    4 + 4 * axes
}

/// The lengths of the axes, from the beginning of a file, and the count of the numbers after them.
fn lengths(name: &str, bytes: &[u8], axes: &RangeInclusive<usize>) -> Result<(Vec<usize>, usize), ImageError> {
    let malformed = |what: String| ImageError::Malformed { name: name.to_owned(), what };
    let Some((found, rest)) = bytes.split_first_chunk::<4>() else {
        return Err(malformed(format!("expected an idx file, found {} bytes", bytes.len())));
    };
    let count = usize::from(found[3]);
    if found[..3] != [0, 0, 8] || !axes.contains(&count) {
        let (least, most) = (*axes.start(), *axes.end());
        let last = if least == most { format!("{least:02x}") } else { format!("{least:02x} to {most:02x}") };
        return Err(malformed(format!("expected the first bytes [00, 00, 08, {last}], found {found:02x?}")));
    }
    let Some(lengths) = rest.get(..4 * count) else {
        return Err(malformed(format!("expected {count} lengths, found the file's end")));
    };
    let shape: Vec<usize> =
        lengths.as_chunks::<4>().0.iter().map(|length| u32::from_be_bytes(*length) as usize).collect();
    let product = shape.iter().try_fold(1usize, |product, axis| product.checked_mul(*axis));
    match product.filter(|count| *count as u64 <= MAX_IDX_BYTES) {
        Some(count) => Ok((shape, count)),
        None => Err(malformed(format!("expected at most {MAX_IDX_BYTES} numbers, found lengths {shape:?}"))),
    }
}

/// The number of images and the lengths of their axes, for a message.
fn lengths_text(shape: &[usize]) -> String {
    let lengths: Vec<String> = shape.iter().skip(1).map(ToString::to_string).collect();
    format!("{} of {}", shape.first().unwrap_or(&0), lengths.join(" x "))
}
