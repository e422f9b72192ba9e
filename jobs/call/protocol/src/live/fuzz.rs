//! The body of a fuzz target.

use super::{group, hello, link, messages, notes, recording, roster};

/// Bytes that read as a link, a message, a hello, a note, a roster, a message of a group or a
/// recording of a live room are written as the same bytes. No bytes cause a panic.
pub fn fuzz_live_messages(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        link::fuzz(text);
        messages::fuzz(text);
    }
    group::messages::fuzz(data);
    hello::fuzz(data);
    notes::fuzz(data);
    roster::fuzz(data);
    recording::fuzz(data);
}

#[cfg(test)]
mod tests {
    use super::fuzz_live_messages;
    use chacha20::{
        ChaCha20Rng,
        rand_core::{Rng, SeedableRng},
    };

    #[test]
    fn noise_is_refused_without_a_panic() {
        let mut rng = ChaCha20Rng::from_seed([7; 32]);
        for length in (0..4000).map(|round| round % 400) {
            let mut data = vec![0; length];
            rng.fill_bytes(&mut data);
            if length > 2 {
                data[..2].copy_from_slice(&[1, [0x0c, 0x0d, 0x0e, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25][length % 9]]);
            }
            fuzz_live_messages(&data);
        }
    }
}
