//! The time of each step of an image in a process enclave: for the planner, which needs it, and for
//! the benchmark, which prints it.

use chacha20::ChaCha20Rng;
use std::fmt::Display;
use std::time::Instant;
use tobari_command::output::Failure;
use tobari_command::randomness;
use tobari_enclave::{
    Challenge, Configuration, Connector, Enclave, Operation, OutputPolicy, Policy, Request, SessionId,
};
use tobari_host::enclave::{Options, ProcessEnclave, VERB};
use tobari_infer::digits::{STYLES, draw};
use tobari_infer::guarded::{Asker, Combination, Counted, EnclaveAnswer, Host, NetworkSetup, Route, Setup, Traffic};
use tobari_infer::{FixedModel, Model};
use tobari_infer_deep::DeepModel;
use tobari_infer_deep::mixed::{InsideNetwork, Process};
use tobari_lattice::params::{LatticeParameters, NamedSet};

/// The most bytes of encoded weights that are kept.
pub const MEMORY: u64 = 4 << 30;

/// The measurements of one combination.
pub struct Measured {
    /// The combination, or another name for a run without an enclave.
    pub name: &'static str,
    /// The parameter set; the caller fills it in.
    pub set: String,
    /// The layout of numbers in the slots; empty without encryption.
    pub layout: String,
    /// By name, in the order of an image's steps: ms, one number for each run.
    pub steps: Vec<(String, Vec<f64>)>,
    /// For a whole image: ms, one number for each run.
    pub total: Vec<f64>,
    /// Starting the enclave, in ms.
    pub start: f64,
    /// Generating a session's keys inside, in ms.
    pub open: f64,
    /// Sending these keys, with the weights, into the process, in ms.
    pub keys: f64,
    /// Traffic of a session before its first image.
    pub session: Traffic,
    /// Traffic of an image.
    pub image: Traffic,
    /// Bytes that the process stores for a session.
    pub memory: u64,
    /// Images whose label is the plain one.
    pub equal: usize,
    /// Images whose label may be another one, as their client is told.
    pub close: usize,
}

/// Turns an error of a lower layer into a failure.
pub fn failed(error: impl Display) -> Failure {
    Failure::Work(error.to_string())
}

/// The parameter set of this name.
pub fn parameters(name: &str) -> Result<LatticeParameters, Failure> {
    let set = NamedSet::from_name(name).ok_or_else(|| Failure::Call(format!("expected the set {name}, found none")))?;
    set.parameters().map_err(failed)
}

/// Images of all digits, one handwriting after another.
pub fn image(run: usize) -> Vec<u8> {
    draw((run % 10) as u8, &STYLES[run / 10 % STYLES.len()])
}

/// Opens a verified session of this enclave.
fn open(
    enclave: &mut Counted<ProcessEnclave>,
    configuration: &Configuration,
    rng: &mut ChaCha20Rng,
) -> Result<(SessionId, Asker), Failure> {
    let policy = Policy::new(vec![*enclave.enclave.executable()], configuration.clone()).accepting_simulated();
    let challenge = Challenge::new(rng, 0);
    let evidence = enclave.report(challenge.nonce()).map_err(failed)?;
    let attested = challenge.verify(&policy, &evidence, 0).map_err(failed)?;
    let (channel, key) = Connector::connect(&attested, rng).map_err(failed)?;
    let id = channel.session();
    enclave.open(id, &key).map_err(failed)?;
    Ok((id, Asker::new(channel, configuration)))
}

/// What a measurement takes of a setup.
struct Measurable {
    combination: Combination,
    /// Empty without encryption.
    layout: String,
    configuration: Configuration,
    setup: Vec<u8>,
    host: Host,
}

/// Measures one combination: a session, one image for warming up, then one image for each run.
pub fn session(setup: &Setup, fixed: &FixedModel, runs: usize) -> Result<Measured, Failure> {
    let combination = setup.route.combination;
    let images = u32::try_from(runs + 1).map_err(failed)?;
    let configuration = setup.configuration(OutputPolicy::Label, 1, images).map_err(failed)?;
    let known = if combination.encrypts_weights() { setup.shape().map_err(failed)? } else { setup.clone() };
    let host = Host::new(&known, MEMORY).map_err(failed)?;
    let layout = if combination.is_encrypted() { setup.route.layout.clone() } else { String::new() };
    let one = Measurable { combination, layout, configuration, setup: setup.encode(), host };
    measured(one, runs, |run| {
        let pixels = image(run);
        let label = fixed.classify(&pixels).map_err(failed)?;
        Ok((pixels, label))
    })
}

/// The same for a network whose maps the process computes. Labels must be those of the plain
/// network.
///
/// # Errors
/// [`Failure`] for a network of another engine, and for another label.
pub fn network(model: &DeepModel, pictures: &[Vec<u8>], runs: usize) -> Result<Measured, Failure> {
    let circuit = model.circuit().map_err(failed)?;
    let inside = InsideNetwork::of(model, &circuit).map_err(failed)?.ok_or_else(|| {
        Failure::Call("expected a network that was compiled with --engine enclave, found another".to_owned())
    })?;
    let setup = NetworkSetup::mixed(model.encode(), Box::new(inside));
    let images = u32::try_from(runs + 1).map_err(failed)?;
    let configuration = setup.configuration(OutputPolicy::Label, 1, images).map_err(failed)?;
    let host = Host::mixed(Box::new(Process::new(model.network_of(circuit).map_err(failed)?)));
    let route = setup.route();
    let setup = setup.encode();
    let one = Measurable { combination: route.combination, layout: route.layout, configuration, setup, host };
    measured(one, runs, |run| {
        let pixels = pictures.get(run % pictures.len().max(1)).cloned().unwrap_or_default();
        let logits = model.graph().forward(&pixels).map_err(failed)?;
        let label = (0..logits.len()).fold(0, |best, class| if logits[class] > logits[best] { class } else { best });
        Ok((pixels, label))
    })
}

