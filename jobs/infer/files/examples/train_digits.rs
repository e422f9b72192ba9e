//! Trains the paper's network (table 4) on handwritten digits and folds it. Writes the model, and
//! the network as ONNX beside it.
//!
//! ```sh
//! cargo run --release -p tobari-infer-files --example train_digits -- MNIST-FOLDER OUT.tim [EPOCHS]
//! ```
//!
//! The folder holds the four files of MNIST, compressed or not. Two threads each take half of every
//! batch. The seed is fixed below, so every run on one machine gives the same weights.

#![allow(clippy::print_stdout, reason = "an example tells what it does")]

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use std::error::Error;
use std::path::Path;
use tobari_infer::fold::{FoldOptions, Reach, fold};
use tobari_infer::train::{Augmentation, BATCH, Block, Gradient, Recipe, Trainer};
use tobari_infer::{Model, Network, Volume};
use tobari_infer_files::images::{IdxImages, read_idx_images, read_idx_labels};
use tobari_infer_files::onnx::encode_onnx;

const SEED: u8 = 8;
const EPOCHS: usize = 45;
const SIDE: usize = 28;
const INPUT: Volume = Volume { channels: 1, height: SIDE, width: SIDE };
const BLOCKS: [Block; 2] = [Block { channels: 5, kernel: 5, stride: 2 }, Block { channels: 50, kernel: 5, stride: 2 }];
/// Mean and standard deviation of MNIST's pixels over 255.
const PIXELS: (f32, f32) = (0.1307, 0.3081);
const AUGMENTATION: Augmentation = Augmentation { shift: 1.7, turn: 0.17, scale: 0.11, shear: 0.12 };

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, out, rest @ ..] = &arguments[..] else {
        println!("NOT RUN: expected a folder with the files of MNIST and a file for the model");
        return Ok(());
    };
    let epochs = rest.first().map_or(Ok(EPOCHS), |epochs| epochs.parse())?;
    let [train, test] = ["train", "t10k"].map(|part| read(Path::new(folder), part));
    let (train, test) = (train?, test?);
    let network = trained(&train, epochs)?;
    let calibration: Vec<Vec<u8>> = calibration(&train);
    let images: Vec<&[u8]> = calibration.iter().map(Vec::as_slice).collect();
    let model = fold(&network, &FoldOptions::new(Reach::Seen { images: &images, headroom: 1.5 }))?;
    report("test", &network, &model, &test)?;
    std::fs::write(out, model.encode())?;
    println!("{out}: {} bytes", model.encode().len());
    let onnx = Path::new(out).with_extension("onnx");
    std::fs::write(&onnx, encode_onnx(&network))?;
    println!("{}: the network as trained", onnx.display());
    Ok(())
}

type Data = (IdxImages, Vec<u8>);

fn read(folder: &Path, part: &str) -> Result<Data, Box<dyn Error>> {
    let find = |stem: &str| {
        let plain = folder.join(format!("{part}-{stem}"));
        if plain.exists() { plain } else { folder.join(format!("{part}-{stem}.gz")) }
    };
    let images = read_idx_images(&find("images-idx3-ubyte"))?;
    let labels = read_idx_labels(&find("labels-idx1-ubyte"))?;
    if images.len() != labels.len() || (images.height, images.width) != (SIDE, SIDE) {
        return Err("expected as many labels as images of 28 x 28".into());
    }
    Ok((images, labels))
}

/// Images for one gradient, drawn and augmented.
fn batch(data: &Data, order: &[usize], seed: u64) -> (Vec<f32>, Vec<u8>) {
    let mut rng = rng(seed);
    let mut pixels = vec![0.0; order.len() * INPUT.len()];
    for (out, at) in pixels.chunks_exact_mut(INPUT.len()).zip(order) {
        AUGMENTATION.apply(&data.0.pixels[at * INPUT.len()..][..INPUT.len()], SIDE, out, &mut rng);
    }
    (pixels, order.iter().map(|at| data.1[*at]).collect())
}

fn rng(stream: u64) -> ChaCha20Rng {
    let mut seed = [SEED; 32];
    seed[..8].copy_from_slice(&stream.to_le_bytes());
    ChaCha20Rng::from_seed(seed)
}

