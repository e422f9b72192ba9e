//! Steps on exact integers modulo `t`, in two rows of `N/2` slots.

mod forms;

use super::compact::{Compact, width};
use super::{EngineError, Sizes, check_length, check_shape, object, put, put_object};
use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use rand_core::CryptoRng;
use std::borrow::Cow;
use std::sync::Arc;
use tobari_lattice::bgv::{Ciphertext, Encoder, EvaluationKeys, Evaluator, Hoisted, Plaintext, PreparedPlaintext};
use tobari_lattice::params::{LatticeParameters, Plaintext as Scheme};
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::{EvaluationKey, PublicKey};
use tobari_lattice::wire::{self, words};
use tobari_plan::clear::{Arithmetic, ClearEngine, ClearValue};
use tobari_plan::engine::{Engine, Shapes};
use tobari_plan::program::{Encoding, Kind, Op, Shape};

/// Bytes of a ciphertext's factor and of its claim of noise.
const OWN: u64 = 12;

/// The shape of a ciphertext with its bound. The tier is a store of one's own: a ciphertext that
/// comes back from it goes on with the bound that it had.
fn bounded(shape: Shape) -> Shape {
    Shape { packed: shape.packed + 8, raw: shape.raw + 8, ..shape }
}

/// The most compact plaintexts of a sum that are prepared at once. More would only evict each other
/// from the caches.
const PREPARED: usize = 4;

/// Computes with BGV ciphertexts, without a secret key.
///
/// ```
/// use rand_core::SeedableRng;
/// use tobari_engine::BgvEngine;
/// use tobari_lattice::bgv::{Decryptor, Encoder};
/// use tobari_lattice::params::NamedSet;
/// use tobari_lattice::rlwe::SecretKey;
/// use tobari_plan::engine::{Direct, Machine};
/// let mut rng = chacha20::ChaCha20Rng::from_seed([0; 32]); // a program takes its randomness from the system
/// let parameters = NamedSet::from_name("search").unwrap().parameters()?;
/// let secret = SecretKey::generate(&parameters, &mut rng);
/// let (encoder, holder) = (Encoder::new(&parameters)?, Decryptor::new(&secret)?);
/// let query = encoder.encode(&[1, 2, 3])?.encrypt_seeded(&secret, 2, &mut rng)?.expand();
///
/// let engine = BgvEngine::new(&parameters, None, &mut rng)?;
/// let (query, row) = (engine.ciphertext(query)?.into(), engine.integers(&[10, 20, 30], 1)?.into());
/// let product = Direct::new(&engine).mul_plain(&query, &row)?;
/// let found = holder.decrypt(product.as_ciphertext().unwrap())?;
/// assert_eq!(encoder.decode(&found)?[..3], [10, 40, 90]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BgvEngine {
    tables: Arc<Tables>,
    run: Seed,
}

/// The data that all runs share.
struct Tables {
    parameters: LatticeParameters,
    evaluator: Evaluator,
    encoder: Encoder,
    /// Runs steps on plaintexts alone.
    clear: ClearEngine,
    public: Option<PublicKey>,
}

/// A value under BGV: a ciphertext with or without its digits, several ciphertexts of one step, a
/// plaintext, prepared or compact, or one evaluation key.
pub struct BgvValue(Inner);

enum Inner {
    Ciphertext(Ciphertext),
    Hoisted(Hoisted<'static>),
    /// Ciphertexts of one level.
    Several(Vec<Ciphertext>),
    Plaintext(PreparedPlaintext),
    Compact(Compact),
    Key(Arc<EvaluationKeys>),
}

impl BgvValue {
    /// The ciphertext, if the value is one.
    pub fn as_ciphertext(&self) -> Option<&Ciphertext> {
        match &self.0 {
            Inner::Ciphertext(ciphertext) => Some(ciphertext),
            _ => None,
        }
    }

    fn parameters(&self) -> Option<&LatticeParameters> {
        match &self.0 {
            Inner::Ciphertext(ciphertext) => Some(ciphertext.parameters()),
            Inner::Hoisted(hoisted) => Some(hoisted.ciphertext().parameters()),
            Inner::Several(all) => all.first().map(Ciphertext::parameters),
            Inner::Plaintext(plaintext) => Some(plaintext.parameters()),
            Inner::Compact(compact) => Some(&compact.parameters),
            Inner::Key(keys) => keys.only().map(EvaluationKey::parameters),
        }
    }

