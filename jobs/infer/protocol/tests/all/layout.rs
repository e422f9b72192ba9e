//! Layouts: the maps in slots equal the network, and take no more than the counted operations.

#![allow(clippy::print_stdout, reason = "what does not fit")]

use crate::world::{convolution, dense, digits, distance, image, logits, plain, rng, small};
use std::sync::Arc;
use tobari_infer::compile::{Compiled, Flow, Options};
use tobari_infer::layout::{Layout, LayoutError};
use tobari_infer::program::{Counts, Input, Manner, Stage};
use tobari_infer::{Map, Model, Volume};
use tobari_lattice::params::NamedSet;
use tobari_plan::clear::{Arithmetic, ClearEngine, ClearError, ClearValue};
use tobari_plan::engine::Direct;

/// Runs the program of every stage on plaintext.
fn simulate(model: &Model, layout: &Layout, image: &[f64]) -> Vec<f64> {
    let engine = ClearEngine { arithmetic: Arithmetic::Real, rows: 1, columns: layout.slots() };
    let reals = |slots: &[f64]| ClearValue::Reals(slots.to_vec());
    let mut values: Vec<Arc<ClearValue>> =
        layout.stages()[0].place(image).iter().map(|slots| Arc::new(reals(slots))).collect();
    for (number, linear) in layout.stages().iter().enumerate() {
        let last = number + 1 == layout.stages().len();
        let manner = Manner { primes: 9, divide: !last, fold: true, square: !last, encrypted: false };
        let mut fetch = |input: Input| -> Result<Arc<ClearValue>, ClearError> {
            Ok(Arc::new(match input {
                Input::Weight { output, giant, term, .. } => {
                    let weights = &linear.outputs[output].giants[giant].terms[term].weights;
                    reals(&(0..layout.slots()).map(|slot| weights.at(slot)).collect::<Vec<_>>())
                }
                Input::Zero { .. } => reals(&vec![0.0; layout.slots()]),
                Input::Offset { output, .. } => reals(&linear.outputs[output].offset),
                _ => ClearValue::Key,
            }))
        };
        let stage = Stage { number, linear, manner };
        values = stage.run(&mut Direct::new(&engine), &values, &mut fetch).unwrap();
    }
    let slots = |output: usize| match &*values[output] {
        ClearValue::Reals(slots) => slots.clone(),
        other => panic!("{other:?}"),
    };
    let unit = 2f64.powi(model.logit_bits());
    layout.logits().iter().map(|(output, slot)| slots(*output)[*slot] * unit).collect()
}

fn counts(layout: &Layout, encrypted: bool) -> Vec<Counts> {
    let stage = |(number, linear)| {
        let last = number + 1 == layout.stages().len();
        let manner = Manner { primes: 9 - 2 * number, divide: !last, fold: true, square: !last, encrypted };
        Stage { number, linear, manner }.trace().1
    };
    layout.stages().iter().enumerate().map(stage).collect()
}

/// The counts of the oracle: input ciphertexts, then for each stage rotations of both kinds and
/// products.
#[test]
fn the_layouts_of_the_papers_network_take_what_the_oracle_counts() {
    let model = digits(1);
    for (name, slots, inputs, expected) in [
        ("compact", 8192, 1, [(10, 35), (17, 64), (10, 2)]),
        ("balanced", 8192, 2, [(8, 16), (13, 32), (13, 16)]),
        ("wide", 8192, 7, [(2, 7), (9, 16), (13, 16)]),
        ("balanced", 4096, 4, [(13, 29), (16, 64), (10, 4)]),
        ("wide", 4096, 13, [(1, 13), (12, 32), (13, 16)]),
    ] {
        let layout = Layout::new(name, &model, slots).unwrap();
        let found = counts(&layout, false);
        let of = |counts: &Counts| (counts.hoisted + counts.rotations, counts.products);
        assert_eq!(found.iter().map(of).collect::<Vec<_>>(), expected, "{name} {slots}");
        assert_eq!(layout.stages()[0].takes.len(), inputs);
        let squares: usize = found.iter().map(|counts| counts.squares).sum();
        assert_eq!(squares, 2);
    }
    // relinearisations of encrypted weights: one for each giant step
    for (name, slots, expected) in [("compact", 8192, 15), ("balanced", 8192, 10), ("wide", 8192, 9)] {
        let found = counts(&Layout::new(name, &model, slots).unwrap(), true);
        assert_eq!(found.iter().map(|counts| counts.relinearizations).sum::<usize>(), expected, "{name}");
    }
}

#[test]
fn every_layout_computes_the_network_slot_by_slot() {
    for (name, slots, seed) in [
        ("compact", 8192, 2),
        ("balanced", 8192, 3),
        ("wide", 8192, 4),
        ("balanced", 4096, 5),
        ("wide", 4096, 6),
        ("dense", 8192, 7),
        ("dense", 4096, 7),
        ("paper", 4096, 8),
    ] {
        let model = digits(seed);
        let layout = Layout::new(name, &model, slots).unwrap();
        let image = image(&model, seed);
        let found = simulate(&model, &layout, &image);
        let error = distance(&found, &logits(&model, &image));
        assert!(error < 1e-10, "{name} {slots}: {error:e}");
    }
}

