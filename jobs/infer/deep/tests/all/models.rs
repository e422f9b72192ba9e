//! Compiled networks: precision, files.

use super::world::{branches, lenet, pictures, residual};
use tobari_infer_deep::model::{CompileOptions, DeepModel};
use tobari_infer_deep::{Activation, Graph};

pub(crate) fn compiled(graph: Graph, seed: u64) -> (DeepModel, Vec<Vec<u8>>) {
    let all = pictures(graph.input(), 12, seed);
    let refs: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    let options = CompileOptions { margin: Some(0.3), ..CompileOptions::default() };
    (DeepModel::compile(graph, &refs, options).unwrap(), all)
}

#[test]
fn files_are_read_as_they_were_written() {
    for graph in [lenet(1), residual(8, 4, 1, 3), branches(Activation::Sigmoid, 4)] {
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
