//! Networks of 2 to 12 maps and many pictures: no label is wrong in silence.

use super::world::{Builder, Numbers};
use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use tobari_infer::Volume;
use tobari_infer::client::{Client, ClientError, Output};
use tobari_infer_deep::lower::numbers;
use tobari_infer_deep::model::{CompileOptions, DeepModel, ModelError};
use tobari_infer_deep::{Activation, Graph, Op};
use tobari_lattice::ckks::SeededCiphertext;

const INPUT: Volume = Volume { channels: 1, height: 8, width: 8 };

/// A convolution, dense maps, and an activation after each map but the last.
fn chain(maps: usize, relu: bool, seed: u64) -> Graph {
    let mut net = Builder::new(INPUT, seed);
    let mut x = net.convolution(0, 3, 3, 2, 1);
    for map in 1..maps {
        x = match relu {
            true => net.activation(x, Activation::Relu),
            false => {
                let coefficients = vec![vec![0.15], vec![0.9], vec![-0.1]];
                net.add(Op::Polynomial { coefficients }, &[x])
            }
        };
        x = net.dense(x, if map + 1 == maps { 6 } else { 24 });
    }
    net.graph
}

/// Pictures of many brightnesses and contrasts.
fn pictures(count: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut numbers = Numbers::new(seed);
    let mut picture = || -> Vec<u8> {
        let (middle, contrast) = (128.0 + 60.0 * numbers.next(), 40.0 + 30.0 * numbers.next());
        (0..INPUT.len()).map(|_| (middle + contrast * numbers.next()).clamp(0.0, 255.0) as u8).collect()
    };
    (0..count).map(|_| picture()).collect()
}

/// Mixtures of neighbours in a list, each where the plain network changes its label, moved to where
/// the two best logits hardly differ: the pictures that errors harm first. Neighbours of one label
/// give none.
fn mixtures(graph: &Graph, all: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let label = |pixels: &[u8]| best(&graph.forward(pixels).unwrap());
    let gap = |pixels: &[u8]| {
        let mut logits = graph.forward(pixels).unwrap();
        logits.sort_by(|a, b| b.total_cmp(a));
        logits[0] - logits[1]
    };
    let nearer = |mut pixels: Vec<u8>| {
        let mut least = gap(&pixels);
        for at in (0..4 * pixels.len()).map(|at| at % INPUT.len()) {
            for step in [1u8, 255] {
                let before = pixels[at];
                pixels[at] = before.wrapping_add(step);
                let found = gap(&pixels);
                let keep = found < least && before.abs_diff(pixels[at]) == 1;
                (pixels[at], least) = if keep { (pixels[at], found) } else { (before, least) };
            }
        }
        pixels
    };
    let at_the_edge = |pair: &[Vec<u8>]| {
        let mix = |part: f64| -> Vec<u8> {
            let mixed = pair[0].iter().zip(&pair[1]).map(|(a, b)| (1.0 - part) * f64::from(*a) + part * f64::from(*b));
            mixed.map(|pixel| pixel.round() as u8).collect()
        };
        let first = label(&pair[0]);
        let (mut from, mut to) = (0.0, 1.0);
        for _ in 0..20 {
            let middle = (from + to) / 2.0;
            match label(&mix(middle)) == first {
                true => from = middle,
                false => to = middle,
            }
        }
        (label(&pair[1]) != first).then(|| nearer(mix(to)))
    };
    all.chunks_exact(2).filter_map(at_the_edge).collect()
}

fn best(logits: &[f64]) -> usize {
    (0..logits.len()).rev().max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap()
}

/// What became of pictures.
#[derive(Debug, Default)]
struct Outcomes {
    all: usize,
    changed: usize,
    close: usize,
    withheld: usize,
    labels: std::collections::BTreeSet<usize>,
}

impl Outcomes {
    /// A label under encryption, if there is one, and the labels that a client tells as close.
    fn note(&mut self, name: &str, plain: usize, found: Option<usize>, close: Option<[usize; 2]>) {
        self.all += 1;
        self.labels.insert(plain);
        let Some(found) = found else {
            self.withheld += 1;
            return;
        };
        self.close += usize::from(close.is_some());
        if found != plain {
            self.changed += 1;
            assert!(close.is_some_and(|both| both.contains(&plain)), "{name}: {found} for {plain} in silence");
        }
    }
}

