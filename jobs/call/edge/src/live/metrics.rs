//! Counters of live rooms, without any name, address or number of a room or member.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use tobari_node::metrics::Metrics as Exposed;

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
    fn add_to(&self, exposed: &mut Exposed) {
        for (name, value, help) in [
            ("bus_sent_total", &self.sent, "Messages to other servers."),
            ("bus_sent_bytes_total", &self.sent_bytes, "Bytes of them."),
            ("bus_received_total", &self.received, "Messages from other servers."),
            ("bus_malformed_total", &self.malformed, "Messages on the bus that no server sends."),
            ("bus_dropped_total", &self.dropped, "Messages that were not sent: no place, or no bus."),
            ("bus_parts_total", &self.parts, "Sums of edges that were added."),
            (
                "bus_refused_parts_total",
                &self.refused_parts,
                "Sums of edges that were not added: late, or there already.",
            ),
            ("bus_edges_lost_total", &self.edges_lost, "Edges that sent nothing any more."),
            ("bus_leaders_lost_total", &self.leaders_lost, "Leaders that sent nothing any more, or lost to another."),
        ] {
            exposed.counter(&format!("tobari_call_{name}"), help).set(value.load(Relaxed));
        }
    }
}

impl Metrics {
    /// Adds the counters.
    pub(super) fn add_to(&self, exposed: &mut Exposed) {
        let gauges = [("rooms", &self.rooms, "Live rooms."), ("members", &self.members, "Members of live rooms.")];
        for (name, value, help) in gauges {
            exposed.gauge(&format!("tobari_call_{name}"), help).set(value.load(Relaxed));
        }
        for (name, value, help) in [
            ("joins_total", &self.joins, "Members let in."),
            ("refusals_total", &self.refused, "Joins refused."),
            ("removals_total", &self.removed, "Members that the server removed."),
            ("ticks_total", &self.ticks, "Ticks closed."),
            ("late_ticks_total", &self.late_ticks, "Ticks closed by a whole tick late."),
            ("packets_total", &self.packets, "Packets added."),
            ("late_total", &self.late, "Members listed as late, by tick."),
            ("received_bytes_total", &self.received_bytes, "Bytes of packets."),
            ("sent_bytes_total", &self.sent_bytes, "Bytes of sums."),
            ("missed_total", &self.missed, "Sums that a member did not take in time."),
        ] {
            exposed.counter(&format!("tobari_call_{name}"), help).set(value.load(Relaxed));
        }
        let delay = exposed.counter("tobari_call_tick_delay_seconds_total", "Time by which ticks closed late.");
        delay.set(self.tick_delay_ms.load(Relaxed) as f64 / 1e3);
        #[cfg(feature = "cascade")]
        self.bus.add_to(exposed);
    }
}
