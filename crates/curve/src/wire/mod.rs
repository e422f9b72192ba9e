//! Versioned encodings of all public objects. Version 1 stays readable for ever
//! (`vectors/wire/v1`).
//!
//! Integers are big-endian. Every object begins with its version (`01`), its kind and its curve's
//! number, and each object has exactly one byte string. Decoding rejects all others, checks lengths
//! before it allocates, and never panics.
//!
//! | kind | object | after the first three bytes |
//! |---|---|---|
//! | 01 | secret key | scalar, then the public key in SEC 1 form, against damage |
//! | 02 | public key | SEC 1 compressed point |
//! | 03 | packet | encoding 1, room 8, member 2, tick 4, messages 2, points |
//! | 04 | sum | encoding 1, room 8, tick 4, messages 2, speakers, late, points |
//! | 05 | packet, shared randomness | as 03 |
//! | 06 | sum, shared randomness | as 04 |
//! | 07 | epoch secret, expanded to shared keys | 32 bytes, then `s_1 G` (SEC 1), against damage |
//!
//! The crate of the call has kinds 08 to 0e, 19, 1a and 20 to 25 (hexadecimal): packets and sums of
//! live rooms, their other messages, and recordings. Kinds 10 to 18 are those of the lattice
//! schemes.
//!
//! Key files put `TOBARI` before the version. Points are `S_0 … S_(k-1), R_0 … R_(k-1)`, or with
//! shared randomness `C_1 … C_k, R`, as [`Points::encode`] writes them. A member set is its length
//! in bytes (2) and a bitmap, member 0 in the lowest bit of the first byte, without a zero byte at
//! the end. With 320 messages on a curve of 256 bits a compressed packet has 20,580 bytes, an
//! uncompressed one 40,980; with shared randomness 10,333 and 20,564.

mod keys;
mod payload;

pub use keys::{
    decode_epoch_secret, decode_public_key, decode_secret_key, encode_epoch_secret, encode_public_key,
    encode_secret_key, mode_of_secret_key,
};
pub use payload::Payload;

use crate::params::{Parameters, RefusedCurve};
use crate::{Curve, PointEncoding, PointError, Points, ScalarError};
use std::fmt;
use tobari_octets::{LengthError, Reader};

/// Version of all formats of this module.
pub const VERSION: u8 = 1;
/// Largest number of ciphertexts in one packet.
pub const MAX_PACKET_MESSAGES: usize = 1024;
/// Largest number of members that a room accepts over its life.
pub const MAX_MEMBERS: usize = 4096;

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A secret key file.
    SecretKey = 1,
    /// A public key file.
    PublicKey = 2,
    /// A member's packet.
    Packet = 3,
    /// The server's sum.
    Sum = 4,
    /// A member's packet in mode `elgamal-shared`.
    SharedPacket = 5,
    /// The server's sum in mode `elgamal-shared`.
    SharedSum = 6,
    /// A key file of mode `elgamal-shared`.
    EpochSecret = 7,
    /// A packet of a live room in mode `mask`.
    MaskPacket = 8,
    /// The sum of a live room in mode `mask`.
    MaskSum = 9,
    /// A packet of a live room in mode `elgamal-shared`.
    LiveSharedPacket = 10,
    /// The sum of a live room in mode `elgamal-shared`.
    LiveSharedSum = 11,
    /// A packet of a live room in mode `elgamal`.
    LiveElgamalPacket = 25,
    /// The sum of a live room in mode `elgamal`.
    LiveElgamalSum = 26,
}

