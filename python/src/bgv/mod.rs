//! `tobari.bgv`: vectors of integers modulo `t` under encryption.
//!
//! Parameters, tables and encoder of a set are made once and shared by its objects. A product of
//! two ciphertexts and every rotation need keys, so they are methods of the server's
//! [`EvaluationKeys`]. All other operations are operators of [`Ciphertext`].

use crate::arrays;
use crate::errors::{HIDDEN, failed, malformed};
use crate::randomness::generator;
use crate::work::{Watch, long, short};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tobari_lattice::bgv::{self, Decryptor, Encoder, Encryptor, Evaluator, SeededCiphertext};
use tobari_lattice::params::{self, LatticeParameters, NamedSet, Security};
use tobari_lattice::rlwe;
use tobari_lattice::wire::{self, LatticeKind};
use zeroize::Zeroizing;

/// Shared by all objects of a set.
struct Context {
    set: NamedSet,
    modulus: u64,
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
        let params::Plaintext::Integers(t) = parameters.plaintext() else {
            return Err(failed("expected integers"));
        };
        let encoder = Encoder::new(&parameters).map_err(failed)?;
        let evaluator = Evaluator::new(&parameters).map_err(failed)?;
        Ok(Self { set, modulus: t.value(), parameters, encoder, evaluator })
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
        let (expected, found) = (self.set.name, other.set.name);
        if expected == found {
            Ok(())
        } else {
            Err(failed(format!("expected an object of {expected}, found one of {found}")))
        }
    }
}

/// A set of parameters for integers, by its name in `tobari info`.
///
/// >>> from tobari import bgv
/// >>> bgv.Parameters("bgv-c")
/// <bgv.Parameters bgv-c: 16384 slots modulo 65537, 6 levels, 128 bits of security>
#[pyclass(frozen, module = "tobari.bgv")]
struct Parameters {
    context: Arc<Context>,
}

#[pymethods]
impl Parameters {
    #[new]
    #[pyo3(signature = (name="bgv-c"))]
    fn new(py: Python<'_>, name: &str) -> PyResult<Self> {
        let set = NamedSet::from_name(name)
            .filter(|set| set.plaintext_modulus.is_some())
            .ok_or_else(|| failed(format!("expected a set of parameters for integers, found {name:?}")))?;
        Ok(Self { context: short(py, || Context::of(set))? })
    }

    /// The name of the set.
    #[getter]
    fn name(&self) -> &'static str {
        self.context.set.name
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

