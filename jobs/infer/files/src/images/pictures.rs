//! Many pictures in the form of a model: for its calibration, and for many questions.
//!
//! A path is a picture, a folder of pictures, a `.npy` file or an idx file. Files are recognised by
//! their first bytes, except in folders: there, only names that end in `.png`, `.jpg` or `.jpeg`
//! are pictures, and files whose names begin with a dot are not. Links in folders are not followed.
//! The pictures of a folder are sorted by name, so that every machine gets the same order, and with
//! a limit the same sample.

use super::array::{Array, Reading};
use super::idx::{MAX_IDX_BYTES, decode_idx_array, idx_shape};
use super::kind::Kind;
use super::npy::{Header, MAX_HEADER_BYTES, MAX_NPY_BYTES, decode_npy};
use super::{Fit, ImageError, planes, read_picture};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use tobari_host::files::{FileError, name_of, read_bounded};
use tobari_infer::Volume;
use zeroize::Zeroizing;

/// The most bytes of all pixels together.
const MAX_PIXEL_BYTES: usize = 1 << 31;
/// The most files of pictures in a folder.
const MAX_FILES: usize = 1 << 21;
/// The most pictures that one error names.
const MAX_NAMED: usize = 20;
/// The ends of names of pictures, without the dot.
const ENDINGS: [&str; 3] = ["png", "jpg", "jpeg"];

/// The pictures that [`read_pictures`] shall give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The shape of each: one or three channels for picture files.
    pub volume: Volume,
    /// The treatment of pictures of another size.
    pub fit: Fit,
    /// Whether transparent parts become white; otherwise they are an error.
    pub on_white: bool,
    /// The most pictures, at least 1. Of more, an evenly spread sample is taken.
    pub limit: usize,
}

impl Wanted {
    /// Pictures of exactly this shape, without transparent parts and without a limit.
    pub fn new(volume: Volume) -> Self {
        Self { volume, fit: Fit::Exact, on_white: false, limit: usize::MAX }
    }
}

/// A picture in the form of a model. The pixels are wiped when it is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPicture {
    /// The file, as the caller named its folder: `test/cat/0001.jpg`. A picture in an array has its
    /// number, counted from 0: `images.npy[3]`.
    pub name: String,
    /// Numbers from 0 to 255: channel after channel, row after row.
    pub pixels: Zeroizing<Vec<u8>>,
    /// The name of the subfolder with the file: `cat` for `test/cat/0001.jpg` in the folder `test`.
    pub label: Option<String>,
}

/// Pictures in the form of a model, in the order of the paths and names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pictures {
    pictures: Vec<NamedPicture>,
    /// The number of pictures at the paths, of which a limit may leave some out.
    pub found: usize,
    /// The number of other files and links in folders, which were skipped.
    pub skipped: usize,
}

impl Pictures {
    /// The pictures, one after another.
    pub fn iter(&self) -> std::slice::Iter<'_, NamedPicture> {
        self.pictures.iter()
    }

    /// The pixels of each picture.
    pub fn pixels(&self) -> Vec<&[u8]> {
        self.iter().map(|picture| picture.pixels.as_slice()).collect()
    }

    /// The number of pictures.
    pub fn len(&self) -> usize {
        self.pictures.len()
    }

    /// Whether there are no pictures.
    pub fn is_empty(&self) -> bool {
        self.pictures.is_empty()
    }
}

impl<'a> IntoIterator for &'a Pictures {
    type Item = &'a NamedPicture;
    type IntoIter = std::slice::Iter<'a, NamedPicture>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for Pictures {
    type Item = NamedPicture;
    type IntoIter = std::vec::IntoIter<NamedPicture>;

    fn into_iter(self) -> Self::IntoIter {
        self.pictures.into_iter()
    }
}

