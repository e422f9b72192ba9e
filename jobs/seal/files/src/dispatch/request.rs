//! The requests of the host to the emulated module's process. A request has for each chunk:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | operation |
//! | 1 | bytes of the nonce |
//! | 1 | bytes of the key; 0 if key and associated data are those of the chunk before |
//! | 1 | bytes of associated data |
//! | 4 | bytes of text |
//! | 16 | nonce, padded with zeros |
//! | 8, 8 | with direct access: the addresses of the text and of the answer |
//! | variable | key and associated data, padded with zeros to a multiple of eight |
//! | variable | without direct access the text, padded in the same way |
//!
//! [`Request`] does not copy long texts: they go directly from the chunk into the ring.

use std::ops::Range;
use tobari_seal::{ForModule, Operation};
use zeroize::Zeroize;

/// Bytes of a chunk before its key.
const ABOUT_BYTES: usize = 24;
/// Texts of at least this length are not copied into a request.
const LONG_BYTES: usize = 4096;
/// The offset of the key's length.
const KEY_AT: usize = 2;
/// The most bytes of a chunk without its text: with the longest key, a chunk's associated data, and
/// all padding.
pub(super) const MOST_ABOUT_BYTES: usize = ABOUT_BYTES + 16 + 32 + 32 + 16;

/// A request while it is built. Its keys are wiped before the buffer is reused, and on drop.
#[derive(Default)]
pub(super) struct Request {
    bytes: Vec<u8>,
    /// Address and length of the last chunk's key and associated data. Equal values show that two
    /// chunks are of one file: all chunks of a request stay in memory until it is sent.
    last: Option<[(usize, usize); 2]>,
    keys: Vec<Range<usize>>,
    /// For each long text: its place in the request, its chunk's number, and its length.
    long: Vec<(usize, usize, usize)>,
    count: usize,
}

/// Bytes of padding up to the next multiple of eight.
fn filling(bytes: usize) -> usize {
    bytes.wrapping_neg() % 8
}

impl Request {
    /// Begins an empty request with room for `room` bytes. A buffer that grew would leave copies of
    /// its keys behind.
    pub(super) fn begin(&mut self, room: usize) {
        self.wipe();
        self.bytes.clear();
        self.last = None;
        self.long.clear();
        self.count = 0;
        self.bytes.reserve(room);
    }

    /// The number of chunks.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the whole request, long texts included.
    pub(super) fn all_bytes(&self) -> usize {
        let long = self.long.iter().map(|(_, _, bytes)| bytes + filling(*bytes));
        self.bytes.len() + long.sum::<usize>()
    }

    /// The whole request, in parts that are each padded to a multiple of eight bytes. `text`
    /// returns the text of a chunk by its number.
    pub(super) fn parts<'a>(&'a self, text: impl Fn(usize) -> &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let ends = self.long.iter().map(|(at, chunk, _)| (*at, Some(*chunk)));
        let mut start = 0;
        ends.chain([(self.bytes.len(), None)]).flat_map(move |(end, chunk)| {
            let before = &self.bytes[start..end];
            start = end;
            [before, chunk.map_or(&[][..], &text)]
        })
    }

    /// Adds a chunk. With direct access it adds the addresses of the text and of the answer,
    /// `answer_at`.
    #[inline]
    pub(super) fn add(&mut self, parts: &ForModule<'_>, answer_at: Option<u64>) -> Option<()> {
        self.add_parts(parts.operation, [parts.key, parts.nonce(), parts.data], parts.text, answer_at)
    }

    /// The same from an operation's parts: key, nonce and associated data, and text.
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

    /// Wipes the keys after their use.
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

/// Wipes the keys in a request after its use.
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
    /// The addresses of the text and of the answer in the host's memory.
    There(u64, u64),
}

/// Decodes the next chunk. `last` holds key and associated data of the chunk before, and is then
/// set to this chunk's.
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

/// Reading a request stays within its bytes, whatever they are, and wiping overwrites only keys.
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
