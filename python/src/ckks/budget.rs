//! Results that others may see.

use super::{Ciphertext, SecretKey};
use crate::errors::failed;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};
use tobari_lattice::ckks;

/// The results that a key may show to people who see ciphertexts, and the flood that hides their
/// noise. Make one budget for each key: a second one would double what is shown.
///
/// `noise_bits` is that of the noisiest ciphertext that will be decrypted with it:
/// `Ciphertext.noise_bits` tells it. All `results` together are within a statistical distance of
/// `2**-security_bits` of ones that do not depend on the key.
///
/// >>> import numpy as np
/// >>> from tobari import ckks
/// >>> key = ckks.SecretKey(ckks.Parameters("ckks-flood"))
/// >>> keys = key.evaluation_keys()
/// >>> x = key.encrypt([0.5, -1.0], scale_bits=100, keys=keys) ** 2
/// >>> budget = ckks.FloodBudget(key, x.noise_bits)
/// >>> shown = key.decrypt(x, flood=budget)
/// >>> bool(np.abs(shown - [0.25, 1.0]).max() < budget.error(x) < 0.02), budget.left
/// (True, 999)
#[pyclass(frozen, module = "tobari.ckks")]
pub(super) struct FloodBudget {
    inner: Mutex<ckks::FloodBudget>,
}

impl FloodBudget {
    /// The budget, for one caller at a time.
    pub(super) fn with<T>(&self, then: impl FnOnce(&mut ckks::FloodBudget) -> T) -> T {
        then(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl FloodBudget {
    #[new]
    #[pyo3(signature = (key, noise_bits, security_bits=40, results=1000))]
    fn new(key: &SecretKey, noise_bits: Option<u32>, security_bits: u32, results: u32) -> PyResult<Self> {
        let unknown =
            "expected a number of bits, found None, of a ciphertext without bounds: give range= to from_bytes";
        let noise_bits = noise_bits.ok_or_else(|| failed(unknown))?;
        let inner = ckks::FloodBudget::new(&key.key, noise_bits, security_bits, results).map_err(failed)?;
        Ok(Self { inner: Mutex::new(inner) })
    }

    /// Subtracts results that were shown before, for instance by an earlier run of the program.
    fn spend(&self, results: u32) {
        self.with(|budget| budget.spend(results));
    }

    /// A bound on the error of each number if this ciphertext is decrypted with the budget.
    fn error(&self, ciphertext: &Ciphertext) -> PyResult<f64> {
        self.with(|budget| budget.error(&ciphertext.inner)).map_err(failed)
    }

    /// Results left.
    #[getter]
    fn left(&self) -> u32 {
        self.with(|budget| budget.left())
    }

    /// The noise of each coefficient is at most `2**noise_bits`.
    #[getter]
    fn noise_bits(&self) -> u32 {
        self.with(|budget| budget.noise_bits())
    }

    /// The flood is uniform on `[-2**flood_bits, 2**flood_bits)`.
    #[getter]
    fn flood_bits(&self) -> u32 {
        self.with(|budget| budget.flood_bits())
    }

    /// All results are independent of the key up to a distance of `2**-security_bits`.
    #[getter]
    fn security_bits(&self) -> u32 {
        self.with(|budget| budget.security_bits())
    }

    fn __repr__(&self) -> String {
        let (left, bits, security) = (self.left(), self.flood_bits(), self.security_bits());
        format!("<ckks.FloodBudget: {left} results left, a flood of {bits} bits, {security} bits of security>")
    }
}
