//! Digits drawn from strokes, for demonstrations: the program contains no image of a data set.
//!
//! A digit is a few strokes, polylines in a box of 1 x 1 whose first coordinate goes right and
//! whose second goes down; arcs are polylines of short pieces. The [`Style`] slants and stretches
//! them. They are scaled to fit 20 x 20 pixels, with the centre of mass in the middle of 28 x 28,
//! like MNIST's digits. A pixel's brightness falls from full to none over one pixel, at half the
//! stroke's width from the nearest stroke.

use super::SIDE;
use std::f64::consts::PI;

/// The style of a drawn digit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Style {
    /// Width of a stroke, in pixels.
    pub width: f64,
    /// The lean of the top to the right, divided by the height.
    pub slant: f64,
    /// Width over height, relative to the plain form.
    pub stretch: f64,
    /// The other of the two forms that many digits have: a 1 with a foot, a 2 with a loop, an open
    /// 4, a 7 with a bar, a 9 with a straight stem.
    pub other_form: bool,
}

/// Styles of several handwritings.
pub const STYLES: [Style; 6] = [
    Style { width: 2.2, slant: 0.0, stretch: 1.0, other_form: false },
    Style { width: 2.2, slant: 0.25, stretch: 1.0, other_form: false },
    Style { width: 3.2, slant: 0.1, stretch: 1.1, other_form: false },
    Style { width: 1.6, slant: 0.15, stretch: 0.9, other_form: false },
    Style { width: 2.4, slant: 0.1, stretch: 1.0, other_form: true },
    Style { width: 2.8, slant: -0.1, stretch: 0.9, other_form: true },
];

type Stroke = Vec<[f64; 2]>;

/// A digit from 0 to 9 as 28 rows of 28 pixels, 0 the background. Of a larger number, the last
/// digit is drawn.
pub fn draw(digit: u8, style: &Style) -> Vec<u8> {
    let slanted = |[x, y]: [f64; 2]| [style.stretch * x - style.slant * y, y];
    let strokes: Vec<Stroke> = strokes(digit % 10, style.other_form)
        .into_iter()
        .map(|stroke| stroke.into_iter().map(slanted).collect())
        .collect();
    let points = || strokes.iter().flatten();
    let [low, high] = [f64::min, f64::max].map(|choose| {
        let first = points().next().copied().unwrap_or([0.0; 2]);
        points().fold(first, |found, point| [choose(found[0], point[0]), choose(found[1], point[1])])
    });
    let size = (high[0] - low[0]).max(high[1] - low[1]).max(0.1);
    let scale = (20.0 - style.width) / size;
    let lay = |shift: [f64; 2]| -> Vec<Stroke> {
        let lay = |point: &[f64; 2]| [0, 1].map(|axis| (point[axis] - low[axis]) * scale + shift[axis]);
        strokes.iter().map(|stroke| stroke.iter().map(lay).collect()).collect()
    };
    let middle = SIDE as f64 / 2.0 + 0.5; // in the middle of a pixel, as MNIST's are
    let first = [0, 1].map(|axis| middle - (high[axis] - low[axis]) * scale / 2.0);
    let mass = centre(&paint(&lay(first), style.width));
    paint(&lay([0, 1].map(|axis| first[axis] + middle - mass[axis])), style.width)
}

fn paint(strokes: &[Stroke], width: f64) -> Vec<u8> {
    let brightness = |at: usize| {
        let point = [(at % SIDE) as f64 + 0.5, (at / SIDE) as f64 + 0.5];
        let pieces = strokes.iter().flat_map(|stroke| stroke.windows(2));
        let nearest = pieces.map(|piece| distance(point, piece[0], piece[1])).fold(f64::INFINITY, f64::min);
        (255.0 * (width / 2.0 + 0.5 - nearest).clamp(0.0, 1.0)) as u8
    };
    (0..SIDE * SIDE).map(brightness).collect()
}

/// The distance from a point to a line segment.
fn distance(point: [f64; 2], from: [f64; 2], to: [f64; 2]) -> f64 {
    let (along, away) = ([to[0] - from[0], to[1] - from[1]], [point[0] - from[0], point[1] - from[1]]);
    let length = along[0] * along[0] + along[1] * along[1];
    let share = if length > 0.0 { (along[0] * away[0] + along[1] * away[1]) / length } else { 0.0 };
    let share = share.clamp(0.0, 1.0);
    (away[0] - share * along[0]).hypot(away[1] - share * along[1])
}

