//! `tobari.ckks`: vectors of approximate numbers under encryption.
//!
//! A message holds the numbers multiplied by a scale, which is exact. A factor (a number or a
//! vector) is encoded at the scale of the prime that the product is divided by, so **scales stay**
//! and only the level falls. A product of two ciphertexts has a scale near theirs, and
//! [`Ciphertext::with_scale_of`] adapts it to another ciphertext's. Different levels are made equal
//! by dropping primes, which changes no number.

mod budget;
mod ciphertext;
mod refresh;

use crate::arrays::{self, Numbers};
use crate::errors::{failed, malformed};
use crate::parameters;
use crate::randomness::generator;
use crate::shape::{Dimensions, Product, Shape, doublings};
use crate::work::{Watch, long, short};
use budget::FloodBudget;
use ciphertext::Ciphertext;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use refresh::{Refresh, RefreshKeys};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tobari_lattice::ckks::{self, Complex, Decryptor, Encoder, Evaluator, LinearTransform, Needs, Scale};
use tobari_lattice::params::{LatticeParameters, NamedSet, Security, Sizes};
use tobari_lattice::rlwe;
use tobari_lattice::wire;
use zeroize::Zeroizing;

/// Shared by all objects of the same parameters.
struct Context {
    name: String,
    /// Bits of the default scale: those of the primes that rescaling divides by.
    scale_bits: u32,
    parameters: LatticeParameters,
    encoder: Encoder,
    evaluator: Evaluator,
}

/// The contexts in use, by name: making one takes time and memory.
static CONTEXTS: Mutex<BTreeMap<String, Weak<Context>>> = Mutex::new(BTreeMap::new());

impl Context {
    /// The context of these sizes: the one in use, or a new one.
    fn of(sizes: &Sizes) -> PyResult<Arc<Self>> {
        let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        let name = parameters::name(sizes);
        if let Some(context) = contexts.get(&name).and_then(Weak::upgrade) {
            return Ok(context);
        }
        contexts.retain(|_, context| context.strong_count() > 0);
        let context = Arc::new(Self::new(name.clone(), sizes)?);
        contexts.insert(name, Arc::downgrade(&context));
        Ok(context)
    }

    fn new(name: String, sizes: &Sizes) -> PyResult<Self> {
        let parameters = sizes.parameters().map_err(failed)?;
        let encoder = Encoder::new(&parameters).map_err(failed)?;
        let evaluator = Evaluator::new(&parameters).map_err(failed)?;
        // the last primes of a set for refreshes are those of the refresh
        let refreshes = NamedSet::REFRESH.into_iter().any(|set| Sizes::from(set) == *sizes);
        let prime = if refreshes { sizes.data.get(1) } else { sizes.data.last() };
        Ok(Self { name, scale_bits: prime.copied().unwrap_or(0), parameters, encoder, evaluator })
    }

    /// A shape that fits.
    fn shape(&self, dimensions: &[usize]) -> PyResult<Shape> {
        let shape = Shape::new(dimensions)?;
        shape.check(self.encoder.slots()).map(|()| shape)
    }

    /// Checks a level; without one, the highest level.
    fn level(&self, level: Option<usize>) -> PyResult<usize> {
        let most = self.parameters.data_primes();
        let level = level.unwrap_or(most);
        let there = (1..=most).contains(&level);
        if there { Ok(level) } else { Err(failed(format!("expected a level from 1 to {most}, found {level}"))) }
    }

    fn same(&self, other: &Self) -> PyResult<()> {
        let (expected, found) = (&self.name, &other.name);
        if expected == found {
            Ok(())
        } else {
            Err(failed(format!("expected an object of {expected}, found one of {found}")))
        }
    }

    /// The default scale, or another power of two.
    fn scale(&self, bits: Option<u32>) -> Scale {
        Scale::power_of_two(bits.unwrap_or(self.scale_bits))
    }
}

