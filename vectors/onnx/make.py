"""Small ONNX models and what ONNX Runtime computes with them.

    pip install onnx onnxruntime numpy
    python make.py FOLDER

Writes NAME.onnx and NAME.txt. A text has two lines for each of three images: its pixels from 0 to 255, and the outputs for pixels over 255. `refused.onnx` and `branch.onnx` have no text.
The graphs are laid out as PyTorch's exporter lays them out. Versions and seed stand in the folder's README.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

random = np.random.default_rng(8)


def draw(*shape, width=0.5):
    return random.uniform(-width, width, shape).astype(np.float32)


def model(nodes, constants, shape, opset=13, batch="batch", outputs=("logits",), old=False):
    initial = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    inputs = [helper.make_tensor_value_info("input", TensorProto.FLOAT, [batch, *shape])]
    if old:  # early files list constants among the inputs
        inputs += [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in initial]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, "classes"]) for name in outputs]
    graph = helper.make_graph(nodes, "main_graph", inputs, results, initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def node(operator, inputs, output, **attributes):
    return helper.make_node(operator, inputs, [output], name=f"/{output}/{operator}", **attributes)


def names(layer):
    return [f"{layer}.weight", f"{layer}.bias", f"{layer}.running_mean", f"{layer}.running_var"]


def norm(layer, channels):
    return dict(zip(names(layer), [draw(channels) + 1, draw(channels), draw(channels), np.abs(draw(channels)) + 0.3]))


def convolutions():
    """Convolution, batch normalisation, a x x + b x + c with coefficients of each channel, twice; a dense layer."""
    constants = {"conv1.weight": draw(2, 1, 5, 5), "conv1.bias": draw(2), **norm("bn1", 2)}
    constants |= {"act1.a": draw(2, 1, 1) + 1, "act1.b": draw(2, 1, 1), "act1.c": draw(2, 1, 1)}
    constants |= {"conv2.weight": draw(3, 2, 3, 3), **norm("bn2", 3), "act2.a": np.float32(0.7)}
    constants |= {"fc.weight": draw(4, 12), "fc.bias": draw(4)}
    nodes = [
        node("Conv", ["input", "conv1.weight", "conv1.bias"], "conv1", kernel_shape=[5, 5], strides=[2, 2], pads=[0, 0, 0, 0], dilations=[1, 1], group=1),
        node("BatchNormalization", ["conv1", *names("bn1")], "bn1", epsilon=1e-5, momentum=0.9),
        node("Mul", ["act1.a", "bn1"], "ax"), node("Mul", ["ax", "bn1"], "axx"),
        node("Mul", ["act1.b", "bn1"], "bx"), node("Add", ["axx", "bx"], "sum"), node("Add", ["sum", "act1.c"], "act1"),
        node("Conv", ["act1", "conv2.weight"], "conv2", kernel_shape=[3, 3], strides=[1, 1]),
        node("BatchNormalization", ["conv2", *names("bn2")], "bn2", epsilon=1e-3),
        node("Mul", ["bn2", "bn2"], "square"), node("Mul", ["square", "act2.a"], "act2"),
        node("Flatten", ["act2"], "flat", axis=1),
        node("Gemm", ["flat", "fc.weight", "fc.bias"], "logits", alpha=1.0, beta=1.0, transB=1),
    ]
    return model(nodes, constants, [1, 12, 11]), (1, 12, 11)


def dense():
    """A plain network: products, sums and a power, constants as nodes, an input of one dimension."""
    constant = lambda name, value: helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value)))
    nodes = [
        constant("mean", draw(20)), constant("deviation", np.abs(draw(20)) + 0.5), constant("two", np.float32(2)),
        helper.make_node("Constant", [], ["half"], value_float=0.5), constant("one", np.float32(1)),
        node("Sub", ["input", "mean"], "centred"), node("Div", ["centred", "deviation"], "scaled"),
        node("MatMul", ["scaled", "w1"], "m1"), node("Add", ["b1", "m1"], "h1"),
        node("Pow", ["h1", "two"], "squared"), node("Mul", ["half", "h1"], "line"),
        node("Sub", ["squared", "line"], "difference"), node("Sub", ["one", "difference"], "act"),
        node("Dropout", ["act"], "kept"), node("Identity", ["kept"], "same"), node("Neg", ["same"], "negative"),
        node("Gemm", ["negative", "w2", "b2"], "logits", alpha=0.5, beta=2.0),
    ]
    constants = {"w1": draw(20, 6), "b1": draw(1, 6), "w2": draw(6, 3), "b2": draw(1, 3)}
    return model(nodes, constants, [20]), (20,)


def logistic():
    """Logistic regression without its last function, of an image, in an early file."""
    nodes = [node("Reshape", ["input", "shape"], "flat"), node("Gemm", ["flat", "weight", "bias"], "logits", transB=1)]
    constants = {"shape": np.array([-1, 35], dtype=np.int64), "weight": draw(5, 35), "bias": draw(5)}
    return model(nodes, constants, [1, 5, 7], opset=9, old=True), (1, 5, 7)


def colours():
    """Three channels, padding on all sides, groups, means that count padding and that do not."""
    constants = {"w1": draw(6, 1, 3, 2), "b1": draw(6), "w2": draw(4, 6, 2, 2), "a": draw(1, 6, 1, 1) + 1, "w3": draw(4, 2, 2, 2)}
    constants |= {"shape": np.array([0, -1], dtype=np.int64), "w4": draw(8, 3), "c": draw(4, 3, 1)}
    nodes = [
        node("AveragePool", ["input"], "p0", kernel_shape=[3, 3], pads=[1, 0, 1, 1], count_include_pad=0),
        node("Conv", ["p0", "w1", "b1"], "c1", group=3, strides=[2, 1], pads=[2, 1, 1, 0]),
        node("Mul", ["c1", "a"], "scaled"), node("Mul", ["scaled", "c1"], "squared"),
        node("Conv", ["squared", "w2"], "c2", pads=[0, 1, 1, 1]),
        node("AveragePool", ["c2"], "p1", kernel_shape=[2, 3], strides=[2, 2], pads=[1, 0, 0, 0], count_include_pad=1),
        node("Add", ["p1", "c"], "shifted"), node("Mul", ["shifted", "shifted"], "s2"),
        node("Conv", ["s2", "w3"], "c3", group=2, strides=[2, 2], kernel_shape=[2, 2], pads=[0, 0, 1, 0]),
        node("Reshape", ["c3", "shape"], "flat"), node("MatMul", ["flat", "w4"], "logits"),
    ]
    return model(nodes, constants, [3, 8, 6]), (3, 8, 6)


def same():
    """Padding that follows from the size, and means of whole channels."""
    constants = {"w1": draw(2, 1, 3, 4), "w2": draw(3, 2, 2, 3), "b2": draw(3)}
    nodes = [
        node("Conv", ["input", "w1"], "c1", auto_pad="SAME_UPPER", strides=[2, 2]),
        node("Mul", ["c1", "c1"], "s1"),
        node("Conv", ["s1", "w2", "b2"], "c2", auto_pad="SAME_LOWER", strides=[1, 2]),
        node("GlobalAveragePool", ["c2"], "g"), node("Flatten", ["g"], "logits"),
    ]
    return model(nodes, constants, [1, 9, 10], batch=1), (1, 9, 10)


def refused():
    """Everything here is beyond what is read, and each has its line in the error."""
    constants = {"w1": draw(2, 1, 3, 3), "w2": draw(2, 2, 3, 3), "w3": draw(72, 3)}
    nodes = [
        node("Conv", ["input", "w1"], "c1", pads=[1, 1, 1, 1]), node("Relu", ["c1"], "r1"),
        node("Conv", ["c1", "w2"], "c2", dilations=[2, 2]), node("Mul", ["c1", "c1"], "square"),
        node("Mul", ["square", "c1"], "cube"), node("MaxPool", ["c1"], "m", kernel_shape=[2, 2]),
        node("Flatten", ["m"], "flat"), node("MatMul", ["flat", "w3"], "fc"), node("Softmax", ["fc"], "logits"),
    ]
    return model(nodes, constants, [1, 6, 6]), None


def branch():
    """A sum of what two layers made."""
    constants = {"w1": draw(2, 1, 3, 3), "w2": draw(2, 2, 3, 3)}
    nodes = [
        node("Conv", ["input", "w1"], "c1", pads=[1, 1, 1, 1]), node("Mul", ["c1", "c1"], "square"),
        node("Conv", ["square", "w2"], "c2", pads=[1, 1, 1, 1]), node("Add", ["c2", "square"], "logits"),
    ]
    return model(nodes, constants, [1, 6, 6]), None


def main():
    folder = Path(sys.argv[1])
    print(f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}, numpy {np.__version__}")
    for make in [convolutions, dense, logistic, colours, same, refused, branch]:
        made, shape = make()
        name = make.__name__
        (folder / f"{name}.onnx").write_bytes(made.SerializeToString())
        if shape is None:
            continue
        onnx.checker.check_model(made)
        session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
        lines = []
        for _ in range(3):
            pixels = random.integers(0, 256, (1, *shape))
            outputs = session.run(None, {"input": (pixels / 255).astype(np.float32)})[0]
            lines += [" ".join(map(str, pixels.flatten())), " ".join(f"{x:.9g}" for x in outputs.flatten())]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")


main()
