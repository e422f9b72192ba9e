//! The search for the best compositions, which checks the table.
//!
//! A stage matters by the ratio `ρ` of the ends of its interval alone. So each degree is a map from
//! ratio to ratio, tabulated here over `ln(ρ/(1 - ρ))`. For a given edge, the dynamic program keeps
//! the largest ratio for each number of levels and products: a larger one is never worse.

use super::gates::Form;
use super::sign::MARGIN;
use super::table::{TABLE, odd_products};
use super::{Limits, pieces, remez, series};
use crate::Activation;
use std::collections::BTreeMap;

const FROM: f64 = -12.0;
const STEP: f64 = 0.1;
const COUNT: usize = 160;
/// Levels of all stages together.
const LEVELS: usize = 16;

/// A degree as a map.
struct Map {
    degree: usize,
    levels: usize,
    products: usize,
    /// `ln(E/(1 - E))`, by the logarithm before.
    errors: Vec<f64>,
}

impl Map {
    fn new(degree: usize) -> Self {
        let error = |j: usize| {
            let ratio = 1.0 / (1.0 + (-(FROM + STEP * j as f64)).exp());
            let found = remez::minimax(|_| 1.0, remez::Terms::Odd, degree, [ratio, 1.0], &[]);
            // none: as small as rounding errors
            let error = found.map_or(0.0, |found| found.error).max(1e-14);
            (error / (1.0 - error)).ln()
        };
        let errors = (0..COUNT).map(error).collect();
        Self { degree, levels: series::levels(degree), products: odd_products(degree), errors }
    }

    fn error(&self, ratio: f64) -> f64 {
        let place = ((ratio / (1.0 - ratio)).ln() - FROM) / STEP;
        let at = (place.max(0.0) as usize).min(COUNT - 2);
        let part = place - at as f64;
        1.0 / (1.0 + (-(self.errors[at] * (1.0 - part) + self.errors[at + 1] * part)).exp())
    }
}

/// The degrees with the smallest error for each cost, and an estimate of the error.
type Best = BTreeMap<(usize, usize), (f64, Vec<usize>)>;

/// Adds the compositions for one edge.
fn search(maps: &[Map], edge: f64, best: &mut Best) {
    let mut states: Vec<BTreeMap<usize, (f64, Vec<usize>)>> = vec![BTreeMap::new(); LEVELS + 1];
    states[0].insert(0, (edge, vec![]));
    for levels in 0..LEVELS {
        for (cost, (ratio, degrees)) in states[levels].clone() {
            for map in maps.iter().filter(|map| levels + map.levels <= LEVELS) {
                let (error, to) = (map.error(ratio), (levels + map.levels, cost + map.products));
                let list: Vec<usize> = degrees.iter().copied().chain([map.degree]).collect();
                let loss = (error / 2.0).max(edge / 16.0);
                if best.get(&to).is_none_or(|(least, _)| loss < *least) {
                    best.insert(to, (loss, list.clone()));
                }
                let next = (1.0 - error) * (1.0 - MARGIN) / ((1.0 + error) * (1.0 + MARGIN));
                if error > 1e-9 && states[to.0].get(&to.1).is_none_or(|(ratio, _)| next > *ratio) {
                    states[to.0].insert(to.1, (next, list));
                }
            }
        }
    }
}

#[test]
fn no_composition_is_better_than_those_of_the_table() {
    let pieces = pieces::pieces(Activation::Relu, -1.0, 1.0).unwrap().unwrap();
    let form = Form::new(&pieces, [-1.0, 1.0], 1.0, &Limits::default()).unwrap().unwrap();
    for row in TABLE {
        let error = form.with(row.degrees).unwrap().error();
        assert!((error / row.error - 1.0).abs() < 0.01, "{row:?}: {error:e}");
    }
    let mut highest = BTreeMap::new();
    for degree in (3..=63).step_by(2) {
        highest.insert((series::levels(degree), odd_products(degree)), degree);
    }
    let maps: Vec<Map> = highest.values().map(|degree| Map::new(*degree)).collect();
    let mut best = Best::new();
    (5..=200).for_each(|j| search(&maps, (-f64::from(j) / 10.0).exp2(), &mut best));
    assert!(best.len() > 150, "{}", best.len());
    let mut checked = 0;
    for ((levels, products), (loss, degrees)) in &best {
        let cheaper = |row: &&super::table::Row| row.depth() <= *levels && row.products() <= *products;
        let least = TABLE.iter().filter(cheaper).map(|row| row.error).fold(f64::INFINITY, f64::min);
        // the exact error, where the estimate does not decide
        if *loss < 1.2 * least {
            checked += 1;
            let error = form.with(degrees).unwrap().error();
            assert!(least < 1.15 * error, "{degrees:?}: {error:e} with {levels} levels and {products} products");
        }
    }
    assert!(checked > 50, "{checked}");
}

#[test]
fn the_table_is_in_order() {
    let cost = |row: &super::table::Row| (row.depth(), row.products());
    assert!(TABLE.windows(2).all(|pair| cost(&pair[0]) < cost(&pair[1])));
    for (at, row) in TABLE.iter().enumerate() {
        let better = |other: &super::table::Row| other.products() <= row.products() && other.error <= row.error;
        assert!(!TABLE[..at].iter().any(better), "{row:?}");
    }
}
