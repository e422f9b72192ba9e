//! Arrays of NumPy: `.npy` files of the versions 1 to 3.
//!
//! A file has the bytes `\x93NUMPY`, its version, the length of its header, the header, and the
//! numbers (NEP 1). The header is the text of a Python dictionary: the type of the numbers, their
//! order, and the lengths of the axes. The lengths must match the file to the byte.
//!
//! Numbers of the type `uint8` are levels from 0 to 255. For `float32` and `float64` the scale is
//! inferred, and a file that does not show its scale is rejected:
//!
//! - Numbers from 0 to 1, with at least one strictly between, are multiplied by 255.
//! - Numbers from 0 to 255, the largest of which is 16 or more, are levels.
//!
//! Both are rounded. Files with a number below 0 contain normalised pictures; the mean and the
//! deviation belong into the model.

use super::ImageError;
use super::array::Array;
use zeroize::Zeroizing;

/// The most bytes of a file.
pub(super) const MAX_NPY_BYTES: u64 = 1 << 30;
/// The most bytes of a header; those of NumPy have 128.
pub(super) const MAX_HEADER_BYTES: usize = 1 << 14;
/// The most axes.
const MAX_AXES: usize = 8;
/// The least largest number of levels in floating point.
const LEAST_LEVEL: f64 = 16.0;

/// The type of a file's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    U8,
    F32 { big: bool },
    F64 { big: bool },
}

impl Type {
    fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F32 { .. } => 4,
            Self::F64 { .. } => 8,
        }
    }
}

/// A file's header.
pub(super) struct Header {
    kind: Type,
    pub(super) shape: Vec<usize>,
    /// The place of the first number.
    start: usize,
}

impl Header {
    /// Reads the header at the beginning of a file.
    ///
    /// # Errors
    /// [`ImageError::Malformed`], with the given name.
    pub(super) fn read(name: &str, bytes: &[u8]) -> Result<Self, ImageError> {
        let malformed = |what: String| ImageError::Malformed { name: name.to_owned(), what };
        let cut = || malformed("expected the header of a .npy file, found the file's end".to_owned());
        let version = bytes.get(6).copied().ok_or_else(cut)?;
        let length_bytes = match version {
            1 => 2,
            2 | 3 => 4,
            _ => return Err(malformed(format!("expected a .npy file of the version 1, 2 or 3, found {version}"))),
        };
        let length = bytes.get(8..8 + length_bytes).ok_or_else(cut)?;
        let length = length.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        if length > MAX_HEADER_BYTES {
            let most = MAX_HEADER_BYTES;
            return Err(malformed(format!("expected a header of at most {most} bytes, found {length}")));
        }
        let start = 8 + length_bytes + length;
        let text = bytes.get(8 + length_bytes..start).ok_or_else(cut)?;
        let text = str::from_utf8(text).map_err(|_| malformed("expected a header of text, found bytes".to_owned()))?;
        let (kind, shape) = parse(text).map_err(malformed)?;
        Ok(Self { kind, shape, start })
    }
}

/// Decodes a file's bytes.
///
/// # Errors
/// [`ImageError::Malformed`], with the given name.
pub(super) fn decode_npy(name: &str, bytes: &[u8]) -> Result<Array, ImageError> {
    let malformed = |what: String| ImageError::Malformed { name: name.to_owned(), what };
    let Header { kind, shape, start } = Header::read(name, bytes)?;
    let numbers = bytes.get(start..).unwrap_or_default();
    let count = shape.iter().try_fold(kind.bytes(), |product, axis| product.checked_mul(*axis));
    if count != Some(numbers.len()) {
        let (size, found) = (kind.bytes(), numbers.len());
        return Err(malformed(format!(
            "expected numbers of {size} bytes in the shape {shape:?}, found {found} bytes of numbers"
        )));
    }
    let numbers = match kind {
        Type::U8 => Zeroizing::new(numbers.to_vec()),
        Type::F32 { big } => {
            let read = |bytes: &[u8; 4]| if big { f32::from_be_bytes(*bytes) } else { f32::from_le_bytes(*bytes) };
            levels(numbers.as_chunks().0.iter().map(|bytes| f64::from(read(bytes)))).map_err(malformed)?
        }
        Type::F64 { big } => {
            let read = |bytes: &[u8; 8]| if big { f64::from_be_bytes(*bytes) } else { f64::from_le_bytes(*bytes) };
            levels(numbers.as_chunks().0.iter().map(read)).map_err(malformed)?
        }
    };
    Ok(Array { shape, numbers })
}

