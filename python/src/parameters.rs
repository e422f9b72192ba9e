//! Parameters by name: those of `tobari info`, or sizes as text.

use crate::errors::failed;
use pyo3::prelude::*;
use tobari_lattice::params::{NamedSet, Sizes};

/// The sizes of a name, and whether they are a set of that name.
///
/// # Errors
/// `tobari.Error` for a name that is neither a set of this scheme nor sizes of it.
pub(crate) fn named(name: &str, exact: bool) -> PyResult<Sizes> {
    let set = NamedSet::from_name(name).map(Sizes::from);
    let sizes = set.or_else(|| name.parse().ok()).filter(|sizes| sizes.plaintext_modulus.is_some() == exact);
    let (what, like) = match exact {
        true => ("integers", "bgv-65537:14:50,50:50:2"),
        false => ("approximate numbers", "ckks:14:50,30,30:50:2"),
    };
    let text = format!("expected a set of parameters for {what}, or sizes such as {like}, found {name:?}");
    sizes.ok_or_else(|| failed(text))
}

/// The canonical name of sizes: that of a set, if one has them.
pub(crate) fn name(sizes: &Sizes) -> String {
    let set = NamedSet::ALL.into_iter().chain(NamedSet::REFRESH).find(|set| Sizes::from(*set) == *sizes);
    set.map_or_else(|| sizes.to_string(), |set| set.name.to_owned())
}
