//! Evidence, channel and sessions, with an enclave in the same process: rejected messages, and ends
//! of sessions.

mod bytes;
mod channel;
mod evidence;
mod job;
mod script;
mod seal;