    /// The server's keys: for products, for rotations by these steps, for swapping the rows, at a
    /// level and below.
    #[pyo3(signature = (rotations=Vec::new(), multiply=true, swap=false, level=None, progress=None))]
    fn evaluation_keys(
        &self,
        py: Python<'_>,
        rotations: Vec<i64>,
        multiply: bool,
        swap: bool,
        level: Option<usize>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<EvaluationKeys> {
        let (context, key, level) = (Arc::clone(&self.context), Arc::clone(&self.key), self.context.level(level)?);
        let keys = long(py, progress.map(|progress| (progress, "keys")), move |watch: &Watch| {
            let mut rng = generator()?;
            watch.expect(rotations.len() + usize::from(multiply) + usize::from(swap));
            let mut keys = bgv::EvaluationKeys::new(key.parameters());
            if multiply {
                keys.add_relinearization(&key, level, &mut rng).map_err(failed)?;
                watch.step()?;
            }
            if swap {
                keys.add_swap(&key, level, &mut rng).map_err(failed)?;
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

    /// Encrypts integers, at most one for each slot; the other slots are 0. The ciphertext has half
    /// the bytes of one from a public key.
    #[pyo3(signature = (values, level=None))]
    fn encrypt(&self, py: Python<'_>, values: &Bound<'_, PyAny>, level: Option<usize>) -> PyResult<Ciphertext> {
        let (values, level) = (arrays::integers(values)?, self.context.level(level)?);
        let seeded = short(py, || {
            let plaintext = self.context.encoder.encode(&values).map_err(failed)?;
            let holder = Decryptor::new(&self.key).map_err(failed)?;
            holder.encrypt(&plaintext, level, &mut generator()?).map_err(failed)
        })?;
        Ok(Ciphertext::of_seeded(&self.context, seeded))
    }

    /// Decrypts the first `count` slots, or all, to integers between minus and plus half the
    /// modulus.
    #[pyo3(signature = (ciphertext, count=None))]
    fn decrypt<'py>(
        &self,
        py: Python<'py>,
        ciphertext: &Ciphertext,
        count: Option<usize>,
    ) -> PyResult<Bound<'py, numpy::PyArray1<i64>>> {
        self.context.same(&ciphertext.context)?;
        let slots = short(py, || {
            let holder = Decryptor::new(&self.key).map_err(failed)?;
            let message = holder.decrypt(&ciphertext.inner).map_err(failed)?;
            Ok(Zeroizing::new(self.context.encoder.decode(&message)))
        })?;
        arrays::array(py, &slots, count)
    }

    fn __repr__(&self) -> String {
        format!("<bgv.SecretKey of {}>", self.context.set.name)
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

    /// Encrypts integers, at most one for each slot; the other slots are 0.
    #[pyo3(signature = (values, level=None))]
    fn encrypt(&self, py: Python<'_>, values: &Bound<'_, PyAny>, level: Option<usize>) -> PyResult<Ciphertext> {
        let (values, level) = (arrays::integers(values)?, self.context.level(level)?);
        let inner = short(py, || {
            let plaintext = self.context.encoder.encode(&values).map_err(failed)?;
            let encryptor = Encryptor::new(&self.key).map_err(failed)?;
            encryptor.encrypt(&plaintext, level, &mut generator()?).map_err(failed)
        })?;
        Ok(Ciphertext::of(&self.context, inner))
    }

    fn __repr__(&self) -> String {
        format!("<bgv.PublicKey of {}>", self.context.set.name)
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

    /// The product of two ciphertexts, slot by slot; one level below unless `mod_switch` is false.
    #[pyo3(signature = (a, b, mod_switch=true))]
    fn mul(&self, py: Python<'_>, a: &Ciphertext, b: &Ciphertext, mod_switch: bool) -> PyResult<Ciphertext> {
        self.context.same(&a.context)?;
        self.context.same(&b.context)?;
        let evaluator = &self.context.evaluator;
        let down = mod_switch && a.inner.level().min(b.inner.level()) > 1;
        let product = short(py, || match down {
            true => evaluator.mul_mod_switch(&a.inner, &b.inner, &self.keys).map_err(failed),
            false => evaluator.mul(&a.inner, &b.inner, &self.keys).map_err(failed),
        })?;
        Ok(Ciphertext::of(&self.context, product))
    }

    /// Rotates both rows: slot `j` gets the value of slot `j + steps`.
    fn rotate(&self, py: Python<'_>, ciphertext: &Ciphertext, steps: i64) -> PyResult<Ciphertext> {
        self.context.same(&ciphertext.context)?;
        let turned = short(py, || self.context.evaluator.rotate(&ciphertext.inner, steps, &self.keys).map_err(failed))?;
        Ok(Ciphertext::of(&self.context, turned))
    }

    /// Swaps the two rows.
    fn swap_rows(&self, py: Python<'_>, ciphertext: &Ciphertext) -> PyResult<Ciphertext> {
        self.context.same(&ciphertext.context)?;
        let swapped = short(py, || self.context.evaluator.swap_rows(&ciphertext.inner, &self.keys).map_err(failed))?;
        Ok(Ciphertext::of(&self.context, swapped))
    }

    fn __repr__(&self) -> String {
        format!("<bgv.EvaluationKeys of {}, {} bytes in memory>", self.context.set.name, self.keys.memory())
    }
}

/// An encrypted vector. `+`, `-` and `*` take integers and arrays, `+` and `-` ciphertexts too;
/// `EvaluationKeys` has the rest.
#[pyclass(frozen, module = "tobari.bgv")]
struct Ciphertext {
    context: Arc<Context>,
    inner: Arc<bgv::Ciphertext>,
    /// The seeded form, with fewer bytes, if the secret key made the ciphertext.
    seeded: Option<SeededCiphertext>,
}

/// The other side of an operator.
enum Operand {
    Ciphertext(Arc<bgv::Ciphertext>),
    Integer(i64),
    Vector(Zeroizing<Vec<i64>>),
}

impl Ciphertext {
    fn of(context: &Arc<Context>, inner: bgv::Ciphertext) -> Self {
        Self { context: Arc::clone(context), inner: Arc::new(inner), seeded: None }
    }

    fn of_seeded(context: &Arc<Context>, seeded: SeededCiphertext) -> Self {
        Self { context: Arc::clone(context), inner: Arc::new(seeded.expand()), seeded: Some(seeded) }
    }

    fn operand(&self, value: &Bound<'_, PyAny>) -> PyResult<Operand> {
        if let Ok(other) = value.cast::<Self>() {
            let other = other.get();
            self.context.same(&other.context)?;
            return Ok(Operand::Ciphertext(Arc::clone(&other.inner)));
        }
        if let Some(integer) = arrays::scalar(value) {
            return Ok(Operand::Integer(integer));
        }
        arrays::integers(value).map(Operand::Vector)
    }

    /// The sum with an operand, or the difference.
    fn plus(&self, py: Python<'_>, other: &Bound<'_, PyAny>, minus: bool) -> PyResult<Self> {
        let (other, Context { evaluator, encoder, .. }) = (self.operand(other)?, &*self.context);
        let sum = short(py, || {
            match other {
                Operand::Ciphertext(other) if minus => evaluator.sub(&self.inner, &other),
                Operand::Ciphertext(other) => evaluator.add(&self.inner, &other),
                Operand::Integer(value) => {
                    evaluator.add_constant(&self.inner, if minus { self.context.negative(value) } else { value })
                }
                Operand::Vector(mut values) => {
                    if minus {
                        values.iter_mut().for_each(|value| *value = self.context.negative(*value));
                    }
                    let plaintext = encoder.encode(&values).map_err(failed)?;
                    evaluator.add_plain(&self.inner, &plaintext)
                }
            }
            .map_err(failed)
        })?;
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

    /// Reads the bytes of `to_bytes`. A ciphertext of `SecretKey.encrypt` is a fresh one. Other
    /// bytes do not prove how large their noise is, so decryption and `flood` need `noise`:
    /// "fresh" for what was just encrypted, a number of bits for a result of a computation that
    /// you know (`noise` of one like it), or "claimed" if you trust the sender's own bound. If the
    /// noise is larger after all, results may be wrong.
    #[staticmethod]
    #[pyo3(signature = (parameters, data, noise=None))]
    fn from_bytes(py: Python<'_>, parameters: &Parameters, data: &[u8], noise: Option<Noise>) -> PyResult<Self> {
        let context = &parameters.context;
        if data.get(1) == Some(&(LatticeKind::SeededCiphertext as u8)) {
            let seeded = short(py, || wire::decode_seeded_ciphertext(data, &context.parameters).map_err(malformed))?;
            return Ok(Self::of_seeded(context, seeded));
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
        Ok(Self::of(context, inner))
    }

    /// Its bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = short(py, || {
            Ok(match &self.seeded {
                Some(seeded) => wire::encode_seeded_ciphertext(seeded),
                None => wire::encode_ciphertext(&self.inner),
            })
        })?;
        Ok(PyBytes::new(py, &bytes))
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
    fn mod_switch_to(&self, py: Python<'_>, level: usize) -> PyResult<Self> {
        let switched = short(py, || self.context.evaluator.mod_switch_to(&self.inner, level).map_err(failed))?;
        Ok(Self::of(&self.context, switched))
    }

    /// The same integers with fresh randomness and `bits` bits of noise. The noise hides from the
    /// decrypting party how the integers were computed.
    fn flood(&self, py: Python<'_>, public_key: &PublicKey, bits: u32) -> PyResult<Self> {
        self.context.same(&public_key.context)?;
        let flooded = short(py, || {
            let evaluator = &self.context.evaluator;
            evaluator.flood(&self.inner, &public_key.key, bits, &mut generator()?).map_err(failed)
        })?;
        Ok(Self::of(&self.context, flooded))
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
        Ok(Self::of(&self.context, negative))
    }

    fn __mul__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (other, Context { evaluator, encoder, .. }) = (self.operand(other)?, &*self.context);
        let product = short(py, || {
            match other {
                Operand::Ciphertext(_) => {
                    return Err(failed("expected an integer or a vector of them, found a ciphertext: EvaluationKeys.mul has products of two"));
                }
                Operand::Integer(value) => evaluator.mul_scalar(&self.inner, value),
                Operand::Vector(values) => {
                    let plaintext = encoder.encode(&values).map_err(failed)?;
                    evaluator.mul_plain(&self.inner, &plaintext)
                }
            }
            .map_err(failed)
        })?;
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
        let (name, level, bits) = (self.context.set.name, self.inner.level(), self.inner.noise_budget());
        if bits == f64::NEG_INFINITY {
            return format!("<bgv.Ciphertext of {name}, level {level}, of unknown noise>");
        }
        format!("<bgv.Ciphertext of {name}, level {level}, {bits:.0} bits to spare>")
    }
}

/// A declared noise.
#[derive(FromPyObject)]
enum Noise {
    Bits(f64),
    Word(String),
}

/// Makes the classes attributes of the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Parameters>()?;
    module.add_class::<SecretKey>()?;
    module.add_class::<PublicKey>()?;
    module.add_class::<EvaluationKeys>()?;
    module.add_class::<Ciphertext>()
}
