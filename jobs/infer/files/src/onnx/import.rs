//! Converts the nodes of a file to steps of a graph.

use super::call::Call;
use super::model::{Model, Node, malformed};
use super::steps::{Polynomial, Steps};
use super::tensor::{Tensor, count};
use super::{Ending, Imported, OnnxError, Pixels, chain, elementwise, fold, linear, reduce, shapes, views, windows};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use tobari_infer::model::MAX_NUMBERS;
use tobari_infer::{Normalisation, Volume};
use tobari_infer_deep::{Activation, GraphError, Op};

/// The supported operators of a graph; those of [`CONSTANT_OPERATORS`] besides, on constants.
pub const GRAPH_OPERATORS: &[&str] = &[
    "Abs",
    "Add",
    "ArgMax",
    "AveragePool",
    "BatchNormalization",
    "Cast",
    "Celu",
    "Clip",
    "Concat",
    "Conv",
    "DepthToSpace",
    "Div",
    "Dropout",
    "Elu",
    "Erf",
    "Expand",
    "Flatten",
    "Gather",
    "Gelu",
    "Gemm",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "LeakyRelu",
    "LogSoftmax",
    "MatMul",
    "Max",
    "MaxPool",
    "Mean",
    "Min",
    "Mish",
    "Mul",
    "Neg",
    "PRelu",
    "Pad",
    "Pow",
    "ReduceL1",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceSum",
    "ReduceSumSquare",
    "Relu",
    "Reshape",
    "Resize",
    "Selu",
    "Shape",
    "Sigmoid",
    "Size",
    "Slice",
    "Softmax",
    "Softplus",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Sub",
    "Sum",
    "Swish",
    "Tanh",
    "Tile",
    "TopK",
    "Transpose",
    "Unsqueeze",
    "Upsample",
];
/// The operators that are supported on constants alone.
pub const CONSTANT_OPERATORS: &[&str] = &[
    "And",
    "Ceil",
    "Constant",
    "ConstantOfShape",
    "DequantizeLinear",
    "Equal",
    "Exp",
    "Floor",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Log",
    "Mod",
    "Not",
    "Or",
    "Range",
    "Reciprocal",
    "ReduceProd",
    "Round",
    "Sign",
    "Sqrt",
    "Where",
];
/// The supported versions of the standard operators.
const VERSIONS: std::ops::RangeInclusive<i64> = 1..=26;
/// The most unsupported parts in an error.
const MAX_FAULTS: usize = 100;
/// Numbers that a file may lead to: so many, and so many for each of its bytes.
const ROOM: [usize; 2] = [1 << 23, 64];

/// A description of an unsupported part.
pub(super) type Fault = String;

/// A value that depends on the picture.
#[derive(Clone, Debug)]
pub(super) struct Computed {
    /// The dimensions as in the file, with 1 for the batch: the graph computes one picture.
    pub(super) dims: Vec<usize>,
    /// The dimension of the batch. Without one, pictures and other things share a dimension.
    pub(super) batch: Option<usize>,
    pub(super) poly: Rc<Polynomial>,
}

impl Computed {
    /// The count of numbers.
    pub(super) fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// A value of the same dimensions.
    pub(super) fn with(&self, poly: Rc<Polynomial>) -> Self {
        Self { dims: self.dims.clone(), batch: self.batch, poly }
    }

    /// The usual shape of its numbers.
    pub(super) fn volume(&self) -> Volume {
        volume(&self.dims, self.batch)
    }
}

/// The meaning of a name.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Constant(Rc<Tensor>),
    Computed(Computed),
    /// Whether each number is above a constant. Only a choice between two values takes it.
    Above(Computed, f64),
    /// The logits, and the number of the node that only the labels' probabilities needed.
    Ended(Computed, Ending, usize),
    /// The result of an unsupported part, for which no further error is reported.
    Unknown,
}

/// The shape of a picture's dimensions: channels, rows, columns.
pub(super) fn volume(dims: &[usize], batch: Option<usize>) -> Volume {
    let inner: Vec<usize> = dims.iter().enumerate().filter(|(axis, _)| Some(*axis) != batch).map(|(_, d)| *d).collect();
    match inner[..] {
        [] => Volume::vector(1),
        [length] => Volume::vector(length),
        [height, width] => Volume { channels: 1, height, width },
        [channels, ref rows @ .., width] => Volume { channels, height: rows.iter().product(), width },
    }
}

