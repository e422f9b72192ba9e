//! One figure, in the format of all benchmarks and all peers.

use serde::{Deserialize, Serialize};

/// One figure; `P` has its parameters.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Line<P> {
    pub(crate) job: String,
    pub(crate) what: String,
    pub(crate) engine: String,
    pub(crate) params: P,
    pub(crate) backend: String,
    pub(crate) threads: u32,
    pub(crate) unit: String,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) runs: usize,
    pub(crate) labels: Vec<String>,
}

/// The label of figures from a machine that was not quiet.
pub(crate) const DISTURBED: &str = "disturbed";

impl<P> Line<P> {
    pub(crate) fn is_disturbed(&self) -> bool {
        self.labels.iter().any(|label| label == DISTURBED)
    }
}

/// Median, minimum and maximum of at least one value.
pub(crate) fn summary(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_of_the_middle_and_the_ends_are_kept() {
        assert_eq!(summary(vec![3.0, 1.0, 2.0, 9.0, 4.0]), (3.0, 1.0, 9.0));
    }
}
