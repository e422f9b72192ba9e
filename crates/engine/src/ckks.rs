//! Steps on approximate numbers, real ones in one row of `N/2` slots.
//!
//! **The caller chooses the scales.** They are the exact scales of the lattice crate. Shapes have
//! no scales, so a step on values of unlike scales fails when it runs, not when it is recorded. A
//! product of two ciphertexts is rescaled; a product with a plaintext is not. If the plaintext is
//! encoded at the scale of the last prime of its level ([`Scale::prime`]), rescaling the product
//! gives the scale of the ciphertext again.

use super::{EngineError, Sizes, check_length, check_shape, object, put_object};
use std::borrow::Cow;
use tobari_lattice::ckks::{
    Ciphertext, Encoder, EvaluationKeys, Evaluator, Grid, Hoisted, OperationError, Plaintext, Scale,
};
use tobari_lattice::params::LatticeParameters;
use tobari_lattice::rlwe::EvaluationKey;
use tobari_lattice::wire::{self, words};
use tobari_plan::clear::{Arithmetic, ClearEngine, ClearValue};
use tobari_plan::engine::{Engine, Shapes};
use tobari_plan::program::{Encoding, Kind, Op, Shape};
use zeroize::Zeroizing;

/// Computes with CKKS ciphertexts, without a secret key. None of its steps is randomised.
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_engine::CkksEngine;
/// use tobari_lattice::ckks::{Decryptor, Encoder, Scale};
/// use tobari_lattice::params::NamedSet;
/// use tobari_lattice::rlwe::SecretKey;
/// use tobari_plan::engine::{Direct, Machine};
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
/// let parameters = NamedSet::from_name("infer-f").unwrap().parameters()?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let (encoder, scale) = (Encoder::new(&parameters)?.within(2.0), Scale::power_of_two(26));
/// let image = encoder.encode(&[1.0, 2.0], &scale, 3)?.encrypt_seeded(&secret, &mut rng)?.expand();
///
/// let engine = CkksEngine::new(&parameters)?;
/// let (image, weights) = (engine.ciphertext(image)?.into(), engine.numbers(&[0.5, -0.5], &scale, 2)?.into());
/// let product = Direct::new(&engine).mul_plain(&image, &weights)?;
/// let found = Decryptor::new(&secret, &encoder)?.decrypt(product.as_ciphertext().unwrap())?;
/// assert!((found[0] - 0.5).abs() < 1e-3 && (found[1] + 1.0).abs() < 1e-3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CkksEngine {
    parameters: LatticeParameters,
    evaluator: Evaluator,
    encoder: Encoder,
    /// Runs steps on plaintexts alone.
    clear: ClearEngine,
}

/// A value under CKKS: a ciphertext with or without its digits, a plaintext, or one evaluation key.
pub struct CkksValue(Inner);

enum Inner {
    Ciphertext(Ciphertext),
    Hoisted(Hoisted<'static>),
    Plaintext(Numbers),
    Key(EvaluationKeys),
}

/// A plaintext and the numbers that it encodes. The numbers keep the bits that the encoding rounds
/// off, so that a plaintext survives the tier.
struct Numbers {
    slots: Zeroizing<Vec<f64>>,
    encoded: Plaintext,
}

impl CkksValue {
    /// The ciphertext, if the value is one.
    pub fn as_ciphertext(&self) -> Option<&Ciphertext> {
        match &self.0 {
            Inner::Ciphertext(ciphertext) => Some(ciphertext),
            _ => None,
        }
    }

    /// The same, moved out.
    pub fn into_ciphertext(self) -> Option<Ciphertext> {
        match self.0 {
            Inner::Ciphertext(ciphertext) => Some(ciphertext),
            _ => None,
        }
    }

    fn parameters(&self) -> Option<&LatticeParameters> {
        match &self.0 {
            Inner::Ciphertext(ciphertext) => Some(ciphertext.parameters()),
            Inner::Hoisted(hoisted) => Some(hoisted.ciphertext().parameters()),
            Inner::Plaintext(numbers) => Some(numbers.encoded.parameters()),
            Inner::Key(keys) => keys.only().map(EvaluationKey::parameters),
        }
    }

