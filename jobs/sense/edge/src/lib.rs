//! The job of sensors at the edge of the network: what a server answers, the commands of
//! `tobari sense`, and the page of figures that a key holder's process serves.
//!
//! [`serve`] has the routes and what the server keeps; [`analyst`] those of released figures.

#![forbid(unsafe_code)]

pub mod analyst;
pub mod command;
pub mod demo;
pub mod plan;
pub mod serve;
