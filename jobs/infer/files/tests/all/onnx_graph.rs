//! ONNX files as graphs: each family of operators against numbers that were computed by hand, whole
//! networks against ONNX Runtime, and hostile files.

use super::onnx_build::File;
use super::onnx_build::Value::{Float, Int, Ints, Text};
use std::path::{Path, PathBuf};
use tobari_infer::Volume;
use tobari_infer_deep::{Activation, Graph, Op};
use tobari_infer_files::onnx::{Ending, Imported, OnnxError, Pixels, decode_graph, decode_onnx, fuzz_onnx, read_graph};

fn none(_: &str) -> Result<Vec<u8>, String> {
    Err("no such file".to_owned())
}

/// Pixels as numbers from 0 to 255.
fn plain() -> Pixels {
    Pixels { mean: vec![0.0], deviation: vec![1.0 / 255.0] }
}

fn imported(file: File) -> Imported {
    decode_graph(&file.bytes(), &plain(), &none).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(file: File) -> String {
    decode_graph(&file.bytes(), &plain(), &none).unwrap_err().to_string()
}

fn values(graph: &Graph, x: &[f64]) -> Vec<f64> {
    graph.values(x.to_vec()).pop().unwrap()
}

fn assert_near(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{found:?} {expected:?}");
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{found:?} {expected:?}");
    }
}

/// Compares the result of a file with numbers.
fn check(file: File, x: &[f64], expected: &[f64]) -> Graph {
    let graph = imported(file).graph;
    assert_near(&values(&graph, x), expected, 1e-6);
    graph
}

fn counting(count: usize) -> Vec<f64> {
    (1..=count).map(|x| x as f64).collect()
}

fn kinds(graph: &Graph, is: impl Fn(&Op) -> bool) -> usize {
    graph.nodes().iter().filter(|node| is(node.op())).count()
}

#[test]
fn convolutions_have_groups_gaps_and_padding() {
    // two groups of one channel of 3 x 3
    let x = counting(18);
    let file = |attributes: &[_]| {
        let file = File::new(13, &[0, 2, 3, 3]).floats("w", &[2, 1, 2, 2], &[1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0]);
        file.floats("b", &[2], &[0.5, -1.0]).node("Conv", "x w b", "y", attributes)
    };
    check(file(&[("group", Int(2))]), &x, &[6.5, 8.5, 12.5, 14.5, 23.0, 25.0, 29.0, 31.0]);
    let wide = [("group", Int(2)), ("dilations", Ints(&[2, 2]))];
    check(file(&wide), &x, &[10.5, 27.0]);
    let late = [("group", Int(2)), ("strides", Ints(&[2, 2])), ("auto_pad", Text("SAME_LOWER"))];
    check(file(&late), &x, &[1.5, 3.5, 7.5, 14.5, -1.0, 10.0, 12.0, 31.0]);
    // one dimension
    let line = File::new(13, &[0, 1, 5]).floats("w", &[1, 1, 3], &[1.0, 2.0, 3.0]);
    check(line.node("Conv", "x w", "y", &[("pads", Ints(&[1, 0]))]), &counting(5), &[8.0, 14.0, 20.0, 26.0]);
    let solid = File::new(13, &[0, 1, 2, 2, 2]).floats("w", &[1, 1, 1, 1, 1], &[1.0]).node("Conv", "x w", "y", &[]);
    assert!(refused(solid).contains("expected a batch, channels, and one or two more dimensions"));
}

#[test]
fn matrices_apply_from_either_side() {
    let w = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let gemm = |inputs, attributes: &[_], dims: &[i64]| {
        File::new(11, &[0, 3])
            .floats("w", dims, &w)
            .floats("c", &[2], &[10.0, 20.0])
            .node("Gemm", inputs, "y", attributes)
    };
    check(gemm("x w c", &[], &[3, 2]), &counting(3), &[32.0, 48.0]);
    let scaled = [("transB", Int(1)), ("alpha", Float(2.0)), ("beta", Float(0.5))];
    check(gemm("x w c", &scaled, &[2, 3]), &counting(3), &[33.0, 74.0]);
    // rows of a picture: x has two rows of three
    let rows = File::new(11, &[0, 2, 3]).floats("w", &[3, 2], &w).node("MatMul", "x w", "y", &[]);
    check(rows, &counting(6), &[22.0, 28.0, 49.0, 64.0]);
    let columns = File::new(11, &[0, 2, 3]).floats("w", &[3, 2], &w).node("MatMul", "w x", "y", &[]);
    check(columns, &counting(6), &[9.0, 12.0, 15.0, 19.0, 26.0, 33.0, 29.0, 40.0, 51.0]);
    let both = File::new(11, &[0, 2, 2]).node("MatMul", "x x", "y", &[]);
    assert!(refused(both).contains("a product of two values that depend on the picture"));
    // a transposition before a dense layer is a part of its weights
    let file = File::new(11, &[0, 2, 2]).floats("w", &[4, 1], &[1.0, 10.0, 100.0, 1000.0]);
    let file = file.node("Transpose", "x", "t", &[("perm", Ints(&[0, 2, 1]))]).node("Flatten", "t", "f", &[]);
    let graph = check(file.node("MatMul", "f w", "y", &[]), &counting(4), &[4231.0]);
    assert_eq!(graph.nodes().len(), 1);
}

