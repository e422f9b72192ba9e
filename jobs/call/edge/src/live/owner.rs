//! The owner of a live room: this server alone, or together with others.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use tobari_call::PACKET_SAMPLES;
use tobari_call::live::messages::{ClientMessage, Nonce, ServerMessage, Welcome};
use tobari_call::live::{Challenge, Proven};
use tobari_call::messages::{Code, MessageError, RoomName};
use tobari_call::server::Refusal;

#[cfg(feature = "cascade")]
use super::joined::JoinedTask;
use super::{
    intake::LiveIntake,
    mixing::{Happening, Live},
    task::LiveTask,
};
use crate::{
    kind::{Kind, NotAJoin, Opening, Task, words},
    limits::RoomLimits,
};

/// The longest message from a member: a packet of two points a sample on the curve of live rooms,
/// which has 33 bytes a point at most.
pub(super) const MAX_MESSAGE_BYTES: usize = 2 * 34 * (PACKET_SAMPLES + 2) + 1024;

/// The owner of one room.
pub(super) enum Owner {
    Alone(Box<LiveTask>),
    #[cfg(feature = "cascade")]
    Joined(Box<JoinedTask>),
}

/// Calls a method of either owner.
macro_rules! either {
    ($owner:expr, $task:ident => $answer:expr) => {
        match $owner {
            Owner::Alone($task) => $answer,
            #[cfg(feature = "cascade")]
            Owner::Joined($task) => $answer,
        }
    };
}

impl Task<Live> for Owner {
    fn id(&self) -> String {
        either!(self, task => task.id())
    }

    fn deadline(&self) -> Option<Instant> {
        either!(self, task => task.deadline())
    }

    fn is_light(&self) -> bool {
        either!(self, task => task.is_light())
    }

    fn work(&mut self, batch: Vec<Happening>, close: bool) {
        either!(self, task => task.work(batch, close));
    }

    fn is_left(&self) -> bool {
        either!(self, task => task.is_left())
    }

    fn ticks(&self) -> u32 {
        either!(self, task => task.ticks())
    }
}

impl Kind for Live {
    const NAME: &str = "live room";
    /// Packets of a full room for one tick.
    const QUEUE: usize = 4096;
    const BATCH: usize = 512;
    const MAX_MESSAGE_BYTES: usize = MAX_MESSAGE_BYTES;
    type Join = Proven;
    type Asked = Challenge;
    type Intake = LiveIntake;
    type Task = Owner;
    #[cfg(feature = "cascade")]
    type FromBus = tobari_call::live::cascade::BusMessage;

    fn open(&self, opening: &Opening<'_, Self>, join: &Proven, limits: &RoomLimits) -> Result<Owner, Refusal> {
        let metrics = Arc::clone(&self.metrics);
        #[cfg(feature = "cascade")]
        if let Some(bus) = &self.bus {
            return Ok(Owner::Joined(Box::new(JoinedTask::open(opening, bus, limits, metrics))));
        }
        LiveTask::open(opening.id, join, limits, metrics).map(|task| Owner::Alone(Box::new(task)))
    }

    fn entered(&self, let_in: bool) {
        let counter = if let_in { &self.metrics.joins } else { &self.metrics.refused };
        counter.fetch_add(1, Relaxed);
    }

    fn ask(&self, room: &RoomName, host: Option<&str>) -> Option<(Challenge, Option<ServerMessage>)> {
        let mut nonce = Nonce([0; 16]);
        getrandom::fill(&mut nonce.0).ok()?;
        // the host of the request is one that this server answers for: a proxy may have put its own
        // there
        let hosts = self.names.iter().cloned().chain(host.map(str::to_owned)).collect();
        Some((Challenge { nonce, room: room.clone(), hosts }, Some(ServerMessage::Challenge { nonce })))
    }

    fn join(said: ClientMessage, asked: &Challenge) -> Result<Proven, NotAJoin> {
        let ClientMessage::Join(join) = said else { return Err(NotAJoin::Other) };
        join.checked(asked).map_err(NotAJoin::Refused)
    }

    words!();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
    use std::time::Duration;
    use tobari_call::live::attack::proven;
    use tobari_call::live::{LiveMode, LiveRoom, PACKET_WORDS, RoomLink, Settings};
    use tobari_curve::wire::RoomId;

    #[test]
    fn the_longest_packet_of_every_mode_fits_into_a_message() {
        for mode in LiveMode::ALL {
            let settings = Settings { mode, speakers: 4096, ..Settings::default() };
            let mut rng = ChaCha20Rng::from_seed([1; 32]);
            let join = proven(&RoomLink::new("http://h", "r".parse().unwrap(), settings, &mut rng), true);
            let limits = RoomLimits::default().call.live;
            let room = LiveRoom::open(RoomId([1; 8]), &join, limits, Duration::ZERO).unwrap();
            assert!(room.layout().packet_len(PACKET_WORDS) <= MAX_MESSAGE_BYTES, "{mode}");
        }
    }
}
