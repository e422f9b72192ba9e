//! The job of sensors at the edge of the network: the server's routes, the commands of
//! `tobari sense`, and the figures that a key holder's process serves.
//!
//! [`serve`] has the routes and the server's storage; [`analyst`] has the routes of released
//! figures.

#![forbid(unsafe_code)]

pub mod analyst;
pub mod command;
pub mod demo;
pub mod plan;
pub mod serve;
