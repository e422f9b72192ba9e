//! Mode `mask`: what a member of a live room does with the sum of many senders, 20 ms at a time.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use tobari_call::mask::{EpochKey, Form, MaskReceiver, MaskSender, Masked, SessionKey, Tag, Width};
use zeroize::Zeroizing;

/// Words of a packet of a live room.
const WORDS: usize = 321;

struct State {
    senders: Vec<MaskSender>,
    receiver: MaskReceiver,
    numbers: Vec<u16>,
    width: Width,
    tick: u32,
    /// The sum as it came, its tag, and what it should be.
    bytes: Vec<u8>,
    tag: Tag,
    expected: Vec<i32>,
    rng: ChaCha20Rng,
}

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// Makes the keys of so many senders; 1 if all is well.
#[unsafe(no_mangle)]
pub extern "C" fn mask_prepare(senders: u32) -> u32 {
    let Some(width) = Width::for_senders(1024) else { return 0 };
    let bytes = |member: u32, purpose: u8| {
        let mut bytes = Zeroizing::new([purpose; 32]);
        bytes[..4].copy_from_slice(&member.to_be_bytes());
        bytes
    };
    let epoch = || EpochKey::from_bytes(&bytes(0, 9));
    let key = |member: u32| SessionKey::from_bytes(&bytes(member, 1), &bytes(member, 2));
    let mut receiver = MaskReceiver::new(epoch(), width, WORDS, 0);
    let numbers: Vec<u16> = (0..senders as u16).collect();
    numbers.iter().for_each(|member| receiver.insert(*member, key((*member).into())));
    let senders = (0..senders).map(|member| MaskSender::new(epoch(), key(member), width, 0)).collect();
    let (rng, expected) = (ChaCha20Rng::from_seed([3; 32]), Vec::new());
    STATE.set(Some(State {
        senders,
        receiver,
        numbers,
        width,
        tick: 0,
        bytes: Vec::new(),
        tag: Tag::default(),
        expected,
        rng,
    }));
    1
}

/// All say something, and it is added up; 1 if all is well.
#[unsafe(no_mangle)]
pub extern "C" fn mask_say() -> u32 {
    with(|state| {
        state.tick += 1;
        let mut sum = Masked::zero(state.width, WORDS);
        (state.tag, state.expected) = (Tag::default(), vec![0; WORDS]);
        for sender in &mut state.senders {
            let samples: Vec<i16> = (0..WORDS).map(|_| state.rng.next_u32() as i16).collect();
            state.expected.iter_mut().zip(&samples).for_each(|(sum, sample)| *sum += i32::from(*sample));
            let Ok((masked, tag)) = sender.encrypt(state.tick, &samples) else { return false };
            if sum.add_assign(&masked).is_err() {
                return false;
            }
            state.tag.add_assign(&tag);
        }
        state.bytes.clear();
        sum.encode(Form::Packed, &mut state.bytes);
        true
    })
}

/// What a listener does with the bytes of that sum: reads them, takes all masks off, checks the
/// tag. 1 if it is what was said.
#[unsafe(no_mangle)]
pub extern "C" fn mask_open() -> u32 {
    with(|state| {
        let Ok(masked) = Masked::decode(Form::Packed, state.width, WORDS, &state.bytes) else { return false };
        let opened = state.receiver.open(state.tick, &state.numbers, &masked, &state.tag);
        opened.is_ok_and(|samples| *samples == state.expected)
    })
}

/// A digest of the sum as it was sent, with its tag: the same whichever loops made it.
#[unsafe(no_mangle)]
pub extern "C" fn mask_digest() -> u64 {
    STATE.with_borrow(|state| {
        let Some(state) = state else { return 0 };
        let bytes = state.bytes.iter().chain(&state.tag.to_bytes()).copied().collect::<Vec<u8>>();
        bytes
            .iter()
            .fold(1, |sum: u64, byte| (sum.rotate_left(5) ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    })
}

fn with(work: impl FnOnce(&mut State) -> bool) -> u32 {
    STATE.with_borrow_mut(|state| state.as_mut().map_or(0, |state| u32::from(work(state))))
}
