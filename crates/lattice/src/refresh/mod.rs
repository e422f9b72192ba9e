//! Refreshing ciphertexts (bootstrapping): from the last levels back to the first ones, without
//! the secret key.
//!
//! Every product takes a level, and there are only so many. A refresh computes the decryption under
//! encryption, approximately (Cheon, Han, Kim, Kim, Song, EUROCRYPT 2018; Bossuat, Mouchet,
//! Troncoso-Pastoriza, Hubaux, EUROCRYPT 2021). With `n` slots `z` at scale `Δ`:
//!
//! | step | the ciphertext holds | levels |
//! |---|---|---|
//! | slots to coefficients | `z` in the coefficients, `m = Δ z` | one a factor, the last ones |
//! | [raise](crate::rlwe) | `m + q_0 I` in the coefficients, `I` small integers, modulo the large `Q` | back to the top |
//! | coefficients to slots | `t = m/q_0 + I` in the slots | one a factor, the first ones |
//! | modular reduction | `m/q_0`, by a sine | `⌈log2(d + 1)⌉` for its series, one a doubling |
//!
//! The result holds `z` again, at scale `Δ`. Slots to coefficients come first, because everything
//! is cheap at the last levels.
//!
//! # Real and complex slots
//! Complex slots take two modular reductions, of real and imaginary parts, and real ones take one.
//!
//! # Bits
//! If every slot is 0 or 1, and has an error, the scale can be brought to `q_0/2`. Then `t` is an
//! integer or half of an odd one, up to half the error, and
//!
//! ```text
//! (1 - cos 2πt)/2 = sin² πt
//! ```
//!
//! is the bit again. Its derivative is 0 there, so the result's error is `π²/4` times the
//! **square** of the old one, and the error of the circuit itself: the refresh also cleans (Bae,
//! Cheon, Kim, Stehlé, EUROCRYPT 2024). No bit of precision is spent on a small `m/q_0`, so that
//! short primes are enough. This is how a long computation on bits stays right: the error does not
//! grow from one refresh to the next.
//!
//! # Keys
//! Keys take gigabytes. Giant steps by Horner's rule need one key each. A sender makes and sends
//! one key after another ([`Refresh::piece`]), and a server collects them in any order
//! ([`RefreshKeysInPieces`]).
//!
//! # Fewer slots
//! A refresh of `n < N/2` slots takes the first `n` of a ciphertext, whatever the others hold. In
//! its result slot `j` holds number `j mod n`. The first factor has zeros for all other slots;
//! rotations by multiples of `n`, added up, repeat the `n` numbers; and after the raise the same
//! rotations remove what is not in the ring with `n` slots.

mod bound;
mod dft;
mod modular;
mod pieces;

pub use pieces::{KeyPiece, PieceError, RefreshKeysInPieces};

use crate::ckks::{
    Basis, Ciphertext, Complex, Encoder, Estimate, EvaluationKeys, Evaluator, Grid, OperationError, Scale,
};
use crate::params::{LatticeError, LatticeParameters};
use crate::ring::{Eval, Poly};
use crate::rlwe::raise;
use crate::rlwe::{Diagonals, KeySwitcher, SecretKey};
use bound::Circuit;
use modular::Exponential;
use rand_core::CryptoRng;
use std::collections::BTreeMap;
use std::f64::consts::PI;
use std::sync::Arc;

/// What the slots hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    Real,
    Complex,
    /// 0 or 1, at the scale `2^bits`.
    Bits {
        scale: u32,
    },
}

/// The choices of a refresh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefreshSettings {
    slots: usize,
    numbers: Numbers,
    down: Vec<usize>,
    up: Vec<usize>,
    degree: usize,
    squarings: u32,
    corrected: bool,
}

impl RefreshSettings {
    /// A refresh of this many slots, a power of two, with real numbers.
    pub fn real(slots: usize) -> Self {
        let log = slots.checked_ilog2().unwrap_or(0) as usize;
        // three factors of about as many layers
        let layers: Vec<usize> = (0..3).map(|i| (log + 2 - i) / 3).filter(|count| *count > 0).collect();
        let down = layers.iter().rev().copied().collect();
        Self { slots, numbers: Numbers::Real, down, up: layers, degree: 31, squarings: 3, corrected: false }
    }

    /// The same with complex numbers.
    pub fn complex(slots: usize) -> Self {
        Self { numbers: Numbers::Complex, ..Self::real(slots) }
    }