#[test]
fn sums_and_products_broadcast() {
    let x = counting(4);
    let file = |dims: &[i64], numbers: &[f32]| File::new(13, &[0, 2, 1, 2]).floats("c", dims, numbers);
    check(file(&[], &[10.0]).node("Sub", "c x", "y", &[]), &x, &[9.0, 8.0, 7.0, 6.0]);
    check(file(&[2], &[10.0, 20.0]).node("Mul", "x c", "y", &[]), &x, &[10.0, 40.0, 30.0, 80.0]);
    check(file(&[2, 1, 1], &[10.0, 20.0]).node("Add", "x c", "y", &[]), &x, &[11.0, 12.0, 23.0, 24.0]);
    check(
        file(&[1, 1, 2, 1], &[10.0, 20.0]).node("Add", "x c", "y", &[]),
        &x,
        &[11.0, 12.0, 21.0, 22.0, 13.0, 14.0, 23.0, 24.0],
    );
    check(file(&[2, 1, 1], &[2.0, 4.0]).node("Div", "x c", "y", &[]), &x, &[0.5, 1.0, 0.75, 1.0]);
    let early = File::new(6, &[0, 2, 1, 2]).floats("c", &[2], &[10.0, 20.0]);
    check(early.node("Add", "x c", "y", &[("broadcast", Int(1)), ("axis", Int(1))]), &x, &[11.0, 12.0, 23.0, 24.0]);
    // two values: x and the mean of each channel
    let two = File::new(13, &[0, 2, 1, 2]).node("GlobalAveragePool", "x", "m", &[]);
    check(two.node("Mul", "x m", "y", &[]), &x, &[1.5, 3.0, 10.5, 14.0]);
    let file = File::new(13, &[0, 4]).node("Relu", "x", "r", &[]).node("Sub", "x r", "d", &[]);
    let graph = check(file.node("Sum", "d x r", "y", &[]), &[-1.0, 2.0, -3.0, 4.0], &[-2.0, 4.0, -6.0, 8.0]);
    assert_eq!(kinds(&graph, |op| matches!(op, Op::Sum { .. })), 3);
    let over = File::new(13, &[0, 4]).node("Div", "x x", "y", &[]);
    assert!(refused(over).contains("a division by a value"));
    let batch = file_of_batch().node("Add", "x c", "y", &[]);
    assert!(refused(batch).contains("changes the count of pictures"));
}

fn file_of_batch() -> File {
    File::new(13, &[0, 2]).floats("c", &[3, 2], &[0.0; 6].map(|x| x + 1.5)).node("Identity", "x", "unused", &[])
}

#[test]
fn polynomials_in_any_notation_are_one_node() {
    let x = [-1.0, 0.5, 2.0, 3.0];
    // 0.1 x³ + a x² - x + 3 with a of each channel
    let expected: Vec<f64> =
        x.iter().zip([2.0, 2.0, 4.0, 4.0]).map(|(x, a)| 0.1 * x * x * x + a * x * x - x + 3.0).collect();
    let file = File::new(13, &[0, 2, 1, 2]).floats("a", &[2, 1, 1], &[2.0, 4.0]).floats("c", &[], &[3.0]);
    let file = file.floats("e", &[], &[3.0]).floats("f", &[], &[0.1]).node("Pow", "x e", "p", &[]);
    let file = file.node("Mul", "p f", "q", &[]).node("Mul", "a x", "ax", &[]).node("Mul", "x ax", "axx", &[]);
    let file = file.node("Neg", "x", "n", &[]).node("Sum", "q axx n c", "y", &[]);
    let graph = check(file, &x, &expected);
    assert_eq!(graph.nodes().len(), 1);
    assert!(matches!(graph.nodes()[0].op(), Op::Polynomial { coefficients } if coefficients.len() == 4));
    // batch normalisation and its neighbours are one affine node: 2 (x - 1)/2 + 3 = x + 2, halved
    let file = File::new(9, &[0, 1, 2, 2]).floats("g", &[1], &[2.0]).floats("b", &[1], &[3.0]);
    let file = file.floats("m", &[1], &[1.0]).floats("v", &[1], &[4.0]).floats("h", &[1, 1, 1, 1], &[0.5]);
    let file = file.node("BatchNormalization", "x g b m v", "n", &[("epsilon", Float(0.0))]);
    let graph = check(file.node("Mul", "n h", "y", &[]), &x, &[0.5, 1.25, 2.0, 2.5]);
    assert!(matches!(graph.nodes(), [node] if matches!(node.op(), Op::Affine { .. })));
}

