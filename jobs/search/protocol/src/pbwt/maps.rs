//! The server's half: the transform of each window in the clear, as the plaintexts of a program.

use super::program::Input;
use super::{Layout, PbwtError};

/// One site of one window.
#[derive(Clone, Debug)]
struct Site {
    /// In the order before this site: allele, position, and by how many positions it moves back.
    places: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    allele: bool,
    position: usize,
    distance: usize,
}

/// The transforms of all windows.
#[derive(Clone, Debug)]
pub struct Maps {
    layout: Layout,
    /// By window, then by site.
    windows: Vec<Vec<Site>>,
}

impl Maps {
    /// Of windows by site, and in each site the alleles by haplotype. The order begins anew with
    /// each window: it may begin in any, with all haplotypes in the interval.
    ///
    /// # Errors
    /// [`PbwtError::Window`] for other numbers than the layout has.
    pub fn new(layout: &Layout, windows: &[Vec<Vec<bool>>]) -> Result<Self, PbwtError> {
        let size = layout.size();
        let expect = |what, expected, found| {
            if expected == found { Ok(()) } else { Err(PbwtError::Window { what, expected, found }) }
        };
        expect("places", size.places, windows.len())?;
        for window in windows {
            expect("sites", size.length, window.len())?;
            window.iter().try_for_each(|site| expect("haplotypes", size.haplotypes, site.len()))?;
        }
        let windows = windows.iter().map(|window| transform(window, layout.period())).collect();
        Ok(Self { layout: *layout, windows })
    }

    /// The slots of an input that is the server's; none for what the client sends.
    pub fn slots(&self, input: Input) -> Option<Vec<i64>> {
        let Layout { columns, period, babies, .. } = self.layout;
        let stride = self.layout.stride();
        let (site, diagonal) = match input {
            Input::First => (0, None),
            Input::Map { site, diagonal } => (site, Some(diagonal)),
            Input::Last => (self.layout.size().length - 1, None),
            _ => return None,
        };
        // a giant step turns its sum afterwards
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

/// A window, site by site: the order at each, told from the ones on, on a circle.
fn transform(window: &[Vec<bool>], period: usize) -> Vec<Site> {
    let mut order: Vec<usize> = (0..window.first().map_or(0, Vec::len)).collect();
    let mut start = 0;
    let mut sites = Vec::with_capacity(window.len());
    for alleles in window {
        let zeros = order.iter().filter(|haplotype| !alleles[**haplotype]).count();
        // before the place, of either allele
        let mut ranks = [0, 0];
        let place = |(i, haplotype): (usize, &usize)| {
            let allele = alleles[*haplotype];
            let distance = if allele { ranks[0] } else { zeros + ranks[1] };
            ranks[usize::from(allele)] += 1;
            Place { allele, position: (start + i) % period, distance }
        };
        sites.push(Site { places: order.iter().enumerate().map(place).collect() });
        // zeros first, then ones, each in the order so far; where zeros stand has moved back by as
        // many as there are
        let (ones, mut sorted): (Vec<usize>, Vec<usize>) = order.iter().partition(|haplotype| alleles[**haplotype]);
        sorted.extend(ones);
        order = sorted;
        start = (start + 2 * period - zeros) % period;
    }
    sites
}
