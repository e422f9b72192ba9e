//! Notes: messages between members through the server, encrypted under a key of the room (kind 0d
//! of the wire).
//!
//! ```text
//! note   = version 1, kind 1, room 8, session 16, number 4, sealed 112
//! sealed = AES-256-GCM(note_sid, nonce = number, the fields before it,
//!          text, padded with zeros to 96)
//! ```
//!
//! All notes have the same length. A session has its own key and numbers its notes from 1, so each
//! nonce is used once under a key. A member takes a session's notes in increasing order.
//!
//! | first byte of the text | note | after it |
//! |---|---|---|
//! | 1 | hello of protocol 2 | member 2, speaks 1, length of the name 1, name |
//! | 2 | history | window 4, digest 32 |
//!
//! Protocol 2 had hellos among the notes. They are no longer written (`super::hello`), but
//! recordings have them.

use aes_gcm::{
    Aes256Gcm, Nonce, Tag,
    aead::{AeadInOut, KeyInit, inout::InOutBuf},
};
use tobari_curve::wire::{MAX_MEMBERS, RoomId, VERSION};
use zeroize::{Zeroize, Zeroizing};

use super::keys::{RoomKeys, SessionId};

/// The kind of a note on the wire.
pub(super) const KIND: u8 = 0x0d;
const HEAD: usize = 2 + 8 + 16 + 4;
const TEXT: usize = 96;
const TAG: usize = 16;
/// Bytes of a note.
pub const NOTE_BYTES: usize = HEAD + TEXT + TAG;
/// The longest name of a member, in bytes.
pub const MAX_NAME: usize = 64;

/// The content of a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Say {
    /// The hello of this session, in protocol 2.
    Hello(Hello),
    /// The digest of a window of ticks.
    History { window: u32, digest: [u8; 32] },
}

/// The content of a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    /// The number that the server gave the member.
    pub(super) member: u16,
    /// Will it send?
    pub(super) speaks: bool,
    /// The name that its person chose.
    pub(super) name: String,
}

/// A name for the others: at most [`MAX_NAME`] bytes, only printable characters.
pub fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME && !name.chars().any(char::is_control)
}

impl Say {
    fn write(&self, text: &mut [u8; TEXT]) {
        match self {
            Self::Hello(hello) => {
                let name = hello.name.as_bytes();
                let name = &name[..name.len().min(MAX_NAME)];
                text[0] = 1;
                text[1..3].copy_from_slice(&hello.member.to_be_bytes());
                text[3] = u8::from(hello.speaks);
                text[4] = name.len() as u8;
                text[5..5 + name.len()].copy_from_slice(name);
            }
            Self::History { window, digest } => {
                text[0] = 2;
                text[1..5].copy_from_slice(&window.to_be_bytes());
                text[5..37].copy_from_slice(digest);
            }
        }
    }

    fn read(text: &[u8; TEXT]) -> Option<Self> {
        let said = match text[0] {
            1 => {
                let member = u16::from_be_bytes([text[1], text[2]]);
                let name = text.get(5..5 + usize::from(text[4]))?;
                let name = std::str::from_utf8(name).ok().filter(|name| is_name(name))?.to_owned();
                if usize::from(member) >= MAX_MEMBERS || text[3] > 1 {
                    return None;
                }
                Self::Hello(Hello { member, speaks: text[3] == 1, name })
            }
            2 => {
                let mut digest = [0; 32];
                digest.copy_from_slice(&text[5..37]);
                Self::History { window: u32::from_be_bytes([text[1], text[2], text[3], text[4]]), digest }
            }
            _ => return None,
        };
        // each note has exactly one text: unused bytes are zero
        let mut again = [0; TEXT];
        said.write(&mut again);
        (again == *text).then_some(said)
    }
}

fn nonce(number: u32) -> Nonce<aes_gcm::aead::consts::U12> {
    let mut nonce = [0; 12];
    nonce[8..].copy_from_slice(&number.to_be_bytes());
    Nonce::from(nonce)
}

/// Writes the notes of one session.
pub(super) struct NoteWriter {
    session: SessionId,
    key: Zeroizing<[u8; 32]>,
    room: RoomId,
    next: u32,
}

impl NoteWriter {
    pub(super) fn new(keys: &RoomKeys, session: SessionId, room: RoomId) -> Self {
        Self { session, key: keys.note(session), room, next: 1 }
    }

    /// The next note; none after about four thousand million notes.
    pub(super) fn write(&mut self, say: &Say) -> Option<Vec<u8>> {
        let number = self.next;
        self.next = number.checked_add(1)?;
        let mut note = vec![VERSION, KIND];
        note.extend_from_slice(&self.room.0);
        note.extend_from_slice(&self.session.0);
        note.extend_from_slice(&number.to_be_bytes());
        let mut text = Zeroizing::new([0; TEXT]);
        say.write(&mut text);
        let cipher = Aes256Gcm::new(&(*self.key).into());
        let sealed = cipher.encrypt_inout_detached(&nonce(number), &note, InOutBuf::from(&mut text[..]));
        // encryption fails beyond 64 GiB only
        let tag: [u8; TAG] = sealed.ok()?.into();
        note.extend_from_slice(&text[..]);
        note.extend_from_slice(&tag);
        Some(note)
    }
}

