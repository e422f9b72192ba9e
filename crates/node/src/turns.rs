//! Turns for work that takes time: a limited number at once, and not all for one client.
//!
//! A request has its whole body before it asks for a turn, so a slow sender holds none. Among the
//! waiting clients, the one whose last turn is longest ago goes first; the requests of one client
//! stay in order. [`Share`] limits the turns that one client holds at once.

use crate::{body::WAITING, clients::Origin, reply::Reply, share::Share};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{sync::oneshot, time::timeout};

/// The turns of one kind of work.
#[derive(Clone)]
pub struct Turns {
    shared: Arc<Shared>,
}

struct Shared {
    total: u64,
    share: Share,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    used: u64,
    /// Turns given out so far.
    given: u64,
    clients: HashMap<Origin, Known>,
    line: Vec<(Origin, oneshot::Sender<Turn>)>,
}

/// A client that holds a turn or waits for one.
#[derive(Default)]
struct Known {
    held: u64,
    /// The time of its last turn, counted in turns.
    last: u64,
}

/// A turn; it ends on drop.
pub struct Turn {
    turns: Turns,
    origin: Origin,
}

impl Turns {
    /// `total` turns at once.
    pub fn new(total: usize, share: Share) -> Self {
        Self { shared: Arc::new(Shared { total: total as u64, share, state: Mutex::default() }) }
    }

    /// Waits for a turn, at most [`WAITING`]; after that the client must try again later.
    ///
    /// # Errors
    /// `busy` (503).
    pub async fn take(&self, origin: &Origin) -> Result<Turn, Reply> {
        let turn = timeout(WAITING, self.wait(origin)).await.ok().flatten();
        self.forget();
        turn.ok_or_else(Reply::busy)
    }

    /// Waits for a turn, however long it takes.
    pub async fn wait(&self, origin: &Origin) -> Option<Turn> {
        let (sender, turn) = oneshot::channel();
        self.state().line.push((origin.clone(), sender));
        self.call();
        turn.await.ok()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives out the free turns.
    fn call(&self) {
        loop {
            let mut state = self.state();
            let Some(at) = self.next(&mut state) else { return };
            let (origin, sender) = state.line.remove(at);
            (state.used, state.given) = (state.used + 1, state.given + 1);
            let given = state.given;
            let known = state.clients.entry(origin.clone()).or_default();
            (known.held, known.last) = (known.held + 1, given);
            drop(state);
            // if the client has just left, the drop returns the turn
            drop(sender.send(Turn { turns: self.clone(), origin }));
        }
    }

    /// The place in the line that is next.
    fn next(&self, state: &mut State) -> Option<usize> {
        state.line.retain(|(_, sender)| !sender.is_closed());
        let free = self.shared.total.saturating_sub(state.used);
        if free == 0 {
            return None;
        }
        let known = |origin: &Origin| state.clients.get(origin).map_or((0, 0), |known| (known.held, known.last));
        let line = state.line.iter().map(|(origin, _)| known(origin)).enumerate();
        let may = line.filter(|(_, (held, _))| self.shared.share.admits(*held, free));
        may.min_by_key(|(_, (_, last))| *last).map(|(at, _)| at)
    }

    /// Forgets clients that neither hold a turn nor wait.
    fn forget(&self) {
        let mut state = self.state();
        let State { clients, line, .. } = &mut *state;
        clients.retain(|origin, known| {
            known.held > 0 || line.iter().any(|(waiting, sender)| waiting == origin && !sender.is_closed())
        });
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        {
            let mut state = self.turns.state();
            state.used = state.used.saturating_sub(1);
            if let Some(known) = state.clients.get_mut(&self.origin) {
                known.held = known.held.saturating_sub(1);
            }
        }
        self.turns.call();
        self.turns.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, future::join_all};
    use std::time::Duration;
    use tokio::time::{Instant, sleep};

    fn origin(name: &str) -> Origin {
        Origin::Token(name.into())
    }

    #[tokio::test(start_paused = true)]
    async fn one_client_takes_half_the_turns_and_another_is_not_behind_its_line() {
        let turns = Turns::new(4, Share::new(50));
        let held: Vec<_> = (0..4).filter_map(|_| turns.wait(&origin("greedy")).now_or_never()).collect();
        assert_eq!(held.len(), 2);
        let greedy = origin("greedy");
        let line = join_all((0..8).map(|_| turns.take(&greedy)));
        let other = async {
            sleep(Duration::from_millis(1)).await;
            let began = Instant::now();
            let turn = turns.take(&origin("other")).await;
            (turn.is_ok(), began.elapsed())
        };
        let (line, other) = tokio::join!(line, other);
        assert_eq!(other, (true, Duration::ZERO));
        assert!(line.iter().all(|one| one.as_ref().is_err_and(|reply| reply.word == "busy")), "two are held all along");
        drop(held);
        assert!(turns.take(&origin("greedy")).await.is_ok());
        let state = turns.state();
        assert!(state.used == 0 && state.clients.is_empty() && state.line.is_empty(), "nobody is kept");
    }

    /// One turn at a time: a client with eight requests and a client with one request alternate.
    #[tokio::test(start_paused = true)]
    async fn clients_take_turns_and_one_clients_requests_keep_their_order() {
        let turns = Turns::new(1, Share::new(50));
        let began = Instant::now();
        let visit = |name: &'static str, number: u32| {
            let turns = &turns;
            async move {
                sleep(Duration::from_millis(1) * number).await;
                let turn = turns.take(&origin(name)).await;
                let waited = began.elapsed();
                sleep(WAITING / 4).await;
                (turn.is_ok(), waited)
            }
        };
        let (many, one) = tokio::join!(join_all((0..8).map(|number| visit("many", number))), visit("one", 20));
        assert_eq!(one, (true, WAITING / 4), "the next turn after that which was held");
        for (number, (found, waited)) in (0..).zip(many) {
            assert_eq!(found, number <= 3, "{number}");
            let before = if number == 0 { 0 } else { number + 1 };
            assert!(!found || waited == WAITING / 4 * before, "{number} {waited:?}");
        }
    }
}
