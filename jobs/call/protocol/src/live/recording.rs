//! Recordings: the encrypted sums of a room, which the link decrypts later (kind 0e of the wire).
//!
//! ```text
//! recording = "TOBARI", version 1, kind 1, room 8, then records
//! record    = kind 1 (1 roster, 2 sum), length 4, bytes
//! ```
//!
//! A recording has the encrypted sums and the rosters, as one stream whatever the number of
//! speakers. The file without the link cannot be decrypted. **There is no forward secrecy for a
//! recording**: anyone who gets the link at any later time can decrypt it. With old packets of
//! single speakers, they can decrypt those too.

use tobari_curve::wire::{RoomId, VERSION};

use super::{
    MAX_ROSTER_BYTES, OpenedTick, PACKET_WORDS, RosterError, SumError, group,
    hearing::{Hearing, Opened},
    hello,
    keys::SessionId,
    link::{Keys, RoomLink},
    notes, roster,
};

const KIND: u8 = 0x0e;
const MAGIC: &[u8; 6] = b"TOBARI";
/// Bytes before the first record.
pub const HEAD_BYTES: usize = 16;
/// Bytes of a record before its content.
pub const RECORD_HEAD_BYTES: usize = 5;
/// The longest content: an uncompressed sum on the largest curve, or a roster.
const MAX_CONTENT: usize = if MAX_ROSTER_BYTES > 100 * PACKET_WORDS { MAX_ROSTER_BYTES } else { 100 * PACKET_WORDS };

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// A roster.
    Roster = 1,
    /// A sum.
    Sum = 2,
}

/// The beginning of a recording of this room.
pub fn begin(room: RoomId) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&[VERSION, KIND]);
    out.extend_from_slice(&room.0);
    out
}

/// A message from the server as a record; none if it is not to be recorded.
pub fn record(bytes: &[u8]) -> Option<Vec<u8>> {
    let kind = match bytes.get(1).copied()? {
        roster::KIND | roster::EARLIER_KIND => RecordKind::Roster,
        hello::KIND | notes::KIND | group::messages::TASK | group::messages::STEP => return None,
        _ => RecordKind::Sum,
    };
    let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= MAX_CONTENT)?;
    let mut out = vec![kind as u8];
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
    Some(out)
}

/// Why a recording cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file does not begin as a recording does.
    #[error("not a recording of a call")]
    NotARecording,
    /// A version that this program does not read.
    #[error("recording of version {0}: expected {VERSION}")]
    Version(u8),
    /// Bytes that are no record.
    #[error("damaged recording: expected a roster or a sum, found something else")]
    Record,
    /// A roster that is not valid with this link.
    #[error("roster in the recording: {0}; is it the link of this call?")]
    Roster(#[from] RosterError),
    /// Settings that no link has.
    #[error("a link whose settings are impossible")]
    Settings,
    /// A link to a room whose keys do not come from the link alone.
    #[error("the keys of this call were agreed by its members and are gone: expected a link whose secret is the key")]
    Group,
}

/// The room of a recording that begins with this head.
///
/// # Errors
/// [`RecordingError`] if it is no recording of this version.
pub fn read_head(head: &[u8; HEAD_BYTES]) -> Result<RoomId, RecordingError> {
    let (start, room) = head.split_at(8);
    if start[..6] != MAGIC[..] || start[7] != KIND {
        return Err(RecordingError::NotARecording);
    }
    if start[6] != VERSION {
        return Err(RecordingError::Version(start[6]));
    }
    let mut id = RoomId([0; 8]);
    id.0.copy_from_slice(room);
    Ok(id)
}

/// The kind of a record, and the length of its content in bytes.
///
/// # Errors
/// [`RecordingError::Record`] if there is no such record.
pub fn read_record_head(head: &[u8; RECORD_HEAD_BYTES]) -> Result<(RecordKind, usize), RecordingError> {
    let kind = match head[0] {
        1 => RecordKind::Roster,
        2 => RecordKind::Sum,
        _ => return Err(RecordingError::Record),
    };
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if (1..=MAX_CONTENT).contains(&length) { Ok((kind, length)) } else { Err(RecordingError::Record) }
}

/// Decrypts a recording, record by record.
pub struct Playback {
    hearing: Hearing,
}

impl Playback {
    /// For a recording of this room, with the link that its members had.
    ///
    /// # Errors
    /// [`RecordingError::Settings`] if no link has such settings, [`RecordingError::Group`] if the
    /// keys do not come from the link alone.
    pub fn new(link: &RoomLink, room: RoomId) -> Result<Self, RecordingError> {
        if link.settings.keys == Keys::Group {
            return Err(RecordingError::Group);
        }
        Ok(Self { hearing: Hearing::of_a_recording(link, room).ok_or(RecordingError::Settings)? })
    }

    /// Takes a roster.
    ///
    /// # Errors
    /// [`RecordingError::Roster`] if the roster is not valid with this link.
    pub fn roster(&mut self, bytes: &[u8]) -> Result<(), RecordingError> {
        // for no member: keys to send with are not needed
        let roster = self.hearing.take_roster(bytes, (u16::MAX, SessionId([0; 16])), |_| Ok(None))?;
        // with another link all entries are left out
        match roster.left_out.first_key_value().filter(|_| roster.members.is_empty()) {
            Some((stranger, _)) => Err(RosterError::Stranger(*stranger).into()),
            None => Ok(()),
        }
    }

    /// Takes a sum. None for a sum from before the first roster: the recording member could not
    /// decrypt it either.
    ///
    /// # Errors
    /// [`SumError`] if the sum is not what the listed members have sent: it was changed, in the
    /// room or in the file.
    pub fn sum(&mut self, bytes: &[u8]) -> Result<Option<OpenedTick>, SumError> {
        let Some(Opened { tick, speakers, samples, .. }) = self.hearing.open(bytes)? else { return Ok(None) };
        self.hearing.pass(tick);
        Ok(Some(OpenedTick { tick, speakers, samples }))
    }
}

/// Bytes that read as a recording have its form.
pub(super) fn fuzz(data: &[u8]) {
    let Some((head, mut rest)) = data.split_first_chunk::<HEAD_BYTES>() else { return };
    let Ok(room) = read_head(head) else { return };
    assert_eq!(begin(room), head);
    while let Some((head, content)) = rest.split_first_chunk::<RECORD_HEAD_BYTES>() {
        let Ok((kind, length)) = read_record_head(head) else { return };
        let Some((content, after)) = content.split_at_checked(length) else { return };
        if let Some(record) = record(content).filter(|record| record[0] == kind as u8) {
            assert_eq!((&record[..RECORD_HEAD_BYTES], &record[RECORD_HEAD_BYTES..]), (&head[..], content));
        }
        rest = after;
    }
}
