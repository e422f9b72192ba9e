//! Arrays of numbers as pictures: which axis has the channels, the rows and the columns.
//!
//! Files do not say what their axes mean. All usual readings of the lengths are compared with the
//! model's shape. A reading with exactly this shape wins. Without one, every reading is possible
//! that becomes the model's shape: by grey or colour, and by scaling, if the caller allows it. If
//! several readings win, or several are possible, the file is rejected.

use super::ImageError;
use super::scale::{Fit, Planes, convertible, fitted};
use tobari_infer::Volume;
use zeroize::Zeroizing;

/// Levels from 0 to 255 in some shape, the last axis fastest.
pub(super) struct Array {
    /// The lengths of the axes.
    pub(super) shape: Vec<usize>,
    /// As many as the shape says.
    pub(super) numbers: Zeroizing<Vec<u8>>,
}

/// A meaning of an array's axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// The number of pictures.
    pub(super) count: usize,
    /// The shape of each.
    pub(super) volume: Volume,
    /// Whether a pixel's channels stand side by side.
    interleaved: bool,
    /// The names of the axes, for messages: `(n, c, h, w)`.
    axes: &'static str,
}

impl Reading {
    /// Every usual reading; `vectors` for models that take one row of one channel.
    fn all(shape: &[usize], vectors: bool) -> Vec<Self> {
        let reading = |axes, count, [channels, height, width]: [usize; 3], interleaved| Self {
            count,
            volume: Volume { channels, height, width },
            interleaved,
            axes,
        };
        match *shape {
            [a, b, c, d] => {
                vec![reading("(n, c, h, w)", a, [b, c, d], false), reading("(n, h, w, c)", a, [d, b, c], true)]
            }
            [a, b, c] => vec![
                reading("(n, h, w)", a, [1, b, c], false),
                reading("(c, h, w)", 1, [a, b, c], false),
                reading("(h, w, c)", 1, [c, a, b], true),
            ],
            [a, b] if vectors => vec![reading("(n, w)", a, [1, 1, b], false), reading("(h, w)", 1, [1, a, b], false)],
            [a, b] => vec![reading("(h, w)", 1, [1, a, b], false)],
            [a] if vectors => vec![reading("(w)", 1, [1, 1, a], false)],
            _ => vec![],
        }
    }

    /// Pictures of these channels, rows and columns, with the channels of a pixel side by side.
    pub(super) fn interleaved(count: usize, [channels, height, width]: [usize; 3]) -> Self {
        Self { count, volume: Volume { channels, height, width }, interleaved: true, axes: "(n, h, w, c)" }
    }

    /// The only reading of a shape for a model.
    ///
    /// # Errors
    /// [`ImageError::Malformed`], with the given name.
    pub(super) fn of(name: &str, shape: &[usize], wanted: Volume, fit: Fit) -> Result<Self, ImageError> {
        let malformed = |what: String| Err(ImageError::Malformed { name: name.to_owned(), what });
        if shape.contains(&0) || wanted.is_empty() {
            return malformed(format!("expected pictures of at least one pixel, found the shape {shape:?}"));
        }
        let Volume { channels, height, width } = wanted;
        let all = Self::all(shape, channels == 1 && height == 1);
        let exact = |reading: &&Self| reading.volume == wanted;
        let possible = |reading: &&Self| {
            let found = reading.volume;
            let same_size = (found.height, found.width) == (height, width);
            convertible(found.channels, channels) && (same_size || fit.scales())
        };
        let mut found = Self::differing(all.iter().filter(exact));
        if found.is_empty() {
            found = Self::differing(all.iter().filter(possible));
        }
        let model = format!("{channels} x {height} x {width} (channels, rows, columns)");
        match found[..] {
            [reading] => Ok(reading),
            [] if all.is_empty() => malformed(format!(
                "expected pictures in the shape (n, c, h, w), (n, h, w, c), (n, h, w), (c, h, w), (h, w, c) or \
                 (h, w), found {shape:?}"
            )),
            [] => malformed(format!(
                "the model takes {model}, and no reading of the shape {shape:?} is such pictures: save them in that \
                 size, or choose `stretch` or `crop` instead of `exact`"
            )),
            _ => {
                let readings: Vec<&str> = found.iter().map(|reading| reading.axes).collect();
                malformed(format!(
                    "the model takes {model}, and the shape {shape:?} may be {}: save an array with four axes in the \
                     model's size",
                    readings.join(" or ")
                ))
            }
        }
    }

    /// Readings that give different pictures.
    fn differing<'a>(readings: impl Iterator<Item = &'a Self>) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for reading in readings {
            let same = |other: &Self| {
                let (a, b) = (reading.volume, other.volume);
                // the place of the channels does not matter for a single channel or pixel
                let order = reading.interleaved == other.interleaved || a.channels == 1 || a.height * a.width == 1;
                a == b && reading.count == other.count && order
            };
            if !found.iter().any(same) {
                found.push(*reading);
            }
        }
        found
    }

    /// The numbers of one picture, channel after channel; none beyond the last picture.
    pub(super) fn planes(&self, numbers: &[u8], index: usize) -> Option<Zeroizing<Vec<u8>>> {
        let pixels = numbers.chunks_exact(self.volume.len()).nth(index)?;
        let channels = self.volume.channels;
        Some(Zeroizing::new(match self.interleaved {
            false => pixels.to_vec(),
            true => (0..channels).flat_map(|at| pixels.iter().skip(at).step_by(channels)).copied().collect(),
        }))
    }
}

impl Array {
    /// One picture of the array, in the shape of a model.
    ///
    /// # Errors
    /// [`ImageError::Malformed`], with the given name.
    pub(super) fn picture(
        &self,
        name: &str,
        reading: &Reading,
        index: usize,
        wanted: Volume,
        fit: Fit,
    ) -> Result<Zeroizing<Vec<u8>>, ImageError> {
        let missing = || ImageError::Malformed {
            name: name.to_owned(),
            what: format!("expected {} pictures, found no number {index}", reading.count),
        };
        let pixels = reading.planes(&self.numbers, index).ok_or_else(missing)?;
        fitted(name, &Planes { volume: reading.volume, pixels: &pixels }, wanted, fit)
    }
}
