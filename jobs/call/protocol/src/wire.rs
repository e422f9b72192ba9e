//! Packets and sums of live rooms, which carry an epoch and a tag: kinds 08 to 0b, 19 and 1a.
//!
//! | kind | object | third and fourth byte | after them |
//! |---|---|---|---|
//! | 08 | packet, masked | form of the words, width | room 8, member 2, epoch 4, tick 4, samples 2, tag 16, words |
//! | 09 | sum, masked | as 08 | room 8, epoch 4, tick 4, samples 2, speakers, late, tag 16, words |
//! | 0a | packet, shared randomness | curve, encoding | as 08, with points for words |
//! | 0b | sum, shared randomness | as 0a | as 09, with points for words |
//! | 19 | packet, two points a sample | as 0a | as 0a |
//! | 1a | sum, two points a sample | as 0a | as 0b |
//!
//! The form is 0 for packed words and 1 for aligned ones ([`Form`]). Encodings and member sets are
//! as in [`tobari_curve::wire`]. With 320 samples of 26 bits a packed packet has 1,080 bytes, with
//! 321 samples 1,084.

use crate::mask::{Form, Masked, Tag, Width};
use tobari_curve::elgamal::{Ciphertexts, SharedCiphertexts};
use tobari_curve::params::Parameters;
use tobari_curve::wire::{Kind, MAX_MEMBERS, MAX_PACKET_MESSAGES, MemberSet, RoomId, VERSION, WireError};
use tobari_curve::wire::{
    encoding_number, read_ciphertexts, read_message_count, read_version_and_kind, write_ciphertexts,
};
use tobari_curve::{Adder, PointEncoding};
use tobari_octets::Reader;

/// Bytes of a packet before its tag.
const PACKET_HEAD: usize = 4 + 8 + 2 + 4 + 4 + 2;

/// How the packets of a live room are written. A room has one layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveLayout {
    /// In mode `mask`.
    Mask {
        /// Bits of a word.
        width: Width,
        /// The layout of words in bytes.
        form: Form,
    },
    /// In mode `elgamal-shared`.
    ElgamalShared {
        /// The curve.
        parameters: Parameters,
        /// How points are written.
        encoding: PointEncoding,
    },
    /// In mode `elgamal`.
    Elgamal {
        /// The curve.
        parameters: Parameters,
        /// How points are written.
        encoding: PointEncoding,
    },
}

impl LiveLayout {
    /// The kind numbers of its packets and sums.
    fn kinds(self) -> [Kind; 2] {
        match self {
            Self::Mask { .. } => [Kind::MaskPacket, Kind::MaskSum],
            Self::ElgamalShared { .. } => [Kind::LiveSharedPacket, Kind::LiveSharedSum],
            Self::Elgamal { .. } => [Kind::LiveElgamalPacket, Kind::LiveElgamalSum],
        }
    }

    fn numbers(self) -> [u8; 2] {
        match self {
            Self::Mask { width, form } => [u8::from(form == Form::Aligned), width.bits() as u8],
            Self::ElgamalShared { parameters, encoding } | Self::Elgamal { parameters, encoding } => {
                [parameters.curve().wire_id(), encoding_number(encoding)]
            }
        }
    }

    fn payload_len(self, samples: usize) -> usize {
        match self {
            Self::Mask { width, form } => form.encoded_len(width, samples),
            Self::ElgamalShared { parameters, encoding } => encoding.encoded_len(parameters.curve(), samples + 1),
            Self::Elgamal { parameters, encoding } => encoding.encoded_len(parameters.curve(), 2 * samples),
        }
    }

    /// Bytes of a packet with this number of samples.
    pub fn packet_len(self, samples: usize) -> usize {
        PACKET_HEAD + Tag::BYTES + self.payload_len(samples)
    }

    /// Bytes of the longest sum with this number of samples: both lists are full.
    pub fn longest_sum(self, samples: usize) -> usize {
        self.packet_len(samples) + 2 * (2 + MAX_MEMBERS / 8)
    }

    fn expect(self, reader: &mut Reader<'_>, which: usize) -> Result<(), WireError> {
        let (expected, found) = (self.kinds()[which], read_version_and_kind(reader)?);
        if found != expected as u8 {
            return Err(WireError::Kind { expected, found });
        }
        if reader.array::<2>()? == self.numbers() { Ok(()) } else { Err(WireError::Malformed("layout")) }
    }
}

/// The payload of packets and sums of a live room. Anybody can add two payloads.
#[derive(Clone, PartialEq)]
pub enum LivePayload {
    /// In mode `mask`.
    Mask(Masked),
    /// In mode `elgamal-shared`.
    ElgamalShared(SharedCiphertexts),
    /// In mode `elgamal`.
    Elgamal(Ciphertexts),
}

