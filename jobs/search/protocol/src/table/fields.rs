//! Fields of the files and catalogues: each value has exactly one byte string.

use super::{KeyTableError, SiteError, TableError};
use crate::panel::PanelError;

/// Why bytes are not a table or a catalogue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableBytesError {
    /// Fewer or more bytes than needed.
    #[error("malformed {what}: expected {expected} bytes, found {found}")]
    Length {
        /// The object.
        what: &'static str,
        /// The bytes needed.
        expected: u64,
        /// The bytes there are.
        found: u64,
    },
    /// Another kind of file, or another version.
    #[error("expected {what} of version {version}, which begins {expected:02x?}, found {found:02x?}")]
    Magic {
        /// The object.
        what: &'static str,
        /// The version.
        version: u8,
        /// The expected first bytes.
        expected: [u8; 4],
        /// The first bytes found.
        found: [u8; 4],
    },
    /// A field has a value that is not possible.
    #[error("malformed {0}")]
    Malformed(&'static str),
    /// The file was changed or damaged.
    #[error("damaged table: the checksum at the end does not match the content")]
    Checksum,
    /// The sites are not valid.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// The panel is not valid.
    #[error(transparent)]
    Panel(#[from] PanelError),
    /// The keys are not valid.
    #[error(transparent)]
    Keys(#[from] KeyTableError),
    /// The table is not valid.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// Takes fields from the front of the bytes.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Fields<'a> {
    pub(super) fn open(bytes: &'a [u8], what: &'static str, expected: [u8; 4]) -> Result<Self, TableBytesError> {
        let mut fields = Self { bytes, what };
        let found = fields.array()?;
        let wrong = TableBytesError::Magic { what, version: expected[3], expected, found };
        if found == expected { Ok(fields) } else { Err(wrong) }
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], TableBytesError> {
        let short = TableBytesError::Length { what: self.what, expected: count as u64, found: self.bytes.len() as u64 };
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(short)?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], TableBytesError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub(super) fn byte(&mut self) -> Result<u8, TableBytesError> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Result<u32, TableBytesError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, TableBytesError> {
        self.array().map(u64::from_be_bytes)
    }

    /// `count` numbers of 32 bits. The bytes are checked before memory is allocated.
    pub(super) fn u32s(&mut self, count: usize) -> Result<Vec<u32>, TableBytesError> {
        let bytes = self.take(count.checked_mul(4).ok_or(TableBytesError::Malformed("length"))?)?;
        Ok(bytes.as_chunks().0.iter().map(|bytes| u32::from_be_bytes(*bytes)).collect())
    }

    /// `count` numbers of 64 bits.
    pub(super) fn u64s(&mut self, count: usize) -> Result<Vec<u64>, TableBytesError> {
        let bytes = self.take(count.checked_mul(8).ok_or(TableBytesError::Malformed("length"))?)?;
        Ok(bytes.as_chunks().0.iter().map(|bytes| u64::from_be_bytes(*bytes)).collect())
    }

    /// A number with seven bits a byte, the lowest first. The top bit is set in all bytes but the
    /// last. The last byte is not zero unless it is the only one.
    pub(super) fn number(&mut self) -> Result<u64, TableBytesError> {
        let mut number = 0;
        for i in 0..9 {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                let shortest = byte > 0 || i == 0;
                return if shortest { Ok(number) } else { Err(TableBytesError::Malformed("number")) };
            }
        }
        Err(TableBytesError::Malformed("number"))
    }

    /// A text of at most `most` bytes.
    pub(super) fn text(&mut self, most: usize, what: &'static str) -> Result<&'a str, TableBytesError> {
        let length = usize::try_from(self.number()?).ok().filter(|length| *length <= most);
        let bytes = self.take(length.ok_or(TableBytesError::Malformed(what))?)?;
        std::str::from_utf8(bytes).map_err(|_| TableBytesError::Malformed(what))
    }

    /// The number of bytes left.
    pub(super) fn left(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn end(self) -> Result<(), TableBytesError> {
        let found = self.bytes.len() as u64;
        if found == 0 { Ok(()) } else { Err(TableBytesError::Length { what: self.what, expected: 0, found }) }
    }
}

/// Writes a number below `2^63` for [`Fields::number`].
pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_form() {
        for number in [0, 1, 127, 128, 300, 1 << 35, (1 << 63) - 1] {
            let mut bytes = b"abc1".to_vec();
            put_number(&mut bytes, number);
            let mut fields = Fields::open(&bytes, "it", *b"abc1").unwrap();
            assert_eq!(fields.number(), Ok(number));
            fields.end().unwrap();
        }
        for wrong in [&[0x80, 0][..], &[0xff, 0x80, 0], &[0x80], &[], &[0xff; 12]] {
            let bytes = [b"abc1", wrong].concat();
            assert!(Fields::open(&bytes, "it", *b"abc1").unwrap().number().is_err(), "{wrong:?}");
        }
    }
}