    /// Bytes that the value takes in memory.
    pub fn memory(&self) -> u64 {
        let memory = match &self.0 {
            Inner::Ciphertext(ciphertext) => ciphertext.memory(),
            Inner::Hoisted(hoisted) => hoisted.memory(),
            Inner::Plaintext(numbers) => numbers.encoded.element().memory() + size_of_val(&numbers.slots[..]),
            Inner::Key(keys) => keys.memory(),
        };
        memory as u64
    }
}

impl CkksEngine {
    /// An engine for these parameters.
    ///
    /// # Errors
    /// [`EngineError`] for parameters of another scheme, or without a special prime.
    pub fn new(parameters: &LatticeParameters) -> Result<Self, EngineError> {
        let (evaluator, encoder) = (Evaluator::new(parameters)?, Encoder::new(parameters)?);
        let clear = ClearEngine { arithmetic: Arithmetic::Real, rows: 1, columns: parameters.degree() / 2 };
        Ok(Self { parameters: parameters.clone(), evaluator, encoder, clear })
    }

    /// The same engine without bounds on the numbers; see [`Evaluator::unbounded`].
    #[must_use]
    pub fn unbounded(self) -> Self {
        Self { evaluator: self.evaluator.unbounded(), ..self }
    }

    /// A ciphertext as a value.
    ///
    /// # Errors
    /// [`EngineError`] for a ciphertext of other parameters, or a product before relinearisation.
    pub fn ciphertext(&self, ciphertext: Ciphertext) -> Result<CkksValue, EngineError> {
        if *ciphertext.parameters() != self.parameters || ciphertext.needs_relinearization() {
            return Err(EngineError::Parameters { expected: "a ciphertext of two parts and the engine's parameters" });
        }
        Ok(CkksValue(Inner::Ciphertext(ciphertext)))
    }

    /// Real numbers in slots, for ciphertexts of this level and below. Missing slots are 0.
    ///
    /// # Errors
    /// [`EngineError`] for numbers that the encoder rejects, or if the parameters lack this level.
    pub fn numbers(&self, slots: &[f64], scale: &Scale, level: u16) -> Result<CkksValue, EngineError> {
        let encoded = self.encoder.encode(slots, scale, self.sizes().primes(level)?)?;
        Ok(self.plaintext(slots, encoded))
    }

    /// Real numbers as a diagonal of [`Op::Transform`]. A diagonal is also a plaintext for other
    /// steps.
    ///
    /// # Errors
    /// As [`Self::numbers`].
    pub fn diagonal(&self, slots: &[f64], scale: &Scale, level: u16) -> Result<CkksValue, EngineError> {
        let encoded = self.encoder.encode_diagonal(slots, scale, self.sizes().primes(level)?)?;
        Ok(self.plaintext(slots, encoded))
    }

    fn plaintext(&self, slots: &[f64], encoded: Plaintext) -> CkksValue {
        let mut all = Zeroizing::new(Vec::with_capacity(self.encoder.slots()));
        all.extend_from_slice(slots);
        all.resize(self.encoder.slots(), 0.0);
        CkksValue(Inner::Plaintext(Numbers { slots: all, encoded }))
    }

    /// The same real number in all slots, without a transform.
    ///
    /// # Errors
    /// As [`Self::numbers`].
    pub fn constant(&self, value: f64, scale: &Scale, level: u16) -> Result<CkksValue, EngineError> {
        let encoded = self.encoder.encode_constant(value, scale, self.sizes().primes(level)?)?;
        Ok(self.plaintext(&Zeroizing::new(vec![value; self.encoder.slots()]), encoded))
    }

    /// The key of a set with one key.
    ///
    /// # Errors
    /// [`EngineError`] unless there is one key, of the engine's parameters.
    pub fn key(&self, keys: EvaluationKeys) -> Result<CkksValue, EngineError> {
        let ours = keys.only().is_some_and(|key| *key.parameters() == self.parameters);
        let expected = EngineError::Parameters { expected: "one key of the engine's parameters" };
        ours.then_some(CkksValue(Inner::Key(keys))).ok_or(expected)
    }

