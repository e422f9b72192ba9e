//! Ciphertexts and their operators.

use super::{Context, EvaluationKeys, Parameters, PublicKey, SecretKey};
use crate::arrays::{self, Numbers};
use crate::errors::{Failed, HIDDEN, failed, malformed};
use crate::randomness::generator;
use crate::shape::{Dimensions, Product, Shape, doublings};
use crate::work::{Progress, long, short};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::PyBytes;
use std::borrow::Cow;
use std::sync::Arc;
use tobari_lattice::ckks::{
    self, Complex, Estimate, LinearTransform, OperationError, Plaintext, Scale, SeededCiphertext,
};
use tobari_lattice::wire::{self, LatticeKind};

/// An encrypted number, vector or matrix. `+`, `-`, `*` and `/` take numbers and arrays of the same
/// shape; a single number fits every shape.
///
/// Products of two ciphertexts, `**`, `@`, `sum`, `dot`, `polynomial` and `conjugate` need keys:
/// give them to `encrypt`, to `from_bytes`, or to `with_keys`. Results inherit them. Levels and
/// scales are aligned where they differ.
#[pyclass(frozen, module = "tobari.ckks")]
pub(super) struct Ciphertext {
    pub(super) context: Arc<Context>,
    pub(super) inner: Arc<ckks::Ciphertext>,
    /// The seeded form, with fewer bytes, if the secret key made the ciphertext.
    seeded: Option<SeededCiphertext>,
    /// None if nobody has said.
    pub(super) shape: Option<Shape>,
    /// Are there complex numbers?
    pub(super) complex: bool,
    pub(super) keys: Option<Arc<ckks::EvaluationKeys>>,
}

/// The text for a division by a ciphertext.
const DIVISOR: &str = "expected a plain divisor, found a ciphertext: a polynomial can approximate 1/x";

/// What stands on the other side of an operator.
enum Operand<'py> {
    Ciphertext(Bound<'py, Ciphertext>),
    Number(f64),
    Array(Shape, Numbers),
}

fn operand<'py>(value: &Bound<'py, PyAny>) -> PyResult<Operand<'py>> {
    if let Ok(other) = value.cast::<Ciphertext>() {
        return Ok(Operand::Ciphertext(other.clone()));
    }
    if let Some(number) = arrays::scalar::<f64>(value) {
        return Ok(Operand::Number(number));
    }
    let (shape, numbers) = arrays::numbers(value)?;
    Ok(Operand::Array(shape, numbers))
}

impl Context {
    /// A plaintext of numbers in all slots of their shape.
    pub(super) fn plaintext(
        &self,
        shape: Shape,
        numbers: &Numbers,
        range: f64,
        scale: &Scale,
        level: usize,
    ) -> PyResult<Plaintext> {
        let (encoder, slots) = (self.encoder.within(range), self.encoder.slots());
        match numbers {
            Numbers::Real(reals) => encoder.encode(&shape.fill(reals, slots)?, scale, level),
            Numbers::Complex(all) => encoder.encode_complex(&shape.fill(all, slots)?, scale, level),
        }
        .map_err(failed)
    }
}

/// An error of an operation; a missing key with the way to make it.
fn with_remedy(error: OperationError, remedy: &str) -> PyErr {
    match error {
        OperationError::MissingKey { .. } => failed(format!("{error}: make the keys with {remedy}")),
        _ => failed(error),
    }
}

impl Ciphertext {
    /// A fresh ciphertext.
    pub(super) fn fresh(
        context: &Arc<Context>,
        inner: ckks::Ciphertext,
        seeded: Option<SeededCiphertext>,
        shape: Option<Shape>,
        complex: bool,
        keys: Option<&EvaluationKeys>,
    ) -> PyResult<Self> {
        let keys = keys.map(|keys| context.same(&keys.context).map(|()| Arc::clone(&keys.keys))).transpose()?;
        Ok(Self { context: Arc::clone(context), inner: Arc::new(inner), seeded, shape, complex, keys })
    }

    /// A result with the keys and the kind of numbers of this one.
    pub(super) fn of(&self, inner: ckks::Ciphertext, shape: Option<Shape>) -> Self {
        let (context, keys) = (Arc::clone(&self.context), self.keys.clone());
        Self { context, inner: Arc::new(inner), seeded: None, shape, complex: self.complex, keys }
    }

