//! Circuits without encryption against the plain network.

use super::world::{branches, lenet, pictures, residual};
use tobari_infer_deep::arrange::arrange;
use tobari_infer_deep::lower::{LowerOptions, Source, lower, numbers};
use tobari_infer_deep::machine::Circuit;
use tobari_infer_deep::settings::Engine;
use tobari_infer_deep::simulate::simulate;
use tobari_infer_deep::{Activation, Graph};

pub(crate) fn circuit(graph: &Graph, slot_bits: usize, bits: u32) -> (Circuit, Vec<Vec<u8>>) {
    let all = pictures(graph.input(), 6, 7);
    let refs: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    let options = LowerOptions { headroom: 1.25, bits, quadratic: false, strict: false, enclaved: false };
    let steps = lower(graph, Source::Pictures(&refs), options).unwrap().steps;
    let arrangement = arrange(&steps, slot_bits).unwrap();
    (Circuit::new(steps, arrangement, Engine::Levels), all)
}

fn check(graph: &Graph, slot_bits: usize) {
    check_within(graph, slot_bits, 1e-9);
}

fn check_within(graph: &Graph, slot_bits: usize, most: f64) {
    let (circuit, pictures) = circuit(graph, slot_bits, 7);
    for pixels in &pictures {
        let picture = numbers(pixels);
        let (found, expected) = (simulate(&circuit, &picture, None).0, graph.forward(pixels).unwrap());
        assert_eq!(found.len(), expected.len());
        let size = expected.iter().fold(0.0f64, |most, x| x.abs().max(most));
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < most * size, "{found} {expected}");
        }
    }
}

#[test]
fn lenet_in_slots_is_the_plain_network() {
    check(&lenet(1), 13);
}

#[test]
fn a_residual_network_in_slots_is_the_plain_network() {
    check(&residual(16, 8, 3, 2), 12);
}

#[test]
fn activations_that_are_no_polynomials_are_near() {
    for activation in [
        Activation::Relu,
        Activation::LeakyRelu { slope: 0.1 },
        Activation::Clip { low: -0.3, high: 0.5 },
        Activation::Sigmoid,
        Activation::Silu,
        Activation::HardSwish,
    ] {
        check_within(&branches(activation, 5), 11, 0.1);
    }
}
