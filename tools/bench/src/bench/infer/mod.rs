//! `tobari-bench infer`: an image under its user's key ([`layouts`]), thousands at once
//! ([`batches`]), the test images of MNIST ([`accuracy`]), the planner's choices against runs
//! ([`plans`]), a compiled network of any depth ([`network`]); with `--paper` the paper's
//! combinations of process, enclave and encryption on its network, ours beside its tables.
//!
//! With `--paper` each image takes a user's way: it is sealed to an enclave whose evidence was
//! verified (this executable in a process of its own), and the label comes back. A run counts only
//! if its label equals the plain one.

mod accuracy;
mod arguments;
mod batches;
mod layouts;
mod network;
mod plans;
mod tables;

pub(crate) use arguments::InferBench;

use super::line::{Line, summary};
use super::table::{Table, number};
use super::{show, tell};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::time::Instant;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tobari_host::files;
use tobari_infer::guarded::{Combination, Route, Setup, Traffic};
use tobari_infer::{FixedModel, Model};
use tobari_infer_edge::command::costs::{self, MASKED_SET};
use tobari_infer_edge::command::timed::{MEMORY, Measured, failed, image, open_idle, parameters, round_trips, session};
use tobari_lattice::ckks::{Decryptor, Encoder, Scale};
use tobari_lattice::params::LatticeParameters;
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::SecretKey;

/// Table 6 in ms, by our name of a combination: conv1 with its activation, conv2 with its
/// activation, FC, the sum.
const PAPER: [(&str, [f64; 4]); 8] = [
    ("process-plain", [4.01, 202.53, 5.81, 212.36]),
    ("process-user-data", [26_014.0, 356_906.0, 14_502.0, 397_422.0]),
    ("process-both", [40_396.0, 690_286.0, 15_917.0, 746_599.0]),
    ("enclave-plain", [6.38, 325.79, 7.34, 339.51]),
    ("enclave-user-data", [33_581.0, 506_528.0, 17_862.0, 557_972.0]),
    ("enclave-both", [52_521.0, 1_010_966.0, 19_650.0, 1_083_137.0]),
    // section 6.1: encrypted outside with plain activations inside; its layers are those of table
    // 10
    ("mixed-plain-reset", [5_923.07, 166_155.08, 14_562.0, 196_424.0]),
    ("mixed-masked-reset", [f64::NAN; 4]),
];

/// Table 7 in µs, into the enclave, by KiB.
const TRANSFER: [(usize, f64); 6] =
    [(256, 23.39), (512, 43.68), (768, 78.61), (1024, 139.53), (1280, 168.06), (1536, 186.25)];

/// Tables 8 and 9 in ms.
const OPERATIONS: [(&str, f64); 4] = [("encode", 5.62), ("encrypt", 155.54), ("decrypt", 11.17), ("decode", 2.92)];

/// The paper's ring.
const PAPER_SET: &str = "infer-s";

/// The label that every quoted figure must carry.
const LABEL: &str = "simulated-enclave";
const NOTE: &str = "The enclave is a process: what it costs beside the process is copies and system calls, no hardware's. The paper's milliseconds are its own, on a Xeon Gold 6334 with SEAL and \
Gramine-SGX, one ciphertext a channel: the difference is in layout, code and machine together.";

#[derive(Clone, Serialize, Deserialize, PartialEq)]
struct Params {
    combination: String,
    set: String,
    layout: String,
}

/// A figure: milliseconds of each run.
struct Figure {
    what: String,
    params: Params,
    times: Vec<f64>,
    labels: Vec<String>,
}

impl Figure {
    fn new(what: &str, combination: &str, set: &str, layout: &str, times: Vec<f64>) -> Self {
        let [combination, set, layout] = [combination, set, layout].map(str::to_owned);
        Self { what: what.to_owned(), params: Params { combination, set, layout }, times, labels: Vec::new() }
    }
}