pub(super) struct Import {
    pub(super) steps: Steps,
    /// The batch's size, if it is a number.
    pub(super) fixed: Option<usize>,
    pub(super) notes: Vec<String>,
}

/// All of a file: what was converted, and the unsupported parts.
struct Run<'m, 'a> {
    import: Import,
    values: HashMap<&'a str, Value>,
    /// The names of all values so far.
    defined: HashSet<&'a str>,
    /// How often each value is still an input. After its last use a value is dropped.
    uses: HashMap<&'a str, usize>,
    nodes: &'m [Node<'a>],
    faults: Vec<Fault>,
    version: i64,
    /// Whether the steps must be a chain of layers.
    chain: bool,
}

/// Converts a file. In a chain, each step must be a layer.
pub(super) fn import(model: Model<'_>, pixels: &Pixels, bytes: usize, chain: bool) -> Result<Imported, OnnxError> {
    let Model { nodes, constants, mut inputs, outputs, version } = model;
    let used: HashSet<&str> =
        nodes.iter().flat_map(|node| node.inputs.iter().copied()).chain(outputs.clone()).collect();
    if inputs.len() > 1 {
        inputs.retain(|input| used.contains(input.name));
    }
    let ([input], [output]) = (&inputs[..], &outputs[..]) else {
        let names: Vec<String> = inputs
            .iter()
            .map(|input| input.name)
            .chain(outputs.iter().copied())
            .take(16)
            .map(|name| format!("{name:.64}"))
            .collect();
        let found = format!("{} and {} ({})", inputs.len(), outputs.len(), names.join(", "));
        return Err(malformed(format!(
            "expected one input and one output, found {found}: export the network with the picture as its only input \
             and its logits as its only output, or cut them out with onnx.utils.extract_model"
        )));
    };
    let (volume, first, note) = picture(input, &nodes)?;
    let room = ROOM[0].saturating_add(ROOM[1].saturating_mul(bytes)).min(1 << 26);
    let mut import = Import {
        steps: Steps::new(volume, room),
        fixed: input.dims.first().copied().flatten(),
        notes: note.into_iter().collect(),
    };
    if let Some(size @ 2..) = import.fixed {
        import.notes.push(format!("the file is for batches of {size}; the graph takes one picture"));
    }
    let first = first(&mut import.steps).map_err(malformed)?;
    let mut values: HashMap<&str, Value> =
        constants.into_iter().map(|(name, tensor)| (name, Value::Constant(Rc::new(tensor)))).collect();
    values.insert(input.name, Value::Computed(first));
    let defined = values.keys().copied().collect();
    let mut uses: HashMap<&str, usize> = HashMap::from([(*output, 1)]);
    nodes.iter().flat_map(|node| &node.inputs).for_each(|name| *uses.entry(name).or_default() += 1);
    let mut run = Run { import, values, defined, uses, nodes: &nodes, faults: Vec::new(), version, chain };
    if !VERSIONS.contains(&version) {
        run.faults
            .push(format!("version {version} of the operators: expected 1 to 26; onnx.version_converter changes it"));
    }
    for at in 0..nodes.len() {
        run.node(at);
    }
    let normalisation = normalisation(pixels, volume.channels)?;
    run.finish(output, normalisation)
}

/// A function that makes the input's value from the picture.
type First = Box<dyn FnOnce(&mut Steps) -> Result<Computed, Fault>>;

