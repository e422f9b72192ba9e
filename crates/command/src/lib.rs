//! The common parts of all jobs' commands: output, randomness, a blind server process, access to a
//! server, and stop signals. It also has the traits through which the binary uses jobs ([`job`]).
//! It names no job and no verb.

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
