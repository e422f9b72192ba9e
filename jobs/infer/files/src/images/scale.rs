//! Pictures in the form of a model: its channels, its rows and columns.
//!
//! Grey is the luma of ITU-R BT.601, in the integers of Pillow. A picture of another size is
//! rejected, unless the caller chooses to stretch or crop it. Scaling is a weighted mean: each
//! result takes the pixels within one step of its middle, with weights that fall off linearly; the
//! step is that of the coarser grid. Pillow's `BILINEAR` is the same filter, and models are mostly
//! trained on pictures that Pillow has scaled. First the rows are scaled, then the columns, with
//! eight bits in between, as in Pillow.

use super::{ImageError, Picture, SIDE};
use std::fmt;
use std::str::FromStr;
use tobari_infer::Volume;
use zeroize::Zeroizing;

/// Bits after the point of a weight. The sum of weights times levels stays below `2^31`.
const WEIGHT_BITS: u32 = 22;

/// The treatment of pictures that do not have a model's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// Pictures of another size are rejected.
    #[default]
    Exact,
    /// Pictures are scaled to the model's size, also if this changes the ratio of their sides.
    Stretch,
    /// Pictures are cropped around their centre to the ratio of the model's sides, then scaled.
    CropCentre,
    /// Pictures of a digit become grey, get a black background and are centred, as in MNIST
    /// ([`read_digit`](super::read_digit)). Arrays are in that form already.
    Digit,
}

impl Fit {
    /// Whether arrays of another size are scaled.
    pub(super) fn scales(self) -> bool {
        matches!(self, Self::Stretch | Self::CropCentre)
    }
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Stretch => "stretch",
            Self::CropCentre => "crop",
            Self::Digit => "digit",
        })
    }
}

impl FromStr for Fit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Exact, Self::Stretch, Self::CropCentre, Self::Digit]
            .into_iter()
            .find(|fit| fit.to_string() == text)
            .ok_or_else(|| format!("expected exact, stretch, crop or digit, found {text}"))
    }
}

/// The numbers of a picture for a model, from 0 to 255: channel after channel, row after row.
///
/// One channel is grey and three channels are red, green and blue. A grey picture has three equal
/// channels.
///
/// # Errors
/// [`ImageError::Malformed`], with the given name: if the picture has transparent parts (see
/// [`Picture::on_white`]), if the model takes another number of channels, or if the sizes differ
/// and `fit` is [`Fit::Exact`]. With [`Fit::Digit`]: for a model of another size than MNIST's, and
/// [`ImageError::Blank`] for a picture without ink.
pub fn planes(name: &str, picture: &Picture, volume: Volume, fit: Fit) -> Result<Zeroizing<Vec<u8>>, ImageError> {
    let malformed = |what: String| Err(ImageError::Malformed { name: name.to_owned(), what });
    let count = picture.width.checked_mul(picture.height);
    if picture.pixels.is_empty() || count != Some(picture.pixels.len()) {
        let (width, height, found) = (picture.width, picture.height, picture.pixels.len());
        return malformed(format!("expected {width} x {height} pixels, found {found}"));
    }
    if fit == Fit::Digit {
        if volume.len() != SIDE * SIDE {
            let Volume { channels, height, width } = volume;
            return malformed(format!(
                "a digit has 28 x 28 grey pixels, and the model takes {channels} x {height} x {width} (channels, rows, \
                 columns): choose exact, stretch or crop instead of digit"
            ));
        }
        let digit = picture.digit().ok_or_else(|| ImageError::Blank { name: name.to_owned() })?;
        return Ok(Zeroizing::new(digit.pixels));
    }
    if !picture.is_opaque() {
        return malformed(
            "the picture has transparent parts: save it without transparency, or put it on white".to_owned(),
        );
    }
    let channels = match volume.channels {
        1 => 1,
        3 => 3,
        channels => {
            return malformed(format!(
                "the model takes {channels} channels, and a picture has one or three: save its channels as a .npy file"
            ));
        }
    };
    let mut pixels = Zeroizing::new(Vec::with_capacity(channels * picture.pixels.len()));
    if channels == 1 {
        pixels.extend(picture.pixels.iter().map(|[red, green, blue, _]| luma(*red, *green, *blue)));
    } else {
        (0..3).for_each(|channel| pixels.extend(picture.pixels.iter().map(|pixel| pixel[channel])));
    }
    let found = Volume { channels, height: picture.height, width: picture.width };
    fitted(name, &Planes { volume: found, pixels: &pixels }, volume, fit)
}

/// The grey level of a colour.
fn luma(red: u8, green: u8, blue: u8) -> u8 {
    // 0.299, 0.587 and 0.114 in units of 2^-16
    ((19_595 * u32::from(red) + 38_470 * u32::from(green) + 7_471 * u32::from(blue) + 0x8000) >> 16) as u8
}

/// Numbers from 0 to 255, channel after channel, row after row.
pub(super) struct Planes<'a> {
    /// Their shape; no length is 0.
    pub(super) volume: Volume,
    /// As many as the shape says.
    pub(super) pixels: &'a [u8],
}

/// Whether numbers of so many channels become those of a model: the same number, or grey and
/// colour.
pub(super) fn convertible(channels: usize, wanted: usize) -> bool {
    channels == wanted || matches!((channels, wanted), (1, 3) | (3, 1))
}