/// Measures; `picture` gives the image of a run and its label.
fn measured(
    one: Measurable,
    runs: usize,
    picture: impl Fn(usize) -> Result<(Vec<u8>, usize), Failure>,
) -> Result<Measured, Failure> {
    let mut rng = randomness::generator()?;
    let Measurable { combination, layout, configuration, setup, host } = one;
    let started = ProcessEnclave::start(&configuration, &setup, &Options::new(VERB)).map_err(failed)?;
    let start = 1e3 * started.startup().as_secs_f64();
    let mut enclave = Counted::new(started);
    let (id, mut asker) = open(&mut enclave, &configuration, &mut rng)?;
    let opened = 1e3 * enclave.enclave.last_request().as_secs_f64();
    let began = Instant::now();
    let mut session = host.begin(&mut enclave, id).map_err(failed)?;
    let mut found = Measured {
        name: combination.name(),
        set: String::new(),
        layout,
        steps: Vec::new(),
        total: Vec::new(),
        start,
        open: opened,
        keys: 1e3 * began.elapsed().as_secs_f64(),
        session: enclave.traffic,
        image: Traffic::default(),
        memory: session.memory(),
        equal: 0,
        close: 0,
    };
    for run in 0..=runs {
        let ((pixels, label), before) = (picture(run)?, enclave.traffic);
        let clock = Instant::now();
        let frame = asker.image(&pixels).map_err(failed)?;
        let done = session.image(&mut enclave, &frame, &mut rng, &mut || clock.elapsed().as_secs_f64());
        let (answer, steps) = done.map_err(failed)?;
        let told = match asker.heard(answer).map_err(failed)? {
            Some(told) => told,
            None => {
                let answer = session.ask(&mut enclave, &asker.ask().map_err(failed)?).map_err(failed)?;
                asker.told(answer).map_err(failed)?
            }
        };
        let total = 1e3 * clock.elapsed().as_secs_f64();
        // where the client is told that another label may be right, it need not be the plain one
        let close = matches!(told, EnclaveAnswer::Doubtful(_));
        if !close && told != EnclaveAnswer::Labels(vec![label]) {
            let name = combination.name();
            return Err(Failure::Work(format!("{name}, image {run}: expected the label {label}, found {told:?}")));
        }
        if run > 0 {
            found.add(steps, total);
            found.close += usize::from(close);
            found.equal += usize::from(told.label() == label);
            let now = enclave.traffic;
            found.image = Traffic {
                in_bytes: now.in_bytes - before.in_bytes,
                out_bytes: now.out_bytes - before.out_bytes,
                requests: now.requests - before.requests,
            };
        }
    }
    Ok(found)
}

impl Measured {
    /// Adds a run; the times of steps with the same name are summed.
    fn add(&mut self, steps: Vec<(String, f64)>, total: f64) {
        self.total.push(total);
        let run = self.total.len();
        for (name, seconds) in steps {
            let place = self.steps.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                self.steps.push((name, Vec::new()));
                self.steps.len() - 1
            });
            let times = &mut self.steps[place].1;
            times.resize(run, 0.0);
            times[run - 1] += 1e3 * seconds;
        }
    }

    /// The fastest of a step's runs, in ms.
    pub fn least(&self, name: &str) -> Option<f64> {
        self.steps.iter().find(|(known, _)| known == name).map(|(_, times)| least(times))
    }

    /// The fastest image, in ms.
    pub fn fastest(&self) -> f64 {
        least(&self.total)
    }
}

/// The least of some values.
pub fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// An idle enclave.
pub fn open_idle(model: &Model, parameters: &LatticeParameters) -> Result<ProcessEnclave, Failure> {
    let route = Route::new(Combination::EnclavePlain, parameters);
    let setup = Setup { route, parameters: parameters.clone(), model: model.clone() };
    let configuration = setup.configuration(OutputPolicy::Label, 1, 1).map_err(failed)?;
    ProcessEnclave::start(&configuration, &setup.encode(), &Options::new(VERB)).map_err(failed)
}

/// The µs of messages of this many KiB to a session that does not exist: each message is sent whole
/// and rejected at once.
pub fn round_trips(enclave: &mut ProcessEnclave, kib: usize, runs: usize) -> Vec<f64> {
    let request = Request { operation: Operation::Host, session: SessionId([0; 16]), kind: 0 };
    let (body, mut reply) = (vec![1; kib << 10], Vec::new());
    let mut once = || {
        // the time of the rejection is the measurement
        let _ = enclave.request(request, &body, &mut reply);
        1e6 * enclave.last_request().as_secs_f64()
    };
    once();
    (0..runs.max(31)).map(|_| once()).collect()
}
