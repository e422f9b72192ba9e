//! The slots of positions: a block of 256 positions for each device.

use tobari_device::READINGS;
use tobari_lattice::params::LatticeParameters;

/// The arrangement of blocks in a row of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// One after another: rotations by multiples of 256 move whole blocks. For sums over devices.
    Contiguous,
    /// Position by position, the blocks of a row side by side: rotations by multiples of their
    /// number turn all blocks at once, and nothing is masked. For maps of blocks.
    Strided,
}

/// Blocks in the two rows of a ciphertext.
///
/// ```
/// use tobari_sense::{Arrangement, Layout};
/// use tobari_lattice::params::NamedSet;
/// let parameters = NamedSet::from_name("sense").unwrap().parameters()?;
/// let layout = Layout::new(&parameters, Arrangement::Strided).unwrap();
/// assert_eq!(layout.blocks(), 128);
/// assert_eq!((layout.slot(0, 1), layout.slot(1, 0), layout.slot(64, 0)), (64, 1, 16_384));
/// # Ok::<(), tobari_lattice::params::LatticeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    columns: usize,
    arrangement: Arrangement,
}

impl Layout {
    /// `None` unless a row has room for a block.
    pub fn new(parameters: &LatticeParameters, arrangement: Arrangement) -> Option<Self> {
        let columns = parameters.degree() / 2;
        (columns >= READINGS).then_some(Self { columns, arrangement })
    }

    /// The arrangement of blocks.
    pub fn arrangement(&self) -> Arrangement {
        self.arrangement
    }

    /// Slots of a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Slots of a ciphertext.
    pub fn slots(&self) -> usize {
        2 * self.columns
    }

    /// Blocks of a row, a power of two.
    pub fn row_blocks(&self) -> usize {
        self.columns / READINGS
    }

    /// Devices of a ciphertext.
    pub fn blocks(&self) -> usize {
        2 * self.row_blocks()
    }

    /// The slot of a position in a block.
    pub fn slot(&self, block: usize, position: usize) -> usize {
        let (row, column) = (block / self.row_blocks(), block % self.row_blocks());
        row * self.columns
            + match self.arrangement {
                Arrangement::Contiguous => column * READINGS + position,
                Arrangement::Strided => position * self.row_blocks() + column,
            }
    }

    /// The rotation in slots that turns all blocks by this many positions, in the strided
    /// arrangement.
    pub fn turn(&self, positions: usize) -> i64 {
        (positions * self.row_blocks()) as i64
    }

    /// The rotations that sum a row's blocks, one after another: the step, and the number of values
    /// that are a step apart and are added. In the contiguous arrangement every block then has the
    /// sum, in the strided one the first block. There eight values share a key, as keys are large.
    pub fn folds(&self) -> impl Iterator<Item = (i64, usize)> {
        let (unit, values) = match self.arrangement {
            Arrangement::Contiguous => (READINGS, 2),
            Arrangement::Strided => (1, 8),
        };
        let all = self.row_blocks();
        let steps = std::iter::successors(Some(1), move |step| Some(step * values)).take_while(move |step| *step < all);
        steps.map(move |step| ((unit * step) as i64, values.min(all / step)))
    }
}

/// The exponent of a place in a frame's transform: `place` holds the value at `ψ^(2j+1)`, and `j`
/// is `place` with its bits reversed. Blocks hold values by `j`.
pub fn of_place(place: usize) -> usize {
    usize::from((place as u8).reverse_bits())
}

/// The position of a coefficient in a block after the transform back: `16 k_2 + k_1` for the
/// coefficient `16 k_1 + k_2`.
pub fn of_coefficient(coefficient: usize) -> usize {
    coefficient % 16 * 16 + coefficient / 16
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use tobari_lattice::params::NamedSet;

    #[test]
    fn every_slot_is_one_position_of_one_block() {
        let parameters = NamedSet::from_name("search").unwrap().parameters().unwrap();
        for arrangement in [Arrangement::Contiguous, Arrangement::Strided] {
            let layout = Layout::new(&parameters, arrangement).unwrap();
            let mut seen = vec![false; layout.slots()];
            for block in 0..layout.blocks() {
                for position in 0..READINGS {
                    let slot = &mut seen[layout.slot(block, position)];
                    assert!(!*slot);
                    *slot = true;
                }
            }
            assert!(
                seen.iter().all(|seen| *seen)
                    && layout.blocks() == 16
                    && layout.folds().map(|(_, count)| count).product::<usize>() == 8
            );
        }
        let mut found: Vec<usize> = (0..READINGS).map(of_coefficient).collect();
        assert!(found.iter().enumerate().all(|(k, position)| of_coefficient(*position) == k));
        found.sort_unstable();
        assert!(found.into_iter().eq(0..READINGS));
    }
}
