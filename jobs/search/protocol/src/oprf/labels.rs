//! Labels: pseudo-random numbers that replace the public numbers of entries, and pads for the
//! counts.
//!
//! **Inputs** of the function are a tag, the table's name, and either the first site, the number of
//! sites and the pattern, or the hash of a word. So the labels of a window do not depend on the
//! other places of a question, and a pattern of one table tells nothing about another table's
//! patterns.
//!
//! **A server** makes the labels of a window once, and keeps them as long as there is room
//! ([`Labeller`]). Public data decides which windows it computes. The number of entries of a window
//! is public too: as many as the fullest window of the same length. For missing patterns the server
//! evaluates fillers, at inputs that only the server can write. So neither a client that removes
//! every mask nor a client with a clock can count patterns. Two labels of a group of `n` are equal
//! with probability `n^2 t^-2 / 2`, less than `2^-50` for any group that fits an answer. Then a
//! client that asks for this label gets the error that the answer is malformed.
//!
//! **Leakage.** The time of an answer shows that a window was computed lately: clients may see that
//! other clients asked for it.

use super::function::{Output, Secret};
use super::{LIMBS, Mode, REVISION_BYTES, Revision};
use crate::client::MatchResult;
use crate::messages::TABLE_BYTES;
use crate::panel::{MAX_LENGTH, Panel, Pattern};
use crate::program::{Entry, EntryError, Key, Shape, sets};
use sha2::{Digest, Sha512};
use std::collections::BTreeMap;
use std::mem::take;
use std::sync::{Arc, Mutex, PoisonError};
use tobari_lattice::ring::Modulus;
use zeroize::Zeroizing;

const WINDOW: &[u8] = b"tobari search 1 window";
const WORD: &[u8] = b"tobari search 1 word";
const NAME: &[u8] = b"tobari search 1 key";
const FILLER: &[u8] = b"tobari search 1 filler";
const HIDDEN: &[u8] = b"tobari search 1 hidden label";
/// The number of inputs that are evaluated together: their points share one inversion.
const TOGETHER: usize = 4_096;

/// The input for the first `sites` sites of a pattern that begins at a site.
pub fn window_input(table: &[u8; TABLE_BYTES], start: u32, sites: usize, pattern: Pattern) -> Vec<u8> {
    let pattern = if sites < MAX_LENGTH { pattern & ((1 << sites) - 1) } else { pattern };
    [WINDOW, table, &start.to_be_bytes(), &[sites as u8], &pattern.to_be_bytes()].concat()
}

/// The input for a word of a table of words.
pub fn word_input(table: &[u8; TABLE_BYTES], word: &[u8]) -> Vec<u8> {
    [WORD, table, &*Zeroizing::new(<[u8; 64]>::from(Sha512::digest(word)))].concat()
}

/// The input for a key of a table of keys: the word of the key's number
/// ([`crate::table::KeyRule::key_number`]).
pub fn key_input(table: &[u8; TABLE_BYTES], number: u128) -> Vec<u8> {
    word_input(table, &number.to_be_bytes())
}

/// The inputs of a question about a pattern that begins at a site: one for each group of the
/// question's layout.
pub fn inputs(table: &[u8; TABLE_BYTES], shape: Shape, start: u32, pattern: Pattern) -> Vec<Vec<u8>> {
    let least = if let Shape::Longest { .. } = shape { 1 } else { shape.length() };
    (least..=shape.length()).map(|sites| window_input(table, start, sites, pattern)).collect()
}

/// An evaluated entry. Wiped on drop.
pub struct Label(Output);

impl Label {
    /// The label of an output.
    pub fn new(output: Output) -> Self {
        Self(output)
    }

    /// 128 bits of the output, reduced.
    fn part(&self, index: usize, t: &Modulus) -> u64 {
        let (parts, _) = self.0.as_chunks::<16>();
        (u128::from_be_bytes(parts[index]) % u128::from(t.value())) as u64
    }

    /// The number that a query asks for.
    pub fn key(&self, t: &Modulus) -> Key {
        [0, 1].map(|limb| self.part(limb, t))
    }

    /// The pad that is added to the count.
    pub fn pad(&self, t: &Modulus) -> u64 {
        self.part(LIMBS, t)
    }

