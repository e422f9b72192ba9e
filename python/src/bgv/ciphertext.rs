//! Ciphertexts and their operators.

use super::{Context, EvaluationKeys, Parameters, PublicKey};
use crate::arrays;
use crate::errors::{Failed, HIDDEN, failed, malformed};
use crate::randomness::generator;
use crate::shape::{Dimensions, Product, Shape, doublings};
use crate::work::{Progress, long, short};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::PyBytes;
use std::borrow::Cow;
use std::sync::Arc;
use tobari_lattice::bgv::{self, EvaluateError, LinearTransform, SeededCiphertext};
use tobari_lattice::wire::{self, LatticeKind};
use zeroize::Zeroizing;

/// An encrypted integer, vector or matrix. `+`, `-` and `*` take integers and arrays of the same
/// shape; a single integer fits every shape.
///
/// Products of two ciphertexts, `**`, `@`, `sum` and `dot` need keys: give them to `encrypt`, to
/// `from_bytes`, or to `with_keys`. Results inherit them. Products choose their level.
#[pyclass(frozen, module = "tobari.bgv")]
pub(super) struct Ciphertext {
    pub(super) context: Arc<Context>,
    pub(super) inner: Arc<bgv::Ciphertext>,
    /// The seeded form, with fewer bytes, if the secret key made the ciphertext.
    seeded: Option<SeededCiphertext>,
    /// None if nobody has said.
    pub(super) shape: Option<Shape>,
    keys: Option<Arc<bgv::EvaluationKeys>>,
}

/// What stands on the other side of an operator.
enum Operand<'py> {
    Ciphertext(Bound<'py, Ciphertext>),
    Integer(i64),
    Array(Shape, Zeroizing<Vec<i64>>),
}

fn operand<'py>(value: &Bound<'py, PyAny>) -> PyResult<Operand<'py>> {
    if let Ok(other) = value.cast::<Ciphertext>() {
        return Ok(Operand::Ciphertext(other.clone()));
    }
    if let Some(integer) = arrays::scalar(value) {
        return Ok(Operand::Integer(integer));
    }
    arrays::integers(value).map(|(shape, integers)| Operand::Array(shape, integers))
}

/// An error of an operation; a missing key with the way to make it.
fn with_remedy(error: EvaluateError, remedy: &str) -> PyErr {
    match error {
        EvaluateError::MissingKey { .. } => failed(format!("{error}: make the keys with {remedy}")),
        _ => failed(error),
    }
}

impl Ciphertext {
    /// A fresh ciphertext.
    pub(super) fn fresh(
        context: &Arc<Context>,
        inner: bgv::Ciphertext,
        seeded: Option<SeededCiphertext>,
        shape: Option<Shape>,
        keys: Option<&EvaluationKeys>,
    ) -> PyResult<Self> {
        let keys = keys.map(|keys| context.same(&keys.context).map(|()| Arc::clone(&keys.keys))).transpose()?;
        Ok(Self { context: Arc::clone(context), inner: Arc::new(inner), seeded, shape, keys })
    }

    /// A result with the keys of this one.
    pub(super) fn of(&self, inner: bgv::Ciphertext, shape: Option<Shape>) -> Self {
        let (context, keys) = (Arc::clone(&self.context), self.keys.clone());
        Self { context, inner: Arc::new(inner), seeded: None, shape, keys }
    }

    /// A result with the keys of either.
    fn of_both(&self, other: &Self, inner: bgv::Ciphertext, shape: Option<Shape>) -> Self {
        let keys = self.keys.clone().or_else(|| other.keys.clone());
        Self { keys, ..self.of(inner, shape) }
    }

    /// The keys, or an error that says where to give them.
    fn needed(&self) -> PyResult<&Arc<bgv::EvaluationKeys>> {
        let text = "expected a ciphertext with evaluation keys, found one without: give keys= to encrypt or from_bytes, or \
                    use with_keys";
        self.keys.as_ref().ok_or_else(|| failed(text))
    }

