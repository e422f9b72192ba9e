//! Sums of products and maps by diagonals: which arguments they take, and what they give in the clear.

#![allow(clippy::unwrap_used, reason = "a test")]

use tobari_plan::clear::{Arithmetic, ClearEngine, ClearValue};
use tobari_plan::engine::{Engine, Machine, Shapes};
use tobari_plan::program::{Kind, Op, ProgramError, Recorder, Shape};
use tobari_plan::site::Secrecy;

const EIGHT: ClearEngine = ClearEngine { arithmetic: Arithmetic::Modulo(97), rows: 1, columns: 8 };

fn shape(kind: Kind, level: u16) -> Shape {
    Shape { kind, level, resident: 64, packed: 64, raw: 64 }
}

#[test]
fn encrypted_pairs_are_summed_with_one_key_that_comes_last() {
    let [a, key, plain] = [Kind::Encrypted, Kind::Key, Kind::Plain].map(|kind| shape(kind, 2));
    let low = shape(Kind::Encrypted, 1);
    assert_eq!(Op::Dot.result(&[a, low, a, a, key]), Ok((Kind::Encrypted, 1)));
    assert_eq!(
        Op::Dot.result(&[a, a, shape(Kind::Key, 1)]).unwrap_err(),
        "expected a key for level 2, found one up to 1"
    );
    for wrong in [&[a, a][..], &[a, a, a, key], &[a, plain, key], &[key], &[a, key], &[key, key, key]] {
        assert!(Op::Dot.result(wrong).is_err(), "{wrong:?}");
    }
    let mut recorder = Recorder::new(&EIGHT);
    let x = recorder.input("x", a, Secrecy::Public).unwrap();
    let k = recorder.input("key", key, Secrecy::Public).unwrap();
    assert!(recorder.step(Op::Dot, &[&x, &x, &k]).is_ok());
    assert!(matches!(
        recorder.step(Op::Dot, &[&x, &x, &x]),
        Err(ProgramError::Shape { .. } | ProgramError::Arguments { .. })
    ));
    // in the clear the key says nothing
    let x = EIGHT.integers(&[1, 2, 3]).unwrap();
    let sum = EIGHT.step(0, Op::Dot, &[&x, &x, &x, &x, &ClearValue::Key]).unwrap();
    assert_eq!(sum, EIGHT.integers(&[2, 8, 18]).unwrap());
}

#[test]
fn a_transform_is_its_rotations_products_and_sums() {
    let op = Op::Transform { baby: 1, babies: 2, giant: -3, giants: 2 };
    let inputs: Vec<ClearValue> =
        [[1, 2, 3, 4, 5, 6, 7, 8], [8, 1, 7, 2, 6, 3, 5, 4]].map(|x| EIGHT.integers(&x).unwrap()).into();
    let weights: Vec<ClearValue> =
        (0..8).map(|w| EIGHT.integers(&[0, 1, 2, 3, 4, 5, 6, 7].map(|j| (j * w + 3) % 11)).unwrap()).collect();
    let step = |op, args: &[&ClearValue]| EIGHT.step(0, op, args).unwrap();
    let mut expected = EIGHT.integers(&[]).unwrap();
    for g in 0..2 {
        for i in 0..2 {
            for b in 0..2 {
                let turned = step(Op::Rotate(b as i64), &[&inputs[i]]);
                let product = step(Op::Mul, &[&turned, &weights[(g * 2 + i) * 2 + b]]);
                expected = step(Op::Add, &[&expected, &step(Op::Rotate(-3 * g as i64), &[&product])]);
            }
        }
    }
    let args: Vec<&ClearValue> = inputs.iter().chain(&weights).collect();
    assert_eq!(step(op, &args), expected);
    assert!(EIGHT.step(0, op, &args[1..]).is_err() && EIGHT.step(0, op, &[]).is_err());
    let zero = Op::Transform { baby: 1, babies: 0, giant: 1, giants: 1 };
    assert!(EIGHT.step(0, zero, &args).is_err());
}

#[test]
fn a_transform_takes_as_many_arguments_as_its_steps_say() {
    let [a, w, key] = [Kind::Encrypted, Kind::Plain, Kind::Key].map(|kind| shape(kind, 3));
    let op = |babies, giants| Op::Transform { baby: 1, babies, giant: 2, giants };
    assert_eq!(op(2, 2).result(&[a, w, w, w, w, key, key]), Ok((Kind::Encrypted, 3)));
    assert_eq!(op(2, 1).result(&[a, shape(Kind::Encrypted, 1), w, w, w, w, key]), Ok((Kind::Encrypted, 1)));
    assert_eq!(op(1, 2).result(&[a, w, w, key]), Ok((Kind::Encrypted, 3)));
    for (op, wrong) in [
        (op(2, 2), &[a, w, w, w, w, key][..]),
        (op(2, 2), &[a, w, w, w, key, key]),
        (op(2, 1), &[a, w, w, key, w]),
        (op(2, 1), &[w, w, key]),
        (op(0, 1), &[a, a]),
        (op(1, 0), &[a, a]),
        (op(2, 1), &[a, w, w, shape(Kind::Key, 2)]),
        (op(2, 1), &[a, w, shape(Kind::Plain, 2), key]),
    ] {
        assert!(op.result(wrong).is_err(), "{op} {wrong:?}");
    }
    let recorded = EIGHT.shape(op(1, 2), &[a, w, w, key]).unwrap();
    assert_eq!((recorded.kind, recorded.level), (Kind::Encrypted, 3));
}

#[test]
fn a_polynomial_is_its_value_in_every_slot_and_takes_a_level_for_each_doubling() {
    let [x, c] = [&[1, 2, 3, -4][..], &[5, 0, 7, 1, 99]].map(|values| EIGHT.integers(values).unwrap());
    let found = EIGHT.step(0, Op::Polynomial(4), &[&x, &c, &ClearValue::Key]).unwrap();
    assert_eq!(found, EIGHT.integers(&[13, 41, 95, 53, 5, 5, 5, 5]).unwrap());
    assert!(EIGHT.step(0, Op::Polynomial(9), &[&x, &c, &ClearValue::Key]).is_err(), "more than there are slots");
    let [a, w, key] = [Kind::Encrypted, Kind::Plain, Kind::Key].map(|kind| shape(kind, 3));
    for (length, level) in [(2, 2), (3, 1), (4, 1), (5, 0), (8, 0)] {
        assert_eq!(Op::Polynomial(length).result(&[a, w, key]), Ok((Kind::Encrypted, level)));
    }
    for (length, wrong) in
        [(9, [a, w, key]), (1, [a, w, key]), (4, [w, w, key]), (4, [a, a, key]), (4, [a, w, shape(Kind::Key, 2)])]
    {
        assert!(Op::Polynomial(length).result(&wrong).is_err());
    }
}
