//! A compiled network: the graph, what calibration pictures decided, parameters, and the foretold
//! error of the logits.
//!
//! # Choice of the precision
//! A label is right if the errors of the logits are below half the **margin**, the difference of
//! the two largest logits that 19 of 20 pictures have. Errors have two sources: approximations of
//! activations, and the noise of encryption. Each has a knob, and both cost levels or time. So
//! [`DeepModel::compile`] tries
//!
//! 1. activations from 3 right bits upwards, until approximations take at most half of what is
//!    allowed, and
//! 2. parameters, the smallest ring first and in it those with the least work, until the foretold
//!    error is allowed.
//!
//! # The foretold error
//! The simulator runs some pictures with the noise of every operation. The foretold error is five
//! deviations of the noise, in the logit or the picture with the most, plus the largest error of
//! approximations, with room for other pictures: half as much more, or four times as much in all if
//! there were few. So it is measured on this very network, and no worst case that adds up layer by
//! layer.
//!
//! # The file
//! `TIM`, version 3; [`encode`](DeepModel::encode) describes it.

use crate::arrange::{ArrangeError, arrange};
use crate::enclaved::Enclaved;
use crate::encrypted::{self, Network, RunError};
use crate::graph::{Graph, PictureError};
use crate::lower::{LowerError, LowerOptions, Lowered, Source, lower, numbers};
use crate::machine::Circuit;
use crate::place::place;
use crate::settings::{Engine, EngineKind, Refreshing, Settings};
use crate::simulate::simulate;
use crate::steps::Steps;
use tobari_infer::client::{GUARD, close};
use tobari_infer::compile::Card;
use tobari_infer::noise::Noise;
use tobari_infer::program::Input;
use tobari_lattice::ckks::{EvaluationKeys, Scale};
use tobari_lattice::params::{LatticeError, LatticeParameters};

/// Deviations of the noise in a foretold error.
const DEVIATIONS: f64 = 5.0;
/// Room for pictures whose approximations are worse than those of `seen` pictures: half as much
/// more than the worst of many, and four times as much in all for few. Of 1,000 pictures of
/// ResNet-20 the worst was half as much worse than the worst of 64; of public networks, six other
/// pictures were up to 3.8 times as bad as 24.
fn others(seen: usize) -> f64 {
    (1.5 * (1.0 + 40.0 / seen.max(1) as f64)).min(4.0)
}
/// Digits of a key switch beyond which the next ring is tried, too: its fewer digits outweigh its
/// size.
const MOST_DIGITS: usize = 6;
/// The part of the margin below which noise is small.
const SMALL: f64 = 0.05;
/// The fewest and the most pictures that a forecast simulates with noise, and the numbers of all
/// tensors for which it takes more than the fewest.
const FORECAST: [usize; 2] = [6, 24];
const FORECAST_NUMBERS: usize = 1 << 20;
/// Pictures whose approximations are compared with the plain network: in the search for right
/// bits, and at its end.
const COMPARED: [usize; 2] = [64, 512];
/// The most numbers of all calibration pictures in all tensors together.
const NUMBERS: usize = 1 << 25;
/// Right bits of activations that are tried.
const BITS: std::ops::RangeInclusive<u32> = 3..=14;
/// Pictures with which the right bits of activations are chosen.
const TRIED: usize = 64;
/// The headroom of networks whose activations are approximated: outside its range a series grows
/// without bound.
const WIDE: f64 = 2.0;
/// The headroom of networks of polynomials of degree two.
const NARROW: f64 = 1.25;
/// The most bytes of a client's keys, as they are sent.
const MOST_KEYS: usize = tobari_infer::card::MAX_KEYS_BYTES;
/// The least bits of a scale.
const LEAST_SCALE: u32 = 29;

/// Choices of a compilation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CompileOptions {
    /// The factor by which numbers may exceed those of the pictures; without it, 1.25 for networks
    /// of polynomials of degree two, and 2 for others.
    pub headroom: Option<f64>,
    /// The difference of logits that labels must tell apart; measured on the pictures without it.
    pub margin: Option<f64>,
    /// Whether activations become the nearest polynomials of degree two, whatever their error.
    pub quadratic: bool,
    /// The engine. Without one, levels, and refreshes where levels do not suffice.
    pub engine: Option<EngineKind>,
}

