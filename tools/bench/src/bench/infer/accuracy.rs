//! The test images of MNIST: labels computed in doubles, in integers, and under encryption.

use super::super::table::Table;
use super::{MEMORY, failed, parameters};
use std::path::Path;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tobari_host::threads;
use tobari_infer::client::{Client, Output};
use tobari_infer::compile::{Compiled, Options};
use tobari_infer::forecast;
use tobari_infer::server::Service;
use tobari_infer::{FixedModel, Model, argmax};
use tobari_infer_files::images::{IdxImages, read_idx_tests};
use tobari_lattice::ckks::SeededCiphertext;

/// The layouts and sets of encrypted runs.
const LAYOUTS: [(&str, &str); 2] = [("balanced", "infer-s"), ("wide", "infer-f")];
/// Images for one key and one piece of work.
const PIECE: usize = 100;

/// For each encrypted image: whether its label equals the label in integers, and the largest error
/// of a logit.
type ImageResults = Result<Vec<(bool, f64)>, Failure>;

/// The accuracy over all test images, and the number of equal labels under encryption among the
/// first `encrypted` images.
pub(super) fn run(
    model: &Model,
    fixed: &FixedModel,
    folder: &Path,
    encrypted: usize,
) -> Result<(Table, &'static str), Failure> {
    let (images, labels) = read_idx_tests(folder).map_err(failed)?;
    let mut table = Table::new(
        format!("Accuracy: {} test images", labels.len()),
        &["how", "images", "right", "%", "same label as in integers", "%", "largest error of a logit", "foretold"],
    );
    let percent = |part: usize, of: usize| format!("{:.2}", 100.0 * part as f64 / of.max(1) as f64);
    let mut right = [0; 2];
    let mut same = 0;
    for (image, label) in images.iter().zip(&labels) {
        let logits = model.forward(image).map_err(failed)?;
        let doubles = (0..logits.len()).fold(0, |best, class| if logits[class] > logits[best] { class } else { best });
        let integers = fixed.classify(image).map_err(failed)?;
        right[0] += usize::from(doubles == usize::from(*label));
        right[1] += usize::from(integers == usize::from(*label));
        same += usize::from(doubles == integers);
    }
    let count = labels.len();
    for (how, right, same) in [("in doubles", right[0], same), ("in integers", right[1], count)] {
        let cells = [count.to_string(), right.to_string(), percent(right, count)];
        let mut row = vec![how.to_owned()];
        row.extend(cells);
        row.extend([same.to_string(), percent(same, count)]);
        row.resize(8, String::new());
        table.push(row);
    }
    let count = encrypted.min(count);
    for (layout, set) in LAYOUTS {
        if count == 0 {
            break;
        }
        output::say(format!("{count} images under encryption, {layout}, {set}"));
        let compiled = Compiled::new(model, layout, &parameters(set)?, Options::PLAIN_WEIGHTS).map_err(failed)?;
        let foretold = foretold(&compiled, model)?;
        let found = under_encryption(model, fixed, compiled, &images, count)?;
        let same = found.iter().filter(|(same, _)| *same).count();
        let error = found.iter().fold(0.0, |most: f64, (_, error)| most.max(*error));
        table.push(vec![
            format!("encrypted: {layout}, {set}"),
            count.to_string(),
            String::new(),
            String::new(),
            same.to_string(),
            percent(same, count),
            format!("{error:.1e}"),
            format!("{foretold:.1e}"),
        ]);
        if error > foretold {
            let what = format!(
                "{layout}, {set}: expected logits within {foretold:.1e}, as is foretold, found one off by {error:.1e}"
            );
            return Err(Failure::Work(what));
        }
    }
    Ok((table, "accuracy.csv"))
}

/// The foretold error of a logit; a server reports it before it serves a model.
fn foretold(compiled: &Compiled, model: &Model) -> Result<f64, Failure> {
    forecast::logit_error(compiled, model).map_err(failed)
}

/// Encrypted runs on all cores, with a key for each piece.
fn under_encryption(
    model: &Model,
    fixed: &FixedModel,
    compiled: Compiled,
    images: &IdxImages,
    count: usize,
) -> ImageResults {
    let service = Service::new(compiled, MEMORY).map_err(failed)?;
    let images: Vec<&[u8]> = images.iter().take(count).collect();
    let pieces: Vec<&[&[u8]]> = images.chunks(PIECE).collect();
    let found = threads::map_parallel(&pieces, threads::available(), |piece| one_piece(model, fixed, &service, piece));
    found.into_iter().try_fold(Vec::with_capacity(count), |mut all, piece| {
        all.extend(piece?);
        Ok(all)
    })
}

fn one_piece(model: &Model, fixed: &FixedModel, service: &Service, images: &[&[u8]]) -> ImageResults {
    let mut rng = randomness::generator()?;
    let client = Client::new(service.card().clone(), &mut rng).map_err(failed)?;
    let session = service.session(client.keys(&mut rng).map_err(failed)?).map_err(failed)?;
    let unit = 2f64.powi(model.logit_bits() - 24);
    let mut found = Vec::with_capacity(images.len());
    for image in images {
        let sealed = client.encrypt(&Model::numbers(image), &mut rng).map_err(failed)?;
        let answer = session.run(sealed.iter().map(SeededCiphertext::expand).collect(), &mut rng).map_err(failed)?;
        let told = client.decrypt(&answer, Output::Logits).map_err(failed)?;
        let exact = fixed.logits(image).map_err(failed)?;
        let error = told.logits.iter().zip(&exact).map(|(a, b)| (a - *b as f64 * unit).abs()).fold(0.0, f64::max);
        found.push((told.labels.first() == Some(&argmax(&exact)), error));
    }
    Ok(found)
}
