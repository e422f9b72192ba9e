//! `tobari.ckks`: vectors of approximate numbers under encryption.
//!
//! A message holds the numbers multiplied by a scale, which is exact. A factor (a number or a
//! vector) is encoded at the scale of the prime that the product is divided by, so **scales stay**
//! and only the level falls. A product of two ciphertexts has a scale near theirs, and
//! [`Ciphertext::with_scale_of`] adapts it to another ciphertext's. Different levels are made equal
//! by dropping primes, which changes no number.

use crate::arrays;
use crate::errors::{HIDDEN, failed, malformed};
use crate::randomness::generator;
use crate::work::{Watch, long, short};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::PyBytes;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tobari_lattice::ckks::{self, Decryptor, Encoder, Estimate, Evaluator, Scale, SeededCiphertext};
use tobari_lattice::params::{LatticeParameters, NamedSet, Security};
use tobari_lattice::rlwe;
use tobari_lattice::wire::{self, LatticeKind};
use zeroize::Zeroizing;

/// Shared by all objects of a set.
struct Context {
    set: NamedSet,
    parameters: LatticeParameters,
    encoder: Encoder,
    evaluator: Evaluator,
}

/// The contexts in use: objects of one set must share a context to be combined.
static CONTEXTS: Mutex<BTreeMap<&'static str, Weak<Context>>> = Mutex::new(BTreeMap::new());

impl Context {
    /// The context of a set: the one in use, or a new one.
    fn of(set: NamedSet) -> PyResult<Arc<Self>> {
        let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = contexts.get(set.name).and_then(Weak::upgrade) {
            return Ok(context);
        }
        let context = Arc::new(Self::new(set)?);
        contexts.insert(set.name, Arc::downgrade(&context));
        Ok(context)
    }

    fn new(set: NamedSet) -> PyResult<Self> {
        let parameters = set.parameters().map_err(failed)?;
        let encoder = Encoder::new(&parameters).map_err(failed)?;
        let evaluator = Evaluator::new(&parameters).map_err(failed)?;
        Ok(Self { set, parameters, encoder, evaluator })
    }

    /// Checks a level; without one, the highest level.
    fn level(&self, level: Option<usize>) -> PyResult<usize> {
        let most = self.parameters.data_primes();
        let level = level.unwrap_or(most);
        let there = (1..=most).contains(&level);
        if there { Ok(level) } else { Err(failed(format!("expected a level from 1 to {most}, found {level}"))) }
    }

    fn same(&self, other: &Self) -> PyResult<()> {
        let (expected, found) = (self.set.name, other.set.name);
        if expected == found {
            Ok(())
        } else {
            Err(failed(format!("expected an object of {expected}, found one of {found}")))
        }
    }

    /// Bits of the default scale: those of the primes that rescaling divides by.
    fn scale_bits(&self) -> u32 {
        self.set.data.last().copied().unwrap_or(0)
    }
}

/// A set of parameters for approximate numbers, by its name in `tobari info`.
///
/// >>> from tobari import ckks
/// >>> ckks.Parameters("ckks-a")
/// <ckks.Parameters ckks-a: 8192 slots, scale 2^30, 6 levels, 128 bits of security>
#[pyclass(frozen, module = "tobari.ckks")]
struct Parameters {
    context: Arc<Context>,
}

#[pymethods]
impl Parameters {
    #[new]
    #[pyo3(signature = (name="ckks-a"))]
    fn new(py: Python<'_>, name: &str) -> PyResult<Self> {
        let set = NamedSet::from_name(name)
            .filter(|set| set.plaintext_modulus.is_none())
            .ok_or_else(|| failed(format!("expected a set of parameters for approximate numbers, found {name:?}")))?;
        Ok(Self { context: short(py, || Context::of(set))? })
    }

    /// The name of the set.
    #[getter]
    fn name(&self) -> &'static str {
        self.context.set.name
    }

    /// Numbers of a ciphertext.
    #[getter]
    fn slots(&self) -> usize {
        self.context.encoder.slots()
    }

    /// `log2` of the default scale.
    #[getter]
    fn scale_bits(&self) -> u32 {
        self.context.scale_bits()
    }

    /// Primes of a fresh ciphertext: each product uses one.
    #[getter]
    fn levels(&self) -> usize {
        self.context.parameters.data_primes()
    }

    /// Bits of security, by the guidelines of 2024.
    #[getter]
    fn security_bits(&self) -> Option<u32> {
        self.context.parameters.security().map(Security::bits)
    }

    fn __repr__(&self) -> String {
        let (name, slots, scale) = (self.name(), self.slots(), self.scale_bits());
        let (levels, bits) = (self.levels(), self.security_bits().unwrap_or(0));
        format!("<ckks.Parameters {name}: {slots} slots, scale 2^{scale}, {levels} levels, {bits} bits of security>")
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().name() == self.name())
    }

    fn __hash__(&self) -> u64 {
        self.name().bytes().fold(19, |hash: u64, byte| hash.wrapping_mul(31).wrapping_add(byte.into()))
    }
}

