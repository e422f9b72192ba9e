//! Sparse matrices: the linear maps between the values of a network.

use crate::graph::Op;
use tobari_infer::Volume;

/// A matrix by rows; only entries other than 0 are stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    columns: usize,
    /// The first entry of each row, and the end of the last one.
    starts: Vec<usize>,
    places: Vec<u32>,
    weights: Vec<f64>,
}

impl Matrix {
    /// A matrix of these rows of columns and weights. Entries of one place add up, and zeros go.
    pub fn new(columns: usize, rows: impl IntoIterator<Item = Vec<(u32, f64)>>) -> Self {
        let mut matrix = Self { columns, starts: vec![0], places: Vec::new(), weights: Vec::new() };
        for mut row in rows {
            row.sort_unstable_by_key(|(place, _)| *place);
            let start = matrix.places.len();
            for (place, weight) in row {
                if matrix.places.len() > start && matrix.places.last() == Some(&place) {
                    if let Some(last) = matrix.weights.last_mut() {
                        *last += weight;
                    }
                } else {
                    matrix.places.push(place);
                    matrix.weights.push(weight);
                }
            }
            matrix.drop_zeros(start);
            matrix.starts.push(matrix.places.len());
        }
        matrix
    }

    /// Removes the zeros from the entry `start` on.
    fn drop_zeros(&mut self, start: usize) {
        let mut kept = start;
        for at in start..self.places.len() {
            if self.weights[at] != 0.0 {
                (self.places[kept], self.weights[kept]) = (self.places[at], self.weights[at]);
                kept += 1;
            }
        }
        self.places.truncate(kept);
        self.weights.truncate(kept);
    }

    /// A matrix with these numbers in its diagonal.
    pub fn diagonal(numbers: &[f64]) -> Self {
        Self::new(numbers.len(), numbers.iter().enumerate().map(|(at, x)| vec![(at as u32, *x)]))
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// Columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Entries.
    pub fn entries(&self) -> usize {
        self.places.len()
    }

    /// The entries of a row: columns and weights.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let range = self.starts[row]..self.starts[row + 1];
        self.places[range.clone()].iter().zip(&self.weights[range]).map(|(place, weight)| (*place as usize, *weight))
    }

    /// `M x`
    pub fn apply(&self, x: &[f64]) -> Vec<f64> {
        (0..self.rows()).map(|row| self.row(row).map(|(place, weight)| weight * x[place]).sum()).collect()
    }

    /// `M N`; `None` if it would have more than `most` entries before equal places add up.
    pub fn times(&self, other: &Self, most: usize) -> Option<Self> {
        let of_row = |row: usize| self.row(row).map(|(place, _)| other.starts[place + 1] - other.starts[place]).sum();
        let count: usize = (0..self.rows()).map(of_row).map(|count: usize| count.min(other.columns)).sum();
        if count > most {
            return None;
        }
        // sums of a row by place, and the places in use
        let (mut sums, mut used) = (vec![0.0; other.columns], Vec::new());
        let mut known = vec![false; other.columns];
        let rows = (0..self.rows()).map(|row| {
            for (middle, weight) in self.row(row) {
                for (place, other) in other.row(middle) {
                    sums[place] += weight * other;
                    if !known[place] {
                        known[place] = true;
                        used.push(place as u32);
                    }
                }
            }
            let row = used.iter().map(|place| (*place, sums[*place as usize])).collect();
            for place in used.drain(..) {
                sums[place as usize] = 0.0;
                known[place as usize] = false;
            }
            row
        });
        let rows: Vec<Vec<(u32, f64)>> = rows.collect();
        Some(Self::new(other.columns, rows))
    }

    /// The same with each row times a number.
    #[must_use]
    pub fn scale_rows(mut self, factors: impl Fn(usize) -> f64) -> Self {
        for row in 0..self.rows() {
            let factor = factors(row);
            self.weights[self.starts[row]..self.starts[row + 1]].iter_mut().for_each(|weight| *weight *= factor);
        }
        self
    }

    /// The same with each column times a number.
    #[must_use]
    pub fn scale_columns(mut self, factors: impl Fn(usize) -> f64) -> Self {
        self.places.iter().zip(&mut self.weights).for_each(|(place, weight)| *weight *= factors(*place as usize));
        self
    }

    /// `M + N`, of matrices of one size.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let of_row = |row: usize| self.row(row).chain(other.row(row)).map(|(place, w)| (place as u32, w)).collect();
        Self::new(self.columns, (0..self.rows()).map(of_row))
    }

    /// Whether it is square, and each entry is on the diagonal.
    pub fn is_diagonal(&self) -> bool {
        self.rows() == self.columns && (0..self.rows()).all(|row| self.row(row).all(|(place, _)| place == row))
    }
}

