//! `tobari.bgv`: vectors of integers modulo `t` under encryption.
//!
//! Parameters, tables and encoder of a set are made once and shared by its objects. A product of
//! two ciphertexts and every rotation need keys, so they are methods of the server's
//! [`EvaluationKeys`]. All other operations are operators of [`Ciphertext`].

mod ciphertext;

use crate::arrays;
use crate::errors::{failed, malformed};
use crate::parameters;
use crate::randomness::generator;
use crate::shape::{Dimensions, Product, Shape, doublings};
use crate::work::{Watch, long, short};
use ciphertext::Ciphertext;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tobari_lattice::bgv::{self, Decryptor, Encoder, Evaluator, Integers, LinearTransform, Needs};
use tobari_lattice::params::{LatticeParameters, Plaintext, Security, Sizes};
use tobari_lattice::rlwe;
use tobari_lattice::wire;
use zeroize::Zeroizing;

/// Shared by all objects of the same parameters.
struct Context {
    name: String,
    modulus: u64,
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
        let Plaintext::Integers(t) = parameters.plaintext() else {
            return Err(failed("expected integers"));
        };
        let encoder = Encoder::new(&parameters).map_err(failed)?;
        let evaluator = Evaluator::new(&parameters).map_err(failed)?;
        Ok(Self { name, modulus: t.value(), parameters, encoder, evaluator })
    }

    /// A shape that fits.
    fn shape(&self, dimensions: &[usize]) -> PyResult<Shape> {
        let shape = Shape::new(dimensions)?;
        shape.check(self.encoder.slots()).map(|()| shape)
    }

    /// Slots of a row: rotations and matrices act on both rows alike.
    fn row(&self) -> usize {
        self.encoder.slots() / 2
    }

    /// A plaintext of integers in all slots of their shape.
    fn plaintext(&self, shape: Shape, numbers: &[i64]) -> PyResult<bgv::Plaintext> {
        let slots = Zeroizing::new(shape.fill(numbers, self.encoder.slots())?);
        self.encoder.encode(&slots).map_err(failed)
    }

    /// Checks a level; without one, the highest level.
    fn level(&self, level: Option<usize>) -> PyResult<usize> {
        let most = self.parameters.data_primes();
        let level = level.unwrap_or(most);
        let there = (1..=most).contains(&level);
        if there { Ok(level) } else { Err(failed(format!("expected a level from 1 to {most}, found {level}"))) }
    }

    /// The negative of an integer, modulo the modulus: `2**63`, minus `-2**63`, does not fit in 64
    /// bits.
    fn negative(&self, value: i64) -> i64 {
        // the remainder has at most 50 bits
        -(value % self.modulus as i64)
    }

    fn same(&self, other: &Self) -> PyResult<()> {
        let (expected, found) = (&self.name, &other.name);
        if expected == found {
            Ok(())
        } else {
            Err(failed(format!("expected an object of {expected}, found one of {found}")))
        }
    }
}

/// Parameters for integers: a set by its name in `tobari info`, sizes by the name of other
/// parameters, or parameters for what a computation needs.
///
/// >>> from tobari import bgv
/// >>> bgv.Parameters("bgv-c")
/// <bgv.Parameters bgv-c: 16384 slots modulo 65537, 6 levels, 128 bits of security>
/// >>> mine = bgv.Parameters(depth=2, range=1_000_000)
/// >>> mine.modulus > 2_000_000, mine.security_bits
/// (True, 128)
/// >>> bgv.Parameters(mine.name) == mine
/// True
#[pyclass(frozen, module = "tobari.bgv")]
struct Parameters {
    context: Arc<Context>,
}

#[pymethods]
impl Parameters {
    /// With `depth`, the smallest parameters that serve: for so many products that follow each
    /// other, those with plain vectors included; for integers modulo `modulus` (65,537 if nothing
    /// is said), or of at most `range` in absolute value, results included; and for `slots`
    /// integers.
    #[new]
    #[pyo3(signature = (name=None, *, depth=None, modulus=None, range=None, slots=1))]
    fn new(
        py: Python<'_>,
        name: Option<&str>,
        depth: Option<usize>,
        modulus: Option<u64>,
        range: Option<u64>,
        slots: usize,
    ) -> PyResult<Self> {
        let sizes = match (name, depth) {
            (Some(_), Some(_)) => return Err(failed("expected a name or a depth, found both")),
            (_, None) if modulus.is_some() || range.is_some() => {
                return Err(failed("expected a depth with a modulus or a range, found none"));
            }
            (name, None) => parameters::named(name.unwrap_or("bgv-c"), true)?,
            (None, Some(depth)) => {
                let integers = match (modulus, range) {
                    (Some(_), Some(_)) => return Err(failed("expected a modulus or a range, found both")),
                    (modulus, None) => Integers::Modulo(modulus.unwrap_or(65_537)),
                    (None, Some(range)) => Integers::UpTo(range),
                };
                short(py, || Needs { depth, integers, slots }.sizes().map_err(failed))?
            }
        };
        Ok(Self { context: short(py, || Context::of(&sizes))? })
    }