    /// Bytes that the value takes in memory.
    pub fn memory(&self) -> u64 {
        let memory = match &self.0 {
            Inner::Ciphertext(ciphertext) => ciphertext.memory(),
            Inner::Hoisted(hoisted) => hoisted.memory(),
            Inner::Several(all) => all.iter().map(Ciphertext::memory).sum(),
            Inner::Plaintext(plaintext) => plaintext.memory(),
            Inner::Compact(compact) => compact.bytes.len(),
            Inner::Key(keys) => keys.memory(),
        };
        memory as u64
    }
}

impl BgvEngine {
    /// An engine for these parameters, with a run secret drawn from `rng`. Floods are encrypted
    /// under `public`, so programs with floods need it.
    ///
    /// # Errors
    /// [`EngineError`] for parameters of another scheme, without slots, or with a plaintext modulus
    /// that is not below the first prime; also for a public key of other parameters.
    pub fn new(
        parameters: &LatticeParameters,
        public: Option<PublicKey>,
        rng: &mut impl CryptoRng,
    ) -> Result<Self, EngineError> {
        let (evaluator, encoder) = (Evaluator::new(parameters)?, Encoder::new(parameters)?);
        let t = parameters.error_factor();
        let below = t < parameters.ring().data_primes()[0].modulus().value();
        if !below || !matches!(parameters.plaintext(), Scheme::Integers(_)) {
            return Err(EngineError::Parameters { expected: "a plaintext modulus below the first prime" });
        }
        if public.as_ref().is_some_and(|key| key.parameters() != parameters) {
            return Err(EngineError::Parameters { expected: "a public key of the engine's parameters" });
        }
        let clear = ClearEngine { arithmetic: Arithmetic::Modulo(t), rows: 2, columns: parameters.degree() / 2 };
        let tables = Tables { parameters: parameters.clone(), evaluator, encoder, clear, public };
        Ok(Self { tables: Arc::new(tables), run: Seed::random(rng) })
    }

    /// The same engine for another run. Its tables are shared; its secret is new.
    ///
    /// An engine cannot be copied, and running a plan consumes it, so that no second plan runs on
    /// it. [`Engine::step`] and [`Direct`](tobari_plan::engine::Direct) run single steps and borrow
    /// the engine, because a repeated step must give the same bits. Their caller has to use a new
    /// engine for each run.
    #[must_use]
    pub fn next_run(&self, rng: &mut impl CryptoRng) -> Self {
        Self { tables: Arc::clone(&self.tables), run: Seed::random(rng) }
    }

    /// A ciphertext as a value.
    ///
    /// # Errors
    /// [`EngineError`] for a ciphertext of other parameters, or a product before relinearisation.
    pub fn ciphertext(&self, ciphertext: Ciphertext) -> Result<BgvValue, EngineError> {
        if *ciphertext.parameters() != self.tables.parameters || ciphertext.needs_relinearization() {
            return Err(EngineError::Parameters { expected: "a ciphertext of two parts and the engine's parameters" });
        }
        Ok(BgvValue(Inner::Ciphertext(ciphertext)))
    }

    /// A public plaintext for ciphertexts of this level and below.
    ///
    /// # Errors
    /// [`EngineError`] if the parameters lack this level, or the plaintext has another degree.
    pub fn plaintext(&self, plaintext: &Plaintext, level: u16) -> Result<BgvValue, EngineError> {
        if plaintext.coefficients().len() != self.tables.parameters.degree() {
            return Err(EngineError::Parameters { expected: "a plaintext of the engine's degree" });
        }
        let data = self.sizes().primes(level)?;
        Ok(BgvValue(Inner::Plaintext(PreparedPlaintext::new(&self.tables.parameters, plaintext, data)?)))
    }

    /// Integers in slots, the first row first, for ciphertexts of this level and below.
    ///
    /// # Errors
    /// [`EngineError`] for more integers than slots, or if the parameters lack this level.
    pub fn integers(&self, slots: &[i64], level: u16) -> Result<BgvValue, EngineError> {
        self.plaintext(&self.tables.encoder.encode(slots)?, level)
    }

    /// The same integers as a value that takes only the memory of its coefficients. Each use
    /// prepares it. This saves memory where a value is used once: a prepared value takes a word for
    /// each coefficient and prime until then.
    ///
    /// # Errors
    /// As [`Self::integers`].
    pub fn compact(&self, slots: &[i64], level: u16) -> Result<BgvValue, EngineError> {
        self.sizes().primes(level)?;
        let plaintext = self.tables.encoder.encode(slots)?;
        Ok(BgvValue(Inner::Compact(Compact::new(&self.tables.parameters, level, &plaintext))))
    }