/// Encrypts, decrypts, and makes all other keys. Its secret is never printed or pickled, and is
/// wiped on release.
#[pyclass(frozen, module = "tobari.ckks")]
struct SecretKey {
    context: Arc<Context>,
    key: Arc<rlwe::SecretKey>,
}

#[pymethods]
impl SecretKey {
    /// A new key from the system's randomness.
    #[new]
    fn new(py: Python<'_>, parameters: &Parameters) -> PyResult<Self> {
        let context = Arc::clone(&parameters.context);
        let key = short(py, || Ok(rlwe::SecretKey::generate(&context.parameters, &mut generator()?)))?;
        Ok(Self { context, key: Arc::new(key) })
    }

    /// Reads the bytes of `to_bytes`.
    #[staticmethod]
    fn from_bytes(parameters: &Parameters, data: &[u8]) -> PyResult<Self> {
        let context = Arc::clone(&parameters.context);
        let key = wire::decode_ring_secret_key(data, &context.parameters).map_err(malformed)?;
        Ok(Self { context, key: Arc::new(key) })
    }

    /// The whole key, secret: Python's copy is not wiped.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &wire::encode_ring_secret_key(&self.key))
    }

    /// A public key, with which anybody can encrypt.
    fn public_key(&self, py: Python<'_>) -> PyResult<PublicKey> {
        let key = short(py, || Ok(rlwe::PublicKey::generate(&self.key, &mut generator()?)))?;
        Ok(PublicKey { context: Arc::clone(&self.context), key: Arc::new(key) })
    }

    /// The server's keys: for products, for rotations by these steps, and for sums of up to `sums`
    /// slots, at a level and below.
    #[pyo3(signature = (rotations=Vec::new(), multiply=true, level=None, progress=None, sums=1))]
    fn evaluation_keys(
        &self,
        py: Python<'_>,
        mut rotations: Vec<i64>,
        multiply: bool,
        level: Option<usize>,
        progress: Option<&Bound<'_, PyAny>>,
        sums: usize,
    ) -> PyResult<EvaluationKeys> {
        let most = self.context.encoder.slots();
        if !(1..=most).contains(&sums) {
            return Err(failed(format!("expected sums of 1 to {most} slots, found {sums}")));
        }
        // sums of a number of slots that is no power of two need the next one
        let steps = (0..sums.next_power_of_two().trailing_zeros()).map(|log| 1 << log);
        rotations.extend(steps.filter(|step| !rotations.contains(step)).collect::<Vec<i64>>());
        let (context, key, level) = (Arc::clone(&self.context), Arc::clone(&self.key), self.context.level(level)?);
        let parameters = context.parameters.clone();
        let keys = long(py, progress.map(|progress| (progress, "keys")), move |watch: &Watch| {
            let mut rng = generator()?;
            watch.expect(rotations.len() + usize::from(multiply));
            let mut keys = ckks::EvaluationKeys::new(&parameters);
            if multiply {
                keys.add_relinearization(&key, level, &mut rng).map_err(failed)?;
                watch.step()?;
            }
            for steps in rotations {
                keys.add_rotation(&key, steps, level, &mut rng).map_err(failed)?;
                watch.step()?;
            }
            Ok(keys)
        })?;
        Ok(EvaluationKeys { context, keys: Arc::new(keys) })
    }

    /// Encrypts numbers, at most one for each slot; the other slots are 0. The ciphertext has half
    /// the bytes of one from a public key.
    ///
    /// `range` is the largest absolute value that a number may have. It is not secret: operations
    /// refuse results that could exceed the modulus, and what they refuse depends on it.
    #[pyo3(signature = (values, level=None, scale_bits=None, range=1.0))]
    fn encrypt(
        &self,
        py: Python<'_>,
        values: &Bound<'_, PyAny>,
        level: Option<usize>,
        scale_bits: Option<u32>,
        range: f64,
    ) -> PyResult<Ciphertext> {
        let (values, level) = (arrays::reals(values)?, self.context.level(level)?);
        let scale = Scale::power_of_two(scale_bits.unwrap_or_else(|| self.context.scale_bits()));
        let seeded = short(py, || {
            let plaintext = self.context.encoder.within(range).encode(&values, &scale, level).map_err(failed)?;
            plaintext.encrypt_seeded(&self.key, &mut generator()?).map_err(failed)
        })?;
        Ok(Ciphertext::of_seeded(&self.context, seeded))
    }

    /// Decrypts the first `count` slots, or all; with `bits`, rounds to multiples of `2**-bits`.
    /// **Never give exact results to a person who may see ciphertexts**: their error reveals the
    /// key.
    #[pyo3(signature = (ciphertext, count=None, bits=None))]
    fn decrypt<'py>(
        &self,
        py: Python<'py>,
        ciphertext: &Ciphertext,
        count: Option<usize>,
        bits: Option<u32>,
    ) -> PyResult<Bound<'py, numpy::PyArray1<f64>>> {
        self.context.same(&ciphertext.context)?;
        let slots: Zeroizing<Vec<f64>> = short(py, || {
            let holder = Decryptor::new(&self.key, &self.context.encoder).map_err(failed)?;
            match bits {
                Some(bits) => holder.rounded(&ciphertext.inner, bits).map_err(failed),
                None => holder.decrypt(&ciphertext.inner).map_err(failed),
            }
        })?;
        arrays::array(py, &slots, count)
    }

    fn __repr__(&self) -> String {
        format!("<ckks.SecretKey of {}>", self.context.set.name)
    }
}

