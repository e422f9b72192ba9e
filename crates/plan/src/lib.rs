//! Where and when.
//!
//! An encrypted computation cannot branch: what it does depends on the shapes of its inputs alone.
//! So it is written down first ([`program`]; stages that can be done in several ways are
//! [`segment`]s), then planned: which way each stage is done and at which site ([`place`]), what
//! lies in memory at each moment, and what in a tier of storage behind it ([`page`]). A plan is
//! checked by a small judge that trusts nothing the planner says ([`check`]), and only what has
//! passed is carried out ([`run`]), by whatever engine ([`engine`]) computes the steps: in the
//! clear ([`clear`]), or under encryption elsewhere.
//!
//! Nothing here computes cryptography, opens a file, starts a thread or reads a clock.

#![forbid(unsafe_code)]

pub mod check;
pub mod clear;
pub mod cost;
pub mod dispatch;
pub mod engine;
pub mod page;
pub mod place;
pub mod plan;
pub mod program;
pub mod run;
pub mod segment;
pub mod site;
mod step;
#[doc(hidden)]
pub mod testing;