/// Reads the pictures at some paths. [`super::decode_picture`] has the limits of picture files. A
/// `.npy` file has at most `2^30` bytes, an idx file `2^28`. All pixels together have at most
/// `2^31` bytes.
///
/// # Errors
/// [`ImageError`]: for a path that is no file of pictures, or a folder without pictures. Pictures
/// that cannot be used are named together, up to 20 of them.
pub fn read_pictures(paths: &[PathBuf], wanted: &Wanted) -> Result<Pictures, ImageError> {
    let name = paths.first().map_or_else(|| "pictures".to_owned(), |path| name_of(path));
    let malformed = |what: String| ImageError::Malformed { name: name.clone(), what };
    let (mut sources, mut skipped) = (Vec::new(), 0);
    for path in paths {
        skipped += sources_of(path, wanted, &mut sources)?;
    }
    let found = sources.iter().try_fold(0usize, |sum, source| sum.checked_add(source.count()));
    let found =
        found.filter(|found| *found > 0).ok_or_else(|| malformed("expected pictures, found none".to_owned()))?;
    let chosen = found.min(wanted.limit);
    if chosen == 0 {
        return Err(malformed("expected a limit of at least one picture, found 0".to_owned()));
    }
    if chosen.checked_mul(wanted.volume.len()).is_none_or(|bytes| bytes > MAX_PIXEL_BYTES) {
        let most = MAX_PIXEL_BYTES / wanted.volume.len().max(1);
        return Err(malformed(format!("expected at most {most} pictures of this size, found {chosen}: set a limit")));
    }
    let (mut pictures, mut bad) = (Vec::new(), Bad::default());
    let mut places = (0..chosen).map(|at| spread(at, chosen, found)).peekable();
    let mut begin = 0;
    for source in &sources {
        let end = begin + source.count();
        let inside: Vec<usize> =
            std::iter::from_fn(|| places.next_if(|place| *place < end)).map(|place| place - begin).collect();
        begin = end;
        if !inside.is_empty() {
            source.read(&inside, wanted, &mut pictures, &mut bad)?;
        }
    }
    bad.none()?;
    Ok(Pictures { pictures, found, skipped })
}

/// The place of number `at` of `chosen` numbers that are spread evenly over `found`.
fn spread(at: usize, chosen: usize, found: usize) -> usize {
    // the middle of the part `at` of `chosen` equal parts
    ((2 * at as u128 + 1) * found as u128 / (2 * chosen as u128)) as usize
}

/// Pictures that cannot be used.
#[derive(Default)]
struct Bad {
    errors: Vec<ImageError>,
}

impl Bad {
    /// Adds one.
    ///
    /// # Errors
    /// All of them, if there are as many as a message may name.
    fn push(&mut self, error: ImageError) -> Result<(), ImageError> {
        self.errors.push(error);
        if self.errors.len() < MAX_NAMED { Ok(()) } else { self.none() }
    }

    /// # Errors
    /// All of them, if there are any.
    fn none(&mut self) -> Result<(), ImageError> {
        let mut errors = std::mem::take(&mut self.errors);
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(ImageError::Several { bad: errors.iter().map(ToString::to_string).collect() }),
        }
    }
}

/// A file with pictures.
enum Source {
    Picture { path: PathBuf, label: Option<String> },
    Npy { path: PathBuf, reading: Reading },
    Idx { path: PathBuf, reading: Reading },
}

impl Source {
    fn count(&self) -> usize {
        match self {
            Self::Picture { .. } => 1,
            Self::Npy { reading, .. } | Self::Idx { reading, .. } => reading.count,
        }
    }

    /// Reads the pictures with these numbers.
    fn read(
        &self,
        numbers: &[usize],
        wanted: &Wanted,
        pictures: &mut Vec<NamedPicture>,
        bad: &mut Bad,
    ) -> Result<(), ImageError> {
        let (path, reading, array) = match self {
            Self::Picture { path, label } => {
                match picture(path, wanted) {
                    Ok(pixels) => {
                        pictures.push(NamedPicture { name: name_of(path), pixels, label: label.clone() });
                    }
                    Err(error) => bad.push(error)?,
                }
                return Ok(());
            }
            Self::Npy { path, reading } => (path, reading, array_in(path, MAX_NPY_BYTES, decode_npy)?),
            Self::Idx { path, reading } => (path, reading, array_in(path, MAX_IDX_BYTES, decode_idx_array)?),
        };
        let name = name_of(path);
        // another program may have replaced the file since its header was read
        let now = Reading::of(&name, &array.shape, wanted.volume, wanted.fit)?;
        if (now.count, now.volume) != (reading.count, reading.volume) {
            let what = "expected the same file as before, found another: do not change it meanwhile".to_owned();
            return Err(ImageError::Malformed { name, what });
        }
        for index in numbers {
            let name = format!("{name}[{index}]");
            match array.picture(&name, &now, *index, wanted.volume, wanted.fit) {
                Ok(pixels) => pictures.push(NamedPicture { name, pixels, label: None }),
                Err(error) => bad.push(error)?,
            }
        }
        Ok(())
    }
}