    /// A refresh of numbers that are 0 or 1 but for their errors, at the scale `2^scale_bits`. The
    /// result has a scale of its own, the first prime ([`Scale::prime`] of 0), and an error that
    /// depends on the square of the old one.
    ///
    /// **That the numbers are bits is your promise**: nothing can check it under encryption, and
    /// `z` becomes `sin² πz/2`.
    pub fn bits(slots: usize, scale_bits: u32) -> Self {
        Self { numbers: Numbers::Bits { scale: scale_bits }, ..Self::real(slots) }
    }

    /// The same without most of the sine's own error: 20 bits instead of 15, for two levels. The
    /// scale of numbers of at most 1 is best `2^-8` of the first prime, instead of `2^-10`. Bits
    /// have no such error, and stay as they are.
    #[must_use]
    pub fn precise(self) -> Self {
        match self.numbers {
            Numbers::Bits { .. } => self,
            _ => Self { degree: 23, squarings: 4, corrected: true, ..self },
        }
    }

    /// The slots that are refreshed.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Levels that the result is below the top.
    pub fn depth(&self) -> usize {
        self.up.len() + self.series_depth() + self.squarings as usize + usize::from(self.corrected)
    }

    fn series_depth(&self) -> usize {
        (self.degree + 1).next_power_of_two().trailing_zeros() as usize
    }

    /// The lowest level of a ciphertext that can be refreshed.
    pub fn least_level(&self) -> usize {
        1 + self.down.len()
    }
}

/// Why a refresh was not prepared or not done.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RefreshError {
    /// An operation was rejected.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// Parameters that the secret of the raise is not secure at.
    #[error(transparent)]
    Parameters(#[from] LatticeError),
    /// Settings that these parameters have no room for.
    #[error(
        "expected a refresh of a power of two of at most {most} slots and {levels} levels, found {slots} slots and {depth} levels"
    )]
    Settings {
        /// `N/2`.
        most: usize,
        /// Data primes.
        levels: usize,
        /// The slots of the settings.
        slots: usize,
        /// The levels of the settings.
        depth: usize,
    },
    /// Numbers that are too large beside the first prime.
    #[error(
        "a refresh takes numbers of at most {most} at this scale, and these may be as large as {magnitude}: declare a \
         smaller range, or use a smaller scale"
    )]
    Magnitude {
        /// A bound on the numbers.
        magnitude: f64,
        /// The largest number.
        most: f64,
    },
    /// Bits at a scale that the refresh was not prepared for.
    #[error("expected bits at the scale 2^{bits}, found the scale {found}")]
    Scale {
        /// The logarithm of the scale of the settings.
        bits: u32,
        /// The scale found.
        found: Scale,
    },
    /// Keys for other settings.
    #[error("expected keys of this refresh, found keys of another one")]
    Keys,
}

/// A linear map in steps.
struct Map {
    grid: Grid,
    level: usize,
    /// By giant step, then by baby step.
    weights: Vec<Poly<Eval>>,
}

/// A refresh, prepared for a server. It holds no secret.
pub struct Refresh {
    settings: RefreshSettings,
    narrow: KeySwitcher,
    evaluator: Evaluator,
    down: Vec<Map>,
    up: Vec<Map>,
    exponential: Exponential,
    /// The largest root of a sum of squares of derivatives by roundings: the module `bound`.
    slope: f64,
}

/// The keys of a server for refreshes of ciphertexts of one secret key.
#[derive(Clone)]
pub struct RefreshKeys {
    settings: RefreshSettings,
    evaluation: Arc<EvaluationKeys>,
}

impl RefreshKeys {
    /// Bytes in memory.
    pub fn memory(&self) -> usize {
        self.evaluation.memory()
    }

    /// The keys for products, rotations and conjugation among them, for other computations, too.
    pub fn evaluation(&self) -> &Arc<EvaluationKeys> {
        &self.evaluation
    }
}