    /// The shape of a ciphertext.
    ///
    /// # Errors
    /// [`EngineError::Level`].
    pub fn ciphertext_shape(&self, level: u16) -> Result<Shape, EngineError> {
        Ok(bounded(self.sizes().ciphertext(level, self.own())?))
    }

    /// The shape of a plaintext.
    ///
    /// # Errors
    /// [`EngineError::Level`].
    pub fn plaintext_shape(&self, level: u16) -> Result<Shape, EngineError> {
        let data = self.sizes().primes(level)?;
        let slots = 8 * self.encoder.slots() as u64;
        let stored = slots + 8 * (1 + self.parameters.data_primes() as u64);
        Ok(Shape { kind: Kind::Plain, level, resident: self.sizes().rows(data) + slots, packed: stored, raw: stored })
    }

    /// The shape of a diagonal, which has rows for the special primes, too.
    ///
    /// # Errors
    /// [`EngineError::Level`].
    pub fn diagonal_shape(&self, level: u16) -> Result<Shape, EngineError> {
        let shape = self.plaintext_shape(level)?;
        let special = self.sizes().rows(self.parameters.ring().special_primes().len());
        Ok(Shape { resident: shape.resident + special, ..shape })
    }

    /// The shape of a key for rotations.
    ///
    /// # Errors
    /// [`EngineError`] if the parameters lack this level or a special prime.
    pub fn rotation_key_shape(&self, level: u16) -> Result<Shape, EngineError> {
        self.sizes().rotation_key(level)
    }

    /// The shape of a key for products.
    ///
    /// # Errors
    /// As [`Self::rotation_key_shape`].
    pub fn relinearization_key_shape(&self, level: u16) -> Result<Shape, EngineError> {
        self.sizes().relinearization_key(level)
    }

    /// The shape of a value.
    ///
    /// # Errors
    /// [`EngineError::Parameters`] for a value of other parameters.
    pub fn shape_of(&self, value: &CkksValue) -> Result<Shape, EngineError> {
        if value.parameters() != Some(&self.parameters) {
            return Err(EngineError::Parameters { expected: "values of the engine's parameters" });
        }
        let level = |data: usize| data.saturating_sub(1) as u16;
        let shape = match &value.0 {
            Inner::Ciphertext(ciphertext) => self.ciphertext_shape(level(ciphertext.level())),
            Inner::Hoisted(hoisted) => {
                self.sizes().hoisted(level(hoisted.ciphertext().level()), self.own()).map(bounded)
            }
            Inner::Plaintext(numbers) => self.plaintext_shape(level(numbers.encoded.level())),
            Inner::Key(keys) => self.relinearization_key_shape(level(keys.only().map_or(0, EvaluationKey::level))),
        };
        Ok(Shape { resident: value.memory(), ..shape? })
    }

    fn sizes(&self) -> Sizes<'_> {
        Sizes(&self.parameters)
    }

    /// Bytes of a ciphertext's scale.
    fn own(&self) -> u64 {
        8 * (1 + self.parameters.data_primes() as u64)
    }

    fn ready(&self, kind: Kind, level: u16) -> Result<Shape, EngineError> {
        match kind {
            Kind::Encrypted => self.ciphertext_shape(level),
            Kind::Hoisted => self.sizes().hoisted(level, self.own()).map(bounded),
            Kind::Plain => self.plaintext_shape(level),
            _ => Err(EngineError::Step("expected a step that makes no key, found one".to_owned())),
        }
    }

    /// Runs a step on the slots of plaintexts alone.
    fn plain(&self, step: usize, op: Op, args: &[&Numbers], level: u16) -> Result<CkksValue, EngineError> {
        let scale = scale_of(op, args)?;
        let slots: Vec<ClearValue> = args.iter().map(|numbers| ClearValue::Reals(numbers.slots.to_vec())).collect();
        match self.clear.step(step, op, &slots.iter().collect::<Vec<_>>())? {
            ClearValue::Reals(slots) => self.numbers(&Zeroizing::new(slots), &scale, level),
            _ => Err(unexpected(op)),
        }
    }

