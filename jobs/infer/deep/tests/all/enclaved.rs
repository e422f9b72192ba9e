//! Networks whose maps alone are encrypted: against the plain network, on slots and on ciphertexts.

use super::world::{Builder, branches, pictures, residual};
use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use tobari_infer::Volume;
use tobari_infer::guarded::{HostError, MixedNetwork, ProcessNetwork};
use tobari_infer::noise::Noise;
use tobari_infer::program::Input;
use tobari_infer_deep::lower::numbers;
use tobari_infer_deep::mixed::{InsideNetwork, Process};
use tobari_infer_deep::model::{CompileOptions, DeepModel};
use tobari_infer_deep::settings::{Engine, EngineKind};
use tobari_infer_deep::simulate::simulate;
use tobari_infer_deep::steps::Step;
use tobari_infer_deep::{Activation, Graph, Op};
use tobari_lattice::ckks::{Ciphertext, Decryptor, Encoder, EvaluationKeys, Scale};
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::SecretKey;

fn compiled(graph: Graph, seen: &[Vec<u8>]) -> DeepModel {
    let refs: Vec<&[u8]> = seen.iter().map(Vec::as_slice).collect();
    let engine = Some(EngineKind::Enclave);
    DeepModel::compile(graph, &refs, CompileOptions { margin: Some(0.3), engine, ..CompileOptions::default() }).unwrap()
}

/// Every kind of node that an enclave computes: activations, maxima, products of branches, means,
/// squares; with sums, concatenations and two uses of a convolution between them.
fn mixture(seed: u64) -> Graph {
    let mut net = Builder::new(Volume { channels: 2, height: 8, width: 8 }, seed);
    let x = net.convolution(0, 4, 3, 1, 1);
    let a = net.activation(x, Activation::Silu);
    let b = net.activation(x, Activation::Sigmoid);
    let gated = net.add(Op::Product, &[a, b]);
    let y = net.convolution(gated, 4, 3, 1, 1);
    let sum = net.add(Op::Sum { factors: vec![1.0, 0.5] }, &[y, gated]);
    let z = net.square(sum);
    let z = net.maximum(z, 2, 2);
    let wide = net.add(Op::Concatenate, &[z, z]);
    let w = net.convolution(wide, 6, 1, 1, 0);
    let w = net.activation(w, Activation::Gelu);
    let w = net.average(w, 2);
    let w = net.dense(w, 5);
    net.activation(w, Activation::Tanh);
    net.graph
}

fn graphs() -> Vec<(&'static str, Graph)> {
    vec![
        ("mixture", mixture(3)),
        ("residual", residual(8, 4, 2, 3)),
        ("branches", branches(Activation::Relu, 4)),
        ("leaky", branches(Activation::LeakyRelu { slope: 0.1 }, 5)),
    ]
}

fn far(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, |most, x| if x <= most { most } else { x })
}

#[test]
fn runs_without_noise_are_exact_and_noise_is_as_foretold() {
    for (name, graph) in graphs() {
        let seen = pictures(graph.input(), 16, 7);
        let model = compiled(graph, &seen);
        assert_eq!((model.settings().engine, model.forecast().approximation), (Engine::Enclave, 0.0));
        let circuit = model.circuit().unwrap();
        assert!(circuit.steps.steps.iter().all(|(_, step, _)| matches!(step, Step::Map { .. } | Step::Inside { .. })));
        assert_eq!(circuit.most_primes(), 2, "{name}: one level for each map");
        let (parameters, scale) = (model.settings().sizes.parameters().unwrap(), model.settings().scale);
        let mut noise = Noise::new(&parameters, 3);
        let (mut sum, mut count) = (0.0, 0);
        // pictures that the calibration did not see, too
        for pixels in pictures(model.graph().input(), 24, 99).iter().chain(&seen) {
            let plain = model.graph().forward(pixels).unwrap();
            let (exact, guard) = simulate(&circuit, &numbers(pixels), None);
            assert!(guard == 0.0 && far(&exact, &plain) < 1e-9, "{name}: {}", far(&exact, &plain));
            let scale = Scale::power_of_two(scale);
            let (found, _) = simulate(&circuit, &numbers(pixels), Some((&mut noise, &scale)));
            sum += found.iter().zip(&exact).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
            count += exact.len();
        }
        let ratio = 5.0 * (sum / f64::from(count as u32)).sqrt() / model.forecast().error;
        assert!((0.25..4.0).contains(&ratio), "{name}: {ratio}");
    }
}

