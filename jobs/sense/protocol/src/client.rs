//! The key holder's half: it has the keys.
//!
//! **The key holder is a decryption oracle**: it cannot check that a ciphertext is the result of
//! the query under which it arrives. It checks everything that it can and, if a check fails,
//! withholds the whole result without a reason. The checks: declared numbers are in the plan's
//! range, the noise is below a quarter of the modulus, undeclared slots are zero, and a number that
//! fills many slots is the same in all of them.

use super::bounds::Scheme;
use super::exact::{ExactPlan, of_block};
use super::layout::{Layout, of_place};
use super::linear::LinearPlan;
use super::program::Input;
use rand_core::CryptoRng;
use tobari_device::{Opener, Profile, READINGS};
use tobari_lattice::bgv::{Ciphertext, Decryptor, EncodeError, Encoder, EvaluationKeys, SeededCiphertext};
use tobari_lattice::rlwe::SecretKey;
use zeroize::Zeroizing;

/// A withheld result. All cases have the same reason, because the asker could learn from different
/// ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a result of the registered query, found something else")]
pub struct Withheld;

/// The sums of an output, by coefficient: one array, or one for each block.
pub type Sums = Vec<[i64; READINGS]>;

/// The transforms of the secrets of a cohort's devices, by block.
pub struct Cohort {
    layout: Layout,
    /// The transforms by polynomial, then by slot.
    secrets: Vec<Zeroizing<Vec<i64>>>,
}

impl Cohort {
    /// A cohort without devices.
    pub fn new(scheme: &Scheme, layout: Layout) -> Self {
        Self { layout, secrets: vec![Zeroizing::new(vec![0; layout.slots()]); scheme.rank] }
    }

    /// Puts a device in a block. Returns whether the block exists and the rank fits.
    pub fn put<P: Profile>(&mut self, block: usize, opener: &Opener<P>) -> bool {
        let fits = block < self.layout.blocks() && self.secrets.len() == P::RANK;
        if fits {
            opener.for_each_secret(|i, place, s| {
                self.secrets[i][self.layout.slot(block, of_place(place))] = i64::from(s);
            });
        }
        fits
    }

    /// Encrypts the secrets for the server: a ciphertext for each polynomial, half of it a seed.
    ///
    /// # Errors
    /// [`EncodeError`] for a key of other parameters.
    pub fn encrypt(&self, secret: &SecretKey, rng: &mut impl CryptoRng) -> Result<Vec<SeededCiphertext>, EncodeError> {
        let (encoder, holder) = (Encoder::new(secret.parameters())?, Decryptor::new(secret)?);
        let level = secret.parameters().data_primes();
        self.secrets.iter().map(|slots| encoder.encode(slots)?.encrypt_seeded(holder.key(), level, rng)).collect()
    }
}

/// The evaluation key for an input that is a key; `None` for other inputs, or if the parameters
/// have no such key.
pub fn key(secret: &SecretKey, input: Input, rng: &mut impl CryptoRng) -> Option<EvaluationKeys> {
    let none = EvaluationKeys::new(secret.parameters());
    match input {
        Input::Rotation { steps, level } => none.with_rotation(secret, steps, usize::from(level) + 1, rng).ok(),
        Input::Swap { level } => none.with_swap(secret, usize::from(level) + 1, rng).ok(),
        Input::Relinearization { level } => none.with_relinearization(secret, usize::from(level) + 1, rng).ok(),
        _ => None,
    }
}

/// Decrypts a result into slots.
fn decrypted(secret: &SecretKey, result: &Ciphertext) -> Result<Zeroizing<Vec<i64>>, Withheld> {
    let parameters = secret.parameters();
    if result.parameters() != parameters || result.needs_relinearization() {
        return Err(Withheld);
    }
    let holder = Decryptor::new(secret).map_err(|_| Withheld)?;
    let encoder = Encoder::new(parameters).map_err(|_| Withheld)?;
    // the server sends no result whose bound passes a quarter of the modulus
    let message = holder.decrypt_measured(result).map_err(|_| Withheld)?;
    encoder.decode(&message).map(Zeroizing::new).map_err(|_| Withheld)
}

/// Decrypts and checks the sums of an output of a linear plan.
///
/// # Errors
/// [`Withheld`].
///
/// # Panics
/// If there is no such output.
pub fn linear<P: Profile>(
    plan: &LinearPlan,
    output: usize,
    secret: &SecretKey,
    result: &Ciphertext,
) -> Result<Sums, Withheld> {
    let (scheme, layout, ranges) = (plan.scheme(), plan.layout(), plan.ranges(output));
    let slots = decrypted(secret, result)?;
    let mut all = Vec::with_capacity(layout.blocks());
    for block in 0..layout.blocks() {
        let values: [u32; READINGS] =
            std::array::from_fn(|place| slots[layout.slot(block, of_place(place))].rem_euclid(scheme.modulus) as u32);
        let mut values = Zeroizing::new(values);
        Opener::<P>::coefficients(&mut values);
        let range = ranges.get(block).or_else(|| ranges.first().filter(|_| ranges.len() == 1)).ok_or(Withheld)?;
        let mut sums = [0; READINGS];
        for (sum, value) in sums.iter_mut().zip(values.iter()) {
            *sum = range.round(scheme, i64::from(*value)).ok_or(Withheld)?;
        }
        all.push(sums);
    }
    if ranges.len() == layout.blocks() && plan.outputs()[output].by_block {
        return Ok(all);
    }
    all.dedup();
    if all.len() == 1 { Ok(all) } else { Err(Withheld) }
}

/// Decrypts and checks the sums of an output of an exact plan.
///
/// # Errors
/// [`Withheld`].
///
/// # Panics
/// If there is no such output.
pub fn exact(plan: &ExactPlan, output: usize, secret: &SecretKey, result: &Ciphertext) -> Result<Sums, Withheld> {
    let (scheme, layout, ranges) = (plan.scheme(), plan.layout(), plan.ranges(output));
    let slots = decrypted(secret, result)?;
    let by_block = plan.outputs()[output].by_block;
    let mut all = Vec::with_capacity(layout.blocks());
    for block in 0..layout.blocks() {
        let mut values = of_block(layout, &slots, block);
        if !by_block && block > 0 {
            if values.iter().any(|value| *value != 0) {
                return Err(Withheld);
            }
            continue;
        }
        let range = if by_block { &ranges[block] } else { &ranges[0] };
        for value in &mut values {
            *value = range.place(scheme, *value).ok_or(Withheld)?;
        }
        all.push(values);
    }
    Ok(all)
}