/// Encrypts.
#[pyclass(frozen, module = "tobari.ckks")]
struct PublicKey {
    context: Arc<Context>,
    key: Arc<rlwe::PublicKey>,
}

#[pymethods]
impl PublicKey {
    /// Reads the bytes of `to_bytes`.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, parameters: &Parameters, data: &[u8]) -> PyResult<Self> {
        let context = Arc::clone(&parameters.context);
        let key = short(py, || wire::decode_ring_public_key(data, &context.parameters).map_err(malformed))?;
        Ok(Self { context, key: Arc::new(key) })
    }

    /// Its bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &wire::encode_ring_public_key(&self.key))
    }

    /// Encrypts numbers, at most one for each slot; the other slots are 0. `range` is as for
    /// `SecretKey.encrypt`.
    #[pyo3(signature = (values, level=None, scale_bits=None, range=1.0))]
    fn encrypt(
        &self,
        py: Python<'_>,
        values: &Bound<'_, PyAny>,
        level: Option<usize>,
        scale_bits: Option<u32>,
        range: f64,
    ) -> PyResult<Ciphertext> {
        let (values, level) = (arrays::reals(values)?, self.context.level(level)?);
        let scale = Scale::power_of_two(scale_bits.unwrap_or_else(|| self.context.scale_bits()));
        let inner = short(py, || {
            let plaintext = self.context.encoder.within(range).encode(&values, &scale, level).map_err(failed)?;
            plaintext.encrypt(&self.key, &mut generator()?).map_err(failed)
        })?;
        Ok(Ciphertext::of(&self.context, inner))
    }

    fn __repr__(&self) -> String {
        format!("<ckks.PublicKey of {}>", self.context.set.name)
    }
}

/// The server's keys for products and rotations. Public.
#[pyclass(frozen, module = "tobari.ckks")]
struct EvaluationKeys {
    context: Arc<Context>,
    keys: Arc<ckks::EvaluationKeys>,
}