/// Parameters for approximate numbers: a set by its name in `tobari info`, sizes by the name of
/// other parameters, or parameters for what a computation needs.
///
/// >>> from tobari import ckks
/// >>> ckks.Parameters("ckks-a")
/// <ckks.Parameters ckks-a: 8192 slots, scale 2^30, 6 levels, 128 bits of security>
/// >>> mine = ckks.Parameters(depth=3, precision=20)
/// >>> mine.slots, mine.scale_bits, mine.levels, mine.security_bits
/// (8192, 45, 4, 128)
/// >>> ckks.Parameters(mine.name) == mine
/// True
#[pyclass(frozen, module = "tobari.ckks")]
struct Parameters {
    context: Arc<Context>,
}

#[pymethods]
impl Parameters {
    /// With `depth`, the smallest parameters that serve: for so many products that follow each
    /// other, those with plain numbers included; for `precision` right bits behind the point of
    /// numbers of at most 1; for numbers of at most `range`, results included; and for `slots`
    /// numbers.
    #[new]
    #[pyo3(signature = (name=None, *, depth=None, precision=16, range=1.0, slots=1))]
    fn new(
        py: Python<'_>,
        name: Option<&str>,
        depth: Option<usize>,
        precision: u32,
        range: f64,
        slots: usize,
    ) -> PyResult<Self> {
        let sizes = match (name, depth) {
            (Some(_), Some(_)) => return Err(failed("expected a name or a depth, found both")),
            (name, None) => parameters::named(name.unwrap_or("ckks-a"), false)?,
            (None, Some(depth)) => short(py, || Needs { depth, precision, range, slots }.sizes().map_err(failed))?,
        };
        Ok(Self { context: short(py, || Context::of(&sizes))? })
    }

    /// The name, from which the other side makes the same parameters.
    #[getter]
    fn name(&self) -> &str {
        &self.context.name
    }

    /// Numbers of a ciphertext.
    #[getter]
    fn slots(&self) -> usize {
        self.context.encoder.slots()
    }

