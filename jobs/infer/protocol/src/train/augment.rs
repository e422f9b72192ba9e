//! Images moved, turned, scaled and sheared a little, so that a network learns that none of it
//! matters.

use super::unit;
use rand_core::Rng;

/// How much an image is changed at most; each is drawn evenly from minus to plus that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Augmentation {
    /// Pixels, to each side.
    pub shift: f32,
    /// Radians.
    pub turn: f32,
    /// The logarithm of a scale, of each axis alone.
    pub scale: f32,
    /// Columns a row.
    pub shear: f32,
}

impl Augmentation {
    /// A grey image of `size` rows and columns, changed and written to `out` by linear
    /// interpolation; what comes from outside is 0.
    pub fn apply(&self, pixels: &[u8], size: usize, out: &mut [f32], rng: &mut impl Rng) {
        let mut draw = |most: f32| most * (2.0 * unit(rng) - 1.0);
        let (turn, shear) = (draw(self.turn), draw(self.shear));
        let scale = [draw(self.scale).exp(), draw(self.scale).exp()];
        let shift = [draw(self.shift), draw(self.shift)];
        let (sin, cos) = turn.sin_cos();
        // from a place of the result to the place it comes from
        let matrix = [[cos / scale[0], sin / scale[0]], [-sin / scale[1] + shear, cos / scale[1]]];
        let middle = (size as f32 - 1.0) / 2.0;
        let pixel = |row: i32, column: i32| {
            let inside = (0..size as i32).contains(&row) && (0..size as i32).contains(&column);
            if inside { f32::from(pixels[row as usize * size + column as usize]) } else { 0.0 }
        };
        for (at, out) in out.iter_mut().enumerate() {
            let from = [(at / size) as f32 - middle, (at % size) as f32 - middle];
            let [row, column] =
                [0, 1].map(|axis| matrix[axis][0] * from[0] + matrix[axis][1] * from[1] + middle + shift[axis]);
            let (above, left) = (row.floor(), column.floor());
            let (down, right) = (row - above, column - left);
            let (above, left) = (above as i32, left as i32);
            let first = pixel(above, left) * (1.0 - right) + pixel(above, left + 1) * right;
            let second = pixel(above + 1, left) * (1.0 - right) + pixel(above + 1, left + 1) * right;
            *out = first * (1.0 - down) + second * down;
        }
    }
}
