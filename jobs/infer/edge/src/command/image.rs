//! Reads images, and prints how they were changed.
//!
//! A model tells the shape of its images. Of a vector, a square of numbers is a grey picture, and
//! three squares are a colour picture, channel after channel (no number is both). Without --fit a
//! picture must have exactly the model's size, because the preparation of the model's own images is
//! unknown. The built-in model alone is known to take digits in the form of MNIST: its pictures are
//! converted to it, and those of other models with `--fit digit`.

use super::arguments::{DrawArguments, ImageArguments, SimulateArguments};
use super::files;
use std::path::{Path, PathBuf};
use tobari_command::output::{self, Failure};
use tobari_infer::digits::{STYLES, draw as stroke};
use tobari_infer::holder::NAME_BYTES;
use tobari_infer::{Model, Volume};
use tobari_infer_files::images::{
    Fit, MAX_PICTURE_BYTES, NamedPicture, Picture, SIDE, Wanted, decode_digit, decode_picture, planes, read_idx_images,
    read_pictures,
};
use zeroize::Zeroizing;

/// The images of a model.
pub(super) struct ModelImages {
    /// Their shape.
    pub(super) volume: Volume,
    /// Whether they are digits in the form of MNIST.
    pub(super) digits: bool,
}

impl ModelImages {
    /// The images of the model with this digest.
    pub(super) fn of(digest: &[u8; NAME_BYTES], volume: Volume) -> Result<Self, Failure> {
        Ok(Self { volume, digits: *digest == Model::digits()?.digest() })
    }

    /// The treatment of pictures, unless it is chosen.
    fn fit(&self, chosen: Option<Fit>) -> Fit {
        chosen.unwrap_or(if self.digits { Fit::Digit } else { Fit::Exact })
    }
}

/// Pixels from 0 to 255, channel after channel and row by row.
pub(super) fn read(arguments: &ImageArguments, images: &ModelImages) -> Result<Zeroizing<Vec<u8>>, Failure> {
    of_path((&arguments.image, arguments.index, images.fit(arguments.fit)), images.volume)
}

/// The pictures of a simulation.
pub(super) fn read_all(arguments: &SimulateArguments, images: &ModelImages) -> Result<Vec<NamedPicture>, Failure> {
    let (mut all, fit) = (Vec::new(), images.fit(arguments.fit));
    for path in &arguments.images {
        let many = path.is_dir() || path.extension().is_some_and(|end| ["npy", "gz", "idx"].iter().any(|x| end == *x));
        if many && arguments.index.is_none() {
            let wanted = Wanted { fit, ..Wanted::new(images.volume) };
            all.extend(read_pictures(std::slice::from_ref(path), &wanted)?);
        } else {
            let pixels = of_path((path, arguments.index, fit), images.volume)?;
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

fn of_path((path, index, fit): (&PathBuf, Option<usize>, Fit), volume: Volume) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let (path, count): (&Path, usize) = (path, volume.len());
    let name = if path == Path::new("-") { "standard input".into() } else { path.display().to_string() };
    let Some(index) = index else {
        let bytes = Zeroizing::new(files::read(path, MAX_PICTURE_BYTES)?);
        if fit == Fit::Digit && count == SIDE * SIDE {
            let digit = decode_digit(&name, &bytes)?;
            digit.notes.iter().for_each(|note| output::say(format!("{name}: {note}")));
            return Ok(Zeroizing::new(digit.pixels));
        }
        // a vector has no rows, and other channels than grey or colours are no picture
        let is_picture = volume.height > 1 && matches!(volume.channels, 1 | 3);
        let volume = if is_picture { Some(volume) } else { shape(count) };
        let volume = volume.ok_or_else(|| {
            Failure::Work(format!(
                "{name}: expected --index and a file of images for a model of {count} numbers, which are no picture in \
                 grey or colour"
            ))
        })?;
        return Ok(planes(&name, &decode_picture(&name, &bytes)?, volume, fit)?);
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