#[pymethods]
impl EvaluationKeys {
    /// Reads the bytes of `to_bytes`.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, parameters: &Parameters, data: &[u8]) -> PyResult<Self> {
        let context = Arc::clone(&parameters.context);
        let keys = short(py, || wire::decode_ckks_evaluation_keys(data, &context.parameters).map_err(malformed))?;
        Ok(Self { context, keys: Arc::new(keys) })
    }

    /// Their bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = short(py, || Ok(wire::encode_ckks_evaluation_keys(&self.keys)))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Bytes in memory.
    #[getter]
    fn memory(&self) -> usize {
        self.keys.memory()
    }

    /// The product of two ciphertexts, slot by slot, rescaled: one level below.
    fn mul(&self, py: Python<'_>, a: &Ciphertext, b: &Ciphertext) -> PyResult<Ciphertext> {
        self.context.same(&a.context)?;
        let product = short(py, || {
            let (a, b) = a.levelled(b)?;
            self.context.evaluator.mul_rescale(&a, &b, &self.keys).map_err(failed)
        })?;
        Ok(Ciphertext::of(&self.context, product))
    }

    /// The sum of the first `count` slots, or of all, in slot 0. If the sum is over all slots,
    /// every slot has it. `count` is a power of two; unused slots are 0 and can be counted. The
    /// keys need `sums=count`.
    #[pyo3(signature = (ciphertext, count=None))]
    fn sum(&self, py: Python<'_>, ciphertext: &Ciphertext, count: Option<usize>) -> PyResult<Ciphertext> {
        self.context.same(&ciphertext.context)?;
        let count = count.unwrap_or_else(|| self.context.encoder.slots());
        let sum = short(py, || self.context.evaluator.sum_slots(&ciphertext.inner, count, &self.keys).map_err(failed))?;
        Ok(Ciphertext::of(&self.context, sum))
    }

    /// The inner product of two ciphertexts over the first `count` slots, or all: the `sum` of
    /// `mul`.
    #[pyo3(signature = (a, b, count=None))]
    fn dot(&self, py: Python<'_>, a: &Ciphertext, b: &Ciphertext, count: Option<usize>) -> PyResult<Ciphertext> {
        self.sum(py, &self.mul(py, a, b)?, count)
    }

    /// Rotates the slots: slot `j` gets the value of slot `j + steps`, cyclically.
    fn rotate(&self, py: Python<'_>, ciphertext: &Ciphertext, steps: i64) -> PyResult<Ciphertext> {
        self.context.same(&ciphertext.context)?;
        let turned = short(py, || self.context.evaluator.rotate(&ciphertext.inner, steps, &self.keys).map_err(failed))?;
        Ok(Ciphertext::of(&self.context, turned))
    }

    /// Evaluates a polynomial in every slot, with `coefficients[i]` for `x**i`; the result has the
    /// scale of `x`.
    fn polynomial(
        &self,
        py: Python<'_>,
        ciphertext: &Ciphertext,
        coefficients: &Bound<'_, PyAny>,
    ) -> PyResult<Ciphertext> {
        self.context.same(&ciphertext.context)?;
        let coefficients = arrays::reals(coefficients)?;
        let value = short(py, || {
            let evaluator = &self.context.evaluator;
            evaluator.polynomial(&ciphertext.inner, &coefficients, &self.keys).map_err(failed)
        })?;
        Ok(Ciphertext::of(&self.context, value))
    }

    fn __repr__(&self) -> String {
        format!("<ckks.EvaluationKeys of {}, {} bytes in memory>", self.context.set.name, self.keys.memory())
    }
}

/// An encrypted vector. `+`, `-` and `*` take numbers and arrays, `+` and `-` ciphertexts too,
/// whose levels and scales they align; `EvaluationKeys` has the rest.
#[pyclass(frozen, module = "tobari.ckks")]
struct Ciphertext {
    context: Arc<Context>,
    inner: Arc<ckks::Ciphertext>,
    /// The seeded form, with fewer bytes, if the secret key made the ciphertext.
    seeded: Option<SeededCiphertext>,
}

impl Ciphertext {
    fn of(context: &Arc<Context>, inner: ckks::Ciphertext) -> Self {
        Self { context: Arc::clone(context), inner: Arc::new(inner), seeded: None }
    }

    fn of_seeded(context: &Arc<Context>, seeded: SeededCiphertext) -> Self {
        Self { context: Arc::clone(context), inner: Arc::new(seeded.expand()), seeded: Some(seeded) }
    }