    /// The shape, or an error that says where to give it.
    fn known(&self) -> PyResult<Shape> {
        let text =
            "expected a ciphertext of a known shape, found one that was read from bytes: give shape= to from_bytes";
        self.shape.ok_or_else(|| failed(text))
    }

    /// The shape after a rotation.
    pub(super) fn turned(&self) -> Option<Shape> {
        self.shape.map(|shape| Shape::vector(shape.period()))
    }

    /// The product of two ciphertexts, slot by slot.
    pub(super) fn product(&self, other: &Self, keys: &bgv::EvaluationKeys) -> PyResult<Self> {
        self.context.same(&other.context)?;
        let shape = Shape::joined(self.shape, other.shape)?;
        let product = self.context.evaluator.mul_reduced(&self.inner, &other.inner, keys);
        Ok(self.of_both(other, product.map_err(|error| with_remedy(error, "multiply=True"))?, shape))
    }

    /// The integer without what it would add to the padding of another shape.
    fn masked(&self, shape: Option<Shape>) -> PyResult<Cow<'_, bgv::Ciphertext>> {
        let Some(shape) = shape.filter(|shape| shape.has_padding() && self.shape == Some(Shape::NUMBER)) else {
            return Ok(Cow::Borrowed(&self.inner));
        };
        let Context { evaluator, encoder, .. } = &*self.context;
        let mask = encoder.encode(&shape.spread(1, false, encoder.slots())?).map_err(failed)?;
        evaluator.mul_plain(&self.inner, &mask).map(Cow::Owned).map_err(failed)
    }

    /// The sum with an operand, or the difference.
    fn plus(&self, py: Python<'_>, other: &Bound<'_, PyAny>, minus: bool) -> PyResult<Self> {
        let Context { evaluator, encoder, .. } = &*self.context;
        match operand(other)? {
            Operand::Ciphertext(other) => {
                let other = other.get();
                self.context.same(&other.context)?;
                let shape = Shape::joined(self.shape, other.shape)?;
                let sum = short(py, || {
                    let (a, b) = (self.masked(shape)?, other.masked(shape)?);
                    if minus { evaluator.sub(&a, &b) } else { evaluator.add(&a, &b) }.map_err(failed)
                })?;
                Ok(self.of_both(other, sum, shape))
            }
            Operand::Integer(value) => {
                let value = if minus { self.context.negative(value) } else { value };
                let sum = short(py, || match self.shape.filter(|shape| shape.has_padding()) {
                    None => evaluator.add_constant(&self.inner, value).map_err(failed),
                    Some(shape) => {
                        let spread = Zeroizing::new(shape.spread(value, false, encoder.slots())?);
                        let plaintext = encoder.encode(&spread).map_err(failed)?;
                        evaluator.add_plain(&self.inner, &plaintext).map_err(failed)
                    }
                })?;
                Ok(self.of(sum, self.shape))
            }
            Operand::Array(shape, mut values) => {
                if minus {
                    values.iter_mut().for_each(|value| *value = self.context.negative(*value));
                }
                let joined = Shape::joined(self.shape, Some(shape))?;
                // a single integer leaves the padding alone
                let (shape, values) = match joined.filter(|joined| shape == Shape::NUMBER && *joined != shape) {
                    Some(joined) => (joined, vec![values[0]; joined.count()].into()),
                    None => (shape, values),
                };
                let sum = short(py, || {
                    let plaintext = self.context.plaintext(shape, &values)?;
                    evaluator.add_plain(self.masked(joined)?.as_ref(), &plaintext).map_err(failed)
                })?;
                Ok(self.of(sum, joined))
            }
        }
    }

    /// The sum of rotations by steps that double.
    fn folded(
        context: &Context,
        mut sum: bgv::Ciphertext,
        steps: impl Iterator<Item = i64>,
        keys: &bgv::EvaluationKeys,
        remedy: &str,
    ) -> PyResult<bgv::Ciphertext> {
        for step in steps {
            let turned = context.evaluator.rotate(&sum, step, keys).map_err(|error| with_remedy(error, remedy))?;
            context.evaluator.add_assign(&mut sum, &turned).map_err(failed)?;
        }
        Ok(sum)
    }

    /// The product with a plain matrix, or vector.
    fn times_matrix(
        &self,
        py: Python<'_>,
        shape: Shape,
        numbers: Zeroizing<Vec<i64>>,
        progress: Progress<'_, '_>,
    ) -> PyResult<Self> {
        let (context, inner, keys) = (Arc::clone(&self.context), Arc::clone(&self.inner), Arc::clone(self.needed()?));
        let known = self.known()?;
        known.check(context.row())?;
        let product = Product::new(known, shape, context.row())?;
        let result = product.result;
        let found = long(py, progress, move |watch| {
            let Context { parameters, encoder, evaluator, .. } = &*context;
            let diagonals = product.diagonals(&numbers, encoder.slots());
            watch.expect(diagonals.len());
            let each = || watch.step().map_err(Failed);
            let transform = LinearTransform::new_with(parameters, encoder, &diagonals, inner.level(), each);
            let transform = transform.map_err(|Failed(error)| error)?;
            let remedy = format!("matrices=[{}]", product.dimensions());
            let wide = evaluator.transform(&inner, &transform, &keys).map_err(|error| with_remedy(error, &remedy))?;
            Self::folded(&context, wide, product.folds(), &keys, &remedy)
        })?;
        Ok(self.of(found, Some(result)))
    }

    /// The product of an encrypted matrix with an encrypted vector: the vector is spread over the
    /// rows.
    fn times_vector(&self, py: Python<'_>, vector: &Self, progress: Progress<'_, '_>) -> PyResult<Self> {
        let (a, x, keys) = (self.known()?, vector.known()?, self.needed()?);
        let [rows, columns] = a.dimensions().try_into().map_err(|_| failed("expected a matrix, found a vector"))?;
        if x != Shape::vector(columns) {
            let (found, shape) = (x.dimensions(), a.dimensions());
            return Err(failed(format!(
                "expected a vector of {columns} integers for a matrix of {shape:?}, found {found:?}"
            )));
        }
        let mut ones = vec![0; columns * a.period()];
        let stride = a.period() / columns.next_power_of_two();
        for (j, row) in ones.chunks_exact_mut(a.period()).enumerate() {
            row[stride * j..][..rows].fill(1);
        }
        let keyed = Self { keys: Some(Arc::clone(keys)), ..vector.of((*vector.inner).clone(), vector.shape) };
        let all = keyed.times_matrix(py, Shape::new(&[columns, a.period()])?, ones.into(), progress)?;
        let product = short(py, || self.product(&Self { shape: Some(a), ..all }, keys))?;
        product.sum(py, Some(1))
    }

    /// `@`, with progress.
    fn product_with(&self, py: Python<'_>, other: &Bound<'_, PyAny>, progress: Progress<'_, '_>) -> PyResult<Self> {
        match operand(other)? {
            Operand::Ciphertext(other) => {
                let other = other.get();
                let (a, b) = (self.known()?, other.known()?);
                match (a.is_vector(), b.is_vector()) {
                    (true, true) if a == b => {
                        let keys = self.keys.as_ref().map_or_else(|| other.needed(), Ok)?;
                        short(py, || self.product(other, keys))?.sum(py, None)
                    }
                    (false, true) => self.times_vector(py, other, progress),
                    _ => {
                        let [a, b] = [a, b].map(Shape::dimensions);
                        let text = "expected two vectors of one length, or a matrix and a vector, found shapes";
                        Err(failed(format!("{text} {a:?} and {b:?}")))
                    }
                }
            }
            Operand::Array(shape, numbers) => self.times_matrix(py, shape, numbers, progress),
            Operand::Integer(_) => Err(failed("expected a vector or a matrix, found an integer: use * for integers")),
        }
    }
}

