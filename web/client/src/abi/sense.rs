//! A fleet in a tab, and its key holder.
//!
//! | function | input | output |
//! |---|---|---|
//! | `sense_new` | a [`Wanted`](crate::sense::Wanted) | `FleetInfo` as JSON, or `{"error":…}` |
//! | `sense_object(index)` | | an object for the server |
//! | `sense_bundle` | | the bundle for the server: numbers and MAC keys of devices |
//! | `sense_order` | | the order for the server: the computation |
//! | `sense_seal` | `[[device, reading], …]` | frames, one after another; none for a reading out of range |
//! | `sense_stored` | 8 bytes: when the server stored all frames, in milliseconds since 1970 | 1 |
//! | `sense_lost` | | |
//! | `sense_open` | 8 bytes: the start of a window; its result | `Opened`, or `{"error":…}` |
//! | `sense_forget` | | |

use super::{error, wipe_stack, with, with_input};
use crate::sense::{Fleet, FleetError};
use serde::Serialize;
use std::cell::RefCell;

thread_local! {
    static FLEET: RefCell<Option<Fleet>> = const { RefCell::new(None) };
}

/// Runs `work` on the fleet; -1 without a fleet.
fn fleet(work: impl FnOnce(&mut Fleet) -> i32) -> i32 {
    FLEET.with_borrow_mut(|fleet| fleet.as_mut().map_or(-1, work))
}

fn told(done: Result<impl Serialize, FleetError>) -> Vec<u8> {
    done.map_or_else(error, |done| serde_json::to_vec(&done).unwrap_or_default())
}

/// Splits an input into a time and the rest.
fn timed(input: &[u8]) -> Option<(u64, &[u8])> {
    input.split_first_chunk().map(|(time, rest)| (u64::from_le_bytes(*time), rest))
}

/// Makes a fleet; the previous one is wiped.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_sense_new(len: u32) -> i32 {
    with_input(len, |state, input| {
        let Some(mut rng) = state.draw() else { return -1 };
        let wanted = serde_json::from_slice(input).map_err(|_| FleetError::Wanted("devices and seconds of a window"));
        let made = wanted.and_then(|wanted| Fleet::new(wanted, &mut rng)).map(|fleet| {
            let told = fleet.told();
            FLEET.set(Some(fleet));
            told
        });
        state.put(&told(made))
    })
}

/// An object for the server.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_sense_object(index: u32) -> i32 {
    fleet(|fleet| fleet.object(index as usize).map_or(-1, |bytes| with(|state| state.put(bytes))))
}

/// The bundle for the server: numbers and MAC keys of devices.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_sense_bundle() -> i32 {
    fleet(|fleet| with(|state| state.put(fleet.bundle())))
}

/// The order for the server: the computation.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_sense_order() -> i32 {
    fleet(|fleet| with(|state| state.put(fleet.order())))
}

/// Frames of readings.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_sense_seal(len: u32) -> i32 {
    with_input(len, |state, input| {
        let Ok(readings) = serde_json::from_slice::<Vec<(usize, f64)>>(input) else { return -1 };
        fleet(|fleet| fleet.seal(&readings).map_or(-1, |frames| state.put(&frames)))
    })
}

/// Notes that the server has stored the last frames.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_sense_stored(len: u32) -> i32 {
    with_input(len, |_, input| {
        let Some((at_ms, [])) = timed(input) else { return -1 };
        fleet(|fleet| {
            fleet.stored(at_ms);
            1
        })
    })
}

/// Notes that the client does not know whether the server has stored the last frames.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_sense_lost() {
    fleet(|fleet| {
        fleet.lost();
        1
    });
}

/// Decrypts a result.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_sense_open(len: u32) -> i32 {
    with_input(len, |state, input| {
        let Some((start_ms, answer)) = timed(input) else { return -1 };
        fleet(|fleet| state.put(&told(fleet.open(start_ms, answer))))
    })
}

/// Forgets the fleet and wipes it.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_sense_forget() {
    FLEET.set(None);
    with(|state| {
        state.fresh();
    });
    wipe_stack();
}
