//! How much of the server one client may take.
//!
//! A client is an address, or in version 6 the first 64 bits of one, which is what a single
//! subscriber is given; the operator may say how many bits. People behind one router are one
//! client. Behind a proxy (`--behind-proxy`) the address is the last one in `X-Forwarded-For`,
//! which the proxy must have written itself: everything before it is the client's own word.
//! **Connections and rooms of this machine's own addresses are not counted**: they may be a proxy's
//! of which the server was not told. Everything else is counted by [`Origin`], for which such an
//! address is one like any other.
//!
//! Addresses are held in memory while something of theirs is there, and written nowhere
//! ([`crate::places`] keeps a hash).

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
};

use axum::http::{HeaderMap, HeaderName};
use tokio::sync::OwnedSemaphorePermit;

use crate::{ServerLimits, share::Share};

const FORWARDED: HeaderName = HeaderName::from_static("x-forwarded-for");

/// What clients hold now, and what they may.
#[derive(Clone)]
pub(crate) struct Clients {
    shared: Arc<Shared>,
}

struct Shared {
    held: Mutex<All>,
    limits: ServerLimits,
    share: Share,
}

/// What all clients hold together, and each of them.
#[derive(Default)]
struct All {
    sum: Held,
    each: HashMap<IpAddr, Held>,
}

#[derive(Clone, Copy, Default)]
struct Held {
    connections: usize,
    rooms: usize,
}

/// One place among the connections: held by the connection, and by the session that it may turn into.
#[derive(Clone)]
pub(crate) struct Place {
    _permit: Arc<OwnedSemaphorePermit>,
    /// Whose it is.
    pub(crate) guest: Arc<Guest>,
}

impl Place {
    pub(crate) fn new(permit: OwnedSemaphorePermit, guest: Guest) -> Self {
        Self { _permit: Arc::new(permit), guest: Arc::new(guest) }
    }
}

/// Whom something is held for: a place, bytes, or a turn.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// Whoever has the token of this name, from wherever.
    Token(Arc<str>),
    /// A client without a token.
    Address(IpAddr),
    /// All requests together that a proxy says nothing of.
    Unknown,
}

impl Origin {
    /// The holder of a token, or else this one.
    pub(crate) fn or_token(&self, name: Option<&Arc<str>>) -> Self {
        name.map_or_else(|| self.clone(), |name| Self::Token(Arc::clone(name)))
    }

    /// Its bytes, one string for each.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Token(name) => [b"token ", name.as_bytes()].concat(),
            Self::Address(address) => format!("address {address}").into_bytes(),
            Self::Unknown => b"unknown".to_vec(),
        }
    }
}

/// A client's connection; ends when it is dropped. Without an address it is not counted.
pub(crate) struct Guest {
    /// Whose it is, for all that is counted by this.
    pub(crate) origin: Origin,
    address: Option<IpAddr>,
    clients: Clients,
}

/// A room that a client opened; ends when it is dropped.
pub(crate) struct Opened {
    address: Option<IpAddr>,
    clients: Clients,
}

impl Clients {
    /// Within these limits.
    pub(crate) fn new(limits: &ServerLimits) -> Self {
        let (held, share) = (Mutex::default(), Share::new(limits.client_share));
        Self { shared: Arc::new(Shared { held, limits: *limits, share }) }
    }

    /// A connection from there; none if that client has as many as it may.
    pub(crate) fn enter(&self, address: Option<IpAddr>) -> Option<Guest> {
        let address = address.map(|address| self.client(address));
        let origin = address.map_or(Origin::Unknown, Origin::Address);
        let address = address.filter(|address| !address.is_loopback());
        let (limits, share) = (&self.shared.limits, self.shared.share);
        self.change(address, |held, sum| {
            let free = limits.connections.saturating_sub(sum.connections);
            let fits =
                held.connections < limits.client_connections && share.admits(held.connections as u64, free as u64);
            held.connections += usize::from(fits);
            sum.connections += usize::from(fits);
            fits
        })
        .then(|| Guest { origin, address, clients: self.clone() })
    }