    /// A result with the keys and the kind of numbers of both.
    fn of_both(&self, other: &Self, inner: ckks::Ciphertext, shape: Option<Shape>) -> Self {
        let keys = self.keys.clone().or_else(|| other.keys.clone());
        Self { keys, complex: self.complex || other.complex, ..self.of(inner, shape) }
    }

    /// The same with these keys if it has none.
    pub(super) fn or_with(self, keys: &Arc<ckks::EvaluationKeys>) -> Self {
        Self { keys: Some(self.keys.unwrap_or_else(|| Arc::clone(keys))), ..self }
    }

    /// The keys, or an error that says where to give them.
    fn needed(&self) -> PyResult<&Arc<ckks::EvaluationKeys>> {
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

    /// The product of two ciphertexts, slot by slot, rescaled to about their scale.
    pub(super) fn product(&self, other: &Self, keys: &ckks::EvaluationKeys) -> PyResult<Self> {
        let shape = Shape::joined(self.shape, other.shape)?;
        self.context.same(&other.context)?;
        let product = self.context.evaluator.mul_reduced(&self.inner, &other.inner, keys);
        let product = product.map_err(|error| with_remedy(error, "multiply=True"))?;
        Ok(self.of_both(other, product, shape))
    }

    /// The number without what it would add to the padding of another shape.
    fn masked(&self, shape: Option<Shape>) -> PyResult<Cow<'_, ckks::Ciphertext>> {
        let Some(shape) = shape.filter(|shape| shape.has_padding() && self.shape == Some(Shape::NUMBER)) else {
            return Ok(Cow::Borrowed(&self.inner));
        };
        let mask = shape.spread(1.0, false, self.context.encoder.slots())?;
        self.times_slots(&mask).map(Cow::Owned)
    }

    /// The product with real numbers in all slots, one level below, at the same scale.
    fn times_slots(&self, slots: &[f64]) -> PyResult<ckks::Ciphertext> {
        let Context { evaluator, encoder, .. } = &*self.context;
        let (scale, level) = self.prime()?;
        let plaintext = encoder.encode(slots, &scale, level).map_err(failed)?;
        evaluator.rescale(&evaluator.mul_plain(&self.inner, &plaintext).map_err(failed)?).map_err(failed)
    }

    /// The scale of the last prime, and the level.
    fn prime(&self) -> PyResult<(Scale, usize)> {
        let level = self.inner.level();
        let below = level.checked_sub(1).filter(|below| *below > 0);
        let text = "expected a level of at least 2, found 1: no prime is left to divide by";
        Ok((Scale::prime(below.ok_or_else(|| failed(text))?), level))
    }

    /// The sum with an operand, or the difference.
    fn plus(&self, py: Python<'_>, other: &Bound<'_, PyAny>, minus: bool) -> PyResult<Self> {
        let Context { evaluator, encoder, .. } = &*self.context;
        let slots = encoder.slots();
        match operand(other)? {
            Operand::Ciphertext(other) => {
                let other = other.get();
                self.context.same(&other.context)?;
                let shape = Shape::joined(self.shape, other.shape)?;
                let sum = short(py, || {
                    let (a, b) = (self.masked(shape)?, other.masked(shape)?);
                    let (a, b) = evaluator.align(&a, &b).map_err(failed)?;
                    if minus { evaluator.sub(&a, &b) } else { evaluator.add(&a, &b) }.map_err(failed)
                })?;
                Ok(self.of_both(other, sum, shape))
            }
            Operand::Number(value) => {
                let value = if minus { -value } else { value };
                let sum = short(py, || match self.shape.filter(|shape| shape.has_padding()) {
                    None => evaluator.add_constant(&self.inner, value).map_err(failed),
                    Some(shape) => self.plus_slots(&shape.spread(value, false, slots)?),
                })?;
                Ok(self.of(sum, self.shape))
            }
            Operand::Array(shape, mut numbers) => {
                if minus {
                    match &mut numbers {
                        Numbers::Real(all) => all.iter_mut().for_each(|x| *x = -*x),
                        Numbers::Complex(all) => all.iter_mut().for_each(|z| *z = Complex { re: -z.re, im: -z.im }),
                    }
                }
                let joined = Shape::joined(self.shape, Some(shape))?;
                let complex = self.complex || matches!(numbers, Numbers::Complex(_));
                let (shape, numbers) = stretched(shape, numbers, joined);
                let sum = short(py, || {
                    let a = self.masked(joined)?;
                    let plaintext = self.context.plaintext(shape, &numbers, 1.0, a.scale(), a.level())?;
                    evaluator.add_plain(&a, &plaintext).map_err(failed)
                })?;
                Ok(Self { complex, ..self.of(sum, joined) })
            }
        }
    }

