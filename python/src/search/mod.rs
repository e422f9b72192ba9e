//! `tobari.search`: tables, the client's half and the server's, in bytes.
//!
//! What a client is told of a table is what `tobari serve --search` tells at
//! `/search/v1/tables/NAME`: its catalogue's length (eight bytes), the catalogue, and how full its
//! places are. Queries and answers are the messages of that server, so that either half may be the
//! command line's.

mod client;
mod server;
mod table;

use pyo3::prelude::*;

/// Makes the classes attributes of the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<table::Table>()?;
    module.add_class::<client::Catalogue>()?;
    module.add_class::<client::Identity>()?;
    module.add_class::<client::Key>()?;
    module.add_class::<client::Prepared>()?;
    module.add_class::<server::Server>()
}