/// The numbers in the shape of a model.
///
/// # Errors
/// [`ImageError::Malformed`], with the given name: if the sizes differ and `fit` is [`Fit::Exact`],
/// or if the channels cannot be converted.
pub(super) fn fitted(
    name: &str,
    found: &Planes<'_>,
    wanted: Volume,
    fit: Fit,
) -> Result<Zeroizing<Vec<u8>>, ImageError> {
    let malformed = |what: String| Err(ImageError::Malformed { name: name.to_owned(), what });
    let Volume { channels, height, width } = found.volume;
    if wanted.is_empty() || !convertible(channels, wanted.channels) {
        return malformed(format!("the model takes {} channels, and the picture has {channels}", wanted.channels));
    }
    if (width, height) != (wanted.width, wanted.height) && !fit.scales() {
        return malformed(format!(
            "the model takes {} x {} pixels, and the picture has {width} x {height}: scale the picture, or choose \
             `stretch` or `crop` instead of `exact`",
            wanted.width, wanted.height
        ));
    }
    let mut planes: Vec<&[u8]> = found.pixels.chunks_exact(height * width).collect();
    let grey: Zeroizing<Vec<u8>>;
    if let ([red, green, blue], 1) = (&planes[..], wanted.channels) {
        let colours = red.iter().zip(*green).zip(*blue);
        grey = Zeroizing::new(colours.map(|((red, green), blue)| luma(*red, *green, *blue)).collect());
        planes = vec![&grey];
    }
    let mut pixels = Zeroizing::new(Vec::with_capacity(wanted.len()));
    if (width, height) == (wanted.width, wanted.height) {
        planes.iter().for_each(|plane| pixels.extend_from_slice(plane));
    } else {
        let scale = Scale::new([width, height], [wanted.width, wanted.height], fit);
        planes.iter().for_each(|plane| pixels.extend_from_slice(&scale.apply(plane)));
    }
    if planes.len() == 1 {
        let first = Zeroizing::new(pixels.to_vec());
        (1..wanted.channels).for_each(|_| pixels.extend_from_slice(&first));
    }
    Ok(pixels)
}

/// The numbers that a result takes: the first one's place, and their weights.
struct Taps {
    first: usize,
    weights: Vec<i32>,
}

impl Taps {
    /// The results at the middles of `count` equal parts of the numbers from `from` to `to`, out of
    /// `length` numbers.
    fn all(length: usize, [from, to]: [f64; 2], count: usize) -> Vec<Self> {
        let step = (to - from) / count as f64;
        let reach = step.max(1.0);
        let taps = |at: usize| {
            let middle = from + (at as f64 + 0.5) * step;
            let first = ((middle - reach + 0.5).max(0.0) as usize).min(length - 1);
            let end = ((middle + reach + 0.5).max(0.0) as usize).clamp(first + 1, length);
            let weight = |place: usize| (1.0 - ((place as f64 + 0.5 - middle) / reach).abs()).max(0.0);
            let sum: f64 = (first..end).map(weight).sum();
            let fixed = |place: usize| match sum > 0.0 {
                true => (weight(place) / sum * f64::from(1 << WEIGHT_BITS)).round() as i32,
                false => i32::from(place == first) << WEIGHT_BITS,
            };
            Self { first, weights: (first..end).map(fixed).collect() }
        };
        (0..count).map(taps).collect()
    }

    /// The weighted mean of a line's numbers, which stand `stride` apart.
    fn mean(&self, line: &[u8], stride: usize) -> u8 {
        let numbers = line.iter().skip(self.first * stride).step_by(stride);
        let sum: i32 = self.weights.iter().zip(numbers).map(|(weight, level)| weight * i32::from(*level)).sum();
        ((sum + (1 << (WEIGHT_BITS - 1))) >> WEIGHT_BITS).clamp(0, 255) as u8
    }
}

/// The scaling of pictures of one size to another.
struct Scale {
    width: usize,
    columns: Vec<Taps>,
    rows: Vec<Taps>,
}

impl Scale {
    /// Sizes are columns and rows, at least 1.
    fn new([width, height]: [usize; 2], [wide, high]: [usize; 2], fit: Fit) -> Self {
        let (w, h) = (width as f64, height as f64);
        let ratio = wide as f64 / high as f64;
        let [part_w, part_h] = match fit {
            Fit::CropCentre if w / h >= ratio => [ratio * h, h],
            Fit::CropCentre => [w, w / ratio],
            Fit::Exact | Fit::Stretch | Fit::Digit => [w, h],
        };
        let around = |whole: f64, part: f64| [(whole - part) / 2.0, (whole + part) / 2.0];
        Self {
            width,
            columns: Taps::all(width, around(w, part_w), wide),
            rows: Taps::all(height, around(h, part_h), high),
        }
    }

    /// Scales the numbers of one channel.
    fn apply(&self, plane: &[u8]) -> Zeroizing<Vec<u8>> {
        let lines = plane.chunks_exact(self.width);
        let narrow = |line| self.columns.iter().map(move |taps| taps.mean(line, 1));
        let narrow: Zeroizing<Vec<u8>> = Zeroizing::new(lines.flat_map(narrow).collect());
        let wide = self.columns.len();
        let row = |taps: &Taps| (0..wide).map(|at| taps.mean(&narrow[at..], wide)).collect::<Vec<u8>>();
        Zeroizing::new(self.rows.iter().flat_map(row).collect())
    }
}
