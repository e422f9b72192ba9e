//! Reads images, and prints how they were changed.
//!
//! Where an image is encrypted, the count of its numbers is the only known fact about a model's
//! images. 784 numbers are a digit, which is converted to the form of MNIST. For another count, a
//! square is a grey picture of that size, and three squares are a colour picture, channel after
//! channel (no number is both). The PNG must have exactly that size, because the preparation of the
//! model's own images is unknown. For any other count a PNG is rejected.

use super::arguments::{DrawArguments, ImageArguments};
use super::files;
use std::path::Path;
use tobari_command::output::{self, Failure};
use tobari_infer::digits::{STYLES, draw as stroke};
use tobari_infer_files::images::{MAX_PNG_BYTES, Picture, SIDE, decode_digit, decode_png, read_idx_images};
use zeroize::Zeroizing;

/// Pixels from 0 to 255, channel after channel and row by row; `count` is the number that the model
/// takes.
pub(super) fn read(arguments: &ImageArguments, count: usize) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let path: &Path = &arguments.image;
    let name = if path == Path::new("-") { "standard input".into() } else { path.display().to_string() };
    let Some(index) = arguments.index else {
        let bytes = Zeroizing::new(files::read(path, MAX_PNG_BYTES)?);
        if count != SIDE * SIDE {
            return Ok(Zeroizing::new(planes(&name, &decode_png(&name, &bytes)?, count)?));
        }
        let digit = decode_digit(&name, &bytes)?;
        digit.notes.iter().for_each(|note| output::say(format!("{name}: {note}")));
        return Ok(Zeroizing::new(digit.pixels.to_vec()));
    };
    let images = read_idx_images(path)?;
    let image = images.iter().nth(index).map(|pixels| Zeroizing::new(pixels.to_vec()));
    match image {
        Some(image) if image.len() == count => Ok(image),
        Some(image) => {
            let found = image.len();
            Err(Failure::Work(format!(
                "{name}: the model takes {count} pixels, and the image has {found}: scale the image"
            )))
        }
        None => {
            let images = images.len();
            Err(Failure::Work(format!(
                "{name}: the file has {images} images, counted from 0: --index {index} is beyond"
            )))
        }
    }
}

/// The pixels of a picture that has exactly the model's size, unchanged.
fn planes(name: &str, picture: &Picture, count: usize) -> Result<Vec<u8>, Failure> {
    let wrong = |what: String| Err(Failure::Work(format!("{name}: {what}")));
    let square = |numbers: usize| Some(numbers.isqrt()).filter(|side| side * side == numbers);
    let (side, channels) = match (square(count), square(count / 3).filter(|_| count.is_multiple_of(3))) {
        (Some(side), _) => (side, 1),
        (None, Some(side)) => (side, 3),
        (None, None) => {
            return wrong(format!(
                "expected --index and a file of images for a model of {count} numbers, which are no square picture in grey or colour; found a PNG"
            ));
        }
    };
    let (width, height) = (picture.width, picture.height);
    if (width, height) != (side, side) {
        return wrong(format!(
            "the model takes {side} x {side} pixels, and the picture has {width} x {height}: scale the picture"
        ));
    }
    if !picture.is_opaque() {
        return wrong("the picture has transparent parts: save it without transparency".to_owned());
    }
    if channels == 1 && !picture.is_grey() {
        return wrong("the model takes grey pictures: save the picture without colours".to_owned());
    }
    Ok((0..channels).flat_map(|channel| picture.pixels.iter().map(move |pixel| pixel[channel])).collect())
}

/// Draws a digit.
pub(super) fn draw(arguments: &DrawArguments) -> Result<(), Failure> {
    let name = arguments.output.display().to_string();
    let style = &STYLES[usize::from(arguments.style) % STYLES.len()];
    let picture = Picture::of_grey(SIDE, &stroke(arguments.digit, style));
    files::write(&arguments.output, &picture.encode_png(&name)?)
}
