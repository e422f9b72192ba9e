//! Limits on how much of the server one client may use.
//!
//! A client is an IPv4 address, or the first 64 bits of an IPv6 address, because a single
//! subscriber gets that many addresses. The operator can change both numbers of bits. People behind
//! one router are one client. Behind a proxy (`--behind-proxy`) the server takes the last address
//! in `X-Forwarded-For`, which the proxy must have written itself: the client can forge everything
//! before it. **Connections from this machine's own addresses are not counted**: they may come from
//! a proxy that the server does not know of. A job that counts by address leaves them out as well
//! ([`Guest::address`]). Everything else is counted by [`Origin`], which treats such an address
//! like any other.
//!
//! The server keeps an address in memory only while its client holds something, and never writes it
//! to the disk ([`crate::places`] writes a hash).

use std::{
    collections::{HashMap, hash_map::Entry},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::http::{HeaderMap, HeaderName};
use tokio::sync::OwnedSemaphorePermit;

use crate::{ServerLimits, share::Share};

const FORWARDED: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The connections that clients hold now, and their limits.
#[derive(Clone)]
pub(crate) struct Clients {
    shared: Arc<Shared>,
}

struct Shared {
    held: Mutex<Held>,
    limits: ServerLimits,
    share: Share,
}

/// Connections of all clients together, and of each of them.
#[derive(Default)]
struct Held {
    sum: usize,
    each: HashMap<IpAddr, usize>,
}

/// One place among the connections: held by the connection, and by the session that it may turn
/// into.
#[derive(Clone)]
pub struct Place {
    _permit: Arc<OwnedSemaphorePermit>,
    /// The client of the connection.
    pub guest: Arc<Guest>,
}

impl Place {
    pub(crate) fn new(permit: OwnedSemaphorePermit, guest: Guest) -> Self {
        Self { _permit: Arc::new(permit), guest: Arc::new(guest) }
    }
}

/// The holder of a place, of bytes, or of a turn.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Every client with the token of this name, from any address.
    Token(Arc<str>),
    /// A client without a token.
    Address(IpAddr),
    /// All requests together for which a proxy names no address.
    Unknown,
}

impl Origin {
    /// The holder of the token, or this origin where there is no token.
    pub fn or_token(&self, name: Option<&Arc<str>>) -> Self {
        name.map_or_else(|| self.clone(), |name| Self::Token(Arc::clone(name)))
    }

    /// The origin as bytes; different origins have different bytes.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Token(name) => [b"token ", name.as_bytes()].concat(),
            Self::Address(address) => format!("address {address}").into_bytes(),
            Self::Unknown => b"unknown".to_vec(),
        }
    }
}

/// A client's connection; it ends on drop. A connection without an address is not counted.
pub struct Guest {
    /// The client, for everything that is counted by [`Origin`].
    pub origin: Origin,
    address: Option<IpAddr>,
    clients: Clients,
}

impl Clients {
    /// Within these limits.
    pub(crate) fn new(limits: &ServerLimits) -> Self {
        let (held, share) = (Mutex::default(), Share::new(limits.client_share));
        Self { shared: Arc::new(Shared { held, limits: *limits, share }) }
    }

    /// A connection from this address; none if its client already has the maximum.
    pub(crate) fn enter(&self, address: Option<IpAddr>) -> Option<Guest> {
        let address = address.map(|address| self.client(address));
        let origin = address.map_or(Origin::Unknown, Origin::Address);
        let address = address.filter(|address| !address.is_loopback());
        let fits = address.is_none_or(|address| self.take(address));
        fits.then(|| Guest { origin, address, clients: self.clone() })
    }

    /// Counts a connection of a client, if it may have one more.
    fn take(&self, address: IpAddr) -> bool {
        let (limits, share) = (&self.shared.limits, self.shared.share);
        let mut held = self.held();
        let own = held.each.get(&address).copied().unwrap_or(0);
        let free = limits.connections.saturating_sub(held.sum);
        let fits = own < limits.client_connections && share.admits(own as u64, free as u64);
        if fits {
            held.each.insert(address, own + 1);
            held.sum += 1;
        }
        fits
    }

    /// Ends the count of a connection.
    fn give_back(&self, address: IpAddr) {
        let mut held = self.held();
        held.sum = held.sum.saturating_sub(1);
        if let Entry::Occupied(mut own) = held.each.entry(address) {
            *own.get_mut() -= 1;
            if *own.get() == 0 {
                own.remove();
            }
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.shared.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client to which an address belongs.
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
    /// The client's address, cut to the bits that identify a client, for jobs that count by
    /// address. None for this machine's own addresses, and where a proxy names no address.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(address) = self.address {
            self.clients.give_back(address);
        }
    }
}

/// The client's address according to the proxy in front of this server.
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

    fn clients(client_connections: usize) -> Clients {
        Clients::new(&ServerLimits { client_connections, ..ServerLimits::default() })
    }

    #[test]
    fn a_client_has_so_many_connections_and_another_is_not_asked() {
        let clients = clients(2);
        let one = [clients.enter(from("192.0.2.1")), clients.enter(from("::ffff:192.0.2.1"))];
        assert!(one.iter().all(Option::is_some) && clients.enter(from("192.0.2.1")).is_none());
        assert!(clients.enter(from("192.0.2.2")).is_some());
        assert_eq!(one.each_ref().map(|guest| guest.as_ref().unwrap().address()), [from("192.0.2.1"); 2]);
        drop(one);
        assert!(clients.enter(from("192.0.2.1")).is_some());
        let held = clients.held();
        assert!(held.each.is_empty() && held.sum == 0, "no address is kept");
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
        let clients = clients(1);
        let _one = clients.enter(from("2001:db8:1:2::1")).unwrap();
        assert!(clients.enter(from("2001:db8:1:2:ffff::9")).is_none());
        assert!(clients.enter(from("2001:db8:1:3::1")).is_some());
        let local: Vec<_> = ["127.0.0.1", "::1", "127.0.0.2"].map(|at| clients.enter(from(at))).into();
        assert!(local.iter().flatten().all(|guest| guest.address().is_none()) && local.iter().all(Option::is_some));
        assert!(clients.enter(None).is_some());
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

    /// Every value of up to five of these characters yields its last address or none.
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
