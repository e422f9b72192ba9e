//! Searches over the network: the server's answers, the commands of `tobari search`, and a Beacon
//! of version 2 on the client's own machine.
//!
//! [`serve`] has the server's routes and state; [`beacon`] has the routes of the Beacon.

#![forbid(unsafe_code)]

pub mod beacon;
pub mod command;
pub mod demo;
mod long;
pub mod plan;
pub mod serve;
pub mod simulated;
