//! What both programs have.
#![no_std]

pub mod board;
