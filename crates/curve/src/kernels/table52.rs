//! Tables of points on eight lanes: packing entries, and reading them by full scans or by address.

#![expect(clippy::needless_range_loop, reason = "closures of iterators are compiled without the vector instructions")]

use super::CurveConstants;
use super::batch52::{Batch52, MAX_WORDS, Words};
use super::field52::{Field52, vectors};
use tobari_simd::Simd;
use tobari_simd::{LANES, Line};

impl<S: Simd, C: CurveConstants<L>, const L: usize, const N: usize> Batch52<S, C, L, N> {
    /// The batch as table entries: `2L` words a point, in whole lines.
    #[inline(always)]
    pub(super) fn pack(self, a: &[Line], out: &mut [Line]) {
        for (group, out) in a.chunks_exact(Self::GROUP).zip(out.chunks_mut(LANES * Self::ENTRY)) {
            let words = self.words(group);
            self.write_rows(&words, out);
        }
    }

    /// The words of the canonical residues of eight points.
    #[inline(always)]
    pub(super) fn words(self, group: &[Line]) -> Words<S> {
        let field = self.field;
        let mut words = [field.simd.splat(0); MAX_WORDS];
        for coordinate in 0..2 {
            let number = field.canonical(&self.get(&group[coordinate * N..]));
            let start = coordinate * L;
            words[start..start + L].copy_from_slice(&field.words(&number));
        }
        words
    }

    /// `out[i] = table[index[i]]`, negated if `negate[i]` is all ones.
    ///
    /// The table is turned into one vector for each word of eight entries, and permutations within
    /// registers select entries: no address or branch depends on an index.
    #[inline(always)]
    pub(super) fn select(self, table: &[Line], index: &[Line], negate: &[Line], out: &mut [Line]) {
        const MAX_VECTORS: usize = 8;
        let s = self.field.simd;
        let entries = table.len() / Self::ENTRY;
        let vectors = entries.div_ceil(LANES).next_multiple_of(2);
        assert!(vectors <= MAX_VECTORS, "tables of at most 64 entries");
        let mut columns = [[s.splat(0); MAX_WORDS]; MAX_VECTORS];
        for vector in 0..entries.div_ceil(LANES) {
            let first = vector * LANES;
            columns[vector] = self.read_rows(|lane| (first + lane < entries).then(|| self.entry(table, first + lane)));
        }
        for (group, out) in out.chunks_exact_mut(Self::GROUP).enumerate() {
            let wanted = s.load(&index[group]);
            let pair = s.shr(wanted, 4);
            let mut words = [s.splat(0); MAX_WORDS];
            for i in 0..vectors / 2 {
                let here = s.equal(pair, s.splat(i as u64));
                for word in 0..Self::STRIDE {
                    let found = s.look_up(wanted, columns[2 * i][word], columns[2 * i + 1][word]);
                    words[word] = s.select(here, words[word], found);
                }
            }
            self.put_signed(&words, &negate[group], out);
        }
    }

    /// The same by addresses that depend on the indices.
    #[inline(always)]
    pub(super) fn vartime_select(self, table: &[Line], index: &[Line], negate: &[Line], out: &mut [Line]) {
        for (group, out) in out.chunks_exact_mut(Self::GROUP).enumerate() {
            let index = &index[group].0;
            let words = self.read_rows(|lane| Some(self.entry(table, index[lane] as usize)));
            self.put_signed(&words, &negate[group], out);
        }
    }

    #[inline(always)]
    fn entry(self, table: &[Line], index: usize) -> &[Line] {
        &table[index * Self::ENTRY..(index + 1) * Self::ENTRY]
    }

    /// Points from the words of canonical residues, with `y` negated if `negate` is all ones.
    #[inline(always)]
    fn put_signed(self, words: &Words<S>, negate: &Line, out: &mut [Line]) {
        let (field, s) = (self.field, self.field.simd);
        let y = field.read(&words[L..2 * L]);
        let bits = s.equal(s.load(negate), s.splat(u64::MAX)) & !self.zero_number(&y);
        let p = &Field52::<S, C, L, N>::P1;
        let opposite = field.ripple(vectors!(s, N, i => s.sub(s.splat(p[i]), y[i])));
        self.put(&field.read(&words[..L]), &mut out[..N]);
        self.put(&vectors!(s, N, i => s.select(bits, y[i], opposite[i])), &mut out[N..2 * N]);
    }

    /// Eight rows of [`Self::ENTRY`] lines, turned into words; a missing row is zero.
    #[inline(always)]
    pub(super) fn read_rows<'a>(self, row: impl Fn(usize) -> Option<&'a [Line]>) -> Words<S> {
        let s = self.field.simd;
        let mut words = [s.splat(0); MAX_WORDS];
        for block in 0..Self::ENTRY {
            let mut rows = [s.splat(0); LANES];
            for lane in 0..LANES {
                if let Some(row) = row(lane) {
                    rows[lane] = s.load(&row[block]);
                }
            }
            let columns = s.transpose(rows);
            words[block * LANES..(block + 1) * LANES].copy_from_slice(&columns);
        }
        words
    }

    /// The reverse; rows beyond `out` are dropped.
    #[inline(always)]
    pub(super) fn write_rows(self, words: &Words<S>, out: &mut [Line]) {
        let s = self.field.simd;
        for block in 0..Self::ENTRY {
            let mut columns = [s.splat(0); LANES];
            columns.copy_from_slice(&words[block * LANES..(block + 1) * LANES]);
            let rows = s.transpose(columns);
            for lane in 0..LANES {
                if let Some(line) = out.get_mut(lane * Self::ENTRY + block) {
                    s.store(rows[lane], line);
                }
            }
        }
    }
}
