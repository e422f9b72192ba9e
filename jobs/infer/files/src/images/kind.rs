//! Recognises files by their first bytes, because people rename files.

use std::fmt;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Png,
    Jpeg,
    Npy,
    /// A zip archive, and so a `.npz` file.
    Zip,
    Gzip,
    Idx,
    /// A picture of another format, by its name.
    Other(&'static str),
    Empty,
    Unknown,
}

/// Formats that are recognised only to name them in a message: the place and the bytes of each.
const OTHERS: &[(usize, &[u8], &str)] = &[
    (0, b"GIF8", "GIF"),
    (8, b"WEBP", "WebP"),
    (4, b"ftypavif", "AVIF"),
    (4, b"ftyp", "HEIC"),
    (0, b"II*\0", "TIFF"),
    (0, b"MM\0*", "TIFF"),
    (0, b"\0\0\0\x0cJXL ", "JPEG XL"),
    (0, b"\xff\x0a", "JPEG XL"),
    (0, b"\0\0\0\x0cjP  ", "JPEG 2000"),
    (0, b"%PDF", "PDF"),
    (0, b"<svg", "SVG"),
    (0, b"BM", "BMP"),
];

impl Kind {
    /// The most bytes that [`Kind::of`] reads.
    pub(super) const BYTES: usize = 16;

    /// The kind of a file that begins with these bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        match bytes {
            [] => Self::Empty,
            [0x89, b'P', b'N', b'G', ..] => Self::Png,
            [0xff, 0xd8, ..] => Self::Jpeg,
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Self::Npy,
            [b'P', b'K', 3 | 5, 4 | 6, ..] => Self::Zip,
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0, 0, 8..=14, 1..=8, ..] => Self::Idx,
            _ => {
                let is =
                    |(at, mark, _): &&(usize, &[u8], &str)| bytes.get(*at..).is_some_and(|from| from.starts_with(mark));
                OTHERS.iter().find(is).map_or(Self::Unknown, |(_, _, name)| Self::Other(name))
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Png => "a PNG",
            Self::Jpeg => "a JPEG",
            Self::Npy => "a .npy file",
            Self::Zip => "a zip archive or .npz file",
            Self::Gzip => "a gzip file",
            Self::Idx => "an idx file",
            Self::Other(name) => return write!(f, "a file of the format {name}"),
            Self::Empty => "an empty file",
            Self::Unknown => "a file of an unknown format",
        })
    }
}
