//! Batches of images against plain arithmetic.

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::sync::LazyLock;
use tobari_infer::batched::{Batched, BatchedError, EncryptedBatched};
use tobari_infer::digits::{STYLES, draw};
use tobari_infer::{Map, Model, Stage, Volume};
use tobari_lattice::ckks::{Ciphertext, Decryptor, Encoder, EvaluationKeys, ReleaseError, Scale};
use tobari_lattice::params::{LatticeParameters, NamedSet, Plaintext};
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::SecretKey;

fn named(set: &str) -> LatticeParameters {
    NamedSet::from_name(set).unwrap().parameters().unwrap()
}

/// One shared object, because parameters are compared by identity.
fn parameters() -> LatticeParameters {
    static PARAMETERS: LazyLock<LatticeParameters> = LazyLock::new(|| named("infer-f"));
    PARAMETERS.clone()
}

/// Numbers on a grid of `2^-bits` within `[-most, most]`.
fn numbers(rng: &mut ChaCha20Rng, count: usize, bits: u32, most: f64) -> Vec<f64> {
    let steps = (most * 2f64.powi(bits as i32)) as i64;
    (0..count)
        .map(|_| ((rng.next_u64() % (2 * steps as u64 + 1)) as i64 - steps) as f64 / 2f64.powi(bits as i32))
        .collect()
}

fn stage(name: &str, input: Volume, output: Volume, map: Map, rng: &mut ChaCha20Rng) -> Stage {
    let bias = numbers(rng, output.len(), 14, 0.1);
    Stage { name: name.to_owned(), input, output, map, bias, weight_bits: 14, bias_bits: 14 }
}

/// Two convolutions, one of them with a border, and a dense layer.
fn model(rng: &mut ChaCha20Rng) -> Model {
    let volumes = [(1, 6, 6), (2, 3, 3), (3, 2, 2)].map(|(channels, height, width)| Volume { channels, height, width });
    let convolution = |kernel, stride, padding, weights| Map::Convolution { kernel, stride, padding, weights };
    let first = convolution([3, 3], [2, 2], [1, 1], numbers(rng, 18, 14, 0.2));
    let second = convolution([2, 2], [1, 1], [0, 0], numbers(rng, 24, 14, 0.3));
    let dense = Map::Dense { weights: numbers(rng, 48, 14, 0.2) };
    let stages = vec![
        stage("first", volumes[0], volumes[1], first, rng),
        stage("second", volumes[1], volumes[2], second, rng),
        stage("last", volumes[2], Volume::vector(4), dense, rng),
    ];
    Model::new(stages, 0).unwrap()
}

/// The model's computation in a few lines.
fn plain(model: &Model, image: &[f64]) -> Vec<f64> {
    let mut numbers = image.to_vec();
    for (k, stage) in model.stages().iter().enumerate() {
        let row = |o: usize| stage.row(o).iter().map(|(i, w)| w * numbers[*i]).sum::<f64>() + stage.bias[o];
        let sums: Vec<f64> = (0..stage.output.len()).map(row).collect();
        numbers = if k + 1 < model.stages().len() { sums.iter().map(|u| u * u).collect() } else { sums };
    }
    numbers
}

struct Client {
    secret: SecretKey,
    encoder: Encoder,
    keys: EvaluationKeys,
}

impl Client {
    fn new(rng: &mut ChaCha20Rng) -> Self {
        Self::of(&parameters(), rng)
    }

    fn of(parameters: &LatticeParameters, rng: &mut ChaCha20Rng) -> Self {
        let secret = SecretKey::from_seed(parameters, Seed::random(rng));
        let mut keys = EvaluationKeys::new(parameters);
        keys.add_relinearization(&secret, parameters.data_primes(), rng).unwrap();
        Self { secret, encoder: Encoder::new(parameters).unwrap().within(f64::INFINITY), keys }
    }

    fn encrypt(&self, batched: &Batched, images: &[Vec<f64>], rng: &mut ChaCha20Rng) -> Vec<Ciphertext> {
        self.encrypt_at(batched.input(), images, rng)
    }

    fn encrypt_at(
        &self,
        (level, scale): (usize, Scale),
        images: &[Vec<f64>],
        rng: &mut ChaCha20Rng,
    ) -> Vec<Ciphertext> {
        let pixel = |p: usize| {
            let slots: Vec<f64> = images.iter().map(|image| image[p]).collect();
            let plain = self.encoder.encode(&slots, &scale, level).unwrap();
            plain.encrypt_seeded(&self.secret, rng).unwrap().expand()
        };
        (0..images[0].len()).map(pixel).collect()
    }

    /// Logits of each image.
    fn decrypt(&self, logits: &[Ciphertext], images: usize) -> Vec<Vec<f64>> {
        let decryptor = Decryptor::new(&self.secret, &self.encoder).unwrap();
        let slots: Vec<_> = logits.iter().map(|logit| decryptor.decrypt(logit).unwrap()).collect();
        (0..images).map(|image| slots.iter().map(|slots| slots[image]).collect()).collect()
    }
}