    /// Takes something for a client, or gives it back: what is told of whether it could.
    fn change(&self, address: Option<IpAddr>, take: impl FnOnce(&mut Held, &mut Held) -> bool) -> bool {
        let Some(address) = address else { return true };
        let mut all = self.shared.held.lock().unwrap_or_else(PoisonError::into_inner);
        let All { sum, each } = &mut *all;
        let held = each.entry(address).or_default();
        let fits = take(held, sum);
        if held.connections == 0 && held.rooms == 0 {
            each.remove(&address);
        }
        fits
    }

    /// Whom an address stands for.
    fn client(&self, address: IpAddr) -> IpAddr {
        let (four, six) = self.shared.limits.client_prefix;
        match address.to_canonical() {
            IpAddr::V4(address) if !address.is_loopback() => {
                let hidden = u32::MAX.checked_shr(four.into()).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & !hidden).into()
            }
            IpAddr::V6(address) if !address.is_loopback() => {
                let hidden = u128::MAX.checked_shr(six.into()).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & !hidden).into()
            }
            own => own,
        }
    }
}

impl Guest {
    /// A room that this client opens; none if it has opened as many as it may.
    pub(crate) fn open(&self) -> Option<Opened> {
        let (limits, share) = (&self.clients.shared.limits, self.clients.shared.share);
        self.clients
            .change(self.address, |held, sum| {
                // there are as many of each of the two kinds
                let free = (2 * limits.rooms).saturating_sub(sum.rooms);
                let fits = held.rooms < limits.client_rooms && share.admits(held.rooms as u64, free as u64);
                held.rooms += usize::from(fits);
                sum.rooms += usize::from(fits);
                fits
            })
            .then(|| Opened { address: self.address, clients: self.clients.clone() })
    }

    /// How many rooms a client may have opened.
    pub(crate) fn most_rooms(&self) -> usize {
        self.clients.shared.limits.client_rooms
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.clients.change(self.address, |held, sum| {
            held.connections = held.connections.saturating_sub(1);
            sum.connections = sum.connections.saturating_sub(1);
            true
        });
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.clients.change(self.address, |held, sum| {
            held.rooms = held.rooms.saturating_sub(1);
            sum.rooms = sum.rooms.saturating_sub(1);
            true
        });
    }
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

    fn clients(client_connections: usize, client_rooms: usize) -> Clients {
        Clients::new(&ServerLimits { client_connections, client_rooms, ..ServerLimits::default() })
    }

    #[test]
    fn a_client_has_so_many_connections_and_rooms_and_another_is_not_asked() {
        let clients = clients(2, 1);
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
        let all = clients.shared.held.lock().unwrap();
        assert!(all.each.is_empty() && all.sum.connections == 0 && all.sum.rooms == 0, "no address is kept");
    }

    #[test]
    fn fault_27_a_few_clients_do_not_take_all_connections() {
        let clients = Clients::new(&ServerLimits { connections: 64, ..ServerLimits::default() });
        let mut held = Vec::new();
        for number in 1..=6 {
            let address = Some(IpAddr::from([192, 0, 2, number]));
            held.extend(std::iter::from_fn(|| clients.enter(address)));
        }
        assert!(held.len() < 64, "{}", held.len());
        assert!(clients.enter(from("198.51.100.1")).is_some(), "and another comes in");
    }

    #[test]
    fn an_operator_says_how_many_bits_of_an_address_are_a_client() {
        let limits = ServerLimits { client_connections: 1, client_prefix: (24, 48), ..ServerLimits::default() };
        let clients = Clients::new(&limits);
        let _held = ["192.0.2.1", "2001:db8:1:2::1"].map(|at| clients.enter(from(at)).unwrap());
        assert!(["192.0.2.9", "2001:db8:1:9::1"].iter().all(|at| clients.enter(from(at)).is_none()));
        assert!(["192.0.3.1", "2001:db8:2::1"].iter().all(|at| clients.enter(from(at)).is_some()));
        let other = |text: &str| clients.enter(from(text)).unwrap().origin.clone();
        assert!(other("127.0.0.2") != other("127.0.0.3"), "each of this machine's own is one");
    }

    #[test]
    fn a_network_of_version_6_is_one_client_and_loopback_is_none() {
        let clients = clients(1, 1);
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
