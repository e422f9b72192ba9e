//! A table of any keys: byte strings, and how often each occurs.
//!
//! **Numbers.** Each key has a number of one or more limbs, and limbs are compared under
//! encryption. A limb is below `2^b`, with `2^b` at most the plaintext modulus. The table has one
//! of two forms of numbers:
//!
//! - *exact*: the string as a number in bijective base 256, `((s_1 + 1) 256 + s_2 + 1) 256 + …`.
//!   Different strings have different numbers, also if their lengths differ. All strings of at most
//!   `n` bytes are below `256 + 256^2 + … + 256^n`: with `b = 39`, one limb has room for 4 bytes
//!   and two limbs for 9. The table takes the fewest limbs with room for its longest key. A longer
//!   string is not a key of the table. Its number is the last number of the limbs, which no key
//!   has, so a question for it does not show.
//! - *fingerprint*: the first bits of `SHA-256("tobari search key" || K || s)`. `K` is drawn for
//!   the table, and public. If two keys of the table have one number, another `K` is drawn, so all
//!   answers about keys of the table are right. Another string, if it does not depend on `K`, has
//!   the number of a given key with probability `2^-(limbs b)`, and the number of one of `n` keys
//!   with probability at most `n` times that ([`KeyRule::false_positive_log2`]).
//!
//! Counts of equal keys are added up.

use rand_core::CryptoRng;
use sha2::{Digest, Sha256};

/// The most entries of a table, equal keys counted each.
pub const MAX_KEYS: usize = 1 << 27;
/// The most bytes of a key.
pub const MAX_KEY_BYTES: usize = 1 << 16;
/// The most limbs of a number.
pub const MAX_LIMBS: u8 = 3;
/// Bits of a limb under a plaintext modulus above `2^39`. Tables of keys use moduli near `2^40`,
/// all of them above `2^39`.
pub const LIMB_BITS: u8 = 39;
/// The largest count: far below a plaintext modulus near `2^40`, and with room in a file's 32 bits.
pub const MAX_COUNT: u64 = u32::MAX as u64;
/// Bytes of the key of fingerprints.
pub const FINGERPRINT_KEY_BYTES: usize = 32;
/// The most draws of a key of fingerprints before the table is rejected.
const DRAWS: usize = 16;

/// Why a table of keys is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyTableError {
    /// No keys, or too many.
    #[error("expected 1 to {MAX_KEYS} keys, found {found}")]
    Keys {
        /// The number of keys.
        found: usize,
    },
    /// A key is empty or too long.
    #[error("expected a key of 1 to {MAX_KEY_BYTES} bytes in entry {entry}, found {found}")]
    Length {
        /// The number of the entry, from 1.
        entry: usize,
        /// Bytes.
        found: usize,
    },
    /// A count is zero, or too large together with earlier equal keys.
    #[error("expected a count of 1 to {most} in entry {entry}, those of the same key before it added, found {found}")]
    Count {
        /// The number of the entry, from 1.
        entry: usize,
        /// The largest count.
        most: u64,
        /// The count.
        found: u64,
    },
    /// The rule does not exist.
    #[error("malformed rule of keys: {0}")]
    Rule(&'static str),
    /// Numbers or counts that do not fit the rule.
    #[error("malformed table of keys: {0}")]
    Parts(&'static str),
    /// Every key of fingerprints that was drawn had a collision.
    #[error("expected keys with different fingerprints of {bits} bits, found two with the same, again and again")]
    Collision {
        /// Bits of a number.
        bits: u32,
    },
}

/// The form of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// Different numbers for all strings up to a length.
    Exact {
        /// The longest string, in bytes.
        most_bytes: u8,
    },
    /// Numbers for all strings, under this public key.
    Fingerprint([u8; FINGERPRINT_KEY_BYTES]),
}

/// The rule that makes numbers of keys. A client needs it to ask for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRule {
    limb_bits: u8,
    limbs: u8,
    form: KeyForm,
}

/// The greatest length for which all strings have different numbers of `bits` bits, with the last
/// number left out.
fn most_bytes(bits: u32) -> u8 {
    let (mut all, mut bytes) = (0u128, 0);
    while let Some(more) = all.checked_add(1).and_then(|next| next.checked_mul(256)) {
        if more >= (1 << bits) - 1 {
            break;
        }
        (all, bytes) = (more, bytes + 1);
    }
    bytes
}