/// Why a network cannot be compiled, or a compiled one not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The graph has no encrypted form.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// A picture of another size.
    #[error(transparent)]
    Picture(#[from] PictureError),
    /// A map that is too large.
    #[error(transparent)]
    Arrange(#[from] ArrangeError),
    /// Parameters that do not exist.
    #[error(transparent)]
    Parameters(#[from] LatticeError),
    /// An error of the encrypted form.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Too many levels.
    #[error(
        "the network takes {levels} levels, and the largest ring has {most} at 128 bits of security: {FEWER_LEVELS}"
    )]
    Depth {
        /// Levels that the network takes.
        levels: usize,
        /// Levels of the largest ring.
        most: usize,
    },
    /// Keys that are too large.
    #[error(
        "a client of this network would send keys of {found} bytes, and at most {MOST_KEYS} are sent: {FEWER_LEVELS}"
    )]
    Keys {
        /// Bytes.
        found: usize,
    },
    /// Labels that would be wrong.
    #[error(
        "encryption may change each logit by {}, of which approximations of activations make {}, but labels are right \
         only up to {most:.4}, half the margin between them: {}", shown(*.error), shown(*.approximation),
        remedy(*.quadratic)
    )]
    Precision {
        /// The foretold error of a logit.
        error: f64,
        /// The part of approximations.
        approximation: f64,
        /// Half the margin.
        most: f64,
        /// Whether activations were replaced by polynomials of degree two.
        quadratic: bool,
    },
    /// Pictures that tell no margin.
    #[error(
        "the pictures tell no margin between labels: give pictures that the network tells apart (--images), or the \
         smallest difference of logits that labels must tell apart (--margin)"
    )]
    Margin,
}

/// What helps a network with too many levels.
const FEWER_LEVELS: &str = "use average pools instead of maximum pools, replace activations by polynomials of degree two (--approximate \
     quadratic) and train the network with them, use fewer layers, or let an enclave compute all but maps (--engine \
     enclave)";

/// An error; one beyond all logits in words.
fn shown(error: f64) -> String {
    if error < 1e6 { format!("{error:.4}") } else { "more than a million".to_owned() }
}

fn remedy(quadratic: bool) -> &'static str {
    match quadratic {
        true => "train the network with the polynomials of degree two in place of its activations",
        false => {
            "state the difference of logits that labels must tell apart (--margin), use fewer layers, or let an enclave \
             compute all but maps (--engine enclave)"
        }
    }
}

/// The precision of a compiled network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// The difference of the two largest logits that labels must tell apart.
    pub margin: f64,
    /// The foretold error of a logit.
    pub error: f64,
    /// The part of approximations, measured.
    pub approximation: f64,
    /// The deviation of the noise in a logit, measured by simulation.
    pub noise: f64,
}

/// A compiled network.
#[derive(Clone, Debug, PartialEq)]
pub struct DeepModel {
    pub(crate) graph: Graph,
    pub(crate) options: LowerOptions,
    pub(crate) facts: Vec<f64>,
    pub(crate) settings: Settings,
    pub(crate) forecast: Forecast,
}

/// What an enclave needs of a network.
pub struct Inside {
    /// The steps inside.
    pub enclaved: Enclaved,
    /// The parameters.
    pub parameters: LatticeParameters,
    /// Primes and scale of each ciphertext that a visit takes, and returns.
    pub visits: Vec<[Vec<(usize, Scale)>; 2]>,
    /// The keys that the process needs.
    pub keys: Vec<Input>,
    /// The foretold error of a logit.
    pub error: f64,
}

/// The result for one picture, without encryption.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulation {
    /// Logits of the encrypted form, with simulated noise.
    pub logits: Vec<f64>,
    /// Logits of the network as it was read.
    pub plain: Vec<f64>,
    /// The foretold error of a logit for this picture.
    pub error: f64,
    /// Whether numbers of the picture left their ranges: a client refuses the answer.
    pub outside: bool,
    /// Whether the two best logits are closer than twice the model's foretold error: a client says
    /// that either may be right.
    pub close: bool,
}

