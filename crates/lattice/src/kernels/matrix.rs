//! Matrices of small weights, in the layout that the loops read.
//!
//! Rows of residues are processed in tiles of [`TILE`], and outputs in blocks of [`BLOCK`]: see
//! [`Poly::weighted_sums`](crate::ring::Poly::weighted_sums).

/// Residues of each input that are processed together.
pub(crate) const TILE: usize = 64;
/// Outputs that are summed together.
pub(crate) const BLOCK: usize = 4;
/// Tiles of a sum with signs.
pub(crate) const SIGNED: usize = 16;
/// The most inputs of a matrix.
pub const MAX_INPUTS: usize = 1024;
/// The shift of weights.
pub(crate) const SHIFT: i64 = 1 << 15;

/// Small integers: `outputs` rows of `inputs` weights each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightMatrix {
    inputs: usize,
    outputs: usize,
    /// For each block of outputs and each input `w + 2^15`. Padding outputs in the last block have
    /// weight 0.
    pub(crate) blocks: Vec<[u64; BLOCK]>,
}

impl WeightMatrix {
    /// A matrix of weights, row by row; none for no weights, more than [`MAX_INPUTS`] a row,
    /// incomplete rows, or a weight above `2^15` in absolute value.
    ///
    /// ```
    /// use tobari_lattice::ring::WeightMatrix;
    /// let matrix = WeightMatrix::new(2, &[1, -2, 3, 4]).unwrap();
    /// assert_eq!((matrix.inputs(), matrix.outputs()), (2, 2));
    /// assert!(WeightMatrix::new(2, &[1, -2, 40_000, 4]).is_none() && WeightMatrix::new(2, &[1]).is_none());
    /// ```
    pub fn new(inputs: usize, weights: &[i32]) -> Option<Self> {
        let whole = (1..=MAX_INPUTS).contains(&inputs) && !weights.is_empty() && weights.len().is_multiple_of(inputs);
        if !whole || weights.iter().any(|w| i64::from(*w).abs() > SHIFT) {
            return None;
        }
        let outputs = weights.len() / inputs;
        let mut blocks = Vec::with_capacity(outputs.div_ceil(BLOCK) * inputs);
        for rows in weights.chunks(BLOCK * inputs) {
            for i in 0..inputs {
                let weight = |row: usize| rows.get(row * inputs + i).map_or(0, |w| i64::from(*w));
                blocks.push(std::array::from_fn(|row| (weight(row) + SHIFT) as u64));
            }
        }
        Some(Self { inputs, outputs, blocks })
    }

    /// Weights of a row.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Rows.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The weights of a row; none if the row does not exist.
    pub fn row(&self, row: usize) -> impl Iterator<Item = i32> {
        let blocks = if row < self.outputs { &self.blocks[row / BLOCK * self.inputs..][..self.inputs] } else { &[] };
        blocks.iter().map(move |block| (block[row % BLOCK] as i64 - SHIFT) as i32)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn what_is_no_matrix_is_refused() {
        let good = WeightMatrix::new(3, &[1, 2, 3, -4, 5, 6]).unwrap();
        assert_eq!((good.inputs(), good.outputs()), (3, 2));
        assert_eq!(good.row(1).collect::<Vec<_>>(), [-4, 5, 6]);
        assert_eq!(good.row(2).count(), 0);
        for (inputs, weights) in [(0, &[1][..]), (2, &[]), (2, &[1, 2, 3]), (1, &[32_769]), (1, &[-32_769])] {
            assert!(WeightMatrix::new(inputs, weights).is_none());
        }
        assert!(WeightMatrix::new(MAX_INPUTS + 1, &vec![0; MAX_INPUTS + 1]).is_none());
    }
}
