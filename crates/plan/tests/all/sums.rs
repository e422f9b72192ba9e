//! Sums of products and maps by diagonals: their arguments, and their plaintext results.

use tobari_plan::clear::{Arithmetic, ClearEngine, ClearValue};
use tobari_plan::engine::{Engine, Machine, Shapes};
use tobari_plan::program::{Encoding, Kind, Op, ProgramError, Recorder, Shape};
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
    // on plaintext the key has no effect
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

fn w_shape() -> Shape {
    shape(Kind::Plain, 3)
}

#[test]
fn a_bilinear_form_takes_two_lists_their_weights_and_a_key_and_costs_a_level() {
    let [a, w, key] = [Kind::Encrypted, Kind::Plain, Kind::Key].map(|kind| shape(kind, 3));
    let op = Op::Bilinear { left: 1, right: 2, forms: 1, divisor: 5 };
    assert_eq!(op.result(&[a, shape(Kind::Encrypted, 2), a, w, key]), Ok((Kind::Encrypted, 1)));
    for wrong in [
        &[a, a, w, key][..],
        &[a, a, a, a, w, key],
        &[a, a, a, key, w],
        &[a, a, w, w, key],
        &[a, a, a, w],
        &[shape(Kind::Encrypted, 0), a, a, w, key],
        &[a, a, a, w, shape(Kind::Key, 2)],
        &[a, a, a, shape(Kind::Plain, 1), key],
    ] {
        assert!(op.result(wrong).is_err(), "{wrong:?}");
    }
    assert!(Op::Bilinear { left: 0, right: 2, forms: 1, divisor: 1 }.result(&[a, a, w, key]).is_err());
    // (1 + 2 b + 3 c + a (4 + 5 b + 6 c)) / 5
    let [x, y, z] = [[1, 2, 3], [7, -4, 0], [2, 9, 11]].map(|x| EIGHT.integers(&x).unwrap());
    let w = EIGHT.integers(&[1, 2, 3, 4, 5, 6]).unwrap();
    let form = |op| EIGHT.step(0, op, &[&x, &y, &z, &w, &ClearValue::Key]);
    let five = EIGHT.step(0, Op::Scale(5), &[&form(op).unwrap()]).unwrap();
    let plain = |i: usize| {
        let (a, b, c) = ([1, 2, 3, 0, 0, 0, 0, 0][i], [7, -4, 0, 0, 0, 0, 0, 0][i], [2, 9, 11, 0, 0, 0, 0, 0][i]);
        1 + 2 * b + 3 * c + a * (4 + 5 * b + 6 * c)
    };
    assert_eq!(five, EIGHT.integers(&std::array::from_fn::<i64, 8, _>(plain)).unwrap());
    assert!(form(Op::Bilinear { left: 1, right: 2, forms: 1, divisor: 97 }).is_err(), "97 has no inverse modulo 97");
    assert!(form(Op::Bilinear { left: 2, right: 2, forms: 1, divisor: 1 }).is_err());
    assert!(form(Op::Bilinear { left: 1, right: 2, forms: 1, divisor: -1 }).is_ok());
    // several forms of one step stay distinct, also after encoding to bytes
    let two = Op::Bilinear { left: 1, right: 2, forms: 2, divisor: 5 };
    let shape = EIGHT.shape(two, &[a, a, a, w_shape(), w_shape(), key]).unwrap();
    assert_eq!((shape.kind, shape.level, shape.raw), (Kind::Several, 2, 128));
    assert!(two.result(&[a, a, a, w_shape(), key]).is_err());
    let other = EIGHT.integers(&[0, 0, 0, 0, 0, 5]).unwrap();
    let both = EIGHT.step(0, two, &[&x, &y, &z, &w, &other, &ClearValue::Key]).unwrap();
    let mut bytes = [0; 128];
    EIGHT.export(&both, &shape, Encoding::Raw, &mut bytes).unwrap();
    assert_eq!(EIGHT.import(&shape, Encoding::Raw, &bytes).unwrap(), both);
    let part = |which| EIGHT.step(0, Op::Part(which), &[&both]);
    assert_eq!(part(0).unwrap(), form(op).unwrap());
    assert_eq!(part(1).unwrap(), EIGHT.step(0, Op::Mul, &[&x, &z]).unwrap());
    assert!(part(2).is_err() && EIGHT.step(0, Op::Part(0), &[&x]).is_err());
    assert_eq!(Op::Part(1).result(&[shape]), Ok((Kind::Encrypted, 2)));
}

#[test]
fn a_sum_of_rotations_takes_as_many_hoisted_vectors_as_it_says_and_a_key_for_each_rotation() {
    let [a, h, key] = [Kind::Encrypted, Kind::Hoisted, Kind::Key].map(|kind| shape(kind, 3));
    let op = |counts| Op::RotateSum { steps: [1, -2, 3], counts };
    assert_eq!(op([2, 1, 0]).result(&[a, h, h, shape(Kind::Hoisted, 1), key, key]), Ok((Kind::Encrypted, 1)));
    assert_eq!(op([1, 0, 0]).result(&[h, key]), Ok((Kind::Encrypted, 3)));
    for (op, wrong) in [
        (op([2, 1, 0]), &[a, h, h, h, key][..]),
        (op([2, 1, 0]), &[h, h, key, key]),
        (op([1, 0, 1]), &[a, h, h, key, key]),
        (op([0, 0, 0]), &[a, a]),
        (op([1, 0, 0]), &[a, key]),
        (op([1, 0, 0]), &[h, a]),
        (op([1, 0, 0]), &[h, shape(Kind::Key, 2)]),
        (op([255; 3]), &[h, key]),
    ] {
        assert!(op.result(wrong).is_err(), "{op} {wrong:?}");
    }
    let [x, y, z] = [[1, 2, 3], [7, -4, 0], [2, 9, 11]].map(|x| EIGHT.integers(&x).unwrap());
    let step = |op, args: &[&ClearValue]| EIGHT.step(0, op, args).unwrap();
    let key = &ClearValue::Key;
    let found = step(op([2, 1, 0]), &[&x, &y, &z, &y, key, key]);
    let [first, second] = [(1, step(Op::Add, &[&y, &z])), (-2, y)].map(|(by, a)| step(Op::Rotate(by), &[&a]));
    assert_eq!(found, step(Op::Add, &[&x, &first, &second]));
    assert!(EIGHT.step(0, op([2, 1, 0]), &[&x, key]).is_err());
}
