//! The files of the job `sense`: a device's counter, and a server's frames.

#![forbid(unsafe_code)]

mod counter;
mod error;
#[cfg(feature = "parquet")]
pub mod parquet;
mod reopening;
mod store;

pub use counter::{CounterFile, CounterFileError};
pub use error::StoreError;
pub use store::{Appended, Arrived, CACHE_BYTES, CLOCK_STEP_MS, DeviceState, FrameStore, RECORD_BYTES};
