//! Networks, their folded form, its integers and its bytes.

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use rand_core::Rng;
use tobari_infer::fold::{FoldError, FoldOptions, Reach, fold};
use tobari_infer::model::{MAX_NUMBERS, MAX_SPREAD, MAX_STAGES};
use tobari_infer::{
    LayerKind, Map, Model, ModelBytesError, ModelError, Network, Normalisation, Stage, Volume, argmax, fuzz_model,
};

struct Random(ChaCha20Rng);

impl Random {
    fn new(seed: u8) -> Self {
        Self(ChaCha20Rng::from_seed([seed; 32]))
    }

    /// Numbers from -width to width.
    fn many(&mut self, count: usize, width: f64) -> Vec<f64> {
        (0..count).map(|_| width * (f64::from(self.0.next_u32()) / 2f64.powi(31) - 1.0)).collect()
    }

    /// Numbers away from zero.
    fn far(&mut self, count: usize) -> Vec<f64> {
        self.many(count, 0.2).into_iter().map(|x| x + 0.3 * x.signum()).collect()
    }

    fn images(&mut self, volume: Volume, count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|_| (0..volume.len()).map(|_| (self.0.next_u32() >> 24) as u8).collect()).collect()
    }

    fn convolution(&mut self, inputs: usize, outputs: usize, size: [usize; 3], padding: [usize; 4]) -> LayerKind {
        let [height, width, stride] = size;
        let taps = inputs * height * width;
        LayerKind::Convolution {
            channels: outputs,
            kernel: [height, width],
            stride: [stride, stride],
            padding,
            weights: self.many(outputs * taps, 1.5 / (taps as f64).sqrt()),
            bias: self.many(outputs, 0.3),
        }
    }

    fn dense(&mut self, inputs: usize, outputs: usize) -> LayerKind {
        let weights = self.many(inputs * outputs, 1.5 / (inputs as f64).sqrt());
        LayerKind::Dense { outputs, weights, bias: self.many(outputs, 0.3) }
    }

    fn affine(&mut self, count: usize) -> LayerKind {
        LayerKind::Affine { scale: self.far(count), shift: self.many(count, 0.5) }
    }

    fn quadratic(&mut self, count: usize) -> LayerKind {
        let (square, linear) = (self.far(count), self.many(count, 0.6));
        LayerKind::Quadratic { square, linear, constant: self.many(count, 0.4) }
    }
}

fn pool(kernel: usize, stride: usize, padding: [usize; 4], count_padding: bool) -> LayerKind {
    LayerKind::AveragePool { kernel: [kernel; 2], stride: [stride; 2], padding, count_padding }
}

fn volume(channels: usize, height: usize, width: usize) -> Volume {
    Volume { channels, height, width }
}

fn network(input: Volume, kinds: Vec<LayerKind>) -> Network {
    let normalisation = Normalisation {
        scale: (0..input.channels).map(|channel| 0.01 + 0.002 * channel as f64).collect(),
        offset: (0..input.channels).map(|channel| -0.4 + 0.1 * channel as f64).collect(),
    };
    let named = |(at, kind): (usize, LayerKind)| (format!("layer{at}"), kind);
    Network::new(input, normalisation, kinds.into_iter().enumerate().map(named).collect()).unwrap()
}

