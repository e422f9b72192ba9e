//! Plans: where each step of an encrypted computation runs, and when.
//!
//! An encrypted computation cannot branch: its steps depend only on the shapes of its inputs. So
//! the computation is first recorded as a [`program`]; stages with several implementations are
//! [`segment`]s. Then it is planned: [`place`] selects an implementation and a site for each stage,
//! and [`page`] decides which values are in memory at each moment and which in the storage tier
//! behind it. A small judge, [`check`], verifies a plan and trusts nothing that the planner claims.
//! Only checked plans [`run`], on any [`engine`] that computes the steps: in plaintext ([`clear`]),
//! or under encryption elsewhere.
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