/// The array in a file.
fn array_in(
    path: &Path,
    limit_bytes: u64,
    decode: impl Fn(&str, &[u8]) -> Result<Array, ImageError>,
) -> Result<Array, ImageError> {
    decode(&name_of(path), &Zeroizing::new(read_bounded(path, limit_bytes)?))
}

/// The pixels of a picture's file, in the form of a model.
fn picture(path: &Path, wanted: &Wanted) -> Result<Zeroizing<Vec<u8>>, ImageError> {
    let picture = read_picture(path)?;
    let picture = if wanted.on_white { picture.on_white() } else { picture };
    planes(&name_of(path), &picture, wanted.volume, wanted.fit)
}

/// Adds the files with pictures at a path. Returns the number of skipped files.
fn sources_of(path: &Path, wanted: &Wanted, sources: &mut Vec<Source>) -> Result<usize, ImageError> {
    let name = name_of(path);
    let malformed = |what: String| ImageError::Malformed { name: name.clone(), what };
    let refused = |source: io::Error| FileError::Read { name: name.clone(), source };
    let metadata = fs::metadata(path).map_err(refused)?;
    if metadata.is_dir() {
        return folder(path, sources);
    }
    if !metadata.is_file() {
        return Err(malformed("expected a file or a folder, found a device or a pipe".to_owned()));
    }
    let open = || File::open(path).map_err(refused);
    let mut begin = Vec::new();
    open()?.take(Kind::BYTES as u64).read_to_end(&mut begin).map_err(refused)?;
    let path = path.to_owned();
    let reading = |shape: &[usize]| Reading::of(&name, shape, wanted.volume, wanted.fit);
    sources.push(match Kind::of(&begin) {
        Kind::Png | Kind::Jpeg => Source::Picture { path, label: None },
        Kind::Npy => {
            let mut begin = Vec::new();
            open()?.take(MAX_HEADER_BYTES as u64 + 12).read_to_end(&mut begin).map_err(refused)?;
            Source::Npy { path, reading: reading(&Header::read(&name, &begin)?.shape)? }
        }
        Kind::Idx | Kind::Gzip => Source::Idx { path, reading: reading(&idx_shape(&name, open()?)?)? },
        Kind::Zip => {
            return Err(malformed(
                "expected a .npy file, found a zip archive or .npz file: save its array with numpy.save, or unpack it"
                    .to_owned(),
            ));
        }
        other => {
            return Err(malformed(format!(
                "expected a PNG, a JPEG, a .npy file, an idx file or a folder, found {other}: save the pictures as \
                 PNG or JPEG"
            )));
        }
    });
    Ok(0)
}

/// Adds the pictures in a folder and its subfolders, sorted by name. Returns the number of skipped
/// files.
fn folder(root: &Path, sources: &mut Vec<Source>) -> Result<usize, ImageError> {
    let (mut folders, mut files, mut skipped) = (vec![root.to_owned()], Vec::new(), 0);
    while let Some(folder) = folders.pop() {
        let refused = |source: io::Error| FileError::Read { name: name_of(&folder), source };
        for entry in fs::read_dir(&folder).map_err(refused)? {
            let entry = entry.map_err(refused)?;
            let (kind, path) = (entry.file_type().map_err(refused)?, entry.path());
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && is_picture(&path) {
                files.push(path);
            } else {
                skipped += 1;
            }
            if files.len() > MAX_FILES || folders.len() > MAX_FILES {
                let what = format!("expected at most {MAX_FILES} pictures in the folder, found more");
                return Err(ImageError::Malformed { name: name_of(root), what });
            }
        }
    }
    if files.is_empty() {
        let what = format!("expected pictures (.png, .jpg, .jpeg) in the folder, found {skipped} other files");
        return Err(ImageError::Malformed { name: name_of(root), what });
    }
    // by the parts of the path: all pictures of one folder, then those of the next
    files.sort_unstable();
    sources.extend(files.into_iter().map(|path| {
        let label = path.parent().filter(|parent| *parent != root).and_then(Path::file_name);
        let label = label.map(|label| label.to_string_lossy().into_owned());
        Source::Picture { path, label }
    }));
    Ok(skipped)
}

/// Whether a file in a folder is a picture, by its name.
fn is_picture(path: &Path) -> bool {
    let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
    let ending = path.extension().unwrap_or_default();
    !hidden && ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known))
}