/// Bytes that are not the expected object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// Fewer bytes than the object has, or more.
    #[error(transparent)]
    Length(#[from] LengthError),
    /// A key file without its first bytes.
    #[error("not a tobari key file")]
    NotAKeyFile,
    /// A version that this program does not read.
    #[error("wrong version: expected {VERSION}, found {0}")]
    Version(u8),
    /// Another object.
    #[error("wrong kind of object: expected {expected:?}, found number {found}")]
    Kind {
        /// The expected value.
        expected: Kind,
        /// The number found.
        found: u8,
    },
    /// A curve number that does not exist.
    #[error("unknown curve number {0}")]
    UnknownCurve(u8),
    /// Another curve than the room's.
    #[error("wrong curve: expected {expected}, found {found}")]
    Curve {
        /// The expected value.
        expected: Curve,
        /// The found value.
        found: Curve,
    },
    /// An encoding number that does not exist.
    #[error("unknown point encoding {0}")]
    Encoding(u8),
    /// More messages or members than the limits, or a member set that is not in its only valid
    /// form.
    #[error("malformed {0}")]
    Malformed(&'static str),
    /// Invalid points.
    #[error(transparent)]
    Points(#[from] PointError),
    /// An invalid secret scalar.
    #[error(transparent)]
    Scalar(#[from] ScalarError),
    /// A key below the caller's security floor, or of a curve without arithmetic in this build.
    #[error(transparent)]
    RefusedCurve(#[from] RefusedCurve),
    /// A key file whose public half does not belong to its secret half.
    #[error("damaged key file: its two halves do not match")]
    DamagedKey,
}

/// A room's number on the wire, drawn at random by the server when it creates the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RoomId(pub [u8; 8]);

impl fmt::Display for RoomId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Head of a packet from one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeader {
    /// The room.
    pub room: RoomId,
    /// The sender's number in the room, below [`MAX_MEMBERS`].
    pub member: u16,
    /// The 20 ms slot.
    pub tick: u32,
    /// The encoding of the points.
    pub encoding: PointEncoding,
    /// Number of ciphertexts.
    pub messages: u16,
}

/// Head of a sum from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumHeader {
    /// The room.
    pub room: RoomId,
    /// The 20 ms slot.
    pub tick: u32,
    /// The encoding of the points.
    pub encoding: PointEncoding,
    /// The members whose packets were added.
    pub speakers: MemberSet,
    /// The members whose packets arrived too late since the last sum, and were dropped.
    pub late: MemberSet,
}

/// A set of member numbers below [`MAX_MEMBERS`].
///
/// ```
/// use tobari_curve::wire::MemberSet;
/// let mut set = MemberSet::default();
/// assert!(set.insert(3) && set.insert(9) && !set.insert(3));
/// assert_eq!(set.iter().collect::<Vec<_>>(), [3, 9]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberSet {
    /// Bitmap; its last byte is not zero.
    bits: Vec<u8>,
}

impl MemberSet {
    /// Adds `member`; false if it was already there, or is not below [`MAX_MEMBERS`].
    pub fn insert(&mut self, member: u16) -> bool {
        let (byte, bit) = (usize::from(member / 8), 1u8 << (member % 8));
        if usize::from(member) >= MAX_MEMBERS || self.contains(member) {
            return false;
        }
        self.bits.resize(self.bits.len().max(byte + 1), 0);
        self.bits[byte] |= bit;
        true
    }

    /// Is `member` in the set?
    pub fn contains(&self, member: u16) -> bool {
        self.bits.get(usize::from(member / 8)).is_some_and(|byte| byte >> (member % 8) & 1 == 1)
    }

    /// Number of members in the set.
    pub fn len(&self) -> usize {
        self.bits.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    /// Is the set empty?
    pub fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }

    /// The members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        (0..8 * self.bits.len() as u16).filter(|member| self.contains(*member))
    }

    /// Writes its length in bytes (2) and a bitmap.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.bits.len() as u16).to_be_bytes());
        out.extend_from_slice(&self.bits);
    }

    /// A set as [`Self::encode`] writes it.
    ///
    /// # Errors
    /// [`WireError::Malformed`] or [`WireError::Length`].
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let len = usize::from(reader.u16()?);
        if len > MAX_MEMBERS / 8 {
            return Err(WireError::Malformed("member set"));
        }
        let bits = reader.take(len)?.to_vec();
        if bits.last() == Some(&0) {
            return Err(WireError::Malformed("member set"));
        }
        Ok(Self { bits })
    }
}