#[pymethods]
impl Ciphertext {
    /// Makes NumPy leave operators with arrays to this class.
    #[classattr]
    #[pyo3(name = "__array_ufunc__")]
    fn array_ufunc() -> Option<i64> {
        None
    }

    /// Reads the bytes of `to_bytes`. A ciphertext of `SecretKey.encrypt` is a fresh one. Other
    /// bytes do not prove how large their noise is, so decryption and `flood` need `noise`:
    /// "fresh" for what was just encrypted, a number of bits for a result of a computation that
    /// you know (`noise` of one like it), or "claimed" if you trust the sender's own bound. If the
    /// noise is larger after all, results may be wrong. Without `shape`, `decrypt` returns all
    /// slots.
    #[staticmethod]
    #[pyo3(signature = (parameters, data, noise=None, shape=None, keys=None))]
    fn from_bytes(
        py: Python<'_>,
        parameters: &Parameters,
        data: &[u8],
        noise: Option<Noise>,
        shape: Option<Dimensions>,
        keys: Option<&EvaluationKeys>,
    ) -> PyResult<Self> {
        let context = &parameters.context;
        let shape = shape.map(|shape| context.shape(&shape)).transpose()?;
        if data.get(1) == Some(&(LatticeKind::SeededCiphertext as u8)) {
            let seeded = short(py, || wire::decode_seeded_ciphertext(data, &context.parameters).map_err(malformed))?;
            return Self::fresh(context, seeded.expand(), Some(seeded), shape, keys);
        }
        let mut inner = short(py, || wire::decode_ciphertext(data, &context.parameters).map_err(malformed))?;
        match noise {
            None => {}
            Some(Noise::Bits(bits)) if bits >= 0.0 => inner.declare_noise(bits),
            Some(Noise::Word(word)) if word == "fresh" => inner.declare_fresh(),
            Some(Noise::Word(word)) if word == "claimed" => {
                inner.declare_noise(inner.claimed_noise());
            }
            Some(_) => return Err(failed("expected noise to be \"fresh\", \"claimed\" or a number of bits")),
        }
        Self::fresh(context, inner, None, shape, keys)
    }

