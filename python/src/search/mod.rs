//! `tobari.search`: tables, the client's half and the server's, in bytes.
//!
//! A table's description for clients is the answer of `tobari serve --search` at
//! `/search/v1/tables/NAME`: the catalogue's length (eight bytes), the catalogue, and the fullness
//! of its places. Queries and answers are the messages of that server, so either half may be the
//! command line.

mod client;
mod question;
mod server;
mod table;

use pyo3::prelude::*;

/// Makes the classes attributes of the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<table::Table>()?;
    module.add_class::<client::Catalogue>()?;
    module.add_class::<client::Identity>()?;
    module.add_class::<client::Key>()?;
    module.add_class::<question::Evaluation>()?;
    module.add_class::<question::HiddenEvaluation>()?;
    module.add_class::<question::HiddenQuestion>()?;
    module.add_class::<question::Prepared>()?;
    module.add_class::<server::Server>()
}
