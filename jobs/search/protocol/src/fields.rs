//! Fields of messages, taken from the front of their bytes.

use tobari_lattice::wire::LatticeWireError;
use tobari_lattice::wire::VERSION;

/// Bytes of a table's name.
pub const TABLE_BYTES: usize = 32;
/// Bytes of a client's name.
pub const CLIENT_BYTES: usize = 16;

/// Why bytes are not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The bytes end too early.
    #[error("truncated message: expected at least {expected} bytes, found {found}")]
    Truncated {
        /// The bytes needed.
        expected: usize,
        /// The bytes there are.
        found: usize,
    },
    /// Another version, or another kind of message.
    #[error("expected version {VERSION} and kind {expected:#04x}, found {version} and {found:#04x}")]
    Kind {
        /// The expected kind.
        expected: u8,
        /// The version found.
        version: u8,
        /// The kind found.
        found: u8,
    },
    /// A field has a value that is not possible.
    #[error("malformed {0}")]
    Malformed(&'static str),
    /// The bytes that follow are not an object of the lattice schemes.
    #[error(transparent)]
    Object(#[from] LatticeWireError),
}

/// Takes fields from the front of the bytes.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    taken: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn open(bytes: &'a [u8], expected: u8) -> Result<Self, MessageError> {
        let mut fields = Self { bytes, taken: 0 };
        let [version, found] = fields.array()?;
        let good = version == VERSION && found == expected;
        if good { Ok(fields) } else { Err(MessageError::Kind { expected, version, found }) }
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], MessageError> {
        let (expected, found) = (self.taken + count, self.bytes.len());
        let taken = self.bytes.get(self.taken..expected).ok_or(MessageError::Truncated { expected, found })?;
        self.taken = expected;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub(super) fn rest(self) -> &'a [u8] {
        &self.bytes[self.taken..]
    }
}