impl DeepModel {
    /// Compiles a graph with calibration pictures: pixels from 0 to 255.
    ///
    /// # Errors
    /// [`ModelError`].
    pub fn compile(graph: Graph, pictures: &[&[u8]], options: CompileOptions) -> Result<Self, ModelError> {
        let plain = pictures.iter().map(|picture| graph.forward(picture)).collect::<Result<Vec<_>, _>>()?;
        let margin = options.margin.or_else(|| margin(&plain)).ok_or(ModelError::Margin)?;
        let size: usize = graph.nodes().iter().map(|node| 3 * node.output().len()).sum::<usize>() + graph.input().len();
        let seen = spread(pictures, NUMBERS / size.max(1));
        let all: Vec<usize> = (0..pictures.len()).collect();
        let [some, more] = COMPARED.map(|count| spread(&all, count));
        if options.engine == Some(EngineKind::Enclave) {
            return Self::enclaved(graph, options, margin, (pictures, &seen));
        }
        let smooth = options.quadratic || is_polynomial(&graph);
        let headroom = options.headroom.unwrap_or(if smooth { NARROW } else { WIDE });
        let allowed = margin / 2.0;
        let off = |lowered: &Lowered, compared: &[usize]| {
            let all = compared.iter().map(|at| difference(lowered, pictures[*at], &plain[*at]));
            all.fold(0.0, |most: f64, x| if x <= most { most } else { x })
        };
        let mut refusal = None;
        for bits in BITS {
            let own = LowerOptions { headroom, bits, quadratic: options.quadratic, strict: false, enclaved: false };
            let mut approximation = 0.0;
            if !smooth {
                approximation = off(&lower(&graph, Source::Pictures(&spread(&seen, TRIED)), own)?, &some);
            }
            if approximation <= allowed / (2.0 * others(some.len())) {
                let lowered = lower(&graph, Source::Pictures(&seen), own)?;
                approximation = off(&lowered, &more);
                if smooth || approximation <= allowed / (1.5 * others(more.len())) {
                    let all = (pictures, &seen[..]);
                    return Self::with_parameters(graph, own, lowered, (margin, approximation, options.engine), all);
                }
            }
            let quadratic = options.quadratic;
            refusal = Some(ModelError::Precision { error: approximation, approximation, most: allowed, quadratic });
        }
        Err(refusal.unwrap_or(ModelError::Margin))
    }

