//! Counters of live rooms, without any name, address or number of a room or member.

use std::{
    fmt::Write,
    sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
};

/// All rooms of the server together.
#[derive(Default)]
pub(super) struct Metrics {
    pub(super) rooms: AtomicI64,
    pub(super) members: AtomicI64,
    pub(super) joins: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) removed: AtomicU64,
    pub(super) ticks: AtomicU64,
    pub(super) packets: AtomicU64,
    pub(super) late: AtomicU64,
    pub(super) received_bytes: AtomicU64,
    pub(super) sent_bytes: AtomicU64,
    pub(super) missed: AtomicU64,
    /// Ticks that closed at least one tick late.
    pub(super) late_ticks: AtomicU64,
    /// Total delay of all ticks in milliseconds.
    pub(super) tick_delay_ms: AtomicU64,
    #[cfg(feature = "cascade")]
    pub(super) bus: BusMetrics,
}

/// Messages between servers.
#[cfg(feature = "cascade")]
#[derive(Default)]
pub(super) struct BusMetrics {
    pub(super) sent: AtomicU64,
    pub(super) sent_bytes: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) malformed: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) parts: AtomicU64,
    pub(super) refused_parts: AtomicU64,
    pub(super) edges_lost: AtomicU64,
    pub(super) leaders_lost: AtomicU64,
}

#[cfg(feature = "cascade")]
impl BusMetrics {
    fn write(&self, text: &mut String) {
        for (name, value, help) in [
            ("bus_sent_total", &self.sent, "messages to other servers"),
            ("bus_sent_bytes_total", &self.sent_bytes, "bytes of them"),
            ("bus_received_total", &self.received, "messages from other servers"),
            ("bus_malformed_total", &self.malformed, "messages on the bus that no server sends"),
            ("bus_dropped_total", &self.dropped, "messages that were not sent, for want of a place or of the bus"),
            ("bus_parts_total", &self.parts, "sums of edges that were added"),
            ("bus_refused_parts_total", &self.refused_parts, "sums of edges that were not: late, or there already"),
            ("bus_edges_lost_total", &self.edges_lost, "edges that were heard no more"),
            ("bus_leaders_lost_total", &self.leaders_lost, "leaders that were heard no more, or given way to"),
        ] {
            line(text, name, "counter", help, value.load(Relaxed));
        }
    }
}

impl Metrics {
    /// In the format that Prometheus reads.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let gauges = [("rooms", &self.rooms, "live rooms"), ("members", &self.members, "members of live rooms")];
        for (name, value, help) in gauges {
            line(&mut text, name, "gauge", help, value.load(Relaxed));
        }
        for (name, value, help) in [
            ("joins_total", &self.joins, "members let in"),
            ("refusals_total", &self.refused, "joins refused"),
            ("removals_total", &self.removed, "members put out"),
            ("ticks_total", &self.ticks, "ticks closed"),
            ("late_ticks_total", &self.late_ticks, "ticks closed by a whole tick late"),
            ("packets_total", &self.packets, "packets added"),
            ("late_total", &self.late, "members listed as late, by tick"),
            ("received_bytes_total", &self.received_bytes, "bytes of packets"),
            ("sent_bytes_total", &self.sent_bytes, "bytes of sums"),
            ("missed_total", &self.missed, "sums that a member did not take in time"),
            ("tick_delay_milliseconds_total", &self.tick_delay_ms, "time by which ticks closed late"),
        ] {
            line(&mut text, name, "counter", help, value.load(Relaxed));
        }
        #[cfg(feature = "cascade")]
        self.bus.write(&mut text);
        text
    }
}

fn line(text: &mut String, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
    // writing to a string does not fail
    let _ = write!(
        text,
        "# HELP tobari_call_{name} {help}\n# TYPE tobari_call_{name} {kind}\ntobari_call_{name} {value}\n"
    );
}
