//! Networks of other kinds: all of it on plain numbers inside, or maps in the process.
//!
//! A [`Setup`](super::Setup) has a model of this crate. A [`NetworkSetup`] has a network of another
//! kind. This crate knows it only by [`PlainNetwork`] or [`MixedNetwork`], and a function of the
//! caller reads its bytes ([`Guarded::build_any`]).
//!
//! * `enclave-plain`: the network runs inside, in doubles. Nothing is encrypted, so it takes no
//!   levels and may have any depth.
//! * `mixed-plain-reset`: the process computes maps on ciphertexts, and the enclave all else on
//!   plain numbers. Between two maps the process **visits** the enclave: it passes in the
//!   ciphertexts of the maps' results, and gets the next maps' inputs, encrypted anew. The first
//!   visit takes nothing, because the picture is inside; the last one returns nothing, because the
//!   logits stay there.
//!
//! # Doubles
//! A label is the class of the largest logit, the first one of equals, exactly as the network
//! computes the logits. Where maps are encrypted, logits are compared with 24 bits after the point,
//! and the answer says whether encryption may have exchanged the two largest. Rounded scores and
//! scores have 24 bits after the point, as those of models in integers, and are limited to ±2^38. A
//! logit that is not a number counts as the least.
//!
//! The code of this file has no branch and no address that depends on a logit. The network itself
//! must keep the same rule ([`PlainNetwork::logits`], [`Numbers::visit`]).
//!
//! [`Guarded::build_any`]: super::Guarded::build_any

use super::route::{
    self, ASK, Combination, HEADER, IMAGE, INPUT, PARTS, RESETS, RESULT, Route, RouteError, SetupError, hiding_bits,
    inside_alone, parameters_digest, parts_of_network, told_bytes,
};
use crate::card;
use crate::plain::FRACTION_BITS;
use crate::program::Input;
use std::hint::black_box;
use tobari_enclave::{Configuration, Digest, OutputPolicy, Party, Refused, Script, Size, Step, configuration};
use tobari_engine::CkksEngine;
use tobari_lattice::ckks::Scale;
use tobari_lattice::params::LatticeParameters;
use tobari_lattice::wire;
use zeroize::Zeroizing;

/// The most classes: a label has two bytes.
const MAX_CLASSES: usize = 1 << 16;
/// The name of the layouts of a network whose maps the process computes.
const SEARCHED: &str = "searched";
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

/// A network whose maps the process computes on ciphertexts.
pub trait MixedNetwork: Send {
    /// The digest that names the network.
    fn digest(&self) -> [u8; 32];

    /// Pixels of a picture, over all channels.
    fn pixels(&self) -> usize;

    /// The number of logits.
    fn classes(&self) -> usize;

    /// The parameters of the encryption.
    fn parameters(&self) -> &LatticeParameters;

    /// The keys that the process needs.
    fn keys(&self) -> &[Input];

    /// Data primes and scale of each ciphertext that a visit takes, and that it returns.
    fn visits(&self) -> &[[Vec<(usize, Scale)>; 2]];

    /// The foretold error of a logit.
    fn error(&self) -> f64;

    /// The numbers of a picture: pixels from 0 to 255, channel by channel and row by row. `None`
    /// for a picture of another size.
    fn begin(&self, pixels: &[u8]) -> Option<Box<dyn Numbers>>;
}

/// The numbers of one picture in a [`MixedNetwork`], wiped when dropped.
pub trait Numbers: Send {
    /// A visit: the slots of all ciphertexts that it returns, for those of all that it takes.
    /// `None` for a visit that is not the next one, for other slots, and for numbers so large that
    /// they may be damaged.
    ///
    /// No branch or address may depend on a number, except on whether all are small enough.
    fn visit(&mut self, number: usize, slots: &[Vec<f64>]) -> Option<Zeroizing<Vec<Vec<f64>>>>;

    /// The logits; `None` before the last visit.
    fn logits(&mut self) -> Option<Zeroizing<Vec<f64>>>;
}