/// Column and row of the centre of mass, from the corner of the image.
fn centre(pixels: &[u8]) -> [f64; 2] {
    let (mut sum, mut mass) = ([0.0; 2], 0.0);
    for (at, pixel) in pixels.iter().enumerate() {
        let pixel = f64::from(*pixel);
        sum = [sum[0] + pixel * ((at % SIDE) as f64 + 0.5), sum[1] + pixel * ((at / SIDE) as f64 + 0.5)];
        mass += pixel;
    }
    sum.map(|sum| if mass > 0.0 { sum / mass } else { 0.0 })
}

/// An arc of an ellipse, from one angle to another in degrees; 0 is to the right, 90 down.
fn arc([x, y]: [f64; 2], [width, height]: [f64; 2], from: f64, to: f64) -> Stroke {
    let pieces = 24;
    let at = |piece: usize| (from + (to - from) * piece as f64 / f64::from(pieces)) * PI / 180.0;
    (0..=pieces as usize).map(|piece| [x + width * at(piece).cos(), y + height * at(piece).sin()]).collect()
}

/// The strokes of a digit in a box about 0.6 wide and 1 high.
fn strokes(digit: u8, other: bool) -> Vec<Stroke> {
    let join = |parts: Vec<Stroke>| parts.concat();
    match (digit, other) {
        (0, _) => vec![arc([0.3, 0.5], [0.28, 0.5], -90.0, 270.0)],
        (1, false) => vec![vec![[0.3, 0.0], [0.3, 1.0]]],
        (1, true) => vec![vec![[0.08, 0.25], [0.3, 0.0], [0.3, 1.0]], vec![[0.05, 1.0], [0.55, 1.0]]],
        (2, false) => vec![join(vec![arc([0.3, 0.28], [0.28, 0.28], -170.0, 40.0), vec![[0.02, 1.0], [0.62, 1.0]]])],
        (2, true) => vec![join(vec![
            arc([0.3, 0.28], [0.27, 0.28], -170.0, 45.0),
            arc([0.16, 0.87], [0.14, 0.12], 60.0, 290.0),
            vec![[0.4, 0.95], [0.64, 0.96]],
        ])],
        (3, _) => vec![join(vec![
            arc([0.27, 0.25], [0.27, 0.25], -150.0, 80.0),
            arc([0.26, 0.74], [0.31, 0.26], -85.0, 150.0),
        ])],
        (4, false) => vec![vec![[0.42, 0.0], [0.0, 0.65], [0.66, 0.65]], vec![[0.46, 0.3], [0.46, 1.0]]],
        (4, true) => vec![vec![[0.06, 0.0], [0.02, 0.5], [0.56, 0.5]], vec![[0.56, 0.0], [0.54, 1.0]]],
        (5, _) => vec![
            join(vec![vec![[0.1, 0.03], [0.06, 0.44]], arc([0.25, 0.69], [0.31, 0.3], -130.0, 150.0)]),
            vec![[0.1, 0.03], [0.56, 0.0]],
        ],
        (6, _) => vec![join(vec![
            arc([0.5, 0.62], [0.48, 0.62], -95.0, -180.0),
            arc([0.29, 0.73], [0.27, 0.27], 180.0, -180.0),
        ])],
        (7, false) => vec![vec![[0.0, 0.04], [0.58, 0.0], [0.46, 0.3], [0.22, 1.0]]],
        (7, true) => vec![vec![[0.0, 0.06], [0.6, 0.0], [0.42, 0.4], [0.26, 1.0]], vec![[0.16, 0.5], [0.58, 0.46]]],
        (8, _) => vec![arc([0.3, 0.25], [0.23, 0.25], -90.0, 270.0), arc([0.3, 0.75], [0.27, 0.25], -90.0, 270.0)],
        (_, false) => {
            vec![join(vec![arc([0.28, 0.27], [0.26, 0.27], 0.0, -360.0), arc([0.16, 0.3], [0.38, 0.7], 0.0, 80.0)])]
        }
        (_, true) => vec![arc([0.28, 0.27], [0.26, 0.27], 0.0, -360.0), vec![[0.54, 0.1], [0.5, 1.0]]],
    }
}