fn close(found: &[Vec<f64>], expected: &[Vec<f64>]) -> bool {
    let pairs = found.iter().flatten().zip(expected.iter().flatten());
    found.len() == expected.len() && pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-4)
}

#[test]
fn a_batch_gives_what_each_image_gives_in_the_clear() {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    let (model, client) = (model(&mut rng), Client::new(&mut rng));
    let batched = Batched::new(&model, &parameters()).unwrap();
    assert_eq!((batched.inputs(), batched.stages()), (36, 3));
    let images: Vec<Vec<f64>> =
        (0..50).map(|_| numbers(&mut rng, 36, 8, 1.0).iter().map(|x| x.abs()).collect()).collect();
    let expected: Vec<Vec<f64>> = images.iter().map(|image| plain(&model, image)).collect();
    assert!(expected.iter().flatten().any(|x| x.abs() > 0.05), "numbers that tell something");
    let pixels = client.encrypt(&batched, &images, &mut rng);
    let logits = batched.run(pixels.clone(), &client.keys).unwrap();
    assert_eq!(logits.len(), 4);
    assert!(close(&client.decrypt(&logits, 50), &expected));
    // and the same with every linear map checked
    let honest = &mut |batched: &Batched, stage: usize, inputs: &[Ciphertext]| batched.linear(stage, inputs);
    let checked = batched.run_checked(pixels, &client.keys, 3, honest, &mut rng).unwrap();
    assert!(close(&client.decrypt(&checked, 50), &expected));
}

#[test]
fn a_batch_under_an_encrypted_model_gives_the_same() {
    let mut rng = ChaCha20Rng::from_seed([5; 32]);
    let (model, client) = (model(&mut rng), Client::new(&mut rng));
    let (plain_form, batched) =
        (Batched::new(&model, &parameters()).unwrap(), EncryptedBatched::new(&model, &parameters()).unwrap());
    assert_eq!(batched.input().0, plain_form.input().0);
    let images: Vec<Vec<f64>> =
        (0..20).map(|_| numbers(&mut rng, 36, 8, 1.0).iter().map(|x| x.abs()).collect()).collect();
    let expected: Vec<Vec<f64>> = images.iter().map(|image| plain(&model, image)).collect();
    let weights = batched.encrypt(&model, &client.secret, &client.encoder, &mut rng).unwrap();
    assert!(weights.memory() > 0);
    let pixels = client.encrypt_at(batched.input(), &images, &mut rng);
    let logits = batched.run(pixels.clone(), &weights, &client.keys).unwrap();
    let found = client.decrypt(&logits, 20);
    let worst = found.iter().flatten().zip(expected.iter().flatten()).map(|(a, b)| (a - b).abs());
    assert!(worst.fold(0.0, f64::max) < 5e-3, "{:?} {:?}", found[0], expected[0]);
    // weights under another client's key are useless
    let other = Client::new(&mut rng);
    let foreign = batched.encrypt(&model, &other.secret, &other.encoder, &mut rng).unwrap();
    let decryptor = Decryptor::new(&client.secret, &client.encoder).unwrap();
    for noise in batched.run(pixels, &foreign, &client.keys).unwrap() {
        assert_eq!(decryptor.decrypt(&noise).map(drop), Err(ReleaseError::NoMessage));
    }
}

#[test]
fn an_encrypted_model_is_as_right_with_primes_of_other_sizes_and_refuses_those_that_do_not_keep_the_scale() {
    let mut rng = ChaCha20Rng::from_seed([6; 32]);
    let model = model(&mut rng);
    let images: Vec<Vec<f64>> =
        (0..5).map(|_| numbers(&mut rng, 36, 8, 1.0).iter().map(|x| x.abs()).collect()).collect();
    let expected: Vec<Vec<f64>> = images.iter().map(|image| plain(&model, image)).collect();
    for set in ["infer-s", "ckks-b"] {
        let parameters = named(set);
        let (batched, client) =
            (EncryptedBatched::new(&model, &parameters).unwrap(), Client::of(&parameters, &mut rng));
        let weights = batched.encrypt(&model, &client.secret, &client.encoder, &mut rng).unwrap();
        let pixels = client.encrypt_at(batched.input(), &images, &mut rng);
        let found = client.decrypt(&batched.run(pixels, &weights, &client.keys).unwrap(), images.len());
        let worst = found.iter().flatten().zip(expected.iter().flatten()).map(|(a, b)| (a - b).abs());
        assert!(worst.fold(0.0, f64::max) < 1e-3, "{set}: {:?} {:?}", found[0], expected[0]);
    }
    // 26 bits of scale, and a square divided by 50
    let two = Model::new(model.stages()[1..].to_vec(), 0).unwrap();
    let uneven = LatticeParameters::of_sizes(8192, &[50, 26, 50, 26], &[50], 4, Plaintext::Approximate).unwrap();
    let refused = EncryptedBatched::new(&two, &uneven).map(|_| ()).unwrap_err();
    assert!(matches!(&refused, BatchedError::Precision { stage, .. } if stage == "second"), "{refused}");
}

