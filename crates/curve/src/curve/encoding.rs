//! Encodings of points. Coordinates are big-endian and canonical, as in SEC 1 (version 2, section
//! 2.3).
//!
//! A batch of `n` points is
//!
//! * compressed: `x_0 … x_(n-1)`, then one bit a point for the parity of `y`, lowest bit first,
//!   unused bits zero;
//! * uncompressed: `x_0 y_0 … x_(n-1) y_(n-1)`.
//!
//! The identity has no coordinates: it is encoded as all ones (never below `p`), with parity bit
//! zero. Each batch has one byte string in each encoding; decoding rejects all others.

use super::scalar::{words_from_be_bytes, words_to_be_bytes};
use super::{BuiltCurve, Curve, Points};

/// The encoding of points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PointEncoding {
    /// `x` and one bit for the parity of `y`: half the bytes, one square root a point to read.
    Compressed,
    /// `x` and `y`.
    Uncompressed,
}

/// Bytes that are not a batch of points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PointError {
    /// The wrong number of bytes.
    #[error("points of {curve}: expected {expected} bytes, found {found}")]
    Length {
        /// The curve expected.
        curve: Curve,
        /// Bytes of the batch.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// A coordinate not below `p`, or coordinates that do not satisfy the curve's equation.
    #[error("point {index} is not a point of {curve}")]
    NotOnCurve {
        /// The curve expected.
        curve: Curve,
        /// Position in the batch.
        index: usize,
    },
    /// A parity byte that SEC 1 does not know, or unused parity bits that are not zero.
    #[error("malformed parity of a compressed point of {curve}")]
    Parity {
        /// The curve expected.
        curve: Curve,
    },
}

impl PointEncoding {
    /// Bytes of `count` points.
    pub fn encoded_len(self, curve: impl Into<Curve>, count: usize) -> usize {
        let curve = curve.into();
        match self {
            PointEncoding::Compressed => count * curve.coordinate_bytes() + count.div_ceil(8),
            PointEncoding::Uncompressed => 2 * count * curve.coordinate_bytes(),
        }
    }
}

/// Are all bytes ones, as for the identity? Usually the first byte decides.
fn is_identity(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0xff)
}

impl Points {
    /// Appends the batch to `out`.
    pub fn encode(&self, encoding: PointEncoding, out: &mut Vec<u8>) {
        let canonical = self.to_integers();
        let (width, words) = (self.curve().coordinate_bytes(), self.curve().shape().words);
        let start = out.len();
        out.resize(start + encoding.encoded_len(self.curve(), self.len()), 0);
        let out = &mut out[start..];
        match encoding {
            PointEncoding::Uncompressed => {
                for (coordinate, out) in canonical.chunks_exact(words).zip(out.chunks_exact_mut(width)) {
                    words_to_be_bytes(coordinate, out);
                }
            }
            PointEncoding::Compressed => {
                let (xs, parities) = out.split_at_mut(self.len() * width);
                for (i, (point, out)) in canonical.chunks_exact(2 * words).zip(xs.chunks_exact_mut(width)).enumerate() {
                    words_to_be_bytes(&point[..words], out);
                    parities[i / 8] |= ((point[words] & 1) as u8) << (i % 8);
                }
            }
        }
        self.mark_identities(encoding, out);
    }

    fn mark_identities(&self, encoding: PointEncoding, out: &mut [u8]) {
        let size = match encoding {
            PointEncoding::Compressed => self.curve().coordinate_bytes(),
            PointEncoding::Uncompressed => 2 * self.curve().coordinate_bytes(),
        };
        for i in (0..self.len()).filter(|&i| self.is_identity(i)) {
            out[i * size..(i + 1) * size].fill(0xff);
        }
    }

    /// Reads a batch of `count` points.
    ///
    /// # Errors
    /// [`PointError`] for a wrong length, a coordinate that is not canonical, a point off the
    /// curve, or stray parity bits.
    pub fn decode(curve: BuiltCurve, encoding: PointEncoding, count: usize, bytes: &[u8]) -> Result<Self, PointError> {
        let expected = encoding.encoded_len(curve, count);
        if bytes.len() != expected {
            return Err(PointError::Length { curve: curve.into(), expected, found: bytes.len() });
        }
        match encoding {
            PointEncoding::Uncompressed => Self::decode_uncompressed(curve, count, bytes),
            PointEncoding::Compressed => Self::decode_compressed(curve, count, bytes),
        }
    }