/// Networks of all shapes that folding treats differently, with the form of each of their stages.
#[expect(clippy::too_many_lines, reason = "a list")]
fn zoo() -> Vec<(&'static str, Network, &'static str)> {
    let mut r = Random::new(1);
    let (grey, colour) = (volume(1, 12, 12), volume(3, 9, 7));
    let flat = |count| LayerKind::Reshape { output: Volume::vector(count) };
    let layers = |all: Vec<LayerKind>| all;
    vec![
        (
            "the paper's shape",
            network(
                grey,
                vec![
                    r.convolution(1, 2, [5, 5, 2], [0; 4]),
                    r.affine(2),
                    r.quadratic(2),
                    r.convolution(2, 4, [3, 3, 1], [0; 4]),
                    r.affine(4),
                    r.quadratic(1),
                    flat(16),
                    r.dense(16, 5),
                ],
            ),
            "ccd",
        ),
        (
            "padding and colours",
            network(
                colour,
                vec![
                    r.convolution(3, 2, [3, 3, 2], [1, 1, 1, 1]),
                    r.affine(2),
                    r.quadratic(2),
                    r.convolution(2, 3, [3, 2, 1], [2, 1, 0, 1]),
                    r.quadratic(3),
                    flat(75),
                    r.dense(75, 4),
                ],
            ),
            "ccd",
        ),
        ("logistic regression", network(grey, vec![flat(144), r.dense(144, 3)]), "d"),
        ("a plain network", network(Volume::vector(20), vec![r.dense(20, 9), r.quadratic(1), r.dense(9, 3)]), "dd"),
        (
            "means after a convolution stay one",
            network(
                grey,
                vec![
                    r.convolution(1, 3, [3, 3, 1], [1, 0, 1, 0]),
                    r.affine(3),
                    pool(2, 2, [0; 4], false),
                    r.quadratic(3),
                    r.dense(3 * 6 * 5, 2),
                ],
            ),
            "cd",
        ),
        (
            "means and convolutions before a convolution",
            network(
                grey,
                vec![
                    pool(2, 2, [0; 4], true),
                    r.convolution(1, 2, [2, 3, 1], [0; 4]),
                    r.convolution(2, 2, [2, 2, 2], [0; 4]),
                    r.quadratic(2),
                    r.dense(2 * 2 * 2, 2),
                ],
            ),
            "cd",
        ),
        (
            "a convolution with padding after one",
            network(
                grey,
                vec![
                    r.convolution(1, 2, [3, 3, 2], [0; 4]),
                    r.convolution(2, 2, [3, 3, 2], [1; 4]),
                    r.quadratic(2),
                    r.dense(18, 2),
                ],
            ),
            "dd",
        ),
        (
            "means that count no padding",
            network(grey, vec![pool(3, 2, [1, 1, 1, 1], false), r.quadratic(1), r.dense(36, 2)]),
            "dd",
        ),
        (
            "an activation first and one last",
            network(colour, vec![r.quadratic(3), r.convolution(3, 2, [3, 3, 3], [0; 4]), r.quadratic(2)]),
            "ccc",
        ),
        (
            "coefficients of each number",
            network(
                volume(1, 6, 6),
                vec![
                    r.convolution(1, 2, [3, 3, 1], [0; 4]),
                    flat(32),
                    r.quadratic(32),
                    r.affine(32),
                    r.dense(32, 2),
                    r.dense(2, 3),
                ],
            ),
            "cd",
        ),
        (
            "a scale of each number makes a matrix",
            network(
                volume(1, 6, 6),
                vec![
                    r.convolution(1, 2, [3, 3, 1], [0; 4]),
                    r.affine(32),
                    r.quadratic(32),
                    LayerKind::Reshape { output: volume(2, 4, 4) },
                    r.convolution(2, 2, [4, 4, 1], [0; 4]),
                ],
            ),
            "dd",
        ),
        (
            "an activation without a square is a scale",
            network(
                Volume::vector(6),
                layers(vec![
                    r.dense(6, 4),
                    LayerKind::Quadratic { square: vec![0.0], linear: vec![2.0], constant: vec![-1.0] },
                    r.dense(4, 2),
                ]),
            ),
            "d",
        ),
        (
            "a vector as an image",
            network(
                Volume::vector(36),
                vec![
                    LayerKind::Reshape { output: volume(1, 6, 6) },
                    r.convolution(1, 2, [3, 3, 3], [0; 4]),
                    r.quadratic(1),
                    r.dense(8, 2),
                ],
            ),
            "cd",
        ),
    ]
}

