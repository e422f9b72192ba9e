//! Reads images, and prints how they were changed.
//!
//! Where an image is encrypted, the count of its numbers is the only known fact about a model's
//! images. 784 numbers are a digit, which is converted to the form of MNIST. For another count, a
//! square is a grey picture of that size, and three squares are a colour picture, channel after
//! channel (no number is both). Without --fit a picture must have exactly that size, because the
//! preparation of the model's own images is unknown. For any other count a picture is rejected.

use super::arguments::{DrawArguments, ImageArguments, SimulateArguments};
use super::files;
use std::path::{Path, PathBuf};
use tobari_command::output::{self, Failure};
use tobari_infer::Volume;
use tobari_infer::digits::{STYLES, draw as stroke};
use tobari_infer_files::images::{
    Fit, MAX_PICTURE_BYTES, NamedPicture, Picture, SIDE, Wanted, decode_digit, decode_picture, planes, read_idx_images,
    read_pictures,
};
use zeroize::Zeroizing;

/// Pixels from 0 to 255, channel after channel and row by row; `count` is the number that the model
/// takes.
pub(super) fn read(arguments: &ImageArguments, count: usize) -> Result<Zeroizing<Vec<u8>>, Failure> {
    of_path((&arguments.image, arguments.index, arguments.fit), count, shape(count))
}

/// The pictures of a simulation, for a model that takes this shape.
pub(super) fn read_all(arguments: &SimulateArguments, volume: Volume) -> Result<Vec<NamedPicture>, Failure> {
    let mut all = Vec::new();
    for path in &arguments.images {
        let many = path.is_dir() || path.extension().is_some_and(|end| ["npy", "gz", "idx"].iter().any(|x| end == *x));
        if many && arguments.index.is_none() {
            let wanted = Wanted { fit: arguments.fit, ..Wanted::new(volume) };
            all.extend(read_pictures(std::slice::from_ref(path), &wanted)?);
        } else {
            // a vector has no shape of its own, and other channels than grey or colours are no
            // picture
            let is_picture = volume.height > 1 && matches!(volume.channels, 1 | 3);
            let known = if is_picture { Some(volume) } else { shape(volume.len()) };
            let pixels = of_path((path, arguments.index, arguments.fit), volume.len(), known)?;
            all.push(NamedPicture { name: path.display().to_string(), pixels, label: None });
        }
    }
    Ok(all)
}

/// The shape of a picture with so many numbers.
fn shape(count: usize) -> Option<Volume> {
    let square = |numbers: usize| Some(numbers.isqrt()).filter(|side| side * side == numbers);
    let of = |channels: usize, side: usize| Volume { channels, height: side, width: side };
    let colour = square(count / 3).filter(|_| count.is_multiple_of(3));
    square(count).map(|side| of(1, side)).or(colour.map(|side| of(3, side)))
}

fn of_path(
    (path, index, fit): (&PathBuf, Option<usize>, Fit),
    count: usize,
    volume: Option<Volume>,
) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let path: &Path = path;
    let name = if path == Path::new("-") { "standard input".into() } else { path.display().to_string() };
    let Some(index) = index else {
        let bytes = Zeroizing::new(files::read(path, MAX_PICTURE_BYTES)?);
        if count != SIDE * SIDE {
            let volume = volume.ok_or_else(|| {
                Failure::Work(format!(
                    "{name}: expected --index and a file of images for a model of {count} numbers, which are no square \
                     picture in grey or colour"
                ))
            })?;
            return Ok(planes(&name, &decode_picture(&name, &bytes)?, volume, fit)?);
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

/// Draws a digit.
pub(super) fn draw(arguments: &DrawArguments) -> Result<(), Failure> {
    let name = arguments.output.display().to_string();
    let style = &STYLES[usize::from(arguments.style) % STYLES.len()];
    let picture = Picture::of_grey(SIDE, &stroke(arguments.digit, style));
    files::write(&arguments.output, &picture.encode_png(&name)?)
}
