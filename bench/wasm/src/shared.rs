//! Mode `elgamal-shared` on one packet, on each curve of the papers.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use tobari_curve::{Curve, PointEncoding};
use tobari_curve::elgamal::{SharedCiphertexts, SharedDecryptor, SharedEncryptor, SharedKey};
use tobari_curve::params::{Parameters, SecurityFloor};
use tobari_curve::wire::{RoomId, decode_packet, encode_packet};

/// Samples of a packet.
const SAMPLES: usize = 320;
/// The largest sample.
const BOUND: u32 = 32_768;

struct State {
    rng: ChaCha20Rng,
    key: SharedKey,
    messages: Vec<i32>,
    encryptor: SharedEncryptor,
    decryptor: SharedDecryptor,
    packet: SharedCiphertexts,
    /// The packet as it is sent, compressed.
    bytes: Vec<u8>,
}

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// Builds keys and tables for curve number `curve` of `Curve::ALL`; 1 if all is well.
#[unsafe(no_mangle)]
pub extern "C" fn prepare(curve: u32) -> u32 {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let Some(curve) = Curve::ALL.get(curve as usize) else { return 0 };
    let Ok(parameters) = Parameters::new(*curve, SecurityFloor::InsecurePaper) else { return 0 };
    let key = SharedKey::generate(parameters, SAMPLES, &mut rng);
    let messages: Vec<i32> = (0..SAMPLES).map(|_| i32::from(rng.next_u32() as u16 as i16)).collect();
    let encryptor = SharedEncryptor::new(&key);
    let Ok(packet) = encryptor.encrypt(&messages, &mut rng) else { return 0 };
    let decryptor = SharedDecryptor::new(&key, BOUND);
    STATE.set(Some(State { rng, key, messages, encryptor, decryptor, packet, bytes: Vec::new() }));
    1
}

/// Encrypts a packet; 1 if all is well.
#[unsafe(no_mangle)]
pub extern "C" fn encrypt() -> u32 {
    with(|state| {
        let packet = state.encryptor.encrypt(&state.messages, &mut state.rng);
        packet.map(|packet| state.packet = packet).is_ok()
    })
}

/// From now on `send` and `decrypt` are of what `2^doublings` speakers say together: sums spread
/// over the whole range that they can have. 1 if all is well.
#[unsafe(no_mangle)]
pub extern "C" fn crowd(doublings: u32) -> u32 {
    with(|state| {
        if doublings > 10 {
            return false;
        }
        // high digits, doubled, and low ones: what one packet holds is a sample
        let low: Vec<i32> = (0..SAMPLES).map(|_| (state.rng.next_u32() & ((1 << doublings) - 1)) as i32).collect();
        let (Ok(mut sum), Ok(packet)) = (
            state.encryptor.encrypt(&state.messages, &mut state.rng),
            state.encryptor.encrypt(&low, &mut state.rng),
        ) else {
            return false;
        };
        for _ in 0..doublings {
            let same = sum.clone();
            if sum.add_assign(&same).is_err() {
                return false;
            }
        }
        state.decryptor = SharedDecryptor::new(&state.key, BOUND << doublings);
        state.messages.iter_mut().zip(&low).for_each(|(message, low)| *message = (*message << doublings) + low);
        let added = sum.add_assign(&packet).is_ok();
        state.packet = sum;
        added
    })
}

/// Writes the last packet in its compressed form; 1 if all is well.
#[unsafe(no_mangle)]
pub extern "C" fn send() -> u32 {
    with(|state| {
        state.bytes = encode_packet(RoomId([0; 8]), 0, 0, PointEncoding::Compressed, &state.packet);
        true
    })
}

/// What a listener does with the bytes last sent: reads them, with a square root for each point,
/// and decrypts. 1 if what comes out is what went in.
#[unsafe(no_mangle)]
pub extern "C" fn decrypt() -> u32 {
    with(|state| {
        let packet = decode_packet::<SharedCiphertexts>(&state.bytes, state.encryptor.parameters());
        let found = packet.ok().and_then(|(_, packet)| state.decryptor.vartime_decrypt(&packet).ok());
        found.is_some_and(|found| *found == state.messages)
    })
}

fn with(work: impl FnOnce(&mut State) -> bool) -> u32 {
    STATE.with_borrow_mut(|state| state.as_mut().map_or(0, |state| u32::from(work(state))))
}