    /// Chooses parameters.
    fn with_parameters(
        graph: Graph,
        mut options: LowerOptions,
        mut lowered: Lowered,
        (margin, approximation, engine): (f64, f64, Option<EngineKind>),
        (pictures, seen): (&[&[u8]], &[&[u8]]),
    ) -> Result<Self, ModelError> {
        let levels = lowered.steps.depth() + 1;
        let mut all = Settings::all(levels, LEAST_SCALE);
        if engine == Some(EngineKind::Refresh) {
            all.clear();
        }
        let seen_by = COMPARED[1].min(pictures.len());
        let pictures = foretelling(&graph, pictures);
        let (mut best, mut fewest): (Option<(Forecast, Settings)>, Option<usize>) = (None, None);
        for of_degree in all.chunk_by(|a, b| a.sizes.degree == b.sizes.degree) {
            let arrangement = arrange(&lowered.steps, of_degree[0].slot_bits())?;
            let circuit = Circuit::new(lowered.steps.clone(), arrangement, Engine::Levels);
            let mut of_degree = of_degree.to_vec();
            of_degree.sort_by_key(Settings::work);
            for settings in of_degree {
                let keys = key_bytes(&circuit, &settings)?;
                fewest = Some(fewest.map_or(keys, |fewest| fewest.min(keys)));
                if keys > MOST_KEYS {
                    continue;
                }
                let noise = noise(&circuit, &settings, &pictures)?;
                let error = others(seen_by) * approximation + DEVIATIONS * noise;
                let forecast = Forecast { margin, error, approximation, noise };
                if best.as_ref().is_none_or(|(best, _)| error < best.error) {
                    best = Some((forecast, settings));
                }
                // with more room than necessary, the first is the best
                if error <= margin / 2.0 && DEVIATIONS * noise <= margin * SMALL {
                    break;
                }
            }
            if let Some((forecast, settings)) = &best
                && forecast.error <= margin / 2.0
                && (settings.sizes.digits <= MOST_DIGITS || settings.sizes.degree == 1 << 16)
            {
                break;
            }
        }
        let enough = |best: &Option<(Forecast, Settings)>| {
            best.as_ref().is_some_and(|(forecast, _)| forecast.error <= margin / 2.0)
        };
        if !enough(&best) && engine != Some(EngineKind::Levels) {
            options.strict = true;
            lowered = lower(&graph, Source::Pictures(seen), options)?;
            for settings in Refreshing::ALL.into_iter().filter_map(Settings::refreshed) {
                let Some(circuit) = refreshed(&lowered.steps, &settings)? else { continue };
                let noise = noise(&circuit, &settings, &pictures)?;
                let error = others(seen_by) * approximation + DEVIATIONS * noise;
                let forecast = Forecast { margin, error, approximation, noise };
                if best.as_ref().is_none_or(|(best, _)| error < best.error) {
                    best = Some((forecast, settings));
                }
                if enough(&best) {
                    break;
                }
            }
        }
        if best.is_none() {
            return Err(match fewest {
                Some(found) => ModelError::Keys { found },
                None => ModelError::Depth { levels, most: most_levels() },
            });
        }
        if let Some((forecast, settings)) = &best
            && enough(&best)
        {
            let (forecast, settings) = (*forecast, settings.clone());
            return Ok(Self { graph, options, facts: lowered.facts, settings, forecast });
        }
        let error = best.map_or(f64::INFINITY, |(best, _)| best.error);
        Err(ModelError::Precision { error, approximation, most: margin / 2.0, quadratic: options.quadratic })
    }

