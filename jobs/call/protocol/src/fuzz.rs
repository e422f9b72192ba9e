//! The body of the fuzz target `live_wire`.

use crate::mask::{Form, Width};
use crate::wire::{self, LiveLayout};
use tobari_curve::params::{Parameters, SecurityFloor};
use tobari_curve::{Curve, PointEncoding};

/// Bytes that decode as a packet or a sum of a live room encode to the same bytes.
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

#[cfg(test)]
mod tests {
    use super::*;
    use tobari_octets::testing::noise;

    #[test]
    fn noise_never_breaks_the_target() {
        for seed in 0..300 {
            live_wire(&noise(seed, seed as usize % 200));
        }
    }
}
