//! Bodies of the fuzz targets of this crate; the tests run them over their corpora too.

use crate::curve::{Curve, PointEncoding, Points};
use crate::elgamal::{Ciphertexts, Mode, SharedCiphertexts};
use crate::mask::{Form, Width};
use crate::params::{LatticeParameters, Parameters, Plaintext, SecurityFloor};
use crate::ring::Modulus;
use crate::wire::{self, LiveLayout, words};

/// Curve by the first byte.
fn curve_and_rest(data: &[u8]) -> Option<(Curve, &[u8])> {
    let (first, rest) = data.split_first()?;
    Some((Curve::ALL[usize::from(*first) % Curve::ALL.len()], rest))
}

/// Whatever decodes as a batch of points encodes to the same bytes.
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

/// Whatever decodes as an object encodes to the same bytes.
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

/// Whatever decodes as a packet or a sum of a live room encodes to the same bytes.
pub fn live_wire(data: &[u8]) {
    let Ok(parameters) = Parameters::new(Curve::Secp256k1, SecurityFloor::Standard) else { return };
    let masks = [Form::Packed, Form::Aligned].into_iter().flat_map(|form| {
        (Width::MIN..=Width::MAX).filter_map(Width::new).map(move |width| LiveLayout::Mask { width, form })
    });
    let points = [PointEncoding::Compressed, PointEncoding::Uncompressed].into_iter().flat_map(|encoding| {
        [LiveLayout::ElgamalShared { parameters, encoding }, LiveLayout::Elgamal { parameters, encoding }]
    });
    for layout in masks.chain(points) {
        let header = wire::decode_live_header(layout, data);
        match wire::decode_live_packet(layout, data) {
            Ok(packet) => {
                assert_eq!(header, Ok((packet.header, packet.payload.samples() as u16)));
                assert_eq!(wire::encode_live_packet(layout, &packet), data);
                assert_eq!(layout.packet_len(packet.payload.samples()), data.len());
            }
            Err(error) => assert!(header.is_ok() || header == Err(error)),
        }
        if let Ok(sum) = wire::decode_live_sum(layout, data) {
            assert_eq!(wire::encode_live_sum(layout, &sum), data);
            assert!(data.len() <= layout.longest_sum(sum.payload.samples()));
        }
    }
}

/// Whatever decodes as an object of the lattice schemes encodes to the same bytes.
pub fn lattice_wire(data: &[u8]) {
    if let Ok(parameters) = wire::decode_parameters(data) {
        assert_eq!(wire::encode_parameters(&parameters), data);
    }
    let Some(t) = Modulus::new(257) else { return };
    for plaintext in [Plaintext::Integers(t), Plaintext::Approximate] {
        let of_sizes = LatticeParameters::insecure_of_sizes;
        let Ok(parameters) = of_sizes(8, &[33, 30, 31], &[37, 36], 2, plaintext) else { continue };
        lattice_objects(data, &parameters);
        approximate_objects(data, &parameters);
    }
}

/// Of both schemes, and of BGV.
fn lattice_objects(data: &[u8], parameters: &LatticeParameters) {
    if let Ok(key) = wire::decode_ring_secret_key(data, parameters) {
        assert_eq!(*wire::encode_ring_secret_key(&key), data);
    }
    if let Ok(key) = wire::decode_ring_public_key(data, parameters) {
        assert_eq!(wire::encode_ring_public_key(&key), data);
    }
    if let Ok(keys) = wire::decode_evaluation_keys(data, parameters) {
        assert_eq!(wire::encode_evaluation_keys(&keys, parameters), data);
    }
    if let Ok(ciphertext) = wire::decode_ciphertext(data, parameters) {
        assert_eq!(wire::encode_ciphertext(&ciphertext), data);
    }
    if let Ok(ciphertext) = wire::decode_seeded_ciphertext(data, parameters) {
        assert_eq!(wire::encode_seeded_ciphertext(&ciphertext), data);
    }
    words_again(data, words::read_ciphertext(data, parameters), words::write_ciphertext);
    words_again(data, words::read_evaluation_key(data, parameters), words::write_evaluation_key);
}

/// What is read as words is written as the same bytes.
fn words_again<T, E>(data: &[u8], read: Result<T, E>, write: impl FnOnce(&T, &mut [u8]) -> Result<(), E>) {
    if let Ok(object) = read {
        let mut again = vec![0; data.len()];
        assert!(write(&object, &mut again).is_ok() && again == data);
    }
}

/// Of CKKS.
fn approximate_objects(data: &[u8], parameters: &LatticeParameters) {
    if let Ok(keys) = wire::decode_ckks_evaluation_keys(data, parameters) {
        assert_eq!(wire::encode_ckks_evaluation_keys(&keys), data);
    }
    if let Ok(ciphertext) = wire::decode_ckks_ciphertext(data, parameters) {
        assert_eq!(wire::encode_ckks_ciphertext(&ciphertext), data);
    }
    if let Ok(ciphertext) = wire::decode_ckks_seeded_ciphertext(data, parameters) {
        assert_eq!(wire::encode_ckks_seeded_ciphertext(&ciphertext), data);
    }
    words_again(data, words::read_ckks_ciphertext(data, parameters), words::write_ckks_ciphertext);
    words_again(data, words::read_ckks_evaluation_key(data, parameters), words::write_ckks_evaluation_key);
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

/// A batch addition of small multiples chosen by the data, the identity, equal and opposite ones included, gives the same
/// sums as the complete formulas one by one.
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
fn small_multiples(curve: Curve) -> Points {
    let mut all = Points::identity(curve, 0);
    (-7..=7).for_each(|m| all.append(&multiple_of_generator(curve, m)));
    all
}

/// `mG` by the complete formulas.
fn multiple_of_generator(curve: Curve, m: i8) -> Points {
    let scalar = crate::curve::Scalar::from_u64(curve, u64::from(m.unsigned_abs()));
    let mut point = Points::generator(curve).multiply(0, &scalar);
    if m < 0 {
        point.negate_assign();
    }
    point
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cheap deterministic noise.
    fn noise(seed: u64, len: usize) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        std::iter::repeat_with(next).take(len).collect()
    }

    #[test]
    fn noise_never_breaks_a_target() {
        for seed in 0..300 {
            let data = noise(seed, seed as usize % 200);
            points(&data);
            wire(&data);
            lattice_wire(&data);
            live_wire(&data);
        }
        for seed in 0..30 {
            batch_addition(&noise(seed, 40));
        }
    }
}
