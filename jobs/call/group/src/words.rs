//! Words that people compare by voice.

use sha2::{Digest, Sha256};

/// Bits that the words encode: to find a key with another key's words takes `2^64` tries.
pub const WORDS_BITS: u32 = 64;

const CONSONANTS: &[u8; 16] = b"bdfghjklmnprstvz";
const VOWELS: &[u8; 4] = b"aiou";

/// Four words of five letters, from a hash of `what` (a domain) and `bytes`: 16 bits a word, as
/// consonants (4 bits) and vowels (2 bits) in turn, the proquints of D. S. Wilkerson
/// (arXiv:0901.4016).
///
/// ```
/// let words = tobari_call_group::words("somebody", &[7; 32]);
/// assert_eq!((words.len(), words.split('-').count()), (23, 4));
/// assert!(words != tobari_call_group::words("somebody", &[8; 32]));
/// ```
pub fn words(what: &str, bytes: &[u8]) -> String {
    let digest = Sha256::new()
        .chain_update(b"tobari words\x01")
        .chain_update((what.len() as u64).to_be_bytes())
        .chain_update(what)
        .chain_update(bytes)
        .finalize();
    let pairs = digest.chunks(2).take(WORDS_BITS as usize / 16);
    pairs.map(|pair| word(u16::from_be_bytes([pair[0], pair[1]]))).collect::<Vec<_>>().join("-")
}

fn word(bits: u16) -> String {
    let letter = |letters: &[u8], shift: u32| char::from(letters[usize::from(bits >> shift) % letters.len()]);
    let (consonant, vowel) = (|shift| letter(CONSONANTS, shift), |shift| letter(VOWELS, shift));
    [consonant(12), vowel(10), consonant(6), vowel(4), consonant(0)].into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_proquints_of_their_bits() {
        // of 127.0.0.1, 63.84.220.193 and 255.255.255.255, from the paper
        for (bits, expected) in
            [(0x7f00, "lusab"), (0x0001, "babad"), (0x3f54, "gutih"), (0xdcc1, "tugad"), (0xffff, "zuzuz")]
        {
            assert_eq!(word(bits), expected);
        }
    }

    #[test]
    fn what_is_named_counts_as_much_as_the_bytes() {
        let all = [words("a", b"b"), words("b", b"b"), words("a", b"c"), words("ab", b""), words("", b"ab")];
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
