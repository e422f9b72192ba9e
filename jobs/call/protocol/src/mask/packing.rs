//! The width of masked words, and their encoding as bytes.

/// Bits of a masked word, from 16 to 29.
///
/// ```
/// use tobari_call::mask::Width;
/// assert_eq!(Width::for_senders(1024).map(Width::bits), Some(26));
/// assert_eq!(Width::for_senders(0), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width(u8);

impl Width {
    /// The smallest width.
    pub const MIN: u32 = 16;
    /// The largest width.
    pub const MAX: u32 = 29;

    /// A width of `bits` bits; none if out of range.
    pub fn new(bits: u32) -> Option<Self> {
        (Self::MIN..=Self::MAX).contains(&bits).then_some(Self(bits as u8))
    }

    /// The width for the sum of `senders` 16-bit samples, `16 + ⌈log2 n⌉` bits: `n` numbers from
    /// `-2^15` to `2^15 - 1` add up to at least `-n 2^15` and less than `n 2^15`. One bit less
    /// would be too few. More bits are not needed, because senders accept only 16-bit samples.
    /// Returns none for 0 senders and for more than 8,192.
    pub fn for_senders(senders: usize) -> Option<Self> {
        if senders == 0 || senders > 1 << (Self::MAX - Self::MIN) {
            return None;
        }
        Self::new(Self::MIN + senders.next_power_of_two().trailing_zeros())
    }

    /// The number of bits.
    pub fn bits(self) -> u32 {
        u32::from(self.0)
    }

    /// How many senders' samples can be added without loss.
    pub fn senders(self) -> usize {
        1 << (self.bits() - Self::MIN)
    }

    /// The largest word.
    pub fn largest(self) -> u32 {
        (1 << self.bits()) - 1
    }

    /// The number of least absolute value that is congruent to `word` modulo `2^w`; of two such
    /// numbers, the negative one.
    pub(super) fn centred(self, word: u32) -> i32 {
        let unused = 32 - self.bits();
        ((word << unused) as i32) >> unused
    }
}

/// The encoding of words as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// One word after the other without a gap, as one string of bits: bit `j` of word `i` is bit
    /// `i w + j`, the lowest bit of a byte first. Unused bits of the last byte are zero. A word
    /// takes 3.25 bytes if `w` is 26.
    Packed,
    /// Four bytes a word, the lowest first: no shifts are needed.
    Aligned,
}

/// Bytes that are not the canonical encoding of the expected number of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} bytes of words of {bits} bits, found {found} bytes, or bits beyond a word")]
pub struct MalformedWords {
    bits: u32,
    expected: usize,
    found: usize,
}

impl Form {
    /// Bytes of `words` words.
    pub fn encoded_len(self, width: Width, words: usize) -> usize {
        match self {
            Self::Packed => (words * width.bits() as usize).div_ceil(8),
            Self::Aligned => 4 * words,
        }
    }

    /// Writes words, which must be below `2^w`.
    pub(super) fn encode(self, width: Width, words: &[u32], out: &mut Vec<u8>) {
        out.reserve(self.encoded_len(width, words.len()));
        if self == Self::Aligned {
            return words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        }
        let (mut bits, mut held) = (0u64, 0);
        for word in words {
            bits |= u64::from(*word) << held;
            held += width.bits();
            if held >= 32 {
                out.extend_from_slice(&(bits as u32).to_le_bytes());
                bits >>= 32;
                held -= 32;
            }
        }
        out.extend_from_slice(&bits.to_le_bytes()[..held.div_ceil(8) as usize]);
    }