    /// The ciphertext of a step with at least one encrypted argument.
    fn encrypted(&self, step: usize, op: Op, args: &[&CkksValue], level: usize) -> Result<Ciphertext, EngineError> {
        let evaluator = &self.evaluator;
        let args: Vec<&Inner> = args.iter().map(|arg| &arg.0).collect();
        Ok(match (op, &args[..]) {
            (Op::Add, terms) => self.sum(op, terms, level)?,
            (Op::Sub, [Inner::Ciphertext(a), Inner::Ciphertext(b)]) => {
                evaluator.sub(&*self.lowered(a, level)?, &*self.lowered(b, level)?)?
            }
            (Op::Sub, [Inner::Ciphertext(a), Inner::Plaintext(b)]) => {
                evaluator.neg(&evaluator.add_plain(&evaluator.neg(a)?, &b.encoded)?)?
            }
            (Op::Sub, [Inner::Plaintext(a), Inner::Ciphertext(b)]) => {
                evaluator.add_plain(&evaluator.neg(b)?, &a.encoded)?
            }
            (Op::Neg, [Inner::Ciphertext(a)]) => evaluator.neg(a)?,
            (Op::Scale(c), [Inner::Ciphertext(a)]) => evaluator.mul_integer(a, c)?,
            (Op::Offset(c), [Inner::Ciphertext(a)]) => evaluator.add_constant(a, c as f64)?,
            (Op::Mul, [Inner::Ciphertext(a), Inner::Ciphertext(b), Inner::Key(keys)]) => {
                let least = a.level().min(b.level());
                evaluator.mul_rescale(&*self.lowered(a, least)?, &*self.lowered(b, least)?, keys)?
            }
            (Op::Mul, [Inner::Ciphertext(a), Inner::Plaintext(b)]) => evaluator.mul_plain(a, &b.encoded)?,
            (Op::Dot, [pairs @ .., Inner::Key(keys)]) => self.dot_encrypted(pairs, keys, level)?,
            (Op::Dot, pairs) => self.dot(step, pairs, level)?,
            (Op::Rotate(steps), [Inner::Ciphertext(a), Inner::Key(keys)]) => evaluator.rotate(a, steps, keys)?,
            (Op::RotateHoisted(steps), [Inner::Hoisted(a), Inner::Key(keys)]) => {
                evaluator.rotate_hoisted(a, steps, keys)?
            }
            (Op::Transform { baby, babies, giant, giants }, args) => {
                let grid = Grid { baby, babies: babies.into(), giant, giants: giants.into() };
                self.transform(grid, args, level)?
            }
            (Op::Rescale, [Inner::Ciphertext(a)]) => evaluator.rescale(a)?,
            (Op::LowerTo(_), [Inner::Ciphertext(a)]) => evaluator.to_level(a, level)?,
            _ => return Err(unexpected(op)),
        })
    }

