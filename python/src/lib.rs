//! The Python package `tobari`: both halves of the jobs, for people who work with data.
//!
//! This crate converts values: NumPy arrays, `bytes` and text on both sides. The computations are
//! in the jobs' protocol crates, [`tobari_lattice`] and [`tobari_plan`]; files and pictures are
//! read by the jobs' file crates. The Python code in `python/tobari` wraps this crate, and has no
//! cryptography.
//!
//! | module | is |
//! |---|---|
//! | [`work`] | long calls: without the interpreter's lock, interrupted by Ctrl-C, with progress |
//! | [`errors`] | exceptions: every error of Rust with its text, and no panic |
//! | [`arrays`] | NumPy in and out |
//! | [`bgv`], [`ckks`] | encrypted numbers, vectors and matrices |
//! | [`shape`], [`parameters`] | where numbers stand in slots; parameters by name |
//! | [`infer`], [`search`], [`sense`] | client and server of a job, in bytes |
//! | [`plan`] | plans as text and as objects |
//!
//! # Who sees what
//! As in the jobs. **Python keeps copies**: decrypted values, and secrets that were exported as
//! `bytes`, lie in the interpreter's memory, which nothing wipes. Objects with a secret never print
//! or pickle it, and wipe it on release.

#![forbid(unsafe_code)]
#![allow(clippy::needless_pass_by_value, reason = "arguments from Python arrive as values")]

mod arrays;
mod bgv;
mod ckks;
mod errors;
mod infer;
mod parameters;
mod plan;
mod randomness;
mod search;
mod sense;
mod shape;
mod work;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tobari_lattice::params::NamedSet;

/// The sets of lattice parameters, each as a dictionary.
#[pyfunction]
fn parameter_sets(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let all = PyList::empty(py);
    for set in NamedSet::ALL {
        let one = PyDict::new(py);
        one.set_item("name", set.name)?;
        one.set_item("purpose", set.purpose)?;
        one.set_item("scheme", if set.plaintext_modulus.is_some() { "bgv" } else { "ckks" })?;
        one.set_item("degree", set.degree)?;
        one.set_item("levels", set.data.len())?;
        one.set_item("plaintext_modulus", set.plaintext_modulus)?;
        let security = set.parameters().map_err(errors::failed)?.security();
        one.set_item("security_bits", security.map(tobari_lattice::params::Security::bits))?;
        all.append(one)?;
    }
    Ok(all)
}

/// The compiled half of the package.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(parameter_sets, module)?)?;
    errors::add_to(module)?;
    work::add_to(module)?;
    type Fill = fn(&Bound<'_, PyModule>) -> PyResult<()>;
    let rooms: [(&str, Fill); 6] = [
        ("bgv", bgv::add_to),
        ("ckks", ckks::add_to),
        ("infer", infer::add_to),
        ("search", search::add_to),
        ("sense", sense::add_to),
        ("plan", plan::add_to),
    ];
    for (name, fill) in rooms {
        let room = PyModule::new(py, name)?;
        fill(&room)?;
        module.add_submodule(&room)?;
    }
    Ok(())
}
