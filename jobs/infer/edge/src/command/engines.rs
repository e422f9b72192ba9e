//! `tobari plan infer --model`: what each engine costs for a network, and which one the required
//! protection allows.
//!
//! A network runs by levels alone, by refreshes, with all but maps in an enclave, or in the clear
//! in an enclave. Each is compiled, and its time foretold from one rotation that is measured here.
//! Its protection follows from the same rules as that of single layers
//! ([`tobari_infer::placement`]): an engine is a list of layers, each with one way and one site.

use super::placement::{argument, protect, time};
use super::planned::InferPlan;
use crate::network::AnyModel;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Instant;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tobari_infer::messages;
use tobari_infer::placement::{Inference, Layer, Mode, Moves, Protect, Relaxation, Way, relaxations};
use tobari_infer_deep::cost::Costs;
use tobari_infer_deep::model::CompileOptions;
use tobari_infer_deep::settings::EngineKind;
use tobari_infer_deep::{DeepModel, Graph};
use tobari_infer_files::images::{Pictures, Wanted, read_pictures};
use tobari_infer_files::onnx::{Pixels, read_graph};
use tobari_lattice::ckks::{Encoder, EvaluationKeys, Evaluator, Scale};
use tobari_lattice::params::LatticeParameters;
use tobari_lattice::rlwe::SecretKey;
use tobari_plan::place::Data;
use tobari_plan::segment::Form;

/// The most pictures that are used, spread evenly over those given.
const PICTURES: usize = 2_000;
/// Rotations of a measurement.
const ROTATIONS: usize = 5;

/// An engine, or why the network does not run by it.
struct Candidate {
    /// `levels`, `refresh`, `enclave`, or `enclave-plain`.
    name: &'static str,
    /// The words that run it.
    runs: &'static str,
    found: Result<Found, String>,
}

/// An engine's costs.
struct Found {
    costs: Costs,
    /// The foretold error of a logit.
    error: f64,
    margin: f64,
    set: String,
    /// Bytes of a question and of an answer; without an enclave alone.
    bytes: Option<[usize; 2]>,
    layers: Vec<Layer>,
    input: (Form, u64),
    /// Whether the enclave makes the key.
    key_inside: bool,
}

/// Moves that the seconds of the layers include.
struct Included;

impl Moves for Included {
    fn transfer(&self, _: Data<'_>, _: bool) -> f64 {
        0.0
    }

    fn encrypt(&self, _: Data<'_>, _: bool) -> f64 {
        0.0
    }

    fn decrypt(&self, _: Data<'_>, _: bool) -> f64 {
        0.0
    }

    fn mask(&self, _: Data<'_>, _: Data<'_>) -> f64 {
        0.0
    }
}

/// Plans and prints.
pub(super) fn run(arguments: &InferPlan, path: &std::path::Path) -> Result<ExitCode, Failure> {
    let (graph, pictures, compiled) = read(arguments, path)?;
    let refs: Vec<&[u8]> = pictures.iter().map(Vec::as_slice).collect();
    let mut all = Vec::new();
    for kind in EngineKind::ALL {
        if arguments.engine.is_some_and(|wanted| wanted != kind) {
            continue;
        }
        let found = match &compiled {
            Some(model) if model.settings().engine.kind() == kind => engine(model),
            Some(_) => continue,
            None => {
                output::say(format!("compiling for {}", kind.name()));
                let options =
                    CompileOptions { margin: arguments.margin, engine: Some(kind), ..CompileOptions::default() };
                DeepModel::compile(graph.clone(), &refs, options).map_err(Into::into).and_then(|model| engine(&model))
            }
        };
        let runs = match kind {
            EngineKind::Levels => "tobari serve --infer",
            EngineKind::Refresh => "tobari serve --data FOLDER --infer",
            EngineKind::Enclave => "tobari serve --infer-enclave mixed-plain-reset",
        };
        all.push(Candidate { name: kind.name(), runs, found: found.map_err(|failure| failure.to_string()) });
    }
    if arguments.engine.is_none() {
        let found = plain(&graph, &refs).map_err(|failure| failure.to_string());
        all.push(Candidate { name: "enclave-plain", runs: "tobari serve --infer-enclave enclave-plain", found });
    }
    let wanted = protect(&arguments.requirements, !arguments.without_enclave);
    tell(arguments, &graph, &all, &wanted)
}

