//! Pictures in memory, and their files: PNG and JPEG.
//!
//! Sizes are read first and compared with the file's length, so that a short file cannot ask for
//! much memory. Colours are taken as the numbers in the file: colour profiles are ignored, as the
//! tools do that prepare pictures for training.

use super::ImageError;
use super::jpeg::decode_jpeg;
use super::kind::Kind;
use std::io::Cursor;
use std::path::Path;
use tobari_host::files::{name_of, read_bounded};
use zeroize::{Zeroize, Zeroizing};

/// The most bytes of a PNG or JPEG.
pub const MAX_PICTURE_BYTES: u64 = 1 << 25;
/// The most bytes of a PNG.
pub const MAX_PNG_BYTES: u64 = MAX_PICTURE_BYTES;
/// The most pixels of a PNG.
pub const MAX_PIXELS: u64 = 1 << 24;
/// Pixels that even a short file may have: 36 MiB at four bytes each, enough for a full-screen
/// drawing.
pub(super) const FREE_PIXELS: u64 = 9 << 20;
/// The most columns of a PNG: decoding holds some rows.
const MAX_COLUMNS: u32 = 1 << 14;

/// The picture of a file, with 8 bits for each channel. The pixels are wiped when it is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Red, green, blue and opacity of each pixel, row by row.
    pub pixels: Vec<[u8; 4]>,
}

impl Drop for Picture {
    fn drop(&mut self) {
        self.pixels.as_flattened_mut().zeroize();
    }
}

/// Reads a picture from a PNG or JPEG file.
///
/// # Errors
/// [`ImageError`].
pub fn read_picture(path: &Path) -> Result<Picture, ImageError> {
    decode_picture(&name_of(path), &Zeroizing::new(read_bounded(path, MAX_PICTURE_BYTES)?))
}

/// Decodes the bytes of a PNG or JPEG, which is recognised by its first bytes.
///
/// PNG: see [`decode_png`]. JPEG: baseline and progressive, grey and colour, of at most `2^25`
/// pixels (eight for each byte of the file, and `9 · 2^20` more) and 64 scans. The picture is
/// turned upright as its EXIF data say.
///
/// # Errors
/// [`ImageError`], with the given name: also for pictures in CMYK and for other formats.
pub fn decode_picture(name: &str, bytes: &[u8]) -> Result<Picture, ImageError> {
    match Kind::of(bytes) {
        Kind::Png => decode_png(name, bytes),
        Kind::Jpeg => decode_jpeg(name, bytes),
        other => Err(ImageError::Malformed {
            name: name.to_owned(),
            what: format!("expected a PNG or JPEG, found {other}: save the picture as PNG or JPEG"),
        }),
    }
}

/// The most pixels of a PNG of this many bytes: at four bytes each, ten times the file's bytes, and
/// 36 MiB more.
fn most_pixels(file_bytes: usize) -> u64 {
    FREE_PIXELS + file_bytes as u64 * 5 / 2
}

/// Decodes a PNG's bytes as a picture: the first frame, with checked checksums. It may have two and
/// a half pixels for each byte of its file and `9 · 2^20` more, in at most `2^14` columns.
///
/// # Errors
/// [`ImageError`], with the given name.
pub fn decode_png(name: &str, bytes: &[u8]) -> Result<Picture, ImageError> {
    let malformed = |what: String| ImageError::Malformed { name: name.to_owned(), what };
    let expected = |error: png::DecodingError| malformed(format!("expected a whole PNG file, found {error}"));
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: 8 * MAX_PIXELS as usize });
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    // these chunks are not used, and a few of their bytes may decompress to many
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_ignore_text_chunk(true);
    let (width, height) = decoder.read_header_info().map_err(expected)?.size();
    let count = u64::from(width) * u64::from(height);
    if count > MAX_PIXELS {
        return Err(ImageError::TooLarge { name: name.to_owned(), width, height, most: MAX_PIXELS });
    }
    let (most, file) = (most_pixels(bytes.len()), bytes.len());
    if count > most || width > MAX_COLUMNS {
        let most =
            format!("expected at most {most} pixels in a file of {file} bytes, in at most {MAX_COLUMNS} columns");
        return Err(malformed(format!("{most}, found {width} x {height}: cut the picture or scale it down")));
    }
    let mut reader = decoder.read_info().map_err(expected)?;
    let others = || malformed("expected as many pixels as the file says, found others".to_owned());
    let (width, height) = (width as usize, height as usize);
    let mut picture = Picture { width, height, pixels: vec![[0u8; 4]; width * height] };
    let flat = picture.pixels.as_flattened_mut();
    let size = reader.output_buffer_size().ok_or_else(others)?;
    let frame = reader.next_frame(flat.get_mut(..size).ok_or_else(others)?).map_err(expected)?;
    reader.finish().map_err(expected)?;
    let channels = frame.color_type.samples();
    if frame.buffer_size() != channels * width * height {
        return Err(others());
    }
    // channels are expanded in place, the last pixel first, so that there is no second picture
    for at in (0..width * height).rev() {
        let pixel = match flat[at * channels..][..channels] {
            [grey] => [grey, grey, grey, 255],
            [grey, alpha] => [grey, grey, grey, alpha],
            [red, green, blue] => [red, green, blue, 255],
            [red, green, blue, alpha] => [red, green, blue, alpha],
            _ => return Err(others()),
        };
        flat[4 * at..][..4].copy_from_slice(&pixel);
    }
    Ok(picture)
}

