//! The loops on the instructions of the processor: the only folder of this crate with `unsafe`.

#![allow(unsafe_code, reason = "vector instructions, and the pointers of many messages side by side")]

pub(crate) mod even512;
pub(crate) mod registers;
pub(crate) mod schedule;
pub(crate) mod vaes512;