    /// The sum with real numbers in all slots.
    fn plus_slots(&self, slots: &[f64]) -> PyResult<ckks::Ciphertext> {
        let Context { evaluator, encoder, .. } = &*self.context;
        let plaintext = encoder.encode(slots, self.inner.scale(), self.inner.level()).map_err(failed)?;
        evaluator.add_plain(&self.inner, &plaintext).map_err(failed)
    }

    /// The sum of rotations by steps that double.
    fn folded(
        context: &Context,
        inner: ckks::Ciphertext,
        steps: impl Iterator<Item = i64>,
        keys: &ckks::EvaluationKeys,
        remedy: &str,
    ) -> PyResult<ckks::Ciphertext> {
        let mut sum = inner;
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
        numbers: Numbers,
        progress: Progress<'_, '_>,
    ) -> PyResult<Self> {
        let (context, inner, keys) = (Arc::clone(&self.context), Arc::clone(&self.inner), Arc::clone(self.needed()?));
        let product = Product::new(self.known()?, shape, context.encoder.slots())?;
        let (result, (scale, level)) = (product.result, self.prime()?);
        let complex = self.complex || matches!(numbers, Numbers::Complex(_));
        let found = long(py, progress, move |watch| {
            let (encoder, evaluator, slots) = (&context.encoder, &context.evaluator, context.encoder.slots());
            let each = || watch.step().map_err(Failed);
            let transform = match &numbers {
                Numbers::Real(all) => {
                    let diagonals = product.diagonals(all, slots);
                    watch.expect(diagonals.len());
                    LinearTransform::new_with(encoder, &diagonals, &scale, level, each)
                }
                Numbers::Complex(all) => {
                    let diagonals = product.diagonals(all, slots);
                    watch.expect(diagonals.len());
                    LinearTransform::new_with(encoder, &diagonals, &scale, level, each)
                }
            };
            let transform = transform.map_err(|Failed(error)| error)?;
            let remedy = format!("matrices=[{}]", product.dimensions());
            let wide = evaluator.transform(&inner, &transform, &keys).map_err(|error| with_remedy(error, &remedy))?;
            let wide = evaluator.rescale(&wide).map_err(failed)?;
            Self::folded(&context, wide, product.folds(), &keys, &remedy)
        })?;
        Ok(Self { complex, ..self.of(found, Some(result)) })
    }

    /// The product of an encrypted matrix with an encrypted vector: the vector is spread over the
    /// rows, one level below.
    fn times_vector(&self, py: Python<'_>, vector: &Self, progress: Progress<'_, '_>) -> PyResult<Self> {
        let (a, x, keys) = (self.known()?, vector.known()?, self.needed()?);
        let [rows, columns] = a.dimensions().try_into().map_err(|_| failed("expected a matrix, found a vector"))?;
        let spread = Shape::new(&[columns, a.period()])?;
        let stride = a.period() / columns.next_power_of_two();
        let mut ones = vec![0.0; columns * a.period()];
        for (j, row) in ones.chunks_exact_mut(a.period()).enumerate() {
            row[stride * j..][..rows].fill(1.0);
        }
        if x != Shape::vector(columns) {
            let (found, shape) = (x.dimensions(), a.dimensions());
            return Err(failed(format!(
                "expected a vector of {columns} numbers for a matrix of {shape:?}, found {found:?}"
            )));
        }
        let keyed = Self { keys: Some(Arc::clone(keys)), ..vector.of((*vector.inner).clone(), vector.shape) };
        let all = keyed.times_matrix(py, spread, Numbers::Real(ones.into()), progress)?;
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
            Operand::Number(_) => Err(failed("expected a vector or a matrix, found a number: use * for numbers")),
        }
    }
}

/// A single number as an array of another shape, so that it leaves the padding alone.
fn stretched(shape: Shape, numbers: Numbers, joined: Option<Shape>) -> (Shape, Numbers) {
    let Some(joined) = joined.filter(|joined| shape == Shape::NUMBER && *joined != shape) else {
        return (shape, numbers);
    };
    let numbers = match numbers {
        Numbers::Real(one) => Numbers::Real(vec![one[0]; joined.count()].into()),
        Numbers::Complex(one) => Numbers::Complex(vec![one[0]; joined.count()].into()),
    };
    (joined, numbers)
}

