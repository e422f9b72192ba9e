//! The common layout of all frames.

use core::fmt;

/// The only version that is written and read.
pub const VERSION: u8 = 1;
/// Bytes of a head.
pub const HEAD: usize = 8;
/// Bytes of a nonce.
pub const NONCE: usize = 16;
/// Bytes of a MAC.
pub const MAC: usize = 16;
/// Readings of a frame, one byte each, and coefficients of a polynomial.
pub const READINGS: usize = 256;

/// The number of a key, of 24 bits. A device that gets a new key gets a new number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber(u32);

impl DeviceNumber {
    /// `None` from `2^24` on.
    ///
    /// ```
    /// use tobari_device::DeviceNumber;
    /// assert_eq!(DeviceNumber::new(7).map(DeviceNumber::value), Some(7));
    /// assert!(DeviceNumber::new(1 << 24).is_none());
    /// ```
    pub fn new(number: u32) -> Option<Self> {
        (number < 1 << 24).then_some(Self(number))
    }

    /// The number.
    pub fn value(self) -> u32 {
        self.0
    }
}

/// The bytes before a frame's nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of the device's key.
    pub device: DeviceNumber,
    /// The counter of the frame.
    pub counter: u32,
}

impl Head {
    /// Encodes the head, with the code of a profile.
    pub(crate) fn to_bytes(self, code: u8) -> [u8; HEAD] {
        let [d0, d1, d2, _] = self.device.0.to_le_bytes();
        let [c0, c1, c2, c3] = self.counter.to_le_bytes();
        [(VERSION << 4) | code, d0, d1, d2, c0, c1, c2, c3]
    }

    /// Reads the head of a frame, which must have this profile and length.
    pub(crate) fn read(frame: &[u8], code: u8, length: usize) -> Result<Self, Refused> {
        if frame.len() != length {
            return Err(Refused::Length { expected: length, found: frame.len() });
        }
        let [first, d0, d1, d2, c0, c1, c2, c3, ..] = *frame else {
            return Err(Refused::Length { expected: length, found: frame.len() });
        };
        if first >> 4 != VERSION {
            return Err(Refused::Version { expected: VERSION, found: first >> 4 });
        }
        if first & 15 != code {
            return Err(Refused::Profile { expected: code, found: first & 15 });
        }
        let device = DeviceNumber(u32::from_le_bytes([d0, d1, d2, 0]));
        Ok(Self { device, counter: u32::from_le_bytes([c0, c1, c2, c3]) })
    }
}

/// Why ingest rejects a frame. The error contains nothing of the encrypted data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The frame has a wrong length.
    Length {
        /// Bytes of a frame of this profile.
        expected: usize,
        /// The number of bytes received.
        found: usize,
    },
    /// This release does not know the version.
    Version {
        /// The version known.
        expected: u8,
        /// The version received.
        found: u8,
    },
    /// The frame has another profile.
    Profile {
        /// The profile's code.
        expected: u8,
        /// The code received.
        found: u8,
    },
    /// The MAC is wrong: the sender does not have the device's key.
    Mac,
    /// The MAC is right, but no device writes such a body.
    Malformed,
    /// The frame was accepted before, or is too old to check.
    Replayed,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { expected, found } => write!(f, "expected a frame of {expected} bytes, found {found}"),
            Self::Version { expected, found } => write!(f, "expected a frame of version {expected}, found {found}"),
            Self::Profile { expected, found } => write!(f, "expected a frame of profile {expected}, found {found}"),
            Self::Mac => f.write_str("expected a frame of this device, found one that its key did not make"),
            Self::Malformed => f.write_str("expected a canonical body, found another"),
            Self::Replayed => f.write_str("expected a new frame, found one that came before"),
        }
    }
}

impl core::error::Error for Refused {}