/// A network and its pictures; of a compiled file also the model.
type Read = (Graph, Vec<Vec<u8>>, Option<DeepModel>);

fn read(arguments: &InferPlan, path: &std::path::Path) -> Result<Read, Failure> {
    if path.extension().is_some_and(|end| end == "tim") {
        return match AnyModel::read(path).map_err(Failure::Work)? {
            AnyModel::Deep(model) => Ok((model.graph().clone(), Vec::new(), Some(*model))),
            AnyModel::Flat(_) => Err(Failure::Call(
                "expected a network of any depth, found one of at most three maps with squares: leave --model out for \
                 the plan of the built-in one, or give the ONNX file"
                    .to_owned(),
            )),
        };
    }
    let pixels = Pixels { mean: arguments.mean.clone(), deviation: arguments.deviation.clone() };
    let graph = read_graph(path, &pixels)?.graph;
    if arguments.images.is_empty() {
        return Err(Failure::Call(
            "an ONNX file needs pictures like those to come, from which ranges are taken: give --images".to_owned(),
        ));
    }
    let wanted = Wanted { fit: arguments.fit, limit: PICTURES, ..Wanted::new(graph.input()) };
    let pictures: Pictures = read_pictures(&arguments.images, &wanted)?;
    let pictures = pictures.pixels().into_iter().map(<[u8]>::to_vec).collect();
    Ok((graph, pictures, None))
}

/// An engine of ciphertexts.
fn engine(model: &DeepModel) -> Result<Found, Failure> {
    let circuit = model.circuit()?;
    let parameters = model.settings().sizes.parameters()?;
    let mut known = std::collections::BTreeMap::new();
    // levels near each other have nearly the same price at a prime
    let near = |level: usize| (level.next_multiple_of(4)).min(parameters.ring().data_primes().len());
    let most = circuit.most_primes();
    for level in (1..=most).map(near) {
        if let std::collections::btree_map::Entry::Vacant(entry) = known.entry(level) {
            entry.insert(rotation(&parameters, level)? / level as f64);
        }
    }
    let costs = model.costs(&circuit, |level| known.get(&near(level)).copied().unwrap_or(0.0) * level as f64)?;
    let kind = model.settings().engine.kind();
    let input = ((circuit.layout(0).ciphertexts() * circuit.level(0) * parameters.degree() * 8) as u64).max(1);
    let form = |level: u16| Form::Encrypted { level, layout: "searched".to_owned() };
    let maps = |gives: Form| {
        let (takes, bytes) = (form(1), [input, input]);
        Way { mode: Mode::UserData, takes, gives, bytes, seconds: [costs.seconds, f64::INFINITY], checked: false }
    };
    let (layers, bytes) = match kind {
        EngineKind::Enclave => {
            let (takes, gives, bytes) = (Form::Plain, Form::Plain, [input, input]);
            let rest = Way { mode: Mode::Plain, takes, gives, bytes, seconds: [f64::INFINITY, 0.0], checked: false };
            let layer = |name: &str, weights: bool, way: Way| Layer { name: name.to_owned(), weights, ways: vec![way] };
            (vec![layer("maps", true, maps(form(0))), layer("all else", false, rest)], None)
        }
        EngineKind::Levels | EngineKind::Refresh => {
            let whole = Layer { name: "network".to_owned(), weights: true, ways: vec![maps(form(0))] };
            let card = model.card(&circuit)?;
            (vec![whole], Some([messages::question_bytes(&card), messages::answer_bytes(&card)]))
        }
    };
    let (error, margin, set) = (model.forecast().error, model.forecast().margin, model.settings().sizes.to_string());
    let key_inside = kind == EngineKind::Enclave;
    Ok(Found { costs, error, margin, set, bytes, layers, input: (form(1), input), key_inside })
}