    /// The key of a set with one key. A caller with the key in memory can share it with many
    /// programs.
    ///
    /// # Errors
    /// [`EngineError`] unless there is one key, of the engine's parameters.
    pub fn key(&self, keys: impl Into<Arc<EvaluationKeys>>) -> Result<BgvValue, EngineError> {
        let keys = keys.into();
        let ours = keys.only().is_some_and(|key| *key.parameters() == self.tables.parameters);
        let expected = EngineError::Parameters { expected: "one key of the engine's parameters" };
        ours.then_some(BgvValue(Inner::Key(keys))).ok_or(expected)
    }

    /// The level of fresh ciphertexts.
    pub fn top_level(&self) -> u16 {
        self.sizes().top_level()
    }

    /// The shape of a ciphertext.
    ///
    /// # Errors
    /// [`EngineError::Level`].
    pub fn ciphertext_shape(&self, level: u16) -> Result<Shape, EngineError> {
        self.sizes().ciphertext(level, OWN).map(bounded)
    }

    /// The shape of a plaintext.
    ///
    /// # Errors
    /// [`EngineError::Level`].
    pub fn plaintext_shape(&self, level: u16) -> Result<Shape, EngineError> {
        let (sizes, t) = (self.sizes(), self.tables.parameters.error_factor());
        let resident = sizes.rows(sizes.primes(level)?);
        let bits = u64::from(u64::BITS - t.leading_zeros());
        Ok(Shape {
            kind: Kind::Plain,
            level,
            resident,
            packed: (self.tables.parameters.degree() as u64 * bits).div_ceil(8),
            raw: (self.tables.parameters.degree() as u64 * bits).div_ceil(8),
        })
    }

    /// The shape of a plaintext that each use prepares.
    ///
    /// # Errors
    /// [`EngineError::Level`].
    pub fn compact_shape(&self, level: u16) -> Result<Shape, EngineError> {
        let shape = self.plaintext_shape(level)?;
        let bytes = (self.tables.parameters.degree() * width(self.tables.parameters.error_factor())) as u64;
        Ok(Shape { resident: bytes, raw: bytes, ..shape })
    }

    /// The shape of a key for rotations, or for swapping the rows.
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
    pub fn shape_of(&self, value: &BgvValue) -> Result<Shape, EngineError> {
        if value.parameters() != Some(&self.tables.parameters) {
            return Err(EngineError::Parameters { expected: "values of the engine's parameters" });
        }
        let level = |data: usize| data.saturating_sub(1) as u16;
        let shape = match &value.0 {
            Inner::Ciphertext(ciphertext) => self.ciphertext_shape(level(ciphertext.level())),
            Inner::Hoisted(hoisted) => self.sizes().hoisted(level(hoisted.ciphertext().level()), OWN).map(bounded),
            Inner::Several(all) => {
                self.several_shape(level(all.first().map_or(0, Ciphertext::level)), all.len() as u64)
            }
            Inner::Plaintext(plaintext) => self.plaintext_shape(level(plaintext.level())),
            Inner::Compact(compact) => self.compact_shape(compact.level),
            Inner::Key(keys) => self.relinearization_key_shape(level(keys.only().map_or(0, EvaluationKey::level))),
        };
        Ok(Shape { resident: value.memory(), ..shape? })
    }

    /// The engine's evaluator, for callers that prepare ciphertexts before they become values.
    pub fn evaluator(&self) -> &Evaluator {
        &self.tables.evaluator
    }

    fn sizes(&self) -> Sizes<'_> {
        Sizes(&self.tables.parameters)
    }

    fn ready(&self, kind: Kind, level: u16) -> Result<Shape, EngineError> {
        match kind {
            Kind::Encrypted => self.ciphertext_shape(level),
            Kind::Hoisted => self.sizes().hoisted(level, OWN).map(bounded),
            Kind::Plain => self.plaintext_shape(level),
            _ => Err(EngineError::Step("expected a step that makes no key, found one".to_owned())),
        }
    }

