//! What the commands of every job need: how they say what came of them, where their randomness is
//! from, a blind server beside them, whom to reach, and when to stop; and the traits by which the
//! binary joins jobs ([`job`]). It knows no job and no verb by name.

#![forbid(unsafe_code)]

pub mod address;
pub mod blind_server;
pub mod day;
pub mod demo;
pub mod job;
pub mod output;
pub mod randomness;
pub mod reach;
pub mod replies;
pub mod size;
pub mod start;
pub mod stop;
