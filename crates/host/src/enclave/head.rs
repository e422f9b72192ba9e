//! The head of a message, on a ring and in a pipe: four words, the message's length in bytes and
//! three of the protocol.

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

/// Bytes by which a buffer grows.
const PIECE: usize = 1 << 16;

/// The three words of a head, and how many bytes follow it.
///
/// # Errors
/// [`Broken::Malformed`] for more than `limit` bytes.
pub(super) fn read(head: &Head, limit: usize) -> Result<([u64; 3], usize), Broken> {
    let mut words = [0; WORDS];
    for (word, place) in words.iter_mut().zip(head.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*place);
    }
    let [length, first, second, third] = words;
    let length = usize::try_from(length).ok().filter(|length| *length <= limit).ok_or(Broken::Malformed)?;
    Ok(([first, second, third], length))
}

/// Reads the `length` bytes that a head announces. `get` must fill its whole slice.
///
/// Bytes that the buffer already has are not cleared first: writing zeros would cost as much as the
/// copy. Beyond them the buffer grows piece by piece, **and only after the previous piece has
/// arrived**: a head alone allocates no memory.
///
/// # Errors
/// The errors of `get`. The buffer's contents are then unspecified.
pub(super) fn fill(
    buffer: &mut Vec<u8>,
    length: usize,
    mut get: impl FnMut(&mut [u8]) -> Result<(), Broken>,
) -> Result<(), Broken> {
    // on a ring, every piece except the last one is whole words
    let known = if buffer.len() < length { buffer.len() / 8 * 8 } else { length };
    buffer.truncate(known);
    get(buffer.as_mut_slice())?;
    while buffer.len() < length {
        let there = buffer.len();
        buffer.resize(length.min(there + PIECE), 0);
        get(&mut buffer[there..])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn fault_32_a_head_alone_takes_no_memory() {
        let (words, length) = read(&write([1, 2, 3], 64 << 20), 64 << 20).unwrap();
        assert_eq!((words, length), ([1, 2, 3], 64 << 20));
        assert_eq!(read(&write([1, 2, 3], (64 << 20) + 1), 64 << 20), Err(Broken::Malformed));
        for pieces in [0, 1, 5, 100] {
            let (mut buffer, mut left) = (Vec::new(), pieces * PIECE);
            let filled = fill(&mut buffer, length, |piece| {
                left = left.checked_sub(piece.len()).ok_or(Broken::Gone)?;
                Ok(())
            });
            assert_eq!(filled, Err(Broken::Gone));
            let most = 2 * (pieces + 1) * PIECE;
            assert!(buffer.capacity() <= most, "{pieces} pieces came, and there is room for {}", buffer.capacity());
        }
    }

    #[test]
    fn whatever_a_buffer_held_a_message_fills_it_in_whole_words_but_the_last() {
        for held in [0, 5, 8, 300, PIECE - 1, PIECE, 3 * PIECE + 1] {
            for length in [0, 1, 8, 299, 300, 301, PIECE, PIECE + 1, 2 * PIECE + 3, 4 * PIECE] {
                let (mut buffer, mut at) = (vec![9; held], 0_usize);
                let get = |piece: &mut [u8]| {
                    assert!(at % 8 == 0 || piece.is_empty(), "a piece begins with a word");
                    piece.iter_mut().zip(at..).for_each(|(byte, at)| *byte = (at * 31) as u8);
                    at += piece.len();
                    Ok(())
                };
                fill(&mut buffer, length, get).unwrap();
                assert_eq!(buffer.len(), length);
                assert!(buffer.iter().zip(0_usize..).all(|(byte, at)| *byte == (at * 31) as u8), "{held} {length}");
            }
        }
    }
}