    fn lowered<'a>(&self, a: &'a Ciphertext, level: usize) -> Result<Cow<'a, Ciphertext>, EngineError> {
        let stays = a.level() <= level;
        Ok(if stays { Cow::Borrowed(a) } else { Cow::Owned(self.evaluator.to_level(a, level)?) })
    }

    /// Sums the encrypted terms first, in their order, into one ciphertext, then adds the
    /// plaintexts.
    fn sum(&self, op: Op, terms: &[&Inner], level: usize) -> Result<Ciphertext, EngineError> {
        let mut sum: Option<Cow<'_, Ciphertext>> = None;
        for term in terms {
            let Inner::Ciphertext(term) = term else { continue };
            let term = self.lowered(term, level)?;
            sum = Some(match sum {
                None => term,
                Some(Cow::Borrowed(first)) => Cow::Owned(self.evaluator.add(first, &term)?),
                Some(Cow::Owned(mut sum)) => {
                    self.evaluator.add_assign(&mut sum, &term)?;
                    Cow::Owned(sum)
                }
            });
        }
        let mut sum = sum.ok_or_else(|| unexpected(op))?.into_owned();
        for term in terms {
            if let Inner::Plaintext(term) = term {
                sum = self.evaluator.add_plain(&sum, &term.encoded)?;
            }
        }
        Ok(sum)
    }

    /// Sums the products of ciphertexts in one pass, then adds the products of plaintexts.
    fn dot(&self, step: usize, pairs: &[&Inner], level: usize) -> Result<Ciphertext, EngineError> {
        let (mut lowered, mut products) = (Vec::new(), Vec::new());
        for pair in pairs.chunks_exact(2) {
            match pair {
                [Inner::Ciphertext(a), Inner::Plaintext(b)] => lowered.push((self.lowered(a, level)?, &b.encoded)),
                [Inner::Plaintext(a), Inner::Plaintext(b)] => {
                    products.push(self.plain(step, Op::Mul, &[a, b], level as u16 - 1)?);
                }
                _ => return Err(unexpected(Op::Dot)),
            }
        }
        if lowered.is_empty() {
            return Err(unexpected(Op::Dot));
        }
        let pairs: Vec<_> = lowered.iter().map(|(a, b)| (&**a, *b)).collect();
        let sum = CkksValue(Inner::Ciphertext(self.evaluator.dot_plain(&pairs)?));
        let terms: Vec<&Inner> = std::iter::once(&sum).chain(&products).map(|value| &value.0).collect();
        if products.is_empty() { into_ciphertext(sum) } else { self.sum(Op::Dot, &terms, level) }
    }

    /// Applies a linear map by its diagonals. The kinds of the arguments were checked.
    fn transform(&self, grid: Grid, args: &[&Inner], level: usize) -> Result<Ciphertext, EngineError> {
        let (mut inputs, mut weights, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for arg in args {
            match arg {
                Inner::Ciphertext(a) => inputs.push(self.lowered(a, level)?),
                Inner::Plaintext(w) => weights.push(&w.encoded),
                Inner::Key(key) => keys.push(key),
                Inner::Hoisted(_) => return Err(EngineError::Malformed("kind")),
            }
        }
        let inputs: Vec<&Ciphertext> = inputs.iter().map(|a| &**a).collect();
        Ok(self.evaluator.transform_sum(&inputs, &weights, grid, &keys)?)
    }

    /// Sums the products of ciphertexts in three parts, and relinearises the sum once.
    fn dot_encrypted(&self, pairs: &[&Inner], keys: &EvaluationKeys, level: usize) -> Result<Ciphertext, EngineError> {
        let mut sum: Option<Ciphertext> = None;
        for pair in pairs.chunks(2) {
            let [Inner::Ciphertext(a), Inner::Ciphertext(b)] = pair else { return Err(unexpected(Op::Dot)) };
            let product = self.evaluator.tensor(&*self.lowered(a, level)?, &*self.lowered(b, level)?)?;
            match &mut sum {
                None => sum = Some(product),
                Some(sum) => self.evaluator.add_assign(sum, &product)?,
            }
        }
        Ok(self.evaluator.relinearize(&sum.ok_or_else(|| unexpected(Op::Dot))?, keys)?)
    }

    /// Reads a plaintext's bytes: a scale, then slots.
    fn read_numbers(&self, bytes: &[u8], shape: &Shape) -> Result<CkksValue, EngineError> {
        let level = shape.level;
        let words = bytes.as_chunks::<8>().0;
        let (scale, slots) = words.split_at_checked(1 + self.parameters.data_primes()).unwrap_or_default();
        let mut exponents = scale.iter().map(|bytes| i64::from_le_bytes(*bytes));
        let log2 = exponents.next().ok_or(EngineError::Malformed("scale"))?;
        let scale = Scale::from_exponents(log2, exponents.collect()).ok_or(EngineError::Malformed("scale"))?;
        let slots: Vec<f64> = slots.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
        let slots = Zeroizing::new(slots);
        let diagonal = shape.resident == self.diagonal_shape(level)?.resident;
        if diagonal { self.diagonal(&slots, &scale, level) } else { self.numbers(&slots, &scale, level) }
    }
}

