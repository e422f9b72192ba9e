//! The members of a live room at this server: their queues and counters.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use axum::{
    body::Bytes,
    extract::ws::{Message, Utf8Bytes},
};
use tobari_call::TICK_MS;
use tobari_call::live::LiveUplink;
use tobari_call::live::messages::{ServerMessage, Welcome};

use super::{
    intake::LiveIntake,
    metrics::Metrics,
    mixing::{Live, Seat},
};
use crate::kind::Links;

/// Length of a member's queue, and its share for sums. More than a second of sums is useless.
pub(super) const QUEUE: usize = 192;
pub(super) const SUMS: usize = 64;

/// The places of a room.
pub(super) struct Seats {
    links: Links<Live>,
    pub(super) metrics: Arc<Metrics>,
}

impl Drop for Seats {
    fn drop(&mut self) {
        self.metrics.rooms.fetch_sub(1, Relaxed);
        self.metrics.members.fetch_sub(self.links.len() as i64, Relaxed);
    }
}

impl Seats {
    /// The seats of a new room.
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        metrics.rooms.fetch_add(1, Relaxed);
        Self { links: Links::new(), metrics }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    pub(super) fn seat(&mut self, welcome: Welcome, uplink: LiveUplink) -> Seat {
        self.metrics.members.fetch_add(1, Relaxed);
        let intake = LiveIntake::new(uplink, Arc::clone(&self.metrics));
        self.links.seat(welcome, intake, QUEUE)
    }

    /// Whether there was such a member.
    pub(super) fn forget(&mut self, member: u16) -> bool {
        let was_there = self.links.forget(member);
        self.metrics.members.fetch_sub(was_there.into(), Relaxed);
        was_there
    }

    /// Counts a tick and its delay.
    pub(super) fn count(&self, packets: usize, late: usize, delay: Duration) {
        let metrics = &self.metrics;
        metrics.ticks.fetch_add(1, Relaxed);
        metrics.packets.fetch_add(packets as u64, Relaxed);
        metrics.late.fetch_add(late as u64, Relaxed);
        let delay_ms = delay.as_millis() as u64;
        metrics.tick_delay_ms.fetch_add(delay_ms, Relaxed);
        metrics.late_ticks.fetch_add(u64::from(delay_ms >= TICK_MS), Relaxed);
    }

    /// Queues a sum, or the notice that there is none, for members. A slow member misses this one.
    pub(super) fn offer(&self, members: &[u16], tick: u32, sum: Option<Vec<u8>>) {
        let bytes = sum.as_ref().map_or(0, |sum| sum.len() * members.len());
        self.metrics.sent_bytes.fetch_add(bytes as u64, Relaxed);
        let message = match sum {
            Some(sum) => Message::Binary(Bytes::from(sum)),
            None => text(&ServerMessage::Silent { tick }),
        };
        for member in members {
            if !self.links.send(*member, message.clone(), QUEUE - SUMS) {
                self.metrics.missed.fetch_add(1, Relaxed);
            }
        }
    }

    /// Queues a message that the member must not miss; false if there is no place.
    pub(super) fn send(&self, member: u16, message: Message) -> bool {
        self.links.send(member, message, 0)
    }

    /// Ends the connection of a removed member after the messages in its queue.
    pub(super) fn dismiss(&mut self, member: u16, last: ServerMessage) {
        if self.links.dismiss(member, last) {
            self.metrics.members.fetch_sub(1, Relaxed);
            self.metrics.removed.fetch_add(1, Relaxed);
        }
    }

    /// Ends all connections without a last message.
    #[cfg(feature = "cascade")]
    pub(super) fn hang_up(&mut self) {
        self.metrics.members.fetch_sub(self.links.len() as i64, Relaxed);
        self.links.hang_up();
    }
}

pub(super) fn text(message: &ServerMessage) -> Message {
    Message::Text(Utf8Bytes::from(message.to_text()))
}
