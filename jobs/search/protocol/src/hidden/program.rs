//! The computation on plaintext: the block of a key, and the numbers that stand for the key there.
//!
//! A [`Permutation`] maps a key to a number `y`. Of `B` blocks the key is in block `y mod B`, and
//! only the rest `z = ⌊y/B⌋` has to be compared: **the block number is not stored**. For keys of 27
//! bits in 2^8 blocks this leaves 19 bits. The rest is written in limbs of base `t - 1`. The value
//! `t - 1` itself marks slots without an entry, and no key has it.
//!
//! A count is written in one or two digits of base `t`, each a polynomial of its own. The greatest
//! possible count of a table decides how many; a table of keys has as many as its greatest count.
//!
//! A table is **exact** if all its rests fit one limb: `⌈keys/B⌉ ≤ t - 1`. For longer rests the
//! lowest limbs are a fingerprint. Then an absent key is taken for another key with probability at
//! most `2 S / (t - 1)^limbs`, where `S` is the number of slots of a block. This covers entries of
//! the block that agree in all limbs, and slots whose masks all vanish ([`super::server`]).

use super::permutation::{KEY_BYTES, Permutation};
use tobari_lattice::ring::Modulus;

/// The target for false matches, `2^-40`: a layout takes more limbs if false matches are likelier.
pub const FALSE_POSITIVE_BITS: u32 = 40;
/// The most limbs of a fingerprint.
pub const MAX_LIMBS: usize = 8;
/// The most digits of a count: with `t` above 2^16, they hold every count of 32 bits.
pub const MAX_DIGITS: usize = 2;
/// The most pages of a block.
pub const MAX_PAGES: usize = 64;
/// The share of slots that are filled, in tenths.
const LOAD: usize = 9;

/// How a table is divided into blocks. The layout is public; the client computes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    permutation: Permutation,
    blocks: usize,
    pages: usize,
    limbs: usize,
    digits: usize,
}

/// The table has no layout, or the key is not in the range of the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// More entries than the blocks have room for, or impossible sizes.
    #[error(
        "expected 1 to {most} blocks of 1 to {MAX_PAGES} pages and 1 to {MAX_LIMBS} limbs, found {blocks} blocks of {pages} pages and {limbs} limbs"
    )]
    Size {
        /// The most blocks.
        most: usize,
        /// The number of blocks.
        blocks: usize,
        /// The number of pages.
        pages: usize,
        /// The number of limbs.
        limbs: usize,
    },
    /// The number is beyond the last key.
    #[error("expected a key of at most {bits} bits, below the table's last, found a larger one")]
    Key {
        /// Bits of the last key.
        bits: u32,
    },
}

impl Layout {
    /// The layout of these sizes.
    ///
    /// # Errors
    /// [`LayoutError::Size`]: a query has a coefficient for each block and each limb.
    pub fn new(
        permutation: Permutation,
        slots: usize,
        blocks: usize,
        pages: usize,
        limbs: usize,
    ) -> Result<Self, LayoutError> {
        let most = slots.saturating_sub(limbs);
        let good = (1..=most).contains(&blocks) && (1..=MAX_PAGES).contains(&pages) && (1..=MAX_LIMBS).contains(&limbs);
        let layout = Self { permutation, blocks, pages, limbs, digits: 1 };
        good.then_some(layout).ok_or(LayoutError::Size { most, blocks, pages, limbs })
    }

    /// The same layout for counts up to `most`, which is below 2^32: in two digits where one has no
    /// room.
    #[must_use]
    pub fn counting(self, most: u64, t: &Modulus) -> Self {
        self.with_digits(if most < t.value() { 1 } else { MAX_DIGITS })
    }

    /// The same layout with so many digits of a count: 1 or 2.
    pub(super) fn with_digits(self, digits: usize) -> Self {
        Self { digits, ..self }
    }

    /// The layout for so many entries under keys up to `last`, in blocks of `pages` pages of
    /// `slots` slots, with nine tenths of the slots filled. The layout is exact if that takes no
    /// more than twice the blocks. Otherwise it has as many limbs as [`FALSE_POSITIVE_BITS`]
    /// demands.
    ///
    /// # Errors
    /// [`LayoutError::Size`].
    pub fn choose(
        key: [u8; KEY_BYTES],
        last: u128,
        entries: usize,
        (slots, t): (usize, &Modulus),
        pages: usize,
    ) -> Result<Self, LayoutError> {
        let permutation = Permutation::new(key, last);
        let full =
            (entries.saturating_mul(10)).div_ceil(slots.saturating_mul(pages).saturating_mul(LOAD).max(1)).max(1);
        let exact = (last / u128::from(t.value() - 1)).saturating_add(1);
        if let Ok(exact) = usize::try_from(exact)
            && exact <= full.saturating_mul(2)
            && let Ok(layout) = Self::new(permutation.clone(), slots, full.max(exact), pages, 1)
        {
            return Ok(layout);
        }
        let wide = |limbs: usize| Self::new(permutation.clone(), slots, full, pages, limbs);
        let fits =
            |layout: &Self| layout.false_positives(slots, t).is_none_or(|bits| bits <= -f64::from(FALSE_POSITIVE_BITS));
        (1..MAX_LIMBS).filter_map(|limbs| wide(limbs).ok()).find(fits).map_or_else(|| wide(MAX_LIMBS), Ok)
    }

    /// The permutation of keys.
    pub fn permutation(&self) -> &Permutation {
        &self.permutation
    }

    /// The number of blocks, which are the entries of the selector.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Pages of a block. Each page is the slots of one polynomial.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// The number of limbs that are compared.
    pub fn limbs(&self) -> usize {
        self.limbs
    }