/// All of it in the clear, in an enclave: timed here.
fn plain(graph: &Graph, pictures: &[&[u8]]) -> Result<Found, Failure> {
    let blank = vec![0; graph.input().len()];
    let pixels = pictures.first().copied().unwrap_or(&blank);
    let mut least = f64::INFINITY;
    for _ in 0..3 {
        let began = Instant::now();
        std::hint::black_box(graph.forward(pixels).map_err(|error| Failure::Work(error.to_string()))?);
        least = least.min(began.elapsed().as_secs_f64());
    }
    let bytes = graph.input().len() as u64;
    let way = Way {
        mode: Mode::Plain,
        takes: Form::Plain,
        gives: Form::Plain,
        bytes: [bytes, bytes],
        seconds: [f64::INFINITY, least],
        checked: false,
    };
    let layers = vec![Layer { name: "network".to_owned(), weights: true, ways: vec![way] }];
    let costs = Costs { seconds: least, ..Costs::default() };
    let (set, input) = (String::new(), (Form::Plain, bytes));
    Ok(Found { costs, error: 0.0, margin: 0.0, set, bytes: None, layers, input, key_inside: true })
}

/// Seconds of a rotation over so many data primes, the least of some.
fn rotation(parameters: &LatticeParameters, level: usize) -> Result<f64, Failure> {
    let failed = |error: &dyn std::error::Error| Failure::Work(error.to_string());
    let mut rng = randomness::generator()?;
    let secret = SecretKey::generate(parameters, &mut rng);
    let encoder = Encoder::new(parameters).map_err(|error| failed(&error))?;
    let evaluator = Evaluator::new(parameters).map_err(|error| failed(&error))?.unbounded();
    let mut keys = EvaluationKeys::new(parameters);
    keys.add_rotation(&secret, 1, level, &mut rng).map_err(|error| failed(&error))?;
    let scale = Scale::power_of_two(30);
    let sealed = encoder.encrypt_seeded(&vec![0.5; encoder.slots()], &scale, level, &secret, &mut rng);
    let sealed = sealed.map_err(|error| failed(&error))?.expand();
    let mut least = f64::INFINITY;
    for _ in 0..ROTATIONS {
        let began = Instant::now();
        std::hint::black_box(evaluator.rotate(&sealed, 1, &keys).map_err(|error| failed(&error))?);
        least = least.min(began.elapsed().as_secs_f64());
    }
    Ok(least)
}

impl Found {
    /// Its seconds under this protection, or what would allow it.
    fn seconds(&self, wanted: &Protect) -> Result<f64, String> {
        if self.key_inside && !wanted.enclave {
            return Err("it needs an enclave".to_owned());
        }
        // such a host adds to ciphertexts, and sees which sums end the session
        if self.costs.visits > 0 && wanted.active_host && wanted.user_data {
            return Err("it would be if the host does what it was told".to_owned());
        }
        let (inference, protect) = (self.inference(), self.protect(wanted));
        inference.place(&protect).map(|_| self.costs.seconds).map_err(|error| {
            let ways: Vec<&str> = relaxations(&inference, &protect).iter().map(|way| way.gives_up).collect();
            match ways.is_empty() {
                true => error.to_string(),
                false => format!("it would be if {}", ways.join(", or if ")),
            }
        })
    }

    fn inference(&self) -> Inference<'_> {
        Inference { layers: &self.layers, inputs: vec![self.input.clone()], masked_level: None, moves: &Included }
    }

    fn protect(&self, wanted: &Protect) -> Protect {
        Protect { key_in_enclave: wanted.enclave && self.key_inside, ..*wanted }
    }

    fn memory(&self) -> u64 {
        self.costs.keys + self.costs.weights
    }
}

