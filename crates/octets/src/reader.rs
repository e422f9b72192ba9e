//! Fields of a message, taken from the front of its bytes.

/// An error: the number of bytes is not that of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LengthError {
    /// Fewer bytes than the message has.
    #[error("truncated: expected {expected} bytes, found {found}")]
    Truncated {
        /// Bytes of the message, as far as the reader knows.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// More bytes than the message has.
    #[error("{extra} bytes too many after the end")]
    TooLong {
        /// Bytes beyond the message.
        extra: usize,
    },
}

/// Takes fields from the front, and never reads past the end. Integers are big-endian.
///
/// ```
/// use tobari_octets::Reader;
/// let mut reader = Reader::new(&[1, 0, 2, 9]);
/// assert_eq!((reader.u8()?, reader.u16()?), (1, 2));
/// assert!(reader.u16().is_err());
/// assert_eq!(reader.rest(), [9]);
/// # Ok::<(), tobari_octets::LengthError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    taken: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the start of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, taken: 0 }
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// [`LengthError::Truncated`]; then the reader takes nothing.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], LengthError> {
        self.expect(count)?;
        let taken = &self.bytes[self.taken..][..count];
        self.taken += count;
        Ok(taken)
    }

    /// Checks that at least `count` bytes are left.
    ///
    /// # Errors
    /// [`LengthError::Truncated`].
    pub fn expect(&self, count: usize) -> Result<(), LengthError> {
        let found = self.bytes.len();
        let expected = self.taken.saturating_add(count);
        if found < expected { Err(LengthError::Truncated { expected, found }) } else { Ok(()) }
    }

    /// Checks that exactly `count` bytes are left.
    ///
    /// # Errors
    /// [`LengthError`].
    pub fn expect_rest(&self, count: usize) -> Result<(), LengthError> {
        self.expect(count)?;
        let extra = self.rest().len() - count;
        if extra > 0 { Err(LengthError::TooLong { extra }) } else { Ok(()) }
    }

    /// The number of bytes taken.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// The bytes that are left.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.taken..]
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// As [`Self::take`]. The same holds for the methods below.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], LengthError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    /// A byte.
    ///
    /// # Errors
    /// As above.
    pub fn u8(&mut self) -> Result<u8, LengthError> {
        Ok(self.array::<1>()?[0])
    }

    /// An integer of two bytes.
    ///
    /// # Errors
    /// As above.
    pub fn u16(&mut self) -> Result<u16, LengthError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// An integer of four bytes.
    ///
    /// # Errors
    /// As above.
    pub fn u32(&mut self) -> Result<u32, LengthError> {
        Ok(u32::from_be_bytes(self.array()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_and_nothing_is_taken() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!(reader.u8(), Ok(1));
        assert_eq!(reader.u32(), Err(LengthError::Truncated { expected: 5, found: 3 }));
        assert_eq!(reader.take(usize::MAX), Err(LengthError::Truncated { expected: usize::MAX, found: 3 }));
        assert_eq!(reader.expect_rest(1), Err(LengthError::TooLong { extra: 1 }));
        assert_eq!((reader.u16(), reader.expect_rest(0)), (Ok(0x0203), Ok(())));
    }
}
