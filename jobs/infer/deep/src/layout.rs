//! Places of a tensor's numbers in the slots, and the diagonals of maps between them.
//!
//! A number has a channel, a row and a column, each in bits, and a place has bits: the lower ones
//! are a slot, the upper ones a ciphertext. **A layout says what each bit of a place is**
//! ([`Bit`]): a bit of the channel, row or column; or any value, because the numbers repeat; or 0,
//! because nothing is stored elsewhere. Layouts of channels one after another, multiplexed ones
//! (low bits of the channel inside a stride's gaps), repeated ones and those with the phases of a
//! stride apart are all of this kind.
//!
//! # Maps
//! A product of a map takes the number at place `p` to the result at place `s`, by a rotation by
//! `d = p - s` slots. Let the bits of the input be
//!
//! - **shared**, where the input repeats: `p` has there the bit of `s`, and adds nothing to `d`;
//!   results in these bits cost nothing;
//! - **folded**: the product is computed where `s` has the bit of `p`, which adds nothing to `d`
//!   either; then the sums are added up by one rotation for each such bit;
//! - **moved**: all others.
//!
//! An empty bit becomes a repeated one by one rotation and a sum (it is **spread**), before the
//! products.
//!
//! So the rotations of a map are the differences of its moved bits alone. For a convolution they
//! are sums of one difference for the channels, one for the rows and one for the columns: **the
//! price of a layout follows from three small sets**, and a search can try thousands.
//!
//! After a fold of bit `k` the sum is right where that bit is 0, and also where it is 1 if all
//! higher bits repeat. Elsewhere a slot holds leftovers ([`Bit::Garbage`]), which later maps
//! multiply by 0.
//!
//! Bits of a ciphertext cost no rotation: each pair of an input and an output has its own products.

use crate::matrix::Matrix;
use std::collections::BTreeMap;
use tobari_infer::Volume;

/// The meaning of a bit of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bit {
    /// A bit of the channel (0), the row (1) or the column (2).
    Index {
        /// The axis.
        axis: u8,
        /// The bit, from the lowest.
        bit: u8,
    },
    /// The numbers repeat.
    Copy,
    /// Numbers are where the bit is 0, and zeros where it is 1.
    Zero,
    /// Numbers are where the bit is 0, and leftovers where it is 1.
    Garbage,
}

/// A layout: bits of the slot from the lowest, then bits of the ciphertext.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Layout {
    /// Bits of a slot.
    slot_bits: usize,
    bits: Vec<Bit>,
}

/// Bits of each axis of a volume.
pub fn axis_bits(volume: Volume) -> [usize; 3] {
    [volume.channels, volume.height, volume.width].map(|size| size.next_power_of_two().trailing_zeros() as usize)
}

impl Layout {
    /// A layout of these bits.
    pub fn new(slot_bits: usize, bits: Vec<Bit>) -> Self {
        Self { slot_bits, bits }
    }

    /// The bits.
    pub fn bits(&self) -> &[Bit] {
        &self.bits
    }

    /// Slots of a ciphertext.
    pub fn slots(&self) -> usize {
        1 << self.slot_bits
    }

    /// The number of ciphertexts.
    pub fn ciphertexts(&self) -> usize {
        1 << (self.bits.len() - self.slot_bits)
    }

    /// The positions of the bits of an axis, from its lowest bit; `None` for a bit without one.
    fn positions(&self, axis: usize) -> Vec<usize> {
        let mut found: BTreeMap<u8, usize> = BTreeMap::new();
        for (position, bit) in self.bits.iter().enumerate() {
            if let Bit::Index { axis: own, bit } = bit
                && usize::from(*own) == axis
            {
                found.insert(*bit, position);
            }
        }
        found.into_values().collect()
    }

    /// The places of all numbers of a volume, with 0 in all other bits.
    pub fn places(&self, volume: Volume) -> Vec<usize> {
        let spread = |axis: usize, size: usize| -> Vec<usize> {
            let positions = self.positions(axis);
            (0..size).map(|number| deposit(number, &positions)).collect()
        };
        let axes = [spread(0, volume.channels), spread(1, volume.height), spread(2, volume.width)];
        let mut places = Vec::with_capacity(volume.len());
        for channel in &axes[0] {
            for row in &axes[1] {
                places.extend(axes[2].iter().map(|column| channel + row + column));
            }
        }
        places
    }

