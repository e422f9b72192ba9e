//! What a host hands to the emulated module's process. Of each chunk:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | operation |
//! | 1 | bytes of the nonce |
//! | 1 | bytes of the key; 0 where key and associated data are those of the chunk before |
//! | 1 | bytes of associated data |
//! | 4 | bytes of text |
//! | 16 | nonce, filled up with zeros |
//! | 8, 8 | with direct access: where the text is, and where the answer goes |
//! | so many | key and associated data, filled up with zeros to a multiple of eight |
//! | so many | without direct access the text, filled up so, too |
//!
//! Long texts are no part of [`Request`]: they go into the ring from where they are.

use std::ops::Range;
use tobari_seal::{ForModule, Operation};
use zeroize::Zeroize;

/// Bytes of a chunk before its key.
const ABOUT_BYTES: usize = 24;
/// Texts from this length on are not copied into a request.
const LONG_BYTES: usize = 4096;
/// Where it says how long its key is.
const KEY_AT: usize = 2;
/// Bytes of a chunk beside its text, at most: with the longest key, associated data of a chunk, and
/// what fills both and the text up.
pub(super) const MOST_ABOUT_BYTES: usize = ABOUT_BYTES + 16 + 32 + 32 + 16;

/// A request, as it is put together. Its keys are overwritten before it is used for another, and at
/// the end.
#[derive(Default)]
pub(super) struct Request {
    bytes: Vec<u8>,
    /// Key and associated data of the last chunk: where they are in memory, and how long, by which
    /// two chunks of one file are known. All of a request are there until it is sent.
    last: Option<[(usize, usize); 2]>,
    keys: Vec<Range<usize>>,
    /// Where long texts belong, and of which chunk, with how many bytes.
    long: Vec<(usize, usize, usize)>,
    count: usize,
}

/// Bytes up to the next multiple of eight.
fn filling(bytes: usize) -> usize {
    bytes.wrapping_neg() % 8
}

impl Request {
    /// Nothing in it, and room for so many bytes: one that grew would leave its keys where it was.
    pub(super) fn begin(&mut self, room: usize) {
        self.wipe();
        self.bytes.clear();
        self.last = None;
        self.long.clear();
        self.count = 0;
        self.bytes.reserve(room);
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of all of it, long texts included.
    pub(super) fn all_bytes(&self) -> usize {
        let long = self.long.iter().map(|(_, _, bytes)| bytes + filling(*bytes));
        self.bytes.len() + long.sum::<usize>()
    }

    /// All of it, in parts that are each filled up to a multiple of eight bytes; `text` answers the
    /// texts of the chunks by number.
    pub(super) fn parts<'a>(&'a self, text: impl Fn(usize) -> &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let ends = self.long.iter().map(|(at, chunk, _)| (*at, Some(*chunk)));
        let mut start = 0;
        ends.chain([(self.bytes.len(), None)]).flat_map(move |(end, chunk)| {
            let before = &self.bytes[start..end];
            start = end;
            [before, chunk.map_or(&[][..], &text)]
        })
    }

    /// Adds a chunk; with direct access, where its text is, and that its answer goes to this place.
    #[inline]
    pub(super) fn add(&mut self, parts: &ForModule<'_>, answer_at: Option<u64>) -> Option<()> {
        self.add_parts(parts.operation, [parts.key, parts.nonce(), parts.data], parts.text, answer_at)
    }

    /// The same of an operation's parts: key, nonce and associated data, and text.
    #[inline]
    pub(super) fn add_parts(
        &mut self,
        operation: Operation,
        [key, nonce, data]: [&[u8]; 3],
        text: &[u8],
        answer_at: Option<u64>,
    ) -> Option<()> {
        let these = Some([key, data].map(|field| (field.as_ptr().addr(), field.len())));
        let again = self.last == these;
        let mut about = [0; ABOUT_BYTES + 16];
        about[0] = operation as u8;
        about[1] = u8::try_from(nonce.len()).ok()?;
        about[4..8].copy_from_slice(&u32::try_from(text.len()).ok()?.to_be_bytes());
        about[8..24].get_mut(..nonce.len())?.copy_from_slice(nonce);
        if !again {
            (about[KEY_AT], about[3]) =
                (u8::try_from(key.len()).ok().filter(|bytes| *bytes > 0)?, u8::try_from(data.len()).ok()?);
        }
        match answer_at {
            None => self.bytes.extend_from_slice(&about[..ABOUT_BYTES]),
            Some(answer_at) => {
                about[24..32].copy_from_slice(&(text.as_ptr().expose_provenance() as u64).to_be_bytes());
                about[32..].copy_from_slice(&answer_at.to_be_bytes());
                self.bytes.extend_from_slice(&about);
            }
        }
        if !again {
            let at = self.bytes.len();
            self.keys.push(at..at + key.len());
            self.bytes.extend_from_slice(key);
            self.bytes.extend_from_slice(data);
            self.fill_up();
        }
        if answer_at.is_none() && text.len() < LONG_BYTES {
            self.bytes.extend_from_slice(text);
            self.fill_up();
        } else if answer_at.is_none() {
            self.long.push((self.bytes.len(), self.count, text.len()));
        }
        (self.last, self.count) = (these, self.count + 1);
        Some(())
    }

