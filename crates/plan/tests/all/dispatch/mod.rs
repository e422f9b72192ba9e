//! The dispatcher with engines that are only simulated: a clock that jumps from event to event.

mod faults;
mod policies;
mod simulator;
