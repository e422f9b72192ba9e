//! Files of calls: recordings in, recordings out; one rule of conversion to 16 kHz mono 16-bit.

#![forbid(unsafe_code)]

pub mod wav;