impl KeyRule {
    /// A rule with `limbs` limbs of `limb_bits` bits.
    ///
    /// # Errors
    /// [`KeyTableError::Rule`] unless there are 1 to [`MAX_LIMBS`] limbs of 16 to 39 bits, and an
    /// exact form fits them.
    pub fn new(limb_bits: u8, limbs: u8, form: KeyForm) -> Result<Self, KeyTableError> {
        if !(16..=LIMB_BITS).contains(&limb_bits) || !(1..=MAX_LIMBS).contains(&limbs) {
            return Err(KeyTableError::Rule("limbs"));
        }
        let rule = Self { limb_bits, limbs, form };
        match form {
            KeyForm::Exact { most_bytes: bytes } if bytes == 0 || bytes > most_bytes(rule.bits()) => {
                Err(KeyTableError::Rule("bytes of an exact key"))
            }
            _ => Ok(rule),
        }
    }

    /// Bits of a number.
    pub fn bits(&self) -> u32 {
        u32::from(self.limb_bits) * u32::from(self.limbs)
    }

    /// Bits of a limb.
    pub fn limb_bits(&self) -> u8 {
        self.limb_bits
    }

    /// Limbs of a number.
    pub fn limbs(&self) -> u8 {
        self.limbs
    }

    /// The form of numbers.
    pub fn form(&self) -> &KeyForm {
        &self.form
    }

    /// A key's number, below `2^bits`. A key too long for an exact rule is in no table of the rule;
    /// it has the last number, which no key has.
    pub fn key_number(&self, key: &[u8]) -> u128 {
        match &self.form {
            KeyForm::Exact { most_bytes } if key.is_empty() || key.len() > usize::from(*most_bytes) => {
                (1 << self.bits()) - 1
            }
            KeyForm::Exact { .. } => key.iter().fold(0, |number, byte| number * 256 + u128::from(*byte) + 1),
            KeyForm::Fingerprint(secretless) => {
                let digest =
                    Sha256::new().chain_update(b"tobari search key").chain_update(secretless).chain_update(key);
                let first = digest.finalize().iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte));
                first >> (128 - self.bits())
            }
        }
    }

    /// The limbs of a number, the lowest first, each below `2^limb_bits`.
    pub fn split(&self, number: u128) -> impl Iterator<Item = u64> + use<> {
        let bits = self.limb_bits;
        (0..u32::from(self.limbs)).map(move |limb| (number >> (limb * u32::from(bits)) & ((1 << bits) - 1)) as u64)
    }

    /// `log2` of a bound on the probability that a string that is not a key is taken for one of
    /// `entries` keys. None for an exact rule, under which this cannot happen.
    pub fn false_positive_log2(&self, entries: u64) -> Option<f64> {
        match self.form {
            KeyForm::Exact { .. } => None,
            KeyForm::Fingerprint(_) => Some((entries.max(1) as f64).log2() - f64::from(self.bits())),
        }
    }
}

/// Keys and their counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTable {
    rule: KeyRule,
    /// Ascending and different.
    numbers: Vec<u128>,
    counts: Vec<u32>,
}

impl KeyTable {
    /// A table of ascending, different numbers and as many counts.
    ///
    /// # Errors
    /// [`KeyTableError`].
    pub fn from_parts(rule: KeyRule, numbers: Vec<u128>, counts: Vec<u32>) -> Result<Self, KeyTableError> {
        if !(1..=MAX_KEYS).contains(&numbers.len()) {
            return Err(KeyTableError::Keys { found: numbers.len() });
        }
        if counts.len() != numbers.len() || counts.contains(&0) {
            return Err(KeyTableError::Parts("counts"));
        }
        let last = match rule.form {
            // 1 + 256 + … + 256^n, less one
            KeyForm::Exact { most_bytes } => (0..most_bytes).fold(0, |all, _| (all + 1) * 256),
            KeyForm::Fingerprint(_) => (1 << rule.bits()) - 1,
        };
        let first = u128::from(matches!(rule.form, KeyForm::Exact { .. }));
        let inside = numbers.iter().all(|number| (first..=last).contains(number));
        if !inside || !numbers.is_sorted_by(|a, b| a < b) {
            return Err(KeyTableError::Parts("numbers"));
        }
        Ok(Self { rule, numbers, counts })
    }

    /// The rule that makes the numbers.
    pub fn rule(&self) -> &KeyRule {
        &self.rule
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether the table has no key.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// All numbers, ascending, with their counts.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (u128, u32)> {
        self.numbers.iter().copied().zip(self.counts.iter().copied())
    }

    /// How often a key occurs.
    pub fn count(&self, key: &[u8]) -> u32 {
        self.numbers.binary_search(&self.rule.key_number(key)).map_or(0, |place| self.counts[place])
    }
}

/// Collects the entries of a table of keys.
#[derive(Clone, Debug, Default)]
pub struct KeyTableBuilder {
    bytes: Vec<u8>,
    /// The end of each key.
    ends: Vec<usize>,
    counts: Vec<u32>,
    longest: usize,
}

