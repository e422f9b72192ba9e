//! The limits of calls: what a server accepts of all clients and of each one.

use std::time::Duration;

use tobari_call::live::LiveLimits;
use tobari_call::server::Limits;

/// What calls put up with, beside what the house does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Rooms at once, of each kind.
    pub rooms: usize,
    /// Rooms at once that one client has opened.
    pub client_rooms: usize,
    /// What each room puts up with.
    pub room: Limits,
    /// What each live room puts up with.
    pub live: LiveLimits,
    /// Time from the start of a WebSocket to its join.
    pub join: Duration,
    /// Time without anything from a member, not even the answer to a ping, of which there are three
    /// in this time. More than three minutes would make clients give up on a quiet server.
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

/// What rooms go by: limits of calls, and those of the house that hold for members too.
#[derive(Clone, Copy, Default)]
pub(crate) struct RoomLimits {
    pub(crate) call: CallLimits,
    pub(crate) house: tobari_node::ServerLimits,
}
