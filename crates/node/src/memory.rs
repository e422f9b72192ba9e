//! Memory for requests without an answer yet, and for answers that clients have not read yet.
//!
//! A body claims bytes as they arrive, and not by its announced length: a client that announces
//! much and sends little holds little. An answer counts for its client until the client has read
//! it. [`Share`] limits the claims of one client.

use crate::{ServerLimits, clients::Origin, share::Share};
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use std::{
    collections::HashMap,
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};
use tokio::sync::Notify;

/// Bytes of an answer that go to the connection at once; they are no longer counted.
const PIECE: usize = 64 << 10;

/// The memory of a server.
#[derive(Clone)]
pub struct Memory {
    shared: Arc<Shared>,
}

struct Shared {
    total: u64,
    share: Share,
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Default)]
struct State {
    used: u64,
    held: HashMap<Origin, u64>,
}

/// The memory of one request; drop returns it.
pub struct Claim {
    memory: Memory,
    origin: Origin,
    bytes: u64,
}

impl Memory {
    /// A memory of `total` bytes.
    pub fn new(total: u64, share: Share) -> Self {
        let shared = Shared { total, share, state: Mutex::default(), freed: Notify::new() };
        Self { shared: Arc::new(shared) }
    }

    /// An empty claim.
    pub fn claim(&self, origin: &Origin) -> Claim {
        Claim { memory: self.clone(), origin: origin.clone(), bytes: 0 }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shared by all jobs of a server: the rule, and the memory for bodies and answers.
#[derive(Clone)]
pub struct Bounds {
    /// The limit of one client for scarce resources.
    pub share: Share,
    /// The memory for bodies and answers.
    pub memory: Memory,
}

impl Bounds {
    pub(crate) fn new(limits: &ServerLimits) -> Self {
        let share = Share::new(limits.client_share);
        Self { share, memory: Memory::new(limits.body_bytes, share) }
    }
}

impl Claim {
    /// Claims `more` bytes if there is room; returns whether there was.
    fn take(&mut self, more: u64) -> bool {
        let Shared { total, share, .. } = &*self.memory.shared;
        let mut state = self.memory.state();
        let free = total.saturating_sub(state.used);
        let held = state.held.get(&self.origin).copied().unwrap_or(0);
        let fits = more <= free && share.admits(held, free);
        if fits {
            self.add(&mut state, more);
            drop(state);
            self.bytes += more;
        }
        fits
    }

    fn add(&self, state: &mut State, more: u64) {
        state.used = state.used.saturating_add(more);
        *state.held.entry(self.origin.clone()).or_default() += more;
    }

    /// Claims `more` bytes as soon as there is room.
    pub async fn grow(&mut self, more: usize) {
        loop {
            let freed = Arc::clone(&self.memory.shared);
            let mut freed = std::pin::pin!(freed.freed.notified());
            // from now on no release of memory is missed
            freed.as_mut().enable();
            if self.take(more as u64) {
                return;
            }
            freed.await;
        }
    }

    /// The body of an answer. It already exists, so it is counted whether there is room or not:
    /// further requests of this client wait until the client has read it.
    pub fn answer(mut self, bytes: Vec<u8>) -> Body {
        let length = bytes.len() as u64;
        // the question is no longer needed
        self.give_back();
        self.add(&mut self.memory.state(), length);
        self.bytes = length;
        Body::new(Answer { rest: bytes.into(), _claim: self })
    }

    fn give_back(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut state = self.memory.state();
        state.used = state.used.saturating_sub(bytes);
        if let Some(held) = state.held.get_mut(&self.origin) {
            *held = held.saturating_sub(bytes);
            if *held == 0 {
                state.held.remove(&self.origin);
            }
        }
        drop(state);
        self.memory.shared.freed.notify_waiters();
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// An answer on its way.
struct Answer {
    rest: Bytes,
    _claim: Claim,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.rest.len().min(PIECE);
        Poll::Ready((length > 0).then(|| Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use futures_util::{FutureExt, StreamExt};

    fn origin(name: &str) -> Origin {
        Origin::Token(name.into())
    }

    #[tokio::test]
    async fn one_client_holds_a_half_and_what_was_given_back_is_there_again() {
        let memory = Memory::new(100, Share::new(50));
        let mut greedy: Vec<Claim> = (0..10).map(|_| memory.claim(&origin("greedy"))).collect();
        let taken = greedy.iter_mut().filter_map(|claim| claim.grow(10).now_or_never()).count();
        assert_eq!(taken, 5);
        let (mut other, mut third) = (memory.claim(&origin("other")), memory.claim(&origin("third")));
        assert!(other.grow(40).now_or_never().is_some());
        assert!(third.grow(20).now_or_never().is_none());
        drop(other);
        assert!(third.grow(20).now_or_never().is_some());
        drop((greedy, third));
        let state = memory.state();
        assert!(state.used == 0 && state.held.is_empty(), "nothing is left, and no client is kept");
    }

    #[tokio::test]
    async fn an_answer_is_held_until_it_is_read() {
        let memory = Memory::new(1 << 20, Share::new(50));
        let body = memory.claim(&origin("one")).answer(vec![7; 600_000]);
        assert_eq!(HttpBody::size_hint(&body).exact(), Some(600_000));
        assert!(memory.claim(&origin("one")).grow(1).now_or_never().is_none(), "more than a half is not read yet");
        assert!(memory.claim(&origin("two")).grow(1).now_or_never().is_some());
        let parts: Vec<_> = body.into_data_stream().collect().await;
        assert_eq!(parts.into_iter().map(|part| part.unwrap().len()).sum::<usize>(), 600_000);
        assert!(memory.claim(&origin("one")).grow(1).now_or_never().is_some());
    }
}