    /// Compiles a graph whose maps alone are encrypted.
    fn enclaved(
        graph: Graph,
        options: CompileOptions,
        margin: f64,
        (pictures, seen): (&[&[u8]], &[&[u8]]),
    ) -> Result<Self, ModelError> {
        let headroom = options.headroom.unwrap_or(WIDE);
        let own = LowerOptions { headroom, bits: *BITS.end(), quadratic: false, strict: false, enclaved: true };
        let lowered = lower(&graph, Source::Pictures(seen), own)?;
        let pictures = foretelling(&graph, pictures);
        let mut best: Option<(Forecast, Settings)> = None;
        let all = Settings::enclaved(LEAST_SCALE);
        'degrees: for of_degree in all.chunk_by(|a, b| a.sizes.degree == b.sizes.degree) {
            let Ok(arrangement) = arrange(&lowered.steps, of_degree[0].slot_bits()) else { continue };
            let circuit = Circuit::new(lowered.steps.clone(), arrangement, Engine::Enclave);
            let mut of_degree = of_degree.to_vec();
            of_degree.sort_by_key(Settings::work);
            for settings in of_degree {
                let noise = noise(&circuit, &settings, &pictures)?;
                let forecast = Forecast { margin, error: DEVIATIONS * noise, approximation: 0.0, noise };
                if best.as_ref().is_none_or(|(best, _)| forecast.error < best.error) {
                    best = Some((forecast, settings));
                }
                if DEVIATIONS * noise <= margin * SMALL {
                    break 'degrees;
                }
            }
        }
        let (forecast, settings) = best.ok_or(ModelError::Margin)?;
        if forecast.error > margin / 2.0 {
            let most = margin / 2.0;
            return Err(ModelError::Precision { error: forecast.error, approximation: 0.0, most, quadratic: false });
        }
        Ok(Self { graph, options: own, facts: lowered.facts, settings, forecast })
    }

    /// The part of a network that an enclave computes, in `circuit`, which is this model's. It has
    /// the parameters, the places of the ciphertexts of its visits ([`Network::visits`]), and the
    /// keys that the process needs. `None` for a network of another engine.
    ///
    /// # Errors
    /// As [`Self::circuit`].
    pub fn inside(&self, circuit: &Circuit) -> Result<Option<Inside>, ModelError> {
        if self.settings.engine != Engine::Enclave {
            return Ok(None);
        }
        let parameters = self.settings.sizes.parameters()?;
        let (visits, keys) = (encrypted::visits(circuit)?, encrypted::keys(circuit, &parameters));
        let enclaved = Enclaved::new(circuit.steps.clone(), &circuit.arrangement);
        Ok(Some(Inside { enclaved, parameters, visits, keys, error: self.forecast.error }))
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The parameters.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The precision.
    pub fn forecast(&self) -> &Forecast {
        &self.forecast
    }

    /// Steps, layouts and weights.
    ///
    /// # Errors
    /// [`ModelError`] for facts of another network.
    pub fn circuit(&self) -> Result<Circuit, ModelError> {
        let lowered = lower(&self.graph, Source::Facts(&self.facts), self.options)?;
        if self.settings.engine.refreshing().is_some() {
            let levels = lowered.steps.depth() + 1;
            let circuit = refreshed(&lowered.steps, &self.settings)?;
            return circuit.ok_or(ModelError::Depth { levels, most: most_levels() });
        }
        let arrangement = arrange(&lowered.steps, self.settings.slot_bits())?;
        Ok(Circuit::new(lowered.steps, arrangement, self.settings.engine))
    }

    /// The public facts in `circuit`, which is this model's: [`Network::card`] without the network.
    ///
    /// # Errors
    /// [`ModelError`] for parameters that do not exist.
    pub fn card(&self, circuit: &Circuit) -> Result<Card, ModelError> {
        Ok(encrypted::card(circuit, &self.settings.sizes.parameters()?, self.forecast.error)?)
    }

    /// The network, ready to run: weights are encoded.
    ///
    /// # Errors
    /// As [`Self::circuit`].
    pub fn network(&self) -> Result<Network, ModelError> {
        self.network_of(self.circuit()?)
    }

    /// The same of a circuit that is there, and is this model's.
    ///
    /// # Errors
    /// As [`Self::circuit`].
    pub fn network_of(&self, circuit: Circuit) -> Result<Network, ModelError> {
        let parameters = self.settings.sizes.parameters()?;
        Ok(Network::new(circuit, &parameters)?.with_error(self.forecast.error))
    }

    /// The result for a picture in the slots of `circuit`, which is this model's, with noise.
    ///
    /// # Errors
    /// [`ModelError::Picture`] for a picture of another size.
    pub fn simulate(&self, circuit: &Circuit, pixels: &[u8], seed: u64) -> Result<Simulation, ModelError> {
        let plain = self.graph.forward(pixels)?;
        let picture = numbers(pixels);
        let (exact, guard) = simulate(circuit, &picture, None);
        let parameters = self.settings.sizes.parameters()?;
        let scale = Scale::power_of_two(self.settings.scale);
        let mut errors = Noise::new(&parameters, seed);
        let (logits, _) = simulate(circuit, &picture, Some((&mut errors, &scale)));
        let noise = deviation(&logits, &exact).max(self.forecast.noise);
        let error = largest_difference(&exact, &plain) + DEVIATIONS * noise;
        let close = close(&logits, self.forecast.error).is_some();
        Ok(Simulation { logits, plain, error, outside: guard.is_nan() || guard.abs() >= GUARD, close })
    }
}

/// The circuit with refreshes; `None` if there are too many levels between two of them.
fn refreshed(steps: &Steps, settings: &Settings) -> Result<Option<Circuit>, ModelError> {
    let placed = settings.levels().and_then(|levels| place(steps, levels, settings.slot_bits()));
    let Some(steps) = placed else { return Ok(None) };
    let arrangement = arrange(&steps, settings.slot_bits())?;
    Ok(Some(Circuit::new(steps, arrangement, settings.engine)))
}

/// Bytes of a client's keys, as they are sent: half of what they take in memory.
fn key_bytes(circuit: &Circuit, settings: &Settings) -> Result<usize, ModelError> {
    let parameters = settings.sizes.parameters()?;
    let levels = circuit.key_levels(&parameters);
    Ok(levels.into_iter().map(|level| EvaluationKeys::memory_of_key(&parameters, level) / 2).sum())
}