/// The shape of a ciphertext with its bounds. The tier is a store of one's own: a ciphertext that
/// comes back from it goes on with the bounds that it had.
fn bounded(shape: Shape) -> Shape {
    let bounds = Ciphertext::BOUNDS as u64;
    Shape { packed: shape.packed + bounds, raw: shape.raw + bounds, ..shape }
}

/// The reason why CKKS has no flooding step.
const NO_FLOOD: &str =
    "expected BGV for a flooding, found CKKS: the holder of the key floods results of CKKS during decryption";

fn unexpected(op: Op) -> EngineError {
    EngineError::Step(format!("expected arguments that {op} takes, found others"))
}

/// The scale of the result of a step on plaintexts.
fn scale_of(op: Op, args: &[&Numbers]) -> Result<Scale, EngineError> {
    let scales: Vec<&Scale> = args.iter().map(|numbers| numbers.encoded.scale()).collect();
    let terms: Option<Vec<Scale>> = match op {
        Op::Mul | Op::Dot => scales.chunks_exact(2).map(|pair| pair[0].product(pair[1])).collect(),
        _ => Some(scales.into_iter().cloned().collect()),
    };
    let terms = terms.ok_or(EngineError::Malformed("scale"))?;
    let first = terms.first().cloned().ok_or_else(|| unexpected(op))?;
    match terms.into_iter().find(|scale| *scale != first) {
        Some(right) => Err(OperationError::Scales { left: first, right }.into()),
        None => Ok(first),
    }
}

fn write_numbers(numbers: &Numbers, parameters: &LatticeParameters, bytes: &mut [u8]) {
    let scale = numbers.encoded.scale().exponents(parameters.data_primes()).map(i64::to_le_bytes);
    let slots = numbers.slots.iter().map(|slot| slot.to_le_bytes());
    bytes.as_chunks_mut::<8>().0.iter_mut().zip(scale.chain(slots)).for_each(|(place, word)| *place = word);
}

fn as_numbers(op: Op, value: &CkksValue) -> Result<&Numbers, EngineError> {
    match &value.0 {
        Inner::Plaintext(numbers) => Ok(numbers),
        _ => Err(unexpected(op)),
    }
}

fn into_ciphertext(value: CkksValue) -> Result<Ciphertext, EngineError> {
    value.into_ciphertext().ok_or_else(|| EngineError::Value { expected: "a ciphertext".to_owned() })
}

impl Shapes for CkksEngine {
    fn shape(&self, op: Op, args: &[Shape]) -> Result<Shape, String> {
        let (kind, level) = op.result(args)?;
        if matches!(op, Op::Flood(_)) {
            return Err(NO_FLOOD.to_owned());
        }
        if op == Op::Swap {
            return Err("expected one row of slots, found a step that swaps two".to_owned());
        }
        self.ready(kind, level).map_err(|error| error.to_string())
    }
}

impl Engine for CkksEngine {
    type Value = CkksValue;
    type Error = EngineError;

    fn step(&self, step: usize, op: Op, args: &[&CkksValue]) -> Result<CkksValue, EngineError> {
        let shapes = args.iter().map(|arg| self.shape_of(arg)).collect::<Result<Vec<_>, _>>()?;
        let shape = self.shape(op, &shapes).map_err(EngineError::Step)?;
        match (shape.kind, args) {
            (Kind::Plain, _) => {
                let args = args.iter().map(|arg| as_numbers(op, arg)).collect::<Result<Vec<_>, _>>()?;
                self.plain(step, op, &args, shape.level)
            }
            (Kind::Hoisted, [CkksValue(Inner::Ciphertext(a))]) => {
                Ok(CkksValue(Inner::Hoisted(self.evaluator.hoist(a)?.into_owned())))
            }
            _ => self.ciphertext(self.encrypted(step, op, args, usize::from(shape.level) + 1)?),
        }
    }

