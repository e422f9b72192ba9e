//! The curves against answers computed by OpenSSL (`vectors/README.md` says how), and the batched
//! formulas against the complete ones.

use super::scalar::digit_count;
use super::{BuiltCurve, FixedBase, PointEncoding, PointError, Points, Scalar, projective};
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};

/// The records of one kind for a curve: the fields after the kind.
pub(crate) fn records(curve: BuiltCurve, kind: &str) -> Vec<Vec<String>> {
    let path = format!("{}/../../vectors/curve/{curve}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let fields = lines.map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    let found: Vec<_> = fields.filter(|fields| fields[0] == kind).map(|fields| fields[1..].to_vec()).collect();
    assert!(!found.is_empty(), "{path}: no record of kind {kind}");
    found
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let padded = if text.len() % 2 == 1 { format!("0{text}") } else { text.to_owned() };
    (0..padded.len() / 2).map(|i| u8::from_str_radix(&padded[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// `X,Y` or `inf`.
pub(crate) fn point(curve: BuiltCurve, token: &str) -> Points {
    if token == "inf" {
        return Points::identity(curve, 1);
    }
    Points::decode(curve, PointEncoding::Uncompressed, 1, &hex(&token.replace(',', ""))).unwrap()
}

/// A scalar of any length up to the order; the order itself means zero.
pub(crate) fn scalar(curve: BuiltCurve, token: &str) -> Scalar {
    let bytes = hex(token);
    let mut padded = vec![0; curve.scalar_bytes() - bytes.len()];
    padded.extend(bytes);
    let order: Vec<u8> = curve.shape().order.iter().rev().flat_map(|word| word.to_be_bytes()).collect();
    let order = &order[order.len() - curve.scalar_bytes()..];
    if padded == order { Scalar::from_u64(curve, 0) } else { Scalar::from_be_bytes(curve, &padded).unwrap() }
}

/// Random points and the special ones, for one batch that mixes them.
fn mixed_batch(curve: BuiltCurve, rng: &mut ChaCha20Rng) -> Points {
    let scalars: Vec<Scalar> = (0..12).map(|_| Scalar::random(curve, rng)).collect();
    let mut batch = FixedBase::new(&Points::generator(curve), 0).multiply_all(&scalars);
    batch.append(&Points::identity(curve, 1));
    batch.append(&Points::generator(curve));
    batch
}

#[test]
fn multiples_of_the_generator_match_openssl() {
    for curve in BuiltCurve::ALL {
        let generator = Points::generator(curve);
        let table = FixedBase::new(&generator, 0);
        let records = records(curve, "mul");
        let scalars: Vec<Scalar> = records.iter().map(|fields| scalar(curve, &fields[0])).collect();
        let all = table.multiply_all(&scalars);
        for (i, fields) in records.iter().enumerate() {
            let expected = point(curve, &fields[1]);
            assert!(all.repeat(i, 1) == expected, "{curve}: fixed base {}", fields[0]);
            assert!(generator.multiply(0, &scalars[i]) == expected, "{curve}: complete {}", fields[0]);
            assert!(generator.multiply_all(&scalars[i]) == expected, "{curve}: windows {}", fields[0]);
        }
    }
}

#[test]
fn multiples_of_other_points_match_openssl() {
    for curve in BuiltCurve::ALL {
        for fields in records(curve, "var") {
            let (k, base, expected) = (scalar(curve, &fields[0]), point(curve, &fields[1]), point(curve, &fields[2]));
            assert!(base.multiply(0, &k) == expected, "{curve}: complete {fields:?}");
            assert!(base.multiply_all(&k) == expected, "{curve}: windows {fields:?}");
            assert!(FixedBase::new(&base, 0).multiply_all(&[k]) == expected, "{curve}: fixed base {fields:?}");
        }
    }
}

#[test]
fn additions_match_openssl_alone_and_in_one_batch() {
    for curve in BuiltCurve::ALL {
        let mut left = Points::identity(curve, 0);
        let (mut right, mut expected) = (left.clone(), left.clone());
        for fields in records(curve, "add") {
            let [a, b, sum] = [0, 1, 2].map(|i| point(curve, &fields[i]));
            assert!(
                projective::add(curve, &a.to_integers(), &b.to_integers()) == sum.to_integers(),
                "{curve}: complete {fields:?}"
            );
            let mut alone = a.clone();
            alone.add_assign(&b).unwrap();
            assert!(alone == sum, "{curve}: affine {fields:?}");
            left.append(&a);
            right.append(&b);
            expected.append(&sum);
        }
        left.add_assign(&right).unwrap();
        assert!(left == expected, "{curve}: an exceptional addition touched its neighbours");
    }
}

#[test]
fn sec1_encodings_match_openssl() {
    for curve in BuiltCurve::ALL {
        for fields in records(curve, "sec1") {
            let (expected, compressed, uncompressed) = (point(curve, &fields[0]), hex(&fields[1]), hex(&fields[2]));
            assert_eq!(expected.to_sec1(), compressed, "{curve}");
            assert!(Points::from_sec1(curve, &compressed).unwrap() == expected, "{curve}");
            let mut bytes = vec![4];
            expected.encode(PointEncoding::Uncompressed, &mut bytes);
            assert_eq!(bytes, uncompressed, "{curve}");
            assert!(Points::from_sec1(curve, &uncompressed).is_err(), "{curve}: one form only");
        }
        let identity = Points::identity(curve, 1);
        assert_eq!(identity.to_sec1(), [0]);
        assert!(Points::from_sec1(curve, &[0]).is_err());
    }
}

#[test]
fn points_off_the_curve_are_refused_where_they_stand() {
    for curve in BuiltCurve::ALL {
        let generator = Points::generator(curve);
        for fields in records(curve, "off") {
            let mut bytes = Vec::new();
            generator.encode(PointEncoding::Uncompressed, &mut bytes);
            bytes.extend(hex(&fields[0].replace(',', "")));
            let refused = Points::decode(curve, PointEncoding::Uncompressed, 2, &bytes).err();
            assert_eq!(refused, Some(PointError::NotOnCurve { curve: curve.into(), index: 1 }), "{fields:?}");
        }
        for fields in records(curve, "nosqrt") {
            let mut bytes = hex(&fields[0]);
            bytes.push(0);
            let refused = Points::decode(curve, PointEncoding::Compressed, 1, &bytes).err();
            assert_eq!(refused, Some(PointError::NotOnCurve { curve: curve.into(), index: 0 }), "{fields:?}");
        }
    }
}

#[test]
fn mixed_batches_round_trip_in_both_encodings() {
    let mut rng = ChaCha20Rng::from_seed([4; 32]);
    for curve in BuiltCurve::ALL {
        let batch = mixed_batch(curve, &mut rng);
        for encoding in [PointEncoding::Compressed, PointEncoding::Uncompressed] {
            let mut bytes = Vec::new();
            batch.encode(encoding, &mut bytes);
            assert_eq!(bytes.len(), encoding.encoded_len(curve, batch.len()));
            assert!(Points::decode(curve, encoding, batch.len(), &bytes).unwrap() == batch, "{curve}");
            assert!(matches!(
                Points::decode(curve, encoding, batch.len(), &bytes[1..]),
                Err(PointError::Length { .. })
            ));
        }
    }
}

#[test]
fn stray_parity_bits_are_refused() {
    let curve = BuiltCurve::Secp256k1;
    let mut bytes = Vec::new();
    Points::generator(curve).encode(PointEncoding::Compressed, &mut bytes);
    *bytes.last_mut().unwrap() |= 0x80;
    assert_eq!(
        Points::decode(curve, PointEncoding::Compressed, 1, &bytes).err(),
        Some(PointError::Parity { curve: curve.into() })
    );
    let mut identity = Vec::new();
    Points::identity(curve, 1).encode(PointEncoding::Compressed, &mut identity);
    *identity.last_mut().unwrap() = 1;
    let refused = Points::decode(curve, PointEncoding::Compressed, 1, &identity).err();
    assert_eq!(refused, Some(PointError::Parity { curve: curve.into() }));
}

#[test]
fn doubling_negation_and_the_identity_share_a_batch_with_honest_points() {
    let mut rng = ChaCha20Rng::from_seed([5; 32]);
    for curve in BuiltCurve::ALL {
        let honest = mixed_batch(curve, &mut rng);
        let mut negated = honest.clone();
        negated.negate_assign();
        let mut other = mixed_batch(curve, &mut rng);
        let mut left = honest.clone();
        left.append(&honest);
        left.append(&honest);
        let mut right = honest.clone(); // doubles
        right.append(&negated); // cancels
        right.append(&other); // adds
        left.add_assign(&right).unwrap();
        let two = Scalar::from_u64(curve, 2);
        for i in 0..honest.len() {
            assert!(left.repeat(i, 1) == honest.multiply(i, &two), "{curve}: double");
            assert!(left.is_identity(honest.len() + i), "{curve}: cancel");
        }
        other.add_assign(&honest).unwrap();
        for i in 0..honest.len() {
            assert!(left.repeat(2 * honest.len() + i, 1) == other.repeat(i, 1), "{curve}: add");
        }
    }
}

#[test]
fn batches_of_other_lengths_or_curves_are_refused_and_left_alone() {
    let mut one = Points::generator(BuiltCurve::Secp256k1);
    assert!(one.add_assign(&one.repeat(0, 2)).is_err());
    assert!(one.add_assign(&Points::generator(BuiltCurve::NistP256)).is_err());
    assert!(one == Points::generator(BuiltCurve::Secp256k1));
}

#[test]
fn one_scalar_times_many_points_equals_each_alone() {
    let mut rng = ChaCha20Rng::from_seed([6; 32]);
    for curve in BuiltCurve::ALL {
        let batch = mixed_batch(curve, &mut rng);
        let scalar = Scalar::random(curve, &mut rng);
        let all = batch.multiply_all(&scalar);
        for i in 0..batch.len() {
            assert!(all.repeat(i, 1) == batch.multiply(i, &scalar), "{curve}");
        }
    }
}

#[test]
fn scalars_at_the_edge_of_the_digit_range_are_exact() {
    // n - 2|c| for small odd c: the only scalars whose last addition is exceptional
    for curve in BuiltCurve::ALL {
        let generator = Points::generator(curve);
        let table = FixedBase::new(&generator, 0);
        let mut order: Vec<u8> = curve.shape().order.iter().rev().flat_map(|word| word.to_be_bytes()).collect();
        order.drain(..order.len() - curve.scalar_bytes());
        assert!(digit_count(curve, 6) * 6 >= curve.shape().order_bits as usize);
        let mut scalars = Vec::new();
        for c in (1..64u8).step_by(2) {
            let mut bytes = order.clone();
            let mut borrow = 2 * i32::from(c);
            for byte in bytes.iter_mut().rev() {
                let difference = i32::from(*byte) - (borrow & 0xff);
                borrow = (borrow >> 8) + i32::from(difference < 0);
                *byte = difference as u8;
            }
            scalars.push(Scalar::from_be_bytes(curve, &bytes).unwrap());
        }
        let all = table.multiply_all(&scalars);
        for (i, scalar) in scalars.iter().enumerate() {
            assert!(all.repeat(i, 1) == generator.multiply(0, scalar), "{curve}: n - {}", 4 * i + 2);
        }
    }
}