    /// Runs a step on the slots of plaintexts alone.
    fn plain(&self, step: usize, op: Op, args: &[&BgvValue], level: u16) -> Result<BgvValue, EngineError> {
        let args = args.iter().map(|arg| self.slots(op, &arg.0)).collect::<Result<Vec<_>, _>>()?;
        self.plain_of(step, op, &args.iter().collect::<Vec<_>>(), level)
    }

    /// The slots of a plaintext.
    fn slots(&self, op: Op, value: &Inner) -> Result<ClearValue, EngineError> {
        let plaintext = match value {
            Inner::Plaintext(plaintext) => unprepared(plaintext)?,
            Inner::Compact(compact) => compact.plaintext()?,
            _ => return Err(unexpected(op)),
        };
        Ok(ClearValue::Integers(self.tables.encoder.decode(&plaintext)?))
    }

    fn plain_of(&self, step: usize, op: Op, args: &[&ClearValue], level: u16) -> Result<BgvValue, EngineError> {
        match self.tables.clear.step(step, op, args)? {
            ClearValue::Integers(slots) => self.integers(&slots, level),
            _ => Err(unexpected(op)),
        }
    }

    /// The ciphertext of a step with at least one encrypted argument.
    fn encrypted(&self, step: usize, op: Op, args: &[&BgvValue], level: usize) -> Result<Ciphertext, EngineError> {
        let args: Vec<&Inner> = args.iter().map(|arg| &arg.0).collect();
        if !matches!(op, Op::Dot | Op::Bilinear { .. }) && args.iter().any(|arg| matches!(arg, Inner::Compact(_))) {
            let ready = args.iter().map(|arg| prepared(arg, level)).collect::<Result<Vec<_>, _>>()?;
            let both = args.iter().zip(&ready).map(|(arg, ready)| ready.as_ref().unwrap_or(arg));
            return self.unpacked(step, op, &both.collect::<Vec<_>>(), level);
        }
        self.unpacked(step, op, &args, level)
    }

    fn unpacked(&self, step: usize, op: Op, args: &[&Inner], level: usize) -> Result<Ciphertext, EngineError> {
        let evaluator = &self.tables.evaluator;
        Ok(match (op, args) {
            (Op::Add, terms) => self.sum(op, terms, level)?,
            (Op::Sub, [Inner::Ciphertext(a), Inner::Ciphertext(b)]) => {
                evaluator.sub(&*self.lowered(a, level)?, &*self.lowered(b, level)?)?
            }
            (Op::Sub, [Inner::Ciphertext(a), Inner::Plaintext(b)]) => {
                evaluator.neg(&evaluator.add_plain(&evaluator.neg(a)?, &unprepared(b)?)?)?
            }
            (Op::Sub, [Inner::Plaintext(a), Inner::Ciphertext(b)]) => {
                evaluator.add_plain(&evaluator.neg(b)?, &unprepared(a)?)?
            }
            (Op::Neg, [Inner::Ciphertext(a)]) => evaluator.neg(a)?,
            (Op::Scale(c), [Inner::Ciphertext(a)]) => evaluator.mul_integer(a, c)?,
            (Op::Offset(c), [Inner::Ciphertext(a)]) => evaluator.add_constant(a, c)?,
            (Op::Mul, [Inner::Ciphertext(a), Inner::Ciphertext(b), Inner::Key(keys)]) => {
                evaluator.mul_mod_switch(a, b, keys)?
            }
            (Op::Mul, [Inner::Ciphertext(a), Inner::Plaintext(b)]) => evaluator.mul_prepared(a, b)?,
            (Op::Dot, pairs) => self.dot(step, pairs, level)?,
            (Op::Rotate(steps), [Inner::Ciphertext(a), Inner::Key(keys)]) => evaluator.rotate(a, steps, keys)?,
            (Op::Swap, [Inner::Ciphertext(a), Inner::Key(keys)]) => evaluator.swap_rows(a, keys)?,
            (Op::RotateHoisted(steps), [Inner::Hoisted(a), Inner::Key(keys)]) => {
                evaluator.rotate_hoisted(a, steps, keys)?
            }
            (Op::Polynomial(length), [Inner::Ciphertext(a), c, Inner::Key(keys)]) => {
                let ClearValue::Integers(mut slots) = self.slots(op, c)? else { return Err(unexpected(op)) };
                slots.truncate(length.into());
                let mut found = evaluator.polynomials(a, &[slots], keys)?;
                found.pop().ok_or_else(|| unexpected(op))?
            }
            (Op::Bilinear { left, right, forms: 1, divisor }, _) => {
                let mut made = self.bilinear(op, args, [left, right].map(usize::from), divisor)?;
                made.pop().ok_or_else(|| unexpected(op))?
            }
            (Op::Part(which), [Inner::Several(all)]) => {
                all.get(usize::from(which)).cloned().ok_or_else(|| unexpected(op))?
            }
            (Op::RotateSum { steps, counts }, _) => self.rotate_sum(op, args, (steps, counts))?,
            (Op::Rescale | Op::LowerTo(_), [Inner::Ciphertext(a)]) => evaluator.to_level(a, level)?,
            (Op::Flood(bits), [Inner::Ciphertext(a)]) => self.flood(step, a, bits)?,
            _ => return Err(unexpected(op)),
        })
    }

