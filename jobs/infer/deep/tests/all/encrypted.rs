//! Circuits under encryption against the plain network, and errors against the forecast.

use super::circuits::circuit;
use super::models::compiled;
use super::world::{branches, lenet, residual};
use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use std::time::Instant;
use tobari_infer::client::{Client, ClientError, Output};
use tobari_infer::program::Input;
use tobari_infer_deep::encrypted::Network;
use tobari_infer_deep::lower::numbers;
use tobari_infer_deep::model::{CompileOptions, DeepModel};
use tobari_infer_deep::{Activation, Graph};
use tobari_lattice::ckks::{EvaluationKeys, SeededCiphertext};
use tobari_lattice::params::{LatticeParameters, Plaintext};

/// The keys of a client in one object.
fn keys(client: &Client, rng: &mut ChaCha20Rng) -> EvaluationKeys {
    let mut keys = EvaluationKeys::new(&client.card().parameters);
    for input in &client.card().keys {
        match *input {
            Input::Rotation { steps, level } => {
                keys.add_rotation(client.secret(), steps, usize::from(level) + 1, rng).unwrap();
            }
            Input::Relinearization { level } => {
                keys.add_relinearization(client.secret(), usize::from(level) + 1, rng).unwrap();
            }
            _ => unreachable!("a card has keys alone"),
        }
    }
    keys
}

