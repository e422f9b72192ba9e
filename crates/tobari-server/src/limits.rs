//! The limits of a server: what it accepts of all clients and of each one.

use std::time::Duration;

use tobari_apps::call::{live::LiveLimits, server::Limits};

/// What the server puts up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections at once; those beyond are closed unheard.
    pub connections: usize,
    /// Connections at once from one client: an address, or the first 64 bits of one of version 6. This machine's own are not counted.
    pub client_connections: usize,
    /// Bits of an address that are one client, of version 4 and of version 6.
    pub client_prefix: (u8, u8),
    /// Percent of anything that one client alone may hold: places, turns, bytes. The more clients
    /// hold something, the less each may; 100 is no limit.
    pub client_share: u8,
    /// Bytes of memory for bodies that are being read or worked at, and for answers that were not
    /// taken yet.
    pub body_bytes: u64,
    /// Rooms at once, of each kind.
    pub rooms: usize,
    /// Rooms at once that one client has opened.
    pub client_rooms: usize,
    /// What each room puts up with.
    pub room: Limits,
    /// What each live room puts up with.
    pub live: LiveLimits,
    /// Time for a TLS handshake, and for the head of a request.
    pub handshake: Duration,
    /// Time from the start of a WebSocket to its join.
    pub join: Duration,
    /// Time to take one message from the server, or the next bytes of an answer.
    pub write: Duration,
    /// Time without anything from a member, not even the answer to a ping, of which there are three in this time.
    /// More than three minutes would make clients give up on a quiet server.
    pub silence: Duration,
    /// Time for members to leave when the server closes, and for a removed member to read why.
    pub grace: Duration,
    /// Time for which live rooms go on when the server closes, with everybody told; nobody is let in meanwhile.
    pub drain: Duration,
}

impl ServerLimits {
    /// Those of calls.
    pub(crate) fn of_calls(&self) -> CallLimits {
        CallLimits {
            rooms: self.rooms,
            client_rooms: self.client_rooms,
            room: self.room,
            live: self.live,
            join: self.join,
            silence: self.silence,
        }
    }

    /// Those of the house.
    pub(crate) fn of_house(&self) -> tobari_node::ServerLimits {
        tobari_node::ServerLimits {
            connections: self.connections,
            client_connections: self.client_connections,
            client_prefix: self.client_prefix,
            client_share: self.client_share,
            body_bytes: self.body_bytes,
            handshake: self.handshake,
            write: self.write,
            grace: self.grace,
            drain: self.drain,
        }
    }
}

impl Default for ServerLimits {
    fn default() -> Self {
        let (house, calls) = (tobari_node::ServerLimits::default(), CallLimits::default());
        Self {
            connections: house.connections,
            client_connections: house.client_connections,
            client_prefix: house.client_prefix,
            client_share: house.client_share,
            body_bytes: house.body_bytes,
            rooms: calls.rooms,
            client_rooms: calls.client_rooms,
            room: calls.room,
            live: calls.live,
            handshake: house.handshake,
            join: calls.join,
            write: house.write,
            silence: calls.silence,
            grace: house.grace,
            drain: house.drain,
        }
    }
}

/// What calls put up with, beside what the house does. The fields are those of [`ServerLimits`].
#[derive(Clone, Copy)]
pub(crate) struct CallLimits {
    pub(crate) rooms: usize,
    pub(crate) client_rooms: usize,
    pub(crate) room: Limits,
    pub(crate) live: LiveLimits,
    pub(crate) join: Duration,
    pub(crate) silence: Duration,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            rooms: 64,
            client_rooms: 16,
            room: Limits::default(),
            live: LiveLimits::default(),
            join: Duration::from_secs(10),
            silence: Duration::from_secs(60),
        }
    }
}

/// What rooms go by: limits of calls, and those of the house that hold for members too.
#[derive(Clone, Copy, Default)]
pub(crate) struct RoomLimits {
    pub(crate) call: CallLimits,
    pub(crate) house: tobari_node::ServerLimits,
}
