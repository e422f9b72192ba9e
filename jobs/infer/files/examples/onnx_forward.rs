//! Computes the graph of an ONNX file, for comparisons with other programs.
//!
//! ```text
//! cargo run -p tobari-infer-files --example onnx_forward -- net.onnx [input.f32]
//! ```
//!
//! Without a name, a network of the tests' corpus. The input is the picture in little-endian
//! floats, channel by channel, as the network takes it.
//! Prints the shapes, the kinds of the nodes, the notes, and the result with one number on a line.

#![allow(clippy::print_stdout, reason = "an example")]

use std::collections::BTreeMap;
use std::path::Path;
use tobari_infer_deep::Op;
use tobari_infer_files::onnx::{Pixels, read_graph};

fn kind(op: &Op) -> String {
    let text = format!("{op:?}");
    let end = text.find([' ', '{']).unwrap_or(text.len());
    if let Op::Activation(activation) = op { format!("{activation:?}") } else { text[..end].to_owned() }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/mnist.onnx");
    let model = arguments.first().map_or(own.as_path(), Path::new);
    let input = arguments.get(1);
    let imported = read_graph(model, &Pixels::default())?;
    let graph = imported.graph;
    let [from, to] = [graph.input(), graph.output()].map(|v| format!("{} x {} x {}", v.channels, v.height, v.width));
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    graph.nodes().iter().for_each(|node| *kinds.entry(kind(node.op())).or_default() += 1);
    println!("# {} nodes, {from} to {to}, ending {:?}", graph.nodes().len(), imported.ending);
    kinds.iter().for_each(|(kind, count)| println!("# {count} {kind}"));
    imported.notes.iter().for_each(|note| println!("# {note}"));
    if let Some(input) = input {
        let bytes = std::fs::read(input)?;
        let first: Vec<f64> = bytes.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x).into()).collect();
        let expected = graph.input().len();
        if first.len() != expected {
            return Err(format!("expected {expected} floats, found {}", first.len()).into());
        }
        graph.values(first).last().into_iter().flatten().for_each(|x| println!("{x:.9e}"));
    }
    Ok(())
}