fn close(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn a_folded_network_computes_the_same() {
    for (what, network, stages) in zoo() {
        let images = Random::new(2).images(network.input(), 40);
        let all: Vec<&[u8]> = images.iter().map(Vec::as_slice).collect();
        for reach in [Reach::Seen { images: &all[..20], headroom: 1.5 }, Reach::Every] {
            let options = FoldOptions { integer_bits: 30, bias_bits: 40, reach };
            let model = fold(&network, &options).unwrap();
            let kinds = model.stages().iter().map(|stage| if let Map::Dense { .. } = stage.map { 'd' } else { 'c' });
            assert_eq!(kinds.collect::<String>(), stages, "{what}");
            for image in &all {
                let (network, model) = (network.forward(image).unwrap(), model.forward(image).unwrap());
                let size = network.iter().fold(1f64, |most, x| most.max(x.abs()));
                assert!(close(&network, &model) < 1e-5 * size, "{what}: {network:?} {model:?}");
            }
        }
    }
}

#[test]
fn numbers_before_a_square_stay_below_one() {
    for (what, network, _) in zoo() {
        let mut images = Random::new(3).images(network.input(), 30);
        images.extend([vec![0; network.input().len()], vec![255; network.input().len()]]);
        // an image that makes the first sums extreme: each pixel is 0 or 255
        images.extend(
            Random::new(4)
                .images(network.input(), 30)
                .into_iter()
                .map(|image| image.into_iter().map(|pixel| if pixel < 128 { 0 } else { 255 }).collect::<Vec<u8>>()),
        );
        let all: Vec<&[u8]> = images.iter().map(Vec::as_slice).collect();
        for reach in [Reach::Seen { images: &all, headroom: 1.0 }, Reach::Every] {
            let model = fold(&network, &FoldOptions::new(reach)).unwrap();
            for range in model.ranges(&all).unwrap() {
                assert!(range.seen <= 1.001 && range.seen <= range.bound, "{what}: {range:?}");
                if let Reach::Every = reach {
                    assert!(range.bound <= 1.001, "{what}: {range:?}");
                }
            }
        }
    }
}

#[test]
fn weights_fit_sixteen_bits_and_use_them() {
    for (what, network, _) in zoo() {
        let model = fold(&network, &FoldOptions::new(Reach::Every)).unwrap();
        for stage in model.stages() {
            let integer = |w: &f64| (w * 2f64.powi(stage.weight_bits as i32)).abs();
            let most = stage.map.weights().iter().map(integer).fold(0.0, f64::max);
            assert!((16_383.0..=32_767.0).contains(&most), "{what}: {most}");
            assert_eq!(most.fract(), 0.0);
        }
    }
}

/// The sums of the fixed-point model from its definition, over the rows of the maps and in 128
/// bits.
fn schoolbook(model: &Model, pixels: &[u8]) -> Vec<i64> {
    let mut v: Vec<i128> = pixels.iter().map(|pixel| i128::from(*pixel) * 65_536).collect();
    for (at, stage) in model.stages().iter().enumerate() {
        let (weight_bits, bias_bits) = (stage.weight_bits as i32, stage.bias_bits as i32);
        let u = (0..stage.output.len()).map(|row| {
            let bias =
                (stage.bias[row] * 2f64.powi(bias_bits)) as i128 * 2i128.pow((24 + weight_bits - bias_bits) as u32);
            let weight = |w: f64| (w * 2f64.powi(weight_bits)) as i128;
            let sum: i128 = bias + stage.row(row).into_iter().map(|(at, w)| weight(w) * v[at]).sum::<i128>();
            let divisor = 2i128.pow(weight_bits as u32);
            (2 * sum + divisor).div_euclid(2 * divisor)
        });
        let square = |u: i128| (u.clamp(-(1 << 28), 1 << 28).pow(2) + (1 << 23)) >> 24;
        v = if at + 1 < model.stages().len() { u.map(square).collect() } else { u.collect() };
    }
    v.into_iter().map(|u| i64::try_from(u).unwrap()).collect()
}

#[test]
fn integers_are_the_definitions_and_near_the_doubles() {
    for (what, network, _) in zoo() {
        let images = Random::new(5).images(network.input(), 10);
        let all: Vec<&[u8]> = images.iter().map(Vec::as_slice).collect();
        let model = fold(&network, &FoldOptions::new(Reach::Seen { images: &all, headroom: 1.2 })).unwrap();
        let fixed = model.fixed().unwrap();
        for image in all {
            let logits = fixed.logits(image).unwrap();
            assert_eq!(logits, schoolbook(&model, image), "{what}");
            let scale = 2f64.powi(model.logit_bits() - 24);
            let near: Vec<f64> = logits.iter().map(|logit| *logit as f64 * scale).collect();
            let exact = model.forward(image).unwrap();
            assert!(close(&near, &exact) < 2f64.powi(model.logit_bits()) * 1e-4, "{what}");
            assert_eq!(fixed.classify(image).unwrap(), argmax(&logits));
        }
        assert!(fixed.logits(&[]).is_err() && model.forward(&[0; 3]).is_err());
    }
}

#[test]
fn the_sixteen_bit_model_is_near_the_network() {
    for (what, network, _) in zoo() {
        let images = Random::new(6).images(network.input(), 20);
        let all: Vec<&[u8]> = images.iter().map(Vec::as_slice).collect();
        let model = fold(&network, &FoldOptions::new(Reach::Seen { images: &all, headroom: 1.2 })).unwrap();
        for image in all {
            let (network, model) = (network.forward(image).unwrap(), model.forward(image).unwrap());
            let size = network.iter().fold(1f64, |most, x| most.max(x.abs()));
            assert!(close(&network, &model) < 0.01 * size, "{what}: {network:?} {model:?}");
        }
    }
}

#[test]
fn numbers_beyond_sixteen_are_limited_before_the_square() {
    let one = Volume::vector(1);
    let stage = |w: f64, weight_bits| Stage {
        name: "s".to_owned(),
        input: one,
        output: one,
        map: Map::Dense { weights: vec![w] },
        bias: vec![0.0],
        weight_bits,
        bias_bits: 0,
    };
    let model = Model::new(vec![stage(100.0, 0), stage(1.0, 0)], 0).unwrap();
    assert_eq!(model.fixed().unwrap().logits(&[255]).unwrap(), [256 << 24]);
    assert_eq!(model.fixed().unwrap().logits(&[0]).unwrap(), [0]);
    // 2^30 times at most 2^32 is the first sum that is too large
    let large = Model::new(vec![stage(2f64.powi(30), 0)], 0).unwrap();
    assert!(large.fixed().is_err());
    assert!(Model::new(vec![stage(2f64.powi(30) - 1.0, 0)], 0).unwrap().fixed().is_ok());
    let fine = Stage { bias_bits: 25, bias: vec![2f64.powi(-25)], ..stage(1.0, 0) };
    assert!(Model::new(vec![fine], 0).unwrap().fixed().is_err());
}

#[test]
fn the_largest_number_is_found_and_the_first_of_several() {
    for (numbers, place) in [
        (vec![3], 0),
        (vec![-5, -3, -4], 1),
        (vec![1, 7, 7, 2], 1),
        (vec![0, 0], 0),
        (vec![-(1 << 62) + 1, -(1 << 62) + 2], 1),
        (vec![(1 << 62) - 2, (1 << 62) - 1], 1),
        (vec![-(1 << 62) + 1, (1 << 62) - 1], 1),
    ] {
        assert_eq!(argmax(&numbers), place, "{numbers:?}");
    }
    let mut random = Random::new(7);
    for _ in 0..1000 {
        let numbers: Vec<i64> = (0..10).map(|_| i64::from(random.0.next_u32() >> 28) - 8).collect();
        let best = *numbers.iter().max().unwrap();
        assert_eq!(argmax(&numbers), numbers.iter().position(|x| *x == best).unwrap());
    }
}

#[test]
fn networks_that_have_no_such_form_are_refused() {
    let vector = Volume::vector(2);
    let half = LayerKind::Quadratic { square: vec![1.0, 0.0], linear: vec![1.0], constant: vec![0.0] };
    let every = FoldOptions::new(Reach::Every);
    assert!(matches!(fold(&network(vector, vec![half]), &every), Err(FoldError::NoSquare { .. })));
    let mut r = Random::new(8);
    // as a matrix these would be 160,000 x 160,000
    let image = volume(1, 400, 400);
    let padded = vec![r.convolution(1, 1, [3, 3, 1], [1; 4]), r.convolution(1, 1, [3, 3, 1], [1; 4])];
    assert!(matches!(fold(&network(image, padded), &every), Err(FoldError::TooLarge { .. })));
    let steep = LayerKind::Affine { scale: vec![1e30], shift: vec![0.0] };
    assert!(matches!(fold(&network(vector, vec![steep]), &every), Err(FoldError::Range { .. })));
    let good = network(vector, vec![r.dense(2, 2)]);
    for reach in [Reach::Seen { images: &[], headroom: 1.0 }, Reach::Seen { images: &[&[1]], headroom: 1.0 }] {
        assert!(matches!(fold(&good, &FoldOptions::new(reach)), Err(FoldError::Images { .. })));
    }
    for headroom in [0.5, f64::NAN, f64::INFINITY] {
        let reach = Reach::Seen { images: &[&[1, 2]], headroom };
        assert_eq!(fold(&good, &FoldOptions::new(reach)).unwrap_err(), FoldError::Options);
    }
    for integer_bits in [3, 31] {
        assert_eq!(fold(&good, &FoldOptions { integer_bits, ..every }).unwrap_err(), FoldError::Options);
    }
}

fn models() -> Vec<Model> {
    let every = FoldOptions::new(Reach::Every);
    zoo().iter().map(|(_, network, _)| fold(network, &every).unwrap()).collect()
}

#[test]
fn a_model_has_one_byte_string() {
    for model in models() {
        let bytes = model.encode();
        assert_eq!(Model::decode(&bytes).unwrap(), model);
        fuzz_model(&bytes);
        assert_eq!(model.digest()[..], bytes[bytes.len() - 32..]);
    }
}

#[test]
fn changed_bytes_are_refused_or_another_model() {
    let model = &models()[9];
    let bytes = model.encode();
    for at in 0..bytes.len() {
        assert!(Model::decode(&bytes[..at]).is_err());
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        let refused = Model::decode(&changed).unwrap_err();
        assert!(matches!(refused, ModelBytesError::Checksum | ModelBytesError::Magic(_)));
        fuzz_model(&changed[..bytes.len() - 32]); // with a correct checksum
    }
    let more = [&bytes[..], &[0]].concat();
    assert_eq!(Model::decode(&more), Err(ModelBytesError::Checksum));
}

/// A file of one stage, field by field, with a correct checksum.
fn file(change: impl Fn(&mut Vec<Vec<u8>>)) -> Result<Model, ModelBytesError> {
    use sha2::Digest;
    let mut fields: Vec<Vec<u8>> = vec![
        b"TIM\x02".to_vec(),
        vec![1],
        vec![0; 12],
        vec![2],
        b"fc".to_vec(),
        [1u32, 1, 2].iter().flat_map(|x| x.to_be_bytes()).collect(),
        [1u32, 1, 2].iter().flat_map(|x| x.to_be_bytes()).collect(),
        vec![4, 8],
        vec![0],
        vec![1],
        vec![1, 2, 0xff, 4],
        vec![0],
        vec![1],
        vec![5, 6],
    ];
    change(&mut fields);
    let bytes = fields.concat();
    Model::decode(&[&bytes[..], &sha2::Sha256::digest(&bytes)[..]].concat())
}

#[test]
fn fields_that_a_model_cannot_have_are_refused() {
    let model = file(|_| ()).unwrap();
    let expected = Map::Dense { weights: vec![1.0 / 16.0, 2.0 / 16.0, -1.0 / 16.0, 4.0 / 16.0] };
    assert_eq!((&model.stages()[0].map, &model.stages()[0].bias[..]), (&expected, &[5.0 / 256.0, 6.0 / 256.0][..]));
    let big = |x: u32| x.to_be_bytes().to_vec();
    type Change<'a> = (&'a str, usize, Vec<u8>);
    let changes: Vec<Change> = vec![
        ("no stage", 1, vec![0]),
        ("more stages than there are", 1, vec![2]),
        ("too many stages", 1, vec![65]),
        ("the exponent of the logits", 2, big(65)),
        ("a control character", 4, b"f\n".to_vec()),
        ("no UTF-8", 4, vec![0xff, 0xfe]),
        ("bits of a weight", 7, vec![65, 8]),
        ("bits of an offset", 7, vec![4, 65]),
        ("the kind of a map", 8, vec![2]),
        ("integers of three bytes", 9, vec![3]),
        ("integers of none", 9, vec![0]),
        ("wider integers than are needed", 9, vec![2]),
        ("one offset a channel", 11, vec![1]),
        ("neither one a channel nor all", 11, vec![2]),
        ("equal offsets", 13, vec![5, 5]),
        ("an offset too many", 13, vec![5, 6, 7]),
        ("no input", 5, [big(1), big(0), big(2)].concat()),
        ("an input of 2^96", 5, [big(u32::MAX), big(u32::MAX), big(u32::MAX)].concat()),
        ("an output of 2^20", 6, [big(1), big(1), big(MAX_NUMBERS as u32)].concat()),
    ];
    for (what, at, value) in changes {
        assert!(file(|fields| fields[at] = value.clone()).is_err(), "{what}");
    }
    // wider integers: the same numbers in two bytes each
    let wide = |fields: &mut Vec<Vec<u8>>| {
        fields[9] = vec![2];
        fields[10] = vec![0, 1, 0, 2, 0xff, 0xff, 0, 4];
    };
    assert_eq!(
        file(wide).unwrap_err().to_string(),
        "malformed model: expected the fewest bytes that hold all integers, found more"
    );
    // a kernel that claims 2^64 weights
    let kernel = |fields: &mut Vec<Vec<u8>>| {
        fields[8] = [vec![1], [u32::MAX; 6].iter().flat_map(|x| x.to_be_bytes()).collect()].concat();
    };
    assert!(matches!(file(kernel), Err(ModelBytesError::Malformed(_))));
}