/// The fastest engine that is allowed.
fn fastest<'a>(all: &'a [Candidate], wanted: &Protect) -> Option<(&'a Candidate, f64)> {
    let allowed = all.iter().filter_map(|one| Some((one, one.found.as_ref().ok()?.seconds(wanted).ok()?)));
    allowed.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// The requirements whose removal gives a faster engine, each alone.
fn cheaper(all: &[Candidate], wanted: &Protect, seconds: f64) -> Vec<Relaxation> {
    let mut known: Vec<Relaxation> = Vec::new();
    for found in all.iter().filter_map(|one| one.found.as_ref().ok()) {
        for mut way in relaxations(&found.inference(), &found.protect(wanted)) {
            way.seconds = found.costs.seconds;
            let better = known.iter().position(|other| other.gives_up == way.gives_up);
            match better {
                Some(at) if known[at].seconds <= way.seconds => {}
                Some(at) => known[at] = way,
                None if way.seconds < seconds => known.push(way),
                None => {}
            }
        }
    }
    known.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    known
}

fn tell(arguments: &InferPlan, graph: &Graph, all: &[Candidate], wanted: &Protect) -> Result<ExitCode, Failure> {
    let chosen = fastest(all, wanted);
    let ways = chosen.as_ref().map(|(_, seconds)| cheaper(all, wanted, *seconds)).unwrap_or_default();
    if arguments.json {
        let lines: Vec<Value> = all.iter().map(|one| line(one, wanted)).collect();
        let relaxed: Vec<_> =
            ways.iter().map(|way| json!({ "gives_up": way.gives_up, "seconds": way.seconds })).collect();
        output::json(&json!({
            "job": "infer", "protect": wanted.to_string(), "engines": lines,
            "chosen": chosen.as_ref().map(|(one, _)| one.name), "relaxations": relaxed,
        }))?;
    } else {
        let input = graph.input();
        output::result(format!(
            "a network of {} nodes for {} x {} x {} pixels; {wanted}",
            graph.nodes().len(),
            input.channels,
            input.height,
            input.width
        ));
        for one in all {
            output::result(text(one, wanted));
        }
    }
    let Some((one, seconds)) = chosen else {
        let needs = "no engine protects this: require less, or use a smaller network";
        return Err(Failure::Work(needs.to_owned()));
    };
    if !arguments.json {
        output::result(format!(
            "the fastest that is allowed: {}, about {} a picture: {}",
            one.name,
            time(seconds),
            one.runs
        ));
        argument(seconds, &ways).into_iter().for_each(output::result);
    }
    Ok(ExitCode::SUCCESS)
}

fn line(one: &Candidate, wanted: &Protect) -> Value {
    match &one.found {
        Err(why) => json!({ "engine": one.name, "refused": why }),
        Ok(found) => {
            let Costs { refreshes, visits, sent_keys, .. } = found.costs;
            json!({
                "engine": one.name, "seconds": found.costs.seconds, "memory": found.memory(), "key_bytes": sent_keys,
                "question_bytes": found.bytes.map(|bytes| bytes[0]), "answer_bytes": found.bytes.map(|bytes| bytes[1]),
                "logit_error": found.error, "margin": found.margin, "set": found.set, "refreshes": refreshes,
                "visits": visits, "forbidden": found.seconds(wanted).err(), "runs": one.runs,
            })
        }
    }
}

/// Bytes in the largest unit that leaves a number.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} kB", bytes / 1_000),
        10_000_000..10_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}

fn text(one: &Candidate, wanted: &Protect) -> String {
    let found = match &one.found {
        Err(why) => return format!("{}: {why}", one.name),
        Ok(found) => found,
    };
    let Costs { seconds, sent_keys, refreshes, visits, .. } = found.costs;
    let mut parts = vec![format!("about {} a picture", time(seconds))];
    if refreshes > 0 {
        parts.push(format!("{refreshes} refreshes"));
    }
    if visits > 0 {
        parts.push(format!("{visits} visits of the enclave"));
    }
    if found.memory() > 0 {
        parts.push(format!("{} for keys and weights", size(found.memory())));
        parts.push(format!("keys of {} sent once", size(sent_keys)));
    }
    if let Some([question, answer]) = found.bytes {
        parts.push(format!("{} and {} a question and answer", size(question as u64), size(answer as u64)));
    }
    parts.push(match found.error {
        0.0 => "exact".to_owned(),
        error => format!("logits off by at most {error:.1e}, and labels {:.3} apart", found.margin),
    });
    if let Err(why) = found.seconds(wanted) {
        parts.push(format!("NOT ALLOWED ({why})"));
    }
    format!("{}: {}", one.name, parts.join("; "))
}