#[test]
fn activations_have_their_functions() {
    let x = [-2.0, -0.5, 0.0, 1.0, 3.0, 7.0];
    let one = |operator: &str, attributes: &[_], f: &dyn Fn(f64) -> f64| {
        let expected: Vec<f64> = x.iter().map(|x| f(*x)).collect();
        check(File::new(22, &[0, 6]).node(operator, "x", "y", attributes), &x, &expected);
    };
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    one("Relu", &[], &|x| x.max(0.0));
    one("LeakyRelu", &[("alpha", Float(0.25))], &|x| if x < 0.0 { 0.25 * x } else { x });
    one("Elu", &[("alpha", Float(2.0))], &|x| if x < 0.0 { 2.0 * (x.exp() - 1.0) } else { x });
    one("Selu", &[("alpha", Float(2.0)), ("gamma", Float(3.0))], &|x| {
        3.0 * if x < 0.0 { 2.0 * (x.exp() - 1.0) } else { x }
    });
    one("Celu", &[("alpha", Float(2.0))], &|x| x.max(0.0) + (2.0 * ((x / 2.0).exp() - 1.0)).min(0.0));
    one("Abs", &[], &f64::abs);
    one("Sigmoid", &[], &sigmoid);
    one("Tanh", &[], &f64::tanh);
    one("Softplus", &[], &|x| (1.0 + x.exp()).ln());
    one("HardSigmoid", &[("alpha", Float(0.25))], &|x| (0.25 * x + 0.5).clamp(0.0, 1.0));
    one("HardSwish", &[], &|x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0));
    one("Mish", &[], &|x| x * (1.0 + x.exp()).ln().tanh());
    one("Swish", &[("alpha", Float(2.0))], &|x| x * sigmoid(2.0 * x));
    one("Gelu", &[("approximate", Text("tanh"))], &|x| {
        0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x)).tanh())
    });
    let two = |operator: &str, dims: &[i64], numbers: &[f32], expected: &[f64]| {
        let file = File::new(13, &[0, 6]).floats("c", dims, numbers);
        check(file.node(operator, "x c", "y", &[]), &x, expected)
    };
    two("Max", &[], &[1.0], &[1.0, 1.0, 1.0, 1.0, 3.0, 7.0]);
    two("Min", &[6], &[1.0, -1.0, 1.0, 0.5, 9.0, 2.0], &[-2.0, -1.0, 0.0, 0.5, 3.0, 2.0]);
    two("PRelu", &[6], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[-2.0, -1.0, 0.0, 1.0, 3.0, 7.0]);
    let leaky = two("PRelu", &[1], &[0.5], &[-1.0, -0.25, 0.0, 1.0, 3.0, 7.0]);
    assert_eq!(leaky.nodes()[0].op(), &Op::Activation(Activation::LeakyRelu { slope: 0.5 }));
    // the largest of two values: x and 1 - x
    let file =
        File::new(13, &[0, 6]).floats("c", &[], &[1.0]).node("Sub", "c x", "d", &[]).node("Max", "x d", "y", &[]);
    check(file, &x, &[3.0, 1.5, 1.0, 1.0, 3.0, 7.0]);
    // bounds as attributes and as inputs, and without an upper one
    let early = File::new(6, &[0, 6]).node("Clip", "x", "y", &[("min", Float(-1.0)), ("max", Float(6.0))]);
    check(early, &x, &[-1.0, -0.5, 0.0, 1.0, 3.0, 6.0]);
    let file = File::new(13, &[0, 6]).floats("l", &[], &[0.0]).node("Clip", "x l", "y", &[]);
    assert_eq!(imported(file).graph.nodes()[0].op(), &Op::Activation(Activation::Relu));
}