#[test]
fn a_site_that_alters_a_linear_output_is_found_out_by_name() {
    let mut rng = ChaCha20Rng::from_seed([2; 32]);
    let (model, client) = (model(&mut rng), Client::new(&mut rng));
    let batched = Batched::new(&model, &parameters()).unwrap();
    let pixels = client.encrypt(&batched, &[vec![0.5; 36]], &mut rng);
    for wrong in 0..3 {
        // each output is a correct sum, but of another row
        let lying = &mut |batched: &Batched, stage: usize, inputs: &[Ciphertext]| {
            let mut sums = batched.linear(stage, inputs)?;
            if stage == wrong {
                sums.swap(0, 1);
            }
            Ok(sums)
        };
        let found = batched.run_checked(pixels.clone(), &client.keys, 3, lying, &mut rng).map(|_| ());
        assert_eq!(found, Err(BatchedError::Wrong { stage: model.stages()[wrong].name.clone() }));
    }
}

#[test]
fn a_wrong_rescale_passes_the_test_of_linear_maps_and_is_caught_where_the_guarded_site_makes_its_own() {
    // outside the check: another site's activation could have any value
    let mut rng = ChaCha20Rng::from_seed([3; 32]);
    let (model, client) = (model(&mut rng), Client::new(&mut rng));
    let batched = Batched::new(&model, &parameters()).unwrap();
    let pixels = client.encrypt(&batched, &[vec![0.5; 36]], &mut rng);
    let sums = batched.linear(0, &pixels).unwrap();
    let mut active: Vec<Ciphertext> =
        sums.iter().enumerate().map(|(output, sum)| batched.activate(0, output, sum, &client.keys).unwrap()).collect();
    active.swap(0, 1);
    let next = batched.linear(1, &active).unwrap();
    let (given, found): (Vec<_>, Vec<_>) = (active.iter().collect(), next.iter().collect());
    assert!(batched.check(1).holds(&given, &found, 14, 3, &mut rng));
    // squares, relinearisations and rescalings of a checked run are its caller's: a site that
    // continues from other values fails the check of its next map
    let own = &mut |batched: &Batched, stage: usize, inputs: &[Ciphertext]| {
        batched.linear(stage, if stage == 1 { &active } else { inputs })
    };
    let caught = batched.run_checked(pixels, &client.keys, 3, own, &mut rng).map(|_| ());
    assert_eq!(caught, Err(BatchedError::Wrong { stage: "second".to_owned() }));
}

#[test]
fn what_does_not_fit_is_refused_by_the_name_of_its_stage() {
    let mut rng = ChaCha20Rng::from_seed([4; 32]);
    let good = model(&mut rng);
    let mut stages = good.stages().to_vec();
    let Map::Dense { weights } = &mut stages[2].map else { unreachable!() };
    weights[3] = 2.5;
    let large = Model::new(stages.clone(), 0).unwrap();
    let refused =
        |model: &Model, parameters: &LatticeParameters| Batched::new(model, parameters).map(|_| ()).unwrap_err();
    assert_eq!(refused(&large, &parameters()), BatchedError::Weight { stage: "last".to_owned(), bits: 14 });
    // more squares than primes
    let square = stage("again", Volume::vector(4), Volume::vector(4), Map::Dense { weights: vec![0.25; 16] }, &mut rng);
    let mut deep = good.stages().to_vec();
    deep.extend([square.clone(), Stage { name: "and again".to_owned(), ..square }]);
    let refused = refused(&Model::new(deep, 0).unwrap(), &parameters());
    assert!(
        matches!(&refused, BatchedError::Room { stage, .. } if stage == "last" || stage.contains("again")),
        "{refused}"
    );
    // too few pixels
    let batched = Batched::new(&good, &parameters()).unwrap();
    let client = Client::new(&mut rng);
    let mut pixels = client.encrypt(&batched, &[vec![0.5; 36]], &mut rng);
    pixels.pop();
    let found = batched.run(pixels, &client.keys).map(|_| ()).unwrap_err();
    assert_eq!(found, BatchedError::Inputs { stage: "first".to_owned(), expected: 36, found: 35 });
}

#[test]
fn the_trained_network_reads_drawn_digits_in_a_batch() {
    let mut rng = ChaCha20Rng::from_seed([6; 32]);
    let (model, client) = (Model::digits().unwrap(), Client::new(&mut rng));
    let batched = Batched::new(&model, &parameters()).unwrap();
    let drawn: Vec<Vec<u8>> = STYLES.iter().flat_map(|style| (0..10).map(move |digit| draw(digit, style))).collect();
    let images: Vec<Vec<f64>> =
        drawn.iter().map(|image| image.iter().map(|p| f64::from(*p) / 256.0).collect()).collect();
    let pixels = client.encrypt(&batched, &images, &mut rng);
    let logits = client.decrypt(&batched.run(pixels, &client.keys).unwrap(), images.len());
    let label = |logits: &[f64]| (0..10).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap();
    for (image, logits) in drawn.iter().zip(&logits) {
        assert_eq!(label(logits), label(&model.forward(image).unwrap()));
    }
}
