//! Works with points, for Valgrind. A scalar multiplication in portable loops takes two million
//! instructions, too many to step through.

#![allow(clippy::unwrap_used, reason = "works of a test")]

use super::memcheck::{hide, hide_difference};
use super::works::rng;
use std::hint::black_box;
use tobari_curve::elgamal;
use tobari_curve::params::{Parameters, SecurityFloor};
use tobari_curve::{BuiltCurve, Curve, FixedBase, Points, Scalar};

/// What is done on each curve.
const WORKS: [&str; 5] = ["multiply", "multiply many", "fixed base", "public key", "encrypt"];

/// Names of all works, and whether each has a fault.
pub(super) fn all() -> Vec<(String, bool)> {
    let faults = ["a branch", "an address"].map(|name| (name.to_owned(), true));
    let name = |curve, what| (format!("{}: {what}", Curve::from(curve).name()), false);
    let works = BuiltCurve::ALL.into_iter().flat_map(|curve| WORKS.map(|what| name(curve, what)));
    faults.into_iter().chain(works).collect()
}

/// Does the work of this name.
pub(super) fn run(name: &str) {
    let secret = black_box(1usize);
    match name {
        "a branch" => {
            hide(&secret);
            if secret == 1 {
                black_box(3);
            }
        }
        "an address" => {
            let table = vec![1u8; 4096];
            hide(&secret);
            black_box(table[secret & 0xfff]);
        }
        _ => {
            let (curve, what) = name.split_once(": ").unwrap();
            on_curve(Curve::from_name(curve).unwrap().built().unwrap(), what);
        }
    }
}

fn on_curve(curve: BuiltCurve, what: &str) {
    let [scalar, other] = [1, 2].map(|seed| Scalar::random(curve, &mut rng(seed)));
    let points = Points::generator(curve).repeat(0, 9);
    let parameters = Parameters::new(curve, SecurityFloor::Standard).unwrap();
    let [key, another] = [3, 4].map(|seed| elgamal::SecretKey::generate(parameters, &mut rng(seed)));
    let base = FixedBase::new(&points, 0);
    let encryptor = elgamal::Encryptor::new(&key.public_key());
    hide_difference(&scalar, &other);
    match what {
        "multiply" => _ = black_box(points.multiply(0, &scalar)),
        "multiply many" => _ = black_box(points.multiply_all(&scalar)),
        "fixed base" => _ = black_box(base.multiply_all(std::slice::from_ref(&scalar))),
        "public key" => {
            hide_difference(&key, &another);
            _ = black_box(key.public_key());
        }
        "encrypt" => {
            let messages = [-9, 1, 30_000, -30_000, 77, 0, 5, -1, 2];
            hide(&messages);
            _ = black_box(encryptor.encrypt(&messages, &mut rng(5)).unwrap());
        }
        other => panic!("no work is called {other}"),
    }
}
