//! Evidence, channel and sessions, with an enclave in the same process: what is refused, and what
//! ends.

mod bytes;
mod channel;
mod evidence;
mod job;
mod script;
mod seal;
