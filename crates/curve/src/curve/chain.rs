//! The powers of two times one public point, by doublings in Jacobian coordinates and one
//! inversion.
//!
//! `E = 3X² + aZ⁴`, `D = 4XY²`: `X' = E² - 2D`, `Y' = E(D - X') - 8Y⁴`, `Z' = 2YZ`. A point of odd
//! order never equals its negative, so no doubling is exceptional.
//!
//! # Leakage
//! Variable time: for public points.

use super::Points;
use super::built::with_curve;
use crate::kernels::{Coefficient, Coordinate, CurveConstants};

/// `2^(step i) · point` for `i` in `0..count`; the batch has one point.
pub(crate) fn vartime_powers_of_two(point: &Points, step: u32, count: usize) -> Points {
    let curve = point.curve();
    if point.is_identity(0) {
        return Points::identity(curve, count);
    }
    let integers = with_curve!(curve, C => run::<C, <C as CurveConstants<{ C::WORDS }>>::Scalar, { C::WORDS }>(&point.to_integers(), step, count));
    Points::from_known_integers(curve, &integers)
}

fn run<C: CurveConstants<L>, F: Coordinate<L>, const L: usize>(point: &[u64], step: u32, count: usize) -> Vec<u64> {
    let coordinate = |start: usize| F::from_integer(&std::array::from_fn(|i| point[start + i])).settle();
    let mut current = [coordinate(0), coordinate(L), F::ONE];
    let mut all = Vec::with_capacity(count);
    for i in 0..count {
        if i > 0 {
            (0..step).for_each(|_| current = double::<C, F, L>(current));
        }
        all.push(current);
    }
    let mut product = F::ONE;
    let mut prefixes = Vec::with_capacity(count);
    for [_, _, z] in &all {
        prefixes.push(product);
        product = product * *z;
    }
    let mut inverse = product.vartime_invert();
    let mut integers = vec![0; 2 * L * count];
    let places = integers.chunks_exact_mut(2 * L).rev();
    for ((place, [x, y, z]), prefix) in places.zip(all.into_iter().rev()).zip(prefixes.into_iter().rev()) {
        let z_inverse = inverse * prefix;
        inverse = inverse * z;
        let square = z_inverse.square();
        place[..L].copy_from_slice(&(x * square).to_integer());
        place[L..].copy_from_slice(&(y * square * z_inverse).to_integer());
    }
    integers
}

fn double<C: CurveConstants<L>, F: Coordinate<L>, const L: usize>([x, y, z]: [F; 3]) -> [F; 3] {
    let slope = match C::A {
        Coefficient::MinusThree => {
            let delta = z.square().settle();
            let product = (x - delta) * (x + delta);
            product.double() + product
        }
        Coefficient::Zero => {
            let square = x.square();
            square.double() + square
        }
        Coefficient::Small(a) => {
            let square = x.square();
            square.double() + square + F::from_small(a) * z.square().square()
        }
    };
    let twice_square = y.square().double().settle();
    let d = x.double() * twice_square;
    let slope = slope.settle();
    let new_x = (slope.square() - d.double()).settle();
    let half_rise = twice_square.square();
    [new_x, (slope * (d - new_x) - half_rise.double()).settle(), y.double() * z]
}