    fn lowered<'a>(&self, a: &'a Ciphertext, level: usize) -> Result<Cow<'a, Ciphertext>, EngineError> {
        let stays = a.level() <= level;
        Ok(if stays { Cow::Borrowed(a) } else { Cow::Owned(self.tables.evaluator.to_level(a, level)?) })
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
                Some(Cow::Borrowed(first)) => Cow::Owned(self.tables.evaluator.add(first, &term)?),
                Some(Cow::Owned(mut sum)) => {
                    self.tables.evaluator.add_assign(&mut sum, &term)?;
                    Cow::Owned(sum)
                }
            });
        }
        let mut sum = sum.ok_or_else(|| unexpected(op))?.into_owned();
        for term in terms {
            if let Inner::Plaintext(term) = term {
                sum = self.tables.evaluator.add_plain(&sum, &unprepared(term)?)?;
            }
        }
        Ok(sum)
    }

    /// Sums the products of ciphertexts in one pass, or in a few where plaintexts have to be
    /// prepared; then adds the products of plaintexts.
    fn dot(&self, step: usize, pairs: &[&Inner], level: usize) -> Result<Ciphertext, EngineError> {
        let evaluator = &self.tables.evaluator;
        let (mut lowered, mut products) = (Vec::new(), Vec::new());
        for pair in pairs.chunks_exact(2) {
            match pair {
                [Inner::Ciphertext(a), b @ (Inner::Plaintext(_) | Inner::Compact(_))] => {
                    lowered.push((self.lowered(a, level)?, *b));
                }
                [Inner::Plaintext(_) | Inner::Compact(_), Inner::Plaintext(_) | Inner::Compact(_)] => {
                    let slots = |inner: &&Inner| self.slots(Op::Dot, inner);
                    let [a, b] = [slots(&pair[0])?, slots(&pair[1])?];
                    products.push(self.plain_of(step, Op::Mul, &[&a, &b], level as u16 - 1)?);
                }
                _ => return Err(unexpected(Op::Dot)),
            }
        }
        let compact = lowered.iter().any(|(_, b)| matches!(b, Inner::Compact(_)));
        let (mut sum, at_once) = (None, if compact { PREPARED } else { lowered.len().max(1) });
        for part in lowered.chunks(at_once) {
            let ready = part.iter().map(|(_, b)| prepared(b, level)).collect::<Result<Vec<_>, _>>()?;
            let both = part.iter().zip(&ready).map(|((a, b), ready)| match ready.as_ref().unwrap_or(b) {
                Inner::Plaintext(b) => Ok((&**a, b)),
                _ => Err(unexpected(Op::Dot)),
            });
            let part = evaluator.dot_prepared(&both.collect::<Result<Vec<_>, _>>()?)?;
            match &mut sum {
                None => sum = Some(part),
                Some(sum) => evaluator.add_assign(sum, &part)?,
            }
        }
        let sum = BgvValue(Inner::Ciphertext(sum.ok_or_else(|| unexpected(Op::Dot))?));
        let terms: Vec<&Inner> = std::iter::once(&sum).chain(&products).map(|value| &value.0).collect();
        if products.is_empty() { into_ciphertext(sum) } else { self.sum(Op::Dot, &terms, level) }
    }

    /// Floods a ciphertext. Within a run, the same step gives the same bytes.
    fn flood(&self, step: usize, a: &Ciphertext, bits: u16) -> Result<Ciphertext, EngineError> {
        let public = self.tables.public.as_ref().ok_or_else(|| EngineError::Step(NO_PUBLIC_KEY.to_owned()))?;
        let index = u64::try_from(step).ok().filter(|index| index >> 56 == 0);
        let index = index.ok_or_else(|| EngineError::Step("expected fewer than 2^56 steps, found more".to_owned()))?;
        let mut rng = ChaCha20Rng::from_seed(*zeroize::Zeroizing::new(self.run.derive(index).to_bytes()));
        Ok(self.tables.evaluator.flood(a, public, bits.into(), &mut rng)?)
    }
}

