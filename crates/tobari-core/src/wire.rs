//! Versioned bytes of every public object: those of the curves, of the lattices, and of live rooms.

mod live;

pub use live::{
    LiveHeader, LiveLayout, LivePacket, LivePayload, LiveSum, decode_live_header, decode_live_packet, decode_live_sum,
    encode_live_packet, encode_live_sum,
};
pub use tobari_curve::wire::{
    Kind, MAX_MEMBERS, MAX_PACKET_MESSAGES, MemberSet, PacketHeader, Payload, RoomId, SumHeader, VERSION, WireError,
    decode_epoch_secret, decode_packet, decode_packet_header, decode_public_key, decode_secret_key, decode_sum,
    encode_epoch_secret, encode_packet, encode_public_key, encode_secret_key, encode_sum, mode_of_secret_key,
    packet_len,
};
pub use tobari_lattice::wire::{
    LatticeKind, LatticeWireError, decode_ciphertext, decode_ckks_ciphertext, decode_ckks_evaluation_keys,
    decode_ckks_seeded_ciphertext, decode_evaluation_keys, decode_parameters, decode_ring_public_key,
    decode_ring_secret_key, decode_seeded_ciphertext, encode_ciphertext, encode_ckks_ciphertext,
    encode_ckks_evaluation_keys, encode_ckks_seeded_ciphertext, encode_evaluation_keys, encode_parameters,
    encode_ring_public_key, encode_ring_secret_key, encode_seeded_ciphertext, pack_plaintext, unpack_plaintext, words,
};