impl Picture {
    /// A picture of grey, opaque pixels, row by row, with this many columns.
    pub fn of_grey(width: usize, pixels: &[u8]) -> Self {
        let pixels: Vec<[u8; 4]> = pixels.iter().map(|grey| [*grey, *grey, *grey, 255]).collect();
        Self { width, height: pixels.len() / width.max(1), pixels }
    }

    /// Whether every pixel is opaque.
    pub fn is_opaque(&self) -> bool {
        self.pixels.iter().all(|pixel| pixel[3] == 255)
    }

    /// Whether no pixel has a colour.
    pub fn is_grey(&self) -> bool {
        self.pixels.iter().all(|[red, green, blue, _]| red == green && green == blue)
    }

    /// Encodes the picture as a PNG, with as many channels as its pixels need: one, three or four.
    ///
    /// # Errors
    /// [`ImageError::Malformed`], with the given name, if there are no pixels, or their number is
    /// not columns times rows.
    pub fn encode_png(&self, name: &str) -> Result<Vec<u8>, ImageError> {
        let color = match (self.is_opaque(), self.is_grey()) {
            (true, true) => png::ColorType::Grayscale,
            (true, false) => png::ColorType::Rgb,
            (false, _) => png::ColorType::Rgba,
        };
        let failed = |error: png::EncodingError| ImageError::Malformed {
            name: name.to_owned(),
            what: format!("expected pixels of a PNG, found {error}"),
        };
        let channels = color.samples();
        let bytes: Vec<u8> = self.pixels.iter().flat_map(|pixel| &pixel[..channels]).copied().collect();
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, self.width as u32, self.height as u32);
        encoder.set_color(color);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(failed)?;
        writer.write_image_data(&bytes).map_err(failed)?;
        writer.finish().map_err(failed)?;
        Ok(out)
    }

    /// The picture on a white background, without transparent parts.
    #[must_use]
    pub fn on_white(mut self) -> Self {
        for pixel in &mut self.pixels {
            let [red, green, blue, alpha] = *pixel;
            let over = |level: u8| {
                let (level, alpha) = (u32::from(level), u32::from(alpha));
                ((level * alpha + 255 * (255 - alpha) + 127) / 255) as u8
            };
            *pixel = [over(red), over(green), over(blue), 255];
        }
        self
    }

    /// The picture, turned upright: `orientation` is the number from 1 to 8 in EXIF data, which
    /// says where the file's first row and column are. Any other number changes nothing.
    pub(super) fn upright(self, orientation: u8) -> Self {
        let (width, height) = (self.width, self.height);
        let (last_column, last_row) = (width.saturating_sub(1), height.saturating_sub(1));
        // column and row in the file of a column and row of the upright picture
        let source = |x: usize, y: usize| match orientation {
            2 => (last_column - x, y),
            3 => (last_column - x, last_row - y),
            4 => (x, last_row - y),
            5 => (y, x),
            6 => (y, last_row - x),
            7 => (last_column - y, last_row - x),
            8 => (last_column - y, x),
            _ => (x, y),
        };
        let (wide, high) = match orientation {
            2..=4 => (width, height),
            5..=8 => (height, width),
            _ => return self,
        };
        let place = |at: usize| {
            let (x, y) = source(at % wide, at / wide);
            self.pixels[y * width + x]
        };
        Self { width: wide, height: high, pixels: (0..wide * high).map(place).collect() }
    }
}
