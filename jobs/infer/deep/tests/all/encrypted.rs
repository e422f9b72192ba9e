//! Circuits under encryption against the plain network, and errors against the forecast.

use super::circuits::circuit;
use super::models::compiled;
use super::world::{branches, lenet, residual};
use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use std::time::Instant;
use tobari_infer::client::{Client, ClientError, Output};
use tobari_infer::noise::Noise;
use tobari_infer::program::Input;
use tobari_infer_deep::arrange::arrange;
use tobari_infer_deep::encrypted::Network;
use tobari_infer_deep::lower::{LowerOptions, Source, lower, numbers};
use tobari_infer_deep::machine::Circuit;
use tobari_infer_deep::model::{CompileOptions, DeepModel};
use tobari_infer_deep::place::place;
use tobari_infer_deep::settings::{Engine, Refreshing, Settings};
use tobari_infer_deep::simulate::simulate;
use tobari_infer_deep::{Activation, Graph};
use tobari_lattice::ckks::{Scale, SeededCiphertext};
use tobari_lattice::params::{LatticeParameters, Plaintext};

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
    let keys = network.keyring(client.keys(&mut rng).unwrap()).unwrap();
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
    let keys = network.keyring(client.keys(&mut rng).unwrap()).unwrap();
    let (memory, generated) = (network.keyring_memory() >> 20, start.elapsed());
    let (mut most, mut foretold, mut noise, mut seconds) = (0.0f64, 0.0f64, 0.0f64, Vec::new());
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
        let exact = simulate(&circuit, &numbers(pixels), None).0;
        // as in the forecast: of the picture with the most
        let squares: f64 = found.iter().zip(&exact).map(|(a, b)| (a - b) * (a - b)).sum();
        noise = f64::max(noise, (squares / exact.len() as f64).sqrt());
    }
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
    check("residual", residual(8, 4, 2, 3), 6);
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
    let keys = network.keyring(client.keys(&mut rng).unwrap()).unwrap();
    let question = client.encrypt(&numbers(&pictures[0]), &mut rng).unwrap();
    let question = question.iter().map(SeededCiphertext::expand).collect();
    let answer = network.run(question, &keys, &mut rng, |_| true).unwrap();
    let found = client.decrypt(&answer, Output::Logits).unwrap().logits;
    let exact = simulate(&circuit, &numbers(&pictures[0]), None).0;
    let error = found.iter().zip(&exact).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(error < 2e-3, "{error:e}");
}

/// Layers with ReLU and sums around them.
fn relus() -> Graph {
    let mut net = super::world::Builder::new(tobari_infer::Volume { channels: 3, height: 8, width: 8 }, 3);
    let mut x = net.convolution(0, 4, 3, 1, 1);
    for _ in 0..6 {
        let a = net.activation(x, Activation::Relu);
        let a = net.convolution(a, 4, 3, 1, 1);
        x = net.add(tobari_infer_deep::Op::Sum { factors: vec![0.7, 0.7] }, &[a, x]);
    }
    net.dense(x, 5);
    net.graph
}

/// The circuit with refreshes in ciphertexts of 2^10 slots.
fn refreshed(graph: &Graph, pictures: &[Vec<u8>], kind: Refreshing) -> (Circuit, Settings) {
    let refs: Vec<&[u8]> = pictures.iter().map(Vec::as_slice).collect();
    let options = LowerOptions { headroom: 1.25, bits: 6, quadratic: false, strict: true, enclaved: false };
    let steps = lower(graph, Source::Pictures(&refs), options).unwrap().steps;
    let settings = Settings::refreshed(kind).unwrap();
    let levels = settings.levels().unwrap();
    let placed = place(&steps, levels, 10).unwrap();
    let refreshes = placed.steps.iter().filter(|(_, step, _)| step.kind() == "refresh").count();
    // the last levels need no refresh
    let least = (steps.depth() + 1).saturating_sub(levels.most).div_ceil(levels.most - levels.least);
    assert!(refreshes >= least && refreshes >= 1, "{refreshes}, at least {least}");
    let arrangement = arrange(&placed, 10).unwrap();
    assert!(arrangement.levels.iter().all(|level| *level <= levels.most));
    (Circuit::new(placed, arrangement, Engine::Refresh(kind)), settings)
}

/// A refresh gives a wrong number for a large one, and a series a huge number. Pictures of all
/// contrasts on a network that was calibrated with calm ones: each answer is near the plain
/// network's, or the guard tells.
#[test]
fn no_refreshed_picture_is_wrong_in_silence() {
    for (graph, kind) in [(relus(), Refreshing::Quick), (residual(8, 4, 5, 3), Refreshing::Precise)] {
        right_or_told(&graph, kind);
    }
}