    /// Both at the lower of their levels.
    fn levelled<'a>(&'a self, other: &'a Self) -> PyResult<(Cow<'a, ckks::Ciphertext>, Cow<'a, ckks::Ciphertext>)> {
        self.context.same(&other.context)?;
        let level = self.inner.level().min(other.inner.level());
        let at = |one: &'a ckks::Ciphertext| match one.level() == level {
            true => Ok(Cow::Borrowed(one)),
            false => self.context.evaluator.drop_to(one, level).map(Cow::Owned).map_err(failed),
        };
        Ok((at(&self.inner)?, at(&other.inner)?))
    }

    /// The sum with an operand, or the difference.
    fn plus(&self, py: Python<'_>, other: &Bound<'_, PyAny>, minus: bool) -> PyResult<Self> {
        let Context { evaluator, encoder, .. } = &*self.context;
        let sum = if let Ok(other) = other.cast::<Self>() {
            let other = other.get();
            short(py, || {
                self.context.same(&other.context)?;
                let (a, b) = evaluator.align(&self.inner, &other.inner).map_err(failed)?;
                if minus { evaluator.sub(&a, &b) } else { evaluator.add(&a, &b) }.map_err(failed)
            })?
        } else if let Some(value) = arrays::scalar::<f64>(other) {
            let value = if minus { -value } else { value };
            short(py, || evaluator.add_constant(&self.inner, value).map_err(failed))?
        } else {
            let mut values = arrays::reals(other)?;
            if minus {
                values.iter_mut().for_each(|value| *value = -*value);
            }
            short(py, || {
                let plaintext = encoder.encode(&values, self.inner.scale(), self.inner.level()).map_err(failed)?;
                evaluator.add_plain(&self.inner, &plaintext).map_err(failed)
            })?
        };
        Ok(Self::of(&self.context, sum))
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

    /// Reads the bytes of `to_bytes`. They do not show how large the numbers are, so operations
    /// need a `range`: it declares a fresh encryption of numbers of at most this absolute value. If
    /// they are larger after all, results may be wrong.
    #[staticmethod]
    #[pyo3(signature = (parameters, data, range=None))]
    fn from_bytes(py: Python<'_>, parameters: &Parameters, data: &[u8], range: Option<f64>) -> PyResult<Self> {
        let context = &parameters.context;
        if data.get(1) == Some(&(LatticeKind::CkksSeededCiphertext as u8)) {
            let seeded =
                short(py, || wire::decode_ckks_seeded_ciphertext(data, &context.parameters).map_err(malformed))?;
            let mut inner = seeded.expand();
            range.into_iter().for_each(|range| inner.declare(range));
            return Ok(Self { context: Arc::clone(context), inner: Arc::new(inner), seeded: Some(seeded) });
        }
        let mut inner = short(py, || wire::decode_ckks_ciphertext(data, &context.parameters).map_err(malformed))?;
        range.into_iter().for_each(|range| inner.declare(range));
        Ok(Self::of(context, inner))
    }

    /// Its bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = short(py, || {
            Ok(match &self.seeded {
                Some(seeded) => wire::encode_ckks_seeded_ciphertext(seeded),
                None => wire::encode_ckks_ciphertext(&self.inner),
            })
        })?;
        Ok(PyBytes::new(py, &bytes))
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

    /// The same numbers over fewer primes: fewer bytes, fewer further products.
    fn drop_to(&self, py: Python<'_>, level: usize) -> PyResult<Self> {
        let dropped = short(py, || self.context.evaluator.drop_to(&self.inner, level).map_err(failed))?;
        Ok(Self::of(&self.context, dropped))
    }

    /// The same numbers at the scale of another ciphertext, one level below. Sums do this
    /// themselves.
    fn with_scale_of(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        self.context.same(&other.context)?;
        let scaled = short(py, || self.context.evaluator.set_scale(&self.inner, other.inner.scale()).map_err(failed))?;
        Ok(Self::of(&self.context, scaled))
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
        let negative = short(py, || Ok(self.context.evaluator.neg(&self.inner)))?;
        Ok(Self::of(&self.context, negative))
    }

    /// With an `int`, the level stays; with a `float` or an array, it falls by one.
    fn __mul__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (Context { evaluator, encoder, .. }, level) = (&*self.context, self.inner.level());
        if other.cast::<Self>().is_ok() {
            let text =
                "expected a number or a vector of them, found a ciphertext: EvaluationKeys.mul has products of two";
            return Err(failed(text));
        }
        let product = if let Some(factor) = arrays::scalar::<i64>(other) {
            short(py, || evaluator.mul_integer(&self.inner, factor).map_err(failed))?
        } else if let Some(factor) = arrays::scalar::<f64>(other) {
            short(py, || {
                let product = evaluator.mul_constant(&self.inner, factor).map_err(failed)?;
                evaluator.rescale(&product).map_err(failed)
            })?
        } else {
            let values = arrays::reals(other)?;
            short(py, || {
                let below = level.checked_sub(1).filter(|below| *below > 0);
                let below = below
                    .ok_or_else(|| failed("expected a level of at least 2, found 1: no prime is left to divide by"))?;
                let plaintext = encoder.encode(&values, &Scale::prime(below), level).map_err(failed)?;
                let product = evaluator.mul_plain(&self.inner, &plaintext).map_err(failed)?;
                evaluator.rescale(&product).map_err(failed)
            })?
        };
        Ok(Self::of(&self.context, product))
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

    fn __rmul__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.__mul__(py, other)
    }

    fn __repr__(&self) -> String {
        let (name, level, scale) = (self.context.set.name, self.inner.level(), self.inner.scale());
        format!("<ckks.Ciphertext of {name}, level {level}, scale {scale}>")
    }
}

/// Makes the classes attributes of the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Parameters>()?;
    module.add_class::<SecretKey>()?;
    module.add_class::<PublicKey>()?;
    module.add_class::<EvaluationKeys>()?;
    module.add_class::<Ciphertext>()
}