impl KeyTableBuilder {
    /// A builder without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of entries, equal keys counted each.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`KeyTableError`], with the number of the entry, from 1.
    pub fn push(&mut self, key: &[u8], count: u64) -> Result<(), KeyTableError> {
        let entry = self.len() + 1;
        if entry > MAX_KEYS {
            return Err(KeyTableError::Keys { found: entry });
        }
        if !(1..=MAX_KEY_BYTES).contains(&key.len()) {
            return Err(KeyTableError::Length { entry, found: key.len() });
        }
        let narrow = u32::try_from(count).ok().filter(|count| *count > 0);
        self.counts.push(narrow.ok_or(KeyTableError::Count { entry, most: MAX_COUNT, found: count })?);
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        self.longest = self.longest.max(key.len());
        Ok(())
    }

    fn key(&self, index: u32) -> &[u8] {
        let start = (index as usize).checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index as usize]]
    }

    /// The table, with limbs of `limb_bits` bits and counts of at most `most`. Long keys draw a key
    /// of fingerprints from `rng`; short keys draw nothing.
    ///
    /// # Errors
    /// [`KeyTableError`].
    pub fn finish(&self, limb_bits: u8, most: u64, rng: &mut impl CryptoRng) -> Result<KeyTable, KeyTableError> {
        if self.is_empty() {
            return Err(KeyTableError::Keys { found: 0 });
        }
        for limbs in 1..=2 {
            if let Ok(most_bytes) = u8::try_from(self.longest)
                && let Ok(rule) = KeyRule::new(limb_bits, limbs, KeyForm::Exact { most_bytes })
            {
                return self.table(rule, most)?.ok_or(KeyTableError::Parts("numbers"));
            }
        }
        let bits = 2 * u32::from(limb_bits);
        for _ in 0..DRAWS {
            let mut key = [0; FINGERPRINT_KEY_BYTES];
            rng.fill_bytes(&mut key);
            if let Some(table) = self.table(KeyRule::new(limb_bits, 2, KeyForm::Fingerprint(key))?, most)? {
                return Ok(table);
            }
        }
        Err(KeyTableError::Collision { bits })
    }

    /// The table under a rule; none if two keys have the same number.
    fn table(&self, rule: KeyRule, most: u64) -> Result<Option<KeyTable>, KeyTableError> {
        let mut all: Vec<(u128, u32)> =
            (0..self.len() as u32).map(|index| (rule.key_number(self.key(index)), index)).collect();
        all.sort_unstable();
        let (mut numbers, mut counts) = (Vec::with_capacity(all.len()), Vec::with_capacity(all.len()));
        for same in all.chunk_by(|a, b| a.0 == b.0) {
            let (number, first) = same[0];
            let mut sum = 0u64;
            for (_, index) in same {
                if self.key(*index) != self.key(first) {
                    return Ok(None);
                }
                sum += u64::from(self.counts[*index as usize]);
                if sum > most.min(MAX_COUNT) {
                    let entry = *index as usize + 1;
                    return Err(KeyTableError::Count { entry, most: most.min(MAX_COUNT), found: sum });
                }
            }
            numbers.push(number);
            counts.push(sum as u32);
        }
        KeyTable::from_parts(rule, numbers, counts).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
    use std::collections::{BTreeMap, BTreeSet};

    fn rng() -> ChaCha20Rng {
        ChaCha20Rng::from_seed([7; 32])
    }

    fn table(keys: &[(&[u8], u64)]) -> Result<KeyTable, KeyTableError> {
        let mut builder = KeyTableBuilder::new();
        for (key, count) in keys {
            builder.push(key, *count)?;
        }
        builder.finish(LIMB_BITS, MAX_COUNT, &mut rng())
    }

    #[test]
    fn all_short_strings_have_numbers_of_their_own_below_the_last() {
        let rule = KeyRule::new(17, 1, KeyForm::Exact { most_bytes: 2 }).unwrap();
        let one = (0..=255u8).map(|a| vec![a]);
        let two = (0..=255u8).flat_map(|a| (0..=255u8).map(move |b| vec![a, b]));
        let numbers: BTreeSet<u128> = one.chain(two).map(|key| rule.key_number(&key)).collect();
        assert_eq!(numbers, (1..=65_792).collect());
        assert_eq!(rule.key_number(&[0; 3]), (1 << 17) - 1);
        assert_eq!(rule.key_number(&[]), (1 << 17) - 1);
        assert!(!numbers.contains(&((1 << 17) - 1)));
    }

    #[test]
    fn the_fewest_limbs_with_room_for_the_longest_key_are_taken() {
        let rule = |bytes: usize| *table(&[(&vec![255; bytes], 1)]).unwrap().rule();
        let exact = |bytes: usize, limbs| {
            assert_eq!((rule(bytes).limbs(), *rule(bytes).form()), (limbs, KeyForm::Exact { most_bytes: bytes as u8 }));
            assert_eq!(rule(bytes).false_positive_log2(1 << 20), None);
        };
        (1..=4).for_each(|bytes| exact(bytes, 1));
        (5..=9).for_each(|bytes| exact(bytes, 2));
        for bytes in [10, 300] {
            assert!(matches!(rule(bytes).form(), KeyForm::Fingerprint(_)), "{bytes}");
            assert_eq!(rule(bytes).false_positive_log2(1 << 20), Some(-58.0));
        }
        for refused in [(15, 1, 1), (40, 1, 1), (39, 0, 1), (39, 4, 1), (39, 1, 5), (39, 2, 10), (39, 1, 0)] {
            let (bits, limbs, most_bytes) = refused;
            assert!(KeyRule::new(bits, limbs, KeyForm::Exact { most_bytes }).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn limbs_are_the_number() {
        for rule in [KeyForm::Exact { most_bytes: 9 }, KeyForm::Fingerprint([3; 32])] {
            let rule = KeyRule::new(39, 2, rule).unwrap();
            let number = rule.key_number(b"ninebytes");
            let limbs: Vec<u64> = rule.split(number).collect();
            assert!(limbs.len() == 2 && limbs.iter().all(|limb| *limb < 1 << 39));
            assert_eq!(u128::from(limbs[0]) | u128::from(limbs[1]) << 39, number);
        }
    }

    #[test]
    fn counts_are_those_of_a_map_and_equal_keys_add_up() {
        for long in [0, 20] {
            let keys: Vec<Vec<u8>> =
                (0..2_000u32).map(|i| (i.pow(2) % 977).to_be_bytes()[2..].repeat(1 + long)).collect();
            let mut map: BTreeMap<&[u8], u64> = BTreeMap::new();
            let all: Vec<(&[u8], u64)> = keys.iter().map(|key| (&key[..], 1 + u64::from(key[0]))).collect();
            all.iter().for_each(|(key, count)| *map.entry(key).or_default() += count);
            let table = table(&all).unwrap();
            assert_eq!(table.len(), map.len());
            assert!(map.iter().all(|(key, count)| u64::from(table.count(key)) == *count));
            for absent in [&b""[..], b"absent", &[0; 70_000]] {
                assert_eq!(table.count(absent), 0);
            }
        }
    }

    #[test]
    fn counts_that_are_zero_or_too_large_are_refused_by_their_entry() {
        let found = |keys: &[(&[u8], u64)]| table(keys).unwrap_err();
        let most = MAX_COUNT;
        assert_eq!(found(&[(b"a", 1), (b"b", 0)]), KeyTableError::Count { entry: 2, most, found: 0 });
        assert_eq!(found(&[(b"a", most + 1)]), KeyTableError::Count { entry: 1, most, found: most + 1 });
        let sum = [(&b"a"[..], most), (b"b", most), (b"a", 1)];
        assert_eq!(found(&sum), KeyTableError::Count { entry: 3, most, found: most + 1 });
        assert_eq!(found(&[(b"", 1)]), KeyTableError::Length { entry: 1, found: 0 });
        assert_eq!(found(&[]), KeyTableError::Keys { found: 0 });
        let mut builder = KeyTableBuilder::new();
        builder.push(b"a", 70_000).unwrap();
        let refused = builder.finish(LIMB_BITS, 65_535, &mut rng()).unwrap_err();
        assert_eq!(refused, KeyTableError::Count { entry: 1, most: 65_535, found: 70_000 });
    }

    #[test]
    fn another_key_of_fingerprints_is_drawn_where_two_keys_collide() {
        // 2^17 pairs of 32 bits: a draw has a collision more often than not
        let mut builder = KeyTableBuilder::new();
        (0..100_000u32).for_each(|i| builder.push(format!("a key of more bytes {i}").as_bytes(), 1).unwrap());
        let mut draws = rng();
        let table = builder.finish(16, MAX_COUNT, &mut draws).unwrap();
        assert_eq!(table.len(), 100_000);
        let mut first = rng();
        let mut key = [0; FINGERPRINT_KEY_BYTES];
        first.fill_bytes(&mut key);
        assert_ne!(*table.rule().form(), KeyForm::Fingerprint(key), "the first draw was good: choose another seed");
        use chacha20::rand_core::Rng;
    }
}
