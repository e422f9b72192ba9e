//! Images in: what was done to them is said.

use super::arguments::ImageArguments;
use super::files;
use crate::output::{self, Failure};
use std::path::Path;
use tobari_host::images::{MAX_PNG_BYTES, decode_digit, read_idx_images};
use zeroize::Zeroizing;

/// Pixels from 0 to 255, row by row.
pub(super) fn read(arguments: &ImageArguments) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let path: &Path = &arguments.image;
    let Some(index) = arguments.index else {
        let name = if path == Path::new("-") { "standard input".into() } else { path.display().to_string() };
        let bytes = Zeroizing::new(files::read(path, MAX_PNG_BYTES)?);
        let digit = decode_digit(&name, &bytes)?;
        digit.notes.iter().for_each(|note| output::say(format!("{name}: {note}")));
        return Ok(Zeroizing::new(digit.pixels.to_vec()));
    };
    let images = read_idx_images(path)?;
    let count = images.len();
    let image = images.iter().nth(index).map(|pixels| Zeroizing::new(pixels.to_vec()));
    image.ok_or_else(|| {
        Failure::Work(format!("{}: expected an image below {count}, found --index {index}", path.display()))
    })
}