/// A network of another kind.
pub enum Foreign {
    /// All of it on plain numbers inside: `enclave-plain`.
    Plain(Box<dyn PlainNetwork>),
    /// Maps on ciphertexts in the process: `mixed-plain-reset`.
    Mixed(Box<dyn MixedNetwork>),
}

impl Foreign {
    /// The combination.
    pub fn combination(&self) -> Combination {
        match self {
            Self::Plain(_) => Combination::EnclavePlain,
            Self::Mixed(_) => Combination::MixedPlainReset,
        }
    }

    fn digest(&self) -> [u8; 32] {
        match self {
            Self::Plain(network) => network.digest(),
            Self::Mixed(network) => network.digest(),
        }
    }

    /// Pixels of a picture, over all channels.
    pub(super) fn pixels(&self) -> usize {
        match self {
            Self::Plain(network) => network.pixels(),
            Self::Mixed(network) => network.pixels(),
        }
    }

    fn classes(&self) -> usize {
        match self {
            Self::Plain(network) => network.classes(),
            Self::Mixed(network) => network.classes(),
        }
    }

    /// The foretold error of a logit; 0 where nothing is encrypted.
    pub(super) fn error(&self) -> f64 {
        match self {
            Self::Plain(_) => 0.0,
            Self::Mixed(network) => network.error(),
        }
    }
}

/// The input from which an enclave is built for a network of another kind.
pub struct NetworkSetup {
    parameters: LatticeParameters,
    bytes: Vec<u8>,
    network: Foreign,
}

impl NetworkSetup {
    /// The setup of a network that `bytes` encode and that runs on plain numbers inside. The
    /// parameters encrypt nothing: offers and setups have some in every combination.
    pub fn plain(parameters: LatticeParameters, bytes: Vec<u8>, network: Box<dyn PlainNetwork>) -> Self {
        Self { parameters, bytes, network: Foreign::Plain(network) }
    }

    /// The setup of a network that `bytes` encode and whose maps the process computes.
    pub fn mixed(bytes: Vec<u8>, network: Box<dyn MixedNetwork>) -> Self {
        Self { parameters: network.parameters().clone(), bytes, network: Foreign::Mixed(network) }
    }

    /// The route.
    pub fn route(&self) -> Route {
        let route = Route::new(self.network.combination(), &self.parameters);
        match self.network {
            Foreign::Plain(_) => route,
            Foreign::Mixed(_) => Route { layout: SEARCHED.to_owned(), ..route },
        }
    }

    /// The network, without its bytes.
    pub fn into_network(self) -> Foreign {
        self.network
    }

    /// Encodes the route, the length of the parameters (4), the parameters, and the network.
    pub fn encode(&self) -> Vec<u8> {
        route::close(&self.route(), &self.parameters, &self.bytes)
    }

    /// Decodes the bytes of [`Self::encode`]; `None` for a setup of another combination, or one
    /// whose network `read` does not know in this combination.
    ///
    /// # Errors
    /// [`SetupError`] for bytes that are no setup, or for a known network with another route or
    /// other parameters.
    pub fn decode(
        bytes: &[u8],
        read: impl FnOnce(Combination, &[u8]) -> Option<Foreign>,
    ) -> Result<Option<Self>, SetupError> {
        let (route, parameters, model) = route::open(bytes)?;
        let Some(network) = read(route.combination, model) else { return Ok(None) };
        if let Foreign::Mixed(network) = &network
            && *network.parameters() != parameters
        {
            return Err(SetupError::Malformed);
        }
        let setup = Self { parameters, bytes: model.to_vec(), network };
        if setup.route() != route { Err(SetupError::Malformed) } else { Ok(Some(setup)) }
    }

