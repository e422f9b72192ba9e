//! One picture as a digit of MNIST.
//!
//! The steps have this order. Transparent parts get the background that contrasts with the ink;
//! colours become grey (the luma of BT.601); a light background, recognised by the median of the
//! border, is inverted; the background's level is subtracted and the rest stretched to 0 to 255. If
//! a picture of 28 x 28 then has its ink within 22 x 22 around the middle, it stays as it is. Any
//! other picture is cropped to its ink, scaled by areas so that its longer side is 20, and placed
//! so that its centre of mass is in the middle. MNIST was made so (LeCun et al., *Gradient-based
//! learning applied to document recognition*, section III A). All steps except the areas are in
//! integers.

use super::ImageError;
use super::jpeg::decode_jpeg;
use super::kind::Kind;
use super::picture::{MAX_PICTURE_BYTES, Picture, decode_png};
use std::fmt;
use std::path::Path;
use tobari_host::files::{name_of, read_bounded};
use zeroize::Zeroizing;

/// Rows and columns of a digit.
pub const SIDE: usize = 28;
/// Rows and columns of the ink.
const INK: f64 = 20.0;
/// The most rows and columns of ink in an image that stays as it is: [`INK`] and soft edges.
const MOST_INK: usize = 22;
/// The least difference between background and ink.
const LEAST_CONTRAST: u8 = 32;
/// The least brightness that counts as ink in the search for it, after stretching.
const THRESHOLD: u8 = 64;

/// A change made to a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// Colours became grey.
    Colour,
    /// Transparent parts got a background.
    Transparent,
    /// Dark ink on a light background was inverted.
    Inverted,
    /// The brightness was stretched, because the background was not black or the ink not white.
    Stretched,
    /// The picture was cropped, scaled and centred, from this many columns and rows.
    Centred {
        /// Columns.
        width: usize,
        /// Rows.
        height: usize,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Colour => write!(f, "colours were made grey"),
            Self::Transparent => write!(f, "transparent parts became background"),
            Self::Inverted => write!(f, "dark ink on a light background was inverted"),
            Self::Stretched => write!(f, "the contrast was stretched"),
            Self::Centred { width, height } => {
                write!(f, "the ink of {width} x {height} pixels was scaled to 20 x 20 and centred in 28 x 28")
            }
        }
    }
}

/// A digit in MNIST's form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digit {
    /// 28 rows of 28; 0 is the background.
    pub pixels: Vec<u8>,
    /// The changes, in order.
    pub notes: Vec<Note>,
}

/// Reads a PNG or JPEG as a digit.
///
/// # Errors
/// [`ImageError`].
pub fn read_digit(path: &Path) -> Result<Digit, ImageError> {
    decode_digit(&name_of(path), &Zeroizing::new(read_bounded(path, MAX_PICTURE_BYTES)?))
}

/// Decodes the bytes of a PNG or JPEG as a digit.
///
/// # Errors
/// [`ImageError`], with the given name.
pub fn decode_digit(name: &str, bytes: &[u8]) -> Result<Digit, ImageError> {
    let picture = match Kind::of(bytes) {
        Kind::Jpeg => decode_jpeg(name, bytes)?,
        _ => decode_png(name, bytes)?,
    };
    picture.digit().ok_or_else(|| ImageError::Blank { name: name.to_owned() })
}

impl Picture {
    /// The digit in the picture; `None` if there is no ink.
    pub fn digit(&self) -> Option<Digit> {
        let mut notes = Vec::new();
        let mut grey = self.grey(&mut notes);
        let (width, height) = (self.width, self.height);
        let border = border(width, height);
        let mut levels: Vec<u8> = border.map(|at| grey[at]).collect();
        levels.sort_unstable();
        let mut background = levels.get(levels.len() / 2).copied()?;
        if background > 127 {
            grey.iter_mut().for_each(|pixel| *pixel = 255 - *pixel);
            background = 255 - background;
            notes.push(Note::Inverted);
        }
        let most = grey.iter().copied().max()?;
        if most < background.saturating_add(LEAST_CONTRAST) {
            return None;
        }
        if background > 0 || most < 192 {
            // a background is never quite even: a sixteenth more is subtracted
            let floor = background + if background > 0 { (most - background) / 16 } else { 0 };
            let range = u32::from(most - floor);
            let stretch = |pixel: u8| (u32::from(pixel.saturating_sub(floor)) * 255 / range) as u8;
            grey.iter_mut().for_each(|pixel| *pixel = stretch(*pixel));
            notes.push(Note::Stretched);
        }
        if (width, height) == (SIDE, SIDE) && is_centred(&grey) {
            return Some(Digit { pixels: grey, notes });
        }
        let ink = Ink::of(&grey, width, height)?;
        notes.push(Note::Centred { width: ink.columns[1] - ink.columns[0], height: ink.rows[1] - ink.rows[0] });
        Some(Digit { pixels: centred(&grey, width, &ink), notes })
    }

