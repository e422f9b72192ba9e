//! The files of the job `sense`: a device's counter and outbox, and a server's frames; and the
//! calendar of windows, which takes its zones from a table.

#![forbid(unsafe_code)]

pub mod calendar;
mod counter;
mod error;
mod outbox;
#[cfg(feature = "parquet")]
pub mod parquet;
mod reopening;
mod store;

pub use counter::{CounterFile, CounterFileError};
pub use error::StoreError;
pub use outbox::{Draft, Mark, Outbox, OutboxError, SPAN};
pub use store::{Appended, Arrived, CACHE_BYTES, CLOCK_STEP_MS, DeviceState, FrameStore, RECORD_BYTES};
