//! Networks and pictures for tests.

use tobari_infer::{Normalisation, Volume};
use tobari_infer_deep::{Activation, Graph, Op};

/// Numbers that look random, from -1 to 1.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> f64 {
        // xorshift (Marsaglia, J. Stat. Softw. 2003)
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub(crate) fn take(&mut self, count: usize, size: f64) -> Vec<f64> {
        (0..count).map(|_| size * self.next()).collect()
    }
}

pub(crate) fn pictures(volume: Volume, count: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut numbers = Numbers::new(seed);
    (0..count).map(|_| (0..volume.len()).map(|_| (numbers.next() * 127.0 + 128.0) as u8).collect()).collect()
}

/// Adds layers to a graph with weights that look random.
pub(crate) struct Builder {
    pub(crate) graph: Graph,
    numbers: Numbers,
    count: usize,
}

impl Builder {
    pub(crate) fn new(input: Volume, seed: u64) -> Self {
        let graph = Graph::new(input, Normalisation::standard(input.channels, 0.45, 0.25)).unwrap();
        Self { graph, numbers: Numbers::new(seed), count: 0 }
    }

    pub(crate) fn add(&mut self, op: Op, inputs: &[usize]) -> usize {
        self.count += 1;
        self.graph.add(&format!("node{}", self.count), op, inputs).unwrap()
    }

    pub(crate) fn convolution(
        &mut self,
        x: usize,
        channels: usize,
        kernel: usize,
        stride: usize,
        padding: usize,
    ) -> usize {
        self.grouped(x, channels, kernel, stride, padding, 1)
    }

    pub(crate) fn grouped(
        &mut self,
        x: usize,
        channels: usize,
        kernel: usize,
        stride: usize,
        padding: usize,
        groups: usize,
    ) -> usize {
        let taps = self.graph.volume(x).channels / groups * kernel * kernel;
        let weights = self.numbers.take(channels * taps, (3.0 / taps as f64).sqrt());
        let bias = self.numbers.take(channels, 0.1);
        let op = Op::Convolution {
            channels,
            kernel: [kernel; 2],
            stride: [stride; 2],
            dilation: [1; 2],
            padding: [padding; 4],
            groups,
            weights,
            bias,
        };
        self.add(op, &[x])
    }

    pub(crate) fn dense(&mut self, x: usize, outputs: usize) -> usize {
        let inputs = self.graph.volume(x).len();
        let weights = self.numbers.take(outputs * inputs, (3.0 / inputs as f64).sqrt());
        let bias = self.numbers.take(outputs, 0.1);
        self.add(Op::Dense { outputs, weights, bias }, &[x])
    }

    pub(crate) fn square(&mut self, x: usize) -> usize {
        let coefficients = vec![vec![0.2], vec![0.5], vec![0.2]];
        self.add(Op::Polynomial { coefficients }, &[x])
    }

    pub(crate) fn activation(&mut self, x: usize, activation: Activation) -> usize {
        self.add(Op::Activation(activation), &[x])
    }

    pub(crate) fn maximum(&mut self, x: usize, size: usize, stride: usize) -> usize {
        let op = Op::MaximumPool { kernel: [size; 2], stride: [stride; 2], dilation: [1; 2], padding: [0; 4] };
        self.add(op, &[x])
    }

    pub(crate) fn average(&mut self, x: usize, size: usize) -> usize {
        let op = Op::AveragePool { kernel: [size; 2], stride: [size; 2], padding: [0; 4], count_padding: true };
        self.add(op, &[x])
    }
}

/// LeNet-5 (LeCun, Bottou, Bengio, Haffner, Proc. IEEE 1998) with squares.
pub(crate) fn lenet(seed: u64) -> Graph {
    let mut net = Builder::new(Volume { channels: 1, height: 28, width: 28 }, seed);
    let x = net.convolution(0, 6, 5, 1, 0);
    let x = net.square(x);
    let x = net.average(x, 2);
    let x = net.convolution(x, 16, 5, 1, 0);
    let x = net.square(x);
    let x = net.average(x, 2);
    let x = net.dense(x, 120);
    let x = net.square(x);
    let x = net.dense(x, 84);
    let x = net.square(x);
    net.dense(x, 10);
    net.graph
}

/// A residual network of `blocks` blocks for pictures of 3 channels.
pub(crate) fn residual(side: usize, channels: usize, blocks: usize, seed: u64) -> Graph {
    let mut net = Builder::new(Volume { channels: 3, height: side, width: side }, seed);
    let x = net.convolution(0, channels, 3, 1, 1);
    let mut x = net.square(x);
    for block in 0..blocks {
        let (wide, stride) = if block == 1 { (2, 2) } else { (1, 1) };
        let width = net.graph.volume(x).channels * wide;
        let a = net.convolution(x, width, 3, stride, 1);
        let a = net.square(a);
        let a = net.convolution(a, width, 3, 1, 1);
        let skip = if stride == 1 { x } else { net.convolution(x, width, 1, stride, 0) };
        let sum = net.add(Op::Sum { factors: vec![1.0, 1.0] }, &[a, skip]);
        x = net.square(sum);
    }
    let size = net.graph.volume(x).height;
    let x = net.average(x, size);
    net.dense(x, 10);
    net.graph
}

/// A network with an activation that is no polynomial, a maximum and two branches.
pub(crate) fn branches(activation: Activation, seed: u64) -> Graph {
    let mut net = Builder::new(Volume { channels: 1, height: 8, width: 8 }, seed);
    let x = net.convolution(0, 4, 3, 1, 1);
    let x = net.activation(x, activation);
    let x = net.maximum(x, 2, 2);
    let a = net.convolution(x, 2, 1, 1, 0);
    let b = net.convolution(x, 4, 3, 1, 1);
    let x = net.add(Op::Concatenate, &[a, b]);
    let x = net.activation(x, activation);
    net.dense(x, 5);
    net.graph
}