    /// Runs sums of ciphertexts of one level, and products with plaintexts, in place.
    fn step_owned(&self, step: usize, op: Op, first: CkksValue, rest: &[&CkksValue]) -> Result<CkksValue, EngineError> {
        let shapes = std::iter::once(&first).chain(rest.iter().copied()).map(|arg| self.shape_of(arg));
        self.shape(op, &shapes.collect::<Result<Vec<_>, _>>()?).map_err(EngineError::Step)?;
        let terms: Option<Vec<&Ciphertext>> = rest.iter().map(|term| term.as_ciphertext()).collect();
        match (op, first.0, terms, rest) {
            (Op::Add, Inner::Ciphertext(mut sum), Some(terms), [_, ..])
                if terms.iter().all(|term| term.level() == sum.level()) =>
            {
                terms.into_iter().try_for_each(|term| self.evaluator.add_assign(&mut sum, term))?;
                self.ciphertext(sum)
            }
            (Op::Mul, Inner::Ciphertext(mut product), _, [CkksValue(Inner::Plaintext(numbers))]) => {
                self.evaluator.mul_plain_assign(&mut product, &numbers.encoded)?;
                self.ciphertext(product)
            }
            (_, first, ..) => {
                let first = CkksValue(first);
                self.step(step, op, &[&[&first], rest].concat())
            }
        }
    }

    fn export(
        &self,
        value: &CkksValue,
        shape: &Shape,
        encoding: Encoding,
        bytes: &mut [u8],
    ) -> Result<(), EngineError> {
        check_shape(shape, &self.shape_of(value)?)?;
        check_length(shape, encoding, bytes.len())?;
        let of_ciphertext = |ciphertext: &Ciphertext, bytes: &mut [u8]| -> Result<(), EngineError> {
            let (bytes, bounds) = bytes.split_last_chunk_mut().ok_or(EngineError::Malformed("bounds"))?;
            *bounds = ciphertext.bounds_to_bytes();
            match encoding {
                Encoding::Packed => put_object(&wire::store_ckks_ciphertext(ciphertext), bytes),
                Encoding::Raw => Ok(words::write_ckks_ciphertext(ciphertext, bytes)?),
            }
        };
        match &value.0 {
            Inner::Ciphertext(ciphertext) => of_ciphertext(ciphertext, bytes),
            Inner::Hoisted(hoisted) => of_ciphertext(hoisted.ciphertext(), bytes),
            Inner::Plaintext(numbers) => {
                write_numbers(numbers, &self.parameters, bytes);
                Ok(())
            }
            Inner::Key(keys) => match encoding {
                Encoding::Packed => put_object(&wire::encode_ckks_evaluation_keys(keys), bytes),
                Encoding::Raw => Ok(words::write_ckks_evaluation_key(keys, bytes)?),
            },
        }
    }

    fn import(&self, shape: &Shape, encoding: Encoding, bytes: &[u8]) -> Result<CkksValue, EngineError> {
        check_length(shape, encoding, bytes.len())?;
        let parameters = &self.parameters;
        let of_ciphertext = || -> Result<Ciphertext, EngineError> {
            let (bytes, bounds) = bytes.split_last_chunk().ok_or(EngineError::Malformed("bounds"))?;
            let mut ciphertext = match encoding {
                Encoding::Packed => wire::decode_ckks_ciphertext(object(bytes)?, parameters),
                Encoding::Raw => words::read_ckks_ciphertext(bytes, parameters),
            }?;
            ciphertext.set_bounds(bounds)?;
            Ok(ciphertext)
        };
        let value = match shape.kind {
            Kind::Encrypted => self.ciphertext(of_ciphertext()?)?,
            Kind::Hoisted => {
                let ciphertext = into_ciphertext(self.ciphertext(of_ciphertext()?)?)?;
                CkksValue(Inner::Hoisted(self.evaluator.hoist(&ciphertext)?.into_owned()))
            }
            Kind::Plain => self.read_numbers(bytes, shape)?,
            Kind::Key => self.key(match encoding {
                Encoding::Packed => wire::decode_ckks_evaluation_keys(object(bytes)?, parameters)?,
                Encoding::Raw => words::read_ckks_evaluation_key(bytes, parameters)?,
            })?,
            _ => return Err(EngineError::Malformed("kind")),
        };
        check_shape(shape, &self.shape_of(&value)?)?;
        Ok(value)
    }
}
