//! The limits of calls, for all clients together and for each one.

use std::time::Duration;

use tobari_call::live::LiveLimits;
use tobari_call::server::Limits;

/// The limits of calls, besides those of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Rooms at once, of each kind.
    pub rooms: usize,
    /// Rooms at once that one client may have opened.
    pub client_rooms: usize,
    /// The limits of each room.
    pub room: Limits,
    /// The limits of each live room.
    pub live: LiveLimits,
    /// Time from the start of a WebSocket to its join.
    pub join: Duration,
    /// Time without any message from a member, answers to pings included; the server pings three
    /// times in this time. Above three minutes, clients would give up on a quiet server.
    pub silence: Duration,
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

/// Limits of rooms: those of calls, and those of the node that also hold for members.
#[derive(Clone, Copy, Default)]
pub(crate) struct RoomLimits {
    pub(crate) call: CallLimits,
    pub(crate) house: tobari_node::ServerLimits,
}
