//! What the commands of every job need: how they say what came of them, where their randomness is from, a blind server beside
//! them, whom to reach, and when to stop. It knows no job and no verb.

#![forbid(unsafe_code)]

pub mod blind_server;
pub mod day;
pub mod demo;
pub mod output;
pub mod randomness;
pub mod reach;
pub mod replies;
pub mod size;
pub mod stop;
