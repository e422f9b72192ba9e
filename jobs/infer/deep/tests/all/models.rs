//! Compiled networks: precision, files.

use super::world::{Builder, branches, pictures, residual};
use tobari_infer::Volume;
use tobari_infer_deep::model::{CompileOptions, DeepModel};
use tobari_infer_deep::{Activation, Graph, Op};

pub(crate) fn compiled(graph: Graph, seed: u64) -> (DeepModel, Vec<Vec<u8>>) {
    let all = pictures(graph.input(), 12, seed);
    let refs: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    let options = CompileOptions { margin: Some(0.3), ..CompileOptions::default() };
    (DeepModel::compile(graph, &refs, options).unwrap(), all)
}

#[test]
fn files_are_read_as_they_were_written() {
    for graph in [residual(8, 4, 1, 3), branches(Activation::Sigmoid, 4)] {
        let (model, pictures) = compiled(graph, 5);
        let bytes = model.encode();
        let again = DeepModel::decode(&bytes).unwrap();
        assert_eq!(again, model);
        assert_eq!(again.circuit().unwrap(), model.circuit().unwrap());
        let circuit = again.circuit().unwrap();
        let found = again.simulate(&circuit, &pictures[0], 1).unwrap();
        let error = found.logits.iter().zip(&found.plain).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(error <= found.error && found.error <= model.forecast().error * 2.0);
        for at in (0..bytes.len()).step_by(bytes.len() / 97) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(DeepModel::decode(&damaged).is_err());
            assert!(DeepModel::decode(&bytes[..at]).is_err());
        }
    }
}

/// Pictures of all kinds, many of them unlike those of the calibration: each is near the plain
/// network, or the guard withholds it.
#[test]
fn no_picture_is_wrong_in_silence() {
    for activation in [Activation::Relu] {
        let graph = branches(activation, 4);
        let (mut calm, all) = (pictures(graph.input(), 24, 5), pictures(graph.input(), 24, 9));
        // grey pictures of little contrast
        calm.iter_mut().flatten().for_each(|pixel| *pixel = 96 + *pixel / 4);
        let refs: Vec<&[u8]> = calm.iter().map(Vec::as_slice).collect();
        let options = CompileOptions { margin: Some(0.3), headroom: Some(1.3), ..CompileOptions::default() };
        let model = DeepModel::compile(graph, &refs, options).unwrap();
        let circuit = model.circuit().unwrap();
        let (mut near, mut withheld) = (0, 0);
        // contrasts from that of the calibration to the whole, then stripes and flat pictures
        for (number, pixels) in all.iter().enumerate() {
            let pixels: Vec<u8> = match number {
                0..16 => {
                    let contrast = |p: &u8| (128 + (i32::from(*p) - 128) * (number as i32 + 4) / 20) as u8;
                    pixels.iter().map(contrast).collect()
                }
                16..20 => (0..pixels.len()).map(|at| if at % (number - 14) == 0 { 255 } else { 0 }).collect(),
                _ => vec![(number as u8 - 20) * 85; pixels.len()],
            };
            let found = model.simulate(&circuit, &pixels, number as u64).unwrap();
            if found.outside {
                withheld += 1;
                continue;
            }
            let error = found.logits.iter().zip(&found.plain).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(error <= 2.0 * model.forecast().error, "{activation:?}, picture {number}: {error}");
            let best = |logits: &[f64]| (0..5).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
            assert!(found.close || best(&found.logits) == best(&found.plain), "{activation:?}, picture {number}");
            near += 1;
        }
        assert!(near >= 4 && withheld >= 4, "{activation:?}: {near} near, {withheld} withheld");
    }
}

/// A square term near 0 beside a large slope: its square would be that of a number far from 0.
#[test]
fn tiny_square_terms_do_not_multiply_noise() {
    let mut net = Builder::new(Volume { channels: 1, height: 8, width: 8 }, 3);
    let x = net.convolution(0, 3, 3, 1, 1);
    // one channel for each: a tiny square term, an ordinary one, none
    let coefficients = vec![vec![0.1, 0.2, 0.3], vec![0.5, 0.5, 0.5], vec![1e-7, 0.2, 0.0]];
    let x = net.add(Op::Polynomial { coefficients }, &[x]);
    net.dense(x, 5);
    let (model, all) = compiled(net.graph, 5);
    assert!(model.forecast().noise < 1e-3 && model.forecast().approximation < 1e-6, "{:?}", model.forecast());
    let circuit = model.circuit().unwrap();
    for pixels in &all {
        let found = model.simulate(&circuit, pixels, 1).unwrap();
        let error = found.logits.iter().zip(&found.plain).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(error <= model.forecast().error, "{error}");
    }
}
