//! Bodies of the fuzz targets of this crate; the tests run them over their corpora too.

use crate::elgamal::{Ciphertexts, Mode, SharedCiphertexts};
use crate::params::{Parameters, SecurityFloor};
use crate::wire;
use crate::{BuiltCurve, Curve, PointEncoding, Points};

/// Selects the curve by the first byte among all nine, so that a corpus means the same in every
/// build.
fn curve_and_rest(data: &[u8]) -> Option<(BuiltCurve, &[u8])> {
    let (first, rest) = data.split_first()?;
    Some((Curve::ALL[usize::from(*first) % Curve::ALL.len()].built()?, rest))
}

/// Bytes that decode as a batch of points encode to the same bytes.
pub fn points(data: &[u8]) {
    let Some((curve, rest)) = curve_and_rest(data) else { return };
    for encoding in [PointEncoding::Compressed, PointEncoding::Uncompressed] {
        for count in 0..=4 {
            let Ok(points) = Points::decode(curve, encoding, count, rest) else { continue };
            let mut again = Vec::new();
            points.encode(encoding, &mut again);
            assert_eq!(again, rest);
        }
    }
    if let Ok(point) = Points::from_sec1(curve, rest) {
        assert_eq!(point.to_sec1(), rest);
    }
}

/// Bytes that decode as an object encode to the same bytes.
pub fn wire(data: &[u8]) {
    let floor = SecurityFloor::InsecurePaper;
    for curve in Curve::ALL {
        let Ok(parameters) = Parameters::new(curve, floor) else { continue };
        packets_and_sums::<Ciphertexts>(data, parameters);
        packets_and_sums::<SharedCiphertexts>(data, parameters);
    }
    if let Ok(key) = wire::decode_secret_key(data, floor) {
        assert_eq!(wire::mode_of_secret_key(data), Ok(Mode::Elgamal));
        assert_eq!(*wire::encode_secret_key(&key), data);
    }
    if let Ok(secret) = wire::decode_epoch_secret(data, floor) {
        assert_eq!(wire::mode_of_secret_key(data), Ok(Mode::ElgamalShared));
        assert_eq!(*wire::encode_epoch_secret(&secret), data);
    }
    if let Ok(key) = wire::decode_public_key(data, floor) {
        assert_eq!(wire::encode_public_key(&key), data);
    }
}

fn packets_and_sums<P: wire::Payload>(data: &[u8], parameters: Parameters) {
    let header = wire::decode_packet_header::<P>(data, parameters);
    match wire::decode_packet::<P>(data, parameters) {
        Ok((head, sum)) => {
            assert_eq!(header, Ok(head));
            assert_eq!(wire::encode_packet(head.room, head.member, head.tick, head.encoding, &sum), data);
        }
        Err(error) => assert!(header.is_ok() || header == Err(error)),
    }
    if let Ok((head, sum)) = wire::decode_sum::<P>(data, parameters) {
        assert_eq!(wire::encode_sum(&head, &sum), data);
    }
}

/// A batch addition of small multiples chosen by the data, with the identity, equal and opposite
/// points among them, gives the same sums as the complete formulas.
pub fn batch_addition(data: &[u8]) {
    let Some((curve, rest)) = curve_and_rest(data) else { return };
    let pairs: Vec<[i8; 2]> =
        rest.chunks_exact(2).take(64).map(|pair| [pair[0] as i8 % 8, pair[1] as i8 % 8]).collect();
    let multiples = small_multiples(curve);
    let pick = |side: usize| {
        let mut batch = Points::identity(curve, 0);
        pairs.iter().for_each(|pair| batch.append(&multiples.repeat((pair[side] + 7) as usize, 1)));
        batch
    };
    let mut sums = pick(0);
    let added = sums.add_assign(&pick(1));
    assert!(added.is_ok());
    for (i, [a, b]) in pairs.into_iter().enumerate() {
        let expected = multiple_of_generator(curve, a + b);
        assert!(sums.repeat(i, 1) == expected, "{curve}: {a} + {b}");
    }
}

/// `-7G … 7G`.
fn small_multiples(curve: BuiltCurve) -> Points {
    let mut all = Points::identity(curve, 0);
    (-7..=7).for_each(|m| all.append(&multiple_of_generator(curve, m)));
    all
}

/// `mG` by the complete formulas.
fn multiple_of_generator(curve: BuiltCurve, m: i8) -> Points {
    let scalar = crate::Scalar::from_u64(curve, u64::from(m.unsigned_abs()));
    let mut point = Points::generator(curve).multiply(0, &scalar);
    if m < 0 {
        point.negate_assign();
    }
    point
}

#[cfg(test)]
mod tests {
    use super::*;
    use tobari_octets::testing::noise;

    #[test]
    fn noise_never_breaks_a_target() {
        for seed in 0..300 {
            let data = noise(seed, seed as usize % 200);
            points(&data);
            wire(&data);
        }
        for seed in 0..30 {
            batch_addition(&noise(seed, 40));
        }
    }
}