    fn fill_up(&mut self) {
        let filling = filling(self.bytes.len());
        self.bytes.extend_from_slice(&[0; 8][..filling]);
    }

    /// Overwrites the keys, which nobody needs any more.
    pub(super) fn wipe(&mut self) {
        for key in self.keys.drain(..) {
            self.bytes[key].zeroize();
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.bytes.zeroize(); // texts, too
    }
}

/// Overwrites the keys in a request that was read and is not needed any more.
pub(super) fn wipe_keys(request: &mut [u8], direct: bool) {
    let mut at = 0;
    while let Some(bytes) = request.get(at + KEY_AT).map(|bytes| usize::from(*bytes)) {
        let (all, mut rest) = (request.len() - at, &request[at..]);
        if decode(&mut rest, direct, &mut Some((&[], &[]))).is_none() {
            return;
        }
        let (key, next) = (at + if direct { ABOUT_BYTES + 16 } else { ABOUT_BYTES }, at + all - rest.len());
        if let Some(key) = request.get_mut(key..key + bytes) {
            key.zeroize();
        }
        at = next;
    }
}

fn split<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (field, after) = rest.split_at_checked(bytes)?;
    *rest = after;
    Some(field)
}

fn number(field: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(field.try_into().ok()?))
}

/// One chunk, as the process reads it.
pub(super) struct Job<'a> {
    pub(super) operation: Operation,
    pub(super) key: &'a [u8],
    pub(super) nonce: &'a [u8],
    pub(super) data: &'a [u8],
    pub(super) text_bytes: usize,
    pub(super) text: Text<'a>,
}

pub(super) enum Text<'a> {
    Here(&'a [u8]),
    /// Where in the host's memory, and where its answer goes.
    There(u64, u64),
}

/// The next chunk; `last` has key and associated data of the one before, and then of this one.
pub(super) fn decode<'a>(
    rest: &mut &'a [u8],
    direct: bool,
    last: &mut Option<(&'a [u8], &'a [u8])>,
) -> Option<Job<'a>> {
    let about = split(rest, if direct { ABOUT_BYTES + 16 } else { ABOUT_BYTES })?;
    let operation = Operation::of_number(about[0])?;
    let nonce = about[8..24].get(..usize::from(about[1]))?;
    let (key_bytes, data_bytes) = (usize::from(about[KEY_AT]), usize::from(about[3]));
    if key_bytes > 0 {
        *last = Some((split(rest, key_bytes)?, split(rest, data_bytes)?));
        split(rest, filling(key_bytes + data_bytes))?;
    }
    let (key, data) = last.as_ref().filter(|_| key_bytes > 0 || data_bytes == 0)?;
    let text_bytes = u32::from_be_bytes(about[4..8].try_into().ok()?) as usize;
    let text = if direct {
        Text::There(number(&about[24..32])?, number(&about[32..])?)
    } else {
        let text = split(rest, text_bytes)?;
        split(rest, filling(text_bytes))?;
        Text::Here(text)
    };
    Some(Job { operation, key, nonce, data, text_bytes, text })
}

/// Whatever the bytes, requests are read within them, and of what is wiped only the keys are gone.
#[doc(hidden)]
pub fn fuzz_requests(data: &[u8]) {
    fn jobs(mut data: &[u8], direct: bool) -> Vec<Job<'_>> {
        let mut last = None;
        std::iter::from_fn(|| decode(&mut data, direct, &mut last)).collect()
    }
    for direct in [false, true] {
        let mut wiped = data.to_vec();
        wipe_keys(&mut wiped, direct);
        let (before, after) = (jobs(data, direct), jobs(&wiped, direct));
        assert_eq!(before.len(), after.len());
        for (before, after) in before.iter().zip(&after) {
            assert!(after.key.len() == before.key.len() && after.key.iter().all(|byte| *byte == 0));
            assert_eq!((before.nonce, before.data, before.text_bytes), (after.nonce, after.data, after.text_bytes));
            assert!(!matches!(before.text, Text::Here(text) if text.len() != before.text_bytes));
        }
    }
}
