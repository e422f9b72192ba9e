//! Chebyshev series: values, and their cost on ciphertexts.
//!
//! ```text
//! p(t) = c_0 + c_1 T_1(t) + c_2 T_2(t) …,    T_k(cos θ) = cos kθ
//! ```
//!
//! **Values** come from Clenshaw's recurrence (Math. Comp. 9, 1955), which needs no `T_k`.
//!
//! **Cost.** A series of degree `d` takes `⌈log2(d + 1)⌉` levels. Its products of ciphertexts are
//! counted by their key switches, which cost the most time. The evaluator of `tobari-lattice`
//! computes some `T_k` by `T_(a+b) = 2 T_a T_b - T_(a-b)`, with one key switch each. It then splits
//! the series at powers of two `h`, by `2 T_k T_h = T_(h+k) + T_(h-k)`. A high half with products
//! takes a key switch before its product with `T_h`, and the sum of all takes the last one. Odd and
//! even series need fewer `T_k`.

use std::collections::BTreeSet;

/// `Σ c_k T_k(t)` by Clenshaw's recurrence. An empty series is 0.
pub fn value(series: &[f64], t: f64) -> f64 {
    let Some((constant, rest)) = series.split_first() else { return 0.0 };
    let (b1, b2) = rest.iter().rev().fold((0.0, 0.0), |(b1, b2), c| (c + 2.0 * t * b1 - b2, b1));
    constant + t * b1 - b2
}

/// The highest `k` with a coefficient other than 0; 0 if there is none.
pub fn degree(series: &[f64]) -> usize {
    series.iter().rposition(|c| *c != 0.0).unwrap_or(0)
}

/// Levels of a degree: `⌈log2(d + 1)⌉`.
pub const fn levels(degree: usize) -> usize {
    (degree + 1).next_power_of_two().trailing_zeros() as usize
}

/// Products of ciphertexts (key switches) for one value of the series.
pub fn products(series: &[f64]) -> usize {
    let used: Vec<bool> = series[..series.len().min(degree(series) + 1)].iter().map(|c| *c != 0.0).collect();
    products_of(&used)
}

/// The same for a series that uses these `T_k`. The last one is used, unless the series is a
/// constant.
pub(super) fn products_of(used: &[bool]) -> usize {
    let count = |baby: usize| {
        let mut known = BTreeSet::from([1]);
        let (inner, open) = parts(used, baby, levels(used.len().max(1) - 1), &mut known);
        inner + usize::from(open) + known.len() - 1
    };
    (1..=6).map(|log| count(1 << log)).min().unwrap_or(0)
}

/// Key switches of a part besides those of `T_k`, which join `known`; and whether the part is a sum
/// with products that still need their key switch.
fn parts(used: &[bool], baby: usize, depth: usize, known: &mut BTreeSet<usize>) -> (usize, bool) {
    let degree = used.iter().rposition(|used| *used).unwrap_or(0);
    let terms = || used.iter().enumerate().skip(1).filter(|(_, used)| **used).map(|(k, _)| k);
    if degree < baby && terms().all(|k| levels(k - 1) < depth) {
        terms().for_each(|k| learn(k, known));
        return (0, false);
    }
    let half = (degree + 1).next_power_of_two() / 2;
    learn(half, known);
    let (low, high) = used[..=degree].split_at(half);
    let mut low = low.to_vec();
    high.iter().enumerate().skip(1).filter(|(_, used)| **used).for_each(|(k, _)| low[half - k] = true);
    let low = parts(&low, baby, depth, known);
    if high.len() == 1 {
        return low;
    }
    let high = parts(high, baby, depth - 1, known);
    (low.0 + high.0 + usize::from(high.1), true)
}

/// `T_k` and the elements that it comes from.
fn learn(k: usize, known: &mut BTreeSet<usize>) {
    if k > 0 && known.insert(k) {
        let left = k.next_power_of_two() / 2;
        [left, k - left, 2 * left - k].into_iter().for_each(|k| learn(k, known));
    }
}

/// `c_0 + c_1 x + c_2 x²` for `x = center + radius t`, as a series in `t` without zeros at its end.
pub(super) fn of_quadratic([c0, c1, c2]: [f64; 3], center: f64, radius: f64) -> Vec<f64> {
    let square = c2 * radius * radius / 2.0;
    let mut series = vec![c0 + center * (c1 + center * c2) + square, radius * (c1 + 2.0 * c2 * center), square];
    series.truncate(degree(&series) + 1);
    series
}

/// The sum of two series, without zeros at its end.
pub(super) fn sum(a: &[f64], b: &[f64]) -> Vec<f64> {
    let term = |series: &[f64], k: usize| series.get(k).copied().unwrap_or(0.0);
    let mut sum: Vec<f64> = (0..a.len().max(b.len()).max(1)).map(|k| term(a, k) + term(b, k)).collect();
    sum.truncate(degree(&sum) + 1);
    sum
}

/// `t` times a series.
pub(super) fn times_t(series: &[f64]) -> Vec<f64> {
    let mut product = vec![0.0; series.len() + 1];
    for (k, c) in series.iter().enumerate() {
        // t T_k = (T_(k+1) + T_|k-1|)/2, and t T_0 = T_1
        product[k + 1] += c / 2.0;
        product[k.abs_diff(1)] += c / 2.0;
    }
    product
}
