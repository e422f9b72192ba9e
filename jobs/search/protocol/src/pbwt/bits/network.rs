//! The maps of a site as three layers of diagonals.

use super::super::maps::Site;
use super::{Layout, digits};
use std::collections::BTreeMap;

/// Diagonals by their steps; slots from the period on repeat.
pub(super) type Diagonals = BTreeMap<i64, Vec<f64>>;

impl Layout {
    /// All diagonals of these steps, at first 0.
    fn zeros(&self, steps: impl IntoIterator<Item = i64>) -> Diagonals {
        steps.into_iter().map(|step| (step, vec![0.0; self.own_slots()])).collect()
    }

    /// The layers of the maps of one site, by place. Each moves places by one digit of their
    /// distances. The last one writes both rows.
    pub(super) fn network(&self, sites: &[&Site]) -> [Diagonals; 3] {
        let (bits, unit) = (digits(self.period), 2 * self.stride as i64);
        let mut layers = self.layers().map(|(steps, _)| self.zeros(steps));
        for (number, site) in sites.iter().enumerate() {
            for place in &site.places {
                let (mut position, mut shift) = (place.position, 0);
                for (layer, diagonals) in layers.iter_mut().enumerate() {
                    let digit = (place.distance >> shift) % (1 << bits[layer]);
                    let step = (digit << shift) as i64 * unit;
                    position = (position + self.period - (digit << shift)) % self.period;
                    shift += bits[layer];
                    if layer < 2 {
                        self.set(diagonals, step, self.slot(position, place.allele, number));
                    } else {
                        self.both_rows(diagonals, step, position, place.allele, number);
                    }
                }
            }
        }
        layers
    }

    /// The map of the first symbol, which knows no interval: the places after the first site.
    pub(super) fn first(&self, sites: &[&Site]) -> Diagonals {
        let both = self.stride as i64;
        let mut diagonals = self.zeros([-both, 0, both]);
        for (number, site) in sites.iter().enumerate() {
            for place in &site.places {
                let position = (place.position + 2 * self.period - place.distance) % self.period;
                self.both_rows(&mut diagonals, 0, position, place.allele, number);
            }
        }
        diagonals
    }

    /// The places at the last site, by their alleles.
    pub(super) fn last(&self, sites: &[&Site]) -> Vec<f64> {
        let mut slots = vec![0.0; self.own_slots()];
        for (number, site) in sites.iter().enumerate() {
            site.places.iter().for_each(|place| slots[self.slot(place.position, place.allele, number)] = 1.0);
        }
        slots
    }

    /// Both rows of a position get what stands in the row of an allele, `step` slots further.
    fn both_rows(&self, diagonals: &mut Diagonals, step: i64, position: usize, allele: bool, place: usize) {
        for row in [false, true] {
            let across = (i64::from(allele) - i64::from(row)) * self.stride as i64;
            self.set(diagonals, step + across, self.slot(position, row, place));
        }
    }

    fn set(&self, diagonals: &mut Diagonals, step: i64, slot: usize) {
        if let Some(diagonal) = diagonals.get_mut(&step) {
            diagonal[slot] = 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::maps::windows_of;
    use super::super::super::{PbwtError, Size};
    use super::*;
    use tobari_lattice::params::{LatticeParameters, Plaintext};

    fn layout(size: Size) -> Result<Layout, PbwtError> {
        let kind = Plaintext::Approximate;
        Layout::new(&LatticeParameters::insecure_of_sizes(1 << 10, &[41, 33], &[42], 2, kind).unwrap(), size)
    }

    /// Applies diagonals to slots.
    fn apply(diagonals: &Diagonals, slots: &[f64]) -> Vec<f64> {
        let at = |j: usize, step: i64| slots[(j as i64 + step).rem_euclid(slots.len() as i64) as usize];
        let row = |j: usize| diagonals.iter().map(|(step, diagonal)| diagonal[j] * at(j, *step)).sum();
        (0..slots.len()).map(row).collect()
    }

    /// Alleles of every kind: random, sorted, alternating, all alike.
    fn panels(size: Size, seed: u64) -> Vec<Vec<Vec<bool>>> {
        let mut state = seed;
        let mut next = move || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            state >> 60
        };
        let mut allele = |haplotype: usize, site: usize| match (seed as usize + site) % 5 {
            0 => next() % 2 == 1,
            1 => haplotype > size.haplotypes / 2,
            2 => haplotype.is_multiple_of(2),
            3 => next() == 0,
            _ => site.is_multiple_of(2),
        };
        let mut site = |site| (0..size.haplotypes).map(|haplotype| allele(haplotype, site)).collect();
        (0..size.places).map(|place| (0..size.length).map(|k| site(k + 3 * place)).collect()).collect()
    }

    /// Every place comes to where the one map brings it, and no two meet on the way: all values
    /// stay bits, for all selections of places.
    #[test]
    fn layers_are_the_map_and_no_two_places_meet() {
        for haplotypes in [1, 2, 3, 5, 9, 17, 31, 49, 50, 100, 193] {
            let (places, length) = (if haplotypes < 40 { 2 } else { 1 }, 6);
            let size = Size { haplotypes, places, length };
            let layout = layout(size).unwrap();
            for seed in 0..20 {
                let windows = windows_of(size, layout.period(), &panels(size, seed)).unwrap();
                for site in 0..length {
                    let sites: Vec<&Site> = windows.iter().map(|window| &window[site]).collect();
                    // a selection of places of either allele, in its row
                    let (mut slots, mut expected) = (vec![0.0; layout.own_slots()], vec![0.0; layout.own_slots()]);
                    for (number, site) in sites.iter().enumerate() {
                        for (i, place) in site.places.iter().enumerate() {
                            if !(i as u64 * 7 + seed).is_multiple_of(3) {
                                slots[layout.slot(place.position, place.allele, number)] = 1.0;
                                let to = (place.position + 2 * layout.period() - place.distance) % layout.period();
                                [false, true].iter().for_each(|row| expected[layout.slot(to, *row, number)] = 1.0);
                            }
                        }
                    }
                    for layer in layout.network(&sites) {
                        slots = apply(&layer, &slots);
                        assert!(slots.iter().all(|x| *x == 0.0 || *x == 1.0), "{haplotypes}, {seed}, {site}");
                    }
                    assert_eq!(slots, expected, "{haplotypes}, {seed}, {site}");
                    // the operations depend on sizes alone
                    let steps = |all: &[Diagonals]| -> Vec<Vec<i64>> {
                        all.iter().map(|one| one.keys().copied().collect()).collect()
                    };
                    assert_eq!(steps(&layout.network(&sites)), steps(&layout.network(&[])));
                }
            }
        }
    }

    #[test]
    fn the_circle_is_the_smallest_on_which_no_two_places_meet() {
        let of = |haplotypes, places| layout(Size { haplotypes, places, length: 2 });
        let period = |haplotypes| of(haplotypes, 1).unwrap().period();
        assert_eq!([period(1), period(17), period(18), period(49), period(50)], [4, 32, 64, 64, 128]);
        assert_eq!(of(0, 1), Err(PbwtError::Panel { most: 193, found: 0 }));
        assert_eq!(of(194, 1), Err(PbwtError::Panel { most: 193, found: 194 }));
        assert_eq!(of(49, 5), Err(PbwtError::Places { most: 4, found: 5 }));
        assert_eq!(of(49, 3).unwrap().stride(), 4);
        assert!(matches!(layout(Size { haplotypes: 3, places: 1, length: 0 }), Err(PbwtError::Length { .. })));
    }
}
