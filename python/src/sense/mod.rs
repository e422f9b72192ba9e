//! `tobari.sense`: devices, the key holder and the server of a fleet, in bytes and JSON.
//!
//! The key holder's data for a server has the format of `tobari sense keyholder` and
//! `tobari serve --sense`: a bundle of names, and objects by their SHA-256. Frames, orders, results
//! and releases have the formats of the same programs.

mod device;
mod holder;
mod parts;
mod server;

use pyo3::prelude::*;

/// Makes the classes attributes of the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(parts::split_frames, module)?)?;
    module.add_function(wrap_pyfunction!(parts::merge_parts, module)?)?;
    module.add_class::<device::Device>()?;
    module.add_class::<holder::KeyHolder>()?;
    module.add_class::<server::Server>()
}
