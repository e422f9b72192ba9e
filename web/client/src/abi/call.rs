//! A member of a live call.
//!
//! | function | input | output |
//! |---|---|---|
//! | `links` | a [`LinkOrder`] | [`Links`](crate::Links), as JSON |
//! | `guests` | a host's own link | the link for everybody |
//! | `describe` | a link | its settings as JSON, or `{"error":…}` |
//! | `join` | a [`Start`] | settings, address of the WebSocket, or `{"error":…}` |
//! | `text`, `binary` | a message of the server | |
//! | `capture` | samples of the microphone, 32-bit float | |
//! | `play` | | 20 ms of samples, 32-bit float |
//! | `poll` | | the next message: 0 text, 1 packet of sound or 2 other, then the bytes |
//! | `news` | | the next event, as JSON |
//! | `say` | a message of the protocol | |
//! | `said`, `heard` | | 16-bit samples, for pictures |

use super::{error, wipe_stack, with, with_input};
use crate::{Client, LinkOrder, Start, Thing, describe, guests_link, make_links};
use std::cell::RefCell;
use zeroize::Zeroizing;

thread_local! {
    static CLIENT: RefCell<Option<Client>> = const { RefCell::new(None) };
}

fn client<T>(otherwise: T, work: impl FnOnce(&mut Client) -> T) -> T {
    CLIENT.with_borrow_mut(|client| client.as_mut().map_or(otherwise, work))
}

fn json_in<T: for<'a> serde::Deserialize<'a>>(input: &[u8]) -> Option<T> {
    serde_json::from_slice(input).ok()
}

/// Makes the links of a new room.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_links(len: u32) -> i32 {
    with_input(len, |state, input| {
        let Some(order) = json_in::<LinkOrder>(input) else { return -1 };
        let Some(mut rng) = state.draw() else { return -1 };
        let Some(links) = make_links(&order, &mut rng) else { return -1 };
        let text = Zeroizing::new(serde_json::to_vec(&links).unwrap_or_default());
        state.put(&text)
    })
}

/// The link for everybody, from the host's own link.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_guests(len: u32) -> i32 {
    with_input(len, |state, input| match std::str::from_utf8(input).ok().and_then(guests_link) {
        Some(link) => state.put(link.as_bytes()),
        None => -1,
    })
}

/// The settings of the room in a link.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_describe(len: u32) -> i32 {
    with_input(len, |state, input| {
        let Ok(link) = std::str::from_utf8(input) else { return -1 };
        let described = match describe(link) {
            Ok(described) => described.to_string().into_bytes(),
            Err(why) => error(why),
        };
        state.put(&described)
    })
}

/// Begins a call; it replaces the previous one.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_join(len: u32) -> i32 {
    with_input(len, |state, input| {
        let Some(start) = json_in::<Start>(input) else { return -1 };
        let Some(rng) = state.draw() else { return -1 };
        let described = match Client::new(start, rng) {
            Ok(client) => {
                let described = client.describe().to_string().into_bytes();
                CLIENT.set(Some(client));
                described
            }
            Err(why) => error(why),
        };
        state.put(&described)
    })
}

/// Ends the call and wipes its keys.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_leave() {
    CLIENT.set(None);
    with(|state| {
        state.fresh();
    });
    wipe_stack();
}

/// Receives a text message of the server.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_text(len: u32) {
    with_input(len, |_, input| {
        if let Ok(text) = std::str::from_utf8(input) {
            client((), |client| client.text(text));
        }
    });
}

/// Receives a binary message of the server; 1 if it is a sum that is played.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_binary(len: u32) -> i32 {
    with_input(len, |_, input| client(0, |client| i32::from(client.binary(input))))
}

/// Receives samples of the microphone.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_capture(len: u32) {
    with_input(len, |_, input| {
        client((), |client| {
            let samples: Zeroizing<Vec<f32>> =
                Zeroizing::new(input.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect());
            client.capture(&samples);
        });
    });
}

/// The next 20 ms to play.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_play() -> i32 {
    client(-1, |client| {
        let mut samples = Zeroizing::new(Vec::new());
        client.play(&mut samples);
        let bytes: Zeroizing<Vec<u8>> =
            Zeroizing::new(samples.iter().flat_map(|sample| sample.to_le_bytes()).collect());
        with(|state| state.put(&bytes))
    })
}

/// The next message for the server; packets of sound are held back if `full` is not 0.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_poll(full: u32) -> i32 {
    with(|state| {
        let Some(thing) = client(None, |client| client.poll(full != 0)) else { return -1 };
        let (kind, bytes) = match &thing {
            Thing::Text(text) => (0, text.as_bytes()),
            Thing::Packet(bytes) => (1, bytes.as_slice()),
            Thing::Binary(bytes) => (2, bytes.as_slice()),
        };
        state.put(&[&[kind], bytes].concat())
    })
}

/// The next event.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_news() -> i32 {
    with(|state| {
        let Some(news) = client(None, Client::poll_news) else { return -1 };
        state.put(news.to_string().as_bytes())
    })
}

/// Sends a message of the protocol to the server; 1 if it can be sent.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_say(len: u32) -> i32 {
    with_input(len, |_, input| {
        let Ok(text) = std::str::from_utf8(input) else { return 0 };
        client(0, |client| i32::from(client.say(text)))
    })
}

/// Mutes or unmutes the microphone.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_mute(muted: u32) {
    client((), |client| client.mute(muted != 0));
}

/// The samples that were sent of the last capture.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_said() -> i32 {
    samples(Client::said)
}

/// The samples that were played last.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_heard() -> i32 {
    samples(Client::heard)
}

fn samples(which: impl FnOnce(&Client) -> &[i16]) -> i32 {
    client(-1, |client| {
        let bytes: Zeroizing<Vec<u8>> =
            Zeroizing::new(which(client).iter().flat_map(|sample| sample.to_le_bytes()).collect());
        with(|state| state.put(&bytes))
    })
}

/// The largest sample of the last frames, before gate and gain.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_peak() -> i32 {
    client(0, |client| i32::from(client.peak()))
}

/// The number of frames that have arrived and are not played yet.
#[unsafe(no_mangle)]
pub extern "C" fn tobari_depth() -> i32 {
    client(0, |client| client.depth() as i32)
}