/// Levels from 0 to 255, by the rule in the module's head.
fn levels(numbers: impl Iterator<Item = f64> + Clone) -> Result<Zeroizing<Vec<u8>>, String> {
    let (mut least, mut most, mut between) = (f64::INFINITY, 0.0f64, false);
    for number in numbers.clone() {
        if !number.is_finite() {
            return Err(format!("expected numbers from 0 to 1 or from 0 to 255, found {number}"));
        }
        (least, most) = (least.min(number), most.max(number));
        between |= 0.0 < number && number < 1.0;
    }
    if least < 0.0 {
        return Err(format!(
            "expected numbers from 0 to 1 or from 0 to 255, found {least}: save the pictures before their \
             normalisation, as uint8"
        ));
    }
    let factor = match most {
        most if most <= 1.0 && between => 255.0,
        most if (LEAST_LEVEL..=255.0).contains(&most) => 1.0,
        most if most > 255.0 => {
            return Err(format!(
                "expected numbers from 0 to 1 or from 0 to 255, found {most}: save the pictures as uint8"
            ));
        }
        most => {
            return Err(format!(
                "the largest number is {most}, and the scale may end at 1 or at 255: save the pictures as uint8"
            ));
        }
    };
    Ok(Zeroizing::new(numbers.map(|number| (number * factor).round() as u8).collect()))
}

/// The type and the shape in a header's text.
fn parse(text: &str) -> Result<(Type, Vec<usize>), String> {
    let odd = || format!("expected a dictionary of descr, fortran_order and shape, found {}", clipped(text));
    let mut rest = text.trim().strip_prefix('{').ok_or_else(odd)?;
    let (mut kind, mut order, mut shape) = (None, None, None);
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('}') {
            rest = after;
            break;
        }
        let (key, after) = quoted(rest).ok_or_else(odd)?;
        rest = after.trim_start().strip_prefix(':').ok_or_else(odd)?.trim_start();
        rest = match key {
            "descr" if kind.is_none() => {
                let (descr, after) = quoted(rest).unwrap_or((clipped(rest), ""));
                kind = Some(type_of(descr)?);
                after
            }
            "fortran_order" if order.is_none() => {
                let (fortran, after) = match (rest.strip_prefix("True"), rest.strip_prefix("False")) {
                    (Some(after), _) => (true, after),
                    (_, Some(after)) => (false, after),
                    _ => return Err(odd()),
                };
                order = Some(fortran);
                after
            }
            "shape" if shape.is_none() => {
                let (inside, after) = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).ok_or_else(odd)?;
                shape = Some(lengths(inside).ok_or_else(odd)?);
                after
            }
            _ => return Err(odd()),
        };
        rest = rest.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    match (kind, order, shape) {
        (Some(kind), Some(false), Some(shape)) if rest.trim().is_empty() => Ok((kind, shape)),
        (Some(_), Some(true), Some(_)) => Err("expected the order of C, found that of Fortran: \
             save numpy.ascontiguousarray(pictures)"
            .to_owned()),
        _ => Err(odd()),
    }
}

/// The lengths of a tuple's text; none for other text and for too many axes.
fn lengths(inside: &str) -> Option<Vec<usize>> {
    let inside = inside.trim();
    let inside = inside.strip_suffix(',').unwrap_or(inside);
    if inside.is_empty() {
        return Some(Vec::new());
    }
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
    let lengths: Option<Vec<usize>> = inside.split(',').map(|length| digits(length.trim())).collect();
    lengths.filter(|lengths| lengths.len() <= MAX_AXES)
}

/// The text between the quotes at the beginning, and the rest.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|first| matches!(first, '\'' | '"'))?;
    text[1..].split_once(quote)
}

fn type_of(descr: &str) -> Result<Type, String> {
    match descr {
        "|u1" | "<u1" | ">u1" | "u1" => Ok(Type::U8),
        "<f4" => Ok(Type::F32 { big: false }),
        ">f4" => Ok(Type::F32 { big: true }),
        "<f8" => Ok(Type::F64 { big: false }),
        ">f8" => Ok(Type::F64 { big: true }),
        other => Err(format!(
            "expected the type uint8, float32 or float64, found {}: save pictures.astype('uint8')",
            clipped(other)
        )),
    }
}

/// The beginning of a text, for a message.
fn clipped(text: &str) -> &str {
    text.char_indices().nth(80).map_or(text, |(end, _)| &text[..end])
}