#[test]
fn layouts_are_for_every_model_of_their_family() {
    let rng = &mut rng(9);
    let color = convolution("a", Volume { channels: 3, height: 10, width: 8 }, 4, 3, 1, rng);
    let next = convolution("b", color.output, 6, 2, 2, rng);
    let last = dense("c", next.output, 3, rng);
    let color = Model::new(vec![color, next, last], 0).unwrap();
    let mut done = 0;
    for (model, slots) in [(small(1), 256), (small(2), 1024), (small(3), 2048), (color, 2048)] {
        for name in ["compact", "balanced", "wide", "paper", "dense"] {
            match Layout::new(name, &model, slots) {
                Ok(layout) => {
                    let image = image(&model, 3);
                    let error = distance(&simulate(&model, &layout, &image), &logits(&model, &image));
                    assert!(error < 1e-12, "{name} {slots}: {error:e}");
                    done += 1;
                }
                Err(LayoutError::Arrangement { stage, slot }) => panic!("{name} {slots}: {stage} {slot}"),
                Err(error) => println!("{name} {slots}: {error}"),
            }
        }
    }
    assert!(done >= 14, "{done}");
}

#[test]
fn dense_layouts_are_for_models_of_any_depth_and_size() {
    let rng = &mut rng(11);
    for (sizes, slots) in [
        (vec![5, 3], 8),
        (vec![3, 5], 8),
        (vec![40, 7, 30, 2], 64),
        (vec![40, 7, 30, 2], 1024),
        (vec![7, 60, 33, 20, 4, 9], 64),
        (vec![1, 1], 16),
        (vec![784, 100, 10], 4096),
    ] {
        let stages = sizes.windows(2).map(|pair| dense(&format!("{pair:?}"), Volume::vector(pair[0]), pair[1], rng));
        let model = Model::new(stages.collect(), 1).unwrap();
        let layout = Layout::new("dense", &model, slots).unwrap();
        let image = image(&model, 12);
        let expected = logits(&model, &image);
        let scale = expected.iter().fold(1.0f64, |most, x| x.abs().max(most));
        let error = distance(&simulate(&model, &layout, &image), &expected);
        assert!(error < 1e-9 * scale, "{sizes:?} {slots}: {error:e}");
    }
    // a matrix includes padding as zeros; layouts for taps reject it
    let mut first = convolution("padded", Volume { channels: 1, height: 6, width: 6 }, 2, 3, 1, rng);
    if let Map::Convolution { padding, .. } = &mut first.map {
        *padding = [1, 1];
    }
    let second = convolution("b", first.output, 2, 2, 1, rng);
    let third = dense("c", second.output, 2, rng);
    let model = Model::new(vec![first, second, third], 0).unwrap();
    let layout = Layout::new("dense", &model, 512).unwrap();
    let image = image(&model, 13);
    assert!(distance(&simulate(&model, &layout, &image), &logits(&model, &image)) < 1e-12);
    for name in ["compact", "balanced", "wide", "paper"] {
        assert!(matches!(Layout::new(name, &model, 512), Err(LayoutError::Model { .. })), "{name}");
    }
}

#[test]
fn what_does_not_fit_is_refused_by_the_name_of_its_stage() {
    let model = digits(1);
    assert!(matches!(Layout::new("round", &model, 8192), Err(LayoutError::Name { .. })));
    for (name, slots) in [("balanced", 2048), ("wide", 1024), ("compact", 2048), ("dense", 512), ("paper", 512)] {
        let error = Layout::new(name, &model, slots).unwrap_err();
        assert!(matches!(&error, LayoutError::Slots { stage, .. } if stage == "conv1"), "{name}: {error}");
    }
    assert!(matches!(Layout::new("compact", &model, 4096), Err(LayoutError::Model { .. })), "five channels in four");
    let rng = &mut rng(5);
    let two = Model::new(vec![dense("a", Volume::vector(4), 4, rng), dense("b", Volume::vector(4), 2, rng)], 0);
    for name in ["compact", "balanced", "wide", "paper"] {
        assert!(Layout::new(name, two.as_ref().unwrap(), 64).is_err(), "{name}");
    }
}

#[test]
fn the_shape_of_a_program_does_not_depend_on_weights() {
    let model = digits(1);
    let blank = |stage: &tobari_infer::Stage| {
        let map = match &stage.map {
            Map::Dense { weights } => Map::Dense { weights: vec![0.0; weights.len()] },
            Map::Convolution { kernel, stride, padding, weights } => Map::Convolution {
                kernel: *kernel,
                stride: *stride,
                padding: *padding,
                weights: vec![0.0; weights.len()],
            },
        };
        tobari_infer::Stage { map, bias: vec![0.0; stage.bias.len()], ..stage.clone() }
    };
    let empty = Model::new(model.stages().iter().map(blank).collect(), model.logit_bits()).unwrap();
    let parameters = NamedSet::from_name("infer-f").unwrap().parameters().unwrap();
    for name in ["balanced", "wide", "dense", "paper"] {
        for flow in [Flow::Through, Flow::Reset { fold: false }] {
            let options = Options { flow, encrypted: false };
            let [known, hidden] =
                [&empty, &model].map(|model| Compiled::new(model, name, &parameters, options).unwrap());
            assert_eq!(known.card(), hidden.card());
            assert_eq!(known.constants(), hidden.constants());
        }
    }
}

#[test]
fn a_stage_by_itself_takes_and_gives_numbers_where_its_map_says() {
    let model = digits(3);
    let layout = Layout::new("wide", &model, 4096).unwrap();
    let image = image(&model, 4);
    let sums = plain(&model, &image);
    let squares: Vec<f64> = sums[0].iter().map(|u| u * u).collect();
    let second = &layout.stages()[1];
    let placed = second.place(&squares);
    assert_eq!(placed.len(), 1);
    let zeros = second.place(&vec![0.0; 720]);
    assert!(zeros[0].iter().all(|slot| *slot == 0.0));
    // reading from slots that hold the numbers of the output
    let slots: Vec<f64> =
        second.outputs[0].gives.iter().map(|number| number.map_or(9.0, |n| sums[1][n as usize])).collect();
    assert_eq!(second.read(&[slots], 800), sums[1]);
}