/// The shape of the picture, the value of the input, and a note if the two differ.
fn picture(input: &super::model::Input<'_>, nodes: &[Node<'_>]) -> Result<(Volume, First, Option<String>), OnnxError> {
    let dims: Option<Vec<usize>> = input.dims.iter().skip(1).copied().collect();
    let fits = |dims: &Vec<usize>| {
        !input.dims.is_empty() && dims.len() <= 7 && count(dims, MAX_NUMBERS).is_some_and(|count| count > 0)
    };
    let Some(inner) = dims.filter(fits) else {
        let found: Vec<String> =
            input.dims.iter().take(8).map(|dim| dim.map_or("?".to_owned(), |dim| dim.to_string())).collect();
        return Err(malformed(format!(
            "expected an input {:.64} of a batch and dimensions that are numbers, 2^20 in all; found [{}]: export \
             the network with a fixed size of pictures",
            input.name,
            found.join(", ")
        )));
    };
    let mut dims = vec![1];
    dims.extend(&inner);
    if let [height, width, channels] = inner[..]
        && last_is_channel(input.name, channels, height, nodes)
    {
        let picture = Volume { channels, height, width };
        let note = format!("the input {:.64} has its channels last; pictures are given channel by channel", input.name);
        let first = move |steps: &mut Steps| {
            let place = |at: usize| Some(((at % channels) * height * width + at / channels) as u32);
            let places = (0..height * width * channels).map(place).collect();
            let poly = steps.identity(0);
            let output = Volume { channels: height, height: width, width: channels };
            // a gray picture has the same numbers in either order
            let poly = if channels == 1 { poly } else { steps.chosen(&poly, places, output)? };
            Ok(Computed { dims, batch: Some(0), poly })
        };
        return Ok((picture, Box::new(first), Some(note)));
    }
    let picture = volume(&inner, None);
    let first = move |steps: &mut Steps| Ok(Computed { dims, batch: Some(0), poly: steps.identity(0) });
    Ok((picture, Box::new(first), None))
}

