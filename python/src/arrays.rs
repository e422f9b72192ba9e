//! NumPy input and output: everything that `numpy.asarray` accepts, if no number changes on
//! conversion.

use crate::errors::failed;
use crate::shape::Shape;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2};
use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tobari_lattice::ckks::Complex;
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

/// Real numbers, finite or not: the caller checks that.
///
/// # Errors
/// `tobari.Error` for other numbers, or an array of several dimensions.
pub(crate) fn reals(values: &Bound<'_, PyAny>) -> PyResult<Zeroizing<Vec<f64>>> {
    Ok(Zeroizing::new(vector(&cast(values, "float64", "real numbers")?)?))
}

/// Numbers of a vector or a matrix, row by row.
pub(crate) enum Numbers {
    Real(Zeroizing<Vec<f64>>),
    Complex(Zeroizing<Vec<Complex>>),
}

fn flat<T: numpy::Element + Copy>(array: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    let flat = array.call_method1("reshape", (-1,))?;
    vector(&flat)
}

/// The shape of an array.
///
/// # Errors
/// As [`Shape::new`].
pub(crate) fn shape(values: &Bound<'_, PyAny>) -> PyResult<Shape> {
    let array = values.py().import("numpy")?.call_method1("asarray", (values,))?;
    Shape::new(&array.getattr("shape")?.extract::<Vec<usize>>()?)
}

/// Real or complex numbers, finite or not, of at most two dimensions.
///
/// # Errors
/// As [`reals`], for three dimensions, and for no number.
pub(crate) fn numbers(values: &Bound<'_, PyAny>) -> PyResult<(Shape, Numbers)> {
    let array = values.py().import("numpy")?.call_method1("asarray", (values,))?;
    let shape = shape(&array)?;
    if array.getattr("dtype")?.getattr("kind")?.extract::<String>()? != "c" {
        let reals = flat(&cast(&array, "float64", "real or complex numbers")?)?;
        return Ok((shape, Numbers::Real(Zeroizing::new(reals))));
    }
    // each number as two reals
    let pairs = cast(&array, "complex128", "real or complex numbers")?.call_method1("reshape", (-1,))?;
    let pairs = Zeroizing::new(vector::<f64>(&pairs.call_method1("view", ("float64",))?)?);
    let all = pairs.chunks_exact(2).map(|pair| Complex { re: pair[0], im: pair[1] }).collect();
    Ok((shape, Numbers::Complex(Zeroizing::new(all))))
}

/// Integers of at most 63 bits and a sign, of at most two dimensions, row by row.
///
/// # Errors
/// As [`reals`], for three dimensions, and for no number.
pub(crate) fn integers(values: &Bound<'_, PyAny>) -> PyResult<(Shape, Zeroizing<Vec<i64>>)> {
    let shape = shape(values)?;
    Ok((shape, Zeroizing::new(flat(&cast(values, "int64", "integers of at most 64 bits with a sign")?)?)))
}

/// Numbers, given row by row, as an array of this shape.
///
/// # Errors
/// Those of NumPy.
pub(crate) fn shaped<'py, T: numpy::Element + Copy>(
    py: Python<'py>,
    numbers: &[T],
    shape: Shape,
) -> PyResult<Bound<'py, PyAny>> {
    PyArray1::from_slice(py, numbers).call_method1("reshape", (shape.dimensions(),))
}

/// Rows of real numbers.
///
/// # Errors
/// As [`reals`], for two dimensions.
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