    /// `log2` of the default scale.
    #[getter]
    fn scale_bits(&self) -> u32 {
        self.context.scale_bits
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

    /// The server's keys: for products of ciphertexts, for rotations by these steps, for sums of up
    /// to `sums` numbers, for conjugates, and for products with matrices, at a level and below.
    /// `matrices` has `(n, m)` for a vector of `n` numbers times a matrix, and `(r, c, m)` for an
    /// encrypted matrix times one of `m` columns.
    #[pyo3(signature = (
        rotations=Vec::new(), multiply=true, level=None, progress=None, sums=1, matrices=Vec::new(), conjugate=false
    ))]
    #[allow(clippy::too_many_arguments, reason = "each has a name in Python")]
    fn evaluation_keys(
        &self,
        py: Python<'_>,
        rotations: Vec<i64>,
        multiply: bool,
        level: Option<usize>,
        progress: Option<&Bound<'_, PyAny>>,
        sums: usize,
        matrices: Vec<Dimensions>,
        conjugate: bool,
    ) -> PyResult<EvaluationKeys> {
        let slots = self.context.encoder.slots();
        if !(1..=slots).contains(&sums) {
            return Err(failed(format!("expected sums of 1 to {slots} slots, found {sums}")));
        }
        let (context, key, level) = (Arc::clone(&self.context), Arc::clone(&self.key), self.context.level(level)?);
        let parameters = context.parameters.clone();
        let mut steps: BTreeSet<i64> = rotations.into_iter().chain(doublings(sums)).collect();
        for matrix in matrices {
            let product = Product::of(&matrix, slots)?;
            steps
                .extend(LinearTransform::rotations_of(&parameters, product.steps()).into_iter().chain(product.folds()));
        }
        let keys = long(py, progress.map(|progress| (progress, "keys")), move |watch: &Watch| {
            let mut rng = generator()?;
            watch.expect(steps.len() + usize::from(multiply) + usize::from(conjugate));
            let mut keys = ckks::EvaluationKeys::new(&parameters);
            if multiply {
                keys.add_relinearization(&key, level, &mut rng).map_err(failed)?;
                watch.step()?;
            }
            if conjugate {
                keys.add_conjugation(&key, level, &mut rng).map_err(failed)?;
                watch.step()?;
            }
            for step in steps {
                keys.add_rotation(&key, step, level, &mut rng).map_err(failed)?;
                watch.step()?;
            }
            Ok(keys)
        })?;
        Ok(EvaluationKeys { context, keys: Arc::new(keys) })
    }

    /// Encrypts a number, a vector or a matrix, real or complex. It repeats through all slots,
    /// filled up with zeros to powers of two. The ciphertext has half the bytes of one from a
    /// public key.
    ///
    /// `range` is the largest absolute value that a number may have. It is not secret: operations
    /// refuse results that could exceed the modulus, and what they refuse depends on it. `keys` are
    /// for operators that need them.
    #[pyo3(signature = (values, level=None, scale_bits=None, range=1.0, keys=None))]
    #[allow(clippy::too_many_arguments, reason = "each has a name in Python")]
    fn encrypt(
        &self,
        py: Python<'_>,
        values: &Bound<'_, PyAny>,
        level: Option<usize>,
        scale_bits: Option<u32>,
        range: f64,
        keys: Option<&EvaluationKeys>,
    ) -> PyResult<Ciphertext> {
        let ((shape, numbers), level) = (arrays::numbers(values)?, self.context.level(level)?);
        let scale = self.context.scale(scale_bits);
        let seeded = short(py, || {
            let plaintext = self.context.plaintext(shape, &numbers, range, &scale, level)?;
            plaintext.encrypt_seeded(&self.key, &mut generator()?).map_err(failed)
        })?;
        let complex = matches!(numbers, Numbers::Complex(_));
        Ciphertext::fresh(&self.context, seeded.expand(), Some(seeded), Some(shape), complex, keys)
    }

    /// Decrypts to an array of the ciphertext's shape, to the first `count` slots, or to all slots
    /// if no shape is known; with `bits`, rounds real numbers to multiples of `2**-bits`.
    /// **Never give exact results to a person who may see ciphertexts**: their error reveals the
    /// key. Results with a `flood` may be shown, as many as the budget allows.
    #[pyo3(signature = (ciphertext, count=None, bits=None, flood=None))]
    fn decrypt<'py>(
        &self,
        py: Python<'py>,
        ciphertext: &Ciphertext,
        count: Option<usize>,
        bits: Option<u32>,
        flood: Option<&FloodBudget>,
    ) -> PyResult<Bound<'py, PyAny>> {
        ciphertext.check(self)?;
        if flood.is_some() && bits.is_some() {
            return Err(failed("expected bits or a flood, found both"));
        }
        if ciphertext.complex && bits.is_some() {
            return Err(failed("expected real numbers for rounded results, found complex ones"));
        }
        let slots: Zeroizing<Vec<Complex>> = short(py, || {
            let holder = Decryptor::new(&self.key, &self.context.encoder).map_err(failed)?;
            if let Some(flood) = flood {
                let mut rng = generator()?;
                let flooded = |budget: &mut _| holder.flooded_complex(&ciphertext.inner, budget, &mut rng);
                return flood.with(flooded).map_err(failed);
            }
            let Some(bits) = bits else { return holder.decrypt_complex(&ciphertext.inner).map_err(failed) };
            let rounded = holder.rounded(&ciphertext.inner, bits).map_err(failed)?;
            Ok(Zeroizing::new(rounded.iter().copied().map(Complex::from).collect()))
        })?;
        ciphertext.array(py, &slots, count)
    }

    fn __repr__(&self) -> String {
        format!("<ckks.SecretKey of {}>", self.context.name)
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

    /// Encrypts a number, a vector or a matrix: see `SecretKey.encrypt`.
    #[pyo3(signature = (values, level=None, scale_bits=None, range=1.0, keys=None))]
    #[allow(clippy::too_many_arguments, reason = "each has a name in Python")]
    fn encrypt(
        &self,
        py: Python<'_>,
        values: &Bound<'_, PyAny>,
        level: Option<usize>,
        scale_bits: Option<u32>,
        range: f64,
        keys: Option<&EvaluationKeys>,
    ) -> PyResult<Ciphertext> {
        let ((shape, numbers), level) = (arrays::numbers(values)?, self.context.level(level)?);
        let scale = self.context.scale(scale_bits);
        let inner = short(py, || {
            let plaintext = self.context.plaintext(shape, &numbers, range, &scale, level)?;
            plaintext.encrypt(&self.key, &mut generator()?).map_err(failed)
        })?;
        let complex = matches!(numbers, Numbers::Complex(_));
        Ciphertext::fresh(&self.context, inner, None, Some(shape), complex, keys)
    }

    fn __repr__(&self) -> String {
        format!("<ckks.PublicKey of {}>", self.context.name)
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

    /// The product of two ciphertexts, number by number, one level below: `a * b` with these keys.
    fn mul(&self, py: Python<'_>, a: &Ciphertext, b: &Ciphertext) -> PyResult<Ciphertext> {
        self.context.same(&a.context)?;
        short(py, || a.product(b, &self.keys))
    }

    /// In each slot the sum of `count` slots from there on, or the sum of all numbers. `count` is a
    /// power of two. The keys need `sums=count`.
    #[pyo3(signature = (ciphertext, count=None))]
    fn sum(&self, py: Python<'_>, ciphertext: &Ciphertext, count: Option<usize>) -> PyResult<Ciphertext> {
        self.context.same(&ciphertext.context)?;
        let period = ciphertext.shape.map_or(self.context.encoder.slots(), Shape::period);
        let count = count.unwrap_or(period);
        let sum = short(py, || self.context.evaluator.sum_slots(&ciphertext.inner, count, &self.keys).map_err(failed))?;
        Ok(ciphertext.of(sum, if count == period { Some(Shape::NUMBER) } else { ciphertext.turned() }))
    }

    /// The inner product of two ciphertexts: the `sum` of `mul`.
    #[pyo3(signature = (a, b, count=None))]
    fn dot(&self, py: Python<'_>, a: &Ciphertext, b: &Ciphertext, count: Option<usize>) -> PyResult<Ciphertext> {
        self.sum(py, &self.mul(py, a, b)?, count)
    }

    /// Rotates the slots: slot `j` gets the value of slot `j + steps`, cyclically. A vector is
    /// rotated as filled up with zeros to a power of two, and has this length.
    fn rotate(&self, py: Python<'_>, ciphertext: &Ciphertext, steps: i64) -> PyResult<Ciphertext> {
        self.context.same(&ciphertext.context)?;
        let turned = short(py, || self.context.evaluator.rotate(&ciphertext.inner, steps, &self.keys).map_err(failed))?;
        Ok(ciphertext.of(turned, ciphertext.turned()))
    }

    /// Evaluates a polynomial of every number, with `coefficients[i]` for `x**i`; the result has
    /// the scale of `x`.
    fn polynomial(
        &self,
        py: Python<'_>,
        ciphertext: &Ciphertext,
        coefficients: &Bound<'_, PyAny>,
    ) -> PyResult<Ciphertext> {
        self.context.same(&ciphertext.context)?;
        ciphertext.polynomial_with(py, coefficients, Arc::clone(&self.keys))
    }

    fn __repr__(&self) -> String {
        format!("<ckks.EvaluationKeys of {}, {} bytes in memory>", self.context.name, self.keys.memory())
    }
}

/// Makes the classes attributes of the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Parameters>()?;
    module.add_class::<SecretKey>()?;
    module.add_class::<PublicKey>()?;
    module.add_class::<EvaluationKeys>()?;
    module.add_class::<FloodBudget>()?;
    module.add_class::<Refresh>()?;
    module.add_class::<RefreshKeys>()?;
    module.add_class::<Ciphertext>()
}