    /// The number of digits of a count.
    pub fn digits(&self) -> usize {
        self.digits
    }

    /// Polynomials of a page: its limbs, then the digits of its counts, lowest first.
    pub fn page_polynomials(&self) -> usize {
        self.limbs + self.digits
    }

    /// Polynomials of a block.
    pub fn polynomials(&self) -> usize {
        self.pages * self.page_polynomials()
    }

    /// The digits of a count, lowest first.
    pub fn digits_of(&self, t: &Modulus, count: u64) -> impl Iterator<Item = u64> + use<> {
        let t = t.value();
        (0..self.digits).scan(count, move |rest, _| {
            let digit = *rest % t;
            *rest /= t;
            Some(digit)
        })
    }

    /// `log2` of a bound on the probability that the answer for an absent key says that the key
    /// occurs; none if that is impossible.
    pub fn false_positives(&self, slots: usize, t: &Modulus) -> Option<f64> {
        let last = self.permutation.last() / self.blocks as u128;
        let base = t.value() - 1;
        let exact = self.limbs == 1 && last < u128::from(base);
        (!exact).then(|| 1.0 + ((slots * self.pages) as f64).log2() - self.limbs as f64 * (base as f64).log2())
    }

    /// The block of a key, and the part of the rest that is compared: below `(t - 1)^limbs`.
    ///
    /// # Errors
    /// [`LayoutError::Key`] for a number beyond the last key.
    pub fn divide(&self, t: &Modulus, key: u128) -> Result<(usize, u128), LayoutError> {
        let bits = u128::BITS - self.permutation.last().leading_zeros();
        let moved = self.permutation.of(key).ok_or(LayoutError::Key { bits })?;
        let (block, rest) = ((moved % self.blocks as u128) as usize, moved / self.blocks as u128);
        let values = u128::from(t.value() - 1).checked_pow(self.limbs as u32);
        Ok((block, values.map_or(rest, |values| rest % values)))
    }

    /// The limbs that are compared, lowest first.
    pub fn limbs_of(&self, t: &Modulus, rest: u128) -> impl Iterator<Item = u64> {
        let base = u128::from(t.value() - 1);
        (0..self.limbs).scan(rest, move |rest, _| {
            let limb = (*rest % base) as u64;
            *rest /= base;
            Some(limb)
        })
    }
}

/// The answer to a query, computed on plaintext: how often the key occurs, zero if it does not.
pub fn answer(entries: &[(u128, u64)], key: u128) -> u64 {
    entries.iter().find(|entry| entry.0 == key).map_or(0, |entry| entry.1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;

    fn t() -> Modulus {
        Modulus::new(1_032_193).unwrap()
    }

    /// Windows of ten sites at 100,000 places, 2 million entries.
    #[test]
    fn a_panel_of_short_patterns_is_exact_and_a_table_of_long_keys_says_how_often_it_errs() {
        let chosen =
            |last, entries, pages| Layout::choose([1; KEY_BYTES], last, entries, (8_192, &t()), pages).unwrap();
        let short = chosen(100_000 * 1_024 - 1, 2_000_000, 1);
        assert_eq!((short.blocks(), short.limbs(), short.false_positives(8_192, &t())), (272, 1, None));
        // 68 blocks of four pages would hold the entries; 100 blocks make the layout exact
        let wide = chosen(100_000 * 1_024 - 1, 2_000_000, 4);
        assert_eq!((wide.blocks(), wide.false_positives(8_192, &t())), (100, None));
        for (last, entries, pages, blocks) in
            [((1 << 117) - 1, 30_000_000, 1, 4_070), (u128::MAX, 10_000_000, 1, 1_357), (u128::MAX, 10_000_000, 8, 170)]
        {
            let long = chosen(last, entries, pages);
            assert_eq!((long.blocks(), long.limbs()), (blocks, 3));
            assert!(long.false_positives(8_192, &t()).unwrap() < -40.0);
        }
        let most = Layout::choose([1; KEY_BYTES], u128::MAX, 100_000_000, (8_192, &t()), 1);
        assert_eq!(most.unwrap_err(), LayoutError::Size { most: 8_184, blocks: 13_564, pages: 1, limbs: 8 });
    }

    #[test]
    fn exact_layouts_are_injective_and_limbs_never_say_that_a_slot_is_empty() {
        let t = Modulus::new(257).unwrap();
        let layout = Layout::choose([3; KEY_BYTES], 999, 200, (64, &t), 1).unwrap();
        assert_eq!(layout.false_positives(64, &t), None);
        let mut all: Vec<(usize, u128)> = (0..1_000).map(|key| layout.divide(&t, key).unwrap()).collect();
        assert!(all.iter().all(|(block, rest)| *block < layout.blocks() && *rest < 256));
        assert!(all.iter().all(|(_, rest)| layout.limbs_of(&t, *rest).eq([*rest as u64])));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 1_000);
        assert_eq!(layout.divide(&t, 1_000), Err(LayoutError::Key { bits: 10 }));
    }

    #[test]
    fn sizes_that_no_query_has_room_for_are_refused() {
        let of = |blocks, pages, limbs| {
            Layout::new(Permutation::new([0; KEY_BYTES], 99), 64, blocks, pages, limbs).map(|_| ()).is_ok()
        };
        assert!(of(63, 1, 1) && of(1, MAX_PAGES, MAX_LIMBS));
        for (blocks, pages, limbs) in [(64, 1, 1), (0, 1, 1), (1, 0, 1), (1, 1, 0), (1, MAX_PAGES + 1, 1), (1, 1, 9)] {
            assert!(!of(blocks, pages, limbs), "{blocks}, {pages}, {limbs}");
        }
    }
}