const NO_PUBLIC_KEY: &str = "expected a public key for floods, found none";

fn unexpected(op: Op) -> EngineError {
    EngineError::Step(format!("expected arguments that {op} takes, found others"))
}

/// A compact plaintext, prepared for so many primes; `None` for other values.
fn prepared(value: &Inner, primes: usize) -> Result<Option<Inner>, EngineError> {
    match value {
        Inner::Compact(compact) => Ok(Some(Inner::Plaintext(compact.prepare(primes)?))),
        _ => Ok(None),
    }
}

/// The plaintext that was prepared.
fn unprepared(plaintext: &PreparedPlaintext) -> Result<Plaintext, EngineError> {
    plaintext.to_plaintext().ok_or(EngineError::Parameters { expected: "a plaintext modulus below the first prime" })
}

fn into_ciphertext(value: BgvValue) -> Result<Ciphertext, EngineError> {
    match value.0 {
        Inner::Ciphertext(ciphertext) => Ok(ciphertext),
        _ => Err(EngineError::Value { expected: "a ciphertext".to_owned() }),
    }
}

impl Shapes for BgvEngine {
    fn shape(&self, op: Op, args: &[Shape]) -> Result<Shape, String> {
        let (kind, level) = op.result(args)?;
        if matches!(op, Op::Flood(_)) && self.tables.public.is_none() {
            return Err(NO_PUBLIC_KEY.to_owned());
        }
        let shape = match op {
            Op::Bilinear { forms, .. } if forms > 1 => self.several_shape(level, forms.into()),
            _ => self.ready(kind, level),
        };
        shape.map_err(|error| error.to_string())
    }
}

impl Engine for BgvEngine {
    type Value = BgvValue;
    type Error = EngineError;

    fn step(&self, step: usize, op: Op, args: &[&BgvValue]) -> Result<BgvValue, EngineError> {
        let shapes = args.iter().map(|arg| self.shape_of(arg)).collect::<Result<Vec<_>, _>>()?;
        let shape = self.shape(op, &shapes).map_err(EngineError::Step)?;
        match (shape.kind, args) {
            (Kind::Plain, _) => self.plain(step, op, args, shape.level),
            (Kind::Several, _) => self.several(op, args),
            (Kind::Hoisted, [BgvValue(Inner::Ciphertext(a))]) => {
                Ok(BgvValue(Inner::Hoisted(self.tables.evaluator.hoist(a)?.into_owned())))
            }
            _ => self.ciphertext(self.encrypted(step, op, args, usize::from(shape.level) + 1)?),
        }
    }

    /// Runs sums of ciphertexts of one level, and products with plaintexts, in place.
    fn step_owned(&self, step: usize, op: Op, first: BgvValue, rest: &[&BgvValue]) -> Result<BgvValue, EngineError> {
        let shapes = std::iter::once(&first).chain(rest.iter().copied()).map(|arg| self.shape_of(arg));
        self.shape(op, &shapes.collect::<Result<Vec<_>, _>>()?).map_err(EngineError::Step)?;
        let terms: Option<Vec<&Ciphertext>> = rest.iter().map(|term| term.as_ciphertext()).collect();
        match (op, first.0, terms, rest) {
            (Op::Add, Inner::Ciphertext(mut sum), Some(terms), [_, ..])
                if terms.iter().all(|term| term.level() == sum.level()) =>
            {
                terms.into_iter().try_for_each(|term| self.tables.evaluator.add_assign(&mut sum, term))?;
                self.ciphertext(sum)
            }
            (Op::Mul, Inner::Ciphertext(mut product), _, [BgvValue(Inner::Plaintext(plaintext))]) => {
                self.tables.evaluator.mul_prepared_assign(&mut product, plaintext)?;
                self.ciphertext(product)
            }
            (_, first, ..) => {
                let first = BgvValue(first);
                self.step(step, op, &[&[&first], rest].concat())
            }
        }
    }

