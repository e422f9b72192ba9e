//! What stands before a message's bytes, on a ring as in a pipe: four words, its length in bytes and three of the protocol.

use super::ring::Broken;

/// Words before a message's bytes.
const WORDS: usize = 4;

/// The bytes of a head.
pub(super) type Head = [u8; 8 * WORDS];

/// A head before anything is read into it.
pub(super) const EMPTY: Head = [0; 8 * WORDS];

/// The head of a message of `length` bytes.
pub(super) fn write(words: [u64; 3], length: usize) -> Head {
    let mut head = EMPTY;
    for (place, word) in head.as_chunks_mut::<8>().0.iter_mut().zip([length as u64].into_iter().chain(words)) {
        *place = word.to_le_bytes();
    }
    head
}

/// The three words of a head; makes `buffer` as long as the message that follows, whatever it then holds: filling it with zeros would cost as much as
/// the copy.
///
/// # Errors
/// [`Broken::Malformed`] for more than `limit` bytes; the buffer is left as it was.
pub(super) fn read(head: &Head, buffer: &mut Vec<u8>, limit: usize) -> Result<[u64; 3], Broken> {
    let mut words = [0; WORDS];
    for (word, place) in words.iter_mut().zip(head.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*place);
    }
    let [length, first, second, third] = words;
    let length = usize::try_from(length).ok().filter(|length| *length <= limit).ok_or(Broken::Malformed)?;
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    buffer.truncate(length);
    Ok([first, second, third])
}
