//! The intake of a live room's binary messages.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use axum::body::Bytes;
use tobari_call::live::group::is_for_the_group;
use tobari_call::live::{LiveUplink, NOTE_BYTES, is_hello};
use tobari_call::server::Fault;
use tobari_call::wire::LivePacket;
use tokio::time::Instant;

use super::metrics::Metrics;
use crate::kind::Intake;
use tobari_node::cpu::Cpu;

/// Packets of one member at once, and on average in a second. A member sends fifty, and after a
/// pause some more.
const BURST: u32 = 150;
const A_SECOND: u32 = 60;

/// A packet; or a hello, a note, an offer or part of a commit.
pub(super) enum LiveBinary {
    Packet(Box<LivePacket>),
    Note(Bytes),
}

/// The decoder of a member's packets and notes.
pub(super) struct LiveIntake {
    uplink: LiveUplink,
    budget: Budget,
    metrics: Arc<Metrics>,
}

impl LiveIntake {
    pub(super) fn new(uplink: LiveUplink, metrics: Arc<Metrics>) -> Self {
        Self { uplink, budget: Budget { left: BURST.into(), at: Instant::now() }, metrics }
    }
}

impl Intake for LiveIntake {
    type Binary = LiveBinary;

    async fn take(&mut self, bytes: Bytes, cpu: &Cpu) -> Result<LiveBinary, Fault> {
        // the room itself checks and limits these
        if bytes.len() == NOTE_BYTES || is_hello(&bytes) || is_for_the_group(&bytes) {
            return Ok(LiveBinary::Note(bytes));
        }
        self.budget.spend()?;
        self.metrics.received_bytes.fetch_add(bytes.len() as u64, Relaxed);
        // An obviously wrong packet does not wait for a core.
        self.uplink.check(&bytes)?;
        let uplink = self.uplink;
        let packet = if uplink.is_costly() {
            cpu.run(move || uplink.decode(&bytes)).await.ok_or(Fault::Internal)??
        } else {
            uplink.decode(&bytes)?
        };
        Ok(LiveBinary::Packet(Box::new(packet)))
    }
}

/// How many packets a member may still send now.
struct Budget {
    left: f64,
    at: Instant,
}

impl Budget {
    fn spend(&mut self) -> Result<(), Fault> {
        let now = Instant::now();
        let earned = now.duration_since(self.at).as_secs_f64() * f64::from(A_SECOND);
        (self.left, self.at) = ((self.left + earned).min(BURST.into()), now);
        if self.left < 1.0 {
            return Err(Fault::Chatter { burst: BURST, a_second: A_SECOND });
        }
        self.left -= 1.0;
        Ok(())
    }
}