/// The kind's number, after the version that this program reads.
///
/// # Errors
/// [`WireError::Version`] or [`WireError::Length`].
pub fn read_version_and_kind(reader: &mut Reader<'_>) -> Result<u8, WireError> {
    let version = reader.u8()?;
    if version == VERSION { Ok(reader.u8()?) } else { Err(WireError::Version(version)) }
}

/// Version, kind and curve.
fn read_head(reader: &mut Reader<'_>, expected: Kind) -> Result<Curve, WireError> {
    let found = read_version_and_kind(reader)?;
    if found != expected as u8 {
        return Err(WireError::Kind { expected, found });
    }
    let curve = reader.u8()?;
    Curve::from_wire_id(curve).ok_or(WireError::UnknownCurve(curve))
}

/// Version, kind, and the curve that `parameters` expect.
fn read_head_of(reader: &mut Reader<'_>, kind: Kind, parameters: Parameters) -> Result<(), WireError> {
    let (expected, found) = (parameters.curve(), read_head(reader, kind)?);
    if expected == found { Ok(()) } else { Err(WireError::Curve { expected, found }) }
}

fn read_encoding(reader: &mut Reader<'_>) -> Result<PointEncoding, WireError> {
    match reader.u8()? {
        0 => Ok(PointEncoding::Compressed),
        1 => Ok(PointEncoding::Uncompressed),
        other => Err(WireError::Encoding(other)),
    }
}

/// Number of messages of a packet: 1 to [`MAX_PACKET_MESSAGES`].
///
/// # Errors
/// [`WireError::Malformed`] or [`WireError::Length`].
pub fn read_message_count(reader: &mut Reader<'_>) -> Result<u16, WireError> {
    let count = reader.u16()?;
    let legal = 1..=MAX_PACKET_MESSAGES;
    if legal.contains(&usize::from(count)) { Ok(count) } else { Err(WireError::Malformed("message count")) }
}

/// Reads the ciphertexts, which must be the rest of the bytes.
///
/// # Errors
/// [`WireError`] for a wrong number of bytes, and for points off the curve.
pub fn read_ciphertexts<P: Payload>(
    reader: &Reader<'_>,
    parameters: Parameters,
    encoding: PointEncoding,
    messages: u16,
) -> Result<P, WireError> {
    let count = P::points_of(messages.into());
    reader.expect_rest(encoding.encoded_len(parameters.curve(), count))?;
    let points = Points::decode(parameters.built_curve(), encoding, count, reader.rest())?;
    P::from_points(parameters, points).ok_or(WireError::Malformed("ciphertexts"))
}

/// Writes the points of ciphertexts, as [`read_ciphertexts`] reads them.
pub fn write_ciphertexts(ciphertexts: &impl Payload, encoding: PointEncoding, out: &mut Vec<u8>) {
    ciphertexts.to_points().encode(encoding, out);
}

fn head(kind: Kind, curve: Curve) -> Vec<u8> {
    vec![VERSION, kind as u8, curve.wire_id()]
}

/// The number of an encoding.
pub fn encoding_number(encoding: PointEncoding) -> u8 {
    match encoding {
        PointEncoding::Compressed => 0,
        PointEncoding::Uncompressed => 1,
    }
}

/// Bytes of a packet before its points.
const PACKET_HEAD: usize = 3 + 1 + 8 + 2 + 4 + 2;

/// Bytes of a packet of `messages` ciphertexts.
pub fn packet_len<P: Payload>(parameters: Parameters, encoding: PointEncoding, messages: usize) -> usize {
    PACKET_HEAD + encoding.encoded_len(parameters.curve(), P::points_of(messages))
}

