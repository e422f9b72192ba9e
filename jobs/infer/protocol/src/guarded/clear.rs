//! Networks of any kind, on plain numbers inside.
//!
//! `enclave-plain` encrypts nothing, so it takes no levels and serves networks of any depth. A
//! [`Setup`](super::Setup) has a model of this crate, which runs in integers. A [`PlainSetup`] has
//! a network of another kind, which runs in doubles. This crate knows such a network only by
//! [`PlainNetwork`], and a function of the caller reads its bytes ([`Guarded::build_any`]).
//!
//! # Doubles
//! A label is the class of the largest logit, the first one of equals, exactly as the network
//! computes the logits. Rounded scores and scores have 24 bits after the point, as those of models
//! in integers, and are limited to ±2^38. A logit that is not a number counts as the least.
//!
//! The code of this file has no branch and no address that depends on a logit. The network itself
//! must keep the same rule ([`PlainNetwork::logits`]).
//!
//! [`Guarded::build_any`]: super::Guarded::build_any

use super::route::{self, Combination, Route, RouteError, SetupError, inside_alone, parameters_digest};
use crate::card;
use crate::plain::FRACTION_BITS;
use std::hint::black_box;
use tobari_enclave::{Configuration, Digest, OutputPolicy, Refused};
use tobari_lattice::params::LatticeParameters;
use tobari_lattice::wire;
use zeroize::Zeroizing;

/// The most classes: a label has two bytes.
const MAX_CLASSES: usize = 1 << 16;
/// The largest logit of a score: with 24 bits after the point it has 62.
const MOST: f64 = (1u64 << 38) as f64;

/// A network that computes plain logits.
pub trait PlainNetwork: Send {
    /// The digest that names the network.
    fn digest(&self) -> [u8; 32];

    /// Pixels of a picture, over all channels.
    fn pixels(&self) -> usize;

    /// The number of logits.
    fn classes(&self) -> usize;

    /// The logits of a picture: pixels from 0 to 255, channel by channel and row by row. `None` for
    /// a picture of another size.
    ///
    /// No branch or address may depend on a pixel, and numbers on the way are wiped.
    fn logits(&self, pixels: &[u8]) -> Option<Zeroizing<Vec<f64>>>;
}

/// The input from which an enclave is built for a network that runs on plain numbers inside.
pub struct PlainSetup {
    parameters: LatticeParameters,
    bytes: Vec<u8>,
    network: Box<dyn PlainNetwork>,
}

impl PlainSetup {
    /// The setup of a network that `bytes` encode. The parameters encrypt nothing: offers and
    /// setups have some in every combination.
    pub fn new(parameters: LatticeParameters, bytes: Vec<u8>, network: Box<dyn PlainNetwork>) -> Self {
        Self { parameters, bytes, network }
    }

    /// The route of every such setup.
    pub fn route(&self) -> Route {
        Route::new(Combination::EnclavePlain, &self.parameters)
    }

    /// The network, without its bytes.
    pub fn into_network(self) -> Box<dyn PlainNetwork> {
        self.network
    }

    /// Encodes the route, the length of the parameters (4), the parameters, and the network.
    pub fn encode(&self) -> Vec<u8> {
        route::close(&self.route(), &self.parameters, &self.bytes)
    }

    /// Decodes the bytes of [`Self::encode`]; `None` for a setup of another combination, or one
    /// whose network `read` does not know.
    ///
    /// # Errors
    /// [`SetupError`] for bytes that are no setup, or for a known network with another route.
    pub fn decode(
        bytes: &[u8],
        read: impl FnOnce(&[u8]) -> Option<Box<dyn PlainNetwork>>,
    ) -> Result<Option<Self>, SetupError> {
        let (route, parameters, model) = route::open(bytes)?;
        if route.combination != Combination::EnclavePlain {
            return Ok(None);
        }
        let Some(network) = read(model) else { return Ok(None) };
        let setup = Self { parameters, bytes: model.to_vec(), network };
        if setup.route() != route { Err(SetupError::Malformed) } else { Ok(Some(setup)) }
    }

    /// The permissions of an enclave of this setup: it returns `output` for at most `images` images
    /// a session, in at most `sessions` sessions at once.
    ///
    /// # Errors
    /// [`RouteError`] for an output that the network does not have, and for one too large.
    pub fn configuration(&self, output: OutputPolicy, sessions: u16, images: u32) -> Result<Configuration, RouteError> {
        card::check_bounds(&wire::encode_parameters(&self.parameters))?; // like the enclave
        let classes = self.network.classes();
        let refused = |expected| Err(RouteError::Output { combination: Combination::EnclavePlain.name(), expected });
        match output {
            OutputPolicy::Top(count) if usize::from(count) > classes => {
                return refused("at most as many labels as there are classes");
            }
            OutputPolicy::Rounded(bits) if rounding(bits).is_none() => {
                return refused("scores rounded to at most 24 bits");
            }
            _ => {}
        }
        if !(1..=MAX_CLASSES).contains(&classes) {
            return Err(RouteError::TooLarge);
        }
        let configuration = Configuration {
            model: Digest::new(self.network.digest()),
            plan: self.route().digest(),
            parameters: parameters_digest(&self.parameters),
            setup: Digest::of_bytes(&self.encode()),
            output,
            max_sessions: sessions,
            rounds: images,
            script: inside_alone(self.network.pixels(), classes, output)?,
        };
        configuration.check()?;
        Ok(configuration)
    }
}