/// A file of this many stages that multiply 2^20 numbers by one, and add one offset to all.
fn wide(stages: u8) -> Vec<u8> {
    use sha2::Digest;
    let numbers = |all: &[u32]| all.iter().flat_map(|x| x.to_be_bytes()).collect::<Vec<u8>>();
    let stage = [
        b"\x01c".to_vec(),
        numbers(&[1, 1024, 1024, 1, 1024, 1024]),
        vec![0, 0, 1],
        numbers(&[1, 1, 1, 1, 0, 0]),
        vec![1, 1],
        vec![1, 1, 1],
    ]
    .concat();
    let bytes = [b"TIM\x02".to_vec(), vec![stages], vec![0; 12], stage.repeat(stages.into())].concat();
    [&bytes[..], &sha2::Sha256::digest(&bytes)[..]].concat()
}

#[test]
fn fault_32_a_short_file_is_no_large_model() {
    // half a gigabyte of offsets
    let file = wide(64);
    assert!(file.len() < 4096, "{}", file.len());
    let refused = Model::decode(&file).unwrap_err();
    let (most, found) = (MAX_SPREAD + 64 * 2 / 4, 64 * (MAX_NUMBERS - 1));
    assert_eq!(refused, ModelBytesError::Model(ModelError::Spread { most, found }));
    assert!(Model::decode(&wide(4)).is_ok() && Model::decode(&wide(5)).is_err());
    // the largest possible stage is a valid model by itself
    let one = Model::decode(&wide(1)).unwrap();
    assert_eq!(one.stages()[0].bias.len(), MAX_NUMBERS);
    assert_eq!(one.encode(), wide(1));
    // a model that no reader accepts cannot be made either
    let refused = Model::new([one.stages(); 5].concat(), 0).unwrap_err();
    assert_eq!(refused, ModelError::Spread { most: MAX_SPREAD + 5 * 2 / 4, found: 5 * (MAX_NUMBERS - 1) });
}