/// Simulates pictures of a network of `maps` maps, and runs some under encryption.
#[allow(clippy::print_stdout, reason = "figures of a long run")]
fn check(maps: usize, relu: bool, simulated: usize, encrypted: usize) -> [Outcomes; 2] {
    let name = format!("{maps} maps, {}", if relu { "ReLU" } else { "squares" });
    let calibration = pictures(200, 1);
    let refs: Vec<&[u8]> = calibration.iter().map(Vec::as_slice).collect();
    let compiled =
        (1..20).find_map(|seed| match DeepModel::compile(chain(maps, relu, seed), &refs, CompileOptions::default()) {
            Ok(model) => Some(model),
            // labels of a random network may be too close, as compile says
            Err(ModelError::Precision { .. } | ModelError::Margin) => None,
            Err(error) => panic!("{name}: {error}"),
        });
    let model = compiled.unwrap();
    let circuit = model.circuit().unwrap();
    let mut asked = pictures(simulated, 2);
    let mixed = mixtures(model.graph(), &asked);
    // the first ones are run under encryption
    asked.splice(..mixed.len().min(simulated / 4), mixed.into_iter().take(simulated / 4));
    let mut outcomes = [Outcomes::default(), Outcomes::default()];
    for (seed, pixels) in (0..).zip(&asked) {
        let found = model.simulate(&circuit, pixels, seed).unwrap();
        let mut order: Vec<usize> = (0..found.logits.len()).collect();
        order.sort_by(|a, b| found.logits[*b].total_cmp(&found.logits[*a]));
        let close = found.close.then_some([order[0], order[1]]);
        outcomes[0].note(&name, best(&found.plain), (!found.outside).then_some(order[0]), close);
    }
    let network = model.network().unwrap();
    let mut rng = ChaCha20Rng::from_seed([maps as u8; 32]);
    let client = Client::new(network.card(), &mut rng).unwrap();
    let keys = network.keyring(client.keys(&mut rng).unwrap()).unwrap();
    for pixels in &asked[..encrypted] {
        let question = client.encrypt(&numbers(pixels), &mut rng).unwrap();
        let question = question.iter().map(SeededCiphertext::expand).collect();
        let answer = network.run(question, &keys, &mut rng, |_| true).unwrap();
        let plain = best(&model.graph().forward(pixels).unwrap());
        match client.decrypt(&answer, Output::Label) {
            Ok(told) => outcomes[1].note(&name, plain, Some(told.labels[0]), told.close),
            Err(ClientError::Outside | ClientError::Noise { .. }) => outcomes[1].note(&name, plain, None, None),
            Err(error) => panic!("{name}: {error}"),
        }
    }
    let of = |what: &str, o: &Outcomes| {
        format!("{} {what}: {} other labels, all told; {} close, {} withheld", o.all, o.changed, o.close, o.withheld)
    };
    println!(
        "depths: {name}, {} levels, {}; {}; {}",
        circuit.level(0),
        model.settings().sizes,
        of("simulated", &outcomes[0]),
        of("encrypted", &outcomes[1])
    );
    assert!(outcomes[0].labels.len() >= 3, "{name}: {:?}", outcomes[0].labels);
    // a client that withheld or doubted everything would pass, too
    for outcomes in outcomes.iter().filter(|outcomes| outcomes.all > 100) {
        assert!(2 * (outcomes.withheld + outcomes.close) < outcomes.all, "{name}: {outcomes:?}");
    }
    outcomes
}

#[test]
fn no_label_of_networks_of_two_and_five_maps_is_wrong_in_silence() {
    for maps in [2, 5] {
        let [simulated, _] = check(maps, false, 150, 3);
        assert!(simulated.close > 0, "pictures near the edge: {simulated:?}");
    }
}

#[test]
#[ignore = "ten minutes: cargo xtask soak infer-depths"]
#[allow(clippy::print_stdout, reason = "figures of a long run")]
fn no_label_of_ten_thousand_pictures_and_two_to_twelve_maps_is_wrong_in_silence() {
    let mut totals = [Outcomes::default(), Outcomes::default()];
    let squares = (2..=12).map(|maps| (maps, false));
    for (maps, relu) in squares.chain([(2, true), (3, true)]) {
        for (total, found) in totals.iter_mut().zip(check(maps, relu, 800, 16)) {
            total.all += found.all;
            total.changed += found.changed;
            total.close += found.close;
            total.withheld += found.withheld;
        }
    }
    println!("depths: in all {totals:?}");
    assert!(totals[0].all >= 10_000 && totals[1].all >= 200, "{totals:?}");
}
