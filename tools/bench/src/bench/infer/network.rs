//! A compiled network of any depth, on pictures under a client's key. The client and the server are
//! this process, on one thread. With an enclave this process computes the maps, and a simulated
//! enclave, another process, all else.
//!
//! A run counts only if its label is that of the network without encryption, or if the client was
//! warned: either of two labels may be right, or the answer is withheld.

use super::super::line::Line;
use super::super::show;
use super::super::table::{Table, number};
use super::{InferBench, of_values};
use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tobari_host::{files, memory};
use tobari_infer::client::{AnswerView, Client, ClientError, Output};
use tobari_infer::{Volume, messages};
use tobari_infer_deep::DeepModel;
use tobari_infer_deep::file::MAX_FILE_BYTES;
use tobari_infer_deep::lower::numbers;
use tobari_infer_deep::settings::Engine;
use tobari_infer_edge::command::timed;
use tobari_infer_files::images::{NamedPicture, Wanted, read_pictures};
use tobari_lattice::ckks::SeededCiphertext;
use zeroize::Zeroizing;

/// The most different pictures; more runs repeat them.
const PICTURES: usize = 1_000;
/// The seed of random pictures.
const SEED: [u8; 32] = [1; 32];

/// The parameters of a figure.
#[derive(Clone, Serialize, Deserialize, PartialEq)]
struct Params {
    /// The name of the network's file.
    network: String,
    /// The sizes of the lattice parameters.
    set: String,
}