    /// The mask of positions with this meaning.
    fn mask(&self, wanted: impl Fn(Bit) -> bool) -> usize {
        self.bits.iter().enumerate().filter(|(_, bit)| wanted(**bit)).map(|(position, _)| 1 << position).sum()
    }

    /// Whether there are leftovers.
    pub fn has_garbage(&self) -> bool {
        self.bits.contains(&Bit::Garbage)
    }

    /// The numbers in the slots of each ciphertext; the repeated ones, too.
    pub fn fill(&self, numbers: &[f64], volume: Volume) -> Vec<Vec<f64>> {
        let mut all = vec![vec![0.0; self.slots()]; self.ciphertexts()];
        let copies = subsets(self.mask(|bit| bit == Bit::Copy));
        for (place, number) in self.places(volume).into_iter().zip(numbers) {
            for copy in &copies {
                let place = place + copy;
                all[place >> self.slot_bits][place & (self.slots() - 1)] = *number;
            }
        }
        all
    }

    /// Reads the numbers back, each from its first place.
    pub fn read(&self, slots: &[Vec<f64>], volume: Volume) -> Vec<f64> {
        let at = |place: usize| slots[place >> self.slot_bits][place & (self.slots() - 1)];
        self.places(volume).into_iter().map(at).collect()
    }

    /// The layout after sums over windows of `1 << bits` rows and columns, and the steps of the
    /// rotations that sum up.
    pub fn pooled(&self, window: [usize; 2]) -> (Self, Vec<usize>) {
        let (mut bits, mut steps) = (self.bits.clone(), Vec::new());
        for position in (0..bits.len()).rev() {
            let Bit::Index { axis, bit } = bits[position] else { continue };
            let Some(log) = usize::from(axis).checked_sub(1).map(|axis| window[axis].trailing_zeros() as u8) else {
                continue;
            };
            bits[position] = match bit.checked_sub(log) {
                Some(bit) => Bit::Index { axis, bit },
                None => {
                    steps.push(1 << position);
                    after_fold(&bits[..self.slot_bits], position)
                }
            };
        }
        (Self { slot_bits: self.slot_bits, bits }, steps)
    }

    /// The largest period with which slots repeat.
    pub fn period(&self) -> usize {
        let copies = self.bits[..self.slot_bits].iter().rev().take_while(|bit| **bit == Bit::Copy).count();
        self.slots() >> copies
    }
}

impl std::fmt::Display for Layout {
    /// The bits from the highest: `c0`, `r0`, `q0` are the lowest bits of channel, row and column;
    /// `*` repeats, `0` is empty, `?` has leftovers; `|` stands between ciphertext and slot.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (position, bit) in self.bits.iter().enumerate().rev() {
            match bit {
                Bit::Index { axis, bit } => write!(f, "{}{bit}", ["c", "r", "q"][usize::from(*axis) % 3])?,
                Bit::Copy => write!(f, "*")?,
                Bit::Zero => write!(f, "0")?,
                Bit::Garbage => write!(f, "?")?,
            }
            if position == self.slot_bits {
                write!(f, "|")?;
            }
        }
        Ok(())
    }
}

/// The meaning of a bit of a slot after a fold, if the higher bits have these meanings.
fn after_fold(bits: &[Bit], position: usize) -> Bit {
    let clean = bits.iter().skip(position + 1).all(|bit| *bit == Bit::Copy);
    if clean { Bit::Copy } else { Bit::Garbage }
}

/// The bits of a number at these positions.
fn deposit(number: usize, positions: &[usize]) -> usize {
    positions.iter().enumerate().map(|(bit, position)| (number >> bit & 1) << position).sum()
}

/// All numbers with bits in this mask alone.
fn subsets(mask: usize) -> Vec<usize> {
    let mut all = vec![0];
    for position in 0..usize::BITS as usize {
        if mask >> position & 1 == 1 {
            all.extend(all.clone().into_iter().map(|subset| subset + (1 << position)));
        }
    }
    all
}