    /// Can everybody read it, without a key? `x - x` and `x * 0` are such ciphertexts.
    #[getter]
    fn is_transparent(&self) -> bool {
        self.inner.is_transparent()
    }

    /// Its bytes. A transparent ciphertext has none: send the plain result instead.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = short(py, || {
            Ok(match &self.seeded {
                Some(seeded) => wire::encode_seeded_ciphertext(seeded),
                None => wire::encode_ciphertext(&self.inner).map_err(failed)?,
            })
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The same ciphertext with keys for its operators.
    pub(super) fn with_keys(&self, keys: &EvaluationKeys) -> PyResult<Self> {
        Self::fresh(&self.context, (*self.inner).clone(), self.seeded.clone(), self.shape, Some(keys))
    }

    /// The same numbers as another shape: a matrix column by column, or a vector with its padding.
    fn with_shape(&self, shape: Dimensions) -> PyResult<Self> {
        let shape = self.context.shape(&shape)?.instead_of(self.known()?, self.context.encoder.slots())?;
        Ok(Self { seeded: self.seeded.clone(), ..self.of((*self.inner).clone(), Some(shape)) })
    }

    /// The dimensions, as NumPy has them; `(1,)` is a single integer. None if nobody has said,
    /// after `from_bytes`.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, pyo3::types::PyTuple>>> {
        self.shape.map(|shape| pyo3::types::PyTuple::new(py, shape.dimensions())).transpose()
    }

    /// The remaining primes.
    #[getter]
    fn level(&self) -> usize {
        self.inner.level()
    }

    /// The bits of the bound on the noise; infinite after `from_bytes` without `noise`.
    #[getter]
    fn noise(&self) -> f64 {
        self.inner.noise_bound()
    }

    /// Bits between the bound on the noise and the maximum: decryption is correct while this is
    /// positive. It is minus infinity after `from_bytes` without `noise`.
    #[getter]
    fn noise_budget(&self) -> f64 {
        self.inner.noise_budget()
    }

    /// The same integers over fewer primes: fewer bytes, less noise, fewer further products.
    fn to_level(&self, py: Python<'_>, level: usize) -> PyResult<Self> {
        let switched = short(py, || self.context.evaluator.to_level(&self.inner, level).map_err(failed))?;
        Ok(self.of(switched, self.shape))
    }

    /// The same integers with fresh randomness and `bits` bits of noise. The noise hides from the
    /// decrypting party how the integers were computed, up to a statistical distance of
    /// `2**(noise - log2(t) - bits + 0.66)` in all slots together.
    fn flood(&self, py: Python<'_>, public_key: &PublicKey, bits: u32) -> PyResult<Self> {
        self.context.same(&public_key.context)?;
        let flooded = short(py, || {
            let evaluator = &self.context.evaluator;
            evaluator.flood(&self.inner, &public_key.key, bits, &mut generator()?).map_err(failed)
        })?;
        Ok(self.of(flooded, self.shape))
    }

    /// The sum of all integers, or of each row of a matrix with `axis=1`. It needs keys of `sums`.
    #[pyo3(signature = (axis=None))]
    pub(super) fn sum(&self, py: Python<'_>, axis: Option<usize>) -> PyResult<Self> {
        let (shape, keys, row) = (self.known()?, self.needed()?, self.context.row());
        let all = || doublings(shape.period().min(row)).collect();
        let (steps, result): (Vec<i64>, Shape) = match (axis, shape.dimensions()[..].len()) {
            (None, _) | (Some(0), 1) => (all(), Shape::NUMBER),
            (Some(1), 2) => {
                shape.check(row)?;
                let rows = shape.dimensions()[0];
                let stride = rows.next_power_of_two();
                let steps = doublings(shape.period() / stride).map(|step| step * stride as i64);
                (steps.collect(), Shape::vector(rows))
            }
            (Some(axis), _) => {
                let remedy = if axis == 0 { ": encrypt the transposed matrix" } else { "" };
                let dimensions = shape.dimensions();
                return Err(failed(format!(
                    "expected axis=1 of a matrix, found axis={axis} of {dimensions:?}{remedy}"
                )));
            }
        };
        let remedy = format!("sums={}", shape.period());
        let inner = (*self.inner).clone();
        let both_rows = result == Shape::NUMBER && shape.period() > row;
        let sum = short(py, || {
            let Context { evaluator, .. } = &*self.context;
            let mut sum = Self::folded(&self.context, inner, steps.into_iter(), keys, &remedy)?;
            if both_rows {
                let swapped = evaluator.swap_rows(&sum, keys).map_err(|error| with_remedy(error, &remedy))?;
                evaluator.add_assign(&mut sum, &swapped).map_err(failed)?;
            }
            Ok(sum)
        })?;
        Ok(self.of(sum, Some(result)))
    }

    /// The product with a vector, or with a matrix: as `@`.
    /// `progress(done, total)` hears of the diagonals of a large matrix.
    #[pyo3(signature = (other, progress=None))]
    fn dot(&self, py: Python<'_>, other: &Bound<'_, PyAny>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        self.product_with(py, other, progress.map(|progress| (progress, "diagonals")))
    }

    /// A polynomial of every integer, with `coefficients[i]` for `x**i`.
    fn polynomial(&self, py: Python<'_>, coefficients: &Bound<'_, PyAny>) -> PyResult<Self> {
        let keys = Arc::clone(self.needed()?);
        self.polynomial_with(py, coefficients, keys)
    }

    fn __add__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.plus(py, other, false)
    }

    fn __radd__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.plus(py, other, false)
    }

    fn __sub__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.plus(py, other, true)
    }

    fn __rsub__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.__neg__(py)?.plus(py, other, false)
    }

    fn __neg__(&self, py: Python<'_>) -> PyResult<Self> {
        let negative = short(py, || self.context.evaluator.neg(&self.inner).map_err(failed))?;
        Ok(self.of(negative, self.shape))
    }

    fn __mul__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Context { evaluator, .. } = &*self.context;
        match operand(other)? {
            Operand::Ciphertext(other) => {
                let other = other.get();
                let keys = self.keys.as_ref().map_or_else(|| other.needed(), Ok)?;
                short(py, || self.product(other, keys))
            }
            Operand::Integer(value) => {
                let product = short(py, || evaluator.mul_integer(&self.inner, value).map_err(failed))?;
                Ok(self.of(product, self.shape))
            }
            Operand::Array(shape, values) => {
                let joined = Shape::joined(self.shape, Some(shape))?;
                let product = short(py, || {
                    let plaintext = self.context.plaintext(shape, &values)?;
                    evaluator.mul_plain(&self.inner, &plaintext).map_err(failed)
                })?;
                Ok(self.of(product, joined))
            }
        }
    }

    fn __rmul__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.__mul__(py, other)
    }

    /// The power, `⌈log2 exponent⌉` products deep.
    fn __pow__(&self, py: Python<'_>, exponent: u32, modulo: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        if modulo.is_some() {
            return Err(failed("expected no other modulus than that of the parameters, found one"));
        }
        let (context, inner, keys) = (Arc::clone(&self.context), Arc::clone(&self.inner), Arc::clone(self.needed()?));
        let power = long(py, None, move |_| {
            let found = context.evaluator.power(&inner, exponent, &keys);
            found.map_err(|error| with_remedy(error, "multiply=True"))
        })?;
        Ok(self.of(power, self.shape))
    }

    /// Refuses a hidden exponent.
    fn __rpow__(&self, _base: &Bound<'_, PyAny>, _modulo: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Err(failed("expected a plain exponent, found a ciphertext"))
    }

    /// The product of a vector or a matrix with a plain matrix or vector, of two vectors, or of a
    /// matrix with an encrypted vector. It needs keys of `matrices`, or of `sums` for vectors.
    fn __matmul__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.product_with(py, other, None)
    }

    /// The product of a plain matrix, or vector, with a vector.
    fn __rmatmul__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        if !self.known()?.is_vector() {
            return Err(failed(
                "expected a vector to the right of a plain matrix, found a matrix: encrypt it transposed",
            ));
        }
        let (shape, numbers) = arrays::integers(&py.import("numpy")?.call_method1("transpose", (other,))?)?;
        self.times_matrix(py, shape, numbers, None)
    }

    /// Refuses every comparison: the numbers are hidden, and a silent `False` would mislead.
    fn __richcmp__(&self, _other: &Bound<'_, PyAny>, _op: CompareOp) -> PyResult<bool> {
        Err(failed(HIDDEN))
    }

    /// Refuses `if x`, likewise.
    fn __bool__(&self) -> PyResult<bool> {
        Err(failed(HIDDEN))
    }

    fn __hash__(slf: PyRef<'_, Self>) -> usize {
        slf.as_ptr() as usize
    }

    fn __repr__(&self) -> String {
        let (name, level, bits) = (&self.context.name, self.inner.level(), self.inner.noise_budget());
        let shape = self.shape.map_or_else(String::new, |shape| format!(", shape {:?}", shape.dimensions()));
        if bits == f64::NEG_INFINITY {
            return format!("<bgv.Ciphertext of {name}, level {level}, of unknown noise{shape}>");
        }
        format!("<bgv.Ciphertext of {name}, level {level}, {bits:.0} bits to spare{shape}>")
    }
}

/// A declared noise.
#[derive(FromPyObject)]
enum Noise {
    Bits(f64),
    Word(String),
}

impl Ciphertext {
    /// A polynomial with these keys.
    pub(super) fn polynomial_with(
        &self,
        py: Python<'_>,
        coefficients: &Bound<'_, PyAny>,
        keys: Arc<bgv::EvaluationKeys>,
    ) -> PyResult<Self> {
        let (_, mut coefficients) = arrays::integers(coefficients)?;
        let (context, inner) = (Arc::clone(&self.context), Arc::clone(&self.inner));
        // the constant is added apart: it leaves the padding of a shape alone
        let constant = coefficients.first_mut().map(std::mem::take);
        let value = long(py, None, move |_| {
            let found = context.evaluator.polynomial(&inner, &coefficients, &keys);
            found.map_err(|error| with_remedy(error, "multiply=True"))
        })?;
        let value = self.of(value, self.shape);
        match constant {
            Some(constant) if constant != 0 => value.plus(py, constant.into_pyobject(py)?.as_any(), false),
            _ => Ok(value),
        }
    }
}