#[test]
fn activations_in_several_nodes_are_one() {
    let only = |file: File, activation: Activation, factor: f64| {
        let graph = imported(file).graph;
        let found: Vec<&Op> = graph.nodes().iter().map(tobari_infer_deep::Node::op).collect();
        assert!(found.contains(&&Op::Activation(activation)) && found.len() <= 2, "{found:?}");
        let x = [-3.5, -1.0, 0.0, 0.25, 2.0];
        assert_near(&values(&graph, &x), &x.map(|x| factor * activation.value(x)), 1e-6);
    };
    let start = || File::new(13, &[0, 5]);
    only(start().node("Sigmoid", "x", "s", &[]).node("Mul", "s x", "y", &[]), Activation::Silu, 1.0);
    only(
        start().node("HardSigmoid", "x", "s", &[("alpha", Float(1.0 / 6.0))]).node("Mul", "x s", "y", &[]),
        Activation::HardSwish,
        1.0,
    );
    // x clip(x + 3, 0, 6)/6
    let file = start().floats("3", &[], &[3.0]).floats("0", &[], &[0.0]).floats("6", &[], &[6.0]);
    let file = file.node("Add", "x 3", "a", &[]).node("Clip", "a 0 6", "c", &[]).node("Mul", "x c", "m", &[]);
    only(file.node("Div", "m 6", "y", &[]), Activation::HardSwish, 1.0);
    // x (1 + erf(x/√2))/2, with the half at three places
    let erf = || {
        let file =
            start().floats("r", &[], &[std::f32::consts::SQRT_2]).floats("1", &[], &[1.0]).floats("h", &[], &[0.5]);
        file.node("Div", "x r", "d", &[]).node("Erf", "d", "e", &[]).node("Add", "e 1", "a", &[])
    };
    only(erf().node("Mul", "x a", "m", &[]).node("Mul", "m h", "y", &[]), Activation::Gelu, 1.0);
    only(erf().node("Mul", "x h", "m", &[]).node("Mul", "m a", "y", &[]), Activation::Gelu, 1.0);
    only(erf().node("Mul", "a h", "m", &[]).node("Mul", "m x", "y", &[]), Activation::Gelu, 1.0);
    only(erf().node("Mul", "a x", "y", &[]), Activation::Gelu, 2.0);
    let alone = start().node("Erf", "x", "y", &[]);
    assert!(refused(alone).contains("the error function by itself"));
    // a choice by the sign
    let file = start().floats("0", &[], &[0.0]).floats("s", &[], &[0.1]).node("Greater", "x 0", "g", &[]);
    let file = file.node("Mul", "x s", "b", &[]).node("Where", "g x b", "y", &[]);
    only(file, Activation::LeakyRelu { slope: f64::from(0.1f32) }, 1.0);
    let file = start().floats("0", &[], &[0.0]).node("Less", "0 x", "g", &[]).node("Where", "g 0 x", "y", &[]);
    check(file, &[-2.0, 0.0, 1.0, -1.0, 5.0], &[-2.0, 0.0, 0.0, -1.0, 0.0]);
    let file = start().floats("2", &[], &[2.0]).node("Greater", "x 2", "g", &[]).node("Where", "g x 2", "y", &[]);
    assert!(refused(file).contains("a choice between values"));
}