fn right_or_told(graph: &Graph, kind: Refreshing) {
    let mut calm = super::world::pictures(graph.input(), 12, 5);
    calm.iter_mut().flatten().for_each(|pixel| *pixel = 96 + *pixel / 4);
    let (circuit, settings) = refreshed(graph, &calm, kind);
    let sizes = &settings.sizes;
    let parameters = LatticeParameters::insecure_of_sizes(
        1 << 11,
        &sizes.data,
        &sizes.special,
        sizes.digits,
        Plaintext::Approximate,
    );
    let (parameters, scale) = (parameters.unwrap(), Scale::power_of_two(settings.scale));
    let off = |found: &[f64], plain: &[f64]| found.iter().zip(plain).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let of_calm = calm.iter().map(|p| off(&simulate(&circuit, &numbers(p), None).0, &graph.forward(p).unwrap()));
    // noise is beside errors of approximation
    let most = 2.0 * of_calm.fold(0.0, f64::max) + 1e-4;
    let (mut near, mut told) = (0, 0);
    for (number, pixels) in super::world::pictures(graph.input(), 40, 9).iter().enumerate() {
        let contrast = |p: &u8| (128 + (i32::from(*p) - 128) * (number as i32 + 4) / 44) as u8;
        let pixels: Vec<u8> = pixels.iter().map(contrast).collect();
        let mut errors = Noise::new(&parameters, number as u64);
        let (found, guard) = simulate(&circuit, &numbers(&pixels), Some((&mut errors, &scale)));
        let error = off(&found, &graph.forward(&pixels).unwrap());
        if guard.is_nan() || guard.abs() >= tobari_infer::client::GUARD {
            told += 1;
        } else {
            assert!(error <= most, "picture {number}: {error} {most}");
            near += 1;
        }
    }
    assert!(near >= 5 && told >= 5, "{near} near, {told} told");
}

/// A deep network with refreshes in a toy ring, under encryption: near the plain network, with the
/// noise that the simulator foretells; and a server without one of the keys says which.
#[test]
#[allow(clippy::print_stdout, reason = "the figures behind an assertion")]
fn refreshed_networks_are_right_and_their_noise_is_foretold() {
    for (name, graph, kind) in
        [("squares", residual(8, 4, 5, 3), Refreshing::Precise), ("ReLU", relus(), Refreshing::Quick)]
    {
        let all = super::world::pictures(graph.input(), 6, 7);
        let (circuit, settings) = refreshed(&graph, &all, kind);
        let sizes = &settings.sizes;
        let approximate = Plaintext::Approximate;
        let parameters =
            LatticeParameters::insecure_of_sizes(1 << 11, &sizes.data, &sizes.special, sizes.digits, approximate);
        let parameters = parameters.unwrap();
        let network = Network::new(circuit.clone(), &parameters).unwrap();
        let mut rng = ChaCha20Rng::from_seed([6; 32]);
        let client = Client::new(network.card(), &mut rng).unwrap();
        let made = client.keys(&mut rng).unwrap();
        for lost in 0..made.len() {
            let (input, _) = made[lost];
            if lost % 7 == 0 || !matches!(input, Input::Rotation { .. }) {
                let rest = made.iter().enumerate().filter(|(at, _)| *at != lost).map(|(_, key)| key.clone()).collect();
                let Err(error) = network.keyring(rest) else { panic!("{name}: a ring without {input:?}") };
                assert!(error.to_string().contains(&tobari_infer::compile::name(input)), "{name}: {error}");
            }
        }
        // the bytes of the card and of the keys are read as they were written
        let card = client.card();
        assert_eq!(&network.card(), card);
        let bytes = tobari_infer::messages::encode_keys(&made);
        assert_eq!(bytes.len(), tobari_infer::messages::keys_bytes(card));
        let keys = network.keyring(tobari_infer::messages::decode_keys(&bytes, card).unwrap()).unwrap();
        let (mut noise, mut foretold, mut count) = (0.0, 0.0, 0);
        for pixels in &all[..2] {
            let question = client.encrypt(&numbers(pixels), &mut rng).unwrap();
            let question = question.iter().map(SeededCiphertext::expand).collect();
            let answer = network.run(question, &keys, &mut rng, |_| true).unwrap();
            let found = client.decrypt(&answer, Output::Logits).unwrap().logits;
            let exact = simulate(&circuit, &numbers(pixels), None).0;
            let scale = Scale::power_of_two(settings.scale);
            let mut errors = Noise::new(&parameters, 7);
            let noisy = simulate(&circuit, &numbers(pixels), Some((&mut errors, &scale))).0;
            noise += found.iter().zip(&exact).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
            foretold += noisy.iter().zip(&exact).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
            count += exact.len();
        }
        let [noise, foretold] = [noise, foretold].map(|sum: f64| (sum / f64::from(count as u32)).sqrt());
        println!("{name}: noise {noise:.2e}, foretold {foretold:.2e}");
        assert!((0.25..4.0).contains(&(foretold / noise)) && noise < 1e-2, "{name}: {noise:e} {foretold:e}");
    }
}
