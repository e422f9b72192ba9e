//! Degrees of compositions for the sign.
//!
//! Each row is a composition such that no other has a clearly smaller error (15 %) with as few
//! levels and products. The degrees are the highest for their levels and products. The search in
//! `search.rs`, a test, checks the rows: it is the dynamic program of Lee et al. (see
//! [`sign`](super::sign)).

use super::series;

/// Degrees of a composition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    /// In the order of computation.
    pub(super) degrees: &'static [usize],
    /// The error for `max(u, 0)` on [-1, 1], with the best edge.
    pub(super) error: f64,
}

impl Row {
    /// Levels.
    pub(super) fn depth(&self) -> usize {
        self.degrees.iter().map(|degree| series::levels(*degree)).sum()
    }

    /// Products of ciphertexts.
    pub(super) fn products(&self) -> usize {
        self.degrees.iter().map(|degree| odd_products(*degree)).sum()
    }
}

/// Products of ciphertexts for an odd polynomial.
pub(super) fn odd_products(degree: usize) -> usize {
    let used: Vec<bool> = (0..=degree).map(|k| k % 2 == 1).collect();
    series::products_of(&used)
}

/// In ascending order of levels, then of products.
pub(super) const TABLE: &[Row] = &[
    // 2 levels
    Row { degrees: &[3], error: 5.728e-2 },
    // 3 levels
    Row { degrees: &[5], error: 4.019e-2 },
    Row { degrees: &[7], error: 3.115e-2 },
    // 4 levels
    Row { degrees: &[11], error: 2.177e-2 },
    Row { degrees: &[13], error: 1.900e-2 },
    Row { degrees: &[15], error: 1.688e-2 },
    // 5 levels
    Row { degrees: &[3, 5], error: 1.972e-2 },
    Row { degrees: &[3, 7], error: 1.494e-2 },
    Row { degrees: &[27], error: 1.028e-2 },
    Row { degrees: &[31], error: 9.139e-3 },
    // 6 levels
    Row { degrees: &[5, 5], error: 1.323e-2 },
    Row { degrees: &[5, 7], error: 9.936e-3 },
    Row { degrees: &[7, 7], error: 7.513e-3 },
    Row { degrees: &[55], error: 5.544e-3 },
    Row { degrees: &[63], error: 4.919e-3 },
    // 7 levels
    Row { degrees: &[3, 3, 5], error: 9.182e-3 },
    Row { degrees: &[5, 11], error: 6.675e-3 },
    Row { degrees: &[7, 11], error: 5.018e-3 },
    Row { degrees: &[7, 13], error: 4.310e-3 },
    Row { degrees: &[7, 15], error: 3.785e-3 },
    // 8 levels
    Row { degrees: &[3, 5, 5], error: 6.026e-3 },
    Row { degrees: &[3, 3, 11], error: 4.540e-3 },
    Row { degrees: &[11, 11], error: 3.389e-3 },
    Row { degrees: &[11, 13], error: 2.906e-3 },
    Row { degrees: &[7, 27], error: 2.209e-3 },
    Row { degrees: &[7, 31], error: 1.945e-3 },
    // 9 levels
    Row { degrees: &[5, 5, 5], error: 3.945e-3 },
    Row { degrees: &[5, 5, 7], error: 2.903e-3 },
    Row { degrees: &[5, 7, 7], error: 2.160e-3 },
    Row { degrees: &[7, 7, 7], error: 1.611e-3 },
    Row { degrees: &[11, 27], error: 1.477e-3 },
    Row { degrees: &[13, 27], error: 1.272e-3 },
    Row { degrees: &[15, 27], error: 1.118e-3 },
    Row { degrees: &[15, 31], error: 9.823e-4 },
    // 10 levels
    Row { degrees: &[3, 3, 5, 5], error: 2.662e-3 },
    Row { degrees: &[5, 5, 11], error: 1.902e-3 },
    Row { degrees: &[5, 7, 11], error: 1.412e-3 },
    Row { degrees: &[7, 7, 11], error: 1.049e-3 },
    Row { degrees: &[7, 7, 13], error: 8.953e-4 },
    Row { degrees: &[7, 7, 15], error: 7.794e-4 },
    Row { degrees: &[27, 27], error: 6.555e-4 },
    Row { degrees: &[15, 55], error: 5.751e-4 },
    Row { degrees: &[15, 61], error: 5.213e-4 },
    // 11 levels
    Row { degrees: &[3, 5, 5, 5], error: 1.723e-3 },
    Row { degrees: &[3, 3, 5, 11], error: 1.267e-3 },
    Row { degrees: &[3, 3, 7, 11], error: 9.375e-4 },
    Row { degrees: &[7, 11, 11], error: 6.980e-4 },
    Row { degrees: &[5, 7, 27], error: 6.007e-4 },
    Row { degrees: &[7, 7, 27], error: 4.439e-4 },
    Row { degrees: &[7, 7, 31], error: 3.885e-4 },
    Row { degrees: &[27, 55], error: 3.348e-4 },
    Row { degrees: &[29, 59], error: 2.934e-4 },
    Row { degrees: &[31, 61], error: 2.672e-4 },
    // 12 levels
    Row { degrees: &[5, 5, 5, 5], error: 1.111e-3 },
    Row { degrees: &[3, 5, 5, 11], error: 8.137e-4 },
    Row { degrees: &[3, 5, 7, 11], error: 6.007e-4 },
    Row { degrees: &[3, 7, 7, 11], error: 4.436e-4 },
    Row { degrees: &[7, 7, 7, 7], error: 3.255e-4 },
    Row { degrees: &[7, 11, 27], error: 2.931e-4 },
    Row { degrees: &[7, 13, 27], error: 2.513e-4 },
    Row { degrees: &[7, 15, 27], error: 2.202e-4 },
    Row { degrees: &[7, 15, 31], error: 1.929e-4 },
    Row { degrees: &[55, 55], error: 1.733e-4 },
    Row { degrees: &[59, 59], error: 1.520e-4 },
    Row { degrees: &[61, 63], error: 1.383e-4 },
    // 13 levels
    Row { degrees: &[3, 3, 5, 5, 5], error: 7.386e-4 },
    Row { degrees: &[5, 5, 5, 11], error: 5.204e-4 },
    Row { degrees: &[5, 5, 7, 11], error: 3.833e-4 },
    Row { degrees: &[5, 7, 7, 11], error: 2.828e-4 },
    Row { degrees: &[7, 7, 7, 11], error: 2.087e-4 },
    Row { degrees: &[3, 7, 7, 27], error: 1.847e-4 },
    Row { degrees: &[7, 7, 7, 15], error: 1.535e-4 },
    Row { degrees: &[7, 27, 27], error: 1.277e-4 },
    Row { degrees: &[7, 15, 55], error: 1.110e-4 },
    Row { degrees: &[15, 15, 31], error: 9.544e-5 },
    // 14 levels
    Row { degrees: &[3, 5, 5, 5, 5], error: 4.733e-4 },
    Row { degrees: &[3, 5, 5, 5, 7], error: 3.417e-4 },
    Row { degrees: &[3, 3, 5, 7, 11], error: 2.518e-4 },
    Row { degrees: &[3, 3, 7, 7, 11], error: 1.857e-4 },
    Row { degrees: &[7, 7, 11, 11], error: 1.372e-4 },
    Row { degrees: &[5, 7, 7, 27], error: 1.168e-4 },
    Row { degrees: &[7, 7, 7, 27], error: 8.583e-5 },
    Row { degrees: &[13, 27, 27], error: 7.209e-5 },
    Row { degrees: &[15, 27, 27], error: 6.303e-5 },
    Row { degrees: &[15, 15, 55], error: 5.469e-5 },
    Row { degrees: &[15, 15, 61], error: 4.949e-5 },
    // 15 levels
    Row { degrees: &[5, 5, 5, 5, 5], error: 3.023e-4 },
    Row { degrees: &[3, 5, 5, 5, 11], error: 2.183e-4 },
    Row { degrees: &[3, 5, 5, 7, 11], error: 1.602e-4 },
    Row { degrees: &[3, 5, 7, 7, 11], error: 1.178e-4 },
    Row { degrees: &[3, 7, 7, 7, 11], error: 8.680e-5 },
    Row { degrees: &[7, 7, 7, 7, 7], error: 6.352e-5 },
    Row { degrees: &[7, 7, 11, 27], error: 5.632e-5 },
    Row { degrees: &[7, 7, 13, 27], error: 4.816e-5 },
    Row { degrees: &[7, 7, 7, 55], error: 4.280e-5 },
    Row { degrees: &[27, 27, 27], error: 3.639e-5 },
    Row { degrees: &[15, 27, 55], error: 3.150e-5 },
    Row { degrees: &[15, 29, 59], error: 2.747e-5 },
    Row { degrees: &[15, 31, 63], error: 2.424e-5 },
    // 16 levels
    Row { degrees: &[3, 3, 5, 5, 5, 5], error: 1.989e-4 },
    Row { degrees: &[5, 5, 5, 5, 11], error: 1.388e-4 },
    Row { degrees: &[5, 5, 5, 7, 11], error: 1.015e-4 },
    Row { degrees: &[5, 5, 7, 7, 11], error: 7.463e-5 },
    Row { degrees: &[5, 7, 7, 7, 11], error: 5.493e-5 },
    Row { degrees: &[7, 7, 7, 7, 11], error: 4.035e-5 },
    Row { degrees: &[7, 7, 7, 7, 13], error: 3.402e-5 },
    Row { degrees: &[7, 7, 7, 7, 15], error: 2.945e-5 },
    Row { degrees: &[7, 7, 27, 27], error: 2.422e-5 },
    Row { degrees: &[7, 7, 15, 55], error: 2.093e-5 },
    Row { degrees: &[27, 27, 55], error: 1.809e-5 },
    Row { degrees: &[27, 29, 59], error: 1.580e-5 },
    Row { degrees: &[29, 29, 61], error: 1.429e-5 },
    Row { degrees: &[31, 31, 61], error: 1.261e-5 },
];
