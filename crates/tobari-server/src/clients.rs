//! How much of the server one client may take.
//!
//! A client is an address, or in version 6 the first 64 bits of one, which is what a single subscriber is given. People behind one router are
//! one client. **Loopback is nobody's address**: whoever comes from there is on this machine, or came through a proxy on it; behind a proxy
//! (`--behind-proxy`) the address is the last one in `X-Forwarded-For`, which the proxy must have written itself: everything before it is
//! the client's own word.
//!
//! Addresses are held while connections last, and go nowhere else.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
};

use axum::http::{HeaderMap, HeaderName};

const FORWARDED: HeaderName = HeaderName::from_static("x-forwarded-for");

/// What clients hold now, and what they may.
#[derive(Clone)]
pub(crate) struct Clients {
    shared: Arc<Shared>,
}

struct Shared {
    held: Mutex<HashMap<IpAddr, Held>>,
    connections: usize,
    rooms: usize,
}

#[derive(Default)]
struct Held {
    connections: usize,
    rooms: usize,
}

/// A client's connection; ends when it is dropped. Without an address it is not counted.
pub(crate) struct Guest {
    address: Option<IpAddr>,
    clients: Clients,
}

/// A room that a client opened; ends when it is dropped.
pub(crate) struct Opened {
    address: Option<IpAddr>,
    clients: Clients,
}

impl Clients {
    /// So many connections and rooms each.
    pub(crate) fn new(connections: usize, rooms: usize) -> Self {
        Self { shared: Arc::new(Shared { held: Mutex::default(), connections, rooms }) }
    }

    /// A connection from there; none if that client has as many as it may.
    pub(crate) fn enter(&self, address: Option<IpAddr>) -> Option<Guest> {
        let address = address.and_then(client);
        let most = self.shared.connections;
        self.change(address, |held| {
            held.connections += 1;
            held.connections <= most
        })
        .then(|| Guest { address, clients: self.clone() })
    }

    /// Takes something for a client, unless that makes it too much.
    fn change(&self, address: Option<IpAddr>, take: impl FnOnce(&mut Held) -> bool) -> bool {
        let Some(address) = address else { return true };
        let mut all = self.shared.held.lock().unwrap_or_else(PoisonError::into_inner);
        let held = all.entry(address).or_default();
        let before = Held { ..*held };
        let fits = take(held);
        if !fits {
            *held = before;
        }
        if held.connections == 0 && held.rooms == 0 {
            all.remove(&address);
        }
        fits
    }
}

impl Guest {
    /// A room that this client opens; none if it has opened as many as it may.
    pub(crate) fn open(&self) -> Option<Opened> {
        let most = self.clients.shared.rooms;
        self.clients
            .change(self.address, |held| {
                held.rooms += 1;
                held.rooms <= most
            })
            .then(|| Opened { address: self.address, clients: self.clients.clone() })
    }

    /// How many rooms a client may have opened.
    pub(crate) fn most_rooms(&self) -> usize {
        self.clients.shared.rooms
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.clients.change(self.address, |held| {
            held.connections = held.connections.saturating_sub(1);
            true
        });
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.clients.change(self.address, |held| {
            held.rooms = held.rooms.saturating_sub(1);
            true
        });
    }
}

/// Whom an address stands for; none for this machine.
fn client(address: IpAddr) -> Option<IpAddr> {
    let address = address.to_canonical();
    if address.is_loopback() {
        return None;
    }
    Some(match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(six) => Ipv6Addr::from_bits(six.to_bits() & !u128::from(u64::MAX)).into(),
    })
}

/// The address that the proxy in front of us says it was asked from.
pub(crate) fn forwarded(headers: &HeaderMap) -> Option<IpAddr> {
    let last = headers.get_all(FORWARDED).iter().next_back()?.to_str().ok()?;
    last.rsplit(',').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn from(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn a_client_has_so_many_connections_and_rooms_and_another_is_not_asked() {
        let clients = Clients::new(2, 1);
        let one = [clients.enter(from("192.0.2.1")), clients.enter(from("::ffff:192.0.2.1"))];
        assert!(one.iter().all(Option::is_some) && clients.enter(from("192.0.2.1")).is_none());
        assert!(clients.enter(from("192.0.2.2")).is_some());
        let guest = one[0].as_ref().unwrap();
        let room = guest.open();
        assert!(room.is_some() && guest.open().is_none() && guest.most_rooms() == 1);
        drop(one);
        assert!(clients.enter(from("192.0.2.1")).unwrap().open().is_none(), "the room goes on without who opened it");
        drop(room);
        assert!(clients.enter(from("192.0.2.1")).unwrap().open().is_some());
        assert!(clients.shared.held.lock().unwrap().is_empty(), "no address is kept");
    }

    #[test]
    fn a_network_of_version_6_is_one_client_and_loopback_is_none() {
        let clients = Clients::new(1, 1);
        let _one = clients.enter(from("2001:db8:1:2::1")).unwrap();
        assert!(clients.enter(from("2001:db8:1:2:ffff::9")).is_none());
        assert!(clients.enter(from("2001:db8:1:3::1")).is_some());
        let local: Vec<_> = ["127.0.0.1", "::1", "127.0.0.2"].map(|at| clients.enter(from(at))).into();
        assert!(local.iter().all(Option::is_some) && clients.enter(None).is_some());
    }

    #[test]
    fn of_what_was_forwarded_the_last_counts_which_the_proxy_wrote() {
        let mut headers = HeaderMap::new();
        assert_eq!(forwarded(&headers), None);
        headers.append(FORWARDED, HeaderValue::from_static("203.0.113.9, 198.51.100.7"));
        assert_eq!(forwarded(&headers), from("198.51.100.7"));
        headers.append(FORWARDED, HeaderValue::from_static("2001:db8::5"));
        assert_eq!(forwarded(&headers), from("2001:db8::5"));
        headers.append(FORWARDED, HeaderValue::from_static("unknown"));
        assert_eq!(forwarded(&headers), None);
    }

    /// Every value of up to five of these characters: what a proxy passes on is the last address of it or nothing.
    #[test]
    fn whatever_is_forwarded_is_an_address_or_none() {
        let mut found = 0;
        for text in crate::testing::texts(b"1.:,a \xff", 5) {
            let headers = HeaderMap::from_iter([(FORWARDED, HeaderValue::from_bytes(&text).unwrap())]);
            let last = text.rsplit(|byte| *byte == b',').next().and_then(|last| std::str::from_utf8(last).ok());
            let address = last.and_then(|last| last.trim().parse().ok()).filter(|_| text.is_ascii());
            assert_eq!(forwarded(&headers), address, "{text:?}");
            found += u32::from(address.is_some());
        }
        assert!(found > 10, "{found}");
    }
}