    /// The name, from which the other side makes the same parameters.
    #[getter]
    fn name(&self) -> &str {
        &self.context.name
    }

    /// Integers of a ciphertext, in two rows of half as many.
    #[getter]
    fn slots(&self) -> usize {
        self.context.encoder.slots()
    }

    /// The modulus of the integers.
    #[getter]
    fn modulus(&self) -> u64 {
        self.context.modulus
    }

    /// Primes of a fresh ciphertext: each product uses about one.
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
        let (name, slots, modulus) = (self.name(), self.slots(), self.modulus());
        let (levels, bits) = (self.levels(), self.security_bits().unwrap_or(0));
        format!("<bgv.Parameters {name}: {slots} slots modulo {modulus}, {levels} levels, {bits} bits of security>")
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().name() == self.name())
    }

    fn __hash__(&self) -> u64 {
        self.name().bytes().fold(17, |hash: u64, byte| hash.wrapping_mul(31).wrapping_add(byte.into()))
    }
}

/// Encrypts, decrypts, and makes all other keys. Its secret is never printed or pickled, and is
/// wiped on release.
#[pyclass(frozen, module = "tobari.bgv")]
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

    /// The server's keys: for products of ciphertexts, for rotations by these steps, for swapping
    /// the rows, for sums of up to `sums` integers, and for products with matrices, at a level and
    /// below. `matrices` has `(n, m)` for a vector of `n` integers times a matrix, and `(r, c, m)`
    /// for an encrypted matrix times one of `m` columns.
    #[pyo3(signature = (
        rotations=Vec::new(), multiply=true, swap=false, level=None, progress=None, sums=1, matrices=Vec::new()
    ))]
    #[allow(clippy::too_many_arguments, reason = "each has a name in Python")]
    fn evaluation_keys(
        &self,
        py: Python<'_>,
        rotations: Vec<i64>,
        multiply: bool,
        swap: bool,
        level: Option<usize>,
        progress: Option<&Bound<'_, PyAny>>,
        sums: usize,
        matrices: Vec<Dimensions>,
    ) -> PyResult<EvaluationKeys> {
        let (row, slots) = (self.context.row(), self.context.encoder.slots());
        if !(1..=slots).contains(&sums) {
            return Err(failed(format!("expected sums of 1 to {slots} slots, found {sums}")));
        }
        let (context, key, level) = (Arc::clone(&self.context), Arc::clone(&self.key), self.context.level(level)?);
        let mut steps: BTreeSet<i64> = rotations.into_iter().chain(doublings(sums.min(row))).collect();
        for matrix in matrices {
            let product = Product::of(&matrix, row)?;
            let all = LinearTransform::rotations_of(&context.parameters, product.steps());
            steps.extend(all.into_iter().chain(product.folds()));
        }
        let swap = swap || sums > row;
        let keys = long(py, progress.map(|progress| (progress, "keys")), move |watch: &Watch| {
            let mut rng = generator()?;
            watch.expect(steps.len() + usize::from(multiply) + usize::from(swap));
            let mut keys = bgv::EvaluationKeys::new(key.parameters());
            if multiply {
                keys.add_relinearization(&key, level, &mut rng).map_err(failed)?;
                watch.step()?;
            }
            if swap {
                keys.add_swap(&key, level, &mut rng).map_err(failed)?;
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

    /// Encrypts an integer, a vector or a matrix. It repeats through all slots, filled up with
    /// zeros to powers of two. The ciphertext has half the bytes of one from a public key. `keys`
    /// are for operators that need them.
    #[pyo3(signature = (values, level=None, keys=None))]
    fn encrypt(
        &self,
        py: Python<'_>,
        values: &Bound<'_, PyAny>,
        level: Option<usize>,
        keys: Option<&EvaluationKeys>,
    ) -> PyResult<Ciphertext> {
        let ((shape, values), level) = (arrays::integers(values)?, self.context.level(level)?);
        let seeded = short(py, || {
            let plaintext = self.context.plaintext(shape, &values)?;
            plaintext.encrypt_seeded(&self.key, level, &mut generator()?).map_err(failed)
        })?;
        Ciphertext::fresh(&self.context, seeded.expand(), Some(seeded), Some(shape), keys)
    }

    /// Decrypts to an array of the ciphertext's shape, to the first `count` slots, or to all slots
    /// if no shape is known: integers between minus and plus half the modulus.
    #[pyo3(signature = (ciphertext, count=None))]
    fn decrypt<'py>(
        &self,
        py: Python<'py>,
        ciphertext: &Ciphertext,
        count: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.context.same(&ciphertext.context)?;
        let slots = short(py, || {
            let holder = Decryptor::new(&self.key).map_err(failed)?;
            let message = holder.decrypt(&ciphertext.inner).map_err(failed)?;
            self.context.encoder.decode(&message).map(Zeroizing::new).map_err(failed)
        })?;
        match (count, ciphertext.shape) {
            (None, Some(shape)) => arrays::shaped(py, &shape.read(&slots), shape),
            (count, _) => Ok(arrays::array(py, &slots, count)?.into_any()),
        }
    }

    fn __repr__(&self) -> String {
        format!("<bgv.SecretKey of {}>", self.context.name)
    }
}

/// Encrypts.
#[pyclass(frozen, module = "tobari.bgv")]
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

    /// Encrypts an integer, a vector or a matrix: see `SecretKey.encrypt`.
    #[pyo3(signature = (values, level=None, keys=None))]
    fn encrypt(
        &self,
        py: Python<'_>,
        values: &Bound<'_, PyAny>,
        level: Option<usize>,
        keys: Option<&EvaluationKeys>,
    ) -> PyResult<Ciphertext> {
        let ((shape, values), level) = (arrays::integers(values)?, self.context.level(level)?);
        let inner = short(py, || {
            let plaintext = self.context.plaintext(shape, &values)?;
            plaintext.encrypt(&self.key, level, &mut generator()?).map_err(failed)
        })?;
        Ciphertext::fresh(&self.context, inner, None, Some(shape), keys)
    }

    fn __repr__(&self) -> String {
        format!("<bgv.PublicKey of {}>", self.context.name)
    }
}

/// The server's keys for products and rotations. Public.
#[pyclass(frozen, module = "tobari.bgv")]
struct EvaluationKeys {
    context: Arc<Context>,
    keys: Arc<bgv::EvaluationKeys>,
}

#[pymethods]
impl EvaluationKeys {
    /// Reads the bytes of `to_bytes`.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, parameters: &Parameters, data: &[u8]) -> PyResult<Self> {
        let context = Arc::clone(&parameters.context);
        let keys = short(py, || wire::decode_evaluation_keys(data, &context.parameters).map_err(malformed))?;
        Ok(Self { context, keys: Arc::new(keys) })
    }

    /// Their bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = short(py, || Ok(wire::encode_evaluation_keys(&self.keys)))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Bytes in memory.
    #[getter]
    fn memory(&self) -> usize {
        self.keys.memory()
    }

    /// The product of two ciphertexts, integer by integer: `a * b` with these keys.
    fn mul(&self, py: Python<'_>, a: &Ciphertext, b: &Ciphertext) -> PyResult<Ciphertext> {
        self.context.same(&a.context)?;
        short(py, || a.product(b, &self.keys))
    }

    /// The sum of all integers: `ciphertext.sum()` with these keys. They need `sums`.
    fn sum(&self, py: Python<'_>, ciphertext: &Ciphertext) -> PyResult<Ciphertext> {
        ciphertext.with_keys(self)?.sum(py, None)
    }

    /// The inner product of two ciphertexts: the `sum` of `mul`.
    fn dot(&self, py: Python<'_>, a: &Ciphertext, b: &Ciphertext) -> PyResult<Ciphertext> {
        self.sum(py, &self.mul(py, a, b)?)
    }

    /// Evaluates a polynomial of every integer, with `coefficients[i]` for `x**i`.
    fn polynomial(
        &self,
        py: Python<'_>,
        ciphertext: &Ciphertext,
        coefficients: &Bound<'_, PyAny>,
    ) -> PyResult<Ciphertext> {
        self.context.same(&ciphertext.context)?;
        ciphertext.polynomial_with(py, coefficients, Arc::clone(&self.keys))
    }

    /// Rotates both rows: slot `j` gets the value of slot `j + steps`. A vector is rotated as
    /// filled up with zeros to a power of two, and has this length.
    fn rotate(&self, py: Python<'_>, ciphertext: &Ciphertext, steps: i64) -> PyResult<Ciphertext> {
        self.context.same(&ciphertext.context)?;
        let turned = short(py, || self.context.evaluator.rotate(&ciphertext.inner, steps, &self.keys).map_err(failed))?;
        Ok(ciphertext.of(turned, ciphertext.turned()))
    }

    /// Swaps the two rows. They are equal unless a vector has more integers than a row.
    fn swap_rows(&self, py: Python<'_>, ciphertext: &Ciphertext) -> PyResult<Ciphertext> {
        self.context.same(&ciphertext.context)?;
        let swapped = short(py, || self.context.evaluator.swap_rows(&ciphertext.inner, &self.keys).map_err(failed))?;
        Ok(ciphertext.of(swapped, ciphertext.turned()))
    }

    fn __repr__(&self) -> String {
        format!("<bgv.EvaluationKeys of {}, {} bytes in memory>", self.context.name, self.keys.memory())
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