fn trained(data: &Data, epochs: usize) -> Result<Network, Box<dyn Error>> {
    let steps = data.0.len() / (2 * BATCH);
    let recipe =
        Recipe { rate: 4e-3, warmup: steps, steps: epochs * steps, decay: 1e-3, smoothing: 0.02, boundary: 0.02 };
    let mut trainer = Trainer::new(INPUT, &BLOCKS, 10, PIXELS, recipe, &mut rng(u64::MAX))?;
    println!("{} parameters, {steps} steps an epoch", trainer.parameters());
    let mut last: Vec<Gradient> = Vec::new();
    // one more epoch, for the statistics alone
    for epoch in 0..=epochs {
        let order = shuffled(data.0.len(), &mut rng((epoch as u64) << 32 | 0xffff_ffff));
        let (mut loss, mut correct) = (0.0, 0);
        last.clear();
        for step in 0..steps {
            let gradients = std::thread::scope(|scope| {
                let part = |half: usize| {
                    let at = 2 * step + half;
                    let (pixels, labels) = batch(data, &order[at * BATCH..][..BATCH], (epoch as u64) << 32 | at as u64);
                    trainer.gradient(&pixels, &labels)
                };
                let other = scope.spawn(move || part(1));
                let first = part(0)?;
                let second = other.join().map_err(|_| "a thread ended early")??;
                Ok::<_, Box<dyn Error>>([first, second])
            })?;
            loss += gradients.iter().map(|gradient| gradient.loss).sum::<f32>() / (2 * steps) as f32;
            correct += gradients.iter().map(|gradient| gradient.correct).sum::<usize>();
            if epoch < epochs {
                trainer.step(&gradients);
            } else {
                last.extend(gradients);
            }
        }
        println!("epoch {}: loss {loss:.4}, {:.3} %", epoch + 1, 100.0 * correct as f32 / (2 * BATCH * steps) as f32);
    }
    Ok(trainer.network(&last)?)
}

fn shuffled(count: usize, rng: &mut ChaCha20Rng) -> Vec<usize> {
    use chacha20::rand_core::Rng;
    let mut order: Vec<usize> = (0..count).collect();
    for at in (1..count).rev() {
        order.swap(at, (rng.next_u64() % (at as u64 + 1)) as usize);
    }
    order
}

/// Images for the ranges: 4,000 unchanged and 4,000 augmented.
fn calibration(data: &Data) -> Vec<Vec<u8>> {
    let order: Vec<usize> = (0..4000).map(|at| at * (data.0.len() / 4000)).collect();
    let (changed, _) = batch(data, &order, u64::MAX - 1);
    let changed = changed.chunks_exact(INPUT.len()).map(|image| image.iter().map(|pixel| *pixel as u8).collect());
    order.iter().map(|at| data.0.pixels[at * INPUT.len()..][..INPUT.len()].to_vec()).chain(changed).collect()
}

fn report(what: &str, network: &Network, model: &Model, data: &Data) -> Result<(), Box<dyn Error>> {
    let best = |logits: &[f64]| (0..logits.len()).fold(0, |best, at| if logits[at] > logits[best] { at } else { best });
    let fixed = model.fixed()?;
    let (mut right, mut worst, mut confusion) = ([0; 3], 0f64, [[0; 10]; 10]);
    for (image, label) in data.0.iter().zip(&data.1) {
        let (plain, folded) = (network.forward(image)?, model.forward(image)?);
        let fixed = fixed.classify(image)?;
        for (right, found) in right.iter_mut().zip([best(&plain), best(&folded), fixed]) {
            *right += usize::from(found == usize::from(*label));
        }
        worst = plain.iter().zip(&folded).map(|(a, b)| (a - b).abs()).fold(worst, f64::max);
        confusion[usize::from(*label)][fixed] += 1;
    }
    let share = right.map(|right| format!("{right} ({:.2} %)", 100.0 * right as f64 / data.1.len() as f64));
    println!("{what}, {} images: {} as trained, {} folded, {} in integers", data.1.len(), share[0], share[1], share[2]);
    println!("largest difference of a logit, as trained and folded: {worst:.5}");
    println!("labels down, answers across:");
    for row in confusion {
        println!("{}", row.map(|count| format!("{count:6}")).concat());
    }
    Ok(())
}
