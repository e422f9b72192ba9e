//! Searches: tables, questions, answers, labels, cells and hidden places, and attacks on them.

#![allow(clippy::unwrap_used, reason = "a test")]

mod attacks;
mod bits;
mod cells;
mod counts;
mod hidden;
mod hidden_labels;
mod labelled;
mod labels;
mod pbwt;
mod served;
mod stretches;
mod table;
mod world;