    fn grey(&self, notes: &mut Vec<Note>) -> Vec<u8> {
        let luma = |[red, green, blue, _]: [u8; 4]| {
            ((77 * u32::from(red) + 150 * u32::from(green) + 29 * u32::from(blue) + 128) >> 8) as u8
        };
        if self.pixels.iter().any(|[red, green, blue, alpha]| (red != green || green != blue) && *alpha > 0) {
            notes.push(Note::Colour);
        }
        let clear = self.pixels.iter().filter(|pixel| pixel[3] < 255).count();
        if clear == 0 {
            return self.pixels.iter().map(|pixel| luma(*pixel)).collect();
        }
        notes.push(Note::Transparent);
        // the mean of the opaque parts is dark or light; the background gets the opposite
        let weighed = |sum: (u64, u64), pixel: &[u8; 4]| {
            (sum.0 + u64::from(luma(*pixel)) * u64::from(pixel[3]), sum.1 + u64::from(pixel[3]))
        };
        let (sum, weight) = self.pixels.iter().fold((0, 0), weighed);
        let behind: u32 = if sum < 128 * weight { 255 } else { 0 };
        let over = |pixel: &[u8; 4]| {
            let alpha = u32::from(pixel[3]);
            ((u32::from(luma(*pixel)) * alpha + behind * (255 - alpha) + 127) / 255) as u8
        };
        self.pixels.iter().map(over).collect()
    }
}

/// The positions of the outermost pixels.
fn border(width: usize, height: usize) -> impl Iterator<Item = usize> {
    let rows = (0..width).flat_map(move |column| [column, (height - 1) * width + column]);
    rows.chain((0..height).flat_map(move |row| [row * width, row * width + width - 1]))
}

/// The first row and column with ink, and the ends after the last ones.
struct Ink {
    rows: [usize; 2],
    columns: [usize; 2],
}

impl Ink {
    fn of(grey: &[u8], width: usize, height: usize) -> Option<Self> {
        let (mut rows, mut columns) = ([height, 0], [width, 0]);
        for (at, _) in grey.iter().enumerate().filter(|(_, pixel)| **pixel >= THRESHOLD) {
            let (row, column) = (at / width, at % width);
            rows = [rows[0].min(row), rows[1].max(row + 1)];
            columns = [columns[0].min(column), columns[1].max(column + 1)];
        }
        (rows[0] < rows[1]).then_some(Self { rows, columns })
    }
}

/// Row and column of the centre of mass.
fn centre(grey: &[u8], width: usize) -> [f64; 2] {
    let (mut sum, mut mass) = ([0.0; 2], 0.0);
    for (at, pixel) in grey.iter().enumerate() {
        let pixel = f64::from(*pixel);
        sum = [sum[0] + pixel * (at / width) as f64, sum[1] + pixel * (at % width) as f64];
        mass += pixel;
    }
    sum.map(|sum| if mass > 0.0 { sum / mass } else { 0.0 })
}

/// Whether 28 x 28 pixels are in MNIST's form already.
fn is_centred(grey: &[u8]) -> bool {
    let Some(ink) = Ink::of(grey, SIDE, SIDE) else { return false };
    let sizes = [ink.rows[1] - ink.rows[0], ink.columns[1] - ink.columns[0]];
    let fits = sizes.iter().all(|size| *size <= MOST_INK) && sizes.iter().any(|size| *size as f64 >= INK - 4.0);
    let middle = SIDE as f64 / 2.0; // MNIST's mean is 14.0, counted from 0
    fits && centre(grey, SIDE).iter().all(|at| (at - middle).abs() <= 1.5)
}

/// The ink, scaled by areas so that its longer side is 20, with its centre of mass in the middle.
fn centred(grey: &[u8], width: usize, ink: &Ink) -> Vec<u8> {
    let size = [ink.rows[1] - ink.rows[0], ink.columns[1] - ink.columns[0]].map(|size| size as f64);
    let step = size[0].max(size[1]) / INK;
    let count = size.map(|size| (size / step).round().max(1.0) as usize);
    let rows = weights(ink.rows[0], size[0], count[0]);
    let columns = weights(ink.columns[0], size[1], count[1]);
    let mut small = vec![0.0; count[0] * count[1]];
    for (row, weights) in rows.iter().enumerate() {
        for (y, by_row) in weights {
            let line = &grey[y * width..][..width];
            for (column, weights) in columns.iter().enumerate() {
                let sum: f64 = weights.iter().map(|(x, by_column)| by_column * f64::from(line[*x])).sum();
                small[row * count[1] + column] += by_row * sum;
            }
        }
    }
    // scaling down makes thin strokes pale
    let most = small.iter().copied().fold(1.0, f64::max);
    let small: Vec<u8> = small.iter().map(|pixel| (pixel * 255.0 / most).round() as u8).collect();
    let middle = SIDE as f64 / 2.0;
    let mass = centre(&small, count[1]);
    let shift = [0, 1].map(|axis| {
        let most = SIDE - count[axis];
        ((middle - mass[axis]).round().max(0.0) as usize).min(most)
    });
    let mut pixels = vec![0; SIDE * SIDE];
    for (row, line) in small.chunks_exact(count[1]).enumerate() {
        pixels[(row + shift[0]) * SIDE + shift[1]..][..count[1]].copy_from_slice(line);
    }
    pixels
}

/// For each of `count` equal parts of `size` numbers from `start` on: the numbers that the part
/// covers, each with its weight.
fn weights(start: usize, size: f64, count: usize) -> Vec<Vec<(usize, f64)>> {
    let step = size / count as f64;
    let part = |at: usize| {
        let (from, to) = (at as f64 * step, (at as f64 + 1.0) * step);
        let (first, last) = (from.floor() as usize, (to.ceil() as usize).min(size as usize));
        let cover = |place: usize| ((place as f64 + 1.0).min(to) - (place as f64).max(from)).max(0.0) / step;
        (first..last.max(first + 1)).map(|place| (start + place, cover(place))).collect()
    };
    (0..count).map(part).collect()
}
