//! The functions that JavaScript calls. They take and return numbers, and one block of memory each
//! way.
//!
//! `tobari_reserve(n)` returns the address of `n` bytes for the input; the function that reads the
//! input is then called with its length. A function with an output returns the number of bytes, and
//! `tobari_output()` their address, valid until the next call; a negative number means no output.
//! Texts are UTF-8, numbers little-endian. A module holds one client: a page loads a module for
//! each call.
//!
//! | function | input | output |
//! |---|---|---|
//! | `seed` | 32 random bytes | |
//!
//! The other functions are in [`call`], [`ask`] and [`sense`].

#![allow(unsafe_code, reason = "exported names; there is no unsafe block")]

#[cfg(feature = "ask")]
pub mod ask;
#[cfg(feature = "call")]
pub mod call;
#[cfg(feature = "sense")]
pub mod sense;

use std::cell::RefCell;

use chacha20::{
    ChaCha20Rng,
    rand_core::{Rng, SeedableRng},
};
use serde_json::json;
use zeroize::{Zeroize, Zeroizing};

/// The largest input, in bytes: for `ask`, the description of a model; for `mls`, a message of the
/// whole group; else a roster of a full room, with a margin.
const MOST_INPUT: usize = if cfg!(feature = "ask") {
    1 << 24
} else if cfg!(feature = "mls") {
    1 << 23
} else {
    1 << 20
};
#[cfg(feature = "mls")]
const _: () = assert!(MOST_INPUT >= tobari_call::live::group::MAX_GROUP_BYTES);

#[derive(Default)]
struct State {
    rng: Option<ChaCha20Rng>,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl State {
    /// The output, wiped and empty.
    fn fresh(&mut self) -> &mut Vec<u8> {
        self.output.zeroize();
        &mut self.output
    }

    fn put(&mut self, bytes: &[u8]) -> i32 {
        self.fresh().extend_from_slice(bytes);
        i32::try_from(bytes.len()).unwrap_or(-1)
    }

    /// A new generator, seeded from the module's generator.
    fn draw(&mut self) -> Option<ChaCha20Rng> {
        let mut seed = Zeroizing::new([0; 32]);
        self.rng.as_mut()?.fill_bytes(seed.as_mut());
        Some(ChaCha20Rng::from_seed(*seed))
    }
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

fn with<T>(work: impl FnOnce(&mut State) -> T) -> T {
    STATE.with_borrow_mut(work)
}

/// The first `len` bytes of the input, and the state without it. The input is wiped afterwards.
fn with_input<T>(len: u32, work: impl FnOnce(&mut State, &[u8]) -> T) -> T {
    with(|state| {
        let input = Zeroizing::new(std::mem::take(&mut state.input));
        let input = &input[..input.len().min(len as usize)];
        work(state, input)
    })
}

/// Memory for an input of `len` bytes; null if `len` is too large.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_reserve(len: u32) -> *mut u8 {
    with(|state| {
        if len as usize > MOST_INPUT {
            return std::ptr::null_mut();
        }
        state.input.zeroize();
        state.input.resize(len as usize, 0);
        state.input.as_mut_ptr()
    })
}

/// The address of the last output.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_output() -> *const u8 {
    with(|state| state.output.as_ptr())
}

/// Takes 32 random bytes from the page; 1 on success.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_seed(len: u32) -> i32 {
    with_input(len, |state, input| {
        let Ok(seed) = <[u8; 32]>::try_from(input) else { return 0 };
        let seed = Zeroizing::new(seed);
        state.rng = Some(ChaCha20Rng::from_seed(*seed));
        1
    })
}

fn error(what: impl std::fmt::Display) -> Vec<u8> {
    json!({ "error": what.to_string() }).to_string().into_bytes()
}

/// Bytes of the stack that are wiped: a quarter of the module's stack, and more than a call uses.
const STACK: usize = 1 << 18;

/// Wipes the stack. A moved value is wiped at its last place only; its earlier copies on the stack
/// are wiped here.
#[inline(never)]
fn wipe_stack() {
    let mut stack = [0u8; STACK];
    stack.zeroize();
}