    /// The permissions of an enclave of this setup: it returns `output` for at most `images` images
    /// a session, in at most `sessions` sessions at once.
    ///
    /// # Errors
    /// [`RouteError`] for an output that the network does not have, for one that tells the errors
    /// of decryption, and for one too large.
    pub fn configuration(&self, output: OutputPolicy, sessions: u16, images: u32) -> Result<Configuration, RouteError> {
        card::check_bounds(&wire::encode_parameters(&self.parameters))?; // like the enclave
        let (classes, combination) = (self.network.classes(), self.network.combination().name());
        let refused = |expected| Err(RouteError::Output { combination, expected });
        match output {
            OutputPolicy::Top(count) if usize::from(count) > classes => {
                return refused("at most as many labels as there are classes");
            }
            OutputPolicy::Rounded(bits) if rounding(bits).is_none() => {
                return refused("scores rounded to at most 24 bits");
            }
            OutputPolicy::Scores if matches!(self.network, Foreign::Mixed(_)) => {
                return refused("labels or rounded scores, as exact ones of ciphertexts tell the key");
            }
            _ => {}
        }
        let error = self.network.error();
        if let (OutputPolicy::Rounded(found), most) = (output, hiding_bits(error))
            && found > most
        {
            return Err(RouteError::Rounding { combination, found, most, error });
        }
        if !(1..=MAX_CLASSES).contains(&classes) {
            return Err(RouteError::TooLarge);
        }
        let script = match &self.network {
            Foreign::Plain(network) => inside_alone(network.pixels(), classes, output)?,
            Foreign::Mixed(network) => script(network.as_ref(), output)?,
        };
        let configuration = Configuration {
            model: Digest::new(self.network.digest()),
            plan: self.route().digest(),
            parameters: parameters_digest(&self.parameters),
            setup: Digest::of_bytes(&self.encode()),
            output,
            max_sessions: sessions,
            rounds: images,
            script,
        };
        configuration.check()?;
        Ok(configuration)
    }
}

/// The messages of a round of a network whose maps the process computes.
fn script(network: &dyn MixedNetwork, output: OutputPolicy) -> Result<Script, RouteError> {
    let (found, most) = (network.visits().len(), usize::from(u8::MAX - RESETS) + 3);
    let [first, resets @ .., last] = network.visits() else { return Err(RouteError::NoMap) };
    if found > most {
        return Err(RouteError::Visits { found, most });
    }
    let client = |kind, request, reply| Step { from: Party::Client, kind, request, reply };
    let host = |kind, request, reply| Step { from: Party::Host, kind, request, reply };
    let kind = |first: u8, end: u16, number: usize| {
        let kind = u8::try_from(number).ok().and_then(|number| first.checked_add(number));
        kind.filter(|kind| u16::from(*kind) < end).ok_or(RouteError::TooLarge)
    };
    let engine = CkksEngine::new(network.parameters())?.unbounded();
    let bytes = |places: &[(usize, Scale)]| -> Result<Size, RouteError> {
        let mut all = u64::from(HEADER);
        for (level, _) in places {
            all += engine.ciphertext_shape(level.saturating_sub(1) as u16)?.packed + u64::from(HEADER);
        }
        let all = u32::try_from(all).ok().filter(|all| *all <= configuration::MAX_MESSAGE_BYTES);
        Ok(if places.is_empty() { Size::Fixed(0) } else { Size::UpTo(all.ok_or(RouteError::TooLarge)?) })
    };
    let nothing = Size::Fixed(0);
    let mut steps = Vec::new();
    for (number, part) in parts_of_network(network.parameters(), network.keys()).iter().enumerate() {
        steps.push(host(kind(PARTS, u16::from(RESETS), number)?, nothing, Size::UpTo(part.bytes)));
    }
    let pixels = u32::try_from(network.pixels()).map_err(|_| RouteError::TooLarge)?;
    steps.push(client(IMAGE, Size::Fixed(pixels), nothing));
    steps.push(host(INPUT, nothing, bytes(&first[1])?));
    for (number, [taken, returned]) in resets.iter().enumerate() {
        steps.push(host(kind(RESETS, 256, number)?, bytes(taken)?, bytes(returned)?));
    }
    steps.push(host(RESULT, bytes(&last[0])?, nothing));
    steps.push(client(ASK, nothing, Size::Fixed(told_bytes(output, network.classes()) as u32)));
    Ok(Script::new(steps)?)
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