/// Measures and prints.
pub(super) fn run(arguments: &InferBench) -> Result<ExitCode, Failure> {
    if let Some(path) = &arguments.network {
        return network::run(path, arguments);
    }
    let model = Model::digits().map_err(failed)?;
    let fixed = model.fixed().map_err(failed)?;
    let (mut tables, mut figures, mut drawings, mut slower) = (Vec::new(), Vec::new(), Vec::new(), None);
    if let Some(folder) = &arguments.mnist {
        tables.push(accuracy::run(&model, &fixed, folder, arguments.encrypted)?);
    }
    if arguments.batched {
        let (table, name, found) = batches::run(&model, &fixed, arguments.set.as_deref(), arguments.runs().min(5))?;
        tables.push((table, name));
        figures.extend(found);
    }
    if arguments.plans {
        let (table, name, wrong) = plans::run(&model, &fixed, arguments.runs())?;
        tables.push((table, name));
        slower = wrong;
    }
    if arguments.paper {
        let set = arguments.set.as_deref().unwrap_or(PAPER_SET);
        let measured = all_combinations(&model, &fixed, set, arguments)?;
        tables.extend([
            combinations(&measured),
            layers(&measured),
            tables::at_level_one(&measured),
            sessions(&measured),
        ]);
        figures.extend(measured.iter().flat_map(figures_of));
        let parameters = parameters(set)?;
        let (sent, done) =
            (transfers(&model, &parameters, set, arguments.runs())?, operations(&parameters, set, arguments.runs())?);
        drawings = vec![
            ("table6.svg", tables::draw_times(&measured)?),
            ("table7.svg", tables::draw_transfers(&sent.1)?),
            ("operations.svg", tables::draw_operations(&done.1)?),
            ("tables13-14.svg", tables::draw_policies()?),
        ];
        for ((table, name), found) in [sent, done] {
            tables.push((table, name));
            figures.extend(found);
        }
        tables.extend([tables::policies(), tables::run()?]);
    } else if tables.is_empty() {
        let (table, name, found) = layouts::run(&model, &fixed, arguments.runs())?;
        tables.push((table, name));
        figures.extend(found);
    }
    for (table, _) in &tables {
        show(table, arguments.json);
    }
    if arguments.paper {
        tell(NOTE, arguments.json);
    }
    if arguments.json {
        figures.into_iter().try_for_each(line)?;
    }
    if let Some(folder) = &arguments.output {
        std::fs::create_dir_all(folder)?;
        for (table, name) in &tables {
            files::write_atomically(&folder.join(name), table.csv().as_bytes())?;
        }
        for (name, drawing) in drawings {
            files::write_atomically(&folder.join(name), drawing.as_bytes())?;
        }
    }
    slower.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Every combination of table 6, and masked resets over the set for them.
fn all_combinations(
    model: &Model,
    fixed: &FixedModel,
    set: &str,
    arguments: &InferBench,
) -> Result<Vec<Measured>, Failure> {
    let mut measured = vec![plain(fixed, arguments.runs())?];
    let mut one = |combination: Combination, set: &str, layout: Option<&str>, runs: usize| {
        let parameters = parameters(set)?;
        let mut route = Route::new(combination, &parameters);
        if let Some(layout) = layout {
            layout.clone_into(&mut route.layout);
        }
        output::say(format!("{}, {}, {set}", combination.name(), route.layout));
        let setup = Setup { route, parameters, model: model.clone() };
        measured.push(Measured { set: set.to_owned(), ..session(&setup, fixed, runs)? });
        Ok::<(), Failure>(())
    };
    for combination in Combination::ALL {
        one(combination, set, None, arguments.runs())?;
    }
    one(Combination::MixedMaskedReset, MASKED_SET, None, arguments.runs())?;
    if arguments.paper_layout {
        one(Combination::ProcessUserData, set, Some("paper"), arguments.runs().min(3))?;
    }
    Ok(measured)
}

/// The network in integers in this process: no enclave, no encryption.
fn plain(fixed: &FixedModel, runs: usize) -> Result<Measured, Failure> {
    let mut total = Vec::with_capacity(runs);
    for run in 0..=runs {
        let pixels = image(run);
        let began = Instant::now();
        std::hint::black_box(fixed.classify(&pixels).map_err(failed)?);
        total.push(1e3 * began.elapsed().as_secs_f64());
    }
    total.remove(0);
    let none = Traffic::default();
    Ok(Measured {
        name: "process-plain",
        set: String::new(),
        layout: String::new(),
        steps: Vec::new(),
        total,
        start: 0.0,
        open: 0.0,
        keys: 0.0,
        session: none,
        image: none,
        memory: 0,
        equal: runs,
        close: 0,
    })
}

/// The paper's ms of an image.
fn paper_of(one: &Measured) -> Option<f64> {
    PAPER.iter().find(|(name, _)| *name == one.name).map(|(_, ms)| ms[3]).filter(|ms| ms.is_finite())
}

fn title_of(one: &Measured) -> String {
    match one.layout.as_str() {
        "" => one.name.to_owned(),
        layout => format!("{}, {layout}, {}", one.name, one.set),
    }
}

/// The figures of an image, of each step, and of the start of its session.
fn figures_of(one: &Measured) -> Vec<Figure> {
    let once = [("enclave_start", vec![one.start]), ("session_open", vec![one.open]), ("session_keys", vec![one.keys])];
    let once = once.iter().filter(|_| one.name != "process-plain").map(|(what, times)| (*what, times));
    let all = one.steps.iter().map(|(name, times)| (name.as_str(), times)).chain([("image", &one.total)]).chain(once);
    let labels = if one.name == "process-plain" { Vec::new() } else { vec![LABEL.to_owned()] };
    let figure = |(what, times): (&str, &Vec<f64>)| {
        let figure = Figure::new(what, one.name, &one.set, &one.layout, times.clone());
        Figure { labels: labels.clone(), ..figure }
    };
    all.map(figure).collect()
}

fn combinations(measured: &[Measured]) -> (Table, &'static str) {
    let columns = ["combination", "ms", "fastest", "paper ms", "times", "bytes in", "bytes out", "requests", "label"];
    let mut table = Table::new("Table 6: an image, from the client's pixels to its label", &columns);
    for one in measured {
        let (median, fastest, _) = summary(one.total.clone());
        let paper = paper_of(one);
        table.push(vec![
            title_of(one),
            number(Some(median), 3),
            number(Some(fastest), 3),
            number(paper, 0),
            number(paper.map(|paper| paper / median), 0),
            one.image.in_bytes.to_string(),
            one.image.out_bytes.to_string(),
            one.image.requests.to_string(),
            if one.name == "process-plain" { String::new() } else { LABEL.to_owned() },
        ]);
    }
    (table, "table6.csv")
}

fn layers(measured: &[Measured]) -> (Table, &'static str) {
    let columns = ["combination", "step", "ms", "paper ms"];
    let title =
        "Tables 6 and 10: by step, medians; a layer has the activation that follows it, but where that is inside";
    let mut table = Table::new(title, &columns);
    for one in measured {
        for (name, times) in &one.steps {
            let place = ["conv1", "conv2", "fc"].iter().position(|layer| layer == name);
            let paper = PAPER.iter().find(|(known, _)| *known == one.name).zip(place);
            let paper = paper.map(|((_, ms), place)| ms[place]).filter(|ms| ms.is_finite());
            table.push(vec![title_of(one), name.clone(), number(Some(summary(times.clone()).0), 3), number(paper, 0)]);
        }
    }
    (table, "layers.csv")
}

fn sessions(measured: &[Measured]) -> (Table, &'static str) {
    let columns = ["combination", "start ms", "keys inside ms", "keys out ms", "bytes out", "memory outside", "label"];
    let mut table = Table::new("What a session costs before its first image, once", &columns);
    for one in measured.iter().filter(|one| one.name != "process-plain") {
        table.push(vec![
            title_of(one),
            number(Some(one.start), 1),
            number(Some(one.open), 1),
            number(Some(one.keys), 1),
            one.session.out_bytes.to_string(),
            one.memory.to_string(),
            LABEL.to_owned(),
        ]);
    }
    (table, "sessions.csv")
}

/// A table, its file, and the figures in it.
type FiguredTable = ((Table, &'static str), Vec<Figure>);

fn transfers(model: &Model, parameters: &LatticeParameters, set: &str, runs: usize) -> Result<FiguredTable, Failure> {
    let mut figures = Vec::new();
    let mut enclave = open_idle(model, parameters)?;
    let empty = summary(round_trips(&mut enclave, 0, runs)).0;
    let title = format!(
        "Table 7: into the enclave and a refusal back; an empty message takes {empty:.2} µs. The way out, by a ring of the same kind, is in the steps input and reset"
    );
    let mut table = Table::new(title, &["KiB", "µs", "fastest", "paper µs", "label"]);
    for (kib, paper) in TRANSFER {
        let times = round_trips(&mut enclave, kib, runs);
        let (median, fastest, _) = summary(times.clone());
        let ms = times.into_iter().map(|micros| micros / 1e3).collect();
        let figure = Figure::new(&format!("enter_{kib}_kib"), "", set, "", ms);
        figures.push(Figure { labels: vec![LABEL.to_owned()], ..figure });
        let [median, fastest, paper] = [median, fastest, paper].map(|micros| number(Some(micros), 2));
        table.push(vec![kib.to_string(), median, fastest, paper, LABEL.to_owned()]);
    }
    Ok(((table, "table7.csv"), figures))
}

/// Milliseconds of encoding and encryption at level 1, decryption and decoding at level 0, for each
/// run. An enclave does this for a reset; here the same code runs in this process.
fn tables_8_and_9(parameters: &LatticeParameters, runs: usize) -> Result<[Vec<f64>; 4], Failure> {
    let mut rng = randomness::generator()?;
    let encoder = Encoder::new(parameters).map_err(failed)?;
    let secret = SecretKey::from_seed(parameters, Seed::random(&mut rng));
    let decryptor = Decryptor::new(&secret, &encoder).map_err(failed)?;
    let slots: Vec<f64> = (0..encoder.slots()).map(|slot| (slot % 17) as f64 / 17.0).collect();
    let scale = Scale::power_of_two(26);
    let one =
        encoder.encode(&slots, &scale, 1).map_err(failed)?.encrypt_seeded(&secret, &mut rng).map_err(failed)?.expand();
    let mut times = [(); 4].map(|()| Vec::new());
    for _ in 0..runs.max(9) {
        let mut at = Instant::now();
        let mut note = |place: usize| {
            times[place].push(1e3 * at.elapsed().as_secs_f64());
            at = Instant::now();
        };
        let plain = encoder.encode(&slots, &scale, 2).map_err(failed)?;
        note(0);
        std::hint::black_box(plain.encrypt_seeded(&secret, &mut rng).map_err(failed)?);
        note(1);
        let plain = decryptor.plaintext(&one).map_err(failed)?;
        note(2);
        std::hint::black_box(encoder.decode(&plain).map_err(failed)?);
        note(3);
    }
    Ok(times)
}

fn operations(parameters: &LatticeParameters, set: &str, runs: usize) -> Result<FiguredTable, Failure> {
    let mut figures = Vec::new();
    let title = "Tables 8 and 9: encoding and encryption under the secret at level 1, decryption and decoding at level 0; in this process, by the enclave's code";
    let mut table = Table::new(title, &["what", "ms", "fastest", "paper ms"]);
    for ((name, paper), times) in OPERATIONS.into_iter().zip(tables_8_and_9(parameters, runs)?) {
        figures.push(Figure::new(name, "", set, "", times.clone()));
        let (median, fastest, _) = summary(times);
        table.push(vec![name.to_owned(), number(Some(median), 3), number(Some(fastest), 3), number(Some(paper), 2)]);
    }
    let mebibyte = 1e3 * costs::written(parameters)? * f64::from(1 << 20);
    let row =
        ["1 MiB of ciphertexts written and read".to_owned(), String::new(), number(Some(mebibyte), 3), String::new()];
    table.push(row.to_vec());
    Ok(((table, "operations.csv"), figures))
}

/// Prints a figure as one line.
fn line(figure: Figure) -> Result<(), Failure> {
    output::json(&Line { labels: figure.labels, ..of_values(&figure.what, "ms", figure.params, figure.times) })
}

/// The line of measured values, without labels.
fn of_values<P>(what: &str, unit: &str, params: P, values: Vec<f64>) -> Line<P> {
    let runs = values.len();
    let (median, min, max) = summary(values);
    Line {
        job: "infer".to_owned(),
        what: what.to_owned(),
        engine: "tobari".to_owned(),
        params,
        backend: "fastest".to_owned(),
        threads: 1,
        unit: unit.to_owned(),
        median,
        min,
        max,
        runs,
        labels: Vec::new(),
    }
}