impl Refresh {
    /// Prepares a refresh.
    ///
    /// # Errors
    /// [`RefreshError`] for settings that do not fit the parameters.
    pub fn new(parameters: &LatticeParameters, settings: RefreshSettings) -> Result<Self, RefreshError> {
        let (most, levels) = (parameters.degree() / 2, parameters.data_primes());
        let slots = settings.slots;
        let fits = slots.is_power_of_two() && (4..=most).contains(&slots);
        if !fits || settings.depth() + settings.least_level() > levels {
            return Err(RefreshError::Settings { most, levels, slots, depth: settings.depth() });
        }
        let narrow = raise::narrow(parameters)?;
        let most_multiple = (raise::WEIGHT + 1) as f64 / 2.0;
        let exponential = Exponential::new(most_multiple, settings.degree, settings.squarings);
        let encoder = Encoder::new(parameters).map_err(OperationError::from)?;
        let copies = most / slots;
        // halves of t and its conjugate, over the bound of the series
        let constant = 0.5 / (exponential.bound * copies as f64);
        let map = |factor: &dft::Factor, level: usize, masked: Option<usize>| Map::new(&encoder, factor, level, masked);
        let first = settings.least_level();
        let q = parameters.ring().data_primes()[0].modulus().value() as f64;
        // bits go to half the first prime
        let grown = match settings.numbers {
            Numbers::Bits { scale } => q / 2.0 / f64::from(scale).exp2(),
            _ => 1.0,
        };
        let down = dft::factors(slots, &settings.down, false, grown);
        let moved = down.first().map_or(0, |factor| factor.stride << settings.down[0]);
        let down = down.iter().enumerate().map(|(i, factor)| {
            map(factor, first - i, (i == 0 && copies > 1).then_some(if settings.down.len() > 1 { moved } else { 0 }))
        });
        let down = down.collect::<Result<Vec<_>, _>>()?;
        let up = dft::factors(slots, &settings.up, true, constant);
        let up =
            up.iter().enumerate().map(|(i, factor)| map(factor, levels - i, None)).collect::<Result<Vec<_>, _>>()?;
        let evaluator = Evaluator::new(parameters)?.unbounded();
        let mut refresh =
            Self { settings, narrow: KeySwitcher::new(&narrow), evaluator, down, up, exponential, slope: 0.0 };
        refresh.slope = refresh.largest_slope();
        Ok(refresh)
    }

    /// The settings.
    pub fn settings(&self) -> &RefreshSettings {
        &self.settings
    }

    /// Bytes in memory.
    pub fn memory(&self) -> usize {
        let maps = self.down.iter().chain(&self.up).flat_map(|map| &map.weights);
        maps.map(Poly::memory).sum()
    }

    /// The level of a refreshed ciphertext.
    pub fn level(&self) -> usize {
        self.evaluator.parameters().data_primes() - self.settings.depth()
    }

    /// The rotations that need keys, each with its level.
    pub fn rotations(&self) -> BTreeMap<i64, usize> {
        let mut found = BTreeMap::new();
        let mut need = |step: i64, level: usize| {
            let known = found.entry(step).or_insert(level);
            *known = level.max(*known);
        };
        for map in self.down.iter().chain(&self.up) {
            map.grid.rotations().for_each(|step| need(step, map.level));
        }
        self.copies().for_each(|step| need(step, self.evaluator.parameters().data_primes()));
        found
    }

    /// Bytes in memory of [`Self::keys`], before they exist; their tables of rotations, less than a
    /// thousandth, are not counted.
    pub fn keys_memory(&self) -> usize {
        let parameters = self.evaluator.parameters();
        let narrow = EvaluationKeys::memory_of_key(self.narrow.parameters(), 1);
        let of = |(_, level)| EvaluationKeys::memory_of_key(parameters, level);
        narrow + self.pieces().into_iter().map(of).sum::<usize>()
    }

    /// The level of the first product of the series.
    fn level_of_products(&self) -> usize {
        self.evaluator.parameters().data_primes() - self.up.len()
    }

    /// Rotations that add up all copies of the slots.
    fn copies(&self) -> impl Iterator<Item = i64> {
        let most = self.evaluator.parameters().degree() / 2;
        std::iter::successors(Some(self.settings.slots), |step| Some(2 * step))
            .take_while(move |step| *step < most)
            .map(|step| step as i64)
    }

    /// The keys, which the holder of the secret makes for the server.
    ///
    /// # Errors
    /// [`RefreshError`] for a secret of other parameters.
    pub fn keys(&self, secret: &SecretKey, rng: &mut impl CryptoRng) -> Result<RefreshKeys, RefreshError> {
        self.keys_with(secret, rng, || Ok(()))
    }