/// The number of bits to round away from scores, to leave so many after the point.
pub(super) fn rounding(bits: u8) -> Option<i32> {
    FRACTION_BITS.checked_sub(u32::from(bits)).map(|shift| shift as i32)
}

/// Logits of which each is larger than, equal to or smaller than each other.
pub(super) fn ordered(logits: &[f64]) -> Zeroizing<Vec<f64>> {
    // the larger of a number and of what is none is the number: one instruction, or a few
    Zeroizing::new(logits.iter().map(|logit| logit.max(f64::NEG_INFINITY)).collect())
}

/// Ordered logits, limited to the largest score.
pub(super) fn limited(logits: &[f64]) -> Zeroizing<Vec<f64>> {
    Zeroizing::new(logits.iter().map(|logit| logit.clamp(-MOST, MOST)).collect())
}

/// The place of the largest of ordered logits, the first one of equals.
pub(super) fn largest(logits: &[f64]) -> usize {
    let (mut best, mut place) = (f64::NEG_INFINITY.to_bits(), 0);
    for (at, logit) in logits.iter().enumerate() {
        // all ones if the logit is larger; hidden from the compiler, which could make a branch of
        // it
        let larger = black_box(u64::from(*logit > f64::from_bits(best)).wrapping_neg());
        best ^= (best ^ logit.to_bits()) & larger;
        place ^= (place ^ at) & larger as usize;
    }
    place
}

/// Writes the places of the `count` largest numbers, the largest first, and of equals the first
/// one; two bytes each.
///
/// # Errors
/// [`Refused`] for more than there are numbers.
pub(super) fn tell_largest<T: PartialOrd>(
    numbers: &[T],
    count: u8,
    out: &mut Zeroizing<Vec<u8>>,
) -> Result<(), Refused> {
    if usize::from(count) > numbers.len() {
        return Err(Refused);
    }
    // every pair is compared, and every place read; this hides from the compiler that a bit is 0 or
    // 1, so that it makes no branch of it
    let bit = |condition: bool| black_box(usize::from(condition));
    let before =
        |i: usize, j: usize| bit(numbers[j] > numbers[i]) | (bit(numbers[j] == numbers[i]) & usize::from(j < i));
    let rank = |i: usize| (0..numbers.len()).map(|j| before(i, j)).sum::<usize>();
    let ranks: Zeroizing<Vec<usize>> = Zeroizing::new((0..numbers.len()).map(rank).collect());
    for wanted in 0..usize::from(count) {
        let place: usize = ranks.iter().enumerate().map(|(i, rank)| i * bit(*rank == wanted)).sum();
        out.extend_from_slice(&(place as u16).to_be_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn told(numbers: &[f64], count: u8) -> Vec<u16> {
        let mut out = Zeroizing::new(Vec::new());
        tell_largest(&ordered(numbers), count, &mut out).unwrap();
        out.as_chunks::<2>().0.iter().map(|place| u16::from_be_bytes(*place)).collect()
    }

    #[test]
    fn the_largest_logit_is_found_to_its_last_bit_and_what_is_no_number_is_the_least() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let next = f64::from_bits(3.0f64.to_bits() + 1);
        for (logits, order) in [
            (vec![1.0, 3.0, 2.0], [1, 2, 0]),
            (vec![3.0, next, -7.0], [1, 0, 2]),
            (vec![next, 3.0, 3.0], [0, 1, 2]),
            (vec![-0.0, 0.0, -1e-320], [0, 1, 2]),
            (vec![-1e-320, 1e-320, 0.0], [1, 2, 0]),
            (vec![nan, -5.0, -6.0], [1, 2, 0]),
            (vec![-inf, nan, -1e300], [2, 0, 1]),
            (vec![nan, inf, nan], [1, 0, 2]),
        ] {
            assert_eq!(told(&logits, 3), order, "{logits:?}");
            assert_eq!(largest(&ordered(&logits)), usize::from(order[0]), "{logits:?}");
        }
        assert_eq!(largest(&[]), 0);
        assert!(tell_largest(&[1.0, 2.0], 3, &mut Zeroizing::new(Vec::new())).is_err());
    }

    #[test]
    fn scores_beyond_62_bits_are_limited() {
        let limited = limited(&ordered(&[f64::NAN, f64::INFINITY, -1e300, 0.25]));
        assert_eq!(*limited, [-MOST, MOST, -MOST, 0.25]);
        assert_eq!([0, 24, 25].map(rounding), [Some(24), Some(0), None]);
    }
}