/// Whether an input of three dimensions has the channels as its last one: if it is transposed, or
/// is gray.
fn last_is_channel(input: &str, channels: usize, height: usize, nodes: &[Node<'_>]) -> bool {
    if channels == 1 && height > 4 {
        return true;
    }
    if !matches!(channels, 1 | 3 | 4) {
        return false;
    }
    let mut same = HashSet::from([input]);
    for node in nodes {
        if !node.inputs.iter().any(|name| same.contains(name)) {
            continue;
        }
        match node.operator {
            "Transpose" => {
                let order = node.attributes.get("perm");
                return order == Some(&super::model::Attribute::Integers(vec![0, 3, 1, 2]));
            }
            "Identity" | "Cast" | "Add" | "Sub" | "Mul" | "Div" | "Neg" | "Dropout" => {
                same.extend(node.outputs.first());
            }
            _ => return false,
        }
    }
    false
}

fn normalisation(pixels: &Pixels, channels: usize) -> Result<Normalisation, OnnxError> {
    let wrong = [&pixels.mean, &pixels.deviation].iter().any(|all| all.len() != 1 && all.len() != channels);
    if wrong || pixels.deviation.contains(&0.0) {
        let what = "expected one mean and one deviation other than 0, or one of each channel, found others";
        return Err(malformed(what));
    }
    let of = |all: &[f64], channel: usize| all[channel % all.len()];
    let deviation = |channel| of(&pixels.deviation, channel);
    Ok(Normalisation {
        scale: (0..channels).map(|channel| 1.0 / (255.0 * deviation(channel))).collect(),
        offset: (0..channels).map(|channel| -of(&pixels.mean, channel) / deviation(channel)).collect(),
    })
}

/// A node's name in messages and in the graph.
fn name_of(node: &Node<'_>, at: usize) -> String {
    if node.name.is_empty() { format!("{at}") } else { format!("{:.64}", node.name) }
}

impl<'a> Run<'_, 'a> {
    /// Converts a node, or records its fault.
    fn node(&mut self, at: usize) {
        let node = &self.nodes[at];
        self.import.steps.maker = at;
        let before = self.import.steps.all.len();
        let mut found = self.values(at);
        if self.chain
            && let Ok(values) = &found
            && let Err(fault) = chain::check(&self.import.steps, before, values)
        {
            found = Err(fault);
        }
        let count = node.outputs.len().max(1);
        let mut values = found.unwrap_or_else(|fault| {
            if self.faults.len() < MAX_FAULTS {
                let fault = with_remedy(fault);
                self.faults.push(format!("node {} ({:.64}): {fault}", name_of(node, at), node.operator));
            }
            // the steps of a node with a fault would only lead to further faults
            self.import.steps.forget(before);
            vec![Value::Unknown; count]
        });
        values.resize(count.max(values.len()), Value::Unknown);
        for (name, value) in node.outputs.iter().zip(values).filter(|(name, _)| !name.is_empty()) {
            if !self.defined.insert(name) && self.faults.len() < MAX_FAULTS {
                self.faults.push(format!("value {name:.64}: defined twice"));
            }
            self.values.insert(name, value);
        }
    }

    fn values(&mut self, at: usize) -> Result<Vec<Value>, Fault> {
        let node = &self.nodes[at];
        supported(node)?;
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for name in &node.inputs {
            if name.is_empty() {
                inputs.push(None);
                continue;
            }
            let left = self.uses.get_mut(name).map_or(1, |left| {
                *left = left.saturating_sub(1);
                *left
            });
            let value = if left == 0 { self.values.remove(name) } else { self.values.get(name).cloned() };
            let missing = || format!("an input {name:.64} that no earlier node makes");
            inputs.push(Some(value.ok_or_else(missing)?));
        }
        if inputs.iter().flatten().any(|value| matches!(value, Value::Unknown)) {
            if self.chain {
                chain::possible(node.operator)?;
            }
            return Ok(vec![Value::Unknown; node.outputs.len().max(1)]);
        }
        let call = Call { node, inputs, version: self.version };
        if let Some(Value::Ended(_, ending, by)) =
            call.inputs.iter().flatten().find(|value| matches!(value, Value::Ended(..)))
        {
            let end = name_of(&self.nodes[*by], *by);
            return self.import.after_end(&call).map_err(|()| {
                format!("takes the result of node {end} ({ending:?}), which is supported as the last node alone")
            });
        }
        self.import.operator(&call, at)
    }

    /// The graph, if there are no faults.
    fn finish(mut self, output: &str, normalisation: Normalisation) -> Result<Imported, OnnxError> {
        let last = self.values.get(output).cloned();
        let ends = match last {
            Some(Value::Computed(last)) => Some((last, Ending::None)),
            Some(Value::Ended(last, ending, _)) => Some((last, ending)),
            Some(Value::Unknown) => None,
            _ => {
                self.faults.push("an output that does not depend on the input: expected the logits".to_owned());
                None
            }
        };
        let ends = ends.and_then(|(last, ending)| match self.import.last(&last, ending) {
            Ok(value) => Some(value),
            Err(fault) => {
                self.faults.push(format!("output {output:.64}: {fault}"));
                None
            }
        });
        if self.chain
            && let Some((value, _)) = ends
            && let Err(fault) =
                chain::check(&self.import.steps, 0, &[]).and_then(|()| chain::last(&self.import.steps, value))
        {
            self.faults.push(format!("output {output:.64}: {fault}"));
        }
        let refused = |faults| if self.chain { OnnxError::Unsupported(faults) } else { OnnxError::Refused(faults) };
        let Some((value, ending)) = ends.filter(|_| self.faults.is_empty()) else {
            return Err(refused(self.faults));
        };
        let Import { steps, mut notes, .. } = self.import;
        if ending != Ending::None {
            notes.push(format!(
                "the end of the network ({ending:?}) is left out: labels follow from the numbers before it"
            ));
        }
        let nodes = self.nodes;
        let name = |at: usize| {
            let node = &nodes[at.min(nodes.len().saturating_sub(1))];
            if node.name.is_empty() { format!("{:.40} {at}", node.operator) } else { format!("{:.64}", node.name) }
        };
        let graph = match steps.graph(value, normalisation, name) {
            Ok(graph) => graph,
            Err(GraphError::Node { node, reason }) => return Err(refused(vec![format!("node {node}: {reason}")])),
            Err(error) => return Err(refused(vec![error.to_string()])),
        };
        Ok(Imported { graph, ending, notes })
    }
}

/// Words of a fault that say what would work.
const REMEDIES: [&str; 8] =
    ["expected", " works", "work instead", "export", "use those", "compute", "leave", "takes such"];

/// A fault with what would work. Most faults say it; the others are of values that a file seldom
/// has.
fn with_remedy(fault: Fault) -> Fault {
    if REMEDIES.iter().any(|word| fault.contains(word)) {
        return fault;
    }
    format!("{fault}: check the file with onnx.checker and simplify it, or compute this node outside the network")
}

