//! Strict reading of bytes: big-endian integers, without a rest.

/// The bytes are too few or too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongLength;

/// The bytes that are left to read.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], WrongLength> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(WrongLength)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], WrongLength> {
        self.take(N)?.try_into().map_err(|_| WrongLength)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, WrongLength> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, WrongLength> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, WrongLength> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(crate) fn end(self) -> Result<(), WrongLength> {
        if self.0.is_empty() { Ok(()) } else { Err(WrongLength) }
    }
}