    fn export(&self, value: &BgvValue, shape: &Shape, encoding: Encoding, bytes: &mut [u8]) -> Result<(), EngineError> {
        check_shape(shape, &self.shape_of(value)?)?;
        check_length(shape, encoding, bytes.len())?;
        let parameters = &self.tables.parameters;
        let of_ciphertext = |ciphertext: &Ciphertext, bytes: &mut [u8]| -> Result<(), EngineError> {
            let (bytes, bound) = bytes.split_last_chunk_mut().ok_or(EngineError::Malformed("bound"))?;
            *bound = ciphertext.noise_bound().to_le_bytes();
            match encoding {
                Encoding::Packed => put_object(&wire::store_ciphertext(ciphertext), bytes),
                Encoding::Raw => Ok(words::write_ciphertext(ciphertext, bytes)?),
            }
        };
        match &value.0 {
            Inner::Ciphertext(ciphertext) => of_ciphertext(ciphertext, bytes),
            Inner::Hoisted(hoisted) => of_ciphertext(hoisted.ciphertext(), bytes),
            Inner::Several(all) => {
                let each = bytes.len() / all.len().max(1);
                all.iter().zip(bytes.chunks_exact_mut(each)).try_for_each(|(one, bytes)| of_ciphertext(one, bytes))
            }
            Inner::Compact(compact) => match encoding {
                Encoding::Packed => put(&wire::pack_plaintext(&compact.plaintext()?, parameters)?, bytes),
                Encoding::Raw => put(&compact.bytes, bytes),
            },
            Inner::Plaintext(plaintext) => put(&wire::pack_plaintext(&unprepared(plaintext)?, parameters)?, bytes),
            Inner::Key(keys) => match encoding {
                Encoding::Packed => put_object(&wire::encode_evaluation_keys(keys), bytes),
                Encoding::Raw => Ok(words::write_evaluation_key(keys, bytes)?),
            },
        }
    }

    fn import(&self, shape: &Shape, encoding: Encoding, bytes: &[u8]) -> Result<BgvValue, EngineError> {
        check_length(shape, encoding, bytes.len())?;
        let parameters = &self.tables.parameters;
        let one = |bytes: &[u8]| -> Result<Ciphertext, EngineError> {
            let (bytes, bound) = bytes.split_last_chunk().ok_or(EngineError::Malformed("bound"))?;
            let bound = f64::from_le_bytes(*bound);
            if bound.is_nan() || bound < 0.0 {
                return Err(EngineError::Malformed("bound"));
            }
            let mut ciphertext = match encoding {
                Encoding::Packed => wire::decode_ciphertext(object(bytes)?, parameters),
                Encoding::Raw => words::read_ciphertext(bytes, parameters),
            }?;
            let claimed = ciphertext.claimed_noise();
            if bound < f64::INFINITY {
                ciphertext.declare_noise(bound);
            }
            if ciphertext.claimed_noise() == claimed { Ok(ciphertext) } else { Err(EngineError::Malformed("bound")) }
        };
        let of_ciphertext = || one(bytes);
        let value = match shape.kind {
            Kind::Encrypted => self.ciphertext(of_ciphertext()?)?,
            Kind::Several => {
                let each = usize::try_from(self.ciphertext_shape(shape.level)?.stored(encoding)).unwrap_or(usize::MAX);
                self.together(bytes.chunks(each).map(one).collect::<Result<_, _>>()?)?
            }
            Kind::Hoisted => {
                let ciphertext = into_ciphertext(self.ciphertext(of_ciphertext()?)?)?;
                BgvValue(Inner::Hoisted(self.tables.evaluator.hoist(&ciphertext)?.into_owned()))
            }
            Kind::Plain if *shape == self.compact_shape(shape.level)? => {
                let compact = match encoding {
                    Encoding::Packed => {
                        Compact::new(parameters, shape.level, &wire::unpack_plaintext(bytes, parameters)?)
                    }
                    Encoding::Raw => Compact::read(parameters, shape.level, bytes)?,
                };
                BgvValue(Inner::Compact(compact))
            }
            Kind::Plain => self.plaintext(&wire::unpack_plaintext(bytes, parameters)?, shape.level)?,
            Kind::Key => self.key(match encoding {
                Encoding::Packed => wire::decode_evaluation_keys(object(bytes)?, parameters)?,
                Encoding::Raw => words::read_evaluation_key(bytes, parameters)?,
            })?,
            _ => return Err(EngineError::Malformed("kind")),
        };
        check_shape(shape, &self.shape_of(&value)?)?;
        Ok(value)
    }
}