#[test]
fn fault_32_deep_networks_of_large_pictures_are_models() {
    let input = volume(64, 32, 32);
    let mut random = Random::new(9);
    let mut integers = |count| random.many(count, 100.0).into_iter().map(f64::round).collect::<Vec<f64>>();
    let weights = integers(64 * 64 * 9);
    let bias: Vec<f64> = integers(64).into_iter().flat_map(|offset| vec![offset; 32 * 32]).collect();
    let map = Map::Convolution { kernel: [3, 3], stride: [1, 1], padding: [1, 1], weights };
    let stage = Stage { name: "c".to_owned(), input, output: input, map, bias, weight_bits: 0, bias_bits: 0 };
    let model = Model::new(vec![stage; 40], 0).unwrap();
    let bytes = model.encode();
    let offsets = 8 * 40 * input.len();
    assert!(offsets > 10 * bytes.len(), "{offsets} bytes of offsets of {}", bytes.len());
    assert!(Model::decode(&bytes).unwrap() == model);
}

#[test]
fn a_model_that_no_file_holds_is_none() {
    let stage = models()[2].stages()[0].clone();
    let square = Stage { input: stage.output, map: Map::Dense { weights: vec![1.0; 9] }, ..stage.clone() };
    assert!(Model::new(vec![square.clone(); MAX_STAGES], 0).is_ok());
    assert!(Model::new(vec![square.clone(); MAX_STAGES + 1], 0).is_err());
    assert!(Model::new(vec![square.clone()], 65).is_err());
    for name in ["a\tb".to_owned(), "x".repeat(65)] {
        assert!(Model::new(vec![Stage { name, ..square.clone() }], 0).is_err());
    }
}
