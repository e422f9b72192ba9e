//! Images that are slightly shifted, rotated, scaled and sheared, so that a network learns to
//! ignore such changes.

use super::unit;
use rand_core::Rng;

/// The largest changes of an image; each is drawn uniformly between minus and plus its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Augmentation {
    /// Pixels in each direction.
    pub shift: f32,
    /// Radians.
    pub turn: f32,
    /// The logarithm of a scale, separate for each axis.
    pub scale: f32,
    /// Columns for each row.
    pub shear: f32,
}

impl Augmentation {
    /// Writes a changed grey image of `size` rows and columns to `out`, by linear interpolation;
    /// pixels outside the image are 0.
    pub fn apply(&self, pixels: &[u8], size: usize, out: &mut [f32], rng: &mut impl Rng) {
        let mut draw = |most: f32| most * (2.0 * unit(rng) - 1.0);
        let (turn, shear) = (draw(self.turn), draw(self.shear));
        let scale = [draw(self.scale).exp(), draw(self.scale).exp()];
        let shift = [draw(self.shift), draw(self.shift)];
        let (sin, cos) = turn.sin_cos();
        // from a position in the result to the position in the source
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
