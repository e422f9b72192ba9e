//! JPEG files.
//!
//! The crate `jpeg-decoder` decodes the scans. Before, this file walks over the segments of a JPEG
//! (ITU-T T.81, annex B), for three reasons:
//!
//! - The size is compared with limits before memory is allocated.
//! - The scans are counted. Each scan of a few bytes makes the decoder visit every block of the
//!   picture, so that a file of many scans would keep the decoder busy for hours.
//! - The orientation is read from the EXIF data.

use super::ImageError;
use super::picture::{FREE_PIXELS, Picture};
use zeroize::Zeroizing;

/// The most pixels of a JPEG: more than the 24 million of a photograph from a telephone.
const MAX_JPEG_PIXELS: u64 = 1 << 25;
/// Pixels for each byte of the file: photographs have two to six.
const PIXELS_PER_BYTE: u64 = 8;
/// The most scans: progressive files have about ten.
const MAX_SCANS: usize = 64;

/// Facts from the segments of a file.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    width: u16,
    height: u16,
    components: u8,
    /// The number in the EXIF data, or 1.
    orientation: u8,
}

/// Decodes the bytes of a JPEG; [`super::decode_picture`] has the limits.
///
/// # Errors
/// [`ImageError`], with the given name.
pub(super) fn decode_jpeg(name: &str, bytes: &[u8]) -> Result<Picture, ImageError> {
    let malformed = |what: String| ImageError::Malformed { name: name.to_owned(), what };
    let facts = facts(bytes).map_err(malformed)?;
    let (width, height) = (usize::from(facts.width), usize::from(facts.height));
    let most = (FREE_PIXELS + PIXELS_PER_BYTE * bytes.len() as u64).min(MAX_JPEG_PIXELS);
    if (width * height) as u64 > most {
        let (width, height) = (u32::from(facts.width), u32::from(facts.height));
        return Err(ImageError::TooLarge { name: name.to_owned(), width, height, most });
    }
    match facts.components {
        1 | 3 => {}
        4 => {
            return Err(malformed(
                "expected grey or colour, found four inks (CMYK): save the picture as RGB".to_owned(),
            ));
        }
        count => return Err(malformed(format!("expected one or three components, found {count}"))),
    }
    let expected = |error: jpeg_decoder::Error| malformed(format!("expected a whole JPEG file, found: {error}"));
    let mut decoder = jpeg_decoder::Decoder::new(bytes);
    decoder.set_max_decoding_buffer_size(3 * width * height);
    let samples = Zeroizing::new(decoder.decode().map_err(expected)?);
    let info = decoder.info();
    let found = info.map(|info| (info.width, info.height, samples.len()));
    let whole = found == Some((facts.width, facts.height, usize::from(facts.components) * width * height));
    let pixels = match facts.components {
        1 if whole => samples.iter().map(|grey| [*grey, *grey, *grey, 255]).collect(),
        3 if whole => samples.as_chunks().0.iter().map(|[red, green, blue]| [*red, *green, *blue, 255]).collect(),
        _ => return Err(malformed("expected as many pixels as the file says, found others".to_owned())),
    };
    Ok(Picture { width, height, pixels }.upright(facts.orientation))
}

/// Walks over the segments up to the end of the picture. Bytes after the end are ignored: cameras
/// put further pictures there.
fn facts(bytes: &[u8]) -> Result<Facts, String> {
    let cut = || "expected a whole JPEG file, found its end in the middle".to_owned();
    let mut rest = bytes.get(2..).ok_or_else(cut)?;
    let (mut frame, mut orientation, mut scans) = (None, None, 0);
    loop {
        let (marker, after) = next_marker(rest).ok_or_else(cut)?;
        rest = after;
        match marker {
            // the end of the picture
            0xd9 => break,
            // restarts, and a mark without meaning, have no length
            0x01 | 0xd0..=0xd7 => continue,
            0xd8 => return Err("expected one picture in the JPEG file, found the beginning of another".to_owned()),
            _ => {}
        }
        let (length, _) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let segment = rest.get(2..length).ok_or_else(cut)?;
        rest = &rest[length..];
        match marker {
            0xc0..=0xc2 => match (frame, segment) {
                (None, [8, a, b, c, d, components, ..]) => {
                    frame = Some((u16::from_be_bytes([*c, *d]), u16::from_be_bytes([*a, *b]), *components));
                }
                (None, [bits, ..]) if *bits != 8 => return Err(format!("expected 8 bits a sample, found {bits}")),
                _ => return Err("expected one frame in the JPEG file, found others".to_owned()),
            },
            0xc3 | 0xc5..=0xcb | 0xcd..=0xcf => {
                return Err("expected a baseline or progressive JPEG, found another kind: save it anew".to_owned());
            }
            0xda => scans += 1,
            0xe1 if orientation.is_none() => orientation = segment.strip_prefix(b"Exif\0\0").map(orientation_of),
            _ => {}
        }
        if scans > MAX_SCANS {
            return Err(format!("expected a JPEG of at most {MAX_SCANS} scans, found more: save it anew"));
        }
    }
    match frame {
        Some((width, height, components)) if width > 0 && height > 0 && scans > 0 => {
            Ok(Facts { width, height, components, orientation: orientation.unwrap_or(1) })
        }
        _ => Err("expected a picture in the JPEG file, found none".to_owned()),
    }
}

/// The next marker and the bytes after it. Coded data before the marker are skipped: in them, a
/// byte 0xff has a zero after it.
fn next_marker(mut bytes: &[u8]) -> Option<(u8, &[u8])> {
    loop {
        let begin = bytes.iter().position(|byte| *byte == 0xff)?;
        let fill = bytes[begin..].iter().position(|byte| *byte != 0xff)?;
        let (code, after) = bytes[begin + fill..].split_first()?;
        if *code != 0 {
            return Some((*code, after));
        }
        bytes = after;
    }
}

/// The orientation in EXIF data, which are a TIFF file: the number of tag 0x112 in its first
/// directory, or 1.
fn orientation_of(tiff: &[u8]) -> u8 {
    let find = || {
        let little = match tiff.get(..4)? {
            b"II*\0" => true,
            b"MM\0*" => false,
            _ => return None,
        };
        let short = |at: usize| {
            let bytes = *tiff.get(at..)?.first_chunk::<2>()?;
            Some(if little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
        };
        let bytes = *tiff.get(4..)?.first_chunk::<4>()?;
        let directory = if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) };
        let directory = usize::try_from(directory).ok().filter(|at| *at < tiff.len())?;
        let entries = (0..usize::from(short(directory)?)).map(|entry| directory + 2 + 12 * entry);
        // the tag, the type of short numbers, and the first number
        entries.take_while(|at| *at < tiff.len()).find(|at| short(*at) == Some(0x112)).and_then(|at| {
            let number = short(at + 8).filter(|_| short(at + 2) == Some(3))?;
            u8::try_from(number).ok().filter(|number| (1..=8).contains(number))
        })
    };
    find().unwrap_or(1)
}