    /// As [`Self::keys`], for a caller that reports progress: it calls `each` after each of
    /// [`Self::pieces`], and ends with its error.
    ///
    /// # Errors
    /// [`RefreshError`] for a secret of other parameters, or the error of `each`.
    pub fn keys_with<E: From<RefreshError>>(
        &self,
        secret: &SecretKey,
        rng: &mut impl CryptoRng,
        mut each: impl FnMut() -> Result<(), E>,
    ) -> Result<RefreshKeys, E> {
        let mut evaluation = EvaluationKeys::new(self.evaluator.parameters());
        for (piece, level) in self.pieces() {
            evaluation.add_piece(piece, secret, level, rng)?;
            each()?;
        }
        Ok(RefreshKeys { settings: self.settings.clone(), evaluation: Arc::new(evaluation) })
    }

    /// The same numbers at the level [`Self::level`], at the same scale; bits at a scale of their
    /// own.
    ///
    /// # Errors
    /// [`RefreshError`] if parameters or keys differ, the level is too low, or numbers or errors
    /// may be too large.
    pub fn refresh(&self, a: &Ciphertext, keys: &RefreshKeys) -> Result<Ciphertext, RefreshError> {
        self.refresh_with(a, keys, || Ok(()))
    }

    /// As [`Self::refresh`], for a caller that reports progress: it calls `each` after each of
    /// [`Self::steps`], and ends with its error.
    ///
    /// # Errors
    /// As [`Self::refresh`], or the error of `each`.
    pub fn refresh_with<E: From<RefreshError>>(
        &self,
        a: &Ciphertext,
        keys: &RefreshKeys,
        mut each: impl FnMut() -> Result<(), E>,
    ) -> Result<Ciphertext, E> {
        let estimate = self.admitted(a, keys)?;
        let mut ended = None;
        let mut step = || match each() {
            Ok(()) => true,
            Err(error) => {
                ended = Some(error);
                false
            }
        };
        let found = self.refreshed(a, &keys.evaluation, &mut step).map_err(RefreshError::from)?;
        let Some(mut result) = found else { return Err(ended.unwrap_or_else(|| RefreshError::Keys.into())) };
        result.declare_estimate(&estimate).map_err(RefreshError::from)?;
        Ok(result)
    }

    /// The steps of a refresh, for a caller of [`Self::refresh_with`]. They take different times.
    pub fn steps(&self) -> usize {
        let parts = if self.settings.numbers == Numbers::Complex { 2 } else { 1 };
        self.down.len() + 1 + self.up.len() + parts * self.exponential_steps()
    }

    /// The steps of one exponential function.
    fn exponential_steps(&self) -> usize {
        1 + self.settings.squarings as usize + usize::from(self.settings.corrected)
    }

    /// The bounds of the refreshed ciphertext, if it can be refreshed with these keys.
    fn admitted(&self, a: &Ciphertext, keys: &RefreshKeys) -> Result<Estimate, RefreshError> {
        if keys.settings != self.settings {
            return Err(RefreshError::Keys);
        }
        self.evaluator.check_keys(a, &keys.evaluation)?;
        self.evaluator.check_level(a, self.settings.least_level())?;
        self.bound(a.estimate().ok_or(OperationError::NoEstimate)?, a.scale())
    }

    /// As [`Self::refresh`], for a ciphertext without bounds, as an
    /// [unbounded](Evaluator::unbounded) evaluator makes them. **That its numbers are small enough
    /// is your promise**: at most a 128th of the first prime over the scale. Nothing can check it
    /// under encryption.
    ///
    /// # Errors
    /// [`RefreshError`] if parameters or keys differ, or the level is too low.
    pub fn refresh_unbounded(&self, a: &Ciphertext, keys: &RefreshKeys) -> Result<Ciphertext, RefreshError> {
        if keys.settings != self.settings {
            return Err(RefreshError::Keys);
        }
        self.evaluator.check_keys(a, &keys.evaluation)?;
        self.evaluator.check_level(a, self.settings.least_level())?;
        self.refreshed(a, &keys.evaluation, &mut || true)?.ok_or(RefreshError::Keys)
    }

