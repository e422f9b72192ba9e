//! The server's half: the transform of each window, computed on plaintext, as the plaintexts of a
//! program.

use super::program::Input;
use super::{Layout, PbwtError, Size};

/// One site of one window.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// In the order before this site.
    pub(super) places: Vec<Place>,
}

/// A place of the order: its allele, its position, and by how many positions it moves back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) allele: bool,
    pub(super) position: usize,
    pub(super) distance: usize,
}

/// The transforms of all windows.
#[derive(Clone, Debug)]
pub struct Maps {
    layout: Layout,
    /// Sites, by window.
    windows: Vec<Vec<Site>>,
}

impl Maps {
    /// The transforms of windows. A window is a list of sites, and a site is the alleles by
    /// haplotype. The order starts anew with each window. It may start in any order, because at
    /// first all haplotypes are in the interval.
    ///
    /// # Errors
    /// [`PbwtError::Window`] for other numbers than the layout has.
    pub fn new(layout: &Layout, windows: &[Vec<Vec<bool>>]) -> Result<Self, PbwtError> {
        Ok(Self { layout: *layout, windows: windows_of(layout.size(), layout.period(), windows)? })
    }

    /// The slots of one of the server's inputs; none for the client's inputs.
    pub fn slots(&self, input: Input) -> Option<Vec<i64>> {
        let Layout { columns, period, babies, .. } = self.layout;
        let stride = self.layout.stride();
        let (site, diagonal) = match input {
            Input::First => (0, None),
            Input::Map { site, diagonal } => (site, Some(diagonal)),
            Input::Last => (self.layout.size().length - 1, None),
            _ => return None,
        };
        // a giant step rotates its sum afterwards
        let turned = diagonal.map_or(0, |diagonal| diagonal / babies * babies * stride);
        let mut slots = vec![0; 2 * columns];
        for (number, window) in self.windows.iter().enumerate() {
            for place in &window[site].places {
                let moved = (place.position + 2 * period - place.distance) % period;
                let position = match (input, diagonal) {
                    (Input::Last, _) => place.position,
                    (_, Some(diagonal)) if diagonal != place.distance => continue,
                    _ => moved,
                };
                let column = (stride * position + number + turned) % columns;
                slots[usize::from(place.allele) * columns + column] = 1;
            }
        }
        Some(slots)
    }
}

/// The sites of each window, if the windows have these sizes.
pub(super) fn windows_of(size: Size, period: usize, windows: &[Vec<Vec<bool>>]) -> Result<Vec<Vec<Site>>, PbwtError> {
    let expect = |what, expected, found| {
        if expected == found { Ok(()) } else { Err(PbwtError::Window { what, expected, found }) }
    };
    expect("places", size.places, windows.len())?;
    for window in windows {
        expect("sites", size.length, window.len())?;
        window.iter().try_for_each(|site| expect("haplotypes", size.haplotypes, site.len()))?;
    }
    Ok(windows.iter().map(|window| transform(window, period)).collect())
}

/// The sites of a window, one after another. Positions are on a circle, counted from the ones on.
fn transform(window: &[Vec<bool>], period: usize) -> Vec<Site> {
    let mut order: Vec<usize> = (0..window.first().map_or(0, Vec::len)).collect();
    let mut start = 0;
    let mut sites = Vec::with_capacity(window.len());
    for alleles in window {
        let zeros = order.iter().filter(|haplotype| !alleles[**haplotype]).count();
        // the number of places before this one, by allele
        let mut ranks = [0, 0];
        let place = |(i, haplotype): (usize, &usize)| {
            let allele = alleles[*haplotype];
            let distance = if allele { ranks[0] } else { zeros + ranks[1] };
            ranks[usize::from(allele)] += 1;
            Place { allele, position: (start + i) % period, distance }
        };
        sites.push(Site { places: order.iter().enumerate().map(place).collect() });
        // zeros first, then ones, each in the order so far. The circle starts at the ones, so the
        // start has moved back by the number of zeros
        let (ones, mut sorted): (Vec<usize>, Vec<usize>) = order.iter().partition(|haplotype| alleles[**haplotype]);
        sorted.extend(ones);
        order = sorted;
        start = (start + 2 * period - zeros) % period;
    }
    sites
}