/// The pairs of results and inputs of a matrix along one axis.
#[derive(Clone, Debug, PartialEq)]
enum Pairs {
    /// Every result with every input: their counts.
    All(usize, usize),
    /// These.
    Some(Vec<(u32, u32)>),
}

/// The pairs of results and inputs of a matrix, axis by axis. Their product holds all entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Support([Pairs; 3]);

/// The most pairs of an axis that are listed.
const MOST_PAIRS: usize = 1 << 26;

impl Support {
    /// The support of a matrix from one volume to another.
    pub fn new(matrix: &Matrix, input: Volume, output: Volume) -> Self {
        let sizes = |volume: Volume| [volume.channels, volume.height, volume.width];
        let (of_input, of_output) = (sizes(input), sizes(output));
        let mut known: [Vec<bool>; 3] = std::array::from_fn(|axis| {
            let pairs = of_input[axis] * of_output[axis];
            vec![false; if pairs > MOST_PAIRS { 0 } else { pairs }]
        });
        let split =
            |at: usize, [_, height, width]: [usize; 3]| [at / (height * width), at / width % height, at % width];
        for row in 0..matrix.rows() {
            let to = split(row, of_output);
            for (column, _) in matrix.row(row) {
                let from = split(column, of_input);
                for axis in 0..3 {
                    if let Some(known) = known[axis].get_mut(to[axis] * of_input[axis] + from[axis]) {
                        *known = true;
                    }
                }
            }
        }
        let mut axis = 0;
        Self(known.map(|known| {
            let (outputs, inputs) = (of_output[axis], of_input[axis]);
            axis += 1;
            if known.iter().all(|known| *known) {
                return Pairs::All(outputs, inputs);
            }
            let pairs = known.iter().enumerate().filter(|(_, known)| **known);
            Pairs::Some(pairs.map(|(at, _)| ((at / inputs) as u32, (at % inputs) as u32)).collect())
        }))
    }

    /// The stride of an axis as bits: how many low bits of the input's index a step of the result's
    /// index passes.
    fn stride_bits(&self, axis: usize) -> usize {
        let Pairs::Some(pairs) = &self.0[axis] else { return 0 };
        let (Some(first), Some(last)) = (pairs.first(), pairs.last()) else { return 0 };
        let from = |output: u32| pairs.iter().filter(|pair| pair.0 == output).map(|pair| pair.1).max().unwrap_or(0);
        let results = (last.0 - first.0).max(1);
        let stride = f64::from(from(last.0).saturating_sub(from(first.0))) / f64::from(results);
        stride.max(1.0).log2().round() as usize
    }
}

/// One matrix between two layouts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Move {
    /// The layout of the input, after the spreads.
    pub from: Layout,
    /// Positions where the input was 0 and repeats after one rotation and a sum each, as a mask.
    pub spreads: usize,
    /// Positions that are folded, as a mask of bits of a slot.
    pub folds: usize,
    /// For each bit of an axis of the result its position.
    pub to: [Vec<usize>; 3],
    /// Bits of all places of the result.
    pub bits: usize,
}

impl Move {
    fn slot_mask(&self) -> usize {
        self.from.slots() - 1
    }

    /// The positions of the result's bits.
    fn taken(&self) -> usize {
        self.to.iter().flatten().map(|position| 1 << position).sum()
    }

    /// The mask of the positions where the input repeats; ciphertexts that the input lacks count.
    fn shared(&self) -> usize {
        self.from.mask(|bit| bit == Bit::Copy) & self.slot_mask()
    }

    /// The layout of the result.
    pub fn layout(&self) -> Layout {
        let slot_bits = self.from.slot_bits;
        let mut bits: Vec<Bit> = (0..self.bits)
            .map(|position| match self.from.bits.get(position) {
                _ if position >= slot_bits => Bit::Zero,
                Some(Bit::Copy) => Bit::Copy,
                _ => Bit::Zero,
            })
            .collect();
        for (axis, positions) in self.to.iter().enumerate() {
            for (bit, position) in positions.iter().enumerate() {
                bits[*position] = Bit::Index { axis: axis as u8, bit: bit as u8 };
            }
        }
        for position in (0..slot_bits).rev().filter(|position| self.folds >> position & 1 == 1) {
            bits[position] = after_fold(&bits[..slot_bits], position);
        }
        Layout { slot_bits, bits }
    }

