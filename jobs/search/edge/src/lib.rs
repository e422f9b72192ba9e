//! Searches at the edge of the network: what a server answers, the commands of `tobari search`, and
//! a Beacon of version 2 on the asker's own machine.
//!
//! [`serve`] has the routes and what the server holds; [`beacon`] those of the Beacon.

#![forbid(unsafe_code)]

pub mod beacon;
pub mod command;
pub mod demo;
pub mod plan;
pub mod serve;
pub mod simulated;