/// A member's packet.
///
/// # Panics
/// If there are no ciphertexts, or more than [`MAX_PACKET_MESSAGES`].
pub fn encode_packet<P: Payload>(
    room: RoomId,
    member: u16,
    tick: u32,
    encoding: PointEncoding,
    ciphertexts: &P,
) -> Vec<u8> {
    let mut out = head(P::PACKET, ciphertexts.parameters().curve());
    out.push(encoding_number(encoding));
    out.extend_from_slice(&room.0);
    out.extend_from_slice(&member.to_be_bytes());
    out.extend_from_slice(&tick.to_be_bytes());
    out.extend_from_slice(&count_bytes(ciphertexts));
    ciphertexts.to_points().encode(encoding, &mut out);
    out
}

fn count_bytes(ciphertexts: &impl Payload) -> [u8; 2] {
    assert!(
        (1..=MAX_PACKET_MESSAGES).contains(&ciphertexts.messages()),
        "a packet holds 1 to {MAX_PACKET_MESSAGES} messages"
    );
    (ciphertexts.messages() as u16).to_be_bytes()
}

fn read_packet_header<P: Payload>(reader: &mut Reader<'_>, parameters: Parameters) -> Result<PacketHeader, WireError> {
    read_head_of(reader, P::PACKET, parameters)?;
    let encoding = read_encoding(reader)?;
    let room = RoomId(reader.array()?);
    let (member, tick) = (reader.u16()?, reader.u32()?);
    if usize::from(member) >= MAX_MEMBERS {
        return Err(WireError::Malformed("member number"));
    }
    Ok(PacketHeader { room, member, tick, encoding, messages: read_message_count(reader)? })
}

/// The head of a packet. The length of the whole packet is checked; no point is read, so this is
/// cheap.
///
/// # Errors
/// [`WireError`], as for [`decode_packet`].
pub fn decode_packet_header<P: Payload>(bytes: &[u8], parameters: Parameters) -> Result<PacketHeader, WireError> {
    let mut reader = Reader::new(bytes);
    let header = read_packet_header::<P>(&mut reader, parameters)?;
    reader.expect_rest(header.encoding.encoded_len(parameters.curve(), P::points_of(header.messages.into())))?;
    Ok(header)
}

/// Decodes a whole packet, and checks that every point is on the curve.
///
/// # Errors
/// [`WireError`], with the expected and the found value.
pub fn decode_packet<P: Payload>(bytes: &[u8], parameters: Parameters) -> Result<(PacketHeader, P), WireError> {
    let mut reader = Reader::new(bytes);
    let header = read_packet_header::<P>(&mut reader, parameters)?;
    Ok((header, read_ciphertexts(&reader, parameters, header.encoding, header.messages)?))
}

/// The server's sum.
///
/// # Panics
/// If there are no ciphertexts, or more than [`MAX_PACKET_MESSAGES`].
pub fn encode_sum<P: Payload>(header: &SumHeader, ciphertexts: &P) -> Vec<u8> {
    let mut out = head(P::SUM, ciphertexts.parameters().curve());
    out.push(encoding_number(header.encoding));
    out.extend_from_slice(&header.room.0);
    out.extend_from_slice(&header.tick.to_be_bytes());
    out.extend_from_slice(&count_bytes(ciphertexts));
    header.speakers.encode(&mut out);
    header.late.encode(&mut out);
    ciphertexts.to_points().encode(header.encoding, &mut out);
    out
}

/// Decodes the server's sum, and checks that every point is on the curve.
///
/// # Errors
/// [`WireError`], with the expected and the found value.
pub fn decode_sum<P: Payload>(bytes: &[u8], parameters: Parameters) -> Result<(SumHeader, P), WireError> {
    let mut reader = Reader::new(bytes);
    read_head_of(&mut reader, P::SUM, parameters)?;
    let encoding = read_encoding(&mut reader)?;
    let (room, tick) = (RoomId(reader.array()?), reader.u32()?);
    let messages = read_message_count(&mut reader)?;
    let (speakers, late) = (MemberSet::decode(&mut reader)?, MemberSet::decode(&mut reader)?);
    let ciphertexts = read_ciphertexts(&reader, parameters, encoding, messages)?;
    Ok((SumHeader { room, tick, encoding, speakers, late }, ciphertexts))
}
