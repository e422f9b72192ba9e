//! The commands that no job has: those of the house.

pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod info;
pub(crate) mod moved;
pub(crate) mod plan;
pub(crate) mod serve;
