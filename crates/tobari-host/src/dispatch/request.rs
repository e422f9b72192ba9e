//! What a host hands to the emulated module's process: of each chunk operation (1), bytes of the key (1) and key, bytes of the nonce (1) and nonce, bytes of associated data (1) and data, bytes of text (4), and the text, or
//! where it is (8) and where the answer goes (8).

use tobari_apps::seal::{Chunk, Operation};
use zeroize::Zeroize;

/// Adds a chunk; with direct access, where its text is, and that its answer goes to this place.
pub(super) fn encode(chunk: &Chunk, answer_at: Option<u64>, out: &mut Vec<u8>) -> Option<()> {
    let parts = chunk.for_module()?;
    encode_parts(parts.operation, [parts.key, parts.nonce(), parts.data], parts.text, answer_at, out)
}

/// The same of an operation's parts: key, nonce and associated data, and text.
pub(super) fn encode_parts(
    operation: Operation,
    shorts: [&[u8]; 3],
    text: &[u8],
    answer_at: Option<u64>,
    out: &mut Vec<u8>,
) -> Option<()> {
    out.push(operation as u8);
    for short in shorts {
        out.push(u8::try_from(short.len()).ok()?);
        out.extend_from_slice(short);
    }
    out.extend_from_slice(&u32::try_from(text.len()).ok()?.to_be_bytes());
    match answer_at {
        None => out.extend_from_slice(text),
        Some(answer_at) => {
            out.extend_from_slice(&(text.as_ptr().expose_provenance() as u64).to_be_bytes());
            out.extend_from_slice(&answer_at.to_be_bytes());
        }
    }
    Some(())
}

/// Overwrites the keys in a request that is not needed any more.
pub(super) fn wipe_keys(request: &mut [u8], direct: bool) {
    let mut at = 0;
    while let Some(bytes) = request.get(at + 1).map(|bytes| usize::from(*bytes)) {
        let Some(key) = request.get_mut(at + 2..at + 2 + bytes) else { return };
        key.zeroize();
        let (all, mut rest) = (request.len() - at, &request[at..]);
        if decode(&mut rest, direct).is_none() {
            return;
        }
        at += all - rest.len();
    }
}

pub(super) fn split<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (field, after) = rest.split_at_checked(bytes)?;
    *rest = after;
    Some(field)
}

/// Bytes after their length in one.
fn short<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let bytes = split(rest, 1)?[0];
    split(rest, usize::from(bytes))
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(split(rest, 8)?.try_into().ok()?))
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

pub(super) fn decode<'a>(rest: &mut &'a [u8], direct: bool) -> Option<Job<'a>> {
    let operation = Operation::of_number(split(rest, 1)?[0])?;
    let (key, nonce, data) = (short(rest)?, short(rest)?, short(rest)?);
    let text_bytes = u32::from_be_bytes(split(rest, 4)?.try_into().ok()?) as usize;
    let text = if direct { Text::There(number(rest)?, number(rest)?) } else { Text::Here(split(rest, text_bytes)?) };
    Some(Job { operation, key, nonce, data, text_bytes, text })
}

/// Whatever the bytes, requests are read within them, and of what is wiped only the keys are gone.
#[doc(hidden)]
pub fn fuzz_requests(data: &[u8]) {
    fn jobs(mut data: &[u8], direct: bool) -> Vec<Job<'_>> {
        std::iter::from_fn(|| decode(&mut data, direct)).collect()
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
