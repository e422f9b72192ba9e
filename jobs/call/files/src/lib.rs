//! Audio files of calls: reading and writing recordings, with one rule of conversion to 16 kHz mono
//! 16-bit.

#![forbid(unsafe_code)]

pub mod wav;