/// The head of a note: all that a server can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoteHead {
    pub(super) room: RoomId,
    pub(super) session: SessionId,
    pub(super) number: u32,
}

/// None unless these are the bytes of a note, as far as is visible without a key.
pub(super) fn head_of(note: &[u8]) -> Option<NoteHead> {
    if note.len() != NOTE_BYTES || note[..2] != [VERSION, KIND] {
        return None;
    }
    let (mut room, mut session) = (RoomId([0; 8]), SessionId([0; 16]));
    room.0.copy_from_slice(&note[2..10]);
    session.0.copy_from_slice(&note[10..26]);
    Some(NoteHead { room, session, number: u32::from_be_bytes([note[26], note[27], note[28], note[29]]) })
}

/// Decrypts a note; none if it is not from a member with this secret, for this room.
pub(super) fn open(keys: &RoomKeys, room: RoomId, note: &[u8]) -> Option<(NoteHead, Say)> {
    let head = head_of(note).filter(|head| head.room == room)?;
    let (clear, sealed) = note.split_at(HEAD);
    let (sealed, tag) = sealed.split_at(TEXT);
    let mut text = Zeroizing::new([0; TEXT]);
    text.copy_from_slice(sealed);
    let mut tag_bytes = [0; TAG];
    tag_bytes.copy_from_slice(tag);
    let cipher = Aes256Gcm::new(&(*keys.note(head.session)).into());
    let opened =
        cipher.decrypt_inout_detached(&nonce(head.number), clear, InOutBuf::from(&mut text[..]), &Tag::from(tag_bytes));
    if opened.is_err() {
        text.zeroize();
        return None;
    }
    Say::read(&text).map(|say| (head, say))
}

/// Bytes that read as a text are written as the same text.
pub(super) fn fuzz(data: &[u8]) {
    let mut text = [0; TEXT];
    let length = data.len().min(TEXT);
    text[..length].copy_from_slice(&data[..length]);
    if let Some(said) = Say::read(&text) {
        let mut again = [0; TEXT];
        said.write(&mut again);
        assert_eq!(again, text);
    }
    if let Some(head) = head_of(data) {
        assert_eq!(data[26..30], head.number.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::{RoomLink, Settings};
    use super::*;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

    const ROOM: RoomId = RoomId([3; 8]);

    fn keys(seed: u8) -> RoomKeys {
        let mut rng = ChaCha20Rng::from_seed([seed; 32]);
        RoomKeys::new(&RoomLink::new("http://h", "r".parse().unwrap(), Settings::default(), &mut rng))
    }

    fn says() -> Vec<Say> {
        let hello = |member: u16, speaks: bool, name: &str| Say::Hello(Hello { member, speaks, name: name.to_owned() });
        vec![
            hello(0, false, ""),
            hello(4095, true, "Zoë"),
            hello(7, true, &"é".repeat(32)),
            Say::History { window: u32::MAX, digest: [255; 32] },
            Say::History { window: 0, digest: [0; 32] },
        ]
    }

    #[test]
    fn notes_open_for_members_and_are_all_of_one_length() {
        let keys = keys(1);
        let mut writer = NoteWriter::new(&keys, SessionId([7; 16]), ROOM);
        for (number, say) in (1..).zip(says()) {
            let note = writer.write(&say).unwrap();
            assert_eq!(note.len(), NOTE_BYTES);
            let head = NoteHead { room: ROOM, session: SessionId([7; 16]), number };
            assert_eq!(open(&keys, ROOM, &note), Some((head, say)));
        }
    }

    #[test]
    fn every_changed_byte_another_room_and_another_secret_are_refused() {
        let keys = keys(1);
        let note = NoteWriter::new(&keys, SessionId([7; 16]), ROOM).write(&says()[1]).unwrap();
        for place in 0..note.len() {
            let mut other = note.clone();
            other[place] ^= 1;
            assert!(open(&keys, ROOM, &other).is_none(), "{place}");
        }
        assert!(open(&keys, RoomId([4; 8]), &note).is_none());
        assert!(open(&self::keys(2), ROOM, &note).is_none());
        (0..note.len()).for_each(|length| assert!(head_of(&note[..length]).is_none()));
    }

    #[test]
    fn equal_words_look_different_each_time() {
        let keys = keys(1);
        let mut writer = NoteWriter::new(&keys, SessionId([7; 16]), ROOM);
        let [one, two] = [(); 2].map(|()| writer.write(&says()[1]).unwrap());
        let other = NoteWriter::new(&keys, SessionId([8; 16]), ROOM).write(&says()[1]).unwrap();
        let equal = |a: &[u8], b: &[u8]| a[HEAD..].iter().zip(&b[HEAD..]).filter(|(a, b)| a == b).count();
        assert!(equal(&one, &two) < 8 && equal(&one, &other) < 8);
    }

    #[test]
    fn names_are_short_and_printable_or_no_names() {
        assert!(is_name("") && is_name(&"a".repeat(64)) && is_name("Ωmega ✓"));
        assert!(!is_name(&"a".repeat(65)) && !is_name("a\nb") && !is_name("\u{1b}[31m"));
    }
}
