//! The product's own way: an image under its user's key, by layout, set and weights; everything in
//! this process, on one thread.

use super::super::line::summary;
use super::super::table::{Table, number};
use super::{Figure, MEMORY, failed, image, parameters};
use std::time::Instant;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tobari_infer::client::{Client, Output};
use tobari_infer::compile::{Compiled, Options};
use tobari_infer::server::{Service, encrypt_weights};
use tobari_infer::{FixedModel, Model};
use tobari_lattice::ckks::SeededCiphertext;
use tobari_lattice::wire;

/// The measured layouts and sets, those with the paper's ring first.
const LAYOUTS: [(&str, &str); 6] = [
    ("compact", "infer-s"),
    ("balanced", "infer-s"),
    ("wide", "infer-s"),
    ("dense", "infer-s"),
    ("balanced", "infer-f"),
    ("wide", "infer-f"),
];

/// The figures of a layout: milliseconds of each run, and bytes.
struct Row {
    layout: &'static str,
    set: &'static str,
    encrypted: bool,
    /// Encryption with the server's expansion, the run, decryption.
    times: [Vec<f64>; 3],
    keys: u64,
    question: usize,
    answer: usize,
}

/// Measures all layouts.
pub(super) fn run(
    model: &Model,
    fixed: &FixedModel,
    runs: usize,
) -> Result<(Table, &'static str, Vec<Figure>), Failure> {
    let columns = [
        "layout",
        "set",
        "weights",
        "encrypt ms",
        "run ms",
        "fastest",
        "decrypt ms",
        "keys, bytes",
        "question",
        "answer",
    ];
    let mut table = Table::new("An image under its user's key, one thread", &columns);
    let mut figures = Vec::new();
    for encrypted in [false, true] {
        for (layout, set) in LAYOUTS {
            output::say(format!("{layout}, {set}, weights {}", if encrypted { "encrypted" } else { "in the clear" }));
            let row = one(model, fixed, (layout, set), encrypted, runs)?;
            let [encrypt, run, decrypt] = [0, 1, 2].map(|what| summary(row.times[what].clone()));
            table.push(vec![
                row.layout.to_owned(),
                row.set.to_owned(),
                if row.encrypted { "encrypted" } else { "clear" }.to_owned(),
                number(Some(encrypt.0), 3),
                number(Some(run.0), 3),
                number(Some(run.1), 3),
                number(Some(decrypt.0), 3),
                row.keys.to_string(),
                row.question.to_string(),
                row.answer.to_string(),
            ]);
            let combination = if encrypted { "user-key-both" } else { "user-key" };
            for (what, times) in ["encrypt", "run", "decrypt"].into_iter().zip(row.times) {
                figures.push(Figure::new(what, combination, set, layout, times));
            }
        }
    }
    Ok((table, "layouts.csv", figures))
}

fn one(
    model: &Model,
    fixed: &FixedModel,
    (layout, set): (&'static str, &'static str),
    encrypted: bool,
    runs: usize,
) -> Result<Row, Failure> {
    let mut rng = randomness::generator()?;
    let options = if encrypted { Options::ENCRYPTED_WEIGHTS } else { Options::PLAIN_WEIGHTS };
    let compiled = Compiled::new(model, layout, &parameters(set)?, options).map_err(failed)?;
    let service = Service::new(compiled, MEMORY).map_err(failed)?;
    let client = Client::new(service.card().clone(), &mut rng).map_err(failed)?;
    let keys = client.keys(&mut rng).map_err(failed)?;
    let session = match encrypted {
        true => {
            let weights = encrypt_weights(service.compiled(), client.secret(), &mut rng).map_err(failed)?;
            service.session_with(keys, weights)
        }
        false => service.session(keys),
    };
    let session = session.map_err(failed)?;
    let mut row = Row {
        layout,
        set,
        encrypted,
        times: [(); 3].map(|()| Vec::with_capacity(runs)),
        keys: session.memory(),
        question: 0,
        answer: 0,
    };
    for run in 0..=runs {
        let pixels = image(run);
        let mut at = Instant::now();
        let mut note = |what: usize| {
            if run > 0 {
                row.times[what].push(1e3 * at.elapsed().as_secs_f64());
            }
            at = Instant::now();
        };
        let sealed = client.encrypt(&Model::numbers(&pixels), &mut rng).map_err(failed)?;
        let values = sealed.iter().map(SeededCiphertext::expand).collect();
        note(0);
        let answer = session.run(values, &mut rng).map_err(failed)?;
        note(1);
        let told = client.decrypt(&answer, Output::Label).map_err(failed)?;
        note(2);
        let expected = fixed.classify(&pixels).map_err(failed)?;
        if told.labels != [expected] {
            return Err(Failure::Work(format!("{layout}, {set}: expected {expected}, found {:?}", told.labels)));
        }
        row.question = sealed.iter().map(|one| wire::encode_ckks_seeded_ciphertext(one).len()).sum();
        row.answer = answer.iter().map(|one| wire::store_ckks_ciphertext(one).len()).sum();
    }
    Ok(row)
}