    /// Reads `count` words.
    pub(super) fn decode(self, width: Width, count: usize, bytes: &[u8]) -> Result<Vec<u32>, MalformedWords> {
        let expected = self.encoded_len(width, count);
        let malformed = MalformedWords { bits: width.bits(), expected, found: bytes.len() };
        if bytes.len() != expected {
            return Err(malformed);
        }
        if self == Self::Aligned {
            let words: Vec<u32> = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
            let all = words.iter().fold(0, |all, word| all | word);
            return if all > width.largest() { Err(malformed) } else { Ok(words) };
        }
        let used = count * width.bits() as usize % 8;
        if used != 0 && bytes.last().is_some_and(|last| last >> used != 0) {
            return Err(malformed);
        }
        // eight bytes from a word's first byte contain the word: at most 7 bits before it, and 29
        let mut padded = Vec::with_capacity(bytes.len() + 7);
        padded.extend_from_slice(bytes);
        padded.extend_from_slice(&[0; 7]);
        let word_at = |index: usize| {
            let bit = index * width.bits() as usize;
            let eight = padded[bit / 8..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            (eight >> (bit % 8)) as u32 & width.largest()
        };
        Ok((0..count).map(word_at).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(width: Width, count: usize) -> Vec<u32> {
        (0..count as u32).map(|i| i.wrapping_mul(0x9e37_79b9).rotate_left(7) & width.largest()).collect()
    }

    #[test]
    fn widths_are_what_exact_sums_need_and_not_a_bit_less() {
        for (senders, bits) in [(1, 16), (2, 17), (3, 18), (4, 18), (1023, 26), (1024, 26), (1025, 27), (4096, 28)] {
            let width = Width::for_senders(senders).unwrap();
            assert_eq!(width.bits(), bits, "{senders}");
            let sums = [-32_768 * senders as i64, 32_767 * senders as i64];
            let fits = |bits: u32, sum: i64| (-(1 << (bits - 1))..1 << (bits - 1)).contains(&sum);
            assert!(sums.iter().all(|sum| fits(bits, *sum)), "{senders}");
            assert!(bits == 16 || sums.iter().any(|sum| !fits(bits - 1, *sum)), "{senders}");
            assert!(width.senders() >= senders);
        }
        assert_eq!(Width::for_senders(8192).map(Width::bits), Some(29));
        assert!([0, 8193, usize::MAX].iter().all(|senders| Width::for_senders(*senders).is_none()));
        assert!([0, 15, 30, u32::MAX].iter().all(|bits| Width::new(*bits).is_none()));
    }

    #[test]
    fn words_come_back_from_both_forms_at_every_width_and_length() {
        for bits in Width::MIN..=Width::MAX {
            let width = Width::new(bits).unwrap();
            for count in [0, 1, 2, 3, 7, 8, 9, 31, 320, 321] {
                let words = words(width, count);
                for form in [Form::Packed, Form::Aligned] {
                    let mut bytes = vec![0xaa];
                    form.encode(width, &words, &mut bytes);
                    let bytes = &bytes[1..];
                    assert_eq!(bytes.len(), form.encoded_len(width, count), "{bits} {count}");
                    assert_eq!(form.decode(width, count, bytes).unwrap(), words, "{bits} {count}");
                    if form == Form::Packed {
                        let bit = |j: usize| bytes[j / 8] >> (j % 8) & 1;
                        for (i, word) in words.iter().enumerate() {
                            let read =
                                (0..bits as usize).fold(0, |sum, j| sum | u32::from(bit(i * bits as usize + j)) << j);
                            assert_eq!(read, *word);
                        }
                    }
                }
            }
        }
        assert_eq!(Form::Packed.encoded_len(Width::new(26).unwrap(), 320), 1040);
    }

    #[test]
    fn words_have_one_form_and_other_bytes_are_refused() {
        let width = Width::new(26).unwrap();
        for form in [Form::Packed, Form::Aligned] {
            let mut bytes = Vec::new();
            form.encode(width, &words(width, 3), &mut bytes);
            for length in (0..bytes.len()).chain([bytes.len() + 1]) {
                let mut other = bytes.clone();
                other.resize(length, 0);
                assert!(form.decode(width, 3, &other).is_err(), "{form:?} {length}");
            }
            // 78 bits leave two unused bits in the last byte; an aligned word has six unused bits
            let last = bytes.len() - 1;
            bytes[last] |= 0x80;
            assert!(form.decode(width, 3, &bytes).is_err(), "{form:?}");
        }
    }

    #[test]
    fn centring_gives_the_number_of_least_absolute_value() {
        let width = Width::new(17).unwrap();
        let cases = [(0, 0), (1, 1), (65_535, 65_535), (65_536, -65_536), (131_071, -1)];
        cases.iter().for_each(|(word, number)| assert_eq!(width.centred(*word), *number));
    }
}