/// Checks that a node's operator is supported, whatever its inputs are.
fn supported(node: &Node<'_>) -> Result<(), Fault> {
    if !matches!(node.domain, "" | "ai.onnx") {
        return Err(format!("operators of {:.64}: expected those of the standard alone", node.domain));
    }
    if GRAPH_OPERATORS.contains(&node.operator) || CONSTANT_OPERATORS.contains(&node.operator) {
        return Ok(());
    }
    let reason = match node.operator {
        "LRN"
        | "LpNormalization"
        | "MeanVarianceNormalization"
        | "InstanceNormalization"
        | "LayerNormalization"
        | "GroupNormalization"
        | "RMSNormalization"
        | "GlobalLpPool"
        | "LpPool"
        | "ReduceL2" => {
            "divides by a number that depends on the picture, or takes its root; batch normalisation works instead"
        }
        "LSTM" | "GRU" | "RNN" => "a recurrent layer; convolutions and dense layers work instead",
        "If" | "Loop" | "Scan" => "control flow; export the network for a fixed size of pictures without it",
        "Attention" | "Einsum" | "MultiHeadAttention" => {
            "products of two values that are matrices; convolutions work instead"
        }
        "ConvTranspose" | "ConvInteger" | "DeformConv" => {
            "another convolution; Conv works, after Resize if rows are to grow"
        }
        "QLinearConv" | "QLinearMatMul" | "MatMulInteger" | "QuantizeLinear" | "DynamicQuantizeLinear" => {
            "rounds to integers; export the network before its quantisation"
        }
        "ThresholdedRelu" | "Shrink" | "Hardmax" => "a function with a jump; Relu works instead",
        _ => "an operator that is not supported; use those below, or compute it outside the network",
    };
    Err(reason.to_owned())
}

impl Import {
    /// The values of a node's outputs.
    fn operator(&mut self, call: &Call<'_, '_>, at: usize) -> Result<Vec<Value>, Fault> {
        let one = |value| Ok(vec![value]);
        let name = call.operator();
        match name {
            "Shape" => return one(shapes::shape(call)?),
            "Size" => return one(shapes::size(call)?),
            "Identity" => return one(call.required(0)?.clone()),
            "Dropout" => return one(dropout(call)?),
            "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" => return one(shapes::reshaped(self, call)?),
            "Transpose" | "Slice" | "Gather" | "Pad" | "Expand" | "Tile" | "Upsample" | "Resize" => {
                return one(views::view(self, call)?);
            }
            "DepthToSpace" | "SpaceToDepth" => return one(views::blocks(self, call)?),
            "Split" => return views::split(self, call),
            "Concat" => return one(views::concatenated(self, call)?),
            _ => {}
        }
        if call.inputs.iter().flatten().all(|value| matches!(value, Value::Constant(_))) {
            return one(fold::fold(self, call)?);
        }
        let chooses = matches!(name, "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" | "Where");
        if CONSTANT_OPERATORS.contains(&name) && !chooses {
            return Err(
                "works on constants alone, and its input depends on the picture: compute it outside the network, \
                        or export the network for a fixed size of pictures"
                    .to_owned(),
            );
        }
        match name {
            "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" => one(elementwise::above(call)?),
            "Where" => one(elementwise::choice(self, call)?),
            "Conv" => one(windows::convolution(self, call)?),
            "AveragePool" => one(windows::average(self, call)?),
            "MaxPool" => one(windows::maximum(self, call)?),
            "GlobalAveragePool" | "GlobalMaxPool" => one(reduce::global(self, call)?),
            "ReduceMean" | "ReduceSum" | "ReduceMax" | "ReduceMin" | "ReduceL1" | "ReduceSumSquare" => {
                one(reduce::reduced(self, call)?)
            }
            "Gemm" => one(linear::gemm(self, call)?),
            "MatMul" => one(linear::product(self, call)?),
            "BatchNormalization" => one(linear::normalised(self, call)?),
            "Softmax" | "LogSoftmax" | "ArgMax" | "TopK" => self.end(call, at),
            "CastLike" => one(call.required(0)?.clone()),
            "Cast" => match call.int("to", 0) {
                Ok(1 | 10 | 11 | 16) => one(call.required(0)?.clone()),
                // early files name the type
                Err(_) if matches!(call.text("to", "")?.as_str(), "FLOAT" | "DOUBLE" | "FLOAT16") => {
                    one(call.required(0)?.clone())
                }
                _ => Err("a cast of a value to something but floats".to_owned()),
            },
            _ => one(elementwise::elementwise(self, call)?),
        }
    }

