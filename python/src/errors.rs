//! Exceptions: each error of the libraries with its text. A text names the expected and the found
//! value, and no secret.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::fmt::Display;

create_exception!(tobari, Error, PyException, "What went wrong: the base of this package's exceptions.");
create_exception!(tobari, DecodeError, Error, "Bytes that are not the object that was expected.");
create_exception!(tobari, Refused, Error, "A server, or its half in this process, refuses.");
create_exception!(tobari, Withheld, Error, "A result of sensors that is withheld. There is one reason for all.");

/// The text for a comparison of a ciphertext.
pub(crate) const HIDDEN: &str = "expected no comparison, found one: the numbers of a ciphertext are hidden; subtract \
                                 instead, and let the holder of the key decrypt the difference";

/// An error as `tobari.Error`.
pub(crate) fn failed(error: impl Display) -> PyErr {
    Error::new_err(error.to_string())
}

/// An exception that errors of encoders become, for work that an interrupt ends, too.
pub(crate) struct Failed(pub(crate) PyErr);

impl From<tobari_lattice::bgv::EncodeError> for Failed {
    fn from(error: tobari_lattice::bgv::EncodeError) -> Self {
        Self(failed(error))
    }
}

impl From<tobari_lattice::ckks::EncodeError> for Failed {
    fn from(error: tobari_lattice::ckks::EncodeError) -> Self {
        Self(failed(error))
    }
}

impl From<tobari_lattice::refresh::RefreshError> for Failed {
    fn from(error: tobari_lattice::refresh::RefreshError) -> Self {
        Self(failed(error))
    }
}

/// The error for malformed bytes.
pub(crate) fn malformed(error: impl Display) -> PyErr {
    DecodeError::new_err(error.to_string())
}

/// A refusal by a server's half.
pub(crate) fn refused(error: impl Display) -> PyErr {
    Refused::new_err(error.to_string())
}

/// A refusal with the word that tells programs why, as over HTTP.
pub(crate) fn refused_for(word: &'static str, error: impl Display) -> PyErr {
    let refused = refused(error);
    Python::attach(|py| match refused.value(py).setattr("reason", word) {
        Ok(()) => refused,
        Err(other) => other,
    })
}

/// The error for a fault of this program, instead of a panic.
pub(crate) fn fault() -> PyErr {
    failed("a fault in this program, please report it: expected no panic, found one")
}

/// Makes the exceptions attributes of the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", py.get_type::<Error>())?;
    module.add("DecodeError", py.get_type::<DecodeError>())?;
    let refused = py.get_type::<Refused>();
    refused.setattr("reason", py.None())?;
    module.add("Refused", refused)?;
    module.add("Withheld", py.get_type::<Withheld>())
}