/// The pictures of a forecast.
fn foretelling<'a>(graph: &Graph, pictures: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let size: usize = graph.nodes().iter().map(|node| node.output().len()).sum::<usize>() + graph.input().len();
    spread(pictures, (FORECAST_NUMBERS / size.max(1)).clamp(FORECAST[0], FORECAST[1]))
}

/// The deviation of the noise in a logit: of the logit with the largest one, over pictures, or of
/// the picture with the largest one, over logits, whichever is larger.
fn noise(circuit: &Circuit, settings: &Settings, pictures: &[&[u8]]) -> Result<f64, ModelError> {
    let (parameters, scale) = (settings.sizes.parameters()?, Scale::power_of_two(settings.scale));
    let mut errors = Noise::new(&parameters, 1);
    let (mut sums, mut worst): (Vec<f64>, f64) = (Vec::new(), 0.0);
    let larger = |most: f64, x: f64| if x <= most { most } else { x };
    for pixels in pictures {
        let picture = numbers(pixels);
        let (exact, _) = simulate(circuit, &picture, None);
        let (found, _) = simulate(circuit, &picture, Some((&mut errors, &scale)));
        sums.resize(exact.len(), 0.0);
        sums.iter_mut().zip(found.iter().zip(&exact)).for_each(|(sum, (a, b))| *sum += (a - b) * (a - b));
        worst = larger(worst, deviation(&found, &exact));
    }
    let of_logits = (sums.into_iter().fold(0.0, larger) / pictures.len().max(1) as f64).sqrt();
    let noise = larger(worst, of_logits);
    Ok(if noise.is_nan() { f64::INFINITY } else { noise })
}

fn deviation(found: &[f64], exact: &[f64]) -> f64 {
    let sum = found.iter().zip(exact).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
    (sum / exact.len().max(1) as f64).sqrt()
}

fn largest_difference(found: &[f64], expected: &[f64]) -> f64 {
    let largest = |most: f64, (a, b): (&f64, &f64)| if (a - b).abs() <= most { most } else { (a - b).abs() };
    found.iter().zip(expected).fold(0.0, largest)
}

/// The largest error of approximations in a picture's logits.
fn difference(lowered: &Lowered, pixels: &[u8], plain: &[f64]) -> f64 {
    let mut tensors = lowered.steps.tensors(&numbers(pixels));
    let (logits, _) = lowered.steps.logits(tensors.pop().unwrap_or_default());
    largest_difference(&logits, plain)
}

/// The levels of the largest ring.
fn most_levels() -> usize {
    (1..=96).rev().find(|levels| !Settings::all(*levels, LEAST_SCALE).is_empty()).unwrap_or(0)
}

/// Whether no activation needs an approximation.
fn is_polynomial(graph: &Graph) -> bool {
    use crate::graph::Op;
    !graph.nodes().iter().any(|node| matches!(node.op(), Op::Activation(_) | Op::MaximumPool { .. }))
}

/// At most `most` of these, spread evenly.
fn spread<T: Copy>(all: &[T], most: usize) -> Vec<T> {
    let count = all.len().min(most.max(1));
    (0..count).map(|at| all[at * all.len() / count]).collect()
}

/// The difference of the two largest logits that 19 of 20 pictures have; of one logit its range.
fn margin(logits: &[Vec<f64>]) -> Option<f64> {
    let mut gaps = Vec::with_capacity(logits.len());
    let mut ends = [f64::INFINITY, f64::NEG_INFINITY];
    for logits in logits {
        let mut logits = logits.clone();
        logits.sort_by(|a, b| b.total_cmp(a));
        match logits[..] {
            [first, second, ..] => gaps.push(first - second),
            [only] => ends = [ends[0].min(only), ends[1].max(only)],
            [] => {}
        }
    }
    gaps.sort_by(f64::total_cmp);
    let margin = gaps.get(gaps.len() / 20).copied().unwrap_or(ends[1] - ends[0]);
    Some(margin).filter(|margin| margin.is_finite() && *margin > 0.0)
}