impl LivePayload {
    /// The neutral element of addition. It hides nothing.
    pub fn zero(layout: LiveLayout, samples: usize) -> Self {
        match layout {
            LiveLayout::Mask { width, .. } => Self::Mask(Masked::zero(width, samples)),
            LiveLayout::ElgamalShared { parameters, .. } => {
                Self::ElgamalShared(SharedCiphertexts::zero(parameters, samples))
            }
            LiveLayout::Elgamal { parameters, .. } => Self::Elgamal(Ciphertexts::zero(parameters, samples)),
        }
    }

    /// Number of samples.
    pub fn samples(&self) -> usize {
        match self {
            Self::Mask(masked) => masked.len(),
            Self::ElgamalShared(ciphertexts) => ciphertexts.len(),
            Self::Elgamal(ciphertexts) => ciphertexts.len(),
        }
    }

    /// Adds sample by sample, with memory that is reused from sum to sum. Returns false and adds
    /// nothing if the modes, widths, curves or lengths differ.
    pub fn add_assign_with(&mut self, other: &Self, adder: &mut Adder) -> bool {
        match (self, other) {
            (Self::Mask(sum), Self::Mask(other)) => sum.add_assign(other).is_ok(),
            (Self::ElgamalShared(sum), Self::ElgamalShared(other)) => sum.add_assign_with(other, adder).is_ok(),
            (Self::Elgamal(sum), Self::Elgamal(other)) => sum.add_assign_with(other, adder).is_ok(),
            _ => false,
        }
    }

    /// Does a packet of this layout carry this payload?
    pub fn fits(&self, layout: LiveLayout) -> bool {
        match (self, layout) {
            (Self::Mask(masked), LiveLayout::Mask { width, .. }) => masked.width() == width,
            (Self::ElgamalShared(sum), LiveLayout::ElgamalShared { parameters, .. }) => sum.parameters() == parameters,
            (Self::Elgamal(sum), LiveLayout::Elgamal { parameters, .. }) => sum.parameters() == parameters,
            _ => false,
        }
    }

    fn encode(&self, layout: LiveLayout, out: &mut Vec<u8>) {
        assert!(self.fits(layout), "a payload of another layout than the room's");
        match (self, layout) {
            (Self::Mask(masked), LiveLayout::Mask { form, .. }) => masked.encode(form, out),
            (Self::ElgamalShared(ciphertexts), LiveLayout::ElgamalShared { encoding, .. }) => {
                write_ciphertexts(ciphertexts, encoding, out);
            }
            (Self::Elgamal(ciphertexts), LiveLayout::Elgamal { encoding, .. }) => {
                write_ciphertexts(ciphertexts, encoding, out);
            }
            _ => {}
        }
    }

    fn decode(reader: &Reader<'_>, layout: LiveLayout, samples: u16) -> Result<Self, WireError> {
        match layout {
            LiveLayout::Mask { width, form } => {
                reader.expect_rest(form.encoded_len(width, samples.into()))?;
                Masked::decode(form, width, samples.into(), reader.rest())
                    .map(Self::Mask)
                    .map_err(|_| WireError::Malformed("masked words"))
            }
            LiveLayout::ElgamalShared { parameters, encoding } => {
                read_ciphertexts(reader, parameters, encoding, samples).map(Self::ElgamalShared)
            }
            LiveLayout::Elgamal { parameters, encoding } => {
                read_ciphertexts(reader, parameters, encoding, samples).map(Self::Elgamal)
            }
        }
    }
}

/// Head of a packet of a live room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveHeader {
    /// The room.
    pub room: RoomId,
    /// The sender's number in the room, below [`MAX_MEMBERS`].
    pub member: u16,
    /// The epoch whose keys encrypted the packet.
    pub epoch: u32,
    /// The 20 ms slot.
    pub tick: u32,
}

/// A packet of a live room.
#[derive(Clone, PartialEq)]
pub struct LivePacket {
    /// The sender and the time.
    pub header: LiveHeader,
    /// Authenticates the packet.
    pub tag: Tag,
    /// The encrypted samples.
    pub payload: LivePayload,
}

/// A sum of a live room.
#[derive(Clone, PartialEq)]
pub struct LiveSum {
    /// The room.
    pub room: RoomId,
    /// The epoch whose keys encrypted its packets.
    pub epoch: u32,
    /// The 20 ms slot.
    pub tick: u32,
    /// Whose packets were added.
    pub speakers: MemberSet,
    /// Members whose packets arrived and were dropped since the last sum: too late, or of another
    /// epoch.
    pub late: MemberSet,
    /// The sum of their tags.
    pub tag: Tag,
    /// The sum of their samples.
    pub payload: LivePayload,
}