    fn decode_uncompressed(curve: BuiltCurve, count: usize, bytes: &[u8]) -> Result<Self, PointError> {
        let (width, words) = (curve.coordinate_bytes(), curve.shape().words);
        let mut integers = vec![0; 2 * words * count];
        let places = integers.chunks_exact_mut(2 * words);
        for (index, (point, bytes)) in places.zip(bytes.chunks_exact(2 * width)).enumerate() {
            if is_identity(bytes) {
                continue;
            }
            words_from_be_bytes(&bytes[..width], &mut point[..words]);
            words_from_be_bytes(&bytes[width..], &mut point[words..]);
            if point.iter().all(|word| *word == 0) {
                return Err(PointError::NotOnCurve { curve: curve.into(), index }); // (0, 0) is only internally the identity
            }
        }
        let mut points = Self::identity(curve, count);
        let imported = (curve.kernels().import)(&integers, points.lines_mut());
        imported.map_err(|index| PointError::NotOnCurve { curve: curve.into(), index })?;
        Ok(points)
    }

    fn decode_compressed(curve: BuiltCurve, count: usize, bytes: &[u8]) -> Result<Self, PointError> {
        let (width, words) = (curve.coordinate_bytes(), curve.shape().words);
        let (xs, parities) = bytes.split_at(count * width);
        let bit = |i: usize| u64::from(parities[i / 8] >> (i % 8) & 1);
        if (count..8 * parities.len()).any(|i| bit(i) != 0) {
            return Err(PointError::Parity { curve: curve.into() });
        }
        let mut integers = vec![0; 2 * words * count];
        let mut identities = Vec::new();
        let places = integers.chunks_exact_mut(2 * words);
        for (i, (point, bytes)) in places.zip(xs.chunks_exact(width)).enumerate() {
            if is_identity(bytes) {
                if bit(i) != 0 {
                    return Err(PointError::Parity { curve: curve.into() });
                }
                identities.push(i);
                point[..words].copy_from_slice(&curve.shape().generator[..words]); // a stand-in that has a root
            } else {
                words_from_be_bytes(bytes, &mut point[..words]);
                point[words] = bit(i);
            }
        }
        let mut points = Self::identity(curve, count);
        let found = (curve.kernels().decompress)(&mut integers, points.lines_mut());
        found.map_err(|index| PointError::NotOnCurve { curve: curve.into(), index })?;
        identities.into_iter().for_each(|i| points.clear(i));
        Ok(points)
    }

    /// The first point in SEC 1's compressed form: `02` or `03`, then `x`; the identity is `00`.
    ///
    /// # Panics
    /// If the batch is empty.
    pub fn to_sec1(&self) -> Vec<u8> {
        if self.is_identity(0) {
            return vec![0];
        }
        let (canonical, words) = (self.to_integers(), self.curve().shape().words);
        let mut out = vec![0; 1 + self.curve().coordinate_bytes()];
        out[0] = 2 + (canonical[words] & 1) as u8;
        words_to_be_bytes(&canonical[..words], &mut out[1..]);
        out
    }

    /// One point from SEC 1's compressed form; the identity and the uncompressed form are rejected.
    ///
    /// # Errors
    /// [`PointError`], as for [`Points::decode`].
    pub fn from_sec1(curve: BuiltCurve, bytes: &[u8]) -> Result<Self, PointError> {
        let expected = 1 + curve.coordinate_bytes();
        if bytes.len() != expected {
            return Err(PointError::Length { curve: curve.into(), expected, found: bytes.len() });
        }
        let parity = match bytes[0] {
            2 => 0,
            3 => 1,
            _ => return Err(PointError::Parity { curve: curve.into() }),
        };
        let mut batch = bytes[1..].to_vec();
        if is_identity(&batch) {
            return Err(PointError::NotOnCurve { curve: curve.into(), index: 0 });
        }
        batch.push(parity);
        Self::decode(curve, PointEncoding::Compressed, 1, &batch)
    }
}