    /// The differences of an axis: ciphertext of the input, ciphertext of the result, and steps.
    fn differences(&self, support: &Support, axis: usize) -> Vec<(usize, usize, i64)> {
        let positions = self.from.positions(axis);
        let mask = self.slot_mask();
        let split = |place: usize, hidden: usize| (place >> self.from.slot_bits, (place & mask & !hidden) as i64);
        let input = |index: usize| split(deposit(index, &positions), self.folds);
        let output = |index: usize| split(deposit(index, &self.to[axis]), self.shared());
        let unique = |mut all: Vec<(usize, i64)>| {
            all.sort_unstable();
            all.dedup();
            all
        };
        let mut all: Vec<(usize, usize, i64)> = Vec::new();
        match &support.0[axis] {
            Pairs::All(outputs, inputs) => {
                let (outputs, inputs) =
                    (unique((0..*outputs).map(output).collect()), unique((0..*inputs).map(input).collect()));
                for (to, s) in &outputs {
                    all.extend(inputs.iter().map(|(from, p)| (*from, *to, p - s)));
                }
            }
            Pairs::Some(pairs) => {
                for (o, i) in pairs {
                    let ((to, s), (from, p)) = (output(*o as usize), input(*i as usize));
                    all.push((from, to, p - s));
                }
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The modulus of the rotations: the input's period, or less where the highest bits below it
    /// are folded. A sum may then stand at any place of the folded bits, so that a borrow into them
    /// does no harm.
    fn modulus(&self) -> usize {
        let mut modulus = self.from.period();
        while modulus > 1 && self.folds & (modulus >> 1) != 0 {
            modulus >>= 1;
        }
        modulus
    }

    /// The rotations of the products, by the ciphertexts of input and result; `None` if there are
    /// more than `most`.
    pub fn steps(&self, support: &Support, most: usize) -> Option<BTreeMap<(usize, usize), Vec<usize>>> {
        let period = self.modulus() as i64;
        let axes = [0, 1, 2].map(|axis| self.differences(support, axis));
        // keys of a sum: pair of ciphertexts, and steps
        let mut sums: Vec<(usize, usize, i64)> = vec![(0, 0, 0)];
        for axis in axes {
            if sums.len().checked_mul(axis.len())? > 64 * most {
                return None;
            }
            let add = |(a, b, d): &(usize, usize, i64)| {
                let (a, b, d) = (*a, *b, *d);
                axis.iter().map(move |(x, y, e)| (a + x, b + y, (d + e).rem_euclid(period))).collect::<Vec<_>>()
            };
            sums = sums.iter().flat_map(add).collect();
            sums.sort_unstable();
            sums.dedup();
            if sums.len() > most {
                return None;
            }
        }
        let mut steps: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (from, to, step) in sums {
            steps.entry((from, to)).or_default().push(step as usize);
        }
        Some(steps)
    }

    /// The diagonals of the products: for each pair of an input and a result and each rotation, a
    /// weight for each slot of a period of [`Self::weights_period`].
    pub fn diagonals(&self, matrix: &Matrix, input: Volume, output: Volume) -> Diagonals {
        let (mask, period, modulus) = (self.slot_mask(), self.from.period(), self.modulus());
        let (length, slot_bits, shared) = (self.weights_period(), self.from.slot_bits, self.shared());
        let (places, results) = (self.from.places(input), self.result_places(output));
        // where the input repeats and the result has no index, the weights repeat, too
        let copies = subsets(shared & !self.taken() & (length - 1));
        let mut diagonals: Diagonals = BTreeMap::new();
        for (row, result) in results.iter().enumerate() {
            for (column, weight) in matrix.row(row) {
                let place = places[column];
                let (p, s) = (place & mask & !self.folds, result & mask & !shared);
                let step = (p as i64 - s as i64).rem_euclid(modulus as i64) as usize;
                let pair = (place >> slot_bits, result >> slot_bits);
                let weights = diagonals.entry(pair).or_default().entry(step).or_insert_with(|| vec![0.0; length]);
                for copy in &copies {
                    // the bits that input and result share
                    let common = (result & shared) | copy;
                    let low = ((place & mask) | (common & (period - 1))) as i64 - step as i64;
                    let slot = low.rem_euclid(period as i64) as usize | (common & !(period - 1) & mask);
                    weights[slot] += weight;
                }
            }
        }
        diagonals
    }

    /// The places of the result's numbers.
    fn result_places(&self, output: Volume) -> Vec<usize> {
        let mut bits = vec![Bit::Zero; self.bits];
        for (axis, positions) in self.to.iter().enumerate() {
            for (bit, position) in positions.iter().enumerate() {
                bits[*position] = Bit::Index { axis: axis as u8, bit: bit as u8 };
            }
        }
        Layout { slot_bits: self.from.slot_bits, bits }.places(output)
    }

    /// The period of the weights.
    pub fn weights_period(&self) -> usize {
        let used = self.taken() | self.folds;
        let highest = (0..self.from.slot_bits)
            .rev()
            .take_while(|position| self.from.bits[*position] == Bit::Copy && used >> position & 1 == 0);
        self.from.slots() >> highest.count()
    }

    /// The steps of the folds, the largest first.
    pub fn fold_steps(&self) -> Vec<usize> {
        (0..self.from.slot_bits).rev().map(|position| 1 << position).filter(|step| self.folds & step != 0).collect()
    }

    /// Moves to the places of a layout, each with other folds.
    pub fn toward(from: &Layout, target: &Layout) -> Vec<Self> {
        let to = [0, 1, 2].map(|axis| target.positions(axis));
        let of = |(from, spreads): (Layout, usize)| {
            with_folds(&Move { from, spreads, folds: 0, to: to.clone(), bits: target.bits.len() })
        };
        spread(from).into_iter().flat_map(of).collect()
    }

    /// Moves that may suit a matrix, for a search.
    pub fn candidates(from: &Layout, support: &Support, output: Volume, most_ciphertexts: usize) -> Vec<Self> {
        let of = |(from, spreads)| candidates(&from, spreads, support, output, most_ciphertexts);
        spread(from).into_iter().flat_map(of).collect()
    }

    /// The rotations that spread the input, each followed by a sum.
    pub fn spread_steps(&self) -> Vec<usize> {
        let steps = (0..self.from.slot_bits).map(|position| 1 << position);
        steps.filter(|step| self.spreads & step != 0).map(|step| self.from.slots() - step).collect()
    }
}

/// A layout with none, some and all of its empty bits spread, and the masks of these bits.
fn spread(from: &Layout) -> Vec<(Layout, usize)> {
    let empty: Vec<usize> = (0..from.slot_bits).filter(|position| from.bits[*position] == Bit::Zero).collect();
    let of = |positions: &[usize]| {
        let mut layout = from.clone();
        positions.iter().for_each(|position| layout.bits[*position] = Bit::Copy);
        (layout, positions.iter().map(|position| 1 << position).sum())
    };
    let mut all: Vec<(Layout, usize)> = (0..=empty.len()).map(|first| of(&empty[first..])).collect();
    all.extend((1..empty.len()).map(|last| of(&empty[..last])));
    all
}

/// Weights by the ciphertexts of input and result, and by rotation.
pub type Diagonals = BTreeMap<(usize, usize), BTreeMap<usize, Vec<f64>>>;

fn candidates(from: &Layout, spreads: usize, support: &Support, output: Volume, most_ciphertexts: usize) -> Vec<Move> {
    let slot_bits = from.slot_bits;
    let needed = axis_bits(output);
    // rows and columns stay where they are, and so may channels
    let mut found: Vec<Move> = Vec::new();
    for stay in [[false, true, true], [true, true, true], [false, false, false]] {
        let mut to: [Vec<Option<usize>>; 3] = std::array::from_fn(|axis| vec![None; needed[axis]]);
        for axis in (0..3).filter(|axis| stay[*axis]) {
            let (positions, stride) = (from.positions(axis), support.stride_bits(axis));
            for (bit, place) in to[axis].iter_mut().enumerate() {
                *place = positions.get(bit + stride).copied();
            }
        }
        let kept: usize = to.iter().flatten().flatten().map(|position| 1 << position).sum();
        let open = to.iter().flatten().filter(|place| place.is_none()).count();
        for order in orders(from, kept) {
            // further ciphertexts where slots do not suffice
            let more = order.len()..order.len() + open.saturating_sub(order.len());
            let extra = more.clone().enumerate().map(|(i, _)| from.bits.len().max(slot_bits) + i);
            let mut free: Vec<usize> = order.iter().copied().chain(extra).take(open).collect();
            free.sort_unstable();
            let mut next = free.into_iter();
            let to: [Vec<usize>; 3] = {
                // columns take the lowest places
                let mut to = to.clone();
                for axis in [2, 1, 0] {
                    to[axis].iter_mut().filter(|place| place.is_none()).for_each(|place| *place = next.next());
                }
                to.map(|axis| axis.into_iter().flatten().collect())
            };
            let highest = to.iter().flatten().copied().max().map_or(0, |highest| highest + 1);
            let bits = highest.max(slot_bits);
            if 1usize << (bits - slot_bits) > most_ciphertexts {
                continue;
            }
            found.extend(with_folds(&Move { from: from.clone(), spreads, folds: 0, to, bits }));
        }
    }
    found.sort_by_key(|one| (one.folds, one.to.clone()));
    found.dedup();
    found
}

/// The same move with its highest idle bits folded: none, one, and so on to all.
fn with_folds(one: &Move) -> Vec<Move> {
    let taken = one.taken();
    let idle = |position: &usize| matches!(one.from.bits[*position], Bit::Index { .. }) && taken >> position & 1 == 0;
    let idle: Vec<usize> = (0..one.from.slot_bits).rev().filter(idle).collect();
    let folded = |count: usize| idle[..count].iter().map(|position| 1 << position).sum();
    (0..=idle.len()).map(|count| Move { folds: folded(count), ..one.clone() }).collect()
}

/// Orders in which positions are given to new bits.
fn orders(from: &Layout, kept: usize) -> Vec<Vec<usize>> {
    let bits = &from.bits[..];
    let all: Vec<usize> = (0..from.slot_bits.max(bits.len())).filter(|position| kept >> position & 1 == 0).collect();
    let of = |wanted: fn(Bit) -> bool| -> Vec<usize> { all.iter().copied().filter(|p| wanted(bits[*p])).collect() };
    let copy = of(|bit| bit == Bit::Copy);
    let index = of(|bit| matches!(bit, Bit::Index { .. }));
    let channel = of(|bit| matches!(bit, Bit::Index { axis: 0, .. }));
    let space = of(|bit| matches!(bit, Bit::Index { axis: 1 | 2, .. }));
    let empty = of(|bit| matches!(bit, Bit::Zero | Bit::Garbage));
    let down = |list: &[usize]| list.iter().rev().copied().collect::<Vec<_>>();
    let join = |lists: &[&[usize]]| lists.concat();
    let mut orders = vec![
        join(&[&down(&copy), &down(&empty), &down(&index)]),
        join(&[&copy, &empty, &index]),
        join(&[&down(&copy), &channel, &space, &empty]),
        join(&[&down(&copy), &down(&channel), &down(&space), &empty]),
        join(&[&down(&copy), &space, &empty, &channel]),
        join(&[&channel, &empty, &copy, &space]),
        join(&[&down(&channel), &down(&empty), &down(&copy), &down(&space)]),
        join(&[&empty, &space, &channel, &copy]),
        join(&[&space, &empty, &channel, &copy]),
        join(&[&copy, &channel, &empty, &space]),
        all.clone(),
        down(&all),
    ];
    orders.sort();
    orders.dedup();
    orders
}
