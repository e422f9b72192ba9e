//! The common layout of all frames.

use core::fmt;

/// Bytes of a head of version 1.
pub const HEAD: usize = 8;
/// Bytes of a head of version 2, which has a [`Stamp`].
pub const STAMPED_HEAD: usize = 15;
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

/// The time and the sheet of a frame's readings, in frames of version 2.
///
/// A frame with more than 256 bytes of readings in a row is divided into **sheets**: frames with
/// the same rows and other columns.
///
/// ```
/// use tobari_device::Stamp;
/// let stamp = Stamp::new(1_798_761_600, 0); // the first second of 2027, UTC
/// assert_eq!(stamp.map(Stamp::seconds), Some(1_798_761_600));
/// assert!(Stamp::new(1 << 40, 0).is_none() && Stamp::new(0, 4096).is_none());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    seconds: u64,
    sheet: u16,
}

impl Stamp {
    /// A time in seconds since 1970, below `2^40`, and the number of a sheet, below `2^12`; `None`
    /// beyond.
    pub fn new(seconds: u64, sheet: u16) -> Option<Self> {
        (seconds < 1 << 40 && sheet < 1 << 12).then_some(Self { seconds, sheet })
    }

    /// The time, in seconds since 1970. A fleet's rule says which of its readings' times it is.
    pub fn seconds(self) -> u64 {
        self.seconds
    }

    /// The number of the sheet.
    pub fn sheet(self) -> u16 {
        self.sheet
    }
}

/// The bytes before a frame's nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of the device's key.
    pub device: DeviceNumber,
    /// The counter of the frame. It grows with every frame of a key, by more than 1 only after a
    /// restart.
    pub counter: u32,
    /// The time and the sheet; `None` in version 1.
    pub stamp: Option<Stamp>,
}

/// The bytes of a head, and those of a longer version's that it does not have.
pub(crate) type HeadBytes = [u8; STAMPED_HEAD];

impl Head {
    /// Encodes the head, with the code of a profile. The version follows from the stamp.
    pub(crate) fn to_bytes(self, code: u8) -> HeadBytes {
        let [d0, d1, d2, _] = self.device.0.to_le_bytes();
        let [c0, c1, c2, c3] = self.counter.to_le_bytes();
        let version = 1 + u8::from(self.stamp.is_some());
        let Stamp { seconds, sheet } = self.stamp.unwrap_or_default();
        let [t0, t1, t2, t3, t4, ..] = seconds.to_le_bytes();
        let [s0, s1] = sheet.to_le_bytes();
        [(version << 4) | code, d0, d1, d2, c0, c1, c2, c3, t0, t1, t2, t3, t4, s0, s1]
    }

    /// Reads the head of a frame, which must have this version, profile and length.
    pub(crate) fn read(frame: &[u8], version: u8, code: u8, length: usize) -> Result<Self, Refused> {
        if frame.len() != length {
            return Err(Refused::Length { expected: length, found: frame.len() });
        }
        let [first, d0, d1, d2, c0, c1, c2, c3, t0, t1, t2, t3, t4, s0, s1, ..] = *frame else {
            return Err(Refused::Length { expected: length, found: frame.len() });
        };
        if first >> 4 != version {
            return Err(Refused::Version { expected: version, found: first >> 4 });
        }
        if first & 15 != code {
            return Err(Refused::Profile { expected: code, found: first & 15 });
        }
        let stamp = match version {
            1 => None,
            _ => {
                let seconds = u64::from_le_bytes([t0, t1, t2, t3, t4, 0, 0, 0]);
                Some(Stamp::new(seconds, u16::from_le_bytes([s0, s1])).ok_or(Refused::Malformed)?)
            }
        };
        let device = DeviceNumber(u32::from_le_bytes([d0, d1, d2, 0]));
        Ok(Self { device, counter: u32::from_le_bytes([c0, c1, c2, c3]), stamp })
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