fn begin(layout: LiveLayout, which: usize, room: RoomId) -> Vec<u8> {
    let mut out = vec![VERSION, layout.kinds()[which] as u8];
    out.extend_from_slice(&layout.numbers());
    out.extend_from_slice(&room.0);
    out
}

/// The number of samples: 1 to [`MAX_PACKET_MESSAGES`] in a packet.
fn count(payload: &LivePayload) -> [u8; 2] {
    let samples = payload.samples();
    assert!((1..=MAX_PACKET_MESSAGES).contains(&samples), "a packet holds 1 to {MAX_PACKET_MESSAGES} samples");
    (samples as u16).to_be_bytes()
}

/// The bytes of a packet.
///
/// # Panics
/// If the payload is of another layout, or has no sample or more than [`MAX_PACKET_MESSAGES`].
pub fn encode_live_packet(layout: LiveLayout, packet: &LivePacket) -> Vec<u8> {
    let LiveHeader { room, member, epoch, tick } = packet.header;
    let mut out = begin(layout, 0, room);
    out.extend_from_slice(&member.to_be_bytes());
    out.extend_from_slice(&epoch.to_be_bytes());
    out.extend_from_slice(&tick.to_be_bytes());
    out.extend_from_slice(&count(&packet.payload));
    out.extend_from_slice(&packet.tag.to_bytes());
    packet.payload.encode(layout, &mut out);
    out
}

fn read_header(reader: &mut Reader<'_>, layout: LiveLayout) -> Result<(LiveHeader, u16), WireError> {
    layout.expect(reader, 0)?;
    let room = RoomId(reader.array()?);
    let (member, epoch, tick) = (reader.u16()?, reader.u32()?, reader.u32()?);
    if usize::from(member) >= MAX_MEMBERS {
        return Err(WireError::Malformed("member number"));
    }
    Ok((LiveHeader { room, member, epoch, tick }, read_message_count(reader)?))
}

fn read_tag(reader: &mut Reader<'_>) -> Result<Tag, WireError> {
    Tag::from_bytes(reader.array()?).ok_or(WireError::Malformed("tag"))
}

/// The head of a packet and its number of samples. The length of the whole packet is checked; no
/// sample is read, so this is cheap.
///
/// # Errors
/// [`WireError`], as for [`decode_live_packet`].
pub fn decode_live_header(layout: LiveLayout, bytes: &[u8]) -> Result<(LiveHeader, u16), WireError> {
    let mut reader = Reader::new(bytes);
    let (header, samples) = read_header(&mut reader, layout)?;
    reader.expect_rest(Tag::BYTES + layout.payload_len(samples.into()))?;
    Ok((header, samples))
}

/// Decodes a packet of this layout, and checks that points are on the curve.
///
/// # Errors
/// [`WireError`], with the expected and the found value.
pub fn decode_live_packet(layout: LiveLayout, bytes: &[u8]) -> Result<LivePacket, WireError> {
    decode_live_header(layout, bytes)?;
    let mut reader = Reader::new(bytes);
    let (header, samples) = read_header(&mut reader, layout)?;
    let tag = read_tag(&mut reader)?;
    Ok(LivePacket { header, tag, payload: LivePayload::decode(&reader, layout, samples)? })
}

/// The bytes of a sum.
///
/// # Panics
/// As [`encode_live_packet`].
pub fn encode_live_sum(layout: LiveLayout, sum: &LiveSum) -> Vec<u8> {
    let mut out = begin(layout, 1, sum.room);
    out.extend_from_slice(&sum.epoch.to_be_bytes());
    out.extend_from_slice(&sum.tick.to_be_bytes());
    out.extend_from_slice(&count(&sum.payload));
    sum.speakers.encode(&mut out);
    sum.late.encode(&mut out);
    out.extend_from_slice(&sum.tag.to_bytes());
    sum.payload.encode(layout, &mut out);
    out
}

/// Decodes a sum of this layout, and checks that points are on the curve.
///
/// # Errors
/// [`WireError`], with the expected and the found value.
pub fn decode_live_sum(layout: LiveLayout, bytes: &[u8]) -> Result<LiveSum, WireError> {
    let mut reader = Reader::new(bytes);
    layout.expect(&mut reader, 1)?;
    let room = RoomId(reader.array()?);
    let (epoch, tick, samples) = (reader.u32()?, reader.u32()?, read_message_count(&mut reader)?);
    let (speakers, late) = (MemberSet::decode(&mut reader)?, MemberSet::decode(&mut reader)?);
    let tag = read_tag(&mut reader)?;
    let payload = LivePayload::decode(&reader, layout, samples)?;
    Ok(LiveSum { room, epoch, tick, speakers, late, tag, payload })
}