/// Numbers far beyond those of the calibration: right, or refused.
#[test]
fn no_picture_is_wrong_in_silence() {
    let graph = mixture(3);
    let mut dark = pictures(graph.input(), 16, 7);
    dark.iter_mut().flatten().for_each(|pixel| *pixel = 115 + *pixel / 64);
    let model = compiled(graph, &dark);
    let circuit = model.circuit().unwrap();
    for (number, mut pixels) in pictures(model.graph().input(), 24, 99).into_iter().enumerate() {
        if number > 16 {
            pixels
                .iter_mut()
                .enumerate()
                .for_each(|(at, pixel)| *pixel = if at % (number - 15) == 0 { 255 } else { 0 });
        }
        let found = model.simulate(&circuit, &pixels, number as u64).unwrap();
        assert!(!found.outside && far(&found.logits, &found.plain) <= 2.0 * found.error, "picture {number}");
    }
    // a network that multiplies what it saw by ten thousand
    let mut net = Builder::new(Volume { channels: 1, height: 4, width: 4 }, 1);
    let x = net.add(Op::Affine { scale: vec![1.0], shift: vec![-1.0] }, &[0]);
    let x = net.activation(x, Activation::Relu);
    let x = net.add(Op::Product, &[x, x]);
    let x = net.dense(x, 3);
    net.activation(x, Activation::Relu);
    let mut dark: Vec<Vec<u8>> = vec![vec![178; 16]; 4];
    dark.iter_mut().enumerate().for_each(|(at, pixels)| pixels[at] = 179);
    let model = compiled(net.graph, &dark);
    let circuit = model.circuit().unwrap();
    assert!(!model.simulate(&circuit, &dark[1], 1).unwrap().outside);
    let refused = model.simulate(&circuit, &[255; 16], 1).unwrap();
    assert!(refused.outside && refused.logits.iter().all(|x| x.is_nan()));
}

/// Both parts, and a key without an identity, as in an enclave.
struct World {
    inside: InsideNetwork,
    process: Process,
    secret: SecretKey,
    encoder: Encoder,
    rng: ChaCha20Rng,
}

impl World {
    fn new(model: &DeepModel) -> Self {
        let inside = InsideNetwork::new(model).unwrap().unwrap();
        let process = Process::new(model.network().unwrap());
        let mut rng = ChaCha20Rng::from_seed([5; 32]);
        let secret = SecretKey::from_seed(inside.parameters(), Seed::random(&mut rng));
        let encoder = Encoder::new(inside.parameters()).unwrap().within(f64::INFINITY);
        assert_eq!(ProcessNetwork::keys(&process), inside.keys(), "both sides know the same keys");
        Self { inside, process, secret, encoder, rng }
    }

    fn keys(&mut self) -> Vec<(Input, EvaluationKeys)> {
        let one = |input: &Input| {
            let Input::Rotation { steps, level } = input else { panic!("{input:?}") };
            let mut key = EvaluationKeys::new(self.inside.parameters());
            key.add_rotation(&self.secret, *steps, usize::from(*level) + 1, &mut self.rng).unwrap();
            (*input, key)
        };
        self.inside.keys().iter().map(one).collect()
    }

    /// The logits of a picture; `change` gets every ciphertext on its way in.
    fn ask(
        &mut self,
        pixels: &[u8],
        mut change: impl FnMut(usize, &mut Vec<Ciphertext>),
    ) -> Result<Vec<f64>, HostError> {
        let keys = self.keys();
        let session = self.process.session(keys)?;
        let mut numbers = self.inside.begin(pixels).unwrap();
        let (secret, encoder, rng) = (&self.secret, &self.encoder, &mut self.rng);
        let decryptor = Decryptor::new(secret, encoder).unwrap();
        let visits = self.inside.visits().to_vec();
        let mut visit = |number: usize, mut sent: Vec<Ciphertext>| {
            change(number, &mut sent);
            assert_eq!(sent.len(), visits[number][0].len());
            let refused = || HostError::Message { expected: "a visit" };
            let slots = sent.iter().map(|one| Ok(decryptor.decrypt(one).map_err(|_| refused())?.to_vec()));
            let slots = slots.collect::<Result<Vec<Vec<f64>>, HostError>>()?;
            let anew = numbers.visit(number, &slots).ok_or_else(refused)?;
            let one = |(slots, (level, scale)): (&Vec<f64>, &(usize, Scale))| {
                encoder.encrypt_seeded(slots, scale, *level, secret, rng).unwrap().expand()
            };
            Ok(anew.iter().zip(&visits[number][1]).map(one).collect())
        };
        session.run(&mut visit)?;
        Ok(numbers.logits().unwrap().to_vec())
    }
}