/// The matrix and the offsets of a linear node with one input; `None` for other nodes.
pub fn of_op(op: &Op, input: Volume, output: Volume) -> Option<(Matrix, Vec<f64>)> {
    let none = || vec![0.0; output.len()];
    let pick = |numbers: &[f64], at: usize| match numbers.len() {
        1 => numbers[0],
        count if count == output.len() => numbers[at],
        _ => numbers[at / (output.height * output.width)],
    };
    Some(match op {
        Op::Convolution { kernel, stride, dilation, padding, groups, weights, bias, channels } => {
            let window = Window { kernel: *kernel, stride: *stride, dilation: *dilation, padding: *padding };
            let (inner, outer) = (input.channels / groups, channels / groups);
            let row = |[o, r, c]: [usize; 3]| {
                let mut row = Vec::with_capacity(inner * kernel[0] * kernel[1]);
                for (tap, [y, x]) in window.places(input, [r, c]) {
                    for i in 0..inner {
                        let weight = weights[(o * inner + i) * kernel[0] * kernel[1] + tap];
                        row.push((input.index(o / outer * inner + i, y, x) as u32, weight));
                    }
                }
                row
            };
            let bias = places(output).map(|[o, ..]| bias[o]).collect();
            (Matrix::new(input.len(), places(output).map(row)), bias)
        }
        Op::Dense { weights, bias, .. } => {
            let row = |row: &[f64]| row.iter().enumerate().map(|(at, w)| (at as u32, *w)).collect();
            (Matrix::new(input.len(), weights.chunks_exact(input.len()).map(row)), bias.clone())
        }
        Op::Affine { scale, shift } => {
            let scales: Vec<f64> = (0..output.len()).map(|at| pick(scale, at)).collect();
            (Matrix::diagonal(&scales), (0..output.len()).map(|at| pick(shift, at)).collect())
        }
        Op::AveragePool { kernel, stride, padding, count_padding } => {
            let window = Window { kernel: *kernel, stride: *stride, dilation: [1; 2], padding: *padding };
            let row = |[o, r, c]: [usize; 3]| {
                let inside: Vec<u32> =
                    window.places(input, [r, c]).map(|(_, [y, x])| input.index(o, y, x) as u32).collect();
                let count = if *count_padding { kernel[0] * kernel[1] } else { inside.len() };
                inside.into_iter().map(|place| (place, 1.0 / count as f64)).collect()
            };
            (Matrix::new(input.len(), places(output).map(row)), none())
        }
        Op::Gather { places, .. } => {
            let row = |place: &Option<u32>| place.map(|place| (place, 1.0)).into_iter().collect();
            (Matrix::new(input.len(), places.iter().map(row)), none())
        }
        _ => return None,
    })
}

/// The places of a volume in order.
pub(crate) fn places(volume: Volume) -> impl Iterator<Item = [usize; 3]> {
    (0..volume.channels).flat_map(move |channel| {
        (0..volume.height).flat_map(move |row| (0..volume.width).map(move |column| [channel, row, column]))
    })
}

/// The places of a window.
pub(crate) struct Window {
    pub(crate) kernel: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) dilation: [usize; 2],
    pub(crate) padding: [usize; 4],
}

impl Window {
    /// The numbers of the input under the window of a result: the place in the window, then row and
    /// column.
    pub(crate) fn places(&self, input: Volume, result: [usize; 2]) -> impl Iterator<Item = (usize, [usize; 2])> + '_ {
        let at = move |axis: usize, place: usize| {
            (self.stride[axis] * result[axis] + self.dilation[axis] * place).checked_sub(self.padding[axis])
        };
        (0..self.kernel[0] * self.kernel[1]).filter_map(move |tap| {
            let (row, column) = (at(0, tap / self.kernel[1])?, at(1, tap % self.kernel[1])?);
            (row < input.height && column < input.width).then_some((tap, [row, column]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_and_sums_are_those_of_full_matrices() {
        let a = Matrix::new(3, [vec![(2, 1.0), (0, 2.0)], vec![(1, -1.0), (1, 1.0)]]);
        assert_eq!((a.rows(), a.columns(), a.entries()), (2, 3, 2));
        let b = Matrix::new(2, [vec![(0, 1.0)], vec![(1, 5.0)], vec![(0, -2.0), (1, 3.0)]]);
        let product = a.times(&b, 100).unwrap();
        assert_eq!(product.apply(&[1.0, 1.0]), a.apply(&b.apply(&[1.0, 1.0])));
        assert_eq!(product.row(0).collect::<Vec<_>>(), [(1, 3.0)], "2 - 2 is no entry");
        assert!(a.times(&b, 1).is_none());
        assert_eq!(a.plus(&a).apply(&[1.0, 2.0, 3.0]), [10.0, 0.0]);
        assert!(Matrix::diagonal(&[1.0, 2.0]).is_diagonal() && !b.is_diagonal());
    }
}