    /// The number, and the pads for two digits of a count, in a table that is arranged with the
    /// place hidden: 128 bits each of `SHA-512("tobari search 1 hidden label" || y)`, pads modulo
    /// `t`. They have nothing in common with the other numbers of this label.
    pub fn hidden(&self, t: &Modulus) -> (u128, [u64; 2]) {
        let wide = Zeroizing::new(<[u8; 64]>::from(Sha512::new_with_prefix(HIDDEN).chain_update(*self.0).finalize()));
        let (parts, _) = wide.as_chunks::<16>();
        let pad = |part: usize| (u128::from_be_bytes(parts[part]) % u128::from(t.value())) as u64;
        (u128::from_be_bytes(parts[0]), [pad(1), pad(2)])
    }

    /// The entry that queries are compared with.
    pub fn entry(&self, count: u64, t: &Modulus) -> Entry {
        Entry { key: self.key(t), count: t.add(count, self.pad(t)) }
    }
}

/// Removes the pad from the count of an answer. `labels` are the query's labels, by group.
pub fn uncover(found: MatchResult, labels: &[Label], t: &Modulus) -> MatchResult {
    let count = |count: Option<u64>, group: usize| Some(t.sub(count?, labels.get(group)?.pad(t)));
    match found {
        MatchResult::Absent => MatchResult::Absent,
        MatchResult::Present(told) => MatchResult::Present(count(told, 0)),
        MatchResult::Longest(sites, told) => MatchResult::Longest(sites, count(told, sites.wrapping_sub(1))),
    }
}

/// The entries of one window, for one number of sites.
type Window = Arc<[Entry]>;

/// A table's key, and the labels made with it. They are valid for one state of the table; another
/// state needs a new key.
pub struct Labeller {
    secret: Secret,
    /// The secret that makes the inputs of fillers unknown to clients.
    filler: Zeroizing<[u8; 64]>,
    revision: Revision,
    table: [u8; TABLE_BYTES],
    t: Modulus,
    kept: Mutex<LabelCache>,
}

impl Labeller {
    /// A labeller for one table. The key must not have been used for another state of the table.
    /// The labeller keeps labels of at most so many bytes.
    ///
    /// # Errors
    /// [`EntryError::Set`] if no set of parameters has room for labels: a fault of this program.
    pub fn new(table: &[u8; TABLE_BYTES], secret: Secret, kept_bytes: usize) -> Result<Self, EntryError> {
        let t = sets().last().and_then(|set| Modulus::new(set.plaintext_modulus?)).ok_or(EntryError::Set)?;
        let filler = Sha512::new().chain_update(FILLER).chain_update(*secret.to_bytes()).finalize();
        let name = Sha512::new().chain_update(NAME).chain_update(table).chain_update(secret.public()).finalize();
        let mut revision = [0; REVISION_BYTES];
        revision.copy_from_slice(&name[..REVISION_BYTES]);
        let kept = Mutex::new(LabelCache { most: kept_bytes, ..LabelCache::default() });
        Ok(Self { secret, filler: Zeroizing::new(filler.into()), revision, table: *table, t, kept })
    }

    /// The table.
    pub fn table(&self) -> &[u8; TABLE_BYTES] {
        &self.table
    }

    /// The key's name, which tells nothing about the key. Clients repeat it.
    pub fn mode(&self) -> Mode {
        Mode::Labelled(self.revision)
    }