#[pymethods]
impl Ciphertext {
    /// Makes NumPy leave operators with arrays to this class.
    #[classattr]
    #[pyo3(name = "__array_ufunc__")]
    fn array_ufunc() -> Option<i64> {
        None
    }

    /// Reads the bytes of `to_bytes`. They do not show how large the numbers are, so operations
    /// need a `range`: it declares a fresh encryption of numbers of at most this absolute value. If
    /// they are larger after all, results may be wrong. Nor do they show the shape: without
    /// `shape`, `decrypt` returns all slots.
    #[staticmethod]
    #[pyo3(signature = (parameters, data, range=None, shape=None, keys=None, complex=false))]
    fn from_bytes(
        py: Python<'_>,
        parameters: &Parameters,
        data: &[u8],
        range: Option<f64>,
        shape: Option<Dimensions>,
        keys: Option<&EvaluationKeys>,
        complex: bool,
    ) -> PyResult<Self> {
        let context = &parameters.context;
        let shape = shape.map(|shape| context.shape(&shape)).transpose()?;
        let is_seeded = data.get(1) == Some(&(LatticeKind::CkksSeededCiphertext as u8));
        let (seeded, mut inner) = short(py, || {
            if is_seeded {
                let seeded = wire::decode_ckks_seeded_ciphertext(data, &context.parameters).map_err(malformed)?;
                let inner = seeded.expand();
                return Ok((Some(seeded), inner));
            }
            Ok((None, wire::decode_ckks_ciphertext(data, &context.parameters).map_err(malformed)?))
        })?;
        range.into_iter().for_each(|range| inner.declare(range));
        Self::fresh(context, inner, seeded, shape, complex, keys)
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
                Some(seeded) => wire::encode_ckks_seeded_ciphertext(seeded),
                None => wire::encode_ckks_ciphertext(&self.inner).map_err(failed)?,
            })
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The same ciphertext with keys for its operators.
    fn with_keys(&self, keys: &EvaluationKeys) -> PyResult<Self> {
        let (inner, seeded) = ((*self.inner).clone(), self.seeded.clone());
        Self::fresh(&self.context, inner, seeded, self.shape, self.complex, Some(keys))
    }

    /// The same numbers as another shape: a matrix column by column, or a vector with its padding.
    fn with_shape(&self, shape: Dimensions) -> PyResult<Self> {
        let shape = self.context.shape(&shape)?.instead_of(self.known()?, self.context.encoder.slots())?;
        Ok(Self { seeded: self.seeded.clone(), ..self.of((*self.inner).clone(), Some(shape)) })
    }

    /// The dimensions, as NumPy has them; `(1,)` is a single number. None if nobody has said, after
    /// `from_bytes`.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, pyo3::types::PyTuple>>> {
        self.shape.map(|shape| pyo3::types::PyTuple::new(py, shape.dimensions())).transpose()
    }

    /// The remaining primes.
    #[getter]
    fn level(&self) -> usize {
        self.inner.level()
    }

    /// The factor of the numbers in the message.
    #[getter]
    fn scale(&self) -> Option<f64> {
        self.inner.scale().to_f64(&self.context.parameters)
    }

    /// A bound on the absolute values of the numbers, from the declared ranges; none after
    /// `from_bytes` without a range.
    #[getter]
    fn magnitude(&self) -> Option<f64> {
        self.inner.estimate().map(Estimate::magnitude)
    }

    /// A bound on their errors, likewise.
    #[getter]
    fn error(&self) -> Option<f64> {
        self.inner.estimate().map(Estimate::error)
    }

    /// Bits that bound the noise of each coefficient, likewise: a `FloodBudget` must hide them.
    #[getter]
    fn noise_bits(&self) -> Option<u32> {
        self.inner.estimate().map(Estimate::noise_bits)
    }

    /// The same numbers over fewer primes: fewer bytes, fewer further products.
    fn to_level(&self, py: Python<'_>, level: usize) -> PyResult<Self> {
        let dropped = short(py, || self.context.evaluator.to_level(&self.inner, level).map_err(failed))?;
        Ok(self.of(dropped, self.shape))
    }

    /// The same numbers at the scale of another ciphertext, one level below. Sums do this
    /// themselves.
    fn with_scale_of(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        self.context.same(&other.context)?;
        let scaled = short(py, || self.context.evaluator.set_scale(&self.inner, other.inner.scale()).map_err(failed))?;
        Ok(self.of(scaled, self.shape))
    }

    /// The same numbers with fresh randomness, and a random error of `bits` bits at their scale. It
    /// hides from the decrypting party how the numbers were computed: each bit above `noise_bits`
    /// halves what can be told. It makes no result safe to show to others; `FloodBudget` does.
    fn flood(&self, py: Python<'_>, public_key: &PublicKey, bits: u32) -> PyResult<Self> {
        self.context.same(&public_key.context)?;
        let flooded = short(py, || {
            let evaluator = &self.context.evaluator;
            evaluator.flood(&self.inner, &public_key.key, bits, &mut generator()?).map_err(failed)
        })?;
        Ok(self.of(flooded, self.shape))
    }

    /// The sum of all numbers, or of each row of a matrix with `axis=1`. It needs keys of `sums`.
    #[pyo3(signature = (axis=None))]
    fn sum(&self, py: Python<'_>, axis: Option<usize>) -> PyResult<Self> {
        let (shape, keys) = (self.known()?, self.needed()?);
        let [rows, ..] = shape.dimensions()[..] else { unreachable!("a shape has rows") };
        let (steps, result): (Vec<i64>, Shape) = match axis {
            None => (doublings(shape.period()).collect(), Shape::NUMBER),
            Some(0) if shape.is_vector() => (doublings(shape.period()).collect(), Shape::NUMBER),
            Some(1) if !shape.is_vector() => {
                let stride = rows.next_power_of_two() as i64;
                let columns = shape.period() / rows.next_power_of_two();
                (doublings(columns).map(|step| step * stride).collect(), Shape::vector(rows))
            }
            Some(axis) => {
                let remedy = if axis == 0 && !shape.is_vector() { ": encrypt the transposed matrix" } else { "" };
                let dimensions = shape.dimensions();
                return Err(failed(format!(
                    "expected axis=1 of a matrix, found axis={axis} of {dimensions:?}{remedy}"
                )));
            }
        };
        let remedy = format!("sums={}", shape.period());
        let inner = (*self.inner).clone();
        let sum = short(py, || Self::folded(&self.context, inner, steps.into_iter(), keys, &remedy))?;
        Ok(self.of(sum, Some(result)))
    }

    /// The product with a vector, or with a matrix: as `@`.
    /// `progress(done, total)` hears of the diagonals of a large matrix.
    #[pyo3(signature = (other, progress=None))]
    fn dot(&self, py: Python<'_>, other: &Bound<'_, PyAny>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        self.product_with(py, other, progress.map(|progress| (progress, "diagonals")))
    }

    /// A polynomial of every number, with `coefficients[i]` for `x**i`, at the scale of `x`.
    fn polynomial(&self, py: Python<'_>, coefficients: &Bound<'_, PyAny>) -> PyResult<Self> {
        let keys = Arc::clone(self.needed()?);
        self.polynomial_with(py, coefficients, keys)
    }

    /// The conjugates of complex numbers. It needs keys with `conjugate=True`.
    fn conjugate(&self, py: Python<'_>) -> PyResult<Self> {
        let keys = self.needed()?;
        let conjugated = short(py, || {
            let found = self.context.evaluator.conjugate(&self.inner, keys);
            found.map_err(|error| with_remedy(error, "conjugate=True"))
        })?;
        Ok(self.of(conjugated, self.shape))
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

    /// With an `int`, the level stays; with any other number, an array or a ciphertext, it falls by
    /// one.
    fn __mul__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Context { evaluator, .. } = &*self.context;
        if let Some(factor) = arrays::scalar::<i64>(other) {
            let product = short(py, || evaluator.mul_integer(&self.inner, factor).map_err(failed))?;
            return Ok(self.of(product, self.shape));
        }
        match operand(other)? {
            Operand::Ciphertext(other) => {
                let other = other.get();
                let keys = self.keys.as_ref().map_or_else(|| other.needed(), Ok)?;
                short(py, || self.product(other, keys))
            }
            Operand::Number(factor) => {
                let product = short(py, || {
                    let product = evaluator.mul_constant(&self.inner, factor).map_err(failed)?;
                    evaluator.rescale(&product).map_err(failed)
                })?;
                Ok(self.of(product, self.shape))
            }
            Operand::Array(shape, numbers) => {
                let joined = Shape::joined(self.shape, Some(shape))?;
                let complex = self.complex || matches!(numbers, Numbers::Complex(_));
                let product = short(py, || {
                    let (scale, level) = self.prime()?;
                    let plaintext = self.context.plaintext(shape, &numbers, 1.0, &scale, level)?;
                    let product = evaluator.mul_plain(&self.inner, &plaintext).map_err(failed)?;
                    evaluator.rescale(&product).map_err(failed)
                })?;
                Ok(Self { complex, ..self.of(product, joined) })
            }
        }
    }

    fn __rmul__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.__mul__(py, other)
    }

    /// The quotient by a number, or by an array of the same shape.
    fn __truediv__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        if other.cast::<Self>().is_ok() {
            return Err(failed(DIVISOR));
        }
        let numpy = py.import("numpy")?;
        if !numpy.call_method1("all", (other,))?.extract::<bool>()? {
            return Err(failed("expected divisors other than 0, found 0"));
        }
        let inverse = numpy.call_method1("true_divide", (1.0, other))?;
        self.__mul__(py, &inverse)
    }

    /// Refuses a hidden divisor.
    fn __rtruediv__(&self, _other: &Bound<'_, PyAny>) -> PyResult<Self> {
        Err(failed(DIVISOR))
    }

    /// The power, `⌈log2 exponent⌉` levels below.
    fn __pow__(&self, py: Python<'_>, exponent: u32, modulo: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        if modulo.is_some() {
            return Err(failed("expected no modulus of a power of approximate numbers, found one"));
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
        Err(failed("expected a plain exponent, found a ciphertext: a polynomial can approximate a power"))
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
        let (shape, numbers) = arrays::numbers(&py.import("numpy")?.call_method1("transpose", (other,))?)?;
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
        let (name, level, scale) = (&self.context.name, self.inner.level(), self.inner.scale());
        let shape = self.shape.map_or_else(String::new, |shape| format!(", shape {:?}", shape.dimensions()));
        format!("<ckks.Ciphertext of {name}, level {level}, scale {scale}{shape}>")
    }
}