#[test]
fn encrypted_maps_and_an_enclave_give_the_plain_networks_logits() {
    for (name, graph) in graphs() {
        let seen = pictures(graph.input(), 16, 7);
        let model = compiled(graph, &seen);
        let mut world = World::new(&model);
        for pixels in &pictures(model.graph().input(), 2, 98) {
            let error = far(&world.ask(pixels, |_, _| ()).unwrap(), &model.graph().forward(pixels).unwrap());
            assert!(error <= model.forecast().error && error > 0.0, "{name}: {error:e} {:e}", model.forecast().error);
        }
    }
}

#[test]
fn a_network_of_forty_layers_takes_no_more_levels_than_one_of_two() {
    let mut net = Builder::new(Volume { channels: 1, height: 6, width: 6 }, 8);
    let mut x = 0;
    for _ in 0..39 {
        x = net.convolution(x, 2, 3, 1, 1);
        x = net.activation(x, Activation::Relu);
    }
    net.dense(x, 4);
    let seen = pictures(net.graph.input(), 16, 7);
    let model = compiled(net.graph, &seen);
    let mut world = World::new(&model);
    assert_eq!(world.inside.visits().len(), 41);
    let error = far(&world.ask(&seen[3], |_, _| ()).unwrap(), &model.graph().forward(&seen[3]).unwrap());
    assert!(error <= model.forecast().error, "{error:e} {:e}", model.forecast().error);
}

/// Ciphertexts of another key, and numbers beyond their ranges, end the picture.
#[test]
fn noise_in_place_of_a_result_is_refused() {
    let graph = branches(Activation::Relu, 4);
    let seen = pictures(graph.input(), 16, 7);
    let model = compiled(graph, &seen);
    let mut world = World::new(&model);
    let (mut rng, parameters) = (ChaCha20Rng::from_seed([6; 32]), world.inside.parameters().clone());
    let other = SecretKey::from_seed(&parameters, Seed::random(&mut rng));
    let (encoder, slots) = (world.encoder.clone(), parameters.degree() / 2);
    let visits = world.inside.visits().to_vec();
    // of both signs: no coefficient is large
    let signed = |value: f64| -> Vec<f64> {
        super::world::Numbers::new(2).take(slots, 1.0).iter().map(|x| value * x.signum()).collect()
    };
    let anew = |number: usize, value: f64, secret: &SecretKey, rng: &mut ChaCha20Rng| -> Vec<Ciphertext> {
        let one = |(level, scale): &(usize, Scale)| {
            encoder.encrypt_seeded(&signed(value), scale, *level, secret, rng).unwrap().expand()
        };
        visits[number][0].iter().map(one).collect()
    };
    let own = SecretKey::from_seed(&parameters, Seed::random(&mut ChaCha20Rng::from_seed([5; 32])));
    for (value, secret, fine) in [(0.5, &other, false), (300.0, &own, false), (20.0, &own, true)] {
        for at in 1..visits.len() {
            let asked = world.ask(&seen[0], |number, sent| {
                if number == at {
                    *sent = anew(number, value, secret, &mut rng);
                }
            });
            assert_eq!(asked.is_ok(), fine, "{value} at {at}: {asked:?}");
        }
    }
    // and the next picture is answered
    assert!(far(&world.ask(&seen[1], |_, _| ()).unwrap(), &model.graph().forward(&seen[1]).unwrap()) < 1e-3);
}

#[test]
fn visits_out_of_order_are_refused() {
    let graph = branches(Activation::Relu, 4);
    let seen = pictures(graph.input(), 16, 7);
    let inside = InsideNetwork::new(&compiled(graph, &seen)).unwrap().unwrap();
    let slots = inside.parameters().degree() / 2;
    let zeros = |number: usize| vec![vec![0.0; slots]; inside.visits()[number][0].len()];
    let mut numbers = inside.begin(&seen[0]).unwrap();
    assert!(numbers.logits().is_none() && numbers.visit(1, &zeros(1)).is_none());
    assert!(numbers.visit(0, &[]).is_some() && numbers.visit(0, &[]).is_none(), "each visit once");
    assert!(numbers.visit(1, &zeros(1)[1..]).is_none(), "a ciphertext is missing");
    assert!(inside.begin(&seen[0][1..]).is_none());
}

#[test]
fn files_keep_the_engine_and_the_ranges() {
    let graph = mixture(3);
    let seen = pictures(graph.input(), 16, 7);
    let model = compiled(graph, &seen);
    let bytes = model.encode();
    let again = DeepModel::decode(&bytes).unwrap();
    assert_eq!((&again, again.circuit().unwrap()), (&model, model.circuit().unwrap()));
    for at in (0..bytes.len()).step_by(bytes.len() / 97) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(DeepModel::decode(&damaged).is_err());
    }
    // a model for another engine has no part inside
    let (levels, _) = super::models::compiled(residual(8, 4, 1, 3), 5);
    assert!(InsideNetwork::new(&levels).unwrap().is_none());
}