    pub(crate) fn revision(&self) -> &Revision {
        &self.revision
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Bytes of the labels that are kept.
    pub fn kept_bytes(&self) -> usize {
        self.kept().bytes
    }

    /// The labelled entries of a panel at places, ascending, group by group.
    ///
    /// The groups are those of [`super::super::program::Keys::of_panel`]. Each place has as many
    /// entries as the fullest window of its length. Patterns that fewer than `least` haplotypes
    /// have are left out; `least` must be the same every time.
    ///
    /// # Errors
    /// [`EntryError`].
    pub fn of_panel(
        &self,
        panel: &Panel,
        shape: Shape,
        starts: &[u32],
        least: u32,
    ) -> Result<Vec<Vec<Entry>>, EntryError> {
        let fewest = if let Shape::Longest { .. } = shape { 1 } else { shape.length() };
        let mut groups = vec![Vec::new(); shape.length() + 1 - fewest];
        for (place, start) in starts.iter().enumerate() {
            if place > 0 && starts[place - 1] == *start {
                continue;
            }
            let windows = self.windows(panel, *start, (fewest, shape.length()), least)?;
            groups.iter_mut().zip(windows).for_each(|(group, window)| group.extend_from_slice(&window));
        }
        Ok(groups)
    }

    /// The windows of one first site, by number of sites. If one of them is not in memory, all are
    /// computed at once.
    fn windows(
        &self,
        panel: &Panel,
        start: u32,
        (fewest, most): (usize, usize),
        least: u32,
    ) -> Result<Vec<Window>, EntryError> {
        panel.check(start as usize, most)?;
        let kept: Option<Vec<Window>> = (fewest..=most).map(|sites| self.kept().find((start, sites as u8))).collect();
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let (mut inputs, mut counts) = (vec![Vec::new(); most + 1], vec![Vec::new(); most + 1]);
        panel.prefixes(start as usize, most, |sites, pattern, count| {
            if sites >= fewest && count >= least {
                inputs[sites].push(window_input(&self.table, start, sites, pattern));
                counts[sites].push(u64::from(count));
            }
        })?;
        let mut window = |sites: usize| {
            let room = panel.most_patterns(sites).unwrap_or(0) as usize;
            let (inputs, counts) = (take(&mut inputs[sites]), take(&mut counts[sites]));
            let window: Window = self.labelled((start, sites), inputs, counts, room)?.into();
            self.kept().keep((start, sites as u8), &window);
            Ok(window)
        };
        (fewest..=most).map(&mut window).collect()
    }

    /// The two entries of a site of a table without phase: the counts of both alleles. An allele
    /// that occurs fewer than `least` times, or never, is left out; a filler takes its place.
    ///
    /// # Errors
    /// [`EntryError::Count`].
    pub fn of_alleles(&self, start: u32, counts: [u32; 2], least: u32) -> Result<Vec<Entry>, EntryError> {
        let there = [0, 1].into_iter().zip(counts).filter(|(_, count)| *count >= least.max(1));
        let (inputs, counts) =
            there.map(|(allele, count)| (window_input(&self.table, start, 1, allele), u64::from(count))).unzip();
        self.labelled((start, 1), inputs, counts, 2)
    }

    /// The labelled entries of words and their counts, with fillers up to so many entries. Nothing
    /// is kept in memory: use this once, for a whole table.
    ///
    /// # Errors
    /// [`EntryError::Count`].
    pub fn of_words<'a>(
        &self,
        words: impl Iterator<Item = (&'a [u8], u64)>,
        room: usize,
    ) -> Result<Vec<Entry>, EntryError> {
        let (inputs, counts) = words.map(|(word, count)| (word_input(&self.table, word), count)).unzip();
        self.labelled((0, 0), inputs, counts, room) // a name that no window has: of no sites
    }

    /// The labelled entries of a table of keys, by their numbers: as [`Self::of_words`], for
    /// [`key_input`].
    ///
    /// # Errors
    /// [`EntryError::Count`].
    pub fn of_keys(&self, keys: impl Iterator<Item = (u128, u64)>, room: usize) -> Result<Vec<Entry>, EntryError> {
        let (inputs, counts) = keys.map(|(number, count)| (key_input(&self.table, number), count)).unzip();
        self.labelled((0, 0), inputs, counts, room)
    }

    /// The numbers and padded counts of entries that are arranged with the place hidden, given
    /// their inputs and counts below 2^32. A padded count has a digit to the base `t` of the
    /// arrangement for each pad. Nothing is kept in memory.
    ///
    /// # Errors
    /// [`EntryError::Count`].
    pub(crate) fn of_hidden(
        &self,
        t: &Modulus,
        entries: impl Iterator<Item = (Vec<u8>, u64)>,
    ) -> Result<Vec<(u128, u64)>, EntryError> {
        let (mut all, mut entries) = (Vec::with_capacity(entries.size_hint().0), entries);
        loop {
            let (inputs, counts): (Vec<Vec<u8>>, Vec<u64>) = entries.by_ref().take(TOGETHER).unzip();
            if inputs.is_empty() {
                return Ok(all);
            }
            for (output, count) in self.secret.outputs(&inputs).into_iter().zip(counts) {
                if count > u64::from(u32::MAX) {
                    return Err(EntryError::Count { most: 1 << 32, found: count });
                }
                let (number, pads) = Label::new(output).hidden(t);
                let [low, high] = [count % t.value(), count / t.value()];
                all.push((number, t.add(low, pads[0]) + t.value() * t.add(high, pads[1])));
            }
        }
    }

    /// So many entries, at least as many as inputs: entries of the inputs, and fillers.
    fn labelled(
        &self,
        (start, sites): (u32, usize),
        mut inputs: Vec<Vec<u8>>,
        mut counts: Vec<u64>,
        room: usize,
    ) -> Result<Vec<Entry>, EntryError> {
        let most = self.t.value();
        if let Some(found) = counts.iter().copied().find(|count| *count >= most) {
            return Err(EntryError::Count { most, found });
        }
        let fillers = inputs.len() as u128..room as u128;
        let name = (start.to_be_bytes(), [sites as u8]);
        inputs.extend(fillers.map(|i| [FILLER, &self.filler[..32], &name.0, &name.1, &i.to_be_bytes()].concat()));
        counts.resize(inputs.len(), 0);
        let outputs = self.secret.outputs(&inputs).into_iter().zip(counts);
        Ok(outputs.map(|(output, count)| Label::new(output).entry(count, &self.t)).collect())
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, LabelCache> {
        // after a panic at worst an entry is missing from the cache
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Windows. Those unused for longest make room for others.
#[derive(Default)]
struct LabelCache {
    most: usize,
    bytes: usize,
    uses: u64,
    /// By first site and number of sites, with the turn of the last use.
    windows: BTreeMap<(u32, u8), (Window, u64)>,
    /// By turn of the last use.
    oldest: BTreeMap<u64, (u32, u8)>,
}

/// The approximate bytes of a window besides its entries.
const OVERHEAD: usize = 160;

impl LabelCache {
    fn find(&mut self, name: (u32, u8)) -> Option<Window> {
        let (window, used) = self.windows.get_mut(&name)?;
        self.uses += 1;
        self.oldest.remove(used);
        self.oldest.insert(self.uses, name);
        *used = self.uses;
        Some(Arc::clone(window))
    }

    fn keep(&mut self, name: (u32, u8), window: &Window) {
        let size = |window: &Window| size_of_val(&**window) + OVERHEAD;
        if size(window) > self.most || self.find(name).is_some() {
            return;
        }
        while self.bytes + size(window) > self.most {
            let Some((_, old)) = self.oldest.pop_first() else { return };
            self.bytes -= self.windows.remove(&old).map_or(0, |(old, _)| size(&old));
        }
        (self.bytes, self.uses) = (self.bytes + size(window), self.uses + 1);
        self.oldest.insert(self.uses, name);
        self.windows.insert(name, (Arc::clone(window), self.uses));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(entries: usize) -> Window {
        vec![Entry { key: [0; 2], count: 0 }; entries].into()
    }

    #[test]
    fn what_was_not_used_for_longest_makes_room() {
        let size = 10 * size_of::<Entry>() + OVERHEAD;
        let mut kept = LabelCache { most: 3 * size, ..LabelCache::default() };
        (0..3).for_each(|start| kept.keep((start, 5), &window(10)));
        assert_eq!(kept.bytes, 3 * size);
        assert!(kept.find((0, 5)).is_some());
        kept.keep((3, 5), &window(10));
        let there = |kept: &mut LabelCache| [0, 1, 2, 3].map(|start| kept.find((start, 5)).is_some());
        assert_eq!(there(&mut kept), [true, false, true, true]);
        kept.keep((4, 5), &window(1_000));
        kept.keep((3, 5), &window(10));
        assert_eq!((there(&mut kept), kept.bytes), ([true, false, true, true], 3 * size));
        kept.keep((4, 5), &window(35));
        assert_eq!((kept.windows.len(), kept.oldest.len()), (1, 1));
        assert_eq!(kept.bytes, 35 * size_of::<Entry>() + OVERHEAD);
    }
}