/// A series grows without bound outside its range: a picture unlike the calibration's is refused,
/// and the next one is answered.
#[test]
fn a_picture_outside_the_range_is_refused() {
    let graph = branches(Activation::Sigmoid, 4);
    // dark pictures, and a bright one
    let mut all = super::world::pictures(graph.input(), 12, 5);
    all.iter_mut().flatten().for_each(|pixel| *pixel = 110 + *pixel / 16);
    let refs: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    let options = CompileOptions { margin: Some(0.3), headroom: Some(1.1), ..CompileOptions::default() };
    let model = DeepModel::compile(graph, &refs, options).unwrap();
    let network = model.network().unwrap();
    let mut rng = ChaCha20Rng::from_seed([4; 32]);
    let client = Client::new(network.card(), &mut rng).unwrap();
    let keys = keys(&client, &mut rng);
    let mut ask = |pixels: &[u8]| {
        let question = client.encrypt(&numbers(pixels), &mut rng).unwrap();
        let question = question.iter().map(SeededCiphertext::expand).collect();
        let answer = network.run(question, &keys, &mut rng, |_| true).unwrap();
        client.decrypt(&answer, Output::Label)
    };
    let checkered: Vec<u8> = (0..64).map(|at| if at % 2 == 0 { 255 } else { 0 }).collect();
    for pixels in [checkered, vec![255; 64]] {
        let refused = ask(&pixels).unwrap_err();
        assert!(matches!(refused, ClientError::Outside | ClientError::Noise { .. }), "{refused}");
    }
    let best = |logits: &[f64]| (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap();
    let plain = model.graph().forward(&all[0]).unwrap();
    assert_eq!(ask(&all[0]).unwrap().labels, [best(&plain)]);
}

/// Runs pictures under encryption, and compares the errors with the forecast: never above, and
/// within a factor of four of it.
#[allow(clippy::print_stdout, reason = "the figures behind an assertion")]
fn check(name: &str, graph: Graph, count: usize) {
    let (model, pictures) = compiled(graph, 5);
    let circuit = model.circuit().unwrap();
    let start = Instant::now();
    let network: Network = model.network().unwrap();
    let prepared = start.elapsed();
    let mut rng = ChaCha20Rng::from_seed([3; 32]);
    let client = Client::new(network.card(), &mut rng).unwrap();
    let start = Instant::now();
    let keys = keys(&client, &mut rng);
    let (memory, generated) = (keys.memory() >> 20, start.elapsed());
    let (mut most, mut foretold, mut noise, mut seconds) = (0.0f64, 0.0f64, 0.0, Vec::new());
    for pixels in &pictures[..count] {
        let question = client.encrypt(&numbers(pixels), &mut rng).unwrap();
        let question = question.iter().map(SeededCiphertext::expand).collect();
        let start = Instant::now();
        let answer = network.run(question, &keys, &mut rng, |_| true).unwrap();
        seconds.push(start.elapsed().as_secs_f64());
        let found = client.decrypt(&answer, Output::Logits).unwrap().logits;
        let expected = model.graph().forward(pixels).unwrap();
        let simulated = model.simulate(&circuit, pixels, 1).unwrap();
        let error = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(error <= simulated.error, "{name}: {error:e} {:e}", simulated.error);
        (most, foretold) = (most.max(error), foretold.max(simulated.error));
        let exact = tobari_infer_deep::simulate::simulate(&circuit, &numbers(pixels), None).0;
        noise += found.iter().zip(&exact).map(|(a, b)| (a - b) * (a - b)).sum::<f64>() / exact.len() as f64;
    }
    let noise = (noise / count as f64).sqrt();
    println!(
        "{name}: {} scale {}: error {most:.2e}, foretold {foretold:.2e}; noise {noise:.2e}, foretold {:.2e}; \
         {} keys, {memory} MiB in {generated:?}, weights in {prepared:?}, {seconds:.3?} s",
        model.settings().sizes,
        model.settings().scale,
        model.forecast().noise,
        client.card().keys.len(),
    );
    let ratio = model.forecast().noise / noise;
    assert!((0.25..4.0).contains(&ratio), "{name}: {ratio}");
    assert!(foretold < 4.0 * most, "{name}: {foretold} {most}");
}

#[test]
fn lenet_is_right_and_its_error_is_foretold() {
    check("LeNet-5", lenet(1), 3);
}

#[test]
fn a_residual_network_is_right_and_its_error_is_foretold() {
    check("residual", residual(8, 4, 2, 3), 2);
}

#[test]
fn approximated_activations_are_right_and_their_error_is_foretold() {
    check("sigmoid", branches(Activation::Sigmoid, 4), 2);
}

/// At N = 2^16 forty primes of 29 bits differ by a fifth. Powers in a series square this difference
/// at each level, unless scales follow the primes. Here primes that differ as much, in a small
/// ring.
#[test]
fn primes_that_differ_by_a_fifth_do_no_harm() {
    let graph = branches(Activation::Relu, 4);
    let (circuit, pictures) = circuit(&graph, 11, 9);
    let step = 1u64 << 13;
    let prime = |below: u64| {
        let first = below / step * step + 1;
        let is_prime = |q: &u64| (3..).step_by(2).take_while(|d| d * d <= *q).all(|d| !q.is_multiple_of(d));
        (0..).map(|k| first - k * step).find(is_prime).unwrap()
    };
    let mut data = vec![prime(1 << 39)];
    data.extend((1..circuit.level(0) as u64).map(|k| prime((1 << 29) - k * (1 << 29) / 200)));
    let special: Vec<u64> = (0..14).map(|k| prime((1 << 45) - (k << 20))).collect();
    let digits = 3;
    let kind = Plaintext::Approximate;
    let parameters = LatticeParameters::insecure_for_tests(1 << 12, &data, &special, digits, kind).unwrap();
    let network = Network::new(circuit.clone(), &parameters).unwrap();
    let mut rng = ChaCha20Rng::from_seed([5; 32]);
    let client = Client::new(network.card(), &mut rng).unwrap();
    let keys = keys(&client, &mut rng);
    let question = client.encrypt(&numbers(&pictures[0]), &mut rng).unwrap();
    let question = question.iter().map(SeededCiphertext::expand).collect();
    let answer = network.run(question, &keys, &mut rng, |_| true).unwrap();
    let found = client.decrypt(&answer, Output::Logits).unwrap().logits;
    let exact = tobari_infer_deep::simulate::simulate(&circuit, &numbers(&pictures[0]), None).0;
    let error = found.iter().zip(&exact).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(error < 2e-3, "{error:e}");
}
