//! The number of rooms that one client has opened, and its limit.
//!
//! Rooms are counted by the address of the client that opened them, for both kinds together. Only
//! addresses whose connections the node counts are counted. A room counts until it ends, even after
//! its opener has left. An address is kept only in memory, while one of its rooms exists.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};
use tobari_node::{clients::Guest, share::Share};

use crate::limits::RoomLimits;

/// Rooms are counted in one place for each of the two kinds.
const KINDS: usize = 2;

/// The rooms that clients have opened, and the limit.
#[derive(Clone)]
pub(crate) struct Openers {
    shared: Arc<Shared>,
}

struct Shared {
    held: Mutex<Held>,
    /// Rooms that one client may have opened.
    most: usize,
    /// The limit for all clients together.
    all: usize,
    share: Share,
}

#[derive(Default)]
struct Held {
    sum: usize,
    each: HashMap<IpAddr, usize>,
}

/// A room that a client opened; dropping it ends the count.
pub(crate) struct Opened {
    address: Option<IpAddr>,
    openers: Openers,
}

impl Openers {
    /// Within these limits.
    pub(crate) fn new(limits: &RoomLimits) -> Self {
        let (held, share) = (Mutex::default(), Share::new(limits.house.client_share));
        let (most, all) = (limits.call.client_rooms, KINDS * limits.call.rooms);
        Self { shared: Arc::new(Shared { held, most, all, share }) }
    }

    /// Counts a room for this client; none if the client is at its limit.
    pub(crate) fn open(&self, guest: &Guest) -> Option<Opened> {
        self.open_from(guest.address())
    }

    fn open_from(&self, address: Option<IpAddr>) -> Option<Opened> {
        let opened = || Opened { address, openers: self.clone() };
        let Some(address) = address else { return Some(opened()) };
        let Shared { held, most, all, share } = &*self.shared;
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        let own = held.each.get(&address).copied().unwrap_or(0);
        let free = all.saturating_sub(held.sum);
        if own >= *most || !share.admits(own as u64, free as u64) {
            return None;
        }
        held.each.insert(address, own + 1);
        held.sum += 1;
        Some(opened())
    }

    /// The limit for one client.
    pub(crate) fn most(&self) -> usize {
        self.shared.most
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut held = self.openers.shared.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.sum = held.sum.saturating_sub(1);
        let left = held.each.get(&address).map_or(0, |own| own.saturating_sub(1));
        if left == 0 {
            held.each.remove(&address);
        } else {
            held.each.insert(address, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::CallLimits;

    fn openers(call: CallLimits) -> Openers {
        Openers::new(&RoomLimits { call, ..RoomLimits::default() })
    }

    fn from(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn a_client_opens_so_many_rooms_and_another_is_not_asked() {
        let openers = openers(CallLimits { client_rooms: 1, ..CallLimits::default() });
        let room = openers.open_from(from(1));
        assert!(room.is_some() && openers.open_from(from(1)).is_none() && openers.most() == 1);
        assert!(openers.open_from(from(2)).is_some());
        let own: Vec<_> = (0..9).map(|_| openers.open_from(None)).collect();
        assert!(own.iter().all(Option::is_some), "this machine's own are not counted");
        drop((room, own));
        assert!(openers.open_from(from(1)).is_some());
        let held = openers.shared.held.lock().unwrap();
        assert!(held.each.is_empty() && held.sum == 0, "no address is kept");
    }

    #[test]
    fn a_few_clients_do_not_open_all_rooms() {
        let openers = openers(CallLimits { rooms: 8, ..CallLimits::default() });
        let mut rooms = Vec::new();
        for client in 1..=4 {
            rooms.extend(std::iter::from_fn(|| openers.open_from(from(client))));
        }
        assert!(rooms.len() < 16 && openers.open_from(from(9)).is_some(), "{}", rooms.len());
    }
}