/// Measures and prints.
pub(super) fn run(path: &Path, arguments: &InferBench) -> Result<ExitCode, Failure> {
    let (model, runs) = (read(path)?, arguments.runs());
    let count = PICTURES.min(runs + 1);
    let volume = model.graph().input();
    let pictures: Vec<NamedPicture> = match &arguments.images {
        None => random(volume, count),
        Some(images) => {
            let wanted = Wanted { fit: arguments.fit, limit: count, ..Wanted::new(volume) };
            read_pictures(std::slice::from_ref(images), &wanted)?.into_iter().collect()
        }
    };
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let figures = match model.settings().engine {
        Engine::Enclave => enclaved(&name, &model, pictures, runs)?,
        _ => measure(&name, &model, &pictures, runs)?,
    };
    let table = table(&name, &model, &figures);
    show(&table, arguments.json);
    if arguments.json {
        figures.iter().try_for_each(output::json)?;
    }
    if let Some(folder) = &arguments.output {
        std::fs::create_dir_all(folder)?;
        files::write_atomically(&folder.join("network.csv"), table.csv().as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<DeepModel, Failure> {
    let bytes = files::read_bounded(path, MAX_FILE_BYTES as u64)?;
    DeepModel::decode(&bytes).map_err(|error| {
        Failure::Work(format!(
            "{}: {error}. Compile the network with `tobari infer compile`; one of maps and squares alone needs \
             `--approximate quadratic`",
            path.display()
        ))
    })
}

/// Random pictures, always the same.
fn random(volume: Volume, count: usize) -> Vec<NamedPicture> {
    let mut rng = ChaCha20Rng::from_seed(SEED);
    let mut one = |number| {
        let mut pixels = Zeroizing::new(vec![0; volume.len()]);
        rng.fill_bytes(&mut pixels);
        NamedPicture { name: format!("random picture {number}"), pixels, label: None }
    };
    (0..count).map(&mut one).collect()
}

/// The result of some work, and its seconds.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let began = Instant::now();
    let done = work();
    (done, began.elapsed().as_secs_f64())
}

/// Seconds of each run, and the results.
#[derive(Default)]
struct Runs {
    /// Encryption with the server's expansion.
    encrypt: Vec<f64>,
    run: Vec<f64>,
    decrypt: Vec<f64>,
    /// The largest error of a logit, for each run that was answered.
    errors: Vec<f64>,
    /// Runs whose label is that of the plain network.
    equal: usize,
    /// Runs with a warning that either of two labels may be right.
    close: usize,
    /// Runs without an answer, because the picture is outside the range of the network.
    withheld: usize,
}

/// The figures of one client's runs, after one that warms up.
fn measure(
    name: &str,
    model: &DeepModel,
    pictures: &[NamedPicture],
    runs: usize,
) -> Result<Vec<Line<Params>>, Failure> {
    let mut rng = randomness::generator()?;
    let (network, prepare) = timed(|| model.network());
    let network = network.map_err(|error| Failure::Work(format!("{name}: {error}")))?;
    let card = network.card();
    let client = Client::new(card.clone(), &mut rng)?;
    let (keys, seconds) = timed(|| client.keys(&mut rng));
    let ring = network.keyring(keys?)?;
    let (foretold, mut found) = (model.forecast().error, Runs::default());
    for (number, picture) in pictures.iter().cycle().take(runs + 1).enumerate() {
        output::say(format!("{} ({number} of {runs})", picture.name));
        let picture_numbers = Zeroizing::new(numbers(&picture.pixels));
        let (question, encrypt) = timed(|| {
            let sealed = client.encrypt(&picture_numbers, &mut rng)?;
            Ok::<_, ClientError>(sealed.iter().map(SeededCiphertext::expand).collect())
        });
        let question = question?;
        let (answer, run) = timed(|| network.run(question, &ring, &mut rng, |_| true));
        let answer = answer?;
        let (told, decrypt) = timed(|| client.decrypt(&answer, Output::Logits));
        let plain = model.graph().forward(&picture.pixels)?;
        let outside = || Ok(model.simulate(network.circuit(), &picture.pixels, 0)?.outside);
        let named = |error| Failure::Work(format!("{}: {error}", picture.name));
        let judged = judge(told, &plain, foretold, outside).map_err(named)?;
        if number > 0 {
            found.add([encrypt, run, decrypt], &judged);
        }
    }
    let (sent, peak) = (card.sent.0, memory::resident().map(|[_, peak]| peak as f64));
    let params = Params { network: name.to_owned(), set: model.settings().sizes.to_string() };
    let all = [
        ("prepare", "s", vec![prepare]),
        ("keys", "s", vec![seconds]),
        ("encrypt", "s", found.encrypt),
        ("run", "s", found.run),
        ("decrypt", "s", found.decrypt),
        ("key_bytes", "B", vec![messages::keys_bytes(&card) as f64]),
        ("key_memory", "B", vec![network.keyring_memory() as f64]),
        ("question_bytes", "B", vec![messages::question_bytes(&card) as f64]),
        ("answer_bytes", "B", vec![messages::answer_bytes(&card) as f64]),
        ("peak", "B", peak.into_iter().collect()),
        ("degree", "coefficients", vec![network.parameters().degree() as f64]),
        ("levels", "primes", vec![sent as f64]),
        ("foretold_error", "logit", vec![foretold]),
        ("error", "logit", found.errors),
        ("equal", "pictures", vec![found.equal as f64]),
        ("close", "pictures", vec![found.close as f64]),
        ("withheld", "pictures", vec![found.withheld as f64]),
    ];
    let known = all.into_iter().filter(|(_, _, values)| !values.is_empty());
    Ok(known.map(|(what, unit, values)| of_values(what, unit, params.clone(), values)).collect())
}

/// The figures of a session with a simulated enclave, which is a process of this machine.
fn enclaved(
    name: &str,
    model: &DeepModel,
    pictures: Vec<NamedPicture>,
    runs: usize,
) -> Result<Vec<Line<Params>>, Failure> {
    let pixels: Vec<Vec<u8>> = pictures.into_iter().map(|picture| picture.pixels.to_vec()).collect();
    let (found, whole) = timed(|| timed::network(model, &pixels, runs));
    let found = found?;
    let seconds = |all: &[f64]| all.iter().map(|milliseconds| milliseconds / 1e3).collect::<Vec<f64>>();
    let visits: Vec<f64> =
        found.steps.iter().filter(|(name, _)| name == "inside").flat_map(|(_, all)| seconds(all)).collect();
    let params = Params { network: name.to_owned(), set: model.settings().sizes.to_string() };
    let peak = memory::resident().map(|[_, peak]| peak as f64);
    let all = [
        ("start", "s", vec![found.start / 1e3]),
        ("keys", "s", vec![(found.open + found.keys) / 1e3]),
        ("run", "s", seconds(&found.total)),
        ("visits", "s", visits),
        ("key_bytes", "B", vec![found.session.out_bytes as f64]),
        ("key_memory", "B", vec![found.memory as f64]),
        ("in_bytes", "B", vec![found.image.in_bytes as f64]),
        ("out_bytes", "B", vec![found.image.out_bytes as f64]),
        ("requests", "requests", vec![found.image.requests as f64]),
        ("peak", "B", peak.into_iter().collect()),
        ("degree", "coefficients", vec![model.settings().sizes.degree as f64]),
        ("foretold_error", "logit", vec![model.forecast().error]),
        ("equal", "pictures", vec![found.equal as f64]),
        ("close", "pictures", vec![found.close as f64]),
        ("whole", "s", vec![whole]),
    ];
    let known = all.into_iter().filter(|(_, _, values)| !values.is_empty());
    Ok(known.map(|(what, unit, values)| of_values(what, unit, params.clone(), values)).collect())
}

impl Runs {
    fn add(&mut self, [encrypt, run, decrypt]: [f64; 3], judged: &Judged) {
        self.encrypt.push(encrypt);
        self.run.push(run);
        self.decrypt.push(decrypt);
        match *judged {
            Judged::Answered { equal, close, error } => {
                self.errors.push(error);
                self.equal += usize::from(equal);
                self.close += usize::from(close);
            }
            Judged::Withheld => self.withheld += 1,
        }
    }
}

/// A run that counts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Judged {
    Answered {
        /// Whether the label is that of the plain network.
        equal: bool,
        /// Whether the client was told that either of two labels may be right.
        close: bool,
        /// The largest error of a logit.
        error: f64,
    },
    Withheld,
}

/// Compares an answer with the plain network's logits. A warning excuses another label only if the
/// foretold error may exchange the two. `outside` tells whether a run without encryption would
/// withhold the answer: noise in place of an answer has no other excuse.
fn judge(
    told: Result<AnswerView, ClientError>,
    plain: &[f64],
    foretold: f64,
    outside: impl FnOnce() -> Result<bool, Failure>,
) -> Result<Judged, Failure> {
    let view = match told {
        Ok(view) => view,
        Err(ClientError::Outside) => return Ok(Judged::Withheld),
        Err(ClientError::Noise { .. }) if outside()? => return Ok(Judged::Withheld),
        Err(error) => return Err(error.into()),
    };
    let expected = (0..plain.len()).fold(0, |best, class| if plain[class] > plain[best] { class } else { best });
    let error = view.logits.iter().zip(plain).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let found = view.labels.first().copied();
    let (equal, close) = (found == Some(expected), view.close.is_some());
    let may_be = found.is_some_and(|found| view.logits[found] - view.logits[expected] < 2.0 * foretold);
    if !(equal || close && may_be) {
        return Err(Failure::Work(format!(
            "expected the label {expected} of the plain network, found {found:?}; a logit is off by {error:.1e}"
        )));
    }
    Ok(Judged::Answered { equal, close, error })
}

fn table(name: &str, model: &DeepModel, figures: &[Line<Params>]) -> Table {
    let set = &model.settings().sizes;
    let title = match model.settings().engine {
        Engine::Enclave => {
            format!("{name} in parameters {set}: maps in this process, one thread, and a SIMULATED enclave")
        }
        _ => format!("{name} in parameters {set}: client and server in one process, one thread"),
    };
    let mut table = Table::new(title, &["what", "median", "least", "most", "unit", "runs"]);
    for figure in figures {
        let shown = |value: f64| match figure.unit.as_str() {
            "s" => number(Some(value), 3),
            "logit" => format!("{value:.1e}"),
            _ => number(Some(value), 0),
        };
        let mut row = vec![figure.what.clone()];
        row.extend([figure.median, figure.min, figure.max].map(shown));
        row.extend([figure.unit.clone(), figure.runs.to_string()]);
        table.push(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use tobari_infer::Normalisation;
    use tobari_infer_deep::model::CompileOptions;
    use tobari_infer_deep::{Graph, Op};

    const VOLUME: Volume = Volume { channels: 1, height: 4, width: 4 };

    /// The square of a sum of pixels, every third one, for each class.
    fn squares() -> DeepModel {
        let mut graph = Graph::new(VOLUME, Normalisation::standard(1, 0.5, 0.25)).unwrap();
        let weights = (0..3 * 16).map(|at| if at % 16 % 3 == at / 16 { 0.25 } else { 0.0 }).collect();
        let dense = graph.add("dense", Op::Dense { outputs: 3, weights, bias: vec![0.1; 3] }, &[0]).unwrap();
        let coefficients = vec![vec![0.0], vec![0.0], vec![1.0]];
        graph.add("square", Op::Polynomial { coefficients }, &[dense]).unwrap();
        let pictures = random(VOLUME, 12);
        let pixels: Vec<&[u8]> = pictures.iter().map(|picture| picture.pixels.as_slice()).collect();
        DeepModel::compile(graph, &pixels, CompileOptions { margin: Some(0.1), ..CompileOptions::default() }).unwrap()
    }

    #[test]
    fn a_network_is_measured_and_its_errors_are_within_the_forecast() {
        let (model, pictures) = (squares(), random(VOLUME, 3));
        let figures = measure("squares.tim", &model, &pictures, 2).unwrap();
        let of = |what: &str| figures.iter().find(|line| line.what == what).unwrap();
        for (what, runs) in [("keys", 1), ("encrypt", 2), ("run", 2), ("decrypt", 2)] {
            let figure = of(what);
            assert!(figure.unit == "s" && figure.runs == runs && figure.min > 0.0, "{what}");
        }
        // five deviations over several pictures; a square's error grows with its number, and a
        // picture of larger numbers has about twice the deviation
        assert!(of("error").max > 0.0 && of("error").max <= 2.0 * of("foretold_error").median);
        assert_eq!(of("foretold_error").median, model.forecast().error);
        assert_eq!((of("equal").median, of("withheld").median), (2.0, 0.0));
        // a prime for each level, and one that stays
        let primes = model.circuit().unwrap().steps.depth() + 1;
        let degree = model.settings().sizes.degree;
        assert_eq!((of("degree").median, of("levels").median), (degree as f64, primes as f64));
        // one of a key's two halves is sent, and of a word the bits of its prime alone
        let (sent, kept) = (of("key_bytes").median, of("key_memory").median);
        assert!(sent > 0.2 * kept && sent < 0.5 * kept, "{sent} bytes sent, {kept} in memory");
        assert!(of("peak").median > kept);
        assert_eq!(table("squares.tim", &model, &figures).rows().len(), figures.len());
    }

    #[test]
    fn a_wrong_label_counts_only_with_a_warning() {
        let view = |label, close| Ok(AnswerView { labels: vec![label], logits: vec![0.5, 1.0, 0.0], close });
        let plain = [0.75, 0.5, 0.0];
        let judged = |told| judge(told, &plain, 0.3, || Ok(false));
        let close = Judged::Answered { equal: false, close: true, error: 0.5 };
        assert_eq!(judged(view(1, Some([1, 0]))).unwrap(), close);
        assert_eq!(judged(view(0, None)).unwrap(), Judged::Answered { equal: true, close: false, error: 0.5 });
        for told in [view(1, None), Err(ClientError::Noise { most: 1.0 })] {
            judged(told).unwrap_err();
        }
        // a warning about other labels
        judge(view(1, Some([1, 2])), &plain, 0.2, || Ok(false)).unwrap_err();
        assert_eq!(judged(Err(ClientError::Outside)).unwrap(), Judged::Withheld);
        let noise = judge(Err(ClientError::Noise { most: 1.0 }), &plain, 0.3, || Ok(true));
        assert_eq!(noise.unwrap(), Judged::Withheld);
    }

    #[test]
    fn another_file_is_refused_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.tim");
        std::fs::write(&path, b"TIM\x02 of maps with squares").unwrap();
        let refused = read(&path).unwrap_err().to_string();
        assert!(refused.contains("other.tim") && refused.contains("tobari infer compile"), "{refused}");
    }
}
