//! Who owns a live room: this server alone, or together with others.

use std::time::Instant;

#[cfg(feature = "cascade")]
use super::joined::JoinedTask;
use super::task::{Happening, Live, LiveTask};
use crate::kind::Task;

/// What owns one room.
pub(super) enum Owner {
    Alone(Box<LiveTask>),
    #[cfg(feature = "cascade")]
    Joined(Box<JoinedTask>),
}

/// Asks whichever it is.
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
