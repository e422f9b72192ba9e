//! Imports, compiles and simulates ONNX files, and prints a line for each: whether the encrypted
//! form equals the network within the foretold error, or the refusal with its remedy.
//!
//! ```text
//! cargo run --release -p tobari-infer-files --example onnx_corpus -- net.onnx other.onnx …
//! ```
//!
//! Without a name, two small files of the tests' corpus. Calibration and questions are different
//! pictures that look random. A network of more than 2^18 numbers in all nodes together is read
//! only, because its compilation takes long.

#![allow(clippy::print_stdout, reason = "an example")]

use std::path::{Path, PathBuf};
use tobari_infer_deep::model::CompileOptions;
use tobari_infer_deep::settings::EngineKind;
use tobari_infer_deep::{DeepModel, Graph};
use tobari_infer_files::onnx::{Pixels, read_graph};

/// The most numbers of all nodes of a network that is compiled.
const NUMBERS: usize = 1 << 18;
/// Pictures of the calibration, and of the questions.
const PICTURES: [usize; 2] = [24, 6];

/// Pictures that look random (xorshift).
fn pictures(pixels: usize, count: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    // the first states of a small seed have few bits
    for _ in 0..64 {
        next();
    }
    (0..count).map(|_| (0..pixels).map(|_| next()).collect()).collect()
}

/// The result of one engine in words, and whether a label was wrong without a word.
fn compiled(graph: &Graph, engine: Option<EngineKind>) -> (String, bool) {
    let pixels = graph.input().len();
    let [seen, asked] = [(PICTURES[0], 1), (PICTURES[1], 2)].map(|(count, seed)| pictures(pixels, count, seed));
    let refs: Vec<&[u8]> = seen.iter().map(Vec::as_slice).collect();
    let options = CompileOptions { engine, ..CompileOptions::default() };
    let model = match DeepModel::compile(graph.clone(), &refs, options) {
        Ok(model) => model,
        Err(error) => return (format!("refused: {error}"), false),
    };
    let simulate = || -> Result<(f64, usize, usize), Box<dyn std::error::Error>> {
        let circuit = model.circuit()?;
        let (mut worst, mut told, mut silent) = (0.0f64, 0, 0);
        for (number, pixels) in asked.iter().enumerate() {
            let found = model.simulate(&circuit, pixels, number as u64)?;
            let best = |logits: &[f64]| (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
            if found.outside || found.close {
                told += 1;
            } else {
                let off = found.logits.iter().zip(&found.plain).map(|(a, b)| (a - b).abs());
                worst = off.fold(worst, f64::max);
                silent += usize::from(best(&found.logits) != best(&found.plain));
            }
        }
        Ok((worst, told, silent))
    };
    match simulate() {
        Err(error) => (format!("refused: {error}"), false),
        Ok((worst, told, silent)) => {
            let foretold = model.forecast().error;
            let (set, count) = (&model.settings().sizes, asked.len());
            // where nothing is encrypted, doubles are rounded
            let equal = if silent == 0 && worst <= foretold + 1e-12 { "equal" } else { "WRONG" };
            let text = format!(
                "{equal}: off by {worst:.1e}, foretold {foretold:.1e}; {told} of {count} told as close or withheld; {set}"
            );
            (text, equal != "equal")
        }
    }
}

fn main() -> std::process::ExitCode {
    let mut files: Vec<PathBuf> = std::env::args().skip(1).map(PathBuf::from).collect();
    if files.is_empty() {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
        files = ["mlp.onnx", "signal.onnx"].iter().map(|name| own.join(name)).collect();
    }
    let mut wrong = 0;
    for file in &files {
        let name = file.display();
        let graph = match read_graph(file, &Pixels::default()) {
            Ok(imported) => imported.graph,
            Err(error) => {
                println!("{name}: refused: {error}");
                continue;
            }
        };
        let numbers: usize = graph.nodes().iter().map(|node| node.output().len()).sum();
        if numbers + graph.input().len() > NUMBERS {
            println!("{name}: read, {} nodes; not compiled here: {numbers} numbers", graph.nodes().len());
            continue;
        }
        for (engine, choice) in [("levels or refreshes", None), ("enclave", Some(EngineKind::Enclave))] {
            let (text, is_wrong) = compiled(&graph, choice);
            println!("{name}: {engine}: {text}");
            wrong += usize::from(is_wrong);
        }
    }
    println!("{} files, {wrong} wrong without a word", files.len());
    std::process::ExitCode::from(u8::from(wrong > 0))
}
