//! The dispatcher with simulated engines: a clock that jumps from event to event.

mod faults;
mod policies;
mod simulator;