    /// A node that turns logits into probabilities or labels.
    fn end(&mut self, call: &Call<'_, '_>, at: usize) -> Result<Vec<Value>, Fault> {
        let x = call.computed(0)?;
        let rank = x.dims.len();
        let softmax = matches!(call.operator(), "Softmax" | "LogSoftmax");
        let default = match call.operator() {
            "ArgMax" => 0,
            "TopK" => -1,
            _ if call.version < 13 => 1,
            _ => -1,
        };
        let axis = call.axis(default, rank)?;
        let own = if softmax && call.version < 13 { x.dims[axis..].iter().product() } else { x.dims[axis] };
        if x.batch == Some(axis) && x.len() > 1 && !(softmax && call.version < 13) {
            return Err("compares pictures of a batch".to_owned());
        }
        if own != x.len() {
            return Err(format!(
                "over {own} of {} numbers of a picture: supported as the last node over all of them",
                x.len()
            ));
        }
        if call.operator() == "TopK" && call.int("largest", 1)? != 1 {
            return Err("the smallest numbers: expected the largest ones".to_owned());
        }
        let ending = match call.operator() {
            "Softmax" => Ending::Softmax,
            "LogSoftmax" => Ending::LogSoftmax,
            "ArgMax" => Ending::ArgMax,
            _ => Ending::TopK,
        };
        if ending == Ending::ArgMax && call.int("select_last_index", 0)? != 0 {
            return Err("select_last_index: of equal numbers the first is the label here".to_owned());
        }
        Ok(vec![Value::Ended(x.clone(), ending, at); call.node.outputs.len().max(1)])
    }

    /// A node after logits became probabilities or labels: only shapes may still change.
    fn after_end(&mut self, call: &Call<'_, '_>) -> Result<Vec<Value>, ()> {
        let (Some(Value::Ended(x, ending, by)), rest) = (call.value(0), call.inputs.get(1..).unwrap_or(&[])) else {
            return Err(());
        };
        if rest.iter().flatten().any(|value| !matches!(value, Value::Constant(_))) {
            return Err(());
        }
        let ending = match call.operator() {
            "Identity" | "Cast" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" => *ending,
            "ArgMax" if matches!(ending, Ending::Softmax | Ending::LogSoftmax) => Ending::ArgMax,
            "TopK" if matches!(ending, Ending::Softmax | Ending::LogSoftmax) => Ending::TopK,
            "Log" if *ending == Ending::Softmax => Ending::LogSoftmax,
            _ => return Err(()),
        };
        Ok(vec![Value::Ended(x.clone(), ending, *by); call.node.outputs.len().max(1)])
    }

    /// The value of the network's result, and its ending.
    fn last(&mut self, last: &Computed, ending: Ending) -> Result<(usize, Ending), Fault> {
        let mut value = self.steps.result(&last.poly)?;
        let mut ending = ending;
        if last.len() == 1
            && ending == Ending::None
            && self.steps.op(value) == Some(&Op::Activation(Activation::Sigmoid))
            && let Some(argument) = self.steps.arguments.get(&value).cloned()
        {
            (value, ending) = (self.steps.result(&argument)?, Ending::Sigmoid);
        }
        if self.fixed.is_some_and(|size| size > 1) && last.batch != Some(0) {
            return Err("its pictures are not its first dimension: export the network for one picture".to_owned());
        }
        let value = self.steps.shaped(value, last.volume())?;
        Ok((value, ending))
    }
}

fn dropout(call: &Call<'_, '_>) -> Result<Value, Fault> {
    if call.constant(2)?.is_some_and(|mode| mode.numbers.iter().any(|x| *x != 0.0)) {
        return Err("training_mode: export the network for inference".to_owned());
    }
    Ok(call.required(0)?.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_says_what_would_work() {
        for fault in ["a step of 0", "no pads", "operands of shapes [2] and [3], which do not fit"] {
            let told = with_remedy(fault.to_owned());
            assert!(told.starts_with(fault) && told.contains("outside the network"), "{told}");
        }
        let known = "training_mode: export the network for inference".to_owned();
        assert_eq!(with_remedy(known.clone()), known);
    }
}