impl Ciphertext {
    /// A polynomial with these keys.
    pub(super) fn polynomial_with(
        &self,
        py: Python<'_>,
        coefficients: &Bound<'_, PyAny>,
        keys: Arc<ckks::EvaluationKeys>,
    ) -> PyResult<Self> {
        let coefficients = arrays::reals(coefficients)?;
        let (context, inner) = (Arc::clone(&self.context), Arc::clone(&self.inner));
        let constant = coefficients.first().copied().unwrap_or(0.0);
        let value = long(py, None, move |_| {
            let found = context.evaluator.polynomial(&inner, &coefficients, &keys);
            found.map_err(|error| with_remedy(error, "multiply=True"))
        })?;
        let value = self.of(value, self.shape);
        match self.shape.filter(|shape| shape.has_padding() && constant != 0.0) {
            None => Ok(value),
            // the constant stands in the padding, too
            Some(shape) => {
                let padding = shape.spread(-constant, true, self.context.encoder.slots())?;
                let inner = short(py, || value.plus_slots(&padding))?;
                Ok(value.of(inner, self.shape))
            }
        }
    }

    /// The decrypted slots as an array: of the shape, or of so many slots.
    pub(super) fn array<'py>(
        &self,
        py: Python<'py>,
        slots: &[Complex],
        count: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let dimensions = match (count, self.shape) {
            (None, Some(shape)) => shape,
            (count, _) => Shape::vector(count.unwrap_or(slots.len())),
        };
        let most = slots.len();
        if count.is_some_and(|count| count > most) {
            return Err(failed(format!("expected a count of at most {most}, found {}", count.unwrap_or(0))));
        }
        let found = match count {
            Some(count) => slots[..count].to_vec(),
            None => dimensions.read(slots),
        };
        if self.complex {
            let found: Vec<numpy::Complex64> = found.iter().map(|z| numpy::Complex64::new(z.re, z.im)).collect();
            return arrays::shaped(py, &found, dimensions);
        }
        arrays::shaped(py, &found.iter().map(|z| z.re).collect::<Vec<f64>>(), dimensions)
    }

    /// The shape after a rotation.
    pub(super) fn turned(&self) -> Option<Shape> {
        self.shape.map(|shape| Shape::vector(shape.period()))
    }

    /// Checks that a key is for this ciphertext's parameters.
    pub(super) fn check(&self, secret: &SecretKey) -> PyResult<()> {
        secret.context.same(&self.context)
    }
}
