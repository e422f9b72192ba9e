//! The commands that belong to no job.

pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod healthcheck;
pub(crate) mod info;
pub(crate) mod moved;
pub(crate) mod plan;
pub(crate) mod serve;
pub(crate) mod shell;