fn pool(operator: &str, attributes: &[(&str, super::onnx_build::Value<'_>)]) -> File {
    File::new(19, &[0, 1, 3, 3]).node(operator, "x", "y", attributes)
}

#[test]
fn pools_have_padding_gaps_and_ceilings() {
    let x = counting(9);
    let kernel = ("kernel_shape", Ints(&[2, 2]));
    let stride = ("strides", Ints(&[2, 2]));
    check(pool("MaxPool", &[("kernel_shape", Ints(&[2, 2]))]), &x, &[5.0, 6.0, 8.0, 9.0]);
    check(pool("MaxPool", &[("kernel_shape", Ints(&[2, 2])), ("dilations", Ints(&[2, 2]))]), &x, &[9.0]);
    let ceiling = ("ceil_mode", Int(1));
    check(pool("MaxPool", &[kernel, stride, ceiling]), &x, &[5.0, 6.0, 8.0, 9.0]);
    let all = |more: &[(&'static str, i64)], pads: &[i64]| {
        let mut attributes = vec![("kernel_shape", Ints(&[2, 2])), ("strides", Ints(&[2, 2])), ("pads", Ints(pads))];
        attributes.extend(more.iter().map(|(name, value)| (*name, Int(*value))));
        pool("AveragePool", &attributes)
    };
    check(all(&[], &[1, 1, 0, 0]), &x, &[1.0, 2.5, 5.5, 7.0]);
    check(all(&[("count_include_pad", 1)], &[1, 1, 0, 0]), &x, &[0.25, 1.25, 2.75, 7.0]);
    check(all(&[("ceil_mode", 1)], &[0; 4]), &x, &[3.0, 4.5, 7.5, 9.0]);
    // a window beyond the padding counts its padding and its inside alone
    check(all(&[("ceil_mode", 1), ("count_include_pad", 1)], &[0; 4]), &x, &[3.0, 4.5, 7.5, 9.0]);
    let gaps = [("kernel_shape", Ints(&[2, 2])), ("dilations", Ints(&[2, 2]))];
    check(pool("AveragePool", &gaps), &x, &[5.0]);
    check(
        pool("AveragePool", &[("kernel_shape", Ints(&[2, 2])), ("auto_pad", Text("SAME_UPPER"))]),
        &x,
        &[3.0, 4.0, 4.5, 6.0, 7.0, 7.5, 7.5, 8.5, 9.0],
    );
    check(pool("GlobalAveragePool", &[]), &x, &[5.0]);
    check(pool("GlobalMaxPool", &[]), &x, &[9.0]);
    let line = File::new(19, &[0, 2, 3]).node("MaxPool", "x", "y", &[("kernel_shape", Ints(&[2]))]);
    check(line, &counting(6), &[2.0, 3.0, 5.0, 6.0]);
    let places = File::new(19, &[0, 1, 3, 3]).node("MaxPool", "x", "y i", &[("kernel_shape", Ints(&[2, 2]))]);
    assert!(refused(places).contains("places of the largest numbers"));
}

#[test]
fn reductions_take_axes_of_one_picture() {
    let x = counting(8);
    let file = |version, operator: &str, attributes: &[_]| {
        File::new(version, &[0, 2, 2, 2]).node(operator, "x", "y", attributes)
    };
    check(file(11, "ReduceMean", &[("axes", Ints(&[2, 3]))]), &x, &[2.5, 6.5]);
    check(file(11, "ReduceMean", &[("axes", Ints(&[1])), ("keepdims", Int(0))]), &x, &[3.0, 4.0, 5.0, 6.0]);
    check(file(11, "ReduceSum", &[("axes", Ints(&[-1]))]), &x, &[3.0, 7.0, 11.0, 15.0]);
    check(file(11, "ReduceMax", &[("axes", Ints(&[1, 3]))]), &x, &[6.0, 8.0]);
    check(file(11, "ReduceMin", &[("axes", Ints(&[1, 2, 3]))]), &x, &[1.0]);
    check(file(11, "ReduceL1", &[("axes", Ints(&[1, 2, 3]))]), &x.iter().map(|x| -x).collect::<Vec<_>>(), &[36.0]);
    check(file(11, "ReduceSumSquare", &[("axes", Ints(&[2, 3]))]), &x, &[30.0, 174.0]);
    let newer = File::new(18, &[0, 2, 2, 2]).ints("a", &[2, 3]).node("ReduceMean", "x a", "y", &[]);
    check(newer, &x, &[2.5, 6.5]);
    assert!(refused(file(11, "ReduceMean", &[])).contains("over the batch"));
}

#[test]
fn numbers_are_arranged() {
    let x = counting(8);
    let start = || File::new(13, &[0, 2, 2, 2]);
    check(
        start().node("Transpose", "x", "y", &[("perm", Ints(&[0, 2, 3, 1]))]),
        &x,
        &[1.0, 5.0, 2.0, 6.0, 3.0, 7.0, 4.0, 8.0],
    );
    let slice = start().ints("s", &[-1, 1]).ints("e", &[i64::MIN, 2]).ints("a", &[1, 3]).ints("t", &[-1, 1]);
    check(slice.node("Slice", "x s e a t", "y", &[]), &x, &[6.0, 8.0, 2.0, 4.0]);
    let early = File::new(9, &[0, 2, 2, 2]);
    check(
        early.node("Slice", "x", "y", &[("starts", Ints(&[1])), ("ends", Ints(&[9])), ("axes", Ints(&[1]))]),
        &x,
        &[5.0, 6.0, 7.0, 8.0],
    );
    check(start().index("i", -1).node("Gather", "x i", "y", &[("axis", Int(2))]), &x, &[3.0, 4.0, 7.0, 8.0]);
    check(
        start().ints("i", &[1, 0, 1]).node("Gather", "x i", "y", &[("axis", Int(1))]),
        &x,
        &[5.0, 6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    );
    let pad = |mode: &'static str| {
        let file = File::new(13, &[0, 1, 1, 3]).ints("p", &[0, 0, 0, 2, 0, 0, 0, 1]).floats("v", &[], &[9.0]);
        file.node("Pad", "x p v", "y", &[("mode", Text(mode))])
    };
    check(pad("constant"), &counting(3), &[9.0, 9.0, 1.0, 2.0, 3.0, 9.0]);
    check(pad("edge"), &counting(3), &[1.0, 1.0, 1.0, 2.0, 3.0, 3.0]);
    check(pad("reflect"), &counting(3), &[3.0, 2.0, 1.0, 2.0, 3.0, 2.0]);
    let split =
        start().node("Split", "x", "a b", &[("axis", Int(1))]).node("Concat", "b x a", "y", &[("axis", Int(1))]);
    let graph =
        check(split, &counting(8), &[5.0, 6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0]);
    assert_eq!(graph.output(), Volume { channels: 4, height: 2, width: 2 });
    let columns =
        start().floats("c", &[1, 2, 2, 1], &[10.0, 20.0, 30.0, 40.0]).node("Concat", "x c", "y", &[("axis", Int(3))]);
    check(columns, &x, &[1.0, 2.0, 10.0, 3.0, 4.0, 20.0, 5.0, 6.0, 30.0, 7.0, 8.0, 40.0]);
    let tile = start().ints("t", &[1, 1, 1, 2]).node("Tile", "x t", "y", &[]);
    check(tile, &x, &[1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0, 5.0, 6.0, 5.0, 6.0, 7.0, 8.0, 7.0, 8.0]);
    let larger = File::new(11, &[0, 1, 1, 2]).floats("r", &[0], &[]).floats("s", &[4], &[1.0, 1.0, 2.0, 3.0]);
    let attributes = [("mode", Text("nearest")), ("coordinate_transformation_mode", Text("half_pixel"))];
    check(
        larger.node("Resize", "x r s", "y", &attributes),
        &counting(2),
        &[1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0],
    );
    let blocks = File::new(13, &[0, 4, 1, 1]).node("DepthToSpace", "x", "y", &[("blocksize", Int(2))]);
    check(blocks, &counting(4), &[1.0, 2.0, 3.0, 4.0]);
    let back = File::new(13, &[0, 1, 2, 4]).node("SpaceToDepth", "x", "y", &[("blocksize", Int(2))]);
    check(back, &counting(8), &[1.0, 3.0, 2.0, 4.0, 5.0, 7.0, 6.0, 8.0]);
    // an arrangement that another one undoes is none
    let there = ("perm", Ints(&[0, 2, 3, 1]));
    let file = start().node("Transpose", "x", "t", &[there]).node("Relu", "t", "r", &[]);
    let file = file.node("Transpose", "r", "u", &[("perm", Ints(&[0, 3, 1, 2]))]).node("Relu", "u", "y", &[]);
    assert_eq!(kinds(&check(file, &x, &x), |op| matches!(op, Op::Gather { .. })), 2);
    let none = start().node("Transpose", "x", "t", &[("perm", Ints(&[0, 2, 3, 1]))]);
    let none = none.node("Transpose", "t", "u", &[("perm", Ints(&[0, 3, 1, 2]))]).node("Relu", "u", "y", &[]);
    assert_eq!(check(none, &x, &x).nodes().len(), 1);
}

#[test]
fn shapes_are_computed_from_shapes() {
    // x.view(x.size(0), -1) and the half of its numbers, as exporters write them
    let start = |batch| {
        let file = File::new(13, &[batch, 2, 2, 2]).index("0", 0).ints("m", &[-1]).ints("z", &[0]).index("2", 2);
        let file = file.node("Shape", "x", "s", &[]).node("Gather", "s 0", "n", &[]);
        let file = file.node("Unsqueeze", "n z", "u", &[]).node("Concat", "u m", "c", &[("axis", Int(0))]);
        file.node("Reshape", "x c", "f", &[]).node("Relu", "f", "y", &[])
    };
    for batch in [0, 1, 5] {
        let graph = check(start(batch), &counting(8), &counting(8));
        assert_eq!(graph.output(), Volume::vector(8), "{batch}");
    }
    let fixed =
        File::new(13, &[3, 2, 2, 2]).ints("c", &[3, 8]).node("Reshape", "x c", "f", &[]).node("Relu", "f", "y", &[]);
    let imported = imported(fixed);
    assert_eq!(imported.graph.output(), Volume::vector(8));
    assert!(imported.notes.iter().any(|note| note.contains("batches of 3")), "{:?}", imported.notes);
    let mixed = File::new(13, &[3, 4]).ints("c", &[4, 3]).node("Reshape", "x c", "y", &[]);
    assert!(refused(mixed).contains("a shape of [4, 3]"));
    let turned = File::new(13, &[3, 4]).node("Transpose", "x", "y", &[("perm", Ints(&[1, 0]))]);
    assert!(refused(turned).contains("its pictures are not its first dimension"));
    // arithmetic with integers, a range, and a choice of constants
    let file = File::new(13, &[0, 4]).index("a", 7).index("b", 2).index("o", 0).index("i", 1);
    let file = file.node("Div", "a b", "q", &[]).node("Range", "o q i", "r", &[]);
    check(file.node("Gather", "x r", "y", &[("axis", Int(1))]), &counting(4), &[1.0, 2.0, 3.0]);
    let dims = File::new(13, &[0, 2, 1]).ints("s", &[-1, 2, 3]).ints("t", &[1, 1, 1]).ints("m", &[-1, -1, -1]);
    let dims = dims.node("Equal", "s m", "e", &[]).node("Where", "e t s", "w", &[]).node("Expand", "x w", "y", &[]);
    check(dims, &counting(2), &[1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
}

#[test]
fn pictures_with_channels_last_are_given_channel_by_channel() {
    let file = |first: &[(&str, super::onnx_build::Value<'_>)]| {
        let file =
            File::new(13, &[0, 2, 5, 3]).floats("m", &[3], &[1.0, 2.0, 3.0]).floats("w", &[1, 3, 2, 5], &[1.0; 30]);
        file.node("Sub", "x m", "s", &[]).node("Transpose", "s", "t", first).node("Conv", "t w", "y", &[])
    };
    let imported = imported(file(&[("perm", Ints(&[0, 3, 1, 2]))]));
    assert_eq!(imported.graph.input(), Volume { channels: 3, height: 2, width: 5 });
    assert_eq!(kinds(&imported.graph, |op| matches!(op, Op::Gather { .. })), 0);
    assert!(imported.notes[0].contains("channels last"), "{:?}", imported.notes);
    let pixels: Vec<u8> = (0..30).map(|at| at * 3).collect();
    let sum: f64 = pixels.iter().map(|p| f64::from(*p)).sum::<f64>() - 10.0 * (1.0 + 2.0 + 3.0);
    assert_near(&imported.graph.forward(&pixels).unwrap(), &[sum], 1e-9);
}

#[test]
fn the_end_is_left_out_and_named() {
    let ends = |file: File| {
        let imported = imported(file);
        assert_eq!(imported.graph.nodes().len(), 0, "{:?}", imported.graph.nodes());
        imported.ending
    };
    let start = || File::new(13, &[0, 4]);
    assert_eq!(ends(start().node("Softmax", "x", "y", &[])), Ending::Softmax);
    assert_eq!(ends(start().node("LogSoftmax", "x", "y", &[("axis", Int(1))])), Ending::LogSoftmax);
    assert_eq!(
        ends(start().node("Softmax", "x", "s", &[]).node("ArgMax", "s", "y", &[("axis", Int(1))])),
        Ending::ArgMax
    );
    assert_eq!(ends(start().ints("k", &[2]).node("TopK", "x k", "v y", &[])), Ending::TopK);
    assert_eq!(ends(File::new(13, &[0, 1]).node("Sigmoid", "x", "y", &[])), Ending::Sigmoid);
    let several = imported(start().node("Sigmoid", "x", "y", &[]));
    assert_eq!((several.ending, several.graph.nodes().len()), (Ending::None, 1));
    let middle = start().node("Softmax", "x", "s", &[]).node("Relu", "s", "y", &[]);
    assert!(refused(middle).contains("which is supported as the last node alone"));
}

#[test]
fn all_refusals_are_listed_with_their_nodes() {
    let file = File::new(13, &[0, 4, 2, 2]).node("LRN", "x", "a", &[("size", Int(3))]).node("Exp", "x", "b", &[]);
    let file =
        file.node("LayerNormalization", "a", "c", &[]).node("Nonsense", "b", "d", &[]).node("Sum", "c d", "y", &[]);
    let error = refused(file);
    for part in [
        "node 0 (LRN): divides",
        "node 1 (Exp): works on constants alone",
        "node 2 (LayerNormalization)",
        "node 3 (Nonsense): an operator that is not supported; use those below",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(!error.contains("(Sum)"), "{error}");
    let unknown = File::new(13, &[0, 3, 0, 0]).node("Relu", "x", "y", &[]);
    assert!(refused(unknown).contains("export the network with a fixed size"));
    let future = File::new(99, &[0, 3]).node("Relu", "x", "y", &[]);
    assert!(refused(future).contains("version 99"));
}

#[test]
fn constants_in_other_files_are_read_from_the_same_folder_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let model =
        |location: &str| File::new(13, &[0, 2]).outside("c", &[2], location, 4).node("Add", "x c", "y", &[]).bytes();
    let weights: Vec<u8> = [9.0f32, 1.0, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    std::fs::create_dir(path("inner")).unwrap();
    std::fs::write(path("weights.bin"), &weights).unwrap();
    std::fs::write(path("inner/other.bin"), &weights).unwrap();
    std::fs::write(path("net.onnx"), model("weights.bin")).unwrap();
    let graph = read_graph(&path("net.onnx"), &plain()).unwrap().graph;
    assert_near(&graph.forward(&[10, 20]).unwrap(), &[11.0, 22.0], 1e-9);
    #[cfg(unix)]
    std::os::unix::fs::symlink(path("inner/other.bin"), path("link.bin")).unwrap();
    let absolute = path("weights.bin").display().to_string();
    let wrong = ["../weights.bin", "inner/other.bin", "link.bin", "missing.bin", "inner", "..", ".", "", &absolute];
    for location in wrong {
        std::fs::write(path("net.onnx"), model(location)).unwrap();
        let error = read_graph(&path("net.onnx"), &plain()).unwrap_err().to_string();
        assert!(error.contains("expected") || error.contains("cannot read"), "{location}: {error}");
    }
    assert!(matches!(decode_onnx(&model("weights.bin"), &plain()), Err(OnnxError::Malformed(_))));
}

#[test]
fn small_files_lead_to_nothing_large() {
    let many = [1i64 << 40, 1 << 40];
    let started = std::time::Instant::now();
    let large = |file: File| assert!(refused(file).contains("expected"));
    large(File::new(13, &[0, 1]).ints("s", &many).node("Expand", "x s", "y", &[]));
    large(File::new(13, &[0, 1]).ints("s", &many).node("Tile", "x s", "y", &[]));
    large(File::new(13, &[0, 1]).ints("s", &many).node("ConstantOfShape", "s", "c", &[]).node("Add", "x c", "y", &[]));
    large(File::new(13, &[0, 1]).ints("s", &[0, 1 << 60, 1 << 60]).node("Expand", "x s", "y", &[]));
    large(File::new(13, &[0, 1]).ints("p", &[0, 1 << 20, 0, 1 << 20]).node("Pad", "x p", "y", &[]));
    large(File::new(13, &[0, 1 << 21]).node("Relu", "x", "y", &[]));
    let range = File::new(13, &[0, 1]).index("a", 0).index("b", i64::MAX).index("c", 1);
    assert!(refused(range.node("Range", "a b c", "r", &[]).node("Add", "x r", "y", &[])).contains("a range from 0"));
    // each of many nodes is small enough, and all together are not
    let mut file = File::new(13, &[0, 1 << 10, 1 << 10]);
    let mut name = "x".to_owned();
    for at in 0..2000 {
        let next = if at == 1999 { "y".to_owned() } else { format!("v{at}") };
        let (relu, turn) = (format!("r{at}"), ("perm", Ints(&[0, 2, 1])));
        file = file.node("Relu", &name, &relu, &[]).node("Transpose", &relu, &next, &[turn]);
        name = next;
    }
    assert!(refused(file).contains("more numbers than a file of this size may lead to"));
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// Pixels that look like noise.
fn noise(count: usize) -> Vec<u8> {
    (0..count as u64).map(|k| ((k * k * 7 + k * 13) % 256) as u8).collect()
}

#[test]
fn networks_of_the_corpus_compute_what_onnx_runtime_computes() {
    let mut read = 0;
    for (name, ending) in [
        ("signal", Ending::None),
        ("mobile", Ending::Softmax),
        ("mix", Ending::None),
        ("shuffle", Ending::None),
        ("mixer", Ending::None),
        ("mlp", Ending::Sigmoid),
        ("poly", Ending::ArgMax),
        ("mnist", Ending::None),
    ] {
        let imported = read_graph(&corpus().join(format!("{name}.onnx")), &Pixels::default()).unwrap();
        assert_eq!(imported.ending, ending, "{name}");
        let text = std::fs::read_to_string(corpus().join(format!("{name}.txt"))).unwrap();
        let expected: Vec<f64> = text.split_whitespace().map(|x| x.parse().unwrap()).collect();
        let found = imported.graph.forward(&noise(imported.graph.input().len())).unwrap();
        let sum: f64 = found.iter().map(|x| x.exp()).sum();
        let found = match ending {
            Ending::Softmax => found.iter().map(|x| x.exp() / sum).collect(),
            Ending::Sigmoid => found.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect(),
            Ending::ArgMax => vec![(0..found.len()).max_by(|a, b| found[*a].total_cmp(&found[*b])).unwrap() as f64],
            _ => found,
        };
        assert_near(&found, &expected, 2e-6);
        read += 1;
    }
    assert_eq!(read, 8);
    // weights of constant numbers that the file only describes
    let imported = read_graph(&corpus().join("squeezenet.onnx"), &Pixels::default()).unwrap();
    assert_eq!(imported.ending, Ending::Softmax);
    assert_eq!(kinds(&imported.graph, |op| matches!(op, Op::Convolution { .. })), 26);
    assert_eq!(kinds(&imported.graph, |op| *op == Op::Concatenate), 8);
}

#[test]
fn resnet_20_computes_what_onnx_runtime_computes() {
    let Some(data) = std::env::var_os("TOBARI_DATA") else { return };
    let pixels = Pixels { mean: vec![0.485, 0.456, 0.406], deviation: vec![0.229, 0.224, 0.225] };
    let imported = read_graph(&Path::new(&data).join("cifar/resnet20.onnx"), &pixels).unwrap();
    let graph = imported.graph;
    assert_eq!(imported.ending, Ending::None);
    assert_eq!(graph.input(), Volume { channels: 3, height: 32, width: 32 });
    assert_eq!(graph.output(), Volume::vector(10));
    assert_eq!(kinds(&graph, |op| matches!(op, Op::Sum { .. })), 9);
    assert_eq!(kinds(&graph, |op| matches!(op, Op::Activation(Activation::Relu))), 19);
    assert_eq!(kinds(&graph, |op| matches!(op, Op::Convolution { .. })), 21);
    assert_eq!(kinds(&graph, |op| matches!(op, Op::AveragePool { kernel: [8, 8], .. })), 1);
    assert_eq!(kinds(&graph, |op| matches!(op, Op::Dense { .. })), 1);
    let expected = [
        -7.5311699,
        -4.928298,
        6.7457461,
        7.4703035,
        3.5417352,
        -4.1669836,
        9.7904558,
        -6.0156808,
        -4.1336017,
        -0.72962308,
    ];
    assert_near(&graph.forward(&noise(3072)).unwrap(), &expected, 5e-6);
}

#[test]
fn changed_files_of_the_corpus_are_refused_or_read() {
    let mut state = 8u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    for name in ["signal", "mobile", "shuffle", "mixer", "mlp", "poly"] {
        let file = std::fs::read(corpus().join(format!("{name}.onnx"))).unwrap();
        for _ in 0..400 {
            let mut changed = file.clone();
            for _ in 0..=random(3) {
                let at = random(changed.len());
                changed[at] = match random(4) {
                    0 => changed[at] ^ 1 << random(8),
                    1 => 0xff,
                    2 => 0,
                    _ => random(256) as u8,
                };
            }
            if random(4) == 0 {
                changed.truncate(random(changed.len()));
            }
            fuzz_onnx(&changed);
        }
    }
}
