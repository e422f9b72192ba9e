//! Thousands of images at once, one in each slot, on one thread: with unencrypted weights, with a
//! check of every linear map, and with encrypted weights.

use super::super::line::summary;
use super::super::table::{Table, number};
use super::{Figure, failed, image, parameters};
use std::time::Instant;
use tobari_command::output::{self, Failure};
use tobari_command::randomness;
use tobari_infer::batched::{Batched, EncryptedBatched, EncryptedWeights};
use tobari_infer::{FixedModel, Model};
use tobari_lattice::ckks::{Ciphertext, Decryptor, Encoder, EvaluationKeys, Scale};
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::SecretKey;
use zeroize::Zeroizing;

/// The default set: half as many images as infer-s, in a third of its memory.
const SET: &str = "infer-f";
/// Repetitions of Freivalds' test.
const REPETITIONS: u32 = 3;

/// The measured variants, and their titles.
const KINDS: [(&str, &str); 3] = [
    ("batch", "plaintext weights"),
    ("batch-checked", "the same, linear maps checked three times"),
    ("batch-both", "weights encrypted"),
];

/// A key, and a batch that fills all slots.
struct World<'a> {
    model: &'a Model,
    images: Vec<Vec<f64>>,
    expected: Vec<usize>,
    secret: SecretKey,
    encoder: Encoder,
    keys: EvaluationKeys,
}

impl<'a> World<'a> {
    fn new(model: &'a Model, fixed: &FixedModel, set: &str) -> Result<Self, Failure> {
        let (mut rng, parameters) = (randomness::generator()?, parameters(set)?);
        let secret = SecretKey::from_seed(&parameters, Seed::random(&mut rng));
        let mut keys = EvaluationKeys::new(&parameters);
        keys.add_relinearization(&secret, parameters.data_primes(), &mut rng).map_err(failed)?;
        // pixels and weights: the evaluators of batches have no bounds
        let encoder = Encoder::new(&parameters).map_err(failed)?.within(f64::INFINITY);
        let pixels = (0..encoder.slots()).map(image);
        let (mut images, mut expected) = (Vec::with_capacity(encoder.slots()), Vec::with_capacity(encoder.slots()));
        for pixels in pixels {
            images.push(Model::numbers(&pixels));
            expected.push(fixed.classify(&pixels).map_err(failed)?);
        }
        Ok(Self { model, images, expected, secret, encoder, keys })
    }

    fn encrypt(&self, (level, scale): (usize, Scale)) -> Result<Vec<Ciphertext>, Failure> {
        let mut rng = randomness::generator()?;
        let pixel = |place: usize| {
            let slots: Zeroizing<Vec<f64>> = Zeroizing::new(self.images.iter().map(|image| image[place]).collect());
            let plain = self.encoder.encode(&slots, &scale, level).map_err(failed)?;
            Ok(plain.encrypt_seeded(&self.secret, &mut rng).map_err(failed)?.expand())
        };
        (0..self.model.input().len()).map(pixel).collect()
    }

    /// Decrypts, and compares every label with the plain one.
    fn judge(&self, kind: &str, logits: &[Ciphertext]) -> Result<usize, Failure> {
        let decryptor = Decryptor::new(&self.secret, &self.encoder).map_err(failed)?;
        let mut slots = Vec::with_capacity(logits.len());
        for logit in logits {
            slots.push(decryptor.decrypt(logit).map_err(failed)?);
        }
        let label = |place: usize| {
            (0..slots.len()).fold(0, |best, class| if slots[class][place] > slots[best][place] { class } else { best })
        };
        let same = self.expected.iter().enumerate().filter(|(place, expected)| label(*place) == **expected).count();
        // a tie of two classes may go either way
        if same * 10_000 < self.expected.len() * 9_995 {
            return Err(Failure::Work(format!(
                "{kind}: expected {} plain labels, found {same} of them",
                self.expected.len()
            )));
        }
        Ok(same)
    }
}

/// Measures all variants.
pub(super) fn run(
    model: &Model,
    fixed: &FixedModel,
    set: Option<&str>,
    runs: usize,
) -> Result<(Table, &'static str, Vec<Figure>), Failure> {
    let set = set.unwrap_or(SET);
    let world = World::new(model, fixed, set)?;
    let count = world.images.len();
    let title = format!("{count} images at once, set {set}, one thread; what the client does apart");
    let columns = ["kind", "seconds", "fastest", "images/s", "ms an image", "plain labels"];
    let mut table = Table::new(title, &columns);
    let mut figures = Vec::new();
    for (kind, what) in KINDS {
        output::say(what);
        let (seconds, same) = measure(&world, kind, runs)?;
        let (median, fastest, _) = summary(seconds.clone());
        table.push(vec![
            what.to_owned(),
            number(Some(median), 3),
            number(Some(fastest), 3),
            number(Some(count as f64 / median), 0),
            number(Some(1e3 * median / count as f64), 3),
            format!("{same} of {count}"),
        ]);
        let each = seconds.iter().map(|seconds| 1e3 * seconds / count as f64).collect();
        figures.push(Figure::new("image", kind, set, "batched", each));
    }
    Ok((table, "batches.csv", figures))
}

/// The seconds of each run, and the number of labels equal to the plain ones.
fn measure(world: &World<'_>, kind: &str, runs: usize) -> Result<(Vec<f64>, usize), Failure> {
    let (mut rng, parameters) = (randomness::generator()?, world.secret.parameters());
    let both: Option<(EncryptedBatched, EncryptedWeights)> = match kind {
        "batch-both" => {
            let batched = EncryptedBatched::new(world.model, parameters).map_err(failed)?;
            let weights = batched.encrypt(world.model, &world.secret, &world.encoder, &mut rng).map_err(failed)?;
            Some((batched, weights))
        }
        _ => None,
    };
    let clear = Batched::new(world.model, parameters).map_err(failed)?;
    let (mut seconds, mut same) = (Vec::with_capacity(runs), 0);
    for _ in 0..runs {
        let pixels = world.encrypt(both.as_ref().map_or_else(|| clear.input(), |(batched, _)| batched.input()))?;
        let began = Instant::now();
        let logits = match (&both, kind) {
            (Some((batched, weights)), _) => batched.run(pixels, weights, &world.keys),
            (None, "batch") => clear.run(pixels, &world.keys),
            _ => clear.run_checked(
                pixels,
                &world.keys,
                REPETITIONS,
                &mut |batched, stage, inputs| batched.linear(stage, inputs),
                &mut rng,
            ),
        };
        let logits = logits.map_err(failed)?;
        seconds.push(began.elapsed().as_secs_f64());
        same = world.judge(kind, &logits)?;
    }
    Ok((seconds, same))
}
