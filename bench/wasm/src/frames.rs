//! Frames of a device of the job `sense`, 256 readings each. The root is fixed, and the counter is
//! not kept: for timing only.

use std::cell::RefCell;
use tobari_device::{Device, DeviceNumber, InsecureVolatileCounter, Opener, P1, Profile, READINGS, Root, U25};

/// Frames of a call, as many as samples of a packet: what is timed is divided by them.
const FRAMES: usize = 320;

struct State<P: Profile> {
    device: Device<P, InsecureVolatileCounter>,
    last: P::Frame,
}

thread_local! {
    static P1_STATE: RefCell<Option<State<P1>>> = const { RefCell::new(None) };
    static U25_STATE: RefCell<Option<State<U25>>> = const { RefCell::new(None) };
}

fn readings(at: usize) -> [u8; READINGS] {
    std::array::from_fn(|place| (7 * place + at) as u8)
}

fn seal<P: Profile<Stamp = ()>>(state: &mut Option<State<P>>, empty: P::Frame) -> bool {
    if state.is_none() {
        let Some(number) = DeviceNumber::new(1) else { return false };
        let root = Root::from_bytes([5; 32]);
        let Ok(device) = Device::open(&root, number, InsecureVolatileCounter(0)) else { return false };
        *state = Some(State { device, last: empty });
    }
    let Some(State { device, last }) = state else { return false };
    (0..FRAMES).all(|at| device.seal(&readings(at), last).is_ok())
}

/// Whether the last frame opens to what went in.
fn opens<P: Profile>(state: &Option<State<P>>) -> bool {
    let Some(State { last, .. }) = state else { return false };
    let root = Root::from_bytes([5; 32]);
    let envelope = tobari_device::MacKey::<P>::from_bytes(&root.mac_key::<P>()).open(last.as_ref());
    let found = envelope.ok().and_then(|envelope| Opener::<P>::new(&root).open(&envelope).ok());
    found.is_some_and(|found| *found == readings(FRAMES - 1))
}

/// Seals frames of profile P1 (0) or U25 (1); 1 if all is well.
#[unsafe(no_mangle)]
pub extern "C" fn frames_seal(profile: u32) -> u32 {
    u32::from(match profile {
        0 => P1_STATE.with_borrow_mut(|state| seal(state, [0; 553])),
        _ => U25_STATE.with_borrow_mut(|state| seal(state, [0; 840])),
    })
}

/// Opens the last one; 1 if it has what went in.
#[unsafe(no_mangle)]
pub extern "C" fn frames_check(profile: u32) -> u32 {
    u32::from(match profile {
        0 => P1_STATE.with_borrow(opens),
        _ => U25_STATE.with_borrow(opens),
    })
}
