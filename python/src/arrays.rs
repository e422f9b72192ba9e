//! NumPy input and output: everything that `numpy.asarray` accepts, if no number changes on
//! conversion.

use crate::errors::failed;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2};
use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zeroize::Zeroizing;

/// Converts a Python value to an array of the type, if that changes no number.
fn cast<'py>(values: &Bound<'py, PyAny>, dtype: &str, expected: &str) -> PyResult<Bound<'py, PyAny>> {
    let py = values.py();
    let array = py.import("numpy")?.call_method1("asarray", (values,))?;
    if array.getattr("size")?.extract::<usize>()? == 0 {
        return array.call_method1("astype", (dtype,));
    }
    let options = PyDict::new(py);
    options.set_item("casting", "safe")?;
    options.set_item("copy", false)?;
    array.call_method("astype", (dtype,), Some(&options)).map_err(|_| {
        let found = array.getattr("dtype").map_or_else(|_| "others".to_owned(), |dtype| dtype.to_string());
        failed(format!("expected {expected}, found {found}"))
    })
}

fn vector<T: numpy::Element + Copy>(array: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    let array = array.cast::<PyArray1<T>>().map_err(|_| {
        let shape = array.getattr("shape").map_or_else(|_| "another".to_owned(), |shape| shape.to_string());
        failed(format!("expected a vector, found an array of shape {shape}"))
    })?;
    Ok(array.readonly().as_array().iter().copied().collect())
}

/// A single number, and not a vector of length 1: a number fills every slot, a vector the first
/// ones.
pub(crate) fn scalar<'py, T: FromPyObjectOwned<'py>>(value: &Bound<'py, PyAny>) -> Option<T> {
    let dimensions = value.getattr("ndim").and_then(|ndim| ndim.extract::<usize>());
    if dimensions.is_ok_and(|dimensions| dimensions > 0) { None } else { value.extract().ok() }
}

/// Integers of at most 63 bits and a sign.
///
/// # Errors
/// `tobari.Error` for other numbers, or an array of several dimensions.
pub(crate) fn integers(values: &Bound<'_, PyAny>) -> PyResult<Zeroizing<Vec<i64>>> {
    Ok(Zeroizing::new(vector(&cast(values, "int64", "integers of at most 64 bits with a sign")?)?))
}

/// Real numbers, finite or not: the caller checks that.
///
/// # Errors
/// As [`integers`].
pub(crate) fn reals(values: &Bound<'_, PyAny>) -> PyResult<Zeroizing<Vec<f64>>> {
    Ok(Zeroizing::new(vector(&cast(values, "float64", "real numbers")?)?))
}

/// Rows of real numbers.
///
/// # Errors
/// As [`integers`], for two dimensions.
pub(crate) fn rows(values: &Bound<'_, PyAny>) -> PyResult<Zeroizing<Vec<Vec<f64>>>> {
    let array = cast(values, "float64", "real numbers")?;
    let array = two(array.cast::<PyArray2<f64>>().ok(), &array)?;
    Ok(Zeroizing::new(array.as_array().rows().into_iter().map(|row| row.iter().copied().collect()).collect()))
}

/// Rows of bits: `False` and `True`, or 0 and 1.
///
/// # Errors
/// As [`rows`], and for other numbers.
pub(crate) fn bits(values: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<bool>>> {
    let array = cast(values, "int64", "alleles 0 and 1")?;
    let array = two(array.cast::<PyArray2<i64>>().ok(), &array)?;
    let bit = |value: &i64| match value {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(failed(format!("expected alleles 0 and 1, found {other}"))),
    };
    array.as_array().rows().into_iter().map(|row| row.iter().map(bit).collect()).collect()
}

fn two<'py, T: numpy::Element>(
    found: Option<&Bound<'py, PyArray2<T>>>,
    array: &Bound<'py, PyAny>,
) -> PyResult<PyReadonlyArray2<'py, T>> {
    found.map(PyArrayMethods::readonly).ok_or_else(|| {
        let shape = array.getattr("shape").map_or_else(|_| "another".to_owned(), |shape| shape.to_string());
        failed(format!("expected an array of rows and columns, found one of shape {shape}"))
    })
}

/// The first `count` of some numbers, or all, as an array.
///
/// # Errors
/// `tobari.Error` for more than there are.
pub(crate) fn array<'py, T: numpy::Element + Copy>(
    py: Python<'py>,
    values: &[T],
    count: Option<usize>,
) -> PyResult<Bound<'py, PyArray1<T>>> {
    let most = values.len();
    let count = count.unwrap_or(most);
    let values =
        values.get(..count).ok_or_else(|| failed(format!("expected a count of at most {most}, found {count}")))?;
    Ok(PyArray1::from_slice(py, values))
}