    /// The refreshed ciphertext, without its bounds. It calls `step` after each step, and ends with
    /// no ciphertext where the answer is no.
    fn refreshed(
        &self,
        a: &Ciphertext,
        evaluation: &EvaluationKeys,
        step: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Ciphertext>, OperationError> {
        let missing = || OperationError::MissingKey { purpose: "raise".into(), level: 1, found: None };
        let raise = evaluation.raise().ok_or_else(missing)?;
        let scale = a.scale();
        let mut low = self.evaluator.to_level(a, self.settings.least_level())?;
        for (i, map) in self.down.iter().enumerate() {
            low = self.evaluator.rescale(&self.apply(&low, map, evaluation)?)?;
            if i == 0 {
                low = self.sum_copies(low, evaluation)?;
            }
            if !step() {
                return Ok(None);
            }
        }
        let [c0, c1] = low.inner().parts() else { return Err(OperationError::ThreeParts) };
        let raised = raise::raise([c0, c1], raise, &self.narrow, self.evaluator.switcher());
        let mut high = self.evaluator.with_parts(a, raised.into(), &Scale::prime(0));
        high = self.sum_copies(high, evaluation)?;
        if !step() {
            return Ok(None);
        }
        for (i, map) in self.up.iter().enumerate() {
            high = self.apply(&high, map, evaluation)?;
            if i + 1 < self.up.len() {
                high = self.evaluator.rescale(&high)?;
            }
            if !step() {
                return Ok(None);
            }
        }
        // before the last rescaling, so that it divides the error of the key switch, too
        let conjugate = self.evaluator.conjugate(&high, evaluation)?;
        let real = self.evaluator.rescale(&self.evaluator.add(&high, &conjugate)?)?;
        if matches!(self.settings.numbers, Numbers::Bits { .. }) {
            // a quarter of exp(2πit), and its conjugate
            let Some(quarter) = self.exponential(&real, &Scale::prime(0), evaluation, step)? else { return Ok(None) };
            let half = self.evaluator.add(&quarter, &self.evaluator.conjugate(&quarter, evaluation)?)?;
            return self.evaluator.add_constant(&self.evaluator.neg(&half)?, 0.5).map(Some);
        }
        let Some(mut result) = self.exponential(&real, scale, evaluation, step)? else { return Ok(None) };
        let mut mirrored = result.clone();
        if self.settings.numbers == Numbers::Complex {
            // (z - conj z)/i = i (conj z - z)
            let difference = self.evaluator.sub(&conjugate, &high)?;
            let imaginary = self.evaluator.rescale(&self.evaluator.times_i(&difference)?)?;
            let Some(imaginary) = self.exponential(&imaginary, scale, evaluation, step)? else { return Ok(None) };
            let imaginary = self.evaluator.times_i(&imaginary)?;
            mirrored = self.evaluator.sub(&result, &imaginary)?;
            self.evaluator.add_assign(&mut result, &imaginary)?;
        }
        // Im a + i Im b = i (conj(a - i b) - (a + i b))/2; the half is in a and b
        let mirrored = self.evaluator.conjugate(&mirrored, evaluation)?;
        self.evaluator.times_i(&self.evaluator.sub(&mirrored, &result)?).map(Some)
    }

    /// The linear map.
    fn apply(&self, a: &Ciphertext, map: &Map, keys: &EvaluationKeys) -> Result<Ciphertext, OperationError> {
        let found = map.grid.rotations().map(|step| keys.rotation(keys.step(step), a.level()));
        let mut babies = found.collect::<Result<Vec<_>, OperationError>>()?;
        let giant = if map.grid.giants > 1 { babies.pop() } else { None };
        let [c0, c1] = a.inner().parts() else { return Err(OperationError::ThreeParts) };
        let diagonals = Diagonals { parts: [c0, c1], plaintexts: map.weights.iter().collect() };
        let parts = self.evaluator.switcher().transform_sum(&[diagonals], &babies, giant);
        let scale = self.evaluator.product(a.scale(), &Scale::prime(a.level() - 1), a.level())?;
        Ok(self.evaluator.with_parts(a, parts.into(), &scale))
    }

    fn sum_copies(&self, mut a: Ciphertext, keys: &EvaluationKeys) -> Result<Ciphertext, OperationError> {
        for step in self.copies() {
            a = self.evaluator.add(&a, &self.evaluator.rotate(&a, step, keys)?)?;
        }
        Ok(a)
    }

    /// A ciphertext whose imaginary parts are halves of `z`, at the scale of `z`, from slots
    /// `t/κ`; for bits a quarter of `exp(2πit)`, at the scale of the first prime.
    fn exponential(
        &self,
        x: &Ciphertext,
        scale: &Scale,
        keys: &EvaluationKeys,
        step: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Ciphertext>, OperationError> {
        let evaluator = &self.evaluator;
        let (series, linear) = self.weights(self.correction(x.level())?);
        let mut y = evaluator.series(Basis::Chebyshev, x, &series, &Scale::prime(0), keys)?;
        for _ in 0..self.settings.squarings {
            if !step() {
                return Ok(None);
            }
            y = evaluator.mul_rescale(&y, &y, keys)?;
        }
        if !step() {
            return Ok(None);
        }
        if let Some(linear) = linear {
            let term = evaluator.mul_constant_at(&y, linear, y.scale())?;
            let difference = evaluator.sub(&term, &evaluator.tensor(&y, &y)?)?;
            y = evaluator.relinearize_rescale(&difference, keys)?;
            if !step() {
                return Ok(None);
            }
        }
        Ok(Some(evaluator.with_parts(&y, y.inner().parts().to_vec(), scale)))
    }

    /// `q_0` over the scale after the squarings of numbers of `level`, if that of the series is
    /// `q_0`: what relabels it as that of the result.
    fn correction(&self, level: usize) -> Result<f64, OperationError> {
        let mut after = Scale::prime(0);
        for i in 0..self.settings.squarings as usize + usize::from(self.settings.corrected) {
            let prime = Scale::prime(level - self.settings.series_depth() - i - 1);
            let square = after.product(&after).and_then(|square| square.quotient(&prime));
            after = square.ok_or(OperationError::NoRoom { level })?;
        }
        let correction = Scale::prime(0).quotient(&after).and_then(|c| c.to_f64(self.evaluator.parameters()));
        correction.ok_or(OperationError::NoRoom { level })
    }

    /// The coefficients of the series. With a correction of the sine also the `c` of `c y - y²`,
    /// which is `a (4/3 exp(iθ) - 1/6 exp(2iθ))` for `y = √(a/6) exp(iθ)`, with the amplitude `a`
    /// of the result.
    fn weights(&self, correction: f64) -> (Vec<Complex>, Option<f64>) {
        let amplitude = match self.settings.numbers {
            Numbers::Bits { .. } => 0.25,
            // two of its imaginary parts are a number over q_0
            _ => 0.25 / PI,
        };
        let amplitude = amplitude * correction;
        let squared = (amplitude / 6.0).sqrt();
        let factor = if self.settings.corrected { squared } else { amplitude };
        let factor = (0..self.settings.squarings).fold(factor, |factor, _| factor.sqrt());
        (self.exponential.times(factor), self.settings.corrected.then_some(4.0 / 3.0 * amplitude / squared))
    }

    /// [`Circuit::slope`], at its largest: at integers, and for bits at halves, too.
    fn largest_slope(&self) -> f64 {
        let most = raise::WEIGHT as i32 / 2;
        let (series, linear) = self.weights(1.0);
        let slope = |halves: i32| {
            let x = f64::from(halves) / 2.0 / self.exponential.bound;
            Circuit::slope(x, &series, self.settings.squarings, linear)
        };
        let integers = !matches!(self.settings.numbers, Numbers::Bits { .. });
        let every = if integers { 2 } else { 1 };
        (-2 * most - 1..=2 * most + 1).filter(|halves| halves % every == 0).map(slope).fold(0.0, f64::max)
    }
}

impl Map {
    /// Prepares a factor for a level. `masked` keeps the first slots only, in a result that is
    /// rotated by that many.
    fn new(
        encoder: &Encoder,
        factor: &dft::Factor,
        level: usize,
        masked: Option<usize>,
    ) -> Result<Self, OperationError> {
        let all = encoder.slots();
        let last = factor.diagonals.keys().last().copied().unwrap_or(0);
        let count = (last + 1).next_power_of_two();
        // a giant step costs about twice a baby step
        let babies = 1usize << (count.trailing_zeros().div_ceil(2));
        let giants = (last + 1).div_ceil(babies);
        let scale = Scale::prime(level - 1);
        let zeros = vec![Complex::default(); all];
        let mut weights = Vec::with_capacity(giants * babies);
        for d in 0..giants * babies {
            let giant = d / babies * babies * factor.stride;
            let mut slots = zeros.clone();
            if let Some(diagonal) = factor.diagonals.get(&d) {
                for (j, slot) in slots.iter_mut().enumerate() {
                    let own = masked.is_none_or(|moved| (j + moved) % all < diagonal.len());
                    *slot = if own { diagonal[j % diagonal.len()] } else { Complex::default() };
                }
            }
            slots.rotate_right(giant % all);
            weights.push(encoder.key_element(&slots, &scale, level)?);
        }
        let grid = Grid { baby: factor.stride as i64, babies, giant: (babies * factor.stride) as i64, giants };
        Ok(Self { grid, level, weights })
    }
}

#[cfg(test)]
mod tests;
